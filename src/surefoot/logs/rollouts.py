"""Logs that are no files: Minari datasets and Gymnasium rollouts, as columns for `read_log`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from surefoot.core.errors import LogError, NotAvailableError

Table = dict[str, np.ndarray]


def minari_columns(dataset: Any) -> Table:
    """The columns of a Minari dataset (or its name) with discrete observations and actions.

    An episode has T + 1 observations and T of everything else: observation t + 1 is the next state
    of step t.
    """
    if isinstance(dataset, str):
        try:
            dataset = import_module("minari").load_dataset(dataset)
        except ImportError as error:
            raise NotAvailableError(
                "reading Minari datasets needs minari: pip install minari"
            ) from error
    parts: list[dict[str, Any]] = []
    for episode in dataset.iterate_episodes():
        seen, taken = np.asarray(episode.observations), np.asarray(episode.actions)
        if (
            seen.ndim != 1
            or taken.ndim != 1
            or seen.dtype.kind not in "iub"
            or taken.dtype.kind not in "iub"
        ):
            raise LogError(
                f"episode {episode.id} has observations {seen.dtype} of shape {seen.shape} and"
                f" actions {taken.dtype} of shape {taken.shape}: states and actions must be"
                " discrete, one number a step; discretize them first"
            )
        if len(seen) != len(taken) + 1:
            raise LogError(
                f"episode {episode.id} has {len(seen)} observations for {len(taken)} actions: one"
                " more was expected"
            )
        n = len(taken)
        flags = {"terminal": episode.terminations, "truncated": episode.truncations}
        steps = {
            "state": seen[:-1],
            "action": taken,
            "reward": episode.rewards,
            "next_state": seen[1:],
        }
        parts.append({"episode": np.full(n, int(episode.id)), "time": np.arange(n)} | steps | flags)
    return _joined(parts)


def rollout_columns(
    environment: Any,
    policy: Callable[[Any, np.random.Generator], Any],
    rng: np.random.Generator,
    *,
    episodes: int,
    max_steps: int = 10_000,
) -> Table:
    """The columns of a log made by running `policy(observation, rng)` in a Gymnasium environment
    with discrete spaces.

    An episode that has not ended after max_steps is flagged truncated.
    """
    rows: list[tuple[Any, ...]] = []
    for episode in range(episodes):
        state, _ = environment.reset(seed=int(rng.integers(2**31)))
        for t in range(max_steps):
            action = policy(state, rng)
            follow, reward, terminated, truncated, _ = environment.step(action)
            stopped = bool(truncated) or (t == max_steps - 1 and not terminated)
            flags = bool(terminated), stopped and not terminated
            rows.append((episode, t, state, action, float(reward), follow, *flags))
            state = follow
            if terminated or stopped:
                break
    names = ("episode", "time", "state", "action", "reward", "next_state", "terminal", "truncated")
    if not rows:
        raise LogError("no episode was run: episodes and max_steps must be at least 1")
    table = {
        name: np.asarray(column)
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    if table["state"].ndim != 1 or table["action"].ndim != 1:
        raise LogError(
            "states and actions must be discrete, one value a step; discretize them first"
        )
    return table


def _joined(parts: list[dict[str, Any]]) -> Table:
    """Episodes one after the other; a step both terminal and truncated has ended."""
    if not parts:
        raise LogError("the dataset has no episodes")
    table = {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}
    ends = table["terminal"].astype(bool)
    return table | {"terminal": ends, "truncated": table["truncated"].astype(bool) & ~ends}
