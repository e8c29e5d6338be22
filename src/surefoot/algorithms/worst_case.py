"""MBIE (pessimistic) and robust MDP: the worst transitions in an L1 ball."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import Estimates
from surefoot.core.arrays import namespace
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import check_number
from surefoot.planning.ambiguity import WorstCase, within_radius
from surefoot.problems import Problem


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
    return within_radius(problem, namespace(problem.n_sa).sqrt(2 * max(log, 0.0) * problem.weight))
