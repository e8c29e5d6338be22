"""The row problem with guards, such as w . (pi - b) >= 0: exact, by a search over the multiplier
of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from surefoot.core.arrays import Array, like, namespace, row_sum, take_fields
from surefoot.planning.multiplier import Maximum, best_moves
from surefoot.planning.sweep import best_rows, duality_gap

ROUNDING = 1e-14  # a constraint missed by this share of its scale is met
SLOPE, NESTED_SLOPE = 1e-15, 1e-13  # rounding of a maximum: by a sweep, or itself by a search


@dataclass(frozen=True)
class AdvantageRows:
    """The rows `pi` [..., A] and the multiplier [...] of the constraint, 0 where it is slack."""

    pi: Array
    multiplier: Array


@dataclass(frozen=True)
class RowGuard:
    """c(m) = w . m - sum_a fine_a m_a^+ >= 0 for the moves m = pi - b; w and fine [..., A], no
    fine: 0.
    """

    w: Array
    fine: Array | None = None

    def __call__(self, move: Array) -> Array:
        """c [...]."""
        return row_sum(self.w * move) - _raised(self.fine, move)

    @property
    def size(self) -> Array:
        """Of its numbers, [...]."""
        xp = namespace(self.w)
        top = xp.max(xp.abs(self.w), axis=-1)
        return top if self.fine is None else top + xp.max(self.fine, axis=-1)

    def take(self, index: Array) -> RowGuard:
        """The same for these rows."""
        return take_fields(self, index, "w", "fine")


def best_guarded_rows(
    q: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float,
    guards: Sequence[RowGuard],
    *,
    price: Array | None = None,
    tolerance: float = 0.0,
) -> AdvantageRows:
    """The row of `best_rows`, price included, with c_k(pi - b) >= 0 for every guard k, exactly; the
    multiplier is that of the last guard.

    The search of `multiplier` for the last guard; each of its maxima is the same problem with the
    others, for q + mu w and price + mu fine: with none left, a sweep. The moves that meet the
    others are a convex set with 0 in it, and c is concave on it, which is all that the search
    asks for; so the answer is exact by induction, and b always meets every guard.

    Where up and down are both infinite nothing can move and w is not read; a row with a NaN in w
    elsewhere keeps b.
    """
    xp = namespace(q)
    shape, n_actions = q.shape, q.shape[-1]

    def flat(x: Array) -> Array:
        return xp.reshape(xp.broadcast_to(x, shape), (-1, n_actions))

    q, b, up, down = (flat(x) for x in (q, b, up, down))
    budget = xp.reshape(xp.broadcast_to(like(q, budget), shape[:-1]), (-1,))
    reach = _Reach(b, up, down, budget, None if price is None else flat(price))
    read = [_readable(flat(guard.w), b, up, down) for guard in guards]
    # Moves away from b, so that an action nobody may touch keeps b to the last bit.
    moves = best_rows(q, b, up, down, budget, price=reach.price, tolerance=tolerance).pi - b
    unknown = budget != budget
    for w in read:
        unknown = unknown | xp.any(w != w, axis=-1)
    moves = xp.where(unknown[:, None], 0.0, moves)  # a guard that is not a number: no move
    known = [
        RowGuard(
            xp.where(unknown[:, None], 0.0, w), None if guard.fine is None else flat(guard.fine)
        )
        for w, guard in zip(read, guards, strict=True)
    ]
    moves, multiplier = _guarded(q, moves, reach, tuple(known))
    return AdvantageRows(xp.reshape(b + moves, shape), xp.reshape(multiplier, shape[:-1]))


def _guarded(
    q: Array, free: Array, reach: _Reach, guards: tuple[RowGuard, ...]
) -> tuple[Array, Array]:
    """(moves, multipliers of the last guard); `free` are the best moves without any guard."""
    if not guards:
        return free, namespace(q).zeros_like(q[:, 0])
    *others, last = guards
    inner = tuple(others)
    free, _ = _guarded(q, free, reach, inner)
    return best_moves(q, free, _Advantage(reach, last, inner))


@dataclass(frozen=True)
class _Reach:
    """The rows that can be reached from b."""

    b: Array
    up: Array
    down: Array
    budget: Array
    price: Array | None

    def best(self, q: Array) -> Array:
        """The best moves for q."""
        return best_rows(q, self.b, self.up, self.down, self.budget, price=self.price).pi - self.b

    def take(self, index: Array) -> _Reach:
        """The same for these rows."""
        return take_fields(self, index, "b", "up", "down", "budget", "price")


@dataclass(frozen=True)
class _Advantage:
    """One guard on the moves within reach that meet the others."""

    reach: _Reach
    guard: RowGuard
    others: tuple[RowGuard, ...]

    @cached_property
    def slack(self) -> Array:
        return ROUNDING * self.guard.size

    def c(self, move: Array) -> Array:
        return self.guard(move)

    def worth(self, q: Array, move: Array) -> Array:
        return row_sum(q * move) - _raised(self.reach.price, move)

    def maximise(self, q: Array, mu: Array) -> Maximum:
        xp = namespace(q)
        tilted, reach = q + mu[:, None] * self.guard.w, self.reach
        if self.guard.fine is not None:
            fine = mu[:, None] * self.guard.fine
            reach = replace(reach, price=fine if reach.price is None else reach.price + fine)
        move, _ = _guarded(tilted, reach.best(tilted), reach, self.others)
        size = 1.0 + xp.max(xp.abs(tilted), axis=-1)
        h = row_sum(tilted * move) - _raised(reach.price, move)
        return Maximum(move, h, (NESTED_SLOPE if self.others else SLOPE) * size)

    def take(self, index: Array) -> _Advantage:
        others = tuple(guard.take(index) for guard in self.others)
        return _Advantage(self.reach.take(index), self.guard.take(index), others)


def _raised(price: Array | None, move: Array) -> Array | float:
    """sum_a price_a m_a^+."""
    return 0.0 if price is None else row_sum(namespace(move).where(move > 0, price * move, 0.0))


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
