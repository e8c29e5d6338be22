"""What is said of guarded columns and groups, by an improvement and by a safety test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.core.text import signed, some
from surefoot.report.statements import Statement, known

KINDS = (("guard", "guards"), ("group", "groups"))
MOST_NAMED = 2  # parts that fail and are named unasked
ALIKE = ("the baseline treats all groups", "the baseline treats all groups alike")
ALL_CHECKED = 0.995  # share of moves beyond which it is not told
WAYS = {"guard": ("fall", "rise"), "group": ("lose", "gain")}  # what less and more of it are called


def asked_of(document: Mapping[str, Any], many: str) -> list[Mapping[str, Any]]:
    """The guards or groups that must be no worse."""
    return [x for x in document.get(many, ()) if x["tolerance"] is not None]


def none_worse(document: Mapping[str, Any]) -> str:
    """What is shown of the parts, beside the gain; "" where nothing was asked for."""
    words = ""
    if found := asked_of(document, "guards"):
        names = [x["name"] for x in found]
        who = f"neither {' nor '.join(names)} gets"
        if len(names) != 2:
            who = f"none of the {len(names)} guards gets"
        who = who if names[1:] else f"{names[0]} does not get"
        words += f", and {who} worse{_beyond(found)}"
    if found := asked_of(document, "groups"):
        words += f", and no group loses{_beyond(found)}"
    return words


def _beyond(found: Sequence[Mapping[str, Any]]) -> str:
    """That some loss is allowed."""
    return " by more than allowed" if any(x["tolerance"] for x in found) else ""


def parts(document: Mapping[str, Any]) -> list[Statement]:
    """All guards and groups in one line, the weakest by name; and each by itself."""
    found = [(kind, x) for kind, many in KINDS for x in document.get(many, ())]
    if not found:
        return []
    detail = [_part(kind, x, whole=True) for kind, x in found]
    detail.append(_rule(document))
    for kind, many in KINDS:
        detail += _at_once(kind, document.get(many, ()))
    label = "guards" if document.get("guards") else "groups"
    return [Statement(label, _in_short(found), tuple(detail))]


def _in_short(found: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The parts that fail; else the one that is nearest to it."""
    asked = [(kind, x) for kind, x in found if x["tolerance"] is not None]
    if not asked:
        return some([_part(k, x) for k, x in found], MOST_NAMED)
    worst_first = sorted(asked, key=lambda pair: _slack(pair[1]))
    failing = [_part(kind, x) for kind, x in worst_first if not x["holds"]]
    passing = [(kind, x) for kind, x in worst_first if x["holds"]]
    if failing:
        rest = len(failing) - MOST_NAMED
        more = [f"{rest} more: NOT PASSED"] * (rest > 0)
        return "; ".join([*failing[:MOST_NAMED], *more, *_passing(passing, others=True)])
    nearest = _part(*worst_first[0])
    if len(asked) == 1:
        return nearest
    return f"{_passing(passing)[0]}; closest to failing: {nearest}"


def _passing(found: Sequence[tuple[str, Mapping[str, Any]]], *, others: bool = False) -> list[str]:
    """That these pass; beside some that do not, they are the others."""
    kinds = [many for kind, many in KINDS if any(k == kind for k, _ in found)]
    if not found:
        return []
    if len(found) == 1:
        return [f"the other {found[0][0]} passes"]
    number = f"the {len(found)} other" if others else _number(found)
    return [f"{number} {' and '.join(kinds)} pass"]


def _slack(x: Mapping[str, Any]) -> float:
    """How far a part is from being too bad, in widths of its interval."""
    low, high = x["low"], x["high"]
    if not (known(low) and known(high)):
        return 0.0
    harm = high if x["better"] == "lower" else -low
    return float(((x["tolerance"] or 0.0) - harm) / ((high - low) or 1.0))


def _part(kind: str, x: Mapping[str, Any], *, whole: bool = False) -> str:
    """One guard or group with its change, in the unit of its column; `whole`: with both bounds."""
    what = x["name"] + f" ({x['better']} is better)" * whole
    if kind == "group":
        tested, unit = x.get("units_tested", x.get("episodes_tested")), x.get("unit", "episodes")
        share = x.get("share_checked")
        checked = known(share) and share is not None and share <= ALL_CHECKED
        what = f"group {x['name']} ({tested:,} {unit}"
        what += f", {share:.0%} of the changes could be tested)" if checked else ")"
    if not known(x["change"]):
        return f"{what}: {_untested(x)}"
    ends = f"at least {_end(x['low'])}, at most {_end(x['high'])}" if whole else _worst(kind, x)
    allowed = f"; {x['tolerance']:g} is allowed" if x["tolerance"] else ""
    return f"{what} {_moved(kind, x['change'])} ({ends}{allowed}): {_verdict(x)}"


def _moved(kind: str, change: float) -> str:
    """What it does on average."""
    if not change:
        return "stays the same"
    way = WAYS[kind][change > 0]
    return f"{way}s {'by ' if kind == 'guard' else ''}{abs(change):.4g}"


def _worst(kind: str, x: Mapping[str, Any]) -> str:
    """How bad it may be, by the bound that its verdict needs."""
    lower = x["better"] == "lower"
    end = x["high"] if lower else x["low"]
    if not known(end):
        return "no bound"
    way, by = WAYS[kind][end > 0], " by" if kind == "guard" else ""
    if (end > 0) == lower:
        return f"it may {way}{by} {abs(end):.4g}"
    return f"it {way}s{by} at least {abs(end):.4g}"


def _untested(x: Mapping[str, Any]) -> str:
    """That nothing can be said about it."""
    if x.get("trouble"):
        return f"NOT TESTED: {x['trouble']}"
    words = "TOO SMALL to say anything" if x["verdict"] == "too small" else "NOT TESTED"
    return words + (", so NOT PASSED" if x["tolerance"] is not None else "")


def _verdict(x: Mapping[str, Any]) -> str:
    """What is shown about it."""
    words = "reported only"
    if x["tolerance"] is not None:
        words = "passes" if x["holds"] else "NOT PASSED"
        words = "WORSE" if x["verdict"] == "worse" else words
    if x.get("range_seen") is not None:
        low, high = x["range_seen"]
        declare = f"{x['name']}:{x['better']}:{x['tolerance'] or 0:g}:LOW,HIGH"
        words += (
            f", as nobody declared the range of {x['name']}, seen from {low:g} to {high:g} (--guard"
            f" {declare})"
        )
    return words


def _end(x: float | None) -> str:
    return signed(x) if known(x) else "no bound"


def _rule(document: Mapping[str, Any]) -> str:
    """What the error of each bound is, and what the verdict needs."""
    if "delta" in document:  # of a safety test
        each = document["delta"] / 2
        return (
            f"to pass, every part must pass ({each:g} for each bound that shows it); to fail, one"
            f" must be worse ({each:g} for all of them)"
        )
    return "5 % for each bound, each part by itself; the verdict needs all of them to pass"


def _at_once(kind: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is shown of all parts of a kind at once."""
    if len(found) < 2 or "shown" not in found[0]:
        return []
    better, worse = (
        ", ".join(x["name"] for x in found if x["shown"] == word) or "none"
        for word in ("better", "worse")
    )
    number = _number(found)
    return [
        f"{number} {kind}s at once (5 % together): shown to be better: {better}; shown to be worse:"
        f" {worse}"
    ]


def _number(found: Sequence[object]) -> str:
    """All of several."""
    return "both" if len(found) == 2 else f"all {len(found)}"
