"""Labels: what the codes of states and actions stand for, and how a label is found and named."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from numbers import Number
from typing import Any

import numpy as np

from surefoot.core.errors import LogError
from surefoot.core.text import some

POLICY_COLUMNS = ("action", "probability", "baseline", "count")  # of a policy file, after the state
FORMULA = re.compile(r"'*[=+\-@\t\r]")  # how a text begins that a spreadsheet would compute
TEXT = "text of"  # (TEXT, "7") is the key of what reads as 7, beside the label itself


@dataclass(frozen=True, repr=False)
class Labels:
    """Code s stands for states[s], code a for actions[a]; a label of several columns is a tuple.

    Arrays come without labels: both are empty then, and the codes speak for themselves. The
    columns are those of the file or table that the labels were read from. Where states remember
    earlier steps, the first `now` columns are the observation of the present one. `library`: of the
    frame that they were read from, in which tables are given back.
    """

    states: tuple[Any, ...] = ()
    actions: tuple[Any, ...] = ()
    state_columns: tuple[str, ...] = ("state",)
    action_columns: tuple[str, ...] = ("action",)
    now: int = 0
    library: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return f"Labels({len(self.states)} states x {len(self.actions)} actions)"

    def same(self, other: Labels) -> bool:
        """Whether the codes of both stand for the same."""
        return (self.states, self.actions) == (other.states, other.actions)

    def state(self, s: Any) -> str:
        """A state in a sentence: 'x=2 y=1', or its code."""
        return _named(self.states, int(s))

    def action(self, a: Any) -> str:
        """An action in a sentence."""
        return _named(self.actions, int(a))

    def pair(self, s: Any, a: Any) -> str:
        """An action in a state, in a sentence."""
        return f"action {self.action(a)} in state {self.state(s)}"

    def find_state(self, label: Any) -> int | None:
        """The code of a state; None where there is no such label."""
        return match(label, self._state_places)

    def find_action(self, label: Any) -> int | None:
        """The code of an action; None where there is no such label."""
        return match(label, self._action_places)

    def state_code(self, label: Any) -> int:
        """The code of a state; an error names the nearest labels."""
        found = self.find_state(label)
        if found is None:
            raise LogError(unknown("state", label, self.states))
        return found

    def action_code(self, label: Any) -> int:
        """The code of an action; an error names the nearest labels."""
        found = self.find_action(label)
        if found is None:
            raise LogError(unknown("action", label, self.actions))
        return found

    @cached_property
    def observed(self) -> tuple[Labels, np.ndarray]:
        """(the labels of the observations, which one the states have now [S]); of states that
        remember none earlier: these labels, and themselves.
        """
        if not self.now:
            return self, np.arange(len(self.states))
        seen: dict[Any, int] = {}
        codes = [seen.setdefault(self._present(x), len(seen)) for x in self.states]
        columns = self.state_columns[: self.now]
        return Labels(tuple(seen), self.actions, columns, self.action_columns), np.array(codes)

    def _present(self, label: Any) -> Any:
        """The observation of a state that remembers."""
        if not isinstance(label, tuple):
            return label
        return label[0] if self.now == 1 else label[: self.now]

    @property
    def headers(self) -> tuple[str, ...]:
        """The names of the state's columns in result files: "state", or those of several
        columns.
        """
        wide = len(self.states[0]) if self.states and isinstance(self.states[0], tuple) else 1
        if wide == 1:
            return ("state",)
        own = self.state_columns
        own = own if len(own) == wide else tuple(f"state {i + 1}" for i in range(wide))
        return tuple(f"state {name}" if name in POLICY_COLUMNS else name for name in own)

    @cached_property
    def _state_places(self) -> dict[Any, int]:
        return places_of(self.states)

    @cached_property
    def _action_places(self) -> dict[Any, int]:
        return places_of(self.actions)


def as_text(label: Any) -> str:
    """A label as a file holds it; several columns joined by commas."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def as_cell(text: str) -> str:
    """A text as a field of a CSV file that no spreadsheet takes for a formula: one that begins
    with =, +, -, @, a tab or a carriage return, and is no number, gets an apostrophe before it.
    """
    return f"'{text}" if FORMULA.match(text) and number_said(text) is None else text


def from_cell(label: Any) -> Any:
    """The label without the apostrophe of `as_cell`."""
    if isinstance(label, tuple):
        return tuple(map(from_cell, label))
    marked = isinstance(label, str) and label.startswith("'") and FORMULA.match(label)
    return label[1:] if marked else label


def match(label: Any, places: dict[Any, int]) -> int | None:
    """The place of a label among those of `places_of`; None if it is not there.

    It is the equal one, else the only one that reads the same as text (7 and "7"), else, for a
    text, the number that it says ("1e3" and 1000). A label that `as_cell` wrote is the one that it
    was made of.
    """
    found, bare = _match(label, places), from_cell(label)
    if bare is label or bare == label:
        return found
    meant = _match(bare, places)
    if found is not None and meant is not None:
        raise LogError(
            f"{as_text(label)!r} can be itself or {as_text(bare)!r}, protected from spreadsheets:"
            " rename one of them"
        )
    return found if meant is None else meant


def _match(label: Any, places: dict[Any, int]) -> int | None:
    try:
        found = places.get(label)
    except TypeError:  # a list or a dict is no label
        return None
    if found is None:
        found = places.get((TEXT, as_text(label)))
    if found is None and isinstance(label, str) and (number := number_said(label)) is not None:
        found = places.get(number)
    return found


def places_of(labels: Iterable[Any]) -> dict[Any, int]:
    """{label: its place}, and {its text: its place} where that is unique; to be used by `match`."""
    places: dict[Any, int] = {}
    texts: dict[Any, int] = {}
    for i, label in enumerate(labels):
        places[label] = i
        key = (TEXT, as_text(label))
        texts[key] = -1 if key in texts else i
    return places | {key: i for key, i in texts.items() if i >= 0}


def in_kind_of(label: Any, labels: Sequence[Any]) -> Any:
    """A new label as a table would hold it: a number where all its labels are numbers."""
    if not isinstance(label, str) or not all(isinstance(x, Number) for x in labels):
        return label
    number = number_said(label)
    return label if number is None else number


def unknown(what: str, label: Any, labels: Iterable[Any], where: str = "the log") -> str:
    """That a label is not there, in words, with the nearest."""
    text = as_text(label)
    return f"{what} {text!r} is not in {where}; {nearest(text, map(as_text, labels))}"


def nearest(name: object, names: Iterable[object]) -> str:
    """The known names nearest to a wrong one, in words."""
    known = {str(x): None for x in names}
    close = (
        difflib.get_close_matches(str(name), known, n=3, cutoff=0.5) if len(known) <= 20_000 else []
    )
    if close:
        return f"the nearest are {', '.join(map(repr, close))}"
    return f"there are {some([repr(x[:60]) for x in known], 8)}" if known else "there are none"


def _named(labels: tuple[Any, ...], code: int) -> str:
    return repr(as_text(labels[code])) if labels else str(code)


def number_said(text: str) -> int | float | bool | None:
    """The number or truth value that a text says; None where it says none."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not re.fullmatch(
        r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text.strip(), flags=re.ASCII | re.IGNORECASE
    ):
        return None
    try:
        return int(text)
    except ValueError:
        found = float(text)
        return int(found) if found.is_integer() else found if isfinite(found) else None
