"""Is the log Markov, and does it drift? G-tests on the tables of a walk, put together to one p-value with the worst states named.

Level 5 %. Measured on Wet Chicken, false alarms of (memory, drift, policy drift) on 200 logs each: (3 %, 2 %, 3 %) with 2,000 steps,
(3.5 %, 4.5 %, 7 %) with 10,000; policy drift on 800 other logs of 10,000 steps: 4.4 %. Power of the test for memory, on a river
whose turbulence repeats itself with probability 0.1, 0.2, 0.3: 85 %, 100 %, 100 % of 40 logs of 5,000 steps; of the test for drift,
on a river that is faster by 0.5 in the second half: 100 %. `tests/test_diagnosis_rates.py` measures all this again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.diagnosis.gtest import Tables, Tests, g_tests, tables
from surefoot.diagnosis.walk import Tested, Walk
from surefoot.logs import Log

NAMED = 5  # worst states to name


@dataclass(frozen=True)
class Verdict:
    """The p-value of several tests together (Bonferroni), the test it comes from, and the states that deviate most.

    explained   share of the entropy that remains given (s, a) which the context explains, in the test it comes from
    worst       (state, p-value of the state corrected for the number of states and tests)
    pairs, rows that could be tested; pairs = 0: not enough data for any test
    """

    p_value: float
    source: str
    explained: float
    worst: tuple[tuple[Any, float], ...]
    pairs: int
    rows: int


def memory(log: Log, tested: Tested, seen: Walk) -> Verdict:
    """Does the previous state and action still predict the successor or the reward, given (s, a)?

    Three contexts, since the finest is the sharpest but needs most data: the previous pair, the previous state, the previous action.
    """
    found = {}
    for what, table in (("the next state", seen.successor_after), ("the reward", seen.reward_after)):
        for name, context in _contexts(table.context, log.n_actions).items():
            found[f"{what} depends on {name}"] = tables(table.stratum, context, table.outcome, table.k)
    return _verdict(log, tested, found)


def _contexts(previous: np.ndarray, n_actions: int) -> dict[str, np.ndarray]:
    """The previous pair as codes from 1 on (0: the episode started) in three grains."""
    start = previous == 0
    return {
        "the previous state and action": previous,
        "the previous state": np.where(start, 0, (previous - 1) // n_actions + 1),
        "the previous action": np.where(start, 0, (previous - 1) % n_actions + 1),
    }


def drift(log: Log, tested: Tested, seen: Walk) -> Verdict:
    """Do successors or rewards, given (s, a), differ between the first and the second half of the rows?"""
    found = {"the next states differ": seen.successor_in_half, "the rewards differ": seen.reward_in_half}
    return _verdict(log, tested, found)


def policy_drift(log: Log, seen: Walk) -> Verdict:
    """Do the actions taken in a state differ between the halves?"""
    every = Tested(np.arange(log.n_states), np.zeros(0), np.zeros(0), log.n_states, 1)
    return _verdict(log, every, {"the actions differ": seen.action_in_half})


def _verdict(log: Log, tested: Tested, found: Mapping[str, Tables]) -> Verdict:
    """min p over the tests and over two ways to sum them up (all states together, the worst state), times their number."""
    state = tested.pairs // tested.n_actions
    by_pair = {name: g_tests(table, len(tested.pairs)) for name, table in found.items()}
    by_state = {name: test.by(state, log.n_states) for name, test in by_pair.items()}
    times = 2 * len(found)
    smallest = {name: min(test.p_together, test.p_worst) for name, test in by_state.items()}
    source = min(smallest, key=lambda name: smallest[name])
    usable = np.any([test.degrees > 0 for test in by_pair.values()], axis=0)
    rows = int(next(iter(by_pair.values())).n[usable].sum()) if usable.any() else 0
    return Verdict(
        min(1.0, times * smallest[source]), source, by_state[source].explained, _worst(log, by_state, times), int(usable.sum()), rows
    )


def _worst(log: Log, by_state: Mapping[str, Tests], times: int) -> tuple[tuple[Any, float], ...]:
    """The states with the smallest p-values over all tests."""
    tests = [np.minimum(1.0, test.p_values * max(1, int((test.degrees > 0).sum())) * times) for test in by_state.values()]
    p = np.min(tests, axis=0)
    tested = np.any([test.degrees > 0 for test in by_state.values()], axis=0)
    order = [int(s) for s in np.argsort(p, kind="stable") if tested[s]][:NAMED]
    return tuple((log.states[s], float(p[s])) for s in order)
