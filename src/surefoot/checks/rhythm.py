"""Rhythm: do outcomes or actions rise and fall with any period, such as a week of rows? Where both
do, an action gets credit for the day on which it was taken.
"""

from __future__ import annotations

import numpy as np

from surefoot.core import Batch
from surefoot.statistics.periodogram import Cycle, cycle

ROWS, EPISODES, STEPS = "rows", "episodes", "steps of an episode"


def places(block: Batch, stamps: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """The place of every row on each clock of a log: among its rows, where each is an episode or
    all are one; else among the episodes, and among the steps of its episode. `stamps` of the rows
    rise with time, where these do not lie in its order.
    """
    single = block.n_episodes in (1, len(block))
    begins = np.arange(len(block)) if single else np.flatnonzero(block.first)
    place = np.arange(len(begins))
    if stamps is not None and block.n_episodes > 1:
        place[np.argsort(stamps[begins], kind="stable")] = np.arange(len(begins))
    return {ROWS: place} if single else {EPISODES: place[block.episode], STEPS: block.time}


def rhythm(y: np.ndarray, place: np.ndarray) -> Cycle:
    """The clearest cycle of what rows have beyond what is expected of them; rows at one place are
    put together, each place at the same scale.
    """
    n = int(place.max(initial=-1)) + 1
    rows = np.bincount(place, minlength=n)
    return cycle(np.bincount(place, y, n) / np.sqrt(np.maximum(rows, 1)))


def within(x: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    """x less the mean of its group."""
    total, rows = np.bincount(at, x, n), np.bincount(at, minlength=n)
    return np.asarray(x - (total / np.maximum(rows, 1))[at])
