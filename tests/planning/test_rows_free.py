"""`free_rows`: the closed form for costs of 0 and infinity, which is the greedy step, Pi_b-SPIBB
and Pi_<=b-SPIBB.
"""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from support.row_problems import Rows, quietly, random_rows, small_rows
from surefoot.core.arrays import BLOCK_CELLS
from surefoot.planning import best_rows, free_rows

inf = np.inf
EVERYWHERE = np.ones(4, dtype=bool)
OPTIONS = [
    {},
    {"lowest_index": True},
    {"leave_closed": True},
    {"lowest_index": True, "leave_closed": True},
]


def masks(rng: np.random.Generator, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """may_rise and may_fall, each True in its own share of every row's actions."""
    share = rng.choice([0.3, 0.7, 1.0], size=(2, len(rows.q), 1))
    return rng.random(rows.q.shape) < share[0], rng.random(rows.q.shape) < share[1]


def flags(size: int, bits: int) -> np.ndarray:
    return (bits >> np.arange(size)) % 2 == 1


bits = st.integers(0, 127)


# Against the sweep


@pytest.mark.parametrize("n_actions", [2, 3, 5, 9, 25])
def test_the_rows_are_worth_what_the_sweep_finds_for_costs_of_zero_and_infinity(
    n_actions: int,
) -> None:
    rng = np.random.default_rng(n_actions)
    rows = random_rows(rng, 1000, n_actions, "soft")
    rise, fall = masks(rng, rows)
    exact = best_rows(rows.q, rows.b, np.where(rise, 0.0, inf), np.where(fall, 0.0, inf), 0.0).pi
    gap = (rows.q * (free_rows(rows.q, rows.b, rise, fall) - exact)).sum(axis=1)
    assert np.all(np.abs(gap) <= 1e-14 * rows.scale)


@quietly
@given(small_rows(), bits, bits)
def test_where_values_tie_the_row_is_still_worth_what_the_sweep_finds(
    rows: Rows, up: int, down: int
) -> None:
    rise, fall = flags(rows.q.size, up), flags(rows.q.size, down)
    exact = best_rows(rows.q, rows.b, np.where(rise, 0.0, inf), np.where(fall, 0.0, inf), 0.0).pi
    for lowest_index in (False, True):
        pi = free_rows(rows.q, rows.b, rise, fall, lowest_index=lowest_index)
        assert pi @ rows.q == exact @ rows.q


# What holds with every option


@pytest.mark.parametrize("options", OPTIONS)
def test_the_rows_are_probabilities(options: dict[str, bool]) -> None:
    rng = np.random.default_rng(1)
    rows = random_rows(rng, 2000, 6, "soft")
    pi = free_rows(rows.q, rows.b, *masks(rng, rows), **options)
    assert np.all(pi >= 0)
    assert_allclose(pi.sum(axis=1), 1, rtol=0, atol=1e-14)


@pytest.mark.parametrize("options", OPTIONS)
def test_only_what_may_rise_rises_and_only_what_may_fall_falls(options: dict[str, bool]) -> None:
    rng = np.random.default_rng(2)
    rows = random_rows(rng, 2000, 6, "soft")
    rise, fall = masks(rng, rows)
    pi = free_rows(rows.q, rows.b, rise, fall, **options)
    assert not np.any(~rise & (pi > rows.b))
    assert not np.any(~fall & (pi < rows.b))


@pytest.mark.parametrize("options", OPTIONS)
def test_a_row_in_which_nothing_may_rise_is_the_baseline(options: dict[str, bool]) -> None:
    rows = random_rows(np.random.default_rng(3), 200, 6, "soft")
    nowhere = np.zeros(rows.q.shape, dtype=bool)
    assert_array_equal(free_rows(rows.q, rows.b, nowhere, ~nowhere, **options), rows.b)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_row_in_which_nothing_may_fall_is_the_baseline(options: dict[str, bool]) -> None:
    rows = random_rows(np.random.default_rng(4), 200, 6, "soft")
    nowhere = np.zeros(rows.q.shape, dtype=bool)
    assert_array_equal(free_rows(rows.q, rows.b, ~nowhere, nowhere, **options), rows.b)


@pytest.mark.parametrize("options", OPTIONS)
def test_without_masks_all_mass_goes_to_the_best_action(options: dict[str, bool]) -> None:
    rng = np.random.default_rng(5)
    rows = random_rows(rng, 300, 7, "soft")
    q, everywhere = rng.normal(size=rows.q.shape), np.ones(rows.q.shape, dtype=bool)
    pi = free_rows(q, rows.b, everywhere, everywhere, **options)
    assert_allclose(pi, np.eye(7)[q.argmax(axis=1)], rtol=0, atol=1e-15)


# The two SPIBB, worked and by naive twins


def test_pi_b_spibb_keeps_the_uncertain_and_gives_the_rest_to_the_best_known_action() -> None:
    q, b = np.array([5.0, 1.0, 3.0, 2.0]), np.array([0.125, 0.25, 0.125, 0.5])
    known = np.array([False, True, True, False])
    assert_array_equal(free_rows(q, b, known, known), [0.125, 0, 0.375, 0.5])


def test_pi_leq_b_spibb_also_takes_the_mass_of_uncertain_actions_that_are_worse() -> None:
    q, b = np.array([5.0, 1.0, 3.0, 2.0]), np.array([0.125, 0.25, 0.125, 0.5])
    known = np.array([False, True, True, False])
    assert_array_equal(free_rows(q, b, known, EVERYWHERE), [0.125, 0, 0.875, 0])


def pi_b_spibb(q: list[float], b: list[float], known: list[bool]) -> list[float]:
    """the baseline on uncertain actions, all other mass on the best known one."""
    certain = [a for a in range(len(q)) if known[a]]
    pi = [0.0 if known[a] else b[a] for a in range(len(q))]
    if certain:
        pi[max(certain, key=lambda a: q[a])] = sum(b[a] for a in certain)
    return pi


def pi_leq_b_spibb(q: list[float], b: list[float], known: list[bool]) -> list[float]:
    """from the best action down, uncertain ones keep at most b, the first known takes what
    remains.
    """
    pi, remaining = [0.0] * len(q), 1.0
    for a in sorted(range(len(q)), key=lambda a: -q[a]):
        pi[a] = remaining if known[a] else min(b[a], remaining)
        remaining -= pi[a]
    return pi


@pytest.mark.parametrize("twin", [pi_b_spibb, pi_leq_b_spibb])
def test_the_naive_twin_finds_the_same_rows(twin) -> None:
    rng = np.random.default_rng(6)
    rows = random_rows(rng, 400, 5, "soft")
    q, known = rng.normal(size=rows.q.shape), masks(rng, rows)[0]  # no ties
    pi = free_rows(q, rows.b, known, known if twin is pi_b_spibb else np.ones_like(known))
    for i in range(400):
        expected = twin(q[i].tolist(), rows.b[i].tolist(), known[i].tolist())
        assert_allclose(pi[i], expected, rtol=0, atol=1e-15)


# Ties


@quietly
@given(small_rows(), bits, bits)
def test_equal_values_move_no_mass(rows: Rows, up: int, down: int) -> None:
    rise, fall = flags(rows.q.size, up), flags(rows.q.size, down)
    assert_array_equal(free_rows(np.full_like(rows.q, -2.5), rows.b, rise, fall), rows.b)


def test_an_action_as_good_as_the_receiver_keeps_its_mass() -> None:
    q, b = np.array([0.0, 2.0, 2.0, 1.0]), np.array([0.25, 0.125, 0.5, 0.125])
    assert_array_equal(free_rows(q, b, EVERYWHERE, EVERYWHERE), [0, 0.5, 0.5, 0])


def test_lowest_index_moves_tied_mass_to_the_lowest_index() -> None:
    q, b = np.array([0.0, 2.0, 2.0, 1.0]), np.array([0.25, 0.125, 0.5, 0.125])
    assert_array_equal(free_rows(q, b, EVERYWHERE, EVERYWHERE, lowest_index=True), [0, 1, 0, 0])


def test_lowest_index_leaves_what_may_not_fall() -> None:
    q, b, fall = (
        np.full(4, 2.0),
        np.array([0.25, 0.125, 0.5, 0.125]),
        np.array([True, True, False, True]),
    )
    assert_array_equal(free_rows(q, b, EVERYWHERE, fall, lowest_index=True), [0.5, 0, 0.5, 0])


def test_lowest_index_does_not_take_from_better_actions_that_may_not_rise() -> None:
    q, b, rise = (
        np.array([0.0, 2.0, 3.0, 2.0]),
        np.array([0.25, 0.125, 0.5, 0.125]),
        np.array([1, 1, 0, 1], dtype=bool),
    )
    assert_array_equal(free_rows(q, b, rise, EVERYWHERE, lowest_index=True), [0, 0.5, 0.5, 0])


@pytest.mark.parametrize("n_actions", [3, 8])
def test_lowest_index_is_the_first_argmax_of_the_values(n_actions: int) -> None:
    rng = np.random.default_rng(7)
    b, everywhere = rng.dirichlet(np.ones(n_actions), 300), np.ones((300, n_actions), dtype=bool)
    q = rng.integers(0, 3, b.shape).astype(float)
    pi = free_rows(q, b, everywhere, everywhere, lowest_index=True)
    assert_allclose(pi, np.eye(n_actions)[q.argmax(axis=1)], rtol=0, atol=1e-15)


def test_values_within_the_tolerance_are_equal() -> None:
    q, b = np.array([2.0, 2.25, 1.0, 2.125]), np.array([0.25, 0.125, 0.5, 0.125])
    assert_array_equal(
        free_rows(q, b, EVERYWHERE, EVERYWHERE, tolerance=0.25), [0.75, 0.125, 0, 0.125]
    )
    assert_array_equal(free_rows(q, b, EVERYWHERE, EVERYWHERE, tolerance=0.2), [0, 0.875, 0, 0.125])
    assert_array_equal(
        free_rows(q, b, EVERYWHERE, EVERYWHERE, tolerance=0.25, lowest_index=True), [1, 0, 0, 0]
    )


def test_an_action_worse_than_the_best_by_more_than_the_tolerance_gives_even_if_the_receiver_is_within_it() -> (
    None
):
    q, b = np.array([2.125, 1.875, 2.25, 2.0]), np.array([0.25, 0.125, 0.5, 0.125])
    assert_array_equal(
        free_rows(q, b, EVERYWHERE, EVERYWHERE, tolerance=0.25), [0.375, 0, 0.5, 0.125]
    )


# Closed actions


def test_a_better_closed_action_keeps_its_mass_unless_it_must_leave() -> None:
    q, b, rise = (
        np.array([9.0, 1.0, 3.0, 2.0]),
        np.array([0.125, 0.25, 0.125, 0.5]),
        np.array([0, 1, 1, 0], dtype=bool),
    )
    assert_array_equal(free_rows(q, b, rise, EVERYWHERE), [0.125, 0, 0.875, 0])
    assert_array_equal(free_rows(q, b, rise, EVERYWHERE, leave_closed=True), [0, 0, 1, 0])


def test_leaving_a_closed_action_needs_leave_to_fall() -> None:
    q, b, rise = (
        np.array([9.0, 1.0, 3.0, 2.0]),
        np.array([0.125, 0.25, 0.125, 0.5]),
        np.array([0, 1, 1, 0], dtype=bool),
    )
    assert_array_equal(free_rows(q, b, rise, rise, leave_closed=True), [0.125, 0, 0.375, 0.5])


def test_with_leave_closed_all_mass_ends_in_the_best_open_action() -> None:
    rng = np.random.default_rng(8)
    rows = random_rows(rng, 300, 5, "soft")
    q, rise = rng.normal(size=rows.q.shape), masks(rng, rows)[0]
    pi = free_rows(q, rows.b, rise, np.ones_like(rise), leave_closed=True)
    some = rise.any(axis=1)
    best = np.where(rise, q, -inf).argmax(axis=1)
    assert_allclose(pi[some], np.eye(5)[best[some]], rtol=0, atol=1e-15)


# Shapes


def test_batch_dimensions_are_kept_and_each_row_stands_alone() -> None:
    rng = np.random.default_rng(9)
    rows = random_rows(rng, 24, 5, "soft")
    problem = [x.reshape(2, 3, 4, 5) for x in (rows.q, rows.b, *masks(rng, rows))]
    pi = free_rows(*problem)
    assert pi.shape == (2, 3, 4, 5)
    for at in np.ndindex(2, 3, 4):
        assert_array_equal(pi[at], free_rows(*(x[at] for x in problem)))


def test_more_rows_than_one_block_are_solved_as_if_alone() -> None:
    n, rng = BLOCK_CELLS // 3 + 500, np.random.default_rng(11)
    rows = random_rows(rng, n, 3, "soft")
    problem, order = (rows.q, rows.b, *masks(rng, rows)), rng.permutation(n)
    assert_array_equal(free_rows(*(x[order] for x in problem)), free_rows(*problem)[order])


@pytest.mark.parametrize("options", OPTIONS)
def test_another_array_library_gives_the_same_rows(options: dict[str, bool]) -> None:
    rng = np.random.default_rng(10)
    rows = random_rows(rng, 40, 4, "soft")
    problem = (rows.q, rows.b, *masks(rng, rows))
    strict = free_rows(*map(array_api_strict.asarray, problem), **options)
    assert_array_equal(np.asarray(strict), free_rows(*problem, **options))
