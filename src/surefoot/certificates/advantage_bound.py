"""The certified-advantage bound, and its form for any policy: a lower bound of the baseline's
advantage in every state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from surefoot.certificates.certificate import EVERYWHERE, Certificate, FromReturns, mean_at_start
from surefoot.errors import PolicyError
from surefoot.problems import Problem
from surefoot.returns.evidence import Evidence
from surefoot.rows.arrays import times, to_numpy


def certified(problem: Problem, pi: np.ndarray, found: Evidence, scale: float = 1.0) -> np.ndarray:
    """c(s) = sum_a (pi - pi_b) q_mc - sum_a E |pi - pi_b|, [S]: the advantage of pi that the
    returns prove; 0 where pi = pi_b.
    """
    move = pi - to_numpy(problem.pi_b)
    q = np.where(np.isfinite(found.mean), found.mean, 0.0)
    cost = times(found.radius_at(scale), abs(move))
    c: np.ndarray = (q * move).sum(axis=-1) - cost.sum(axis=-1)
    return np.where(problem.terminal, 0.0, c)


def from_every_state(
    method: FromReturns, problem: Problem, c: np.ndarray, scale: float = 1.0
) -> float:
    """start . c + gamma/(1 - gamma) min(0, min c), or min(0, min c) / (1 - gamma) in every state.

    v^pi(s) - v^{pi_b}(s) = sum_t gamma^t E[ advantage(S_t) ] >= c(s) + sum over t >= 1 of gamma^t
    min(0, min c).
    """
    least, gamma = min(0.0, float(c.min())), problem.gamma
    if method.where == EVERYWHERE:
        return least / (1 - gamma)
    later = gamma / (1 - gamma) * least if gamma > 0 else 0.0  # least may be -inf
    return mean_at_start(method, problem, c + later, scale)


def _bound(
    method: FromReturns, problem: Problem, pi: np.ndarray, found: Evidence, scale: float
) -> float:
    return from_every_state(method, problem, certified(problem, pi, found, scale), scale)


@dataclass(frozen=True)
class CertifiedAdvantageBound(FromReturns):
    """c(s) >= 0 in every state:  v^pi >= v^{pi_b} everywhere, and  v^pi - v^{pi_b} >= c  at the
    start. No epsilon, no slack.

    Refuses a policy with c < 0 in some state; `advantage` has a bound for those.
    """

    name: ClassVar[str] = "certified-advantage"
    error: str = "bernstein"  # as the algorithm by this name

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate, if the policy meets the condition on these returns."""
        found = self.evidence(problem)
        c = certified(problem, pi, found)
        if c.min() < 0:
            raise PolicyError(
                f"{self.name}: the returns prove no advantage in {int((c < 0).sum())} states, worst"
                f" in state {problem.labels.state(c.argmin())} (c = {c.min():.3g}): improve with"
                ' "certified-advantage" at this delta, error and visits, or ask for the bound'
                ' "advantage"'
            )
        return self.certificate(problem, pi, found, partial(_bound, self, problem, pi, found))


@dataclass(frozen=True)
class AdvantageBound(FromReturns):
    """start . c + gamma/(1 - gamma) min(0, min_s c(s)):  the same event, for any policy whatever.

    Never below Theorem 1's bound.
    """

    name: ClassVar[str] = "advantage"

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate of any policy that moves no mass of a pair without returns."""
        found = self.evidence(problem)
        return self.certificate(problem, pi, found, partial(_bound, self, problem, pi, found))
