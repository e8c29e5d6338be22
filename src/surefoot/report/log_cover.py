"""What the log of an improvement covers: how often pairs were seen, what of both policies rests on
them, and where the baseline goes and the log does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.report.folder import StateRecord
from surefoot.report.page import percent
from surefoot.report.pictures import ShareRow
from surefoot.report.sections_page import PageTable
from surefoot.text import plural

SEEN = ((0, 0), (1, 1), (2, 3), (4, 10), (11, 30), (31, 100), (101, None))
MOST_GAPS = 10  # pairs that are named


@dataclass(frozen=True)
class CoverageRow:
    """Pairs seen so often, and the share of the decisions of both policies that rest on them."""

    seen: str
    pairs: int
    baseline: float
    candidate: float

    @property
    def drawn(self) -> ShareRow:
        """The row of the picture."""
        return ShareRow(
            f"{self.seen} ({plural(self.pairs, 'pair')})", self.baseline, self.candidate
        )


def coverage(states: Sequence[StateRecord]) -> list[CoverageRow]:
    """How often pairs were seen, with the decisions that rest on them."""
    total = sum(state.visits for state in states) or 1
    found = []
    for low, high in SEEN:
        pairs, baseline, candidate = 0, 0.0, 0.0
        for state in states:
            for pair in state.pairs:
                if pair.count >= low and (high is None or pair.count <= high):
                    pairs += 1
                    baseline += state.visits * pair.baseline
                    candidate += state.visits * pair.candidate
        words = "never" if high == 0 else f"{low:,} times or more" if high is None else ""
        words = words or ("once" if high == 1 else f"{low} to {high} times")
        found.append(CoverageRow(words, pairs, baseline / total, candidate / total))
    return found


def coverage_table(rows: Sequence[CoverageRow]) -> PageTable:
    """The same in numbers."""
    return PageTable(
        "How often the pairs of a visited state and an action were seen, and how many of the"
        " decisions of both policies rest on them.",
        ("seen", "pairs", "baseline", "candidate"),
        [
            (row.seen, f"{row.pairs:,}", percent(row.baseline), percent(row.candidate))
            for row in rows
        ],
        frozenset({1, 2, 3}),
    )


def gaps(states: Sequence[StateRecord]) -> PageTable | None:
    """Actions of the baseline that the log never shows in a visited state; None without any."""
    total = sum(state.visits for state in states) or 1
    found = [
        (state.visits * pair.baseline / total, state, pair)
        for state in states
        for pair in state.pairs
        if pair.count == 0 and pair.baseline > 0
    ]
    if not found:
        return None
    found.sort(key=lambda x: -x[0])
    whole = sum(x[0] for x in found)
    named = "all of them" if len(found) <= MOST_GAPS else f"the {MOST_GAPS} largest"
    return PageTable(
        f"{plural(len(found), 'pair')} with {percent(whole)} of the baseline's decisions; {named}."
        " Nothing can be learned about them, and the candidate leaves them as they are.",
        ("state", "action", "baseline", "visits of the state", "share of all decisions"),
        [
            (state.label, pair.action, percent(pair.baseline), f"{state.visits:,}", percent(share))
            for share, state, pair in found[:MOST_GAPS]
        ],
        frozenset({2, 3, 4}),
    )
