"""The row problem with costs of 0 and infinity: the greedy step and both SPIBB."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.core.arrays import (
    Array,
    actions_first,
    count_up,
    first_true,
    like,
    namespace,
    one_hot,
    only,
    row_slices,
)


@dataclass(frozen=True)
class FreeRows:
    """argmax_pi q . pi  over probability rows  with pi <= b where not may_rise  and  pi >= b where
    not may_fall, prepared for many q.

    The receiver is the best action that may rise; every action that may fall and is worse gives it
    all its mass. Values within `tolerance` are equal, and equal values move no mass; with
    `lowest_index` they move to the lowest index instead. A row in which nothing may rise is b. With
    `leave_closed` an action that may not rise loses its mass even if it is worth more than the
    receiver (a method without a baseline chooses among seen actions only, whatever their values).
    Otherwise this is `best_rows` for costs of 0 and infinity (Laroche et al. 2019, Algorithms 1 and
    2; the greedy step has may_rise = may_fall = everywhere).

    b and the flags are held actions first, [A, rows]; make one with `free_step`.
    """

    b: Array
    closed: Array  # beyond all values where an action may not rise, else 0
    fall: Array | None  # None: all may
    tolerance: float
    lowest_index: bool
    leave_closed: bool

    def __call__(self, q: Array) -> Array:
        """The best rows for action values q [..., A]."""
        xp = namespace(q)
        flat = xp.reshape(q, (-1, q.shape[-1]))
        out = xp.empty_like(flat)
        for i in row_slices(flat):
            out[i, :] = self._block(actions_first(flat[i, :]), i)
        return xp.reshape(out, q.shape)

    def _block(self, q: Array, rows: slice) -> Array:
        xp = namespace(q)
        b, tolerance = self.b[:, rows], self.tolerance
        value = q - self.closed[:, rows]
        best = xp.max(value, axis=0)
        receiver = first_true(value >= best - tolerance)
        gives = (
            q < best - tolerance
            if not self.leave_closed
            else xp.abs(q - xp.where(best > -1e299, best, xp.nan)) > tolerance
        )
        if self.lowest_index:
            gives = gives | (
                (count_up(q.shape[0], q)[:, None] > receiver) & (q <= best + tolerance)
            )
        given = only(gives if self.fall is None else gives & self.fall[:, rows], b)
        pi = b - given
        pi += only(one_hot(receiver, q.shape[0]), xp.sum(given, axis=0))
        return xp.permute_dims(pi, (1, 0))


def free_step(
    b: Array,
    may_rise: Array,
    may_fall: Array | None = None,
    *,
    tolerance: float = 0.0,
    lowest_index: bool = False,
    leave_closed: bool = False,
) -> FreeRows:
    """Prepare `FreeRows` for rows b [..., A] and flags like b (may_fall None: all may)."""
    closed = only(~actions_first(may_rise), like(b, [[1e300]]))
    fall = None if may_fall is None else actions_first(may_fall)
    return FreeRows(actions_first(b), closed, fall, tolerance, lowest_index, leave_closed)


def free_rows(
    q: Array,
    b: Array,
    may_rise: Array,
    may_fall: Array | None = None,
    *,
    tolerance: float = 0.0,
    lowest_index: bool = False,
    leave_closed: bool = False,
) -> Array:
    """The best rows for q [..., A], once; see `FreeRows`."""
    options = {"lowest_index": lowest_index, "leave_closed": leave_closed}
    return free_step(b, may_rise, may_fall, tolerance=tolerance, **options)(q)
