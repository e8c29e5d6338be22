"""Centred values: the control has mean 0, the floor stays, and the share taken off is set by the
past alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surefoot
from surefoot.advice.safety import sample_test, whole_sample
from surefoot.advice.verdict import PASSES
from surefoot.evidence import Standard, centring, episode_values
from surefoot.evidence.centring import Control, centred, largest_ratio, past_shares
from surefoot.evidence.episode_values import VALUE
from surefoot.statistics.bounds import log_capital

GAMMA = 0.8
PI_B = np.array([[0.6, 0.4], [0.7, 0.3], [0.5, 0.5]])
PI = np.array([[0.5, 0.5], [0.2, 0.8], [0.5, 0.5]])
ON = (0.25, 0.75)  # the probability that an episode goes on, by its first action
STANDARD = Standard(reward_range=(-1.0, 2.0), horizon=2, largest_ratio=0.8 / 0.3)


def every_episode() -> tuple[Any, np.ndarray, np.ndarray]:
    """(a problem with each possible episode once, its probability under pi_b, and under pi).

    State 0, then state 1 with probability 1/4 or 3/4, by the action, or the end; rewards -1 or 2,
    each as likely.
    """
    rows: dict[str, list[Any]] = {"state": [], "action": [], "reward": [], "next_state": []}
    rows["episode"], chance = [], []

    def add(number: int, *steps: tuple[int, int, float, int]) -> None:
        for step in steps:
            for name, value in zip(rows, (*step, number), strict=True):
                rows[name].append(value)

    for first, second in product(product((0, 1), (-1.0, 2.0)), repeat=2):
        both = [ON[first[0]] * pi[0, first[0]] * pi[1, second[0]] / 4 for pi in (PI_B, PI)]
        add(len(chance), (0, *first, 1), (1, *second, 2))
        chance.append(both)
    for first in product((0, 1), (-1.0, 2.0)):
        add(len(chance), (0, *first, 2))
        chance.append([(1 - ON[first[0]]) * pi[0, first[0]] / 2 for pi in (PI_B, PI)])
    problem = surefoot.problem(
        **{name: np.array(column) for name, column in rows.items()},
        gamma=GAMMA, terminal_states=[2], pi_b=PI_B, reward_range=(-1, 2),
    )  # fmt: skip
    of_b, of_pi = np.array(chance).T
    return problem, of_b, of_pi


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("estimator", ["pdis", "is", "narrow"])
@pytest.mark.parametrize("deeper", [1.0, 1.2, 1.7, 4.0])
def test_the_control_has_mean_0_and_the_floor_is_not_crossed(
    sign: int, estimator: str, deeper: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(centring, "DEEPER", 20 / deeper)
    problem, of_b, of_pi = every_episode()
    assert of_b.sum() == pytest.approx(1) == of_pi.sum()
    log = replace(problem.log, reward=sign * problem.log.reward)
    standard = replace(STANDARD, estimator=estimator.replace("narrow", "pdis"))
    if estimator == "narrow":  # than rewards allow
        standard = replace(standard, reward_range=(-4.0, 5.0), return_range=(-1.8, 3.6))
    standard = standard if sign > 0 else standard.mirrored()
    found = episode_values(log, PI, PI_B, GAMMA, standard)
    if estimator == "narrow" and deeper == 1.0:
        assert found.control is None
        return
    assert found.control is not None
    control = found.control.values
    assert of_b @ control == pytest.approx(0, abs=1e-12)
    returns = np.bincount(log.episode, weights=GAMMA**log.time * log.reward)
    assert of_b @ found.x == pytest.approx((of_pi - of_b) @ returns)
    shares = np.linspace(0, 1, 11)
    floors = found.control.floors(shares)
    for k, lo in zip(shares, floors, strict=True):
        assert (found.x - k * control).min() >= lo - 1e-12
    assert floors[0] == pytest.approx(found.lo)
    assert found.control.floors(np.array([-0.0])) == pytest.approx([found.lo])
    assert (np.diff(floors) <= 1e-12).all()
    assert floors[-1] >= deeper * found.lo - 1e-12
    if estimator == "narrow" and deeper == 1.2:
        # beta is 0.2 x 10.8 / 1.8 = 1.2, and c_t = 1.2 / (W^(t+1) - 1): all of it is paid
        assert floors == pytest.approx(-10.8 - 2.16 * shares)


def test_the_floor_is_met_exactly_so_that_a_larger_control_would_cross_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One step, weights to 3, the lowest reward; then with a floor that may be 1.6 times as deep."""
    problem = surefoot.problem(
        state=[0, 0], action=[0, 1], reward=[0.0, 0.0], next_state=[1, 1], episode=[0, 1],
        gamma=0.5, terminal_states=[1], pi_b=np.array([[0.7, 0.3], [0.5, 0.5]]),
        reward_range=(0, 1),
    )  # fmt: skip
    pi = np.array([[0.1, 0.9], [0.5, 0.5]])
    standard = Standard(reward_range=(0, 1), horizon=1, largest_ratio=3.0)
    found = episode_values(problem.log, pi, problem.pi_b, 0.5, standard)
    assert found.control is not None
    whole = np.array([0.5, 1.0])
    assert found.control.floors(whole) == pytest.approx([-1, -1])
    assert (found.x - found.control.values).min() == pytest.approx(found.lo)
    monkeypatch.setattr(centring, "DEEPER", 1.25)
    deeper = episode_values(problem.log, pi, problem.pi_b, 0.5, standard).control
    assert deeper is not None
    assert deeper.floors(whole) == pytest.approx([-1, -1.6])
    assert (found.x - deeper.values).min() == pytest.approx(-1.6)
    with pytest.raises(surefoot.ProblemError, match="largest_ratio 2 does not hold"):
        episode_values(problem.log, pi, problem.pi_b, 0.5, replace(standard, largest_ratio=2.0))


def test_the_share_is_set_by_the_past_alone() -> None:
    x, control = np.array([1.0, -1.0, 2.0, 0.5]), np.array([2.0, -1.0, 1.0, -1.0])
    # k: 0, then 2/4, (2 + 1) / (4 + 1), (3 + 2) / (5 + 1)
    assert past_shares(x, control) == pytest.approx([0, 0.5, 0.6, 5 / 6])
    rng = np.random.default_rng(0)
    x, control = rng.normal(size=(2, 30))
    other = x.copy()
    other[12:] += 5
    change = past_shares(other, control) - past_shares(x, control)
    assert (change[:13] == 0).all()
    assert change[13] != 0


def test_the_share_stays_between_0_and_1() -> None:
    control = np.array([1.0, -1.0, 1.0])
    assert past_shares(-control, control) == pytest.approx([0, 0, 0])
    assert past_shares(3 * control, control) == pytest.approx([0, 1, 1])


def test_centred_values_pass_wrongly_at_most_a_delta_share_over_all_logs() -> None:
    """Six decisions, success p whatever is done, .5 to .75 and .3 to .9; every sequence counts."""
    delta, found = 0.2, []
    which = np.array(list(product(range(4), repeat=6)))
    action, reward = which // 2, which % 2
    for b, pi, depth in ((0.5, 0.75, 1), (0.3, 0.9, 1), (0.3, 0.9, 1.5)):
        w = np.where(action == 1, pi / b, (1 - pi) / (1 - b))
        most, every = min(pi / b - 1, depth), np.arange(6)
        hit = []
        for x, c in zip((w - 1) * reward, (w - 1) * most / (pi / b - 1), strict=True):
            control = Control(
                values=c, lo=-1.0, width=1.0, most=np.array([most]), count=np.ones(1), every=1.0
            )
            y, lo = centred(x, control, every)
            assert (y >= lo - 1e-12).all()
            hit.append(log_capital(y - lo, delta, -lo).max() >= math.log(1 / delta))
        for p in np.linspace(0.05, 0.95, 19):
            chance = np.where(action == 1, b, 1 - b) * np.where(reward == 1, p, 1 - p)
            found.append(chance.prod(axis=1)[np.array(hit)].sum())
    assert delta / 20 < max(found) <= delta


def decisions(rng: np.random.Generator, n: int, better: float) -> surefoot.Problem:
    action = (rng.random(n) < 0.4).astype(int)
    return surefoot.problem(
        state=np.zeros(n, int), action=action, next_state=np.ones(n, int), episode=np.arange(n),
        reward=(rng.random(n) < 0.6 + better * action).astype(float), gamma=0.9,
        terminal_states=[1], pi_b=np.array([[0.6, 0.4], [0.5, 0.5]]), reward_range=(0, 1),
    )  # fmt: skip


def test_a_gain_is_shown_more_often_and_no_gain_is_shown_at_most_delta() -> None:
    pi, logs, rng = np.array([[0.2, 0.8], [0.5, 0.5]]), 150, np.random.default_rng(5)
    plain = Standard(delta=0.1, reward_range=(0, 1), horizon=1)
    both = (plain, replace(plain, largest_ratio=2.0))
    passed = {}
    for better in (0.0, 0.15):
        made = [whole_sample(decisions(rng, 300, better), pi) for _ in range(logs)]
        passed[better] = [
            sum(sample_test(None, x, 0.9, y).verdict == PASSES for x in made) for y in both
        ]
    assert passed[0.0][1] <= binom.ppf(0.99, logs, 0.05)
    assert passed[0.15][1] > passed[0.15][0] + logs / 5


def test_nothing_is_centred_where_a_range_is_observed_or_few_returns_are_narrower() -> None:
    problem = decisions(np.random.default_rng(0), 50, 0.0)
    pi = np.array([[0.2, 0.8], [0.5, 0.5]])
    for standard in (
        Standard(horizon=1, largest_ratio=2.0),
        Standard(reward_range=(0, 2), return_range=(0, 1), horizon=1, largest_ratio=2.0),
        Standard(reward_range=(0, 1), horizon=1),
    ):
        assert episode_values(problem.log, pi, problem.pi_b, 0.9, standard).control is None
    known = Standard(reward_range=(0, 1), horizon=1, largest_ratio=2.0)
    assert episode_values(problem.log, pi, problem.pi_b, 0.9, known).control is not None


def test_the_largest_ratio_counts_states_that_a_log_does_not_have() -> None:
    rounding = 1.001 / 0.999
    assert largest_ratio(PI, PI_B) == pytest.approx(0.8 / 0.3 * rounding)
    other = (("far", "a", 0.9), ("far", "b", 0.1))
    base = (("far", "a", 0.1), ("far", "b", 0.9))
    assert 9 <= largest_ratio(PI, PI_B, other, base) < 9.1
    assert largest_ratio(PI, PI_B, (), base) == pytest.approx(0.8 / 0.3 * rounding)
    assert largest_ratio(PI, PI_B, other, ()) == math.inf
    assert largest_ratio(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])) == math.inf
    with pytest.raises(surefoot.ParameterError, match="largest_ratio must be a number >= 1"):
        Standard(largest_ratio=0.5)


@pytest.mark.parametrize(("limit", "value"), [("MOST_STEPS", 1), ("LARGEST_WEIGHT", 3.0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_steps_beyond_the_last_that_is_centred_add_nothing(
    sign: int, limit: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two steps only the first is centred, as W < 3 < W^2: C = c_0 (w_0 - 1); the floor knows
    of it alone.
    """
    monkeypatch.setattr(centring, limit, value)
    problem, of_b, _ = every_episode()
    assert problem.log is not None
    log = replace(problem.log, reward=sign * problem.log.reward)
    standard = STANDARD if sign > 0 else STANDARD.mirrored()
    found = episode_values(log, PI, PI_B, GAMMA, standard)
    assert found.control is not None
    assert len(found.control.most) == 1
    w = (PI / PI_B)[log.state[log.first], log.action[log.first]]
    control = found.control.values
    assert control == pytest.approx(control[0] / (w[0] - 1) * (w - 1))
    assert of_b @ control == pytest.approx(0, abs=1e-12)
    shares = np.linspace(0, 1, 11)
    for k, lo in zip(shares, found.control.floors(shares), strict=True):
        assert (found.x - k * control).min() >= lo - 1e-12


def test_rows_of_files_may_be_rounded_and_the_ratio_allows_for_it() -> None:
    """Each row may miss 1 by 1/1000, and is scaled when it is read."""
    policy = (("far", "a", 0.9 * 0.999), ("far", "b", 0.1 * 0.999))
    base = (("far", "a", 0.1 * 1.001), ("far", "b", 0.9 * 1.001))
    assert largest_ratio(PI, PI_B, policy, base) >= 9 - 1e-12


def test_nothing_is_centred_but_gains_over_a_baseline_that_made_a_log_of_equal_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(centring, "DEEPER", 2)  # so that there is something to take off anywhere
    problem, *_ = every_episode()
    log = problem.log
    assert log is not None
    assert episode_values(log, PI, PI_B, GAMMA, STANDARD).control is not None
    value = episode_values(log, PI, PI_B, GAMMA, STANDARD, quantity=VALUE)
    assert value.control is None
    made = {"propensity": PI_B[log.state, log.action]}
    unequal = {"survives": np.linspace(0.5, 1, len(log))}
    for beside in (made, unequal):
        other = replace(log, beside=beside)
        assert episode_values(other, PI, PI_B, GAMMA, STANDARD).control is None, list(beside)
    for bound in ("maurer-pontil", "hoeffding", "student-t"):
        other = replace(STANDARD, estimator="is", bound=bound)
        assert episode_values(log, PI, PI_B, GAMMA, other).control is None, bound


def test_an_episode_that_has_stopped_goes_on_with_0_also_where_no_reward_is_0() -> None:
    """Rewards 1 or 4: what is left of a step is up to 4, not 3."""
    problem, *_ = every_episode()
    assert problem.log is not None
    log = replace(problem.log, reward=problem.log.reward + 2)
    standard = replace(STANDARD, reward_range=(1.0, 4.0))
    found = episode_values(log, PI, PI_B, GAMMA, standard)
    assert found.control is not None
    assert found.control.width == 4
    shares = np.linspace(0, 1, 11)
    floors = found.control.floors(shares)
    assert floors[0] == pytest.approx(found.lo) == pytest.approx(-4 * 1.8)
    for k, lo in zip(shares, floors, strict=True):
        assert (found.x - k * found.control.values).min() >= lo - 1e-12
