"""Episodes of a log: where they start, sums along them, and parts of a log that keep episodes
whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from surefoot.core import Batch
from surefoot.core.batch import COLUMNS
from surefoot.errors import LogError, ParameterError

SHARE = 0.2  # of the episodes that go into the training part (Thomas et al. 2015)
FEWEST = 2  # episodes a part needs: one has no scatter


def first_rows(batch: Batch) -> np.ndarray:
    """The first row of every episode."""
    return np.flatnonzero(np.append(True, batch.last[:-1]))


def last_rows(batch: Batch) -> np.ndarray:
    """The last row of every episode."""
    return np.flatnonzero(batch.last)


def times(batch: Batch) -> np.ndarray:
    """t = 0, 1, ... of every row in its episode."""
    found: np.ndarray = np.arange(len(batch)) - first_rows(batch)[batch.episode]
    return found


def running_sums(batch: Batch, x: np.ndarray) -> np.ndarray:
    """x_0 + ... + x_t within each episode, for all of them one step of time after the other.

    Not by differences of one long cumulative sum: -inf (the logarithm of a weight 0) would become
    NaN, and rounding would leak from one episode into the next.
    """
    first = first_rows(batch)
    length = np.diff(np.append(first, len(batch)))
    longest_first = np.argsort(-length, kind="stable")
    first, shorter = first[longest_first], -length[longest_first]
    total = np.array(x, dtype=float)
    for t in range(1, int(length.max())):
        at = first[: np.searchsorted(shorter, -t, side="left")] + t  # episodes of more than t steps
        total[at] += total[at - 1]
    return total


def take_episodes(batch: Batch, which: np.ndarray) -> Batch:
    """The log of the episodes marked in `which` [n_episodes], renumbered in their order; states
    and actions keep their ids.
    """
    which = np.asarray(which)
    if which.dtype != bool or which.shape != (batch.n_episodes,):
        raise LogError(
            f"expected one flag for each of {batch.n_episodes} episodes, got {which.dtype} of shape"
            f" {which.shape}"
        )
    if not which.any():
        raise LogError("no episode is taken: at least one is needed")
    rows = which[batch.episode]
    columns = {name: getattr(batch, name)[rows] for name in COLUMNS}
    columns["episode"] = (np.cumsum(which) - 1)[columns["episode"]]
    return replace(batch, **columns, left_out=0)


def split_episodes(
    batch: Batch, rng: np.random.Generator, share: float = SHARE
) -> tuple[Batch, Batch]:
    """(training part, held-out part): a random `share` of the episodes, and the others."""
    if not 0 < share < 1:
        raise ParameterError(f"share must lie in (0, 1), got {share!r}")
    n = batch.n_episodes
    if n < 2 * FEWEST:
        raise LogError(f"a log of {n} episodes cannot be split: each part needs {FEWEST} of them")
    taken = min(max(round(share * n), FEWEST), n - FEWEST)
    training = np.zeros(n, dtype=bool)
    training[rng.permutation(n)[:taken]] = True
    return take_episodes(batch, training), take_episodes(batch, ~training)
