"""Rewards of triples: declared in a table, or estimated with a stated fallback where a successor
was never observed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefoot.core import Counts, Support, dense_support, sparse_support
from surefoot.core.support import DenseSupport, SparseSupport
from surefoot.rows.arrays import Array, namespace


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
        full = xp.broadcast_to(self.table, (*support.state.shape[1:], self.table.shape[-1]))
        found = xp.take_along_axis(full, xp.permute_dims(support.state, (1, 2, 3, 0)), axis=-1)
        return xp.permute_dims(found, (3, 0, 1, 2))

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
    """The successors seen of every pair, with the reward of each triple: its declared value, or
    its mean.
    """
    if counts.is_sparse:
        n = counts.n_sas
        found: Support = sparse_support(n, np.zeros(n.nnz), (1, counts.n_states, counts.n_actions))
        reward = counts.r_sas.data / n.data if table is None else Arrivals(table).at(found)
        return replace(found, reward=reward)
    xp = namespace(counts.n_sas)
    state, n = dense_support(counts.n_sas)
    found = DenseSupport(state, n, n)
    if table is not None:
        return replace(found, reward=Arrivals(table).at(found))
    return replace(found, reward=Arrivals(counts.r_sas).at(found) / xp.where(n > 0, n, 1.0))


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
