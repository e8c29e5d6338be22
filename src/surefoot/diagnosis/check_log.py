"""`check_log`: everything a user should know about a log before learning from it; `vetoes`: what
makes a promise about it untrue.
"""

from __future__ import annotations

from surefoot.diagnosis import pairs
from surefoot.diagnosis.copies import copies_in
from surefoot.diagnosis.drift import drift, policy_drift
from surefoot.diagnosis.finding import NOTE, WARNING, Finding
from surefoot.diagnosis.memory import memory
from surefoot.diagnosis.sentences import (
    about_actions,
    about_contradictions,
    about_copies,
    about_drift,
    about_memory,
)
from surefoot.diagnosis.times import gaps
from surefoot.diagnosis.walk import Tested, Walk, tested_pairs, walk
from surefoot.errors import ProblemError
from surefoot.logs import Baseline, Log, estimated_baseline
from surefoot.problems.montecarlo import separation


def check_log(
    log: Log, *, gamma: float = 0.95, baseline: Baseline | None = None
) -> tuple[Finding, ...]:
    """The findings about a log; `gamma` says how far returns reach, the baseline is estimated
    from the log where none is given.
    """
    if isinstance(gamma, bool) or not isinstance(gamma, (int, float)) or not 0 <= gamma <= 1:
        raise ProblemError(f"gamma must lie in [0, 1], got {gamma!r}")
    policy = estimated_baseline(log) if baseline is None else baseline
    found = [
        pairs.size(log),
        *(
            Finding("reading", WARNING if note.startswith("WARNING") else NOTE, note)
            for note in log.notes
        ),
    ]
    found += [
        pairs.alternatives(log),
        pairs.coverage(log, policy),
        pairs.rare(log),
        pairs.dead_ends(log),
    ]
    if not policy.estimated:
        found.append(pairs.agreement(log, policy))
    if log.reading is None or log.starts is None:
        words = (
            "the order of the rows is unknown: memory, drift, copies, contradictions, time and"
            " returns were not looked at"
        )
        return (*found, Finding("order", NOTE, words))
    tested = tested_pairs(log)
    seen = walk(log, tested, float(gamma))
    assert seen.thinned is not None  # gamma was given
    found.append(
        pairs.independent(log, seen.thinned, float(gamma), separation(gamma) if gamma < 1 else None)
    )
    return (*found, *_assumptions(log, tested, seen), gaps(log))


def vetoes(log: Log, baseline: Baseline | None = None) -> tuple[Finding, ...]:
    """The findings that make a promise about a policy learned from this log untrue; each has its
    key (see `KEYS`).

    The world changed, the baseline changed, the past matters beyond the state, the given baseline
    did not make the log, episodes are copies, rows contradict each other. Tests are stricter than
    those of warnings (0.5 % in place of 5 % for each of three). Where the order of the rows is
    unknown, only a given baseline can be looked at. Measured by
    `tests/diagnosis/test_diagnosis_rates.py`: 0 to 2 % of 100 logs without fault are vetoed, in
    each of seven families.
    """
    found = (
        [pairs.agreement(log, baseline)] if baseline is not None and not baseline.estimated else []
    )
    if log.reading is not None and log.starts is not None:
        tested = tested_pairs(log)
        found += _assumptions(log, tested, walk(log, tested))
    return tuple(finding for finding in found if finding.vetoes)


def _assumptions(log: Log, tested: Tested, seen: Walk) -> list[Finding]:
    """What every method takes for granted, looked at."""
    return [
        about_memory(memory(log, tested, seen), seen.rows_after, log),
        about_drift(drift(log, tested, seen), seen.order, log),
        about_actions(policy_drift(log, seen), seen.order),
        about_copies(copies_in(seen.contents)),
        about_contradictions(log, seen.contradictions),
    ]
