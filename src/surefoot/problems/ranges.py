"""The return range, behind lo, V_max and g_max; checked against every return of a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.core import Batch
from surefoot.core.array_checks import LARGEST, pair_of_numbers
from surefoot.core.errors import ProblemError
from surefoot.problems.given import Counted
from surefoot.problems.montecarlo import discounted_returns

ROUNDING = 1e-9  # by which share of the range a sum of rewards may miss it


@dataclass(frozen=True)
class ReturnRange:
    """No return, from any state on, lies outside [lo, hi]: not those of whole episodes alone, but
    of all their later parts.

    `declared`: the user answers for it; otherwise it rests on observed rewards, or on
    the observed lengths of steps.
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
    def middle(self) -> float:
        """(lo + hi) / 2."""
        return 0.5 * (self.lo + self.hi)

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
    """r / (1 - gamma) at both ends; with terminal states a return may be a single reward."""
    r_min, r_max = reward_range
    if gamma == 1:
        raise ProblemError(
            "gamma = 1 needs a declared --return-range lo,hi (return_range=(lo, hi) in Python): no"
            " range follows from the rewards alone"
        )
    lo, hi = r_min / (1 - gamma), r_max / (1 - gamma)
    if has_terminal:
        lo, hi = min(r_min, lo), max(r_max, hi)
    return ReturnRange(lo, hi, declared)


def checked_ranges(
    data: Counted,
    gamma: float,
    table: np.ndarray | None,
    reward_range: Any,
    return_range: Any,
    notes: list[str],
) -> tuple[tuple[float, float], ReturnRange]:
    """(reward range, return range) of a counted log, checked in every row there is."""
    if reward_range is not None and data.batch is not None:
        _check_rewards(data.batch, pair_of_numbers("reward_range", reward_range))
    if return_range is not None:
        declared = pair_of_numbers("return_range", return_range)
        if data.blocks is None:
            notes.append(_check_last_rewards(data, *declared))
        else:
            found = (check_returns(block, gamma, declared) for block in data.blocks)
            notes += sorted({note for said in found for note in said})
    has_terminal = bool(data.terminal.any())
    if reward_range is None and return_range is None and table is None:
        low, high = data.rewards
        notes.append(
            f"the reward range [{low:g}, {high:g}] is observed, not declared: values of unseen"
            " pairs rest on it"
        )
    rewards, returns = found_ranges(
        data.rewards, gamma, table, reward_range, return_range, has_terminal
    )
    if return_range is None and data.batch is not None and data.batch.survives is not None:
        notes.append(
            "the return range rests on the shortest step of the log, which others may be below:"
            " declare return_range to be sure"
        )
        returns = replace(returns, declared=False)
    return rewards, returns


def found_ranges(
    seen: tuple[float, float],
    gamma: float,
    table: np.ndarray | None,
    reward_range: Any,
    returns: Any,
    has_terminal: bool,
) -> tuple[tuple[float, float], ReturnRange]:
    """(reward range, return range), declared or observed; `seen`: least and largest reward."""
    spans = {"rewards go": seen}
    if table is not None:
        spans["reward_table goes"] = (float(table.min()), float(table.max()))
    rewards = min(low for low, _ in spans.values()), max(high for _, high in spans.values())
    if reward_range is not None:
        rewards = pair_of_numbers("reward_range", reward_range)
    for what, (least, most) in spans.items():
        if least < rewards[0] or most > rewards[1]:
            raise ProblemError(
                f"reward_range {rewards} does not hold: {what} from {least:g} to {most:g}"
            )
    if returns is not None:
        return rewards, ReturnRange(*pair_of_numbers("return_range", returns), declared=True)
    declared = reward_range is not None or table is not None
    return rewards, return_range(rewards, gamma, has_terminal=has_terminal, declared=declared)


def _check_rewards(batch: Batch, declared: tuple[float, float]) -> None:
    """Raise unless every reward lies in the declared range; the first row outside is named."""
    low, high = declared
    outside = np.flatnonzero((batch.reward < low) | (batch.reward > high))
    if len(outside):
        raise ProblemError(
            f"reward_range {(low, high)} does not hold: row {batch.row[outside[0]]} has reward"
            f" {batch.reward[outside[0]]} ({len(outside)} such rows)"
        )


def _check_last_rewards(data: Counted, lo: float, hi: float) -> str:
    """Raise unless the mean rewards of last steps lie in the range; the note on that."""
    n, r = data.counts.n_sas, data.counts.r_sas
    if data.counts.is_sparse:
        there = data.terminal[n.indices]
        n, r = n.data, r.data
    else:
        there = (n > 0) & data.terminal
    last = r[there] / n[there]
    if len(last) and (last.min() < lo or last.max() > hi):
        raise ProblemError(
            f"return_range ({lo:g}, {hi:g}) does not hold: the mean rewards of steps that end an"
            f" episode, which are their returns, go from {last.min():g} to {last.max():g}"
        )
    return (
        "the declared return range was checked against last steps only: the rows were not read"
        " again"
    )


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
        g, stop, notes = discounted_returns(log, gamma), log.stop, []
        rows = np.arange(len(log))
        later = log.discounts_over(float(gamma), rows, stop - rows + 1)
        later = np.where(log.cuts[stop], later, 0.0)
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
