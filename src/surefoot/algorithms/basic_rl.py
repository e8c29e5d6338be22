"""Basic RL: trust the maximum-likelihood model blindly; what safe policy improvement is compared
with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import NEITHER, maximum_likelihood, plan
from surefoot.core import Solution
from surefoot.problems import Problem
from surefoot.trust import unrestricted


@dataclass(frozen=True)
class BasicRL:
    """max_pi  v(pi; M_hat): dynamic programming on the maximum-likelihood model (Sutton & Barto).

    Like every method here it chooses among seen actions; a state never acted in keeps the baseline.
    """

    name: ClassVar[str] = "basic-rl"
    taxonomy: ClassVar[str] = NEITHER

    def solve(self, problem: Problem) -> Solution:
        """Policy iteration with the greedy step."""
        return plan(problem, maximum_likelihood(problem), unrestricted(problem))
