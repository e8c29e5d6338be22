"""The betting bound without a cap: its capital is a supermartingale, falls in m, and its miss
rate is at most delta.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from surefoot import ParameterError, ProblemError
from surefoot.statistics import uncapped_betting
from surefoot.statistics.bounds import log_capital

POINTS = np.array([0.0, 1.0, 9.0])


def paths(chances: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(all sequences of POINTS, the probability of each)."""
    which = np.array(list(product(range(len(POINTS)), repeat=steps)))
    return POINTS[which], chances[which].prod(axis=1)


def test_the_first_bets_by_hand() -> None:
    """n = 2, delta 1/2, m = 2: bets sqrt(ln 2 / 4), then sqrt(2 ln 2 / 4), as one value has no
    scatter; z = 3, 1.
    """
    one, two = math.sqrt(math.log(2) / 4), math.sqrt(2 * math.log(2) / 4)
    assert two > 0.9 / 2  # the second is cut at the stake
    expected = np.log([1 + one * (3 - 2), (1 + one * (3 - 2)) * (1 + 0.45 * (1 - 2))])
    assert log_capital(np.array([3.0, 1.0]), 0.5, 2.0) == pytest.approx(expected)


@pytest.mark.parametrize("chances", [(0.9, 0.05, 0.05), (0.2, 0.7, 0.1), (0.05, 0.9, 0.05)])
def test_at_the_true_mean_the_capital_is_a_martingale_and_above_it_a_supermartingale(
    chances: tuple[float, ...],
) -> None:
    z, chance = paths(np.array(chances), 7)
    mean = float(np.dot(chances, POINTS))
    assert chance @ np.exp([log_capital(y, 0.1, mean) for y in z]) == pytest.approx(np.ones(7))
    above = chance @ np.exp([log_capital(y, 0.1, 1.3 * mean) for y in z])
    assert (np.diff(np.append(1.0, above)) < 0).all()


def test_the_capital_falls_in_m_so_that_what_is_refuted_is_an_interval() -> None:
    rng = np.random.default_rng(0)
    for z in (
        rng.pareto(1.5, 200),
        rng.integers(0, 2, 200) * 5.0,
        np.append(rng.random(50), 1e12),
        rng.random(3),
    ):
        capital = np.array(
            [log_capital(z, 0.05, m) for m in np.geomspace(1e-3, 1.2 * z.max(), 300)]
        )
        assert (np.diff(capital, axis=0) <= 1e-9).all()


def test_the_miss_rate_is_at_most_delta_over_all_sequences_and_no_empty_one() -> None:
    z = np.array(list(product(POINTS, repeat=7)))
    value = np.array([uncapped_betting(y - 4, 0.2, lo=-4).low for y in z])
    found = []
    for q in np.linspace(0.02, 0.9, 23):
        for rest in (0.1, 0.5, 0.9):
            chances = np.array([q, (1 - q) * rest, (1 - q) * (1 - rest)])
            chance = chances[np.searchsorted(POINTS, z)].prod(axis=1)
            found.append(chance[value > chances @ POINTS - 4].sum())
    assert max(found) <= 0.2
    assert max(found) > 0.2 / 3


def test_values_whose_means_change_with_the_past_but_stay_at_most_m_are_covered() -> None:
    """A gain of mean 0 whose size depends on what came before: no later value has a mean above
    0.
    """
    rng, trials, wrong = np.random.default_rng(1), 600, 0
    for _ in range(trials):
        x = np.zeros(60)
        for i in range(60):
            p = 0.02 if x[:i].sum() > 0 else 0.5  # after a win: rare, large gains
            x[i] = (1 - p) / p if rng.random() < p else -1.0
        wrong += uncapped_betting(x, 0.1, lo=-1).low > 0
    assert wrong <= binom.ppf(0.99, trials, 0.1)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_the_bound_moves_with_shift_and_scale(scale: float) -> None:
    x = np.random.default_rng(0).pareto(2, 80)
    plain = uncapped_betting(x, 0.05, lo=0).low
    assert 0 < plain < x.mean()
    assert uncapped_betting(scale * (x - 7), 0.05, lo=-7 * scale).low == pytest.approx(
        scale * (plain - 7)
    )


def test_a_larger_value_in_the_last_place_never_lowers_the_bound_whatever_its_size() -> None:
    x = np.random.default_rng(0).random(49)
    found = [
        uncapped_betting(np.append(x, last), 0.05, lo=0).low
        for last in (0.0, 1.0, 50.0, 1e12, 1e260)
    ]
    assert found == pytest.approx(sorted(found))
    assert math.isfinite(found[-1])


def test_floors_that_differ_are_each_their_own_and_equal_ones_are_one() -> None:
    rng = np.random.default_rng(4)
    x, lo = rng.random(60) - 0.3, np.where(np.arange(60) % 2, -0.5, -2.0)
    found = uncapped_betting(x, 0.05, lo=lo).low
    low, high = (uncapped_betting(x, 0.05, lo=y).low for y in (-2.0, -0.5))
    assert low < found < high
    assert uncapped_betting(x, 0.05, lo=np.full(60, -0.5)).low == pytest.approx(high)
    z, m = np.array([3.0, 5.0]), np.array([2.0, 4.0])  # x - mu is 1 and 1: no scatter
    one, two = (math.sqrt(k * math.log(2) / y**2) for k, y in ((1, 2), (2, 4)))
    expected = np.cumsum(np.log1p([min(one, 0.45), min(two, 0.225)]))
    assert log_capital(z, 0.5, m) == pytest.approx(expected)
    with pytest.raises(ProblemError, match=r"below lo = -0.5, entry 1 is -1 \(1 such"):
        uncapped_betting([0.0, -1.0], 0.05, lo=np.array([-2.0, -0.5]))


def test_nothing_is_refuted_by_values_at_the_floor_and_wrong_input_is() -> None:
    assert uncapped_betting(np.zeros(50), 0.05, lo=0).low == 0.0
    assert uncapped_betting([3.0], 0.05, lo=-2.0).low >= -2.0
    with pytest.raises(ProblemError, match=r"below lo = 0, entry 1 is -1 \(1 such"):
        uncapped_betting([1.0, -1.0], 0.05, lo=0.0)
    with pytest.raises(ParameterError, match="lo must be a finite number"):
        uncapped_betting([1.0, 2.0], 0.05, lo=-math.inf)


@pytest.mark.slow
def test_importance_weights_of_ten_steps_are_missed_at_most_a_delta_share() -> None:
    rng, trials = np.random.default_rng(3), 2_000
    wrong = 0
    for _ in range(trials):
        w = np.where(rng.random((100, 10)) < 0.2, 4.0, 0.25).prod(axis=1)  # mean 1, largest 4^10
        wrong += uncapped_betting((w - 1) * (rng.random(100) < 0.5), 0.05, lo=-1).low > 0
    assert wrong <= binom.ppf(0.99, trials, 0.05)
