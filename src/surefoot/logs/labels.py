"""Labels: finding what a user wrote in a table of labels, and naming the nearest where it is not
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import isfinite
from numbers import Number
from typing import Any

from surefoot.core.names import as_text as as_text  # for all who use labels
from surefoot.logs.columns import nearest


def match(label: Any, among: Sequence[Any] | dict[Any, int]) -> int | None:
    """The place of a label in the table of a log; None if it is not there.

    It is the equal one, else the only one that reads the same as text (7 and "7"), else, for a
    text, the number that it says ("1e3" and 1000).
    """
    places = among if isinstance(among, dict) else places_of(among)
    try:
        found = places.get(label)
    except TypeError:  # a list or a dict is no label
        return None
    if found is None:
        found = places.get(_Text(as_text(label)))
    if found is None and isinstance(label, str) and (number := number_of(label)) is not None:
        found = places.get(number)
    return found


def number_of(text: str) -> int | float | bool | None:
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


def in_kind_of(label: Any, labels: Sequence[Any]) -> Any:
    """A label that is not in a table as the table would hold it: a text as the number it says
    where all labels are numbers.
    """
    number = (
        number_of(label)
        if isinstance(label, str) and all(isinstance(x, Number) for x in labels)
        else None
    )
    return label if number is None else number


def places_of(labels: Iterable[Any]) -> dict[Any, int]:
    """{label: its place}, and {its text: its place} where that is unique; to be used with
    `match`.
    """
    places: dict[Any, int] = {}
    texts: dict[Any, int] = {}
    for i, label in enumerate(labels):
        places[label] = i
        key = _Text(as_text(label))
        texts[key] = -1 if key in texts else i
    return places | {key: i for key, i in texts.items() if i >= 0}


class _Text(tuple[str, ...]):
    """A text that is not equal to the label it came from."""

    __slots__ = ()

    def __new__(cls, text: str) -> _Text:
        return super().__new__(cls, ("text of", text))


def unknown(label: Any, labels: Sequence[Any], what: str) -> str:
    """That a label is not in a table, in words, with the nearest."""
    return (
        f"{what} {as_text(label)!r} is not in the log;"
        f" {nearest(as_text(label), map(as_text, labels))}"
    )
