"""Episodes of a log: sums along them, and random parts of a log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from surefoot.core import Batch
from surefoot.core.batch import COLUMNS
from surefoot.core.errors import LogError, ParameterError

TRAINING_SHARE = 0.2  # of the episodes that go into the training part (Thomas et al. 2015)
FEWEST_IN_PART = 2  # episodes a part needs: one has no scatter


def running_sums(batch: Batch, x: np.ndarray) -> np.ndarray:
    """x_0 + ... + x_t within each episode, for all of them one step of time after the other.

    Not by differences of one long cumulative sum: -inf (the logarithm of a weight 0) would become
    NaN, and rounding would leak from one episode into the next.
    """
    first = np.flatnonzero(batch.first)
    length = np.diff(np.append(first, len(batch)))
    longest_first = np.argsort(-length, kind="stable")
    first, shorter = first[longest_first], -length[longest_first]
    total = np.array(x, dtype=float)
    for t in range(1, int(length.max())):
        at = first[: np.searchsorted(shorter, -t, side="left")] + t  # episodes of more than t steps
        total[at] += total[at - 1]
    return total


def take_rows(batch: Batch, keep: np.ndarray, piece: np.ndarray | None = None) -> Batch:
    """The rows marked in `keep` as a log of their own; states and actions keep their ids.

    An episode is cut where a row is missing, and where `piece` [rows] changes within it.
    """
    at = np.flatnonzero(keep)
    columns = {name: getattr(batch, name)[at] for name in COLUMNS}
    beside = {name: x[at] for name, x in batch.beside.items()}
    broken = (np.diff(at) != 1) | (np.diff(columns["episode"]) != 0)
    if piece is not None:
        broken |= np.diff(piece[at]) != 0
    columns["episode"] = np.append(0, np.cumsum(broken))
    return replace(batch, **columns, beside=beside, left_out=0)


def take_episodes(batch: Batch, which: np.ndarray) -> Batch:
    """The log of the episodes marked in `which` [n_episodes]."""
    which = np.asarray(which)
    if which.dtype != bool or which.shape != (batch.n_episodes,):
        raise LogError(
            f"expected one flag for each of {batch.n_episodes} episodes, got {which.dtype} of shape"
            f" {which.shape}"
        )
    if not which.any():
        raise LogError("no episode is taken: at least one is needed")
    return take_rows(batch, which[batch.episode])


def random_part(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """[n] flags of which `size` are set, chosen at random: every split of a log is drawn here."""
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.permutation(n)[:size]] = True
    return chosen


def split_episodes(
    batch: Batch, rng: np.random.Generator, share: float = TRAINING_SHARE
) -> tuple[Batch, Batch]:
    """(training part, held-out part): a random `share` of the episodes, and the others."""
    if not 0 < share < 1:
        raise ParameterError(f"share must lie in (0, 1), got {share!r}")
    n = batch.n_episodes
    if n < 2 * FEWEST_IN_PART:
        raise LogError(
            f"a log of {n} episodes cannot be split: each part needs {FEWEST_IN_PART} of them"
        )
    training = random_part(n, min(max(round(share * n), FEWEST_IN_PART), n - FEWEST_IN_PART), rng)
    return take_episodes(batch, training), take_episodes(batch, ~training)
