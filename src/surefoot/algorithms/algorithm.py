"""What every algorithm is: a frozen dataclass of hyper-parameters with a name, a place in the
taxonomy, and `solve`.
"""

from __future__ import annotations

from typing import Any, Protocol

from surefoot.core import Solution
from surefoot.planning import Estimate, ModelEstimate, Trust, policy_iteration
from surefoot.problems import Problem

PENALISES = "penalises"  # uncertainty lowers the action value
RESTRICTS = "restricts"  # uncertainty restricts the set of policies
NEITHER = "neither"


class Algorithm(Protocol):
    """solve works on blocks: every array has exactly one batch dimension.

    `surefoot.improve` is the door for users.
    """

    @property
    def name(self) -> str:
        """By which it is asked for."""

    @property
    def taxonomy(self) -> str:
        """Whether it penalises action values or restricts the set of policies."""

    def solve(self, problem: Problem) -> Solution:
        """The improved policy."""


def needs_log(algorithm: Any) -> bool:
    """Whether it reads the log itself, and so one problem at a time: counts and returns are not
    enough.
    """
    return bool(getattr(algorithm, "needs_log", False))


def maximum_likelihood(problem: Problem) -> ModelEstimate:
    """Action values of the maximum-likelihood model, without a penalty."""
    return ModelEstimate(problem.model, problem.tolerance)


def plan(problem: Problem, estimate: Estimate, trust: Trust) -> Solution:
    """Policy iteration from the baseline with these action values inside this trust."""
    return policy_iteration(estimate, trust, problem.pi_b, accuracy=problem.evaluation_tolerance)
