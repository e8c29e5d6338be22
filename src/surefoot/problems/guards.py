"""Guards: further columns of a log, each to be no worse than under the baseline; and the problem
in which such a column is the reward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefoot.core import Batch
from surefoot.core.errors import NotAvailableError, ParameterError, ProblemError
from surefoot.core.evidence import GUARD, HIGHER, LOWER, Part
from surefoot.problems.problem import Problem
from surefoot.problems.ranges import ReturnRange, return_range

FORM = "COLUMN:lower or COLUMN:higher, then :TOLERANCE and :LOW,HIGH if you like"
EXAMPLE = "such as cost:lower, or readmitted:lower:0.01:0,1"


@dataclass(frozen=True, kw_only=True)
class Guard:
    """A column whose discounted sum must not get worse; `place` is its name in `Batch.beside`.

    direction   "lower" or "higher": which is better
    tolerance   the largest loss that counts as none, in units of the discounted sum of the column
                from the start on
    declared    (lowest, highest) possible value in a row; None: as observed
    """

    column: str
    direction: str
    tolerance: float = 0.0
    declared: tuple[float, float] | None = None
    place: str = "g0"

    def __post_init__(self) -> None:
        if self.direction not in (LOWER, HIGHER):
            raise ParameterError(
                f"a guard is {FORM}, {EXAMPLE}: {self.column!r} has the direction"
                f" {self.direction!r}"
            )
        if not 0 <= self.tolerance < math.inf:
            raise ParameterError(
                f"the tolerance of a guard is a loss that would not matter, a number >= 0; that of"
                f" {self.column!r} is {self.tolerance:g}"
            )
        if self.declared is not None and not self.declared[0] <= self.declared[1]:
            raise ParameterError(
                f"the range of the guard {self.column!r} must be LOW,HIGH, got {self.declared}"
            )

    @property
    def sign(self) -> float:
        """1, or -1 where lower is better: times this, more is better."""
        return 1.0 if self.direction == HIGHER else -1.0

    @property
    def part(self) -> Part:
        """What a row of evidence about it is about."""
        return Part(
            kind=GUARD, name=self.column, direction=self.direction, tolerance=self.tolerance
        )

    def __str__(self) -> str:
        words = [self.column, self.direction]
        if self.tolerance or self.declared:
            words.append(f"{self.tolerance:g}")
        if self.declared:
            words.append(",".join(f"{x:g}" for x in self.declared))
        return ":".join(words)


def guards_of(texts: Iterable[str | Guard]) -> tuple[Guard, ...]:
    """Guards as users write them, in order: "cost:lower", "readmitted:lower:0.01:0,1"."""
    found = [x if isinstance(x, Guard) else _parsed(x) for x in texts]
    names = [x.column for x in found]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ParameterError(f"the column {twice[0]!r} is guarded twice: say it once")
    return tuple(replace(x, place=f"g{i}") for i, x in enumerate(found))


def directed(text: str) -> tuple[str, str, list[str]]:
    """(column, direction, what follows) of COLUMN:lower or COLUMN:higher; the direction is "" where
    there is none. The name of the column may have colons of its own.
    """
    parts = text.split(":")
    at = next((i for i in range(len(parts) - 1, 0, -1) if parts[i] in (LOWER, HIGHER)), None)
    if at is None or not parts[0]:
        return text, "", []
    return ":".join(parts[:at]), parts[at], parts[at + 1 :]


def _parsed(text: str) -> Guard:
    """One guard."""
    column, direction, rest = directed(text)
    if not direction:
        parts = text.split(":")
        neither = f", and {parts[1]!r} is neither" if len(parts) > 1 else ""
        raise ParameterError(f"--guard takes {FORM}, {EXAMPLE}, got {text!r}{neither}")
    try:
        tolerance = float(rest[0]) if rest else 0.0
        declared = tuple(float(x) for x in rest[1].split(",")) if len(rest) > 1 else None
        if len(rest) > 2 or (declared is not None and len(declared) != 2):
            raise ValueError
    except ValueError as error:
        raise ParameterError(f"--guard takes {FORM}, {EXAMPLE}, got {text!r}") from error
    low_high = None if declared is None else (declared[0], declared[1])
    return Guard(column=column, direction=direction, tolerance=tolerance, declared=low_high)


def with_guards(problem: Problem, guards: Sequence[str | Guard]) -> Problem:
    """The problem of a log whose guarded columns are, in order, those of `guards`."""
    found = guards_of(guards)
    log = rows_with(problem, "guards") if found else problem.log
    held = [] if log is None else [x for x in log.beside if x[0] == "g" and x[1:].isdigit()]
    if len(held) != len(found):
        raise ProblemError(
            f"the log was read with {len(held)} guarded columns and {len(found)} guards are given:"
            " name the same columns, in the same order"
        )
    made = replace(problem, guards=found)
    for guard in found:
        guard_problem(made, guard)  # its range holds
    return made


def rows_with(problem: Problem, what: str) -> Batch:
    """The rows of a problem; raise where they are not in memory."""
    if problem.log is None:
        raise NotAvailableError(
            f"{what} need the rows of the log in memory (up to 2,000,000, not counted on a"
            " cluster): take a part of its episodes"
        )
    return problem.log


def guard_problem(problem: Problem, guard: Guard) -> Problem:
    """The problem in which the guarded column, turned so that more is better, is the reward."""
    log = rows_with(problem, "guards")
    column = log.beside[guard.place].astype(float)
    low, high = (float(column.min()), float(column.max())) if len(column) else (0.0, 0.0)
    if guard.declared is not None:
        outside = np.flatnonzero((column < guard.declared[0]) | (column > guard.declared[1]))
        if len(outside):
            raise ProblemError(
                f"the range {guard.declared} of the guard {guard.column!r} does not hold: row"
                f" {log.row[outside[0]]} has {column[outside[0]]:g} ({len(outside)} such rows)"
            )
        low, high = guard.declared
    rewards = min(guard.sign * low, guard.sign * high), max(guard.sign * low, guard.sign * high)
    made = replace(
        problem,
        guards=(),
        reward_table=None,
        reward_range=rewards,
        rewards_declared=guard.declared is not None,
        return_range=_returns(problem, rewards, log, declared=guard.declared is not None),
    )
    return made.with_log(replace(log, reward=guard.sign * column))


def _returns(
    problem: Problem, rewards: tuple[float, float], log: Batch, *, declared: bool
) -> ReturnRange:
    """What returns the values of a row allow; at gamma = 1, over episodes as long as those seen."""
    if problem.gamma < 1:
        return return_range(rewards, problem.gamma, has_terminal=True, declared=declared)
    longest = int(log.time.max()) + 1
    lo, hi = min(0.0, longest * rewards[0]), max(0.0, longest * rewards[1])
    return ReturnRange(lo, hi, declared=declared)
