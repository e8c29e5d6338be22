"""Rows with one more constraint, such as a guard or a certified advantage: the search for its
multiplier, and the row problem with guards, such as w . (pi - b) >= 0, exact by that search.

maximise  q(m)   over the moves m within reach   subject to   c(m) >= 0,   q and c concave and
piecewise linear with c(0) = 0; q(m) is q . m, or less by a price. Dualise the constraint:
h(mu) = max_m q(m) + mu c(m) is convex and piecewise linear in mu >= 0, and each maximum is known
how to find. In every row:

1. If the best move at mu = 0 meets the constraint, it is the answer.
2. Keep a move that violates the constraint (at first that one) and one that meets it (at first
   m = 0).
3. Set mu to where their two lines  mu -> q(m) + mu c(m)  cross.
4. Maximise at this mu; the move found replaces the one of its kind.
5. Stop when h(mu) does not rise above the crossing: both moves maximise q(m) + mu c(m), so does
   every mixture of them, and q and c are linear between them.
6. The mixture with c = 0 is the answer: optimal, since it maximises the Lagrangian and mu c = 0.

Each round finds a new vertex, so the search ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, Self

from surefoot.core.arrays import Array, count_up, like, namespace, restore, row_sum, take_fields
from surefoot.planning.sweep import BestRows, best_rows

ROUNDING = 1e-14  # a constraint missed by this share of its scale is met
SLOPE, NESTED_SLOPE = 1e-15, 1e-13  # rounding of a maximum: by a sweep, or itself by a search


class Maximum(NamedTuple):
    """A move [rows, A] that maximises q(m) + mu c(m), the maximum h(mu) [rows], and how much of
    it is rounding.
    """

    move: Array
    h: Array
    rounding: Array


class Constraint(Protocol):
    """Rows with one more constraint c(m) >= 0 on their moves m."""

    @property
    def slack(self) -> Array | float:
        """c(m) down to minus this counts as met."""

    def c(self, move: Array) -> Array:
        """c [rows] of moves [rows, A]."""

    def worth(self, q: Array, move: Array) -> Array:
        """q(m) [rows] of moves [rows, A]."""

    def maximise(self, q: Array, mu: Array) -> Maximum:
        """The maximum of q(m) + mu c(m) over the moves within reach; mu [rows]."""

    def take(self, index: Array) -> Self:
        """The same for these rows."""


def best_moves(q: Array, free: Array, constraint: Constraint) -> tuple[Array, Array]:
    """(moves, multipliers) of the best moves with c >= 0, for q [rows, A]; `free` are the best
    moves without the constraint.
    """
    xp = namespace(q)
    none = xp.zeros_like(q[:, 0])
    violates = constraint.c(free) < -constraint.slack
    todo, rest = xp.nonzero(violates)[0], xp.nonzero(~violates)[0]
    if todo.shape[0] == 0:  # step 1, in every row
        return free, none
    found, mu = _search(
        xp.take(q, todo, axis=0), xp.take(free, todo, axis=0), constraint.take(todo)
    )
    moves = restore([todo, rest], [found, xp.take(free, rest, axis=0)])
    return moves, restore([todo, rest], [mu, xp.take(none, rest)])


def _search(q: Array, violating: Array, constraint: Constraint) -> tuple[Array, Array]:
    """Steps 2 to 6 in all rows at once; a row leaves when its search ends."""
    xp = namespace(q)
    meeting = xp.zeros_like(q)
    last = xp.full_like(q[:, 0], -1.0)
    index = count_up(q.shape[0], q)
    ended: list[tuple[Array, Array, Array]] = []
    # The cap is for rounding that finds two vertices in turn.
    for left in range(4 * q.shape[1] + 16, -1, -1):
        c_violating, c_meeting = constraint.c(violating), constraint.c(meeting)
        q_meeting = constraint.worth(q, meeting)
        zero = xp.zeros_like(q_meeting)
        mu = (constraint.worth(q, violating) - q_meeting) / (c_meeting - c_violating)  # step 3
        mu = xp.maximum(mu, zero)
        move, h, rounding = constraint.maximise(q, mu)  # step 4
        over = h - (q_meeting + mu * c_meeting) <= rounding  # step 5
        over = over | (mu == last)  # rounding has found the same crossing again
        over = over if left else over == over
        if bool(xp.any(over)):
            share = xp.maximum(c_meeting, zero) / (c_meeting - c_violating)  # step 6
            mixture = meeting + share[:, None] * (violating - meeting)
            at, keep = xp.nonzero(over)[0], xp.nonzero(~over)[0]
            ended.append(tuple(xp.take(x, at, axis=0) for x in (index, mixture, mu)))
            if keep.shape[0] == 0:
                break
            index, q, violating, meeting, mu, move = (
                xp.take(x, keep, axis=0) for x in (index, q, violating, meeting, mu, move)
            )
            constraint = constraint.take(keep)
        last = mu
        meets = (constraint.c(move) >= -constraint.slack)[:, None]  # step 4: of which kind it is
        meeting, violating = xp.where(meets, move, meeting), xp.where(meets, violating, move)
    where = [i for i, _, _ in ended]
    return restore(where, [m for _, m, _ in ended]), restore(where, [mu for _, _, mu in ended])


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
) -> BestRows:
    """The row of `best_rows`, price included, with c_k(pi - b) >= 0 for every guard k, exactly; the
    multiplier is that of the last guard.

    The search of `best_moves` for the last guard; each of its maxima is the same problem with the
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
    return BestRows(xp.reshape(b + moves, shape), xp.reshape(multiplier, shape[:-1]))


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


def _readable(w: Array, b: Array, up: Array, down: Array) -> Array:
    """w minus its largest entry (moves add up to 0, so only differences count, and equal entries
    become exactly 0), 0 where not read.
    """
    xp = namespace(w)
    fixed = (up == xp.inf) & ((down == xp.inf) | (b == 0))
    top = xp.max(xp.where(fixed, -xp.inf, w), axis=-1)[..., None]
    return xp.where(fixed, 0.0, xp.where(fixed, 0.0, w) - xp.where(top > -xp.inf, top, 0.0))
