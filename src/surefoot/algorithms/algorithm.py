"""What an algorithm is, two at once, and the one function that plans with it.

An algorithm is a frozen dataclass of hyper-parameters. It says what an action is worth
(`Estimates`), or how far each probability may move (`Restricts`), or both; what neither says is
that of Basic RL. One that fits neither frame has its own `solve` (`Whole`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from surefoot.algorithms.guarded import NOT_FROM_BASELINE, cannot_guard, guarded
from surefoot.core import Solution
from surefoot.core.arrays import Array, namespace
from surefoot.planning import (
    Backup,
    Estimate,
    FixedValues,
    ModelEstimate,
    Trust,
    one_step,
    policy_iteration,
    unrestricted,
    value_iteration,
)
from surefoot.problems import Problem

# The taxonomy of Scholl et al. 2022: what uncertainty does.
PENALISES = "penalises"  # it lowers the action value
RESTRICTS = "restricts"  # it restricts the set of policies
NEITHER = "neither"

Fitting = tuple[str, Mapping[str, Any]]  # a certificate by name, and its parameters


@dataclass(frozen=True)
class Algorithm(ABC):
    """Abstract: what every algorithm declares; `surefoot.improve` is the door for users."""

    taxonomy: ClassVar[str] = NEITHER
    smooth: ClassVar[bool] = False  # what it pays for uncertainty has no threshold: may be refitted

    @property
    @abstractmethod
    def name(self) -> str:
        """By which it is asked for."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """{name: value} of its hyper-parameters."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def needs_returns(self) -> bool:
        """Whether it asks for the Monte-Carlo returns of the baseline."""
        return False

    @property
    def needs_log(self) -> bool:
        """Whether it reads the log itself, and so takes one problem at a time."""
        return False

    @property
    def advantageous(self) -> bool:
        """Whether  sum_a q_mc (pi - pi_b) >= 0  in every state, by construction."""
        return False

    @property
    def proof(self) -> Fitting | None:
        """The certificate that its policy meets by construction, on the data it is learned from."""
        return None


class Estimates(Algorithm):
    """Abstract: has its own values of actions, and composes with every restriction."""

    taxonomy: ClassVar[str] = PENALISES

    @abstractmethod
    def estimate(self, problem: Problem) -> Estimate | Backup | FixedValues:
        """What an action is worth, penalties included."""


class Restricts(Algorithm):
    """Abstract: limits how far each probability may move, whatever the values are."""

    taxonomy: ClassVar[str] = RESTRICTS

    @abstractmethod
    def trust(self, problem: Problem, n: Array) -> Trust:
        """The policies it allows; n [B, S, A] says on how many samples each value rests."""


class Whole(Algorithm):
    """Abstract: neither frame fits; composes with nothing."""

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """The improved policy."""


def solve(problem: Problem, algorithm: Algorithm) -> Solution:
    """Improve a block of problems: every array of it has exactly one batch dimension."""
    if problem.guards and not isinstance(algorithm, Restricts):
        raise cannot_guard(algorithm.name, NOT_FROM_BASELINE)
    if isinstance(algorithm, Whole):
        return algorithm.solve(problem)
    estimate: Estimate | Backup | FixedValues = ModelEstimate(problem.model, problem.tolerance)
    if isinstance(algorithm, Estimates):
        estimate = algorithm.estimate(problem)
    own = estimate.n if isinstance(estimate, FixedValues | ModelEstimate) else None
    n = problem.n_sa if own is None else own
    if isinstance(algorithm, Restricts) and problem.guards:
        return plan(problem, estimate, guarded(problem, algorithm.trust, n, algorithm.name))
    if isinstance(algorithm, Restricts):
        return plan(problem, estimate, algorithm.trust(problem, n))
    return plan(problem, estimate, unrestricted(problem))


def plan(problem: Problem, estimate: Estimate | Backup | FixedValues, trust: Trust) -> Solution:
    """The best policy for these values inside this trust, from the baseline."""
    if isinstance(estimate, FixedValues):
        return one_step(estimate, trust, problem.pi_b)
    if isinstance(estimate, Backup):  # from the lowest value upwards
        xp = namespace(problem.pi_b)
        lowest = xp.full_like(problem.pi_b[..., 0], problem.return_range.lo)
        v = xp.where(problem.terminal, 0.0, lowest)
        return value_iteration(estimate, trust, problem.pi_b, v)
    return policy_iteration(estimate, trust, problem.pi_b, accuracy=problem.evaluation_tolerance)


@dataclass(frozen=True)
class Composed(Estimates, Restricts):
    """Plan with the values of one algorithm inside the trust of another:
    "ramdp+lower-exact-soft-spibb".

    The paper's taxonomy separates algorithms that penalise the action value from those that
    restrict the set of policies; the row problem does not care which q it is given, so nothing
    forbids both.
    """

    taxonomy: ClassVar[str] = "composed"  # `taxonomy` says it of the parts
    values: Estimates
    limits: Restricts

    @property
    def name(self) -> str:
        """The composed name."""
        return f"{self.values.name}+{self.limits.name}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Those of both parts."""
        return {**self.values.parameters, **self.limits.parameters}

    @property
    def needs_returns(self) -> bool:
        """Whether a part asks for returns."""
        return self.values.needs_returns or self.limits.needs_returns

    @property
    def needs_log(self) -> bool:
        """Whether a part reads the log itself."""
        return self.values.needs_log or self.limits.needs_log

    @property
    def advantageous(self) -> bool:
        """Whether a part sees to it."""
        return self.values.advantageous or self.limits.advantageous

    @property
    def proof(self) -> Fitting | None:
        """Bounds ask what a policy may be, not what it was planned with."""
        return self.limits.proof

    def estimate(self, problem: Problem) -> Estimate | Backup | FixedValues:
        """The values decide,"""
        return self.values.estimate(problem)

    def trust(self, problem: Problem, n: Array) -> Trust:
        """the trust limits."""
        return self.limits.trust(problem, n)


def parameters_of(algorithm: Algorithm) -> dict[str, Any]:
    """{parameter: value} of an algorithm; of a composed one, those of both parts."""
    return dict(algorithm.parameters)


def taxonomy(*classes: type[Algorithm]) -> str:
    """Where an algorithm of these parts stands: "penalises", "restricts", both, or "neither"."""
    found = [cls.taxonomy for cls in classes if cls.taxonomy != NEITHER]
    return " and ".join(found) or NEITHER
