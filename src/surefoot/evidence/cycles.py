"""Regeneration cycles: one trajectory that keeps coming back to a state falls into independent
stretches between its visits there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surefoot.core import Batch
from surefoot.problems.montecarlo import discounted_returns, separation

LEARNING = 0.1  # the share of a trajectory that is spent on choosing the state, and then left out
ROUNDS = 10  # how often the interval of v* is made smaller; it is valid after each


@dataclass(frozen=True, repr=False)
class Cycles:
    """First visits of pairs in completed cycles, in order of time: X, the discounted rewards up to
    the return to s*, and D = gamma^steps; `row` says where in the log each is.

    q^{pi_b}(s, a) = E X + v* E D  with  v* = v^{pi_b}(s*). The visits that begin a cycle in s* are
    apart: of these, v* = E X + v* E D.
    """

    pair: np.ndarray
    x: np.ndarray
    d: np.ndarray
    star_x: np.ndarray
    star_d: np.ndarray
    row: np.ndarray

    def value_of_star(
        self, lo: float, hi: float, radius: Callable[[np.ndarray], float]
    ) -> tuple[float, float]:
        """An interval for v*: the v in [lo, hi] with  |mean(X) - v (1 - mean(D))| <= radius of the
        draws X + v D.

        Their variance is convex in v, so over an interval it is largest at an end. From [lo, hi]
        on, the larger radius of the two ends gives a smaller interval, and so on; where the radius
        holds for X + v* D, none of them loses v*.
        """
        low, high = lo, hi
        if len(self.star_x) == 0:
            return low, high
        mean, rest = float(self.star_x.mean()), 1 - float(self.star_d.mean())
        for _ in range(ROUNDS):
            r = max(radius(self.star_x + v * self.star_d) for v in (low, high))
            low, high = max(low, (mean - r) / rest), min(high, (mean + r) / rest)
            if not low <= high:  # no v fits: the radius does not hold for this log
                return lo, hi
        return low, high


def learning_steps(log: Batch) -> int:
    """How many steps are spent on choosing s*: by the length of the trajectory alone."""
    return int(np.ceil(LEARNING * len(log)))


def star_of(log: Batch) -> int:
    """s*: the state seen most in the first steps of the trajectory."""
    return int(np.bincount(log.state[: learning_steps(log)]).argmax())


def comes_back(log: Batch, gamma: float) -> bool:
    """Whether, in the first steps, s* came back sooner on average than returns take to separate."""
    begin = learning_steps(log)
    returns = int((log.state[:begin] == star_of(log)).sum()) - 1
    return begin < separation(gamma) * returns


def cycles_of(log: Batch, gamma: float, span: tuple[int, int] | None = None) -> Cycles:
    """The cycles of one trajectory, without its first steps; or those of the rows of a span.

    s* is chosen by what came before, so what follows is a trajectory from where the first steps
    stopped, whatever they chose.
    """
    begin, n = (learning_steps(log), len(log)) if span is None else span
    size = log.n_states * log.n_actions
    # where steps take unequal time nobody knows how long the last one of the log took
    after = -1 if n == len(log) and log.survives is not None else log.next_state[n - 1]
    states = np.append(log.state[begin:n], after)
    back = begin + np.flatnonzero(states == star_of(log))  # times in s*, n among them
    pair = log.pair
    cycle = np.searchsorted(back, np.arange(begin, n), side="right")
    first = np.unique(cycle * size + pair[begin:n], return_index=True)[1]
    first = begin + np.sort(first[cycle[first] < len(back)])  # the last cycle is not complete
    g = np.append(discounted_returns(log, gamma), 0.0)

    def until_back(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        end = back[np.searchsorted(back, at, side="right")]
        d = log.discounts_over(gamma, at, end - at)
        return g[at] - d * g[end], d

    return Cycles(pair[first], *until_back(first), *until_back(back[:-1]), first)
