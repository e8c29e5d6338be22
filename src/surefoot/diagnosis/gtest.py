"""The G-test of independence on many tables at once: within each stratum, does the context
predict the outcome?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import xlogy

SMALLEST = (
    5.0  # every expected count is at least this: rarer contexts and outcomes are put together
)
# at most, of G / degrees, where expected counts are 5 (exact in 2 x 2 tables): sums over many
# strata allow for it
MEAN = 1.008


@dataclass(frozen=True, repr=False)
class Tables:
    """k rows with this context and outcome in each stratum; all whole numbers >= 0, each
    combination once.
    """

    stratum: np.ndarray
    context: np.ndarray
    outcome: np.ndarray
    k: np.ndarray

    def __len__(self) -> int:
        return len(self.k)

    def __add__(self, other: Tables) -> Tables:
        """The rows of both."""
        stratum, context, outcome, k = (
            np.concatenate((getattr(self, name), getattr(other, name)))
            for name in ("stratum", "context", "outcome", "k")
        )
        return tables(stratum, context, outcome, k)


def tables(
    stratum: np.ndarray, context: np.ndarray, outcome: np.ndarray, k: np.ndarray | None = None
) -> Tables:
    """Rows counted into tables."""
    wide, wider = (int(x.max(initial=0)) + 1 for x in (outcome, context))
    if (
        int(stratum.max(initial=0)) + 1
    ) * wider * wide < 2**62:  # one number for each combination sorts fastest
        key = (stratum * wider + context) * wide + outcome
        if k is None:
            key, n = np.unique(key, return_counts=True)
            return Tables(key // wide // wider, key // wide % wider, key % wide, n.astype(float))
        order = np.argsort(key, kind="stable")
    else:
        order = np.lexsort((outcome, context, stratum))
    s, c, o = stratum[order], context[order], outcome[order]
    first = np.flatnonzero(
        np.append(True, (s[1:] != s[:-1]) | (c[1:] != c[:-1]) | (o[1:] != o[:-1]))[: len(order)]
    )
    summed = (
        np.add.reduceat(np.ones(len(s)) if k is None else k[order], first)
        if len(first)
        else np.zeros(0)
    )
    return Tables(s[first], c[first], o[first], summed)


@dataclass(frozen=True, repr=False)
class Tests:
    """One test a stratum: G (with Williams' correction), its degrees of freedom (0: not enough
    data), rows n, and their entropy.

    `entropy` is that of the n outcomes together, in the units of G / 2 (nats): what a perfect
    prediction would explain.
    """

    g: np.ndarray
    degrees: np.ndarray
    n: np.ndarray
    entropy: np.ndarray

    def by(self, group: np.ndarray, n_groups: int) -> Tests:
        """The tests of all strata of a group as one: G and degrees of freedom add up."""
        return Tests(
            *(
                np.bincount(group, weights=x, minlength=n_groups)
                for x in (self.g, self.degrees, self.n, self.entropy)
            )
        )

    @property
    def p_values(self) -> np.ndarray:
        """P(chi-square >= G) of each; 1 where nothing could be tested."""
        some = self.degrees > 0
        return np.where(some, stats.chi2.sf(self.g, np.where(some, self.degrees, 1)), 1.0)

    @property
    def p_together(self) -> float:
        """P(chi-square >= the sum of all G / MEAN): many small deviations."""
        degrees = self.degrees.sum()
        return float(stats.chi2.sf(self.g.sum() / MEAN, degrees)) if degrees else 1.0

    @property
    def p_worst(self) -> float:
        """The smallest p-value times the number of tests (Bonferroni): one large deviation."""
        n_tests = int((self.degrees > 0).sum())
        return min(1.0, n_tests * float(self.p_values.min())) if n_tests else 1.0

    @property
    def explained(self) -> float:
        """The share of the entropy of the outcomes that the contexts explain, beyond what chance
        does: (G - degrees) / (2 entropy).
        """
        entropy = self.entropy.sum()
        return max(0.0, float((self.g - self.degrees).sum() / (2 * entropy))) if entropy else 0.0


def g_tests(given: Tables, n_strata: int, smallest: float = SMALLEST) -> Tests:
    """G = 2 sum_ij k_ij ln(k_ij N / (R_i C_j)) of every stratum, divided by Williams' (1976)
    factor, against (r - 1)(c - 1).

    The chi-square distribution needs expected counts R_i C_j / N that are not small, so rare
    contexts are put together until each has R_i >= sqrt(smallest N), and then rare outcomes until
    each has C_j >= smallest N / min R. Both look at margins alone, which leaves the test what it
    is.
    """
    n = np.bincount(given.stratum, weights=given.k, minlength=n_strata)
    context, fewest = _pooled(given.stratum, given.context, given.k, np.sqrt(smallest * n))
    outcome, _ = _pooled(
        given.stratum, given.outcome, given.k, smallest * n / np.maximum(fewest, 1.0)
    )
    table = tables(given.stratum, context, outcome, given.k)
    cells = _sum(xlogy(table.k, table.k), table.stratum, n_strata)
    rows, r, per_row = _margin(table.stratum, table.context, table.k, n_strata)
    columns, c, per_column = _margin(table.stratum, table.outcome, table.k, n_strata)
    degrees = np.maximum(r - 1, 0) * np.maximum(c - 1, 0)
    g = np.maximum(2 * (cells - rows - columns + xlogy(n, n)), 0.0)
    spread = (n * per_row - 1) * (n * per_column - 1)
    williams = 1 + spread / np.where(degrees > 0, 6 * n * degrees, 1.0)
    return Tests(
        np.where(degrees > 0, g / williams, 0.0),
        degrees,
        n,
        np.where(degrees > 0, xlogy(n, n) - columns, 0.0),
    )


def _margin(
    stratum: np.ndarray, category: np.ndarray, k: np.ndarray, n_strata: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sum of R ln R, number of categories, sum of 1 / R) in every stratum, R being the rows of
    a category.
    """
    where, total = _totals(stratum, category, k)[:2]
    return (
        _sum(xlogy(total, total), where, n_strata),
        _sum(np.ones_like(total), where, n_strata),
        _sum(1 / total, where, n_strata),
    )


def _pooled(
    stratum: np.ndarray, category: np.ndarray, k: np.ndarray, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(the categories as 0, 1, ... from the most frequent on, the rows of the rarest): each has
    `least` [strata] rows or is alone.

    Categories with fewer rows become one; where they are too few even together, they join the
    rarest of the others.
    """
    where, total, place = _totals(stratum, category, k)
    order = np.lexsort((-total, where))
    first = np.append(True, where[order][1:] != where[order][:-1])[: len(order)]
    begin = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - begin
    enough = total >= least[where]
    kept = _sum(enough.astype(float), where, len(least))
    rest = _sum(np.where(enough, 0.0, total), where, len(least))
    last = np.maximum(kept - 1 + ((rest > 0) & (rest >= least)), 0).astype(np.int64)
    code = np.minimum(rank, last[where])
    inside, together, _ = _totals(where, code, total)
    fewest = np.full(len(least), np.inf)
    np.minimum.at(fewest, inside, together)
    return code[place], fewest


def _totals(
    stratum: np.ndarray, category: np.ndarray, k: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(stratum, rows) of each combination of stratum and category, in order, and the place of
    every entry among them.
    """
    width = int(category.max(initial=0)) + 1
    key, place = np.unique(stratum * width + category, return_inverse=True)
    return key // width, np.bincount(place, weights=k, minlength=len(key)), place


def _sum(x: np.ndarray, where: np.ndarray, n: int) -> np.ndarray:
    return np.bincount(where, weights=x, minlength=n)
