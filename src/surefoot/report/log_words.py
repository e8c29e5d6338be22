"""What is said of a log: the rows that were read, what more of the reward means, its warnings, the
baseline, and amounts in the units of the reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from surefoot.core.text import plural, signed
from surefoot.logs.accounting import OTHER, REASONS
from surefoot.report.statements import ASK, Statement, known, listed, text

WHERE = {
    "given": "from the given start on",
    "episodes": "from the start of an episode on",
    "visits": "from an average visited state on",
}
SHOUT = "WARNING: "  # some warnings begin with what is their label here
REWARD = "reward"  # a column of this name needs no other
NO_UNIT: Mapping[str, Any] = MappingProxyType({})  # a log of whose reward nobody said more
TURNED = " (the reward below is minus "  # amounts are in the units of the column here
# words of notes that are said at once
URGENT = (
    "cannot have made this log", "did not make this log", "its weights scatter", "both were shown",
    "nothing to show", "no bound is given", "none is given",
)  # fmt: skip


def rows_read(log: Mapping[str, Any]) -> Statement:
    """What was read, row by row accounted for."""
    left_out = log["rows_left_out"]
    told = log["episodes"] is not None and not log["bandit"]
    episodes = f", {plural(log['episodes'], 'episode')}" if told else ""
    return Statement(
        "read",
        f"{log['source']}: {log['rows_read']:,} rows = {log['rows_used']:,} used +"
        f" {sum(left_out.values()):,} left out",
        (
            *(f"left out: {n:,} {(REASONS | OTHER)[why]}" for why, n in left_out.items()),
            f"{log['states']:,} states, {log['actions']:,} actions{episodes};"
            f" {log['pairs_seen']:,} pairs of state and action ever tried; rewards lie between"
            f" {log['reward_lowest']:.4g} and {log['reward_highest']:.4g}",
        ),
        first=False,
    )


def reward_words(log: Mapping[str, Any]) -> str:
    """What more of the reward means, and its mean; "" in files from before this was kept."""
    return str(log["reward"]["sentence"]).partition(TURNED)[0] if "reward" in log else ""


def turned(log: Mapping[str, Any]) -> list[str]:
    """That other numbers than amounts are turned round, where less of the reward is better."""
    if not lower(log):
        return []
    return [
        "gains, bounds and signed numbers without 'more' or 'less' are of minus"
        f" {column(log)}: more is better"
    ]


def in_brackets(log: Mapping[str, Any]) -> str:
    """What more of the reward means, behind an amount of it."""
    said = reward_words(log)
    return f" ({said})" if said else ""


def read_text(log: Mapping[str, Any]) -> str:
    """What was read, what more of the reward means, and what puts the log in doubt, for commands
    that say nothing else of it.
    """
    return text((rows_read(log), *reward_statements(log)), explain=True)


def reward_text(log: Mapping[str, Any]) -> str:
    """The same without the rows."""
    return text(reward_statements(log), explain=True)


def reward_statements(log: Mapping[str, Any]) -> tuple[Statement, ...]:
    """What more of the reward means, and what puts the log in doubt."""
    return (Statement("reward", reward_words(log), tuple(turned(log))), *warning(log_warnings(log)))


def against_a_promise(vetoes: Sequence[str]) -> str:
    """What findings with these keys mean for `improve`."""
    return (
        f"These warnings can stop improve from supporting a policy: {','.join(vetoes)}."
        " --despite KEY ignores one"
    )


def log_warnings(log: Mapping[str, Any]) -> list[str]:
    """What puts a log in doubt; some documents have only the number of warnings there."""
    found = log.get("warnings")
    return [x.removeprefix(SHOUT) for x in found] if isinstance(found, list) else []


def warning(
    whole: Sequence[str], short: Sequence[str] = (), instead: Sequence[str] = ()
) -> list[Statement]:
    """One statement of all warnings, where there are any: some are said in full, some in `short`,
    and at length `instead` where all is asked for.
    """
    items = [*whole, *instead]
    if not items:
        return []
    more = [f"{'; '.join(short)} ({ASK})"] if short else []
    words = " ".join(f"{x}." if x[-1].isalnum() else x for x in (*whole, *more)).rstrip(".")
    return [listed("warning", items, words, first=True)]


def urgent(said: Sequence[str]) -> list[str]:
    """The notes that are said at once."""
    return [x for x in dict.fromkeys(said) if any(words in x for words in URGENT)]


def notes(said: Sequence[str], log: Mapping[str, Any]) -> list[Statement]:
    """What else to know; what warns is said as such."""
    told = [x for x in dict.fromkeys(said) if x not in (log.get("warnings") or ())]
    told = [x for x in told if x not in urgent(said)]
    return [listed("note", told)] if told else []


def own_unit(log: Mapping[str, Any]) -> str:
    """What people call the reward; "" where nobody said it."""
    return log.get("reward", {}).get("unit") or ""


def points(log: Mapping[str, Any]) -> bool:
    """Whether amounts are told in percentage points."""
    return bool(own_unit(log) and log["reward"].get("share"))


def figure(x: float, log: Mapping[str, Any], sign: str = "") -> str:
    """A number of the reward, in the reader's unit where there is one, without its name."""
    if not own_unit(log):
        return f"{x:{sign}.4g}"
    x *= 100 if points(log) else 1
    if points(log):
        return f"{x:{sign}.1f}" if x == 0 or abs(x) >= 0.1 else f"{x:{sign}.1g}"
    return f"{x:{sign},.0f}" if abs(x) >= 1000 else f"{x:{sign}.3g}"


def units_of(log: Mapping[str, Any], *, whole: bool = False) -> str:
    """What follows such a number, with its space; `whole`: with the name of what it is a share of;
    "" where there is no unit.
    """
    name = own_unit(log)
    if not points(log):
        return f" {name}" if name else ""
    return " percentage points" + f" of {name}" * whole


def amount(x: float, log: Mapping[str, Any]) -> str:
    """A difference in the units of the reward's column: "0.5 more", "0.2 less"."""
    x = -x if lower(log) else x
    return f"{figure(abs(x), log)}{units_of(log)} {'less' if x < 0 else 'more'}"


def more(x: float, log: Mapping[str, Any]) -> str:
    """The same, with what it is an amount of."""
    if own_unit(log) and not points(log):
        return amount(x, log)
    return f"{amount(x, log)} {unit(log)}"


def in_unit(log: Mapping[str, Any]) -> str:
    """In what amounts are told, behind a heading: ", in percentage points of survival"; "" without
    a unit.
    """
    less = " less" * lower(log)  # a gain of what should be low
    return f", in {units_of(log, whole=True).strip()}{less}" if own_unit(log) else ""


def rough(x: float, log: Mapping[str, Any]) -> str:
    """An amount to three digits, with its unit."""
    if own_unit(log):
        return f"{figure(x, log)}{units_of(log, whole=True)}"
    return f"{x:.3g} {unit(log)}"


def difference(x: float, log: Mapping[str, Any]) -> str:
    """A difference with its sign, as the column has it, and its unit: "+0.56 EUR"."""
    return f"{figure(-x if lower(log) else x, log, '+')}{units_of(log, whole=True)}"


def column(log: Mapping[str, Any]) -> str:
    """What is earned: the reward, or the name of another column."""
    name = str(log.get("reward", {}).get("column", REWARD))
    return name if name == REWARD else f"column {name!r}"


def unit(log: Mapping[str, Any]) -> str:
    """The same behind an amount."""
    name = column(log)
    return own_unit(log) or (name if name == REWARD else f"({name})")


def lower(log: Mapping[str, Any]) -> bool:
    """Whether less of the column is better."""
    return bool(log.get("reward", {}).get("direction") == "lower")


def value(x: float, log: Mapping[str, Any]) -> str:
    """A value in the units of the reward's column."""
    x = -x if lower(log) else x
    return f"{figure(x, log)}{' %' if points(log) else units_of(log)}"


def span(low: float | None, high: float | None, log: Mapping[str, Any]) -> str:
    """Between which amounts a gain lies; an end that is not known is not named."""
    ends = [amount(x, log) for x in (low, high) if known(x) and x is not None]
    if len(ends) == 2:
        one, two = (x.split() for x in ends)
        return f"between {one[0] if one[-1] == two[-1] else ends[0]} and {ends[1]}"
    if known(low):
        return f"at least {ends[0]}"
    return f"at most {ends[0]}" if ends else "without any bound"


def baseline_statement(document: Mapping[str, Any]) -> Statement:
    """What the baseline is, and what is to be known of it."""
    baseline, log = document["baseline"], document["log"]
    words, detail, n = "the policy that made the log", [], log.get("policies") or 0
    if n > 1 or not baseline.get("made_the_log", True):
        words = "the policy that was given; other policies made the log, so its value is estimated"
    if baseline.get("policy") is not None:
        words = f"policy {baseline['policy']!r} of the log, ESTIMATED from its own rows"
    elif (log.get("cells") or {}).get("baseline_by_row") and not log.get("propensities"):
        words = (
            "the policy that was given, asked about every row; in a state its mean over the rows"
        )
    elif baseline["estimated"]:
        words = "ESTIMATED from the log itself: give --baseline if it is known"
        several = "its propensities may be those of several policies"
        several = f"{n:,} policies made the log" if n > 1 else several
        if n > 1 or log.get("propensities"):
            detail.append(f"it is what the log shows on average: {several}")
    if baseline.get("renormalised"):
        detail += [
            "forbidden actions were taken out of it; gains are against the policy that made the"
            " log, which used them",
            f"(over what is left of it: {signed(document['worth']['over_renormalised'])} in"
            " sample)",
        ]
    if baseline.get("against"):
        n = baseline["states_unlike_rule"]
        detail.append(
            "gains are over its rule: its most frequent action in every state, without exploration;"
            f" the policy is not that rule in {n:,} visited {'state' if n == 1 else 'states'}"
        )
        if baseline["tied_states"]:
            detail.append(
                f"in {baseline['tied_states']:,} visited states several actions are as frequent:"
                " the first in the order of the actions counts as the rule"
            )
    if baseline.get("disagrees"):
        detail += [disagreement(baseline)]
        detail += [
            f"worst in state {x['state']}: p = {x['p_value']:.2g}"
            for x in baseline["worst_states"][:3]
        ]
    return Statement("baseline", words, tuple(detail), first=False)


def disagreement(baseline: Mapping[str, Any]) -> str:
    """That the baseline cannot have made the log; "" where it can."""
    if not baseline.get("disagrees"):
        return ""
    rows = baseline["impossible_rows"]
    impossible = f", {rows:,} impossible rows" if rows else ""
    return f"the baseline DISAGREES with the log (p = {baseline['p_value']:.2g}{impossible})"


def training_left_out(episodes: int) -> str:
    """That episodes do not count which the policy was made from; "" where there are none."""
    words = f"{episodes:,} new episodes were LEFT OUT: the policy was made from them"
    return words if episodes else ""
