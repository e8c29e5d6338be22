"""The verdict: short rules over rows of evidence.

A policy is supported if the gain is shown to be above 0 and every guard and group to be no worse
than by its tolerance. Each part has one test at the whole level: where that statement is false, one
of its parts is false, and the test of this part alone passes with probability at most delta, so
nothing is split between the tests (intersection-union, Berger 1982). What is said if any one of
several tests shows it, such as "worse" of a safety test, or "better" and "worse" of single guards
and groups beside a verdict, must hold for all of them at once: each has delta / their number
(union bound, Bonferroni).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.core.evidence import GROUP, GUARD, Evidence
from surefoot.text import signed

PASSES, FAILS, NO_EVIDENCE = "passes", "fails", "no evidence"


def tested_verdict(rows: Sequence[Evidence]) -> str:
    """Of a safety test with two sides: one row worse is enough to fail; the whole better and all
    others no worse, within what was seen, to pass.
    """
    whole, *parts = rows
    if any(row.worse for row in rows):
        return FAILS
    return PASSES if whole.positive and all(x.holds_within for x in parts) else NO_EVIDENCE


def unless_worse(parts: Sequence[Evidence], reason: str) -> tuple[bool, str]:
    """(whether every part holds, the reason of the verdict with what they show)."""
    failed = [row for row in parts if not row.holds]
    if failed:
        return False, f"{reason}; but {'; '.join(map(_failure, failed))}"
    asked = [row.part for row in parts if row.part.tolerance < float("inf")]
    found = [reason]
    for kind, words in ((GUARD, "{} no worse"), (GROUP, "no worse for any of the groups {}")):
        names = [part.name + beyond(part.tolerance) for part in asked if part.kind == kind]
        found += [words.format(", ".join(names))] * bool(names)
    return True, "; ".join(found)


def _failure(row: Evidence) -> str:
    """Why a part does not hold."""
    part, turned = row.part, row.in_unit_of_column
    what = part.name if part.kind == GUARD else f"the group {part.name}"
    if not row.tested:
        return f"{what} {row.trouble}"
    change = f"{signed(turned.estimate)}, at least {signed(turned.low)}, at most"
    change += f" {signed(turned.high)}"
    if row.worse:
        return f"{what} gets WORSE: {change}"
    more = f"worse by more than {part.tolerance:g}" if part.tolerance else "worse"
    if row.within is not None and row.holds_within:
        seen = {"name": part.name, "better": part.direction, "tolerance": part.tolerance}
        rests = unless_outside(seen | {"range_seen": row.within})
        return f"{what} is not shown to be no {more}, {rests}"
    return f"{what} is not shown to be no {more}: {change}"


def beyond(tolerance: float) -> str:
    """The loss that counts as none, in brackets."""
    return f" (beyond {tolerance:g})" if tolerance else ""


def unless_outside(x: Mapping[str, Any]) -> str:
    """What a guard without a declared range rests on."""
    low, high = x["range_seen"]
    return (
        f"unless no value of {x['name']} lies outside [{low:g}, {high:g}], which nobody declared"
        f" (--guard {x['name']}:{x['better']}:{x['tolerance']:g}:LOW,HIGH)"
    )
