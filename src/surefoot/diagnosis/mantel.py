"""Mantel's test: over many strata together, however small, do the scores of outcomes depend on
what goes with them?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, stats

from surefoot.diagnosis.gtest import SMALLEST, Tables

MOST_CONTEXTS = 50  # the most frequent contexts are told apart, the others are one
SINGULAR = 1e-6  # directions with a smaller share of the scatter than this are none


@dataclass(frozen=True, repr=False)
class Mantel:
    """T [m] and its variance [m, m] where nothing depends on anything; the rows that took part
    and the scatter of their scores.
    """

    t: np.ndarray
    variance: np.ndarray
    rows: int
    scatter: float

    def tested(self, at: slice = slice(None)) -> tuple[float, float]:
        """(p-value, explained share of the variance) of some functions together: T' V^-1 T
        against chi-square.
        """
        value, vector = np.linalg.eigh(self.variance[at, at])
        some = (
            value > SINGULAR * self.scatter
            if self.scatter > 0
            else np.zeros(len(value), dtype=bool)
        )
        if not some.any():
            return 1.0, 0.0
        chi = float(((vector[:, some].T @ self.t[at]) ** 2 / value[some]).sum())
        return float(stats.chi2.sf(chi, some.sum())), max(chi - int(some.sum()), 0.0) / self.rows


def mantel(given: Tables, y: np.ndarray, f: np.ndarray, n_strata: int) -> Mantel:
    """T = sum over strata of sum_i (y_i - mean y)(f_i - mean f): y the score of each entry's
    outcome, f [contexts, m] functions.

    Where, within a stratum, the context does not matter, T has mean 0 and variance sum over strata
    of S_yy S_ff / (n - 1), exactly, however small the strata (Mantel 1963, with several functions
    as in Landis, Heyman and Koch 1978).
    """
    n, sum_y = (
        np.bincount(given.stratum, weights=given.k * x, minlength=n_strata)
        for x in (np.ones(len(given)), y)
    )
    mean = sum_y / np.maximum(n, 1)
    from_mean = y - mean[given.stratum]
    scatter = np.bincount(given.stratum, weights=given.k * from_mean**2, minlength=n_strata)
    scatter = np.where((n > 1) & (scatter > 1e-12 * n), scatter, 0.0)
    weight = scatter / np.maximum(n - 1, 1)
    counts = sparse.csr_array((given.k, (given.stratum, given.context)), shape=(n_strata, len(f)))
    t = (
        np.bincount(
            given.context,
            weights=given.k * from_mean * (scatter > 0)[given.stratum],
            minlength=len(f),
        )
        @ f
    )
    sums = counts @ f
    variance = f.T @ ((weight @ counts)[:, None] * f) - sums.T @ (
        (weight / np.maximum(n, 1))[:, None] * sums
    )
    return Mantel(t, variance, int(n[scatter > 0].sum()), float(scatter.sum()))


def by_context(given: Tables, y: np.ndarray, n_strata: int) -> tuple[float, float, int]:
    """(p-value, explained share, rows): whether mean scores differ between contexts.

    A context is told apart where 5 of the scores that matter are expected in it: there are (sum
    z^2)^2 / sum z^4 of them, with z a score in standard deviations of its stratum, as many as
    successes where successes are rare.
    """
    z2 = _squares(given, y, n_strata)
    mattering = float((given.k @ z2) ** 2 / max(given.k @ z2**2, 1e-300))
    known, context = np.unique(given.context, return_inverse=True)
    k = np.bincount(context.reshape(-1), weights=given.k, minlength=len(known))
    place = np.empty(len(known), dtype=np.int64)
    place[np.argsort(-k, kind="stable")] = np.arange(len(known))
    enough = int((k * mattering >= SMALLEST * k.sum()).sum()) if mattering else 0
    width = min(enough + 1, len(known), MOST_CONTEXTS)
    if width < 2:
        return 1.0, 0.0, 0
    told = Tables(
        given.stratum, np.minimum(place, width - 1)[context.reshape(-1)], given.outcome, given.k
    )
    found = mantel(told, y, np.eye(width)[:, :-1], n_strata)
    return (*found.tested(), found.rows)


def _squares(given: Tables, y: np.ndarray, n_strata: int) -> np.ndarray:
    """z^2 of every entry: 0 where a stratum's scores do not vary."""
    n, total = (
        np.bincount(given.stratum, weights=given.k * x, minlength=n_strata)
        for x in (np.ones(len(given)), y)
    )
    apart = (y - (total / np.maximum(n, 1))[given.stratum]) ** 2
    variance = np.bincount(given.stratum, weights=given.k * apart, minlength=n_strata) / np.maximum(
        n, 1
    )
    return np.where(
        variance[given.stratum] > 1e-12, apart / np.maximum(variance[given.stratum], 1e-12), 0.0
    )
