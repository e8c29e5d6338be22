"""Off-policy estimates: worked by hand, unbiased over all episodes of a small world, honest
about what the log does not cover.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot import BaselineError, LogError, NotAvailableError, ParameterError, ProblemError
from surefoot.core import Batch, known_model, make_batch
from surefoot.evidence import (
    doubly_robust,
    fitted_model,
    importance_sampling,
    model_based,
    overlap,
    per_decision,
    split_episodes,
    take_episodes,
    weighted_importance_sampling,
    weighted_per_decision,
)
from surefoot.evidence.units import take_rows
from surefoot.problems import discounted_returns

S, A, END = 4, 3, 3
PI_B = np.array([[0.5, 0.25, 0.25], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3], [0, 0, 0]])
PI = np.array([[0.25, 0.5, 0.25], [0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3], [0, 0, 0]])
WEIGHTED = (
    importance_sampling,
    weighted_importance_sampling,
    per_decision,
    weighted_per_decision,
    doubly_robust,
)
UNBIASED = (importance_sampling, per_decision)


def hand_log() -> Batch:
    """Episode 0: (0, a0) pays 1, then (1, a0) pays 2 and ends; episode 1: (0, a1) pays 0.4 and
    ends.
    """
    log = {
        "state": [0, 1, 0],
        "action": [0, 0, 1],
        "reward": [1.0, 2.0, 0.4],
        "next_state": [1, END, END],
        "episode": [0, 0, 1],
    }
    return make_batch(**log, terminal_states=[END], n_states=S, n_actions=A)


@dataclass(frozen=True)
class Everything:
    """All episodes of a world of at most `steps` steps, in one log; path: their probability
    apart from the actions.
    """

    batch: Batch
    path: np.ndarray

    def probability(self, pi: np.ndarray) -> np.ndarray:
        taken = pi[self.batch.state, self.batch.action]
        return self.path * np.multiply.reduceat(
            taken, np.flatnonzero(np.append(True, self.batch.last[:-1]))
        )

    def value(self, pi: np.ndarray, gamma: float) -> float:
        returns = discounted_returns(self.batch, gamma)[np.append(True, self.batch.last[:-1])]
        return float(self.probability(pi) @ returns)


def everything(p: np.ndarray, r: np.ndarray, steps: int) -> Everything:
    """Every episode from state 0; state 3 ends it, the last step cuts it."""
    rows: list[tuple[int, int, int, float, int]] = []
    path: list[float] = []

    def walk(before: list[tuple[int, int, float, int]], s: int, chance: float) -> None:
        for a, s2 in product(range(A), range(S)):
            if p[s, a, s2] == 0:
                continue
            now, share = [*before, (s, a, r[s, a, s2], s2)], chance * p[s, a, s2]
            if s2 == END or len(now) == steps:
                rows.extend((len(path), *row) for row in now)
                path.append(share)
            else:
                walk(now, s2, share)

    walk([], 0, 1.0)
    episode, state, action, reward, next_state = (np.array(c) for c in zip(*rows, strict=True))
    log = {
        "episode": episode,
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": next_state,
    }
    return Everything(
        make_batch(**log, terminal_states=[END], n_states=S, n_actions=A), np.array(path)
    )


def random_world(seed: int = 0, low: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """p with all four successors, rewards in [low, low + 1)."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(S), (S, A)), low + rng.random((S, A, S))


def sample(world: Everything, n: int, rng: np.random.Generator) -> Batch:
    """A log of n episodes drawn with the baseline."""
    chance = world.probability(PI_B)
    drawn = rng.choice(len(chance), n, p=chance / chance.sum())
    first = np.flatnonzero(np.append(True, world.batch.last[:-1]))
    length = np.diff(np.append(first, len(world.batch)))
    rows = np.concatenate([np.arange(first[i], first[i] + length[i]) for i in drawn])
    columns = {
        name: getattr(world.batch, name)[rows]
        for name in ("state", "action", "reward", "next_state")
    }
    episode = np.repeat(np.arange(n), length[drawn])
    return make_batch(**columns, episode=episode, terminal_states=[END], n_states=S, n_actions=A)


def test_importance_sampling_weighs_whole_returns() -> None:
    found = importance_sampling(hand_log(), PI, PI_B, 0.5)
    assert found.x == pytest.approx(
        [1.0 * 2.0, 2.0 * 0.4]
    )  # rho = 1/2 * 2 and 2; G = 1 + 2/2 and 0.4
    assert found.estimate == pytest.approx(1.4)
    assert found.effective_size == pytest.approx((1 + 2) ** 2 / (1 + 4))
    assert found.largest_weight == pytest.approx(2.0)
    assert len(found.x) == 2 and not any("cut" in note for note in found.notes)
    assert repr(found).startswith("EpisodeValues(1.4 from 2 episodes, effectively 1.8)")


def test_weighted_importance_sampling_divides_by_the_sum_of_weights() -> None:
    found = weighted_importance_sampling(hand_log(), PI, PI_B, 0.5)
    assert found.estimate == pytest.approx((1 * 2.0 + 2 * 0.4) / 3)
    assert found.x.mean() == pytest.approx(found.estimate)


def test_per_decision_weighs_a_reward_by_the_decisions_before_it() -> None:
    found = per_decision(hand_log(), PI, PI_B, 0.5)
    assert found.x == pytest.approx([0.5 * 1 + 0.5 * 1.0 * 2, 2 * 0.4])


def test_weighted_per_decision_keeps_ended_episodes_below_the_line() -> None:
    found = weighted_per_decision(hand_log(), PI, PI_B, 0.5)
    assert found.estimate == pytest.approx((0.5 * 1 + 2 * 0.4) / 2.5 + 0.5 * (1.0 * 2) / (1 + 2))


def test_doubly_robust_is_the_backward_recursion_and_keeps_values_below_one() -> None:
    r = np.array([[0.8, 0.2, 0], [1, 1, 0.5], [0, 0, 0], [0, 0, 0]])
    ends = np.zeros((S, A, S))
    ends[..., END] = 1.0  # the model believes that every action ends the episode: q = r
    found = doubly_robust(hand_log(), PI, PI_B, 0.5, model=known_model(ends, r, 0.5, [END]))
    v0, v1 = 0.25 * 0.8 + 0.5 * 0.2, 0.4 + 0.4 + 0.1
    x1 = v1 + 2 * (2 - 1)
    assert found.x == pytest.approx([v0 + 0.5 * (1 + 0.5 * x1 - 0.8), v0 + 2 * (0.4 - 0.2)])
    assert found.estimate == pytest.approx(
        0.9125
    )  # q and v truncated to whole numbers would give another value


def test_model_based_is_the_value_in_the_fitted_model_with_unseen_pairs_at_the_lowest_return() -> (
    None
):
    found = model_based(hand_log(), PI, 0.5, reward_range=(0, 2))
    assert found.estimate == pytest.approx(0.25 * (1 + 0.5 * 0.4 * 2) + 0.5 * 0.4)
    assert not found.tested
    assert overlap(hand_log(), PI).unseen == pytest.approx(2 / 3 * 0.25 + 1 / 3 * 0.6)
    assert any("never seen" in note for note in found.notes)


@pytest.mark.parametrize("estimate", UNBIASED)
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_importance_sampling_is_unbiased_over_all_episodes(estimate: Any, gamma: float) -> None:
    world = everything(*random_world(), steps=3)
    x = estimate(world.batch, PI, PI_B, gamma).x
    assert world.probability(PI_B).sum() == pytest.approx(1)
    assert world.probability(PI_B) @ x == pytest.approx(world.value(PI, gamma), rel=1e-12)


@pytest.mark.parametrize("seed", [1, 2])
def test_doubly_robust_is_unbiased_whatever_the_model(seed: int) -> None:
    world = everything(*random_world(), steps=3)
    p, r = random_world(seed)
    x = doubly_robust(world.batch, PI, PI_B, 0.9, model=known_model(p, r, 0.9, [END])).x
    assert world.probability(PI_B) @ x == pytest.approx(world.value(PI, 0.9), rel=1e-12)


def test_cross_fitted_doubly_robust_is_unbiased_over_all_pairs_of_episodes() -> None:
    p, r = random_world()
    p[:, :, 0], p[:, :, 2] = 0, 0  # two successors
    world = everything(p / p.sum(axis=-1, keepdims=True), r, steps=2)
    n = len(world.path)
    chance, total = world.probability(PI_B), 0.0
    alone = [take_episodes(world.batch, np.arange(n) == i) for i in range(n)]
    for i, j in product(range(n), range(n)):
        total += (
            chance[i]
            * chance[j]
            * doubly_robust(joined(alone[i], alone[j]), PI, PI_B, 0.9, reward_range=(0, 1)).estimate
        )
    assert total == pytest.approx(world.value(PI, 0.9), rel=1e-12)


def joined(one: Batch, two: Batch) -> Batch:
    columns = {
        x: np.concatenate([getattr(one, x), getattr(two, x)])
        for x in ("state", "action", "reward", "next_state")
    }
    episode = np.repeat([0, 1], [len(one), len(two)])
    return make_batch(**columns, episode=episode, terminal_states=[END], n_states=S, n_actions=A)


def test_doubly_robust_with_the_true_model_of_a_deterministic_world_has_no_variance() -> None:
    p = np.zeros((S, A, S))
    p[0, :, 1], p[1, :, 2], p[2, :, END] = 1, 1, 1
    r = np.random.default_rng(3).random((S, A, S))
    world = everything(p, r, steps=3)
    x = doubly_robust(world.batch, PI, PI_B, 0.9, model=known_model(p, r, 0.9, [END])).x
    assert x == pytest.approx(np.full(len(x), world.value(PI, 0.9)), rel=1e-12)
    assert np.ptp(importance_sampling(world.batch, PI, PI_B, 0.9).x) > 0.5


@pytest.mark.parametrize("estimate", WEIGHTED[:-1])
def test_equal_policies_give_the_plain_mean(estimate: Any) -> None:
    world = everything(*random_world(), steps=3)
    plain = discounted_returns(world.batch, 0.9)[np.append(True, world.batch.last[:-1])]
    found = estimate(world.batch, PI_B, PI_B, 0.9)
    assert found.estimate == pytest.approx(plain.mean(), rel=1e-13)
    assert found.effective_size == pytest.approx(len(plain))
    if estimate is importance_sampling:
        assert np.array_equal(found.x, plain)


@pytest.mark.parametrize("estimate", [*WEIGHTED, model_based])
def test_every_estimate_is_consistent(estimate: Any) -> None:
    world = everything(*random_world(), steps=3)
    batch = sample(world, 20_000, np.random.default_rng(0))
    if estimate is model_based:
        found = estimate(
            batch, PI, 0.2
        )  # a model goes on where the log is cut: at gamma = 0.2 that is at most 0.2^3 / 0.8
        assert abs(found.estimate - world.value(PI, 0.2)) < 0.03
    else:
        assert abs(estimate(batch, PI, PI_B, 0.9).estimate - world.value(PI, 0.9)) < 0.03


def test_weighted_forms_of_many_episodes_are_closer_than_those_of_few() -> None:
    world = everything(*random_world(), steps=3)
    truth = world.value(PI, 0.9)
    for estimate in (weighted_importance_sampling, weighted_per_decision):
        errors = [
            np.mean(
                [
                    abs(
                        estimate(
                            sample(world, n, np.random.default_rng(seed)), PI, PI_B, 0.9
                        ).estimate
                        - truth
                    )
                    for seed in range(20)
                ]
            )
            for n in (20, 2_000)
        ]
        assert errors[1] < errors[0] / 4


@given(
    seed=st.integers(0, 1000), n=st.integers(2, 12), gamma=st.sampled_from([0.0, 0.5, 0.95, 1.0])
)
@settings(max_examples=25, deadline=None)
def test_per_decision_agrees_with_a_plain_loop(seed: int, n: int, gamma: float) -> None:
    batch = sample(everything(*random_world(low=-0.5), steps=3), n, np.random.default_rng(seed))
    x, stepwise = np.zeros(n), np.zeros((n, 3, 2))
    for i in range(n):
        rho = 1.0
        for t, row in enumerate(np.flatnonzero(batch.episode == i)):
            rho *= (
                PI[batch.state[row], batch.action[row]] / PI_B[batch.state[row], batch.action[row]]
            )
            x[i] += gamma**t * rho * batch.reward[row]
            stepwise[i, t:, 0], stepwise[i, t, 1] = rho, batch.reward[row]
    assert per_decision(batch, PI, PI_B, gamma).x == pytest.approx(x, abs=1e-12)
    share = stepwise[..., 0] / stepwise[..., 0].sum(axis=0)
    expected = (gamma ** np.arange(3) * (share * stepwise[..., 1]).sum(axis=0)).sum()
    assert weighted_per_decision(batch, PI, PI_B, gamma).estimate == pytest.approx(
        expected, abs=1e-12
    )


def long_log(steps: int, n: int = 3) -> Batch:
    """n episodes of `steps` steps in state 0, action 1, reward 1, cut."""
    zeros = np.zeros(steps * n, dtype=int)
    episode = np.repeat(np.arange(n), steps)
    log = {
        "state": zeros,
        "action": zeros + 1,
        "reward": zeros + 1.0,
        "next_state": zeros,
        "episode": episode,
    }
    return make_batch(**log, terminal_states=[END], n_states=S, n_actions=A)


def test_long_episodes_neither_overflow_nor_vanish_in_silence() -> None:
    batch = long_log(2_000)  # every ratio is 2: rho = 2^2000
    with pytest.raises(NotAvailableError, match="e\\^1386"):
        importance_sampling(batch, PI, PI_B, 0.9)
    found = weighted_importance_sampling(batch, PI, PI_B, 0.9)
    assert found.estimate == pytest.approx(10.0)
    assert (found.effective_size, found.largest_weight) == (pytest.approx(3), np.inf)
    assert weighted_per_decision(batch, PI, PI_B, 0.9).estimate == pytest.approx(10.0)
    assert per_decision(batch, PI, PI_B, 0.4).estimate == pytest.approx(
        2 / (1 - 0.8)
    )  # gamma^t meets rho_t before either leaves the numbers
    assert "3 of 3 episodes are cut" in found.notes[0]


def test_a_baseline_that_never_takes_a_logged_action_is_refused_by_name() -> None:
    wrong = PI_B.copy()
    wrong[1] = [0, 0.5, 0.5]
    for estimate in WEIGHTED:
        with pytest.raises(BaselineError, match=r"action 0 in state 1 \(row 1\)"):
            estimate(hand_log(), PI, wrong, 0.5)


def test_a_policy_outside_the_baseline_is_not_identified() -> None:
    pi_b = PI_B.copy()
    pi_b[1] = [0.6, 0.4, 0]
    for estimate in WEIGHTED:
        with pytest.raises(
            NotAvailableError,
            match=r"not identified: pi takes action 2 in state 1 with probability 0\.2",
        ):
            estimate(hand_log(), PI, pi_b, 0.5)
    found = overlap(hand_log(), PI, pi_b)
    assert (found.outside, found.outside_pairs) == (pytest.approx(0.2 / 3), 1)
    elsewhere = PI_B.copy()
    elsewhere[2] = [1, 0, 0]
    assert any(
        "never visits" in note for note in importance_sampling(hand_log(), PI, elsewhere, 0.5).notes
    )


def test_a_policy_that_no_episode_followed_is_said_to_rest_on_nothing() -> None:
    pi = np.array([[0, 0, 1.0], *PI[1:]])
    found = importance_sampling(hand_log(), pi, PI_B, 0.5)
    assert (found.estimate, found.effective_size) == (0.0, 0.0)
    assert any("rest on nothing" in note for note in found.notes)
    for estimate in (weighted_importance_sampling, weighted_per_decision):
        with pytest.raises(NotAvailableError, match="no logged episode is possible"):
            estimate(hand_log(), pi, PI_B, 0.5)


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ProblemError, match=r"pi must be \[S, A\]"):
        importance_sampling(hand_log(), PI[:2], PI_B, 0.5)
    with pytest.raises(ProblemError, match="state 0"):
        importance_sampling(hand_log(), PI * 0.9, PI_B, 0.5)
    with pytest.raises(ProblemError, match="gamma"):
        per_decision(hand_log(), PI, PI_B, 1.5)
    with pytest.raises(ParameterError, match="folds"):
        doubly_robust(hand_log(), PI, PI_B, 0.5, folds=1)
    with pytest.raises(LogError, match="3 folds"):
        doubly_robust(hand_log(), PI, PI_B, 0.5, folds=3)
    with pytest.raises(ProblemError, match="the model must be"):
        doubly_robust(hand_log(), PI, PI_B, 0.5, model=fitted_model(hand_log(), 0.9))
    broken = make_batch(
        state=[0, 1],
        action=[0, 0],
        reward=[0, 0],
        next_state=[2, 0],
        episode=[0, 0],
        n_states=S,
        n_actions=A,
    )
    with pytest.raises(LogError, match="whole episodes"):
        per_decision(broken, PI_B[[0, 1, 2, 2]], PI_B[[0, 1, 2, 2]], 0.5)


def test_parts_of_a_log_keep_episodes_whole() -> None:
    batch = sample(everything(*random_world(), steps=3), 50, np.random.default_rng(0))
    training, held_out = split_episodes(batch, np.random.default_rng(1))
    assert (training.n_episodes, held_out.n_episodes) == (10, 40)
    assert sorted([*training.row, *held_out.row]) == list(range(len(batch)))
    assert training.contradictions() is None and held_out.contradictions() is None
    for part in (training, held_out):
        assert np.array_equal(np.unique(part.episode), np.arange(part.n_episodes))
        whole = np.isin(batch.episode, batch.episode[part.row])
        assert whole.sum() == len(part)
    chosen = np.random.default_rng(1).permutation(50)[:10]  # at random, not the first
    assert set(batch.episode[training.row]) == set(chosen)
    for share, sizes in ((0.001, (2, 48)), (0.999, (48, 2))):  # two at least, for a scatter
        parts = split_episodes(batch, np.random.default_rng(1), share)
        assert tuple(part.n_episodes for part in parts) == sizes
    with pytest.raises(LogError, match="cannot be split"):
        split_episodes(hand_log(), np.random.default_rng(0))
    with pytest.raises(ParameterError, match="share"):
        split_episodes(batch, np.random.default_rng(0), 1.0)
    with pytest.raises(LogError, match="no episode"):
        take_episodes(batch, np.zeros(50, dtype=bool))
    with pytest.raises(LogError, match="one flag"):
        take_episodes(batch, np.arange(50))


def test_an_episode_is_cut_where_a_row_is_left_out() -> None:
    batch = make_batch(
        state=[0, 1, 2, 0, 1],
        action=[0] * 5,
        reward=[1.0] * 5,
        next_state=[1, 2, 0, 1, 2],
        episode=[0, 0, 0, 0, 1],
        n_states=3,
        n_actions=1,
    )
    part = take_rows(batch, np.array([True, True, False, True, True]))
    assert part.episode.tolist() == [0, 0, 1, 2]
    assert part.row.tolist() == [0, 1, 3, 4]
    assert part.contradictions() is None
