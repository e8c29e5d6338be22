"""Which history makes the test for memory pass, and what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from surefoot.checks import Finding, check_log
from surefoot.checks.finding import MARKOV
from surefoot.checks.markov import enough_history
from surefoot.logs import read_log


def lagged(lag: int, episodes: int = 600, length: int = 8, seed: int = 0) -> dict[str, Any]:
    """Two states by chance, two actions; the reward is 1 if the action is that of `lag` steps
    before, and noise; lag 0: noise alone.
    """
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 2, (episodes, length))
    same = np.zeros(action.shape)
    if lag:
        same[:, lag:] = action[:, lag:] == action[:, :-lag]
    return {
        "episode": np.repeat(np.arange(episodes), length),
        "time": np.tile(np.arange(length), episodes),
        "state": rng.integers(0, 2, action.size),
        "action": action.reshape(-1),
        "reward": same.reshape(-1) + rng.normal(0, 0.5, action.size),
    }


def history(lag: int, **options: Any) -> Finding | None:
    log = read_log(lagged(lag), threads=1, **options)
    markov = next(x for x in check_log(log) if x.key == MARKOV)
    return enough_history(log, markov)


@pytest.mark.parametrize("lag", [1, 2])
def test_the_first_history_that_reaches_back_far_enough_is_named(lag: int) -> None:
    found = history(lag)
    assert found is not None
    tried = found.numbers["tried"]
    assert [x["history"] for x in tried] == list(range(lag + 1))
    assert f"--history {lag}" in found.sentence
    assert tried[-1]["p_value"] >= 0.05 > tried[0]["p_value"]
    assert tried[-1]["states"] > tried[0]["states"]
    assert tried[0]["share_often"] == 1.0


def test_a_log_without_memory_needs_none() -> None:
    assert history(0) is None


def test_a_log_that_remembers_enough_already_needs_no_more() -> None:
    assert history(1, history=1) is None


def test_what_no_history_mends_is_said() -> None:
    rng = np.random.default_rng(1)
    table = lagged(0)
    level = np.repeat(rng.normal(0, 1, 600), 8)  # stays hidden for a whole episode
    log = read_log(table | {"reward": table["reward"] + level}, threads=1)
    markov = next(x for x in check_log(log) if x.key == MARKOV)
    found = enough_history(log, markov)
    assert found is not None and "does not make the test for memory pass" in found.sentence
    assert [x["history"] for x in found.numbers["tried"]] == [0, 1, 2, 3]


def test_short_episodes_stop_the_search() -> None:
    table = lagged(1)
    first = table["time"] < 3
    rng = np.random.default_rng(2)
    level = np.repeat(rng.normal(0, 2, 600), 3)
    short = {name: x[first] for name, x in table.items()}
    log = read_log(short | {"reward": short["reward"] + level}, threads=1)
    markov = next(x for x in check_log(log) if x.key == MARKOV)
    found = enough_history(log, markov)
    assert found is not None and "no episode has more than" in found.sentence
