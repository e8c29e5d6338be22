"""The next log: its size, an A/B test, and what to try more often."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import surefoot
from surefoot.advice.next_log import episodes_of_an_ab_test, times_needed, trials, with_trials
from surefoot.evidence.unit_estimate import UnitEstimate, Unseen

NOTHING = Unseen(each=0.0, pair=0, n=1.0, shift=0.0, worst=0.0, distance=0.0)


def estimate(value: float, error: float, n: int = 4000) -> UnitEstimate:
    """A normal estimate with this standard error."""
    scores = np.tile([1.0, -1.0], n // 2) * error / math.sqrt(n)
    return UnitEstimate(
        value=value, scores=scores, of_pairs=error**2, degrees=float(n), loss=NOTHING,
        more=NOTHING, blocks=False,
    )  # fmt: skip


def test_a_plain_estimate_needs_as_many_rows_as_the_textbook_says() -> None:
    """(z_.95 + z_.8)^2 error^2 / gain^2 times as many."""
    found = times_needed(estimate(0.1, 0.1))
    z = stats.norm.ppf(0.95) + stats.norm.ppf(0.8)
    assert found == pytest.approx(z**2, rel=0.01)
    assert times_needed(estimate(0.05, 0.1)) == pytest.approx(4 * found, rel=0.01)
    assert times_needed(estimate(0.1, 0.1), power=0.5) == pytest.approx(1.6449**2, rel=0.01)


def test_what_has_not_been_seen_and_what_time_explains_ask_for_more() -> None:
    plain = estimate(0.1, 0.1)
    rare = replace(plain, loss=replace(NOTHING, each=0.5))
    assert 1.5 * times_needed(plain) < times_needed(rare) < 100
    assert times_needed(replace(plain, left=0.5)) > times_needed(plain)
    assert times_needed(plain, explained=0.05) > 3.5 * times_needed(plain)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_no_log_shows_a_gain_that_is_not_there(value: float) -> None:
    assert times_needed(estimate(value, 0.1)) == math.inf


def test_an_ab_test_has_the_power_that_was_asked_for() -> None:
    n = round(episodes_of_an_ab_test(2.0, 0.5))
    rng = np.random.default_rng(0)
    old, new = rng.normal(0, 2, (4000, n)), rng.normal(0.5, 2, (4000, n))
    p = stats.ttest_ind(new, old, axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.02)
    assert episodes_of_an_ab_test(2.0, 0.0) == math.inf


def decisions(n: int = 2000) -> surefoot.Problem:
    """Three states; action 1 is rare and unclear in the first, known to be bad in the second, and
    known to be equal in the third.
    """
    rng = np.random.default_rng(3)
    state = np.arange(n) % 3
    rare = rng.random(n) < np.array([0.01, 0.5, 0.5])[state]
    reward = np.where(rare, np.array([0.5, -3.0, 0.0])[state], 0.0) + 0.3 * rng.normal(size=n)
    pi_b = [[0.99, 0.01], [0.5, 0.5], [0.5, 0.5]]
    return surefoot.problem(
        state=state, action=rare.astype(int), reward=reward, next_state=state,
        episode=np.arange(n), pi_b=pi_b, gamma=0.0, reward_range=(-5, 3),
    )  # fmt: skip


def test_what_is_rare_and_could_be_good_is_tried_first_and_what_is_known_is_not() -> None:
    problem = decisions()
    pi_b = np.asarray(problem.pi_b)
    found = trials(problem, pi_b, pi_b, budget=0.05)
    assert (found[0].state, found[0].action) == (0, 1)
    assert (1, 1) not in {(x.state, x.action) for x in found}
    assert found[0].share > found[0].now and found[0].more >= 1


@pytest.mark.parametrize("budget", [0.0, 0.001, 0.05])
def test_trials_cost_no_more_than_was_stated(budget: float) -> None:
    problem = decisions()
    pi = np.tile([1.0, 0.0], (3, 1))  # what is preferred now: the other action may be tried again
    found = trials(problem, pi, np.asarray(problem.pi_b), budget)
    assert sum(x.costs for x in found) <= budget + 1e-12
    assert all(x.could_gain > 0 for x in found)


def test_rows_that_try_something_are_rows_and_leave_the_rest_in_proportion() -> None:
    pi_b = np.array([[0.5, 0.3, 0.2, 0.0], [1.0, 0.0, 0.0, 0.0]])
    problem = decisions()
    made = trials(problem, np.asarray(problem.pi_b), np.asarray(problem.pi_b), 1.0)[0]
    tried = [
        replace(made, state=0, action=3, share=0.1),
        replace(made, state=1, action=2, share=0.2),
    ]
    found = with_trials(pi_b, tried)
    np.testing.assert_allclose(found, [[0.45, 0.27, 0.18, 0.1], [0.8, 0.0, 0.2, 0.0]])
