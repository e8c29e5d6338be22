"""What is said of a look at a roll-out: better, worse, or go on; and about how long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from surefoot.core.plain_values import plain
from surefoot.core.text import plural
from surefoot.report.log_words import (
    in_brackets,
    log_warnings,
    more,
    notes,
    rows_read,
    span,
    training_left_out,
    turned,
    urgent,
    value,
    warning,
)
from surefoot.report.part_words import asked_of, none_worse, parts
from surefoot.report.statements import Statement, in_terms_of, known, listed

HELD_UP = 10  # finished episodes that wait for another one, from which on it is said what to do


def rollout_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What is said of a look at a roll-out, the conclusion first."""
    found = plain(document)
    log = found["log"]
    said = [Statement("verdict", _verdict(found))]
    said += warning([*log_warnings(log), *urgent(found["notes"])])
    said += [_worth(found), *parts(found), _not_asked(found), *_next(found), _arms(found)]
    said += [*waiting(found), counted(found), _assumed(found), *_trained(found)]
    said += [rows_read(log), *notes(found["notes"], log)]
    return (*in_terms_of(log, said), Statement("state", str(found["state_file"])))


def _names(found: Mapping[str, Any]) -> tuple[str, str]:
    new, old = (f"'{x['name']}'" for x in found["arms"])
    return new, old


def _verdict(found: Mapping[str, Any]) -> str:
    (new, old), low = _names(found), found["difference_at_least"]
    if found["verdict"] == "better":
        return f"BETTER: {new} is shown to be better than {old}{none_worse(found)}"
    if found["verdict"] == "worse":
        high = found["difference_at_most"]
        where = [x["name"] for x in found["guards"] if x["verdict"] == "worse"]
        more = f" in {', '.join(where)}" if where and not (known(high) and high < 0) else ""
        return f"WORSE: {new} is shown to be worse than {old}{more}"
    if known(low) and low > 0:
        return (
            f"CONTINUE: {new} is shown to be better than {old}; but not yet, that it keeps its"
            f" {plural(len(asked_of(found, 'guards')), 'guard')}"
        )
    return f"CONTINUE: {new} has not been shown to be better than {old}, nor worse"


def _worth(found: Mapping[str, Any]) -> Statement:
    """The difference with its bounds."""
    log, low, high = found["log"], found["difference_at_least"], found["difference_at_most"]
    new, old = _names(found)
    if not known(found["estimated_difference"]):
        return Statement("worth", "no episode counts yet", tuple(turned(log)))
    words = (
        f"{more(found['estimated_difference'], log)} with {new} than with {old} in"
        f" an episode, {span(low, high, log)}; wrong with probability {found['delta']:g} over all"
        f" looks together{in_brackets(log)}"
    )
    better, worse = found["delta_of_better"], found["delta_of_worse"]
    shared = f"the probability of an error is shared: {better:g} below, {worse:.2g} above"
    return Statement("worth", words, (*turned(log), shared))


def _not_asked(found: Mapping[str, Any]) -> Statement:
    """What a difference on average can hide."""
    other = "" if found["guards"] else ", or another outcome such as cost (--guard)"
    return Statement(
        "unasked",
        f"not looked at: whether a group of people{other} gets worse; a difference on average can"
        " hide that",
        first=False,
    )


def _next(found: Mapping[str, Any]) -> list[Statement]:
    """How long it will take."""
    if found["verdict"] != "continue":
        return []
    going = found["decision"]
    if going is None:
        words = "no decision is in sight at what has been seen; look again when there are more"
        return [Statement("next", words)]
    days = going["days"]
    pace = f", {_about(days, 'day')} at the present pace" if known(days) else ""
    words = (
        f"about {_about(going['episodes'], 'episode', ' more')} until {going['toward']!r} is shown"
        f"{pace}, if the difference is what it seems; if it is half as large, about four times as"
        " many"
    )
    return [Statement("next", words)]


def _about(x: float, name: str, more: str = "") -> str:
    """Two digits: a forecast has no more."""
    n = math.ceil(float(f"{x:.2g}"))
    return f"{n:,}{more} {name}{'s' * (n != 1)}"


def _arms(found: Mapping[str, Any]) -> Statement:
    """What each arm did by itself."""
    log, share, as_many = found["log"], found["share"], found["counts_as"]
    each = [
        f"{x['name']!r} {plural(x['episodes'], 'episode')}"
        + (f", on average {value(x['mean_return'], log)}" if known(x["mean_return"]) else "")
        for x in found["arms"]
    ]
    detail = [
        *(f"the policy of {name!r} is {file}" for name, file in policies_of(found)),
        f"by lot, an episode gets {found['arms'][0]['name']!r} with probability {share:g}. Every"
        f" look checks that: a bet against it has {found['capital_against_shares']:.3g} times its"
        " stake now, and with 1,000 times the watch stops",
    ]
    words = "; ".join(each)
    if found["policy"] is not None:
        how = "both policies are known, so that each episode counts for both"
        words += f"; {how}" + (f", as {as_many:.3g} would" if known(as_many) else "")
    if found["episodes_of_others"]:
        detail.append(
            f"{plural(found['episodes_of_others'], 'episode')} of other arms do not count"
        )
    return Statement("arms", words, tuple(detail))


def policies_of(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each arm, and the file of its policy or that nobody named it."""
    unknown = "not named (--policy, --baseline)"
    files = (found[x] or unknown for x in ("policy", "baseline"))
    return [(x["name"], file) for x, file in zip(found["arms"], files, strict=True)]


def waiting(found: Mapping[str, Any]) -> list[Statement]:
    """What waits for the next look, for whom, and what to do if that never ends."""
    n, held, since = (found[x] for x in ("episodes_waiting", "episodes_held_up", "waits_since"))
    if not n:
        return []
    they, them, are = ("it", "it", "is") if n == 1 else ("they", "them", "are")
    words = (
        f"{plural(n, 'episode')} for the next run: {they}, or one that began before"
        f" {them}{f', since {since}' if since else ''}, {are} not finished"
    )
    if held >= HELD_UP:
        words += (
            f"; {held:,} of them are finished. If that one will never end, flag its last row in the"
            " log (--truncated), or give the most steps that an episode can have (--horizon)"
        )
    return [Statement("waiting", words)]


def counted(found: Mapping[str, Any]) -> Statement:
    """How many episodes count, and in which order."""
    return Statement(
        "counted",
        f"{found['episodes_new']:,} new episodes, {found['episodes_counted']:,} in all, in"
        f" {plural(found['looks'], 'look')}; {found['order']}",
    )


def _assumed(found: Mapping[str, Any]) -> Statement:
    """What must be true; unasked, what only the reader can judge."""
    whole = found["assumptions"]
    shown = [whole[0], *(x for x in whole if "nothing else says so" in x or "actions of" in x)]
    more = len(whole) - len(shown)
    words = f"{'; '.join(shown)}. {more} more: --explain"
    return listed("assumes", whole, words, first=True)


def _trained(found: Mapping[str, Any]) -> list[Statement]:
    words = training_left_out(found["episodes_left_out"])
    return [Statement("training", words)] if words else []
