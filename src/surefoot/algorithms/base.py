"""What every algorithm is: a frozen dataclass of hyper-parameters with a name, a place in the taxonomy, and `solve`."""

from __future__ import annotations

from typing import Protocol

from surefoot.core import Solution
from surefoot.planning import Estimate, ModelEstimate, Trust, policy_iteration
from surefoot.problems import Problem

PENALISES = "penalises"  # uncertainty lowers the action value
RESTRICTS = "restricts"  # uncertainty restricts the set of policies
NEITHER = "neither"


class Algorithm(Protocol):
    """solve works on blocks: every array has exactly one batch dimension. `surefoot.improve` is the door for users."""

    @property
    def name(self) -> str:
        """By which it is asked for."""

    @property
    def taxonomy(self) -> str:
        """Whether it penalises action values or restricts the set of policies."""

    def solve(self, problem: Problem) -> Solution:
        """The improved policy."""


class Penalising(Protocol):
    """An algorithm that can plan with its penalised values inside any trust."""

    def plan(self, problem: Problem, trust: Trust) -> Solution:
        """The best policy within the trust for the penalised values."""


class Restricting(Protocol):
    """An algorithm that is a trust: it can be combined with any penalised values."""

    def trust(self, problem: Problem) -> Trust:
        """How far each probability may move."""


def maximum_likelihood(problem: Problem) -> ModelEstimate:
    """Action values of the maximum-likelihood model, without a penalty."""
    return ModelEstimate(problem.model, problem.tolerance)


def plan(problem: Problem, estimate: Estimate, trust: Trust) -> Solution:
    """Policy iteration from the baseline with these action values inside this trust."""
    return policy_iteration(estimate, trust, problem.pi_b, accuracy=problem.evaluation_tolerance)
