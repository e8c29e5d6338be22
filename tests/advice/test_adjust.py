"""What time and the past explain of a gain: all of a false one, next to nothing of a true one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.advice import held_out_gain
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.evidence import model_of_units, units_of_batch
from surefoot.evidence.circumstances import INEXACT, circumstances_of


def steps(n: int, length: int, action: Any, reward: Any) -> surefoot.Problem:
    """Episodes of this length in one state; action(rng, t, before) says how likely action 1 is,
    reward(rng, a, t, before).
    """
    rng = np.random.default_rng(0)
    a, r = np.zeros((n, length), dtype=int), np.zeros((n, length))
    before = np.zeros(n)
    for t in range(length):
        a[:, t] = rng.random(n) < action(t, before)
        r[:, t] = before = reward(rng, a[:, t], t, before)
    ends = np.tile(np.arange(length) == length - 1, n)
    return surefoot.problem(
        state=np.zeros(n * length),
        action=a.reshape(-1),
        reward=r.reshape(-1),
        next_state=np.where(ends, -1, 0),
        terminal=ends,
        episode=np.repeat(np.arange(n), length),
        gamma=0.0,
    )


def gain_and_explained(problem: surefoot.Problem) -> tuple[float, float]:
    parts = units_of_batch(problem.log, problem.gamma)
    model = model_of_units(problem, parts)
    found = model.compare(np.array([[0.0, 1.0], [0.5, 0.5]]))
    circumstances = circumstances_of(problem, parts, found)
    assert circumstances is not None
    everything = np.ones(parts.number, dtype=bool)
    return found.gain.value, circumstances.explained(everything, found.weight)


CIRCUMSTANCES = {
    "step of the episode": (
        lambda t, before: 0.1 + 0.08 * t,
        lambda rng, a, t, before: 0.3 * t + rng.normal(size=len(a)),
    ),
    "reward before": (
        lambda t, before: np.where(before > 0, 0.9, 0.1),
        lambda rng, a, t, before: 0.5 * before + rng.normal(size=len(a)),
    ),
}


@pytest.mark.parametrize("name", CIRCUMSTANCES)
def test_a_gain_that_is_owed_to_circumstances_is_explained(name: str) -> None:
    gain, owed = gain_and_explained(steps(400, 10, *CIRCUMSTANCES[name]))
    assert gain > 0.25
    assert owed == pytest.approx(INEXACT * gain, abs=0.2)


def test_a_level_that_an_episode_shares_explains_what_its_habits_seem_to_gain() -> None:
    rng = np.random.default_rng(1)
    level = rng.normal(size=200)
    habit = np.where(level > 0, 0.8, 0.2)
    problem = steps(
        200,
        20,
        lambda t, before: habit,
        lambda rng, a, t, before: level + 0.5 * rng.normal(size=200),
    )
    gain, owed = gain_and_explained(problem)
    assert gain > 0.4
    assert owed == pytest.approx(INEXACT * gain, rel=0.3)


def test_of_a_true_gain_next_to_nothing_is_explained() -> None:
    problem = steps(
        400, 10, lambda t, before: 0.3, lambda rng, a, t, before: 0.5 * a + rng.normal(size=len(a))
    )
    gain, owed = gain_and_explained(problem)
    assert gain == pytest.approx(0.35, abs=0.05)
    assert abs(owed) < 0.02
    parts = units_of_batch(problem.log, problem.gamma)
    assert held_out_gain(problem, parts, chosen_algorithm(problem)).evidence.positive


def test_counts_alone_explain_nothing() -> None:
    problem = steps(50, 4, lambda t, before: 0.5, lambda rng, a, t, before: rng.normal(size=len(a)))
    parts = units_of_batch(problem.log, problem.gamma)
    found = held_out_gain(replace(problem, log=None), parts, chosen_algorithm(problem))
    assert found.circumstances is None
    assert found.evidence.explained == 0.0
