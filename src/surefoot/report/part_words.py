"""What is said of guarded columns and groups, by an improvement and by a safety test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.core.text import signed, some
from surefoot.report.statements import Statement, known

KINDS = (("guard", "guards"), ("group", "groups"))
MOST_NAMED = 2  # parts that fail and are named unasked
ALIKE = ("the baseline treats all groups", "the baseline treats all groups alike")
PLACES = (("guards", "in any guarded column"), ("groups", "for any group"))
ALL_CHECKED = 0.995  # share of moves beyond which it is not told


def none_worse(document: Mapping[str, Any]) -> str:
    """What is to be shown of the parts, beside the gain; "" where nothing was asked for."""
    asked = [
        words
        for many, words in PLACES
        if any(x["tolerance"] is not None for x in document.get(many, ()))
    ]
    return f", and no worse {' or '.join(asked)}" if asked else ""


def parts(document: Mapping[str, Any]) -> list[Statement]:
    """All guards and groups in one line, the weakest by name; and each by itself."""
    found = [(kind, x) for kind, many in KINDS for x in document.get(many, ())]
    if not found:
        return []
    detail = [f"{kind} {_part(kind, x)}" for kind, x in found]
    detail.append(_rule(document))
    for kind, many in KINDS:
        detail += _at_once(kind, document.get(many, ()))
    return [Statement("parts", _in_short(found), tuple(detail))]


def _in_short(found: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The parts that fail; else the one that is nearest to it."""
    asked = [(kind, x) for kind, x in found if x["tolerance"] is not None]
    worst_first = sorted(asked, key=lambda pair: _slack(pair[1]))
    failing = [f"{kind} {_part(kind, x)}" for kind, x in worst_first if not x["holds"]]
    if failing:
        rest = len(asked) - len(failing)
        return "; ".join([some(failing, MOST_NAMED)] + [f"{rest} others no worse"] * bool(rest))
    kind, x = min(asked or found, key=lambda pair: _slack(pair[1]))
    if not asked:
        return f"told, not asked for: {some([f'{k} {_part(k, y)}' for k, y in found], MOST_NAMED)}"
    if len(asked) == 1:
        return f"{kind} {_part(kind, x)}"
    return (
        f"all {len(asked)} guards and groups no worse; closest to failing: {kind} {_part(kind, x)}"
    )


def _slack(x: Mapping[str, Any]) -> float:
    """How far a part is from being too bad, in widths of its interval."""
    low, high = x["low"], x["high"]
    if not (known(low) and known(high)):
        return 0.0
    harm = high if x["better"] == "lower" else -low
    return float(((x["tolerance"] or 0.0) - harm) / ((high - low) or 1.0))


def _part(kind: str, x: Mapping[str, Any]) -> str:
    """One guard or group with its change, in the unit of its column."""
    what = f"{x['name']} ({x['better']} is better)"
    if kind == "group":
        tested, unit = x.get("units_tested", x.get("episodes_tested")), x.get("unit", "episodes")
        share = x.get("share_checked")
        checked = known(share) and share is not None and share <= ALL_CHECKED
        what = f"{x['name']}, {tested:,} {unit}"
        what += f", {share:.0%} of the moves checked" if checked else ""
    if not known(x["change"]):
        return f"{what}: {_untested(x)}"
    ends = f"at least {_end(x['low'])}, at most {_end(x['high'])}"
    return f"{what}: {signed(x['change'])}, {ends}: {_verdict(x)}"


def _untested(x: Mapping[str, Any]) -> str:
    """That nothing can be said about it."""
    if x.get("trouble"):
        return f"NOT TESTED: {x['trouble']}"
    words = "TOO SMALL to say anything" if x["verdict"] == "too small" else "NOT TESTED"
    return words + (", so not shown to be no worse" if x["tolerance"] is not None else "")


def _verdict(x: Mapping[str, Any]) -> str:
    """What is shown about it."""
    words = "told, not asked for"
    if x["tolerance"] is not None:
        words = "no worse" if x["holds"] else "NOT SHOWN to be no worse"
        words = "WORSE" if x["verdict"] == "worse" else words
        words += f" ({x['tolerance']:g} is allowed)" if x["tolerance"] else ""
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
            f"to pass, every part must be no worse ({each:g} for each bound that shows it); to"
            f" fail, one must be worse ({each:g} for all of them)"
        )
    return "5 % for each bound, each part by itself; the verdict needs all to be no worse"


def _at_once(kind: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is shown of all parts of a kind at once."""
    if len(found) < 2 or "shown" not in found[0]:
        return []
    better, worse = (
        ", ".join(x["name"] for x in found if x["shown"] == word) or "none"
        for word in ("better", "worse")
    )
    return [
        f"all {len(found)} {kind}s at once (5 % together): shown to be better: {better}; shown"
        f" to be worse: {worse}"
    ]
