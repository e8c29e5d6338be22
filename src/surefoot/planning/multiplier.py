"""The search for the multiplier of one more constraint on rows: the crossing search of the
advantage constraint and of certified advantage.

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

from typing import NamedTuple, Protocol, Self

from surefoot.core.arrays import Array, count_up, namespace, restore


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
