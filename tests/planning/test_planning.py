"""Evaluation and planning: naive twins, brute force, and the sparse path on chains that mix fast
and slowly.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

import surefoot
from support import worlds
from surefoot.core import DenseModel, SparseModel
from surefoot.planning import FreeTrust, ModelEstimate, iterate, policy_iteration, visits
from surefoot.planning.evaluation import values_within


def naive_value(world: worlds.World, pi: np.ndarray) -> np.ndarray:
    v = np.zeros(len(pi))
    live = np.ones(len(pi))
    live[list(world.terminal)] = 0
    for _ in range(2000):
        v = live * np.einsum(
            "sa,sat,sat->s", pi, world.p, world.reward[:, None, :] + world.gamma * v
        )
    return v


@pytest.mark.parametrize(
    "world",
    [
        worlds.garnet(np.random.default_rng(0), 6, 4),
        worlds.random_mdp(np.random.default_rng(1), 8, 3),
    ],
)
def test_a_policy_is_worth_what_repeated_backups_say(world: worlds.World) -> None:
    pi = np.random.default_rng(2).dirichlet(np.ones(world.pi_b.shape[1]), len(world.pi_b))
    for policy in (pi, np.eye(pi.shape[1])[pi.argmax(axis=1)]):
        assert np.allclose(
            surefoot.evaluate(world.model, policy), naive_value(world, policy), atol=1e-10
        )


def test_the_value_at_the_start_is_the_mean_over_the_start_distribution() -> None:
    world = worlds.garnet(np.random.default_rng(0), 6, 4)
    start = np.array([0.5, 0, 0.25, 0, 0.25, 0])
    found = surefoot.evaluate_at_start(world.model, world.pi_b, start)
    assert found == pytest.approx(float(start @ naive_value(world, world.pi_b)))


def test_the_optimum_is_the_best_of_all_deterministic_policies() -> None:
    world = worlds.garnet(np.random.default_rng(4), 4, 3)
    values = [
        surefoot.evaluate(world.model, np.eye(3)[list(c)])
        for c in itertools.product(range(3), repeat=4)
    ]
    best = surefoot.optimal(world.model)
    assert best.status.ok
    assert np.allclose(surefoot.evaluate(world.model, best.pi), np.max(values, axis=0), atol=1e-12)


def test_the_optimum_uses_allowed_actions_only() -> None:
    world = worlds.garnet(np.random.default_rng(4), 4, 3)
    allowed = np.ones((4, 3), dtype=bool)
    allowed[np.arange(4), surefoot.optimal(world.model).pi.argmax(axis=1)] = False
    best = surefoot.optimal(world.model, allowed)
    values = [
        surefoot.evaluate(world.model, np.eye(3)[list(c)])
        for c in itertools.product(range(3), repeat=4)
        if allowed[np.arange(4), list(c)].all()
    ]
    assert (best.pi[~allowed] == 0).all()
    assert np.allclose(surefoot.evaluate(world.model, best.pi), np.max(values, axis=0), atol=1e-12)


def test_a_batch_of_models_is_planned_at_once() -> None:
    made = [worlds.garnet(np.random.default_rng(s), 5, 3) for s in range(6)]
    together = surefoot.known_model(
        np.stack([w.p for w in made]),
        np.stack([w.reward for w in made])[:, :, None, :] + 0 * made[0].p,
        0.9,
    )
    found = surefoot.optimal(together)
    for i, world in enumerate(made):
        assert np.allclose(found.q[i], surefoot.optimal(world.model).q, atol=1e-12)


def all_ways(pi: np.ndarray) -> tuple[np.ndarray, ...]:
    """Policies that use all pairs, one in each state, and few: a sparse model takes each another
    way.
    """
    one = np.eye(pi.shape[1])[pi.argmax(axis=1)]
    return pi, one, np.vstack((np.roll(one[:1], 1) / 4 + one[:1] * 3 / 4, one[1:]))


@pytest.mark.parametrize("band", [None, 3], ids=["mixes fast", "mixes slowly"])
@pytest.mark.parametrize("leak", [0.0, 0.2], ids=["closed", "with ends"])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.999])
def test_a_sparse_policy_value_is_within_its_tolerance(
    band: int | None, leak: float, gamma: float
) -> None:
    rng = np.random.default_rng(7)
    n_states, n_actions = 400, 3
    to = rng.integers(0, n_states, (n_states * n_actions, 4))
    if band:
        to = (
            np.repeat(np.arange(n_states), n_actions)[:, None]
            + rng.integers(-band, band + 1, to.shape)
        ) % n_states
    p = rng.dirichlet(np.ones(4), len(to)) * (rng.random((len(to), 1)) >= leak)
    rows = np.repeat(np.arange(len(to)), 4)
    matrix = sparse.csr_array((p.ravel(), (rows, to.ravel())), shape=(len(to), n_states))
    r = rng.normal(size=(n_states, n_actions))
    pi = rng.dirichlet(np.ones(n_actions), n_states)
    dense = surefoot.known_model(matrix.toarray().reshape(n_states, n_actions, n_states), r, gamma)
    for policy in all_ways(pi):
        exact = surefoot.evaluate(dense, policy)
        found = surefoot.evaluate(surefoot.known_model(matrix, r, gamma), policy, tolerance=1e-9)
        assert found.shape == (n_states,)
        assert np.abs(found - exact).max() <= 1e-9
    best = surefoot.optimal(surefoot.known_model(matrix, r, gamma))
    assert np.allclose(best.q, surefoot.optimal(dense).q, atol=1e-8)


def chain(n_states: int, gamma: float, size: float = 1.0) -> tuple[surefoot.Model, np.ndarray]:
    """A sparse model in which one step leads to a neighbour, and a policy."""
    rng = np.random.default_rng(3)
    rows = np.arange(2 * n_states)
    to = (rows // 2 + np.where(rows % 2, 1, -1)) % n_states
    matrix = sparse.csr_array((np.ones(2 * n_states), (rows, to)), shape=(2 * n_states, n_states))
    r = size * rng.random((n_states, 2))
    return surefoot.known_model(matrix, r, gamma), rng.dirichlet(np.ones(2), n_states)


@pytest.mark.parametrize("gamma", [0.9, 0.999, 0.99999])
def test_a_sparse_value_reaches_its_tolerance_or_is_refused(gamma: float) -> None:
    model, pi = chain(300, gamma)
    p = np.zeros((300, 2, 300))
    p[np.arange(300), 0, np.arange(300) - 1] = p[np.arange(300), 1, (np.arange(300) + 1) % 300] = 1
    exact = surefoot.evaluate(surefoot.known_model(p, model.r[0], gamma), pi)
    with pytest.raises(surefoot.NotAvailableError, match="tolerance=None"):
        surefoot.evaluate(model, pi, tolerance=1e-18)
    nearest = surefoot.evaluate(model, pi, tolerance=None)
    assert np.abs(nearest - exact).max() <= 1e-14 / (1 - gamma) ** 2


def test_the_error_of_a_sparse_value_is_proved_by_its_residual() -> None:
    """Two states for themselves, worth 100 and -100: sweeps come closer by 1 % each."""
    model = surefoot.known_model(sparse.csr_array(np.eye(2)), np.array([[1.0], [-1.0]]), 0.99)
    found, error = values_within(model, np.ones((2, 1)), None, 95.0)
    off = float(np.abs(found - [100.0, -100.0]).max())
    assert 90 < off <= error * (1 + 1e-9) <= 95


def test_a_plan_whose_values_rounding_keeps_from_their_accuracy_is_not_called_converged() -> None:
    model, pi = chain(300, 0.999)
    estimate = ModelEstimate(model, 1e-9)
    everywhere = np.ones((1, 300, 2), dtype=bool)
    trust = FreeTrust(b=0.5 * everywhere, may_rise=everywhere, tolerance=1e-9, lowest_index=True)
    good = policy_iteration(estimate, trust, pi[None], accuracy=1e-9)
    assert good.status.ok
    assert good.notes == ()
    short = policy_iteration(estimate, trust, pi[None], accuracy=1e-18)
    assert not short.status.ok
    assert "not to 1e-18" in short.notes[0]
    assert np.allclose(short.q, good.q, atol=1e-8)


def test_large_values_do_not_keep_a_sparse_optimum_from_converging() -> None:
    for gamma in (0.9, 0.999, 0.99999):
        assert surefoot.optimal(chain(300, gamma, size=1e9)[0]).status.ok


@pytest.mark.parametrize("prior", [0.0, 0.3])
def test_visits_are_what_stepping_through_the_chain_adds_up_to(prior: float) -> None:
    rng = np.random.default_rng(0)
    n = np.where(rng.random((7, 3, 7)) < 0.5, rng.integers(1, 9, (7, 3, 7)), 0).astype(float)
    weight = 1.0 / (n.sum(axis=-1) + 7 * prior + 1e-9)
    weight[2] = 0.0  # an end
    r, gamma = rng.random((7, 3)), 0.9
    pi, start = rng.dirichlet(np.ones(3), 7), rng.dirichlet(np.ones(7))
    dense = DenseModel(n, weight, r, gamma, prior)
    rows = sparse.csr_array(n.reshape(21, 7))
    large = SparseModel(rows, weight[None], r[None], gamma, prior)
    for model, policy in itertools.product((dense, large), all_ways(pi)):
        step = np.einsum("sa,sa,sat->ts", policy, weight, n + prior)
        expected, term = np.zeros(7), start
        for _ in range(2000):
            expected, term = expected + term, gamma * step @ term
        found = visits(model, policy, start)
        assert found.shape == (7,)
        assert np.allclose(found, expected, rtol=1e-12)
        assert found @ (policy * r).sum(axis=1) == pytest.approx(
            float(surefoot.evaluate_at_start(model, policy, start))
        )


def test_what_cannot_be_evaluated_is_refused_in_words() -> None:
    loop = np.ones((1, 2, 1))
    with pytest.raises(surefoot.NotAvailableError, match="gamma"):
        surefoot.evaluate(surefoot.known_model(loop, np.ones((1, 2)), 1.0), np.array([[0.5, 0.5]]))
    with pytest.raises(surefoot.NotAvailableError, match="gamma"):
        surefoot.evaluate(
            surefoot.known_model(sparse.csr_array(loop[0]), np.ones((1, 2)), 1.0),
            np.array([[0.5, 0.5]]),
        )
    with pytest.raises(surefoot.ProblemError, match="pi must be"):
        surefoot.evaluate(
            surefoot.known_model(loop, np.ones((1, 2)), 0.5), np.array([[0.5, 0.25, 0.25]])
        )
    with pytest.raises(surefoot.ProblemError, match="gamma"):
        surefoot.known_model(loop, np.ones((1, 2)), 1.5)
    with pytest.raises(surefoot.ProblemError, match="p must be"):
        surefoot.known_model(np.ones((2, 3, 4)), np.ones((2, 3)), 0.5)
    with pytest.raises(surefoot.ProblemError, match="r must be"):
        surefoot.known_model(np.ones((2, 3, 2)), np.ones((3, 4)), 0.5)
    with pytest.raises(surefoot.ProblemError, match="sparse p"):
        surefoot.known_model(sparse.csr_array(np.ones((4, 2))), np.ones((2, 3)), 0.5)


def test_undiscounted_episodes_are_evaluated_where_they_end() -> None:
    p = np.zeros((3, 2, 3))
    p[0, 0, 1] = p[0, 1, 2] = p[1, :, 2] = 1
    model = surefoot.known_model(
        p, np.array([[0, 0.0, 0], [0, 0, 5], [0, 0, 0]])[:, None, :] + 0 * p, 1.0, [2]
    )
    assert surefoot.optimal(model).pi[0].tolist() == [1, 0]
    assert surefoot.evaluate(model, np.full((3, 2), 0.5)).tolist() == [2.5, 5.0, 0.0]


@pytest.mark.parametrize("seed", range(8))
def test_undiscounted_endless_policies_are_refused_where_rounding_hides_that(seed: int) -> None:
    """I - P is singular on paper; as floats it often has an inverse, with values of 1e16."""
    p = np.random.default_rng(seed).dirichlet(np.ones(5), (5, 2))
    with pytest.raises(surefoot.NotAvailableError, match="never ends"):
        surefoot.evaluate(surefoot.known_model(p, np.ones((5, 2)), 1.0), np.full((5, 2), 0.5))


class _Countdown:
    """Problem i is done after i + 1 steps; its state counts them."""

    def advance(
        self, state: tuple[np.ndarray, ...], step: int
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        goal, count = state
        return (goal, count + 1), count + 1 >= goal

    def take(self, index: np.ndarray) -> _Countdown:
        return self


def test_problems_leave_the_loop_one_by_one_and_come_back_in_order() -> None:
    goal = np.array([3, 1, 7, 2, 2, 40])
    (back, count), status = iterate(_Countdown(), (goal, np.zeros(6, dtype=int)), max_steps=10)
    assert back.tolist() == goal.tolist()
    assert count.tolist() == [3, 1, 7, 2, 2, 10]
    assert status.steps.tolist() == [3, 1, 7, 2, 2, 10]
    assert status.converged.tolist() == [True] * 5 + [False]
    assert "NOT CONVERGED: 1 of 6" in repr(status)
