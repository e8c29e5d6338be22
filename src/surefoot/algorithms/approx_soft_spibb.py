"""Approx-, Lower-Approx- and Adv-Approx-Soft-SPIBB: the paper's greedy steps within a soft
constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.soft import SoftSPIBB, advantage
from surefoot.parameters import check_flag
from surefoot.planning import Trust
from surefoot.problems import Problem
from surefoot.trust import trading


@dataclass(frozen=True)
class ApproxSoftSPIBB(SoftSPIBB):
    """max_pi  v(pi; M_hat)   s.t.   sum_a e |pi - pi_b| <= epsilon,   improved greedily (Nadjahi, Laroche & Tachet des Combes 2019).

    `published=True` reproduces the published step, which can overspend: up to (3/2 - 2^(1 - A))
    epsilon.
    """

    name: ClassVar[str] = "approx-soft-spibb"
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(self, "published")

    def trust(self, problem: Problem) -> Trust:
        """Greedy trading, both directions paid for."""
        return trading(problem, self.e(problem), self.budget, lower=False, published=self.published)


@dataclass(frozen=True)
class LowerApproxSoftSPIBB(SoftSPIBB):
    """max_pi  v(pi; M_hat)   s.t.   sum_a e max(0, pi - pi_b) <= epsilon,   improved greedily (Scholl et al. 2022, Definition 3).

    Lowering a probability costs nothing. The best of the SPIBB family in the paper's experiments; a
    heuristic, without a proof.
    """

    name: ClassVar[str] = "lower-approx-soft-spibb"
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(self, "published")

    def trust(self, problem: Problem) -> Trust:
        """Greedy trading, only raising is paid for (the published step never overspends here)."""
        return trading(problem, self.e(problem), self.budget, lower=True, published=self.published)


@dataclass(frozen=True)
class AdvApproxSoftSPIBB(SoftSPIBB):
    """Approx-Soft-SPIBB that also keeps  sum_a q_mc (pi - pi_b) >= 0  in every state (Scholl et al.
    2022, Section 4.1).

    q_mc is the Monte-Carlo estimate of q^{pi_b}: the conditions of the paper's Theorem 1. A pair
    without a return never moves.
    """

    name: ClassVar[str] = "adv-approx-soft-spibb"
    advantageous: ClassVar[bool] = True
    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(self, "published")

    def trust(self, problem: Problem) -> Trust:
        """Greedy trading with an advantage account."""
        return trading(
            problem,
            self.e(problem),
            self.budget,
            lower=False,
            published=self.published,
            w=advantage(problem),
        )
