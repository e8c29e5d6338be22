"""RaMDP: dynamic programming with rewards lowered where data are few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import PENALISES, plan
from surefoot.core import Solution
from surefoot.parameters import check_number
from surefoot.planning import ModelEstimate, Trust
from surefoot.problems import Problem
from surefoot.rows.arrays import namespace
from surefoot.trust import unrestricted


@dataclass(frozen=True)
class RaMDP:
    """max_pi  v(pi; M_hat)  with the rewards  r(s, a) - kappa / sqrt(n(s, a)).

    Petrik, Ghavamzadeh & Chow, NeurIPS 2016, with the factor kappa of Laroche et al., ICML 2019. A
    pair never seen is worth lo. kappa has the unit of a reward.
    """

    name: ClassVar[str] = "ramdp"
    taxonomy: ClassVar[str] = PENALISES
    kappa: float

    def __post_init__(self) -> None:
        check_number(self, "kappa", low=0, finite=True)

    def plan(self, problem: Problem, trust: Trust) -> Solution:
        """Policy iteration with the lowered rewards inside a trust."""
        xp = namespace(problem.n_sa)
        penalty = xp.where(problem.seen, self.kappa * xp.sqrt(problem.weight), 0.0)
        model = problem.model_of(problem.r - penalty, problem.weight)
        return plan(problem, ModelEstimate(model, problem.tolerance), trust)

    def solve(self, problem: Problem) -> Solution:
        """Without a trust: every seen action is open."""
        return self.plan(problem, unrestricted(problem))
