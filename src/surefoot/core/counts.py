"""Counts: what a log says about every (s, a, s'), and Returns: what it says about every pair by the
Monte-Carlo returns from there; both add up, log by log.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from surefoot.core.arrays import Array, namespace, row_sum
from surefoot.core.errors import LogError
from surefoot.core.plain_values import Shown

if TYPE_CHECKING:
    from surefoot.core.batch import Batch


@dataclass(frozen=True, repr=False)
class Counts(Shown):
    """n_sas: how often (s, a) led to s'; r_sas: the sum of the rewards seen there; r_rest: what
    they scatter within a triple.

    Dense arrays [..., S, A, S] in any namespace, or sparse CSR [S * A, S]. r_rest [..., S, A] is
    the sum of squared deviations of the rewards of (s, a) from the mean of their own triple: 0
    where the reward is a function of (s, a, s'), as in both benchmarks of the paper. `r_sas=None`
    says that rewards were not logged, since a reward table is declared.
    """

    n_sas: Any
    r_sas: Any
    r_rest: Any
    n_states: int
    n_actions: int

    def _facts(self) -> dict[str, Any]:
        return {
            "states": self.n_states,
            "actions": self.n_actions,
            "form": "sparse" if self.is_sparse else "dense",
        }

    def __post_init__(self) -> None:
        s, a = self.n_states, self.n_actions
        lead = () if self.is_sparse else tuple(self.n_sas.shape[:-3])
        shape = (s * a, s) if self.is_sparse else (*lead, s, a, s)
        pairs = (1, s, a) if self.is_sparse else (*lead, s, a)
        for name, x, wanted in (
            ("n_sas", self.n_sas, shape),
            ("r_sas", self.r_sas, shape),
            ("r_rest", self.r_rest, pairs),
        ):
            if x is not None and tuple(x.shape) != wanted:
                raise LogError(
                    f"{name} of {s} states and {a} actions must have the shape {wanted}, got"
                    f" {tuple(x.shape)}"
                )
        if self.is_sparse and self.r_sas is not None and not _aligned(self.n_sas, self.r_sas):
            raise LogError(
                "sparse n_sas and r_sas must hold the same entries in the same order (keep rewards"
                " of 0)"
            )
        for name in ("n_sas", "r_sas", "r_rest"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def is_sparse(self) -> bool:
        """Whether the counts are held in CSR matrices."""
        return bool(sparse.issparse(self.n_sas))

    @cached_property
    def n_sa(self) -> Array:
        """How often each pair was taken, [..., S, A] ([1, S, A] when sparse)."""
        return self._per_pair(self.n_sas)

    @cached_property
    def r_sa(self) -> Array:
        """The sum of rewards per pair, shaped as n_sa."""
        if self.r_sas is None:
            raise LogError("these counts hold no rewards: declare a reward table with the problem")
        return self._per_pair(self.r_sas)

    def map(self, change: Callable[[Array], Array]) -> Counts:
        """The counts with every dense array changed; sparse ones have no batch to change."""
        if self.is_sparse:
            return self
        parts = {"n_sas": self.n_sas, "r_sas": self.r_sas, "r_rest": self.r_rest}
        return replace(self, **{k: change(x) for k, x in parts.items() if x is not None})

    def _per_pair(self, x: Any) -> Array:
        if self.is_sparse:
            found = (x @ np.ones(self.n_states)).reshape(1, self.n_states, self.n_actions)
        else:
            xp = namespace(x)
            flat = xp.reshape(x, (*x.shape[:-3], self.n_states * self.n_actions, self.n_states))
            found = xp.reshape(row_sum(flat), x.shape[:-1])
        return read_only(found)

    def __add__(self, other: Counts) -> Counts:
        """The counts of both logs together (sums of squares merge by Chan's rule)."""
        if not isinstance(other, Counts):
            return NotImplemented
        if (self.n_states, self.n_actions) != (other.n_states, other.n_actions):
            raise LogError(
                f"counts of {self.n_states} x {self.n_actions} and {other.n_states} x"
                f" {other.n_actions} states x actions do not add up: count both logs with the same"
                " n_states and n_actions"
            )
        if self.is_sparse != other.is_sparse or tuple(self.n_sas.shape) != tuple(other.n_sas.shape):
            kinds = (
                f"{'sparse' if x.is_sparse else 'dense'} {tuple(x.n_sas.shape)}"
                for x in (self, other)
            )
            raise LogError(f"counts of one kind and shape add up, got {' and '.join(kinds)}")
        plus = _sum_of_sparse if self.is_sparse else operator.add
        n_sas = plus(self.n_sas, other.n_sas)
        if self.r_sas is None or other.r_sas is None:
            return Counts(n_sas, None, None, self.n_states, self.n_actions)
        rest = None if self.r_rest is None or other.r_rest is None else self._merged_rest(other)
        return Counts(n_sas, plus(self.r_sas, other.r_sas), rest, self.n_states, self.n_actions)

    def _merged_rest(self, other: Counts) -> Array:
        """Sum over s' of n m / (n + m) (mean difference)^2, added to what both had: with m, n
        the two counts of the triple.
        """
        if self.is_sparse:
            mine, theirs = _triples(self.n_sas), _triples(other.n_sas)
            both, i, j = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
            n, m, x, y = (
                self.n_sas.data[i],
                other.n_sas.data[j],
                self.r_sas.data[i],
                other.r_sas.data[j],
            )
            between = n * m / (n + m) * (x / n - y / m) ** 2
            pair = both // self.n_states
            rest = np.bincount(pair, weights=between, minlength=self.n_sas.shape[0]).reshape(
                self.n_sa.shape
            )
            return self.r_rest + other.r_rest + rest
        xp = namespace(self.n_sas)
        n, m = self.n_sas, other.n_sas
        both = (n > 0) & (m > 0)
        mean = self.r_sas / xp.where(both, n, 1.0) - other.r_sas / xp.where(both, m, 1.0)
        between = xp.where(both, n * m / xp.where(both, n + m, 1.0) * mean**2, 0.0)
        return self.r_rest + other.r_rest + xp.sum(between, axis=-1)


def read_only(x: Any) -> Any:
    """A view of a NumPy array or CSR matrix that cannot be written to; others as they are."""
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    elif sparse.issparse(x):
        x = sparse.csr_array(
            tuple(read_only(part) for part in (x.data, x.indices, x.indptr)), shape=x.shape
        )
    return x


def _triples(x: Any) -> np.ndarray:
    """The number pair * S + s' of every entry of a CSR matrix [S * A, S]."""
    found: np.ndarray = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr)) * x.shape[1] + x.indices
    return found


def _aligned(x: Any, y: Any) -> bool:
    """Whether two CSR matrices hold entries at the same places."""
    return all(
        a is b or np.array_equal(a, b) for a, b in ((x.indptr, y.indptr), (x.indices, y.indices))
    )


def _sum_of_sparse(x: Any, y: Any) -> Any:
    """x + y with an entry wherever either has one: SciPy's sum drops those that add up to 0."""
    x, y = x.tocoo(), y.tocoo()
    data, row, col = (
        np.concatenate(part) for part in ((x.data, y.data), (x.row, y.row), (x.col, y.col))
    )
    return sparse.csr_array((data, (row, col)), shape=x.shape)


def count(
    state: np.ndarray,
    action: np.ndarray,
    reward: np.ndarray,
    next_state: np.ndarray,
    n_states: int,
    n_actions: int,
    *,
    as_sparse: bool = False,
) -> Counts:
    """Count the transitions of one log; the ids must lie in range (a `Batch` has checked them)."""
    pair = state.astype(np.int64) * n_actions + action
    if as_sparse:
        shape = (n_states * n_actions, n_states)
        n_sas = sparse.csr_array((np.ones(len(pair)), (pair, next_state)), shape=shape)
        n_sas.sum_duplicates()
        # Built over the same coordinates, so a triple whose rewards add up to 0 keeps its entry.
        r_sas = sparse.csr_array((reward.astype(float), (pair, next_state)), shape=shape)
        r_sas.sum_duplicates()
        at = np.searchsorted(_triples(n_sas), pair * n_states + next_state)
        rest = (reward - r_sas.data[at] / n_sas.data[at]) ** 2
        r_rest = np.bincount(pair, weights=rest, minlength=shape[0])
        return Counts(n_sas, r_sas, r_rest.reshape(1, n_states, n_actions), n_states, n_actions)
    triple = pair * n_states + next_state
    size = n_states * n_actions * n_states
    n = np.bincount(triple, minlength=size).astype(float)
    r = np.bincount(triple, weights=reward, minlength=size)
    rest = (reward - r[triple] / n[triple]) ** 2
    r_rest = np.bincount(pair, weights=rest, minlength=n_states * n_actions)
    return _dense(n, r, r_rest, n_states, n_actions)


def count_batch(batch: Batch, n_states: int, n_actions: int, *, as_sparse: bool) -> Counts:
    """Count the rows of a batch. A row of which a share `survives` counts as that share of a
    transition; the rest leads to "(end)", the last state, with the same reward.
    """
    rows = batch.state, batch.action, batch.reward, batch.next_state
    if batch.survives is None:
        return count(*rows, n_states, n_actions, as_sparse=as_sparse)
    s, a, r, follow = (np.append(x, x) for x in rows)
    follow[len(batch) :] = n_states - 1
    k = np.append(batch.survives, 1.0 - batch.survives)
    use = k > 0
    entries = s[use], a[use], follow[use], k[use], (k * r)[use], np.zeros(int(use.sum()))
    return count_triples(*entries, n_states, n_actions, as_sparse=as_sparse)


def count_triples(
    s: np.ndarray,
    a: np.ndarray,
    s2: np.ndarray,
    k: np.ndarray,
    r: np.ndarray,
    m2: np.ndarray,
    n_states: int,
    n_actions: int,
    *,
    as_sparse: bool,
) -> Counts:
    """Count entries of k rows each, whose rewards sum to r and scatter by m2 around their mean; a
    triple (s, a, s2) may come in several.
    """
    if not as_sparse:
        pair = s.astype(np.int64) * n_actions + a
        n_pairs = n_states * n_actions
        sums = _joined(pair * n_states + s2, pair, k, r, m2, n_pairs * n_states, n_pairs)
        return _dense(*sums, n_states, n_actions)
    shape2 = (n_states * n_actions, n_states)
    small = max(shape2[0], len(s2)) < 2**31 - 1  # half the memory to go through
    whole: type[np.integer[Any]] = np.int32 if small else np.int64
    pair = np.asarray(s, dtype=whole) * n_actions + np.asarray(a, dtype=whole)
    entry = np.arange(len(s2), dtype=whole)
    # its data: which entry went where
    where = sparse.coo_array((entry, (pair, s2.astype(whole))), shape=shape2).tocsr()
    if where.nnz < len(s2):  # each triple once, then again
        key, first, at = np.unique(
            pair.astype(np.int64) * n_states + s2, return_index=True, return_inverse=True
        )
        parts = _joined(at, at, k, r, m2, len(key), len(key))
        return count_triples(
            s[first], a[first], s2[first], *parts, n_states, n_actions, as_sparse=True
        )
    where.sort_indices()
    n_sas, r_sas, scatter = (
        sparse.csr_array(
            (x[where.data].astype(float, copy=False), where.indices, where.indptr), shape=shape2
        )
        for x in (k, r, m2)
    )
    rest = np.asarray(scatter.sum(axis=1)).reshape(1, n_states, n_actions)
    return Counts(n_sas, r_sas, rest, n_states, n_actions)


def _dense(n: np.ndarray, r: np.ndarray, rest: np.ndarray, n_states: int, n_actions: int) -> Counts:
    """Counts of flat arrays over triples (n, r) and pairs (rest)."""
    shape = (n_states, n_actions, n_states)
    return Counts(n.reshape(shape), r.reshape(shape), rest.reshape(shape[:2]), n_states, n_actions)


def _joined(
    triple: np.ndarray,
    group: np.ndarray,
    k: np.ndarray,
    r: np.ndarray,
    m2: np.ndarray,
    n_triples: int,
    n_groups: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k, r, m2) summed: k and r by triple, m2 by group, with sum of k (mean - mean of the
    triple)^2 for triples that come in parts.

    Scatters are added up in the order of the triples, not in that in which they came.
    """
    n = np.bincount(triple, weights=k, minlength=n_triples)
    total = np.bincount(triple, weights=r, minlength=n_triples)
    apart = r / k - total[triple] / n[triple]
    scatter = m2 + np.where(n[triple] > k, k * apart**2, 0.0)
    order = np.argsort(triple, kind="stable")
    return n, total, np.bincount(group[order], weights=scatter[order], minlength=n_groups)


@dataclass(frozen=True, repr=False)
class Returns:
    """n: returns used for each pair; mean: their mean, the estimate of q^{pi_b}; m2: their sum of
    squared deviations; [..., S, A].

    `cut` counts the returns among them that end in a cut, not in a terminal state: they are short
    of what would have followed. The mean is NaN where n = 0.
    """

    n: Array
    mean: Array
    m2: Array
    cut: int = 0

    def __repr__(self) -> str:
        return f"Returns(shape {tuple(self.n.shape)}, {self.cut} run into a cut)"

    def __post_init__(self) -> None:
        shapes = [tuple(x.shape) for x in (self.n, self.mean, self.m2)]
        if len(set(shapes)) > 1:
            raise LogError(
                f"n, mean and m2 of returns must have one shape [..., S, A], got {shapes}"
            )
        for name in ("n", "mean", "m2"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @cached_property
    def variance(self) -> Array:
        """The unbiased sample variance, NaN where n <= 1."""
        xp = namespace(self.n)
        enough = self.n > 1
        return xp.where(enough, self.m2 / xp.where(enough, self.n - 1, 1.0), xp.nan)

    def map(self, change: Callable[[Array], Array]) -> Returns:
        """The returns with every array changed."""
        return Returns(change(self.n), change(self.mean), change(self.m2), self.cut)

    def __add__(self, other: Returns) -> Returns:
        """The returns of both logs together (Chan's rule)."""
        if not isinstance(other, Returns):
            return NotImplemented
        if tuple(self.n.shape) != tuple(other.n.shape):
            raise LogError(
                f"returns of shapes {tuple(self.n.shape)} and {tuple(other.n.shape)} do not add up:"
                " use the same n_states and n_actions for both logs"
            )
        xp = namespace(self.n)
        n = self.n + other.n
        left, right = (xp.where(x.n > 0, x.mean, 0.0) for x in (self, other))
        some = n > 0
        total = xp.where(some, n, 1.0)
        mean = xp.where(some, (self.n * left + other.n * right) / total, xp.nan)
        m2 = self.m2 + other.m2 + self.n * other.n / total * (left - right) ** 2
        return Returns(n, mean, m2, self.cut + other.cut)
