"""Lower bounds on the mean of values at level delta, each with what it needs to be true; and a bet
against "the mean is at most 0" that may be looked at after every value.

A bound is a row of `Evidence`: `low` is the bound, `validity` says in which sense it holds.

Importance-weighted values have a floor `lo` and no useful ceiling. `uncapped_betting` needs none.
`hoeffding` and `maurer_pontil` look at Y = min(X, cap): E[Y] <= E[X] whatever the cap, so a lower
bound on E[Y] is one on E[X]. Y lies in [lo, cap], a range they can use. The cap must not depend on
the values it is applied to: choose it on other episodes (`choose_cap`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.array_checks import number_array
from surefoot.core.errors import ParameterError, ProblemError
from surefoot.core.evidence import Evidence
from surefoot.core.parameters import check_name
from surefoot.statistics.radii import empirical_bernstein_at, hoeffding_at

CAPPED = ("maurer-pontil", "hoeffding")  # finite-sample, for values cut at a cap
FLOORED = ("betting", *CAPPED)  # finite-sample, for values with a floor
APPROXIMATE_BOUNDS = ("student-t", "bca")
_CAP = (
    "finite-sample: at least 1 - delta for i.i.d. values in [lo, inf) and a cap chosen without them"
)
VALIDITY = {
    "hoeffding": _CAP,
    "maurer-pontil": _CAP,
    "betting": (
        "finite-sample: at least 1 - delta for any number of independent episodes whose values"
        " have a floor, however skewed"
    ),
    "student-t": (
        "asymptotic: near 1 - delta for many values; too optimistic where losses are rare and large"
    ),
    "bca": (
        "bootstrap, approximate: near 1 - delta for many values; too optimistic for few or"
        " heavy-tailed ones"
    ),
}
HIGHEST_DELTA = 0.5  # a failure probability above one half is a confidence by mistake
# the share of its capital that a bet may lose; 0.5 had less power where the floor is far, and no
# more elsewhere
STAKE = 0.9
SMALLEST = 1e-300  # mean above lo that is looked for
HALVINGS = 60
RESAMPLES = 2000
CELLS = 4_000_000  # resampled values held at once
GRID = 256  # caps that are tried, besides the values themselves
FLAT = "all values are equal: without scatter this method cannot judge the mean, and gives no bound"
SHARES = STAKE * 2.0 ** -np.arange(10)


@dataclass(frozen=True)
class Forecast:
    """What a training part promises of n other values: the bound, with the best cap; mean and
    variance of the values cut there.
    """

    bound: float
    cap: float | None
    mean: float
    variance: float


def hoeffding(x: Any, delta: float, *, lo: float, cap: float) -> Evidence:
    """mean(Y) - (cap - lo) sqrt( ln(1/delta) / (2 n) ),  Y = min(X, cap) (Hoeffding 1963, Theorem
    2; one-sided).

    Finite-sample, for i.i.d. X >= lo.
    """
    x, y = _truncated(x, delta, lo, cap, fewest=1)
    bound = float(y.mean() - hoeffding_at(np.array(len(y)), math.log(1 / delta), cap - lo))
    return _found("hoeffding", bound, x, delta)


def maurer_pontil(x: Any, delta: float, *, lo: float, cap: float) -> Evidence:
    """mean(Y) - sqrt( 2 s^2 ln(2/delta) / n ) - 7 (cap - lo) ln(2/delta) / (3 (n - 1)),  Y = min(X,
    cap), s^2 its sample variance.

    The empirical Bernstein bound of Maurer & Pontil (COLT 2009, Theorem 4), for truncated values
    Theorem 1 of Thomas, Theocharous & Ghavamzadeh (AAAI 2015) with one cap: their (1/n) sqrt(
    ln(2/delta) / (n - 1) sum_ij (Y_i - Y_j)^2 ) is the middle term, since sum_ij (Y_i - Y_j)^2 = 2
    n (n - 1) s^2. Finite-sample, for i.i.d. X >= lo.
    """
    x, y = _truncated(x, delta, lo, cap, fewest=2)
    bound = float(
        y.mean()
        - empirical_bernstein_at(np.array(len(y)), y.var(ddof=1), math.log(2 / delta), cap - lo)
    )
    return _found("maurer-pontil", bound, x, delta)


def uncapped_betting(x: Any, delta: float, *, lo: Any) -> Evidence:
    """The largest m that a gambler who bets against "no value has a mean above m" has refuted:
    whose capital reached 1/delta.

    With z_i = X_i - lo >= 0 and m counted from lo as well, the capital after t values is
        K_t(m) = prod_{i <= t} ( 1 + lambda_i(m) (z_i - m) ),
        lambda_i(m) = min( sqrt( 2 ln(1/delta) / (n s_i^2(m)) ), STAKE / m ),
        s_i^2(m) = ( m^2 + sum_{j < i} (z_j - mean(z_1..z_j))^2 ) / i:
    the bet against a value is set by the values before it, and by m itself as the guess that counts
    as one value. Proof. Let E[ z_i | past ] <= m for every i. Each factor is at least 1 - STAKE >
    0, as lambda_i <= STAKE / m and z_i >= 0: by `log_wealth` P( max_t K_t(m) >= 1/delta ) <= delta.
    It takes no ceiling on the values: a large one only raises the capital. Each factor falls in m:
    where the minimum is STAKE / m it is 1 - STAKE + STAKE z_i / m; elsewhere lambda_i = c (v +
    m^2)^(-1/2), and d/dm [ lambda_i (z_i - m) ] = -lambda_i ( 1 + (z_i - m) m / (v + m^2) ) <= 0,
    as z_i >= 0; both join continuously. So the refuted m are an interval from 0, found by halving,
    and P( bound > mu ) <= delta for every mu that no E[ X_i | past ] exceeds. The values need not
    have one law: for i.i.d. values mu is their mean; where the X_i have different means given the
    past (each block of a log tests a policy made from the blocks before it), mu is the largest of
    them, and a bound above 0 says that one of them is. How to bet is free; ln(1 + z) >= z - z^2/2
    leads to the choice above (Waudby-Smith & Ramdas, JRSS B 2024, eqs. 24-26, where values are in
    [0, 1]). The bound depends on the order of the values: shuffle those of a log that may be
    sorted, without looking at them. What early values refuted and later ones took back is not
    claimed: the bound is at most the sample mean.

    lo may be a row of floors, each known before its value. A mean that no value exceeds is at least
    the highest of them, and all of the above holds with z_i and m_i counted from lo_i.
    """
    x = _sample(x, delta, fewest=1)
    _check_floor(x, lo, float(np.abs(lo).max()) + abs(float(x.min())))
    z, top = np.maximum(x - lo, 0.0), float(np.max(lo))
    target = math.log(1 / delta)
    scatter = _scatter(z) if np.ndim(lo) == 0 else None  # of no m: once for all of them
    refuted, low, high = 0.0, math.log(SMALLEST), math.log(max(float(x.max()) - top, SMALLEST))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if log_capital(z, delta, math.exp(middle) + (top - lo), scatter).max() >= target:
            refuted, low = math.exp(middle), middle
        else:
            high = middle
    return _found("betting", min(top + refuted, float(x.mean())), x, delta)


def log_capital(
    z: np.ndarray, delta: float, m: Any, scatter: np.ndarray | None = None
) -> np.ndarray:
    """ln K_t(m), t = 1..n, for z >= 0 and m > 0; m is a number, or a row where floors differ.
    `scatter` is that of z, if known.
    """
    n = len(z)
    i = np.arange(1, n + 1)
    with np.errstate(
        over="ignore", divide="ignore"
    ):  # weights may be as large as numbers get: such a value wins the bet
        if scatter is None:
            scatter = _scatter(z if np.ndim(m) == 0 else z - m)
        bets = np.minimum(np.sqrt(2 * math.log(1 / delta) / n * i / (scatter + m * m)), STAKE / m)
        return log_wealth(bets, z - m)


def _scatter(y: np.ndarray) -> np.ndarray:
    """sum_{j < i} (y_j - mean(y_1..y_j))^2,  i = 1..n."""
    with np.errstate(over="ignore"):
        squares = (y - np.cumsum(y) / np.arange(1, len(y) + 1)) ** 2
        return np.append(0.0, np.cumsum(squares)[:-1])


def log_wealth(bets: np.ndarray, x: np.ndarray) -> np.ndarray:
    """ln K_t,  K_t = prod_{i <= t} ( 1 + bet_i x_i ),  t = 1, 2, ...: what a gambler has made of 1.

    Let E[ x_i | past ] <= 0, bet_i >= 0 be known before x_i, and no factor be negative. The mean of
    a factor given the past is then at most 1: K_t is a supermartingale that starts at 1, and by
    Ville's inequality P( K_t >= 1/alpha for some t ) <= alpha. So is the mean of several gamblers
    (`Capital`). Other bets of surefoot multiply factors of mean 1 too, and keep no path:
    one bet for each state, on what its draws come to (`statistics.radii.betting_lower`); bets on
    how often an action comes, by counts (`checks.propensities`); ratios of likelihoods, whose
    factors are no bets on a mean (`logs.disagreement`).
    """
    found: np.ndarray = np.cumsum(np.log1p(bets * x), axis=-1)
    return found


def student_t(x: Any, delta: float) -> Evidence:
    """mean(X) - t_{1 - delta, n - 1} s / sqrt(n).

    Asymptotic: exact for normal values. For values skewed to the right, as importance weights of
    rewards >= 0 make them, the bound errs on the low side; for values skewed to the left (losses
    that are rare and large) it is too high too often.
    """
    x = _sample(x, delta, fewest=2)
    if not _scatters(x):
        return _found("student-t", -math.inf, x, delta, FLAT)
    width = student_width(float(x.var(ddof=1)), len(x), delta)
    return _found("student-t", float(x.mean() - width), x, delta)


def bca(x: Any, delta: float, rng: np.random.Generator, *, resamples: int = RESAMPLES) -> Evidence:
    """The delta quantile of resampled means, corrected for bias and acceleration (Efron 1987;
    scipy.stats.bootstrap).

    Bootstrap, approximate. The jackknife behind the acceleration costs n^2.
    """
    from scipy.stats import bootstrap  # at the top it would double the time of `import surefoot`

    x = _sample(x, delta, fewest=2)
    if not _scatters(x):
        return _found("bca", -math.inf, x, delta, FLAT)
    found = bootstrap(
        (x,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, CELLS // len(x)),
        vectorized=True,
        confidence_level=1 - delta,
        alternative="greater",
        method="BCa",
        random_state=rng,
    )
    return _found("bca", float(found.confidence_interval.low), x, delta)


def choose_cap(x: Any, lo: float, n: int, delta: float, method: str) -> Forecast:
    """The cap c that maximises the bound that n values would get if Y = min(X, c) had the mean and
    variance it has in x.

    As Thomas et al. 2015, section 4, for the bound used. x are values of the training part: the
    bound on other values is valid whatever is chosen here, only its tightness depends on it.
    "betting" needs no cap; its forecast does, since few values say little about their own tail.
    """
    check_name("method", method, FLOORED)
    check_delta(delta)
    z = np.sort(np.maximum(np.asarray(x, dtype=float) - lo, 0.0))
    if z[-1] <= 0:
        return Forecast(lo, lo + 1.0, lo, 0.0)
    c = np.unique(np.concatenate([z[z > 0], z[-1] * np.arange(1, GRID + 1) / GRID]))
    below = np.searchsorted(z, c, side="right")
    sums = np.append(0.0, np.cumsum(z))[below] + (len(z) - below) * c
    squares = np.append(0.0, np.cumsum(z**2))[below] + (len(z) - below) * c**2
    mean = sums / len(z)
    variance = np.maximum(squares - sums * mean, 0.0) / max(len(z) - 1, 1)
    bound = mean - forecast_width(variance, c, n, delta, method)
    best = int(np.argmax(bound))
    return Forecast(
        float(lo + bound[best]), float(lo + c[best]), float(lo + mean[best]), float(variance[best])
    )


def forecast(x: np.ndarray, n: int, delta: float) -> Forecast:
    """The bound that n values without a cap would get by Student's t, which stands for the
    bootstrap too.
    """
    variance = float(x.var(ddof=1)) if len(x) > 1 else math.inf
    mean = float(x.mean())
    return Forecast(mean - float(student_width(variance, n, delta)), None, mean, variance)


def forecast_width(variance: Any, width: Any, n: int, delta: float, method: str) -> Any:
    """How far below the mean the bound of n values will lie; for betting a rule of thumb:
    Bernstein's width, with ln(1/delta).
    """
    if method == "hoeffding":
        return hoeffding_at(np.array(n), math.log(1 / delta), width)
    if method == "maurer-pontil":
        return empirical_bernstein_at(np.array(n), variance, math.log(2 / delta), width)
    log = math.log(1 / delta)
    return np.sqrt(2 * variance * log / n) + width * log / n


def student_width(variance: Any, n: int, delta: float) -> Any:
    """t_{1 - delta, n - 1} sqrt( variance / n )."""
    from scipy.special import stdtrit  # scipy.stats takes longer to import than all of surefoot

    return float(stdtrit(n - 1, 1 - delta)) * np.sqrt(variance / n)


def check_delta(delta: Any) -> None:
    """Raise unless delta is a failure probability in (0, 1/2]."""
    if isinstance(delta, (bool, str)) or np.ndim(delta) or not 0 < delta <= HIGHEST_DELTA:
        raise ParameterError(
            f"delta is a failure probability in (0, {HIGHEST_DELTA}], got {delta!r}: for 95 %"
            " certainty give 0.05"
        )


def _sample(x: Any, delta: float, fewest: int) -> np.ndarray:
    check_delta(delta)
    found = number_array("values", x, ProblemError)
    if found.ndim != 1 or len(found) < fewest:
        raise ProblemError(f"expected a row of {fewest} or more values, got shape {found.shape}")
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        raise ProblemError(
            f"values must be finite, entry {wrong[0]} is {found[wrong[0]]} ({len(wrong)} such"
            " entries)"
        )
    return found


def _truncated(
    x: Any, delta: float, lo: float, cap: float, fewest: int
) -> tuple[np.ndarray, np.ndarray]:
    """(x, min(x, cap)), with x >= lo."""
    found = _sample(x, delta, fewest)
    if not -math.inf < lo < cap < math.inf:
        raise ParameterError(f"lo and cap must be finite with lo < cap, got lo={lo!r}, cap={cap!r}")
    _check_floor(found, lo, abs(lo) + cap - lo)
    return found, np.clip(found, lo, cap)


def _check_floor(x: np.ndarray, lo: Any, scale: float) -> None:
    """Raise unless x >= lo, up to rounding."""
    if not np.isfinite(lo).all():
        raise ParameterError(f"lo must be a finite number, got {lo!r}")
    wrong = np.flatnonzero(x < lo - 1e-9 * scale)
    if len(wrong):
        floor = np.broadcast_to(lo, x.shape)[wrong[0]]
        raise ProblemError(
            f"no value may lie below lo = {floor:g}, entry {wrong[0]} is {x[wrong[0]]:g}"
            f" ({len(wrong)} such entries)"
        )


def _scatters(x: np.ndarray) -> bool:
    """Whether the values differ by more than rounding."""
    return bool(np.ptp(x) > 1e-12 * np.abs(x).max() and x.var(ddof=1) > 0)


def _found(method: str, low: float, x: np.ndarray, delta: float, *notes: str) -> Evidence:
    """A lower bound on the mean of x, as a row."""
    return Evidence(
        estimate=float(x.mean()), low=low, high=math.inf, delta=delta, validity=VALIDITY[method],
        units=len(x), unit="values", notes=notes,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Capital:
    """A test of "the mean is at most 0" that may be looked at after every value: what ten gamblers,
    who share a capital of 1, have after n values.

    With values x_i >= lo, lo < 0, gambler k stakes the constant share b_k = STAKE 2^-k of what he
    has on every value:
        K_t = (1/10) sum_k prod_{i <= t} ( 1 + b_k x_i / |lo| ),   k = 0..9.
    Proof that one may look at any time. Let E[ x_i | past ] <= 0 for every i. Each factor is at
    least 1 - STAKE > 0, as x_i >= lo. So by `log_wealth`
        P( K_t >= 1/alpha for some t = 1, 2, 3, ... ) <= alpha:
    the event is about all times together, so whoever looks after every batch, and stops when it
    pleases them, is wrong with probability at most alpha. No number of values is fixed in advance,
    and none is counted twice. There is no ceiling on the values: a large one only raises the
    capital. The stakes are a geometric grid, since the best one depends on the mean and the scatter
    of the values, which nobody knows: some gambler is within a factor of sqrt(2) of it, and shares
    the prize with nine others, which costs ln 10 once. On six kinds of logs of 4,000 decisions this
    found as much as stakes that follow the estimated best one, and more or earlier than those of
    Waudby-Smith & Ramdas (JRSS B 2024, eq. 26) on five of them. Where the number of values is fixed
    in advance, `uncapped_betting` has more power: its stakes aim at that number.

    logs         the logarithm of what each has made of his part
    n, total     the number of values, and their sum
    highest      the logarithm of the highest capital so far
    reached_at   the number of values after which it first reached 1/alpha; None if it did not
    """

    logs: tuple[float, ...] = (0.0,) * len(SHARES)
    n: int = 0
    total: float = 0.0
    highest: float = 0.0
    reached_at: int | None = None

    @property
    def now(self) -> float:
        """The logarithm of the capital."""
        return float(joint_capital(np.array(self.logs)[:, None])[0])

    def after(self, x: np.ndarray, lo: float, alpha: float) -> Capital:
        """The capital after these values too, in their order."""
        check_delta(alpha)
        if not -math.inf < lo < 0:
            raise ParameterError(
                f"a bet needs a floor below 0, got {lo!r}: no value can be negative, or how low"
                " they are is not known"
            )
        x = np.asarray(x, dtype=float)
        if not len(x):
            return self
        wrong = np.flatnonzero(~(x >= lo * (1 + 1e-9)))
        if len(wrong):
            raise ProblemError(
                f"no value may lie below {lo:g}, entry {wrong[0]} is {x[wrong[0]]:g}"
                f" ({len(wrong)} such entries)"
            )
        x = np.maximum(x, lo)
        path = log_wealth(SHARES[:, None], x / -lo) + np.array(self.logs)[:, None]
        joint = joint_capital(path)
        hit = np.flatnonzero(joint >= math.log(1 / alpha))
        first = self.n + int(hit[0]) + 1 if len(hit) else None
        return Capital(
            logs=tuple(map(float, path[:, -1])),
            n=self.n + len(x),
            total=self.total + float(x.sum()),
            highest=max(self.highest, float(joint.max())),
            reached_at=first if self.reached_at is None else self.reached_at,
        )

    def document(self) -> dict[str, Any]:
        """It as JSON holds it."""
        return {
            "log_capital_of_each": list(self.logs),
            "episodes": self.n,
            "sum": self.total,
            "highest_log_capital": self.highest,
            "reached_at": self.reached_at,
        }


def capital_of(content: Mapping[str, Any]) -> Capital:
    """The capital of what was read from JSON."""
    logs = tuple(map(float, content["log_capital_of_each"]))
    numbers = (*logs, float(content["sum"]), float(content["highest_log_capital"]))
    at, n = content["reached_at"], int(content["episodes"])
    if len(logs) != len(SHARES) or not np.isfinite(numbers).all() or n < 0:
        raise ProblemError(f"a capital is {len(SHARES)} finite numbers, and a number of episodes")
    return Capital(
        logs=logs, n=n, total=numbers[-2], highest=numbers[-1],
        reached_at=None if at is None else int(at),
    )  # fmt: skip


def joint_capital(path: np.ndarray) -> np.ndarray:
    """ln of the mean over gamblers [gamblers, t] of what they have."""
    top = path.max(axis=0)
    found: np.ndarray = top + np.log(np.exp(path - top).mean(axis=0))
    return found
