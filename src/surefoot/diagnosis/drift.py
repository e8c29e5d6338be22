"""Does the log drift? Whether the world, given state and action, or the baseline, given the
state, changes in the course of time.
"""

from __future__ import annotations

import numpy as np

from surefoot.core.labels import as_text
from surefoot.diagnosis.combined import Evidence, Verdict, verdict
from surefoot.diagnosis.gtest import Tables, tables
from surefoot.diagnosis.mantel import by_context
from surefoot.diagnosis.seasons import Waves, waves
from surefoot.diagnosis.time_order import SEGMENTS
from surefoot.diagnosis.walk import ACTION, NEXT, REWARD, TIME, Tested, Walk
from surefoot.logs import Log

PARTS = {
    2: "the first and the second half of the log",
    4: "the quarters of the log",
    8: "the eighths of the log",
}
MOST_ACTIONS = 8  # the most frequent actions are followed through time, each by itself


def drift(log: Log, tested: Tested, seen: Walk) -> Verdict:
    """Do successors or rewards, given (s, a), change in time?

    Tables: between halves, quarters and eighths of the rows in order of time; between days of the
    week and so on where times are dates. Over all pairs together: a trend, or 1 to 24 waves over
    the log (see `waves`).
    """
    found: dict[str, Tables] = {}
    for what in (NEXT, REWARD):
        found |= {
            f"{what}s differ between {name}": table for name, table in _in_parts(seen, what).items()
        }
    successors, rewards = seen.tables[NEXT, TIME], seen.tables[REWARD, TIME]
    y = tested.successor.standard(tested.pairs[successors.stratum], successors.outcome)
    evidence = [
        _evidence("the next states", waves(successors, y, len(tested.pairs))),
        _evidence("the rewards", waves(rewards, rewards.outcome.astype(float), len(tested.pairs))),
    ]
    for name in seen.calendar:
        table = seen.tables[REWARD, name]
        told = by_context(table, table.outcome.astype(float), len(tested.pairs))
        evidence.append(Evidence(f"the mean rewards differ between {name}", *told))
    return verdict(log, tested.state, found, evidence)


def policy_drift(log: Log, seen: Walk) -> Verdict:
    """Do the actions taken in a state change in time? The same tests, with each of the most
    frequent actions by itself.
    """
    found = {
        f"the actions differ between {name}": table
        for name, table in _in_parts(seen, ACTION).items()
    }
    table, taken = seen.tables[ACTION, TIME], log.n_sa.sum(axis=0)
    some = [int(a) for a in np.argsort(-taken, kind="stable")[:MOST_ACTIONS] if taken[a]]
    evidence = []
    for a in some[1:] if len(some) == 2 else some:
        words = f"the shares of action {as_text(log.actions[a])[:60]!r}"
        evidence.append(
            _evidence(words, waves(table, (table.outcome == a).astype(float), log.n_states))
        )
    return verdict(log, np.arange(log.n_states), found, evidence)


def _in_parts(seen: Walk, what: str) -> dict[str, Tables]:
    """The tables of an outcome by part of the log and by the calendar."""
    table = seen.tables[what, TIME]
    parts = {
        words: tables(table.stratum, table.context * k // SEGMENTS, table.outcome, table.k)
        for k, words in PARTS.items()
    }
    return parts | {name: seen.tables[what, name] for name in seen.calendar}


def _evidence(what: str, found: Waves) -> Evidence:
    how = (
        "show a trend over the log"
        if found.worst == 0
        else f"rise and fall {found.worst} times over the log"
    )
    return Evidence(
        f"{what} {'rise and fall once over the log' if found.worst == 1 else how}",
        found.p_value,
        found.share,
        found.rows,
    )
