"""How often a watched roll-out is wrong, and how soon it finds what is there.

    python measurements/rollouts.py --logs 1000

Each log is of two arms, and is looked at after every episode (so after any 50 of them, too) at
delta 0.05. Beside the watch: a z-test of both means done once at the end; and, wrongly, the same
test at 50 looks. What the library works out on arrays is held against `surefoot.watch` of files on
some logs.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, norm

import surefoot
from surefoot.advice.rollout import BEGAN, NEW, ODDS, RETURNS, Arms, differences_of
from surefoot.evidence.arms import Difference
from surefoot.statistics.sequences import against_shares

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
from make_walks import Ward

LOOKS, DELTA = 50, 0.05
Rng = np.random.Generator
Draw = Callable[[Rng, np.ndarray], tuple[np.ndarray, np.ndarray | None]]


@dataclass(frozen=True)
class Family:
    """Logs of n episodes; `draw(rng, new)` are their returns, and the log-odds of the new arm where
    both policies are known. `truth`: v(new) - v(old).
    """

    name: str
    n: int
    draw: Draw
    truth: float = 0.0
    share: float = 0.5
    low: float = 0.0
    high: float = 1.0

    def rows(self, rng: Rng) -> np.ndarray:
        """A log as a roll-out keeps it."""
        new = rng.random(self.n) < self.share
        g, odds = self.draw(rng, new)
        odds = np.zeros(self.n) if odds is None else odds
        return np.column_stack([np.arange(self.n), new, odds, g])

    def difference(self, rows: np.ndarray, *, known: bool) -> Difference:
        """Its values."""
        some = np.zeros((1, 1))
        arms = Arms(share=self.share, policies=(some, some) if known else None)
        return differences_of(rows, [(self.low, self.high)], arms)[0]


def chance(old: float, new: float) -> Draw:
    """A success with a probability for each arm."""
    return lambda rng, a: ((rng.random(len(a)) < np.where(a, new, old)).astype(float), None)


def season(rng: Rng, a: np.ndarray) -> tuple[np.ndarray, None]:
    """Success rises from .1 to .9 and falls again, for both arms; a level for 100 episodes."""
    n = len(a)
    level = (
        0.5
        - 0.4 * np.cos(2 * np.pi * np.arange(n) / n)
        + 0.1 * rng.normal(size=n // 100 + 1)[np.arange(n) // 100]
    )
    return (rng.random(n) < np.clip(level, 0, 1)).astype(float), None


def steps(helps: float, length: int = 3, old: float = 0.3, new: float = 0.7) -> Draw:
    """Episodes of some steps in two states; the second action adds `helps` to the chance of success
    in each step, and the return is the mean over steps. Both policies are known.
    """

    def draw(rng: Rng, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n = len(a)
        state = rng.random((n, length)) < 0.4
        do_new, do_old = np.where(state, new, old), np.where(state, old, old)
        acts = rng.random((n, length)) < np.where(a[:, None], do_new, do_old)
        odds = np.log(np.where(acts, do_new, 1 - do_new) / np.where(acts, do_old, 1 - do_old))
        g = (rng.random((n, length)) < 0.2 + 0.2 * state + helps * acts).mean(axis=1)
        return g, odds.sum(axis=1)

    return draw


class EqualWard(Ward):
    """A ward in which both drugs do the same."""

    die = np.repeat(Ward.die[:1], 2, axis=0)
    better = np.repeat(Ward.better[:1], 2, axis=0)
    worse = np.repeat(Ward.worse[:1], 2, axis=0)
    fast = np.repeat(Ward.fast[:1], 2)


def ward(world: Ward) -> Draw:
    """Stays; the new arm gives a vasopressor hardly below lactate 4, and nearly always from there
    on.
    """
    shares = np.repeat(np.array([[0.2, 0.3, 0.35], [0.02, 0.02, 0.95]])[:, :, None], 2, axis=2)

    def draw(rng: Rng, a: np.ndarray) -> tuple[np.ndarray, None]:
        return world.run(rng, shares[a.astype(int)])[1].astype(float), None

    return draw


NULL = (
    Family("success .5", 2000, chance(0.5, 0.5)),
    Family("success .5, a tenth in the new arm", 2000, chance(0.5, 0.5), share=0.1),
    Family("success .01", 5000, chance(0.01, 0.01)),
    Family("failure .01, range 0 to 1", 5000, chance(0.99, 0.99)),
    Family("a season common to both arms", 2000, season),
    Family("a loss of 100 once in 500", 5000, lambda rng, a: (
        -100.0 * (rng.random(len(a)) < 0.002), None), low=-100.0),
    Family("stays in a ward where drugs do the same", 2000, ward(EqualWard())),
    Family("3 steps, known policies, no action helps", 2000, steps(0.0)),
    Family("3 steps, known policies, two nearly alike", 2000, steps(0.0, new=0.35)),
    Family("10 steps, known policies, no action helps", 2000, steps(0.0, 10)),
)  # fmt: skip
DIFFERENT = (
    Family("success .5 or .6", 4000, chance(0.5, 0.6), 0.1),
    Family("success .5 or .45", 16000, chance(0.5, 0.45), -0.05),
    Family("success .01 or .02", 16000, chance(0.01, 0.02), 0.01),
    Family("3 steps, known policies", 4000, steps(0.2), 0.4 * 0.4 * 0.2),
    Family("3 steps, known policies, little changes", 16000, steps(0.2, new=0.4), 0.1 * 0.4 * 0.2),
)


def z_values(rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """z of the difference of both means after so many episodes."""
    new, g = rows[:, NEW] > 0, rows[:, RETURNS]
    found = []
    for k in at:
        x, y = g[:k][new[:k]], g[:k][~new[:k]]
        if not (len(x) and len(y)):
            found.append(0.0)
            continue
        error = math.sqrt(max(x.var() / len(x) + y.var() / len(y), 1e-12))
        found.append((x.mean() - y.mean()) / error)
    return np.array(found)


def reached(x: Difference, m: float, alpha: float) -> tuple[int, int]:
    """After how many episodes a mean of at most m, and one of at least m, was refuted; 0: never."""
    found = []
    for side, value in ((x.above, m), (x.below, -m)):
        hit = np.flatnonzero(side.log_capital(value) >= math.log(1 / alpha))
        found.append(int(hit[0]) + 1 if len(hit) else 0)
    return found[0], found[1]


def falsely(family: Family, logs: int, seed: int) -> str:
    """Of logs on which nothing is to be found: how often something is said."""
    rng = np.random.default_rng([seed, logs])
    at = np.linspace(0, family.n, LOOKS + 1).astype(int)[1:]
    z = norm.ppf(1 - DELTA / 2)
    wrong: dict[str, list[bool]] = {}
    shares = []
    for _ in range(logs):
        rows = family.rows(rng)
        knows = bool(np.ptp(rows[:, ODDS]))
        for name, known in (("arms", False), ("both policies", True))[: 1 + knows]:
            x = family.difference(rows, known=known)
            said = max(reached(x, family.truth, DELTA / 2)) > 0
            wrong.setdefault(f"watch by {name}", []).append(said)
        zs = np.abs(z_values(rows, at))
        wrong.setdefault(f"z at {LOOKS} looks", []).append(bool((zs > z).any()))
        wrong.setdefault("z once", []).append(bool(zs[-1] > z))
        odds = rows[:, ODDS] + math.log(family.share / (1 - family.share))
        shares.append(against_shares(rows[:, NEW] > 0, odds, family.share) > math.log(1e3))
    words = [f"{name} {np.mean(x):.1%}" for name, x in wrong.items()]
    return f"{'; '.join(words)}; stopped for its shares {np.mean(shares):.1%}"


def found(family: Family, logs: int, seed: int) -> str:
    """Of logs with a difference: how soon it is shown, and how many episodes a z-test would need,
    planned beforehand for a power of .8.
    """
    rng = np.random.default_rng([seed, logs])
    when: dict[str, list[int]] = {}
    wrong, outside, error = 0, 0, []
    for _ in range(logs):
        rows = family.rows(rng)
        new, g = rows[:, NEW] > 0, rows[:, RETURNS]
        error.append(g[new].var() / family.share + g[~new].var() / (1 - family.share))
        knows = bool(np.ptp(rows[:, ODDS]))
        for name, known in (("arms", False), ("both policies", True))[: 1 + knows]:
            x = family.difference(rows, known=known)
            sides = reached(x, 0.0, DELTA / 2)
            right, other = sides if family.truth > 0 else sides[::-1]
            when.setdefault(name, []).append(right)
            wrong += other > 0
            outside += max(reached(x, family.truth, DELTA / 2)) > 0
    words = []
    for name, x in when.items():
        late = np.where(np.array(x) > 0, x, family.n + 1)
        middle, most = np.quantile(late, [0.5, 0.8])
        shown = [f"{q:,.0f}" if q <= family.n else f"> {family.n:,}" for q in (middle, most)]
        words.append(
            f"by {name} in {np.mean(np.array(x) > 0):.1%}, half by {shown[0]}, .8 by {shown[1]}"
        )
    n = (norm.ppf(1 - DELTA / 2) + norm.ppf(0.8)) ** 2 * np.mean(error) / family.truth**2
    tries = logs * len(when)
    return (
        f"{'; '.join(words)}; a z-test needs {n:,.0f}; wrong side {wrong / tries:.1%}, truth"
        f" outside at some look {outside / tries:.1%}"
    )


def late(rng: Rng, n: int = 2000) -> tuple[bool, bool]:
    """Whether something is said of arms that do the same, where successes of the new one and
    failures of the old one are known late: counting in the order in which episodes began up to the
    first unfinished one; and counting whatever is finished.
    """
    new, g = rng.random(n) < 0.5, (rng.random(n) < 0.5).astype(float)
    known = np.arange(n) + np.where(new == (g > 0), 5, 300)
    rows = np.column_stack([np.arange(n), new, np.zeros(n), g])
    family = Family("late", n, chance(0.5, 0.5))
    found = []
    for in_order in (True, False):
        taken = np.zeros(0, dtype=int)
        for now in np.linspace(0, n, LOOKS + 1).astype(int)[1:]:
            over = np.setdiff1d(np.flatnonzero(known[:now] <= now), taken)
            waits = np.flatnonzero(known[:now] > now)
            if in_order and len(waits):
                over = over[over < waits[0]]
            taken = np.append(taken, over)
        x = family.difference(rows[taken], known=False)
        found.append(max(reached(x, 0.0, DELTA / 2)) > 0)
    return found[0], found[1]


def by_files(family: Family, seed: int) -> float:
    """The largest difference between what `surefoot.watch` of a file says at its last of three
    looks, and the same on arrays.
    """
    rows = family.rows(np.random.default_rng(seed))
    names = np.where(rows[:, NEW] > 0, "new", "old")
    with tempfile.TemporaryDirectory() as folder:
        path, state = Path(folder) / "log.csv", Path(folder) / "state.json"
        said: Any = None
        for k in (family.n // 3, 2 * family.n // 3, family.n):
            with open(path, "w", newline="") as file:
                out = csv.writer(file)
                out.writerow(("time", "state", "action", "reward", "arm"))
                begin = 1_700_000_000 + 60 * rows[:k, BEGAN].astype(int)
                out.writerows(
                    (t, "s", "ab"[t % 2], g, arm)
                    for t, g, arm in zip(begin.tolist(), rows[:k, RETURNS], names, strict=False)
                )
            said = surefoot.watch(
                path, None, state, bandit=True, policy_column="arm", share=family.share,
                reward_range=(family.low, family.high),
            ).document  # fmt: skip
    x = family.difference(rows, known=False)
    low, high = x.above.at_least(DELTA / 2), -x.below.at_least(DELTA / 2)
    pairs = zip((low, high), ("difference_at_least", "difference_at_most"), strict=True)
    return max(abs(value - said[name]) for value, name in pairs)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=1000)
    logs, begin = parser.parse_args().logs, time.time()
    limit = int(binom.ppf(0.99, logs, DELTA))
    print(f"{logs} logs a family, delta {DELTA}; {limit / logs:.1%} is delta with its error")
    print("nothing to find: share of logs on which something is said")
    for i, family in enumerate(NULL):
        print(f"  {family.name}, {family.n:,}: {falsely(family, logs, i)}", flush=True)
    in_order, anyhow = np.mean([late(np.random.default_rng([9, i])) for i in range(logs)], axis=0)
    print(
        f"  known late: {in_order:.1%} in the order of starts, {anyhow:.1%} if what is over counts"
    )
    print("a difference: share of logs in which it is shown, and after how many episodes")
    for i, family in enumerate(DIFFERENT):
        print(f"  {family.name}: {found(family, max(logs // 5, 1), i)}", flush=True)
    worst = max(by_files(family, i) for i, family in enumerate(NULL[:4]))
    print(f"files and arrays differ by at most {worst:.2g} on 4 logs")
    print(f"{time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
