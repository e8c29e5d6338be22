"""The greedy heuristics of Approx-, Lower-Approx- and Adv-Approx-Soft-SPIBB: one loop."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.core.arrays import (
    Array,
    actions_first,
    actions_last,
    count_up,
    first_true,
    like,
    map_blocks,
    namespace,
    one_hot,
    only,
    pick,
    restore,
    take_fields,
)


def trade_rows(
    q: Array,
    b: Array,
    e: Array,
    epsilon: Array | float,
    *,
    lower: bool = False,
    w: Array | None = None,
    may_rise: Array | None = None,
    published: bool = False,
    tolerance: float = 0.0,
    lowest_index: bool = False,
) -> Array:
    """A good row with  sum_a e_a |pi_a - b_a| <= epsilon, found by trading mass
    (lower: sum_a e_a (pi_a - b_a)^+ <= epsilon).

    Nadjahi et al. 2019, Approx-Soft-SPIBB. With the budget E = epsilon:
    1. The next donor is the action with the lowest q that has not given yet.
    2. It offers at most E / (2 e_donor) (lower: all its mass).
    3. Receivers take in decreasing (q_receiver - q_donor) / e_receiver, at most
       E / (2 e_receiver) (lower: E / e_receiver) each.
    4. A transfer m costs m (e_donor + e_receiver) (lower: m e_receiver).
    With `w` (Adv-Approx-Soft-SPIBB, Scholl et al. 2022) an account of w . (pi - b) is kept, and no
    transfer overdraws it.

    Every transfer re-limits the donor's offer to what the budget still covers, so the budget is
    never overspent. The published step (`published=True`) does not, and can spend up to (3/2 - 2^(1
    - A)) epsilon. Values within `tolerance` are equal; equal values are not traded, unless
    `lowest_index` asks for the published order, in which the lower index receives.
    """
    xp = namespace(q)
    shape = q.shape
    # An infinite budget is one that is large enough.
    budget = xp.minimum(xp.broadcast_to(like(q, epsilon), shape[:-1]), like(q, 1e100))[..., None]
    may_rise = q == q if may_rise is None else may_rise

    def work(q: Array, b: Array, e: Array, rise: Array, budget: Array, *w: Array) -> tuple[Array]:
        q, b, e, rise, *w_first = (actions_first(x) for x in (q, b, e, rise, *w))
        advantage = w_first[0] if w_first else None
        pi = _trade(
            q, b, e, rise, budget[:, 0], advantage, lower, published, tolerance, lowest_index
        )
        return (actions_last(pi, (pi.shape[1], pi.shape[0])),)

    (pi,) = map_blocks(work, shape, q, b, e, may_rise, budget, *(() if w is None else (w,)))
    return xp.reshape(pi, shape)


def _trade(
    q: Array,
    b: Array,
    e: Array,
    rise: Array,
    budget: Array,
    w: Array | None,
    lower: bool,
    published: bool,
    tolerance: float,
    lowest_index: bool,
) -> Array:
    """The trading loop on [A, rows]."""
    xp = namespace(q)
    n_actions = q.shape[0]
    # Mass that one unit of budget moves; clipped, so that with no budget left nothing moves even
    # where e = 0.
    half = 1.0 if lower else 2.0
    limit = xp.minimum(1.0 / xp.maximum(half * e, xp.full_like(e, 1e-150)), xp.full_like(e, 1e150))
    limit = xp.where(e < xp.inf, limit, 0.0)
    cost = xp.where(e < xp.inf, e, 0.0)
    rise = rise & (limit > 0)
    huge = like(q, [[1e150]])
    pi, waiting, balance = b, q, xp.zeros_like(budget)
    for _ in range(n_actions):
        # Step 1: the donor with the lowest value (ties: the lowest index).
        donor = first_true(waiting <= xp.min(waiting, axis=0) + tolerance)
        is_donor = one_hot(donor, n_actions)
        waiting = waiting + only(is_donor, huge)
        gain = q - pick(q, donor)
        ratio = only(rise & (gain > tolerance), gain) * limit  # 0: no receiver
        if lowest_index:
            tied = rise & (count_up(n_actions, q)[:, None] < donor) & (xp.abs(gain) <= tolerance)
            ratio = ratio + only(tied, 1.0 / huge)
        # Step 2: its offer.
        limit_d = xp.full_like(budget, 1e150) if lower else pick(limit, donor)
        cost_d = xp.zeros_like(budget) if lower else pick(cost, donor)
        start = pick(pi, donor)
        offer = xp.minimum(start, limit_d * budget)
        gain_w = None if w is None else w - pick(w, donor)
        deal = _Deal(limit, cost, gain_w, limit_d, cost_d, published)
        pi, budget, balance, mass = _sell(deal, ratio, pi, budget, balance, start, offer)
        pi = pi - only(is_donor, start - mass)
    return pi


@dataclass(frozen=True)
class _Deal:
    """What stays while one donor of each row sells: limits, costs, and w above its own."""

    limit: Array
    cost: Array
    gain_w: Array | None
    limit_d: Array
    cost_d: Array
    published: bool

    def take(self, rows: Array) -> _Deal:
        return take_fields(self, rows, "limit", "cost", "gain_w", "limit_d", "cost_d", axis=-1)


def _sell(
    deal: _Deal, ratio: Array, pi: Array, budget: Array, balance: Array, mass: Array, offer: Array
) -> tuple[Array, Array, Array, Array]:
    """(pi, budget, balance, mass left to the donor) after receivers took in order of ratio."""
    xp = namespace(pi)
    zero = xp.zeros_like(budget)
    while True:
        best = xp.max(ratio, axis=0)
        trades = (offer > 0) & (best > 0)
        n = int(xp.sum(xp.astype(trades, xp.int64)))
        if n == 0:
            return pi, budget, balance, mass
        if n < 0.4 * trades.shape[0]:  # few go on: without the others
            on, off = xp.nonzero(trades)[0], xp.nonzero(~trades)[0]
            few = (xp.take(x, on, axis=-1) for x in (ratio, pi, budget, balance, mass, offer))
            sold = _sell(deal.take(on), *few)
            kept = (xp.take(x, off, axis=-1) for x in (pi, budget, balance, mass))
            pi, budget, balance, mass = (
                restore([on, off], [x, y], axis=-1) for x, y in zip(sold, kept, strict=True)
            )
            return pi, budget, balance, mass
        # Step 3: the most gain for the budget first; ratios equal up to rounding are equal.
        receiver = first_true(ratio >= best * (1 - 1e-13))
        here = one_hot(receiver, pi.shape[0])
        m = only(trades, xp.minimum(offer, pick(deal.limit, receiver) * budget))
        if deal.gain_w is not None:
            g = pick(deal.gain_w, receiver)
            m = xp.where(g < 0, xp.minimum(m, balance / xp.where(g < 0, -g, 1.0)), m)
            balance = xp.maximum(balance + g * m, zero)
        # Step 4: pay, and re-limit the offer.
        budget = xp.maximum(budget - (pick(deal.cost, receiver) + deal.cost_d) * m, zero)
        mass = xp.maximum(mass - m, zero)
        offer = xp.minimum(offer - m, mass if deal.published else deal.limit_d * budget)
        pi = pi + only(here, m)
        ratio = only(~here, ratio)
