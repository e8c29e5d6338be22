"""Accounting: every row of a log is used, or left out for a reason that has a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from surefoot.errors import LogError, SurefootError, UnknownNameError

CUT = "cut"  # the last row of an episode that did not end: without next_state it leads nowhere
# the row after it has no state, so it leads nowhere (only where bad rows are dropped)
NO_SUCCESSOR = "no-successor"

# What makes a row bad, in the order in which it is looked for: a row with two faults is counted
# under the first.
REASONS = {
    "broken-row": "rows that could not be split into the columns of the header",
    "episode": "rows without an episode",
    "time": "rows whose time is missing or unreadable",
    "state": "rows without a state",
    "action": "rows without an action",
    "action-not-allowed": "rows with an action outside the allowed set",
    "reward": "rows whose reward is not a finite number",
    "flag": "rows whose terminal or truncated flag is unreadable",
    "both-flags": "rows flagged both terminal and truncated",
    "next-state": "rows without a next_state that are not flagged terminal",
    "duplicate": "rows that repeat an (episode, time)",
    "backwards": "rows whose time does not lie after that of the row before",
    "after-end": "rows that follow a terminal or truncated step of their episode",
    "contradiction": "rows whose next_state is not the state of the following row",
}
OTHER = {
    CUT: "last rows of cut episodes, which lead nowhere without next_state",
    NO_SUCCESSOR: "rows whose following row was left out, so that their successor is unknown",
}


@dataclass(frozen=True)
class Accounting:
    """rows = used + the sum of left_out, always: `left_out` holds (reason, number of rows), reasons
    as in REASONS and OTHER.

    filled      rows without a reward, which counts as the `missing_reward` that was given
    put_right   steps back in a time without UTC offset, which sorting put in order
    nameless    episodes whose name reads like a missing value
    size_used, size_left_out   sums of |reward| of the rows used, and of the rows left out whose
                               reward can be read
    """

    rows: int
    used: int
    left_out: tuple[tuple[str, int], ...] = ()
    filled: int = 0
    put_right: int = 0
    nameless: int = 0
    size_used: float = field(default=0.0, compare=False)  # a sum of floats depends on the threads
    size_left_out: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        unknown = [reason for reason, _ in self.left_out if reason not in REASONS | OTHER]
        if unknown or min((self.rows, self.used, *(n for _, n in self.left_out))) < 0:
            raise SurefootError(
                f"an accounting needs known reasons and numbers >= 0, got {self.left_out}"
            )
        if self.rows != self.used + self.n_left_out:
            raise SurefootError(
                f"rows do not add up: {self.rows} read, {self.used} used, {self.n_left_out} left"
                " out; this is a fault of surefoot, please report it with the log's first rows"
            )

    @property
    def n_left_out(self) -> int:
        """The number of rows left out."""
        return sum(n for _, n in self.left_out)

    def left_out_as(self, reason: str) -> int:
        """The number of rows left out for this reason."""
        return dict(self.left_out).get(reason, 0)

    def __add__(self, other: Accounting) -> Accounting:
        """The rows of both logs."""
        if not isinstance(other, Accounting):
            return NotImplemented
        return accounting(
            self.rows + other.rows,
            self.used + other.used,
            {r: self.left_out_as(r) + other.left_out_as(r) for r in REASONS | OTHER},
            **{x: getattr(self, x) + getattr(other, x) for x in EXTRAS},
        )

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows read, {self.used:,} used, {self.n_left_out:,} left out"]
        lines += [f"  {n:,} {(REASONS | OTHER)[reason]}" for reason, n in self.left_out]
        return "\n".join(lines)


EXTRAS = tuple(f.name for f in fields(Accounting) if f.name not in ("rows", "used", "left_out"))


def accounting(rows: int, used: int, left_out: dict[str, int], **extras: Any) -> Accounting:
    """An Accounting with the reasons that occur, in their fixed order."""
    return Accounting(
        rows, used, tuple((r, left_out[r]) for r in REASONS | OTHER if left_out.get(r)), **extras
    )


def in_words(left_out: dict[str, int]) -> str:
    """How many rows were left out and why."""
    return "; ".join(
        f"{left_out[r]:,} {words}" for r, words in (REASONS | OTHER).items() if left_out.get(r)
    )


def droppable(choice: bool | str | Iterable[str]) -> frozenset[str]:
    """The reasons whose rows may be dropped: none, all, or those named."""
    if isinstance(choice, bool):
        return frozenset(REASONS if choice else ())
    try:
        named = [choice] if isinstance(choice, str) else list(choice)
    except TypeError as error:
        raise LogError(
            f"drop_bad_rows must be True, False or names of reasons, got {choice!r}"
        ) from error
    for name in named:
        if not isinstance(name, str) or name not in REASONS:
            raise UnknownNameError(
                f"drop_bad_rows knows the reasons {', '.join(REASONS)}; got {name!r}"
            )
    return frozenset(named)
