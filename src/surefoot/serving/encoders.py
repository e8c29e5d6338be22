"""Encoders: from the numbers of a row to a state, by quantile bins or the nearest of k centres."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from surefoot.core.atomic import read_json, write_whole
from surefoot.core.errors import LogError, NotAvailableError, ParameterError, SurefootError
from surefoot.core.ranges import AND, MISSING, range_text

FORMAT = "surefoot encoder 2"
CODED = "surefoot encoder 1"  # whose labels were bin numbers, "a:2 b:0"
MOST_STATES = 100_000
ENDING = ".encoder.json"  # after the name of the log whose states it made


@dataclass(frozen=True)
class QuantileEncoder:
    """A state is one bin of every feature, the number of edges <= x; its label says which:
    "lactate >= 4 and 60 <= pulse < 100".

    edges[i] are those of features[i], increasing; the last feature changes fastest in the codes.
    The features in `missing` have one more bin, "pulse missing", for rows in which they are NaN;
    the others must be there in every row. `coded`: labels are bin numbers, "lactate:2 pulse:0".
    """

    method: ClassVar[str] = "quantile"
    features: tuple[str, ...]
    edges: tuple[tuple[float, ...], ...]
    missing: tuple[str, ...] = ()
    coded: bool = False

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
        for name in self.missing:
            if name not in self.features:
                raise ParameterError(
                    f"a bin for missing values needs a feature, {name!r} is none of"
                    f" {', '.join(self.features)}"
                )

    @property
    def unused(self) -> tuple[str, ...]:
        """The features that have one bin."""
        return tuple(x for x, bins in zip(self.features, self.bins, strict=True) if bins == 1)

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
        join, words = (" ", _by_number) if self.coded else (AND, _by_range)
        bins = [
            words(name, edges, n)
            for name, edges, n in zip(self.features, self.edges, self.bins, strict=True)
        ]
        return tuple(join.join(filter(None, x)) or "any" for x in product(*bins))

    def ranges(self, code: int) -> list[tuple[float | None, float | None] | None]:
        """What a state says of each feature: low <= x < high, None where there is no such end; or
        None, that it is missing.
        """
        found: list[tuple[float | None, float | None] | None] = []
        for edges, place in zip(self.edges, np.unravel_index(code, self.bins), strict=True):
            ends = (None, *edges, None)
            found.append(None if place > len(edges) else (ends[place], ends[place + 1]))
        return found

    def encode(self, x: np.ndarray) -> np.ndarray:
        """The code of every row of x [n, features]."""
        _check_present(self.features, x, self.missing)
        places = [
            np.where(np.isnan(y), len(edges) + 1, np.searchsorted(edges, y, side="right"))
            for y, edges in zip(x.T, self.edges, strict=True)
        ]
        return np.ravel_multi_index(places, self.bins).astype(np.int64)


def _by_number(name: str, edges: tuple[float, ...], n: int) -> list[str]:
    """The bins of a feature by their numbers."""
    return [f"{name}:{i}" for i in (*range(len(edges) + 1), "missing")][:n]


def _by_range(name: str, edges: tuple[float, ...], n: int) -> list[str]:
    """The bins of a feature by what is in them; "" for one that holds all."""
    short = [f"{x:.6g}" for x in edges]
    exact = [float(x) for x in short] == list(edges)
    cuts = short if exact else [repr(float(x)) for x in edges]
    if n == 1:
        return [""]
    bins = [range_text(name, low, high) for low, high in pairwise(("", *cuts, ""))]
    return [*bins, f"{name} {MISSING}"][:n]


@dataclass(frozen=True)
class KMeansEncoder:
    """A state is the nearest of k centres, in standardised features; its label is "cluster:7"."""

    method: ClassVar[str] = "kmeans"
    missing: ClassVar[tuple[str, ...]] = ()
    unused: ClassVar[tuple[str, ...]] = ()
    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    centres: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        _check_features(self.features)
        rows = (self.mean, self.scale, *self.centres)
        whole = len(rows) > 2 and {len(row) for row in rows} == {len(self.features)}
        if not whole or not np.isfinite(rows).all() or min(self.scale) <= 0:
            raise ParameterError(
                "a k-means encoder needs a finite mean, a scale > 0 and at least one centre for"
                " every feature"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of every state."""
        return tuple(f"cluster:{i}" for i in range(len(self.centres)))

    def encode(self, x: np.ndarray) -> np.ndarray:
        """The code of every row of x [n, features]: argmin |z - c|^2 = argmax z.c - |c|^2 / 2."""
        _check_present(self.features, x, ())
        centres = np.array(self.centres)
        half = 0.5 * (centres**2).sum(axis=1)
        block = max(1, 10_000_000 // len(centres))
        found = [np.zeros(0, dtype=np.int64)]
        for i in range(0, len(x), block):
            z = (x[i : i + block] - np.array(self.mean)) / np.array(self.scale)
            found.append((z @ centres.T - half).argmax(axis=1))
        return np.concatenate(found)


Encoder = QuantileEncoder | KMeansEncoder


def bins_of(encoder: Encoder, where: str) -> QuantileEncoder:
    """The encoder, if its states are ranges, which can be written down elsewhere."""
    if not isinstance(encoder, QuantileEncoder):
        raise ParameterError(
            f"{where} has no {encoder.method} encoder: only states of bins can be written there. Or"
            " give the state a column (surefoot discretize --apply), and export the policy without"
            " the encoder, as SQL"
        )
    return encoder


def codes(encoder: Encoder, x: np.ndarray) -> np.ndarray:
    """The code of every row of x [n, features]; -1 where a feature is infinite, or is NaN and has
    no bin for that.
    """
    may_miss = np.isin(encoder.features, encoder.missing)
    there = ~(np.isinf(x) | (np.isnan(x) & ~may_miss)).any(axis=1)
    found = np.full(len(x), -1, dtype=np.int64)
    found[there] = encoder.encode(x[there])
    return found


def fit_quantiles(
    features: tuple[str, ...],
    x: np.ndarray,
    states: int,
    *,
    edges: Mapping[str, Sequence[float]] = MappingProxyType({}),
    missing: tuple[str, ...] = (),
) -> QuantileEncoder:
    """Bins of about equal numbers of rows, as many as `states` allows, one more a feature in turn.

    Equal values stay together: a feature of two values has two bins at most. A feature may be left
    with one bin where there are more features than log2(states). Features with given `edges` have
    these; those in `missing` have one more bin, for NaN.
    """
    _check(features, x, states)
    _check_present(features, x, missing)
    distinct = []
    for name, column in zip(features, x.T, strict=True):
        values = column[~np.isnan(column)]
        _check_values(name, values, constant=name in edges or name in missing)
        distinct.append(np.unique(values, return_counts=True))
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
    may_grow = [i for i in range(len(bins)) if i not in cut]
    while can := [i for i in may_grow if bins[i] < len(distinct[i][0]) and number(i) <= states]:
        bins[min(can, key=lambda i: bins[i])] += 1
    found = tuple(cut.get(i) or _edges(*distinct[i], n) for i, n in enumerate(bins))
    return QuantileEncoder(features, found, missing)


def _edges(values: np.ndarray, counts: np.ndarray, n: int) -> tuple[float, ...]:
    """n - 1 of the values: each bin takes its even share of the rows that are left.

    It leaves a value for every bin to come.
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
    for name, column in zip(features, x.T, strict=True):
        _check_values(name, column)
    try:
        cluster = import_module("sklearn.cluster")
    except ImportError as error:
        raise NotAvailableError(
            "method kmeans needs scikit-learn: pip install 'surefoot[kmeans]'"
        ) from error
    mean, scale = x.mean(axis=0), x.std(axis=0)
    z = (x - mean) / scale
    k = min(states, len(np.unique(z, axis=0)))
    centres = cluster.KMeans(n_clusters=k, n_init=1, random_state=seed).fit(z).cluster_centers_
    return KMeansEncoder(features, *(_tuples(y.tolist()) for y in (mean, scale, centres)))


def write_encoder(encoder: Encoder, path: str | Path) -> None:
    """Save an encoder as JSON."""
    write_whole(path, encoder_text(encoder))


def encoder_text(encoder: Encoder) -> str:
    """The text of its file."""
    return json.dumps(encoder_document(encoder), indent=1, ensure_ascii=False) + "\n"


def fingerprint(encoder: Encoder) -> str:
    """Equal for encoders that make the same states of the same rows."""
    return hashlib.sha256(encoder_text(encoder).encode()).hexdigest()[:16]


def encoder_beside(log: str, states: Collection[Any]) -> Encoder | None:
    """The encoder that `discretize` saved beside a log, if it makes all of these states."""
    try:
        found = read_encoder(log + ENDING)
    except SurefootError:
        return None
    return found if set(states) <= set(found.labels) else None


def encoder_document(encoder: Encoder) -> dict[str, Any]:
    """An encoder as JSON holds it."""
    found = asdict(encoder)
    coded = found.pop("coded", False)
    return {"format": CODED if coded else FORMAT, "method": encoder.method} | found


def read_encoder(path: str | Path) -> Encoder:
    """The encoder of a JSON file."""
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise LogError(f"{path} is no encoder: {error}") from error
    return encoder_of(content, path)


def encoder_of(content: Any, path: str | Path) -> Encoder:
    """The encoder of what was read from a JSON file."""
    if not isinstance(content, dict) or content.get("format") not in (FORMAT, CODED):
        raise LogError(
            f"{path} is no encoder: a JSON file with format {FORMAT!r} was expected, as surefoot"
            " discretize writes it"
        )
    try:
        features, missing = tuple(content["features"]), tuple(content.get("missing", ()))
        if content["method"] == QuantileEncoder.method:
            coded = content["format"] == CODED
            return QuantileEncoder(features, _tuples(content["edges"]), missing, coded)
        if content["method"] == KMeansEncoder.method:
            numbers = (_tuples(content[name]) for name in ("mean", "scale", "centres"))
            return KMeansEncoder(features, *numbers)
    except SurefootError as error:
        raise type(error)(f"{path} is an encoder with a fault: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise LogError(
            f"{path} is an encoder with a fault: {type(error).__name__} {error}"
        ) from error
    raise LogError(
        f"{path} is an encoder of an unknown method {content['method']!r}: quantile and kmeans are"
        " known"
    )


def _tuples(x: Any) -> Any:
    """Nested lists of numbers as tuples of floats."""
    return tuple(map(_tuples, x)) if isinstance(x, list) else float(x)


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
    """Raise unless a feature is finite numbers that vary; a `constant` one need not vary."""
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
    for name, column in zip(features, x.T, strict=True):
        lost = np.flatnonzero(np.isnan(column))
        if len(lost) and name not in missing:
            raise LogError(
                f"feature {name!r} is NaN in row {lost[0]} ({len(lost)} such rows), and has no bin"
                " for missing values"
            )


def _check_features(features: tuple[str, ...]) -> None:
    named = all(isinstance(name, str) and name for name in features)
    if not features or not named or len(set(features)) != len(features):
        raise ParameterError(f"features must be different column names, got {list(features)}")
