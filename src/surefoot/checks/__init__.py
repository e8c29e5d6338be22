"""Diagnosis: what a log can and cannot teach, before anything is learned from it.

check_log      all checks of a log before learning from it; `vetoes` those findings that make a
               promise untrue
coverage       what the counts say
propensities   can the propensities be true
markov         does the past matter, and which history would do
drift          does the world or the baseline change in time, by `rhythm` in cycles
completeness   is every episode there, and once
time_order     which rows are early and which late, do they follow each other
walk           one walk over the rows collects what these need
finding        an answer, of several tests where need be; the keys of what can veto
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from surefoot.checks import coverage
from surefoot.checks.completeness import Copies, copied, copies, copies_in, cuts, missing
from surefoot.checks.drift import drift, policy_drift
from surefoot.checks.finding import (
    CONTRADICTIONS,
    COPIES,
    CUTS,
    DRIFT,
    KEYS,
    MARKOV,
    NOTE,
    OK,
    POLICY_DRIFT,
    TIME,
    WARNING,
    Finding,
    not_looked_at,
)
from surefoot.checks.markov import caseload, memory
from surefoot.checks.propensities import propensities
from surefoot.checks.time_order import MOST_STAMPS, contradictions, gaps
from surefoot.checks.walk import Walk, walk
from surefoot.core import Policy
from surefoot.core.errors import ProblemError
from surefoot.core.text import in_rows
from surefoot.logs import Log
from surefoot.logs.accounting import CUT
from surefoot.logs.given_policies import policy_for

UNKNOWN_ORDER = "the order of the rows is unknown: time gaps and returns were not looked at"
TOO_MANY = f"beyond {MOST_STAMPS:,} rows times are not sorted"


def check_log(log: Log, *, gamma: float = 0.95, baseline: Any = None) -> tuple[Finding, ...]:
    """The findings about a log.

    `gamma` is the discount of a step (see `Log.step_discount`), and says how far returns reach. The
    `baseline` may be given as `pi_b` of `Log.problem` may; without one, that estimated from the log
    is used.
    """
    if isinstance(gamma, bool) or not isinstance(gamma, (int, float)) or not 0 <= gamma <= 1:
        raise ProblemError(f"gamma must lie in [0, 1], got {gamma!r}")
    found = _findings(log, float(gamma), baseline)
    if log.bandit:
        found = [replace(x, sentence=in_rows(x.sentence)) for x in found]
    return tuple(found)


def _findings(log: Log, gamma: float, baseline: Any) -> list[Finding]:
    """What all checks find."""
    policy = log.estimated_baseline() if baseline is None else policy_for(baseline, log)
    found = [
        coverage.size(log),
        *(Finding("reading", WARNING if x in log.warnings else NOTE, x) for x in log.notes),
        coverage.alternatives(log),
        coverage.coverage(log, policy),
        coverage.rare(log),
        coverage.dead_ends(log),
        *_kept(log, policy),
    ]
    if not _in_order(log):
        return [*found, *unseen(log), Finding("order", NOTE, UNKNOWN_ORDER)]
    seen = walk(log, gamma)
    independent = coverage.independent(log, seen.thinned, gamma)
    return [*found, independent, *_assumptions(log, seen), gaps(log)]


def vetoes(log: Log, baseline: Any = None) -> tuple[Finding, ...]:
    """The findings that make a promise about a policy learned from this log untrue.

    Each has its key (see `KEYS`). The world changed, the baseline changed, the past matters beyond
    the state, the given baseline did not make the log, episodes are copies, rows contradict each
    other, rows are left out only because they did not end, numbers of episodes are not there. The
    three tests are stricter than those
    of warnings (0.5 % in place of 5 %). Where the order of the rows is unknown, what could not be
    looked at is among them (`Finding.looked`). Measured by
    `tests/checks/test_diagnosis_rates.py`: 0 to 2 % of 100 logs without fault are vetoed, in
    each of seven families.
    """
    found = _kept(log, None if baseline is None else policy_for(baseline, log))
    found += _assumptions(log, walk(log)) if _in_order(log) else unseen(log)
    return tuple(finding for finding in found if finding.vetoes)


def wrong_weights(log: Log, baseline: Policy | None = None) -> str:
    """Why importance weights of this log mean nothing: its propensities, or where it has none the
    given baseline, cannot be true; "" where they can.
    """
    found = _propensities(log) if log.has_propensities else _made_by(log, baseline)
    return "; ".join(x.sentence for x in found if x.vetoes)


def unseen(log: Log) -> list[Finding]:
    """What cannot be looked at in a log whose rows are not there in order."""
    lost = log.reading is None and not log.terminal.any() and log.accounting.left_out_as(CUT) > 1
    keys = (MARKOV, DRIFT, POLICY_DRIFT, COPIES, CONTRADICTIONS, TIME, *[CUTS] * lost)
    return [not_looked_at(key) for key in keys]


def _in_order(log: Log) -> bool:
    """Whether its rows are there, in their order."""
    return log.reading is not None and log.starts is not None


def _kept(log: Log, baseline: Policy | None) -> list[Finding]:
    """Who made the log, and what was kept of it."""
    return [*_made_by(log, baseline), *_propensities(log), *cuts(log), *missing(log)]


def _made_by(log: Log, baseline: Policy | None) -> list[Finding]:
    """Did a given baseline make the log? Where propensities say who did: does the log try what
    the baseline does?
    """
    if baseline is None or baseline.estimated:
        return []
    look = coverage.tried if log.has_propensities else coverage.agreement
    return [look(log, baseline)]


def _propensities(log: Log) -> list[Finding]:
    """Can the propensities be true, where the log has them?"""
    return [propensities(log)] if log.has_propensities else []


def _assumptions(log: Log, seen: Walk) -> list[Finding]:
    """The questions about what every method takes for granted."""
    changes = [drift(log, seen), policy_drift(log, seen)]
    if seen.clock.unsorted:
        changes = [not_looked_at(key, TOO_MANY) for key in (DRIFT, POLICY_DRIFT)]
    return [
        memory(log, seen),
        *caseload(log, seen),
        *changes,
        copied(copies_in(seen.contents), log.accounting.used),
        contradictions(log, seen.contradictions),
    ]


__all__ = [
    "KEYS",
    "NOTE",
    "OK",
    "WARNING",
    "Copies",
    "Finding",
    "check_log",
    "copies",
    "vetoes",
    "wrong_weights",
]
