"""What to do after an improvement: with one that is supported, and with one that is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.core.text import plural
from surefoot.report.statements import Statement, listed


def next_steps(document: Mapping[str, Any]) -> list[Statement]:
    """What to do next, the first thing first."""
    if document["supported"] and not document.get("waived"):
        return [listed("next", _to_use(document))]
    if document["accepted_unsupported"]:
        words = "this policy is used although the data do not support it: compare it with the"
        return [listed("next", [f"{words} baseline side by side, and watch it (surefoot watch)"])]
    return [listed("next", _to_learn(document))]


def _to_use(document: Mapping[str, Any]) -> list[str]:
    """Before and while a supported policy is used."""
    changes = document["changes"]
    found = [
        "ask those who made the decisions whether they acted on something that the log does not"
        " hold: no data can show that"
    ]
    odd = sum(not x["shown"] for x in changes.get("alone", ()))
    not_shown = f", those first that are not shown by themselves ({odd:,})" if odd else ""
    found.append(
        f"look at each change with somebody who knows the work{not_shown}; one that nobody would"
        " sign can be forbidden (--forbidden), and the rest learned and tested anew"
    )
    found.append(
        "try it side by side with the baseline before it replaces it, and look at the results as"
        " they come (surefoot watch); a later log of the baseline can test it once more (surefoot"
        " safety-test)"
    )
    return found


def _to_learn(document: Mapping[str, Any]) -> list[str]:
    """Where there is no improvement, or one that rests on what was passed over."""
    against = document.get("against", [])
    found = ["go on with the baseline: what was asked has not been shown of the new policy"]
    if document.get("waived"):
        found = [f"first settle what was passed over: {', '.join(document['waived'])}"]
    elif against:
        n = plural(len(against), "finding")
        found.append(f"first settle what speaks against a promise ({n}; surefoot check tells them)")
    found.append(
        "ask surefoot plan how many more rows the test would need, and which actions to try more"
        " often"
    )
    return found
