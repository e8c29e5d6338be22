"""The row problem with w . (pi - b) >= 0: exact, by a search over its multiplier."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from surefoot.rows.arrays import Array, like, namespace, row_sum, take_fields
from surefoot.rows.multiplier import Maximum, best_moves
from surefoot.rows.sweep import best_rows, duality_gap

ROUNDING = 1e-14  # a constraint missed by this share of its scale is met


@dataclass(frozen=True)
class AdvantageRows:
    """The rows `pi` [..., A] and the multiplier [...] of the constraint, 0 where it is slack."""

    pi: Array
    multiplier: Array


def best_rows_with_advantage(
    q: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float,
    w: Array,
    *,
    tolerance: float = 0.0,
) -> AdvantageRows:
    """argmax_pi  q . pi   s.t.  the budget of `best_rows`  and  w . (pi - b) >= 0.

    The search is that of `multiplier`, with c(m) = w . m, and each of its maxima is a sweep.

    Where up and down are both infinite nothing can move and w is not read; a row with a NaN in w
    elsewhere keeps b.
    """
    xp = namespace(q)
    shape, n_actions = q.shape, q.shape[-1]
    q, b, up, down = (
        xp.reshape(xp.broadcast_to(x, shape), (-1, n_actions)) for x in (q, b, up, down)
    )
    w = _readable(xp.reshape(xp.broadcast_to(w, shape), (-1, n_actions)), b, up, down)
    budget = xp.reshape(xp.broadcast_to(like(q, budget), shape[:-1]), (-1,))
    # Moves away from b, so that an action nobody may touch keeps b to the last bit.
    moves = best_rows(q, b, up, down, budget, tolerance=tolerance).pi - b
    unknown = xp.any(w != w, axis=-1)[:, None]  # an advantage that is not a number: no move
    w, moves = xp.where(unknown, 0.0, w), xp.where(unknown, 0.0, moves)
    moves, multiplier = best_moves(q, moves, _Advantage(b, up, down, budget, w))
    return AdvantageRows(xp.reshape(b + moves, shape), xp.reshape(multiplier, shape[:-1]))


@dataclass(frozen=True)
class _Advantage:
    """c(m) = w . m for moves m away from b within the budget."""

    b: Array
    up: Array
    down: Array
    budget: Array
    w: Array

    @cached_property
    def slack(self) -> Array:
        xp = namespace(self.w)
        return ROUNDING * xp.max(xp.abs(self.w), axis=-1)

    def c(self, move: Array) -> Array:
        return row_sum(self.w * move)

    def maximise(self, q: Array, mu: Array) -> Maximum:
        xp = namespace(q)
        tilted = q + mu[:, None] * self.w
        move = best_rows(tilted, self.b, self.up, self.down, self.budget).pi - self.b
        size = 1.0 + xp.max(xp.abs(tilted), axis=-1)
        return Maximum(move, row_sum(tilted * move), 1e-15 * size)

    def take(self, index: Array) -> _Advantage:
        return take_fields(self, index, "b", "up", "down", "budget", "w")


def advantage_gap(
    q: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float,
    w: Array,
    solution: AdvantageRows,
) -> Array:
    """How far q . pi can be from optimal, [...]: h(mu) bounds it from above for every mu >= 0,
    and the sweep's own gap bounds h.
    """
    w = _readable(w, b, up, down)
    tilted = q + solution.multiplier[..., None] * w
    vertex = best_rows(tilted, b, up, down, budget)
    bound = row_sum(tilted * (vertex.pi - b)) + duality_gap(tilted, b, up, down, budget, vertex)
    return bound - row_sum(q * (solution.pi - b))


def _readable(w: Array, b: Array, up: Array, down: Array) -> Array:
    """w minus its largest entry (moves add up to 0, so only differences count, and equal entries
    become exactly 0), 0 where not read.
    """
    xp = namespace(w)
    fixed = (up == xp.inf) & ((down == xp.inf) | (b == 0))
    top = xp.max(xp.where(fixed, -xp.inf, w), axis=-1)[..., None]
    return xp.where(fixed, 0.0, xp.where(fixed, 0.0, w) - xp.where(top > -xp.inf, top, 0.0))
