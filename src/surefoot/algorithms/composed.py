"""Two algorithms at once: the values of one inside the limits of another."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from surefoot.algorithms.algorithm import NEITHER, Algorithm, Estimates, Fitting, Restricts
from surefoot.core.arrays import Array
from surefoot.planning import Backup, Estimate, FixedValues, Trust
from surefoot.problems import Problem


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
    parts = (
        (algorithm.values, algorithm.limits) if isinstance(algorithm, Composed) else (algorithm,)
    )
    return {f.name: getattr(part, f.name) for part in parts for f in fields(part)}


def taxonomy(*classes: type[Algorithm]) -> str:
    """Where an algorithm of these parts stands: "penalises", "restricts", both, or "neither"."""
    found = [cls.taxonomy for cls in classes if cls.taxonomy != NEITHER]
    return " and ".join(found) or NEITHER
