"""How sure an improvement is, in words, a picture and a table: the part of its page that somebody
who doubts reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from surefoot.advice.assurance import assurance_worth
from surefoot.advice.confounding import confounding_sentence
from surefoot.advice.files import CANDIDATE, POLICY
from surefoot.advice.gate_words import gate_lines
from surefoot.advice.provenance import file_hash
from surefoot.advice.safety_parts import part_lines
from surefoot.advice.safety_words import conclusion
from surefoot.advice.value_on_log import WHERE, own_lines
from surefoot.advice.verdict import NOTHING_TO_LEARN
from surefoot.atomic import read_json
from surefoot.certificates import RIGOROUS
from surefoot.core.evidence import FINITE_SAMPLE
from surefoot.errors import LogError
from surefoot.report.page import number, percent, sentence, signed_number
from surefoot.report.pictures import gain_picture, hidden_picture
from surefoot.report.sections_page import PageTable
from surefoot.text import plural

METHODS = {
    "model": "by a model of it",
    "weighted episodes": "by weighted episodes, without a model",
}
SAFETY = "safety-test.json"
DATA = {"held-out half": "the half that tests", "all data": "all data: OPTIMISTIC"}


@dataclass(frozen=True)
class Evidence:
    """A heading with a paragraph, a picture and a list, or some of them."""

    title: str
    first: str = ""
    items: Sequence[str] = ()
    picture: str = ""
    caption: str = ""


def headline(summary: Mapping[str, Any]) -> str:
    """The verdict in a few words."""
    if summary["verdict"] == NOTHING_TO_LEARN:
        return "Nothing to learn from this log"
    despite = ", ".join(summary.get("waived", ()))
    if despite:
        return f"Supported despite {despite}: true only if that does not matter"
    if summary["supported"]:
        return "Supported: the data show that the new policy is better"
    unseen = ", ".join(x["key"] for x in summary.get("not_looked_at", ()))
    unseen = f" (not looked at: {unseen})" if unseen else ""
    if summary["accepted_unsupported"]:
        return f"Used at the user's wish: the data do not show that it is better{unseen}"
    return f"Not supported: the data do not show that a change is better{unseen}"


def certainty(summary: Mapping[str, Any]) -> str:
    """What was found, and how certain that is, in one sentence; "" where nothing was tested."""
    found = _held_out(summary)
    if not summary["changes"]["states_changed"]:
        return ""
    if found is None:
        return _proved(summary)
    gain, low, high = found
    where = f"{WHERE[summary['start']]}, on data that it was not learned from"
    if summary["supported"] and low > 0:
        how = "at most" if summary["worth"]["held_out"]["test"] == FINITE_SAMPLE else "about"
        false = ", which was found false, or not looked at" if summary.get("waived") else ""
        return (
            f"The new policy earns {number(gain)} more than the baseline {where}, and at least"
            f" {number(low)} more; such a statement is wrong for {how} 5 % of logs, if what must be"
            f" true for it is true{false} (see below)."
        )
    return (
        f"The candidate's gain {where} is {signed_number(gain)}; anything from"
        f" {signed_number(low)} to {signed_number(high)} is possible (90 % interval)."
    )


def _proved(summary: Mapping[str, Any]) -> str:
    """The same where the verdict is a proof from all of the log."""
    c = summary["certificate"]
    if not summary["supported"] or not c or "bound" not in c:
        return ""
    proved = "It is proved"
    if c["label"] != RIGOROUS:
        proved = "Were it not for what was passed over, it would be proved"
    return (
        f"{proved} that the new policy earns at least {number(c['bound'])} more than the"
        f" baseline {WHERE[summary['start']]}; such a proof is wrong for at most"
        f" {percent(c['delta'])} of logs, if what must be true for it is true (see below)."
    )


def _held_out(summary: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """(gain, low, high) of the test; None where one is missing."""
    found = summary["worth"]["held_out"] or {}
    values = [found.get(name) for name in ("gain", "low", "high")]
    if any(x is None or not math.isfinite(x) for x in values):
        return None
    gain, low, high = (float(x) for x in values if x is not None)
    return gain, low, high


def gain_and_caption(summary: Mapping[str, Any]) -> tuple[Markup, str]:
    """(picture, caption) of the held-out gain; empty where there is none."""
    found = _held_out(summary)
    if found is None:
        return Markup(), ""
    return gain_picture(*found), (
        f"The gain {WHERE[summary['start']]}, measured on the half of the log that the policy was"
        " not learned from: rewards count less by the discount factor"
        f" {summary['gamma']:g} with every step. The bar reaches from what the gain is at least to"
        " what it is at most, each wrong for 5 % of logs. The curve shows how likely other values"
        " are."
    )


def estimates_table(summary: Mapping[str, Any]) -> PageTable | None:
    """Off-policy estimates of both policies with their intervals; None where there are none."""
    rows: dict[str, dict[str, str]] = {}
    for x in summary["worth"].get("estimates", []):
        by = f", {METHODS[x['by']]}" if x["data"] == "held-out half" else ""
        show = signed_number if x["of"] == "gain" else number
        cell = f"{show(x['value'])}\n{show(x['low'])} to {show(x['high'])}"
        rows.setdefault(DATA[x["data"]] + by, {})[x["of"]] = cell
    if not rows:
        return None
    columns = ("baseline", "candidate", "gain")
    return PageTable(
        f"What both policies are worth {WHERE[summary['start']]}, with 90 % intervals. The"
        " candidate was made from a part of all data, so it looks better there than it is.",
        ("measured on", *columns),
        [[name, *(cells.get(k, "–") for k in columns)] for name, cells in rows.items()],
        frozenset({1, 2, 3}),
    )


def evidence(summary: Mapping[str, Any], safety: Mapping[str, Any] | None = None) -> list[Evidence]:
    """The test, what it cannot exclude, the certificate, and what all of it assumes."""
    found = []
    held_out = summary["worth"]["held_out"]
    if held_out:
        found.append(Evidence("The test", _test(held_out)))
    gates = [sentence(x.strip()) for x in gate_lines(summary)]
    if gates:
        found.append(Evidence("Guards and groups", items=gates))
    if safety is not None:
        found.append(_safety(safety))
    inside = summary["worth"]["in_sample_optimistic"]
    own = own_lines(summary["own_return"], inside["baseline"]) if inside else []
    if own:
        words = sentence(" ".join(x.strip() for x in own))
        found.append(Evidence("Returns of the log itself", words))
    if summary["cannot_exclude"]:
        words = unseen_words(summary["cannot_exclude"])
        found.append(Evidence("What the log cannot exclude", words))
    if summary["supported"] or summary["accepted_unsupported"]:
        found += _hidden(summary.get("confounding"))
    if summary["certificate"] is not None:
        found.append(_certificate(summary["certificate"]))
    if summary["assumptions"]:
        items = [sentence(x) for x in summary["assumptions"]]
        found.append(Evidence("What must be true for the verdict", items=items))
    return found


def _test(held_out: Mapping[str, Any]) -> str:
    """How it was tested."""
    checked = (
        "Whole episodes were weighted, so all moves were tested together."
        if held_out["test"] == FINITE_SAMPLE
        else f"{percent(held_out['share_checked'])} of the moves could be checked; the others were"
        " taken back."
    )
    holds = (
        "The test holds for any number of episodes (finite-sample)."
        if held_out["test"] == FINITE_SAMPLE
        else "The test needs many such pieces (asymptotic)."
    )
    return (
        f"One half of the log made the policy"
        f" ({held_out['units'] - held_out['units_tested']:,} {held_out['unit']}); the other half"
        f" tested it, once ({held_out['units_tested']:,} {held_out['unit']}). In the half that"
        f" tests, {held_out['informative_steps']:,} steps took an action which the candidate takes"
        f" more often. {checked} {holds}"
    )


def unseen_words(found: Mapping[str, Any]) -> str:
    """What could undo the gain although the log has not shown it."""
    undo, possible = found["would_undo_one_in"], found["not_excluded_one_in"]
    kind = "worst" if found["more_often"] else "best"
    origin = "of the declared range" if found["range_declared"] else "that this log suggests"
    worth = f"{number(found['outcome'])} with all that follows"
    outcome = f"an outcome worth {worth}, the {kind} {origin}"
    where = f"{found['action']!r} in state {found['state']!r}"
    if undo <= 1:
        return (
            f"No outcome within the range would undo the gain by itself, not even {outcome}, in"
            f" every decision for {where}."
        )
    excluded = (
        f"they exclude shares above {percent(1 / possible)} (at 95 %)"
        if possible > 1
        else "too few to exclude any share"
    )
    return (
        f"The gain would be gone if {percent(1 / undo)} of the decisions for {where} had {outcome}."
        f" {found['visits']:.0f} of these decisions are known; {excluded}."
    )


def _hidden(found: Mapping[str, Any] | None) -> list[Evidence]:
    """How strong a hidden cause would have to be, with its curve."""
    words = confounding_sentence(found)
    if found is None or not words:
        return []
    title, curve = "What a hidden cause could explain", found.get("curve", [])
    if len(curve) < 2:
        return [Evidence(title, sentence(words))]
    fresh = (
        ""
        if found["one_step"]
        else " It is taken to be new at each step. One that lasts, such as a person's constitution,"
        " can mislead more, and these numbers do not cover it."
    )
    return [
        Evidence(
            title,
            f"{sentence(words)} A hidden cause is something that people acted on, that matters for"
            f" the outcome, and that no column of the log holds.{fresh} No log can show whether"
            " there is one: ask those who know how decisions were made.",
            picture=hidden_picture(curve),
            caption="What is left of the gain, at least, if a hidden cause multiplied or divided"
            " the odds of actions by up to so much (1: there is none). The dashed line also counts"
            " sampling error: it is wrong for about 5 % of logs.",
        )
    ]


def safety_word(found: Mapping[str, Any]) -> str:
    """The verdict of a safety test."""
    verdict = str(found["verdict"])
    shown = f"shown to be {conclusion(found)} than the baseline"
    if verdict in ("passes", "fails", "no evidence"):
        return f"{verdict}, {shown}"
    return f"no evidence yet, {shown} only if {found['condition']}"


def read_safety(folder: Path) -> dict[str, Any] | None:
    """What `surefoot safety-test --json` said of a policy of the folder, if safety-test.json
    there has it; refused where it is about another policy.
    """
    path = folder / SAFETY
    if not path.is_file():
        return None
    again = f"run surefoot safety-test --json again, or remove {path}"
    try:
        found: dict[str, Any] = read_json(path)
    except ValueError as error:
        raise LogError(f"{path} is no JSON: {again}") from error
    if not isinstance(found, dict) or found.get("schema") != "surefoot/safety-test/1":
        raise LogError(f"{path} does not come from surefoot safety-test: {again}")
    for name in (POLICY, CANDIDATE):
        file = folder / name
        if file.is_file() and file_hash(file) == found.get("policy_fingerprint"):
            ends = ("estimated_gain", "gain_at_least", "gain_at_most")
            return found | {k: math.nan if found[k] is None else found[k] for k in ends}
    raise LogError(f"{path} is about another policy than those in {folder}: {again}")


def _safety(found: Mapping[str, Any]) -> Evidence:
    """The test on data that had no part in the policy."""
    return Evidence(
        "Safety test on other data",
        f"{Path(str(found['policy'])).name} on {found['log']['source']}: {safety_word(found)}."
        f" {safety_certainty(found)} What it rests on:",
        [*safety_facts(found), *(sentence(x) for x in found["assumptions"])],
    )


def safety_certainty(found: Mapping[str, Any]) -> str:
    """The gain with its bounds, and how certain they are."""
    low, high = found["gain_at_least"], found["gain_at_most"]
    ends = [f"at least {signed_number(low)}"] * math.isfinite(low)
    ends += [f"at most {signed_number(high)}"] * math.isfinite(high)
    how = "about " if found["bound"] in ("student-t", "bca") else ""
    sure = (
        f", {' and '.join(ends)}; this is wrong with probability {how}{found['delta']:g}, if what"
        " must be true is true"
        if ends
        else ", without any bound"
    )
    return f"The gain over the baseline is {signed_number(found['estimated_gain'])}{sure}."


def safety_facts(found: Mapping[str, Any]) -> list[str]:
    """What was tested, in sentences."""
    return [
        f"{plural(found['episodes_tested'], 'episode')} tested. Each counts by how much more often"
        f" the policy would have done what was done (values {found['estimator']}, bound"
        f" {found['bound']}).",
        f"These weights leave the evidence of {found['effective_episodes']:,.0f} episodes of equal"
        f" weight; the largest weight is {number(found['largest_weight'])}.",
        f"{percent(found['share_never_tried'])} of the policy's decisions are actions that were"
        " never tried there.",
        *(sentence(x.strip()) for x in part_lines(found)),
    ]


def _worth(c: Mapping[str, Any]) -> str:
    """What a bound is worth, without the capitals of the terminal."""
    words = assurance_worth(c)
    for shout, plain in (
        ("VACUOUS, it", "nothing: the bound"),
        ("not useful, it", "not enough: the candidate"),
        ("USEFUL, it is proved", "the candidate is proved"),
        ("USEFUL if its assumptions hold: it", "if its assumptions hold, the candidate"),
    ):
        words = words.replace(shout, plain)
    return sentence(words)


def _certificate(c: Mapping[str, Any]) -> Evidence:
    """What is proved, and under which assumptions."""
    title = "What is proved"
    if "not_given" in c:
        return Evidence(title, f"Nothing: {c['not_given'].rstrip('.')}.")
    if c["bound"] is None or not math.isfinite(c["bound"]):
        return Evidence(
            title,
            f"Nothing (certificate {c['method']}): the candidate moves probability of pairs whose"
            " value no return in the log bounds.",
        )
    what = c["bounded"].replace("v^pi - v^{pi_b}", "the gain")
    return Evidence(
        title,
        f"{_worth(c)} The bound: with probability {percent(1 - c['delta'])}"
        f" {what} is at least {signed_number(c['bound'])} (certificate {c['method']},"
        f" {c['label']}). It assumes:",
        [sentence(x) for x in c["assumptions"]],
    )
