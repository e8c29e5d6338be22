"""Walker's alias tables: a draw from any discrete law costs two look-ups."""

from __future__ import annotations

from surefoot.rows.arrays import Array, count_up, namespace


def alias_tables(weights: Array) -> tuple[Array, Array]:
    """(keep, alias) [rows, K] for rows of weights [rows, K]: draw a cell c evenly, keep it with
    probability keep[c], else take alias[c].

    Vose's construction (1991), all rows in step: the cells of a row are scaled to the mean 1; every
    round settles one poor cell, and a rich one fills it up. A cell of weight 0 is never kept.
    """
    xp = namespace(weights)
    rows, k = weights.shape
    at = count_up(rows, weights)
    total = weights[:, 0]
    for column in range(
        1,
        k,
        # in this order: another one rounds differently, and the tables of equal weights hang on
        # rounding
    ):
        total = total + weights[:, column]
    mass = (
        weights * (xp.full_like(total, k) / total)[:, None]
    )  # PyTorch divides a scalar by way of the reciprocal
    order = xp.argsort(mass, axis=-1, stable=True)
    keep = xp.ones_like(mass)
    alias = xp.zeros_like(order) + count_up(k, weights)
    small, large = xp.zeros_like(at), xp.zeros_like(at) + (k - 1)
    poor = order[:, 0]
    for _ in range(k - 1):
        rich = order[at, large]
        lacking = mass[at, poor]
        keep[at, poor] = lacking
        alias[at, poor] = rich
        left = mass[at, rich] + lacking - 1.0
        mass[at, rich] = left
        spent = left < 1.0  # the rich one has become poor: it is settled next
        large = large - xp.astype(spent, large.dtype)
        small = small + xp.astype(~spent, small.dtype)
        poor = xp.where(spent, rich, order[at, small])
    return keep, alias
