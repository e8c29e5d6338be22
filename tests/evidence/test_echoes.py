"""Echoes: earlier actions that outcomes still show, what they cost, and that others cost nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import surefoot
from surefoot.checks.rhythm import within
from surefoot.core import Batch
from surefoot.evidence.echoes import _crossed, _decayed, echo_of, echoes, tail


def batch(how: str, n: int = 4000, late: float = 0.0, k: int = 5, seed: int = 0) -> Batch:
    """Two actions in three states; the second pays .3 now, and `late` more k rows later."""
    rng = np.random.default_rng(seed)
    steps = {"one": n, "episodes": 40, "single": 1}[how]
    episode, time = np.divmod(np.arange(n), steps)
    state, action = rng.integers(0, 3, n), (rng.random(n) < 0.4).astype(int)
    earlier = np.append(np.zeros(k), action[:-k]) * ((time >= k) | (how == "single"))
    reward = 0.3 * action + late * earlier + rng.normal(size=n)
    return surefoot.problem(
        state=state, action=action, reward=reward, episode=episode, time=time,
        next_state=np.append(state[1:], 0), gamma=0.9, pi_b=[[0.6, 0.4]] * 3,
    ).log  # fmt: skip


def of(log: Batch, gamma: float = 0.9) -> np.ndarray:
    """The largest of the three, by action."""
    return parts_of(log, gamma).max(axis=0)


def parts_of(log: Batch, gamma: float = 0.9) -> np.ndarray:
    y = within(log.reward, log.pair, log.n_states * log.n_actions)
    h = within((log.action == 1).astype(float), log.state, log.n_states)
    rare = 0 if (log.action == 1).mean() > 0.5 else 1
    return echoes(log, y, y, (h if rare else -h)[:, None], gamma)


@pytest.mark.parametrize("how", ["one", "episodes", "single"])
def test_what_works_later_costs_what_the_model_does_not_see(how: str) -> None:
    found = of(batch(how, late=-1.0))[1]
    discount = 1.0 if how == "single" else 0.9**5
    assert found >= 0.9 * discount
    assert found < 12.0


@pytest.mark.parametrize("how", ["one", "episodes", "single"])
@pytest.mark.parametrize("late", [-1.0, 1.0])
def test_one_lag_is_a_credit_of_twice_its_size_and_a_discounted_cost(how: str, late: float) -> None:
    credit, cost, _ = parts_of(batch(how, late=late, n=8000))[:, 1]
    assert credit == pytest.approx(2.0, abs=0.3)
    assert cost == pytest.approx(-late * (1.0 if how == "single" else 0.9**5), abs=0.2)


@pytest.mark.parametrize("how", ["one", "episodes", "single"])
def test_where_nothing_echoes_nothing_is_paid(how: str) -> None:
    """At most 3 of 60 logs, with room for chance (binomial at 2 %, p < .01)."""
    paid = sum(of(batch(how, n=1200, seed=i)).any() for i in range(60))
    assert paid <= 4


def test_who_does_less_of_what_pays_later_loses_that_and_who_does_more_of_it_loses_nothing() -> (
    None
):
    late = np.array([[0.1, 0.0], [-2.0, 0.0], [0.0, 3.0]])
    assert echo_of(late, np.array([-1.0, 0.0])) == pytest.approx(2.0)  # less of what pays 2 later
    assert echo_of(late, np.array([1.0, 0.0])) == pytest.approx(0.1)  # credit alone
    assert echo_of(late, np.array([0.0, 0.5])) == pytest.approx(1.5)  # more of what costs 3 later
    assert echo_of(late, np.array([0.0, -0.5])) == 0.0


@pytest.mark.parametrize("usual", [0.4, 0.6])
def test_less_of_an_action_that_costs_now_and_pays_more_for_long_is_not_supported(
    usual: float,
) -> None:
    """Whichever of the two actions is the rarer one."""
    rng = np.random.default_rng(8)
    n = 12_000
    action = (rng.random(n) < usual).astype(int)
    dose = np.zeros(n)
    for t in range(1, n):
        dose[t] = 0.95 * dose[t - 1] + action[t - 1]
    columns = {
        "episode": np.zeros(n, dtype=int), "time": np.arange(n), "state": rng.integers(0, 2, n),
        "action": action, "reward": -0.3 * action + 0.05 * dose + 0.5 * rng.normal(size=n),
    }  # fmt: skip
    advice = decided(columns, gamma=0.98)
    assert advice.gain.evidence.estimate > 0
    assert not advice.supported


def test_rare_successes_are_no_echo() -> None:
    paid = 0
    for i in range(60):
        log = batch("single", n=2000, seed=i)
        rng = np.random.default_rng(1000 + i)
        rare = (rng.random(2000) < 0.03).astype(float)
        y = within(rare, log.pair, 6)
        h = within((log.action == 1).astype(float), log.state, 3)
        paid += bool(echoes(log, y, y, h[:, None], 0.0).any())
    assert paid <= 4


def test_bernstein_is_above_the_normal_tail_and_grows_with_the_largest_term() -> None:
    z = np.linspace(0.5, 6, 12)
    assert (tail(z, 0.0) >= 2 * stats.norm.sf(z)).all()
    assert (np.diff([tail(4.0, x) for x in (0.0, 0.1, 0.5, 1.0)]) > 0).all()


def test_all_lags_at_once_are_the_sums_one_by_one() -> None:
    rng = np.random.default_rng(1)
    x, h = rng.normal(size=37), rng.normal(size=37)
    naive = [float(x[k:] @ h[: 37 - k]) for k in range(37)]
    found = _crossed(np.fft.rfft(x, 128), np.fft.rfft(h, 128), 128)[:37]
    np.testing.assert_allclose(found, naive, atol=1e-9)


@pytest.mark.parametrize("decay", [0.5, 0.9, 1.0])
def test_a_dose_adds_up_within_its_episode(decay: float) -> None:
    rng = np.random.default_rng(2)
    h, time = rng.normal(size=60), np.tile(np.arange(20), 3)
    naive, dose = [], 0.0
    for t, x in zip(time, h, strict=True):
        dose = 0.0 if t == 0 else dose
        naive.append(dose)
        dose = decay * dose + x
    np.testing.assert_allclose(_decayed(h, decay, time), naive, atol=1e-3)


def decided(columns: dict[str, Any], **how: Any) -> surefoot.Advice:
    return surefoot.advise(columns, **{"gamma": 0.9} | how)


@pytest.mark.parametrize("k", [2, 4, 10])
def test_an_action_that_pays_now_and_costs_more_later_is_not_supported(k: int) -> None:
    rng = np.random.default_rng(k)
    n = 4000
    action = (rng.random(n) < 0.4).astype(int)
    earlier = np.append(np.zeros(k), action[:-k])
    columns = {
        "episode": np.zeros(n, dtype=int), "time": np.arange(n), "state": rng.integers(0, 2, n),
        "action": action, "reward": 0.3 * action - 0.9 * earlier + 0.5 * rng.normal(size=n),
    }  # fmt: skip
    advice = decided(columns, gamma=0.95)
    assert advice.gain.evidence.estimate > 0
    assert not advice.supported


def test_a_habit_and_a_level_that_follow_the_gap_since_the_last_row_are_told_apart() -> None:
    rng = np.random.default_rng(5)
    n = 3000
    gap = np.where(rng.random(n) < 0.5, 1, 3)
    action = (rng.random(n) < np.where(gap == 3, 0.8, 0.2)).astype(int)
    columns = {
        "episode": np.zeros(n, dtype=int), "time": np.cumsum(gap), "state": rng.integers(0, 2, n),
        "action": action, "reward": 1.0 * (gap == 3) - 0.05 * action + 0.5 * rng.normal(size=n),
    }  # fmt: skip
    advice = decided(columns)
    assert not advice.supported
    assert advice.gain.evidence.explained > 0.8 * advice.gain.evidence.estimate
    assert decided({k: x for k, x in columns.items() if k != "time"}).gain.evidence.explained < (
        0.5 * advice.gain.evidence.explained
    )  # without times nobody can know
