"""One action a state: what an algorithm may do, as a rule that people can follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surefoot.algorithms.algorithm import Algorithm, Estimates, Restricts
from surefoot.algorithms.guarded import NOT_LINEAR
from surefoot.core.arrays import Array, count_up, namespace
from surefoot.core.errors import NotAvailableError, ParameterError
from surefoot.planning import (
    Backup,
    Estimate,
    FixedValues,
    FreeTrust,
    ModelEstimate,
    SoftTrust,
    Trust,
    as_soft,
)
from surefoot.planning.rules import RuleTrust
from surefoot.problems import Problem

MIXTURE, MODE = "mixture", "mode"


@dataclass(frozen=True)
class OneAction(Estimates, Restricts):
    """max_pi  v(pi)   s.t.   in every state pi does one action and nothing else, within the trust
    of `of` (see `RuleTrust`), or stays.

    otherwise   what staying is: "mixture", the baseline's row; or "mode", the action that the
                baseline does most, of those the log has tried there
    """

    of: Algorithm
    otherwise: str = MIXTURE

    def __post_init__(self) -> None:
        if self.otherwise not in (MIXTURE, MODE):
            raise ParameterError(
                f"deterministic is {MIXTURE!r} (a state in which nothing changes does what the"
                f" baseline does) or {MODE!r} (its most frequent action), got {self.otherwise!r}"
            )
        if not isinstance(self.of, Restricts) or isinstance(self.of, OneAction):
            raise NotAvailableError(
                f"{self.of.name} limits no single state, so the best rule within its limits is not"
                " defined: leave out --deterministic, or take priced-soft-spibb"
            )

    @property
    def name(self) -> str:
        """That of the algorithm: its limits are the same."""
        return self.of.name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Those of the algorithm, and how a state stays."""
        return {**self.of.parameters, "deterministic": self.otherwise}

    @property
    def needs_returns(self) -> bool:
        """As the algorithm."""
        return self.of.needs_returns

    @property
    def needs_log(self) -> bool:
        """As the algorithm."""
        return self.of.needs_log

    def estimate(self, problem: Problem) -> Estimate | Backup | FixedValues:
        """As the algorithm."""
        if isinstance(self.of, Estimates):
            return self.of.estimate(problem)
        return ModelEstimate(problem.model, problem.tolerance)

    def trust(self, problem: Problem, n: Array) -> Trust:
        """The single actions within its trust, and the row that stays."""
        assert isinstance(self.of, Restricts)
        found = self.of.trust(problem, n)
        if not isinstance(found, (FreeTrust, SoftTrust)):
            raise NotAvailableError(
                f"{self.of.name} has no best rule: {NOT_LINEAR}; take its exact version"
            )
        within = found if isinstance(found, SoftTrust) else as_soft(found, ())
        return RuleTrust(within=within, stay=self.untouched(problem))

    def untouched(self, problem: Problem) -> Array:
        """The rows [B, S, A] of states in which it changes nothing."""
        b = problem.pi_b
        if self.otherwise == MIXTURE:
            return b
        xp = namespace(b)
        tried = xp.where(problem.seen & problem.allowed, b, 0.0)
        first = xp.argmax(tried, axis=-1)[..., None]
        alone = xp.astype(count_up(b.shape[-1], b) == first, b.dtype)
        known = (xp.max(tried, axis=-1) > 0) & ~problem.terminal
        return xp.where(known[..., None], alone, b)


def with_one_action(algorithm: Algorithm, otherwise: str | None) -> Algorithm:
    """The algorithm as a rule, where that is asked for."""
    return algorithm if otherwise is None else OneAction(algorithm, otherwise)
