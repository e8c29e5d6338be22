"""What an algorithm may know: counting, estimating, declared facts, all in a frozen Problem."""

from surefoot.core.support import Arrivals
from surefoot.problems.build import problem
from surefoot.problems.given import estimate_baseline
from surefoot.problems.montecarlo import discounted_returns, monte_carlo, separation, thinned_counts
from surefoot.problems.problem import Problem
from surefoot.problems.ranges import ReturnRange, return_range

__all__ = [
    "Arrivals",
    "Problem",
    "ReturnRange",
    "discounted_returns",
    "estimate_baseline",
    "monte_carlo",
    "problem",
    "return_range",
    "separation",
    "thinned_counts",
]
