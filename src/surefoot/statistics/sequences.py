"""Confidence sequences: what a mean is at least and at most, at all numbers of values together; how
many more values a decision will take; and whether two kinds of things come as often as was said.

The capital of `surefoot.statistics.bounds.Capital`, against every value that a mean may have:

    K_t(m) = (1/10) sum_k prod_{i <= t} ( 1 + b_k (x_i - m) / (m - lo_i) ),   lo_i < m,

where no x_i lies below lo_i, which is known before x_i. If no E[ x_i | past ] exceeds m, then
P( K_t(m) >= 1/alpha for some t ) <= alpha, as is proved there. Each factor falls in m, so the m
that were refuted at some t lie below one number, and that is the bound. It is right at all t with
probability 1 - alpha: whoever looks every day, and stops when it pleases them, pays nothing for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from surefoot.statistics.bounds import SHARES, check_delta, joint_capital, log_wealth

HALVINGS = 50
POINTS = 60  # values of a mean that a curve tries
MANY = 200_000  # values beyond which it tries fewer
MOST_MORE = 1e9  # values beyond which nothing is foreseen
BENT = 0.0, 0.5, 1.5, -1.0  # how much the odds of an episode count, where 1 is as they were said
LARGEST_ODDS = 700.0
SHIFTED = tuple(s * x for x in (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0) for s in (1, -1))


@dataclass(frozen=True, repr=False)
class Values:
    """Values x_i >= floor_i, each floor known before its value; no mean lies below `least`."""

    x: np.ndarray
    floor: np.ndarray
    least: float

    def log_capital(self, m: float) -> np.ndarray:
        """ln K_t(m), t = 1..n; m > least."""
        return joint_capital(self._wealth(m))

    def _wealth(self, m: float) -> np.ndarray:
        return log_wealth(SHARES[:, None], (self.x - m) / (m - self.floor))

    def at_least(self, alpha: float) -> float:
        """The largest mean that is refuted at some t: P( it exceeds the mean, ever ) <= alpha."""
        check_delta(alpha)
        if not len(self.x) or self.least == 0:
            return self.least
        need = math.log(1 / alpha)
        low, high = self.least, -self.least
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self.log_capital(middle).max() >= need:
                low = middle
            else:
                high = middle
        return low

    def curve(self, alpha: float, at: np.ndarray) -> np.ndarray:
        """The same bound after so many values each; on a grid, so it may be a little lower."""
        last = self.at_least(alpha)
        found = np.full(len(at), float(self.least))
        if last <= self.least:
            return found
        need = math.log(1 / alpha)
        points = POINTS if len(self.x) <= MANY else POINTS // 4
        for m in self.least + (last - self.least) * (1 - np.geomspace(1, 1e-5, points)[1:]):
            reached = np.flatnonzero(self.log_capital(float(m)) >= need)
            if len(reached):
                found[at > reached[0]] = m
        found[at >= len(self.x)] = last
        return found

    def more_needed(self, m: float, alpha: float) -> float:
        """About how many more values will refute a mean of m, if those to come are like those that
        were: each gambler goes on winning as much a value. inf: none would do; 0: it is refuted.
        """
        wealth = self._wealth(m)
        need = math.log(1 / alpha)
        if joint_capital(wealth).max() >= need:
            return 0.0
        each, now = wealth[:, -1] / len(self.x), wealth[:, -1]
        if each.max() <= 0:
            return math.inf
        low, high = 0.0, 1.0
        while (grown := float(joint_capital((now + high * each)[:, None])[0])) < need:
            low, high = high, 2 * high
            if high > MOST_MORE:
                return math.inf
        while high - low > max(0.5, 1e-3 * high):
            middle = (low + high) / 2
            grown = float(joint_capital((now + middle * each)[:, None])[0])
            low, high = (low, middle) if grown >= need else (middle, high)
        return high


def against_shares(first: np.ndarray, odds: np.ndarray, share: float) -> float:
    """The logarithm of the highest capital so far of a bet that things do not come as was said.

    Each thing is of the first kind with the probability of its log-odds, `odds` [n], and the past
    does not matter. Gamblers believe in other odds, logit(share) + bend (odds - logit(share)) +
    shift, and what each has is a ratio of likelihoods: its mean is 1 if the odds are right, so
    P( it ever reaches 1/level ) <= level.
    """
    if not len(first):
        return 0.0
    base = math.log(share / (1 - share))
    odds = np.clip(odds, -LARGEST_ODDS, LARGEST_ODDS)
    others = [base + bend * (odds - base) for bend in BENT if np.ptp(odds) or odds[0] != base]
    others += [odds + shift for shift in SHIFTED]
    right = _log_chance(first, odds)
    paths = np.stack([np.cumsum(_log_chance(first, x) - right) for x in others])
    return float(joint_capital(paths).max())


def _log_chance(first: np.ndarray, odds: np.ndarray) -> np.ndarray:
    """ln P of what each thing is."""
    return np.asarray(-np.logaddexp(0.0, -np.where(first, odds, -odds)))
