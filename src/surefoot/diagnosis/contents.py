"""Contents: what the rows of a log say, as one number a row, so that copies can be found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.core import Batch

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


@dataclass(frozen=True, repr=False)
class Contents:
    """Of every row: `row` a hash of (s, a, reward, s'), its state and action, and its episode 0,
    1, ...
    """

    row: np.ndarray
    state: np.ndarray
    action: np.ndarray
    episode: np.ndarray


def contents(block: Batch) -> Contents:
    """The contents of a block of whole episodes.

    Rows that differ have the same number as likely as 1 in 2^64.
    """
    reward = _rounded(block.reward).view(np.uint64)
    found = np.zeros(len(block), dtype=np.uint64)
    for x in (
        block.state.astype(np.uint64),
        block.action.astype(np.uint64),
        block.next_state.astype(np.uint64),
        reward,
    ):
        found = mixed(found + x + ODD)
    return Contents(found, block.state, block.action, block.episode)


def _rounded(x: np.ndarray) -> np.ndarray:
    """x to five digits: another system may have written a copy with fewer digits than the
    original has.
    """
    size = np.where(x == 0, 1.0, 10.0 ** np.floor(np.log10(np.where(x == 0, 1.0, np.abs(x)))))
    return np.asarray(np.round(x / size, 4) * size + 0.0)  # -0.0 becomes 0.0


def joined(parts: tuple[Contents, ...]) -> Contents:
    """Blocks one after the other."""
    before = np.cumsum([0, *(int(part.episode[-1]) + 1 for part in parts)])
    episode = np.concatenate([part.episode + n for part, n in zip(parts, before, strict=False)])
    row, state, action = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("row", "state", "action")
    )
    return Contents(row, state, action, episode)


def mixed(x: np.ndarray) -> np.ndarray:
    """Numbers whose bits all depend on all bits of x."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(31)))
