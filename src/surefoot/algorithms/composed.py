"""Both classes at once: penalised action values inside a restricting trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from surefoot.algorithms.algorithm import needs_log
from surefoot.core import Solution
from surefoot.problems import Problem


@dataclass(frozen=True)
class Composed:
    """Plan with the values of one algorithm inside the trust of another:
    "ramdp+lower-exact-soft-spibb".

    The paper's taxonomy separates algorithms that penalise the action value from those that
    restrict the set of policies; the row problem does not care which q it is given, so nothing
    forbids both.
    """

    taxonomy: ClassVar[str] = "penalises and restricts"
    penalise: Any
    restrict: Any

    @property
    def name(self) -> str:
        """The composed name."""
        return f"{self.penalise.name}+{self.restrict.name}"

    @property
    def needs_log(self) -> bool:
        """Whether a part reads the log itself."""
        return needs_log(self.penalise) or needs_log(self.restrict)

    def solve(self, problem: Problem) -> Solution:
        """The penalised values decide, the trust limits."""
        solution: Solution = self.penalise.plan(problem, self.restrict.trust(problem))
        return solution
