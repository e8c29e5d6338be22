"""Verdict: many tests of one question as one p-value, with the worst states named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.diagnosis.gtest import Tables, Tests, g_tests
from surefoot.logs import Log

NAMED = 5  # worst states to name
FEWEST = 20  # rows below which nothing was tested


@dataclass(frozen=True)
class Evidence:
    """One test over all states together: what it found, in words, its p-value, and which share
    it explains, of what.
    """

    source: str
    p_value: float
    explained: float
    rows: int
    of: str = "of the uncertainty left"


@dataclass(frozen=True)
class Verdict:
    """The p-value of several tests together (Bonferroni), the test it comes from, and the states
    that deviate most.

    explained   share of the entropy (in tests over all states together: of the variance) that
                remains given (s, a) which the context explains, in the test it comes from; `of`
                says in words what it is a share of
    worst       (state, p-value of the state corrected for the number of states and tests)
    pairs, rows that could be tested; rows = 0: not enough data for any test
    """

    p_value: float
    source: str
    explained: float
    worst: tuple[tuple[Any, float], ...]
    pairs: int
    rows: int
    of: str


def verdict(
    log: Log, state: np.ndarray, found: Mapping[str, Tables], evidence: Iterable[Evidence] = ()
) -> Verdict:
    """The tables (strata belong to `state` [strata]) get half of the level, the evidence the other
    half.

    In tables: min p over the tests and over two ways to sum them up (all states together, the worst
    state), times their number.
    """
    others = list(evidence)
    halves = 1 + bool(others)
    by_stratum = {name: g_tests(table, len(state)) for name, table in found.items()}
    by_state = {name: test.by(state, log.n_states) for name, test in by_stratum.items()}
    times = 2 * len(found) * halves
    smallest = {name: times * min(test.p_together, test.p_worst) for name, test in by_state.items()}
    smallest |= {x.source: x.p_value * len(others) * halves for x in others}
    explained = {name: test.explained for name, test in by_state.items()} | {
        x.source: x.explained for x in others
    }
    source = min(smallest, key=lambda name: smallest[name])
    usable = np.any([test.degrees > 0 for test in by_stratum.values()], axis=0)
    rows = int(next(iter(by_stratum.values())).n[usable].sum()) if usable.any() else 0
    rows = max([rows, *(x.rows for x in others if x.rows >= FEWEST)])
    p_value = min(1.0, smallest[source]) if rows else 1.0
    of = {x.source: x.of for x in others}.get(source, Evidence.of)
    return Verdict(
        p_value,
        source,
        explained[source],
        _worst(log, by_state, times),
        int(usable.sum()),
        rows,
        of,
    )


def _worst(log: Log, by_state: Mapping[str, Tests], times: int) -> tuple[tuple[Any, float], ...]:
    """The states with the smallest p-values over all tests."""
    tests = [
        np.minimum(1.0, test.p_values * max(1, int((test.degrees > 0).sum())) * times)
        for test in by_state.values()
    ]
    p = np.min(tests, axis=0)
    tested = np.any([test.degrees > 0 for test in by_state.values()], axis=0)
    order = [int(s) for s in np.argsort(p, kind="stable") if tested[s]][:NAMED]
    return tuple((log.states[s], float(p[s])) for s in order)
