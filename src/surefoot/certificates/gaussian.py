"""Gaussian bounds: the model's gain minus a quantile of its standard deviation, by DUIPI's
propagation or by the delta method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from surefoot.certificates.certificate import (
    ASYMPTOTIC,
    FAILS,
    MARKOV,
    START,
    STARTS,
    Bound,
    Certificate,
    range_sentences,
)
from surefoot.errors import NotAvailableError
from surefoot.parameters import check_choice
from surefoot.planning import evaluate, visits
from surefoot.problems import Problem
from surefoot.rows.arrays import Array, like, namespace, to_numpy
from surefoot.trust.starts import start_variance


@dataclass(frozen=True, kw_only=True)
class _Gaussian(Bound):
    """Abstract: gain - z sigma,  z = Phi^{-1}(1 - delta), on fresh data."""

    places: ClassVar[tuple[str, ...]] = STARTS
    label: ClassVar[str] = ASYMPTOTIC
    assumed: ClassVar[tuple[str, ...]] = ()
    notes: ClassVar[tuple[str, ...]] = ()
    data: str = "training"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "data", ("training", "fresh"))

    def moments(self, problem: Problem, pi: np.ndarray) -> tuple[float, float]:
        """(gain, sigma)."""
        raise NotImplementedError

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """sigma falls as the root of the amount of data."""
        if self.data != "fresh":
            raise NotAvailableError(
                f"{self.name}: needs data that had no part in choosing the policy, for it is chosen"
                " to look good on its own: certify on a problem made from other data, and say"
                ' data="fresh"'
            )
        gain, sigma = self.moments(problem, pi)
        z = NormalDist().inv_cdf(1 - self.delta) if self.delta < 1 else -np.inf
        return self.certificate(
            problem,
            pi,
            lambda scale: gain - z * sigma / np.sqrt(scale),
            label=self.label,
            assumptions=(MARKOV, *self.assumed, *range_sentences(problem)),
            n=problem.n_sa,
            data="fresh",
            notes=self.notes,
        )

    def start_variance(self, problem: Problem, h: np.ndarray) -> float:
        """Of the mean of h over the starts; 0 where the bound is about those of the log."""
        return start_variance(problem, h) if self.where == START else 0.0


@dataclass(frozen=True, kw_only=True)
class DUIPIBound(_Gaussian):
    """gain - z (sigma(v^pi) + sigma(v^{pi_b})):  DUIPI's standard deviations, centred.

    u = Var_P(R + gamma v') / (n - 1) + gamma^2 sum_s' P^2 w',  w = sum_a pi^2 u  (Hans & Udluft
    2009, with the covariance of a row: see `duipi-centred`). sigma of a difference is at most the
    sum. What pairs seen once or never may be wrong by is taken off. The diagonal propagation drops
    the correlation of states that share what follows, and the quantile is Gaussian. It fails: on
    fresh logs of 10,000 trajectories of Random MDPs it is violated in 9 % at delta 0.05, on the log
    the policy was chosen with in 20 % (docs/certificates.md). It is here to show what DUIPI's
    values promise; `delta-method` keeps the correlations.
    """

    name: ClassVar[str] = "duipi"
    label: ClassVar[str] = FAILS
    assumed: ClassVar[tuple[str, ...]] = (
        "estimates are Gaussian, and errors of different states are uncorrelated",
        "the policy was fixed before these data were collected",
        "the model's visits to pairs seen once or never are about the true ones",
    )
    notes: ClassVar[tuple[str, ...]] = (
        "measured to be violated more often than delta allows (docs/certificates.md): for"
        " comparison, no guarantee",
    )

    def moments(self, problem: Problem, pi: np.ndarray) -> tuple[float, float]:
        """Two evaluations and two propagations of variance."""
        block, start = problem.blocks[0], to_numpy(problem.start)
        many = block.n_sa > 1
        h, sigma, missing = np.zeros(problem.n_states), 0.0, 0.0
        for sign, policy in ((1.0, pi), (-1.0, to_numpy(problem.pi_b))):
            v = _values(problem, policy)
            local = _variance(block, _target(block, v)) + _reward_variance(block)
            m = namespace(local).where(many, block.n_sa - 1, 1.0)
            squares = block.model.squared(many * local / m, many)
            w = evaluate(squares, like(block.pi_b, policy[None] ** 2), tolerance=None)
            h = h + sign * v
            sigma += float(start @ np.sqrt(np.maximum(to_numpy(w)[0], 0.0)))
            missing += _missing(problem, _visits(problem, policy))
        return float(start @ h) - missing, sigma + math.sqrt(self.start_variance(problem, h))


@dataclass(frozen=True, kw_only=True)
class DeltaMethodBound(_Gaussian):
    """gain - z sigma,  both policies at once:

    sigma^2 = sum_{s,a} [ Var_P( d_pi (R + gamma v^pi) - d_b (R + gamma v^{pi_b}) ) + (d_pi - d_b)^2
    Var_R ] / (n - 1)
              + Var_start(v^pi - v^{pi_b}) / (episodes - 1)

    d_pi(s, a) are discounted visits of pi in the model. First order: rho(pi, P) moves by sum
    d_pi(s, a) dP(s, a) . (R + gamma v^pi), rows are independent, and a row's covariance is
    multinomial. Var_R is what rewards scatter within a triple, 0 where they are declared; the last
    term is 0 where the start is known. Right in the limit, for a policy fixed before the data:
    needs fresh data.
    """

    name: ClassVar[str] = "delta-method"
    assumed: ClassVar[tuple[str, ...]] = (
        "the policy was fixed before these data were collected",
        "counts are large enough for the model's error to be linear and Gaussian: no rare outcome"
        " is missing from them",
    )

    def moments(self, problem: Problem, pi: np.ndarray) -> tuple[float, float]:
        """One adjoint evaluation for each policy."""
        block, start = problem.blocks[0], to_numpy(problem.start)
        gain, h, target, spent = 0.0, np.zeros(problem.n_states), 0.0, 0.0
        for sign, policy in ((1.0, pi), (-1.0, to_numpy(problem.pi_b))):
            v, d = _values(problem, policy), _visits(problem, policy)
            h = h + sign * v
            gain += sign * float(start @ v) - _missing(problem, d)
            d = like(block.pi_b, sign * d[None])
            spent = spent + d
            target = target + block.support.spread(d) * _target(block, v)
        variance = to_numpy(_variance(block, target) + spent**2 * _reward_variance(block))
        n = to_numpy(block.n_sa)
        of_pairs = float((variance[n > 1] / (n[n > 1] - 1)).sum())
        return gain, math.sqrt(of_pairs + self.start_variance(problem, h))


def _values(problem: Problem, pi: np.ndarray) -> np.ndarray:
    tolerance = 1e-10 * max(problem.return_range.width, 1e-300)
    v: np.ndarray = to_numpy(evaluate(problem.model, pi, tolerance=tolerance)).reshape(-1)
    return v


def _visits(problem: Problem, pi: np.ndarray) -> np.ndarray:
    """d(s, a) = sum_t gamma^t P(S_t = s, A_t = a) in the model, [S, A]."""
    d = to_numpy(visits(problem.model, pi, problem.start)).reshape(-1)
    found: np.ndarray = d[:, None] * pi
    return found


def _target(block: Problem, v: np.ndarray) -> Array:
    """R + gamma v' at every successor seen."""
    return block.support.reward + block.gamma * block.support.at(like(block.pi_b, v[None]))


def _variance(block: Problem, z: Array) -> Array:
    """Var_P(z) of every pair [1, S, A], for z at every successor seen."""
    p = block.support.n * block.support.spread(block.weight)
    mean = block.support.dot(p, z)
    return block.support.total(p * (z - block.support.spread(mean)) ** 2)


def _reward_variance(block: Problem) -> Array:
    """What rewards scatter within a triple [1, S, A]: 0 where declared, or not counted."""
    if block.reward_table is not None or block.counts.r_rest is None:
        return 0.0 * block.n_sa
    return block.counts.r_rest * block.weight


def _missing(problem: Problem, spent: np.ndarray) -> float:
    """What pairs seen once or never, which have no variance, may be wrong by: the return range
    for each discounted visit.
    """
    few = (to_numpy(problem.n_sa) <= 1) & ~problem.terminal[:, None]
    return problem.return_range.width * float(spent[few].sum())
