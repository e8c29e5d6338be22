"""The authors' code beside surefoot: nine algorithms and both DUIPI, on fresh MDPs and rivers.

    python papers/scholl2022/parity.py CHECKOUT --mdps 40 --rivers 20

CHECKOUT is a clone of the repository that the paper names (docs/deviations.md has its address);
nothing of it is kept here. It needs NumPy, SciPy and pandas. MDPs, their baselines and
their logs are drawn by surefoot, rivers and theirs by the authors' own simulator. Both sides get
the same log, the true reward table and Table 1's parameters; surefoot takes
conventions="scholl2022". What is compared: the policies in every state that ends no episode, and
their exact values at the start of the true MDP.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import surefoot
from surefoot.research.benchmarks import RandomMDPs, WetChicken
from surefoot.research.simulate import Sampler, first_key

EQUAL = 1e-8  # policies and values (of the width of their range) closer than this are equal
SIZES = {"mdp": (10, 30, 100, 300), "river": (100, 300, 1000, 3000)}
SOFT, SCALE = {"error_kind": "hoeffding", "delta": 1}, {"delta": 1}
LOWER = {"epsilon": (1, 0.5)}
# name here, module and class there, its parameters and ours: on MDPs and on rivers, as in Table 1
ROWS: tuple[tuple[str, str, Mapping[str, tuple[Any, Any]], dict[str, Any], dict[str, Any]], ...] = (
    ("basic-rl", "basic_rl.Basic_rl", {}, {}, {}),
    ("ramdp", "ramdp.RaMDP", {"kappa": (0.05, 2)}, {}, {}),
    ("r-min", "r_min.RMin", {"N_wedge": (3, 3)}, {}, {}),
    ("duipi", "duipi.DUIPI", {"xi": (0.1, 0.5)}, {"bayesian": True}, {"prior": "bayesian"}),
    ("duipi", "duipi.DUIPI", {"xi": (0.1, 0.5)}, {"bayesian": False}, {"prior": "frequentist"}),
    ("pi-b-spibb", "spibb.SPIBB", {"N_wedge": (10, 7)}, {}, {}),
    ("pi-leq-b-spibb", "spibb.Lower_SPIBB", {"N_wedge": (10, 7)}, {}, {}),
    ("approx-soft-spibb", "soft_spibb.ApproxSoftSPIBB", {"epsilon": (2, 1)}, SOFT, SCALE),
    ("adv-approx-soft-spibb", "soft_spibb.AdvApproxSoftSPIBB", {"epsilon": (2, 1)}, SOFT, SCALE),
    ("lower-approx-soft-spibb", "soft_spibb.LowerApproxSoftSPIBB", LOWER, SOFT, SCALE),
)


@dataclass(frozen=True)
class Case:
    """One data set: what both sides are given, and the true MDP."""

    kind: str
    number: int
    size: int
    problem: surefoot.Problem
    true: surefoot.Model
    theirs: Mapping[str, Any]  # keywords of the authors' classes

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.kind} {self.number} (size {self.size:,})"


@dataclass
class Line:
    """What was found of one algorithm on one kind of data set."""

    policies: int = 0
    values: int = 0
    cases: int = 0
    policy_gap: float = 0.0
    value_gap: float = 0.0
    ties: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    differ: list[str] = field(default_factory=list)


def cases_of_mdps(n: int, seed: int) -> Iterator[Case]:
    """Random MDPs of the paper, a new one each, with a log of one of the sizes."""
    bench = RandomMDPs()
    for i in range(n):
        keys = first_key(seed, "parity", np.array([i]))
        world, size = bench.worlds(keys), SIZES["mdp"][i % len(SIZES["mdp"])]
        log = Sampler(world).log(int(keys[0]), bench.episodes(size))
        table = np.broadcast_to(world.reward_table[0, :, 0, :], (bench.n_states,) * 2)
        episodes: dict[int, list[list[Any]]] = {}
        steps = zip(
            *(log[k] for k in ("episode", "action", "state", "next_state", "reward")), strict=True
        )
        for episode, a, s, to, r in steps:
            episodes.setdefault(int(episode), []).append([int(a), int(s), int(to), float(r)])
        ends = np.flatnonzero(world.terminal[0])
        yield _case(
            "mdp", i, size, log, world.pi_b[0], world.p[0], table, ends, list(episodes.values())
        )


def cases_of_rivers(n: int, seed: int, load: Callable[[str], Any]) -> Iterator[Case]:
    """Logs of the authors' Wet Chicken, which is first compared with surefoot's."""
    make = load("wet_chicken_discrete.dynamics.WetChicken")
    rule = load("wet_chicken_discrete.baseline_policy.WetChickenBaselinePolicy")
    ours = WetChicken()
    for i in range(n):
        env = make(5, 5, 3.5, 3)
        pi_b, p, table = (
            rule(env, 0.95).pi,
            env.get_transition_function(),
            env.get_reward_function(),
        )
        if i == 0:
            known = (p, ours.p), (table, ours.reward_table), (pi_b, ours.pi_b)
            gaps = ", ".join(f"{abs(x - y).max():.0e}" for x, y in known)
            print(f"Wet Chicken: transitions, rewards and baseline are apart by {gaps}\n")
        size = SIZES["river"][i % len(SIZES["river"])]
        np.random.seed(seed + i)  # what their simulator draws from
        rng, state, steps = np.random.default_rng(seed + i), env.get_state_int(), []
        for _ in range(size):
            a = int(rng.choice(5, p=pi_b[state]))
            before, reward, state = env.step(a)
            steps.append([a, before, state, float(reward)])
        a, s, to, r = (np.array(x) for x in zip(*steps, strict=True))
        log = {
            "episode": np.zeros(size, dtype=int),
            "state": s,
            "action": a,
            "next_state": to,
            "reward": r,
        }
        yield _case("river", i, size, log, pi_b, p, table, (), steps)


def _case(
    kind: str,
    number: int,
    size: int,
    log: Mapping[str, Any],
    pi_b: np.ndarray,
    p: np.ndarray,
    table: np.ndarray,
    ends: Sequence[int] | np.ndarray,
    data: list[Any],
) -> Case:
    n_states, n_actions = pi_b.shape
    problem = surefoot.problem(
        **log,
        pi_b=pi_b,
        gamma=0.95,
        start=0,
        terminal_states=ends,
        n_states=n_states,
        n_actions=n_actions,
        reward_table=table,
        reward_range=(float(table.min()), float(table.max())),
        conventions="scholl2022",
    )
    true = surefoot.known_model(p, np.einsum("sat,st->sa", p, table), 0.95, ends)
    theirs = {"pi_b": pi_b, "gamma": 0.95, "nb_states": n_states, "nb_actions": n_actions}
    theirs |= {"data": data, "R": np.array(table), "episodic": kind == "mdp"}
    return Case(kind, number, size, problem, true, theirs)


class Stable:
    """NumPy, but that equal values (to 1e-12) are sorted by the lowest index."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def argsort(self, x: np.ndarray) -> np.ndarray:
        """In place of theirs, which leaves the order of equal values open."""
        return np.argsort(np.round(x, 12), kind="stable")


def policy_of(made: Any, case: Case, stable: bool = False) -> tuple[np.ndarray, bool]:
    """What the authors' class learns, and whether it was stopped; in states that end an episode the
    baseline stands.
    """
    module = importlib.import_module(made.func.__module__)
    module.__dict__["np"] = Stable() if stable else np
    with np.errstate(all="ignore"):
        fitted = made()
        fitted.fit()
    module.__dict__["np"] = np
    ends = np.asarray(case.problem.terminal)[:, None]
    return np.where(ends, case.theirs["pi_b"], fitted.pi), fitted.nb_it >= fitted.max_nb_it


def apart(case: Case, pi: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, float]:
    """How far two policies are in each state, and their values, relative to the latter."""
    ends = np.asarray(case.problem.terminal)
    gap = np.where(ends, 0.0, np.abs(pi - other).max(axis=1))
    values = [
        float(surefoot.evaluate_at_start(case.true, x, case.problem.start)) for x in (pi, other)
    ]
    return gap, abs(values[0] - values[1]) / max(1.0, abs(values[1]))


def compare(case: Case, row: tuple[Any, ...], load: Callable[[str], Any], line: Line) -> None:
    """Run both sides on one data set, and note what differs: by ties of theirs if nothing does once
    equal values are sorted by the lowest index, as surefoot does.
    """
    name, place, varied, there, here = row
    chosen = {k: v[case.kind == "river"] for k, v in varied.items()}
    mine = {"n_wedge" if k == "N_wedge" else k: v for k, v in chosen.items()}
    made = partial(load(f"batch_rl_algorithms.{place}"), **case.theirs, **chosen, **there)
    theirs, stopped = policy_of(made, case)
    asked = surefoot.algorithm(name, conventions="scholl2022", **mine, **here)
    pi = np.asarray(surefoot.improve(case.problem, asked).pi)
    gap, value = apart(case, pi, theirs)
    line.cases += 1
    line.values += value <= EQUAL
    line.policies += gap.max() <= EQUAL
    if gap.max() <= EQUAL:
        line.policy_gap = max(line.policy_gap, float(gap.max()))
    if value <= EQUAL:
        line.value_gap = max(line.value_gap, value)
    if gap.max() <= EQUAL and value <= EQUAL:
        return
    found = f"{case.name}: policies by {gap.max():.1g}, values by {value:.1g}"
    states = ", ".join(map(str, np.flatnonzero(gap > EQUAL)))
    if stopped:
        line.stopped.append(found)
    elif (
        max(float(np.max(x)) for x in apart(case, pi, policy_of(made, case, stable=True)[0]))
        <= EQUAL
    ):
        line.ties.append(f"{found}, state {states}")
    else:
        line.differ.append(f"{found}, state {states}")


def main() -> None:
    """Print the table; end with 1 if anything differs but by a tie."""
    parser = argparse.ArgumentParser(description="The authors' code beside surefoot.")
    parser.add_argument("checkout", type=Path, help="a clone of the authors' repository")
    parser.add_argument("--mdps", type=int, default=40)
    parser.add_argument("--rivers", type=int, default=20)
    parser.add_argument("--seed", type=int, default=2022)
    options = parser.parse_args()
    if not (options.checkout / "batch_rl_algorithms").is_dir():
        parser.error(f"{options.checkout} has no folder batch_rl_algorithms: clone the repository")
    sys.path.insert(0, str(options.checkout.resolve()))

    def load(place: str) -> Any:
        module, _, cls = place.rpartition(".")
        return getattr(importlib.import_module(module), cls)

    lines = {(kind, i): Line() for kind in SIZES for i in range(len(ROWS))}
    given = (
        cases_of_mdps(options.mdps, options.seed),
        cases_of_rivers(options.rivers, options.seed, load),
    )
    for case in (x for kind in given for x in kind):
        for i, row in enumerate(ROWS):
            compare(case, row, load, lines[case.kind, i])
        print(f"{case.name} done", file=sys.stderr, flush=True)
    header = ("algorithm", "on", "equal policies", "apart by", "equal values", "apart by")
    header = (*header, "exact ties", "stopped at 5,000 steps")
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for (kind, i), line in lines.items():
        label = f"{ROWS[i][0]} {ROWS[i][4].get('prior', '')}".strip()
        cells = (label, f"{kind}s", f"{line.policies} of {line.cases}", f"{line.policy_gap:.0e}")
        cells = (*cells, f"{line.values} of {line.cases}", f"{line.value_gap:.0e}")
        print(f"| {' | '.join((*cells, str(len(line.ties)), str(len(line.stopped))))} |")
    for title, name in (("exact ties", "ties"), ("stopped", "stopped"), ("DIFFERENT", "differ")):
        for (_, i), line in lines.items():
            for x in getattr(line, name):
                print(f"{title}: {ROWS[i][0]} {ROWS[i][4].get('prior', '')} on {x}")
    sys.exit(any(line.differ for line in lines.values()))


if __name__ == "__main__":
    main()
