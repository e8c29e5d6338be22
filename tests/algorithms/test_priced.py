"""Priced Soft-SPIBB and the shrunk model: against a plain twin, their limits and invariances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot
from support import worlds
from surefoot import Problem
from surefoot.algorithms.priced_soft_spibb import sigma
from surefoot.algorithms.shrunk import shrunk_model
from surefoot.core import Counts
from surefoot.planning import best_rows, visits


def problem(seed: int = 0, size: int = 30, **options: object) -> Problem:
    rng = np.random.default_rng(seed)
    world = worlds.random_mdp(rng, n_states=12, n_actions=3)
    return worlds.problem(world, worlds.sample(world, rng, size, 20), **options)


def plain(p: Problem, epsilon: float, z: float, m: float, pool: float = 10.0) -> np.ndarray:
    """The formulas state by state, with an LP-free row step (`best_rows`) and exact solves."""
    n, r, b, gamma = p.counts.n_sas, p.r, p.pi_b, p.gamma
    s_n, a_n = b.shape
    shrunk, rewards = np.zeros_like(n), np.array(r)
    v_b = surefoot.evaluate(p.model, b)
    var, n_s = np.zeros(s_n), n.sum(axis=(1, 2))
    for s in range(s_n):
        usual = n[s].sum(axis=0) / max(n_s[s], 1)
        usual_r = sum(n[s, a].sum() * r[s, a] for a in range(a_n) if n[s, a].sum()) / max(n_s[s], 1)
        for a in range(a_n):
            n_sa = n[s, a].sum()
            if n_sa:
                shrunk[s, a] = (n[s, a] + m * usual) / (n_sa + m)
                rewards[s, a] = (n_sa * r[s, a] + m * usual_r) / (n_sa + m)
        table = p.reward_table
        y, k = [], []
        for a in range(a_n):
            for t in range(s_n):
                if n[s, a, t]:
                    own = p.counts.r_sas[s, a, t] / n[s, a, t] if table is None else table[s, 0, t]
                    y.append(own + gamma * v_b[t])
                    k.append(n[s, a, t])
        if k:
            mean = np.average(y, weights=k)
            var[s] = np.average((np.array(y) - mean) ** 2, weights=k)
            if table is None:
                var[s] += p.counts.r_rest[s].sum() / n_s[s]
    pooled = (n_s * var).sum() / n_s.sum()
    price = z * np.sqrt((n_s * var + pool * pooled) / (n_s + pool))[:, None]
    price = price / np.sqrt(np.maximum(p.n_sa, 1))
    e = np.where(p.may_rise, surefoot.error_function(p, "hoeffding", 1.0), np.inf)
    pi = np.array(b)
    for _ in range(60):
        fee = (price * np.maximum(pi - b, 0)).sum(axis=1)
        step = np.einsum("sa,sat->st", pi, shrunk)
        v = np.linalg.solve(np.eye(s_n) - gamma * step, (pi * rewards).sum(axis=1) - fee)
        q = rewards + gamma * shrunk @ v
        pi = best_rows(q, b, e, np.zeros_like(e), epsilon, price=price, tolerance=1e-11).pi
    return pi


@pytest.mark.parametrize(
    ("epsilon", "z", "m"), [(1.0, 0.35, 2.0), (0.3, 1.0, 0.0), (3.0, 0.2, 5.0)]
)
def test_the_policy_is_that_of_the_formulas_state_by_state(
    epsilon: float, z: float, m: float
) -> None:
    for seed in range(4):
        p = problem(seed)
        found = surefoot.improve(
            p, surefoot.algorithm("priced-soft-spibb", epsilon=epsilon, z=z, growth=0, shrink=m)
        )
        assert found.status.ok
        assert_allclose(found.pi, plain(p, epsilon, z, m), atol=1e-9)


def test_without_price_and_shrinkage_it_is_lower_exact_soft_spibb() -> None:
    p = problem(3)
    priced = surefoot.algorithm("priced-soft-spibb", epsilon=0.7, growth=0, shrink=0)
    lower = surefoot.algorithm("lower-exact-soft-spibb", epsilon=0.7, delta=1)
    assert_allclose(surefoot.improve(p, priced).pi, surefoot.improve(p, lower).pi, atol=1e-12)
    priced = surefoot.algorithm("priced-soft-spibb", epsilon=0.7, growth=0, shrink=3)
    lower = surefoot.algorithm("shrunk+lower-exact-soft-spibb", epsilon=0.7, delta=1, shrink=3)
    assert_allclose(surefoot.improve(p, priced).pi, surefoot.improve(p, lower).pi, atol=1e-12)


def test_a_large_price_keeps_the_baseline() -> None:
    p = problem(1)
    found = surefoot.improve(p, surefoot.algorithm("priced-soft-spibb", epsilon=9.0, z=1e6))
    assert_array_equal(found.pi, p.pi_b)


def test_ample_data_and_budget_give_the_policy_of_basic_rl() -> None:
    p = problem(2, size=30)
    big = Counts(*(1e9 * x for x in (p.counts.n_sas, p.counts.r_sas, p.counts.r_rest)), 12, 3)
    many = replace(p, counts=big, log=None)
    found = surefoot.improve(many, surefoot.algorithm("priced-soft-spibb", epsilon=np.inf))
    greedy = surefoot.improve(many, "basic-rl")
    value = [surefoot.evaluate(many.model, x.pi) for x in (found, greedy)]
    assert_allclose(value[0], value[1], rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 250.0])
@pytest.mark.parametrize("shift", [-40.0, 0.0, 3.0])
def test_scaling_and_shifting_rewards_changes_no_policy(scale: float, shift: float) -> None:
    """A continuing problem: a constant reward is worth the same everywhere."""
    rng = np.random.default_rng(5)
    n = 400
    state = rng.integers(0, 4, n)
    action, after = rng.integers(0, 3, n), rng.integers(0, 4, n)
    reward = rng.normal(size=n) + (action == state % 3)
    columns = {"state": state, "action": action, "next_state": after, "episode": np.zeros(n)}
    pi = [
        surefoot.improve(
            surefoot.problem(
                **columns, reward=x, gamma=0.9, reward_range=(x.min(), x.max()), start=0
            ),
            surefoot.algorithm("priced-soft-spibb", epsilon=1.0),
        ).pi
        for x in (reward, scale * reward + shift)
    ]
    assert_allclose(pi[1], pi[0], atol=1e-7)


def test_every_row_k_times_is_the_same_policy_with_m_z_epsilon_and_pool_adjusted() -> None:
    """n -> k n:  c = z sigma / sqrt(n) and e fall by sqrt(k), m and pool count rows."""
    p, k = problem(4), 7.0
    counts = Counts(*(k * x for x in (p.counts.n_sas, p.counts.r_sas, p.counts.r_rest)), 12, 3)
    many = replace(p, counts=counts, log=None)
    once = surefoot.algorithm("priced-soft-spibb", epsilon=0.8, z=0.4, growth=0, shrink=2, pool=10)
    again = surefoot.algorithm(
        "priced-soft-spibb",
        epsilon=0.8 / k**0.5,
        z=0.4 * k**0.5,
        growth=0,
        shrink=2 * k,
        pool=10 * k,
    )
    assert_allclose(surefoot.improve(many, again).pi, surefoot.improve(p, once).pi, atol=1e-9)


def test_growth_adds_to_z_with_the_logarithm_of_each_logs_own_rows_for_a_visited_state() -> None:
    logs = [problem(0, size=3), problem(0, size=60)]
    both = worlds.stacked(logs)
    grown = surefoot.algorithm("priced-soft-spibb", epsilon=1.0, z=0.1, growth=0.12)
    found = surefoot.improve(both, grown).pi
    for pi, p in zip(found, logs, strict=True):
        n_s = p.n_sa.sum(axis=1)
        z = 0.1 + 0.12 * np.log1p(n_s[n_s > 0].mean())
        alone = surefoot.algorithm("priced-soft-spibb", z=z, growth=0)
        assert_allclose(pi, surefoot.improve(p, alone).pi, atol=1e-9)


def test_sparse_counts_give_the_same_policy() -> None:
    dense, sparse = problem(6), problem(6, sparse=True)
    for name in ("priced-soft-spibb", "shrunk+pi-b-spibb"):
        settings = {"epsilon": 0.8} if "priced" in name else {"n_wedge": 3}
        pi = [surefoot.improve(p, surefoot.algorithm(name, **settings)).pi for p in (dense, sparse)]
        assert_allclose(pi[1], pi[0], atol=1e-7)


def test_a_pair_is_pulled_to_what_usually_happens_in_its_state_and_unseen_pairs_are_not() -> None:
    n_sas = np.array([[[8.0, 0.0], [0.0, 2.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    r_sas = np.array([[[8.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    counts = Counts(n_sas[None], r_sas[None], np.zeros((1, 2, 3)), 2, 3)
    p = replace(
        surefoot.problem(
            state=[0, 1], action=[0, 0], reward=[1.0, 3.0], next_state=[0, 0], episode=[0, 1],
            gamma=0.9, n_states=2, n_actions=3, reward_range=(0, 3), pi_b=np.full((2, 3), 1 / 3),
        ).blocks[0],
        counts=counts, log=None,
    )  # fmt: skip
    model = shrunk_model(p, 2.0)
    assert_allclose(model.p[0, 0, 1], [2 * 0.8 / 4, (2 + 2 * 0.2) / 4])
    assert_allclose(model.r[0, 0, :2], [(8 + 2 * 0.8) / 10, 2 * 0.8 / 4])
    assert_array_equal(model.p[0, 0, 2], [0.0, 0.0])
    assert model.r[0, 0, 2] == p.return_range.lo
    assert_allclose(model.p[0, 1, 0], [1.0, 0.0])


def test_values_and_visits_in_the_shrunk_model_are_those_of_the_model_formed() -> None:
    dense, sparse = (shrunk_model(problem(6, sparse=x).blocks[0], 3.0) for x in (False, True))
    for pi in (np.full((1, 12, 3), 1 / 3), np.eye(3)[np.arange(12) % 3][None]):
        p_pi = np.einsum("sa,sat->st", pi[0], dense.p[0])
        system, r_pi = np.eye(12) - dense.gamma * p_pi, (pi * dense.r)[0].sum(axis=-1)
        start = np.full((1, 12), 1 / 12)
        for model in (dense, sparse):
            assert_allclose(
                surefoot.evaluate(model, pi, tolerance=None)[0], np.linalg.solve(system, r_pi)
            )
            assert_allclose(visits(model, pi, start)[0], np.linalg.solve(system.T, start[0]))
    best = surefoot.optimal(dense)
    assert_allclose(best.q[0], dense.r[0] + dense.gamma * dense.p[0] @ best.q[0].max(axis=-1))


def test_sigma_is_pooled_where_rows_are_few_and_its_own_where_they_are_many() -> None:
    p = problem(7).blocks[0]
    own, pooled = sigma(p, 1e-12), sigma(p, np.inf)
    n_s = p.n_sa.sum(axis=-1)
    assert_allclose(pooled**2, (n_s * own**2).sum() / n_s.sum())
    between = sigma(p, 10.0)
    assert_allclose(between**2, (n_s * own**2 + 10 * pooled**2) / (n_s + 10))


@pytest.mark.parametrize("seed", range(6))
def test_where_the_price_bounds_the_error_of_a_move_the_plan_promises_too_little(seed: int) -> None:
    """papers/priced: v^pi >= v and v^{pi_b} = u if the model is right about the baseline's rows."""
    rng, s_n, a_n, gamma = np.random.default_rng(seed), 9, 4, 0.8
    p_model = rng.dirichlet(np.full(s_n, 20.0), (s_n, a_n))
    r_model = rng.standard_normal((s_n, a_n))
    b = rng.dirichlet(np.ones(a_n), s_n)
    other = rng.dirichlet(np.ones(s_n), (s_n, a_n))
    error = other - p_model
    error -= np.einsum("sa,sat->st", b, error)[:, None, :]  # so that sum_a pi_b D = 0
    scale = min(1.0, float((p_model[error < 0] / -error[error < 0]).min()))  # p stays at least 0
    p, r = p_model + scale * error, r_model + 0.0
    price = np.full((s_n, a_n), 0.5)
    e, pi = np.ones((s_n, a_n)), np.array(b)
    for _ in range(60):
        fee = (price * np.maximum(pi - b, 0)).sum(axis=1)
        step = np.einsum("sa,sat->st", pi, p_model)
        v = np.linalg.solve(np.eye(s_n) - gamma * step, (pi * r_model).sum(axis=1) - fee)
        q = r_model + gamma * p_model @ v
        pi = best_rows(q, b, e, np.zeros_like(e), 9.0, price=price, tolerance=1e-11).pi
    wrong = gamma * (p - p_model) @ v
    assert 0.1 < (wrong.max(axis=1) - wrong.min(axis=1)).max() <= price.min()  # (ii)

    def value(policy: np.ndarray, moves: np.ndarray) -> np.ndarray:
        chain = np.einsum("sa,sat->st", policy, moves)
        return np.linalg.solve(np.eye(s_n) - gamma * chain, (policy * r).sum(axis=1))

    u = value(b, p_model)
    assert_allclose(value(b, p), u, atol=1e-9)
    assert (v >= u - 1e-9).all()
    assert (v - u).max() > 0.1
    assert (value(pi, p) >= v - 1e-9).all()


def test_the_price_is_that_of_the_formula() -> None:
    """A policy may be the same at a slightly wrong price; the price is not."""
    p = problem(0, size=3)
    (block,) = p.blocks
    found = surefoot.algorithm("priced-soft-spibb", epsilon=1.0, z=0.1, growth=0.12)
    n_s = p.n_sa.sum(axis=1)
    z = 0.1 + 0.12 * np.log(1 + n_s.sum() / (n_s > 0).sum())
    expected = z * sigma(block, 10.0)[0][:, None] / np.sqrt(np.maximum(p.n_sa, 1))
    assert_allclose(found.trust(block, block.n_sa).price[0], expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["priced-soft-spibb", "vi-lcb+priced-soft-spibb"])
def test_the_values_of_a_solution_are_those_after_the_fee_is_paid(name: str) -> None:
    """q = r + gamma P v with v = sum_a pi q - sum_a c (pi - pi_b)^+, penalties included."""
    p = problem(1)
    (block,) = p.blocks
    settings = {"c_b": 0.0} if "vi-lcb" in name else {"shrink": 2.0}
    chosen = surefoot.algorithm(name, epsilon=1.0, z=0.35, delta=1.0, **settings)
    found = surefoot.improve(p, chosen)
    price = chosen.trust(block, block.n_sa).price[0]
    fee = (price * np.maximum(found.pi - p.pi_b, 0)).sum(axis=1)
    assert fee.max() > 1e-4
    estimate = chosen.estimate(block)
    v = ((found.pi * found.q).sum(axis=1) - fee)[None]
    operator = estimate.model if name == "priced-soft-spibb" else estimate
    assert_allclose(operator.backup(v)[0], found.q, atol=1e-7)


def test_the_class_its_name_and_the_default_of_improve_are_one() -> None:
    p = problem(4)
    default = surefoot.PricedSoftSPIBB()
    assert surefoot.algorithm("priced-soft-spibb") == default
    assert surefoot.improve(p).algorithm == default
