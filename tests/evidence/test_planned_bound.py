"""The bound of planned advantage: by hand, for any policy, the largest for its own algorithm's."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import surefoot
from support.corridor import corridor
from support.small_world import known, truth
from surefoot.evidence.certificates import certify
from surefoot.evidence.return_bounds import certified, proved_gain
from surefoot.evidence.return_evidence import evidence
from surefoot.planning.ambiguity import OF_START, least_mean, shares, successors

LATER = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])  # the better action in state 2


def by_hand(episodes: int, delta: float) -> float:
    """c in state 2, and twice gamma exp(-allowance/n): what might be lost to states never met is
    least of all where h is 0. Four pairs; all successors of a pair are alike.
    """
    of_values, of_rows = shares(delta)
    found = evidence(corridor(episodes), of_values, error="bernstein")
    c = 0.5 * (1.0 - found.radius[2].sum())
    n = float(episodes)
    allowance = math.log(4 / of_rows) + gammaln(n + 1) + gammaln(1 / 4) - gammaln(n + 1 / 4)
    return float(c * (0.9 * math.exp(-allowance / n)) ** 2)


@pytest.mark.parametrize("episodes", [400, 4000])
def test_what_a_later_state_gains_counts_at_the_start_as_far_as_rows_prove_it_is_reached(
    episodes: int,
) -> None:
    problem = corridor(episodes)
    found = certify(problem, LATER, "planned-advantage")
    # the last nu that is tried lies a little below the least of h
    assert found.bound == pytest.approx(by_hand(episodes, 0.05), rel=2e-3)
    assert found.bound <= by_hand(episodes, 0.05) + 1e-12
    assert found.label == "rigorous" and found.useful and found.changed == 1
    assert certify(problem, LATER, "advantage", error="bernstein").bound == 0
    assert any("no state but the 4" in x for x in found.assumptions)
    solution = surefoot.improve(problem, surefoot.PlannedAdvantage(0.05))
    assert np.array_equal(solution.pi[:3], LATER[:3])
    assert "planned with a gain of up to" in solution.notes[-1]


def test_it_is_no_less_than_advantage_at_the_delta_that_it_leaves_for_values() -> None:
    """Any policy: all later steps in the worst state are the least that rows can say."""
    rng, problem = np.random.default_rng(5), known()
    of_values, _ = shares(0.05)
    for _ in range(20):
        pi = rng.dirichlet(np.ones(3), size=4)
        for where in ("start", "every state"):
            mine = certify(problem, pi, "planned-advantage", where=where, error="hoeffding").bound
            plain = certify(problem, pi, "advantage", where=where, delta=of_values).bound
            assert max(plain, -problem.return_range.width) <= mine + 1e-9
        assert mine <= truth(pi).min()


def test_no_policy_has_a_larger_bound_than_the_one_that_is_planned_for_it() -> None:
    problem, rng = known(), np.random.default_rng(6)
    solution = surefoot.improve(problem, surefoot.PlannedAdvantage(0.05))
    best = certify(problem, solution, "planned-advantage").bound
    assert 0 < best <= truth(solution.pi)[0]
    others = [surefoot.improve(problem, surefoot.CertifiedAdvantage(0.05)).pi]
    for _ in range(100):
        move = rng.dirichlet(np.ones(3), size=4) - solution.pi
        others.append(solution.pi + rng.choice([0.01, 0.1, 1.0]) * move)
    assert max(certify(problem, pi, "planned-advantage").bound for pi in others) <= best + 1e-6


def detour(episodes: int) -> surefoot.Problem:
    """In state 0 action 1 pays 0.3 less, and leads to state 1 in 9 of 10 cases, not in 1; there
    action 1 pays 0.5.
    """
    rng = np.random.default_rng(7)
    first, second = rng.integers(0, 2, (2, episodes))
    goes = rng.random(episodes) < np.where(first == 1, 0.9, 0.1)
    keep = np.stack([np.ones(episodes, dtype=bool), goes], axis=1).reshape(-1)
    columns = {
        "state": np.tile([0, 1], episodes),
        "action": np.stack([first, second], axis=1),
        "reward": np.stack([0.4 - 0.3 * first, 0.5 * second], axis=1),
        "next_state": np.stack([np.where(goes, 1, 2), np.full(episodes, 2)], axis=1),
        "episode": np.repeat(np.arange(episodes), 2),
    }
    return surefoot.problem(
        **{name: x.reshape(-1)[keep] for name, x in columns.items()},
        pi_b=np.full((3, 2), 0.5),
        gamma=0.99,
        terminal_states=[2],
        return_range=(0, 1),
        start=0,
    )


def test_a_move_that_loses_at_once_is_made_where_what_follows_is_proved_to_gain_more() -> None:
    """As the baseline goes on, action 1 loses 0.3 - 0.8 * 0.25 in state 0; as the new policy goes
    on it gains 0.8 * 0.5 - 0.3.
    """
    problem = detour(20_000)
    solution = surefoot.improve(problem, surefoot.PlannedAdvantage(0.05))
    assert np.array_equal(solution.pi[:2], [[0, 1], [0, 1]])
    alone = surefoot.algorithm("one-step-certified-advantage", delta=0.05)
    assert np.array_equal(surefoot.improve(problem, alone).pi[:2], [[1, 0], [0, 1]])
    gain = 0.4 - 0.3 + 0.99 * 0.9 * 0.5 - (0.4 - 0.15 + 0.99 * 0.5 * 0.25)
    bound = certify(problem, solution, "planned-advantage").bound
    assert 0.3 * gain < bound < gain
    assert certify(problem, surefoot.improve(problem, alone), "planned-advantage").bound < bound


def test_what_proves_nothing_is_refused_or_called_vacuous() -> None:
    problem = corridor(400)
    pi = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])  # never taken in state 0
    found = certify(problem, pi, "planned-advantage")
    assert found.bound == -1 and found.vacuous
    with pytest.raises(surefoot.NotAvailableError, match="estimated from the same log"):
        surefoot.improve(corridor(400, pi_b=None), surefoot.PlannedAdvantage(0.05))
    assert certify(corridor(400, return_range=None), LATER, "planned-advantage").label == (
        "approximate"
    )


def for_ever(steps: int) -> surefoot.Problem:
    """One state that never ends: action 0 pays 1, action 1 pays nothing."""
    action = np.arange(steps) % 2
    return surefoot.problem(
        state=np.zeros(steps, dtype=int), action=action, reward=1.0 - action,
        next_state=np.zeros(steps, dtype=int), episode=np.zeros(steps, dtype=int),
        gamma=0.9, pi_b=np.full((1, 2), 0.5), return_range=(0, 10), start=0,
    )  # fmt: skip


def test_what_is_lost_in_every_step_is_lost_in_all_later_ones() -> None:
    """The truth is -0.5 / (1 - 0.9), and c alone about -0.5."""
    problem = for_ever(20_000)
    for where in ("start", "every state"):
        found = certify(problem, np.array([[0.0, 1.0]]), "planned-advantage", where=where)
        assert -problem.return_range.width < found.bound <= -5


def two_starts(**options: Any) -> surefoot.Problem:
    """One decision: in state 0 action 1 pays more, state 1 has one action; half start in each."""
    n = 4000
    state = np.arange(n) % 2
    action = np.where(state == 0, np.arange(n) // 2 % 2, 0)
    rows = {
        "state": state, "action": action, "reward": 1.0 * action, "next_state": np.full(n, 2),
        "episode": np.arange(n), "gamma": 0.9, "terminal_states": [2], "return_range": (0, 1),
        "pi_b": np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]), "start": None,
    }  # fmt: skip
    return surefoot.problem(**{**rows, **options})


def test_a_start_that_is_estimated_is_paid_for_out_of_delta() -> None:
    problem, delta = two_starts(), 0.05
    pi = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    of_values, of_rows = shares((1 - OF_START) * delta)
    c = certified(problem, pi, evidence(problem, of_values, error="bernstein"))
    h = proved_gain(problem, pi, c, successors(problem, of_rows))
    bound = certify(problem, pi, "planned-advantage", delta=delta).bound
    assert bound == pytest.approx(least_mean(problem, h, OF_START * delta), rel=1e-9)
    of_log = certify(problem, pi, "planned-advantage", delta=delta, where="starts of the log").bound
    given = certify(two_starts(start=[0.5, 0.5, 0]), pi, "planned-advantage", delta=delta).bound
    assert 0 < bound < of_log == pytest.approx(given)


def test_the_note_says_the_largest_gain_that_was_planned_with() -> None:
    problem = known()
    solution = surefoot.improve(problem, surefoot.PlannedAdvantage(0.05))
    of_each = [
        certify(dataclasses.replace(problem, start=row), solution, "planned-advantage").bound
        for row in np.eye(4)
    ]
    assert 0 < min(of_each) < 0.9 * max(of_each)
    said = float(solution.notes[-1].split("up to ")[1].split(",")[0])
    assert said == pytest.approx(max(of_each), rel=0.01)
