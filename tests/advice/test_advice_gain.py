"""The held-out gain: it finds what is there, does not find what is not, and says how sure it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import surefoot
from support import logfiles, worlds
from surefoot.advice import Gain, held_out_gain
from surefoot.advice.gain import FINITE_SAMPLE, part_problem
from surefoot.algorithms.defaults import chosen_algorithm, default_parameters
from surefoot.core.evidence import ASYMPTOTIC
from surefoot.evidence import units_of_batch
from surefoot.evidence.unit_estimate import UnitEstimate, Unseen


def bandit(
    seed: int, better: float, n: int = 200, share: float = 0.3, **options: Any
) -> surefoot.Problem:
    rng = np.random.default_rng(seed)
    action = (rng.random(n) < share).astype(int)
    return surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=better * action + rng.normal(size=n),
        next_state=np.zeros(n),
        episode=np.arange(n),
        pi_b=[[1 - share, share]],
        gamma=0.0,
        **options,
    )


def coins(seed: int, success: tuple[float, float], n: int, share: float = 0.3) -> surefoot.Problem:
    """One-step episodes that succeed with a probability that depends on the action."""
    rng = np.random.default_rng(seed)
    action = (rng.random(n) < share).astype(int)
    return surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=(rng.random(n) < np.array(success)[action]) * 1.0,
        terminal=np.ones(n),
        next_state=np.full(n, -1),
        episode=np.arange(n),
        pi_b=[[1 - share, share]],
        gamma=0.9,
        reward_range=(0, 1),
    )


def gain_of(problem: surefoot.Problem, name: str = "basic-rl", **options: Any) -> Gain:
    return held_out_gain(
        problem,
        units_of_batch(problem.log, problem.gamma),
        chosen_algorithm(problem, name),
        **options,
    )


def test_a_real_improvement_is_found() -> None:
    found = gain_of(bandit(0, better=1.0))
    assert found.evidence.positive
    assert found.evidence.estimate == pytest.approx(0.7, abs=0.3)
    assert found.evidence.low < found.evidence.estimate < found.evidence.high


def test_the_tested_policy_is_made_from_one_half_alone_and_tested_on_the_other() -> None:
    problem = bandit(3, better=0.5)
    parts = units_of_batch(problem.log, problem.gamma)
    algorithm = chosen_algorithm(problem, "lower-exact-soft-spibb")
    found = held_out_gain(problem, parts, algorithm, seed=7)
    learning = np.zeros(parts.number, dtype=bool)
    learning[np.random.default_rng(7).permutation(parts.number)[: parts.number // 2]] = True
    assert np.allclose(
        found.pi, surefoot.improve(part_problem(problem, parts, learning), algorithm).pi
    )
    rest = problem.log.reward[~learning], problem.log.action[~learning]
    arms = [rest[0][rest[1] == a].mean() for a in (0, 1)]
    assert found.evidence.estimate == pytest.approx((found.pi - problem.pi_b)[0] @ arms)
    changed = replace(
        problem,
        log=replace(
            problem.log, reward=np.where(learning, problem.log.reward, -problem.log.reward)
        ),
    )
    again = held_out_gain(changed, units_of_batch(changed.log, changed.gamma), algorithm, seed=7)
    assert np.allclose(again.pi, found.pi)  # what is held out has no part in it


def test_where_actions_do_the_same_few_logs_promise_anything() -> None:
    promises = sum(gain_of(bandit(seed, better=0.0)).evidence.positive for seed in range(200))
    assert promises <= 17  # 5 % would exceed this in one of 100 times


def test_a_clear_effect_in_a_narrow_range_is_shown_by_the_finite_sample_test() -> None:
    found = gain_of(coins(0, (0.1, 0.9), 2000))
    assert found.evidence.validity == FINITE_SAMPLE and found.evidence.positive
    assert found.evidence.low < found.evidence.estimate


def test_without_the_markov_property_the_finite_sample_test_speaks_wherever_it_can() -> None:
    assert gain_of(coins(0, (0.5, 0.6), 200)).evidence.validity == ASYMPTOTIC
    assert gain_of(coins(0, (0.5, 0.6), 200), markov=False).evidence.validity == FINITE_SAMPLE
    one = logfiles.random_problem(n=3000, episodes=1)  # a trajectory has no episodes to weigh
    plain, other = gain_of(one), gain_of(one, markov=False)
    assert plain.evidence.validity == other.evidence.validity == ASYMPTOTIC
    assert (plain.evidence.low, plain.evidence.high) == (other.evidence.low, other.evidence.high)


def test_rare_failures_that_chance_kept_away_promise_nothing() -> None:
    """Failure .05 whatever is done, 600 decisions of which 30 take the rarer action: many logs
    show it without a failure.
    """
    promises = sum(
        gain_of(
            coins(seed, (0.95, 0.95), 600, share=0.05), "lower-exact-soft-spibb"
        ).evidence.positive
        for seed in range(100)
    )
    assert promises <= 2


def test_a_declared_catastrophe_that_the_log_cannot_exclude_forbids_a_promise() -> None:
    fair, feared = (
        bandit(0, better=3.0, reward_range=limits) for limits in ((-10, 20), (-1000, 20))
    )
    assert gain_of(fair).evidence.positive
    found = gain_of(feared)
    assert found.evidence.low < 0 < found.evidence.seen and not found.evidence.positive
    assert found.evidence.seen == pytest.approx(gain_of(fair).evidence.seen)


def test_counts_just_above_n_wedge_promise_nothing_from_the_half_that_is_tested() -> None:
    """The policy of all data would move everywhere; that of a half, which is what is used, moves
    hardly at all.
    """
    rng = np.random.default_rng(0)
    n = 100 * 24
    state, action = np.arange(n) % 100, rng.integers(0, 2, n)
    problem = surefoot.problem(
        state=state,
        action=action,
        reward=rng.normal(size=n),
        next_state=(state + 1) % 100,
        episode=np.arange(n),
        gamma=0.0,
        pi_b=np.full((100, 2), 0.5),
        start=np.full(100, 0.01),
    )
    algorithm = surefoot.algorithm("pi-b-spibb", n_wedge=10)
    moved = np.abs(surefoot.improve(problem, algorithm).pi - 0.5).max(axis=1) > 0
    found = held_out_gain(problem, units_of_batch(problem.log, 0.0), algorithm)
    assert moved.mean() > 0.5
    assert (np.abs(found.pi - 0.5).max(axis=1) > 0).mean() < 0.1
    assert not found.evidence.positive


def test_moves_that_the_other_half_cannot_check_are_taken_back_and_their_share_is_told() -> None:
    rng, n = np.random.default_rng(0), 160
    state, action = rng.integers(0, 20, n), rng.integers(0, 2, n)
    problem = surefoot.problem(
        state=state,
        action=action,
        reward=rng.normal(size=n),
        next_state=state,
        episode=np.arange(n),
        pi_b=np.full((20, 2), 0.5),
        gamma=0.0,
    )
    algorithm, parts = surefoot.algorithm("basic-rl"), units_of_batch(problem.log, 0.0)
    found = held_out_gain(problem, parts, algorithm, seed=7)
    assert found.evidence.validity == ASYMPTOTIC
    learning = np.zeros(n, dtype=bool)
    learning[np.random.default_rng(7).permutation(n)[: n // 2]] = True
    learned = surefoot.improve(part_problem(problem, parts, learning), algorithm).pi
    seen = np.zeros((20, 2))
    np.add.at(seen, (state[~learning], action[~learning]), 1)
    can_check = (seen >= 2).all(axis=1)  # what one action gains the other gives
    assert np.allclose(found.pi, np.where(can_check[:, None], learned, 0.5))
    moved = np.abs(learned - 0.5).sum(axis=1) * seen.sum(axis=1)
    share = moved[can_check].sum() / moved.sum()
    assert 0.1 < share < 0.9
    assert found.evidence.checked == pytest.approx(share)


def test_the_gain_is_against_the_policy_that_made_the_log() -> None:
    """A baseline without its best action gains by taking the second best, and still loses
    against what ran.
    """
    rng = np.random.default_rng(0)
    n = 1200
    action = rng.choice(3, size=n, p=[0.1, 0.1, 0.8])
    reward = np.array([0.0, 0.5, 1.0])[action] + 0.1 * rng.normal(size=n)
    allowed = np.array([[True, True, False]])
    problem = surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=reward,
        next_state=np.zeros(n),
        episode=np.arange(n),
        gamma=0.0,
        allowed=allowed,
        pi_b=[[0.1, 0.1, 0.8]],
        masked_baseline="renormalise",
    )
    made = np.array([[0.1, 0.1, 0.8]])
    assert gain_of(problem).evidence.estimate == pytest.approx(0.25, abs=0.03)
    against = gain_of(problem, pi_b=made)
    assert against.evidence.estimate == pytest.approx(0.5 - 0.85, abs=0.03)
    assert against.evidence.high < 0 and not against.evidence.positive


def test_the_interval_is_as_wide_as_half_of_the_data_makes_it() -> None:
    found = gain_of(bandit(1, better=0.5, n=2000))
    error = 0.7 * np.sqrt(1 / 300 + 1 / 700)  # of arm 1 minus arm 0, in a half of 1,000 rows
    assert found.evidence.high - found.evidence.low == pytest.approx(2 * 1.645 * error, rel=0.2)


def test_the_same_seed_gives_the_same_gain() -> None:
    problem = logfiles.random_problem()
    one, other = (gain_of(problem, "pi-b-spibb", seed=3) for _ in range(2))
    assert (one.evidence.estimate, one.evidence.low, one.evidence.high) == (
        other.evidence.estimate,
        other.evidence.low,
        other.evidence.high,
    )


def test_sparse_counts_give_the_gain_of_dense_ones() -> None:
    one, other = (
        gain_of(logfiles.random_problem(sparse=sparse), "pi-b-spibb") for sparse in (False, True)
    )
    assert one.evidence.estimate == pytest.approx(other.evidence.estimate, abs=1e-6)
    assert one.evidence.low == pytest.approx(other.evidence.low, abs=1e-6)


def test_too_few_units_are_no_evidence() -> None:
    found = gain_of(logfiles.random_problem(n=60, episodes=1))
    assert found.units < 8
    assert np.isnan(found.evidence.low)
    assert not found.evidence.positive


def test_algorithms_that_need_returns_are_tested_too() -> None:
    assert np.isfinite(
        gain_of(logfiles.random_problem(), "one-step+lower-exact-soft-spibb").evidence.estimate
    )


def test_a_part_poses_the_problem_of_its_own_rows() -> None:
    problem = logfiles.random_problem()
    parts = units_of_batch(problem.log, problem.gamma)
    chosen = np.arange(parts.number) < 20
    part = part_problem(problem, parts, chosen)
    assert part.n_sa.sum() == len(part.log) == chosen[parts.unit].sum()
    assert part.pi_b is not None
    assert np.array_equal(part.pi_b, problem.pi_b)
    assert np.allclose(part.returns.n, part.n_sa)


def estimate(
    scores: np.ndarray,
    degrees: float = np.inf,
    *,
    blocks: bool = False,
    loss: float = 0.0,
    more: float = 0.0,
    left: float = 0.0,
) -> UnitEstimate:
    unseen = [
        Unseen(each=each, pair=0, n=1.0, shift=0.0, worst=0.0, distance=0.0)
        for each in (loss, more)
    ]
    return UnitEstimate(
        value=5.0,
        scores=scores,
        of_pairs=float((scores**2).sum()),
        degrees=degrees,
        loss=unseen[0],
        more=unseen[1],
        blocks=blocks,
        left=left,
    )


def test_the_interval_of_many_scores_is_the_normal_one_and_of_few_students() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=900)
    scores = (scores - scores.mean()) / np.sqrt((scores**2).sum())
    assert estimate(scores).interval() == pytest.approx((5 - 1.645, 5 + 1.645), abs=0.05)
    _, high = estimate(np.array([-1.0, 1.0, -1.0, 1.0])).interval()
    assert high - 5 == pytest.approx(2.353 * np.sqrt(4 * 4 / 3), rel=1e-3)
    assert estimate(scores, degrees=3.0).interval()[1] - 5 == pytest.approx(2.353, rel=0.01)


def test_one_unit_has_no_interval() -> None:
    assert np.isnan(estimate(np.ones(1)).interval()).all()
    assert np.isnan(estimate(np.ones(1)).interval(unseen=False)).all()


def scattered(n: int, degrees: float = np.inf, **given: Any) -> UnitEstimate:
    scores = np.random.default_rng(2).gamma(2.0, size=n)
    return estimate(scores - scores.mean(), degrees, **given)


@pytest.mark.parametrize("delta", [0.05, 0.01])
def test_where_nothing_can_be_unseen_the_interval_is_students(delta: float) -> None:
    found = scattered(40)
    z = found.scores
    t = stats.t.ppf(1 - delta, 39)
    error, skewness = np.sqrt((z**2).sum() * 40 / 39), (z**3).sum() / (z**2).sum() ** 1.5
    above = (t + skewness * (2 * t * t + 1) / 6) * error
    assert skewness > 0.1
    assert found.interval(delta) == pytest.approx((5 - t * error, 5 + above))
    assert found.interval(delta, unseen=False) == pytest.approx((5 - t * error, 5 + above))
    feared = scattered(40, loss=1.0, more=2.0)
    assert feared.interval(delta, unseen=False) == pytest.approx((5 - t * error, 5 + above))


@pytest.mark.parametrize("delta", [0.05, 0.01])
def test_luck_is_shared_between_sampling_and_what_was_not_seen(delta: float) -> None:
    """By a loop: so many events stay unseen with probability exp(-events); with the rest of delta
    the sampling error is at least t.
    """
    found = scattered(40, loss=15.0, more=9.0)
    z = found.scores
    error, skewness = np.sqrt((z**2).sum() * 40 / 39), (z**3).sum() / (z**2).sum() ** 1.5
    below = above = 0.0
    for i in range(30):
        events = i / 29 * 0.99 * np.log(1 / delta)
        t = stats.t.ppf(1 - delta * np.exp(events), 39)
        below = max(below, events * 15 + t * error)
        above = max(above, events * 9 + (t + skewness * (2 * t * t + 1) / 6) * error)
    assert found.interval(delta) == pytest.approx((5 - below, 5 + above))
    low, high = scattered(40).interval(delta)
    together = np.log(1 / delta) * np.array([15, 9])
    assert 5 - low < below < 5 - low + together[0]
    assert high - 5 < above < high - 5 + together[1]


def test_the_more_an_unseen_outcome_may_cost_the_lower_the_bound() -> None:
    found = [scattered(60, loss=each).interval() for each in (0.0, 1.0, 8.0, 9.0, 16.0, 40.0)]
    falls = np.diff([low for low, _ in found])
    assert (falls <= 0).all() and (falls[1:] < 0).all()
    assert len({high for _, high in found}) == 1  # the other side does not know of it


@pytest.mark.parametrize("delta", [0.05, 0.01])
def test_without_scatter_an_unseen_outcome_counts_by_the_rule_of_three(delta: float) -> None:
    low, high = estimate(np.zeros(60), 1.0, loss=2.0, more=3.0).interval(delta)
    assert 5 - low == pytest.approx(0.99 * np.log(1 / delta) * 2)
    assert high - 5 == pytest.approx(0.99 * np.log(1 / delta) * 3)


def test_what_is_left_of_the_bias_widens_both_sides() -> None:
    low, high = scattered(60, loss=1.0).interval()
    assert scattered(60, loss=1.0, left=0.25).interval() == pytest.approx((low - 0.25, high + 0.25))


def test_rare_large_losses_widen_the_lower_side_only() -> None:
    """Johnson's correction: t + |skewness of the sum| (2 t^2 + 1) / 6."""
    scores = np.where(np.arange(60) < 3, -19.0, 1.0)
    centred = scores - scores.mean()
    skewness = (centred**3).sum() / (centred**2).sum() ** 1.5
    low, high = estimate(scores).interval()
    t, spread = 1.6711, np.sqrt((centred**2).sum() * 60 / 59)
    assert skewness < -0.4
    assert high - 5 == pytest.approx(t * spread, rel=1e-3)
    assert 5 - low == pytest.approx((t - skewness * (2 * t * t + 1) / 6) * spread, rel=1e-3)


def test_blocks_that_resemble_their_neighbours_count_as_fewer() -> None:
    problem = logfiles.random_problem(n=3000, episodes=1)
    units = units_of_batch(problem.log, problem.gamma)
    assert units.blocks and units.number == 100
    alone = np.random.default_rng(1).permutation(np.repeat([1.0, -1.0], 50))
    together = np.repeat([1.0, -1.0] * 12 + [0.0], 4)  # four neighbours move as one
    above = [estimate(x, blocks=units.blocks).interval()[1] - 5 for x in (together, alone)]
    assert above[0] > 1.8 * 1.66 * np.sqrt(96)
    assert above[1] < 1.4 * 1.66 * 10


def test_a_few_long_episodes_are_too_few_units_however_long_they_are() -> None:
    """Each may have a level, or a response, of its own: blocks of them would be in both halves."""
    found = gain_of(logfiles.random_problem(n=3000, episodes=4))
    assert (found.units, found.evidence.unit, found.evidence.positive) == (4, "episodes", False)


def test_default_parameters_follow_the_scale_of_rewards_where_they_have_a_unit() -> None:
    small, large = bandit(0, 1.0), bandit(0, 1.0)
    ratio = 100.0
    wide = surefoot.problem(
        state=np.zeros(200),
        action=large.log.action,
        reward=ratio * large.log.reward,
        next_state=np.zeros(200),
        episode=np.arange(200),
        pi_b=large.pi_b,
        gamma=0.0,
    )
    for name in surefoot.ALGORITHMS:
        one, other = (chosen_algorithm(problem, name) for problem in (small, wide))
        pi = [
            surefoot.improve(worlds.in_columns(problem), chosen).pi
            for problem, chosen in ((small, one), (wide, other))
        ]
        assert np.allclose(*pi, atol=1e-6), name
    assert default_parameters("ramdp+pi-b-spibb", wide)["kappa"] == pytest.approx(
        ratio * default_parameters("ramdp", small)["kappa"]
    )


def test_what_is_not_known_of_an_estimated_baseline_counts() -> None:
    """Rare states in which actions differ much: a policy that keeps the estimated rows there is
    not the policy that ran.
    """
    rng = np.random.default_rng(0)
    n = 2000
    state = np.where(rng.random(n) < 0.5, 0, rng.integers(1, 200, n))
    action = rng.integers(0, 2, n)
    reward = np.where(state == 0, 0.05 * action, 4.0 * action) + 0.05 * rng.normal(size=n)
    options = {
        "state": state,
        "action": action,
        "reward": reward,
        "terminal": np.ones(n),
        "next_state": np.full(n, -1),
    }
    algorithm = surefoot.algorithm("pi-b-spibb", n_wedge=20)  # moves in the common state alone
    known, estimated = (
        surefoot.problem(**options, episode=np.arange(n), gamma=0.9, pi_b=pi_b)
        for pi_b in (np.full((200, 2), 0.5), None)
    )
    sure, unsure = (
        held_out_gain(p, units_of_batch(p.log, p.gamma), algorithm) for p in (known, estimated)
    )
    assert sure.evidence.positive and not unsure.evidence.positive
    assert unsure.evidence.high - unsure.evidence.low > 3 * (sure.evidence.high - sure.evidence.low)


def test_what_time_explains_is_taken_off_the_gain() -> None:
    """Outcomes and the share of action 1 rise together over the log; the action itself does
    nothing.
    """
    rng = np.random.default_rng(0)
    n = 2000
    passed = np.arange(n) / n
    action = (rng.random(n) < 0.1 + 0.6 * passed).astype(int)
    problem = surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=2 * passed + 0.3 * rng.normal(size=n),
        next_state=np.full(n, -1),
        terminal=np.ones(n),
        episode=np.arange(n),
        gamma=0.9,
    )
    found = gain_of(problem)
    assert found.evidence.low > 0 and found.evidence.explained > found.evidence.low
    assert not found.evidence.positive


def test_episodes_that_are_cut_are_not_weighed() -> None:
    """What follows the cut is not in their returns: the finite-sample test must leave them
    alone.
    """
    whole = coins(0, (0.1, 0.9), 2000)
    log = replace(whole.log, ends=np.append(whole.log.ends[:-1], False))
    assert gain_of(whole, markov=False).evidence.validity == FINITE_SAMPLE
    assert gain_of(replace(whole, log=log), markov=False).evidence.validity == ASYMPTOTIC
