"""Screened advantage: a quarter of the log proposes a few moves, the rest tests each of them; what
passes is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.algorithms.algorithm import RESTRICTS, Fitting, Whole
from surefoot.core import Solution, Status
from surefoot.core.arrays import to_numpy
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import check_number
from surefoot.evidence.screening import screened
from surefoot.planning.starts import left_for_values
from surefoot.problems import Problem


@dataclass(frozen=True)
class ScreenedAdvantage(Whole):
    """pi = pi_b + move  in the states where the rest of the log proves  sum_a move q^{pi_b} > 0,
    the baseline elsewhere.

    The moves are chosen by a quarter of the log, so the union is over these few tests instead of
    all pairs: v^pi >= v^{pi_b} in every state w.p. 1 - delta, from a fraction of the data that
    `certified-advantage` needs. Where the start is estimated a tenth of delta is left for it, so
    that the certificate at the start finds the same bounds.
    """

    name: ClassVar[str] = "screened-advantage"
    taxonomy: ClassVar[str] = RESTRICTS
    needs_log: ClassVar[bool] = True
    delta: float = 0.05

    def __post_init__(self) -> None:
        check_number(self, "delta", low=0, high=1, open_low=True)

    @property
    def proof(self) -> Fitting:
        """Its own certificate, at its own delta."""
        return "screened-advantage", {"delta": self.delta}

    def solve(self, problem: Problem) -> Solution:
        """Propose, test, keep what passes."""
        if problem.pi_b.shape[0] != 1:
            raise NotAvailableError(
                f"{self.name} splits the log of one problem, got a batch of"
                f" {problem.pi_b.shape[0]}: build each from its log, and improve them one by one"
            )
        found = screened(problem, left_for_values(problem, self.delta))
        passed = found.lower_at() > 0
        b = to_numpy(problem.pi_b)[0]
        pi = np.where(passed[:, None], np.clip(b + found.move, 0.0, 1.0), b)
        one = np.ones(1, dtype=np.int64)
        tests = int((found.move != 0).any(axis=-1).sum())
        note = f"{self.name}: {int(passed.sum())} of {tests} proposed moves passed their tests"
        return Solution(pi[None], found.q[None], Status(one > 0, one), notes=(note,))
