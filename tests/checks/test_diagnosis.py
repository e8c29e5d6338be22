"""What `check_log` says about logs whose faults are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.rivers import river_log
from surefoot import SurefootError, thinned_counts
from surefoot.checks import Finding, check_log
from surefoot.logs import Log, read_log, read_policy


def check(
    columns: Any, gamma: float = 0.9, baseline: Any = None, **options: Any
) -> dict[str, Finding]:
    log = read_log(columns, threads=1, **options)
    given = None if baseline is None else read_policy(baseline, log)
    return {finding.name: finding for finding in check_log(log, gamma=gamma, baseline=given)}


def steps(**columns: Any) -> dict[str, np.ndarray]:
    n = len(columns["state"])
    return {"episode": np.zeros(n, dtype=int), "reward": np.zeros(n)} | {
        name: np.array(x) for name, x in columns.items()
    }


@pytest.fixture(scope="module")
def river() -> dict[str, Finding]:
    return check(river_log(np.random.default_rng(0), 3_000))


def test_a_river_without_faults_gets_no_warning(river: dict[str, Finding]) -> None:
    assert [finding.name for finding in river.values() if finding.level == "warning"] == []


def test_hidden_memory_is_found_and_its_states_are_named() -> None:
    found = check(river_log(np.random.default_rng(0), 3_000, repeat=0.3))["Markov"]
    assert found.level == "warning"
    assert found.numbers["p_value"] < 1e-6
    assert found.numbers["worst"][0][1] < 0.05
    assert found.numbers["worst"][0][0] in found.sentence


def test_memory_in_the_reward_alone_is_found() -> None:
    rng = np.random.default_rng(3)
    state, action = rng.integers(0, 3, 2_000), rng.integers(0, 2, 2_000)
    reward = np.append(0.0, 1.0 * action[:-1]) + rng.normal(0, 0.5, 2_000)
    found = check(steps(state=state, action=action, reward=reward))["Markov"]
    assert found.level == "warning"
    assert "the reward depends on" in found.sentence


def test_the_action_and_state_of_a_step_itself_are_no_memory() -> None:
    rng = np.random.default_rng(4)
    state, action = rng.integers(0, 3, 2_000), rng.integers(0, 2, 2_000)
    assert (
        check(steps(state=state, action=action, reward=state + 2.0 * action))["Markov"].level
        == "ok"
    )


def test_a_world_that_changes_half_way_is_found() -> None:
    found = check(river_log(np.random.default_rng(0), 3_000, change=0.8))
    assert found["drift"].level == "warning"
    assert found["policy drift"].level == "ok"


def test_a_baseline_that_changes_half_way_is_found_and_the_world_is_not_blamed() -> None:
    rng = np.random.default_rng(5)
    action = np.append(rng.random(1_000) < 0.3, rng.random(1_000) < 0.6).astype(int)
    found = check(steps(state=rng.integers(0, 3, 2_000), action=action))
    assert found["policy drift"].level == "warning"
    assert found["drift"].level == "ok"


def test_a_small_log_says_that_nothing_could_be_tested() -> None:
    found = check(steps(state=[0, 1, 0, 1, 0], action=[0, 1, 1, 0, 0]))
    assert found["Markov"].level == found["drift"].level == "note"
    assert "too few" in found["Markov"].sentence


def test_the_mass_of_the_baseline_on_rare_pairs_is_weighted_by_visits(tmp_path: Path) -> None:
    # State 0: 6 visits, action 0 five times, action 1 once; state 1: 2 visits, action 0 twice; the
    # last row is a cut.
    columns = steps(state=[0, 0, 0, 1, 0, 0, 0, 1, 0], action=[0, 0, 0, 0, 0, 0, 1, 0, 0])
    file = tmp_path / "baseline.csv"
    file.write_text("state,action,probability\n0,0,0.5\n0,1,0.5\n1,0,0.75\n1,1,0.25\n")
    mass = check(columns, baseline=file)["coverage"].numbers["mass_below"]
    assert mass["1"] == pytest.approx(2 / 8 * 0.25)
    assert mass["3"] == pytest.approx(6 / 8 * 0.5 + 2 / 8 * 1)
    assert mass["10"] == pytest.approx(1)


def test_a_baseline_that_cannot_have_made_the_log_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "baseline.csv"
    file.write_text("state,action,probability\n0,0,1\n0,1,0\n1,0,0.5\n1,1,0.5\n")
    found = check(steps(state=[0, 1, 0, 1, 0], action=[0, 1, 1, 0, 0]), baseline=file)["baseline"]
    assert (found.level, found.numbers["impossible"]) == ("warning", 1)


def test_pairs_are_counted_by_how_often_they_were_seen() -> None:
    columns = steps(state=[0] * 45, action=[0] * 2 + [1] * 11 + [2] * 30 + [3] * 2)
    numbers = check(columns)["rare pairs"].numbers
    assert numbers["reached"] == {"3": 2, "10": 2, "30": 1, "100": 0}
    assert numbers["once_or_twice"] == 2  # the last row leads nowhere


def test_a_state_that_is_entered_but_never_left_is_a_dead_end_unless_it_ends_the_episode() -> None:
    columns = {
        "episode": np.array([0, 0, 1]),
        "time": np.array([0, 1, 0]),
        "state": np.array(["a", "b", "a"]),
        "action": np.array(["x", "y", "y"]),
        "reward": np.zeros(3),
        "next_state": np.array(["b", "pit", "pit"]),
    }
    found = check(columns)["dead ends"]
    assert found.level == "warning"
    assert (found.numbers["states"], found.numbers["steps"]) == (1, 2)
    assert "'pit'" in found.sentence
    assert check(columns, terminal_states=["pit"])["dead ends"].level == "ok"


def test_one_action_in_every_state_is_nothing_to_learn_from() -> None:
    found = check(steps(state=[0, 1, 0, 1, 0, 1], action=[0, 1, 0, 1, 0, 1]))["alternatives"]
    assert found.level == "warning"
    assert found.sentence == "nothing to learn from: the log never tried an alternative"


def test_the_independent_returns_are_those_left_after_thinning(river: dict[str, Finding]) -> None:
    log = read_log(river_log(np.random.default_rng(0), 3_000))
    assert (
        river["independent returns"].numbers["independent"]
        == thinned_counts(log.batch(), 0.9).sum()
    )


def test_undiscounted_returns_count_once_an_episode() -> None:
    columns = {
        "episode": np.repeat([0, 1], 3),
        "state": np.zeros(6, dtype=int),
        "action": np.array([0, 0, 1, 0, 0, 0]),
        "reward": np.zeros(6),
    }
    found = check(columns, gamma=1, episode_end="terminal")["independent returns"]
    assert found.numbers["independent"] == 3


@pytest.mark.parametrize(
    ("times", "level", "unequal"),
    [
        ([0, 1, 2, 3, 4, 5], "ok", 0),
        ([0, 1, 2, 3, 7, 8], "warning", 1),
        ([0.0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.5], "ok", 0),
        (
            ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-09"],
            "warning",
            1,
        ),
        (
            [
                "2024-01-01 00:00",
                "2024-01-01 00:10",
                "2024-01-01 00:20",
                "2024-01-01 00:30",
                "2024-01-01 00:40",
                "2024-01-01 00:50",
            ],
            "ok",
            0,
        ),
        ([2**62, 2**62 + 3, 2**62 + 6, 2**62 + 9, 2**62 + 12, 2**62 + 16], "warning", 1),
    ],
)
def test_time_gaps_of_unequal_length_are_found(times: list[Any], level: str, unequal: int) -> None:
    found = check(steps(state=[0, 1, 0, 1, 0, 1], action=[0, 1, 1, 0, 0, 1], time=times))["time"]
    assert (found.level, found.numbers["unequal"]) == (level, unequal)


def test_the_time_between_two_episodes_is_no_gap() -> None:
    columns = steps(
        state=[0, 1, 0, 1, 0, 1], action=[0, 1, 1, 0, 0, 1], time=[0, 1, 2, 90, 91, 92]
    ) | {"episode": np.repeat([0, 1], 3)}
    assert check(columns)["time"].numbers == {
        "gaps": 4,
        "shortest": 1,
        "longest": 1,
        "most_common": 1,
        "unequal": 0,
        "median": 1,
        "quantile_90": 1,
    }


def test_blocks_of_a_log_say_what_the_whole_says(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = river_log(np.random.default_rng(1), 3_000, repeat=0.2) | {
        "episode": np.repeat(np.arange(30), 100)
    }
    whole = check(columns)
    sizes = []
    read = Log.blocks
    monkeypatch.setattr(
        Log,
        "blocks",
        lambda log, rows=0: (sizes.append(len(block)) or block for block in read(log, 600)),
    )
    assert check(columns) == whole
    assert len(sizes) == 6


def test_an_empty_log_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("episode,state,action,reward\n")
    with pytest.raises(SurefootError, match="no rows"):
        check(file)
