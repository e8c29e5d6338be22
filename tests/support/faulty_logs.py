"""Logs for the tests of diagnosis, with one fault each or none: chains with hidden levels,
decisions with seasons, copies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Log = dict[str, np.ndarray]


def chain(
    seed: int,
    episodes: int,
    steps: int,
    *,
    level: float = 0.0,
    after: float = 0.0,
    lag: int = 1,
    alternate: float = 0.0,
) -> Log:
    """A walk over four states with Gaussian rewards.

    level       standard deviation of a hidden level of each episode, which is added to its rewards
    after       what action 1 adds to the reward `lag` steps later
    alternate   how much of the noise of a reward is the last one's, with the opposite sign
    """
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), size=(4, 2)).cumsum(axis=-1)
    action = (rng.random((episodes, steps)) < 0.3).astype(int)
    state = np.empty((episodes, steps), dtype=int)
    state[:, 0] = rng.integers(0, 4, episodes)
    for t in range(1, steps):
        drawn = rng.random(episodes)
        state[:, t] = np.minimum(
            (p[state[:, t - 1], action[:, t - 1]] < drawn[:, None]).sum(axis=1), 3
        )
    noise = rng.normal(size=(episodes, steps))
    noise[:, 1:] -= alternate * noise[:, :-1]
    reward = state + noise + level * rng.normal(size=(episodes, 1))
    reward[:, lag:] += after * action[:, :-lag]
    return {
        "episode": np.repeat(np.arange(episodes), steps),
        "state": state.ravel(),
        "action": action.ravel(),
        "reward": reward.ravel(),
    }


def stay_while_you_win(seed: int, states: int, each: int, ends: float) -> Log:
    """Markov episodes that stay in their state: each step pays 1 and goes on, or pays 0 and ends;
    two actions that do the same, `each` episodes for every state.
    """
    rng = np.random.default_rng(seed)
    length = rng.geometric(ends, states * each)
    last = np.cumsum(length) - 1
    reward = np.ones(int(length.sum()))
    reward[last] = 0.0
    return {
        "episode": np.repeat(np.arange(len(length)), length),
        "state": np.repeat(rng.permutation(np.repeat(np.arange(states), each)), length),
        "action": rng.integers(0, 2, len(reward)),
        "reward": reward,
        "terminal": 1.0 - reward,
    }


def aliased(seed: int, episodes: int) -> Log:
    """Episodes of three steps through a left or right door into one room, which is another
    behind each door.
    """
    rng = np.random.default_rng(seed)
    door, action = rng.integers(0, 2, episodes), rng.integers(0, 2, (episodes, 3))
    state = np.stack([door, np.full(episodes, 2), np.full(episodes, 3)], axis=1)
    reward = rng.normal(size=(episodes, 3))
    reward[:, 1] += np.where(action[:, 1] == door, 1.0, -1.0)
    return {
        "episode": np.repeat(np.arange(episodes), 3),
        "state": state.ravel(),
        "action": action.ravel(),
        "reward": reward.ravel(),
    }


def decisions(
    seed: int, n: int, *, rewards: Any = 0.0, actions: Any = 0.0, kind: str = "normal"
) -> Log:
    """One-step episodes in three states: `rewards` [n] are added to the rewards, `actions` [n]
    to the 20 % of action 1.
    """
    rng = np.random.default_rng(seed)
    action = (rng.random(n) < 0.2 + actions).astype(int)
    reward = (
        rng.normal(size=n)
        if kind == "normal"
        else (rng.random(n) < {"rare": 0.02, "coin": 0.5}[kind]).astype(float)
    )
    return {
        "episode": np.arange(n),
        "state": rng.integers(0, 3, n),
        "action": action,
        "reward": reward + rewards,
        "terminal": np.ones(n, dtype=bool),
    }


def season(n: int, periods: float, phase: float = 0.0) -> np.ndarray:
    """A wave between 0 and 1."""
    return (1 + np.sin(2 * np.pi * periods * (np.arange(n) + 0.5) / n + phase)) / 2


def repeated(log: Log, times: int) -> Log:
    """The whole log so many times, with new episode ids."""
    n = int(log["episode"].max()) + 1
    return {
        name: np.concatenate([x + n * i * (name == "episode") for i in range(times)])
        for name, x in log.items()
    }


def chosen(log: Log, episodes: np.ndarray) -> Log:
    """Some episodes, which may be there several times, with new ids."""
    rows = [np.flatnonzero(log["episode"] == e) for e in episodes]
    found = {name: np.concatenate([x[r] for r in rows]) for name, x in log.items()}
    return found | {"episode": np.repeat(np.arange(len(rows)), [len(r) for r in rows])}
