"""SPIBB: change the baseline only where there are data (Pi_b-SPIBB, Pi_<=b-SPIBB)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import Restricts
from surefoot.core.arrays import Array
from surefoot.core.parameters import check_number
from surefoot.planning import Trust, by_count
from surefoot.problems import Problem


@dataclass(frozen=True)
class PiBSPIBB(Restricts):
    """max_pi  v(pi; M_hat)   s.t.   pi(a|s) = pi_b(a|s)  wherever  n(s, a) <= n_wedge.

    Laroche, Trichelair & Tachet des Combes, ICML 2019, Algorithm 1. The published code, and so this
    class, counts n = n_wedge as unknown; the text of the paper does not.
    """

    name: ClassVar[str] = "pi-b-spibb"
    n_wedge: float

    def __post_init__(self) -> None:
        check_number(self, "n_wedge", low=0)

    def trust(self, problem: Problem, n: Array) -> Trust:
        """Cost 0 for known pairs, infinite for the others, both up and down."""
        return by_count(problem, n > self.n_wedge, free_fall=False)


@dataclass(frozen=True)
class PiLeqBSPIBB(Restricts):
    """max_pi  v(pi; M_hat)   s.t.   pi(a|s) <= pi_b(a|s)  wherever  n(s, a) <= n_wedge.

    Laroche, Trichelair & Tachet des Combes, ICML 2019, Algorithm 2: a heuristic relaxation without
    a guarantee.
    """

    name: ClassVar[str] = "pi-leq-b-spibb"
    n_wedge: float

    def __post_init__(self) -> None:
        check_number(self, "n_wedge", low=0)

    def trust(self, problem: Problem, n: Array) -> Trust:
        """Raising an unknown pair is forbidden; lowering is free everywhere."""
        return by_count(problem, n > self.n_wedge, free_fall=True)
