"""What the tests of a log's assumptions found, as findings: the conclusion first, how sure it
is, and what to do.
"""

from __future__ import annotations

from surefoot.core.labels import as_text
from surefoot.diagnosis.combined import Verdict
from surefoot.diagnosis.copies import BY_CHANCE, Copies
from surefoot.diagnosis.finding import (
    CONTRADICTIONS,
    COPIES,
    DRIFT,
    LEVEL,
    MARKOV,
    NOTE,
    OK,
    POLICY_DRIFT,
    STRICT,
    WARNING,
    Finding,
    named,
)  # fmt: skip
from surefoot.diagnosis.walk import MOST_ROWS
from surefoot.logs import Log
from surefoot.logs.accounting import REASONS
from surefoot.text import plural

MUCH = 0.1  # a test that looked at a smaller share of the steps than this has not said much
# a context that explains less than this share of the uncertainty is there, but hardly matters
SLIGHT = 0.001
CONTRADICTORY = (
    "backwards",
    "after-end",
    "contradiction",
)  # reasons to leave out rows that contradict others


def about_memory(verdict: Verdict, looked_at: int, log: Log) -> Finding:
    """Is it Markov?"""
    where = f" (the first {looked_at:,} rows)" if looked_at < log.accounting.used else ""
    numbers = _numbers(verdict) | {"rows_looked_at": looked_at, "most_rows": MOST_ROWS}
    if log.n_episodes == log.accounting.used:
        return Finding(
            "Markov",
            OK,
            "every episode is one step long: there is no past that could matter",
            numbers,
            MARKOV,
        )
    if not verdict.rows:
        return Finding(
            "Markov",
            NOTE,
            f"too few visits of any pair to tell whether the log is Markov{where}",
            numbers,
            MARKOV,
        )
    tested = _tested(verdict) + where
    if verdict.p_value >= LEVEL:
        words = f"no sign that the past matters once state and action are known ({tested})"
        return Finding("Markov", *_enough(verdict, looked_at, words), numbers, MARKOV)
    sentence = (
        f"not Markov: given state and action, {verdict.source}, which explains"
        f" {verdict.explained:.1%} {verdict.of} ({tested}){_worst(verdict)}. Something that matters"
        " is missing from the state; values and guarantees assume that nothing is: add it to the"
        " state"
    )
    return Finding("Markov", _level(verdict), sentence, numbers, MARKOV, _vetoes(verdict))


def about_drift(verdict: Verdict, order: str, log: Log) -> Finding:
    """Does the world stay the same?"""
    numbers = _numbers(verdict) | {"order": order}
    if not verdict.rows:
        return Finding(
            "drift", NOTE, "too few visits of any pair to compare parts of the log", numbers, DRIFT
        )
    tested = f"{_tested(verdict)}, {order}"
    if verdict.p_value >= LEVEL:
        words = f"no sign that the world changed or has seasons ({tested})"
        return Finding("drift", *_enough(verdict, log.accounting.used, words), numbers, DRIFT)
    sentence = (
        f"the world changed: given state and action, {verdict.source} ({tested}){_worst(verdict)}."
        " Learn from the part that is like tomorrow, or put what changed into the state"
    )
    return Finding("drift", _level(verdict), sentence, numbers, DRIFT, _vetoes(verdict))


def about_actions(verdict: Verdict, order: str) -> Finding:
    """Did the baseline stay the same?"""
    numbers = _numbers(verdict) | {"order": order}
    if not verdict.rows:
        return Finding(
            "policy drift",
            NOTE,
            "too few visits of any state to compare the actions of parts of the log",
            numbers,
            POLICY_DRIFT,
        )
    if verdict.p_value >= LEVEL:
        words = f"no sign that the baseline changed (p = {verdict.p_value:.2g}, {order})"
        return Finding("policy drift", OK, words, numbers, POLICY_DRIFT)
    sentence = (
        f"the baseline changed: {verdict.source} (p = {verdict.p_value:.2g},"
        f" {order}){_worst(verdict)}. An estimated baseline is a mixture of several, and what"
        " changed with it is taken for its effect: learn from a part in which it stayed the same"
    )
    return Finding(
        "policy drift", _level(verdict), sentence, numbers, POLICY_DRIFT, _vetoes(verdict)
    )


def about_copies(found: Copies) -> Finding:
    """Is every episode there once?"""
    copied, episodes, rows = int(found.is_copy.sum()), len(found.is_copy), int(found.repeated.sum())
    alike = episodes - int(found.group.max(initial=-1)) - 1
    numbers = {
        "episodes": episodes,
        "equal_to_others": alike,
        "copies": copied,
        "repeated_rows": rows,
        "p_value": found.p_value,
    }
    if found.p_value >= BY_CHANCE:
        words = (
            "no episode repeats another"
            if not alike
            else f"{plural(alike, 'episode')} of {episodes:,} repeat others, as by chance"
        )
        return Finding("copies", OK, words, numbers, COPIES)
    if copied:
        words = (
            f"{copied:,} of {plural(episodes, 'episode')} are copies of others: the same states,"
            " actions and rewards to the last step"
        )
    else:
        words = (
            f"{rows:,} of {len(found.repeated):,} rows repeat earlier rows in the same order, to"
            " the last reward"
        )
    chance = (
        f"by chance p = {found.p_value:.1g}" if found.p_value > 1e-12 else "by chance p < 1e-12"
    )
    sentence = f"{words} ({chance}). Copies make every result look surer than it is: leave them out"
    return Finding("copies", WARNING, sentence, numbers, COPIES, vetoes=True)


def about_contradictions(log: Log, contradictions: tuple[str, ...]) -> Finding:
    """Does every row lead to the next?"""
    left_out = {
        reason: log.accounting.left_out_as(reason)
        for reason in CONTRADICTORY
        if log.accounting.left_out_as(reason)
    }
    numbers = {"left_out": left_out, "inside": list(contradictions)}
    if not left_out and not contradictions:
        return Finding("contradictions", OK, "no row contradicts the next", numbers, CONTRADICTIONS)
    words = [
        *(f"{n:,} {REASONS[reason]} (left out)" for reason, n in left_out.items()),
        *contradictions,
    ]
    sentence = (
        f"rows contradict each other: {'; '.join(words)}. Check the episode ids and the order of"
        " the rows"
    )
    return Finding("contradictions", WARNING, sentence, numbers, CONTRADICTIONS, vetoes=True)


def _level(verdict: Verdict) -> str:
    return WARNING if verdict.explained >= SLIGHT else NOTE


def _vetoes(verdict: Verdict) -> bool:
    return verdict.p_value < STRICT and verdict.explained >= SLIGHT


def _tested(verdict: Verdict) -> str:
    pairs = f"{plural(verdict.pairs, 'pair')} with enough visits and " if verdict.pairs else ""
    return f"p = {verdict.p_value:.2g}, {pairs}{verdict.rows:,} steps tested"


def _enough(verdict: Verdict, rows: int, words: str) -> tuple[str, str]:
    """(level, words): a test that could look at little says so."""
    if verdict.rows >= MUCH * rows:
        return OK, words
    return (
        NOTE,
        (
            f"{words}: only {verdict.rows / rows:.1%} of the steps could be tested, the others are"
            " of pairs visited too rarely"
        ),
    )


def _worst(verdict: Verdict) -> str:
    """The states that stand out by themselves."""
    out = [label for label, p in verdict.worst if p < LEVEL]
    return f"; worst in {named(out)}" if out else ""


def _numbers(verdict: Verdict) -> dict[str, object]:
    worst = [[as_text(label), p] for label, p in verdict.worst]
    return {
        "p_value": verdict.p_value,
        "level": LEVEL,
        "test": verdict.source,
        "explained": verdict.explained,
        "pairs": verdict.pairs,
        "rows": verdict.rows,
        "worst": worst,
    }
