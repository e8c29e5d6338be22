"""How many steps a state should remember: by what policies gain on data they were not learned from,
among histories at which the test for memory finds nothing.

Only the half of the log from which `surefoot improve` learns is looked at for gains, so that its
test of the policy stays a test on data that nobody has chosen by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.advice import units_of
from surefoot.advice.gain import part_problem
from surefoot.advice.unit_model import model_of_units
from surefoot.algorithms import Algorithm
from surefoot.diagnosis.finding import LEVEL
from surefoot.diagnosis.memory import memory
from surefoot.diagnosis.walk import walk
from surefoot.improvement import improve
from surefoot.logs import Log
from surefoot.ope.episodes import random_part
from surefoot.problems import Problem

NEARLY = 0.9  # a longer history must gain more than this share of it would


@dataclass(frozen=True)
class TriedHistory:
    """One history: how many states it makes, the p-value of the test for memory, and the gain of a
    policy learned from one quarter of the log, in the model of another; a mean over both ways.
    """

    history: int
    states: int
    p_value: float
    gain: float

    @property
    def passes(self) -> bool:
        """Whether the test for memory finds nothing."""
        return self.p_value >= LEVEL


def try_history(
    log: Log,
    problem: Problem,
    algorithm: Algorithm,
    steps: int,
    *,
    seed: int = 0,
) -> TriedHistory:
    """What a history of so many steps is worth; `log` and `problem` have it already."""
    units = units_of(log, problem.log, problem.gamma)
    pi_b = np.asarray(problem.logging_policy)
    # the same half as in `held_out_gain`, which does not depend on the history
    learning = random_part(units.number, units.number // 2, np.random.default_rng(seed))
    first = learning & random_part(
        units.number, units.number // 2, np.random.default_rng([seed, 1])
    )
    gains = []
    for made, tested in ((first, learning & ~first), (learning & ~first, first)):
        if not made.any() or not tested.any():
            continue
        pi = np.asarray(improve(part_problem(problem, units, made), algorithm).pi)
        model = model_of_units(problem, units.some(learning), tested, pi_b)
        gains.append(model.compare(model.checkable(pi)).gain.value)
    p_value = float(memory(log, walk(log)).numbers["p_value"])
    gain = float(np.mean(gains)) if gains else 0.0
    return TriedHistory(steps, log.n_states - log.has_end, p_value, gain)


def best_history(tried: Sequence[TriedHistory]) -> TriedHistory:
    """The shortest among those that pass and gain nearly as much as the best of them; the shortest
    of all where none passes.
    """
    order = sorted(tried, key=lambda x: x.history)
    passing = [x for x in order if x.passes]
    if not passing:
        return order[0]
    most = max(x.gain for x in passing)
    return next(x for x in passing if x.gain >= NEARLY * most or most <= 0)
