"""Guards and groups on the held-out half, as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from surefoot.advice.gain import FEWEST_UNITS
from surefoot.core.evidence import GROUP, GUARD, Evidence

HOLDS, TOO_SMALL, NOT_SHOWN, NOT_TESTED = "no worse", "too small", "not shown", "not tested"


def gate_summary(row: Evidence) -> dict[str, Any]:
    """A row as data for machines, in the unit of its column: `low` <= `change` <= `high`."""
    part, turned = row.part, row.in_unit_of_column
    word = HOLDS if row.holds else NOT_SHOWN
    if not row.tested:
        word = TOO_SMALL if row.units < FEWEST_UNITS else NOT_TESTED
    return {
        "name": part.name,
        "better": part.direction,
        "tolerance": part.tolerance if part.tolerance < math.inf else None,
        "verdict": word,
        "holds": row.holds,
        "range_seen": None if row.within is None else list(row.within),
        "shown": row.shown or None,
        "change": turned.estimate,
        "low": turned.low,
        "high": turned.high,
        "low_of_all": turned.together[0],
        "high_of_all": turned.together[1],
        "delta": row.delta,
        "unseen_could_cost": row.unseen,
        "explained_by_time_and_past": row.explained,
        "units_tested": row.units,
        "unit": row.unit,
        "share_checked": row.checked,
    }


def gates_summary(rows: Sequence[Evidence]) -> dict[str, Any]:
    """`guards` and `groups` for summary.json."""
    return {
        f"{kind}s": [gate_summary(x) for x in rows if x.part.kind == kind]
        for kind in (GUARD, GROUP)
    }
