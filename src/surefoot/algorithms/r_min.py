"""R-MIN: rarely tried pairs are worth the least possible; the cautious mirror image of R-MAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import Estimates
from surefoot.core.arrays import namespace
from surefoot.core.parameters import check_number
from surefoot.planning import ModelEstimate
from surefoot.problems import Problem


@dataclass(frozen=True)
class RMin(Estimates):
    """q(s, a) = lo  where n(s, a) <= n_wedge,   q = r + gamma P max q  elsewhere.

    Scholl et al. 2022, after R-MAX (Brafman & Tennenholtz 2002). With nothing known all values are
    equal, and the baseline stays.
    """

    name: ClassVar[str] = "r-min"
    n_wedge: float

    def __post_init__(self) -> None:
        check_number(self, "n_wedge", low=0)

    def estimate(self, problem: Problem) -> ModelEstimate:
        """The model in which an unknown pair ends with lo."""
        xp = namespace(problem.n_sa)
        known = (problem.n_sa > self.n_wedge) | problem.terminal[..., None]
        model = problem.model_of(
            xp.where(known, problem.r, problem.return_range.lo),
            xp.where(known, problem.weight, 0.0),
        )
        return ModelEstimate(model, problem.tolerance)
