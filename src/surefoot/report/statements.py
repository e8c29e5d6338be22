"""Statements: what is said about a result, made once from its document, and shown as text, page
and JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from textwrap import wrap
from typing import Any

from surefoot.core.text import in_rows, plural

WIDE = 100  # columns of the terminal that text fills
LABEL = 10  # of them stand before the words
MOST = 8  # statements that are shown unasked
FEW = 30.0  # effective episodes below which a tenth of one is told
ASK = "--explain"
# what stands before a statement in the terminal; a kind that is not named stands there itself
LABELS: Mapping[str, str] = {
    "holds": "", "alone": "by itself", "said": "", "warning": "WARNING:", "note": "note:",
}  # fmt: skip
DOUBTS = ("unseen", "hidden", "time")  # what could undo a gain; one is the weakest point
# kinds whose every item has a label of its own where all is shown
LISTS = ("warning", "note")


@dataclass(frozen=True)
class Statement:
    """One thing that is said.

    kind     what it is about, such as "verdict"
    words    the thing itself, in one or two short sentences
    detail   what else there is to say of it, a sentence or more each
    first    whether it is shown unasked; all of it is shown with --explain, and on the page
    in_full  the detail says all of the words again, at length, and stands in their place
    """

    kind: str
    words: str
    detail: tuple[str, ...] = ()
    first: bool = True
    in_full: bool = False

    @property
    def whole(self) -> tuple[str, ...]:
        """All that is said, without saying it twice."""
        return self.detail if self.in_full else (self.words, *self.detail)


def text(statements: Iterable[Statement], *, explain: bool = False) -> str:
    """The statements for the terminal: those to be read first, or all of them and all of each."""
    told = list(statements)
    lines: list[str] = []
    before = ""
    for x in told if explain else _to_be_read_first(told):
        said, label = x.whole if explain else (x.words,), _label(x)
        for i, words in enumerate(said):
            shown_label = label if label != before or x.kind in LISTS else x.kind * explain
            lines += _laid_out(shown_label if i == 0 or x.kind in LISTS else "", words)
        before = label
    return "\n".join(lines)


def _label(x: Statement) -> str:
    """What stands before a statement."""
    return "weakest" if x.kind in DOUBTS and x.first else LABELS.get(x.kind, x.kind)


def _laid_out(label: str, words: str) -> list[str]:
    """Words beside their label, in lines that are not too long."""
    first, later = f"{label:{LABEL - 1}} ", " " * LABEL
    return wrap(
        words, WIDE, initial_indent=first, subsequent_indent=later,
        break_long_words=False, break_on_hyphens=False,
    ) or [first.rstrip()]  # fmt: skip


def _to_be_read_first(statements: Sequence[Statement]) -> list[Statement]:
    """Those that are shown unasked; the last says how much is not shown, and how to see it."""
    *shown, last = (x for x in statements if x.first)
    notes = sum(len(x.whole) for x in statements if x.kind == "note")
    more = f"{plural(notes, 'note')} and more" if notes else "more"
    some = notes or (ASK not in last.words and any(x.detail or not x.first for x in statements))
    hint = f" ({more}: {ASK})" if some else ""
    return [*shown, replace(last, words=last.words + hint)]


def documents(statements: Iterable[Statement]) -> list[dict[str, Any]]:
    """The statements as data for machines."""
    return [asdict(x) | {"detail": list(x.detail)} for x in statements]


def of_kind(statements: Iterable[Statement], *kinds: str) -> tuple[Statement, ...]:
    """Those of these kinds."""
    return tuple(x for x in statements if x.kind in kinds)


def in_terms_of(log: Mapping[str, Any], statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """The statements about a log; of rows where every row is a decision by itself."""
    if not log.get("bandit"):
        return tuple(statements)
    return tuple(
        replace(x, words=in_rows(x.words), detail=tuple(map(in_rows, x.detail))) for x in statements
    )


def listed(kind: str, items: Sequence[str], words: str = "", *, first: bool = False) -> Statement:
    """A statement that is a list; `words` are its short form."""
    return Statement(kind, words or f"{len(items):,}", tuple(items), first, in_full=True)


def known(x: float | None) -> bool:
    """Whether there is such a number; files have null for one that is infinite or none."""
    return x is not None and math.isfinite(x)


def weights_words(found: Mapping[str, Any]) -> str:
    """How much evidence weights leave of the episodes that were weighted."""
    few, largest = found["effective_episodes"], found["largest_weight"]
    size = f"{few:,.{0 if few >= FEW else 1}f}"
    heaviest = f"{largest:.3g}" if known(largest) else "beyond any number"
    return f"as good as {size} of {found['episodes']:,} episodes; the largest weight is {heaviest}"


def sentence(words: str) -> str:
    """With a full stop, and a capital letter unless it begins with the name of a file."""
    words = words.strip().rstrip(".")
    first = words if re.match(r"\S*\w\.[a-z]", words) else f"{words[:1].upper()}{words[1:]}"
    return f"{first}."
