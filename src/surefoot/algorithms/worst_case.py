"""MBIE (pessimistic) and robust MDP: the worst transitions in an L1 ball."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from surefoot.algorithms.algorithm import Estimates
from surefoot.core import Support
from surefoot.errors import NotAvailableError
from surefoot.parameters import check_number
from surefoot.planning import Backup
from surefoot.problems import Arrivals, Problem
from surefoot.rows.arrays import Array, namespace, take_fields


@dataclass(frozen=True)
class MBIE(Estimates):
    """q(s, a) = min { sum_s' P (R + gamma max q) :  ||P - P_hat(.|s, a)||_1 <= e },   with

        e = sqrt( (2/n) ln( 2 S A (2^S - 2) / delta ) ).

    Strehl & Littman, JCSS 2008, with the sign turned to pessimism, as in the experiments of Scholl
    et al. 2022. A pair never seen is worth lo. With a single state there is nothing to be unsure
    about: e = 0.
    """

    name: ClassVar[str] = "mbie"
    delta: float

    def __post_init__(self) -> None:
        check_number(self, "delta", low=0, high=1, open_low=True)

    def estimate(self, problem: Problem) -> WorstCase:
        """The worst case of every backup."""
        s, a = problem.n_bound_states, problem.n_actions
        # ln(2^S - 2) = S ln 2 + ln(1 - 2^(1 - S)), which does not overflow.
        log = (
            math.log(2 * s * a / self.delta) + s * math.log(2) + math.log1p(-(2.0 ** (1 - s)))
            if s > 1
            else 0.0
        )
        return _worst_case(problem, log)


@dataclass(frozen=True)
class RobustMDP(Estimates):
    """max_pi min_P  v(pi; P)   over all P with  ||P(.|s, a) - P_hat(.|s, a)||_1 <= e,   with

        e = sqrt( (2/n) ln( S A 2^S / delta ) ).

    Nilim & El Ghaoui 2005, Iyengar 2005: L1 balls, independent for every pair. A pair never seen is
    worth lo.
    """

    name: ClassVar[str] = "robust"
    delta: float

    def __post_init__(self) -> None:
        check_number(self, "delta", low=0, high=1, open_low=True)

    def estimate(self, problem: Problem) -> WorstCase:
        """The worst case of every backup."""
        s, a = problem.n_bound_states, problem.n_actions
        return _worst_case(problem, math.log(s * a / self.delta) + s * math.log(2))


def _worst_case(problem: Problem, log: float) -> WorstCase:
    """The worst case within the radius sqrt(2 log / n)."""
    if problem.gamma == 1:
        raise NotAvailableError(
            "worst-case value iteration needs gamma < 1: at gamma = 1 it need not converge"
        )
    xp = namespace(problem.n_sa)
    radius = xp.sqrt(2 * max(log, 0.0) * problem.weight)
    return WorstCase(
        support=problem.support,
        arrivals=problem.arrivals,
        weight=problem.weight,
        mass=xp.minimum(0.5 * radius, xp.ones_like(radius)),
        r=problem.r,
        seen=problem.seen,
        declared=problem.reward_table is not None,
        gamma=problem.gamma,
        tolerance=problem.tolerance,
    )


@dataclass(frozen=True, kw_only=True)
class WorstCase(Backup):
    """v -> min over the L1 balls of  sum_s' P(s') (R(s, a, s') + gamma v(s')).

    The worst case takes `mass`, half the radius, from the best successors seen and gives it to the
    worst state of all.
    """

    support: Support
    arrivals: Arrivals
    weight: Array
    mass: Array
    r: Array
    seen: Array
    declared: bool  # whether rewards come from a table
    gamma: float
    tolerance: float

    def backup(self, v: Array) -> Array:
        """One worst-case backup."""
        xp = namespace(v)
        z = self.support.reward + self.gamma * self.support.at(v)
        worst = xp.minimum(self._outside(v), self.support.least(z))
        kept = self.support.without_top(
            self.support.n * self.support.spread(self.weight), z, self.mass
        )
        return xp.where(self.seen, kept + self.mass * xp.where(self.seen, worst, 0.0), self.r)

    def _outside(self, v: Array) -> Array:
        """The least R + gamma v(s') over successors never observed, [B, S, A]; a successor observed
        has its own reward.

        With a declared table there is no difference, and the least over all states will do.
        """
        xp = namespace(v)
        z = self.arrivals.plus(self.gamma * v)
        if self.declared:
            return xp.min(z, axis=-1) + xp.zeros_like(self.r)
        z = z[:, 0, 0, :]
        order = xp.argsort(z, axis=-1, stable=True)
        worst, missing = xp.full_like(self.r, xp.inf), self.seen
        # From the worst state up, until every pair has met one that it never led to.
        for j in range(z.shape[-1]):
            state = order[:, j]
            inside = self.support.has(state)
            value = xp.take_along_axis(z, state[:, None], axis=-1)[:, :, None]
            worst = xp.where(missing & ~inside, value, worst)
            missing = missing & inside
            if not bool(xp.any(missing)):
                break
        return worst

    def take(self, index: Array) -> Self:
        """The same for these problems of the batch."""
        part = take_fields(self, index, "weight", "mass", "r", "seen")
        return replace(part, support=self.support.take(index), arrivals=self.arrivals.take(index))
