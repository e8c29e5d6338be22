"""Guards on two benchmarks with two objectives: what is gained, and what is lost, with and without.

    python measurements/two_objectives.py --logs 100 --only wet-chicken
    python measurements/two_objectives.py --logs 30 --only icu-sepsis

Wet Chicken: the reward is how far the boat gets, the guard how often it falls. ICU-Sepsis: the
reward is survival, the guard the intensity of treatment, 0 (no drug) to 1 (the highest dose of
both) a step. Changes are true ones, in the unit of the discounted sum from the start on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot import read_log
from surefoot.advice import learn_and_test
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.core import known_model
from surefoot.planning import evaluate_at_start
from surefoot.problems.guards import guards_of, with_guards
from surefoot.research.benchmarks.icu_sepsis import ICUSepsis
from surefoot.research.benchmarks.wet_chicken import WetChicken


@dataclass(frozen=True)
class Objectives:
    """A known MDP with two rewards: p [S, A, S'], the guarded column [S, A, S'] and the reward."""

    name: str
    p: np.ndarray
    reward: np.ndarray
    column: np.ndarray
    pi_b: np.ndarray
    start: np.ndarray
    terminal: np.ndarray
    gamma: float
    episodes: int
    steps: int
    guards: tuple[str, ...]

    def table(self, rng: np.random.Generator) -> dict[str, Any]:
        """One log of the baseline."""
        state = rng.choice(len(self.start), self.episodes, p=self.start)
        alive, rows = np.arange(self.episodes), []
        acts, follows = self.pi_b.cumsum(axis=1), self.p.cumsum(axis=2)
        for t in range(self.steps):
            u, v = rng.random((2, len(alive), 1))
            a = np.minimum((u > acts[state]).sum(axis=1), acts.shape[1] - 1)
            s2 = np.minimum((v > follows[state, a]).sum(axis=1), len(self.start) - 1)
            done = self.terminal[s2]
            g = self.column[state, a, s2]
            if self.name == "wet-chicken":  # a fall is one of the ways to come to state 0
                g = (rng.random(len(g)) < g) * 1.0
            r = self.reward[state, a, s2]
            rows.append((alive, np.full(len(alive), t), state, a, s2, r, g, done))
            alive, state = alive[~done], s2[~done]
        names = ("episode", "t", "state", "action", "next_state", "reward", "column", "terminal")
        return {
            name: np.concatenate(x) for name, x in zip(names, zip(*rows, strict=True), strict=True)
        }

    def change(self, pi: np.ndarray, x: np.ndarray) -> float:
        """The true change of the discounted sum of x."""
        p = np.where(self.terminal[:, None, None], 0.0, self.p)
        model = known_model(p, (p * x).sum(axis=2), self.gamma)
        new, old = (float(evaluate_at_start(model, y, self.start)) for y in (pi, self.pi_b))
        return new - old


def wet_chicken() -> Objectives:
    """25 states; falls are 1 with their probability given that the boat is back at the start."""
    river = WetChicken()
    p, falls = river.p, np.zeros_like(river.p)
    without = WetChicken(length=40).p  # the same river, so long that nobody falls in one step
    for s in range(river.n_states):
        x, y = divmod(s, river.width)
        over = without[x * river.width + y][:, river.length * river.width :].sum(axis=1)
        falls[s, :, 0] = np.minimum(over / np.where(p[s, :, 0] > 0, p[s, :, 0], 1.0), 1.0)
    return Objectives(
        "wet-chicken", p, river.reward_table[:, None, :] + np.zeros_like(p), falls, river.pi_b,
        np.eye(river.n_states)[0], np.zeros(river.n_states, dtype=bool), river.gamma, 200, 50,
        ("column:lower:0:0,1", "column:lower:0.2:0,1"),
    )  # fmt: skip


def icu_sepsis() -> Objectives:
    """715 states; doses 0 to 24 are 5 levels of fluid times 5 of vasopressor."""
    icu = ICUSepsis()
    world = icu.worlds(np.zeros(1, dtype=np.int64))
    p, pi_b, start = (
        np.asarray(x).reshape(x.shape[-n:])
        for x, n in ((world.p, 3), (world.pi_b, 2), (world.start, 1))
    )
    doses = np.maximum(icu.labels, 0)
    intensity = (doses // 5 + doses % 5) / 8.0
    reward = np.zeros_like(p)
    reward[:, :, 714] = 1.0
    terminal = np.zeros(len(start), dtype=bool)
    terminal[[713, 714]] = True
    return Objectives(
        "icu-sepsis", p, reward, intensity[:, :, None] + np.zeros_like(p), pi_b, start, terminal,
        icu.gamma, 5000, icu.max_steps, ("column:lower:0:0,1", "column:lower:0.1:0,1"),
    )  # fmt: skip


def lines(world: Objectives, logs: int) -> Iterator[str]:
    """With each guard, and without."""
    yield (
        f"{world.name}: {logs} logs of {world.episodes} episodes; baseline"
        f" {_value(world, world.reward):.3f}, guarded column {_value(world, world.column):.3f}"
    )
    for guard in (*world.guards, ""):
        begun, found = time.perf_counter(), []
        for seed in range(logs):
            log = read_log(
                world.table(np.random.default_rng([9, seed])), guard="column" if guard else None,
                actions=range(world.pi_b.shape[1]),
            )  # fmt: skip
            at = np.asarray(log.states, dtype=int)
            pi_b = np.where(world.terminal[at, None], 1.0 / world.pi_b.shape[1], world.pi_b[at])
            problem = log.problem(world.gamma, pi_b, reward_range=_range(world))
            problem = with_guards(problem, [guard] if guard else [])
            algorithm = chosen_algorithm(problem, "priced-soft-spibb")
            advice = learn_and_test(log, problem, algorithm, against=[], seed=seed)
            pi = world.pi_b.copy()
            pi[at] = np.where(world.terminal[at, None], pi[at], advice.candidate)
            tolerance = guards_of([guard])[0].tolerance if guard else 0.0
            gain, lost = world.change(pi, world.reward), world.change(pi, world.column)
            wrong = advice.supported and (gain <= 0 or lost > tolerance)
            found.append((advice.supported, wrong, gain, lost, lost > tolerance))
        x = np.array(found, dtype=float)
        yes = x[:, 0] > 0
        used = f"{x[yes, 2].mean():+.3f}, column {x[yes, 3].mean():+.3f}" if yes.any() else "-"
        yield (
            f"  {guard or 'no guard':22} supported {int(yes.sum())}, wrong {int(x[:, 1].sum())};"
            f" of the supported: gain {used}; of all candidates: gain {x[:, 2].mean():+.3f},"
            f" column {x[:, 3].mean():+.3f}, worse in {x[:, 4].mean():.0%}"
            f" ({time.perf_counter() - begun:.0f} s)"
        )


def _range(world: Objectives) -> tuple[float, float]:
    return float(world.reward.min()), float(world.reward.max())


def _value(world: Objectives, x: np.ndarray) -> float:
    p = np.where(world.terminal[:, None, None], 0.0, world.p)
    model = known_model(p, (p * x).sum(axis=2), world.gamma)
    return float(evaluate_at_start(model, world.pi_b, world.start))


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--only", default="wet-chicken,icu-sepsis")
    given = parser.parse_args()
    for make in (wet_chicken, icu_sepsis):
        if make.__name__.replace("_", "-") in given.only.split(","):
            for line in lines(make(), given.logs):
                print(line, flush=True)


if __name__ == "__main__":
    main()
