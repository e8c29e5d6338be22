"""Supports: the successors each pair was seen to have, as padded lists (dense, batched) or CSR
entries (sparse), and the rewards of these and of all others; and operators, sums over them with
fixed weights, for thousands of steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import sparse

from surefoot.core.arrays import (
    Array,
    bincount,
    count_up,
    is_numpy_array,
    namespace,
    row_sum,
    take_fields,
)
from surefoot.core.counts import Counts


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
        """The sum of p z over the entries of a pair, `mass` taken from those with the largest z."""
        xp = namespace(p)
        order = xp.argsort(-z, axis=0, stable=True)
        p, z = xp.take_along_axis(p, order, axis=0), xp.take_along_axis(z, order, axis=0)
        # what is left of the entries up to this one
        beyond = xp.cumulative_sum(p, axis=0) - mass[None, ...]
        kept = xp.minimum(p, xp.where(beyond > 0, beyond, 0.0))
        return xp.sum(kept * z, axis=0)

    def least(self, z: Array) -> Array:
        """The smallest z among the entries of every pair, +inf where there are none."""
        xp = namespace(z)
        return xp.min(xp.where(self.n > 0, z, xp.inf), axis=0)

    def entries(self) -> tuple[Array, Array, Array, Array]:
        """(pair, successor, count, reward) of every triple seen in the first problem."""
        n = np.asarray(self.n)[:, 0]
        k, s, a = np.nonzero(n > 0)
        state, reward = (np.asarray(x)[:, 0][k, s, a] for x in (self.state, self.reward))
        return s * n.shape[2] + a, state, n[k, s, a], reward

    def has(self, state: Array) -> Array:
        """Whether each pair was seen to lead to this state of its problem, state [B]."""
        xp = namespace(self.n)
        return xp.any((self.state == state[None, :, None, None]) & (self.n > 0), axis=0)

    def take(self, index: Array) -> DenseSupport:
        """The supports of these problems of the batch."""
        return take_fields(self, index, "state", "n", "reward", axis=1)


@dataclass(frozen=True)
class SparseSupport:
    """The same for one large problem, entries [nnz] in the order of a CSR matrix [S * A, S];
    `start` says where its rows begin.
    """

    state: np.ndarray
    n: np.ndarray
    reward: np.ndarray
    start: np.ndarray
    shape: tuple[int, int, int]

    @cached_property
    def pair(self) -> np.ndarray:
        """The row of every entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def at(self, v: Array) -> Array:
        """v [1, S] at every entry."""
        return v[0][self.state]

    def spread(self, x: Array) -> Array:
        """x [1, S, A] at every entry of the pair."""
        return np.repeat(x.reshape(-1), np.diff(self.start))

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
        # over all pairs: the extra digits keep each pair's share exact
        total = np.cumsum(p, dtype=np.longdouble)
        before = total - p
        first = np.append(before, total[-1:])[self.start[:-1]]
        beyond = before + p - first[self.pair] - mass.reshape(-1)[self.pair]
        return self.total(np.minimum(p, np.maximum(beyond, 0.0)).astype(float) * z)

    def least(self, z: Array) -> Array:
        """See DenseSupport."""
        least = np.full(len(self.start) - 1, np.inf)
        np.minimum.at(least, self.pair, z)
        return least.reshape(self.shape)

    def entries(self) -> tuple[Array, Array, Array, Array]:
        """See DenseSupport."""
        return self.pair, self.state, self.n, self.reward

    def has(self, state: Array) -> Array:
        """See DenseSupport."""
        found = np.zeros(len(self.start) - 1, dtype=bool)
        found[self.pair[self.state == state[0]]] = True
        return found.reshape(self.shape)

    def take(self, index: Array) -> SparseSupport:
        """There is one problem only."""
        return self


Support = DenseSupport | SparseSupport


# x at the entries of a support (0 where its lists are padded), x_all [B, S, A]
Weights = tuple[Array, Array]


class Operator(Protocol):
    """y_1, y_2, ... [B, S] -> [B, S, A]: the sum over i of  x_i y_i over the entries of every
    pair + x_all_i (the sum of y_i).
    """

    def __call__(self, *ys: Array) -> Array:
        """The sums."""

    def take(self, index: Array) -> Operator:
        """The same for these problems of the batch."""


def operator(support: Support, *weights: Weights) -> Operator:
    """One (x_i, x_all_i) for each y_i: a sum over all successors, whose weights are x + x_all at
    those seen and x_all elsewhere.
    """
    if isinstance(support, SparseSupport):
        shape = len(support.start) - 1, support.shape[1]
        matrices = tuple(
            sparse.csr_array((x, support.state, support.start), shape=shape) for x, _ in weights
        )
        return _OneProblem(matrices, tuple(x_all for _, x_all in weights))
    return _rows(support, weights) if type(support.n) is np.ndarray else _Lists(support, weights)


@dataclass(frozen=True)
class _Lists:
    """On padded lists."""

    support: DenseSupport
    weights: tuple[Weights, ...]

    def __call__(self, *ys: Array) -> Array:
        parts = zip(self.weights, ys, strict=True)
        return sum(
            self.support.dot(x, self.support.at(y)) + x_all * row_sum(y)[:, None, None]
            for (x, x_all), y in parts
        )

    def take(self, index: Array) -> _Lists:
        xp = namespace(index)
        weights = tuple(
            (xp.take(x, index, axis=1), xp.take(x_all, index, axis=0)) for x, x_all in self.weights
        )
        return _Lists(self.support.take(index), weights)


@dataclass(frozen=True)
class _OneProblem:
    """On one large problem."""

    matrices: tuple[sparse.csr_array, ...]
    x_all: tuple[np.ndarray, ...]

    def __call__(self, *ys: np.ndarray) -> np.ndarray:
        parts = zip(self.matrices, self.x_all, ys, strict=True)
        total: np.ndarray = sum(
            (matrix @ y[0]).reshape(x_all.shape) + x_all * y.sum() for matrix, x_all, y in parts
        )
        return total

    def take(self, index: np.ndarray) -> _OneProblem:
        return self


@dataclass(frozen=True)
class _Rows:
    """One CSR matrix over all problems, which skips the padding. Columns, problem by problem:
    y_1, its sum, y_2, its sum, ...
    """

    matrix: sparse.csr_array
    shape: tuple[int, int, int]
    n_parts: int

    def __call__(self, *ys: np.ndarray) -> np.ndarray:
        b, s, _ = self.shape
        y = np.empty((b, self.n_parts, s + 1))
        for i in range(self.n_parts):
            y[:, i, :s] = ys[i]
        y[:, :, s] = row_sum(y[:, :, :s])
        product: np.ndarray = self.matrix @ y.reshape(-1)
        return product.reshape(self.shape)

    def take(self, index: np.ndarray) -> _Rows:
        """Problems are contiguous among the rows."""
        _, s, a = self.shape
        data, column, start = self.matrix.data, self.matrix.indices, self.matrix.indptr
        length = np.diff(start).reshape(-1, s * a)[index]
        # where each row starts now
        inside = np.append(0, np.cumsum(length.reshape(-1))).astype(np.int32)
        ends = inside[:: s * a]
        count = np.diff(ends)
        entry = np.arange(ends[-1]) + np.repeat(start[:: s * a][index] - ends[:-1], count)
        width = self.n_parts * (s + 1)
        moved = np.repeat(((index - np.arange(len(index))) * width).astype(np.int32), count)
        matrix = sparse.csr_array(
            (data[entry], column[entry] - moved, inside), shape=(length.size, len(index) * width)
        )
        return _Rows(matrix, (len(index), s, a), self.n_parts)


def _rows(support: DenseSupport, weights: tuple[Weights, ...]) -> _Rows:
    k, b, s, a = support.n.shape
    m = len(weights)
    shape = (b * s * a, m, k + 1)  # the last slot: the sum over all states
    filled = np.ones(shape, dtype=bool)
    column, data = np.empty(shape, dtype=np.int32), np.empty(shape)
    filled[..., :k] = support.n.reshape(k, -1).T[:, None, :] > 0
    first = np.repeat((s + 1) * np.arange(b * m, dtype=np.int32).reshape(b, m), s * a, axis=0)
    column[..., :k] = support.state.reshape(k, -1).T[:, None, :] + first[..., None]
    column[..., k] = first + s
    for i, (x, x_all) in enumerate(weights):
        data[:, i, :k], data[:, i, k] = x.reshape(k, -1).T, x_all.reshape(-1)
    start = np.append(0, np.cumsum(filled.reshape(len(filled), -1).sum(axis=1))).astype(np.int32)
    matrix = sparse.csr_array(
        (data[filled], column[filled], start), shape=(b * s * a, b * m * (s + 1))
    )
    return _Rows(matrix, (b, s, a), m)


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
