"""Problem: discount, reward and return range, and reward tables; what is not declared is notedas an assumption."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot
from support.small_problem import ENDED, LOG, A, S, message, problem
from surefoot import ProblemError

# Discount, reward and return range


@pytest.mark.parametrize(
    "bad", [-0.1, 1.0001, np.nan, np.inf, "0.9", None, [0.9], np.array([0.9]), 1j, True, 10**400]
)
def test_a_discount_that_is_no_number_in_0_to_1_is_refused(bad: Any) -> None:
    assert "gamma must" in message(ProblemError, gamma=bad)


def test_a_discount_of_1_needs_a_return_range() -> None:
    assert "return_range" in message(ProblemError, gamma=1)
    assert problem(gamma=1, return_range=(-3, 7)).gamma == 1


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("rewards", [(-3.0, -1.0), (1.0, 3.0), (-1.0, 3.0), (0.0, 0.0)])
def test_the_return_range_follows_from_the_rewards(
    gamma: float, ends: bool, rewards: tuple[float, float]
) -> None:
    low, high = rewards
    log = {**(ENDED if ends else LOG), "reward": [low, high, low, high, low], "gamma": gamma}
    found = surefoot.problem(**log).return_range
    horizon = 1 / (1 - gamma)
    wanted = (low * horizon, high * horizon)
    if ends:  # a return may also be a single reward
        wanted = (min(low, wanted[0]), max(high, wanted[1]))
    assert (found.lo, found.hi) == pytest.approx(wanted)
    assert found.g_max == pytest.approx((wanted[1] - wanted[0]) / 2)
    assert found.v_max == pytest.approx(max(map(abs, wanted)))


@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([0.0, 0.5, 0.9]))
@settings(max_examples=40, deadline=None)
def test_no_return_of_an_ended_episode_lies_outside_the_range(
    seed: int, negative: bool, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    state = rng.integers(0, S - 1, n)
    reward = rng.uniform(-3, -1, n) if negative else rng.uniform(-1, 3, n)
    found = surefoot.problem(
        state=state,
        action=rng.integers(0, A, n),
        reward=reward,
        next_state=np.append(state[1:], S - 1),
        episode=np.zeros(n),
        terminal_states=[S - 1],
        gamma=gamma,
        n_actions=A,
    )
    mean = found.returns.mean[found.seen]
    slack = 1e-9
    assert (mean >= found.return_range.lo - slack).all()
    assert (mean <= found.return_range.hi + slack).all()


def test_an_observed_range_is_noted_and_not_declared() -> None:
    found = problem()
    assert found.reward_range == (-2, 3)
    assert not found.return_range.declared
    assert any("[-2, 3] is observed, not declared" in note for note in found.notes)


@pytest.mark.parametrize(
    "declared",
    [
        {"reward_range": (-5, 5)},
        {"return_range": (-50, 50)},
        {"reward_table": np.full((S, S), 3.0)},
    ],
)
def test_a_declared_range_is_not_noted(declared: dict[str, Any]) -> None:
    found = problem(**declared)
    assert found.return_range.declared
    assert not any("observed, not declared" in note for note in found.notes)


def test_a_declared_reward_range_decides_the_return_range() -> None:
    found = problem(reward_range=(-5, 10))
    assert (found.return_range.lo, found.return_range.hi) == pytest.approx((-50, 100))


def test_a_declared_return_range_is_taken_as_it_is() -> None:
    found = problem(return_range=(-7, 11), reward_range=(-5, 10))
    assert (found.return_range.lo, found.return_range.hi) == (-7, 11)


@pytest.mark.parametrize("name", ["reward_range", "return_range"])
@pytest.mark.parametrize(
    "bad", [(1, 0), (np.nan, 1), (0, np.inf), (0,), (0, 1, 2), 5, "05", "ab", ("-9", "9"), {-9, 9}, {-9: 1, 9: 1},
            (None, 9), (-9, 10**400), (-1e300, 9), (-9j, 9), [[-9], [9]], (True, False)],
)  # fmt: skip
def test_a_range_that_is_no_pair_of_numbers_is_refused(name: str, bad: Any) -> None:
    assert f"{name} must be" in message(ProblemError, **{name: bad})


def test_a_reward_range_that_does_not_hold_is_located() -> None:
    text = message(ProblemError, reward_range=(-1, 2))
    assert "does not hold: row 1 has reward -2.0 (2 such rows)" in text


def test_a_return_range_holds_from_every_step_on_and_not_for_whole_episodes_alone() -> None:
    """ENDED has rewards 1, -2, 0.5, 3, 0: at gamma 1 the whole episode is worth 2.5, and the
    rest of it 1.5, 3.5, 3, 0.
    """
    ended = {**ENDED, "gamma": 1}
    text = message(ProblemError, **{**ended, "return_range": (2, 3)})
    assert "the return from row 1 on is 1.5 (at least 3 such rows)" in text
    assert "from any state on, not of whole episodes alone" in text
    assert "the return from row 2 on is 3.5 (at least 1 such rows)" in message(
        ProblemError, **{**ended, "return_range": (0, 3.4)}
    )
    assert "is 0 (at least 1 such rows)" in message(
        ProblemError, **{**ended, "return_range": (0.1, 4)}
    )
    assert surefoot.problem(**{**ended, "return_range": (0, 3.5)}).return_range.declared


def test_a_cut_return_breaks_the_range_only_if_nothing_that_may_follow_would_bring_it_back() -> (
    None
):
    """At gamma 0.5 the rewards 1, -2, 0.5, 3, 0 up to the cut add up to 0.5, -1, 2, 3, 0; the
    last leaves half of a return open.
    """
    half = {"gamma": 0.5, "reward_range": None}
    assert (
        problem(**half, return_range=(-0.95, 3.5)).return_range.hi == 3.5
    )  # -1 + 3.5 / 16 and 3 - 0.95 / 4 lie inside
    text = message(ProblemError, **half, return_range=(-0.7, 4))
    assert (
        "the return from row 1 on is -1 up to a cut, and nothing that may follow would bring it"
        " back (at least 1 such rows)" in text
    )
    assert "from row 3 on" in message(ProblemError, **half, return_range=(-1, 2.7))
    assert problem(**half, return_range=(-1, 2.8)).return_range.hi == 2.8


def test_a_sum_that_misses_the_range_by_rounding_does_not_break_it() -> None:
    n = 10
    log = {
        "state": np.zeros(n, int),
        "action": np.zeros(n, int),
        "reward": np.full(n, 0.1),
        "episode": np.zeros(n),
        "next_state": np.append(np.zeros(n - 1, int), 1),
        "terminal_states": [1],
        "gamma": 1,
    }
    assert sum([0.1] * n) != 1.0
    for hi in (sum([0.1] * n), 1 - 2e-12):
        assert surefoot.problem(**log, return_range=(0, hi)).return_range.hi == hi


def test_where_rows_do_not_follow_each_other_only_last_steps_are_checked_and_that_is_said() -> None:
    broken = {**ENDED, "state": [0, 1, 2, 1, 1]}
    found = surefoot.problem(**broken, return_range=(0, 1))
    assert any("checked against last steps only" in x for x in found.notes)
    with pytest.raises(ProblemError, match="does not hold: the return from row 4"):
        surefoot.problem(**broken, return_range=(0.5, 1))


def test_a_reward_table_beyond_the_reward_range_is_refused() -> None:
    text = message(ProblemError, reward_range=(-2, 3), reward_table=np.full((S, S), 9.0))
    assert "reward_table goes from 9 to 9" in text


def test_rewards_so_near_to_the_end_of_floats_are_refused() -> None:
    text = message(ProblemError, reward=[1e59, 0, 0, 0, 0], gamma=0.99999)
    assert "1e+60" in text


# Reward tables


TABLE2 = np.arange(S * S, dtype=float).reshape(S, S)
TABLE3 = np.arange(S * A * S, dtype=float).reshape(S, A, S)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("table", [TABLE2, TABLE3])
def test_a_reward_table_replaces_the_rewards_of_the_log(table: np.ndarray, sparse: bool) -> None:
    full = np.broadcast_to(table[:, None, :], (S, A, S)) if table.ndim == 2 else table
    found = problem(reward_table=table, sparse=sparse)
    n_sas = np.zeros((S, A, S))
    np.add.at(n_sas, (LOG["state"], LOG["action"], LOG["next_state"]), 1)
    n_sa = n_sas.sum(axis=-1)
    wanted = np.where(
        n_sa > 0, (n_sas * full).sum(axis=-1) / np.maximum(n_sa, 1), found.return_range.lo
    )
    assert np.allclose(found.r, wanted)
    assert found.reward_range == (min(-2, table.min()), max(3, table.max()))


@pytest.mark.parametrize(
    "shape", [(S, A), (S, S, A), (S + 1,), (S + 1, S + 1), (A, S, S), (1, S, A, S)]
)
def test_a_reward_table_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    text = message(ProblemError, reward_table=np.zeros(shape))
    assert "[S'] = [4], [S, S'] = [4, 4] or [S, A, S'] = [4, 3, 4]" in text


@pytest.mark.parametrize("sparse", [True, False])
def test_a_reward_that_depends_on_the_next_state_alone_is_given_once(sparse: bool) -> None:
    once = np.arange(S) - 1.0
    short, long = (
        problem(reward_table=table, sparse=sparse) for table in (once, np.tile(once, (S, 1)))
    )
    assert np.array_equal(short.r, long.r) and len(np.unique(short.r)) > 2
    assert np.array_equal(short.reward_table, long.reward_table)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_a_reward_table_that_is_not_finite_is_located(bad: float) -> None:
    table = TABLE2.copy()
    table[1, 3] = bad
    text = message(ProblemError, reward_table=table)
    assert "entry [1, 3]" in text
    assert "1 such entries" in text


def test_a_reward_table_that_holds_no_numbers_is_refused() -> None:
    for bad in (TABLE2.astype(str), TABLE2 * 1j, "x", [[1], [1, 2]]):
        assert "reward_table" in message(ProblemError, reward_table=bad)


def test_a_reward_table_cannot_know_the_extra_state() -> None:
    text = message(
        ProblemError, terminal=[0, 0, 0, 0, 1], next_state=[1, 2, 0, 1, -1], reward_table=TABLE2
    )
    assert "(end)" in text
