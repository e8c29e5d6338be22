"""The return range: one source for the value of an unseen pair, for V_max and for g_max; checked
against every return of a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core import Batch
from surefoot.core.batch import LARGEST
from surefoot.errors import ProblemError
from surefoot.problems.montecarlo import discounted_returns

ROUNDING = 1e-9  # by which share of the range a sum of rewards may miss it


@dataclass(frozen=True)
class ReturnRange:
    """No return, from any state on, lies outside [lo, hi]: not those of whole episodes alone, but
    of all their later parts.

    `declared` says that the user vouches for it; otherwise it rests on observed rewards.
    """

    lo: float
    hi: float
    declared: bool

    def __post_init__(self) -> None:
        if not -LARGEST <= self.lo <= self.hi <= LARGEST:
            raise ProblemError(
                f"the return range must be finite (at most {LARGEST:g} in size) with lo <= hi, got"
                f" ({self.lo}, {self.hi})"
            )

    @property
    def width(self) -> float:
        """hi - lo."""
        return self.hi - self.lo

    @property
    def g_max(self) -> float:
        """Half the width: |return - middle| <= g_max."""
        return self.width / 2

    @property
    def v_max(self) -> float:
        """A bound on |v|."""
        return max(abs(self.lo), abs(self.hi))


def return_range(
    reward_range: tuple[float, float], gamma: float, *, has_terminal: bool, declared: bool
) -> ReturnRange:
    """[lo, hi] from the reward range: r / (1 - gamma) at both ends; with terminal states a
    return may also be a single reward.
    """
    r_min, r_max = reward_range
    if gamma == 1:
        raise ProblemError(
            "gamma = 1 needs a declared return_range=(lo, hi): no range follows from the rewards"
            " alone"
        )
    lo, hi = r_min / (1 - gamma), r_max / (1 - gamma)
    if has_terminal:
        lo, hi = min(r_min, lo), max(r_max, hi)
    return ReturnRange(lo, hi, declared)


def check_returns(log: Batch, gamma: float, declared: tuple[float, float]) -> list[str]:
    """Raise unless every return of the log, from every row on, may lie in the declared range; notes
    on what could not be checked.

    An episode that ended has the return G. One that was cut m steps later has X + gamma^m (a
    return), which lies in [lo, hi] only if the intervals [X + gamma^m lo, X + gamma^m hi] and [lo,
    hi] meet.
    """
    lo, hi = declared
    if log.contradictions():
        g, later = np.where(log.ends, log.reward, 0.0), np.where(log.ends, 0.0, 1.0)
        notes = [
            "the declared return range was checked against last steps only: rows of an episode do"
            " not follow each other"
        ]
    else:
        g, stop, notes = discounted_returns(log, gamma), np.flatnonzero(log.last)[log.episode], []
        later = np.where(log.cuts[stop], float(gamma) ** (stop - np.arange(len(log)) + 1), 0.0)
    rounding = ROUNDING * max(abs(lo), abs(hi))
    outside = np.flatnonzero((g + later * hi < lo - rounding) | (g + later * lo > hi + rounding))
    if len(outside):
        i = outside[0]
        cut = " up to a cut, and nothing that may follow would bring it back" if later[i] else ""
        raise ProblemError(
            f"return_range ({lo:g}, {hi:g}) does not hold: the return from row {log.row[i]} on is"
            f" {g[i]:g}{cut} (at least {len(outside)} such rows). It is the range of returns from"
            " any state on, not of whole episodes alone: widen it, or declare reward_range"
        )
    return notes


def pair_of_numbers(name: str, values: Any) -> tuple[float, float]:
    """`values` as (low, high), checked."""
    try:
        if isinstance(values, (str, bytes, set, frozenset, dict)):
            raise TypeError("text and unordered values are no pair")
        low, high = values
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{name} must be a pair (low, high), got {values!r}") from error
    low, high = number(name, low), number(name, high)
    if not -LARGEST <= low <= high <= LARGEST:
        raise ProblemError(
            f"{name} must be finite (at most {LARGEST:g} in size) with low <= high, got {values!r}"
        )
    return low, high


def number(name: str, value: Any, what: str = "a number") -> float:
    """`value` as a float: one real number, not text and not a flag."""
    try:
        if (
            isinstance(value, (str, bytes, bool, np.bool_))
            or np.ndim(value)
            or np.iscomplexobj(value)
            or np.ma.is_masked(value)
        ):
            raise TypeError("not one real number")
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(f"{name} must be {what}, got {value!r}") from error
