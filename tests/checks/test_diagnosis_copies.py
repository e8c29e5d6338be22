"""Copies of episodes and of stretches of rows are found; what repeats itself by chance is not
called a copy.
"""

from __future__ import annotations

import numpy as np
import pytest

from support.faulty_logs import Log, chain, chosen, decisions, repeated
from surefoot import NotAvailableError
from surefoot.checks import Copies, check_log, copies
from surefoot.logs import read_log


def found(log: Log, **options: str) -> Copies:
    return copies(read_log(log, threads=1, **options))


def sentence(log: Log) -> str:
    return next(x.sentence for x in check_log(read_log(log, threads=1)) if x.name == "copies")


@pytest.mark.parametrize(
    "log", [chain(1, 20, 5), decisions(1, 60), decisions(1, 600, kind="coin"), chain(1, 400, 3)]
)
def test_a_log_in_which_every_episode_is_there_ten_times_counts_each_once(log: Log) -> None:
    n = int(log["episode"].max()) + 1
    seen = found(repeated(log, 10))
    assert (~seen.is_copy).sum() == n
    assert seen.p_value < 1e-4


def test_copies_may_lie_anywhere_and_the_first_of_each_is_none() -> None:
    log = chain(2, 50, 6)
    order = np.random.default_rng(2).permutation(np.repeat(np.arange(50), 2))
    seen = found(chosen(log, order))
    assert seen.is_copy.sum() == 50
    first = np.unique(order, return_index=True)[1]
    assert not seen.is_copy[first].any()
    assert (np.unique(seen.group[seen.is_copy]) == np.arange(50)).all()


@pytest.mark.parametrize("log", [chain(3, 100, 5), decisions(3, 600)])
def test_a_tenth_of_the_episodes_twice_is_found(log: Log) -> None:
    n = int(log["episode"].max()) + 1
    seen = found(chosen(log, np.append(np.arange(n), np.arange(n // 10))))
    assert (seen.is_copy == (np.arange(n + n // 10) >= n)).all()
    assert f"{n // 10} of {n + n // 10} episodes are copies of others" in sentence(
        chosen(log, np.append(np.arange(n), np.arange(n // 10)))
    )


def test_a_resampled_log_is_found() -> None:
    drawn = np.random.default_rng(4).integers(0, 100, 100)
    seen = found(chosen(chain(4, 100, 5), drawn))
    assert seen.is_copy.sum() == 100 - len(np.unique(drawn))


def test_one_trajectory_that_repeats_itself_is_found() -> None:
    log = {name: np.tile(x, 4) for name, x in chain(5, 1, 200).items()} | {
        "episode": np.zeros(800, dtype=int)
    }
    seen = found(log)
    assert not seen.is_copy.any()
    assert seen.repeated.sum() == 599  # the last row is left out: it leads nowhere
    assert "599 of 799 rows repeat earlier rows" in sentence(log)


def turning(seed: int, episodes: int, steps: int) -> Log:
    """States that turn in a circle, one action, one reward: everything repeats itself."""
    state = (np.random.default_rng(seed).integers(0, 5, episodes)[:, None] + np.arange(steps)) % 5
    n = episodes * steps
    return {
        "episode": np.repeat(np.arange(episodes), steps),
        "state": state.ravel(),
        "action": np.zeros(n, dtype=int),
        "reward": np.ones(n),
    }


def short(seed: int, episodes: int) -> Log:
    """Three steps over four states with coins as rewards: many are alike."""
    log = chain(seed, episodes, 3)
    return log | {"reward": (log["reward"] > 1.5).astype(float)}


@pytest.mark.parametrize("kind", ["coin", "rare"])
def test_decisions_that_are_alike_by_chance_are_no_copies(kind: str) -> None:
    assert not any(found(decisions(seed, 600, kind=kind)).is_copy.any() for seed in range(20))


def test_short_or_certain_episodes_that_are_alike_by_chance_are_no_copies() -> None:
    logs = [short(seed, 50 * (1 + seed)) for seed in range(20)] + [
        turning(0, 60, 3),
        turning(1, 2, 400),
        turning(2, 1, 900),
    ]
    seen = [found(log) for log in logs]
    assert not any(x.is_copy.any() or x.repeated.any() for x in seen)
    assert sum(len(x.group) - x.group.max() - 1 for x in seen) > 1_000


def test_a_log_of_counts_has_no_episodes_to_compare() -> None:
    log = chain(6, 5, 4)
    columns = log | {"next_state": np.append(log["state"][1:], 0)}
    with pytest.raises(NotAvailableError, match="counts alone"):
        copies(read_log(columns, check_order=False))


def test_short_visits_with_a_time_limit_are_no_copies() -> None:
    """A model of the log gets their length wrong, so that whole visits repeat more often than it
    expects: nobody copied anything.
    """
    rng = np.random.default_rng(0)
    rows = []
    for visit in range(1500):
        for step in range(3):
            ward, other = int(rng.integers(3)), rng.random() < 0.3
            healed = rng.random() < (0.45 if other else 0.3)
            rows.append((visit, step, ward, int(other), int(healed), healed or step == 2))
            if healed:
                break
    names = ("episode", "time", "state", "action", "reward", "terminal")
    log = {
        name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    assert not found(log).is_copy.any()
