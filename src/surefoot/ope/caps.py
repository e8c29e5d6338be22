"""Where to cut importance-weighted values: the cap that promises the best bound, judged on other
episodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.ope.bounds import check_delta, student_width
from surefoot.parameters import check_name
from surefoot.trust.radii import empirical_bernstein_at, hoeffding_at

CAPPED = ("maurer-pontil", "hoeffding")  # finite-sample, for values cut at a cap
FLOORED = ("betting", *CAPPED)  # finite-sample, for values with a floor
APPROXIMATE = ("student-t", "bca")
GRID = 256


@dataclass(frozen=True)
class Forecast:
    """What a training part promises of n other values: the bound, with the best cap; mean and
    variance of the values cut there.
    """

    bound: float
    cap: float | None
    mean: float
    variance: float


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
