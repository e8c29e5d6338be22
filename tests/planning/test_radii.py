"""Radii: exact miss rates in the worst case, a checker that is itself checked, and the beta
radius shown to miss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from surefoot.planning import e_b, e_q
from surefoot.statistics import radii

SIZES = (2, 3, 5, 8, 13, 21, 36, 55, 90, 144, 233, 377, 610, 1000)
DELTAS = (0.05, 0.2)
Radius = Callable[
    [int, np.ndarray, float], np.ndarray
]  # (n, k, delta) -> the radius of the mean k/n of draws of 0 and 1

ON_A_MEAN: dict[str, Radius] = {
    "hoeffding": lambda n, k, delta: radii.hoeffding(np.full(len(k), float(n)), delta),
    "empirical-bernstein": lambda n, k, delta: radii.empirical_bernstein(
        np.full(len(k), float(n)), k * (n - k) / (n * (n - 1)), delta
    ),
    "any-time": lambda n, k, delta: radii.any_time(np.full(len(k), float(n)), delta),
    # Half the L1 distance of a row with two successors.
    "weissman": lambda n, k, delta: (
        radii.ROW_RADII["weissman"](np.full(len(k), float(n)), delta, 2) / 2
    ),
    "two-successor": lambda n, k, delta: (
        radii.ROW_RADII["two-successor"](np.full(len(k), float(n)), delta, 2) / 2
    ),
    "clopper-pearson": lambda n, k, delta: (
        radii.ROW_RADII["clopper-pearson"](np.full(len(k), float(n)), delta, 2) / 2
    ),
}
BETA: Radius = lambda n, k, delta: radii.beta(np.full(len(k), float(n)), delta)  # noqa: E731


@cache
def worst_miss(radius: Radius, n: int, delta: float) -> float:
    """max_p P( |k/n - p| > radius ), by binomial sums: p on a grid, and just beyond each k/n +-
    radius, where the rate jumps up.
    """
    k = np.arange(n + 1)
    r = np.broadcast_to(radius(n, k, delta), k.shape)
    edges = np.concatenate([k / n + r + 1e-12, k / n - r - 1e-12])
    p = np.concatenate([np.linspace(0, 1, 101), edges[(edges >= 0) & (edges <= 1)]])
    if n > 400:
        p = np.concatenate([p[:101], p[101:][:: max(1, len(p) // 400)]])
    misses = abs(k / n - p[:, None]) > r
    return float((binom.pmf(k, n, p[:, None]) * misses).sum(axis=1).max())


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", ON_A_MEAN)
def test_in_the_worst_case_a_radius_misses_with_probability_delta_at_most(
    name: str, delta: float
) -> None:
    assert max(worst_miss(ON_A_MEAN[name], n, delta) for n in SIZES) <= delta


MUTANTS: dict[str, Radius] = {
    "Hoeffding, half the range left out": lambda n, k, delta: (
        ON_A_MEAN["hoeffding"](n, k, delta) / 2
    ),
    "Hoeffding, factor 2 under the root left out": lambda n, k, delta: np.full(
        len(k), np.sqrt(np.log(2 / delta) / (4 * n))
    ),
    "Hoeffding, root left out": lambda n, k, delta: np.full(len(k), np.log(2 / delta) / (2 * n)),
    "empirical Bernstein, leading factor 2 left out": lambda n, k, delta: (
        ON_A_MEAN["empirical-bernstein"](n, k, delta) / 2
    ),
    "empirical Bernstein, root left out": lambda n, k, delta: (
        2 * k * (n - k) / n**3 * np.log(4 / delta) + 7 * np.log(4 / delta) / (3 * (n - 1))
    ),
    "empirical Bernstein, second term left out": lambda n, k, delta: np.sqrt(
        2 * k * (n - k) / (n * n * (n - 1)) * np.log(4 / delta)
    ),
    "any time, root left out": lambda n, k, delta: ON_A_MEAN["any-time"](n, k, delta) ** 2,
    "Weissman, factor 2 left out": lambda n, k, delta: (
        ON_A_MEAN["weissman"](n, k, delta) / np.sqrt(2)
    ),
    "Weissman, root left out": lambda n, k, delta: np.full(len(k), np.log(2 / delta) / n),
    "two successors, L1 taken for one side": lambda n, k, delta: (
        ON_A_MEAN["two-successor"](n, k, delta) / 2
    ),
    "Clopper-Pearson, delta not halved": lambda n, k, delta: ON_A_MEAN["clopper-pearson"](
        n, k, min(2 * delta, 0.999)
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_check_turns_red_for_a_radius_with_a_factor_left_out(name: str) -> None:
    assert any(worst_miss(MUTANTS[name], n, delta) > delta for delta in DELTAS for n in SIZES)


@pytest.mark.parametrize("g_max", [0.5, 40.0])
def test_radii_of_returns_scale_with_the_range(g_max: float) -> None:
    """Returns in {-g_max, g_max}: a radius with the range left out would be red for one of the
    two.
    """
    n = np.array([7.0, 300.0])
    assert np.allclose(radii.hoeffding(n, 0.1, 2 * g_max), g_max * np.sqrt(2 / n * np.log(2 / 0.1)))
    assert np.allclose(radii.any_time(n, 0.1, 2 * g_max), 2 * g_max * radii.any_time(n, 0.1))
    variance = np.array([0.2, 0.1])
    for radius in (radii.empirical_bernstein, radii.any_time_bernstein):
        wide = radius(n, variance * (2 * g_max) ** 2, 0.1, 2 * g_max)
        assert np.allclose(wide, 2 * g_max * radius(n, variance, 0.1))


@pytest.mark.parametrize("g_max", [5.0])
def test_the_check_turns_red_where_g_max_is_left_out(g_max: float) -> None:
    left_out: Radius = lambda n, k, delta: (  # noqa: E731
        radii.hoeffding(np.full(len(k), float(n)), delta, 2.0) / (2 * g_max)
    )
    assert worst_miss(left_out, 100, 0.2) > 0.2


def ever_missed(radius: Callable[[np.ndarray], np.ndarray], p: float, n_max: int) -> float:
    """P( |S_n/n - p| > radius(n) for some n <= n_max ), exactly: the walk of S_n, absorbed where
    it misses.
    """
    n = np.arange(1.0, n_max + 1)
    r = radius(n)
    alive = np.zeros(n_max + 2)
    alive[0] = 1.0
    k = np.arange(n_max + 2)
    for i in range(n_max):
        alive = alive * (1 - p) + np.concatenate([[0.0], alive[:-1]]) * p
        alive = np.where(abs(k / n[i] - p) > r[i], 0.0, alive)
    return float(1 - alive.sum())


@pytest.mark.parametrize("delta", DELTAS)
def test_the_any_time_radius_and_the_union_over_n_miss_at_any_n_at_all_with_probability_delta_at_most(
    delta: float,
) -> None:
    for p in (0.02, 0.1, 0.3, 0.5):
        assert ever_missed(lambda n: radii.any_time(n, delta), p, 1000) <= delta
        assert ever_missed(lambda n: radii.hoeffding(n, radii.spent_at(n, delta)), p, 1000) <= delta


def test_a_radius_for_a_fixed_number_of_draws_misses_more_often_when_the_number_may_depend_on_them() -> (
    None
):
    assert ever_missed(lambda n: radii.hoeffding(n, 0.2), 0.5, 1000) > 0.2


def test_radii_are_their_formulas_and_the_papers_error_functions_are_radii_of_returns() -> None:
    """e g_max is the radius at delta / (S A) of returns in a range of 2 g_max."""
    n, variance, delta, g_max = np.array([5.0, 80.0]), np.array([0.4, 0.03]), 0.07, 13.0
    log = np.log(4 / delta)
    assert np.allclose(
        radii.empirical_bernstein(n, variance, delta),
        np.sqrt(2 * variance * log / n) + 7 * log / (3 * (n - 1)),
    )
    assert np.allclose(radii.hoeffding(n, delta), np.sqrt(np.log(2 / delta) / (2 * n)))
    spread = np.log((n + 10) / 10) + 2 * np.log(1 / delta)
    assert np.allclose(radii.any_time(n, delta), np.sqrt((n + 10) * spread) / (2 * n))
    wide = variance * (2 * g_max) ** 2
    assert np.allclose(g_max * e_q(n, 5, 3, delta), radii.hoeffding(n, delta / 15, 2 * g_max))
    assert np.allclose(
        g_max * e_b(n, wide, 5, 3, delta, g_max),
        radii.empirical_bernstein(n, wide, delta / 15, 2 * g_max),
    )


def squares(x: np.ndarray, middle: float) -> list[float]:
    """sum over i <= n of (x_i - (middle + x_1 + ..

    + x_{i-1}) / i)^2 for every n, by a plain loop.
    """
    found, total = [0.0], middle
    for i, y in enumerate(x, start=1):
        found.append(found[-1] + (y - total / i) ** 2)
        total += y
    return found[1:]


def test_the_any_time_bernstein_radius_is_the_least_over_its_tilts() -> None:
    n, variance, delta, width = 40.0, 0.3, 0.07, 3.0
    each = [
        width
        / n
        * (np.log(2 * len(radii.TILTS) / delta) + (-np.log(1 - x) - x) * n * variance / width**2)
        / x
        for x in radii.TILTS
    ]
    assert float(
        radii.any_time_bernstein(np.array(n), np.array(variance), delta, width)
    ) == pytest.approx(min(each), rel=1e-12)


@pytest.mark.parametrize("tilt", radii.TILTS)
def test_the_step_of_the_any_time_bernstein_proof_holds_for_all_two_point_draws_and_no_smaller_psi_would_do(
    tilt: float,
) -> None:
    """E exp( tilt (x - m) - psi (x - m)^2 ) <= 1 + tilt (mu - m)  for x in [0, 1], m a guess in
    [0, 1]; equality at x = 0, m = 1.
    """
    p, low, high, guess = np.meshgrid(*[np.linspace(0, 1, 21)] * 4, indexing="ij")
    psi = -np.log(1 - tilt) - tilt

    def excess(psi: float) -> float:
        above, below = (np.exp(tilt * (x - guess) - psi * (x - guess) ** 2) for x in (high, low))
        return float(
            (p * above + (1 - p) * below - (1 + tilt * (p * high + (1 - p) * low - guess))).max()
        )

    assert excess(psi) <= 1e-12
    assert excess(0.97 * psi) > 0


def test_squares_in_order_are_those_of_a_loop_in_every_group() -> None:
    rng = np.random.default_rng(0)
    group, x = rng.integers(0, 4, 200), 50 + rng.random(200)
    found = radii.squares_in_order(group, x, 5, 7.0)
    for k in range(4):
        assert found[k] == pytest.approx(squares(x[group == k], 7.0)[-1], rel=1e-10)
    assert found[4] == 0
    assert radii.squares_in_order(group[:0], x[:0], 2, 7.0).tolist() == [0, 0]


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5])
def test_the_any_time_bernstein_radius_misses_at_any_n_at_all_with_probability_delta_at_most(
    p: float,
) -> None:
    """Draws of 0 and 1, 600 walks of 1,000 steps; a third of the radius misses more often, so
    that this can fail.
    """
    delta, walks, n = 0.2, 600, np.arange(1.0, 1001)
    x = (np.random.default_rng(1).random((walks, 1000)) < p).astype(float)
    before = np.cumsum(x, axis=1) - x
    v = np.cumsum((x - (0.5 + before) / n) ** 2, axis=1)
    r = radii.any_time_bernstein(np.broadcast_to(n, x.shape), v / n, delta)
    error = abs(np.cumsum(x, axis=1) / n - p)
    assert (error > r).any(axis=1).mean() <= delta
    assert (error > r / 3).any(axis=1).mean() > delta


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("n", [2, 5, 12, 30])
def test_weissmans_radius_holds_for_three_successors(n: int, delta: float) -> None:
    i, j = np.mgrid[0 : n + 1, 0 : n + 1]
    inside = i + j <= n
    counts = np.stack([i[inside], j[inside], n - i[inside] - j[inside]], axis=-1)
    r = float(radii.weissman(np.array(float(n)), delta, 3))
    for p in (
        (1 / 3, 1 / 3, 1 / 3),
        (0.5, 0.5, 0.0),
        (0.8, 0.1, 0.1),
        (0.98, 0.01, 0.01),
        (0.6, 0.3, 0.1),
    ):
        misses = abs(counts / n - np.array(p)).sum(axis=-1) > r
        assert multinomial.pmf(counts[misses], n, p).sum() <= delta


def test_the_two_successor_radius_is_no_bound_on_a_row_with_many_successors() -> None:
    """n draws from m equally likely successors leave at least m - n of them unseen: the distance
    is 2 (m - n) / m at least, always.
    """
    n, m = 50, 1000
    assert 2 * (m - n) / m > float(radii.two_successor(np.array(float(n)), 1e-5))
    assert float(radii.weissman(np.array(float(n)), 1e-5, m)) == 2.0


@pytest.mark.parametrize(
    ("n", "times"), [(5, 6292), (10, 469), (36, 15), (90, 3.1), (191, 1.7), (394, 1.4)]
)
def test_the_beta_radius_misses_many_times_delta_at_small_n(n: int, times: float) -> None:
    """delta = 0.1 over 25 states and 4 actions squared, as in More for Less: 1e-5 a pair."""
    assert worst_miss(BETA, n, 1e-5) / 1e-5 == pytest.approx(times, rel=0.05)


@pytest.mark.parametrize("n", [5, 36, 90, 394])
def test_clopper_pearson_holds_where_beta_misses_and_is_never_above_hoeffding(n: int) -> None:
    assert worst_miss(ON_A_MEAN["clopper-pearson"], n, 1e-5) <= 1e-5
    assert radii.clopper_pearson(np.array(n), 1e-5) <= radii.hoeffding(np.array(float(n)), 1e-5)


def test_clopper_pearson_is_the_formula_over_all_k_and_both_sides() -> None:
    from scipy.stats import beta

    n, delta = 23, 0.03
    k = np.arange(n + 1)
    below = k / n - np.where(k == 0, 0, beta.ppf(delta / 2, np.maximum(k, 1), n - k + 1))
    above = np.where(k == n, 1, beta.ppf(1 - delta / 2, k + 1, np.maximum(n - k, 1))) - k / n
    assert radii.clopper_pearson(np.array(n), delta) == pytest.approx(
        max(below.max(), above.max()), abs=1e-12
    )
    assert radii.clopper_pearson(np.array([36]), 1e-5)[0] == pytest.approx(0.376, abs=5e-4)


def test_without_draws_a_radius_is_as_large_as_can_be() -> None:
    nothing = np.array([0.0, 1.0])
    assert radii.hoeffding(nothing, 0.1)[0] == radii.any_time(nothing, 0.1)[0] == np.inf
    assert (radii.empirical_bernstein(nothing, nothing, 0.1) == np.inf).all()
    assert radii.any_time_bernstein(nothing, nothing, 0.1)[0] == np.inf
    assert all(float(radius(nothing, 0.1, 3)[0]) == 2.0 for radius in radii.ROW_RADII.values())


def test_a_union_over_n_spends_delta_in_all() -> None:
    assert radii.spent_at(np.arange(1.0, 10**6), 0.1).sum() == pytest.approx(0.1, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", ON_A_MEAN)
def test_at_no_number_of_draws_up_to_200_a_radius_misses_more_often(
    name: str, delta: float
) -> None:
    assert max(worst_miss(ON_A_MEAN[name], n, delta) for n in range(2, 201)) <= delta


def ever_above(log: float, bet: float, p: float, n_max: int) -> float:
    """P( betting_lower > p at some n <= n_max ), exactly, for draws of 0 and 1: the walk of S_n,
    absorbed where the capital against p is large enough. (That the bound is where the capital is
    just that is a test of its own.)
    """
    alive, k = np.eye(1, n_max + 2)[0], np.arange(n_max + 2.0)
    for n in np.arange(1.0, n_max + 1):
        alive = alive * (1 - p) + np.concatenate([[0.0], alive[:-1]]) * p
        capital = k * np.log(1 + bet * (1 - p)) + (n - k) * np.log(1 - bet * p)
        alive = np.where(capital >= log, 0.0, alive)
    return float(1 - alive.sum())


@pytest.mark.parametrize("bet", [0.4, 0.7, 0.95])
def test_the_lower_bound_of_bets_is_above_the_mean_at_any_n_at_all_with_probability_delta_at_most(
    bet: float,
) -> None:
    chances = (0.01, 0.05, 0.2, 0.5, 0.9)
    for delta in DELTAS:
        assert max(ever_above(np.log(1 / delta), bet, p, 600) for p in chances) <= delta
        # and it is hardly less: were ln(1/delta) a fifth smaller, it would be more
        assert max(ever_above(0.8 * np.log(1 / delta), bet, p, 600) for p in chances) > delta


def test_the_lower_bound_of_bets_is_the_largest_mean_against_which_enough_is_won() -> None:
    """Three groups of draws, each above its own floor; every mean on a fine grid, by a loop."""
    rng = np.random.default_rng(0)
    group, log = rng.integers(0, 3, 200), 3.0
    floor, bet = np.array([-1.5, 0.0, -20.0, 1.0]), np.array([0.4, 0.9, 0.04, 0.5])
    x = np.maximum(rng.normal(0.7, 0.3, 200), floor[group])
    found = radii.betting_lower(group, x, log, bet, floor)
    for k in range(3):
        m = np.linspace(floor[k], floor[k] + 0.999 / bet[k], 100_001)
        capital = sum(np.log(1 + bet[k] * (y - m)) for y in x[group == k])
        assert capital[0] >= log
        assert found[k] == pytest.approx(m[capital >= log].max(), abs=2 * (m[1] - m[0]))
        assert found[k] < x[group == k].mean()
    assert found[3] == 1  # no draws: nothing is said
    few = radii.betting_lower(group[:6], x[:6], log, np.array([0.1] * 4), floor)
    assert np.array_equal(few, floor)  # too little can be won
    twice = radii.betting_lower(np.tile(group, 2), np.tile(x, 2), log, bet, floor)
    assert np.allclose(twice, radii.betting_lower(group, x, log, bet, floor, 2.0))


def test_a_draw_that_could_take_all_rejects_nothing() -> None:
    """A value below the floor, as the end of an interval may have: the bound stays where the
    capital is positive.
    """
    found = radii.betting_lower(
        np.zeros(50, dtype=int), np.append(np.ones(49), -3.0), 1.0, np.array([0.9]), np.array([0.0])
    )
    assert found == 0


def test_the_best_bet_has_the_smallest_radius_of_those_tried_to_second_order() -> None:
    n, variance, width = np.array([20.0, 4000.0]), np.array([0.1, 0.1]), np.array([2.0, 2.0])
    bet, radius = radii.best_bet(n, variance, 3.0, width)
    assert bet[0] > bet[1]
    for other in radii.STEPS / 2.0:
        won = n * (other * radius - 0.5 * other**2 * (variance + radius**2))
        assert (won <= 3.0 + 1e-9).all()
    won = n * (bet * radius - 0.5 * bet**2 * (variance + radius**2))
    assert np.allclose(won, 3.0)
    # in truth: the bound of a large sample lies about so far below its mean
    x = np.random.default_rng(0).normal(1.5, np.sqrt(0.1), 4000).clip(-0.5)
    lower = radii.betting_lower(np.zeros(4000, dtype=int), x, 3.0, bet[1:], np.array([-0.5]))
    assert x.mean() - lower[0] == pytest.approx(radius[1], rel=0.2)
