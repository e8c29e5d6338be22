"""What --most-changes and the line about a hidden cause promise, on logs whose truth is known.

    python measurements/confounding.py [--logs 500] [--only few|hidden|honest]

few      one-step logs of 12 states in which nothing helps, in which half of the changes hurt, and
         in which some help: how often the test behind SUPPORTED is wrong with at most K changes and
         without a limit, and what is gained.
hidden   a severity that the state does not show drives both action and outcome; it changes the odds
         of an action by exactly Gamma. How often the test says SUPPORTED though nothing is gained;
         how often the bound at the true Gamma exceeds the true gain, without and with sampling
         error; and how often the printed strength lies below the true Gamma: the line then warns.
honest   the same logs without a severity: the strengths that are printed for real gains.

The true gain is that over the people who made the log, who see the severity: in states that change
the policy's draws decide, elsewhere they do. Each log goes through `held_out_gain`, the test behind
the verdict, without the findings of `check`. One process; the seeds are fixed.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import surefoot
from promises import rate
from surefoot.advice import held_out_gain
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.evidence import model_of_units, units_of_batch
from surefoot.evidence.confounding import WorstCase, sensitivity

ZERO = 1e-12
CHANGED = 1e-9


@dataclass(frozen=True)
class Severity:
    """States with two actions and a severity u in {0, 1} that the log does not hold.

    Odds of action 1 are those of b, times Gamma if u = 1 and over Gamma if u = 0; P(u = 1) is what
    makes b their mean. The outcome is effect[s] a + harm u + noise; where `steps` > 1 the next
    state is the better one with probability 0.3 + 0.2 (the outcome without noise).
    """

    gamma_u: float
    effect: tuple[float, ...]
    harm: float
    noise: float
    b: float = 0.3
    steps: int = 1
    discount: float = 0.9
    persistent: bool = False  # one severity for the whole episode
    rare: float = 0.0  # if u = 0, the outcome is 1 / rare lower so often, and 1 higher else
    known: bool = True  # whether the baseline is given

    @property
    def chances(self) -> tuple[np.ndarray, float]:
        """(P(a = 1 | u) for u = 0, 1; P(u = 1))."""
        odds = self.b / (1 - self.b) * np.array([1 / self.gamma_u, self.gamma_u])
        e = odds / (1 + odds)
        p = 0.5 if e[1] - e[0] < 1e-12 else float((self.b - e[0]) / (e[1] - e[0]))
        return e, p

    def log(self, rng: np.random.Generator, episodes: int) -> surefoot.Problem:
        """A log of whole episodes."""
        e, p = self.chances
        n_states, effect = len(self.effect), np.array(self.effect)
        state = rng.integers(0, n_states, episodes)
        columns: dict[str, list[np.ndarray]] = {
            name: [] for name in ("state", "action", "reward", "next_state", "episode", "time")
        }
        u = np.zeros(episodes, dtype=int)
        for t in range(self.steps):
            if not (self.persistent and t):
                u = (rng.random(episodes) < p).astype(int)
            action = (rng.random(episodes) < e[u]).astype(int)
            clean = effect[state] * action + self.harm * u
            follow = self._follow(rng, clean, n_states)
            row = (state, action, clean + self._noise(rng, u), follow)
            for name, x in zip(
                columns, (*row, np.arange(episodes), np.full(episodes, t)), strict=True
            ):
                columns[name].append(x)
            state = follow
        joined = {name: np.concatenate(x) for name, x in columns.items()}
        last = joined["time"] == self.steps - 1
        joined["next_state"] = np.where(last, -1, joined["next_state"])
        return surefoot.problem(
            **joined, terminal=last, n_actions=2, n_states=n_states + 1,
            gamma=self.discount if self.steps > 1 else 0.0,
            pi_b=[[1 - self.b, self.b]] * (n_states + 1) if self.known else None,
        )  # fmt: skip

    def _noise(self, rng: np.random.Generator, u: np.ndarray) -> np.ndarray:
        plain = rng.normal(0, self.noise, len(u))
        if not self.rare:
            return plain
        return plain + np.where(u > 0, 0.0, 1 - (rng.random(len(u)) < self.rare) / self.rare)

    def _follow(self, rng: np.random.Generator, clean: np.ndarray, n_states: int) -> np.ndarray:
        """The upper half of the states is the better one."""
        up = rng.random(len(clean)) < np.clip(0.3 + 0.2 * clean, 0.02, 0.98)
        half = n_states // 2
        return np.where(up, half + rng.integers(0, n_states - half, len(clean)),
                        rng.integers(0, half, len(clean)) if half else 0)  # fmt: skip

    def gain(self, pi: np.ndarray, pi_b: np.ndarray) -> float:
        """The true gain of a policy over the people who made the log, whose frequencies are known
        or estimated as pi_b.
        """
        changed = np.abs(pi - pi_b).max(axis=1) > CHANGED
        e, p = self.chances
        n, effect = len(self.effect), np.array(self.effect)
        clean = effect[:, None, None] * np.array([0.0, 1.0])[:, None] + self.harm * np.array(
            [0.0, 1.0]
        )
        up = np.clip(0.3 + 0.2 * clean, 0.02, 0.98)
        weight = np.array([1 - p, p])
        people = np.stack([1 - e, e]) * weight  # [A, U]: what people do
        pi = pi[:n]
        moved = changed[:n]
        policy = np.where(moved[:, None, None], pi[:, :, None] * weight, people)
        both = policy, np.broadcast_to(people, policy.shape)
        if self.persistent:
            parts = [
                [weight[u] * self._value(clean[..., [u]], up[..., [u]], x[..., [u]] / weight[u])
                 for u in (0, 1)] for x in both
            ]  # fmt: skip
            return sum(parts[0]) - sum(parts[1])
        return self._value(clean, up, both[0]) - self._value(clean, up, both[1])

    def _value(self, clean: np.ndarray, up: np.ndarray, joint: np.ndarray) -> float:
        """The value at the start, by backward induction; joint [S, A, U] sums to 1 in a state."""
        n = len(clean)
        v, half = np.zeros(n), n // 2
        for _ in range(self.steps):
            high, low = v[half:].mean(), v[:half].mean() if half else v.mean()
            later = self.discount * (up * high + (1 - up) * low) if self.steps > 1 else 0.0
            v = (joint * (clean + later)).sum(axis=(1, 2))
        return float(v.mean())


@dataclass(frozen=True)
class Lasting:
    """Two steps: the first action leads to state 1 or 2, without a reward; the second step pays u,
    whatever is done. People choose by u, so state 1 looks good. Nothing helps in truth.
    """

    gamma_u: float

    def log(self, rng: np.random.Generator, episodes: int) -> surefoot.Problem:
        """A log of whole episodes."""
        world = Severity(self.gamma_u, (0.0,), 1.0, 0.0)
        e, p = world.chances
        u = (rng.random(episodes) < p).astype(int)
        first = (rng.random(episodes) < e[u]).astype(int)
        second = (rng.random(episodes) < world.b).astype(int)
        middle, last = 2 - first, np.full(episodes, -1)
        return surefoot.problem(
            state=np.append(0 * first, middle), action=np.append(first, second),
            reward=np.append(0.0 * u, u + rng.normal(0, 0.1, episodes)),
            next_state=np.append(middle, last), terminal=np.append(0 * first, 0 * first + 1),
            episode=np.tile(np.arange(episodes), 2), time=np.repeat([0, 1], episodes),
            n_states=4, n_actions=2, gamma=0.9, pi_b=[[1 - world.b, world.b]] * 4,
        )  # fmt: skip

    def gain(self, pi: np.ndarray, pi_b: np.ndarray) -> float:
        """Nothing that is done matters."""
        return 0.0 * float(pi.sum() + pi_b.sum())


HIDDEN: dict[str, Severity | Lasting] = {
    "sharp: outcome is the severity": Severity(2.0, (0.0,) * 4, 1.0, 1e-6),
    "no effect": Severity(2.0, (0.0,) * 4, 1.0, 0.5),
    "no effect, Gamma 1.5": Severity(1.5, (0.0,) * 4, 1.0, 0.5),
    "it hurts a little": Severity(2.0, (-0.1,) * 4, 1.0, 0.5),
    "it helps": Severity(2.0, (0.3,) * 4, 1.0, 0.5),
    "the sick are treated, it helps": Severity(2.0, (0.5,) * 4, -1.0, 0.5),
    "sharp, baseline estimated": Severity(2.0, (0.0,) * 4, 1.0, 1e-6, known=False),
    "sharp, action taken 1 in 10": Severity(2.0, (0.0,) * 4, 1.0, 1e-6, b=0.1),
    "sharp, rare losses": Severity(2.0, (0.0,) * 4, 1.0, 1e-6, rare=0.05),
    "3 steps, no effect": Severity(1.5, (0.0,) * 4, 1.0, 0.5, steps=3),
    "3 steps, sharp": Severity(1.5, (0.0,) * 4, 1.0, 1e-6, steps=3),
    "3 steps, it helps": Severity(1.5, (0.3,) * 4, 1.0, 0.5, steps=3),
    "3 steps, one severity for all": Severity(1.5, (0.0,) * 4, 1.0, 1e-6, steps=3, persistent=True),
    "2 steps, it shows later": Lasting(2.0),
}
HONEST = {
    "effect 0.1": Severity(1.0, (0.1,) * 4, 0.0, 0.5),
    "effect 0.3": Severity(1.0, (0.3,) * 4, 0.0, 0.5),
    "effect 0.6": Severity(1.0, (0.6,) * 4, 0.0, 0.5),
    "effect 0.3, 3 steps": Severity(1.0, (0.3,) * 4, 0.0, 0.5, steps=3),
    "effect 0.6, 3 steps": Severity(1.0, (0.6,) * 4, 0.0, 0.5, steps=3),
}
FEW = {
    "nothing helps": Severity(1.0, (0.0,) * 12, 0.0, 0.5),
    "one action hurts a little": Severity(1.0, (-0.05,) * 12, 0.0, 0.5),
    "half help, half hurt": Severity(1.0, (0.1, -0.1) * 6, 0.0, 0.5),
    "three help": Severity(1.0, (0.4, 0.4, 0.4) + (0.0,) * 9, 0.0, 0.5),
    "all help": Severity(1.0, (0.2,) * 12, 0.0, 0.5),
    "4 steps, nothing helps": Severity(1.0, (0.0,) * 12, 0.0, 0.5, steps=4),
    "4 steps, three help": Severity(1.0, (0.4, 0.4, 0.4) + (0.0,) * 9, 0.0, 0.5, steps=4),
}


def tested(problem: surefoot.Problem, **options: Any) -> Any:
    """The held-out gain of the default algorithm."""
    return held_out_gain(
        problem, units_of_batch(problem.log, problem.gamma), chosen_algorithm(problem), **options
    )


def few(logs: int, episodes: int, only: str) -> None:
    """Few changes beside no limit."""
    print(
        f"\nfew changes: {logs} logs of {episodes} episodes; not better, supported, mean gain used"
    )
    for name, world in FEW.items():
        if only not in name:
            continue
        for most in (None, 1, 3):
            wrong = shown = 0
            gains = []
            for i in range(logs):
                found = tested(
                    world.log(np.random.default_rng([1, i]), episodes), most_changes=most
                )
                moved = np.abs(found.pi - found.learned.pi_b).max() > CHANGED
                supported = bool(found.evidence.positive and moved)
                gain = world.gain(found.pi, np.asarray(found.learned.pi_b)) if supported else 0.0
                shown, wrong = shown + supported, wrong + (supported and gain <= ZERO)
                gains.append(gain)
            limit = "no limit" if most is None else f"at most {most}"
            print(f"{name:26} {limit:10} not better {rate(wrong, logs)}  supported"
                  f" {rate(shown, logs)}  gain {np.mean(gains):7.4f}", flush=True)  # fmt: skip


def hidden(logs: int, episodes: int, only: str) -> None:
    """Logs with a hidden severity of known strength."""
    print(f"\nhidden severity: {logs} logs of {episodes} episodes")
    for name, world in HIDDEN.items():
        if only not in name:
            continue
        wrong = shown = point = sure = warned = warned_sure = changed = 0
        gaps = []
        for i in range(logs):
            problem = world.log(np.random.default_rng([2, i]), episodes)
            found = tested(problem)
            if np.abs(found.pi - problem.pi_b).max() <= CHANGED:
                continue
            changed += 1
            units = units_of_batch(problem.log, problem.gamma)
            gain = world.gain(found.pi, np.asarray(problem.pi_b))
            supported = bool(found.evidence.positive)
            shown, wrong = shown + supported, wrong + (supported and gain <= ZERO)
            at = WorstCase(model_of_units(problem, units, found.held_out), found.pi).at(
                world.gamma_u
            )
            point, sure = point + (at.estimate > gain), sure + (at.low > gain)
            gaps.append((at.estimate - gain, found.evidence.estimate - gain))
            if supported and gain <= ZERO:
                line = sensitivity(problem, units, found.pi, chosen=found.held_out)
                warned += line.vanishes_at <= world.gamma_u
                warned_sure += line.shown_up_to <= world.gamma_u
        mean = np.mean(gaps, axis=0) if gaps else (np.nan, np.nan)
        print(f"{name:32} Gamma {world.gamma_u:g}: false SUPPORTED {rate(wrong, logs)} of"
              f" {rate(shown, logs)}; bound above the truth {rate(point, max(changed, 1))}, with"
              f" sampling error {rate(sure, max(changed, 1))}; of the false ones the line said at"
              f" most Gamma {warned}, with sampling error {warned_sure} of {wrong}; mean error of"
              f" the bound {mean[0]:+.3f}, of the gain {mean[1]:+.3f}", flush=True)  # fmt: skip


def honest(logs: int, episodes: int, only: str) -> None:
    """What is printed for real gains."""
    print(f"\nhonest gains: {logs} logs of {episodes} episodes; quartiles of the printed strengths")
    for name, world in HONEST.items():
        if only not in name:
            continue
        plain, sure, shown = [], [], 0
        for i in range(logs):
            problem = world.log(np.random.default_rng([3, i]), episodes)
            found = tested(problem)
            if not found.evidence.positive:
                continue
            shown += 1
            units = units_of_batch(problem.log, problem.gamma)
            line = sensitivity(problem, units, found.pi, chosen=found.held_out)
            plain.append(line.vanishes_at)
            sure.append(line.shown_up_to)
        words = [
            "  ".join(f"{x:.2f}" for x in np.quantile(values, (0.25, 0.5, 0.75))) if values else "-"
            for values in (plain, sure)
        ]
        print(f"{name:26} supported {rate(shown, logs)}  vanishes at {words[0]}  shown up to"
              f" {words[1]}", flush=True)  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--only", choices=("few", "hidden", "honest"), default=None)
    parser.add_argument("--family", default="", help="only families with this in their name")
    given = parser.parse_args()
    for part in (few, hidden, honest):
        if given.only in (None, part.__name__):
            begin = time.perf_counter()
            part(given.logs, given.episodes, given.family)
            print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
