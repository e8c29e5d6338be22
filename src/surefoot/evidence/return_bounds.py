"""Bounds on returns: certified advantage, its forms for any policy, and Theorem 1 of the paper.

All rest on one event: |q^{pi_b} - q_mc| <= E for all pairs at once (see
`surefoot.evidence.return_evidence`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.core.arrays import times, to_numpy
from surefoot.core.errors import NotAvailableError, PolicyError
from surefoot.core.evidence import APPROXIMATE, RIGOROUS
from surefoot.core.parameters import check_number
from surefoot.evidence.bound import (
    ASSUMES_MARKOV,
    EVERYWHERE,
    OWN_LOG,
    Bound,
    Certificate,
    no_other_state,
    range_sentences,
    unknown_lengths,
)
from surefoot.evidence.return_evidence import ReturnEvidence, evidence
from surefoot.evidence.theory import advantageous, constrained, theorem_1_bound
from surefoot.logs.disagreement import action_distance
from surefoot.planning.ambiguity import Successors, shares, successors
from surefoot.problems import Problem

# a p-value of the logged actions below which another policy than the baseline made the log
ANOTHER = 1e-6


@dataclass(frozen=True, kw_only=True)
class FromReturns(Bound):
    """Abstract: a bound on Monte-Carlo returns of the baseline.

    See `surefoot.evidence.return_evidence` for error, visits and steps.
    """

    error: str = "hoeffding"
    visits: str = "independent"
    steps: int | None = None

    def evidence(self, problem: Problem, delta: float | None = None) -> ReturnEvidence:
        """The baseline's values by the returns of the log, at delta (default: all that is left)."""
        on_policy(self.name, problem)
        delta = self.left(problem) if delta is None else delta
        return evidence(problem, delta, error=self.error, visits=self.visits, steps=self.steps)

    def from_returns(
        self,
        problem: Problem,
        pi: np.ndarray,
        found: ReturnEvidence,
        bound_at: Callable[[float], float],
        notes: tuple[str, ...] = (),
        approximate: tuple[str, ...] = (),
    ) -> Certificate:
        """The certificate of a bound that rests on this evidence; `approximate` is what it assumes
        besides that is not exactly true.
        """
        assumptions = (
            ASSUMES_MARKOV,
            no_other_state(problem),
            OWN_LOG,
            *found.assumptions,
            *range_sentences(problem),
            *approximate,
        )
        proved = found.rigorous and problem.return_range.declared and not approximate
        return self.certificate(
            problem,
            pi,
            bound_at,
            label=RIGOROUS if proved else APPROXIMATE,
            assumptions=assumptions,
            n=found.n,
            notes=notes,
        )

    def of_advantage(self, problem: Problem, pi: np.ndarray, found: ReturnEvidence) -> Certificate:
        """The certificate of c, whatever the policy is."""

        def bound_at(scale: float) -> float:
            return advantage_bound(self, problem, certified(problem, pi, found, scale), scale)

        return self.from_returns(problem, pi, found, bound_at)


@dataclass(frozen=True, kw_only=True)
class CertifiedAdvantageBound(FromReturns):
    """c(s) >= 0 in every state:  v^pi >= v^{pi_b} everywhere, and  v^pi - v^{pi_b} >= c  at the
    start. No epsilon, no slack.

    Refuses a policy with c < 0 in some state; `advantage` has a bound for those.
    """

    name: ClassVar[str] = "certified-advantage"
    error: str = "bernstein"  # as the algorithm by this name

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate, if the policy meets the condition on these returns."""
        found = self.evidence(problem)
        c = certified(problem, pi, found)
        if c.min() < 0:
            raise PolicyError(
                f"{self.name}: the returns prove no advantage in {int((c < 0).sum())} states, worst"
                f" in state {problem.labels.state(c.argmin())} (c = {c.min():.3g}): improve with"
                ' "certified-advantage" at this delta, error and visits, or ask for the bound'
                ' "advantage"'
            )
        return self.of_advantage(problem, pi, found)


@dataclass(frozen=True, kw_only=True)
class AdvantageBound(FromReturns):
    """start . c + gamma/(1 - gamma) min(0, min_s c(s)):  the same event, for any policy whatever.

    Never below Theorem 1's bound.
    """

    name: ClassVar[str] = "advantage"

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate of any policy that moves no mass of a pair without returns."""
        found = self.evidence(problem)
        return self.of_advantage(problem, pi, found)


@dataclass(frozen=True, kw_only=True)
class PlannedAdvantageBound(FromReturns):
    """h(s) = c(s) + gamma min_P sum_a pi(a|s) sum_s' P(s'|s, a) h(s'),  P among all rows that the
    counts of successors allow: c holds wherever pi goes, and how often it goes there is bounded.

    For any policy that moves only pairs with returns. A fifth of delta pays for the rows.
    """

    name: ClassVar[str] = "planned-advantage"
    error: str = "bernstein"  # as the algorithm by this name

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate of any policy that moves no mass of a pair without returns."""
        of_values, of_rows = shares(self.left(problem))
        found = self.evidence(problem, of_values)
        acting = ~to_numpy(problem.terminal)

        def bound_at(scale: float) -> float:
            c = certified(problem, pi, found, scale)
            h = proved_gain(problem, pi, c, successors(problem, of_rows, scale))
            if self.where == EVERYWHERE:
                return float(h[acting].min())
            return self.mean_at_start(problem, h, scale)

        unbounded = int(np.isinf(certified(problem, pi, found)).sum())
        notes = (
            f"in {unbounded} states it moves probability of pairs whose value no return in the log"
            " bounds: all that can be lost is taken off there",
        )
        return self.from_returns(
            problem, pi, found, bound_at, notes if unbounded else (), unknown_lengths(problem)
        )


@dataclass(frozen=True, kw_only=True)
class Theorem1(FromReturns):
    """v^pi - v^{pi_b} >= -epsilon g_max / (1 - gamma)  in every state; at the start the estimated
    advantage there is added.

    For a (pi_b, epsilon, e)-constrained policy that is advantageous with respect to the same
    returns that e bounds the error of (Scholl et al. 2022, Theorem 1). epsilon None: the least with
    which the policy meets the constraint; the event behind the bound knows nothing of the policy,
    so epsilon may be read off it.
    """

    name: ClassVar[str] = "theorem-1"
    epsilon: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            check_number(self, "epsilon", low=0, finite=True)

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate of a policy that meets Definitions 1 and 2."""
        found = self.evidence(problem)
        self._check_definitions(problem, pi, found)
        pi_b, g_max = to_numpy(problem.pi_b), problem.return_range.g_max
        q = np.where(np.isfinite(found.mean), found.mean, 0.0)
        advantage, move = (q * (pi - pi_b)).sum(axis=-1), abs(pi - pi_b)

        def spent(scale: float) -> float:
            return float(times(found.radius_at(scale) / g_max, move).sum(axis=-1).max())

        epsilon = spent(1.0) if self.epsilon is None else self.epsilon

        def bound_at(scale: float) -> float:
            at = spent(scale)
            if self.epsilon is not None:
                at = epsilon * min(1.0, at / max(spent(1.0), 1e-300))
            loss = theorem_1_bound(at, g_max, problem.gamma)
            if self.where == EVERYWHERE:
                return loss
            return self.mean_at_start(problem, advantage + loss, scale)

        note = f"epsilon = {epsilon:.4g}, g_max = {g_max:g}"
        return self.from_returns(problem, pi, found, bound_at, (note,))

    def _check_definitions(self, problem: Problem, pi: np.ndarray, found: ReturnEvidence) -> None:
        """Definitions 1 (constrained) and 2 (advantageous), on the policy itself."""
        pi_b, g_max = to_numpy(problem.pi_b), problem.return_range.g_max
        if g_max <= 0:
            raise NotAvailableError(
                f"{self.name}: the return range has no width: all policies are worth the same"
            )
        gains = advantageous(pi, pi_b, found.mean)
        if not gains:
            raise PolicyError(
                f"{self.name}: not advantageous on these returns: state"
                f" {problem.labels.state(gains.worst_state)} misses by {gains.excess:.3g}. An"
                " algorithm that reads them (an adv- or one-step one on"
                " with_independent_returns(problem)) is"
            )
        unbounded = int((np.isinf(found.radius) & (pi != pi_b)).any(axis=-1).sum())
        if unbounded:
            raise PolicyError(
                f"{self.name}: {unbounded} states move mass of pairs without returns: no epsilon"
                " constrains the policy"
            )
        if self.epsilon is not None and not (
            check := constrained(pi, pi_b, found.radius / g_max, self.epsilon)
        ):
            raise PolicyError(
                f"{self.name}: not constrained by epsilon = {self.epsilon:g} at delta ="
                f" {found.delta:g}: state {problem.labels.state(check.worst_state)} exceeds it by"
                f" {check.excess:.3g}"
            )


def advantage_bound(bound: Bound, problem: Problem, c: np.ndarray, scale: float) -> float:
    """start . c + gamma/(1 - gamma) min(0, min c), or min(0, min c) / (1 - gamma) in every state.

    v^pi(s) - v^{pi_b}(s) = sum_t gamma^t E[ advantage(S_t) ] >= c(s) + sum over t >= 1 of gamma^t
    min(0, min c).
    """
    least, gamma = min(0.0, float(c.min())), problem.gamma
    if bound.where == EVERYWHERE:
        return least / (1 - gamma)
    later = gamma / (1 - gamma) * least if gamma > 0 else 0.0  # least may be -inf
    return bound.mean_at_start(problem, c + later, scale)


def proved_gain(problem: Problem, pi: np.ndarray, c: np.ndarray, rows: Successors) -> np.ndarray:
    """h [S] of a policy whose advantage is at least c [S]: upwards from min(0, min c)/(1 - gamma),
    or from the least that returns allow.
    """
    width, terminal = problem.return_range.width, to_numpy(problem.terminal)
    lowest = max(min(0.0, float(c.min())) / (1 - problem.gamma), -width)

    def backup(later: np.ndarray) -> np.ndarray:
        return np.where(terminal, 0.0, c + (pi * later).sum(axis=-1))

    return rows.climb(backup, np.where(terminal, 0.0, lowest))[0]


def certified(
    problem: Problem, pi: np.ndarray, found: ReturnEvidence, scale: float = 1.0
) -> np.ndarray:
    """c(s) = sum_a (pi - pi_b) q_mc - sum_a E |pi - pi_b|, [S]: the advantage of pi that the
    returns prove; 0 where pi = pi_b. q_mc is counted from the middle of the range, so that a row
    whose sum misses 1 by rounding gains nothing where all returns are large.
    """
    move, middle = pi - to_numpy(problem.pi_b), problem.return_range.middle
    q = np.where(np.isfinite(found.mean), found.mean - middle, 0.0)
    cost = times(found.radius_at(scale), abs(move))
    c: np.ndarray = (q * move).sum(axis=-1) - cost.sum(axis=-1)
    return np.where(problem.terminal, 0.0, c)


def on_policy(name: str, problem: Problem) -> None:
    """Raise unless the logged actions can be the baseline's, as its returns must be."""
    if problem.pi_b_renormalised:
        raise NotAvailableError(
            f"{name}: the baseline used actions that are not allowed and was renormalised: the log"
            " holds returns of another policy; use a bound on transitions (spibb, robust)"
        )
    if problem.off_policy:
        raise NotAvailableError(
            f"{name}: the propensities say that other policies than the baseline made this log:"
            " these are not its returns; bounds on transitions (spibb, robust, mbie) do not need"
            " them"
        )
    impossible = (
        (to_numpy(problem.n_sa) > 0)
        & (to_numpy(problem.pi_b) == 0)
        & ~to_numpy(problem.terminal)[:, None]
    )
    if impossible.any():
        s, a = np.argwhere(impossible)[0]
        raise NotAvailableError(
            f"{name}: the log takes {problem.labels.pair(s, a)}, which the baseline never does"
            f" ({int(impossible.sum())} such pairs): these are not returns of the baseline"
        )
    p = action_distance(to_numpy(problem.n_sa), to_numpy(problem.pi_b)).p_value
    if p < ANOTHER:
        raise NotAvailableError(
            f"{name}: the baseline cannot have made this log (p = {p:.2g}): these are returns of"
            " another policy; give the policy that did, or use a bound on transitions (spibb,"
            " robust)"
        )
