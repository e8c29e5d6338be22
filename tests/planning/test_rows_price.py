"""`best_rows` with a price on raising: against HiGHS, its certificate, and what a price must do."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

from support.row_problems import KINDS, Rows, random_rows
from surefoot.planning import best_rows
from surefoot.planning.sweep import duality_gap, keep_or_best_rows


def priced_rows(kind: str, seed: int, n: int = 40) -> tuple[Rows, np.ndarray]:
    rng = np.random.default_rng([seed, KINDS.index(kind), 7])
    rows = random_rows(rng, n, int(rng.integers(2, 9)), kind)
    price = rng.gamma(1.0, 0.5, rows.q.shape) * rows.scale[:, None] / 5
    price[rng.random(rows.q.shape) < 0.2] = 0.0
    return rows, price


def value(rows: Rows, price: np.ndarray, pi: np.ndarray) -> np.ndarray:
    return (rows.q * pi).sum(1) - (price * np.maximum(pi - rows.b, 0)).sum(1)


def highs(rows: Rows, price: np.ndarray, i: int) -> float:
    """max (q - price) . x - q . y + q . b: x is raised, y is lowered, both cost budget."""
    q, b, c = rows.q[i], rows.b[i], price[i]
    up, down = rows.up[i], rows.down[i]
    costs = np.concatenate([up, down])
    bounds = [(0, 0 if u == np.inf else None) for u in up]
    bounds += [(0, 0 if d == np.inf else x) for d, x in zip(down, b, strict=True)]
    found = linprog(
        np.concatenate([c - q, q]),
        A_ub=[np.where(costs < np.inf, costs, 0.0)],
        b_ub=[rows.budget[i]],
        A_eq=[np.concatenate([np.ones_like(q), -np.ones_like(q)])],
        b_eq=[0.0],
        bounds=bounds,
        method="highs",
    )
    assert found.status == 0
    return float(q @ b - found.fun)


@pytest.mark.parametrize("kind", KINDS)
def test_priced_rows_are_worth_what_highs_finds(kind: str) -> None:
    for seed in range(5):
        rows, price = priced_rows(kind, seed)
        best = best_rows(*rows.problem, price=price)
        expected = [highs(rows, price, i) for i in range(len(rows.q))]
        assert_allclose(value(rows, price, best.pi), expected, rtol=0, atol=1e-8 * rows.scale.max())


@pytest.mark.parametrize("kind", KINDS)
def test_the_duality_gap_of_a_priced_row_is_zero_and_that_of_the_unpriced_answer_is_not(
    kind: str,
) -> None:
    wrong = 0
    for seed in range(5):
        rows, price = priced_rows(kind, seed)
        best = best_rows(*rows.problem, price=price)
        gap = duality_gap(*rows.problem, best, price=price)
        assert np.all(np.abs(gap) <= 1e-11 * rows.scale)
        free = best_rows(*rows.problem)
        wrong += np.sum(duality_gap(*rows.problem, free, price=price) > 1e-6 * rows.scale)
    assert wrong > 20


def test_a_price_of_zero_changes_no_bit() -> None:
    rows, _ = priced_rows("lower", 0)
    free = best_rows(*rows.problem)
    priced = best_rows(*rows.problem, price=np.zeros_like(rows.q))
    assert_array_equal(priced.pi, free.pi)
    assert_array_equal(priced.multiplier, free.multiplier)


def test_a_move_is_made_only_where_it_gains_more_than_its_price() -> None:
    """Worked: b = (1/2, 1/2), q = (0, 1): moving mass gains 1 a unit."""
    q, b, e = np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]]), np.ones((1, 2))
    none = np.zeros((1, 2))
    below = best_rows(q, b, e, none, 0.2, price=np.full((1, 2), 0.9))
    above = best_rows(q, b, e, none, 0.2, price=np.full((1, 2), 1.1))
    assert_allclose(below.pi, [[0.3, 0.7]], rtol=1e-15)
    assert_allclose(below.multiplier, 0.1, rtol=1e-14)  # what is left of the gain
    assert_array_equal(above.pi, b)


def test_a_cheaper_receiver_is_preferred_to_a_slightly_better_one() -> None:
    q, b = np.array([[0.0, 1.0, 1.1]]), np.array([[1.0, 0.0, 0.0]])
    e, none = np.ones((1, 3)), np.zeros((1, 3))
    price = np.array([[0.0, 0.1, 0.5]])
    assert_allclose(best_rows(q, b, e, none, 9.0, price=price).pi, [[0.0, 1.0, 0.0]], atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_still_optimal_are_kept_and_others_are_solved(kind: str) -> None:
    for seed in range(3):
        rows, price = priced_rows(kind, seed)
        q, b, up, down, budget = rows.problem
        best = best_rows(*rows.problem, price=price).pi
        tolerance = 1e-9 * float(rows.scale.max())
        kept = keep_or_best_rows(q, best, b, up, down, budget, price=price, tolerance=tolerance)
        assert np.all(value(rows, price, kept) >= value(rows, price, best) - tolerance)
        other = q + np.random.default_rng(seed).normal(size=q.shape)
        moved = Rows(other, b, up, down, budget, rows.w)
        again = keep_or_best_rows(other, best, b, up, down, budget, price=price, tolerance=1e-9)
        best_again = best_rows(*moved.problem, price=price).pi
        assert_allclose(
            value(moved, price, again), value(moved, price, best_again), atol=1e-7, rtol=0
        )
