"""Guards and groups on a page: one table and a forest plot, beside the whole."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from surefoot.report.log_words import in_unit
from surefoot.report.page import PageTable, Picture, Section, signed_number
from surefoot.report.part_words import HEADINGS, KINDS, part_rows, unit_of
from surefoot.report.pictures import Change, Panel, forest_picture
from surefoot.report.statements import Statement, known, sentence

Ends = tuple[float, float | None, float | None]  # a gain, and what it is at least and at most
CAPTION = (
    "Dot: the change on average; bar: what it is at least and at most; dashed: no change; dotted:"
    " the most that may be lost."
)
GUARDS = "Guards are further outcomes that must not get worse by more than is allowed."
GROUPS = "Groups must not lose; their gains are{}."
TESTED = "All is measured on data that the policy was not made from: tested on so many {}."


def part_section(
    title: str, document: Mapping[str, Any], said: Statement, whole: Ends | None
) -> Section:
    """What is said of guards and groups, with a table and a picture; `whole`: the gain for all."""
    rows = [
        (row[0], *(cell.replace("-", "\u2212") for cell in row[1:4]), *row[4:])
        for row in part_rows(document)
    ]
    panels, log = _panels(document, whole), document["log"]
    guards, groups = (document.get(many, ()) for _, many in KINDS)
    units = in_unit(log).removeprefix(",") or " in the unit of the reward"
    words = [GUARDS] * bool(guards) + [GROUPS.format(units)] * bool(groups)
    caption = " ".join([*words, TESTED.format(unit_of([*guards, *groups][0]))])
    return Section(
        title=title,
        sentences=[sentence(said.words)],
        pictures=[Picture(forest_picture(panels), CAPTION)] if panels else [],
        tables=[PageTable(caption, ("who or what", *HEADINGS), rows, frozenset(range(1, 6)))],
    )


def _panels(document: Mapping[str, Any], whole: Ends | None) -> list[Panel]:
    """One for the reward, and one for each guard."""
    log = document["log"]
    lines = [] if whole is None else [Change("everybody", *whole)]
    lines += [_line("group", x) for x in document.get("groups", ()) if known(x["change"])]
    found = [Panel(f"gain{in_unit(log)}", lines, partial(signed_number, log=log))] if lines else []
    return found + [
        Panel(
            f"{x['name']}, change", [_line("guard", x)], signed_number, falls=x["better"] == "lower"
        )
        for x in document.get("guards", ())
        if known(x["change"])
    ]


def _line(kind: str, x: Mapping[str, Any]) -> Change:
    """A guard or a group in the plot."""
    lost = x["tolerance"]
    limit = None if not lost or not known(lost) else lost if x["better"] == "lower" else -lost
    name = f"group {x['name']}" if kind == "group" else x["name"]
    return Change(name, x["change"], x["low"], x["high"], limit)
