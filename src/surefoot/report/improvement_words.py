"""What is said of an improvement, from the document that `surefoot improve --json` prints; what
could undo its gain, the weakest point first; and what is proved of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from surefoot.algorithms.defaults import DEFAULT
from surefoot.core.evidence import FINITE_SAMPLE, RIGOROUS
from surefoot.core.plain_values import plain
from surefoot.core.text import parameters_text, signed
from surefoot.report.log_words import (
    WHERE,
    amount,
    baseline_statement,
    disagreement,
    in_brackets,
    log_warnings,
    notes,
    reward_words,
    rows_read,
    span,
    turned,
    unit,
    value,
    warning,
)
from surefoot.report.part_words import ALIKE, none_worse, parts
from surefoot.report.statements import (
    ASK,
    Statement,
    documents,
    in_terms_of,
    known,
    listed,
    sentence,
)

# words of the document, which no test of the library's objects is needed to know
NOTHING_TO_LEARN = "nothing to learn"
OTHERWISE = " (Otherwise: "  # what follows it in a reason was overruled
TO_ACCEPT = re.compile(r"To accept this: --despite ([\w,-]+)")
UNSEEN = re.compile(r"not looked at: (.*?) \((.*)\)$")
# what a reason says beside the test
SAID = re.compile(r"no policy from all rows[^;.]*|(?:above|below) the [^()]*its weights scatter")
TEST = re.compile(r"^\S+ test at \d+\s?%: ")  # the words before the numbers of a test
# how an assumption begins, and its shortest true form; those that are not here the log can show
JUDGED = (
    ("nothing outside the state", "no hidden cause (nothing outside the state drives both action"
     " and outcome)"),
    ("the world tomorrow", "tomorrow's world is the world of this log"),
    ("the baseline is what", "the baseline, estimated from the log, is what is done today"),
    ("the actions were chosen with", "the propensities are true"),
    ALIKE,
)  # fmt: skip
MOST_ALONE = 5  # changes that are told one by one in the terminal
FALSE, UNLOOKED = "FOUND TO BE FALSE", "NOT LOOKED AT"
ABOUT = ((1e9, "billion"), (1e6, "million"))


def improvement_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What is said of an improvement, the conclusion first."""
    document = plain(document)
    found = [
        *_conclusion(document),
        *_assumptions(document),
        *proof(document["certificate"]),
        *_how(document),
    ]
    told = in_terms_of(document["log"], found)
    return (*told, *_files(document.get("files") or {}))


def with_statements(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of an improvement with what is said of it, in the order in which it is said."""
    return {**document, "statements": documents(improvement_statements(document))}


def _conclusion(document: Mapping[str, Any]) -> list[Statement]:
    """The verdict, and on what it stands."""
    holds = f"policy.csv holds {document['policy_is']}"
    verdict = [Statement("verdict", *verdict_words(document)), Statement("holds", holds)]
    verdict += _warnings(document)
    if document["verdict"] == NOTHING_TO_LEARN:
        return [*verdict, Statement("reward", reward_words(document["log"]))]
    return [
        *verdict,
        _worth(document),
        *parts(document),
        *_sure(document),
        _changes(document),
        *doubts(document),
    ]


def verdict_words(document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """(the verdict, the reason at length)."""
    reason, waived = str(document["reason"]), ", ".join(document.get("waived", ()))
    if document["verdict"] == NOTHING_TO_LEARN:
        rest = reason.partition(": ")[2] or reason  # the verdict has the words before
        return f"{NOTHING_TO_LEARN.upper()}: {rest}", ()
    if not document["supported"]:
        used = ", but used as asked (--accept)" * document["accepted_unsupported"]
        words = f"NOT SUPPORTED by the data{used}: {_why_not(document, reason)}"
    elif waived:
        found = _against(document, document["waived"]) or reason
        words = f"SUPPORTED despite {waived}: true only if this does not matter: {found}"
    else:
        how = "the data show" if document["worth"]["held_out"] else "it is proved"
        words = f"SUPPORTED: {how} that the new policy is better than the baseline"
        words += none_worse(document)
    more = _not_said(reason.rstrip("."), words)
    words = f"{words.rstrip('.')}{_condition(document, waived)}"
    return words, (sentence(more),) if more else ()


def _not_said(reason: str, words: str) -> str:
    """The reason without what the verdict has already: its first sentence, or all but its test."""
    test = TEST.match(reason)
    if reason in words:
        return ""
    if test and reason[test.end() :] in words:
        return test[0].rstrip(": ")
    first, stop, rest = reason.partition(". ")
    return rest if stop and first in words else reason


def _condition(document: Mapping[str, Any], waived: str) -> str:
    """What a verdict rests on that nobody declared."""
    seen = document["reward_range"]
    if not document["supported"] or seen["declared"] or not document["worth"]["held_out"]:
        return ""
    words = f"if no reward lies outside [{seen['low']:g}, {seen['high']:g}], the range seen"
    return f". Also, only {words}" if waived else f", {words}"


def _why_not(document: Mapping[str, Any], reason: str) -> str:
    """Why it is not supported, without how the test would have ended otherwise."""
    why, otherwise, _ = reason.partition(OTHERWISE)
    accept = TO_ACCEPT.search(reason)
    if not (otherwise and accept):
        return TEST.sub("", why)
    found = _against(document, accept[1].split(",")) or why.rstrip(".")
    return f"{found}. To accept this: --despite {accept[1]}"


def _against(document: Mapping[str, Any], keys: Sequence[str]) -> str:
    """What speaks against the verdict, the first sentence of each; "" unless all of it is there."""
    found = [x for x in document["against"] if x["key"] in keys]
    unseen = [x for x in document["not_looked_at"] if x["key"] in keys]
    looked = [UNSEEN.match(x["sentence"]) for x in unseen]
    if {x["key"] for x in (*found, *unseen)} != set(keys) or not all(looked):
        return ""
    words = [x["sentence"].partition(". ")[0].rstrip(".") for x in found]
    for why in dict.fromkeys(x[2] for x in looked if x):
        names = [x[1] for x in looked if x and x[2] == why]
        words.append(f"not looked at: {', '.join(names)} ({why})")
    return "; ".join(words)


def held_out_gain(document: Mapping[str, Any]) -> tuple[float, float | None, float | None] | None:
    """(gain, low, high) of the test; None where there is none."""
    found = document["worth"]["held_out"] or {}
    gain = found.get("gain")
    if gain is None or not known(gain):
        return None
    return gain, found.get("low"), found.get("high")


def _worth(document: Mapping[str, Any]) -> Statement:
    """What it is worth in the units of the reward, and what more of that means."""
    found, log, where = held_out_gain(document), document["log"], WHERE[document["start"]]
    c = document["certificate"] or {}
    if found is not None:
        gain, low, high = found
        words = (
            f"{amount(gain, log)} {unit(log)} than the baseline{_of_baseline(document)} {where};"
            f" on held-out data {span(low, high, log)}"
        )
    elif document["supported"] and known(c.get("bound")):
        words = f"at least {amount(c['bound'], log)} {unit(log)} than the baseline {where}"
    else:
        words = "it could not be measured on held-out data"
    detail = turned(log)
    if not log["bandit"] and document["gamma"] < 1:
        gamma = f"{document['gamma']:g}"
        detail.append(f"rewards count less by the discount factor {gamma} with every step")
    if (inside := document["worth"]["in_sample_optimistic"]) is not None:
        detail.append(
            f"in sample, OPTIMISTIC: {amount(inside['gain'], log)} (baseline"
            f" {value(inside['baseline'], log)}, candidate {value(inside['policy'], log)})"
        )
    detail += [*_kept_and_beyond(document)[0], *_own(document)[0]]
    return Statement("worth", f"{words}{in_brackets(log)}", tuple(detail))


def _of_baseline(document: Mapping[str, Any]) -> str:
    """What the baseline is worth on the same data."""
    for x in document["worth"].get("estimates", ()):
        if (x["data"], x["of"]) == ("held-out half", "baseline") and known(x["value"]):
            return f"'s {value(x['value'], document['log'])}"
    return ""


def _own(document: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """`own_words` of an improvement."""
    inside = document["worth"]["in_sample_optimistic"]
    return own_words(document["own_return"], inside and inside["baseline"])


def own_words(own: Mapping[str, Any] | None, model: float | None) -> tuple[list[str], list[str]]:
    """(the log's own mean return beside the model's value of the baseline, a warning where they
    contradict each other): one of them; neither where a value is not known.
    """
    if own is None or model is None:
        return [], []
    words = (
        f"the log's own mean return is {own['mean']:.4g} +- {own['standard_error']:.2g}, the model"
        f" says {model:.4g} for the baseline"
    )
    if not own["contradicts_model"]:
        return [words], []
    return [], [
        f"{words}: they differ by more than chance, so the states do not say enough, and gains by"
        " the model are off by as much"
    ]


def _sure(document: Mapping[str, Any]) -> list[Statement]:
    """What was tested on what, and the error allowed."""
    found, c = document["worth"]["held_out"], document["certificate"] or {}
    if not found:
        if not document["supported"] or "delta" not in c:
            return []
        proved = "proved" if c["label"] == RIGOROUS else "proved, but for what was passed over,"
        words = (
            f"{proved} from all of the log by {c['method']} ({c['label']}), nothing was held out;"
            f" wrong for at most {c['delta']:.0%} of logs, if what it assumes is true"
        )
        return [Statement("sure", words)]
    whole, log = found["test"] == FINITE_SAMPLE, document["log"]
    words = (
        f"learned from {found['units'] - found['units_tested']:,} {found['unit']}, tested once on"
        f" {found['units_tested']:,} others"
    )
    if lost := sum(log["rows_left_out"].values()):
        words += f" ({lost:,} of {log['rows_read']:,} rows were left out)"
    if held_out_gain(document) is not None:
        how = "at most" if whole else "about"
        words += f"; each end of the interval is wrong for {how} 5 % of logs, if what it assumes is"
        words += " true" + ", which was found false, or not looked at" * bool(document["waived"])
    holds = "the test needs many such pieces (asymptotic)"
    if whole:
        holds = "the test holds for any number of episodes (finite-sample)"
    return [Statement("sure", words, (_checked(found, whole), holds))]


def _checked(found: Mapping[str, Any], whole: bool) -> str:
    """What of the moves the held-out half could check."""
    tested = f"{found['informative_steps']:,} tested decisions used an action that the new policy"
    how = "whole episodes were weighted, so all moves were tested together"
    if not whole:
        share = found["share_checked"] or 0.0
        how = f"{share:.0%} of the moves could be checked, the others were taken back"
    return f"{tested} prefers; {how}"


def _changes(document: Mapping[str, Any]) -> Statement:
    """What changes, the largest change by name."""
    found = document["changes"]
    n, most = found["states_changed"], found["most_changes"]
    words = f"{n:,} of {found['states_visited']:,} visited states, {found['mass_moved']:.1%} of"
    words += " decisions"
    if not document["supported"] and not document["accepted_unsupported"] and n:
        words += " would have changed"
    largest, detail = found.get("largest"), _each_alone(document)
    shown = sum(x["shown"] for x in found.get("alone", ()))
    if shown:
        words += f"; {shown:,} of these changes {'is' if shown == 1 else 'are'} shown by"
        words += " itself" if shown == 1 else " themselves"
    if largest:
        words += (
            f". The largest: in {largest['state']!r} {largest['more_of']!r} instead of"
            f" {largest['less_of']!r} in {largest['moved']:.0%} of decisions there"
        )
    if most is not None:
        words += f" (--most-changes {most})"
        detail.append(_left_out(most, found["states_left_out"]))
    return Statement("changes", words, tuple(detail))


def _each_alone(document: Mapping[str, Any]) -> list[str]:
    """What held-out data show of the largest changes, each by itself."""
    found, log = document["changes"].get("alone", ()), document["log"]
    lines = []
    for x in found[:MOST_ALONE]:
        by_itself = "shown by itself" if x["shown"] else "not shown by itself"
        ends = span(x["low"], x["high"], log)
        lines.append(
            f"in {x['state']!r} (visited {x['visits']:,} times) {x['more_of']!r} instead of"
            f" {x['less_of']!r}: {amount(x['gain'], log)} {unit(log)} if this were the only change,"
            f" {ends}: {by_itself}"
        )
    if len(found) > MOST_ALONE:
        left = len(found) - MOST_ALONE
        lines.append(f"{left:,} more of these are in changes.csv and on the page")
    return lines


def _kept_and_beyond(document: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(what the gain is made of, what of that a reader must not miss)."""
    found, log = document.get("made_of"), document["log"]
    if not found or not document["changes"]["states_changed"]:
        return [], []
    told: list[str] = []
    warned: list[str] = []
    mode, beyond = found["mode"], found["beyond"]
    if not found["preferred_actions_changed"]:
        warned.append(
            "no state prefers another action than before: the policy does more often what the"
            " baseline does most, and nothing else is new"
        )
    if mode is None or beyond is None:
        return told, warned
    told.append(
        "always doing what the baseline does most (its rule without exploration) is worth"
        f" {_part(mode, log)}; what the policy does beyond that, {_part(beyond, log)}"
    )
    if mode["gain"] > 0 > beyond["gain"]:
        warned.append(
            f"always doing what the baseline does most looks better still, by"
            f" {-beyond['gain']:.4g}: that is its rule without exploration (--deterministic mode"
            " writes such a rule)"
        )
    return told, warned


def _part(x: Mapping[str, Any], log: Mapping[str, Any]) -> str:
    """A part of the gain, with its interval."""
    return f"{amount(x['gain'], log)} ({span(x['low'], x['high'], log)})"


def _left_out(most: int, left_out: int) -> str:
    """What a limit of the changes did."""
    if not left_out:
        return f"--most-changes {most} left out nothing"
    return (
        f"--most-changes {most}: those that are worth most in the half that made the policy;"
        f" {left_out:,} more that it proposed are the baseline again, and were so in the test"
    )


def _assumptions(document: Mapping[str, Any]) -> list[Statement]:
    """What must be true: what was passed over, what only the reader can judge, how much else."""
    whole = document["assumptions"]
    if not whole:
        return []
    shown = [f"{x.split(':')[0]}: {y}" for x in whole for y in (FALSE, UNLOOKED) if f": {y}" in x]
    more = len(whole) - len(shown)
    for begins, short in JUDGED:
        if any(x.startswith(begins) for x in whole):
            shown.append(short)
            more -= 1
    words = "; ".join(shown) + (f"; {more} more: {ASK}" if more else "")
    return [listed("assumes", whole, words, first=True)]


def _warnings(document: Mapping[str, Any]) -> list[Statement]:
    """Everything that warns: of the log and the returns in full, the rest in a clause each."""
    log, short = document["log"], []
    odd = [
        x
        for x in document.get("findings", ())
        if x["level"] == "warning"
        and x["sentence"] not in document["reason"]
        and not any(y in x["sentence"] for y in log["warnings"])
    ]
    instead = [f"{x['name']}: {x['sentence']}" for x in odd]
    if odd:
        names = dict.fromkeys(x["name"] for x in odd)
        short.append(f"surefoot check warns of {', '.join(names)}")
    if document["baseline"].get("renormalised"):
        short.append("forbidden actions were taken out of the baseline")
        instead.append(f"{short[-1]}; gains are against the policy that made the log")
    whole = [*log_warnings(log), *_own(document)[1], *_kept_and_beyond(document)[1]]
    if said := disagreement(document["baseline"]):
        whole.append(said)
    if document["converged"] is False:
        whole.append("NOT CONVERGED: the candidate is the last iterate")
    whole += SAID.findall(document["reason"])
    return warning(whole, short, instead)


def _how(document: Mapping[str, Any]) -> list[Statement]:
    """From what, against what and by which method; notes."""
    chosen = document["algorithm"]
    detail = (
        "the default: a move must gain more than its price, some standard errors of the value,"
        " whatever the unit of rewards; never an untried action",
    ) * (chosen["name"] == DEFAULT)
    words = f"{chosen['name']} ({given_parameters(chosen) or 'no parameters'}), gamma ="
    warned = " ".join(words for x in _warnings(document) for words in x.detail)
    return [
        rows_read(document["log"]),
        baseline_statement(document),
        Statement("method", f"{words} {document['gamma']:g}", detail, first=False),
        *notes([x for x in document["notes"] if x not in warned], document["log"]),
    ]


def given_parameters(algorithm: Mapping[str, Any]) -> str:
    """The parameters of an algorithm that have a value."""
    return parameters_text({k: v for k, v in algorithm["parameters"].items() if v is not None})


def _files(files: Mapping[str, str]) -> list[Statement]:
    """Where the files are: the policy and the page first."""
    if not files:
        return []
    order = ("report.html", "policy.csv")
    names = sorted(files, key=lambda x: (order.index(x) if x in order else len(order), x))
    first = Path(files[names[0]])
    rest = ", ".join(names[1:])
    return [Statement("files", f"{first}" + f"; beside it {rest}" * bool(rest))]


def doubts(document: Mapping[str, Any]) -> list[Statement]:
    """What could undo the gain; the weakest point is the one that is nearest to it, on one scale:
    the factor by which it would have to be worse than what the log excludes.
    """
    found = [
        *_unseen(document["cannot_exclude"]),
        *_hidden_cause(document),
        *_time(document["worth"]["held_out"] or {}),
    ]
    if not found:
        return []
    weakest = min(range(len(found)), key=lambda i: found[i][0])
    rest = [x for i, (_, x) in enumerate(found) if i != weakest]
    return [replace(found[weakest][1], first=True), *rest]


def _unseen(found: Mapping[str, Any] | None) -> list[tuple[float, Statement]]:
    """The pair in which outcomes that the log has not shown would cost most."""
    if found is None:
        return []
    undo, possible = found["would_undo_one_in"], found["not_excluded_one_in"]
    kind = "badly" if found["more_often"] else "well"
    origin = "the declared rewards allow" if found["range_declared"] else "any reward of this log"
    outcome = f"as {kind} as {origin} ({found['outcome']:.4g} with all that follows)"
    where = f"{found['action']!r} in {found['state']!r}"
    n = f"{found['visits']:.0f}"
    if undo <= 1:
        words = (
            f"{where}, tested {n} times. Even if each of these went {outcome}, the gain would be"
            f" {signed((1 - undo) * found['gain'])}."
        )
        return [(math.inf, Statement("unseen", words, first=False))]
    rule = f"{n} tests rule out rates above {1 / possible:.0%} (at 95 %)"
    rule = rule if possible > 1 else f"{n} tests are too few to rule out any rate"
    words = (
        f"{where}, tested {n} times. If {1 / undo:.0%} of these went {outcome}, the gain would"
        f" vanish; {rule}."
    )
    return [(possible / undo, Statement("unseen", words, first=False))]


def _hidden_cause(document: Mapping[str, Any]) -> list[tuple[float, Statement]]:
    """How strong a hidden cause would have to be, where there is a policy to be used."""
    used = document["supported"] or document["accepted_unsupported"]
    found = document.get("confounding")
    if found is None or not used:
        return []
    if "not_given" in found:
        words = f"not computed: how much a hidden cause could explain ({found['not_given']})"
        return [(math.inf, Statement("hidden", words, first=False))]
    return [_strength(found)]


def _strength(found: Mapping[str, Any]) -> tuple[float, Statement]:
    """The odds by which a hidden cause would have to drive the choice of actions."""
    at, shown = (
        found[name] if known(found[name]) else math.inf for name in ("vanishes_at", "shown_up_to")
    )
    fresh = "" if found["one_step"] else ", anew at each step"
    lasting = "" if found["one_step"] else " (if it lasts, perhaps less)"
    data = "on held-out data" if found["held_out"] else "on the data that made the policy"
    most = f"{found['strongest']:g}"
    without = f"{at:.2f}" if at < math.inf else f"more than {most}"
    if shown == math.inf:
        words = (
            "nothing that decisions were based on, and the log does not hold, could explain this"
            f" gain away, unless it changes the odds of actions more than {most}-fold{fresh}"
            f"{lasting}, or leads to outcomes that were never seen"
        )
        counted = f"sampling error is counted ({data})"
    else:
        words = (
            "something that decisions were based on, and the log does not hold, could explain this"
            f" gain away, if it changed the odds of actions {shown:.2f}-fold{fresh}{lasting}"
        )
        counted = f"sampling error is counted ({data}); without it, {without}-fold"
    if shown <= 1:
        words = (
            "with sampling error the gain is not shown even without a hidden cause; one that"
            f" changes the odds of actions {without}-fold{fresh} would explain all of it"
        )
    detail: tuple[str, ...] = (
        counted,
        "A hidden cause is something that people acted on, that matters for the outcome, and that"
        " no column of the log holds. No log can show whether there is one: ask those who know how"
        " decisions were made.",
    )
    if not found["one_step"]:
        detail += (
            "It is taken to be new at each step. One that lasts, such as a person's constitution,"
            " can mislead more, and these numbers do not cover it.",
        )
    return shown, Statement("hidden", words, detail, first=False)


def _time(held_out: Mapping[str, Any]) -> list[tuple[float, Statement]]:
    """What of the gain is explained by when, or after what, actions were taken."""
    explained, low = held_out.get("explained_by_time_and_past"), held_out.get("low")
    if explained is None or low is None or not 0 < explained < low:
        return []  # where more of it is explained, the verdict says so
    words = (
        f"{explained:.4g} of the gain may come from when, or after what, actions were taken; only"
        f" {low:.4g} or more would undo the verdict"
    )
    return [(low / explained, Statement("time", words, first=False))]


def proof(c: Mapping[str, Any] | None) -> list[Statement]:
    """What is proved of the policy without a test; one calm clause where nothing is."""
    if c is None:
        return []
    if "not_given" in c:
        why = c["not_given"].removeprefix("certify: ")
        return [Statement("proof", f"No proof from this log: {why}", first=False)]
    detail: tuple[str, ...] = (bound_words(c),)
    if c["vacuous"]:
        detail += ("this bound says no more than the range of returns does",)
    detail += tuple(f"it assumes: {x}" for x in c["assumptions"])
    return [Statement("proof", proof_words(c), detail, first=False)]


def bound_words(c: Mapping[str, Any]) -> str:
    """The bound itself, and how sure it is."""
    if not known(c["bound"]):
        return (
            "the policy moves probability of pairs whose value no return in the log bounds"
            f" ({c['method']})"
        )
    what = c["bounded"].replace("v^pi - v^{pi_b}", "the gain")
    return (
        f"{what} is at least {signed(c['bound'])} with probability {1 - c['delta']:g}"
        f" ({c['method']}; {c['label']})"
    )


def proof_words(c: Mapping[str, Any]) -> str:
    """Whether the policy is proved to be no worse, and how many rows would be needed if not."""
    if c["useful"] and c["label"] == RIGOROUS:
        return "Proved: the policy is no worse than the baseline."
    if c["useful"]:
        return (
            f"The policy is no worse than the baseline if what the {c['label']} bound assumes is"
            " true."
        )
    if not c["states_changed"]:
        return "The policy is the baseline: there is nothing to prove."
    if known(c["rows_needed"]):
        return f"No proof from this log; about {about(c['rows_needed'])} rows would be needed."
    return "No proof from this log; no larger log of this kind would be enough."


def about(n: float) -> str:
    """A large number as one says it: "1.3 million", "24,000"."""
    digits = float(f"{n:.2g}")
    for size, name in ABOUT:
        if digits >= 1e12:
            return f"{digits:.2g}"
        if digits >= size:
            return f"{digits / size:.2g} {name}"
    return f"{digits:,.0f}"
