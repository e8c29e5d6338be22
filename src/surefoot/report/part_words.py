"""What is said of guarded columns and groups, by an improvement and by a safety test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.core.text import aligned, some
from surefoot.report.log_words import NO_UNIT, figure, units_of
from surefoot.report.statements import Statement, known, weights_words

KINDS = (("guard", "guards"), ("group", "groups"))
MOST_NAMED = 2  # parts that fail and are named unasked
ALIKE = ("the baseline treats all groups", "the baseline treats all groups alike")
ALL_CHECKED = 0.995  # share of moves beyond which it is not told
HEADINGS = ("change", "at least", "at most", "allowed", "tested", "result")
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
    gains = document.get("groups") and units_of(document["log"])
    first = f"(groups:{units_of(document['log'])})" if gains else ""
    table = aligned([(first, *HEADINGS), *part_rows(document)], "<>>>>><")
    label = "guards" if document.get("guards") else "groups"
    words = _in_short(found, document["log"])
    return [Statement(label, words, (*table, *part_rules(document)))]


def part_rules(document: Mapping[str, Any]) -> list[str]:
    """What is to be known of all guards and groups together."""
    found = [x for _, many in KINDS for x in document.get(many, ())]
    told = [f"{x['name']}{words}" for x in found if (words := _undeclared(x))]
    told += [
        f"{x['name']}, by its weights: {weights_words(x['weights'])}"
        for x in found
        if x.get("weights")
    ]
    held_out = "held-out " * ("units_tested" in found[0])
    told.append(f"tested: {held_out}{unit_of(found[0])}")
    told.append(_rule(document))
    for kind, many in KINDS:
        told += _at_once(kind, document.get(many, ()))
    return told


def part_rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each guard and group: its name, and what `HEADINGS` say. Changes of guards are in
    the unit of their column, gains of groups in that of the reward.
    """
    return [_row(kind, x, document["log"]) for kind, many in KINDS for x in document.get(many, ())]


def _row(kind: str, x: Mapping[str, Any], log: Mapping[str, Any]) -> tuple[str, ...]:
    """One guard or group, cell by cell."""
    of = _unit_of(kind, log)
    name = f"group {x['name']}" if kind == "group" else f"{x['name']} ({x['better']} is better)"
    ends = [figure(y, of, "+") if known(y) else "-" for y in (x["change"], x["low"], x["high"])]
    allowed = (
        "" if x["tolerance"] is None else figure(x["tolerance"], of) if x["tolerance"] else "0"
    )
    tested = f"{_tested(x):,}" if _tested(x) is not None else ""
    if _in_part(x):
        tested += f", {x['share_checked']:.0%} of the changes"
    return (name, *ends, allowed, tested, _verdict(x) if known(x["change"]) else _untested(x))


def _tested(x: Mapping[str, Any]) -> int | None:
    """On how many episodes, or other pieces where a log is one episode."""
    found: int | None = x.get("episodes_tested")
    return x.get("units_tested") if found is None else found


def unit_of(x: Mapping[str, Any]) -> str:
    """What these are."""
    return "episodes" if x.get("episodes_tested") is not None else str(x.get("unit", "episodes"))


def _in_part(x: Mapping[str, Any]) -> bool:
    """Whether some of its changes could not be tested."""
    share = x.get("share_checked")
    return known(share) and share is not None and share <= ALL_CHECKED


def _unit_of(kind: str, log: Mapping[str, Any]) -> Mapping[str, Any]:
    """The log whose unit counts for a part: groups earn the reward, guards have their own."""
    return log if kind == "group" else NO_UNIT


def _in_short(found: Sequence[tuple[str, Mapping[str, Any]]], log: Mapping[str, Any]) -> str:
    """The parts that fail; else the one that is nearest to it."""
    asked = [(kind, x) for kind, x in found if x["tolerance"] is not None]
    if not asked:
        return some([_part(k, x, log) for k, x in found], MOST_NAMED)
    worst_first = sorted(asked, key=lambda pair: _slack(pair[1]))
    failing = [_part(kind, x, log) for kind, x in worst_first if not x["holds"]]
    passing = [(kind, x) for kind, x in worst_first if x["holds"]]
    if failing:
        rest = len(failing) - MOST_NAMED
        more = [f"{rest} more: NOT PASSED"] * (rest > 0)
        return "; ".join([*failing[:MOST_NAMED], *more, *_passing(passing, others=True)])
    nearest = _part(*worst_first[0], log)
    if len(asked) == 1:
        return nearest
    return f"{_passing(passing)[0]}; with least to spare: {nearest}"


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


def _part(kind: str, x: Mapping[str, Any], log: Mapping[str, Any]) -> str:
    """One guard or group with its change, in the unit of its column."""
    what, result = x["name"], _row(kind, x, log)[-1]
    if kind == "group":
        what = f"group {what} ({_tested(x):,} {unit_of(x)}"
        what += (
            f", {x['share_checked']:.0%} of the changes could be tested)" if _in_part(x) else ")"
        )
    if not known(x["change"]):
        return f"{what}: {result}"
    allowed = f"; {x['tolerance']:g} is allowed" if x["tolerance"] else ""
    moved, worst = _moved(kind, x["change"], log), _worst(kind, x, log)
    return f"{what} {moved} ({worst}{allowed}): {result}{_undeclared(x)}"


def _moved(kind: str, change: float, log: Mapping[str, Any]) -> str:
    """What it does on average."""
    if not change:
        return "stays the same"
    return f"{WAYS[kind][change > 0]}s {_by(kind)}{_size(kind, change, log)}"


def _by(kind: str) -> str:
    return "by " if kind == "guard" else ""


def _size(kind: str, x: float, log: Mapping[str, Any]) -> str:
    """A change without its sign, in its unit."""
    of = _unit_of(kind, log)
    return f"{figure(abs(x), of)}{units_of(of)}"


def _worst(kind: str, x: Mapping[str, Any], log: Mapping[str, Any]) -> str:
    """How bad it may be, by the bound that its verdict needs."""
    lower = x["better"] == "lower"
    end = x["high"] if lower else x["low"]
    if not known(end):
        return "no bound"
    way = WAYS[kind][end > 0]
    if (end > 0) == lower:
        return f"it may {way} {_by(kind)}{_size(kind, end, log)}"
    return f"it {way}s {_by(kind)}at least {_size(kind, end, log)}"


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
    return words


def _undeclared(x: Mapping[str, Any]) -> str:
    """That nobody declared the range of its column, where that decides."""
    if x.get("range_seen") is None:
        return ""
    low, high = x["range_seen"]
    declare = f"{x['name']}:{x['better']}:{x['tolerance'] or 0:g}:LOW,HIGH"
    return (
        f", as nobody declared the range of {x['name']}, seen from {low:g} to {high:g} (--guard"
        f" {declare})"
    )


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
