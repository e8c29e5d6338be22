"""Guards and groups on the held-out half, as data and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.advice.gain import FEWEST_UNITS
from surefoot.advice.verdict import beyond as _within
from surefoot.advice.verdict import unless_outside as _unless
from surefoot.core.evidence import BETTER, GROUP, GUARD, WORSE, Evidence
from surefoot.text import signed

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


def gate_lines(summary: Mapping[str, Any]) -> list[str]:
    """Guards and groups in words."""
    guards, groups = summary.get("guards", []), summary.get("groups", [])
    lines = [f"{GUARD:9} {_guard_words(x)}" for x in guards]
    lines += [f"{GROUP:9} {_group_words(x)}" for x in groups]
    if lines:
        lines.append(
            "          5 % for each bound, each line by itself; the verdict needs all to be no"
            " worse"
        )
    return lines + [f"          {x}" for x in (*_of_all(GUARD, guards), *_of_all(GROUP, groups))]


def _guard_words(x: Mapping[str, Any]) -> str:
    return f"{x['name']} ({x['better']} is better): {_numbers(x)}"


def _group_words(x: Mapping[str, Any]) -> str:
    checked = (
        "" if x["share_checked"] > 0.995 else f", {x['share_checked']:.0%} of the moves checked"
    )
    return f"{x['name']}, {x['units_tested']:,} {x['unit']}{checked}: {_numbers(x)}"


def _numbers(x: Mapping[str, Any]) -> str:
    asked = x["tolerance"] is not None
    if x["change"] is None or math.isnan(x["change"]):
        word = "TOO SMALL to say anything" if x["verdict"] == TOO_SMALL else "NOT TESTED"
        return word + (", so not shown to be no worse" if asked else "")
    word = "no worse" if x["holds"] else "NOT SHOWN to be no worse"
    word = word + _within(x["tolerance"]) if asked else "told, not asked for"
    word += f", {_unless(x)}" if x.get("range_seen") is not None else ""
    return (
        f"{signed(x['change'])}, at least {signed(x['low'])}, at most {signed(x['high'])}: {word}"
    )


def _of_all(kind: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is shown of all gates of a kind at once."""
    if len(found) < 2:
        return []
    better, worse = (
        ", ".join(x["name"] for x in found if x["shown"] == word) or "none"
        for word in (BETTER, WORSE)
    )
    return [
        f"all {len(found)} {kind}s at once (5 % together): shown to be better: {better}; shown"
        f" to be worse: {worse}"
    ]
