"""Edge cases for every algorithm: one state, one action, n = 1, gamma = 0, equal values, states
never visited, known answers.

But for those that test episodes, which need the true baseline and several of them (test_hcpi).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot
from support import worlds
from support.settings import FROM_COUNTS, make


def tiny(**changes: Any) -> surefoot.Problem:
    log = {
        "state": [0, 0, 1],
        "action": [0, 1, 0],
        "reward": [1.0, 0.0, 2.0],
        "next_state": [0, 1, 0],
        "episode": [0, 0, 0],
    }
    return surefoot.problem(**{**log, "gamma": 0.9, "reward_range": (0, 2), **changes})


@pytest.mark.parametrize("name", FROM_COUNTS)
def test_one_state_and_one_action_leave_nothing_to_choose(name: str) -> None:
    problem = surefoot.problem(
        state=[0, 0], action=[0, 0], reward=[1.0, 3.0], next_state=[0, 0], episode=[0, 0], gamma=0.5
    )
    solution = surefoot.improve(worlds.in_columns(problem), make(name))
    assert solution.pi.tolist() == [[1.0]]


@pytest.mark.parametrize("name", FROM_COUNTS)
def test_one_action_keeps_the_baseline(name: str) -> None:
    problem = surefoot.problem(
        state=[0, 1, 2],
        action=[0, 0, 0],
        reward=[1.0, 3.0, 0.0],
        next_state=[1, 2, 0],
        episode=[0, 0, 0],
        gamma=0.5,
        n_states=5,
    )
    assert surefoot.improve(worlds.in_columns(problem), make(name)).pi.tolist() == [[1.0]] * 5


@pytest.mark.parametrize("name", FROM_COUNTS)
def test_an_episode_of_one_step_and_pairs_seen_once_are_enough(name: str) -> None:
    problem = surefoot.problem(
        state=[0],
        action=[1],
        reward=[1.0],
        next_state=[1],
        episode=["a"],
        gamma=0.9,
        n_states=4,
        n_actions=3,
        reward_range=(0, 1),
    )
    pi = surefoot.improve(worlds.in_columns(problem), make(name)).pi
    assert (pi[[1, 2, 3]] == problem.pi_b[[1, 2, 3]]).all()
    assert np.allclose(pi.sum(axis=1), 1)


@pytest.mark.parametrize("name", [n for n in FROM_COUNTS if n != "vi-lcb"])
def test_without_a_future_only_the_reward_counts(name: str) -> None:
    rng = np.random.default_rng(0)
    n = 4000
    state, action = rng.integers(0, 3, n), rng.integers(0, 2, n)
    reward = np.where(action == state % 2, 1.0, 0.0)
    problem = surefoot.problem(
        state=state,
        action=action,
        reward=reward,
        next_state=np.append(state[1:], 0),
        episode=np.zeros(n),
        gamma=0.0,
        pi_b=np.full((3, 2), 0.5),
        reward_range=(0, 1),
    )
    pi = surefoot.improve(
        worlds.in_columns(problem),
        make(name, xi=0.01, epsilon=5.0, n_wedge=1, kappa=0.01, delta=1.0, c_b=1e-4),
    ).pi
    assert (pi.argmax(axis=1) == np.array([0, 1, 0])).all()


@pytest.mark.parametrize("name", FROM_COUNTS)
def test_a_row_of_25_equal_values_keeps_the_baseline(name: str) -> None:
    rng = np.random.default_rng(1)
    action = np.repeat(np.arange(25), 4)
    problem = surefoot.problem(
        state=np.zeros(100, dtype=int),
        action=action,
        reward=np.ones(100),
        next_state=np.zeros(100, dtype=int),
        episode=np.arange(100),
        gamma=0.9,
        pi_b=rng.dirichlet(np.ones(25), 1),
        reward_range=(0, 1),
        terminal=None,
    )
    assert np.array_equal(surefoot.improve(worlds.in_columns(problem), make(name)).pi, problem.pi_b)


@pytest.mark.parametrize("name", ["basic-rl", "ramdp", "duipi"])
def test_lowest_index_sends_ties_to_the_first_action_as_the_published_code_does(name: str) -> None:
    problem = tiny(
        action=[0, 1, 0],
        reward=[1.0, 1.0, 1.0],
        next_state=[0, 0, 0],
        state=[0, 0, 0],
        ties="lowest-index",
        pi_b=[[0.25, 0.75]],
        reward_range=(0, 1),
    )
    kept = tiny(
        action=[0, 1, 0],
        reward=[1.0, 1.0, 1.0],
        next_state=[0, 0, 0],
        state=[0, 0, 0],
        pi_b=[[0.25, 0.75]],
        reward_range=(0, 1),
    )
    assert surefoot.improve(problem, make(name, kappa=0.0, xi=0.0)).pi.tolist() == [[1.0, 0.0]]
    assert surefoot.improve(kept, make(name, kappa=0.0, xi=0.0)).pi.tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    ("option", "row"), [("baseline", [0.5, 0.25, 0.25]), ("first-action", [0.0, 1.0, 0.0])]
)
def test_a_state_never_visited_keeps_the_baseline_or_takes_the_first_allowed_action(
    option: str, row: list[float]
) -> None:
    allowed = np.ones((3, 3), dtype=bool)
    allowed[2, 0] = option == "baseline"
    pi_b = np.array(
        [[0.4, 0.3, 0.3], [0.4, 0.3, 0.3], row if option == "baseline" else [0.0, 0.5, 0.5]]
    )
    problem = tiny(n_states=3, n_actions=3, pi_b=pi_b, allowed=allowed, unseen_states=option)
    for name in ("basic-rl", "ramdp", "r-min", "duipi", "mbie"):
        assert surefoot.improve(problem, make(name)).pi[2].tolist() == row
    restricted = surefoot.improve(problem, make("pi-b-spibb", n_wedge=0)).pi
    assert restricted[2].tolist() == pi_b[2].tolist(), "a method with a baseline keeps it"


def test_basic_rl_takes_the_better_action() -> None:
    stay, go = (
        0.5 / (1 - 0.9),
        0.9 * 2 / (1 - 0.9**2),
    )  # action 0 stays in state 0, action 1 leads to state 1 and back
    solution = surefoot.improve(tiny(reward=[0.5, 0.0, 2.0]), "basic-rl")
    assert go > stay
    assert solution.pi.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert solution.q[0].tolist() == pytest.approx([0.5 + 0.9 * go, go])


def test_ramdp_subtracts_kappa_over_the_root_of_n() -> None:
    problem = tiny(
        state=[0] * 5,
        action=[0, 1, 1, 1, 1],
        reward=[1.1] + [1.0] * 4,
        next_state=[0] * 5,
        episode=range(5),
        gamma=0.0,
    )
    for kappa, best in ((0.0, 0), (0.19, 0), (0.21, 1)):
        solution = surefoot.improve(problem, surefoot.algorithm("ramdp", kappa=kappa))
        assert solution.pi[0].argmax() == best
        assert np.allclose(solution.q, [[1.1 - kappa, 1.0 - kappa / 2]])


def test_r_min_values_a_pair_seen_n_wedge_times_at_the_floor() -> None:
    problem = tiny(
        state=[0] * 5,
        action=[0, 0, 1, 1, 1],
        reward=[2.0] * 2 + [1.0] * 3,
        next_state=[0] * 5,
        episode=range(5),
        gamma=0.0,
    )
    assert surefoot.improve(problem, surefoot.algorithm("r-min", n_wedge=1)).q.tolist() == [
        [2.0, 1.0]
    ]
    assert surefoot.improve(problem, surefoot.algorithm("r-min", n_wedge=2)).q.tolist() == [
        [0.0, 1.0]
    ]


def test_mbie_of_a_single_state_has_nothing_to_fear_and_robust_moves_half_its_radius() -> None:
    problem = tiny(
        state=[0] * 4,
        action=[0, 0, 1, 1],
        reward=[2.0, 2.0, 1.0, 1.0],
        next_state=[0] * 4,
        episode=range(4),
        gamma=0.5,
    )
    assert np.allclose(
        surefoot.improve(problem, surefoot.algorithm("mbie", delta=0.1)).q, [[4.0, 3.0]]
    )
    log = {
        "state": [0] * 200,
        "action": [0] * 200,
        "next_state": [0, 1] * 100,
        "episode": range(200),
        "reward": [1.0, 0.0] * 100,
    }
    two = surefoot.problem(**log, gamma=0.0, reward_range=(0, 1), n_states=2)
    mass = 0.5 * np.sqrt(2 / 200 * np.log(2 * 1 * 4 / 0.1))
    assert surefoot.improve(two, surefoot.algorithm("robust", delta=0.1)).q[0, 0] == pytest.approx(
        0.5 - mass
    )
    mass = 0.5 * np.sqrt(2 / 200 * np.log(2 * 2 * 1 * 2 / 0.1))
    assert surefoot.improve(two, surefoot.algorithm("mbie", delta=0.1)).q[0, 0] == pytest.approx(
        0.5 - mass
    )


def test_vi_lcb_takes_its_bernstein_penalty_off() -> None:
    log = {
        "state": [0] * 400,
        "action": [0] * 400,
        "next_state": [0, 1] * 200,
        "episode": range(400),
        "reward": [1.0, 0.0] * 200,
    }
    problem = surefoot.problem(
        **log, gamma=0.5, reward_range=(0, 1), n_states=2, terminal_states=[1]
    )
    c_b, delta = 0.5, 0.1
    found = surefoot.improve(problem, surefoot.algorithm("vi-lcb", c_b=c_b, delta=delta)).q[0, 0]
    width, log_term, n = problem.return_range.width, np.log(400 / (0.5 * delta)), 400
    v = found
    variance = 0.25 * v**2
    penalty = (
        min(max(np.sqrt(c_b * log_term * variance / n), 2 * c_b * log_term * width / n), width)
        + 5 / n
    )
    assert found == pytest.approx(0.5 + 0.5 * 0.5 * v - penalty)
    with pytest.raises(surefoot.NotAvailableError, match="gamma"):
        surefoot.improve(tiny(gamma=1.0, return_range=(0, 5)), make("vi-lcb"))
    with pytest.raises(surefoot.NotAvailableError, match="gamma"):
        surefoot.improve(tiny(gamma=1.0, return_range=(0, 5)), make("robust"))


def test_centred_duipi_gives_a_pair_seen_once_the_largest_variance_the_range_allows() -> None:
    problem = tiny(
        state=[0] * 4,
        action=[0, 1, 1, 1],
        reward=[2.0, 1.0, 1.0, 1.0],
        next_state=[0] * 4,
        episode=range(4),
        gamma=0.0,
    )
    q = surefoot.improve(
        problem, surefoot.algorithm("duipi-centred", xi=0.5, prior="frequentist")
    ).q
    assert q.tolist() == [[2.0 - 0.5 * 1.0, 1.0]]


def test_centred_duipi_measures_the_scatter_of_its_targets() -> None:
    reward = [0.0, 2.0, 0.0, 2.0, 1.0, 1.0]
    problem = tiny(
        state=[0] * 6,
        action=[0] * 4 + [1] * 2,
        reward=reward,
        next_state=[0] * 6,
        episode=range(6),
        gamma=0.0,
    )
    q = surefoot.improve(
        problem, surefoot.algorithm("duipi-centred", xi=1.0, prior="frequentist")
    ).q
    assert q[0, 0] == pytest.approx(1.0 - np.sqrt(1.0 / 3)), "variance 1 of the target, n - 1 = 3"
    log = {
        "state": [0] * 4,
        "action": [0] * 4,
        "next_state": [1, 2, 1, 2],
        "episode": range(4),
        "reward": [0.0, 2.0, 0.0, 2.0],
    }
    ends = surefoot.problem(**log, gamma=0.9, reward_range=(0, 2), terminal_states=[1, 2])
    q = surefoot.improve(ends, surefoot.algorithm("duipi-centred", xi=1.0, prior="frequentist")).q
    assert q[0, 0] == pytest.approx(1.0 - np.sqrt(1.0 / 3)), (
        "terminal states stay terminal: no value behind them"
    )
    bayes = surefoot.improve(ends, surefoot.algorithm("duipi-centred", xi=1.0, alpha=0.1)).q[0, 0]
    counts, values = (
        np.array([0.1, 2.1, 2.1]),
        np.array([0.0, 0.0, 2.0]),
    )  # nobody arrived at state 0: the lowest reward, v = q
    value = (counts @ values / 4.3) / (1 - 0.9 * 0.1 / 4.3)
    target = values + 0.9 * np.array([value, 0, 0])
    spread = (counts @ (target - counts @ target / 4.3) ** 2 / 4.3) / 5.3
    u = spread / (1 - 0.81 * (0.1 / 4.3) ** 2)
    assert bayes == pytest.approx(value - np.sqrt(u))


def test_undiscounted_problems_are_improved_when_a_return_range_is_declared() -> None:
    problem = surefoot.problem(
        state=[0, 0, 1, 1],
        action=[0, 1, 0, 1],
        reward=[0.0, 1.0, 3.0, 0.0],
        next_state=[1, 2, 2, 2],
        episode=[0, 1, 2, 3],
        gamma=1.0,
        terminal_states=[2],
        return_range=(0, 4),
    )
    assert surefoot.improve(problem, "basic-rl").pi[:2].tolist() == [[1.0, 0.0], [1.0, 0.0]]
