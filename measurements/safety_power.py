"""The power of the safety test, and how often it passes wrongly: the former bound, which cut values
at a cap, the bound without a cap, and today's, which centres the values too; on the same logs.

    python measurements/safety_power.py [--logs 1000] [--only 0,3] [--hostile]

The former test chose a cap and a guess of mean and variance on a fifth of the log, and bet on the
rest. All have delta / 2 = 0.025, as the safety test at 0.05 gives to each side. Rewards lie in
[0, 1], and so do returns, which are means over the steps of an episode: a gain is a share of the
range of returns. A log is drawn once, and smaller ones are its beginnings. --hostile: logs made to
mislead, on which the policy is no better, through `sample_test` as it is.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import binomtest

from surefoot.advice.safety import sample_test
from surefoot.advice.verdict import FAILS, PASSES
from surefoot.evidence.centring import DEEPER, Control, centred, largest_ratio
from surefoot.statistics.bounds import choose_cap, log_capital
from watching import NULL, chance
from watching import Family as Decisions

DELTA = 0.025
GAINS, NO_GAINS, SIZES = (0.02, 0.05, 0.1, 0.2), (0.0, -0.02), (200, 1000, 5000)
POWER = 0.8
# sizes between which the number of episodes is looked for, and the logs of each
GRID, GRID_LOGS = tuple(round(20 * 1.4**i) for i in range(22)), 400
STEPS = 100_000  # a log of the grid has no more, so that long episodes do not take all the time


@dataclass(frozen=True)
class Family:
    """Episodes of `steps` decisions between two actions. The baseline takes the second one with
    probability b, the policy with pi; the first earns p on average, the second p + gain / (pi - b).

    scatter: rewards are 0 or 1 where it is None, else uniform within so much of their mean.
    """

    name: str
    steps: int
    b: float
    pi: float
    p: float
    scatter: float | None = None

    @property
    def largest_weight(self) -> float:
        """Of a whole episode."""
        return (self.pi / self.b) ** self.steps

    def has(self, gain: float) -> bool:
        """Whether rewards between 0 and 1 can have this gain."""
        edge, better = self.scatter or 0.0, self.p + gain / (self.pi - self.b)
        return edge <= better <= 1 - edge

    def values(self, rng: np.random.Generator, n: int, gain: float) -> tuple[np.ndarray, Control]:
        """What `episode_values` makes of n episodes: (values, none below -1 and the gain their
        mean, what centres them).
        """
        u = rng.random((n, self.steps, 2))
        new = u[..., 0] < self.b
        mean = self.p + np.where(new, gain / (self.pi - self.b), 0.0)
        reward = u[..., 1] < mean
        if self.scatter is not None:
            reward = mean + self.scatter * (2 * u[..., 1] - 1)
        excess = np.where(new, self.pi / self.b, (1 - self.pi) / (1 - self.b)).cumprod(axis=1) - 1
        most = (self.pi / self.b) ** np.arange(1, self.steps + 1) - 1
        c = np.minimum(1, max(1, n / DEEPER) / most)
        control = Control(
            values=(excess * c).mean(axis=1),
            lo=-1.0,
            width=1 / self.steps,
            most=most * c / self.steps,
            count=np.ones(self.steps),
            every=self.steps,
        )
        return (excess * reward).mean(axis=1), control


FAMILIES = (
    Family("1 step, .5 to .75, success .15", 1, 0.5, 0.75, 0.15),
    Family("1 step, .5 to .75, success .5", 1, 0.5, 0.75, 0.5),
    Family("1 step, .5 to .9, graded, .3", 1, 0.5, 0.9, 0.3, scatter=0.2),
    Family("1 step, .2 to .8, success .3", 1, 0.2, 0.8, 0.3),
    Family("3 steps, .3 to .7, success .3", 3, 0.3, 0.7, 0.3),
    Family("1 step, .05 to .95, success .3", 1, 0.05, 0.95, 0.3),
    Family("10 steps, .5 to .8, success .2", 10, 0.5, 0.8, 0.2),
    Family("20 steps, .5 to .7, success .2", 20, 0.5, 0.7, 0.2),
    Family("1 step, .1 to .9, success .03", 1, 0.1, 0.9, 0.03),
    Family("1 step, .1 to .9, failure .15", 1, 0.1, 0.9, 0.85),
)


def ruin(old: float) -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    """The second action earns 1, but -1000 once in 500, so -1.002 on average; the first one the
    same (old = 1) or 0.
    """
    return lambda rng, a: np.where(
        a | bool(old), np.where(rng.random(len(a)) < 0.002, -1e3, 1), 0.0
    )


def normal(rng: np.random.Generator, a: np.ndarray) -> np.ndarray:
    """Normal rewards, whatever is done, cut at 4."""
    return np.clip(rng.normal(size=len(a)), -4, 4)


# no policy is better; in the last one the policy is worse
HOSTILE = (
    *NULL,
    Decisions("600, failure .05, .05 to .5", 1, 0.05, 0.5, chance(0.95, 0.95), 0, 1, 0, 600),
    Decisions("400, success .5, .02 to .98", 1, 0.02, 0.98, chance(0.5, 0.5), 0, 1, 0, 400),
    Decisions("300 of 3 steps, .8 to .1", 3, 0.8, 0.1, chance(0.3, 0.3), 0, 1, 0, 300),
    Decisions("300 of 10 steps, .3 to .6", 10, 0.3, 0.6, chance(0.3, 0.3), 0, 1, 0, 300),
    Decisions("300 of 20 steps, normal, .5 to .7", 20, 0.5, 0.7, normal, -4, 4, 0, 300),
    Decisions("500, +1 but -1000 once in 500, .1 to .9", 1, 0.1, 0.9, ruin(1), -1e3, 1, 0, 500),
    Decisions("500, the same by the new action only", 1, 0.1, 0.9, ruin(0), -1e3, 1, -1, 500),
)


def mislead(family: Decisions, at: int, logs: int) -> None:
    """Print how often a family passes and fails."""
    rng, found = np.random.default_rng([7, at]), []
    for _ in range(logs):
        sample, standard = family.sample(rng)
        assert sample.pi_b is not None
        known = replace(standard, largest_ratio=largest_ratio(sample.pi, sample.pi_b))
        found.append(sample_test(None, sample, 0.9, known).verdict)
    share = {x: found.count(x) / logs for x in (PASSES, FAILS)}
    print(f"{family.name}: " + ", ".join(f"{x} {y:.1%}" for x, y in share.items()), flush=True)


def shown(x: np.ndarray, lo: Any = -1.0) -> bool:
    """Whether `uncapped_betting` shows a mean above 0: its capital falls in the mean it is held
    against, so the one at 0 decides.
    """
    return bool(log_capital(x - lo, DELTA, -lo).max() >= math.log(1 / DELTA) and x.mean() > 0)


def former_log_capital(x: np.ndarray) -> np.ndarray:
    """Of the former bound, against a mean of 0. In units of the cap, y in [0, 1], it was prod ( 1 +
    min(lambda_i, 0.5 / m) (y_i - m) ), lambda_i = sqrt( 2 ln(1/delta) / (n s_i^2) ), s_i^2 from
    the values before i and a guess that counted as one.
    """
    cut = min(max(round(0.2 * len(x)), 2), len(x) - 2)
    first, rest = x[:cut], x[cut:]
    found = choose_cap(first, -1.0, len(rest), DELTA, "betting")
    assert found.cap is not None
    width, n = found.cap + 1, len(rest)
    y, m = np.clip(rest + 1, 0, width) / width, 1 / width
    guess, mean = max(found.variance / width**2, 1 / n**2), min(max((found.mean + 1) / width, 0), 1)
    size = np.arange(2, n + 2)
    s2 = (guess + np.cumsum((y - (mean + np.cumsum(y)) / size) ** 2)) / size
    bets = np.sqrt(2 * math.log(1 / DELTA) / (n * np.append(guess, s2[:-1])))
    found_capital: np.ndarray = np.log1p(np.minimum(bets, 0.5 / m) * (y - m)).cumsum()
    return found_capital


def shares(family: Family, gain: float, n: int, keys: Sequence[tuple[int, ...]]) -> np.ndarray:
    """[log, test]: whether n episodes pass by the former test, without a cap, centred."""
    found = []
    for key in keys:
        x, control = family.values(np.random.default_rng(key), n, gain)
        former = bool(former_log_capital(x).max() >= math.log(1 / DELTA))
        found.append((former, shown(x), shown(*centred(x, control, np.arange(n)))))
    return np.array(found)


def needed(sizes: Sequence[int], power: Sequence[float]) -> float:
    """Episodes at which the power reaches 0.8: between sizes by straight lines of its normal
    quantile over ln n; inf where it is not reached.
    """
    above = [i for i, x in enumerate(power) if x >= POWER]
    if not above or above[0] == 0:
        return math.inf if not above else float(sizes[0])
    i = above[0]
    low, high = (ndtri(min(max(x, 0.001), 0.999)) for x in power[i - 1 : i + 1])
    at = (ndtri(POWER) - low) / (high - low)
    return float(math.exp((1 - at) * math.log(sizes[i - 1]) + at * math.log(sizes[i])))


def episodes_needed(
    family: Family, gain: float, keys: Sequence[tuple[int, ...]], sizes: Sequence[int]
) -> list[float]:
    """By each of the tests."""
    power: list[np.ndarray] = []
    for n in sizes:
        power.append(shares(family, gain, n, keys).mean(axis=0))
        if min(power[-1]) >= POWER:
            break
    return [needed(sizes, list(column)) for column in np.transpose(power)]


def lower(both: np.ndarray) -> str:
    """A star where today's power is lower by more than chance: McNemar's exact test at 1 %."""
    lost, won = int((both[:, 0] & ~both[:, -1]).sum()), int((~both[:, 0] & both[:, -1]).sum())
    worse = lost > won and binomtest(lost, lost + won, alternative="greater").pvalue < 0.01
    return " *" if worse else ""


def number(n: float, most: int) -> str:
    """Episodes in words."""
    return f"> {most:,}" if n == math.inf else f"{n:,.0f}"


def measure(family: Family, at: int, logs: int) -> None:
    """Print the rows of one family."""
    print(f"{family.name} (weights to {family.largest_weight:.3g})", flush=True)
    sizes = [n for n in GRID if n * family.steps <= STEPS]
    for i, gain in enumerate((*NO_GAINS, *GAINS)):
        if not family.has(gain):
            continue
        cells, keys = [], [(at, i, j) for j in range(logs)]
        for n in SIZES:
            each = shares(family, gain, n, keys)
            cells.append(" ".join(f"{x:.3f}" for x in each.mean(axis=0)) + lower(each))
        if gain > 0:
            found = episodes_needed(family, gain, keys[:GRID_LOGS], sizes)
            cells.append(", ".join(number(x, sizes[-1]) for x in found))
            cells += [f"{found[-1] / found[0]:.2f}"] * (max(found) < math.inf)
        print(f"  gain {gain:+.2f}: " + " | ".join(cells), flush=True)


def main() -> None:
    """Print all families."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--only", default="", help="numbers of families, joined by commas")
    parser.add_argument("--hostile", action="store_true")
    given, begin = parser.parse_args(), time.time()
    if given.hostile:
        for at, case in enumerate(HOSTILE):
            mislead(case, at, given.logs)
        return
    print(
        f"{given.logs} logs a cell; share that passes, by the former test, without a cap, and"
        f" centred too (* lower than the former), at {', '.join(f'{n:,}' for n in SIZES)}"
        f" episodes | episodes for a power of {POWER} | ratio of the last to the first"
    )
    chosen = [int(x) for x in given.only.split(",") if x] or range(len(FAMILIES))
    for at in chosen:
        measure(FAMILIES[at], at, given.logs)
    print(f"{time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
