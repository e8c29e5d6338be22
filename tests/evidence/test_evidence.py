"""Evidence: independent returns of a log, what a cut leaves open, and what every visit would
claim.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import surefoot
from support.small_world import better, known
from surefoot.evidence import evidence, with_independent_returns
from surefoot.evidence.certificates import certify
from surefoot.evidence.return_evidence import INDEPENDENT, bracket
from surefoot.statistics import radii


def test_evidence_of_first_visits_brackets_what_a_cut_left_open() -> None:
    problem = surefoot.problem(
        state=[0, 0, 0],
        action=[0, 0, 0],
        reward=[1.0, 2.0, 0.5],
        next_state=[0, 0, 1],
        episode=[0, 0, 1],
        terminal_states=[1],
        pi_b=np.full((2, 2), 0.5),
        gamma=0.5,
        return_range=(0, 4),
    )
    found = evidence(problem, 0.1, visits="first")
    # Episode 0 is cut after 1 + 0.5 * 2 = 2: what follows is worth 0.25 * [0, 4]. Episode 1 ends
    # with 0.5.
    assert found.n[0, 0] == 2
    assert found.mean[0, 0] == pytest.approx((2.5 + 0.5) / 2)
    assert found.unknown[0, 0] == pytest.approx(0.5 / 2)
    assert found.radius[0, 0] == pytest.approx(radii.hoeffding(np.array(2.0), 0.1 / 2, 4.0) + 0.25)
    assert found.radius[0, 1] == math.inf
    # The ends are 2 and 0.5 from below, 3 and 0.5 from above: the larger variance counts. In order,
    # from the middle 2 of the range on, the squares from above are (3 - 2)^2 and (0.5 - 2.5)^2.
    assert evidence(problem, 0.1, error="mpeb", visits="first").variance[0, 0] == pytest.approx(
        2.5**2 / 2
    )
    by_order = evidence(problem, 0.1, error="bernstein", visits="first")
    assert by_order.variance[0, 0] == pytest.approx((1 + 4) / 2)
    assert by_order.radius[0, 0] == pytest.approx(
        radii.any_time_bernstein(np.array(2.0), np.array(2.5), 0.1 / 2, 4.0) + 0.25
    )


def test_no_end_lies_outside_the_range_of_returns() -> None:
    """Radii take draws for as wide as the range: 1 was seen, and 0.5 of [-1, 1.2] may follow."""
    problem = surefoot.problem(
        state=[0], action=[0], reward=[1.0], next_state=[0], episode=[0], truncated=[True],
        pi_b=np.ones((1, 1)), gamma=0.5, return_range=(-1, 1.2),
    )  # fmt: skip
    assert problem.log is not None
    low, high = bracket(problem, problem.log, np.array([0]), 1)
    assert (low[0], high[0]) == pytest.approx((0.5, 1.2))


@pytest.mark.parametrize("name", ["advantage", "planned-advantage", "screened-advantage"])
def test_bounds_on_returns_of_episodes_say_that_none_may_be_missing(name: str) -> None:
    n = 40
    action = np.arange(n) // 4 % 2
    problem = surefoot.problem(
        state=np.zeros(n, int), action=action, reward=1.0 * action, next_state=np.ones(n, int),
        episode=np.arange(n), terminal_states=[1], gamma=0.9, pi_b=np.full((2, 2), 0.5),
        return_range=(0, 1), start=0,
    )  # fmt: skip
    pi = np.array([[0.0, 1.0], [0.5, 0.5]])
    assert INDEPENDENT in certify(problem, pi, name).assumptions


def test_evidence_of_one_trajectory_uses_visits_as_far_apart_as_its_returns_are_long() -> None:
    n = 23
    problem = surefoot.problem(
        state=np.zeros(n, int),
        action=np.zeros(n, int),
        reward=np.ones(n),
        next_state=np.zeros(n, int),
        episode=np.zeros(n, int),
        pi_b=np.array([[1.0, 0.0]]),
        gamma=0.5,
        reward_range=(0, 2),
    )
    found = evidence(problem, 0.1, steps=5)
    assert found.visits == "thinned" and not found.fixed
    assert found.n[0, 0] == 4  # at 0, 5, 10, 15: the one at 20 has only 3 steps
    seen = (1 - 0.5**5) / 0.5
    assert found.mean[0, 0] == pytest.approx(seen + 0.5**5 * 2)
    assert found.unknown[0, 0] == pytest.approx(0.5**5 * 2)


def test_near_the_step_limit_a_visit_is_dropped_whether_or_not_its_episode_then_ends() -> None:
    """Keeping only those that end would make ends look likelier than they are."""
    state, episode = [0] * 4 + [0] * 4, [0] * 4 + [1] * 4
    problem = surefoot.problem(
        state=state,
        action=[0] * 8,
        reward=[0.0] * 7 + [1.0],
        next_state=[0] * 7 + [1],
        episode=episode,
        terminal_states=[1],
        pi_b=np.array([[1.0, 0.0], [1.0, 0.0]]),
        gamma=0.5,
        return_range=(0, 1),
    )
    found = evidence(problem, 0.1, visits="thinned", steps=3)
    assert found.n[0, 0] == 2  # one at the start of each; the visit at step 3 has one step left


def test_algorithms_can_be_given_the_returns_that_certificates_use() -> None:
    problem = with_independent_returns(known())
    assert np.array_equal(problem.returns.n, evidence(known(), 0.1).n)
    pi = surefoot.improve(
        problem, surefoot.algorithm("one-step+adv-exact-soft-spibb", epsilon=0.1, delta=0.05)
    ).pi
    assert certify(problem, pi, "theorem-1").changed > 0


def test_every_visit_is_offered_as_the_paper_has_it_and_labelled_approximate() -> None:
    found = evidence(known(), 0.1, visits="every")
    e = surefoot.error_function(known(), "hoeffding", 0.1)
    assert np.allclose(found.radius, e * known().return_range.g_max)
    assert certify(known(), better(), "advantage", visits="every").label == "approximate"


def test_one_episode_that_ended_was_not_stopped_after_a_number_of_steps_fixed_in_advance() -> None:
    """Then the number of returns depends on them: the thinned radius is approximate."""
    log = {"state": np.zeros(60, dtype=int), "action": np.arange(60) % 2, "reward": np.ones(60)}
    given = {"pi_b": np.full((2, 2), 0.5), "return_range": (0, 5), "gamma": 0.1}
    ends = np.append(np.zeros(59, dtype=int), 1)
    labels = {}
    for name, stop in (("ended", [1]), ("cut", [])):
        problem = surefoot.problem(
            **log, **given, next_state=ends, terminal_states=stop, episode=np.zeros(60, dtype=int)
        )
        labels[name] = evidence(problem, 0.1, visits="thinned").rigorous
    assert labels == {"ended": False, "cut": True}
