"""`advise`: from a counted log to a verdict: the policy to use, what it changes, what that is
worth and how sure that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.advice.assurance import Assurance, assure, proof
from surefoot.advice.gain import DELTA, FEWEST_UNITS, FINITE_SAMPLE, Gain, held_out_gain
from surefoot.advice.unit_model import Comparison, UnitModel
from surefoot.advice.units import Units, units
from surefoot.advice.value_on_log import OwnReturn, own_return
from surefoot.core import Policy, Solution
from surefoot.diagnosis import Finding, vetoes
from surefoot.diagnosis.finding import BASELINE, KEYS, MARKOV
from surefoot.errors import ParameterError
from surefoot.logs import Log
from surefoot.problems import Problem

SUPPORTED, NOT_SUPPORTED, NOTHING_TO_LEARN = "supported", "not supported", "nothing to learn"
CHANGED = 1e-9  # mass moved in a state beyond rounding
NOT_LOOKED_AT = (
    "drift, memory, copies and contradictions were not looked at: the rows of this log were counted"
    " elsewhere, or without their order"
)


@dataclass(frozen=True, repr=False, kw_only=True)
class Advice:
    """What the data say about improving the baseline of a log with one algorithm.

    `candidate` is the policy that was tested; `policy` is it where the data support it (or
    `accepted` says to use it all the same), and the baseline otherwise. `gain` is held out;
    `in_sample` is optimistic, since half of the data made the candidate. `pi_b` made the log: gains
    are against it. `against` are the findings about the log that forbid a promise, `despite` those
    that were waived.
    """

    log: Log
    problem: Problem
    algorithm: Any
    pi_b: np.ndarray
    verdict: str
    reason: str
    candidate: np.ndarray
    solution: Solution | None = None
    gain: Gain | None = None
    in_sample: Comparison | None = None
    own: OwnReturn | None = None
    advantage: np.ndarray  # [S], in sample: what the candidate's row is worth beyond the baseline's
    accepted: bool = False
    against: tuple[Finding, ...] = ()
    despite: tuple[str, ...] = ()
    assurance: Assurance | None = None
    over_renormalised: float | None = (
        None  # in sample, the gain over the baseline without its forbidden actions
    )

    def __repr__(self) -> str:
        return f"Advice({self.verdict}: {self.reason})"

    @property
    def supported(self) -> bool:
        """Whether the data support the candidate."""
        return self.verdict == SUPPORTED

    @property
    def policy(self) -> np.ndarray:
        """The policy to use [S, A]."""
        return self.candidate if self.supported or self.accepted else np.asarray(self.problem.pi_b)

    @cached_property
    def moved(self) -> np.ndarray:
        """The mass that the candidate moves in every state [S], away from the policy that made
        the log; 0 where nobody acts.
        """
        moved = 0.5 * np.abs(self.candidate - self.pi_b).sum(axis=1)
        return np.where(self.problem.terminal, 0.0, moved)

    @property
    def changed(self) -> np.ndarray:
        """The codes of the visited states in which something changes."""
        return np.flatnonzero((self.moved > CHANGED) & (self.log.n_sa.sum(axis=1) > 0))

    @property
    def mass_moved(self) -> float:
        """The share of decisions that would be taken otherwise: mass moved, averaged over the
        visits of the log.
        """
        visits = self.log.n_sa.sum(axis=1)
        return float((self.moved * visits).sum() / visits.sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        found = self.problem.notes + (() if self.solution is None else self.solution.notes)
        waived = tuple(
            f"despite {x.key}, as asked: {x.sentence}"
            for x in self.against
            if x.key in self.despite
        )
        accepted = (
            (f"accepted although the data do not support it: {self.reason}",)
            if self.accepted
            else ()
        )
        blind = (NOT_LOOKED_AT,) if self.log.reading is None or self.log.starts is None else ()
        return (*dict.fromkeys((*found, *blind, *waived, *accepted)),)


def advise(
    log: Log,
    problem: Problem,
    algorithm: Any,
    *,
    parts: Units | None = None,
    pi_b: np.ndarray | None = None,
    accept: bool = False,
    assured: bool = False,
    against: Sequence[Finding] | None = None,
    despite: Sequence[str] = (),
    seed: int = 0,
) -> Advice:
    """Improve the baseline of a log's problem, and say whether the data support it.

    Supported: the policy that one half of the log makes differs from the baseline in a visited
    state; the other half shows its gain at the start to be above 0, in one test at level 5 %
    (`held_out_gain`); no unseen outcome within the range could take the gain away; and nothing in
    the log speaks against the test (`against`: by default what `surefoot.diagnosis.vetoes` finds),
    but for what `despite` names. An algorithm with a proof of its own is supported by that proof.
    `pi_b` is the policy that made the log where it differs from the problem's baseline (forbidden
    actions were taken out of it). `parts` are the units of the log where they are known.
    """
    unknown = [key for key in despite if key not in KEYS]
    if unknown:
        raise ParameterError(f"despite takes {', '.join(KEYS)}, got {unknown[0]!r}")
    made = np.asarray(problem.pi_b if pi_b is None else pi_b)
    base = Advice(
        log=log,
        problem=problem,
        algorithm=algorithm,
        pi_b=made,
        verdict=NOTHING_TO_LEARN,
        candidate=np.asarray(problem.pi_b),
        reason="nothing to learn from: the log never tried an alternative",
        advantage=np.zeros(problem.n_states),
        despite=tuple(despite),
    )
    if int((log.n_sa > 0).sum(axis=1).max()) <= 1:
        return base
    parts = units(log, problem.log, problem.gamma) if parts is None else parts
    found = tuple(found_against(log, problem, made) if against is None else against)
    stands = [x for x in found if x.key not in base.despite]
    gain = held_out_gain(
        problem, parts, algorithm, pi_b=made, markov=all(x.key != MARKOV for x in stands), seed=seed
    )  # without the Markov property only the test that does not need it may speak
    stands = [x for x in stands if not (x.key == MARKOV and gain.test == FINITE_SAMPLE)]
    own = (
        np.abs(np.asarray(problem.pi_b) - made).max() <= CHANGED
    )  # a proof compares with the problem's baseline
    proved = proof(problem, algorithm) if assured and own else None
    pi, solution = (
        (gain.pi, gain.solution) if proved is None else (np.asarray(proved[0].pi), proved[0])
    )
    model = UnitModel(parts, parts, problem, made)
    advice = replace(
        base,
        against=found,
        gain=gain,
        solution=solution,
        candidate=pi,
        in_sample=model.compare(pi),
        advantage=model.advantage(pi),
        own=own_return(problem),
        over_renormalised=_over_renormalised(parts, problem, made, pi),
    )
    verdict, reason = _judged(gain, advice) if proved is None else (SUPPORTED, proved[1])
    if stands and len(advice.changed):
        verdict, reason = NOT_SUPPORTED, _against(stands, reason)
    assurance = (
        assure(problem, replace(solution, pi=pi), algorithm, doubt=_doubt(found))
        if assured
        else None
    )
    return replace(
        advice,
        verdict=verdict,
        reason=reason,
        accepted=accept and verdict != SUPPORTED,
        assurance=assurance,
    )


def found_against(log: Log, problem: Problem, pi_b: np.ndarray) -> tuple[Finding, ...]:
    """What in a log forbids a promise; `pi_b` made it, unless the problem's baseline was
    estimated.
    """
    return vetoes(log, None if problem.pi_b_estimated else Policy(pi=pi_b, labels=log.labels))


def _over_renormalised(
    parts: Units, problem: Problem, made: np.ndarray, pi: np.ndarray
) -> float | None:
    """The gain over the problem's baseline where that is not the policy that made the log."""
    base, known = np.asarray(problem.pi_b), replace(problem, pi_b_estimated=False)
    return (
        None
        if np.abs(base - made).max() <= CHANGED
        else UnitModel(parts, parts, known, base).compare(pi).gain
    )


def _judged(gain: Gain, advice: Advice) -> tuple[str, str]:
    """(verdict, reason) of a held-out gain."""
    if not (advice.moved > CHANGED).any():
        taken_back = (
            "" if gain.checked > CHANGED else ": the other half cannot check any of its moves"
        )
        return NOT_SUPPORTED, f"what one half of the log teaches changes nothing{taken_back}"
    if gain.units < FEWEST_UNITS:
        return (
            NOT_SUPPORTED,
            (
                f"too few independent pieces: the log has {gain.units} {gain.kind}, at least"
                f" {FEWEST_UNITS} are needed"
            ),
        )
    if np.isnan(gain.low):
        return (
            NOT_SUPPORTED,
            (
                "no valid test: states do not say enough (not Markov), and the test that does not"
                " need them does not apply"
            ),
        )
    words = (
        f"{gain.test} test at {DELTA:.0%}: the gain on held-out data is {gain.estimate:.4g}, at"
        f" least {gain.low:.4g}"
    )
    if gain.high < 0:
        return (
            NOT_SUPPORTED,
            (
                f"held-out data show that it is WORSE: the gain is {gain.estimate:.4g}, at most"
                f" {gain.high:.4g}"
            ),
        )
    if not gain.excluded and gain.unseen is not None:
        return (
            NOT_SUPPORTED,
            f"{words}, but an outcome that has not shown could take away {gain.unseen.change:.4g}",
        )
    if gain.low > 0 and gain.low <= gain.explained:
        when = (
            f"{gain.explained:.4g} of it is explained by when, or after what, the actions were"
            " taken"
        )
        return NOT_SUPPORTED, f"{words}, but {when}"
    low, high = advice.problem.reward_range
    given = (
        ""
        if advice.problem.return_range.declared
        else f", if no reward lies outside [{low:g}, {high:g}]"
    )
    return (
        (SUPPORTED, f"{words}, above 0{given}")
        if gain.positive
        else (NOT_SUPPORTED, f"{words}, not above 0")
    )


def _against(stands: Sequence[Finding], reason: str) -> str:
    """Why the log forbids a promise."""
    keys = ",".join(x.key for x in stands)
    return (
        f"{'; '.join(x.sentence for x in stands)}. (Otherwise: {reason}. To go on all the same:"
        f" --despite {keys})"
    )


def _doubt(found: Sequence[Finding]) -> str:
    """That another policy made the log, in words; "" where nothing says so."""
    return next((x.sentence for x in found if x.key == BASELINE), "")
