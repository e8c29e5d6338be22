"""Benchmarks whose states are measurements: what each gives, a log of its baseline, the value of a
policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from surefoot.core.errors import ParameterError

Rows = Callable[[np.ndarray], np.ndarray]  # from features [n, F] to probabilities [n, A]


class Continuous(Protocol):
    """A frozen dataclass of what can be varied.

    A state is a row of numbers; its first columns are the `features`, which a policy sees, and what
    follows them is hidden. Many roll-outs are stepped at once. Rewards lie in `reward_range`; None:
    noise without bounds is in them.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]
    features: ClassVar[tuple[str, ...]]
    actions: ClassVar[tuple[str, ...]]

    @property
    def gamma(self) -> float:
        """The discount factor."""

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """(lowest, highest) reward."""

    def reset(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """The states [n, K] in which n episodes start."""

    def step(
        self, rng: np.random.Generator, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(next states [n, K], rewards [n], whether the episode has ended there [n])."""

    def baseline(self, x: np.ndarray) -> np.ndarray:
        """Its rule with its exploration: probabilities [n, A] for features [n, F]."""


def explored(chosen: np.ndarray, n_actions: int, epsilon: float) -> np.ndarray:
    """The rows [n, A] of a rule that takes any action at random with probability epsilon."""
    rows: np.ndarray = epsilon / n_actions + (1 - epsilon) * np.eye(n_actions)[chosen]
    return rows


def picked(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """One action from each row [n, A]."""
    below = rng.random((len(rows), 1)) > np.cumsum(rows, axis=1)
    found: np.ndarray = np.minimum(below.sum(axis=1), rows.shape[1] - 1)
    return found


def sampled(
    benchmark: Continuous, rng: np.random.Generator, steps: int, episodes: int = 1
) -> dict[str, np.ndarray]:
    """A log of the baseline as columns: episode, time, the features, action, reward, and where
    episodes end by themselves, terminal.

    Every episode has at most `steps` rows.
    """
    if steps < 1 or episodes < 1:
        raise ParameterError(
            f"{benchmark.name}: a log needs steps and episodes of at least 1, got {steps} and"
            f" {episodes}"
        )
    n_features = len(benchmark.features)
    state, running = benchmark.reset(rng, episodes), np.arange(episodes)
    rows = []
    for time in range(steps):
        x = state[:, :n_features]
        action = picked(rng, benchmark.baseline(x))
        state, reward, over = benchmark.step(rng, state, action)
        rows.append((running, np.full(len(running), time), x, action, reward, over))
        state, running = state[~over], running[~over]
        if not len(running):
            break
    episode, at, x, action, reward, over = map(np.concatenate, zip(*rows, strict=True))
    order = np.lexsort((at, episode))
    columns = {"episode": episode, "time": at, **dict(zip(benchmark.features, x.T, strict=True))}
    columns |= {"action": np.array(benchmark.actions)[action], "reward": reward}
    if over.any():
        columns["terminal"] = over.astype(int)
    return {name: column[order] for name, column in columns.items()}


def returns(
    benchmark: Continuous,
    rng: np.random.Generator,
    policy: Rows,
    start: np.ndarray,
    horizon: int = 0,
) -> np.ndarray:
    """The discounted return of a roll-out from each of the states `start` [n, K].

    Roll-outs are cut after `horizon` steps; 0: where what follows has a weight below 0.002.
    """
    if not horizon and benchmark.gamma >= 1:
        raise ParameterError(f"{benchmark.name}: undiscounted returns need a horizon")
    horizon = horizon or int(np.ceil(np.log(0.002) / np.log(benchmark.gamma)))
    state, total, running = start, np.zeros(len(start)), np.arange(len(start))
    for t in range(horizon):
        rows = policy(state[:, : len(benchmark.features)])
        state, reward, over = benchmark.step(rng, state, picked(rng, rows))
        total[running] += benchmark.gamma**t * reward
        if over.any():
            state, running = state[~over], running[~over]
    return total
