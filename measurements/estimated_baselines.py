"""How often a safety test with an estimated baseline is wrong, beside the one that knows it.

    python measurements/estimated_baselines.py --logs 1000

Every log is tested as `surefoot safety-test --estimated-baseline` does it, which is asymptotic;
some of those with a gain also with the true baseline. delta is 0.05, so that each side may err in
2.5 % of the logs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

import surefoot
from surefoot.advice.estimated_test import by_units
from surefoot.evidence.units import units_of_batch

DELTA, GAMMA, KNOWN = 0.05, 0.9, 20
Table = dict[str, Any]
POLICIES = {s: {"stay": 0.2, "move": 0.8} for s in "abc"}
RULES = {s: {"stay": 0.6, "move": 0.4} for s in "abc"}


@dataclass(frozen=True)
class Family:
    """Logs of `n` episodes of `steps` steps in three states; `pays(rng, state, move)`."""

    name: str
    n: int
    steps: int
    pays: Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]
    low: float = 0.0
    goes: float = 0.5  # how likely a move changes the state; what stays never does

    @property
    def rewards(self) -> tuple[float, float]:
        """The declared range."""
        return self.low, 0.0 if self.low < 0 else 1.0

    def table(self, rng: np.random.Generator) -> Table:
        """One log."""
        state = rng.integers(0, 3, self.n)
        rows: list[tuple[np.ndarray, ...]] = []
        for t in range(self.steps):
            move = rng.random(self.n) < 0.4
            reward = self.pays(rng, state, move)
            after = np.where(move & (rng.random(self.n) < self.goes), (state + 1) % 3, state)
            rows.append((np.arange(self.n), np.full(self.n, t), state, move, reward, after))
            state = after
        columns = [np.stack(x, axis=1).reshape(-1) for x in zip(*rows, strict=True)]
        names = np.array(list("abc"))
        return {
            "episode": columns[0],
            "time": columns[1],
            "state": names[columns[2]],
            "action": np.where(columns[3], "move", "stay"),
            "reward": columns[4].astype(float),
            "terminal": columns[1] == self.steps - 1,
        }


def success(p: list[float], helps: float = 0.0) -> Callable[..., np.ndarray]:
    """A success with a probability for each state, `helps` more for "move"."""
    return lambda rng, s, a: (rng.random(len(s)) < np.array(p)[s] + helps * a).astype(float)


NULL = (
    Family("1 step, success .5, 300 episodes", 300, 1, success([0.5, 0.5, 0.5])),
    Family("1 step, success .02, 1,000 episodes", 1000, 1, success([0.02, 0.02, 0.02])),
    Family("1 step, success .1, .5, .9 by state, 300 episodes", 300, 1, success([0.1, 0.5, 0.9])),
    Family("5 steps, all states alike, 200 episodes", 200, 5, success([0.3, 0.3, 0.3])),
    Family("1 step, a loss of 10 once in 100, 1,000 episodes", 1000, 1,
           lambda rng, s, a: -10.0 * (rng.random(len(s)) < 0.01), low=-10.0),
)  # fmt: skip
BETTER = (
    Family("1 step, success .4 or .6, 300 episodes", 300, 1, success([0.4] * 3, 0.2)),
    Family("5 steps, success .2 or .3, 200 episodes", 200, 5, success([0.2] * 3, 0.1)),
)


def by_arrays(family: Family, table: Table) -> tuple[float, float]:
    """(at least, at most) of one log. What `surefoot check` finds, which can only forbid a verdict,
    is not looked at.
    """
    end = table["terminal"]
    code = np.searchsorted(list("abc"), table["state"])
    problem: Any = surefoot.problem(
        state=code,
        action=(table["action"] == "move").astype(int),
        reward=table["reward"],
        next_state=np.where(end, 3, np.append(code[1:], 0)),
        episode=table["episode"],
        time=table["time"],
        terminal_states=[3],
        gamma=GAMMA,
        n_actions=2,
        reward_range=family.rewards,
    )
    pi = np.array([[0.2, 0.8]] * 3 + [np.asarray(problem.pi_b)[3]])  # nobody acts in the last one
    units = units_of_batch(problem.log, GAMMA)
    there = np.bincount(units.unit, minlength=units.number) > 0
    _, low, high, _ = by_units(problem, units, there, pi, DELTA)
    return low, high


def by_command(family: Family, table: Table, **more: Any) -> Any:
    """The test as users call it."""
    return surefoot.safety_test(
        table, POLICIES, gamma=GAMMA, delta=DELTA, reward_range=family.rewards,
        episode_end="terminal", **more,
    )  # fmt: skip


def shares(family: Family, logs: int, seed: int) -> str:
    """How often the test says what; and how far the command is from it, on three logs."""
    rng = np.random.default_rng([seed, logs])
    ends, apart, words, known = [], 0.0, [], []
    for i in range(logs):
        table = family.table(rng)
        ends.append(by_arrays(family, table))
        if i < 3:
            row = by_command(family, table, estimated_baseline=True).rows[0]
            apart = max(apart, abs(row.low - ends[-1][0]), abs(row.high - ends[-1][1]))
        if family in BETTER and i < KNOWN:
            test = by_command(family, table, baseline=RULES, horizon=family.steps)
            known.append(test.verdict == "passes")
    low, high = np.array(ends).T
    words.append(f"passes {np.mean(low > 0):.1%}, fails {np.mean(high < 0):.1%}")
    words += [f"passes with the true baseline {np.mean(known):.0%} of {KNOWN}"] * bool(known)
    return "; ".join([*words, f"the command differs by {apart:.2g}"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--family", default="", help="only those whose name has this")
    asked = parser.parse_args()
    logs, begin = asked.logs, time.time()
    limit = int(binom.ppf(0.99, logs, DELTA / 2))
    print(f"{logs} logs a family; {limit / logs:.1%} is {DELTA / 2:.1%} with its error")
    for kind, families in (("no gain", NULL), ("a gain", BETTER)):
        print(kind)
        for i, family in enumerate(families):
            if asked.family in family.name:
                print(f"  {family.name}: {shares(family, logs, i)}", flush=True)
    print(f"{time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
