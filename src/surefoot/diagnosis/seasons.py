"""Seasons: do outcomes rise and fall with time? Mantel's test with waves as the functions of
time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.diagnosis.gtest import Tables
from surefoot.diagnosis.mantel import mantel
from surefoot.diagnosis.time_order import SEGMENTS

WAVES = 24  # at most so many times up and down over the log


@dataclass(frozen=True, repr=False)
class Waves:
    """p-values and explained shares of variance, of a trend (0) and of 1, ..., 24 waves over the
    log; how many rows took part.
    """

    p_values: np.ndarray
    explained: np.ndarray
    rows: int

    @property
    def p_value(self) -> float:
        """The smallest times their number (Bonferroni)."""
        return min(1.0, float(self.p_values.min()) * len(self.p_values))

    @property
    def worst(self) -> int:
        """The number of waves that stand out; 0 is a trend."""
        return int(np.argmin(self.p_values))

    @property
    def share(self) -> float:
        """The share of variance that these explain."""
        return float(self.explained[self.worst])


def waves(given: Tables, y: np.ndarray, n_strata: int) -> Waves:
    """Contexts are segments, at t in (0, 1) of the log: cos(pi t) is a trend, sin and cos(2 pi j
    t) together are j waves.
    """
    t = (np.arange(SEGMENTS) + 0.5) / SEGMENTS
    both = [g(2 * np.pi * j * t) for j in range(1, WAVES + 1) for g in (np.sin, np.cos)]
    found = mantel(given, y, np.stack([np.cos(np.pi * t), *both], axis=1), n_strata)
    tested = [
        found.tested(slice(0, 1)),
        *(found.tested(slice(2 * j - 1, 2 * j + 1)) for j in range(1, WAVES + 1)),
    ]
    p, explained = np.array(tested).T
    return Waves(p, explained, found.rows)
