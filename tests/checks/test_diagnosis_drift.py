"""Drift that `check` must see: seasons of the world and of the baseline, in the order of time
however the file lies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.faulty_logs import Log, chain, decisions, season
from surefoot.checks import Finding, check_log
from surefoot.checks.drift import waves
from surefoot.checks.finding import WARNING
from surefoot.logs import read_log
from surefoot.statistics.independence import tables


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


HOURS = np.arange(3_000) * 0.37  # 111 waves over the log, more than are looked for


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (HOURS, "rise and fall every 65 rows"),
        (1_700_000_000 + 3600 * HOURS, "hours of the day"),
        (1_700_000_000_000 + 3_600_000 * HOURS, "hours of the day"),
    ],
    ids=["number", "seconds", "milliseconds"],
)
def test_rewards_of_single_rows_that_follow_the_time_of_day_are_found(
    time: np.ndarray, words: str
) -> None:
    start = 1_700_000_000 % 86_400 / 3600 if words == "hours of the day" else 0.0
    night = ((HOURS + start) % 24 < 8).astype(float)
    log = decisions(11, 3_000, rewards=0.8 * night) | {"time": time}
    found = check(shuffled(log))["drift"]
    assert found.vetoes
    assert words in found.sentence
    plain = decisions(11, 3_000) | {"time": time}
    assert not check(shuffled(plain))["drift"].vetoes


def test_neighbouring_rows_that_resemble_each_other_are_found_in_the_order_of_the_file() -> None:
    rng = np.random.default_rng(12)
    level = np.repeat(rng.choice([-0.5, 0.5], 500), 4)  # of wards in turn, say
    found = check(decisions(12, 2_000, rewards=level))["drift"]
    assert found.vetoes
    assert "the rewards" in found.sentence and "resemble each other" in found.sentence


def test_no_more_rows_were_tested_than_there_are() -> None:
    assert check(decisions(13, 300))["drift"].numbers["rows"] == 300


def binned(seed: int, n: int, drifts: float = 0.0) -> Log:
    """A stationary autoregressive process in eight bins: rows resemble those before beyond their
    bin; `drifts` is added to its mean over the log.
    """
    rng = np.random.default_rng(seed)
    x, action = np.zeros(n + 1), rng.integers(0, 2, n)
    for t in range(n):
        x[t + 1] = 0.97 * x[t] + 0.1 * (action[t] - 0.5) + 0.25 * rng.normal()
    x = x + drifts * np.linspace(0, 1, n + 1)
    state = np.searchsorted(np.quantile(x, np.arange(1, 8) / 8), x)
    reward = 1 - 0.3 * x[1:] ** 2
    return {"episode": np.zeros(n), "state": state[:n], "action": action, "reward": reward}


@pytest.mark.parametrize("seed", range(6))
def test_measurements_in_bins_that_come_and_go_are_no_drift(seed: int) -> None:
    assert check(binned(seed, 4_000))["drift"].level != WARNING


def test_waves_that_match_are_named_and_keep_their_level() -> None:
    rng = np.random.default_rng(9)
    stratum, segment = rng.integers(0, 100, 2_000), np.arange(2_000) * 96 // 2_000
    wrong = 0
    for _ in range(200):
        table = tables(stratum, segment, (rng.random(2_000) < 0.2).astype(int))
        wrong += waves("rewards", table, table.outcome.astype(float), 100)[0].p_value < 0.05
    assert wrong <= 20
    table = tables(stratum, segment, (rng.random(2_000) < 0.2 + 0.2 * season(2_000, 7)).astype(int))
    found, _ = waves("rewards", table, table.outcome.astype(float), 100)
    assert found.source == "rewards rise and fall 7 times over the log"
