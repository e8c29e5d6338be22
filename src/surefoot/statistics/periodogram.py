"""Cycles: does a series rise and fall with any period, from two steps on?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.fft import rfft
from scipy.special import gammaincc

SLOWEST = 25  # waves over the series below which a cycle is a slow one: others look for those
FINER = 4  # frequencies are looked at so many times as densely as independent ones lie
HARMONICS = 3  # of a cycle that is no sine, such as five days of work and two at home
MOST_ROWS = 1 << 17  # a longer series is looked at up to here
FEWEST_ROWS = 4 * SLOWEST
AROUND = 8  # frequencies around one whose median says what is usual there


@dataclass(frozen=True)
class Cycle:
    """The clearest cycle of a series: its period in steps, its p-value, and the share of the
    variance that it explains.
    """

    period: float = math.inf
    p_value: float = 1.0
    explained: float = 0.0

    def phase(self, t: np.ndarray, most: int = 12) -> tuple[np.ndarray, int]:
        """(the phase of every time t as a code, how many there are): each step of a short period,
        parts of a longer one.
        """
        if not math.isfinite(self.period):
            return np.zeros(len(t), dtype=np.int64), 1
        kinds = min(max(round(self.period), 2), most)
        turned = np.mod(np.asarray(t) / self.period + 1e-9, 1.0)
        return np.minimum((turned * kinds).astype(np.int64), kinds - 1), kinds


def cycle(y: np.ndarray) -> Cycle:
    """The clearest cycle of a series of mean 0, against exchangeable values.

    I(f) = |sum_t y_t e^{-2 pi i f t}|^2 / sum y^2 is nearly exponential with mean 1 where the order
    of the values says nothing, whatever their distribution, and the sum over j harmonics f, 2f, ...
    a gamma variable; at f = 1/2, a step up and a step down, it is chi-square with one degree of
    freedom. The p-value is the smallest, times the number of frequencies that were looked at
    (Bonferroni; Fisher 1929 has the test of the largest). Values that resemble their neighbours for
    another reason, because states are bins of measurements, say, raise whole ranges of frequencies,
    a cycle single ones: I is divided by its usual size around there, where that is larger than
    chance makes it. A period within the resolution of a whole number of steps is that number.
    """
    n = min(len(y), MOST_ROWS)
    if n < FEWEST_ROWS:
        return Cycle()
    y = np.asarray(y[:n], dtype=float)
    y = y - y.mean()
    total = float(y @ y)
    if not total > 0:
        return Cycle()
    grid = FINER * n
    first, half = FINER * SLOWEST, grid // 2
    power = np.abs(rfft(y, grid)) ** 2 / total  # twice as fast as NumPy's at sizes like 4 x prime
    power /= _usual(power, first)
    best = Cycle(2.0, float(gammaincc(0.5, power[half] / 2)), float(power[half]) / n)
    tests = 1
    for j in range(1, HARMONICS + 1):
        at = np.arange(first, (half - FINER) // j + 1)
        if not len(at):
            continue
        tests += len(at)
        together = np.sum([power[i * at] for i in range(1, j + 1)], axis=0)
        k = int(np.argmax(together))
        p = float(gammaincc(j, together[k]))
        if p < best.p_value:
            best = Cycle(_whole(float(grid / at[k]), n), p, 2 * float(together[k]) / n)
    return Cycle(best.period, min(1.0, best.p_value * tests), min(best.explained, 1.0))


def _usual(power: np.ndarray, first: int) -> np.ndarray:
    """The median of the power around each frequency, in units of that of independent values, at
    least 1.
    """
    parts = max((len(power) - first) // (2 * AROUND * FINER), 1)
    cuts = np.linspace(first, len(power), parts + 1).astype(int)
    medians, size = np.empty(parts), np.diff(cuts)
    for n in np.unique(size):  # a median at a time takes five times as long
        some = size == n
        inside = cuts[:-1][some][:, None] + np.arange(n)
        medians[some] = np.median(power[inside], axis=1) / math.log(2)
    found = np.interp(np.arange(len(power)), (cuts[1:] + cuts[:-1]) / 2, medians)
    return np.asarray(np.maximum(found, 1.0))


def _whole(period: float, n: int) -> float:
    """The period, or the whole number of steps that it cannot be told from."""
    near = float(round(period))
    return near if abs(n / near - n / period) <= 0.5 else period
