"""Tests of independence: G-test, Mantel's test, resemblance of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import chdtrc, ndtr, xlogy

SMALLEST = 5.0  # every expected count is at least this: rarer contexts and outcomes are pooled
# An upper bound on the mean of G / degrees where expected counts are 5 (exact for 2 x 2 tables):
# sums over many strata are divided by it.
MEAN = 1.008
MOST_CONTEXTS = 50  # Mantel's test distinguishes the most frequent contexts and pools the others
SINGULAR = 1e-6  # directions with a smaller share of the scatter than this are left out
GROUPS = ("of neighbouring steps", "of 8 steps in a row", "of 64 steps in a row", "of an episode")
LENGTHS = (8, 64)
# Numbers are looked up in a table, not sorted, where it has at most so many cells for each of them,
# or in all.
DENSE, SHORTEST_TABLE = 16, 2**16
CROWDED = 2  # sums are made in the table itself, where it has at most so many cells for each number
Centred = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, repr=False)
class Tables:
    """k rows with this context and outcome in this stratum: whole numbers >= 0, entry by entry.

    Where outcomes decide how many rows follow in the same piece of the log, `own` and `pieces` are
    known (see `in_pieces`): the sums over these rows of what is to be taken off, and of 1 / rows of
    the stratum in the piece. None: every row is a piece of its own.
    """

    stratum: np.ndarray
    context: np.ndarray
    outcome: np.ndarray
    k: np.ndarray
    own: np.ndarray | None = None
    pieces: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.k)


def _chi_square_tail(x: np.ndarray | float, degrees: np.ndarray | float) -> np.ndarray:
    """P(chi-square >= x); rounding may have left x just below 0."""
    return np.asarray(chdtrc(degrees, np.maximum(x, 0.0)))


def distinct(key: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """(the whole numbers 0 <= x < cells that are there, in order; the place of each key in them):
    `np.unique` with the inverse, without a sort where the numbers are dense enough.
    """
    if cells > max(DENSE * len(key), SHORTEST_TABLE):
        found, place = np.unique(key, return_inverse=True)
        return found, place
    there = np.zeros(cells, dtype=bool)
    there[key] = True
    found = np.flatnonzero(there)
    code = np.empty(cells, dtype=np.int32)
    code[found] = np.arange(len(found))
    return found, code[key].astype(np.int64)


def combinations(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(x of each combination with y that is there, in order; the place of every entry in them), for
    whole numbers >= 0.
    """
    wide = int(y.max(initial=0)) + 1
    found, place = distinct(x * wide + y, (int(x.max(initial=0)) + 1) * wide)
    return found // wide, place


def in_pieces(
    stratum: np.ndarray, piece: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(own, pieces) of every row, for `tables`: n y - (the sum of y) and 1 / n, n and the sum over
    the rows of the same stratum in the same piece of the log.
    """
    _, place = combinations(piece, stratum)
    n = np.bincount(place)
    return n[place] * y - np.bincount(place, y)[place], 1.0 / n[place]


def tables(
    stratum: np.ndarray,
    context: np.ndarray,
    outcome: np.ndarray,
    k: np.ndarray | None = None,
    own: np.ndarray | None = None,
    pieces: np.ndarray | None = None,
) -> Tables:
    """Rows counted into tables: each combination once, in order."""
    early = int(context.min()) if len(context) else 0
    tall, wider, wide = (int(x.max(initial=0)) + 1 for x in (stratum, context, outcome))
    wider -= early
    if tall * wider * wide >= 2**62:  # too many combinations for one number: use shorter codes
        (contexts, c), (outcomes, o) = (
            np.unique(x, return_inverse=True) for x in (context, outcome)
        )
        short = tables(stratum, c, o, k, own, pieces)
        return replace(short, context=contexts[short.context], outcome=outcomes[short.outcome])
    key = np.multiply(stratum, wider, dtype=np.int64)
    key += context
    key -= early
    key *= wide
    key += outcome
    cells = tall * wider * wide
    place = key
    if cells > max(CROWDED * len(key), SHORTEST_TABLE):
        found, place = distinct(key, cells)
        cells = len(found)
        sums, there = np.bincount(place, k, cells), np.arange(cells)
    else:
        sums = np.bincount(key, k, cells)
        found = there = np.flatnonzero(sums)
    k = sums[there].astype(float)
    own, pieces = (
        None if x is None else np.bincount(place, x, cells)[there] for x in (own, pieces)
    )
    before, outcome = np.divmod(found, wide)
    stratum, context = np.divmod(before, wider)
    return Tables(stratum, context + early, outcome, k, own, pieces)


def together(parts: Sequence[Tables]) -> Tables:
    """The rows of all parts as one, their sums added up in this order."""
    if len(parts) == 1:
        return parts[0]

    def column(name: str) -> Any:
        columns = [getattr(part, name) for part in parts]
        return None if columns[0] is None else np.concatenate(columns)

    return tables(*map(column, ("stratum", "context", "outcome", "k", "own", "pieces")))


@dataclass(frozen=True, repr=False)
class GTests:
    """One G-test a stratum.

    g         the statistic, with Williams' correction
    degrees   of freedom; 0: not enough data
    n         rows
    entropy   of the n outcomes together, in the units of G / 2 (nats): what a perfect prediction
              would explain
    """

    g: np.ndarray
    degrees: np.ndarray
    n: np.ndarray
    entropy: np.ndarray

    def by(self, group: np.ndarray, n_groups: int) -> GTests:
        """One test a group of strata: G and degrees of freedom add up."""
        parts = (self.g, self.degrees, self.n, self.entropy)
        return GTests(*(np.bincount(group, x, n_groups) for x in parts))

    @property
    def p_values(self) -> np.ndarray:
        """P(chi-square >= G) of each; 1 where nothing could be tested."""
        some = self.degrees > 0
        return np.where(some, _chi_square_tail(self.g, np.where(some, self.degrees, 1)), 1.0)

    @property
    def p_together(self) -> float:
        """P(chi-square >= the sum of all G / MEAN): many small deviations."""
        degrees = self.degrees.sum()
        return float(_chi_square_tail(self.g.sum() / MEAN, degrees)) if degrees else 1.0

    @property
    def p_worst(self) -> float:
        """The smallest p-value times the number of tests (Bonferroni): one large deviation."""
        n_tests = int((self.degrees > 0).sum())
        return min(1.0, n_tests * float(self.p_values.min())) if n_tests else 1.0

    @property
    def explained(self) -> float:
        """The share of the entropy of the outcomes that contexts explain beyond chance.

        (G - degrees) / (2 entropy), since G has the mean `degrees` under independence.
        """
        entropy = self.entropy.sum()
        return max(0.0, float((self.g - self.degrees).sum() / (2 * entropy))) if entropy else 0.0


def g_tests(given: Tables, n_strata: int) -> GTests:
    """G = 2 sum_ij k_ij ln(k_ij N / (R_i C_j)) of every stratum, with (r - 1)(c - 1) degrees.

    R_i and C_j are the sums of row i and column j. G is divided by Williams' factor (Biometrika 63,
    1976), 1 + (N sum_i 1/R_i - 1)(N sum_j 1/C_j - 1) / (6 N degrees). The chi-square distribution
    needs expected counts R_i C_j / N that are not small. So rare contexts are pooled until each has
    R_i >= sqrt(m N), then rare outcomes until each has C_j >= m N / min R, m = SMALLEST. Pooling
    looks at the margins alone, so the test stays valid.
    """
    n = np.bincount(given.stratum, given.k, n_strata)
    context, fewest = _pooled(given.stratum, given.context, given.k, np.sqrt(SMALLEST * n))
    least = SMALLEST * n / np.maximum(fewest, 1.0)
    outcome, _ = _pooled(given.stratum, given.outcome, given.k, least)
    table = tables(given.stratum, context, outcome, given.k)

    def margin(category: np.ndarray) -> list[np.ndarray]:
        """(sum of R ln R, number of categories, sum of 1 / R) of every stratum."""
        where, total, _ = _totals(table.stratum, category, table.k)
        parts = (xlogy(total, total), np.ones_like(total), 1 / total)
        return [np.bincount(where, x, n_strata) for x in parts]

    cells = np.bincount(table.stratum, xlogy(table.k, table.k), n_strata)
    (rows, r, per_row), (columns, c, per_column) = margin(table.context), margin(table.outcome)
    degrees = np.maximum(r - 1, 0) * np.maximum(c - 1, 0)
    g = np.maximum(2 * (cells - rows - columns + xlogy(n, n)), 0.0)
    spread = (n * per_row - 1) * (n * per_column - 1)
    williams = 1 + spread / np.where(degrees > 0, 6 * n * degrees, 1.0)
    entropy = np.where(degrees > 0, xlogy(n, n) - columns, 0.0)
    return GTests(np.where(degrees > 0, g / williams, 0.0), degrees, n, entropy)


def _pooled(
    stratum: np.ndarray, category: np.ndarray, k: np.ndarray, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(categories as 0, 1, ... from the most frequent on, rows of the rarest in each stratum).

    Categories with fewer than `least` [strata] rows become one; where even together they have too
    few, they join the rarest of the others.
    """
    where, total, place = _totals(stratum, category, k)
    order = np.lexsort((-total, where))
    first = np.append(True, where[order][1:] != where[order][:-1])[: len(order)]
    begin = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - begin
    enough = total >= least[where]
    kept = np.bincount(where, enough, len(least))
    rest = np.bincount(where, np.where(enough, 0.0, total), len(least))
    last = np.maximum(kept - 1 + ((rest > 0) & (rest >= least)), 0).astype(np.int64)
    code = np.minimum(rank, last[where])
    inside, together, _ = _totals(where, code, total)
    fewest = np.full(len(least), np.inf)
    np.minimum.at(fewest, inside, together)
    return code[place], fewest


def _totals(
    stratum: np.ndarray, category: np.ndarray, k: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(stratum, rows) of each combination with a category, and the place of every entry in it."""
    where, place = combinations(stratum, category)
    return where, np.bincount(place, k, len(where)), place


@dataclass(frozen=True, repr=False)
class Mantel:
    """T [m], its variance [m, m] under independence, the rows that took part, their scatter."""

    t: np.ndarray
    variance: np.ndarray
    rows: int
    scatter: float

    def tested(self, at: slice = slice(None), inflation: float = 1.0) -> tuple[float, float]:
        """(p-value, explained share of the variance): T' V^-1 T / inflation against chi-square."""
        chi, degrees = self.chi_square(at)
        if not degrees:
            return 1.0, 0.0
        chi /= inflation
        return float(_chi_square_tail(chi, degrees)), max(chi - degrees, 0.0) / self.rows

    def chi_square(self, at: slice = slice(None)) -> tuple[float, int]:
        """(T' V^-1 T, its degrees of freedom)."""
        value, vector = np.linalg.eigh(self.variance[at, at])
        some = (value > SINGULAR * self.scatter) & (self.scatter > 0)
        degrees = int(some.sum())
        chi = float(((vector[:, some].T @ self.t[at]) ** 2 / value[some]).sum())
        return chi, degrees


def mantel(
    given: Tables,
    y: np.ndarray,
    f: np.ndarray,
    n_strata: int,
    centred: Centred | None = None,
) -> Mantel:
    """T = sum over strata of sum_i (y_i - mean y)(f_i - mean f).

    y is the score of each entry's outcome, f [contexts, m] are functions of the context. If context
    and outcome are independent within strata, T has mean 0 and variance sum over strata of
    S_yy S_ff / (n - 1), exactly, however small the strata (Mantel, JASA 58, 1963; with several
    functions: Landis, Heyman and Koch, Int. Statist. Rev. 46, 1978).

    That takes the number of rows as given. Where outcomes decide who goes on, it is not: a first
    step that ends the episode leaves no second one, so later steps are those of lucky first ones,
    and the mean of y holds that luck. T is then the sum over couples of rows of *different* pieces,

        T = sum over strata of 1/m sum over pieces A < B, i in A, j in B of (y_i - y_j)(f_i - f_j),

    m the pieces that the stratum occurs in. If pieces are independent (episodes) and E[y] is the
    same whatever came before, then E[sum_A y f] = mu E[sum_A f] and E[sum_A y] = mu E[n_A] by
    optional stopping, so every A, B has mean 0, exactly. Mantel's sum over all couples, divided by
    n, has the variance above; times (n / m)^2 it is that of T, or more, since T has fewer couples.
    """
    n, from_mean, scatter = _centred(given, y, n_strata) if centred is None else centred
    m = n if given.pieces is None else np.bincount(given.stratum, given.pieces, n_strata)
    scatter = np.where((m > 1.5) & (scatter > 1e-12 * n), scatter, 0.0)
    each = n / np.maximum(m, 1)  # rows of a piece
    weight = scatter * each**2 / np.maximum(n - 1, 1)
    key, place = distinct(given.stratum * len(f) + given.context, n_strata * len(f))
    cells = np.bincount(place, given.k, len(key)), np.divmod(key, len(f))
    counts = sparse.csr_array(cells, shape=(n_strata, len(f)))
    deviation = given.k * from_mean * each[given.stratum]
    if given.own is not None:
        deviation -= given.own / np.maximum(m, 1)[given.stratum]
    deviation *= (scatter > 0)[given.stratum]
    sums = counts @ f
    within = f.T @ ((weight @ counts)[:, None] * f)
    variance = within - sums.T @ ((weight / np.maximum(n, 1))[:, None] * sums)
    t = np.bincount(given.context, deviation, len(f)) @ f
    return Mantel(t, variance, int(n[scatter > 0].sum()), float((scatter * each**2).sum()))


def _centred(given: Tables, y: np.ndarray, n_strata: int) -> Centred:
    """n of every stratum, y less its mean there [entries], and the sum of its squares."""
    n, total = (np.bincount(given.stratum, x, n_strata) for x in (given.k, given.k * y))
    from_mean = y - (total / np.maximum(n, 1))[given.stratum]
    return n, from_mean, np.bincount(given.stratum, given.k * from_mean**2, n_strata)


@dataclass(frozen=True)
class Result:
    """One test over all states: what it found, its p-value, which share it explains, of what."""

    source: str
    p_value: float
    explained: float
    rows: int
    of: str = "of the uncertainty left"


def by_context(source: str, given: Tables, y: np.ndarray, n_strata: int) -> Result:
    """Whether mean scores differ between contexts: Mantel's test with an indicator for each.

    A context gets its own indicator if 5 of the scores that matter are expected in it. There are
    (sum z^2)^2 / sum z^4 of them (Kish's effective sample size with weights z^2), where z is a
    score in standard deviations of its stratum: as many as successes where successes are rare.
    """
    n, from_mean, scatter = centred = _centred(given, y, n_strata)
    variance = (scatter / np.maximum(n, 1))[given.stratum]
    z2 = np.where(variance > 1e-12, from_mean**2 / np.maximum(variance, 1e-12), 0.0)
    mattering = float((given.k @ z2) ** 2 / max(given.k @ z2**2, 1e-300))
    known, context = distinct(given.context, int(given.context.max(initial=0)) + 1)
    k = np.bincount(context, given.k, len(known))
    place = np.empty(len(known), dtype=np.int64)
    place[np.argsort(-k, kind="stable")] = np.arange(len(known))
    enough = int((k * mattering >= SMALLEST * k.sum()).sum()) if mattering else 0
    width = min(enough + 1, len(known), MOST_CONTEXTS)
    if width < 2:
        return Result(source, 1.0, 0.0, 0)
    pooled = replace(given, context=np.minimum(place, width - 1)[context])
    found = mantel(pooled, y, np.eye(width)[:, :-1], n_strata, centred)
    return Result(source, *found.tested(), found.rows)


@dataclass(frozen=True)
class Alike:
    """How much the steps of a group resemble each other, as sums over groups.

    z is an outcome given (s, a), in standard deviations from the mean of its pair.

    product     sum_t z_t x_t, where x_t is the sum of z over the steps of the group before t
    variance    sum_t x_t^2 (z_t^2 + 2) / 3
    couples     the number of products of two steps
    rows        in groups of two or more
    """

    product: float = 0.0
    variance: float = 0.0
    couples: float = 0.0
    rows: float = 0.0

    def __add__(self, other: Alike) -> Alike:
        return Alike(*(x + y for x, y in zip(astuple(self), astuple(other), strict=True)))

    @property
    def p_value(self) -> float:
        """One-sided, of `product` against a normal distribution with this variance.

        In a Markov log the z_t are martingale differences with conditional variance 1, so those of
        the product, z_t x_t, have conditional variance x_t^2. A third of the sum of their squares
        plus two thirds of the sum of these variances makes the tail of the product no heavier than
        a Gaussian one, however skewed z is and however few groups there are (Delyon, Electron. J.
        Probab. 14, 2009, Theorem 4).
        """
        if not self.variance > 0:
            return 1.0
        return float(ndtr(-self.product / np.sqrt(self.variance)))

    @property
    def correlation(self) -> float:
        """Of two steps of a group."""
        return self.product / self.couples if self.couples else 0.0

    @property
    def explained(self) -> float:
        """The share of the variance of a group's mean that its steps have in common."""
        extra = max(self.correlation, 0.0) * 2 * self.couples / max(self.rows, 1.0)
        return extra / (1 + extra)


def alike(z: np.ndarray, use: np.ndarray, time: np.ndarray) -> dict[str, Alike]:
    """One for each of GROUPS, of rows in order; rows outside `use` take no part.

    time is that of each row in its episode, from 0. z has mean 0 and variance 1 in every pair.
    Since it adds up to 0 in a pair, two of its rows have a mean product below 0: small pairs make
    the tests cautious.
    """
    longest = int(time.max(initial=0)) + 1
    cuts = ((LENGTHS[0], longest > 1), (LENGTHS[1], longest > LENGTHS[0]), (longest, longest > 1))
    at = np.flatnonzero((time[1:] > 0) & use[1:] & use[:-1])
    x, y = z[at], z[at + 1]
    variance = float((x**2 * (y**2 + 2)).sum() / 3)
    neighbours = Alike(float((x * y).sum()), variance, len(at), 2 * len(at))
    groups = [
        _grouped(z[use], np.cumsum(time % length == 0)[use]) if there else Alike()
        for length, there in cuts
    ]
    return dict(zip(GROUPS, (neighbours, *groups), strict=True))


def _grouped(z: np.ndarray, group: np.ndarray) -> Alike:
    if not len(z):
        return Alike()
    first = np.flatnonzero(np.append(True, np.diff(group) != 0))
    size = np.diff(np.append(first, len(z)))
    before = np.append(0.0, np.cumsum(z)[:-1])
    before -= np.repeat(before[first], size)
    return Alike(
        float((z * before).sum()),
        float((before**2 * (z**2 + 2)).sum() / 3),
        float((size * (size - 1) / 2).sum()),
        float(size[size > 1].sum()),
    )
