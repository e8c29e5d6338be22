"""The row problem, solved exactly by a sweep over the price of the budget: the heart of the
library.
"""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.rows.arrays import (
    Array,
    actions_first,
    actions_last,
    count_up,
    first_max,
    first_true,
    like,
    map_blocks,
    namespace,
    one_hot,
    only,
    pick,
    restore,
    times,
)

TINY = 1e-280  # the least cost of a move: a free one has a slope beyond all others


@dataclass(frozen=True)
class BestRows:
    """What the sweep returns: the rows `pi` [..., A] and the shadow price [...] of their budget
    (q gained per unit of budget).
    """

    pi: Array
    price: Array


def best_rows(
    q: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float = 0.0,
    *,
    tolerance: float = 0.0,
) -> BestRows:
    """argmax_pi  q . pi   s.t.   sum_a up_a (pi_a - b_a)^+ + down_a (b_a - pi_a)^+  <=  budget,   pi a probability row.

    Costs lie in [0, inf]; an infinite cost forbids the move. At a price lambda of the budget all
    moved mass sits in one receiver, the maximiser of q_c - lambda up_c, and donor a gives
    everything iff q_a + lambda down_a lies below its value. As lambda falls from infinity to 0, two
    kinds of events happen: the receiver steps along the upper hull of (up_c, q_c), or a donor
    joins. The sweep performs them in order of their slope, paying for each; the first one the
    budget does not cover is performed in part, and its slope is the shadow price. Proof of
    optimality: weak duality, see `duality_gap`.

    Values within `tolerance` of each other are equal and move no mass. `budget` is a number or an
    array [...].
    """
    xp = namespace(q)
    shape = q.shape
    budget = xp.broadcast_to(like(q, budget), shape[:-1])[..., None]

    def work(q: Array, b: Array, up: Array, down: Array, budget: Array) -> tuple[Array, Array]:
        return _sweep(q, b, up, down, budget[:, 0], tolerance)

    pi, price = map_blocks(work, shape, q, b, up, down, budget)
    return BestRows(xp.reshape(pi, shape), xp.reshape(price, shape[:-1]))


def _sweep(
    q: Array, b: Array, up: Array, down: Array, budget: Array, tolerance: float
) -> tuple[Array, Array]:
    """The sweep on [rows, A]; a row that has spent its budget, or has no event left, is finished
    and leaves.
    """
    xp = namespace(q)
    n_actions, n_rows = q.shape[1], q.shape[0]
    q, b, up, down = (actions_first(x) for x in (q, b, up, down))
    # Start at the cheapest receiver; among equally cheap ones at the most valuable. Without a
    # receiver the row keeps b.
    tiny = like(q, [[TINY]])
    cheapest = (up == xp.min(up, axis=0)) & (up < xp.inf)
    receiver = first_max(q - only(~cheapest, like(q, [[1e300]])))
    alive = pick(up, receiver) < xp.inf
    opens, donor = (
        up < xp.inf,
        (down < xp.inf) & (b > 0),
    )  # may receive; may give, and still has its mass
    reach, descent = (xp.where(x < xp.inf, x, 0.0) for x in (up, down))
    given, moved, left = xp.zeros_like(b), xp.zeros_like(budget), budget
    onward, passed, price = (
        receiver,
        xp.zeros_like(budget),
        xp.zeros_like(budget),
    )  # how a row ends, set when it does
    index = count_up(n_rows, q)
    finished: list[tuple[Array, Array, Array]] = []

    def leave(rows: Array) -> None:
        g, k, c = (xp.take(x, rows, axis=-1) for x in (given, receiver, onward))
        m, on = xp.take(moved, rows), xp.take(passed, rows)
        pi = (
            xp.take(b, rows, axis=1)
            - g
            + only(one_hot(k, n_actions), m - on)
            + only(one_hot(c, n_actions), on)
        )
        finished.append((xp.take(index, rows), pi, xp.take(price, rows)))

    while bool(xp.any(alive)):
        q_k, up_k = pick(q, receiver), pick(reach, receiver)
        # The slope of every event, the value gained per unit of budget: steps to better receivers,
        # gifts of worse donors.
        rise = q - q_k
        steps = only(opens & (rise > tolerance), rise) / xp.maximum(reach - up_k, tiny)
        gifts = only(donor & (rise < -tolerance), rise) / xp.maximum(descent + up_k, tiny)
        slope = steps - gifts  # one of the two is 0
        steepest = xp.max(slope, axis=0)
        event = first_true(slope == steepest)  # the order of events of one slope does not matter
        happens = alive & (steepest > 0)
        step = happens & (pick(q, event) > q_k)
        gives = happens & ~step
        mass = xp.where(step, moved, pick(b, event))
        cost = xp.where(step, pick(reach, event) - up_k, pick(descent, event) + up_k) * mass
        # Pay for it; what the budget does not cover is performed in part, and ends the row.
        short = happens & (cost > left)
        part = xp.where(short, left / xp.where(short, cost, 1.0), 1.0)
        gift = only(gives, part * mass)
        here = one_hot(event, n_actions) & gives
        given = given + only(here, gift)
        moved = moved + gift
        donor = donor & ~here
        left = left - only(happens, part * cost)
        ends = alive & (short | ~happens)
        passed = xp.where(
            ends & step, part * mass, passed
        )  # mass that has gone on to the next receiver
        onward = xp.where(ends & step, event, onward)
        price = xp.where(ends & short, steepest, price)
        receiver = xp.where(step & ~ends, event, receiver)
        alive = alive & ~ends
        n_alive = int(xp.sum(xp.astype(alive, xp.int64)))
        if 0 < n_alive < 0.6 * index.shape[0]:
            leave(xp.nonzero(~alive)[0])
            keep = xp.nonzero(alive)[0]
            q, b, opens, reach, descent, donor, given = (
                xp.take(x, keep, axis=1) for x in (q, b, opens, reach, descent, donor, given)
            )
            index, receiver, moved, left, onward, passed, price, alive = (
                xp.take(x, keep)
                for x in (index, receiver, moved, left, onward, passed, price, alive)
            )
    leave(count_up(index.shape[0], q))
    where = [i for i, _, _ in finished]
    pi = restore(where, [p for _, p, _ in finished], axis=1)
    return actions_last(pi, (n_rows, n_actions)), restore(where, [p for _, _, p in finished])


def keep_or_best_rows(
    q: Array,
    pi: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float,
    *,
    tolerance: float,
) -> Array:
    """`best_rows`, but a row of pi that is still optimal (its duality gap is at most `tolerance`)
    is kept, and not solved again.

    Late in an iteration nearly all rows are: the certificate costs a fraction of the sweep. pi must
    lie within the budget.
    """
    xp = namespace(q)
    shape = q.shape
    budget = xp.broadcast_to(like(q, budget), shape[:-1])[..., None]

    def work(q: Array, pi: Array, b: Array, up: Array, down: Array, budget: Array) -> tuple[Array]:
        if bool(xp.all(pi == b)):  # nothing has moved yet: nothing to keep
            return (_sweep(q, b, up, down, budget[:, 0], tolerance)[0],)
        gap = duality_gap(q, b, up, down, budget[:, 0], BestRows(pi, price_of(q, pi, b, up, down)))
        # A move between values that have become equal is to be taken back: such rows are solved
        # again.
        worst_receiver = xp.min(xp.where(pi > b, q, xp.inf), axis=-1)[:, None]
        idle = xp.any((pi < b) & (q >= worst_receiver - tolerance), axis=-1)
        good = (gap <= tolerance) & ~idle
        old, new = xp.nonzero(good)[0], xp.nonzero(~good)[0]
        if new.shape[0] == 0:
            return (pi,)
        parts = [xp.take(x, new, axis=0) for x in (q, b, up, down, budget)]
        found, _ = _sweep(parts[0], parts[1], parts[2], parts[3], parts[4][:, 0], tolerance)
        return (restore([old, new], [xp.take(pi, old, axis=0), found]),)

    (kept,) = map_blocks(work, shape, q, pi, b, up, down, budget)
    return xp.reshape(kept, shape)


def price_of(q: Array, pi: Array, b: Array, up: Array, down: Array) -> Array:
    """The price [rows] at which pi [rows, A] could be optimal: the slope of the move it stopped in,
    0 if it stopped in none.

    That is a donor that kept a part of its mass, or mass that is split between two receivers.
    """
    xp = namespace(q)
    up, down = (
        xp.where(x < xp.inf, x, 0.0) for x in (up, down)
    )  # what has moved cost something finite
    q, pi, b, up, down = (actions_first(x) for x in (q, pi, b, up, down))
    rises, falls = pi > b, (pi < b) & (pi > 0)
    low = like(q, [[-1e300]])
    best, worst = (
        first_max(q + only(~rises, low)),
        first_max(only(~rises, low) - q),
    )  # the two receivers, or one twice
    partial = first_true(falls)
    donor, split = pick(falls, partial), pick(rises, best) & (best != worst)
    value = pick(q, best) - xp.where(donor, pick(q, partial), pick(q, worst))
    cost = pick(up, best) + xp.where(donor, pick(down, partial), -pick(up, worst))
    good = (donor | split) & pick(rises, best) & (cost > 0) & (value > 0)
    return xp.where(good, value / xp.where(good, cost, 1.0), 0.0)


def duality_gap(
    q: Array, b: Array, up: Array, down: Array, budget: Array | float, solution: BestRows
) -> Array:
    """How far q . pi can be from optimal, [...]: a certificate by weak duality, 0 for the exact
    answer.

    g(lambda) = lambda budget + sum over donors of b_a max(q_a, R(lambda) - lambda down_a) + sum
    over the others of b_a q_a, with R(lambda) = max_c (q_c - lambda up_c), bounds q . pi from above
    for every lambda >= 0.
    """
    xp = namespace(q)
    price = solution.price[..., None]
    receiver = xp.where(
        up < xp.inf, q - times(xp.where(up < xp.inf, up, 0.0), price + 0.0 * q), -xp.inf
    )
    best = xp.max(receiver, axis=-1)[..., None]
    kept = xp.where(
        down < xp.inf, best - times(xp.where(down < xp.inf, down, 0.0), price + 0.0 * q), -xp.inf
    )
    bound = xp.sum(b * xp.where(kept > q, kept, q), axis=-1) + times(
        like(q, budget), solution.price
    )
    return bound - xp.sum(q * solution.pi, axis=-1)
