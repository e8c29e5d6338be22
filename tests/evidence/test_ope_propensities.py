"""Weights by propensities: row by row, whoever chose the actions; a baseline that did not make the
log is weighted too, and its values still have a floor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import surefoot
from surefoot.core import Batch, make_batch
from surefoot.core.errors import LogError, NotAvailableError
from surefoot.evidence import (
    GAIN,
    LOSS,
    VALUE,
    EpisodeValues,
    Standard,
    doubly_robust,
    episode_values,
    evidence_of,
    fitted_model,
    importance_sampling,
    per_decision,
    weighted_importance_sampling,
    weighted_per_decision,
)
from surefoot.evidence.episode_values import OWN_RETURNS, WEIGHTED, negated
from surefoot.evidence.gain_test import evidence_of_two
from surefoot.evidence.units import take_episodes

Estimate = Callable[..., EpisodeValues]
GAMMA = 0.8
MADE = np.array([[[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]], [[0.1, 0.5, 0.4], [0.3, 0.4, 0.3]]])
PI = np.array([[0.1, 0.2, 0.7], [0.5, 0.1, 0.4]])
PI_WITH_END = np.vstack([PI, np.full(3, 1 / 3)])
PI_B = np.array([[0.5, 0.4, 0.1], [0.3, 0.3, 0.4]])
REWARD = np.array([[0.0, 1.0, -0.5], [2.0, 0.5, 0.3]])  # of (s, a); the next state is a % 2


def everything(steps: int = 2, made: np.ndarray = MADE) -> tuple[Batch, np.ndarray]:
    """(every episode there can be, the probability of each): two policies take turns."""
    rows, chance = [], []
    cases = itertools.product(range(2), *([range(3)] * steps))
    for episode, (who, *actions) in enumerate(cases):
        s, p = 0, 0.5
        for t, a in enumerate(actions):
            taken = made[who, s, a]
            rows.append((episode, t, s, a, REWARD[s, a], a % 2, taken, t == steps - 1))
            s, p = a % 2, p * taken
        chance.append(p)
    episode, time, state, action, reward, follow, taken, last = map(
        np.array, zip(*rows, strict=True)
    )
    batch = make_batch(
        state=state, action=action, reward=reward, next_state=np.where(last, -1, follow),
        episode=episode, time=time, terminal=last, propensity=taken, n_states=2, n_actions=3,
    )  # fmt: skip
    return batch, np.array(chance)


def true_value(pi: np.ndarray, steps: int = 2) -> float:
    v = np.zeros(2)
    for _ in range(steps):
        v = (pi * (REWARD + GAMMA * v[np.arange(3) % 2])).sum(axis=1)
    return float(v[0])


@pytest.mark.parametrize("estimator", ["is", "pdis"])
@pytest.mark.parametrize("bound", ["betting", "student-t"])
def test_the_mean_is_the_gain_over_a_baseline_that_did_not_make_the_log(
    estimator: str, bound: str
) -> None:
    batch, chance = everything()
    standard = Standard(estimator=estimator, bound=bound, reward_range=(-0.5, 2), horizon=4)
    found = episode_values(batch, PI, PI_B, GAMMA, standard)
    assert chance @ found.x == pytest.approx(true_value(PI) - true_value(PI_B), abs=1e-12)
    assert found.compared == WEIGHTED
    assert found.x.min() >= found.lo
    alone = episode_values(batch, PI, PI_B, GAMMA, standard, quantity=VALUE)
    assert chance @ alone.x == pytest.approx(true_value(PI), abs=1e-12)


@pytest.mark.parametrize("estimator", ["is", "pdis"])
def test_without_a_baseline_the_gain_is_over_what_made_the_log(estimator: str) -> None:
    batch, chance = everything()
    standard = Standard(estimator=estimator, reward_range=(-0.5, 2), horizon=2)
    found = episode_values(batch, PI, None, GAMMA, standard)
    average = 0.5 * (true_value(MADE[0]) + true_value(MADE[1]))
    assert chance @ found.x == pytest.approx(true_value(PI) - average, abs=1e-12)
    assert found.compared == OWN_RETURNS


@pytest.mark.parametrize("estimator", ["is", "pdis"])
@pytest.mark.parametrize("quantity", [GAIN, LOSS])
def test_propensities_of_the_baseline_itself_give_what_no_propensities_give(
    estimator: str, quantity: str
) -> None:
    batch, _ = everything(made=np.stack([PI_B, PI_B]))
    standard = Standard(estimator=estimator, reward_range=(-0.5, 2), horizon=2)
    logs = (replace(batch, beside={}), batch)
    plain, found = (evidence_of(quantity, x, PI, PI_B, GAMMA, standard) for x in logs)
    assert found.low == pytest.approx(plain.low, abs=1e-12)
    x, y = (episode_values(x, PI, PI_B, GAMMA, standard, quantity=quantity).x for x in logs)
    assert np.allclose(x, y, atol=1e-12)


@pytest.mark.parametrize("estimator", ["is", "pdis"])
def test_what_the_log_never_does_lowers_the_mean_and_raises_it_never(estimator: str) -> None:
    never = np.array([[[0.6, 0.4, 0.0], [0.2, 0.2, 0.6]]] * 2)  # action 2 of state 0
    batch, chance = everything(made=np.maximum(never, 1e-12))
    some = chance > 1e-9
    standard = Standard(estimator=estimator, reward_range=(-0.5, 2), horizon=2)
    for quantity, truth in ((GAIN, true_value(PI) - true_value(PI_B)), (VALUE, true_value(PI))):
        found = episode_values(batch, PI, PI_B, GAMMA, standard, quantity=quantity)
        assert chance[some] @ found.x[some] < truth - 0.01


def test_doubly_robust_gains_have_the_right_mean_with_any_model() -> None:
    batch, chance = everything()
    model = fitted_model(batch, GAMMA)
    standard = Standard(estimator="dr", bound="student-t")
    found = episode_values(batch, PI, PI_B, GAMMA, standard, model=model)
    assert chance @ found.x == pytest.approx(true_value(PI) - true_value(PI_B), abs=1e-12)
    average = 0.5 * (true_value(MADE[0]) + true_value(MADE[1]))
    found = episode_values(batch, PI, None, GAMMA, standard, model=model)
    assert chance @ found.x == pytest.approx(true_value(PI) - average, abs=1e-12)


def test_estimates_weigh_by_propensities_and_not_by_the_baseline() -> None:
    batch, chance = everything()
    n = batch.n_episodes
    for estimate in (importance_sampling, per_decision):
        x = estimate(batch, PI, PI_B, GAMMA).x
        assert chance @ x == pytest.approx(true_value(PI), abs=1e-12)
    x = doubly_robust(batch, PI, None, GAMMA, model=fitted_model(batch, GAMMA)).x
    assert chance @ x == pytest.approx(true_value(PI), abs=1e-12)
    assert len(weighted_per_decision(batch, PI, None, GAMMA).x) == n


@pytest.mark.parametrize("estimate", [weighted_per_decision, weighted_importance_sampling])
def test_the_scores_of_a_ratio_are_its_derivative(estimate: Estimate) -> None:
    """An episode taken k times more moves the value by score / n, to first order."""
    batch, _ = everything(3)
    first = estimate(batch, PI, None, GAMMA)
    scores = first.x - first.estimate
    times, i = 2000, 7
    rows = np.flatnonzero(batch.episode == i)
    at = np.concatenate([np.tile(np.arange(len(batch)), times), rows])
    columns = {
        name: getattr(batch, name)[at]
        for name in ("state", "action", "reward", "next_state", "ends", "truncated", "row")
    }
    number = np.concatenate(
        [np.repeat(np.arange(times) * batch.n_episodes, len(batch)) + np.tile(batch.episode, times),
         np.full(len(rows), times * batch.n_episodes)]
    )  # fmt: skip
    p = batch.propensity
    assert p is not None
    more = replace(batch, **columns, episode=number, beside={"propensity": p[at]})
    moved = estimate(more, PI, None, GAMMA).estimate - first.estimate
    assert moved * times * batch.n_episodes == pytest.approx(scores[i], rel=1e-3)


def test_episodes_of_different_lengths_have_scores_too() -> None:
    rng = np.random.default_rng(3)
    length = rng.integers(1, 4, 400)
    episode = np.repeat(np.arange(400), length)
    n = len(episode)
    last = np.append(np.diff(episode) > 0, True)
    action = rng.integers(0, 3, n)
    batch = make_batch(
        state=np.zeros(n, int), action=action, reward=action * 1.0, episode=episode,
        next_state=np.where(last, -1, 0), terminal=last, propensity=np.full(n, 1 / 3),
        n_states=1, n_actions=3,
    )  # fmt: skip
    pi = np.array([[0.2, 0.3, 0.5]])
    found = weighted_per_decision(batch, pi, None, 0.9)
    values = []
    for _ in range(300):  # the bootstrap knows nothing of the formula
        drawn = rng.integers(0, 400, 400)
        parts = [np.flatnonzero(episode == i) for i in drawn]
        at = np.concatenate(parts)
        number = np.repeat(np.arange(400), [len(x) for x in parts])
        again = make_batch(
            state=batch.state[at], action=batch.action[at], reward=batch.reward[at],
            episode=number, next_state=np.where(last[at], -1, 0), terminal=last[at],
            propensity=np.full(len(at), 1 / 3), n_states=1, n_actions=3,
        )  # fmt: skip
        values.append(weighted_per_decision(again, pi, None, 0.9).estimate)
    assert np.std(values) == pytest.approx(found.x.std() / 20, rel=0.15)


def labelled(steps: int = 1, times: int = 60) -> Batch:
    """Every episode there can be, as often as it happens, with the code of its policy."""
    batch, chance = everything(steps)
    often = np.round(chance * times * 20).astype(int)
    at, number, episode = [], 0, []
    for i, k in enumerate(often):
        rows = np.flatnonzero(batch.episode == i)
        for _ in range(k):
            at += rows.tolist()
            episode += [number] * len(rows)
            number += 1
    columns = {
        name: getattr(batch, name)[at]
        for name in ("state", "action", "reward", "next_state", "ends", "truncated", "row")
    }
    p = batch.propensity
    assert p is not None
    who = (batch.episode >= batch.n_episodes // 2).astype(int)
    beside = {"propensity": p[at], "policy": who[at]}
    return replace(batch, **columns, episode=np.array(episode), beside=beside)


def test_against_the_episodes_of_one_policy_both_bounds_have_half_of_delta() -> None:
    batch = labelled()
    standard = Standard(reward_range=(-0.5, 2), horizon=1)
    (gain, values), (loss, _) = (
        evidence_of_two(x, batch, PI, 0, GAMMA, standard) for x in (GAIN, LOSS)
    )
    truth = true_value(PI, 1) - true_value(MADE[0], 1)
    assert values.x.mean() == pytest.approx(truth, abs=1e-9)
    assert gain.low < truth < -loss.low
    half = replace(standard, delta=0.025)
    value = evidence_of(VALUE, batch, PI, None, GAMMA, half).low
    own = take_episodes(batch, batch.beside["policy"][batch.first] == 0)
    top = evidence_of(VALUE, negated(own), MADE[0], None, GAMMA, half.mirrored()).low
    assert gain.low == pytest.approx(value + top, abs=1e-9)


def test_episodes_of_several_policies_are_not_those_of_one() -> None:
    batch = labelled(2)
    codes = batch.beside["policy"].copy()
    codes[1] = 1 - codes[1]
    mixed = replace(batch, beside={**batch.beside, "policy": codes})
    with pytest.raises(LogError, match="whole episodes"):
        evidence_of_two(GAIN, mixed, PI, 0, GAMMA, Standard(reward_range=(-0.5, 2), horizon=2))
    with pytest.raises(LogError, match="0 episodes in the tested log"):
        evidence_of_two(GAIN, batch, PI, 7, GAMMA, Standard(reward_range=(-0.5, 2), horizon=2))


def test_bad_input_gets_a_sentence() -> None:
    batch, _ = everything()
    with pytest.raises(NotAvailableError, match=r"--propensity.*--baseline"):
        per_decision(replace(batch, beside={}), PI, None, GAMMA)
    gains = replace(batch, reward=np.abs(batch.reward))
    with pytest.raises(NotAvailableError, match="give a horizon"):
        episode_values(gains, PI, PI_B, 1.0, Standard(reward_range=(0, 2), return_range=(0, 9)))
    with pytest.raises(LogError, match="propensity must be a probability above 0"):
        make_batch(
            state=[0], action=[0], reward=[1.0], next_state=[0], episode=[0], propensity=[0.0]
        )


def test_hcpi_weighs_by_propensities_and_returns_the_given_baseline_or_better() -> None:
    batch = labelled(1, 200)
    problem = surefoot.problem(
        state=batch.state, action=batch.action, reward=batch.reward, episode=batch.episode,
        next_state=np.full(len(batch), -1), terminal=np.ones(len(batch), dtype=bool),
        propensity=batch.propensity, n_states=2, n_actions=3, gamma=0.0, pi_b=PI_B,
        reward_range=(-0.5, 2),
    )  # fmt: skip
    assert problem.off_policy
    found = surefoot.improve(problem, surefoot.algorithm("hcpi", delta=0.05))
    assert any("is accepted" in x for x in found.notes)
    assert found.pi[0] @ REWARD[0] > PI_B[0] @ REWARD[0]
    with pytest.raises(NotAvailableError, match="propensities say that it did not make this log"):
        surefoot.improve(problem, "one-step")
    with pytest.raises(NotAvailableError, match=r"not its returns.*spibb, robust, mbie"):
        surefoot.certify(problem, PI_WITH_END, "advantage")
    assert surefoot.certify(problem, PI_WITH_END, "robust").bound < 1


@pytest.mark.parametrize("estimator", ["is", "pdis"])
def test_the_mean_is_the_gain_where_actions_decide_how_long_an_episode_is(estimator: str) -> None:
    """Action 2 of the first step ends the episode."""
    batch, chance = everything()
    first = batch.first & (batch.action == 2)
    keep = ~np.append(False, first[:-1])
    p = batch.propensity
    assert p is not None
    episode = np.unique(batch.episode[keep], return_inverse=True)[1].reshape(-1)
    columns = {
        name: getattr(batch, name)[keep]
        for name in ("state", "action", "reward", "next_state", "truncated", "row")
    }
    ends = batch.ends[keep] | first[keep]
    columns["next_state"] = np.where(ends, batch.n_states - 1, columns["next_state"])
    log = replace(batch, **columns, episode=episode, ends=ends, beside={"propensity": p[keep]})
    # the two actions that would have followed are one episode now, three times in the list
    second = p[np.flatnonzero(batch.first) + 1]
    weight = np.where(first[batch.first], chance / second / 3, chance)
    assert weight.sum() == pytest.approx(1)
    standard = Standard(estimator=estimator, reward_range=(-0.5, 2), horizon=3)
    found = episode_values(log, PI, PI_B, GAMMA, standard)

    def value(pi: np.ndarray) -> float:
        later = (pi * REWARD).sum(axis=1)
        return float(pi[0] @ (REWARD[0] + GAMMA * np.array([later[0], later[1], 0.0])))

    assert weight @ found.x == pytest.approx(value(PI) - value(PI_B), abs=1e-12)
    assert found.x.min() >= found.lo
