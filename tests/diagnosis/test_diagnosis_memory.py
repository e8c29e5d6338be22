"""Memory that `check` must see: in rewards alone, two steps back, and in what stays hidden for a
whole episode.
"""

from __future__ import annotations

import numpy as np
import pytest

from support.faulty_logs import Log, aliased, chain
from surefoot.diagnosis import Finding, check_log
from surefoot.diagnosis.alike import GROUPS, Alike, alike
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


def test_an_action_that_pays_two_steps_later_is_found() -> None:
    found = markov(chain(3, 20, 100, after=0.8, lag=2))
    assert found.vetoes
    assert "two steps back" in found.sentence


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
    found = dict(zip(GROUPS, alike(z, use, episode), strict=True))
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
        found = alike(z, np.ones(len(z), dtype=bool), np.repeat(np.arange(60), length))
        alarms += min(x.p_value for x in found) < 0.01
    assert alarms <= 1


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
