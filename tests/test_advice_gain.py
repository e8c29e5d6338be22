"""The cross-fitted gain: it finds what is there, does not find what is not, and says how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

import logfiles
import surefoot
from surefoot.advice import chosen_algorithm, cross_fitted_gain, default_parameters, interval, units_of_batch
from surefoot.advice.gain import part_problem


def bandit(seed: int, better: float, n: int = 200, share: float = 0.3) -> surefoot.Problem:
    rng = np.random.default_rng(seed)
    action = (rng.random(n) < share).astype(int)
    return surefoot.problem(
        state=np.zeros(n), action=action, reward=better * action + rng.normal(size=n), next_state=np.zeros(n), episode=np.arange(n),
        pi_b=[[1 - share, share]], gamma=0.0,
    )  # fmt: skip


def gain_of(problem: surefoot.Problem, name: str = "basic-rl", **options: object) -> object:
    return cross_fitted_gain(problem, units_of_batch(problem.log, problem.gamma), chosen_algorithm(problem, name), **options)


def test_a_real_improvement_is_found() -> None:
    found = gain_of(bandit(0, better=1.0))
    assert found.positive
    assert found.estimate == pytest.approx(0.7, abs=0.3)
    assert found.low < found.estimate < found.high


def test_where_actions_do_the_same_few_logs_promise_anything() -> None:
    """Expected about 2 % by choice of the better arm (see cross_fitted_gain); pooled quantiles would give some 8 %."""
    promises = sum(gain_of(bandit(seed, better=0.0), splits=2, resamples=400).positive for seed in range(100))
    assert promises <= 5


def test_the_two_directions_of_a_halving_are_correlated_as_two_over_pi() -> None:
    """Why quantiles are averaged, not pooled: chance that favours an arm in both halves is reported by both."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 200_000))
    assert np.corrcoef(x * np.sign(y), y * np.sign(x))[0, 1] == pytest.approx(2 / np.pi, abs=0.01)


def test_the_interval_is_as_wide_as_half_of_the_data_makes_it() -> None:
    problem = bandit(1, better=1.0, n=2000)
    found = gain_of(problem)
    error = 0.7 * np.sqrt(1 / 300 + 1 / 700)  # of arm 1 minus arm 0, in a half of 1,000 rows
    assert found.high - found.low == pytest.approx(2 * 1.645 * error, rel=0.2)


def test_the_same_seed_gives_the_same_gain() -> None:
    problem = logfiles.random_problem()
    assert gain_of(problem, "pi-b-spibb", seed=3) == gain_of(problem, "pi-b-spibb", seed=3)


def test_sparse_counts_give_the_gain_of_dense_ones() -> None:
    one, other = (gain_of(logfiles.random_problem(sparse=sparse), "pi-b-spibb") for sparse in (False, True))
    assert one.estimate == pytest.approx(other.estimate, abs=1e-6)
    assert one.low == pytest.approx(other.low, abs=1e-6)


def test_too_few_units_are_no_evidence() -> None:
    found = gain_of(logfiles.random_problem(n=60, episodes=1))
    assert found.units < 8
    assert np.isnan(found.low)
    assert not found.positive


def test_algorithms_that_need_returns_are_cross_fitted_too() -> None:
    assert np.isfinite(gain_of(logfiles.random_problem(), "one-step-lower-exact-soft-spibb", splits=1).estimate)


def test_a_part_poses_the_problem_of_its_own_rows() -> None:
    problem = logfiles.random_problem()
    parts = units_of_batch(problem.log, problem.gamma)
    chosen = np.arange(parts.number) < 20
    part = part_problem(problem, parts, chosen)
    assert part.n_sa.sum() == len(part.log) == chosen[parts.unit].sum()
    assert part.pi_b is not None
    assert np.array_equal(part.pi_b, problem.pi_b)
    assert np.allclose(part.returns.n, part.n_sa)


def test_the_interval_of_many_scores_is_the_normal_one_and_of_few_students() -> None:
    rng = np.random.default_rng(0)
    many = rng.normal(size=4000) / np.sqrt(4000)
    low, high = interval(5.0, many, rng)
    assert (low, high) == pytest.approx((5 - 1.645, 5 + 1.645), abs=0.12)
    few = np.array([1.0, -1.0, 1.0, -1.0])
    low, _ = interval(0.0, few, rng, resamples=20_000)
    # The lowest of the five sums, -4, has probability 1/16; Student's quantile on 3 degrees is 2.353.
    assert low == pytest.approx(-4 * np.sqrt(4 / 3) * 2.353 / 1.645, rel=1e-3)


def test_hidden_variance_widens_the_interval() -> None:
    rng = np.random.default_rng(0)
    low, high = interval(0.0, np.zeros(50), rng, extra=4.0, resamples=20_000)
    assert high - low == pytest.approx(4 * 1.645 * 1.03, rel=0.05)


def test_default_parameters_follow_the_scale_of_rewards_where_they_have_a_unit() -> None:
    small, large = bandit(0, 1.0), bandit(0, 1.0)
    ratio = 100.0
    wide = surefoot.problem(
        state=np.zeros(200), action=large.log.action, reward=ratio * large.log.reward, next_state=np.zeros(200), episode=np.arange(200),
        pi_b=large.pi_b, gamma=0.0,
    )  # fmt: skip
    for name in surefoot.ALGORITHMS:
        one, other = (chosen_algorithm(problem, name) for problem in (small, wide))
        pi = [surefoot.improve(problem, chosen).pi for problem, chosen in ((small, one), (wide, other))]
        assert np.allclose(*pi, atol=1e-6), name
    assert default_parameters("ramdp+pi-b-spibb", wide)["kappa"] == pytest.approx(ratio * default_parameters("ramdp", small)["kappa"])


@pytest.mark.slow
def test_false_promises_stay_below_five_percent_on_rivers_without_a_better_policy(tmp_path: object) -> None:
    import importlib.util
    from pathlib import Path

    from scipy import stats

    file = Path(__file__).parent.parent / "benchmarks" / "promises.py"
    spec = importlib.util.spec_from_file_location("promises", file)
    promises = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(promises)
    hits = 0
    for i in range(150):
        name, size = promises.SIZES[i % 3]
        key = promises.key_of(f"test {name} {size}", i)
        hits += promises.promises(promises.null_world(name, key), key, promises.episodes(name, size), Path(str(tmp_path)))
    assert stats.binom.sf(hits - 1, 150, 0.05) > 0.01
