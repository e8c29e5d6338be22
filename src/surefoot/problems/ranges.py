"""The return range: one source for the value of an unseen pair, for V_max and for g_max."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.batch import LARGEST
from surefoot.errors import ProblemError


@dataclass(frozen=True)
class ReturnRange:
    """No return lies outside [lo, hi]. `declared` says that the user vouches for it; otherwise it rests on observed rewards."""

    lo: float
    hi: float
    declared: bool

    def __post_init__(self) -> None:
        if not -LARGEST <= self.lo <= self.hi <= LARGEST:
            raise ProblemError(f"the return range must be finite (at most {LARGEST:g} in size) with lo <= hi, got ({self.lo}, {self.hi})")

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


def return_range(reward_range: tuple[float, float], gamma: float, *, has_terminal: bool, declared: bool) -> ReturnRange:
    """[lo, hi] from the reward range: r / (1 - gamma) at both ends; with terminal states a return may also be a single reward."""
    r_min, r_max = reward_range
    if gamma == 1:
        raise ProblemError("gamma = 1 needs a declared return_range=(lo, hi): no range follows from the rewards alone")
    lo, hi = r_min / (1 - gamma), r_max / (1 - gamma)
    if has_terminal:
        lo, hi = min(r_min, lo), max(r_max, hi)
    return ReturnRange(lo, hi, declared)


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
        raise ProblemError(f"{name} must be finite (at most {LARGEST:g} in size) with low <= high, got {values!r}")
    return low, high


def number(name: str, value: Any, what: str = "a number") -> float:
    """`value` as a float: one real number, not text and not a flag."""
    try:
        if isinstance(value, (str, bytes, bool, np.bool_)) or np.ndim(value) or np.iscomplexobj(value) or np.ma.is_masked(value):
            raise TypeError("not one real number")
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(f"{name} must be {what}, got {value!r}") from error
