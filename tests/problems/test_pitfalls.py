"""Pitfalls: places where a plausible implementation returns something less safe, or less true,
without saying so.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

import surefoot
from support import worlds
from support.settings import EVERY, FROM_COUNTS, make
from surefoot.algorithms.algorithm import plan
from surefoot.evidence.theory import advantageous
from surefoot.planning import RowGuard, best_guarded_rows


def self_loops(rewards: list[list[float]], visits: int, **changes: Any) -> surefoot.Problem:
    """One state; action a pays rewards[a] in turn, `visits` times."""
    action = np.repeat(np.arange(len(rewards)), visits)
    reward = np.concatenate([np.resize(r, visits) for r in rewards])
    zero = np.zeros(len(action), dtype=int)
    log = {
        "state": zero,
        "action": action,
        "reward": reward,
        "next_state": zero,
        "episode": np.arange(len(action)),
    }
    return surefoot.problem(**{**log, "gamma": 0.5, "reward_range": (0, 9), **changes})


@pytest.mark.parametrize("kappa", [2.0, 5.0, 20.0])
def test_a_first_step_that_loses_value_is_not_the_end(kappa: float) -> None:
    """Leaving an action never seen can cost penalised value in every state; the iteration must
    go on all the same.
    """
    rng = np.random.default_rng(3)
    world = worlds.garnet(rng, 4, 3, gamma=0.9)
    world = dataclasses.replace(world, pi_b=np.array([[0.48, 0.52, 0.0]] * 4))
    for seed in range(20):
        log = worlds.sample(world, np.random.default_rng(seed), 1, 25)
        problem = worlds.problem(world, log, pi_b=np.array([[0.02, 0.02, 0.96]] * 4))
        solution = surefoot.improve(problem, surefoot.algorithm("ramdp", kappa=kappa))
        model = dataclasses.replace(
            problem.model, r=problem.r - np.where(problem.seen, kappa * np.sqrt(problem.weight), 0)
        )
        open_actions = [np.flatnonzero(row) if row.any() else None for row in problem.may_rise]
        best = np.full(4, -np.inf)
        for choice in itertools.product(*([None] if a is None else a for a in open_actions)):
            pi = np.array(
                [problem.pi_b[s] if a is None else np.eye(3)[a] for s, a in enumerate(choice)]
            )
            best = np.maximum(best, surefoot.evaluate(model, pi))
        assert np.allclose(surefoot.evaluate(model, solution.pi), best, atol=1e-9)


@pytest.mark.parametrize("name", [n for n in EVERY if "+" not in n and "adv" not in n])
def test_a_row_whose_final_values_are_equal_keeps_the_baseline_however_it_moved_before(
    name: str,
) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        world = worlds.garnet(rng, 5, 3, successors=1, gamma=0.9)
        world = dataclasses.replace(world, reward=np.round(world.reward / 2))
        problem = worlds.in_columns(worlds.problem(world, worlds.sample(world, rng, 4, 40)))
        solution = surefoot.improve(
            problem, make(name, kappa=0.0, xi=0.0, n_wedge=0, epsilon=3.0, c_b=0.0)
        )
        if not solution.status.ok:
            continue
        all_seen = problem.seen.all(axis=1)
        equal = np.ptp(solution.q, axis=1) <= problem.tolerance / 2
        rows = all_seen & equal
        assert np.allclose(solution.pi[rows], problem.pi_b[rows], atol=1e-12)


def test_the_worst_case_of_a_single_state_is_its_own_reward() -> None:
    problem = self_loops([[1.0], [0.0]], 20, reward_range=(0, 1))
    for sparse in (False, True):
        problem = self_loops([[1.0], [0.0]], 20, reward_range=(0, 1), sparse=sparse)
        for name in ("robust", "mbie"):
            q = surefoot.improve(problem, surefoot.algorithm(name, delta=0.1)).q
            assert np.allclose(q, [[2.0, 1.0]]), "there is nowhere else to go, whatever the radius"


def test_a_successor_seen_has_its_own_reward_in_the_worst_case_too() -> None:
    state, action, to = [0] * 40, [0] * 20 + [1] * 20, [1] * 40
    reward = [3.0] * 20 + [0.0] * 20
    problem = surefoot.problem(
        state=state,
        action=action,
        reward=reward,
        next_state=to,
        episode=range(40),
        gamma=0.9,
        reward_range=(0, 3),
        terminal_states=[1],
    )
    q = surefoot.improve(problem, surefoot.algorithm("robust", delta=0.5)).q
    mass = min(1.0, 0.5 * np.sqrt(2 / 20 * np.log(2 * 2 * 2**2 / 0.5)))
    worst = min(
        0.9 * q[0].max(), 3.0
    )  # back to state 0, at the lowest reward since nobody ever arrived there
    assert q[0, 0] == pytest.approx(3.0 * (1 - mass) + mass * worst)


def test_returns_that_were_left_out_make_the_error_larger() -> None:
    world = worlds.random_mdp(np.random.default_rng(0), 10, 3)
    log = worlds.sample(world, np.random.default_rng(1), 30, 8)
    problem = worlds.problem(world, log, cut_returns="leave-out")
    fewer = (problem.returns.n < problem.n_sa) & (problem.returns.n > 0)
    assert fewer.any()
    alone, adv = make("exact-soft-spibb"), make("adv-exact-soft-spibb")
    one_step = make("one-step+approx-soft-spibb")
    returns = one_step.estimate(problem).n
    for e in (adv.e(problem, problem.n_sa), one_step.limits.e(problem, returns)):
        assert (e[fewer] > alone.e(problem, problem.n_sa)[fewer]).all()
        assert (e[(problem.returns.n == 0)] == np.inf).all()


def test_an_endless_policy_without_discounting_is_refused_even_if_rounding_hides_it() -> None:
    state = np.repeat(np.arange(3), 3)
    problem = surefoot.problem(
        state=state,
        action=np.zeros(9, dtype=int),
        reward=np.ones(9),
        next_state=np.tile(np.arange(3), 3),
        episode=range(9),
        gamma=1.0,
        return_range=(0, 10),
    )
    with pytest.raises(surefoot.NotAvailableError, match="never ends"):
        surefoot.improve(problem, "basic-rl")


def test_a_declared_return_range_that_the_log_leaves_is_an_error() -> None:
    with pytest.raises(surefoot.ProblemError, match="row 1"):
        surefoot.problem(
            state=[0, 0],
            action=[0, 1],
            reward=[1.0, -100.0],
            next_state=[1, 1],
            episode=[0, 1],
            gamma=0.9,
            terminal_states=[1],
            return_range=(0, 1),
        )


def test_a_table_by_action_is_read_by_action_even_in_one_state() -> None:
    problem = self_loops([[1.0], [5.0], [9.0]], 2, reward_table=[[[1.0], [5.0], [9.0]]])
    assert problem.r.tolist() == [[1.0, 5.0, 9.0]]
    assert problem.blocks[0].r.tolist() == [[[1.0, 5.0, 9.0]]]


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.9])
def test_vi_lcb_ends_at_its_fixed_point_for_every_gamma(gamma: float) -> None:
    world = worlds.garnet(np.random.default_rng(0), 5, 3, gamma=gamma)
    problem = worlds.problem(world, worlds.sample(world, np.random.default_rng(1), 1, 400))
    algorithm = surefoot.algorithm("vi-lcb", c_b=0.3, delta=0.1)
    solution = surefoot.improve(problem, algorithm)
    block = problem.blocks[0]
    kept: list[Any] = []

    class Spy:
        maximises, price = True, None

        def step(self, q: np.ndarray, pi: np.ndarray) -> np.ndarray:
            kept.append(q)
            return solution.pi[None]

        def take(self, index: np.ndarray) -> Spy:
            return self

    plan(block, algorithm.estimate(block), Spy())
    assert np.allclose(kept[-1][0], solution.q, atol=1e-8)


def test_single_precision_is_refused() -> None:
    problem = worlds.stacked([self_loops([[1.0], [0.0]], 3)])
    with pytest.raises(surefoot.ProblemError, match="float64"):
        dataclasses.replace(problem, pi_b=problem.pi_b.astype(np.float32))


def test_an_advantage_is_measured_at_the_scale_of_its_own_state() -> None:
    pi_b = np.array([[0.5, 0.5], [0.5, 0.5]])
    q = np.array([[1e9, 0.0], [0.0, 0.5]])
    assert not advantageous(np.array([[0.5, 0.5], [1.0, 0.0]]), pi_b, q)
    assert not advantageous(np.array([[1.0, 0.0], [1.0, 0.0]]), pi_b, q)


def test_an_advantage_that_is_not_a_number_keeps_the_row() -> None:
    one = np.ones((1, 2))
    guard = RowGuard(np.array([[np.nan, 0.0]]))
    row = best_guarded_rows(np.array([[0.0, 1.0]]), one / 2, one, one, 9.0, [guard])
    assert row.pi.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("name", FROM_COUNTS)
def test_a_solution_shares_no_memory_with_its_problem(name: str) -> None:
    problem = worlds.in_columns(worlds.stacked([self_loops([[1.0], [0.0]], 3)]))
    solution = surefoot.improve(problem, make(name, epsilon=0.0, n_wedge=np.inf))
    assert not np.shares_memory(solution.pi, problem.pi_b)
    solution.pi[0, 0, 0] = 0.25


def test_sparse_variances_are_exact_at_any_scale_of_rewards() -> None:
    world = worlds.garnet(np.random.default_rng(2), 8, 3, successors=2)
    log = worlds.sample(world, np.random.default_rng(3), 2, 60)
    log["reward"] = log["reward"] * 1e-4
    made = [
        worlds.problem(world, log, reward_table=None, reward_range=(0, 4e-4), sparse=s)
        for s in (False, True)
    ]
    dense, sparse = (surefoot.improve(p, make("duipi-centred")).q for p in made)
    assert np.abs(dense - sparse).max() <= 1e-8 * 4e-3


def test_a_sparse_problem_without_discounting_is_refused_in_words() -> None:
    problem = self_loops([[1.0], [0.0]], 3, gamma=1.0, return_range=(0, 9), sparse=True)
    for name in ("basic-rl", "pi-b-spibb", "exact-soft-spibb", "approx-soft-spibb"):
        with pytest.raises(surefoot.NotAvailableError, match="gamma"):
            surefoot.improve(problem, make(name))
