"""Labels: finding what a user wrote in a table of labels, and naming the nearest where it is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from surefoot.logs.columns import nearest


def match(label: Any, among: Sequence[Any] | dict[Any, int]) -> int | None:
    """The place of a label in a table: the equal one, or the only one that reads the same as text (7 and "7"); None if there is none."""
    places = among if isinstance(among, dict) else places_of(among)
    try:
        found = places.get(label)
    except TypeError:  # a list or a dict is no label
        return None
    return places.get(_Text(as_text(label))) if found is None else found


def places_of(labels: Iterable[Any]) -> dict[Any, int]:
    """{label: its place}, and {its text: its place} where that is unique; to be used with `match`."""
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


def as_text(label: Any) -> str:
    """A label as a file holds it; several columns joined by commas."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def unknown(label: Any, labels: Sequence[Any], what: str) -> str:
    """That a label is not in a table, in words, with the nearest."""
    return f"{what} {as_text(label)!r} is not in the log; {nearest(as_text(label), map(as_text, labels))}"
