"""Gaussian bounds: the model's gain minus a quantile of its standard deviation, which
`delta_method` finds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from surefoot.certificates.certificate import (
    ASYMPTOTIC,
    MARKOV,
    START,
    STARTS,
    Bound,
    Certificate,
    range_sentences,
)
from surefoot.errors import NotAvailableError
from surefoot.parameters import check_choice
from surefoot.planning import evaluate
from surefoot.problems import Problem
from surefoot.rows.arrays import Array, like, to_numpy
from surefoot.trust.starts import start_variance


@dataclass(frozen=True)
class Moments:
    """Of the model's gain, less what no further visits would make up for.

    third: its third central moment; unshown: what outcomes that the log has not shown may take off.
    Both make the bound lower by a term that falls as 1 / n. left: of the bias of the gain, which
    has been taken off to second order; it falls as 1 / n^2.
    """

    gain: float
    sigma: float
    third: float = 0.0
    unshown: float = 0.0
    left: float = 0.0

    def below(self, z: float, scale: float) -> float:
        """gain - left - sqrt( (z sigma)^2 + unshown^2 ) + third (2 z^2 + 1) / (6 sigma^2)  for a
        log of `scale` times the size; the last is Johnson's (1978) term for skewness, where it is
        negative.
        """
        error, gain = z * self.sigma / math.sqrt(scale), self.gain - self.left / scale**2
        if z <= 0:
            return gain - error
        skewed = max(-self.third, 0.0) * (2 * z * z + 1) / 6
        skewed = skewed / self.sigma**2 if skewed > 0 else 0.0
        return gain - math.hypot(error, self.unshown / scale) - skewed / scale


@dataclass(frozen=True, kw_only=True)
class Gaussian(Bound):
    """Abstract: gain - z sigma,  z = Phi^{-1}(1 - delta), on fresh data."""

    places: ClassVar[tuple[str, ...]] = STARTS
    label: ClassVar[str] = ASYMPTOTIC
    assumed: ClassVar[tuple[str, ...]] = ()
    notes: ClassVar[tuple[str, ...]] = ()
    data: str = "training"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "data", ("training", "fresh"))

    def moments(self, problem: Problem, pi: np.ndarray) -> Moments:
        """What the bound is made of."""
        raise NotImplementedError

    def remarks(self, problem: Problem) -> tuple[str, ...]:
        """Notes for the reader of a certificate."""
        return self.notes

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """sigma falls as the root of the amount of data."""
        if self.data != "fresh":
            raise NotAvailableError(
                f"{self.name}: needs data that had no part in choosing the policy, for it is chosen"
                ' to look good on its own: certify on other data, and say --fresh (data="fresh" in'
                " Python)"
            )
        found = self.moments(problem, pi)
        z = NormalDist().inv_cdf(1 - self.delta) if self.delta < 1 else -np.inf
        return self.certificate(
            problem,
            pi,
            lambda scale: found.below(z, scale),
            label=self.label,
            assumptions=(MARKOV, *self.assumed, *range_sentences(problem)),
            n=problem.n_sa,
            data="fresh",
            notes=self.remarks(problem),
        )

    def start_variance(self, problem: Problem, h: np.ndarray) -> float:
        """Of the mean of h over the starts; 0 where the bound is about those of the log."""
        return start_variance(problem, h) if self.where == START else 0.0


def values(problem: Problem, pi: np.ndarray) -> np.ndarray:
    """v [S] in the model."""
    tolerance = 1e-10 * max(problem.return_range.width, 1e-300)
    v: np.ndarray = to_numpy(evaluate(problem.model, pi, tolerance=tolerance)).reshape(-1)
    return v


def target(block: Problem, v: np.ndarray) -> Array:
    """R + gamma v' at every successor seen."""
    return block.support.reward + block.gamma * block.support.at(like(block.pi_b, v[None]))


def row_moment(block: Problem, z: Array, power: int) -> Array:
    """The mean of (z - mean)^power under P of every pair [1, S, A], for z at every successor
    seen.
    """
    p = block.support.n * block.support.spread(block.weight)
    mean = block.support.dot(p, z)
    return block.support.total(p * (z - block.support.spread(mean)) ** power)


def reward_variance(block: Problem) -> Array:
    """What rewards scatter within a triple [1, S, A]: 0 where declared, or not counted."""
    if block.reward_table is not None or block.counts.r_rest is None:
        return 0.0 * block.n_sa
    return block.counts.r_rest * block.weight
