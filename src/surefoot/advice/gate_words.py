"""Rows about guards and groups, as data for machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from surefoot.advice.gain import FEWEST_UNITS
from surefoot.core.evidence import GROUP, GUARD, Evidence

HOLDS, TOO_SMALL, NOT_SHOWN, NOT_TESTED = "no worse", "too small", "not shown", "not tested"


def parts_summary(rows: Sequence[Evidence], *, safety: bool = False) -> dict[str, Any]:
    """`guards` and `groups`; those of a safety test may be worse, and hold within what was seen."""
    return {
        f"{kind}s": [_summary(x, safety) for x in rows if x.part.kind == kind]
        for kind in (GUARD, GROUP)
    }


def _summary(row: Evidence, safety: bool) -> dict[str, Any]:
    """A row in the unit of its column: `low` <= `change` <= `high`."""
    part, turned = row.part, row.in_unit_of_column
    holds = row.holds_within if safety else row.holds
    word = HOLDS if holds else NOT_SHOWN
    if not row.tested:
        word = TOO_SMALL if not safety and row.units < FEWEST_UNITS else NOT_TESTED
    elif safety and row.worse:
        word = "worse"
    found = {
        "name": part.name,
        "better": part.direction,
        "tolerance": part.tolerance if part.tolerance < math.inf else None,
        "verdict": word,
        "holds": holds,
        "change": turned.estimate,
        "low": turned.low,
        "high": turned.high,
    }
    if safety:
        return found | {"episodes_tested": row.units, "trouble": row.trouble or None}
    return found | {
        "range_seen": None if row.within is None else list(row.within),
        "shown": row.shown or None,
        "low_of_all": turned.together[0],
        "high_of_all": turned.together[1],
        "delta": row.delta,
        "unseen_could_cost": row.unseen,
        "explained_by_time_and_past": row.explained,
        "units_tested": row.units,
        "unit": row.unit,
        "share_checked": row.checked,
    }
