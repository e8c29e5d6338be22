"""One step: a single improvement on Monte-Carlo values of the baseline, without a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import NEITHER, Estimates
from surefoot.core.arrays import namespace
from surefoot.planning import FixedValues
from surefoot.problems import Problem


@dataclass(frozen=True)
class OneStep(Estimates):
    """max_pi  sum_a pi q_mc  in every state: q_mc are the mean returns of the baseline.

    Alone as in Brandfonbrener et al., NeurIPS 2021; with a soft constraint, as
    "one-step+exact-soft-spibb", as in Scholl et al. 2022b. Such a policy is advantageous with
    respect to q_mc by construction, so Theorem 1 applies without its third constraint; lower
    constraints, which may take mass from pairs without a return (worth lo here), are outside of it
    in any case.
    """

    name: ClassVar[str] = "one-step"
    taxonomy: ClassVar[str] = NEITHER
    needs_returns: ClassVar[bool] = True
    advantageous: ClassVar[bool] = True

    def estimate(self, problem: Problem) -> FixedValues:
        """q_mc, and the returns there are: errors rest on these, not on visits."""
        xp = namespace(problem.pi_b)
        returns = problem.returns
        q = xp.where(returns.n > 0, returns.mean, problem.return_range.lo)
        q = xp.where(problem.terminal[..., None], 0.0, q)
        return FixedValues(q, xp.minimum(problem.n_sa, returns.n))
