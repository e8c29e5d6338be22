"""What is said of an improvement, from the document that `surefoot improve --json` prints; and
what is proved of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.algorithms.defaults import DEFAULT
from surefoot.core.evidence import FINITE_SAMPLE, RIGOROUS
from surefoot.core.plain_values import plain
from surefoot.core.text import parameters_text, plural, signed
from surefoot.report.cell_words import cell_statements
from surefoot.report.doubt_words import doubts
from surefoot.report.log_words import (
    WHERE,
    amount,
    baseline_statement,
    difference,
    disagreement,
    figure,
    log_warnings,
    lower,
    more,
    notes,
    own_unit,
    reward_words,
    rows_read,
    span,
    turned,
    value,
    warning,
)
from surefoot.report.next_words import next_steps
from surefoot.report.part_words import ALIKE, ALL_CHECKED, none_worse, parts
from surefoot.report.statements import (
    ASK,
    Statement,
    documents,
    in_terms_of,
    known,
    listed,
    sentence,
    weights_words,
)

# words of the document, which no test of the library's objects is needed to know
NOTHING_TO_LEARN = "nothing to learn"
# what a reason says beside the test
SAID = re.compile(r"no policy from all rows[^;.]*|(?:above|below) the [^()]*its weights scatter")
NO_HIDDEN_CAUSE = "every reason for a decision is in the state"
SAME_WORLD = "conditions stay as in the log"
# how an assumption begins, and its shortest true form; those that are not here the log can show
JUDGED = (
    ("nothing outside the state", NO_HIDDEN_CAUSE),
    ("the world tomorrow", SAME_WORLD),
    ("the baseline is what", "the estimated baseline is what is done today"),
    ("the actions were chosen with the prop", "the propensities are true"),
    ("the actions were chosen with the prob", "the given baseline made the log"),
    ("what the baseline looks at", "what else the baseline looks at does not bear on outcomes"),
    ALIKE,
)  # fmt: skip
MOST_ALONE = 5  # changes that are told one by one in the terminal
# what a warning of `surefoot check` means, by the name of the finding
ALSO = {
    "Markov": "outcomes depend on earlier steps",
    "drift": "outcomes changed over time",
    "policy drift": "the way actions were chosen changed",
}
FALSE, UNLOOKED = "FOUND TO BE FALSE", "NOT LOOKED AT"
ABOUT = ((1e9, "billion"), (1e6, "million"))


def improvement_statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What is said of an improvement, the conclusion first."""
    document = plain(document)
    found = [
        *_conclusion(document),
        *_assumptions(document),
        *next_steps(document),
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
        *_each_alone(document),
        *doubts(document),
    ]


def verdict_words(document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """(the verdict, the reason at length)."""
    reason, waived = str(document["reason"]), ", ".join(document.get("waived", ()))
    short = str(document.get("reason_in_short") or reason).rstrip(".")
    if document["verdict"] == NOTHING_TO_LEARN:
        rest = reason.partition(": ")[2] or reason  # the verdict has the words before
        return f"{NOTHING_TO_LEARN.upper()}: {rest}", ()
    if not document["supported"]:
        used = ", but used as asked (--accept)" * document["accepted_unsupported"]
        words = f"NOT SUPPORTED{used}: {short}"
    elif waived:
        words = f"SUPPORTED despite {waived}: true only if this does not matter: {short}"
    else:
        how = "held-out data show"
        if not document["worth"]["held_out"]:
            how = "it is proved, under the assumptions below,"
        words = f"SUPPORTED: {how} that the new policy {_earns(document['log'])} than"
        words += f" {compared_with(document)}"
        words += f" on average{none_worse(document)}"
    words += _condition(document)
    return words, () if reason.rstrip(".") in words else (sentence(reason),)


def compared_with(document: Mapping[str, Any]) -> str:
    """What the gain is over."""
    rule = document["baseline"].get("against")
    return "the baseline's rule (without its exploration)" if rule else "the baseline"


def _earns(log: Mapping[str, Any]) -> str:
    """That a policy is better, by what more of the reward means."""
    return "does better" if lower(log) or own_unit(log) else "earns more"


def _condition(document: Mapping[str, Any]) -> str:
    """What a verdict rests on that nobody declared."""
    seen = document["reward_range"]
    if not document["supported"] or seen["declared"] or not document["worth"]["held_out"]:
        return ""
    ends = f"{seen['low']:g} to {seen['high']:g}"
    return f". Condition: rewards stay within {ends}, the range seen"


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
    if found is not None and own_unit(log):
        words = f"{difference(found[0], log)} ({_interval(document)})"
        words += f"{_of_baseline(document, ', {}')}{relative_words(document)}"
    elif found is not None:
        words = amount(found[0], log) if lower(log) else signed(found[0])
        words += f"{_of_baseline(document)}; {_interval(document)}"
    if found is not None:
        words = words if document["supported"] else f"for information only: {words}"
    elif document["supported"] and known(c.get("bound")):
        words = f"at least {more(c['bound'], log)} than the baseline"
    else:
        words = "it could not be measured on held-out data"
    if found is not None or document["supported"]:
        counted = f"{'Discounted' if document['gamma'] < 1 else 'Counted'} {where}"
        words += ". For a single decision" if log["bandit"] else f". {counted}"
    said = reward_words(log)
    words += f"; {said}" if said else ""
    detail = turned(log)
    if not log["bandit"] and document["gamma"] < 1:
        gamma = f"{document['gamma']:g}"
        detail.append(f"rewards count less by the discount factor {gamma} with every step")
    if (inside := document["worth"]["in_sample_optimistic"]) is not None:
        over = " over the rule" if document["baseline"].get("against") else ""
        detail.append(
            f"in sample, OPTIMISTIC: {amount(inside['gain'], log)}{over} (baseline"
            f" {value(inside['baseline'], log)}, candidate {value(inside['policy'], log)})"
        )
    detail += [*_kept_and_beyond(document)[0], *_own(document)[0]]
    return Statement("worth", words, tuple(detail))


def _interval(document: Mapping[str, Any]) -> str:
    """Between which changes the gain lies, in the units of the reward's column."""
    log, (_, low, high) = document["log"], held_out_gain(document) or (0.0, None, None)
    if low is None or high is None or not (known(low) and known(high)):
        return span(low, high, log)
    level = f"{100 * (1 - 2 * document['worth']['held_out'].get('delta', 0.05)):.0f} % interval"
    if own_unit(log):
        pair = (-high, -low) if lower(log) else (low, high)
        return f"{' to '.join(figure(x, log) for x in pair)}, {level}"
    ends = span(low, high, log) if lower(log) else f"{signed(low)} to {signed(high)}"
    return f"{level} {ends.removeprefix('between ')}"


def relative_words(document: Mapping[str, Any]) -> str:
    """The gain beside what the baseline is worth; "" where that is not clearly above 0."""
    found = document["worth"].get("relative")
    return "" if not known(found) else f"; {100 * found:+.2g} % relative to the baseline"


def _of_baseline(document: Mapping[str, Any], form: str = " ({})") -> str:
    """What baseline and policy are worth on the same data, where their difference is the gain."""
    log, gain = document["log"], (held_out_gain(document) or (math.nan,))[0]
    worth = {
        x["of"]: x["value"]
        for x in document["worth"].get("estimates", ())
        if x["data"] == "held-out half" and known(x["value"])
    }
    base = worth.get("baseline", worth.get("rule"))
    if base is None:
        return ""
    new, old = worth.get("candidate", math.nan), base
    if math.isclose(new - old, gain, rel_tol=1e-6, abs_tol=1e-12):
        return form.format(f"from {value(old, log)} to {value(new, log)}")
    who = "the baseline" if "baseline" in worth else "the baseline's rule"
    return form.format(f"{who}: {value(old, log)}")


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
    false = " (some were found false, or not looked at)" * bool(document["waived"])
    if not found:
        if not document["supported"] or "delta" not in c:
            return []
        how = "" if c["label"] == RIGOROUS else ", but for what was passed over,"
        words = (
            f"proved{how} from all of the log by {c['method']} ({c['label']}); nothing was held"
            f" out. Wrong for at most {c['delta']:.0%} of logs, if the assumptions hold{false}"
        )
        return [Statement("sure", words)]
    whole, log = found["test"] == FINITE_SAMPLE, document["log"]
    number, tested, unit = (found[x] for x in ("units", "units_tested", "unit"))
    if found.get("episodes_tested") is not None:
        number, tested, unit = found["episodes"], found["episodes_tested"], "episodes"
    if held_out_gain(document) is None:
        words = f"not tested: {tested:,} of {number:,} {unit} were set aside, but no valid test"
        return [Statement("sure", f"{words} exists")]
    words = f"learned from {number - tested:,} {unit}, tested once on {tested:,} others"
    if lost := sum(log["rows_left_out"].values()):
        words += f" ({lost:,} of {log['rows_read']:,} rows were left out)"
    often = f"{'at most' if whole else 'about'} 5"
    words += (
        f". Of 100 such logs, the true gain is below the interval in {often} and above it in"
        f" {often}, if the assumptions hold{false}"
    )
    holds = "the test needs many such pieces (asymptotic)"
    if found["units_tested"] != tested:
        pieces = f"takes them as {found['units_tested']:,} pieces of several episodes each"
        holds = f"the test {pieces}, and needs many such pieces (asymptotic)"
    if whole:
        holds = "the test holds for any number of episodes (finite-sample)"
    weights = found.get("weights")
    left = (f"by their weights, {weights_words(weights)}",) if weights else ()
    return [Statement("sure", words, (_checked(found, whole), *left, holds))]


def _checked(found: Mapping[str, Any], whole: bool) -> str:
    """What of the moves the held-out half could check."""
    tested = f"{found['informative_steps']:,} tested decisions used an action that the new policy"
    how = "whole episodes were weighted, so all moves were tested together"
    if not whole:
        share = found["share_checked"] or 0.0
        how = "all changes could be tested"
        if share < ALL_CHECKED:
            how = f"{share:.0%} of the changes could be tested, the others were taken back"
    return f"{tested} prefers; {how}"


def _changes(document: Mapping[str, Any]) -> Statement:
    """What changes, the largest change by name."""
    found = document["changes"]
    n, most = found["states_changed"], found["most_changes"]
    used = document["supported"] or document["accepted_unsupported"]
    acts = "acts" if used or not n else "would act"
    words = f"{acts} differently in {n:,} of {found['states_visited']:,} visited states;"
    words += f" {found['mass_moved']:.1%} of past decisions would change"
    largest, detail = found.get("largest"), []
    shown = sum(x["shown"] for x in found.get("alone", ()))
    if shown:
        words += f"; {shown:,} of these changes {'is' if shown == 1 else 'are'} shown by"
        words += " itself" if shown == 1 else " themselves"
    if largest:
        tried = f", tried {plural(largest['tried'], 'time')}" if "tried" in largest else ""
        words += (
            f". Most: in {largest['state']!r} {largest['more_of']!r} instead of"
            f" {largest['less_of']!r} ({largest['moved']:.0%} of decisions there{tried})"
        )
    if "tree" in found:
        told, more = rules_of_tree(found["tree"], document["log"])
        words += f". Rules: {told}"
        detail += more
    if most is not None:
        words += f" (--most-changes {most})"
        detail.append(_left_out(most, found["states_left_out"]))
    return Statement("changes", words, tuple(detail))


def rules_of_tree(tree: Mapping[str, Any], log: Mapping[str, Any]) -> tuple[str, list[str]]:
    """(the rules of a tree in a sentence, what else is to be known of them)."""
    each = []
    for x in tree["rules"]:
        does = "as before" if x["action"] is None else repr(x["action"])
        words = f"if {x['condition']}: {does}" if x["condition"] else f"otherwise {does}"
        each.append(f"{words} ({x['decisions']:.0%} of decisions)")
    table, gain = (amount(tree[name], log) for name in ("gain_of_table", "gain_learned"))
    more = [
        f"in the half that they were learned from, the rules give {gain}, and the table that they"
        f" imitate {table}; both are optimistic"
    ]
    rest = sum(x["not_followed"] for x in tree["rules"])
    if rest > 0:
        more.append(
            f"{rest:.1%} of decisions stay as before although a rule covers them: its action was"
            " tried too rarely there, or is forbidden"
        )
    return "; ".join(each), more


def _each_alone(document: Mapping[str, Any]) -> list[Statement]:
    """What held-out data show of the largest changes, each by itself."""
    found, log = document["changes"].get("alone", ()), document["log"]
    lines = []
    for x in found[:MOST_ALONE]:
        by_itself = "shown by itself" if x["shown"] else "not shown by itself"
        ends = span(x["low"], x["high"], log)
        lines.append(
            f"in {x['state']!r} (visited {x['visits']:,} times) {x['more_of']!r} instead of"
            f" {x['less_of']!r}: {more(x['gain'], log)} if this were the only change,"
            f" {ends}: {by_itself}"
        )
    if len(found) > MOST_ALONE:
        left = len(found) - MOST_ALONE
        lines.append(f"{left:,} more of these are in changes.csv and on the page")
    return [listed("alone", lines)] if lines else []


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
            "no state prefers another action than before: the policy only takes the baseline's"
            " most frequent actions more often"
        )
    if mode is not None and document["baseline"].get("against"):
        told.append(
            "doing always what the baseline does most, its rule without exploration, is worth"
            f" {_part(mode, log)}: that is not part of this gain"
        )
    if mode is None or beyond is None:
        return told, warned
    told.append(
        "of this, always taking the baseline's most frequent action (its rule without exploration)"
        f" gives {_part(mode, log)}; what the policy does beyond that gives {_part(beyond, log)}"
    )
    if mode["gain"] > 0 > beyond["gain"]:
        warned.append(
            f"always taking the baseline's most frequent action looks better still, by"
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
    return [listed("assumes", whole, to_judge(*judged(document)), first=True)] if whole else []


def judged(document: Mapping[str, Any]) -> tuple[list[str], int]:
    """(what of the assumptions only the reader can judge, and what was passed over; how much else
    is assumed).
    """
    whole = document["assumptions"]
    shown = [f"{x.split(':')[0]}: {y}" for x in whole for y in (FALSE, UNLOOKED) if f": {y}" in x]
    more = len(whole) - len(shown)
    for begins, short in JUDGED:
        if any(x.startswith(begins) for x in whole):
            shown.append(short)
            more -= 1
    return shown, more


def to_judge(shown: Sequence[str], more: int) -> str:
    """What only the reader can judge, numbered, and how much else is assumed."""
    words = "; ".join(f"({i}) {x}" for i, x in enumerate(shown, 1))
    rest = f"{more} more: {ASK}" if more else ""
    return ". ".join(filter(None, [f"you must judge: {words}" if words else "", rest]))


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
        told = [f"{ALSO[x]} ({x})" if x in ALSO else x for x in names]
        short.append(f"also found: {', '.join(told)}; this did not decide the verdict")
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
        *cell_statements(document["log"].get("cells")),
        baseline_statement(document),
        Statement("method", f"{words} {document['gamma']:g}", detail, first=False),
        *notes([x for x in document["notes"] if x not in warned], document["log"]),
    ]


def given_parameters(algorithm: Mapping[str, Any]) -> str:
    """The parameters of an algorithm that have a value."""
    return parameters_text({k: v for k, v in algorithm["parameters"].items() if v is not None})


def _files(files: Mapping[str, str]) -> list[Statement]:
    """Where the files are: the page and the policy first."""
    if not files:
        return []
    page, policy = files.get("report.html"), files.get("policy.csv")
    words = [f"Open {page}"] * bool(page) + [f"The policy is {policy}"] * bool(policy)
    rest = [x for x in sorted(files) if x not in ("report.html", "policy.csv")]
    beside = (f"beside it {', '.join(rest)}",) * bool(rest)
    return [Statement("files", ". ".join(words), beside)]


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
