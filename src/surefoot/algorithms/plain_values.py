"""Values by one formula: the estimated model as it is, with rewards lowered where data are few,
with rarely tried pairs at the least possible; and mean returns, without a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import NEITHER, Algorithm, Estimates
from surefoot.core.arrays import namespace
from surefoot.core.parameters import check_number
from surefoot.planning import FixedValues, ModelEstimate
from surefoot.problems import Problem


@dataclass(frozen=True)
class BasicRL(Algorithm):
    """max_pi  v(pi; M_hat): dynamic programming on the maximum-likelihood model (Sutton & Barto).

    Like every method here it chooses among seen actions; a state never acted in keeps the baseline.
    """

    name: ClassVar[str] = "basic-rl"


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
