"""Planned advantage: the policy with the largest gain that is proved, all that follows included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.algorithms.algorithm import RESTRICTS, Fitting, Whole
from surefoot.algorithms.certified_advantage import certified_trust
from surefoot.core import Solution, Status
from surefoot.core.arrays import to_numpy
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import check_choice, check_number
from surefoot.evidence.return_evidence import RETURN_ERRORS, evidence
from surefoot.planning.starts import left_for_values
from surefoot.planning.successors import STEPS, shares, successors
from surefoot.problems import Problem


@dataclass(frozen=True)
class PlannedAdvantage(Whole):
    """max_pi h  in every state,   h(s) = c(s) + gamma min_P sum_a pi(a|s) sum_s' P(s'|s, a) h(s'),

    c(s) = sum_a (pi - pi_b) q_mc - sum_a E |pi - pi_b| as for `certified-advantage`, P among all
    rows that the counts of successors allow. v^pi - v^{pi_b} >= h in every state w.p. 1 - delta.
    A move may lose where it is made, if what it leads to is proved to gain more. Value iteration
    from h = 0, the baseline; in every state all mass that gains goes to the best action.
    """

    name: ClassVar[str] = "planned-advantage"
    taxonomy: ClassVar[str] = RESTRICTS
    needs_log: ClassVar[bool] = True
    delta: float = 0.05
    error: str = "bernstein"

    def __post_init__(self) -> None:
        check_number(self, "delta", low=0, high=1, open_low=True)
        check_choice(self, "error", RETURN_ERRORS)

    @property
    def proof(self) -> Fitting:
        """Its own certificate, at its own parameters."""
        return "planned-advantage", {"delta": self.delta, "error": self.error}

    def solve(self, problem: Problem) -> Solution:
        """Plan with what is proved."""
        if problem.pi_b.shape[0] != 1 or problem.log is None:
            raise NotAvailableError(
                f"{self.name} reads the log of one problem, got a batch of"
                f" {problem.pi_b.shape[0]}, or counts alone: build each from its log, and improve"
                " them one by one"
            )
        if problem.pi_b_estimated:
            raise NotAvailableError(
                f"{self.name} proves a gain over the policy that made the log: with a baseline"
                " estimated from the same log it proves nothing; give the true one"
            )
        of_values, of_rows = shares(left_for_values(problem, self.delta))
        trust = certified_trust(problem, evidence(problem, of_values, error=self.error))
        b, terminal = to_numpy(problem.pi_b), to_numpy(problem.terminal)[0]

        def move(later: np.ndarray) -> np.ndarray:
            found: np.ndarray = trust.best_move(trust.w + later[None], 1.0)
            return found

        def backup(later: np.ndarray) -> np.ndarray:
            m = move(later)
            gain = ((b + m) * later).sum(axis=-1) + trust.c(m)
            return np.where(terminal, 0.0, gain[0])

        rows = successors(problem, of_rows)
        h, later, steps = rows.climb(backup, np.zeros(problem.n_states))
        status = Status(np.array([steps < STEPS]), np.array([steps]))
        note = f"{self.name}: planned with a gain of up to {h.max():.3g}, in the best state"
        return Solution(b + move(later), trust.w + later[None], status, notes=(note,))
