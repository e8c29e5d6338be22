"""Rewards of triples: declared, or estimated with a fallback for unseen successors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefoot.core import Counts, DenseSupport, SparseSupport, Support
from surefoot.core.arrays import Array, bincount, count_up, namespace


@dataclass(frozen=True)
class Arrivals:
    """The reward of arriving at s' for a successor never observed: `table` [B, 1 or S, 1 or A, S'].

    Declared; or the mean over all arrivals at s', or the lowest reward where nobody ever arrived.
    """

    table: Array

    def plus(self, x: Array) -> Array:
        """table + x [B, S'] for all s', broadcast over s and a as the table is."""
        return self.table + x[:, None, None, :]

    def dot(self, x: Array) -> Array:
        """sum over s' of table x, for x [B, S']: [B, 1 or S, 1 or A]."""
        xp = namespace(self.table)
        b, x_s, x_a, n_states = self.table.shape
        flat = xp.matmul(xp.reshape(self.table, (b, x_s * x_a, n_states)), x[..., None])
        return xp.reshape(flat, (x.shape[0], x_s, x_a))

    @cached_property
    def total(self) -> Array:
        """sum over s' of the table, [B, 1 or S, 1 or A]."""
        return namespace(self.table).sum(self.table, axis=-1)

    @cached_property
    def squares(self) -> Array:
        """sum over s' of the table squared, [B, 1 or S, 1 or A]."""
        return namespace(self.table).sum(self.table**2, axis=-1)

    def at(self, support: Support) -> Array:
        """The table at the entries of a support."""
        if isinstance(support, SparseSupport):
            n_actions = support.shape[2]
            s = support.pair // n_actions if self.table.shape[1] > 1 else 0
            a = support.pair % n_actions if self.table.shape[2] > 1 else 0
            found: Array = self.table[0][s, a, support.state]
            return found
        xp = namespace(self.table)
        *lead, n_states = self.table.shape
        rows = xp.reshape(count_up(math.prod(lead), self.table), tuple(lead))
        cell = support.state + n_states * xp.broadcast_to(rows, support.state.shape[1:])[None, ...]
        flat = xp.take(xp.reshape(self.table, (-1,)), xp.reshape(cell, (-1,)))
        return xp.reshape(flat, cell.shape)

    def take(self, index: Array) -> Arrivals:
        """The tables of these problems of the batch."""
        return (
            Arrivals(namespace(self.table).take(self.table, index, axis=0))
            if self.table.shape[0] > 1
            else self
        )


def arrivals(counts: Counts, table: Array | None, r_min: float) -> Arrivals:
    """The rewards of successors never observed."""
    if table is not None:
        first = table[:, :1, :1, :]
        return Arrivals(first if bool(namespace(table).all(table == first)) else table)
    if counts.is_sparse:
        n, r = (
            np.asarray(x.sum(axis=0)).reshape(1, 1, 1, -1) for x in (counts.n_sas, counts.r_sas)
        )
        return Arrivals(np.where(n > 0, r / np.where(n > 0, n, 1.0), r_min))
    xp = namespace(counts.n_sas)
    n, r = (xp.sum(x, axis=(-3, -2))[:, None, None, :] for x in (counts.n_sas, counts.r_sas))
    return Arrivals(xp.where(n > 0, r / xp.where(n > 0, n, 1.0), r_min))


def support(counts: Counts, table: Array | None) -> Support:
    """The successors seen of every pair; the reward of a triple is declared, or its mean."""
    if counts.is_sparse:
        n_sas, n = counts.n_sas, counts.n_sas.data
        shape = (1, counts.n_states, counts.n_actions)
        found: Support = SparseSupport(n_sas.indices, n, n, n_sas.indptr, shape)
    else:
        state, n = _lists(counts.n_sas)
        found = DenseSupport(state, n, n)
    if table is not None:
        return replace(found, reward=Arrivals(table).at(found))
    if counts.is_sparse:
        return replace(found, reward=counts.r_sas.data / n)
    total = Arrivals(counts.r_sas).at(found)
    return replace(found, reward=total / namespace(n).where(n > 0, n, 1.0))


def _lists(n_sas: Array) -> tuple[Array, Array]:
    """(state, n) of the successors seen in counts [B, S, A, S], as lists of equal length K."""
    xp = namespace(n_sas)
    n_states = n_sas.shape[-1]
    flat = xp.reshape(n_sas, (-1,))
    where = xp.nonzero(flat > 0)[0]
    length = xp.astype(bincount(where // n_states, flat.shape[0] // n_states), xp.int64)
    k = max(int(xp.max(length)), 1)
    shape = (k, *n_sas.shape[:-1])
    start = xp.cumulative_sum(length) - length
    slot = count_up(k, n_sas)[:, None]
    filled = slot < length[None, :]
    if where.shape[0] == 0:
        nothing = xp.zeros_like(n_sas[..., 0])[None, ...]
        return xp.astype(nothing, xp.int64), nothing
    position = xp.where(filled, start[None, :] + slot, 0)
    cell = xp.take(where, xp.reshape(position, (-1,)))
    n = xp.where(filled, xp.reshape(xp.take(flat, cell), filled.shape), 0.0)
    state = xp.where(filled, xp.reshape(cell % n_states, filled.shape), 0)
    return xp.reshape(state, shape), xp.reshape(n, shape)


def mean_reward(counts: Counts, table: Array | None, n_sa: Array) -> Array:
    """r(s, a): the mean reward of every pair seen, and 0 elsewhere."""
    xp = namespace(n_sa)
    n = xp.where(n_sa > 0, n_sa, 1.0)
    if table is None:
        return counts.r_sa / n
    if counts.is_sparse:
        seen = support(counts, table)
        return seen.total(seen.n * seen.reward) / n
    total = (
        xp.matmul(counts.n_sas, table[..., 0, :, None])[..., 0]
        if table.shape[-2] == 1
        else xp.sum(counts.n_sas * table, axis=-1)
    )
    return total / n
