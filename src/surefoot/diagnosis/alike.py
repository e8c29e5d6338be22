"""Do steps that belong together resemble each other? A hidden level of an episode, or one that
changes slowly, makes them do so.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
from scipy import stats

GROUPS = ("of neighbouring steps", "of 8 steps in a row", "of 64 steps in a row", "of an episode")
LENGTHS = (8, 64)


@dataclass(frozen=True)
class Alike:
    """Sums over groups of steps, z being what is left of an outcome given (s, a), in standard
    deviations of its pair.

    product     sum_t z_t x_t, where x_t is the sum of z over the steps of the group before t
    variance    sum_t x_t^2 (z_t^2 + 2) / 3
    couples     how many products of two steps there are; rows: in groups of two or more
    """

    product: float = 0.0
    variance: float = 0.0
    couples: float = 0.0
    rows: float = 0.0

    def __add__(self, other: Alike) -> Alike:
        return Alike(*(x + y for x, y in zip(astuple(self), astuple(other), strict=True)))

    @property
    def p_value(self) -> float:
        """One-sided. In a Markov log z are martingale differences with conditional variance 1, and
        so are z_t x_t, with x_t^2.

        A third of what their squares sum to and two thirds of what they are expected to sum to is a
        variance with which the tail of the product is no heavier than a Gaussian one, however
        skewed z are and however few groups there are (Delyon 2009, Theorem 4).
        """
        return (
            float(stats.norm.sf(self.product / np.sqrt(self.variance)))
            if self.variance > 0
            else 1.0
        )

    @property
    def correlation(self) -> float:
        """Of two steps of a group."""
        return self.product / self.couples if self.couples else 0.0

    @property
    def explained(self) -> float:
        """The share of the variance of a group's mean that is due to what its steps have in
        common.
        """
        extra = max(self.correlation, 0.0) * 2 * self.couples / max(self.rows, 1.0)
        return extra / (1 + extra)


def alike(z: np.ndarray, use: np.ndarray, episode: np.ndarray) -> tuple[Alike, ...]:
    """One for each of GROUPS: of rows in order, z having mean 0 and variance 1 in every pair; rows
    outside `use` take no part.

    Since z adds up to 0 in a pair, two of its rows have a mean product below 0: small pairs make
    the tests cautious.
    """
    new = np.append(True, np.diff(episode) != 0)
    within = np.arange(len(z)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    longest = int(within.max(initial=0)) + 1
    cuts = ((LENGTHS[0], longest > 1), (LENGTHS[1], longest > LENGTHS[0]), (longest, longest > 1))
    groups = [
        _grouped(z[use], np.cumsum(within % length == 0)[use]) if there else Alike()
        for length, there in cuts
    ]
    return (_neighbours(z, use, episode), *groups)


def _neighbours(z: np.ndarray, use: np.ndarray, episode: np.ndarray) -> Alike:
    at = np.flatnonzero((episode[1:] == episode[:-1]) & use[1:] & use[:-1])
    x, y = z[at], z[at + 1]
    return Alike(float((x * y).sum()), float((x**2 * (y**2 + 2)).sum() / 3), len(at), 2 * len(at))


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
