"""Radii: how far a mean, or a row of transitions, lies from the truth at failure rate delta."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from surefoot.core.arrays import Array, like, namespace

TYPICAL = 10  # the n at which the any-time radius is made tight
# the lambdas of the any-time Bernstein radius; the least is tight at n = 1e7 or so
TILTS = tuple(0.8 / 2**k for k in range(10))
STEPS = 0.95 * np.sqrt(0.5) ** np.arange(26)  # of bet times width, tried by `best_bet`
SURE = 1 - 1e-9  # of bet times (m - floor): at 1 a single draw could take all
HALVINGS = 60  # of the interval in which the bound of bets is sought
# draws up to which the Clopper-Pearson radius is computed; beyond, Hoeffding's is a valid bound
EXACT = 100_000


def hoeffding(n: Array, delta: Array | float, width: float = 1.0) -> Array:
    """|mean - mu| exceeds it w.p. <= delta, for n independent draws in a range of this width.

    width sqrt( ln(2/delta) / (2n) ):  Hoeffding 1963, Theorem 2, both sides. With width = 2 g_max
    it is g_max sqrt( (2/n) ln(2/delta) ), the paper's e_Q g_max. delta may be an array like n.
    Infinite where n = 0, as every radius here.
    """
    return hoeffding_at(n, namespace(n).log(2 / like(n, delta)), width)


def hoeffding_at(n: Array, log: Array | float, width: Array | float = 1.0) -> Array:
    """width sqrt( log / (2n) ), log = ln(1/delta) on one side, ln(2/delta) on both, ln(2 k/delta)
    for k means at once.
    """
    xp = namespace(n)
    some = n > 0
    return xp.where(some, width * xp.sqrt(log / (2 * xp.where(some, n, 1.0))), xp.inf)


def empirical_bernstein(
    n: Array, variance: Array, delta: Array | float, width: float = 1.0
) -> Array:
    """The same from the sample variance, both sides: ln(4/delta) in `empirical_bernstein_at`."""
    return empirical_bernstein_at(n, variance, namespace(n).log(4 / like(n, delta)), width)


def empirical_bernstein_at(
    n: Array, variance: Array, log: Array | float, width: Array | float = 1.0
) -> Array:
    """sqrt( 2 Var log / n ) + 7 width log / (3 (n - 1)),  Var the unbiased sample variance; log =
    ln(2/delta) on one side, ln(4/delta) on both, ln(4 k/delta) for k means at once.

    Maurer & Pontil 2009, Theorem 4 (Theorem 11: independent draws suffice, they need not have one
    law). Infinite where n <= 1.
    """
    xp = namespace(n)
    enough = n > 1
    n, variance = xp.where(enough, n, 2.0), xp.where(enough, variance, 0.0)
    radius = xp.sqrt(2 * variance * log / n) + 7 * width * log / (3 * (n - 1))
    return xp.where(enough, radius, xp.inf)


def any_time(n: Array, delta: Array | float, width: float = 1.0) -> Array:
    """(width/2) sqrt( (n + m) ( ln((n + m)/m) + 2 ln(1/delta) ) ) / n,  m = TYPICAL:  |mean - mu|
    ever exceeds it w.p. <= delta.

    Robbins' normal mixture: with S_n the centred sum and v = width^2 / 4, exp(x S_n - x^2 n v / 2)
    is a supermartingale for every x (Hoeffding's lemma); its mean over x ~ N(0, 1/(m v)) is
    sqrt(m/(n+m)) exp( S_n^2 / (2 v (n+m)) ), which by Ville's inequality ever exceeds 1/delta w.p.
    <= delta. So n may be random, and may depend on the draws. m is fixed before the data are seen.
    """
    xp = namespace(n)
    some = n > 0
    n = xp.where(some, n, 1.0)
    spread = xp.log((n + TYPICAL) / TYPICAL) + 2 * xp.log(1 / like(n, delta))
    return xp.where(some, 0.5 * width * xp.sqrt((n + TYPICAL) * spread) / n, xp.inf)


def any_time_bernstein(
    n: Array, variance: Array, delta: Array | float, width: float = 1.0
) -> Array:
    """min over K lambdas of  (width/n) ( ln(2K/delta) + psi(lambda) n Var / width^2 ) / lambda,
    psi(x) = -ln(1 - x) - x;  both sides.

    |mean - mu| ever exceeds it w.p. <= delta: Howard et al. 2021, Theorem 4 (on Fan et al. 2015,
    Lemma 4.1), with a union over lambdas.
    Var = mean of (x_i - m_i)^2, m_i in the range and known before x_i: see `squares_in_order`.
    docs/certificates.md has the proof.
    """
    xp = namespace(n)
    some = n > 0
    n, variance = xp.where(some, n, 1.0), xp.where(some, variance, 0.0)
    log, found = xp.log(2 * len(TILTS) / like(n, delta)), xp.full_like(n, xp.inf)
    squares = n * variance / (width**2 if width > 0 else 1.0)  # no width, no scatter
    for x in TILTS:
        found = xp.minimum(found, (log + float(-np.log1p(-x) - x) * squares) / x)
    return xp.where(some, width * found / n, xp.inf)


def squares_in_order(group: np.ndarray, x: np.ndarray, size: int, middle: float) -> np.ndarray:
    """sum over i of (x_i - m_i)^2 in each group, m_i = (middle + x_1 + .. + x_{i-1}) / i:  known
    before x_i, in order of time.
    """
    order = np.argsort(group, kind="stable")
    group, x = group[order], x[order] - middle
    before = np.cumsum(x) - x
    begins = np.append(True, group[1:] != group[:-1])[: len(x)]
    at = np.flatnonzero(begins)[np.cumsum(begins) - 1]
    guess = (before - before[at]) / (np.arange(len(x)) - at + 1)
    found: np.ndarray = np.bincount(group, weights=(x - guess) ** 2, minlength=size)
    return found


def betting_lower(
    group: np.ndarray,
    x: np.ndarray,
    log: float,
    bet: np.ndarray,
    floor: np.ndarray,
    scale: float = 1.0,
) -> np.ndarray:
    """A lower bound on mu in each group [size]: ever above it w.p. <= exp(-log), at every number
    of draws at once, for draws of which none is below `floor` and each has a mean of mu at most,
    given the past.

    The largest m with  sum_i ln(1 + bet (x_i - m)) >= log,  bet (m - floor) < 1;  bet and floor
    [size] are chosen without the draws. `floor` where no m is rejected. scale: as if each draw had
    come so many times. docs/certificates.md has the proof.
    """

    def capital(m: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            each = np.log(np.maximum(1 + bet[group] * (x - m[group]), 0.0))
        return scale * np.bincount(group, weights=each, minlength=len(floor))

    low, high = floor, floor + SURE / bet
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        rejected = capital(middle) >= log
        low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
    return low


def best_bet(
    n: np.ndarray, variance: np.ndarray, log: float, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(bet, r): that of which `betting_lower` should lie the least, r, below the mean, for n draws
    of this variance, the mean `width` above the floor.

    r is the smaller root of  bet r - bet^2 (Var + r^2) / 2 = log/n,  to second order.
    """
    bets = np.multiply.outer(STEPS, 1 / width)
    with np.errstate(divide="ignore", invalid="ignore"):
        k = log / n + 0.5 * bets**2 * variance
        r = 2 * k / (bets + np.sqrt(bets**2 * (1 - 2 * k)))
    r = np.where(np.isfinite(r) & (r < width), r, width)
    best = r.argmin(axis=0)[None]
    return np.take_along_axis(bets, best, 0)[0], np.take_along_axis(r, best, 0)[0]


def spent_at(n: Array, delta: float) -> Array:
    """delta / (n (n + 1)): the share of n in a union over all numbers of draws; sums to delta."""
    xp = namespace(n)
    some = xp.where(n > 0, n, 1.0)
    return delta / (some * (some + 1))


def weissman(n: Array, delta: Array | float, successors: int) -> Array:
    """sqrt( (2/n) ln( (2^m - 2) / delta ) ):  ||P_hat - P||_1 exceeds it w.p. <= delta, for a row
    with m possible successors.

    Weissman et al. 2003, Theorem 2.1 with its factor phi >= 2. A union over the 2^m - 2 proper sets
    of successors of Hoeffding's bound on one side. At most 2, as any such distance; 0 for a single
    successor.
    """
    xp = namespace(n)
    if successors < 2:
        return xp.zeros_like(n)
    some = n > 0
    # ln(2^m - 2) = m ln 2 + ln(1 - 2^(1 - m)), which does not overflow.
    subsets = successors * np.log(2) + np.log1p(-(2.0 ** (1 - successors)))
    radius = xp.sqrt(2 * (float(subsets) + xp.log(1 / like(n, delta))) / xp.where(some, n, 1.0))
    return xp.where(some & (radius < 2), radius, 2.0)


def two_successor(n: Array, delta: Array | float, successors: int = 2) -> Array:
    """sqrt( (2/n) ln(2/delta) ):  Weissman's radius of a row with two successors, where ||P_hat -
    P||_1 = 2 |p_hat - p|.

    It does not depend on `successors`, and is no bound on a row that has more than two: see
    docs/certificates.md.
    """
    return weissman(n, delta, 2)


def clopper_pearson(n: Array, delta: Array | float) -> np.ndarray:
    """r(n) = max_k max{ k/n - B(delta/2; k, n-k+1),  B(1 - delta/2; k+1, n-k) - k/n },  B the
    quantile of a Beta distribution.

    |p_hat - p| exceeds it with probability <= delta for a binomial p_hat = k/n: were p outside the
    (exact) Clopper-Pearson interval of
    k, one of its two tails would have happened. Never above Hoeffding's radius, since Chernoff's
    bound is no less than the tail.
    """
    n, delta = np.broadcast_arrays(np.asarray(n, dtype=float), np.asarray(delta, dtype=float))
    found = [
        _clopper_pearson(float(x), float(d))
        for x, d in zip(n.reshape(-1), delta.reshape(-1), strict=True)
    ]
    return np.array(found).reshape(n.shape)


@cache
def _clopper_pearson(n: float, delta: float) -> float:
    from scipy.special import betaincinv

    if n < 1:
        return 1.0
    if n > EXACT:
        return float(hoeffding(np.array(n), delta))
    k = np.arange(0.0, np.floor(n))  # the other side is its mirror image: k -> n - k
    return float((betaincinv(k + 1, n - k, 1 - delta / 2) - k / n).max())


def beta(n: Array, delta: Array | float) -> np.ndarray:
    """1/2 - B(delta/2; n/2 + 1, n/2 + 1): half the L1 radius of Wienhoeft et al. 2023. Bayesian,
    and no frequentist bound.

    The posterior radius under a uniform prior if k = n/2 was seen. |p_hat - p| exceeds it far more
    often than delta at small n.
    """
    from scipy.special import betaincinv

    n = np.asarray(n, dtype=float)
    found: np.ndarray = 0.5 - betaincinv(n / 2 + 1, n / 2 + 1, np.asarray(delta) / 2)
    return found


def _doubled(radius: Callable[[Array, Any], np.ndarray]) -> Callable[[Array, Any, int], Array]:
    """The L1 radius of a row with two successors from the radius of one probability."""

    def of_row(n: Array, delta: Any, successors: int) -> Array:
        return np.where(np.asarray(n) > 0, 2 * radius(n, delta), 2.0)

    return of_row


# L1 radii of a row, by name: (n, delta, successors) -> radius. All but the first hold for rows with
# at most two successors.
ROW_RADII: MappingProxyType[str, Callable[[Array, Any, int], Array]] = MappingProxyType(
    {
        "weissman": weissman,
        "two-successor": two_successor,
        "clopper-pearson": _doubled(clopper_pearson),
        "beta": _doubled(beta),
    }
)
