"""The one fixed-point loop: many problems at once, each leaving when done, with a status."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from surefoot.core import Status
from surefoot.core.arrays import Array, count_up, is_numpy_array, namespace, restore

# problems still at work are moved together once fewer than this share of a group are left
COMPACT = 0.9
FIRST, LONGEST = 8, 64  # steps of the first round, and of the longest
# pairs (s, a) that a CPU takes through a round together, so that their arrays stay in the cache
GROUP_CELLS = 25600


class Body(Protocol):
    """One step of an iteration on a batch of problems."""

    def advance(self, state: tuple[Array, ...], step: int) -> tuple[tuple[Array, ...], Array]:
        """The next state (arrays, one entry a problem), and which problems [B] are done with it."""

    def take(self, index: Array) -> Any:
        """The same body for these problems of the batch."""


def iterate(
    body: Body, state: tuple[Array, ...], max_steps: int
) -> tuple[tuple[Array, ...], Status]:
    """Advance until every problem is done, or `max_steps`; the rest is marked as not converged.

    The first few steps take the whole batch. The problems that are not done continue in rounds, in
    groups that fit the cache and are formed again each round: a few slow problems do not delay the
    others, and share the overhead of a step.
    """
    ended = _Ended([], [], [])
    groups = [(count_up(state[0].shape[0], state[0]), state)]
    step, length = 0, FIRST
    while groups:
        last = min(step + length, max_steps)
        left = [_round(body, index, part, step, last, ended) for index, part in groups]
        step, length = last, min(2 * length, LONGEST)
        left = [(index, part) for index, part in left if index.shape[0]]
        if step == max_steps:
            for index, part in left:
                ended.add(index, part, index < 0, step)
            break
        groups = _regroup(left)
    *whole, steps = (
        restore(ended.index, [part[k] for part in ended.state]) for k in range(len(state) + 1)
    )
    return tuple(whole), Status(restore(ended.index, ended.converged), steps)


@dataclass(frozen=True)
class _Ended:
    """Problems that have left: index, last state with its step, and whether they converged."""

    index: list[Array]
    state: list[tuple[Array, ...]]
    converged: list[Array]

    def add(self, index: Array, state: tuple[Array, ...], converged: Array, step: int) -> None:
        """These problems leave after this step."""
        self.index.append(index)
        self.state.append((*state, namespace(index).zeros_like(index) + step))
        self.converged.append(converged)


def _round(
    body: Body, index: Array, state: tuple[Array, ...], first: int, last: int, ended: _Ended
) -> tuple[Array, tuple[Array, ...]]:
    """Steps first + 1, ..., last of one group; the problems that are not done after them."""
    xp = namespace(index)
    body = body if first == 0 else body.take(index)  # the first group is the whole batch
    working = index >= 0
    for step in range(first + 1, last + 1):
        state, done = body.advance(state, step)
        done = done & working
        if not bool(xp.any(done)):
            continue
        leaving = xp.nonzero(done)[0]
        ended.add(*_some(leaving, index, state), xp.take(done, leaving), step)
        working = working & ~done
        keep = xp.nonzero(working)[0]
        if keep.shape[0] == 0:
            return _some(keep, index, state)
        if keep.shape[0] <= COMPACT * index.shape[0]:
            index, state = _some(keep, index, state)
            body, working = body.take(keep), xp.take(working, keep)
    return _some(xp.nonzero(working)[0], index, state)


def _some(at: Array, index: Array, state: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
    """Index and state of the problems at these places of a group."""
    xp = namespace(index)
    if at.shape[0] == index.shape[0]:
        return index, state
    return xp.take(index, at), tuple(xp.take(x, at, axis=0) for x in state)


def _regroup(left: list[tuple[Array, tuple[Array, ...]]]) -> list[tuple[Array, tuple[Array, ...]]]:
    """The problems that are left, in new groups: one group but on a CPU."""
    if not left:
        return []
    xp = namespace(left[0][0])
    index = xp.concat([index for index, _ in left])
    state = tuple(
        xp.concat(list(parts), axis=0) for parts in zip(*(part for _, part in left), strict=True)
    )
    size = index.shape[0]
    if is_numpy_array(index):
        size = max(1, GROUP_CELLS // max(1, math.prod(state[0].shape[1:])))
    slices = [slice(i, i + size) for i in range(0, index.shape[0], size)]
    return [(index[part], tuple(x[part, ...] for x in state)) for part in slices]
