"""Encoders: from the numbers of a row to a state; quantile bins for each feature, or the nearest
of k centres.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from surefoot.errors import LogError, NotAvailableError, ParameterError

MOST_STATES = 100_000


@dataclass(frozen=True)
class QuantileEncoder:
    """A state is one bin of every feature: the bin of x is the number of edges <= x, "a:2 b:0" its
    label.

    edges[i] are those of features[i], increasing; the last feature changes fastest in the codes.
    The features in `missing` have one more bin, "a:missing", for rows in which they are NaN; the
    others must be there in every row.
    """

    method: ClassVar[str] = "quantile"
    features: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_features(self.features)
        if len(self.edges) != len(self.features):
            raise ParameterError(
                f"{len(self.features)} features need as many lists of edges, got {len(self.edges)}"
            )
        for name, edges in zip(self.features, self.edges, strict=True):
            if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise ParameterError(
                    f"the edges of feature {name!r} must be finite and increasing, got"
                    f" {list(edges)[:5]}"
                )
        if math.prod(self.bins) > MOST_STATES:
            raise ParameterError(
                f"these edges make {math.prod(self.bins):,} states, more than {MOST_STATES:,}: give"
                " fewer"
            )
        other = [name for name in self.missing if name not in self.features]
        if other:
            raise ParameterError(
                f"a bin for missing values needs a feature, {other[0]!r} is none of"
                f" {', '.join(self.features)}"
            )

    @property
    def bins(self) -> tuple[int, ...]:
        """The number of bins of each feature."""
        return tuple(
            len(edges) + 1 + (name in self.missing)
            for name, edges in zip(self.features, self.edges, strict=True)
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of every state."""
        bins = [
            [f"{name}:{i}" for i in range(len(edges) + 1)]
            + ([f"{name}:missing"] if name in self.missing else [])
            for name, edges in zip(self.features, self.edges, strict=True)
        ]
        return tuple(" ".join(state) for state in product(*bins))

    def encode(self, x: np.ndarray) -> np.ndarray:
        """The code of every row of x [n, features]."""
        _check_present(self.features, x, self.missing)
        places = [
            np.where(
                np.isnan(x[:, i]), len(edges) + 1, np.searchsorted(edges, x[:, i], side="right")
            )
            for i, edges in enumerate(self.edges)
        ]
        return np.ravel_multi_index(places, self.bins).astype(np.int64)


@dataclass(frozen=True)
class KMeansEncoder:
    """A state is the nearest of k centres, in features less their mean, divided by their scale;
    "cluster:7" its label.
    """

    method: ClassVar[str] = "kmeans"
    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    centres: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        _check_features(self.features)
        sizes = {len(self.features), len(self.mean), len(self.scale), *map(len, self.centres)}
        numbers = (*self.mean, *self.scale, *(x for centre in self.centres for x in centre))
        if (
            len(sizes) != 1
            or not self.centres
            or not np.isfinite(numbers).all()
            or min(self.scale) <= 0
        ):
            raise ParameterError(
                "a k-means encoder needs a finite mean, a scale > 0 and at least one centre for"
                " every feature"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of every state."""
        return tuple(f"cluster:{i}" for i in range(len(self.centres)))

    def encode(self, x: np.ndarray) -> np.ndarray:
        """The code of every row of x [n, features]: argmin_k |z - c_k|^2 = |c_k|^2 - 2 z .

        c_k + ...
        """
        _check_present(self.features, x, ())
        centres = np.array(self.centres)
        half = 0.5 * (centres**2).sum(axis=1)
        block = max(1, 10_000_000 // len(centres))
        found = [
            _standardised(x[i : i + block], self.mean, self.scale) @ centres.T - half
            for i in range(0, len(x), block)
        ]
        return (
            np.concatenate([part.argmax(axis=1) for part in found])
            if found
            else np.zeros(0, dtype=np.int64)
        )


Encoder = QuantileEncoder | KMeansEncoder


def fit_quantiles(
    features: tuple[str, ...],
    x: np.ndarray,
    states: int,
    *,
    edges: Mapping[str, Sequence[float]] = MappingProxyType({}),
    missing: tuple[str, ...] = (),
) -> QuantileEncoder:
    """Bins of about equal numbers of rows, as many as the number of states allows, one more for
    each feature in turn.

    Equal values stay together: a feature of two values has two bins at most. A feature may be left
    with one bin where there are more features than log2(states). Features with given `edges` have
    these; those in `missing` have one more bin, for NaN.
    """
    _check(features, x, states)
    _check_present(features, x, missing)
    there = [x[~np.isnan(x[:, i]), i] for i in range(len(features))]
    for name, values in zip(features, there, strict=True):
        _check_values(name, values, constant=name in edges or name in missing)
    distinct = [np.unique(values, return_counts=True) for values in there]
    cut = {i: tuple(map(float, edges[name])) for i, name in enumerate(features) if name in edges}
    bins = [len(cut.get(i, ())) + 1 for i in range(len(features))]
    more = [int(name in missing) for name in features]

    def number(grown: int | None = None) -> int:
        return math.prod(bins[i] + more[i] + (i == grown) for i in range(len(bins)))

    if number() > states:
        raise ParameterError(
            f"the given edges, and the bins for missing values, make {number():,} states, more than"
            f" {states:,}: ask for more states, or give fewer edges or features"
        )
    while can := [
        i
        for i, n in enumerate(bins)
        if i not in cut and n < len(distinct[i][0]) and number(i) <= states
    ]:
        bins[min(can, key=lambda i: bins[i])] += 1
    return QuantileEncoder(
        features, tuple(cut.get(i) or _edges(*distinct[i], n) for i, n in enumerate(bins)), missing
    )


def _edges(values: np.ndarray, counts: np.ndarray, n: int) -> tuple[float, ...]:
    """n - 1 of the values: each bin closes where the rest, shared evenly, would have it, and
    leaves a value for every bin to come.
    """
    below = np.append(0, np.cumsum(counts))  # rows below each value
    edges: list[int] = []
    start = 0
    for left in range(n, 1, -1):
        target = below[start] + (below[-1] - below[start]) / left
        cut = int(np.searchsorted(below, target, side="left"))
        cut -= int(cut > start + 1 and target - below[cut - 1] < below[cut] - target)
        start = min(max(cut, start + 1), len(values) - left + 1)
        edges.append(start)
    return tuple(float(values[i]) for i in edges)


def fit_kmeans(
    features: tuple[str, ...], x: np.ndarray, states: int, seed: int = 0
) -> KMeansEncoder:
    """k-means of scikit-learn on standardised features."""
    _check(features, x, states)
    for i, name in enumerate(features):
        _check_values(name, x[:, i])
    try:
        cluster = import_module("sklearn.cluster")
    except ImportError as error:
        raise NotAvailableError(
            "method kmeans needs scikit-learn: pip install 'surefoot[kmeans]'"
        ) from error
    mean, scale = x.mean(axis=0), x.std(axis=0)
    z = _standardised(x, mean, scale)
    k = min(states, len(np.unique(z, axis=0)))
    centres = cluster.KMeans(n_clusters=k, n_init=1, random_state=seed).fit(z).cluster_centers_
    return KMeansEncoder(
        features, _floats(mean), _floats(scale), tuple(_floats(centre) for centre in centres)
    )


def _floats(x: np.ndarray) -> tuple[float, ...]:
    return tuple(float(y) for y in x)


def _standardised(x: np.ndarray, mean: Any, scale: Any) -> np.ndarray:
    return np.asarray((x - np.array(mean)) / np.array(scale))


def _check(features: tuple[str, ...], x: np.ndarray, states: int) -> None:
    """Raise unless there are rows, and a sensible number of states."""
    _check_features(features)
    if isinstance(states, bool) or not isinstance(states, int) or not 2 <= states <= MOST_STATES:
        raise ParameterError(f"states must be a whole number in 2..{MOST_STATES:,}, got {states!r}")
    if x.ndim != 2 or x.shape[1] != len(features) or not len(x):
        raise LogError(
            f"features must be [rows, {len(features)}] with at least one row, got {list(x.shape)}"
        )


def _check_values(name: str, x: np.ndarray, *, constant: bool = False) -> None:
    """Raise unless a feature is finite numbers that vary; `constant` ones may tell missing rows
    apart, or have given edges.
    """
    if not len(x):
        raise LogError(f"feature {name!r} is missing in every row: leave it out")
    if not np.isfinite(x).all():
        raise LogError(f"feature {name!r} must be finite numbers")
    if not constant and x.min() == x.max():
        raise LogError(
            f"feature {name!r} is constant ({x[0]:g} in every row): it tells no states apart, leave"
            " it out"
        )
    if not np.abs(x).max() < 1e150:
        raise LogError(f"feature {name!r} has values beyond 1e150, whose squares overflow")


def _check_present(features: tuple[str, ...], x: np.ndarray, missing: tuple[str, ...]) -> None:
    """Raise if a feature without a bin for missing values is NaN somewhere."""
    for i, name in enumerate(features):
        lost = np.flatnonzero(np.isnan(x[:, i]))
        if len(lost) and name not in missing:
            raise LogError(
                f"feature {name!r} is NaN in row {lost[0]} ({len(lost)} such rows), and has no bin"
                " for missing values"
            )


def _check_features(features: tuple[str, ...]) -> None:
    if (
        not features
        or len(set(features)) != len(features)
        or not all(isinstance(name, str) and name for name in features)
    ):
        raise ParameterError(f"features must be different column names, got {list(features)}")
