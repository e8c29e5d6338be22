"""Theorem 1 of the paper: a constrained and advantageous policy loses at most epsilon g_max / (1
- gamma).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.certificates.certificate import EVERYWHERE, Certificate, FromReturns, mean_at_start
from surefoot.errors import NotAvailableError, PolicyError
from surefoot.parameters import check_number
from surefoot.problems import Problem
from surefoot.rows.arrays import times, to_numpy
from surefoot.theory import advantageous, constrained, theorem_1_bound


@dataclass(frozen=True)
class Theorem1(FromReturns):
    """v^pi - v^{pi_b} >= -epsilon g_max / (1 - gamma)  in every state; at the start the estimated
    advantage there is added.

    For a (pi_b, epsilon, e)-constrained policy that is advantageous with respect to the same
    returns that e bounds the error of (Scholl et al. 2022, Theorem 1). epsilon None: the least with
    which the policy meets the constraint; the event behind the bound knows nothing of the policy,
    so epsilon may be read off it.
    """

    name: ClassVar[str] = "theorem-1"
    epsilon: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            check_number(self, "epsilon", low=0, finite=True)

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """Check Definitions 1 and 2 on the policy itself."""
        found, pi_b, g_max = (
            self.evidence(problem),
            to_numpy(problem.pi_b),
            problem.return_range.g_max,
        )
        if g_max <= 0:
            raise NotAvailableError(
                f"{self.name}: the return range has no width: all policies are worth the same"
            )
        gains = advantageous(pi, pi_b, found.mean)
        if not gains:
            raise PolicyError(
                f"{self.name}: not advantageous on these returns: state"
                f" {problem.labels.state(gains.worst_state)} misses by {gains.excess:.3g}. An"
                " algorithm that reads them (an adv- or one-step one on"
                " with_independent_returns(problem)) is"
            )
        move = abs(pi - pi_b)
        unbounded = int(
            (times(np.where(np.isinf(found.radius), 1.0, 0.0), move).sum(axis=-1) > 0).sum()
        )
        if unbounded:
            raise PolicyError(
                f"{self.name}: {unbounded} states move mass of pairs without returns: no epsilon"
                " constrains the policy"
            )
        if self.epsilon is not None and not (
            check := constrained(pi, pi_b, found.radius / g_max, self.epsilon)
        ):
            raise PolicyError(
                f"{self.name}: not constrained by epsilon = {self.epsilon:g} at delta ="
                f" {found.delta:g}: state {problem.labels.state(check.worst_state)} exceeds it by"
                f" {check.excess:.3g}"
            )
        q = np.where(np.isfinite(found.mean), found.mean, 0.0)
        advantage = (q * (pi - pi_b)).sum(axis=-1)

        def spent(scale: float) -> float:
            return float(times(found.radius_at(scale) / g_max, move).sum(axis=-1).max())

        def bound_at(scale: float) -> float:
            epsilon = (
                spent(scale)
                if self.epsilon is None
                else self.epsilon * min(1.0, spent(scale) / max(spent(1.0), 1e-300))
            )
            loss = theorem_1_bound(epsilon, g_max, problem.gamma)
            return (
                loss
                if self.where == EVERYWHERE
                else mean_at_start(self, problem, advantage + loss, scale)
            )

        epsilon = spent(1.0) if self.epsilon is None else self.epsilon
        return self.certificate(
            problem, pi, found, bound_at, (f"epsilon = {epsilon:.4g}, g_max = {g_max:g}",)
        )
