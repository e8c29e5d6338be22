"""Rows that are certified to be still optimal are kept: never at the price of value."""

from __future__ import annotations

import numpy as np
import pytest

from surefoot.planning import best_rows, duality_gap, keep_or_best_rows
from surefoot.planning.sweep import multiplier_of


def draw(seed: int, n_actions: int, rows: int = 400) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(rows, n_actions)) * 10
    q[::3] = np.round(q[::3])
    b = rng.dirichlet(np.ones(n_actions), rows)
    b[rng.random(b.shape) < 0.2] = 0
    b[:, 0] += 1e-3
    b /= b.sum(axis=1, keepdims=True)
    up, down = rng.uniform(0.05, 3, (2, rows, n_actions))
    up[rng.random(up.shape) < 0.2] = np.inf
    down[rng.random(up.shape) < 0.2] = np.inf
    down[::4] = 0
    return q, b, up, down, rng.uniform(0, 2, rows) ** 2 * (rng.random(rows) > 0.1)


@pytest.mark.parametrize("n_actions", [2, 3, 10])
@pytest.mark.parametrize("change", [0.0, 1e-6, 0.1, 30.0])
def test_old_rows_are_replaced_exactly_where_they_are_no_longer_optimal(
    n_actions: int, change: float
) -> None:
    q, b, up, down, budget = draw(n_actions, n_actions)
    old = best_rows(q, b, up, down, budget).pi
    q = q + change * np.random.default_rng(0).normal(size=q.shape)
    found = keep_or_best_rows(q, old, b, up, down, budget, tolerance=1e-11)
    best = best_rows(q, b, up, down, budget).pi
    assert ((q * found).sum(axis=1) >= (q * best).sum(axis=1) - 2e-11).all()
    kept = (found == old).all(axis=1)
    worse = (q * old).sum(axis=1) < (q * best).sum(axis=1) - 1e-9
    assert not (kept & worse).any()
    if change == 0:
        assert kept.mean() > 0.95, (
            "an optimal row is recognised but for a budget spent to the last bit"
        )
    if change == 30.0:
        assert worse.mean() > 0.2


def test_a_move_between_values_that_have_become_equal_is_taken_back() -> None:
    b, cost = np.array([[0.5, 0.3, 0.2]]), np.ones((1, 3))
    old = best_rows(np.array([[0.0, 1.0, 0.0]]), b, cost, cost, 0.4).pi
    assert not np.array_equal(old, b)
    for q in ([[1.0, 1.0, 1.0]], [[0.5, 0.5 - 1e-12, 0.5]]):
        found = keep_or_best_rows(np.array(q), old, b, cost, cost, 0.4, tolerance=1e-11)
        np.testing.assert_array_equal(found, b)


@pytest.mark.parametrize("n_actions", [2, 3, 10])
def test_the_multiplier_read_off_a_row_is_that_of_the_sweep_that_stopped_in_it(
    n_actions: int,
) -> None:
    q, b, up, down, budget = draw(7, n_actions)
    solution = best_rows(q, b, up, down, budget)
    inside = ((solution.pi < b) & (solution.pi > 1e-9)).any(axis=1) | (
        (solution.pi > b + 1e-9).sum(axis=1) == 2
    )
    assert inside.sum() > 50
    price = multiplier_of(q, q, solution.pi, b, up, down)
    assert np.allclose(price[inside], solution.multiplier[inside], rtol=1e-9)
    scale = 1 + np.abs(q).max(axis=1)
    gap = duality_gap(q, b, up, down, budget, solution)
    assert (gap / scale <= 1e-12).all()
