"""Supports: the successors each pair was seen to have, as padded lists (dense, batched) or CSR
entries (sparse).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from surefoot.rows.arrays import Array, count_up, is_numpy_array, namespace


@dataclass(frozen=True)
class DenseSupport:
    """The K successors seen of every pair: `state` [K, B, S, A], their counts `n` (0 pads the
    list), `reward` of the triple.

    K comes first: sums over successors are then sums of whole arrays.
    """

    state: Array
    n: Array
    reward: Array

    @cached_property
    def _cell(self) -> Array:
        """Where each entry's state lies in a flattened [B, S] array."""
        xp = namespace(self.n)
        offset = count_up(self.n.shape[1], self.n) * self.n.shape[2]
        return xp.reshape(self.state + offset[None, :, None, None], (-1,))

    def at(self, v: Array) -> Array:
        """v [B, S] at every entry."""
        xp = namespace(v)
        return xp.reshape(xp.take(xp.reshape(v, (-1,)), self._cell), self.state.shape)

    def spread(self, x: Array) -> Array:
        """x [B, S, A], one value a pair, at every entry of the pair."""
        return x[None, ...]

    def total(self, x: Array) -> Array:
        """The sum over the entries of every pair, [B, S, A]."""
        return namespace(x).sum(x, axis=0)

    def dot(self, x: Array, y: Array) -> Array:
        """The sum of x y over the entries of every pair, [B, S, A]."""
        return np.einsum("k...,k...->...", x, y) if is_numpy_array(x) else self.total(x * y)

    def without_top(self, p: Array, z: Array, mass: Array) -> Array:
        """Sum of p z over the entries of every pair after `mass` [B, S, A] was taken from those
        with the largest z.
        """
        xp = namespace(p)
        order = xp.argsort(-z, axis=0, stable=True)
        p, z = xp.take_along_axis(p, order, axis=0), xp.take_along_axis(z, order, axis=0)
        beyond = (
            xp.cumulative_sum(p, axis=0) - mass[None, ...]
        )  # what is left of the entries up to this one
        kept = xp.minimum(p, xp.where(beyond > 0, beyond, 0.0))
        return xp.sum(kept * z, axis=0)

    def least(self, z: Array) -> Array:
        """The smallest z among the entries of every pair, +inf where there are none."""
        xp = namespace(z)
        return xp.min(xp.where(self.n > 0, z, xp.inf), axis=0)

    def has(self, state: Array) -> Array:
        """Whether each pair was seen to lead to the state named for its problem, state [B]: [B,
        S, A].
        """
        xp = namespace(self.n)
        return xp.any((self.state == state[None, :, None, None]) & (self.n > 0), axis=0)

    def take(self, index: Array) -> DenseSupport:
        """The supports of these problems of the batch."""
        xp = namespace(self.n)
        return DenseSupport(*(xp.take(x, index, axis=1) for x in (self.state, self.n, self.reward)))


@dataclass(frozen=True)
class SparseSupport:
    """The same for one large problem, entries [nnz] in the order of a CSR matrix [S * A, S];
    `pair` is their row.
    """

    state: np.ndarray
    n: np.ndarray
    reward: np.ndarray
    pair: np.ndarray
    start: np.ndarray
    shape: tuple[int, int, int]

    def at(self, v: Array) -> Array:
        """v [1, S] at every entry."""
        return v[0][self.state]

    def spread(self, x: Array) -> Array:
        """x [1, S, A] at every entry of the pair."""
        return x.reshape(-1)[self.pair]

    def total(self, x: Array) -> Array:
        """The sum over the entries of every pair, [1, S, A]."""
        n_pairs = len(self.start) - 1
        matrix = sparse.csr_array(
            (x, np.zeros(len(x), dtype=np.int32), self.start), shape=(n_pairs, 1)
        )
        return (matrix @ np.ones(1)).reshape(self.shape)

    def dot(self, x: Array, y: Array) -> Array:
        """The sum of x y over the entries of every pair, [1, S, A]."""
        return self.total(x * y)

    def without_top(self, p: Array, z: Array, mass: Array) -> Array:
        """See DenseSupport."""
        order = np.lexsort((-z, self.pair))
        p, z = p[order], z[order]
        total = np.cumsum(
            p, dtype=np.longdouble
        )  # over all pairs: the extra digits keep each pair's share exact
        before = total - p
        first = np.append(before, total[-1:])[self.start[:-1]]
        beyond = before + p - first[self.pair] - mass.reshape(-1)[self.pair]
        return self.total(np.minimum(p, np.maximum(beyond, 0.0)).astype(float) * z)

    def least(self, z: Array) -> Array:
        """See DenseSupport."""
        least = np.full(len(self.start) - 1, np.inf)
        np.minimum.at(least, self.pair, z)
        return least.reshape(self.shape)

    def has(self, state: Array) -> Array:
        """See DenseSupport."""
        found = np.zeros(len(self.start) - 1, dtype=bool)
        found[self.pair[self.state == state[0]]] = True
        return found.reshape(self.shape)

    def take(self, index: Array) -> SparseSupport:
        """There is one problem only."""
        return self


Support = DenseSupport | SparseSupport


def dense_support(n_sas: Array) -> tuple[Array, Array]:
    """(state, n) of a DenseSupport from counts [B, S, A, S]: nonzero entries, gathered into
    lists of equal length.
    """
    xp = namespace(n_sas)
    n_states = n_sas.shape[-1]
    flat = xp.reshape(n_sas, (-1,))
    where = xp.nonzero(flat > 0)[0]
    length = xp.reshape(xp.sum(xp.astype(n_sas > 0, xp.int64), axis=-1), (-1,))
    k = max(int(xp.max(length)), 1)
    shape = (k, *n_sas.shape[:-1])
    start = xp.cumulative_sum(length) - length
    slot = count_up(k, n_sas)[:, None]
    filled = slot < length[None, :]
    if where.shape[0] == 0:
        return xp.zeros_like(n_sas[..., 0], dtype=xp.int64)[None, ...], xp.zeros_like(
            n_sas[..., 0]
        )[None, ...]
    position = xp.where(filled, start[None, :] + slot, 0)
    cell = xp.take(where, xp.reshape(position, (-1,)))
    n = xp.where(filled, xp.reshape(xp.take(flat, cell), filled.shape), 0.0)
    state = xp.where(filled, xp.reshape(cell % n_states, filled.shape), 0)
    return xp.reshape(state, shape), xp.reshape(n, shape)


def sparse_support(n_sas: Any, reward: np.ndarray, shape: tuple[int, int, int]) -> SparseSupport:
    """The support of counts in CSR, with the reward of every entry."""
    pair = np.repeat(np.arange(n_sas.shape[0]), np.diff(n_sas.indptr))
    return SparseSupport(n_sas.indices, n_sas.data, reward, pair, n_sas.indptr, shape)
