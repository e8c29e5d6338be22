"""What is said of states that were made of measurements, and of ranges of doses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from surefoot.core.text import aligned, plural, signed
from surefoot.report.statements import Statement, known

TITLE = "what finer or coarser states would give (* taken)"
HEADER = ("states", "rows a state", "gain", "at least", "returns within")
LEGEND = (
    "judged within the half that learns: one part of it learns, another tests. returns within: the"
    " share of the variance of returns that lies within states, so that no policy over them can use"
    " it (100 % or more: the states say nothing about what follows)"
)


def cell_rows(cells: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row of text for each number of states that was compared."""
    return [
        (
            f"{x['states']:,}{' *' * (x['states'] == cells['states'])}",
            f"{x['rows']:,.0f}",
            *(signed(x[end]) if known(x[end]) else "-" for end in ("gain", "low")),
            f"{x['left']:.0%}" if known(x["left"]) else "-",
        )
        for x in cells["tried"]
    ]


def cells_lines(cells: Mapping[str, Any]) -> Iterator[str]:
    """The table for people."""
    yield from (x.words for x in made_words(cells))
    rows = cell_rows(cells)
    if rows:
        yield f"{TITLE}:"
        yield from aligned([("", *HEADER), *(("", *row) for row in rows)], "<>>>>>")
        yield LEGEND


def cell_statements(cells: Mapping[str, Any] | None) -> list[Statement]:
    """The same as statements, shown with --explain."""
    if not cells:
        return []
    rows = cell_rows(cells)
    told = tuple(", ".join(f"{x} {y}" for x, y in zip(HEADER, row, strict=True)) for row in rows)
    table = [Statement("states", f"{TITLE}, {LEGEND}", told, first=False)] if rows else []
    return [*made_words(cells), *table]


def made_words(cells: Mapping[str, Any]) -> list[Statement]:
    """What was made, in a sentence each."""
    found = []
    if cells["features"]:
        names = ", ".join(cells["features"])
        words = f"{plural(cells['states'], 'state')} made of {names}, by the half that learns"
        found.append(Statement("states", words, first=False))
    if cells["actions"]:
        made = cells["actions"]
        shown = ", ".join(f"{dose:g} for '{label}'" for label, dose in made["doses"].items())
        words = (
            f"actions are {'ranges' if made['ranges'] else 'the values'} of {made['column']}; a"
            f" controller writes the median dose of the log: {shown}"
        )
        found.append(Statement("states", words, first=False))
    if cells["baseline_by_row"]:
        words = (
            "the baseline goes by more than the state: where nothing changes, exports say 'as"
            " before', and leave the decision to it"
        )
        found.append(Statement("states", words, first=False))
    return found
