"""`advise`: from a counted log to a verdict: the policy to use, what it changes, what that is worth and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.advice.assurance import Assurance, assure
from surefoot.advice.gain import FEWEST_UNITS, LEVEL, Gain, cross_fitted_gain
from surefoot.advice.model import Comparison, UnitModel
from surefoot.advice.safety import FAILS
from surefoot.advice.units import Units, units
from surefoot.core import Solution
from surefoot.improvement import improve
from surefoot.logs import Log
from surefoot.problems import Problem

SUPPORTED, NOT_SUPPORTED, NOTHING_TO_LEARN = "supported", "not supported", "nothing to learn"
CHANGED = 1e-9  # mass moved in a state beyond rounding


@dataclass(frozen=True, repr=False)
class Advice:
    """What the data say about improving the baseline of a log with one algorithm.

    `candidate` is the algorithm's policy; `policy` is it where the data support it (or `accepted` says to use it all the same), and
    the baseline otherwise. `gain` is cross-fitted; `in_sample` is optimistic, since the candidate was learned from the same data.
    """

    log: Log
    problem: Problem
    algorithm: Any
    solution: Solution | None
    gain: Gain | None
    in_sample: Comparison | None
    advantage: np.ndarray  # [S], in sample: what the candidate's row is worth beyond the baseline's
    verdict: str
    reason: str
    accepted: bool = False
    assurance: Assurance | None = None

    def __repr__(self) -> str:
        return f"Advice({self.verdict}: {self.reason})"

    @property
    def supported(self) -> bool:
        """Whether the data support the candidate."""
        return self.verdict == SUPPORTED

    @property
    def candidate(self) -> np.ndarray:
        """The algorithm's policy [S, A]; the baseline where there was nothing to learn from."""
        return np.asarray(self.problem.pi_b if self.solution is None else self.solution.pi)

    @property
    def policy(self) -> np.ndarray:
        """The policy to use [S, A]."""
        return self.candidate if self.supported or self.accepted else np.asarray(self.problem.pi_b)

    @cached_property
    def moved(self) -> np.ndarray:
        """The probability mass that the candidate moves in every state [S]; 0 where nobody acts."""
        moved = 0.5 * np.abs(self.candidate - self.problem.pi_b).sum(axis=1)
        return np.where(self.problem.terminal, 0.0, moved)

    @property
    def changed(self) -> np.ndarray:
        """The codes of the visited states in which something changes."""
        return np.flatnonzero((self.moved > CHANGED) & (self.log.n_sa.sum(axis=1) > 0))

    @property
    def mass_moved(self) -> float:
        """The share of decisions that would be taken otherwise: mass moved, averaged over the visits of the log."""
        visits = self.log.n_sa.sum(axis=1)
        return float((self.moved * visits).sum() / visits.sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        found = self.problem.notes if self.solution is None else self.solution.notes
        return (*found, *((f"accepted although the data do not support it: {self.reason}",) if self.accepted else ()))


def advise(
    log: Log,
    problem: Problem,
    algorithm: Any,
    *,
    parts: Units | None = None,
    accept: bool = False,
    assured: bool = False,
    doubt: str = "",
    seed: int = 0,
) -> Advice:
    """Improve the baseline of a log's problem, and say whether the data support it.

    Supported: the policy differs from the baseline in a visited state, and the 5 % quantile of its cross-fitted gain at the start
    lies above 0 (see `cross_fitted_gain`). `parts` are the units of the log where they are known already. With `assured` the advice
    has a certificate and a safety test (see `assure`), and what the test shows to be worse is not supported; neither is given where
    there is a `doubt`, in words, that the baseline made the log.
    """
    nothing = np.zeros(problem.n_states)
    if int((log.n_sa > 0).sum(axis=1).max()) <= 1:
        reason = "nothing to learn from: the log never tried an alternative"
        return Advice(log, problem, algorithm, None, None, None, nothing, NOTHING_TO_LEARN, reason)
    solution = improve(problem, algorithm)
    parts = units(log, problem.log, problem.gamma) if parts is None else parts
    model = UnitModel(parts, parts, problem)
    compared, advantage = model.compare(solution.pi), model.advantage(solution.pi)
    found = Advice(log, problem, algorithm, solution, None, compared, advantage, NOT_SUPPORTED, "")
    if not len(found.changed):
        reason = "the algorithm changes nothing in any visited state"
        return Advice(log, problem, algorithm, solution, None, compared, advantage, NOT_SUPPORTED, reason)
    gain = cross_fitted_gain(problem, parts, algorithm, seed=seed)
    assurance = assure(problem, solution, algorithm, doubt=doubt, seed=seed) if assured else None
    verdict, reason = judged(gain)
    if assurance is not None and assurance.test is not None and assurance.test.verdict == FAILS:
        verdict, reason = NOT_SUPPORTED, f"held-out episodes show that what the algorithm makes of half of them is worse; {reason}"
    reason = f"{reason}; BUT {doubt}" if doubt else reason
    return Advice(
        log, problem, algorithm, solution, gain, compared, advantage, verdict, reason, accept and verdict != SUPPORTED, assurance
    )  # fmt: skip


def judged(gain: Gain) -> tuple[str, str]:
    """(verdict, reason) of a cross-fitted gain."""
    if np.isnan(gain.low):
        return NOT_SUPPORTED, f"too little to check it on: the log has {gain.units} {gain.kind}, at least {FEWEST_UNITS} are needed"
    words = f"the {LEVEL:.0%} quantile of its cross-fitted gain is {gain.low:.4g}"
    return (SUPPORTED, f"{words}, above 0") if gain.positive else (NOT_SUPPORTED, f"{words}, not above 0")
