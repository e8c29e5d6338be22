"""Tests of independence: the G-test on many tables at once, Mantel's test, resemblance of steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.faulty_logs import stay_while_you_win
from surefoot.statistics.independence import (
    GROUPS,
    MEAN,
    Alike,
    Tables,
    alike,
    by_context,
    g_tests,
    in_pieces,
    mantel,
    tables,
    together,
)


def of_matrix(*matrices: np.ndarray) -> tuple[np.ndarray, ...]:
    """stratum, context, outcome, k of full tables."""
    parts = [
        (np.full(m.size, i), *(x.ravel() for x in np.indices(m.shape)), m.ravel().astype(float))
        for i, m in enumerate(matrices)
    ]
    stratum, context, outcome, k = (np.concatenate(x) for x in zip(*parts, strict=True))
    return stratum[k > 0], context[k > 0], outcome[k > 0], k[k > 0]


def test_a_table_with_ample_counts_gets_the_g_of_scipy_over_williams_factor() -> None:
    first, second = np.array([[30, 20, 25], [18, 40, 22]]), np.array([[50, 12], [31, 44], [20, 20]])
    found = g_tests(tables(*of_matrix(first, second)), 2)
    for i, m in enumerate((first, second)):
        g, _, degrees, _ = stats.chi2_contingency(m, correction=False, lambda_="log-likelihood")
        n, rows, columns = m.sum(), m.sum(axis=1), m.sum(axis=0)
        williams = 1 + (n * (1 / rows).sum() - 1) * (n * (1 / columns).sum() - 1) / (
            6 * n * degrees
        )
        assert found.degrees[i] == degrees
        assert found.g[i] == pytest.approx(g / williams)
        assert found.p_values[i] == pytest.approx(stats.chi2.sf(g / williams, degrees))


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 9), st.integers(1, 300))
def test_after_pooling_no_expected_count_is_below_five(
    seed: int, rows: int, columns: int, n: int
) -> None:
    rng = np.random.default_rng(seed)
    context, outcome = rng.geometric(0.4, n) % rows, rng.geometric(0.3, n) % columns
    found = g_tests(tables(np.zeros(n, dtype=int), context, outcome), 1)
    if found.degrees[0] == 0:
        assert found.g[0] == 0
        return
    pooled = pool_by_hand(context, outcome, 5.0)
    assert (np.outer(pooled.sum(axis=1), pooled.sum(axis=0)) / n).min() >= 5
    assert (pooled.shape[0] - 1) * (pooled.shape[1] - 1) == found.degrees[0]


def pool_by_hand(context: np.ndarray, outcome: np.ndarray, smallest: float) -> np.ndarray:
    """The same rule in plain Python: the rare ones together, or with the rarest of the others."""
    table = np.zeros((context.max() + 1, outcome.max() + 1))
    np.add.at(table, (context, outcome), 1)
    n = table.sum()
    table = _pool_rows(table, np.sqrt(smallest * n))
    return _pool_rows(table.T, smallest * n / table.sum(axis=1).min()).T


def _pool_rows(table: np.ndarray, least: float) -> np.ndarray:
    order = np.argsort(-table.sum(axis=1), kind="stable")
    kept = [table[i] for i in order if table[i].sum() >= least]
    rest = sum((table[i] for i in order if table[i].sum() < least), np.zeros(table.shape[1]))
    if rest.sum() >= least and rest.sum() > 0:
        return np.array([*kept, rest])
    return np.array([*kept[:-1], kept[-1] + rest]) if kept else rest[None]


def test_the_tests_of_a_log_in_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, k, 3000) for k in (4, 3, 5)]
    whole = g_tests(tables(*columns), 4)
    parts = [tables(*(x[i : i + 700] for x in columns)) for i in range(0, 3000, 700)]
    joined = g_tests(together(parts), 4)
    assert np.allclose(joined.g, whole.g)
    assert (joined.degrees == whole.degrees).all()


def test_tables_put_together_at_once_are_to_the_last_bit_those_put_together_one_by_one() -> None:
    rng = np.random.default_rng(3)
    parts = []
    for _ in range(5):
        columns = [rng.integers(3, 3 + k, 700) for k in (4, 2, 5)]
        parts.append(tables(*columns, None, rng.normal(size=700), rng.random(700)))
    at_once, one_by_one = together(parts), parts[0]
    for part in parts[1:]:
        one_by_one = together([one_by_one, part])
    for name in ("stratum", "context", "outcome", "k", "own", "pieces"):
        assert (getattr(at_once, name) == getattr(one_by_one, name)).all()


@pytest.mark.parametrize("wide", [2, 40, 10**6])
def test_tables_crowded_or_not_count_as_a_dictionary_does(wide: int) -> None:
    rng = np.random.default_rng(4)
    columns = [rng.integers(0, k, 90_000) for k in (3, 4, wide)]
    own = rng.normal(size=90_000)
    found = tables(columns[0], columns[1] + 7, columns[2], None, own, own)
    rows: dict[tuple[int, ...], list[float]] = {}
    for *key, x in zip(*columns, own, strict=True):
        rows.setdefault(tuple(map(int, key)), []).append(float(x))
    assert list(zip(found.stratum, found.context - 7, found.outcome, strict=True)) == sorted(rows)
    assert found.k.tolist() == [len(rows[key]) for key in sorted(rows)]
    assert found.own is not None
    assert np.allclose(found.own, [sum(rows[key]) for key in sorted(rows)])


def test_the_sum_over_many_small_tables_keeps_its_level() -> None:
    rng = np.random.default_rng(2)
    p = []
    for _ in range(200):
        context, outcome = rng.integers(0, 2, 400 * 20), rng.integers(0, 2, 400 * 20)
        p.append(g_tests(tables(np.repeat(np.arange(400), 20), context, outcome), 400).p_together)
    assert 0.01 <= np.mean(np.array(p) < 0.05) <= 0.09


def test_the_mean_of_g_in_the_smallest_tables_is_what_sums_allow_for() -> None:
    for n, row, column in ((20, 10, 10), (40, 10, 20), (60, 10, 30), (200, 32, 32)):
        inside = np.arange(max(0, row + column - n), min(row, column) + 1)
        weight = stats.hypergeom(n, row, column).pmf(inside)
        matrices = [np.array([[x, row - x], [column - x, n - row - column + x]]) for x in inside]
        assert weight @ g_tests(tables(*of_matrix(*matrices)), len(inside)).g <= MEAN


def test_a_context_that_decides_everything_explains_everything() -> None:
    context = np.repeat([0, 1], 500)
    found = g_tests(tables(np.zeros(1000, dtype=int), context, context), 1)
    assert found.explained == pytest.approx(1.0, abs=0.01)
    assert (
        g_tests(tables(np.zeros(1000, dtype=int), context, np.tile([0, 1], 500)), 1).explained == 0
    )


def test_without_rows_there_is_nothing_to_test() -> None:
    nothing = np.zeros(0, dtype=int)
    found = g_tests(tables(nothing, nothing, nothing), 3)
    assert (found.p_together, found.p_worst, found.explained) == (1.0, 1.0, 0.0)


def test_codes_too_large_for_one_number_are_counted_all_the_same() -> None:
    rng = np.random.default_rng(3)
    stratum, context, outcome = (
        rng.integers(0, 3, 500),
        rng.integers(0, 4, 500),
        rng.integers(0, 5, 500),
    )
    small, large = (
        tables(stratum, context, outcome),
        tables(stratum, context * 2**40, outcome * 2**30),
    )
    assert (small.k == large.k).all()
    assert (small.context * 2**40 == large.context).all()
    assert small.k.sum() == 500


def test_mantel_has_the_moments_of_all_permutations_within_strata() -> None:
    rng = np.random.default_rng(8)
    stratum, context, y = (
        np.repeat([0, 1, 2], [7, 2, 30]),
        rng.integers(0, 4, 39),
        rng.integers(0, 5, 39),
    )
    f = rng.normal(size=(4, 2))
    drawn = []
    for _ in range(4_000):
        mixed_up = np.concatenate([rng.permutation(y[stratum == s]) for s in range(3)])
        found = mantel(
            Tables(stratum, context, mixed_up, np.ones(39)), mixed_up.astype(float), f, 3
        )
        drawn.append(found.t)
    t = np.array(drawn)
    assert np.abs(t.mean(axis=0) / np.sqrt(np.diag(found.variance) / 4_000)).max() < 4
    assert np.cov(t.T) == pytest.approx(found.variance, rel=0.1, abs=0.05 * found.variance.max())


def test_with_pieces_couples_of_different_pieces_alone_count() -> None:
    rng = np.random.default_rng(5)
    stratum, piece = rng.integers(0, 3, 60), rng.integers(0, 7, 60)
    context, y, f = rng.integers(0, 4, 60), rng.integers(0, 5, 60), rng.normal(size=(4, 2))
    naive = np.zeros(2)
    for s in range(3):
        rows = np.flatnonzero(stratum == s)
        m = len(set(piece[rows]))
        for i in rows:
            for j in rows[rows > i]:
                if piece[i] != piece[j]:
                    naive += (y[i] - y[j]) * (f[context[i]] - f[context[j]]) / m
    parts = [
        tables(*(x[at] for x in (stratum, context, y)), None, *(x[at] for x in own))
        for own in [in_pieces(stratum, piece, y.astype(float))]
        for at in (slice(0, 25), slice(25, 60))
    ]
    table = together(parts)
    assert mantel(table, table.outcome.astype(float), f, 3).t == pytest.approx(naive)


def test_where_outcomes_decide_who_goes_on_later_steps_are_not_taken_for_unlucky() -> None:
    z, old = [], []
    for seed in range(60):
        log = stay_while_you_win(seed, 100, 4, 0.3)
        stratum, y = log["state"] * 2 + log["action"], log["reward"].astype(int)
        first = np.diff(log["episode"], prepend=-1) != 0
        own = in_pieces(stratum, log["episode"], y.astype(float))
        for found, more in ((z, own), (old, ())):
            table = tables(stratum, first.astype(int), y, None, *more)
            t = mantel(table, table.outcome.astype(float), np.array([[0.0], [1.0]]), 200)
            found.append(float(t.t[0] / t.variance[0, 0] ** 0.5))
    assert abs(np.mean(z)) < 3 / 60**0.5
    assert np.std(z) < 1.15
    assert np.mean(old) > 1  # Mantel's law takes the number of rows as given


def test_a_single_success_in_a_rare_context_proves_nothing() -> None:
    context, outcome = np.zeros(2_000, dtype=int), np.zeros(2_000, dtype=int)
    context[:20], outcome[:1], outcome[100:104] = np.arange(1, 21), 1, 1
    table = tables(np.zeros(2_000, dtype=int), context, outcome)
    assert by_context("", table, table.outcome.astype(float), 1).p_value > 0.01


def test_an_effect_common_to_many_small_strata_is_seen_by_mantel_where_tables_are_too_small() -> (
    None
):
    rng = np.random.default_rng(10)
    stratum, context = np.repeat(np.arange(300), 6), rng.integers(0, 2, 1_800)
    table = tables(stratum, context, (rng.random(1_800) < 0.4 + 0.2 * context).astype(int))
    assert by_context("", table, table.outcome.astype(float), 300).p_value < 1e-6
    assert g_tests(table, 300).p_together == 1


def by_hand(z: np.ndarray, use: np.ndarray, group: np.ndarray) -> Alike:
    """The definition in plain Python."""
    product = variance = couples = rows = 0.0
    for g in np.unique(group):
        inside = np.flatnonzero((group == g) & use)
        rows += len(inside) if len(inside) > 1 else 0
        for i, t in enumerate(inside):
            before = sum(z[u] for u in inside[:i])
            product += z[t] * before
            variance += before**2 * (z[t] ** 2 + 2) / 3
            couples += i
    return Alike(product, variance, couples, rows)


def test_what_is_alike_is_what_its_definition_says() -> None:
    rng = np.random.default_rng(6)
    episode = np.repeat([0, 1, 2], [150, 1, 40])
    use, z = rng.random(191) < 0.8, rng.normal(size=191)
    within = np.concatenate([np.arange(k) for k in (150, 1, 40)])
    found = alike(z, use, within)
    assert tuple(found) == GROUPS
    for name, group in (
        ("of 8 steps in a row", within // 8),
        ("of 64 steps in a row", within // 64),
        ("of an episode", 0 * within),
    ):
        expected = by_hand(z, use, episode * 1000 + group)
        for part in ("product", "variance", "couples", "rows"):
            assert getattr(found[name], part) == pytest.approx(getattr(expected, part)), (
                name,
                part,
            )
    steps = [t for t in range(1, 191) if episode[t] == episode[t - 1] and use[t] and use[t - 1]]
    assert found["of neighbouring steps"].product == pytest.approx(
        sum(z[t] * z[t - 1] for t in steps)
    )


def test_rare_large_rewards_that_end_an_episode_are_no_resemblance() -> None:
    # Every step fails with a small probability, which ends the episode: all but the last rewards of
    # an episode lie below the mean.
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        length = rng.geometric(0.02, 60)
        z = np.concatenate([np.append(np.zeros(k - 1), 1.0) for k in length])
        z = (z - z.mean()) / z.std()
        found = alike(z, np.ones(len(z), dtype=bool), np.concatenate([*map(np.arange, length)]))
        alarms += min(x.p_value for x in found.values()) < 0.01
    assert alarms <= 1
