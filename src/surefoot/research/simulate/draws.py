"""Random draws of studies: a counter-based generator, the same on NumPy and PyTorch.

A draw is a function of a key and a counter, and a key of what it is for: (seed, benchmark, trial,
size, episode). So no draw depends on how trials are cut into shards, on the number of workers, on
the algorithms that are run, or on the device.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from surefoot.core.arrays import Array, count_up, is_numpy_array, namespace

# The increments and multipliers of SplitMix64 (Steele, Lea & Flood 2014), as signed 64-bit
# integers.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST = 0xBF58476D1CE4E5B9 - 2**64
SECOND = 0x94D049BB133111EB - 2**64


def mix(z: Array) -> Array:
    """SplitMix64's finaliser on int64 arrays: every input bit reaches every output bit.

    Products wrap around. Array libraries shift signed integers arithmetically, so the sign is
    masked away after each shift.
    """
    if is_numpy_array(z):  # the same in place, with unsigned shifts
        u = np.array(z, dtype=np.int64, copy=True, ndmin=1).view(np.uint64)
        u ^= u >> np.uint64(30)
        u *= np.uint64(FIRST + 2**64)
        u ^= u >> np.uint64(27)
        u *= np.uint64(SECOND + 2**64)
        u ^= u >> np.uint64(31)
        return u.view(np.int64).reshape(z.shape)
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * FIRST
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * SECOND
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def fold(key: Array, part: Array) -> Array:
    """The key for one part of what `key` is for: arrays of whole numbers broadcast."""
    return mix(key ^ mix(part * GOLDEN + FIRST))


def first_key(seed: int, benchmark: str, trials: Array) -> Array:
    """One key for every trial [B]; the benchmark enters by its name."""
    name = int.from_bytes(hashlib.sha256(benchmark.encode()).digest()[:8], "big", signed=True)
    return fold(fold(fold(trials * 0, trials * 0 + int(seed)), trials * 0 + name), trials)


def bits(key: Array, counter: Array) -> Array:
    """64 random bits for each pair of key and counter (they broadcast)."""
    return mix(key + (counter + 1) * GOLDEN)


def uniforms(key: Array, counter: Array) -> Array:
    """Uniform floats in [0, 1) with 53 bits."""
    z = bits(key, counter)
    xp = namespace(z)
    return xp.astype((z >> 11) & ((1 << 53) - 1), xp.float64) * 2.0**-53


def below(key: Array, counter: Array, n: int) -> Array:
    """Whole numbers in 0, 1, ..., n - 1."""
    xp = namespace(key)
    return xp.astype(uniforms(key, counter) * n, xp.int64)  # n < 2^53: the product stays below n


def trial_numbers(start: int, stop: int, device: str = "cpu") -> Any:
    """start, ..., stop - 1 as an int64 array: NumPy for "cpu", PyTorch on other devices ("torch"
    is PyTorch on the CPU).
    """
    if device == "cpu":
        return np.arange(start, stop, dtype=np.int64)
    import torch

    return torch.arange(
        start, stop, dtype=torch.int64, device="cpu" if device == "torch" else device
    )


def alias_tables(weights: Array) -> tuple[Array, Array]:
    """Walker's tables (keep, alias) [rows, K] for rows of weights [rows, K].

    Draw a cell c evenly, keep it with probability keep[c], else take alias[c]: two look-ups a draw.
    Vose's construction (1991), all rows in step: the cells of a row are scaled to the mean 1; every
    round settles one poor cell, and a rich one fills it up. A cell of weight 0 is never kept.
    """
    xp = namespace(weights)
    rows, k = weights.shape
    at = count_up(rows, weights)
    # in this order: another one rounds differently, and tables of equal weights hang on rounding
    total = weights[:, 0]
    for column in range(1, k):
        total = total + weights[:, column]
    # full_like: PyTorch divides a scalar by way of the reciprocal
    mass = weights * (xp.full_like(total, k) / total)[:, None]
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
