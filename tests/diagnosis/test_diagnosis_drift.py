"""Drift that `check` must see: seasons of the world and of the baseline, in the order of time
however the file lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.faulty_logs import Log, chain, decisions, season
from surefoot.diagnosis import Finding, check_log, g_tests, tables
from surefoot.diagnosis.gtest import Tables
from surefoot.diagnosis.mantel import by_context, mantel
from surefoot.diagnosis.seasons import waves
from surefoot.logs import read_log


def check(log: Any, **options: Any) -> dict[str, Finding]:
    return {x.name: x for x in check_log(read_log(log, threads=1, **options))}


@pytest.mark.parametrize("periods", [1, 4, 12])
@pytest.mark.parametrize("phase", [0.0, np.pi / 2])
def test_seasons_of_rewards_and_of_actions_are_found_and_counted(
    periods: int, phase: float
) -> None:
    wave = season(1_000, periods, phase)
    found = check(decisions(1, 1_000, rewards=wave, actions=0.4 * wave))
    assert found["drift"].vetoes
    assert found["policy drift"].vetoes
    if periods > 1:
        assert f"rise and fall {periods} times" in found["drift"].sentence


def test_a_season_of_the_rewards_alone_is_not_the_baselines() -> None:
    found = check(decisions(2, 1_000, rewards=season(1_000, 4)))
    assert found["drift"].vetoes
    assert not found["policy drift"].vetoes


def test_world_and_baseline_that_change_together_half_way_are_found() -> None:
    late = np.repeat([0, 1], 300)
    found = check(decisions(3, 600, rewards=late, actions=0.4 * late))
    assert found["drift"].vetoes
    assert found["policy drift"].vetoes


def shuffled(log: Log, seed: int = 0) -> Log:
    order = np.random.default_rng(seed).permutation(len(log["state"]))
    return {name: x[order] for name, x in log.items()}


def test_dates_give_the_order_whatever_that_of_the_file() -> None:
    log = decisions(4, 1_000, rewards=season(1_000, 4))
    dates = np.datetime64("2024-01-01", "us") + np.arange(1_000) * np.timedelta64(1, "h")
    found = check(shuffled(log | {"time": dates}) | {"episode": np.arange(1_000)})["drift"]
    assert found.vetoes
    assert "in order of their times" in found.sentence


def test_a_count_of_steps_is_no_time_and_the_file_gives_the_order() -> None:
    log = chain(5, 300, 5)
    log["reward"] = log["reward"] + np.repeat(season(300, 4), 5) * 1.5
    log |= {"time": np.tile(np.arange(5), 300)}
    found = check(log)["drift"]
    assert found.vetoes
    assert "in the order of the file" in found.sentence


def test_episodes_that_lie_mixed_in_the_file_keep_its_order_though_they_are_sorted_by_label() -> (
    None
):
    rng = np.random.default_rng(6)
    labels = rng.permutation(
        300
    )  # neighbours in pairs: a, b, a, b; the labels say nothing about time
    episode = np.concatenate([np.tile(labels[2 * i : 2 * i + 2], 4) for i in range(150)])
    n = len(episode)
    log = {
        "episode": episode, "state": rng.integers(0, 3, n), "action": rng.integers(0, 2, n),
        "reward": rng.normal(size=n) + 1.5 * season(n, 4),
    }  # fmt: skip
    found = check(log)["drift"]
    assert found.vetoes
    assert "in the order of the file" in found.sentence
    assert "4 times" in found.sentence


def test_weekends_are_found() -> None:
    n = 2_000
    dates = np.datetime64("2024-01-01", "us") + np.arange(n) * np.timedelta64(6, "h")
    weekend = (np.arange(n) // 4 % 7 >= 5).astype(float)
    found = check(decisions(7, n, rewards=weekend) | {"time": dates})["drift"]
    assert found.vetoes
    assert "days of the week" in found.sentence


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


def test_waves_that_match_are_named_and_keep_their_level() -> None:
    rng = np.random.default_rng(9)
    stratum, segment = rng.integers(0, 100, 2_000), np.arange(2_000) * 96 // 2_000
    wrong = 0
    for _ in range(200):
        table = tables(stratum, segment, (rng.random(2_000) < 0.2).astype(int))
        wrong += waves(table, table.outcome.astype(float), 100).p_value < 0.05
    assert wrong <= 20
    table = tables(stratum, segment, (rng.random(2_000) < 0.2 + 0.2 * season(2_000, 7)).astype(int))
    assert waves(table, table.outcome.astype(float), 100).worst == 7


def test_a_single_success_in_a_rare_context_proves_nothing() -> None:
    context, outcome = np.zeros(2_000, dtype=int), np.zeros(2_000, dtype=int)
    context[:20], outcome[:1], outcome[100:104] = np.arange(1, 21), 1, 1
    table = tables(np.zeros(2_000, dtype=int), context, outcome)
    assert by_context(table, table.outcome.astype(float), 1)[0] > 0.01


def test_an_effect_common_to_many_small_strata_is_seen_by_mantel_where_tables_are_too_small() -> (
    None
):
    rng = np.random.default_rng(10)
    stratum, context = np.repeat(np.arange(300), 6), rng.integers(0, 2, 1_800)
    table = tables(stratum, context, (rng.random(1_800) < 0.4 + 0.2 * context).astype(int))
    assert by_context(table, table.outcome.astype(float), 300)[0] < 1e-6
    assert g_tests(table, 300).p_together == 1
