"""Centred DUIPI: the same idea with the right variance, terminal states that stay terminal, and
exact evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from surefoot.algorithms.algorithm import Estimates
from surefoot.algorithms.duipi_plain import PropagatesUncertainty
from surefoot.core import Model, Support
from surefoot.core.arrays import Array, namespace, take_fields
from surefoot.planning import values_within
from surefoot.problems import Arrivals, Problem


@dataclass(frozen=True)
class CentredDUIPI(PropagatesUncertainty, Estimates):
    """argmax_pi  of  q - xi sqrt(u),   with

        q = r + gamma P v,   u = gamma^2 sum_s' P^2 w' + Var_P(R + gamma v') / m,
        v = sum_a pi q,      w = sum_a pi^2 u,

    and m = n - 1 (frequentist) or n + alpha S + 1 (Bayesian: Dirichlet counts n + alpha).

    Var_P(R + gamma v') / m is the variance of the mean target under the full covariance of a
    multinomial (Dirichlet) row, where the published DUIPI drops the negative covariances: a
    constant added to all rewards changes nothing here. Terminal states stay terminal; a pair never
    seen is worth lo; with n <= 1 the variance is the largest the return range allows, (hi - lo)^2 /
    4. Rewards that scatter within a triple add their scatter to the target's variance. Every policy
    is evaluated exactly; should policies cycle, their moves are damped as in the published version,
    and the status says if that did not settle.
    """

    name: ClassVar[str] = "duipi-centred"

    def estimate(self, problem: Problem) -> _CentredEstimate:
        """The penalised values of this problem; alpha = 0 is the frequentist form."""
        xp, alpha = namespace(problem.pi_b), self.prior_count
        support, arrivals, n = problem.support, problem.arrivals, problem.n_sa
        total = n + alpha * problem.n_states
        weight = xp.where(problem.seen, 1.0 / xp.where(problem.seen, total, 1.0), 0.0)
        own = xp.where(support.n > 0, support.reward - arrivals.at(support), 0.0)
        r = problem.r
        if alpha > 0:
            rewards = support.total(support.n * support.reward + alpha * own)
            r = xp.where(problem.seen, weight * (rewards + alpha * arrivals.total), r)
        many, rest = n > 1, problem.counts.r_rest
        scatters = rest is not None and problem.reward_table is None
        m = xp.where(many, total + 1 if alpha > 0 else n - 1, 1.0)
        return _CentredEstimate(
            mean=problem.model_of(r, weight, alpha),
            support=support,
            arrivals=arrivals,
            own=own,
            scatter=rest * weight if scatters else xp.zeros_like(n),
            scale=xp.where(many, 1.0 / m, 0.0),
            pinned=problem.seen & ~many,
            widest=problem.return_range.g_max**2,
            middle=0.5 * sum(problem.reward_range),
            xi=self.xi,
            tolerance=problem.tolerance,
            max_steps=int(self.max_steps),
        )


@dataclass(frozen=True, kw_only=True)
class _CentredEstimate:
    """q - xi sqrt(u) of a policy."""

    exact: ClassVar[bool] = True  # to rounding, or (sparse models) to the final accuracy
    damped: ClassVar[bool] = True
    mean: Model
    support: Support
    arrivals: Arrivals
    own: Array  # reward of the triple minus reward of arriving at s', at the seen successors
    scatter: Array  # variance of rewards within a triple
    scale: Array  # 1 / m
    pinned: Array  # n <= 1: the largest variance the return range allows
    widest: float
    middle: float  # of the reward range
    xi: float
    tolerance: float
    max_steps: int

    def evaluate(self, pi: Array, v: Array | None, accuracy: float) -> tuple[Array, float]:
        """Two linear systems: q, then u with the variance of its targets."""
        xp = namespace(pi)
        v, error = values_within(self.mean, pi, None, accuracy)
        q = self.mean.backup(v)
        squares = self.mean.squared(xp.where(self.pinned, self.widest, self.local(v)), ~self.pinned)
        w = values_within(squares, pi**2, None, None)[0]
        u = squares.backup(w)
        return q - self.xi * xp.sqrt(xp.where(u > 0, u, 0.0)), error

    def local(self, v: Array) -> Array:
        """Var_P(z) / m + the scatter of rewards,  z = R + gamma v'.

        P is n / total at the successors seen and, with a prior, alpha / total more at every state.
        The sum over every state takes z with the reward of arriving there, and is put right for
        the triples seen, whose reward is `own` higher. All is centred, so that nothing cancels.
        """
        xp = namespace(v)
        support, arrivals, middle = self.support, self.arrivals, self.middle
        gamma, prior, weight = self.mean.gamma, self.mean.prior, self.mean.weight
        v = v - 0.5 * (xp.max(v, axis=-1) + xp.min(v, axis=-1))[:, None]
        z = support.reward - middle + gamma * support.at(v)
        mean = weight * support.total(support.n * z)
        if prior:
            n_states, sum_v = self.mean.n_states, xp.sum(v, axis=-1)[:, None, None]
            total = arrivals.total - n_states * middle + gamma * sum_v  # of z over every state
            mean = mean + prior * weight * (total + support.total(self.own))
            squares = (
                arrivals.squares - 2 * middle * arrivals.total + n_states * middle**2
                + 2 * gamma * (arrivals.dot(v) - middle * sum_v)
                + gamma**2 * xp.sum(v**2, axis=-1)[:, None, None]
            )  # fmt: skip
            around = squares - 2 * mean * total + n_states * mean**2  # sum of (z - mean)^2
        off = z - support.spread(mean)
        variance = weight * support.total(support.n * off**2)
        if prior:
            seen = support.total(self.own * (2 * off - self.own))
            variance = variance + prior * weight * (around + seen)
        variance = xp.where(variance > 0, variance, 0.0)
        return self.scale * (variance + self.scatter)

    def charged(self, fee: Array) -> _CentredEstimate:
        """The same with lower rewards; their variance stays."""
        return replace(self, mean=replace(self.mean, r=self.mean.r - fee[..., None]))

    def take(self, index: Array) -> _CentredEstimate:
        """The same for these problems of the batch."""
        own = self.own
        return replace(
            take_fields(self, index, "scatter", "scale", "pinned"),
            mean=self.mean.take(index),
            support=self.support.take(index),
            arrivals=self.arrivals.take(index),
            own=namespace(own).take(own, index, axis=1) if own.ndim == 4 else own,
        )
