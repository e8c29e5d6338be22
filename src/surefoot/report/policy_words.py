"""What is said of a policy: of its value on a log, of a lower bound on its gain, and of what
episodes that it was not made from show, by a safety test and by a watch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from surefoot.core.plain_values import plain
from surefoot.core.text import interval, plural
from surefoot.report.improvement_words import (
    NO_HIDDEN_CAUSE,
    SAME_WORLD,
    own_words,
    proof,
    to_judge,
)
from surefoot.report.log_words import (
    WHERE,
    amount,
    difference,
    figure,
    in_brackets,
    log_warnings,
    lower,
    more,
    notes,
    own_unit,
    reward_words,
    rough,
    rows_read,
    span,
    training_left_out,
    turned,
    urgent,
    value,
    warning,
)
from surefoot.report.part_words import ALIKE, asked_of, none_worse, parts
from surefoot.report.rollout_words import counted, waiting
from surefoot.report.statements import (
    ASK,
    Statement,
    in_terms_of,
    known,
    listed,
    sentence,
    weights_words,
)
from surefoot.statistics.bounds import APPROXIMATE_BOUNDS

# what is said of a table of gains
LUCKY = "in a table of many rows one is lucky: test the winner on fresh data"
LOSES = (
    "loses: the share of these models in which the policy is worse than the baseline; it is no"
    " probability of the real world"
)
SURE = {"ips": "IPS", "snips": "SNIPS", "dr": "DR"}
PASSES, FAILS, NO_EVIDENCE = "passes", "fails", "no evidence"  # words of the document
IF = " if"  # follows a verdict that holds under a condition only
KEPT = {"guards": " and keeps its guards", "groups": " and harms no group"}
PLACES = (("guards", "in"), ("groups", "for the group"))
JUDGED = (
    ("no hidden cause", NO_HIDDEN_CAUSE),
    ("the same world", SAME_WORLD),
    ("states say enough", "states say enough: nothing before them matters"),
    ALIKE,
)


def evaluation_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What is said of the value of a policy, beside that of the baseline."""
    document = plain(document)
    log, seen = document["log"], document["range_seen"]
    beside, doubtful = own_words(document["own_return"], document["values"]["baseline"]["value"])
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
    log, is_gain = document["log"], name == "gain"
    shown = f"{x['value']:+.5g}"
    if own_unit(log):
        shown = difference(x["value"], log) if is_gain else value(x["value"], log)
        pair = (-x["high"], -x["low"]) if lower(log) else (x["low"], x["high"])
        ends = " to ".join(figure(y, log, "+" * is_gain) for y in pair)
    words = f"{shown} {WHERE[document['start']]}, 90 % interval {ends}"
    if is_gain:
        words = "; ".join([words + in_brackets(document["log"]), *turned(document["log"])])
    return Statement(name, words, detail)


def _model(document: Mapping[str, Any]) -> Statement:
    """By what these are."""
    estimated = ", ESTIMATED from the log" if document["baseline_estimated"] else " given"
    n, unit = document["units"], document["unit"]
    if unit.endswith("episodes"):
        n, unit = document["log"]["episodes"] or n, "episodes"
    return Statement(
        "model",
        f"counted from this log, assumes states that say enough; {n:,} {unit}; baseline{estimated}",
    )


def _weighted(found: Mapping[str, Any]) -> Statement:
    """The values by importance weights, or why there are none."""
    if "not_available" in found:
        return Statement("weighted", f"no IPS, SNIPS or DR: {found['not_available']}")
    lines = []
    for name, x in found.items():
        few = f"; {weights_words(x)}" if "effective_episodes" in x else ""
        ends = interval(x["low"], x["high"], ".5g", "[nan, nan]")
        lines.append(f"{SURE.get(name, name)} {x['value']:+.5g} {ends}  {x['assumes']}{few}")
    dr = found["dr"]
    words = (
        f"{dr['value']:+.5g} {interval(dr['low'], dr['high'], '.5g', '[nan, nan]')} by DR, whole"
        " episodes from their start"
    )
    words += f"; {weights_words(dr)}"
    return Statement("weighted", f"{words} (IPS, SNIPS and the log itself: {ASK})", tuple(lines))


def _coverage(document: Mapping[str, Any]) -> Statement:
    """How much of the policy was never tried."""
    return Statement(
        "coverage",
        f"{document['share_never_seen']:.1%} of the policy's decisions are actions never seen in"
        " their state: they count as what the baseline does there. A policy learned from this very"
        " log looks better here than it is",
    )


def plan_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What the next log should be."""
    document = plain(document)
    log = document["log"]
    words = "SUPPORTED" if document["supported"] else f"{document['verdict'].upper()} by this log"
    found = [Statement("verdict", words, (document["reason"],)), *warning(log_warnings(log))]
    if document["vetoes"]:
        keys = ", ".join(document["vetoes"])
        said = f"more rows of this kind will not help while this stands: {keys} (surefoot check)"
        found.append(Statement("first", said))
    found += [_rows_needed(document), _arms(document), _tried(document)]
    return in_terms_of(log, [*found, *notes(document["notes"], log)])


def _rows_needed(document: Mapping[str, Any]) -> Statement:
    """How large the next log must be."""
    x, log = document["test"], document["log"]
    if x is None:
        return Statement(
            "test", "how many rows it needs cannot be foretold: weights alone may judge"
        )
    if x["rows"] is None:
        words = f"the gain is estimated as {amount(x['gain'], log)}: no log is foretold to show it"
        return Statement("test", f"{words}; first try what is named below")
    words = (
        f"about {_round(x['rows']):,} rows like these ({x['times']:.2g} times this log) pass the"
        f" test in {document['power']:.0%} of logs, if the gain is what it is estimated to be,"
        f" {amount(x['gain'], log)}"
    )
    if x["rows_if_half"] is not None:
        words += f"; about {_round(x['rows_if_half']):,}, if it is half of that"
    return Statement("test", words)


def _arms(document: Mapping[str, Any]) -> Statement:
    """How large an A/B test must be."""
    x = document["ab_test"]
    if x is None or x["episodes_each"] is None:
        why = "the log has no whole episodes" if x is None else "the gain is not above 0"
        return Statement("a/b test", f"its size cannot be foretold: {why}")
    return Statement(
        "a/b test",
        f"about {_round(x['episodes_each']):,} episodes in each arm would show that gain in"
        f" {document['power']:.0%} of tests (two-sided, 5 %; returns scatter by"
        f" {x['deviation']:.4g})",
    )


def _tried(document: Mapping[str, Any]) -> Statement:
    """What to try more often."""
    log, found = document["log"], document["trials"]
    if not found:
        words = "nothing: no rare action could still turn out to be worth much at so small a cost"
        return Statement("try", words)
    lines = [
        f"{x['action']!r} in {x['state']!r}: in {x['share']:.1%} of decisions there instead of"
        f" {x['now']:.1%} (about {x['more']:,.0f} more in a log of this size; tried"
        f" {x['visits']:,.0f} times so far). It costs at most {rough(x['costs'], log)} and could"
        f" be worth up to {rough(x['could_gain'], log)}, each at its 95 % bound"
        for x in found
    ]
    first = lines[0] + (f"; {len(lines) - 1} more: {ASK}" if len(lines) > 1 else "")
    more = [
        f"all of it together costs at most {rough(document['loss'], log)} (--loss); a rare"
        " disaster that no row has shown is not in these figures: ask those who know the action"
    ]
    return Statement("try", first, (*lines, *more), in_full=True)


def _round(n: float) -> int:
    """Two digits: a forecast has no more."""
    return math.ceil(float(f"{n:.2g}"))


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


def safety_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What is said of a safety test, the conclusion first."""
    document = plain(document)
    log, said = document["log"], document.get("training_overlap")
    found = [
        Statement("verdict", sentence(safety_verdict(document))),
        *warning([*log_warnings(log), *urgent(document.get("notes", ()))]),
        _gain(document),
        *parts(document),
        _tested(document),
        _weights(document),
        *([] if said is None else [Statement("training", said["words"])]),
        _assumed(document),
    ]
    if "rows_read" in log:
        found.append(rows_read(log))
    return in_terms_of(log, found + notes(document.get("notes", ()), log))


def safety_verdict(found: Mapping[str, Any]) -> str:
    """The conclusion; where it holds under a condition only, with that before it."""
    outcome = found["verdict"].removesuffix(IF)
    if outcome == NO_EVIDENCE:
        kept = "".join(words for many, words in KEPT.items() if asked_of(found, many))
        return (
            "NO EVIDENCE EITHER WAY: the test did not show that the policy is better than"
            f" {_other(found)}{kept}, nor that it is worse"
        )
    word = "better" if outcome == PASSES else _worse(found)
    how = "approximately " if found["bound"] in APPROXIMATE_BOUNDS else ""
    shown = f"{how}shown to be {word} than {_other(found)}"
    shown += none_worse(found) if outcome == PASSES else ""
    if found["verdict"].endswith(IF):
        return (
            f"NOT SHOWN. {outcome.upper()} ONLY IF {found['condition']}: it is then {shown}."
            f" {found.get('remedy', '')}"
        )
    return f"{outcome.upper()}: {shown}"


def _other(found: Mapping[str, Any]) -> str:
    """What the policy is compared with."""
    return "what made the log" if found["estimator"] == "model" else "the baseline"


def _worse(found: Mapping[str, Any]) -> str:
    """Whether a policy that fails is worse as a whole, or in which parts."""
    high = found["gain_at_most"]
    where = [
        f"{preposition} {x['name']}"
        for kind, preposition in PLACES
        for x in found.get(kind, ())
        if x["verdict"] == "worse"
    ]
    return "worse" if not where or (high is not None and high < 0) else f"worse {', '.join(where)}"


def _gain(found: Mapping[str, Any]) -> Statement:
    """The gain with its bounds, and how certain they are."""
    log, low, high = found["log"], found["gain_at_least"], found["gain_at_most"]
    words = f"{more(found['estimated_gain'], log)} than {_other(found)}"
    words += f" in an episode, {span(low, high, log)}"
    if known(low) or known(high):
        how = "about " if found["bound"] in APPROXIMATE_BOUNDS else ""
        words += f"; wrong with probability {how}{found['delta']:g}, if what it assumes is true"
    detail: tuple[str, ...] = ()
    if "compared_with" in found:
        detail += (f"it is compared with {found['compared_with']}",)
    if (each := found.get("delta_of_each_test")) is not None:
        loss = found.get("delta_of_loss", each)
        shared = f"{each:g} for each side" if loss == each else f"{each:g} below, {loss:.2g} above"
        detail += (f"the probability of an error is shared: {shared}",)
    return Statement("worth", f"{words}{in_brackets(log)}", (*turned(log), *detail))


def _tested(found: Mapping[str, Any]) -> Statement:
    """On what it was tested, and how."""
    others = found.get("episodes_cap_chosen_on")
    prepared = f", prepared on {others:,} others" if others else ""
    return Statement(
        "tested",
        f"{plural(found['episodes_tested'], 'episode')}{prepared}",
        (
            f"{found['estimator']} values, {found['bound']} bound",
            "both values are those of the model of these episodes"
            if found["estimator"] == "model"
            else "each counts by how much more often the policy would have done what was done",
        ),
    )


def _weights(found: Mapping[str, Any]) -> Statement:
    """How much evidence the weights leave."""
    few = found["effective_episodes"]
    if few is None:
        words = f"{found['share_never_tried']:.1%} of its decisions were never tried in their state"
        return Statement("coverage", f"no weights are used; {words}")
    return Statement(
        "weights",
        f"{plural(found['episodes_tested'], 'episode')} tell as much as about {few:,.1f} episodes"
        f" of the new policy; {found['share_never_tried']:.1%} of its decisions were never tried"
        " in their state",
        (f"the largest weight is {found['largest_weight']:.3g}",),
    )


def _assumed(found: Mapping[str, Any]) -> Statement:
    """What must be true; unasked, what only the reader can judge."""
    whole = found["assumptions"]
    shown = [short for words, short in JUDGED if any(words in x for x in whole)]
    shown += [x for x in whole if "nobody declared" in x]
    more = max(len(whole) - len(shown), 0)
    return listed("assumes", whole, to_judge(shown, more), first=True)


def watch_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What is said of a look at a growing log, the conclusion first."""
    document = plain(document)
    log, unchecked = document["log"], not document["training_checked"]
    found = [Statement("verdict", _watch_verdict(document))]
    found += warning([*log_warnings(log), *urgent(document["notes"])])
    found += [_watch_gain(document), _capital(document), counted(document), *waiting(document)]
    trained = training_left_out(document["episodes_left_out"])
    never = (
        "could not check whether the policy was made from these episodes; training.npz beside the"
        " policy is missing"
    )
    trained = "; ".join([trained] * bool(trained) + [never] * unchecked)
    found += [Statement("training", trained)] if trained else []
    found += [rows_read(log), *notes(document["notes"], log)]
    return (*in_terms_of(log, found), Statement("state", str(document["state_file"])))


def _watch_verdict(found: Mapping[str, Any]) -> str:
    words = {
        PASSES: "BETTER: shown to be better than the baseline",
        FAILS: "WORSE: shown to be worse than the baseline",
        NO_EVIDENCE: "NOT YET: neither better nor worse has been shown; run again when there are"
        " more episodes",
    }[found["verdict"]]
    at = found["loss" if found["verdict"] == FAILS else "gain"]["reached_at_episode"]
    if found["verdict"] != NO_EVIDENCE and at is not None:
        words += f", since episode {at:,}"
    return words


def _watch_gain(found: Mapping[str, Any]) -> Statement:
    """The estimated gain in the units of the reward."""
    log, gain = found["log"], found["estimated_gain"]
    if gain is None:
        return Statement("reward", reward_words(log), tuple(turned(log)))
    words = f"about {more(gain, log)} than the baseline in an episode"
    return Statement("worth", f"{words}{in_brackets(log)}", tuple(turned(log)))


def _capital(found: Mapping[str, Any]) -> Statement:
    """The capital of both bets, and what would show something."""
    gain, loss = found["gain"], found["loss"]
    return Statement(
        "capital",
        f"evidence for better {gain['capital']:.3g}, for worse {loss['capital']:.3g};"
        f" {found['capital_needed']:g} is needed. Wrong with probability {found['delta']:g} over"
        " all looks together",
        (
            f"each is the capital of a bet that starts at 1; the highest were {gain['highest']:.3g}"
            f" and {loss['highest']:.3g}",
        ),
    )
