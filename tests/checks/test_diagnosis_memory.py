"""Memory that `check` must see: in rewards alone, two steps back, and in what stays hidden for a
whole episode.
"""

from __future__ import annotations

import numpy as np

from support.faulty_logs import Log, aliased, chain
from surefoot.checks import Finding, check_log
from surefoot.logs import read_log


def markov(log: Log) -> Finding:
    return next(x for x in check_log(read_log(log, threads=1)) if x.name == "Markov")


def test_a_hidden_level_of_each_episode_is_found() -> None:
    found = markov(chain(1, 30, 60, level=0.4))
    assert found.vetoes
    assert "resemble each other" in found.sentence
    assert "of the spread of their means" in found.sentence


def test_a_reward_that_the_previous_reward_predicts_is_found() -> None:
    found = markov(chain(2, 20, 100, alternate=0.5))
    assert found.vetoes
    assert "previous reward" in found.sentence


def test_where_all_earlier_rewards_are_equal_the_start_is_named_and_no_reward() -> None:
    """Only the last row pays, and more often where it is the first one, too."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(600):
        for t in range(8):
            ends = bool(rng.random() < 0.4)
            pays = ends and rng.random() < (0.9 if t == 0 else 0.2)
            rows.append((episode, t, *rng.integers(0, 2, 2).tolist(), float(pays), ends))
            if ends:
                break
    names = ("episode", "t", "state", "action", "reward", "terminal")
    found = markov(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    assert found.vetoes
    assert "depends on whether the step is the first of its episode" in found.sentence
    assert "previous reward" not in found.sentence


def test_an_action_that_pays_two_steps_later_is_found() -> None:
    found = markov(chain(3, 20, 100, after=0.8, lag=2))
    assert found.vetoes
    assert "two steps back" in found.sentence


def test_an_action_that_pays_three_steps_later_is_found() -> None:
    found = markov(chain(3, 20, 100, after=0.8, lag=3))
    assert found.vetoes
    assert "the action three steps back" in found.sentence


def test_where_an_episode_came_from_is_found_though_its_last_steps_do_not_tell() -> None:
    log = chain(6, 400, 6)
    first = np.repeat(log["state"][::6], 6)
    later = np.tile(np.arange(6) > 3, 400)  # beyond what the last three steps know
    log["reward"] = log["reward"] + later * np.where(first < 2, 0.8, -0.8)
    found = markov(log)
    assert found.vetoes
    assert "depends on the first state of the episode" in found.sentence


def test_a_weak_effect_of_the_previous_action_on_all_rewards_is_found_in_short_episodes() -> None:
    assert markov(chain(4, 400, 5, after=0.5)).vetoes


def test_two_rooms_shown_as_one_are_found() -> None:
    found = markov(aliased(5, 400))
    assert found.vetoes
    assert "'2'" in found.sentence


def test_chains_without_memory_are_not_vetoed() -> None:
    assert not any(
        markov(chain(seed, *shape)).vetoes
        for seed, shape in enumerate([(30, 60), (400, 5), (2, 1000), (1, 50)])
    )


def ending(seed: int) -> Log:
    """Many states that are rarely visited; one step in seven ends the episode, well or badly,
    and only that pays.
    """
    rng = np.random.default_rng(seed)
    length = np.minimum(rng.geometric(1 / 7, 400), 60)
    n, last = int(length.sum()), np.cumsum(length) - 1
    end = np.zeros(n, dtype=bool)
    end[last] = True
    state = rng.integers(0, 120, n)
    reward = np.where(end & (rng.random(n) < 0.8), 1.0, 0.0)
    return {
        "episode": np.repeat(np.arange(400), length),
        "state": state,
        "action": rng.integers(0, 2, n),
        "reward": reward,
        "terminal": end,
    }


def test_a_success_that_ends_the_episode_in_rarely_visited_states_is_no_memory() -> None:
    assert not any(markov(ending(seed)).level == "warning" for seed in range(6))
