"""The one fixed-point loop: many problems at once, each leaving when it is done, with a status for every one."""

from __future__ import annotations

from typing import Any, Protocol

from surefoot.core import Status
from surefoot.rows.arrays import Array, count_up, namespace, restore

COMPACT = 0.9  # problems still at work are moved together once fewer than this share of a batch are left


class Body(Protocol):
    """One step of an iteration on a batch of problems."""

    def advance(self, state: tuple[Array, ...], step: int) -> tuple[tuple[Array, ...], Array]:
        """The next state (arrays with one entry a problem) and which problems [B] are done with it."""

    def take(self, index: Array) -> Any:
        """The same body for these problems of the batch."""


def iterate(body: Body, state: tuple[Array, ...], max_steps: int) -> tuple[tuple[Array, ...], Status]:
    """Advance until every problem is done or `max_steps` are over; what is not done then is marked as not converged."""
    xp = namespace(state[0])
    index = count_up(state[0].shape[0], state[0])
    working = index >= 0
    out: list[tuple[Array, ...]] = []
    ends: list[tuple[Array, Array, Array]] = []  # (index, converged, steps) of the problems that have left

    def leave(who: Array, converged: bool, step: int) -> None:
        at = xp.nonzero(who)[0]
        where = xp.take(index, at)
        everyone = at.shape[0] == index.shape[0]
        out.append(state if everyone else tuple(xp.take(x, at, axis=0) for x in state))
        ends.append((where, (where >= 0) if converged else (where < 0), xp.zeros_like(where) + step))

    for step in range(1, max_steps + 1):
        state, done = body.advance(state, step)
        done = done & working
        if bool(xp.any(done)):
            leave(done, converged=True, step=step)
            working = working & ~done
            left = int(xp.sum(xp.astype(working, xp.int64)))
            if left == 0:
                break
            if left <= COMPACT * index.shape[0]:
                keep = xp.nonzero(working)[0]
                body, index, working = body.take(keep), xp.take(index, keep), xp.take(working, keep)
                state = tuple(xp.take(x, keep, axis=0) for x in state)
    else:
        leave(working, converged=False, step=max_steps)
    where = [i for i, _, _ in ends]
    whole = tuple(restore(where, [piece[k] for piece in out]) for k in range(len(state)))
    return whole, Status(restore(where, [c for _, c, _ in ends]), restore(where, [s for _, _, s in ends]))
