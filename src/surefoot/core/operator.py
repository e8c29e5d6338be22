"""Sums over successors with fixed weights, as linear operators: for iterations that need
thousands of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from surefoot.core.support import DenseSupport, SparseSupport, Support
from surefoot.rows.arrays import Array, namespace, row_sum

Weights = tuple[
    Array, Array
]  # x at the entries of a support (0 where its lists are padded), x_all [B, S, A]


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
        inside = np.append(0, np.cumsum(length.reshape(-1))).astype(
            np.int32
        )  # where each row starts now
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
    filled, column, data = (
        np.ones(shape, dtype=bool),
        np.empty(shape, dtype=np.int32),
        np.empty(shape),
    )
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
