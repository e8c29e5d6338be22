"""Mean, CVaR, the share below the baseline and paired differences, and the coverage of their
bootstrap intervals.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.effort import few
from surefoot.core.errors import ParameterError, ProblemError
from surefoot.statistics import metrics
from surefoot.statistics.metrics import (
    CVAR,
    MEAN,
    Bootstrapped,
    Contrast,
    Intervals,
    contrast,
    cvar,
    mean_and_cvar,
    worse_than_baseline,
)

FEW = Intervals(resamples=50)
A_MINUS_B: Contrast = ((0, 1.0), (1, -1.0))
B_MINUS_A: Contrast = ((1, 1.0), (0, -1.0))


def differences(score: np.ndarray, one: Contrast) -> tuple[Bootstrapped, Bootstrapped]:
    return contrast(score, [one], MEAN), contrast(score, [one], CVAR)


def skewed(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return -rng.exponential(size=shape)


def covered(n: int, alpha: float, samples: int, metric: int) -> float:
    """The share of samples of a skewed distribution whose interval holds the true value; fifty
    samples share their resamples.
    """
    rng = np.random.default_rng(5)
    true = -1.0 if metric == 0 else math.log(alpha) - 1.0
    hits = 0
    for seed in range(samples // 50):
        low, high = mean_and_cvar(skewed(rng, 50, n), Intervals(alpha, 400, seed))[
            metric
        ].interval()
        hits += int(np.count_nonzero((low <= true) & (true <= high)))
    return hits / samples


def test_cvar_weights_the_last_trial_by_its_fraction() -> None:
    x = np.arange(55.0)[::-1]
    assert cvar(x, 0.1) == pytest.approx((0 + 1 + 2 + 3 + 4 + 0.5 * 5) / 5.5)


@given(st.lists(st.floats(-100, 100), min_size=10, max_size=60), st.floats(0.5, 1.0))
def test_cvar_is_the_mean_of_the_worst_share_taken_one_trial_at_a_time(
    x: list[float], alpha: float
) -> None:
    left, total = alpha * len(x), 0.0
    for value in sorted(x):
        total += min(1.0, left) * value
        left -= min(1.0, left)
    assert cvar(np.array(x), alpha) == pytest.approx(total / (alpha * len(x)), abs=1e-9)


def test_cvar_of_everything_is_the_mean() -> None:
    x = skewed(np.random.default_rng(0), 3, 40)
    assert cvar(x, 1.0) == pytest.approx(x.mean(axis=1))


@pytest.mark.parametrize(("n", "alpha"), [(500, 0.01), (100, 0.05), (1000, 0.005)])
def test_cvar_is_reported_from_five_trials_on(n: int, alpha: float) -> None:
    assert np.isfinite(cvar(np.zeros(n), alpha))
    assert np.isnan(cvar(np.zeros(n - 1), alpha))
    assert np.isnan(mean_and_cvar(np.zeros((1, n - 1)), Intervals(alpha, 10))[1].interval()).all()


def test_a_missing_score_raises_and_says_where() -> None:
    score = np.zeros((2, 600))
    score[1, 7] = np.nan
    for judged in (
        lambda: cvar(score),
        lambda: mean_and_cvar(score),
        lambda: worse_than_baseline(score, np.zeros((2, 600))),
    ):
        with pytest.raises(ProblemError, match=r"score \[1, 7\] is nan"):
            judged()


@pytest.mark.parametrize(
    ("word", "wrong"),
    [("alpha", {"alpha": 0.0}), ("resamples", {"resamples": 0}), ("level", {"level": 1.0})],
)
def test_a_wrong_parameter_raises(word: str, wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=word):
        mean_and_cvar(np.zeros((1, 600)), Intervals(**wrong))  # type: ignore[arg-type]


def test_an_unknown_metric_raises() -> None:
    with pytest.raises(ParameterError, match="metric"):
        contrast(np.zeros((1, 600)), [((0, 1.0),)], "median")


def test_worse_than_the_baseline_is_strict_and_ignores_rounding() -> None:
    baseline = np.full(8, 30.0)
    score = np.array([29.0, 30.0, 31.0, 30.0 - 1e-12, 29.9, 30.0, 30.0, 40.0])
    assert worse_than_baseline(score, baseline) == 2 / 8


def test_a_cell_of_rounding_only_is_not_worse_at_the_scale_of_its_benchmark() -> None:
    score = np.full(8, -1e-17)
    assert worse_than_baseline(score, np.zeros(8), scale=1.0) == 0


def test_resampled_values_and_errors_are_those_of_the_repeated_trials() -> None:
    score = skewed(np.random.default_rng(1), 2, 130)
    one = ((0, 1.0), (1, -1.0))
    weights = metrics._drawn(130, 0, 20, 3)
    for metric, k in ((MEAN, None), (CVAR, 6.5)):
        value, error = metrics._resampled(score, [one], metric, k, weights)
        for i in range(20):
            a, b = (np.repeat(row, weights[:, i]) for row in score)
            influence = a - b
            if k is not None:
                tails = [np.minimum(x - np.sort(x)[math.ceil(k) - 1], 0) * 130 / k for x in (a, b)]
                influence = tails[0] - tails[1]
            naive = (a.mean() - b.mean()) if k is None else (cvar(a, 0.05) - cvar(b, 0.05))
            assert value[0, i] == pytest.approx(naive, abs=1e-9)
            assert error[0, i] == pytest.approx(influence.std() / math.sqrt(130), rel=1e-9)


def test_resamples_draw_as_many_trials_as_there_are() -> None:
    weights = np.concatenate(list(metrics._weights(130, 20, 3)), axis=1)
    assert (weights.sum(axis=0) == 130).all()
    assert weights.max() > 1


def test_blocks_of_resamples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    score = skewed(np.random.default_rng(1), 3, 600)
    whole = mean_and_cvar(score, FEW)
    monkeypatch.setattr(metrics, "BLOCK", 7 * 600)
    for a, b in zip(whole, mean_and_cvar(score, FEW), strict=True):
        assert (np.array(a.interval()) == np.array(b.interval())).all()


def test_another_seed_gives_another_interval_and_the_same_the_same() -> None:
    score = skewed(np.random.default_rng(1), 1, 600)
    first, again, other = (
        mean_and_cvar(score, Intervals(seed=seed, resamples=50))[0].interval() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_a_cell_s_interval_does_not_depend_on_the_others() -> None:
    score = skewed(np.random.default_rng(1), 3, 600)
    for together, alone in zip(
        mean_and_cvar(score, FEW), mean_and_cvar(score[1:2], FEW), strict=True
    ):
        assert together.interval()[0][1] == alone.interval()[0][0]


@pytest.mark.parametrize(("alpha", "metric"), [(0.05, 0), (0.05, 1), (0.01, 1)])
def test_intervals_cover_the_truth_about_as_often_as_they_say(alpha: float, metric: int) -> None:
    assert 0.925 <= covered(1000, alpha, 400, metric) <= 0.975


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.01, 0.05])
@pytest.mark.parametrize("n", few([1000, 10_000], 1))
def test_intervals_cover_the_truth_in_the_long_run(n: int, alpha: float) -> None:
    assert 0.93 <= covered(n, alpha, 1000, 1) <= 0.97


def test_a_few_trials_that_matter_give_an_interval_no_narrower_than_the_exact_one() -> None:
    """Three of many trials count: the exact 95 % interval of a Poisson mean after three events
    is 0.62 to 8.77.
    """
    score = np.zeros((1, 2000))
    score[0, :3] = 1.0
    low, high = (2000 * x[0] for x in mean_and_cvar(score)[0].interval())
    assert low < 1.0
    assert 8.77 < high < 30


def test_a_constant_score_has_an_interval_of_no_width() -> None:
    for found in mean_and_cvar(np.full((1, 600), 2.0), FEW):
        assert np.array(found.interval()) == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize(("metric", "freedom"), [(0, 599), (1, 5)])
def test_more_comparisons_stretch_both_sides_as_student_s_quantiles_do(
    metric: int, freedom: int
) -> None:
    found = mean_and_cvar(skewed(np.random.default_rng(1), 1, 600), FEW)[metric]
    (low, high), (low_20, high_20) = found.interval(), found.interval(20)
    stretch = stats.t.ppf(1 - 0.025 / 20, freedom) / stats.t.ppf(0.975, freedom)
    assert found.value - low_20 == pytest.approx(stretch * (found.value - low))
    assert high_20 - found.value == pytest.approx(stretch * (high - found.value))


@pytest.mark.slow
@pytest.mark.long
def test_intervals_of_thirty_differences_hold_together() -> None:
    failures = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        score = -(0.7 * rng.exponential(size=1000) + 0.3 * rng.exponential(size=(31, 1000)))
        low, high = contrast(
            score, [((i, 1.0), (30, -1.0)) for i in range(30)], CVAR, Intervals(seed=seed)
        ).interval(30)
        failures += bool(((low > 0) | (high < 0)).any())
    assert failures <= 20


def test_a_paired_difference_sees_what_two_intervals_do_not() -> None:
    rng = np.random.default_rng(1)
    shared = skewed(rng, 600)
    score = np.stack([shared + 0.01 + 0.01 * rng.standard_normal(600), shared])
    for found, apart in zip(differences(score, A_MINUS_B), mean_and_cvar(score), strict=True):
        assert found.interval()[0][0] > 0
        assert apart.interval()[1][1] > apart.interval()[0][0]


def test_a_difference_and_its_reverse_mirror_each_other() -> None:
    score = skewed(np.random.default_rng(1), 2, 600)
    forth, back = differences(score, A_MINUS_B), differences(score, B_MINUS_A)
    for x, y in zip(forth, back, strict=True):
        assert x.value == pytest.approx(-y.value)
        assert x.standard_error == pytest.approx(y.standard_error)
        assert x.interval()[0] == pytest.approx(-y.interval()[1], abs=0.02)


def test_equal_cells_do_not_differ() -> None:
    score = np.repeat(skewed(np.random.default_rng(1), 1, 600), 2, axis=0)
    for found in differences(score, A_MINUS_B):
        assert (found.value[0], *np.ravel(found.interval())) == (0, 0, 0)


def test_one_trial_has_no_interval() -> None:
    mean, _ = mean_and_cvar(np.array([[0.3], [0.7]]))
    assert mean.value.tolist() == [0.3, 0.7]
    assert np.isnan(mean.interval()).all()
    assert np.isfinite(mean_and_cvar(np.array([[0.3, 0.4]]))[0].interval()).all()
