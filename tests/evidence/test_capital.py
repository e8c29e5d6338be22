"""The any-time capital: a supermartingale under "the mean is at most 0", so that it reaches 1/alpha
with probability at most alpha over all times; batches do not matter.
"""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from surefoot.core.errors import ParameterError, ProblemError
from surefoot.statistics.bounds import SHARES, Capital, capital_of

POINTS = np.array([-1.0, 0.5, 4.0])


def means(chances: tuple[float, ...], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(all sequences of POINTS, the probability of each)."""
    which = np.array(list(product(range(3), repeat=steps)))
    return POINTS[which], np.array(chances)[which].prod(axis=1)


def path(x: np.ndarray) -> np.ndarray:
    """K_1, K_2, ... by their definition, one value and one gambler at a time."""
    found, have = [], [1.0] * 10
    for value in x:
        have = [k * (1 + 0.9 * 0.5**i * value) for i, k in enumerate(have)]
        found.append(sum(have) / 10)
    return np.array(found)


def test_the_capital_is_that_of_ten_gamblers_who_never_change_their_stake() -> None:
    x = np.random.default_rng(0).choice(POINTS, 40)
    found = Capital().after(x, -1.0, 0.05)
    assert math.exp(found.now) == pytest.approx(path(x)[-1])
    assert math.exp(found.highest) == pytest.approx(max(1.0, path(x).max()))
    reached = np.flatnonzero(path(x) >= 20)
    assert found.reached_at == (int(reached[0]) + 1 if len(reached) else None)
    assert (found.n, found.total) == (40, pytest.approx(x.sum()))
    assert pytest.approx([0.9 * 0.5**k for k in range(10)]) == SHARES


@pytest.mark.parametrize(
    ("chances", "sign"), [((0.8, 0.0, 0.2), 0), ((0.5, 0.45, 0.05), -1), ((0.6, 0.2, 0.2), 1)]
)
def test_its_mean_stays_1_at_a_mean_of_0_and_falls_below(
    chances: tuple[float, ...], sign: int
) -> None:
    x, chance = means(chances, 6)
    mean = chance @ np.array([path(row) for row in x])
    assert np.sign(np.dot(chances, POINTS).round(9)) == sign
    steps = np.diff(np.append(1.0, mean))
    assert (np.sign(steps.round(12)) == sign).all()


def test_it_reaches_its_target_at_any_time_with_probability_at_most_alpha() -> None:
    """Over all sequences of seven values with means up to 0: never more than alpha, and not never."""
    x = np.array(list(product(range(3), repeat=7)))
    alpha = 0.3
    hit = np.array([Capital().after(POINTS[row], -1.0, alpha).reached_at is not None for row in x])
    worst = 0.0
    for high in np.linspace(0.0, 0.2, 21):
        for low in np.linspace(0.5, 0.8, 13):
            chances = np.array([low, 1 - low - high, high])
            if chances[1] < 0 or chances @ POINTS > 1e-12:
                continue
            worst = max(worst, float(chances[x].prod(axis=1)[hit].sum()))
    assert alpha / 10 < worst <= alpha


@pytest.mark.parametrize("cuts", [(1, 2, 3), (50,), (17, 17, 60)])
def test_batches_do_not_matter(cuts: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).choice(POINTS, 80, p=[0.6, 0.1, 0.3])
    whole, found = Capital().after(x, -1.0, 0.01), Capital()
    for part in np.split(x, cuts):
        found = found.after(part, -1.0, 0.01)
        found = capital_of(json.loads(json.dumps(found.document())))
    assert found.logs == pytest.approx(whole.logs)
    assert (found.n, found.reached_at) == (whole.n, whole.reached_at)
    assert found.highest == pytest.approx(whole.highest)


def test_twenty_looks_at_growing_logs_without_a_gain_are_wrong_at_most_delta() -> None:
    """And repeated one-shot bounds are not; weights up to 19."""
    from surefoot.statistics.bounds import log_capital

    rng, logs, delta, wrong, naive = np.random.default_rng(2), 300, 0.1, 0, 0
    for _ in range(logs):
        new = rng.random(1000) < 0.05
        x = (np.where(new, 19.0, 0.05 / 0.95) - 1) * (rng.random(1000) < 0.4)
        wrong += Capital().after(x, -1.0, delta).reached_at is not None
        naive += any(
            log_capital(x[:n] + 1, delta, 1.0).max() >= math.log(1 / delta)
            for n in range(50, 1001, 50)
        )
    assert 0 < wrong <= binom.ppf(0.99, logs, delta) < naive


def test_huge_values_raise_it_and_values_below_the_floor_are_refused() -> None:
    assert Capital().after(np.array([1e260]), -1.0, 0.05).reached_at == 1
    with pytest.raises(ProblemError, match=r"below -1, entry 1 is -2 \(1 such"):
        Capital().after(np.array([0.0, -2.0]), -1.0, 0.05)
    for lo in (0.0, -math.inf):
        with pytest.raises(ParameterError, match="needs a floor below 0"):
            Capital().after(np.array([1.0]), lo, 0.05)
    with pytest.raises(ProblemError, match="10 finite numbers"):
        capital_of(Capital().document() | {"sum": math.nan})
