"""Logs that are arrays or episodes, no rows: D4RL's and d3rlpy's names, Minari datasets, Gymnasium
rollouts; as columns for `read_log`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from surefoot.core.errors import LogError, NotAvailableError
from surefoot.logs.column_roles import named_as

Table = dict[str, np.ndarray]
FILES = (".npz", ".hdf5", ".h5")  # files of arrays
# the arrays of a step: of D4RL and d3rlpy, with Gymnasium's names for how an episode stopped
SEEN, TAKEN, REWARDS, NEXT = "observations", "actions", "rewards", "next_observations"
ENDS, CUTS = ("terminals", "terminations"), ("timeouts", "truncations")
FORM = "one number, or one row of numbers, a step is expected"


def arrays_of(file: str) -> dict[str, Any]:
    """The arrays in a file of NumPy or HDF5 (those at its root) by their names."""
    opened: Callable[..., Any] = np.load
    if not file.lower().endswith(".npz"):
        try:
            opened = import_module("h5py").File
        except ImportError as error:
            raise NotAvailableError(
                f"{file}: HDF5 files need h5py: pip install 'surefoot[hdf5]'"
            ) from error
    try:
        with opened(file, "r") as stored:
            return plain(stored)
    except Exception as error:  # of many kinds, among them those of the file's library
        raise LogError(f"{file} cannot be read as arrays with names: {error}") from error


def plain(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a file in memory; groups of them, as HDF5 has, are left out."""
    return {name: np.asarray(x) for name, x in arrays.items() if not isinstance(x, Mapping)}


def is_dataset(arrays: Mapping[str, Any]) -> bool:
    """Whether these are the arrays of a dataset, not the columns of a table."""
    return {SEEN, TAKEN, REWARDS} <= arrays.keys() and not arrays.keys().isdisjoint((*ENDS, *CUTS))


def dataset_columns(arrays: Mapping[str, Any]) -> Table:
    """The columns of arrays with a row a step: `observations`, `actions`, `rewards`, `terminals`
    and `timeouts`, and `next_observations` where they are there.

    An episode goes on to the step that ended or was cut. Without timeouts it was cut where the next
    observation is not the following one. Rows of numbers get a column each: observations_0, ...;
    other arrays of one number a step stay as they are.
    """
    given = {x: _of_steps(x, arrays[x]) for x in (SEEN, TAKEN, REWARDS, NEXT) if x in arrays}
    n = len(given[TAKEN])
    flags = {x: _flags(x, arrays[x]) for x in (*ENDS, *CUTS) if x in arrays}
    ended = next((flags[x] for x in ENDS if x in flags), np.zeros(n, dtype=bool))
    cut = next((flags[x] for x in CUTS if x in flags), None)
    for name, x in {**given, **flags}.items():
        if len(x) != n:
            raise LogError(f"{name} have {len(x):,} steps and {TAKEN} {n:,}: as many were expected")
    if given[REWARDS].ndim > 1:
        raise LogError(f"{REWARDS} have the shape {given[REWARDS].shape}: one number a step")
    if cut is None:
        if NEXT not in given:
            raise LogError(
                f"the dataset has {TAKEN} and terminals, but no timeouts and no {NEXT}: nobody can"
                " tell where an episode was cut off. Give timeouts (all False if none was)"
            )
        other = given[NEXT][:-1] != given[SEEN][1:]
        cut = np.append(other.reshape(max(n - 1, 0), -1).any(axis=1), False)
    found: Table = {}
    if not named_as("episode", list(arrays)):
        last = np.flatnonzero(ended | cut)
        number = np.searchsorted(last, np.arange(n))
        found = {"episode": number, "time": np.arange(n) - np.append(0, last + 1)[number]}
    for name in (x for x in given if x != REWARDS):
        found |= _columns(name, given[name])
    more = {name: np.asarray(x) for name, x in arrays.items() if name not in (*given, *flags)}
    found |= {x: y for x, y in more.items() if y.shape == (n,) and y.dtype.kind in "biufUO"}
    return found | {REWARDS: given[REWARDS]} | {"terminals": ended, "timeouts": cut & ~ended}


def episode_columns(dataset: Any) -> Table:
    """The columns of a dataset of episodes: of Minari (`iterate_episodes`), which has one
    observation more than steps in each, or of d3rlpy (`episodes`), which has as many.
    """
    minari = hasattr(dataset, "iterate_episodes")
    episodes = dataset.iterate_episodes() if minari else dataset.episodes
    parts = [_episode(i, x) for i, x in enumerate(episodes)]
    if not parts:
        raise LogError("the dataset has no episodes")
    odd = next((i for i, x in enumerate(parts) if x.keys() != parts[0].keys()), None)
    if odd is not None:
        raise LogError(
            f"episode {odd} of the dataset has {'as many' if NEXT in parts[0] else 'more'}"
            " observations as it has steps, unlike the first one: all must be of one kind"
        )
    try:
        joined = {x: np.concatenate([part[x] for part in parts]) for x in parts[0]}
    except ValueError as error:
        raise LogError(f"the episodes of the dataset do not fit together: {error}") from error
    return dataset_columns(joined)


def _episode(number: int, episode: Any) -> Table:
    """The arrays of one episode, with its name and the time in it."""
    name = getattr(episode, "id", number)
    seen, taken = (_of_steps(x, getattr(episode, x)) for x in (SEEN, TAKEN))
    n = len(taken)
    if len(seen) not in (n, n + 1):
        raise LogError(
            f"episode {name} has {len(seen)} observations for {n} actions: as many, or one more,"
            " were expected"
        )
    if hasattr(episode, "terminations"):
        ended, cut = np.asarray(episode.terminations), np.asarray(episode.truncations)
    else:  # d3rlpy has one flag an episode
        last = np.arange(n) == n - 1
        flag = bool(getattr(episode, "terminated", getattr(episode, "terminal", False)))
        ended, cut = last & flag, last & (not flag)
    found = {"episode": np.full(n, name), "time": np.arange(n), SEEN: seen[:n], TAKEN: taken}
    follow = {NEXT: seen[1:]} if len(seen) > n else {}
    return {**found, **follow, REWARDS: np.asarray(episode.rewards), "terminals": ended,
            "timeouts": cut}  # fmt: skip


def _of_steps(name: str, x: Any) -> np.ndarray:
    """An array with a row a step; a row of one number is that number."""
    if isinstance(x, (Mapping, tuple)):
        raise LogError(f"{name} are a {type(x).__name__} of arrays: {FORM}; join them first")
    array = np.asarray(x)
    if array.ndim == 0 or (array.ndim > 2 and name in (SEEN, TAKEN, NEXT)):
        raise LogError(f"{name} have the shape {array.shape}: {FORM}; take features from it first")
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _flags(name: str, x: Any) -> np.ndarray:
    """An array of flags."""
    array = _of_steps(name, x)
    if array.ndim != 1 or not np.isin(array, (0, 1)).all():
        raise LogError(f"{name} are flags, 0 or 1 (or False and True) a step")
    return array.astype(bool)


def _columns(name: str, x: np.ndarray) -> Table:
    """The columns of an array: one of labels or whole numbers, or several that say by their number
    that they are measurements.
    """
    if x.dtype.kind == "f" and np.isfinite(x).all() and (x == np.round(x)).all():
        x = x.astype(np.int64)
    if x.ndim == 1 and x.dtype.kind != "f":
        return {name: x}
    rows = x.reshape(len(x), -1)
    return {f"{name}_{i}": np.ascontiguousarray(rows[:, i]) for i in range(rows.shape[1])}


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
