"""`best_rows`: the exact row problem against HiGHS, its theorems, worked examples, and a twin in
exact arithmetic.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from support.effort import few
from support.naive_rows import sweep_one_row
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
from surefoot.core.arrays import BLOCK_CELLS
from surefoot.planning import BestRows, best_rows, duality_gap

PER_SIZE = 100  # 24 sizes and 5 kinds: 12,000 rows
inf = np.inf


def gain(rows: Rows, pi: np.ndarray) -> np.ndarray:
    return (rows.q * (pi - rows.b)).sum(axis=-1)


@cache
def solved(kind: str) -> list[tuple[Rows, BestRows]]:
    return [(rows, best_rows(*rows.problem)) for rows in batches(kind, PER_SIZE)]


# Against HiGHS, and what holds on each of the 12,000 rows


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_worth_what_highs_finds(kind: str) -> None:
    gaps = np.concatenate([shortfalls(rows, best.pi) for rows, best in solved(kind)])
    assert np.max(np.abs(gaps)) <= 1e-9
    assert len(gaps) >= 0.99 * PER_SIZE * len(SIZES)  # HiGHS may fail, but seldom


@pytest.mark.slow
@pytest.mark.parametrize("kind", few(KINDS, 1))
def test_ten_times_as_many_rows_are_worth_what_highs_finds(kind: str) -> None:
    for rows in batches(kind, 10 * PER_SIZE, seed=1):
        assert np.max(np.abs(shortfalls(rows, best_rows(*rows.problem).pi)), initial=0.0) <= 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_the_budget_is_kept(kind: str) -> None:
    for rows, best in solved(kind):
        pi = best.pi
        assert np.all(cost(pi, rows.b, rows.up, rows.down) <= rows.budget + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_probabilities(kind: str) -> None:
    for _, best in solved(kind):
        assert np.all(best.pi >= 0)
        assert_allclose(best.pi.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_an_infinite_cost_forbids_the_move_to_the_last_bit(kind: str) -> None:
    for rows, best in solved(kind):
        pi = best.pi
        assert not np.any((rows.up == inf) & (pi > rows.b))
        assert not np.any((rows.down == inf) & (pi < rows.b))


@pytest.mark.parametrize("kind", KINDS)
def test_the_duality_gap_is_zero(kind: str) -> None:
    for rows, best in solved(kind):
        gap = duality_gap(*rows.problem, best)
        assert np.all(np.abs(gap) <= 1e-12 * rows.scale)


# The certificate


@quietly
@given(small_rows(), st.integers(0, 40))
def test_the_duality_gap_bounds_the_distance_to_the_optimum_at_any_price(
    rows: Rows, eighths: int
) -> None:
    any_price = BestRows(rows.b, np.array(eighths / 8))
    assert duality_gap(*rows.problem, any_price) >= gain(rows, best_rows(*rows.problem).pi) - 1e-12


def test_the_duality_gap_of_the_baseline_is_what_the_best_row_gains() -> None:
    q, b, up, down = np.array([0.0, 1.0, 3.0]), np.array([0.5, 0.5, 0.0]), np.ones(3), np.ones(3)
    best = best_rows(q, b, up, down, 0.4)
    assert_allclose(duality_gap(q, b, up, down, 0.4, BestRows(b, best.multiplier)), 0.6, rtol=1e-12)


# Worked examples


def test_the_worst_donor_gives_half_the_budget_to_the_best_receiver() -> None:
    best = best_rows(
        np.array([0.0, 1.0, 3.0]), np.array([0.5, 0.5, 0.0]), np.ones(3), np.ones(3), 0.5
    )
    assert_allclose(best.pi, [0.25, 0.5, 0.25], atol=1e-15)
    assert_allclose(best.multiplier, 1.5, rtol=1e-15)


def test_moved_mass_is_split_between_two_neighbours_on_the_hull() -> None:
    # A budget of 3 takes all mass to action 1 (cost 1) and then two thirds of it on to action 2
    # (cost 4, slope 5 / 3).
    q, up = np.array([0.0, 6.0, 11.0]), np.array([inf, 1.0, 4.0])
    best = best_rows(q, np.array([1.0, 0.0, 0.0]), up, np.zeros(3), 3.0)
    assert_allclose(best.pi, [0, 1 / 3, 2 / 3], atol=1e-15)
    assert_allclose(best.multiplier, 5 / 3, rtol=1e-15)


def test_an_earlier_receiver_gives_its_own_mass_to_a_later_one() -> None:
    q, up = np.array([0.0, 6.0, 11.0]), np.array([inf, 1.0, 4.0])
    best = best_rows(q, np.array([0.5, 0.5, 0.0]), up, np.zeros(3), 3.0)
    assert_allclose(
        best.pi, [0, 0.25, 0.75], atol=1e-15
    )  # 2 for the mass of action 0, then 4 a unit
    assert_allclose(best.multiplier, 5 / 4, rtol=1e-15)


def test_a_budget_that_just_suffices_performs_the_whole_move() -> None:
    best = best_rows(
        np.array([0.0, 2.0, 1.0]), np.array([0.25, 0.5, 0.25]), np.ones(3), np.ones(3), 1.0
    )
    assert_array_equal(best.pi, [0, 1, 0])
    assert best.multiplier == 0


def test_free_costs_make_the_greedy_row() -> None:
    q, b = (
        np.array([[1.0, 5.0, 2.0], [4.0, 3.0, -1.0]]),
        np.array([[0.25, 0.25, 0.5], [0.5, 0.0, 0.5]]),
    )
    zero = np.zeros_like(q)
    assert_array_equal(best_rows(q, b, zero, zero).pi, [[0, 1, 0], [1, 0, 0]])


def test_a_row_in_which_nothing_may_rise_is_the_baseline() -> None:
    b = np.array([0.25, 0.25, 0.5])
    best = best_rows(np.array([1.0, 2.0, 3.0]), b, np.full(3, inf), np.zeros(3), 5.0)
    assert_array_equal(best.pi, b)
    assert best.multiplier == 0


# Theorems about the budget


@quietly
@given(small_rows(), st.integers(0, 40))
def test_the_price_is_a_supergradient_of_the_optimum_in_the_budget(
    rows: Rows, eighths: int
) -> None:
    here, there = best_rows(*rows.problem), best_rows(*rows.problem[:4], eighths / 8)
    assert (
        gain(rows, there.pi)
        <= gain(rows, here.pi) + here.multiplier * (eighths / 8 - rows.budget) + 1e-12 * rows.scale
    )


def test_away_from_kinks_the_price_is_the_derivative_of_the_optimum() -> None:
    rng, h, checked = np.random.default_rng(5), 1e-4, 0
    for kind in ("soft", "lower", "asymmetric", "masked"):
        rows = random_rows(rng, 400, 6, kind)
        rows = rows.take(rows.budget > h)
        best, more, less = (best_rows(*rows.problem[:4], rows.budget + d) for d in (0, h, -h))
        smooth = np.abs(more.multiplier - less.multiplier) <= 1e-9 * rows.scale
        slope = (gain(rows, more.pi) - gain(rows, less.pi)) / (2 * h)
        assert_allclose(slope[smooth], best.multiplier[smooth], rtol=1e-8, atol=1e-9)
        checked += np.sum(smooth & (best.multiplier > 0))
    assert checked > 300


@quietly
@given(small_rows())
def test_the_price_never_rises_with_the_budget(rows: Rows) -> None:
    prices = best_rows(
        *(np.broadcast_to(x, (31, x.size)) for x in rows.problem[:4]), np.linspace(0, 5, 31)
    ).multiplier
    assert np.all(np.diff(prices) <= 1e-12 * rows.scale)
    assert np.all(prices >= 0)


@quietly
@given(small_rows())
def test_the_optimum_is_concave_and_never_falls_with_the_budget(rows: Rows) -> None:
    pi = best_rows(
        *(np.broadcast_to(x, (31, x.size)) for x in rows.problem[:4]), np.linspace(0, 5, 31)
    ).pi
    values = pi @ rows.q
    assert np.all(np.diff(values) >= -1e-12)
    assert np.all(np.diff(values, 2) <= 1e-12)


@quietly
@given(small_rows(free=False))
def test_without_a_budget_positive_costs_keep_the_baseline_exactly(rows: Rows) -> None:
    assert_array_equal(best_rows(rows.q, rows.b, rows.up, rows.down, 0.0).pi, rows.b)


@quietly
@given(small_rows(), st.sampled_from([0.25, 2.0, 64.0]))
def test_scaling_costs_and_budget_together_changes_nothing(rows: Rows, factor: float) -> None:
    scaled = best_rows(rows.q, rows.b, rows.up * factor, rows.down * factor, rows.budget * factor)
    assert_array_equal(scaled.pi, best_rows(*rows.problem).pi)


# Theorems about the values


@quietly
@given(small_rows(), st.integers(-50, 50))
def test_adding_a_constant_to_all_values_changes_nothing(rows: Rows, constant: int) -> None:
    shifted, best = best_rows(rows.q + constant, *rows.problem[1:]), best_rows(*rows.problem)
    assert_array_equal(shifted.pi, best.pi)
    assert_array_equal(shifted.multiplier, best.multiplier)


@pytest.mark.parametrize("kind", ["soft", "lower", "asymmetric"])
def test_renaming_the_actions_renames_the_answer(kind: str) -> None:
    rng = np.random.default_rng(6)
    rows = random_rows(rng, 300, 7, kind)
    q, order = rng.normal(size=rows.q.shape), rng.permutation(7)  # no ties
    renamed = best_rows(*(x[:, order] for x in (q, rows.b, rows.up, rows.down)), rows.budget).pi
    assert_allclose(renamed, best_rows(q, *rows.problem[1:]).pi[:, order], rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_five_equal_values_keep_the_baseline_exactly(kind: str) -> None:
    rows = random_rows(np.random.default_rng(7), 200, 25, kind)
    assert_array_equal(best_rows(np.full_like(rows.q, 1.7), *rows.problem[1:]).pi, rows.b)


@quietly
@given(small_rows(), st.integers(-6, 6))
def test_no_mass_moves_to_or_from_an_action_of_equal_value_alone(rows: Rows, value: int) -> None:
    # Every action is worth v or v - 1: those worth v never lose anything, those worth v - 1 never
    # gain anything.
    q = value - (rows.q > 0)
    pi = best_rows(q.astype(float), *rows.problem[1:]).pi
    assert np.all(pi[q == value] >= rows.b[q == value])
    assert np.all(pi[q < value] <= rows.b[q < value])


def test_values_within_the_tolerance_are_equal() -> None:
    rng = np.random.default_rng(8)
    rows = random_rows(rng, 300, 5, "soft")
    q = 3 + rng.uniform(0, 1e-9, rows.q.shape)
    assert_array_equal(best_rows(q, *rows.problem[1:], tolerance=1e-9).pi, rows.b)
    assert np.any(best_rows(q, *rows.problem[1:]).pi != rows.b)


def test_values_further_apart_than_the_tolerance_are_not_equal() -> None:
    # The step from action 1 to the costlier action 2 gains 1/4: more than 1/8, not more than 1/4.
    q, b, up, down = (
        np.array([0.0, 1.0, 1.25]),
        np.array([1.0, 0.0, 0.0]),
        np.array([inf, 1.0, 2.0]),
        np.zeros(3),
    )
    assert_array_equal(best_rows(q, b, up, down, 9.0, tolerance=0.125).pi, [0, 0, 1])
    assert_array_equal(best_rows(q, b, up, down, 9.0, tolerance=0.25).pi, [0, 1, 0])


def test_a_donor_worse_by_no_more_than_the_tolerance_keeps_its_mass() -> None:
    q, b, zero = np.array([1.0, 0.0, 1.25]), np.array([0.5, 0.25, 0.25]), np.zeros(3)
    assert_array_equal(best_rows(q, b, zero, zero, tolerance=0.125).pi, [0, 0, 1])
    assert_array_equal(best_rows(q, b, zero, zero, tolerance=0.25).pi, [0.5, 0, 0.5])


# The naive twin


def exactly(row: np.ndarray) -> list:
    return [x if x == inf else Fraction(x) for x in row.tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_naive_twin_finds_the_same_rows_and_prices(kind: str) -> None:
    rng = np.random.default_rng(9)
    for n_actions in (2, 3, 5, 8):
        rows = random_rows(rng, 60, n_actions, kind)
        q = rng.normal(size=rows.q.shape)  # no ties
        best = best_rows(q, *rows.problem[1:])
        for i in range(60):
            row = [exactly(x[i]) for x in (q, rows.b, rows.up, rows.down)]
            pi, price = sweep_one_row(*row, Fraction(rows.budget[i]))
            assert_allclose(best.pi[i], np.array(pi, dtype=float), rtol=0, atol=1e-13)
            assert_allclose(best.multiplier[i], float(price), rtol=1e-10)


@quietly
@given(small_rows())
def test_the_naive_twin_finds_rows_of_the_same_value_where_there_are_ties(rows: Rows) -> None:
    pi, _ = sweep_one_row(*(exactly(x) for x in rows.problem[:4]), Fraction(float(rows.budget)))
    assert_allclose(
        best_rows(*rows.problem).pi @ rows.q, float(np.dot(exactly(rows.q), pi)), rtol=0, atol=1e-13
    )


# Shapes


def test_batch_dimensions_are_kept_and_each_row_stands_alone() -> None:
    rows = random_rows(np.random.default_rng(10), 24, 5, "soft")
    q, b, up, down = (x.reshape(2, 3, 4, 5) for x in rows.problem[:4])
    best = best_rows(q, b, up, down, rows.budget.reshape(2, 3, 4))
    assert best.pi.shape == (2, 3, 4, 5)
    assert best.multiplier.shape == (2, 3, 4)
    for i, at in enumerate(np.ndindex(2, 3, 4)):
        alone = best_rows(q[at], b[at], up[at], down[at], float(rows.budget[i]))
        assert_array_equal(best.pi[at], alone.pi)
        assert_array_equal(best.multiplier[at], alone.multiplier)


def test_one_baseline_one_cost_and_one_budget_serve_all_rows() -> None:
    rows = random_rows(np.random.default_rng(11), 6, 4, "asymmetric")
    b, up, down = rows.b[0], rows.up[0], rows.down[0]
    every = best_rows(rows.q, b, up, down, 0.7).pi
    for i in range(6):
        assert_array_equal(every[i], best_rows(rows.q[i], b, up, down, 0.7).pi)


def test_more_rows_than_one_block_are_solved_as_if_alone() -> None:
    n = BLOCK_CELLS // 3 + 500
    rows = random_rows(np.random.default_rng(12), n, 3, "soft")
    best, order = best_rows(*rows.problem), np.random.default_rng(13).permutation(n)
    shuffled = best_rows(*rows.take(order).problem)
    assert_array_equal(shuffled.pi, best.pi[order])
    assert_array_equal(shuffled.multiplier, best.multiplier[order])
    for i in [0, BLOCK_CELLS // 3 - 1, BLOCK_CELLS // 3, n - 1]:
        assert_array_equal(best.pi[i], best_rows(*(x[i] for x in rows.problem)).pi)


@pytest.mark.parametrize("kind", KINDS)
def test_another_array_library_gives_the_same_rows(kind: str) -> None:
    rows = random_rows(np.random.default_rng(14), 40, 4, kind)
    numpy_answer, strict = (
        best_rows(*rows.problem),
        best_rows(*map(array_api_strict.asarray, rows.problem)),
    )
    assert_array_equal(np.asarray(strict.pi), numpy_answer.pi)
    assert_array_equal(np.asarray(strict.multiplier), numpy_answer.multiplier)


def test_the_arguments_are_left_unchanged() -> None:
    rows = random_rows(np.random.default_rng(15), 30, 4, "soft")
    before = [x.copy() for x in rows.problem]
    best_rows(*rows.problem)
    for x, y in zip(rows.problem, before, strict=True):
        assert_array_equal(x, y)
