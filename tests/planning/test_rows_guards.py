"""`best_guarded_rows`: several guards, fines and a price at once, against HiGHS."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from support.row_problems import KINDS, Rows, cost, random_rows
from surefoot.planning import RowGuard, best_guarded_rows, best_rows

N = 40


def guards_of(rng: np.random.Generator, rows: Rows, k: int, fined: bool) -> list[RowGuard]:
    """w by itself, against q, and tied to it; fines up to the size of w."""
    kinds = (rows.w, -rows.q + 0.3 * rng.normal(size=rows.q.shape), np.round(2 * rows.w))
    found = [rng.normal(size=rows.q.shape) if i >= 3 else kinds[i] for i in range(k)]
    return [
        RowGuard(w, rng.uniform(0, 0.5, w.shape) * (rng.random(w.shape) < 0.7) if fined else None)
        for w in found
    ]


def by_highs(
    rows: Rows, i: int, guards: list[RowGuard], price: np.ndarray | None
) -> tuple[float, bool]:
    """(the value of row i in the variables (pi - b)^+ and (b - pi)^+, whether HiGHS found it)."""
    q, b = rows.q[i], rows.b[i]
    costs = np.concatenate([rows.up[i], rows.down[i]])
    price_i = np.zeros_like(q) if price is None else price[i]
    limits = [np.where(costs < np.inf, costs, 0.0)]
    for guard in guards:
        fine = np.zeros_like(q) if guard.fine is None else guard.fine[i]
        limits.append(-np.concatenate([guard.w[i] - fine, -guard.w[i]]))
    most = np.concatenate([np.full_like(b, np.inf), b])
    answer = linprog(
        -np.concatenate([q - price_i, -q]),
        A_ub=np.array(limits),
        b_ub=[rows.budget[i]] + [0.0] * len(guards),
        A_eq=np.concatenate([np.ones_like(q), -np.ones_like(q)])[None],
        b_eq=[0.0],
        bounds=np.stack([np.zeros(2 * len(q)), np.where(costs < np.inf, most, 0.0)], axis=1),
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return -(answer.fun or 0.0), answer.status == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("fined", [False, True])
def test_they_are_worth_what_highs_finds_and_meet_every_guard(
    kind: str, k: int, fined: bool
) -> None:
    rng = np.random.default_rng([KINDS.index(kind), k, fined])
    for n_actions in (2, 3, 6, 13):
        rows = random_rows(rng, N, n_actions, kind)
        guards = guards_of(rng, rows, k, fined)
        price = rng.uniform(0, 0.5, rows.q.shape) if fined else None
        pi = best_guarded_rows(*rows.problem, guards, price=price).pi
        move = pi - rows.b
        paid = 0.0 if price is None else (price * np.maximum(move, 0)).sum(axis=1)
        value = (rows.q * move).sum(axis=1) - paid
        highs = [by_highs(rows, i, guards, price) for i in range(N)]
        best, good = (np.array(x) for x in zip(*highs, strict=True))
        assert good.mean() >= 0.9
        assert np.abs((best - value) / rows.scale)[good].max() <= 1e-9
        for guard in guards:
            assert (guard(move) >= -1e-12 * (1 + guard.size)).all()
        assert np.abs(pi.sum(axis=1) - 1).max() <= 1e-12
        assert pi.min() >= -1e-12
        assert (cost(pi, rows.b, rows.up, rows.down) <= rows.budget + 1e-9).all()


def test_without_guards_they_are_the_best_rows() -> None:
    rows = random_rows(np.random.default_rng(0), N, 5, "soft")
    found = best_guarded_rows(*rows.problem, []).pi
    assert np.array_equal(found, rows.b + (best_rows(*rows.problem).pi - rows.b))


def test_a_guard_against_the_reward_keeps_the_baseline() -> None:
    rows = random_rows(np.random.default_rng(1), N, 5, "soft")
    found = best_guarded_rows(*rows.problem, [RowGuard(-rows.q), RowGuard(rows.w)]).pi
    assert np.abs((rows.q * (found - rows.b)).sum(axis=1) / rows.scale).max() <= 1e-12


def test_a_guard_that_is_not_a_number_keeps_the_baseline() -> None:
    q, b, w = np.array([[0.0, 1.0, 2.0]]), np.array([[0.5, 0.3, 0.2]]), np.array([[1.0, 2.0, 3.0]])
    free, unknown = np.zeros_like(q), w.copy()
    unknown[0, 1] = np.nan
    assert best_guarded_rows(q, b, free, free, 0.0, [RowGuard(w)]).pi[0, 2] == 1
    found = best_guarded_rows(q, b, free, free, 0.0, [RowGuard(w), RowGuard(unknown)]).pi
    assert np.array_equal(found, b)
