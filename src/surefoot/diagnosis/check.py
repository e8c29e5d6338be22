"""`check_log`: everything a user should know about a log before learning from it, as a list of findings."""

from __future__ import annotations

from surefoot.diagnosis import pairs
from surefoot.diagnosis.finding import LEVEL, NOTE, OK, WARNING, Finding, named, plural
from surefoot.diagnosis.memory import Verdict, drift, memory, policy_drift
from surefoot.diagnosis.times import gaps
from surefoot.diagnosis.walk import MOST_ROWS, tested_pairs, walk
from surefoot.errors import ProblemError
from surefoot.logs import Baseline, Log, estimated_baseline
from surefoot.logs.labels import as_text
from surefoot.problems.montecarlo import separation

MUCH = 0.1  # a test that looked at a smaller share of the steps than this has not said much
SLIGHT = 0.001  # a context that explains less than this share of the uncertainty is there, but hardly matters


def check_log(log: Log, *, gamma: float = 0.95, baseline: Baseline | None = None) -> tuple[Finding, ...]:
    """The findings about a log; `gamma` says how far returns reach, the baseline is estimated from the log where none is given."""
    if isinstance(gamma, bool) or not isinstance(gamma, (int, float)) or not 0 <= gamma <= 1:
        raise ProblemError(f"gamma must lie in [0, 1], got {gamma!r}")
    policy = estimated_baseline(log) if baseline is None else baseline
    found = [pairs.size(log), *(Finding("reading", NOTE, note) for note in log.notes)]
    found += [pairs.alternatives(log), pairs.coverage(log, policy), pairs.rare(log), pairs.dead_ends(log)]
    if not policy.estimated:
        found.append(pairs.agreement(log, policy))
    if log.reading is None or log.starts is None:
        return (*found, Finding("order", NOTE, "the order of the rows is unknown: memory, drift, time and returns were not looked at"))
    tested, seen = tested_pairs(log), walk(log, float(gamma))
    found.append(pairs.independent(log, seen.thinned, float(gamma), separation(gamma) if gamma < 1 else None))
    found += [_markov(memory(log, tested, seen), seen.rows_after, log), _drift(drift(log, tested, seen), log)]
    return (*found, _policy(policy_drift(log, seen)), gaps(log))


def _markov(verdict: Verdict, looked_at: int, log: Log) -> Finding:
    """Is it Markov?"""
    where = f" (the first {looked_at:,} rows)" if looked_at < log.accounting.used else ""
    numbers = _numbers(verdict) | {"rows_looked_at": looked_at, "most_rows": MOST_ROWS}
    if not verdict.pairs:
        return Finding("Markov", NOTE, f"too few visits of any pair to tell whether the log is Markov{where}", numbers)
    tested = _tested(verdict) + where
    if verdict.p_value >= LEVEL:
        words = f"no sign that the past matters once state and action are known ({tested})"
        return Finding("Markov", *_enough(verdict, looked_at, words), numbers)
    sentence = (
        f"not Markov: given state and action, {verdict.source}, which explains {verdict.explained:.1%} of the uncertainty left "
        f"({tested}); worst in {_worst(verdict)}. Something that matters is missing from the state; values and "
        "guarantees assume that nothing is"
    )
    return Finding("Markov", WARNING if verdict.explained >= SLIGHT else NOTE, sentence, numbers)


def _drift(verdict: Verdict, log: Log) -> Finding:
    """Is the second half like the first?"""
    if not verdict.pairs:
        return Finding("drift", NOTE, "too few visits of any pair to compare the halves of the log", _numbers(verdict))
    tested = _tested(verdict)
    if verdict.p_value >= LEVEL:
        words = f"no sign that the first and the second half of the log obey different laws ({tested})"
        return Finding("drift", *_enough(verdict, log.accounting.used, words), _numbers(verdict))
    sentence = (
        f"the world changed: given state and action, {verdict.source} between the first and the second half of the log ({tested}); "
        f"worst in {_worst(verdict)}. Learn from the later part, or put what changed into the state"
    )
    return Finding("drift", WARNING if verdict.explained >= SLIGHT else NOTE, sentence, _numbers(verdict))


def _policy(verdict: Verdict) -> Finding:
    """Did the baseline stay the same?"""
    if not verdict.pairs:
        return Finding("policy drift", NOTE, "too few visits of any state to compare the actions of the halves", _numbers(verdict))
    if verdict.p_value >= LEVEL:
        return Finding("policy drift", OK, f"both halves of the log choose alike (p = {verdict.p_value:.2g})", _numbers(verdict))
    sentence = (
        f"the baseline changed: {verdict.source} between the first and the second half of the log (p = {verdict.p_value:.2g}); worst in "
        f"{_worst(verdict)}. An estimated baseline is a mixture of both"
    )
    return Finding("policy drift", WARNING if verdict.explained >= SLIGHT else NOTE, sentence, _numbers(verdict))


def _tested(verdict: Verdict) -> str:
    return f"p = {verdict.p_value:.2g}, {plural(verdict.pairs, 'pair')} with {verdict.rows:,} steps tested"


def _enough(verdict: Verdict, rows: int, words: str) -> tuple[str, str]:
    """(level, words): a test that could look at little says so."""
    if verdict.rows >= MUCH * rows:
        return OK, words
    return NOTE, f"{words}: only {verdict.rows / rows:.1%} of the steps could be tested, the others are of pairs visited too rarely"


def _worst(verdict: Verdict) -> str:
    """The states that stand out by themselves; where none does, those that come nearest."""
    out = [label for label, p in verdict.worst if p < LEVEL]
    return named(out) if out else named([label for label, _ in verdict.worst])


def _numbers(verdict: Verdict) -> dict[str, object]:
    worst = [[as_text(label), p] for label, p in verdict.worst]
    return {
        "p_value": verdict.p_value, "level": LEVEL, "test": verdict.source, "explained": verdict.explained, "pairs": verdict.pairs,
        "rows": verdict.rows, "worst": worst,
    }  # fmt: skip
