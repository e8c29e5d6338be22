"""The row problem, solved exactly by a sweep over the price of its budget."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from surefoot.core.arrays import (
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
    """The rows `pi` [..., A] and the `multiplier` [...]: value gained per unit of budget; with
    guards that of the last one, 0 where it is slack.
    """

    pi: Array
    multiplier: Array


def best_rows(
    q: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float = 0.0,
    *,
    price: Array | None = None,
    tolerance: float = 0.0,
) -> BestRows:
    """argmax_pi  q . pi - sum_a price_a (pi_a - b_a)^+  over probability rows pi  with
    cost(pi) <= budget,  cost(pi) = sum_a up_a (pi_a - b_a)^+ + down_a (b_a - pi_a)^+.

    Costs lie in [0, inf]; an infinite cost forbids the move. At a price lambda of the budget all
    moved mass sits in one receiver, the maximiser of q_c - lambda up_c, and donor a gives
    everything iff q_a + lambda down_a lies below its value. As lambda falls from infinity to 0, two
    kinds of events happen: the receiver steps along the upper hull of (up_c, q_c), or a donor
    joins. The sweep performs them in order of their slope, paying for each; the first one the
    budget does not cover is performed in part, and its slope is the multiplier. Proof of
    optimality: weak duality, see `duality_gap`.

    A price is what each unit of raised mass costs in value, beside the budget (default: nothing).
    Mass that action c receives is worth q_c - price_c there, mass that a donor keeps its q_a: the
    sweep is the same with these two values, and ends where the next move does not pay its price.

    Values within `tolerance` of each other are equal and move no mass. `budget` is a number or an
    array [...].
    """
    xp = namespace(q)
    shape = q.shape
    budget = xp.broadcast_to(like(q, budget), shape[:-1])[..., None]
    worth = () if price is None else (q - price,)

    def work(
        q: Array, b: Array, up: Array, down: Array, budget: Array, *worth: Array
    ) -> tuple[Array, Array]:
        return _sweep(q, b, up, down, budget[:, 0], tolerance, *worth)

    pi, multiplier = map_blocks(work, shape, q, b, up, down, budget, *worth)
    return BestRows(xp.reshape(pi, shape), xp.reshape(multiplier, shape[:-1]))


@dataclass(frozen=True)
class _Rows:
    """Rows at work in the sweep, actions first: [A, rows], then [rows]."""

    q: Array
    worth: Array | None  # of mass that is received: q - price; None: q
    b: Array
    opens: Array  # may receive
    reach: Array  # up, 0 where infinite
    descent: Array  # down, 0 where infinite
    donor: Array  # may give, and still has its mass
    given: Array  # mass
    index: Array
    receiver: Array
    moved: Array  # mass in the receiver that is not its own
    left: Array  # of the budget
    alive: Array  # has budget and events left
    # How a row ends: mass that has gone on to the next receiver, that receiver, and the multiplier.
    passed: Array
    onward: Array
    multiplier: Array

    def take(self, rows: Array) -> _Rows:
        xp = namespace(self.q)
        parts = (getattr(self, f.name) for f in fields(self))
        return _Rows(*(None if x is None else xp.take(x, rows, axis=-1) for x in parts))

    @property
    def pi(self) -> Array:
        n_actions = self.q.shape[0]
        return (
            self.b
            - self.given
            + only(one_hot(self.receiver, n_actions), self.moved - self.passed)
            + only(one_hot(self.onward, n_actions), self.passed)
        )


def _sweep(
    q: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array,
    tolerance: float,
    worth: Array | None = None,
) -> tuple[Array, Array]:
    """The sweep on [rows, A]; rows that have spent their budget, or have no event left, leave."""
    xp = namespace(q)
    shape = q.shape
    q, b, up, down = (actions_first(x) for x in (q, b, up, down))
    rows = _begin(q, None if worth is None else actions_first(worth), b, up, down, budget)
    ended: list[_Rows] = []
    while bool(xp.any(rows.alive)):
        rows = _next_event(rows, tolerance)
        n_alive = int(xp.sum(xp.astype(rows.alive, xp.int64)))
        if 0 < n_alive < 0.6 * rows.index.shape[0]:
            ended.append(rows.take(xp.nonzero(~rows.alive)[0]))
            rows = rows.take(xp.nonzero(rows.alive)[0])
    ended.append(rows)
    where = [x.index for x in ended]
    pi = restore(where, [x.pi for x in ended], axis=1)
    return actions_last(pi, shape), restore(where, [x.multiplier for x in ended])


def _begin(q: Array, worth: Array | None, b: Array, up: Array, down: Array, budget: Array) -> _Rows:
    """At the cheapest receiver, of these the most valuable; without one the row keeps b."""
    xp = namespace(q)
    cheapest = (up == xp.min(up, axis=0)) & (up < xp.inf)
    receiver = first_max((q if worth is None else worth) - only(~cheapest, like(q, [[1e300]])))
    nothing = xp.zeros_like(budget)
    return _Rows(
        q=q,
        worth=worth,
        b=b,
        opens=up < xp.inf,
        reach=xp.where(up < xp.inf, up, 0.0),
        descent=xp.where(down < xp.inf, down, 0.0),
        donor=(down < xp.inf) & (b > 0),
        given=xp.zeros_like(b),
        index=count_up(q.shape[1], q),
        receiver=receiver,
        moved=nothing,
        left=budget,
        alive=pick(up, receiver) < xp.inf,
        passed=nothing,
        onward=receiver,
        multiplier=nothing,
    )


def _next_event(rows: _Rows, tolerance: float) -> _Rows:
    """Find the steepest event of every row and pay for it."""
    xp = namespace(rows.q)
    q, receiver, tiny = rows.q, rows.receiver, like(rows.q, [[TINY]])
    worth = q if rows.worth is None else rows.worth
    worth_k, up_k = pick(worth, receiver), pick(rows.reach, receiver)
    # The slope of every event, the value gained per unit of budget: steps to better receivers,
    # gifts of worse donors. The order of events of one slope does not matter.
    rise = worth - worth_k
    lack = rise if worth is q else q - worth_k
    steps = only(rows.opens & (rise > tolerance), rise) / xp.maximum(rows.reach - up_k, tiny)
    gifts = only(rows.donor & (lack < -tolerance), lack) / xp.maximum(rows.descent + up_k, tiny)
    slope = steps - gifts  # one of the two is 0
    steepest = xp.max(slope, axis=0)
    event = first_true(slope == steepest)
    happens = rows.alive & (steepest > 0)
    step = happens & (pick(worth, event) > worth_k)
    gives = happens & ~step
    mass = xp.where(step, rows.moved, pick(rows.b, event))
    unit = xp.where(step, pick(rows.reach, event) - up_k, pick(rows.descent, event) + up_k)
    cost = unit * mass
    # Pay for it; what the budget does not cover is performed in part, and ends the row.
    short = happens & (cost > rows.left)
    part = xp.where(short, rows.left / xp.where(short, cost, 1.0), 1.0)
    gift = only(gives, part * mass)
    here = one_hot(event, q.shape[0]) & gives
    ends = rows.alive & (short | ~happens)
    return replace(
        rows,
        given=rows.given + only(here, gift),
        donor=rows.donor & ~here,
        receiver=xp.where(step & ~ends, event, receiver),
        moved=rows.moved + gift,
        left=rows.left - only(happens, part * cost),
        alive=rows.alive & ~ends,
        passed=xp.where(ends & step, part * mass, rows.passed),
        onward=xp.where(ends & step, event, rows.onward),
        multiplier=xp.where(ends & short, steepest, rows.multiplier),
    )


def keep_or_best_rows(
    q: Array,
    pi: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float,
    *,
    price: Array | None = None,
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

    worth = () if price is None else (q - price,)

    def work(
        q: Array, pi: Array, b: Array, up: Array, down: Array, budget: Array, *worth: Array
    ) -> tuple[Array]:
        if bool(xp.all(pi == b)):  # nothing has moved yet: nothing to keep
            return (_sweep(q, b, up, down, budget[:, 0], tolerance, *worth)[0],)
        received = worth[0] if worth else q
        found = BestRows(pi, multiplier_of(q, received, pi, b, up, down))
        gap = _gap(q, received, b, up, down, budget[:, 0], found)
        # A move between values that have become equal is to be taken back: such rows are solved
        # again.
        worst_receiver = xp.min(xp.where(pi > b, received, xp.inf), axis=-1)[:, None]
        idle = xp.any((pi < b) & (q >= worst_receiver - tolerance), axis=-1)
        good = (gap <= tolerance) & ~idle
        old, new = xp.nonzero(good)[0], xp.nonzero(~good)[0]
        if new.shape[0] == 0:
            return (pi,)
        q, b, up, down, left, *worth_left = (
            xp.take(x, new, axis=0) for x in (q, b, up, down, budget, *worth)
        )
        again, _ = _sweep(q, b, up, down, left[:, 0], tolerance, *worth_left)
        return (restore([old, new], [xp.take(pi, old, axis=0), again]),)

    (kept,) = map_blocks(work, shape, q, pi, b, up, down, budget, *worth)
    return xp.reshape(kept, shape)


def multiplier_of(q: Array, worth: Array, pi: Array, b: Array, up: Array, down: Array) -> Array:
    """The multiplier [rows] at which pi [rows, A] could be optimal: the slope of the move that it
    stopped in, 0 if it stopped in none.

    That is a donor that kept a part of its mass, or mass that is split between two receivers.
    """
    xp = namespace(q)
    # What has moved cost something finite.
    up, down = (xp.where(x < xp.inf, x, 0.0) for x in (up, down))
    q, worth, pi, b, up, down = (actions_first(x) for x in (q, worth, pi, b, up, down))
    rises, falls = pi > b, (pi < b) & (pi > 0)
    low = like(q, [[-1e300]])
    # The two receivers, or one twice.
    best, worst = first_max(worth + only(~rises, low)), first_max(only(~rises, low) - worth)
    partial = first_true(falls)
    donor, split = pick(falls, partial), pick(rises, best) & (best != worst)
    value = pick(worth, best) - xp.where(donor, pick(q, partial), pick(worth, worst))
    cost = pick(up, best) + xp.where(donor, pick(down, partial), -pick(up, worst))
    good = (donor | split) & pick(rises, best) & (cost > 0) & (value > 0)
    return xp.where(good, value / xp.where(good, cost, 1.0), 0.0)


def duality_gap(
    q: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float,
    solution: BestRows,
    *,
    price: Array | None = None,
) -> Array:
    """How far the value of pi can be from optimal, [...]: a certificate by weak duality, 0 for the
    exact answer.

    g(lambda) = lambda budget + sum over donors of b_a max(q_a, R(lambda) - lambda down_a) + sum
    over the others of b_a q_a, with R(lambda) = max_c (q_c - price_c - lambda up_c), bounds
    q . pi - sum_a price_a (pi_a - b_a)^+ from above for every lambda >= 0.
    """
    return _gap(q, q if price is None else q - price, b, up, down, budget, solution)


def _gap(
    q: Array,
    worth: Array,
    b: Array,
    up: Array,
    down: Array,
    budget: Array | float,
    solution: BestRows,
) -> Array:
    xp = namespace(q)
    pi, scale = solution.pi, solution.multiplier[..., None] + 0.0 * q
    receiver = xp.where(up < xp.inf, worth - times(xp.where(up < xp.inf, up, 0.0), scale), -xp.inf)
    best = xp.max(receiver, axis=-1)[..., None]
    kept = xp.where(down < xp.inf, best - times(xp.where(down < xp.inf, down, 0.0), scale), -xp.inf)
    bound = xp.sum(b * xp.where(kept > q, kept, q), axis=-1)
    bound = bound + times(like(q, budget), solution.multiplier)
    value = xp.sum(q * pi, axis=-1)
    if worth is not q:
        value = value - xp.sum(xp.where(pi > b, (q - worth) * (pi - b), 0.0), axis=-1)
    return bound - value
