"""Priced Soft-SPIBB: a price on leaving the baseline, inside the lower soft constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import RESTRICTS, Estimates, Restricts
from surefoot.algorithms.shrunk import shrunk_model
from surefoot.parameters import LARGEST, check_number
from surefoot.planning import ModelEstimate, Trust, evaluate
from surefoot.problems import Problem
from surefoot.rows.arrays import Array, namespace, row_sum
from surefoot.trust import error_function, soft


@dataclass(frozen=True, kw_only=True)
class PricedSoftSPIBB(Estimates, Restricts):
    """max_pi  v(pi)   s.t.   sum_a e (pi - pi_b)^+ <= epsilon   in every state,   where

        v(s)    = sum_a pi q - sum_a c (pi - pi_b)^+,     q = r~ + gamma P~ v  (see `Shrunk`),
        c(s, a) = (z + growth ln(1 + rows)) sigma(s) / sqrt(n(s, a)),

    rows the mean number of rows of a visited state.

    Moving mass away from the baseline costs so many standard errors of the action that gains it;
    staying costs nothing. So the budget is spent only where it buys more than its price. A log with
    many rows for each state can afford more caution, hence `growth`; how many states there are does
    not matter. RaMDP's penalty also lowers the values of rare pairs
    that the baseline uses; this price does not, and has no unit: sigma(s)^2 is the variance of
    y = r + gamma v_b(s') over the rows from s, shrunk to the mean over all states with the weight
    of `pool` rows, v_b the value of pi_b in the maximum-likelihood model. Shifting or scaling all
    rewards changes no policy.

    shrink=0 plans in the maximum-likelihood model; z=0 and growth=0 is
    shrunk+lower-exact-soft-spibb; epsilon may be infinite. Without a proof; with c a bound on the
    error of q it is the Lagrangian of certified-advantage (docs/certificates.md).
    """

    name: ClassVar[str] = "priced-soft-spibb"
    taxonomy: ClassVar[str] = RESTRICTS
    epsilon: float
    z: float = 0.35
    shrink: float = 2.0
    delta: float = 1.0
    pool: float = 10.0
    growth: float = 0.0

    def __post_init__(self) -> None:
        check_number(self, "epsilon", low=0)
        check_number(self, "z", low=0, finite=True)
        check_number(self, "growth", low=0, finite=True)
        check_number(self, "shrink", low=0, finite=True)
        check_number(self, "delta", low=0, high=1, open_low=True)
        check_number(self, "pool", low=0, open_low=True)

    def estimate(self, problem: Problem) -> ModelEstimate:
        """The shrunk model."""
        return ModelEstimate(shrunk_model(problem, self.shrink), problem.tolerance)

    def trust(self, problem: Problem, n: Array) -> Trust:
        """up = e, down = 0, and the price of raising."""
        xp = namespace(n)
        e = error_function(problem, "hoeffding", self.delta, n=n)
        some = xp.where(n > 0, n, 1.0)
        n_s = row_sum(problem.n_sa)
        visited = row_sum(xp.where(n_s > 0, 1.0, 0.0))
        z = self.z + self.growth * xp.log(1.0 + row_sum(n_s) / xp.where(visited > 0, visited, 1.0))
        price = (z[..., None] * sigma(problem, self.pool))[..., None] / xp.sqrt(some)
        return soft(problem, e, min(self.epsilon, LARGEST), lower=True, price=price)


def sigma(problem: Problem, pool: float) -> Array:
    """The standard deviation [B, S] of y = r + gamma v_b(s') over the rows from s.

    Its square is shrunk to the mean over all rows: (n_s var_s + pool var) / (n_s + pool).
    """
    xp = namespace(problem.n_sa)
    n_s = row_sum(problem.n_sa)
    some = xp.where(n_s > 0, n_s, 1.0)
    v_b = evaluate(problem.model, problem.pi_b, tolerance=None)
    v_b = v_b - xp.mean(v_b, axis=-1)[..., None]  # a constant changes no variance
    support = problem.support
    y = support.reward + problem.gamma * support.at(v_b)
    mean = row_sum(support.total(support.n * y)) / some
    off = y - support.spread(mean[..., None] + xp.zeros_like(problem.n_sa))
    squares = support.total(support.n * off**2)
    if problem.counts.r_rest is not None and problem.reward_table is None:
        squares = squares + problem.counts.r_rest
    var_s = row_sum(squares) / some
    var = (row_sum(n_s * var_s) / row_sum(n_s))[..., None]
    if pool == xp.inf:
        return xp.sqrt(var + 0.0 * var_s)
    return xp.sqrt((n_s * var_s + pool * var) / (n_s + pool))
