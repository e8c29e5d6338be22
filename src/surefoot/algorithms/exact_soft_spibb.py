"""Exact-, Lower-Exact- and Adv-Exact-Soft-SPIBB: the same constraints, with the exact row solver
instead of a linear program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.soft import SoftSPIBB, advantage
from surefoot.planning import Trust
from surefoot.problems import Problem
from surefoot.trust import soft


@dataclass(frozen=True)
class ExactSoftSPIBB(SoftSPIBB):
    """max_pi  v(pi; M_hat)   s.t.   sum_a e |pi - pi_b| <= epsilon   (Nadjahi, Laroche & Tachet des Combes 2019).

    The published version solves a linear program a state, and was left out of the paper's
    experiments for numerical trouble; the sweep of `surefoot.rows.best_rows` has none.
    """

    name: ClassVar[str] = "exact-soft-spibb"

    def trust(self, problem: Problem) -> Trust:
        """up = down = e."""
        return soft(problem, self.e(problem), self.budget, lower=False)


@dataclass(frozen=True)
class LowerExactSoftSPIBB(SoftSPIBB):
    """max_pi  v(pi; M_hat)   s.t.   sum_a e max(0, pi - pi_b) <= epsilon:  Definition 3 of
    Scholl et al. 2022, solved exactly.
    """

    name: ClassVar[str] = "lower-exact-soft-spibb"

    def trust(self, problem: Problem) -> Trust:
        """up = e, down = 0."""
        return soft(problem, self.e(problem), self.budget, lower=True)


@dataclass(frozen=True)
class AdvExactSoftSPIBB(SoftSPIBB):
    """Exact-Soft-SPIBB that also keeps  sum_a q_mc (pi - pi_b) >= 0  in every state (Scholl et al.
    2022, Section 4.1).

    Meets the conditions of the paper's Theorem 1; a pair without a return never moves.
    """

    name: ClassVar[str] = "adv-exact-soft-spibb"
    advantageous: ClassVar[bool] = True

    def trust(self, problem: Problem) -> Trust:
        """up = down = e, and the advantage constraint."""
        return soft(problem, self.e(problem), self.budget, lower=False, w=advantage(problem))
