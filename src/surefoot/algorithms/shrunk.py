"""Shrunk: plan in a model that pulls rare actions to what usually happens in their state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from surefoot.algorithms.algorithm import NEITHER, Estimates
from surefoot.core import Model
from surefoot.core.arrays import namespace, row_sum
from surefoot.core.parameters import check_number
from surefoot.planning import ModelEstimate
from surefoot.problems import Problem


@dataclass(frozen=True)
class Shrunk(Estimates):
    """max_pi  v(pi; M~)   with   P~(.|s, a) = (n(s, a) P^(.|s, a) + m P-(.|s)) / (n(s, a) + m).

    P-(.|s) are the successor frequencies of all rows from s, whatever the action; rewards are
    treated likewise; m = shrink. So a rare action is neither believed nor punished: it is taken to
    do what usually happens in s. P~ is the posterior mean under a Dirichlet prior of m rows with
    the mean P-(.|s), taken from the data (empirical Bayes). A pair never seen stays never seen.
    """

    name: ClassVar[str] = "shrunk"
    taxonomy: ClassVar[str] = NEITHER
    shrink: float = 2.0

    def __post_init__(self) -> None:
        check_number(self, "shrink", low=0, finite=True)

    def estimate(self, problem: Problem) -> ModelEstimate:
        """The shrunk model."""
        return ModelEstimate(shrunk_model(problem, self.shrink), problem.tolerance)


def shrunk_model(problem: Problem, m: float) -> Model:
    """M~ of a block of problems; the maximum-likelihood model where m = 0."""
    if m == 0:
        return problem.model
    xp = namespace(problem.n_sa)
    n, seen = problem.n_sa, problem.seen
    n_s = row_sum(n)[..., None]
    share = m / xp.where(n_s > 0, n_s, 1.0)  # of each row from s
    weight = xp.where(seen, 1.0 / (n + m), 0.0)
    total = n * xp.where(seen, problem.r, 0.0)
    r = xp.where(seen, (total + share * row_sum(total)[..., None]) * weight, problem.r)
    return replace(problem.model_of(r, weight), pull=share)
