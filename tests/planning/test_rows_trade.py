"""`trade_rows`: Approx-, Lower-Approx- and Adv-Approx-Soft-SPIBB; what they may spend, and a
naive twin of the loop.
"""

from __future__ import annotations

from itertools import product

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from support.naive_rows import trade_one_row
from support.row_problems import Rows, cost, quietly, random_rows, small_rows
from surefoot.core.arrays import BLOCK_CELLS
from surefoot.planning import RowGuard, best_guarded_rows, best_rows, trade_rows

inf = np.inf
VARIANTS = [
    {"lower": lower, "published": published, "lowest_index": lowest_index}
    for lower, published, lowest_index in product((False, True), repeat=3)
]


def many(seed: int, n: int = 600) -> list[Rows]:
    rng = np.random.default_rng(seed)
    return [random_rows(rng, n, n_actions, "soft") for n_actions in (2, 3, 4, 5, 7, 10)]


def spent(pi: np.ndarray, rows: Rows, lower: bool = False) -> np.ndarray:
    return cost(pi, rows.b, rows.up, np.zeros_like(rows.up) if lower else rows.up)


def affordable(rows: Rows) -> np.ndarray:
    return rows.budget * (1 + 1e-12) + 1e-15


def trade(rows: Rows, **options) -> np.ndarray:
    return trade_rows(rows.q, rows.b, rows.up, rows.budget, **options)


# The naive twin


def twin_rows(rows: Rows, **options) -> np.ndarray:
    w, may_rise = options.pop("w", None), options.pop("may_rise", None)
    problem = [x.tolist() for x in (rows.q, rows.b, rows.up, rows.budget)]
    given_w = [None] * len(rows.q) if w is None else w.tolist()
    given_rise = [None] * len(rows.q) if may_rise is None else may_rise.tolist()
    every = zip(*problem, given_w, given_rise, strict=True)
    return np.array([trade_one_row(*row, w=v, may_rise=rise, **options) for *row, v, rise in every])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("advantageous", [False, True])
@pytest.mark.parametrize("options", VARIANTS)
def test_the_naive_twin_finds_the_same_rows(
    options: dict[str, bool], advantageous: bool, masked: bool
) -> None:
    rng = np.random.default_rng(1)
    for n_actions in (2, 3, 6):
        rows = random_rows(rng, 60, n_actions, "soft")
        rows = Rows(rng.normal(size=rows.q.shape), *rows.problem[1:], rows.w)  # no ties
        more = {"w": rows.w} if advantageous else {}
        more |= {"may_rise": rng.random(rows.q.shape) < 0.6} if masked else {}
        assert_allclose(
            trade(rows, **options, **more), twin_rows(rows, **options, **more), rtol=0, atol=1e-12
        )


@quietly
@given(small_rows(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_where_values_tie_the_naive_twin_still_finds_the_same_row(
    rows: Rows, lower: bool, published: bool, lowest_index: bool, advantageous: bool
) -> None:
    options = {"lower": lower, "published": published, "lowest_index": lowest_index}
    options |= {"w": rows.w} if advantageous else {}
    alone = Rows(*(x[None] for x in (*rows.problem, rows.w)))
    options_alone = options | ({"w": rows.w[None]} if advantageous else {})
    assert_allclose(
        trade(rows, **options), twin_rows(alone, **options_alone)[0], rtol=0, atol=1e-12
    )


# What may be spent


@pytest.mark.parametrize("lowest_index", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_the_budget_is_never_overspent(lower: bool, lowest_index: bool) -> None:
    for rows in many(2):
        for w in (None, rows.w):
            pi = trade(rows, lower=lower, w=w, lowest_index=lowest_index)
            assert np.all(spent(pi, rows, lower) <= affordable(rows))


@quietly
@given(small_rows(), st.booleans())
def test_where_values_tie_the_budget_is_not_overspent_either(
    rows: Rows, lowest_index: bool
) -> None:
    assert spent(trade(rows, lowest_index=lowest_index), rows) <= affordable(rows)


def test_the_published_lower_step_does_not_overspend() -> None:
    for rows in many(3):
        assert np.all(
            spent(trade(rows, lower=True, published=True), rows, lower=True) <= affordable(rows)
        )


# Three actions: half the budget goes to action 1, then all the donor's first offer that is left to
# action 2.
THREE = Rows(
    q=np.array([0.0, 40.0, 1.0]),
    b=np.array([1.0, 0.0, 0.0]),
    up=np.array([0.5, 8.0, 0.25]),
    down=np.array([0.5, 8.0, 0.25]),
    budget=np.array(1.0),
    w=np.zeros(3),
)


def test_the_published_step_overspends_with_three_actions() -> None:
    pi = trade(THREE, published=True)
    assert_array_equal(pi, [0, 1 / 16, 15 / 16])
    assert spent(pi, THREE) == 79 / 64


def test_the_mended_step_limits_the_offer_to_what_the_budget_still_covers() -> None:
    # 1/16 to action 1 leaves 15/32 of the budget: an offer of 15/32 at 1/2 a unit. Then action 2
    # trades with action 1.
    pi = trade(THREE)
    assert_array_equal(pi, [15 / 32, 1 / 16 + 15 / 2048, 15 / 32 - 15 / 2048])
    assert spent(pi, THREE) <= 1


def test_with_four_actions_the_published_step_spends_more_than_five_quarters() -> None:
    q, b, e = (
        np.array([0.0, 1000.0, 1000.0, 0.5]),
        np.array([1.0, 0, 0, 0]),
        np.array([0.5, 64.0, 64.0, 0.125]),
    )
    pi = trade_rows(q, b, e, 1.0, published=True)
    assert 1.36 < np.sum(e * np.abs(pi - b)) < 1.375


def test_the_published_step_spends_less_than_one_and_a_half_budgets() -> None:
    # Let the last donor have spent x E on its own side and y E on its receivers. It may still offer
    # (1/2 - x) E at its own cost, and a receiver half of (1 - x - y) E: together (y - x) / 2 too
    # much. n earlier receivers make y at most 1 - 2^-n, and n is at most A - 2.
    rng, worst = np.random.default_rng(4), 1.0
    for n_actions in (2, 3, 4, 5, 7):
        rows = random_rows(rng, 4000, n_actions, "soft")
        e, b = 10 ** rng.uniform(-2, 2, rows.q.shape), np.eye(n_actions)[rows.q.argmin(axis=1)]
        rows = Rows(rows.q * e, b, e, e, rows.budget, rows.w)
        for w in (None, rows.w):
            pi = trade(rows, published=True, w=w)
            assert np.all(spent(pi, rows) <= (1.5 - 0.5 ** (n_actions - 1)) * affordable(rows))
            worst = max(
                worst, np.max(spent(pi, rows)[rows.budget > 0] / rows.budget[rows.budget > 0])
            )
    assert worst > 1.25


# What the rows are worth


@pytest.mark.parametrize("lower", [False, True])
def test_no_row_is_worth_more_than_the_exact_one(lower: bool) -> None:
    for rows in many(5):
        may_rise = np.random.default_rng(6).random(rows.q.shape) < 0.8
        up, down = np.where(may_rise, rows.up, inf), np.zeros_like(rows.up) if lower else rows.up
        exact = best_rows(rows.q, rows.b, up, down, rows.budget).pi
        pi = trade(rows, lower=lower, may_rise=may_rise)
        assert np.all((rows.q * (pi - exact)).sum(axis=1) <= 1e-12 * rows.scale)


@pytest.mark.parametrize("options", VARIANTS)
def test_no_row_is_worth_less_than_the_baseline(options: dict[str, bool]) -> None:
    for rows in many(7):
        for w in (None, rows.w):
            assert np.all(
                (rows.q * (trade(rows, w=w, **options) - rows.b)).sum(axis=1) >= -1e-12 * rows.scale
            )


def test_with_an_ample_budget_and_no_infinite_errors_all_mass_goes_to_the_best_action() -> None:
    rng = np.random.default_rng(8)
    q, b, e = (
        rng.normal(size=(200, 6)),
        rng.dirichlet(np.ones(6), 200),
        rng.uniform(0.05, 3, (200, 6)),
    )
    for lower in (False, True):
        assert_allclose(
            trade_rows(q, b, e, 1000.0, lower=lower),
            np.eye(6)[q.argmax(axis=1)],
            rtol=0,
            atol=1e-12,
        )


# What holds for every variant


@pytest.mark.parametrize("options", VARIANTS)
def test_the_rows_are_probabilities(options: dict[str, bool]) -> None:
    for rows in many(9):
        pi = trade(rows, **options)
        assert np.all(pi >= 0)
        assert_allclose(pi.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", VARIANTS)
def test_an_infinite_error_lets_nothing_rise_and_unless_lower_nothing_move(
    options: dict[str, bool],
) -> None:
    for rows in many(10):
        pi, still = trade(rows, **options), rows.up == inf
        assert np.all(pi[still] <= rows.b[still])
        if not options["lower"]:
            assert_array_equal(pi[still], rows.b[still])


@pytest.mark.parametrize("options", VARIANTS)
def test_without_a_budget_the_baseline_stays_even_where_the_error_is_zero(
    options: dict[str, bool],
) -> None:
    for rows in many(11):
        assert_array_equal(trade_rows(rows.q, rows.b, rows.up, 0.0, **options), rows.b)


@pytest.mark.parametrize("options", VARIANTS)
def test_what_may_not_rise_does_not(options: dict[str, bool]) -> None:
    for rows in many(12):
        may_rise = np.random.default_rng(13).random(rows.q.shape) < 0.5
        pi = trade(rows, may_rise=may_rise, **options)
        assert np.all(pi[~may_rise] <= rows.b[~may_rise])


@pytest.mark.parametrize("options", VARIANTS)
def test_the_advantage_is_never_negative(options: dict[str, bool]) -> None:
    for rows in many(14):
        advantage = (rows.w * (trade(rows, w=rows.w, **options) - rows.b)).sum(axis=1)
        assert np.all(advantage >= -1e-12 * (1 + np.abs(rows.w).max(axis=1)))


# The advantage account, worked


def test_a_transfer_that_lowers_w_is_limited_by_what_earlier_ones_earned() -> None:
    # Action 0 earns 1/2 by its gift to action 1; one unit from 1 to 2 costs 2 of it.
    q, b, w = np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5, 0.0]), np.array([0.0, 1.0, -1.0])
    assert_array_equal(trade_rows(q, b, np.ones(3), 100.0, w=w), [0, 0.75, 0.25])


def test_a_later_gain_does_not_finance_an_earlier_loss_as_it_does_in_the_exact_row() -> None:
    q, b, w, e = (
        np.array([0.0, 1.0, 2.0]),
        np.array([0.5, 0.5, 0.0]),
        np.array([1.0, 0.0, 0.5]),
        np.ones(3),
    )
    assert_array_equal(trade_rows(q, b, e, 100.0, w=w), [0.5, 0, 0.5])
    assert_allclose(best_guarded_rows(q, b, e, e, 100.0, [RowGuard(w)]).pi, [0, 0, 1], atol=1e-15)


# Ties


@pytest.mark.parametrize("lower", [False, True])
def test_equal_values_are_not_traded(lower: bool) -> None:
    for rows in many(15):
        assert_array_equal(
            trade_rows(np.full_like(rows.q, 0.3), rows.b, rows.up, rows.budget, lower=lower), rows.b
        )


def test_values_within_the_tolerance_are_not_traded() -> None:
    rng = np.random.default_rng(16)
    for rows in many(16):
        q = 3 + rng.uniform(0, 1e-9, rows.q.shape)
        assert_array_equal(trade_rows(q, rows.b, rows.up, rows.budget, tolerance=1e-9), rows.b)


def test_values_further_apart_than_the_tolerance_are_traded() -> None:
    q, b, e = np.array([1.0, 1.25, 1.25]), np.array([0.5, 0.25, 0.25]), np.array([1.0, 1.0, 2.0])
    assert_array_equal(trade_rows(q, b, e, 100.0, tolerance=0.125), [0, 0.75, 0.25])
    assert_array_equal(trade_rows(q, b, e, 100.0, tolerance=0.25), b)


def test_lowest_index_trades_equal_values_to_the_lowest_index_within_the_budget() -> None:
    q, b, e = np.array([2.0, 2.0, 2.0]), np.array([0.25, 0.25, 0.5]), np.ones(3)
    assert_array_equal(trade_rows(q, b, e, 100.0, lowest_index=True), [1, 0, 0])
    assert_array_equal(trade_rows(q, b, e, 0.25, lowest_index=True), [0.375, 0.125, 0.5])


def test_receivers_whose_ratios_differ_by_rounding_alone_are_equal_and_the_lowest_index_receives() -> (
    None
):
    # 9 / 15 = 3 / 5, but in floating point 9 * (1 / 30) is below 3 * (1 / 10).
    q, b, e = np.array([0.0, 9.0, 3.0]), np.array([1.0, 0.0, 0.0]), np.array([5.0, 15.0, 5.0])
    assert_allclose(trade_rows(q, b, e, 1.0), [14 / 15, 1 / 30, 1 / 30], rtol=0, atol=1e-15)


# Shapes


@pytest.mark.parametrize("lower", [False, True])
def test_batch_dimensions_are_kept_and_each_row_stands_alone(lower: bool) -> None:
    rows = random_rows(np.random.default_rng(17), 24, 5, "soft")
    q, b, e, w = (x.reshape(2, 3, 4, 5) for x in (rows.q, rows.b, rows.up, rows.w))
    pi = trade_rows(q, b, e, rows.budget.reshape(2, 3, 4), w=w, lower=lower)
    assert pi.shape == (2, 3, 4, 5)
    for i, at in enumerate(np.ndindex(2, 3, 4)):
        assert_array_equal(
            pi[at], trade_rows(q[at], b[at], e[at], float(rows.budget[i]), w=w[at], lower=lower)
        )


def test_more_rows_than_one_block_are_traded_as_if_alone() -> None:
    n = BLOCK_CELLS // 3 + 500
    rows = random_rows(np.random.default_rng(18), n, 3, "soft")
    pi, order = trade(rows, w=rows.w), np.random.default_rng(19).permutation(n)
    shuffled = rows.take(order)
    assert_array_equal(trade(shuffled, w=shuffled.w), pi[order])


@pytest.mark.parametrize("options", VARIANTS)
def test_another_array_library_gives_the_same_rows(options: dict[str, bool]) -> None:
    rows = random_rows(np.random.default_rng(20), 40, 4, "soft")
    q, b, e, budget, w = map(
        array_api_strict.asarray, (rows.q, rows.b, rows.up, rows.budget, rows.w)
    )
    assert_array_equal(
        np.asarray(trade_rows(q, b, e, budget, w=w, **options)), trade(rows, w=rows.w, **options)
    )


def test_arrays_on_another_device_stay_there() -> None:
    rows = random_rows(np.random.default_rng(21), 40, 4, "soft")
    device = array_api_strict.Device("device1")
    q, b, e = (array_api_strict.asarray(x, device=device) for x in (rows.q, rows.b, rows.up))
    assert trade_rows(q, b, e, 0.5).device == device
