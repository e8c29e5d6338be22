"""Priced Soft-SPIBB: a price on leaving the baseline, inside the lower soft constraint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import RESTRICTS, Estimates, Restricts
from surefoot.algorithms.shrunk import shrunk_model
from surefoot.core.arrays import Array, namespace, row_sum
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import LARGEST, check_number
from surefoot.planning import ModelEstimate, Trust, error_function, soft, values_within
from surefoot.problems import Problem

DIGITS = 1e-7  # of the return range: how exact v_b is for sigma, where evaluation is iterative
SMALLEST = 1e-140  # rewards that differ by less have squares of 0


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

    growth=0.12 asks for 0.29 standard errors with 10 rows for a visited state, and for 0.83 with
    1,000; papers/priced says on which benchmarks that is good and where not. shrink=0 plans in the
    maximum-likelihood model; z=0 and growth=0 is shrunk+lower-exact-soft-spibb; epsilon may be
    infinite. Without a proof; with c a bound on the
    error of q it is the Lagrangian of certified-advantage (docs/certificates.md).
    """

    name: ClassVar[str] = "priced-soft-spibb"
    taxonomy: ClassVar[str] = RESTRICTS
    smooth: ClassVar[bool] = True
    epsilon: float = 1.0
    z: float = 0.0
    shrink: float = 2.0
    delta: float = 1.0
    pool: float = 10.0
    growth: float = 0.12

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
        visited = row_sum(xp.astype(n_s > 0, n_s.dtype))
        z = self.z + self.growth * xp.log(1.0 + row_sum(n_s) / xp.where(visited > 0, visited, 1.0))
        price = (z[..., None] * sigma(problem, self.pool))[..., None] / xp.sqrt(some)
        return soft(problem, e, min(self.epsilon, LARGEST), lower=True, price=price)


def sigma(problem: Problem, pool: float) -> Array:
    """The standard deviation [B, S] of y = r + gamma v_b(s') over the rows from s.

    Its square is shrunk to the mean over all rows: (n_s var_s + pool var) / (n_s + pool). It is 0
    everywhere only if y is the same in all rows of every state; then no action is better.
    """
    xp = namespace(problem.n_sa)
    n_s = row_sum(problem.n_sa)
    some = xp.where(n_s > 0, n_s, 1.0)
    enough = DIGITS * problem.return_range.width + problem.evaluation_tolerance
    v_b, _ = values_within(problem.model, problem.pi_b, None, enough)
    v_b = v_b - xp.mean(v_b, axis=-1)[..., None]  # a constant changes no variance
    support = problem.support
    y = support.reward + problem.gamma * support.at(v_b)
    mean = row_sum(support.dot(support.n, y)) / some
    off = y - support.spread(mean[..., None] + xp.zeros_like(problem.n_sa))
    squares = row_sum(support.dot(support.n, off**2))
    if problem.counts.r_rest is not None and problem.reward_table is None:
        squares = squares + row_sum(problem.counts.r_rest)
    rows = row_sum(n_s)
    var = (row_sum(squares) / xp.where(rows > 0, rows, 1.0))[..., None]
    found = var + 0.0 * squares if pool == xp.inf else (squares + pool * var) / (n_s + pool)
    _check_variance(problem, found)
    return xp.sqrt(found)


def _check_variance(problem: Problem, variance: Array) -> None:
    """Squares of rewards must lie within floating point: else there would be no price."""
    low, high = problem.reward_range
    if bool(namespace(variance).all(variance < math.inf)) and not 0 < high - low < SMALLEST:
        return
    raise NotAvailableError(
        f"priced-soft-spibb squares rewards, and those between {low:g} and {high:g} are too"
        " large or too small for that: multiply all rewards by a constant"
    )
