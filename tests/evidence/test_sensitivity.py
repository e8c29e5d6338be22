"""The marginal sensitivity model in one cell: the closed form is the linear program's answer, a
confounder of that strength can make it true, and none can go below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from surefoot.core.errors import ParameterError
from surefoot.statistics.lowest_mean import cross_fitted_tail, lowest_mean, worst

outcomes = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 4)), min_size=1, max_size=9).map(
    lambda x: (np.array([z / 4 for z, _ in x]), np.array([float(m) for _, m in x]))
)


def by_program(z: np.ndarray, mass: np.ndarray, b: float, strength: float) -> float:
    """min E[w z] over weights of mean 1 that odds within the strength allow."""
    share = mass / mass.sum()
    limits = (b + (1 - b) / strength, b + (1 - b) * strength)
    found = linprog(share * z, A_eq=[share], b_eq=[1.0], bounds=[limits] * len(z))
    assert found.status == 0
    return float(found.fun)


@given(outcomes, st.floats(0, 1), st.floats(1, 20))
def test_the_closed_form_is_what_the_linear_program_finds(
    data: tuple[np.ndarray, np.ndarray], b: float, strength: float
) -> None:
    z, mass = data
    expected = by_program(z, mass, b, strength)
    assert lowest_mean(z, b, strength, mass) == pytest.approx(expected, abs=1e-7)


@given(outcomes, st.floats(0.05, 0.95), st.floats(1, 5))
def test_the_weights_are_those_of_a_confounder_of_this_strength(
    data: tuple[np.ndarray, np.ndarray], b: float, strength: float
) -> None:
    z, mass = data
    found = worst(z, np.zeros(len(z), dtype=int), mass, np.array([b]), strength)
    w, share = found.weight, mass / mass.sum()
    assert share @ w == pytest.approx(1)
    assert share @ (w * z) == pytest.approx(found.bound[0])
    e = b / w  # the propensity that each weight stands for
    odds = e / (1 - e) / (b / (1 - b))
    assert (odds <= strength * (1 + 1e-9)).all()
    assert (odds >= (1 - 1e-9) / strength).all()


def test_cells_do_not_mix() -> None:
    rng = np.random.default_rng(0)
    z, cell = rng.normal(size=200), rng.integers(0, 7, 200)
    mass, b = rng.integers(1, 4, 200).astype(float), rng.random(8)
    found = worst(z, cell, mass, b, 1.7)
    for c in range(7):
        mine = cell == c
        assert found.bound[c] == pytest.approx(by_program(z[mine], mass[mine], b[c], 1.7))
    again = worst(z, cell, mass, b, 1.7, order=rng.permutation(200))
    assert np.allclose(found.weight, again.weight)


def test_strength_1_is_the_mean_and_a_certain_action_cannot_be_confounded() -> None:
    z = np.array([3.0, 1.0, 7.0, 2.0])
    assert lowest_mean(z, 0.4, 1) == pytest.approx(z.mean())
    assert lowest_mean(z, 1.0, 50) == pytest.approx(z.mean())


def test_a_severity_that_is_the_outcome_meets_the_bound() -> None:
    # P(u = 1) and P(a = 1 | u) have odds of exactly 2 and 1/2 times those of b = 0.3
    odds = 0.3 / 0.7 * np.array([0.5, 2.0])
    e = odds / (1 + odds)
    p = (0.3 - e[0]) / (e[1] - e[0])
    of_taken = p * e[1] / 0.3  # P(u = 1 | a = 1), the mean outcome that the log shows
    bound = lowest_mean(np.array([0.0, 1.0]), 0.3, 2, np.array([1 - of_taken, of_taken]))
    assert bound == pytest.approx(p)  # the mean outcome if everybody were treated
    assert of_taken > p + 0.2


def test_the_cross_fitted_tail_is_not_too_mild_where_the_plain_one_is() -> None:
    rng = np.random.default_rng(1)
    cell, odd = np.repeat(np.arange(4000), 20), np.tile([True, False], 40000)
    z, mass = (rng.random(80000) < 2 / 3) * 1.0, np.ones(80000)  # the lowest third is 0 throughout
    plain = worst(z, cell, mass, np.zeros(4000), 2.0).tail.mean()
    fitted = cross_fitted_tail(z, cell, mass, odd, 4000, 2.0).mean()
    assert plain > 0.05
    assert fitted < 0.01
    smooth = rng.normal(size=80000)
    true = -1.0908  # of the lowest third of a standard normal distribution
    fitted = cross_fitted_tail(smooth, cell, mass, odd, 4000, 2.0).mean()
    assert true - 0.15 < fitted < true + 0.01


def test_a_cell_that_lacks_a_part_has_no_cross_fitted_tail() -> None:
    found = cross_fitted_tail(
        np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1]), np.ones(3), np.array([True, False, True]),
        3, 2.0,
    )  # fmt: skip
    assert np.isnan(found).tolist() == [False, True, True]


@pytest.mark.parametrize("strength", [0.99, 0, -2, float("nan"), float("inf"), "2", True, None])
def test_a_strength_that_is_none_is_refused(strength: Any) -> None:
    with pytest.raises(ParameterError, match="number >= 1"):
        lowest_mean(np.array([1.0, 2.0]), 0.5, strength)


@pytest.mark.parametrize(("z", "b"), [([], 0.5), ([1, np.nan], 0.5), ([1, 2], 1.5)])
def test_outcomes_and_probabilities_that_are_none_are_refused(z: Any, b: float) -> None:
    with pytest.raises(ParameterError):
        lowest_mean(np.array(z), b, 2)


def test_an_order_spares_sorting_and_changes_no_tail() -> None:
    rng = np.random.default_rng(2)
    cell, z, mass = rng.integers(0, 9, 500), rng.normal(size=500).round(1), rng.random(500) + 0.1
    odd = rng.random(500) < 0.4
    order = np.lexsort((z, cell))
    plain, sorted_ = (cross_fitted_tail(z, cell, mass, odd, 9, 1.7, x) for x in (None, order))
    assert np.allclose(plain, sorted_, rtol=1e-12, atol=0)
