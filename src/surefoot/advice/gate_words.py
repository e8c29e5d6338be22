"""Gates as data, and what they add to the reason of a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.advice.estimate import DELTA
from surefoot.advice.gain import FEWEST_UNITS
from surefoot.advice.gates import GROUP, GUARD, Gate
from surefoot.text import signed


def unless_worse(gates: Sequence[Gate], reason: str) -> tuple[bool, str]:
    """(whether every gate holds, the reason of the verdict with what they show)."""
    failed = [gate for gate in gates if not gate.holds]
    if failed:
        return False, f"{reason}; but {'; '.join(map(_failure, failed))}"
    known = [gate for gate in gates if gate.tolerance < math.inf]
    parts = []
    for kind, words in ((GUARD, "{} no worse"), (GROUP, "no worse for any of the groups {}")):
        names = [gate.name + _within(gate.tolerance) for gate in known if gate.kind == kind]
        parts += [words.format(", ".join(names))] * bool(names)
    return True, "; ".join([reason, *parts])


def _within(tolerance: float) -> str:
    return f" (beyond {tolerance:g})" if tolerance else ""


def _failure(gate: Gate) -> str:
    """Why a gate does not hold."""
    what = gate.name if gate.kind == GUARD else f"the group {gate.name}"
    if math.isnan(gate.low):
        if not gate.too_small:
            return f"{what} could not be tested"
        few = f"{gate.tested:,} held-out {gate.unit} tell about it"
        return f"{what} is too small to say anything: {few}, at least {FEWEST_UNITS} are needed"
    worse = "worse" + (f" by more than {gate.tolerance:g}" if gate.tolerance else "")
    if gate.high_of_all < -gate.tolerance:
        return f"{what} gets WORSE: {_change(gate)}"
    if gate.within is not None and gate.holds_within:
        return f"{what} is not shown to be no {worse}, {_unless(gate_summary(gate))}"
    return f"{what} is not shown to be no {worse}: {_change(gate)}"


def _change(gate: Gate) -> str:
    """The change in the unit of the column, with the bound that decides."""
    x = gate_summary(gate)
    low, high = signed(x["low"]), signed(x["high"])
    return f"{signed(x['change'])}, at least {low}, at most {high}"


def _unless(x: Mapping[str, Any]) -> str:
    """What a guard without a declared range rests on."""
    low, high = x["range_seen"]
    return (
        f"unless no value of {x['name']} lies outside [{low:g}, {high:g}], which nobody declared"
        f" (--guard {x['name']}:{x['better']}:{x['tolerance']:g}:LOW,HIGH)"
    )


def gate_summary(gate: Gate) -> dict[str, Any]:
    """A gate as data for machines, in the unit of its column: `low` <= `change` <= `high`."""
    turned = gate.direction == "lower"

    def span(low: float, high: float) -> tuple[float, float]:
        return (-high, -low) if turned else (low, high)

    (low, high), (low_all, high_all) = (
        span(gate.low, gate.high), span(gate.low_of_all, gate.high_of_all),
    )  # fmt: skip
    return {
        "name": gate.name,
        "better": gate.direction,
        "tolerance": gate.tolerance if gate.tolerance < math.inf else None,
        "verdict": gate.verdict,
        "holds": gate.holds,
        "range_seen": None if gate.within is None else list(gate.within),
        "shown": gate.shown or None,
        "change": -gate.estimate if turned else gate.estimate,
        "low": low,
        "high": high,
        "low_of_all": low_all,
        "high_of_all": high_all,
        "delta": DELTA,
        "unseen_could_cost": gate.unseen,
        "explained_by_time_and_past": gate.explained,
        "units_tested": gate.tested,
        "unit": gate.unit,
        "share_checked": gate.checked,
    }


def gates_summary(gates: Sequence[Gate]) -> dict[str, Any]:
    """`guards` and `groups` for summary.json."""
    return {
        f"{kind}s": [gate_summary(gate) for gate in gates if gate.kind == kind]
        for kind in (GUARD, GROUP)
    }
