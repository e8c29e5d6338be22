"""The delta method: worked examples, a naive twin, and the exact probability that it fails."""

from __future__ import annotations

import dataclasses
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surefoot
from support import worlds
from support.naive_bias import bias_by_loops
from surefoot.evidence.certificates import certify
from surefoot.evidence.delta_method import DeltaMethodBound, Moments, _lower_hull

Z = 1.6448536269514722
BASE = np.array([0.6, 0.3, 0.1])


def choice(wins: tuple[int, int], draws: tuple[int, int], third: list[int]) -> surefoot.Problem:
    """One decision: actions 0 and 1 win so often, action 2 led to these states. A win pays 1 on
    arrival in state 1, state 2 is the other end; nobody ever acts in state 3. Returns in [-1, 2].
    """
    action = np.repeat([0, 1, 2], [*draws, len(third)])
    to = [1 if i < w else 2 for w, m in zip(wins, draws, strict=True) for i in range(m)] + third
    reward = np.equal(to, 1).astype(float)
    return surefoot.problem(
        state=np.zeros(len(to), dtype=int),
        action=action,
        reward=reward,
        next_state=np.array(to),
        episode=np.arange(len(to)),
        truncated=np.equal(to, 3),
        gamma=0.9,
        pi_b=np.tile(BASE, (4, 1)),
        terminal_states=[1, 2],
        n_states=4,
        reward_table=np.tile([0.0, 1.0, 0.0, 0.0], (4, 1)),
        return_range=(-1, 2),
        start=0,
    )


def policy(*row: float) -> np.ndarray:
    """The baseline but for state 0."""
    return np.array([row, BASE, BASE, BASE])


def lost(pi: np.ndarray, third: list[int]) -> float:
    """What action 2, seen once or never, costs: the others win 5 and 8 of 10 and stand in for it
    as often as the baseline takes them.
    """
    found = DeltaMethodBound(data="fresh").moments(choice((5, 8), (10, 10), third), pi)
    stand_in = (2 * 0.5 + 0.8) / 3
    gain = float((pi[0] - BASE) @ [0.5, 0.8, stand_in])
    return gain - found.gain


def test_a_pair_never_seen_costs_nothing_where_both_policies_take_it_alike() -> None:
    assert lost(policy(0.3, 0.6, 0.1), []) == pytest.approx(0.0)


def test_a_pair_never_seen_may_be_worth_anything_in_the_return_range() -> None:
    assert lost(policy(0.3, 0.55, 0.15), []) == pytest.approx(0.05 * (0.6 + 1))
    assert lost(policy(0.35, 0.6, 0.05), []) == pytest.approx(0.05 * (2 - 0.6))


def test_a_pair_seen_once_is_worth_no_less_than_the_worst_arrival() -> None:
    for to in (1, 2):
        assert lost(policy(0.3, 0.55, 0.15), [to]) == pytest.approx(0.05 * (0.6 - 0))
        assert lost(policy(0.35, 0.6, 0.05), [to]) == pytest.approx(0.05 * (1 - 0.6))


def test_a_pair_that_led_to_where_nobody_acted_is_as_one_never_seen() -> None:
    pi = policy(0.3, 0.55, 0.15)
    assert lost(pi, [3]) == pytest.approx(lost(pi, []))


def test_it_says_that_there_are_states_in_which_nobody_acted() -> None:
    found = certify(
        choice((5, 8), (10, 10), []), policy(0.3, 0.6, 0.1), "delta-method", data="fresh"
    )
    assert "never acts in 1 states (3 is one)" in found.notes[0]
    world = worlds.garnet(np.random.default_rng(0), 3, 2)
    problem = worlds.problem(world, worlds.sample(world, np.random.default_rng(0), 50, 10))
    assert not any("never acts" in x for x in DeltaMethodBound(data="fresh").remarks(problem))


@pytest.mark.parametrize(
    ("wins", "draws"), [((5, 6), (10, 6)), ((0, 5), (6, 10))], ids=["lowest", "highest"]
)
def test_without_a_table_of_rewards_both_ends_of_their_range_may_come(
    wins: tuple[int, int], draws: tuple[int, int]
) -> None:
    """That an arrival has always paid the same says nothing of what it has not paid yet: the pair
    that gets mass may pay the least, the pair that gives it away may have paid the most.
    """
    problem = choice(wins, draws, [])
    pi = policy(0.3, 0.6, 0.1)
    for table, rewards, deep in (
        (problem.reward_table, (-1.0, 2.0), 1),
        (None, (0.0, 1.0), 1),
        (None, (-1.0, 2.0), 2),
    ):
        known = dataclasses.replace(problem, reward_table=table, reward_range=rewards)
        found = DeltaMethodBound(data="fresh").moments(known, pi)
        assert found.unshown == pytest.approx(deep * 0.3 * math.log(20) / 6)


def test_a_rare_loss_that_a_log_does_not_show_is_not_taken_for_impossible() -> None:
    """The second action pays 1, but -1000 once in 500, and 0.37 of logs of 500 visits do not show
    it: they "proved" a gain of 0.4 where the truth is -0.4.
    """
    n = 1000
    action = np.arange(n) % 2
    problem = surefoot.problem(
        state=np.zeros(n, dtype=int),
        action=action,
        reward=1.0 * action,
        next_state=np.arange(n) // 2 % 2,
        episode=np.arange(n),
        terminal_states=[1],
        gamma=0.5,
        pi_b=np.full((2, 2), 0.5),
        reward_range=(-2000, 10),
        return_range=(-2000, 20),
        start=0,
    )
    found = certify(problem, np.array([[0.1, 0.9], [0.5, 0.5]]), "delta-method", data="fresh")
    assert found.bound < -0.4


def test_a_change_where_nobody_acted_may_be_worth_the_whole_range() -> None:
    """Then both values of what follows a pair never seen are free: 0.15 at -1, and 0.1 at 2."""
    pi = policy(0.3, 0.55, 0.15)
    pi[3] = [0.1, 0.3, 0.6]
    assert lost(pi, []) == pytest.approx(0.05 * 0.6 + 0.15 + 0.1 * 2)


def test_an_outcome_that_a_pair_has_not_shown_counts_by_the_rule_of_three() -> None:
    """Action 1 won 6 of 6: a loss may have the probability ln(20) / 6; action 0 has shown both."""
    pi = policy(0.3, 0.6, 0.1)
    sigma = 0.3 * math.sqrt(0.25 / 9)
    for delta, z in ((0.05, Z), (0.2, 0.8416212335729143)):
        found = certify(choice((5, 6), (10, 6), []), pi, "delta-method", data="fresh", delta=delta)
        unshown = 0.3 * math.log(1 / delta) / 6
        assert found.bound == pytest.approx(0.3 * 0.5 - math.hypot(z * sigma, unshown))
    few = certify(choice((5, 2), (10, 2), []), pi, "delta-method", data="fresh")
    assert few.bound == pytest.approx(0.3 * 0.5 - math.hypot(Z * sigma, 0.3))  # at most certain


def test_a_rare_loss_lowers_the_bound_by_johnsons_term() -> None:
    pi = policy(0.3, 0.6, 0.1)
    sigma = 0.3 * math.sqrt(0.25 / 9 + 0.09 / 9)
    third = 0.3**3 * 0.9 * 0.1 * (0.1 - 0.9) / 10**2
    expected = 0.3 * 0.4 - Z * sigma + third * (2 * Z**2 + 1) / (6 * sigma**2)
    assert certify(
        choice((5, 9), (10, 10), []), pi, "delta-method", data="fresh"
    ).bound == pytest.approx(expected)
    rare_win = certify(choice((5, 1), (10, 10), []), pi, "delta-method", data="fresh").bound
    once_more = 0.9 * 0.1 * 0.3 * 0.4  # action 2 may lead back to where the policy loses
    assert rare_win == pytest.approx(-0.3 * 0.4 - once_more - Z * sigma)  # never raised


def fails(n: int, delta: float) -> float:
    """max over two coins of the exact probability of a bound above the truth, n draws each, for
    the policy that moves 0.3 from the first to the second.
    """
    pi, k = policy(0.3, 0.6, 0.1), np.arange(n + 1)
    bound = np.array(
        [
            [
                certify(
                    choice((i, j), (n, n), []), pi, "delta-method", data="fresh", delta=delta
                ).bound
                for j in k
            ]
            for i in k
        ]
    )
    chances = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99, 1)
    return max(
        float(
            (
                binom.pmf(k, n, p)[:, None] * binom.pmf(k, n, q) * (bound > 0.3 * (q - p) + 1e-12)
            ).sum()
        )
        for p, q in product(chances, repeat=2)
    )


def test_rare_outcomes_in_few_draws_break_it_seldom() -> None:
    """Without the rule of three a coin of 0.99 breaks it nearly always; without Johnson's term it
    is more than this, too.
    """
    assert fails(4, 0.05) <= 0.06
    assert fails(8, 0.05) <= 0.09


def twin(problem: surefoot.Problem, n: np.ndarray, world: worlds.World, pi: np.ndarray) -> Any:
    """(gain less its bias and what is missing, unshown, left of the bias) by loops, at delta 0.05;
    n are counts [S, A, S].
    """
    gamma, lo, hi = world.gamma, problem.return_range.lo, problem.return_range.hi
    base, n_sa, pairs = world.pi_b, n.sum(axis=2), list(np.ndindex(*world.pi_b.shape))
    often = n_sa >= 2
    usual = base * often / np.maximum((base * often).sum(axis=1, keepdims=True), 1e-300)
    p = n / np.maximum(n_sa, 1)[..., None]
    r = np.where(n_sa > 0, (p * world.reward[:, None, :]).sum(axis=2), lo)
    for s, a in pairs:
        if not often[s, a] and often[s].any():
            p[s, a], r[s, a] = usual[s] @ (p[s] * often[s][:, None]), usual[s] @ r[s]
    v, d = [], []
    for x in (pi, base):
        chain = np.eye(len(base)) - gamma * np.einsum("sa,sat->st", x, p)
        v.append(np.linalg.solve(chain, (x * r).sum(axis=1)))
        d.append(np.linalg.solve(chain.T, np.eye(len(base))[0])[:, None] * x)
    known = [s for s in range(len(base)) if n_sa[s].sum() > 0]
    least = min(0.0, *(v[0][s] - v[1][s] for s in known))

    def f(s: int, to: int, new: float, old: float) -> float:
        y = [world.reward[s, to] + gamma * x[to] for x in v]
        return float(new * y[0] - old * y[1])

    bias = left = 0.0
    for x, worth, sign in ((pi, v[0], 1), (base, v[1], -1)):
        spare = (x * ~often).sum(axis=1, keepdims=True) * often.any(axis=1, keepdims=True)
        rows = np.where(often.any(axis=1, keepdims=True), x * often + spare * usual, x)
        chain = np.einsum("sa,sat->st", rows, n / np.maximum(n_sa, 1)[..., None])
        visits = np.linalg.inv(np.eye(len(base)) - gamma * chain)[0]
        places = []
        for s, a in pairs:
            to = [int(t) for t in np.flatnonzero(n[s, a])]
            outcomes = [
                (t, n[s, a, t], n[s, a, t], world.reward[s, t] + gamma * worth[t]) for t in to
            ]
            places.append((visits[s], rows[s, a] ** 2, s, outcomes))
        of_policy = bias_by_loops(chain, gamma, places)
        bias, left = bias + sign * of_policy[0], left + of_policy[1]
    missing = unshown = 0.0
    for s, a in pairs:
        new, old = (x[s, a] for x in d)
        if often[s, a]:  # it also stands in for the others
            new, old = (x[s, a] + usual[s, a] * x[s][~often[s]].sum() for x in d)
            shown = min(f(s, to, new, old) for to in np.flatnonzero(n[s, a]))
            beyond = shown - min(f(s, to, new, old) for to in known)
            unshown = max(unshown, min(1.0, math.log(20) / n_sa[s, a]) * beyond)
            continue
        q, q_b = ((r + gamma * p @ x)[s, a] for x in v)
        net = new - old
        floor = max(min(net * lo, net * hi) + gamma * new * least, new * lo - old * hi)
        if n[s, a][known].sum() > 0:
            floor = max(floor, min(f(s, to, new, old) for to in known))
        missing += max(new * q - old * q_b - floor, 0.0)
    return v[0][0] - v[1][0] - bias - missing, unshown, left


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_it_agrees_with_its_formulas_by_loops_where_many_pairs_are_rare(
    seed: int, sparse: bool
) -> None:
    world = worlds.garnet(np.random.default_rng(seed), 6, 3, gamma=0.8)
    log = worlds.sample(world, np.random.default_rng(seed), 3, 12)
    problem = worlds.problem(world, log, sparse=sparse)
    n = np.zeros((6, 3, 6))
    np.add.at(n, (log["state"], log["action"], log["next_state"]), 1)
    pi = np.random.default_rng(seed).dirichlet(np.ones(3), 6)
    pi[n.sum(axis=(1, 2)) == 0] = world.pi_b[n.sum(axis=(1, 2)) == 0]
    found = DeltaMethodBound(data="fresh").moments(problem, pi)
    assert (n.sum(axis=2) < 2).any()
    gain, unshown, left = twin(problem, n, world, pi)
    assert left > 0
    assert (found.gain, found.unshown) == pytest.approx((gain, unshown), rel=1e-7)
    assert found.left == pytest.approx(left, rel=1e-7)


def test_the_points_that_are_left_hold_the_least_for_all_weights() -> None:
    rng = np.random.default_rng(0)
    for y, x in (rng.normal(size=(2, 50)), np.ones((2, 4)), np.round(rng.normal(size=(2, 40)))):
        kept = _lower_hull(y, x)
        assert len(kept[0]) < len(y)
        for net, spent in zip(rng.normal(size=50), rng.exponential(size=50), strict=True):
            for weight in (spent, 0.0):
                least = min(net * y + weight * x)
                assert min(net * kept[0] + weight * kept[1]) == pytest.approx(least)


def test_with_more_data_the_deviation_falls_as_the_root_and_the_rest_as_the_number() -> None:
    found = Moments(gain=1.0, sigma=0.2, third=-0.004, unshown=0.3, left=0.1)
    for scale in (1.0, 4.0, 100.0):
        error, skewed = 2 * 0.2 / math.sqrt(scale), 0.004 * (2 * 4 + 1) / (6 * 0.04) / scale
        expected = 1.0 - math.hypot(error, 0.3 / scale) - skewed - 0.1 / scale**2
        assert found.below(2.0, scale) == pytest.approx(expected)
        high = 1.0 - 0.1 / scale**2 + error
        assert found.below(-2.0, scale) == pytest.approx(high)
