"""The default of `surefoot improve` on odd logs: it moves nothing without reason, or says why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot
from surefoot import Problem
from surefoot.algorithms.defaults import DEFAULT, chosen_algorithm
from surefoot.algorithms.priced_soft_spibb import sigma


def steps(
    n: int = 200, n_states: int = 3, n_actions: int = 3, episodes: int = 10
) -> dict[str, Any]:
    """A continuing log in which action and outcome are drawn at random."""
    rng = np.random.default_rng(0)
    return {
        "state": rng.integers(0, n_states, n),
        "action": rng.integers(0, n_actions, n),
        "reward": rng.normal(size=n),
        "next_state": rng.integers(0, n_states, n),
        "episode": np.arange(n) * episodes // n,
        "n_states": n_states,
        "n_actions": n_actions,
    }


def posed(log: dict[str, Any], gamma: float = 0.9, **options: Any) -> Problem:
    reward = np.asarray(log["reward"])
    if "return_range" not in options:
        options.setdefault("reward_range", (reward.min(), reward.max()))
    return surefoot.problem(**log, gamma=gamma, **options)


def improved(problem: Problem) -> np.ndarray:
    """The default's policy, after what every policy must be."""
    found = surefoot.improve(problem, chosen_algorithm(problem))
    assert found.status.ok
    assert np.isfinite(found.pi).all()
    assert np.isfinite(found.q).all()
    return found.pi


def test_the_command_line_has_the_default_of_the_library() -> None:
    import inspect

    from surefoot.cli.learning import improve

    assert inspect.signature(improve).parameters["algorithm"].default == DEFAULT


@pytest.mark.parametrize(("n_states", "n_actions", "n"), [(1, 1, 50), (1, 2, 1), (4, 1, 50)])
def test_with_one_action_or_one_row_nothing_moves(n_states: int, n_actions: int, n: int) -> None:
    problem = posed(steps(n, n_states, n_actions, episodes=1), reward_range=(-5, 5))
    assert_array_equal(improved(problem), problem.pi_b)


@pytest.mark.parametrize("sparse", [False, True])
def test_rewards_that_are_all_equal_move_nothing_though_moving_is_free(sparse: bool) -> None:
    """sigma = 0, so the price is 0: but then no action is better than another."""
    log = steps() | {"sparse": sparse}
    log["reward"] = np.full(200, 7.0)
    problem = posed(log, reward_range=(0, 10))
    assert_allclose(improved(problem), problem.pi_b, atol=1e-12)


def test_where_one_state_has_no_scatter_the_others_set_the_price() -> None:
    """State 0 gives 0 or, for an action seen once, 1: its own standard deviation is tiny."""
    log = steps(400, 2, 2)
    zero = log["state"] == 0
    log["action"] = np.where(zero, 0, log["action"])
    log["action"][np.flatnonzero(zero)[0]] = 1
    log["reward"] = np.where(zero, log["action"] * 1.0, 30 * log["reward"])
    one = posed(log, gamma=0.0)
    alone = {k: x[zero] if isinstance(x, np.ndarray) else x for k, x in log.items()}
    assert improved(posed(alone, gamma=0.0))[0, 1] > 0.3
    assert improved(one)[0, 1] == pytest.approx(one.pi_b[0, 1])


def test_pairs_that_were_all_seen_once_give_a_policy() -> None:
    log = steps(9, episodes=9)
    log["state"], log["action"] = np.repeat(np.arange(3), 3), np.tile(np.arange(3), 3)
    improved(posed(log))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.999999])
@pytest.mark.parametrize("sparse", [False, True])
def test_any_discount_gives_a_policy(gamma: float, sparse: bool) -> None:
    improved(posed(steps() | {"sparse": sparse}, gamma))


def test_undiscounted_episodes_give_a_policy() -> None:
    log = steps(200, 4, 3, episodes=50)
    last = np.append(np.diff(log["episode"]) > 0, True)
    log |= {
        "next_state": np.where(last, 4, np.roll(log["state"], -1)),
        "terminal": last,
        "n_states": 5,
    }
    problem = posed(log, 1.0, return_range=(-50, 50))
    pi = improved(problem)
    assert np.abs(pi - problem.pi_b).max() > 0.1


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1e40, 1e58])
def test_the_scale_of_rewards_changes_nothing(scale: float) -> None:
    log = steps()
    log["reward"] = log["reward"] / np.abs(log["reward"]).max()
    one, other = posed(log), posed(log | {"reward": scale * log["reward"]})
    assert_allclose(improved(other), improved(one), atol=1e-9)


def test_rewards_too_small_to_be_squared_are_refused_in_words() -> None:
    log = steps()
    problem = posed(log | {"reward": 1e-200 * log["reward"]})
    with pytest.raises(surefoot.NotAvailableError, match="multiply all rewards by a constant"):
        improved(problem)


@pytest.mark.filterwarnings("ignore:overflow")
def test_rewards_too_large_to_be_squared_are_refused_in_words() -> None:
    """A log of them is refused at the door; counts may hold them."""
    made = posed(steps())
    counts = replace(made.counts, r_sas=1e170 * made.counts.r_sas)
    problem = replace(made, counts=counts, log=None)
    with pytest.raises(surefoot.NotAvailableError, match="multiply all rewards by a constant"):
        improved(problem)


def test_a_shift_that_leaves_few_digits_gives_a_policy() -> None:
    log = steps()
    improved(posed(log | {"reward": log["reward"] + 1e12}))


def test_what_no_row_shows_is_left_alone() -> None:
    """States and actions that the log has not, given by a baseline; and a mask."""
    log = steps() | {"n_states": 5, "n_actions": 4}
    allowed = np.ones((5, 4), dtype=bool)
    allowed[3, 3] = False
    pi_b = allowed / allowed.sum(axis=1, keepdims=True)
    pi = improved(posed(log, pi_b=pi_b, allowed=allowed))
    assert_array_equal(pi[3:], pi_b[3:])
    assert (pi[:, 3] <= pi_b[:, 3]).all()


def test_a_half_of_a_log_pays_the_price_of_its_own_rows() -> None:
    """The algorithm made for the whole log is the one that would be made for the half."""
    whole, half = posed(steps(400)), posed(steps(200))
    assert chosen_algorithm(whole) == chosen_algorithm(half)
    block, z = whole.blocks[0], 0.12 * np.log(1 + 400 / 3)
    price = chosen_algorithm(whole).trust(block, block.n_sa).price
    assert_allclose(price, z * sigma(block, 10.0)[..., None] / np.sqrt(block.n_sa))
