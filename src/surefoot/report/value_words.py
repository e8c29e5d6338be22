"""What is said of a policy's value on a log, and of a lower bound on its gain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.core.plain_values import plain
from surefoot.core.text import interval
from surefoot.report.doubt_words import proof
from surefoot.report.improvement_words import own_return_words
from surefoot.report.log_words import (
    WHERE,
    in_brackets,
    log_warnings,
    notes,
    reward_words,
    rows_read,
    turned,
    urgent,
    warning,
)
from surefoot.report.statements import ASK, Statement, in_terms_of, listed

# what is said of a table of gains
LUCKY = "in a table of many rows one is lucky: test the winner on fresh data"
LOSES = (
    "loses: the share of these models in which the policy is worse than the baseline; it is no"
    " probability of the real world"
)
FEW = 30.0  # effective episodes below which an interval says little
SURE = {"ips": "IPS", "snips": "SNIPS", "dr": "DR"}


def evaluation_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What is said of the value of a policy, beside that of the baseline."""
    document = plain(document)
    log, seen = document["log"], document["range_seen"]
    beside, doubtful = _own(document)
    warned = [*log_warnings(log), *urgent(document["notes"]), *doubtful]
    found = [
        *warning([*warned, *_scattering(document["weighted"])]),
        _value(document, "policy"),
        _value(document, "baseline", *beside),
        _value(document, "gain"),
        _model(document),
        _weighted(document["weighted"]),
        _coverage(document),
    ]
    if seen is not None:
        words = (
            f"all intervals hold if no reward lies outside [{seen[0]:g}, {seen[1]:g}], the range"
            " that was seen: a rarer one would not be in them; declare it with --reward-range"
        )
        found.append(Statement("range", words))
    told = [*found, rows_read(log), *notes(document["notes"], log)]
    return in_terms_of(log, told)


def _own(document: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    own = document["own_return"]
    return own_return_words(own, document["values"]["baseline"]["value"]) if own else ([], [])


def _scattering(found: Mapping[str, Any]) -> list[str]:
    """Values by weights that cannot be."""
    if "not_available" in found:
        return []
    odd = {SURE.get(name, name): urgent(x["assumes"].split("; ")) for name, x in found.items()}
    return [f"the value by {name} is {words}" for name, y in odd.items() for words in y]


def _value(document: Mapping[str, Any], name: str, *detail: str) -> Statement:
    """One value with its interval."""
    x = document["values"][name]
    ends = interval(x["low"], x["high"], ".5g", "[nan, nan]")
    words = f"{x['value']:+.5g} {WHERE[document['start']]}, 90 % interval {ends}"
    if name == "gain":
        words = "; ".join([words + in_brackets(document["log"]), *turned(document["log"])])
    return Statement(name, words, detail)


def _model(document: Mapping[str, Any]) -> Statement:
    """By what these are."""
    estimated = ", ESTIMATED from the log" if document["baseline_estimated"] else " given"
    return Statement(
        "model",
        f"counted from this log, assumes states that say enough; {document['units']}"
        f" {document['unit']}; baseline{estimated}",
    )


def _weighted(found: Mapping[str, Any]) -> Statement:
    """The values by importance weights, or why there are none."""
    if "not_available" in found:
        return Statement("weighted", f"no IPS, SNIPS or DR: {found['not_available']}")
    lines = []
    for name, x in found.items():
        size = x.get("effective_episodes")
        few = f"; only {size:.1f} effective episodes" if size is not None and size < FEW else ""
        ends = interval(x["low"], x["high"], ".5g", "[nan, nan]")
        lines.append(f"{SURE.get(name, name)} {x['value']:+.5g} {ends}  {x['assumes']}{few}")
    dr = found["dr"]
    few = min(x.get("effective_episodes", FEW) for x in found.values())
    words = (
        f"{dr['value']:+.5g} {interval(dr['low'], dr['high'], '.5g', '[nan, nan]')} by DR, whole"
        " episodes from their start"
    )
    words += f"; only {few:.1f} effective episodes" if few < FEW else ""
    return Statement("weighted", f"{words} (IPS, SNIPS and the log itself: {ASK})", tuple(lines))


def _coverage(document: Mapping[str, Any]) -> Statement:
    """How much of the policy was never tried."""
    return Statement(
        "coverage",
        f"{document['share_never_seen']:.1%} of the policy's decisions are actions never seen in"
        " their state: they count as what the baseline does there. A policy learned from this very"
        " log looks better here than it is",
    )


def certificate_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What is said of a lower bound on the gain of a policy, and of what it assumes."""
    document = plain(document)
    log, c = document["log"], document["certificate"]
    (said,) = proof(c)
    warned = [*log_warnings(log), *urgent(document["notes"])]
    waived = ", ".join(document.get("waived") or ())
    despite = f"Despite {waived}, true only if that does not matter: {said.words}"
    found = [Statement("verdict", despite if waived else said.words), *warning(warned)]
    if "not_given" not in c:
        found.append(Statement("bound", said.detail[0], said.detail[1 : 1 + c["vacuous"]]))
        assumed = c["assumptions"]
        more = f"{len(assumed) - 2} more: {ASK}"
        words = "; ".join([*assumed[:2]] + [more] * (len(assumed) > 2))
        found.append(listed("assumes", assumed, words, first=True))
    told = notes((*c.get("notes", ()), *document["notes"]), log)
    found += [Statement("reward", reward_words(log), tuple(turned(log))), rows_read(log), *told]
    return in_terms_of(log, found)
