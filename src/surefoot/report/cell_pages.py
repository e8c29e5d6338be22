"""The section of a page about states that were made of measurements, and ranges of doses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from surefoot.report.cell_words import HEADER, LEGEND, TITLE, cell_rows, made_words
from surefoot.report.page import PageTable, Picture, Section
from surefoot.report.pictures import gains_picture
from surefoot.report.statements import known, sentence


def cell_sections(cells: Mapping[str, Any] | None) -> list[Section]:
    """How states were made, and what other numbers of them would give."""
    if not cells:
        return []
    said, rows = [sentence(x.words) for x in made_words(cells)], cell_rows(cells)
    caption = sentence(f"{TITLE}, {LEGEND}")
    tables = [PageTable(caption, HEADER, rows, frozenset({1, 2, 3, 4}))] * bool(rows)
    return [
        Section(
            title="States made of measurements",
            sentences=said,
            pictures=_gains(cells),
            tables=tables,
        )
    ]


def _gains(cells: Mapping[str, Any]) -> list[Picture]:
    """The gain that each number of states would give, with its interval."""
    drawn = [
        {
            "setting": f"{x['states']:,} states",
            "mean": x["gain"],
            "mean_low": x["low"],
            "mean_high": x["high"],
            "cvar": math.nan,
            "chosen": x["states"] == cells["states"],
        }
        for x in cells["tried"]
        if known(x["gain"]) and known(x["low"]) and known(x["high"])
    ]
    if len(drawn) < 2:
        return []
    caption = (
        "The gain that each number of states would give, with the mean of its 90 % intervals, by"
        " parts of the half that learns."
    )
    return [Picture(gains_picture(drawn), caption)]
