"""RaMDP: dynamic programming with rewards lowered where data are few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import Estimates
from surefoot.core.arrays import namespace
from surefoot.core.parameters import check_number
from surefoot.planning import ModelEstimate
from surefoot.problems import Problem


@dataclass(frozen=True)
class RaMDP(Estimates):
    """max_pi  v(pi; M_hat)  with the rewards  r(s, a) - kappa / sqrt(n(s, a)).

    Petrik, Ghavamzadeh & Chow, NeurIPS 2016, with the factor kappa of Laroche et al., ICML 2019. A
    pair never seen is worth lo. kappa has the unit of a reward.
    """

    name: ClassVar[str] = "ramdp"
    kappa: float

    def __post_init__(self) -> None:
        check_number(self, "kappa", low=0, finite=True)

    def estimate(self, problem: Problem) -> ModelEstimate:
        """The model with lowered rewards."""
        xp = namespace(problem.n_sa)
        penalty = xp.where(problem.seen, self.kappa * xp.sqrt(problem.weight), 0.0)
        model = problem.model_of(problem.r - penalty, problem.weight)
        return ModelEstimate(model, problem.tolerance)
