"""Array-API helpers that every layer shares: namespaces, sums over rows, infinite costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from array_api_compat import array_namespace, is_torch_array
from array_api_compat import device as _device

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)

device_of = _device  # where an array lives

Array = Any  # an array of any array-API namespace; shapes are in the docstrings

# entries [A, rows] worked on at once on a CPU: half a megabyte an array, so that a dozen stay in
# the cache
BLOCK_CELLS = 65536


def namespace(*arrays: Array) -> Any:
    """The array-API namespace of these arrays (numpy, torch, ...); scalars do not count."""
    if type(arrays[0]) is np.ndarray and (
        len(arrays) == 1 or all(type(x) is np.ndarray for x in arrays)
    ):
        return np  # NumPy 2 follows the array API itself, and without a wrapper around every call
    return array_namespace(
        *(x for x in arrays if hasattr(x, "shape") and not isinstance(x, np.generic))
    )


def is_numpy_array(x: Array) -> bool:
    """Whether x is an array of NumPy."""
    return type(x) is np.ndarray or isinstance(x, np.ndarray | np.generic)


def like(x: Array, values: Any) -> Array:
    """`values` as an array in the namespace, on the device and of the dtype of `x`."""
    return namespace(x).asarray(values, dtype=x.dtype, device=device_of(x))


def to_numpy(x: Array) -> np.ndarray:
    """An array of any namespace, on the host."""
    return np.asarray(x.cpu() if hasattr(x, "cpu") else x)


def times(cost: Array, amount: Array) -> Array:
    """cost * amount, where nothing moved costs nothing: inf * 0 = 0."""
    xp = namespace(cost, amount)
    zero = xp.zeros_like(amount)
    return xp.where(amount == 0, zero, xp.where(amount == 0, zero, cost) * amount)


def row_sum(x: Array) -> Array:
    """The sum over the last, short axis: a product with ones is faster than a reduction."""
    if type(x) is np.ndarray:
        return x @ _ones(x.shape[-1], x.dtype)
    xp = namespace(x)
    return xp.matmul(x, xp.ones(x.shape[-1], dtype=x.dtype, device=device_of(x)))


@cache
def _ones(n: int, dtype: Any) -> np.ndarray:
    return np.ones(n, dtype=dtype)


def row_dot(x: Array, y: Array) -> Array:
    """sum_a x y over the last axis."""
    return np.einsum("...a,...a->...", x, y) if is_numpy_array(x) else row_sum(x * y)


def actions_first(x: Array) -> Array:
    """[..., A] -> contiguous [A, rows]."""
    if is_numpy_array(x):
        return np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T)
    xp = namespace(x)
    flat = xp.reshape(x, (-1, x.shape[-1]))
    return xp.asarray(xp.permute_dims(flat, (1, 0)), copy=True)


def actions_last(x: Array, shape: tuple[int, ...]) -> Array:
    """[A, rows] -> contiguous [..., A] of the given shape."""
    if is_numpy_array(x):
        return np.ascontiguousarray(x.T).reshape(shape)
    xp = namespace(x)
    return xp.reshape(xp.asarray(xp.permute_dims(x, (1, 0)), copy=True), shape)


def count_up(n: int, x: Array) -> Array:
    """0, 1, ..., n - 1 on the device of `x`."""
    xp = namespace(x)
    return xp.arange(n, dtype=xp.int64, device=device_of(x))


def take_fields(thing: T, index: Array, *names: str, axis: int = 0) -> T:
    """A frozen dataclass whose arrays of these names are cut to these problems of a batch."""
    xp, parts = namespace(index), {name: getattr(thing, name) for name in names}
    some = {k: xp.take(x, index, axis=axis) for k, x in parts.items() if x is not None}
    return replace(thing, **some)


def restore(indices: list[Array], pieces: list[Array], axis: int = 0) -> Array:
    """Put pieces back in place: entry j of the i-th piece goes to position indices[i][j] along
    `axis`; the indices of a piece ascend.
    """
    if len(pieces) == 1:
        return pieces[0]
    xp = namespace(pieces[0])
    order = xp.argsort(xp.concat(indices), stable=True)  # sorted runs: merged in linear time
    return xp.take(xp.concat(pieces, axis=axis), order, axis=axis)


def bincount(index: Array, n: int, weights: Array | None = None) -> Array:
    """How often each of 0, ..., n - 1 occurs in `index`, or its weights summed; floats [n]."""
    xp = namespace(index)
    index = xp.reshape(index, (-1,))
    weights = None if weights is None else xp.reshape(weights, (-1,))
    if is_numpy_array(index):
        return np.bincount(index, weights, minlength=n).astype(float)
    if is_torch_array(index):
        return xp.astype(index.bincount(weights, minlength=n), xp.float64)
    found = xp.astype(one_hot(index, n), xp.float64)
    return xp.sum(found if weights is None else found * weights[None, :], axis=-1)


def one_hot(index: Array, n: int) -> Array:
    """Boolean [n, rows] with a single True per column, at `index` [rows]."""
    return count_up(n, index)[:, None] == index[None, :]


def pick(x: Array, index: Array) -> Array:
    """x[index[j], j] for x [A, rows] and index [rows]."""
    xp = namespace(x)
    if type(x) is np.ndarray:
        return x.reshape(-1).take(index * x.shape[1] + np.arange(x.shape[1]))
    return xp.take_along_axis(x, index[None, :], axis=0)[0, :]


def first_max(x: Array, tolerance: Array | float = 0.0) -> Array:
    """Index [rows] of the first entry of x [A, rows] within `tolerance` of the largest."""
    xp = namespace(x)
    return first_true(x >= xp.max(x, axis=0) - tolerance)


def first_true(flags: Array) -> Array:
    """Index [rows] of the first True in flags [A, rows]; the last where there is none."""
    xp = namespace(flags)
    if flags.shape[0] == 1:
        return xp.zeros_like(flags[0, :], dtype=xp.int64)
    before = ~flags[0, :]
    index = xp.astype(before, xp.int64)
    # Counts how many come before; a handful of passes beats an argmax.
    for a in range(1, flags.shape[0] - 1):
        before = before & ~flags[a, :]
        index = index + xp.astype(before, xp.int64)
    return index


def only(flags: Array, x: Array) -> Array:
    """x where flags, else 0, for finite x: faster than NumPy's `where` on irregular flags."""
    if type(flags) is np.ndarray:
        return flags * x
    return namespace(flags).astype(flags, x.dtype) * x


def block_rows(n_actions: int) -> int:
    """How many rows of A actions a CPU works on at once."""
    return max(1, BLOCK_CELLS // n_actions)


def row_slices(x: Array) -> list[slice]:
    """Slices over the rows of x [rows, A] that fit a CPU's cache; one on other devices."""
    rows = x.shape[0]
    step = block_rows(x.shape[-1]) if is_numpy_array(x) else max(rows, 1)
    return [slice(i, min(i + step, rows)) for i in range(0, rows, step)] or [slice(0, 0)]


def map_blocks(
    work: Callable[..., tuple[Array, ...]], shape: tuple[int, ...], *arrays: Array
) -> tuple[Array, ...]:
    """work(*arrays) on blocks of rows, results joined.

    Arrays are broadcast to the rows of `shape` [..., A] and handed over as [rows, A], or [rows, 1]
    if their last axis is 1.
    """
    xp = namespace(*arrays)
    rows = math.prod(shape[:-1])
    flat = [
        xp.reshape(xp.broadcast_to(x, (*shape[:-1], x.shape[-1])), (rows, x.shape[-1]))
        for x in arrays
    ]
    parts = [work(*(x[i, :] for x in flat)) for i in row_slices(flat[0])]
    if len(parts) == 1:
        return parts[0]
    return tuple(xp.concat(list(pieces), axis=0) for pieces in zip(*parts, strict=True))
