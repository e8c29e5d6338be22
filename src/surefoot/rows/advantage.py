"""The row problem with one more linear constraint, w . (pi - b) >= 0: exact, by a search over
its multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.rows.arrays import Array, like, namespace, restore, row_sum
from surefoot.rows.sweep import best_rows, duality_gap

ROUNDING = 1e-14  # a constraint missed by this share of its scale is met


@dataclass(frozen=True)
class AdvantageRows:
    """The rows `pi` [..., A] and the multiplier [...] of the advantage constraint (0 where it
    does not bind).
    """

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

    Dualise the new constraint: h(mu) = max_pi (q + mu w) . pi - mu w . b over the budget set is
    convex and piecewise linear in mu >= 0, and each solve is a sweep. Keep a row that violates the
    constraint and one that meets it (at first b itself), go to the multiplier at which their two
    lines cross, solve, replace one of them; where h does not rise above the crossing, the mixture
    of the two that makes w . (pi - b) = 0 is optimal. Each round finds a new vertex, so the search
    ends.

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
    multiplier = xp.zeros_like(budget)
    unknown = xp.any(w != w, axis=-1)[
        :, None
    ]  # an advantage that is not a number holds for no move
    w, moves = xp.where(unknown, 0.0, w), xp.where(unknown, 0.0, moves)
    violates = row_sum(w * moves) < -ROUNDING * xp.max(xp.abs(w), axis=-1)
    todo, rest = xp.nonzero(violates)[0], xp.nonzero(~violates)[0]
    if todo.shape[0] > 0:
        found = _cross(*(xp.take(x, todo, axis=0) for x in (q, b, up, down, budget, w, moves)))
        moves = restore([todo, rest], [found[0], xp.take(moves, rest, axis=0)])
        multiplier = restore([todo, rest], [found[1], xp.take(multiplier, rest)])
    return AdvantageRows(xp.reshape(b + moves, shape), xp.reshape(multiplier, shape[:-1]))


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


def _cross(
    q: Array, b: Array, up: Array, down: Array, budget: Array, w: Array, against: Array
) -> tuple[Array, Array]:
    """(moves, multiplier) for rows whose unconstrained best move `against` lowers w; a row
    leaves when its search ends.
    """
    xp = namespace(q)
    with_it = xp.zeros_like(b)  # the move that meets the constraint: none, at first
    last = xp.full_like(budget, -1.0)
    index = xp.nonzero(budget == budget)[0]
    finished: list[tuple[Array, Array, Array]] = []
    for left in range(
        4 * q.shape[1] + 16, -1, -1
    ):  # each round finds a new vertex; the cap is for rounding that finds two in turn
        w_against, w_with, q_with = row_sum(w * against), row_sum(w * with_it), row_sum(q * with_it)
        mu = (row_sum(q * against) - q_with) / (w_with - w_against)
        mu = xp.maximum(mu, xp.zeros_like(mu))
        tilted = q + mu[:, None] * w
        move = best_rows(tilted, b, up, down, budget).pi - b
        size = 1.0 + xp.max(xp.abs(tilted), axis=-1)
        # Over when h does not rise above the crossing, or rounding finds the same crossing again.
        over = (row_sum(tilted * move) - (q_with + mu * w_with) <= 1e-15 * size) | (mu == last)
        over = over if left else over == over
        if bool(xp.any(over)):
            at = xp.nonzero(over)[0]
            share = xp.maximum(w_with, xp.zeros_like(mu)) / (w_with - w_against)
            mix = with_it + share[:, None] * (against - with_it)
            finished.append((xp.take(index, at), xp.take(mix, at, axis=0), xp.take(mu, at)))
            keep = xp.nonzero(~over)[0]
            if keep.shape[0] == 0:
                break
            index, q, b, up, down, budget, w, against, with_it, mu, move = (
                xp.take(x, keep, axis=0)
                for x in (index, q, b, up, down, budget, w, against, with_it, mu, move)
            )
        last = mu
        meets = (row_sum(w * move) >= -ROUNDING * xp.max(xp.abs(w), axis=-1))[:, None]
        with_it, against = xp.where(meets, move, with_it), xp.where(meets, against, move)
    where = [i for i, _, _ in finished]
    return restore(where, [m for _, m, _ in finished]), restore(where, [m for _, _, m in finished])
