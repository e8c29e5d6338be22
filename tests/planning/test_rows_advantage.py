"""`best_guarded_rows` with one guard: the constraint w . (pi - b) >= 0 against HiGHS, its theorems and
worked examples.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import surefoot.planning.advantage
from support.effort import few
from support.row_problems import (
    KINDS,
    SIZES,
    Rows,
    batches,
    cost,
    quietly,
    random_rows,
    shortfalls,
    small_rows,
)
from surefoot.planning import (
    BestRows,
    RowGuard,
    best_guarded_rows,
    best_rows,
    duality_gap,
)

PER_SIZE = 50  # 24 sizes and 5 kinds: 6,000 rows; w = -q in 15 % of them
inf = np.inf


def best_rows_with_advantage(*problem: Any, tolerance: float = 0.0) -> BestRows:
    """argmax_pi  q . pi   s.t.  the budget of `best_rows`  and  w . (pi - b) >= 0."""
    *rows, w = problem
    return best_guarded_rows(*rows, [RowGuard(w)], tolerance=tolerance)


def solve(rows: Rows) -> BestRows:
    return best_rows_with_advantage(*rows.problem, rows.w)


@cache
def solved(kind: str) -> list[tuple[Rows, BestRows]]:
    return [(rows, solve(rows)) for rows in batches(kind, PER_SIZE)]


def gain(rows: Rows, pi: np.ndarray) -> np.ndarray:
    return (rows.q * (pi - rows.b)).sum(axis=-1)


def advantage(rows: Rows, pi: np.ndarray) -> np.ndarray:
    return (rows.w * (pi - rows.b)).sum(axis=-1)


def advantage_gap(
    q: np.ndarray,
    b: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
    budget: np.ndarray,
    w: np.ndarray,
    solution: BestRows,
) -> np.ndarray:
    """How far q . pi can be from optimal, [...]: h(mu) bounds it from above for every mu >= 0,
    and the sweep's own gap bounds h.
    """
    w = surefoot.planning.advantage._readable(w, b, up, down)
    tilted = q + solution.multiplier[..., None] * w
    vertex = best_rows(tilted, b, up, down, budget)
    bound = (tilted * (vertex.pi - b)).sum(axis=-1)
    bound = bound + duality_gap(tilted, b, up, down, budget, vertex)
    return bound - (q * (solution.pi - b)).sum(axis=-1)


def weight(rows: Rows) -> np.ndarray:
    return 1 + np.abs(rows.w).max(axis=-1)


# Against HiGHS, and what holds on each of the 6,000 rows


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_worth_what_highs_finds(kind: str) -> None:
    gaps = np.concatenate(
        [shortfalls(rows, answer.pi, advantage=True) for rows, answer in solved(kind)]
    )
    assert np.max(np.abs(gaps)) <= 1e-9
    assert len(gaps) >= 0.99 * PER_SIZE * len(SIZES)  # HiGHS may fail, but seldom


@pytest.mark.slow
@pytest.mark.parametrize("kind", few(KINDS, 1))
def test_ten_times_as_many_rows_are_worth_what_highs_finds(kind: str) -> None:
    for rows in batches(kind, 10 * PER_SIZE, seed=1):
        assert np.max(np.abs(shortfalls(rows, solve(rows).pi, advantage=True)), initial=0.0) <= 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_the_advantage_is_never_negative(kind: str) -> None:
    for rows, answer in solved(kind):
        assert np.all(advantage(rows, answer.pi) >= -1e-12 * weight(rows))


@pytest.mark.parametrize("kind", KINDS)
def test_the_budget_is_kept(kind: str) -> None:
    for rows, answer in solved(kind):
        assert np.all(cost(answer.pi, rows.b, rows.up, rows.down) <= rows.budget + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_probabilities(kind: str) -> None:
    for _, answer in solved(kind):
        assert np.all(answer.pi >= 0)
        assert_allclose(answer.pi.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_an_infinite_cost_forbids_the_move_to_the_last_bit(kind: str) -> None:
    for rows, answer in solved(kind):
        pi = answer.pi
        assert not np.any((rows.up == inf) & (pi > rows.b))
        assert not np.any((rows.down == inf) & (pi < rows.b))


@pytest.mark.parametrize("kind", KINDS)
def test_the_advantage_gap_is_zero(kind: str) -> None:
    for rows, answer in solved(kind):
        gap = advantage_gap(*rows.problem, rows.w, answer)
        assert np.all(np.abs(gap) <= 1e-12 * rows.scale)


@pytest.mark.parametrize("kind", KINDS)
def test_a_multiplier_is_positive_only_where_the_advantage_is_zero(kind: str) -> None:
    for rows, answer in solved(kind):
        assert np.all(answer.multiplier >= 0)
        assert np.all(
            (answer.multiplier == 0) | (np.abs(advantage(rows, answer.pi)) <= 1e-12 * weight(rows))
        )


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_constraint_does_not_bind_the_row_is_the_best_row_and_the_multiplier_zero(
    kind: str,
) -> None:
    for rows, answer in solved(kind):
        best = best_rows(*rows.problem).pi
        met = advantage(rows, best) > 1e-12 * weight(rows)
        assert_allclose(answer.pi[met], best[met], rtol=0, atol=1e-15)
        assert np.all(answer.multiplier[met] == 0)


# The certificate


@quietly
@given(small_rows(), st.integers(0, 24))
def test_the_advantage_gap_bounds_the_distance_to_the_optimum_at_any_multiplier(
    rows: Rows, eighths: int
) -> None:
    any_multiplier = BestRows(rows.b, np.array(eighths / 8))
    assert (
        advantage_gap(*rows.problem, rows.w, any_multiplier) >= gain(rows, solve(rows).pi) - 1e-12
    )


# Worked examples


def test_two_receivers_are_mixed_so_that_the_advantage_is_zero() -> None:
    # p1 + 2 p2 subject to p1 - p2 >= 1/2: mass on action 2 must be paid for by action 1.
    q, b, w, zero = (
        np.array([0.0, 1.0, 2.0]),
        np.array([0.5, 0.5, 0.0]),
        np.array([0.0, 1.0, -1.0]),
        np.zeros(3),
    )
    answer = best_rows_with_advantage(q, b, zero, zero, 0.0, w)
    assert_allclose(answer.pi, [0, 0.75, 0.25], atol=1e-15)
    assert_allclose(answer.multiplier, 0.5, rtol=1e-15)  # q + w / 2 is worth 3/2 at both


def test_a_budget_is_shared_between_what_is_wanted_and_what_pays_for_it() -> None:
    # A unit moved costs 2. Action 2 gains 2 and loses 1 of w, action 1 gains nothing and earns 3 of
    # w: three to one.
    q, b, w, e = (
        np.array([0.0, 0.0, 2.0]),
        np.array([1.0, 0.0, 0.0]),
        np.array([0.0, 3.0, -1.0]),
        np.ones(3),
    )
    answer = best_rows_with_advantage(q, b, e, e, 0.8, w)
    assert_allclose(answer.pi, [0.6, 0.1, 0.3], atol=1e-15)
    assert_allclose(answer.multiplier, 0.5, rtol=1e-15)


def test_directly_opposed_values_keep_the_value_of_the_baseline() -> None:
    rows = random_rows(np.random.default_rng(1), 200, 6, "soft")
    answer = best_rows_with_advantage(*rows.problem, -rows.q)
    assert_allclose(gain(rows, answer.pi) / rows.scale, 0, atol=1e-12)


def test_rounding_in_equal_w_does_not_pass_for_a_violation() -> None:
    # Action 0 may give its mass to action 2: w is equal there, but 1 * (1 - 0.9) - 1 * 0.1 is
    # -2.8e-17, not 0.
    q, b, w, zero = (
        np.array([0.0, 2.0, 1.0]),
        np.array([0.1, 0.0, 0.9]),
        np.array([1.0, 0.0, 1.0]),
        np.zeros(3),
    )
    answer = best_rows_with_advantage(q, b, zero, zero, 0.0, w)
    assert_allclose(answer.pi, [0, 0, 1], atol=1e-15)
    assert_allclose(answer.multiplier, 1, rtol=1e-12)


def test_rounding_that_finds_two_crossings_in_turn_does_not_keep_the_search_going(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solves = iter(range(50))

    def at_most_fifty(*problem: np.ndarray, **options: float) -> BestRows:
        assert next(solves, None) is not None, "the search does not end"
        return best_rows(*problem, **options)

    monkeypatch.setattr(surefoot.planning.advantage, "best_rows", at_most_fifty)
    q, b, zero = (
        np.array([-5.0, 5.0]),
        np.array([0.12386861265786316, 0.8761313873421368]),
        np.zeros(2),
    )
    answer = best_rows_with_advantage(
        q, b, zero, zero, 0.0, np.array([0.9010178966585974, -0.5517879492818722])
    )
    assert_allclose(answer.pi @ q, b @ q, rtol=1e-14)  # w opposes q


# Theorems


@quietly
@given(small_rows())
def test_the_constraint_never_adds_value_and_never_costs_the_baseline(rows: Rows) -> None:
    value = gain(rows, solve(rows).pi)
    assert -1e-12 <= value <= gain(rows, best_rows(*rows.problem).pi) + 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_an_advantage_in_the_values_themselves_is_no_constraint(kind: str) -> None:
    rows = random_rows(np.random.default_rng(2), 300, 6, kind)
    answer = best_rows_with_advantage(*rows.problem, rows.q)
    assert_allclose(answer.pi, best_rows(*rows.problem).pi, rtol=0, atol=1e-15)
    assert np.all(answer.multiplier == 0)


@quietly
@given(small_rows(), st.sampled_from([0.25, 2.0, 64.0]))
def test_scaling_w_changes_nothing_but_the_multiplier(rows: Rows, factor: float) -> None:
    scaled, answer = best_rows_with_advantage(*rows.problem, factor * rows.w), solve(rows)
    assert_allclose(scaled.pi, answer.pi, rtol=0, atol=1e-13)
    assert_allclose(scaled.multiplier * factor, answer.multiplier, rtol=1e-13)


@quietly
@given(small_rows(), st.integers(-9, 9), st.integers(-9, 9))
def test_adding_a_constant_to_q_or_to_w_changes_nothing(rows: Rows, to_q: int, to_w: int) -> None:
    shifted = best_rows_with_advantage(rows.q + to_q, *rows.problem[1:], rows.w + to_w)
    assert_allclose(gain(rows, shifted.pi), gain(rows, solve(rows).pi), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_ties_in_w_lose_no_value(kind: str) -> None:
    rows = random_rows(np.random.default_rng(8), 4000, 3, kind)
    w = np.sign(rows.w)
    answer = best_rows_with_advantage(*rows.problem, w)
    assert np.all(
        answer.multiplier <= 1e6 * rows.scale
    )  # the certificate rounds, too: a wild multiplier blinds it
    assert np.all(np.abs(advantage_gap(*rows.problem, w, answer)) <= 1e-12 * rows.scale)


@quietly
@given(small_rows())
def test_a_large_constant_in_w_hides_no_loss(rows: Rows) -> None:
    answer = best_rows_with_advantage(*rows.problem, rows.w + 2.0**40)  # exact: w is whole
    assert advantage(rows, answer.pi) >= -1e-12
    assert_allclose(gain(rows, answer.pi), gain(rows, solve(rows).pi), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["soft", "spibb", "masked"])
def test_w_is_not_read_where_nothing_may_move(kind: str) -> None:
    rows = random_rows(np.random.default_rng(3), 300, 5, kind)
    still = (rows.up == inf) & ((rows.down == inf) | (rows.b == 0))
    assert np.any(still & (rows.b > 0)) or kind == "masked"
    unknown = best_rows_with_advantage(*rows.problem, np.where(still, np.nan, rows.w))
    anything = best_rows_with_advantage(*rows.problem, np.where(still, 7.0, rows.w))
    assert_array_equal(unknown.pi, anything.pi)
    assert_array_equal(unknown.multiplier, anything.multiplier)


def test_the_certificate_does_not_read_w_where_nothing_may_move() -> None:
    rows = random_rows(np.random.default_rng(4), 300, 5, "masked")
    w = np.where((rows.up == inf) & ((rows.down == inf) | (rows.b == 0)), np.nan, rows.w)
    gap = advantage_gap(*rows.problem, w, best_rows_with_advantage(*rows.problem, w))
    assert np.all(np.abs(gap) <= 1e-12 * rows.scale)


def test_values_within_the_tolerance_are_equal() -> None:
    rng = np.random.default_rng(5)
    rows = random_rows(rng, 300, 5, "soft")
    q = 3 + rng.uniform(0, 1e-9, rows.q.shape)
    answer = best_rows_with_advantage(q, *rows.problem[1:], rows.w, tolerance=1e-9)
    assert_array_equal(answer.pi, rows.b)


# Shapes


def test_batch_dimensions_are_kept_and_each_row_stands_alone() -> None:
    rows = random_rows(np.random.default_rng(6), 24, 5, "soft")
    q, b, up, down, w = (x.reshape(2, 3, 4, 5) for x in (*rows.problem[:4], rows.w))
    answer = best_rows_with_advantage(q, b, up, down, rows.budget.reshape(2, 3, 4), w)
    assert answer.pi.shape == (2, 3, 4, 5)
    assert answer.multiplier.shape == (2, 3, 4)
    for i, at in enumerate(np.ndindex(2, 3, 4)):
        alone = best_rows_with_advantage(
            q[at], b[at], up[at], down[at], float(rows.budget[i]), w[at]
        )
        assert_allclose(answer.pi[at], alone.pi, rtol=0, atol=1e-14)
        assert_allclose(answer.multiplier[at], alone.multiplier, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_another_array_library_gives_the_same_rows(kind: str) -> None:
    rows = random_rows(np.random.default_rng(7), 40, 4, kind)
    strict = best_rows_with_advantage(*map(array_api_strict.asarray, (*rows.problem, rows.w)))
    assert_allclose(np.asarray(strict.pi), solve(rows).pi, rtol=0, atol=1e-14)
