"""Algorithms with a proof: probability moves only where the returns of the log prove, errors
included, that it does no harm (certified), that all that follows makes up for it (planned), or
where one part of the log proposed a move that the rest tested (screened).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from surefoot.algorithms.algorithm import RESTRICTS, Algorithm, Fitting, Restricts, Whole
from surefoot.core import Solution, Status
from surefoot.core.arrays import (
    Array,
    actions_first,
    count_up,
    first_max,
    namespace,
    only,
    row_sum,
    times,
    to_numpy,
)
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import check_choice, check_number
from surefoot.evidence.return_evidence import RETURN_ERRORS, VISITS, ReturnEvidence, evidence
from surefoot.evidence.screening import screened
from surefoot.planning.advantage import Maximum, best_moves
from surefoot.planning.ambiguity import STEPS, left_for_values, shares, successors
from surefoot.problems import Problem

MARGIN = 1e-9  # by which share errors are enlarged, so that rounding never breaks the proof


@dataclass(frozen=True)
class _FromEvidence(Algorithm):
    """Abstract: what both forms share.

    q_mc are Monte-Carlo values of the baseline and E their error, |q^{pi_b} - q_mc| <= E for all
    pairs w.p. 1 - delta (`evidence`). visits says which returns are used; "every" needs no log, and
    proves nothing. Where the start is estimated a tenth of delta is left for it, so that the
    certificate at the start finds the same c.
    """

    taxonomy: ClassVar[str] = RESTRICTS
    delta: float = 0.05
    error: str = "bernstein"
    visits: str = "independent"

    def __post_init__(self) -> None:
        check_number(self, "delta", low=0, high=1, open_low=True)
        check_choice(self, "error", RETURN_ERRORS)
        check_choice(self, "visits", VISITS)

    @property
    def needs_log(self) -> bool:
        """Every return is there without it."""
        return self.visits != "every"

    @property
    def needs_returns(self) -> bool:
        """Those that are not read off the log."""
        return self.visits == "every"

    @property
    def proof(self) -> Fitting:
        """Its own certificate, at its own parameters."""
        own = {"delta": self.delta, "error": self.error, "visits": self.visits}
        return "certified-advantage", own

    def certified(self, problem: Problem) -> CertifiedTrust:
        """The policies whose advantage is certified."""
        delta = left_for_values(problem, self.delta)
        return certified_trust(
            problem, evidence(problem, delta, error=self.error, visits=self.visits)
        )


@dataclass(frozen=True)
class CertifiedAdvantage(_FromEvidence, Restricts):
    """max_pi  v(pi; M_hat)   s.t.   c(s) >= 0   in every state,   with

        c(s) = sum_a (pi - pi_b) q_mc  -  sum_a E |pi - pi_b|.

    By the performance difference lemma v^pi >= v^{pi_b} in every state then: no epsilon, and no
    slack. A state in which nothing is proved keeps the baseline.
    """

    name: ClassVar[str] = "certified-advantage"

    def trust(self, problem: Problem, n: Array) -> CertifiedTrust:
        """The policies whose advantage is certified, by the samples of the evidence."""
        return self.certified(problem)


@dataclass(frozen=True)
class OneStepCertifiedAdvantage(_FromEvidence, Whole):
    """max_pi  c(s)  in every state, in closed form and without a model; c, q_mc and E as in
    `CertifiedAdvantage`.

    The receiver is the action with the best lower bound q_mc - E; every action whose upper bound
    q_mc + E lies below it gives it all its mass.
    """

    name: ClassVar[str] = "one-step-certified-advantage"

    def solve(self, problem: Problem) -> Solution:
        """One step."""
        xp = namespace(problem.pi_b)
        trust = self.certified(problem)
        q = xp.where(trust.error < xp.inf, trust.w, problem.return_range.lo)
        q = xp.where(problem.terminal[..., None], 0.0, q)
        one = xp.ones_like(problem.pi_b[:, 0, 0], dtype=xp.int64)
        return Solution(problem.pi_b + trust.best_move(trust.w, 1.0), q, Status(one > 0, one))


def certified_trust(problem: Problem, found: ReturnEvidence) -> CertifiedTrust:
    """w and E from the evidence; a pair without a finite error moves neither way."""
    xp = namespace(found.n)
    known = (found.radius < xp.inf) & ~problem.terminal[..., None]
    w = xp.where(known, found.mean, 0.0)
    error = xp.where(
        known, (1 + MARGIN) * found.radius + 1e-13 * problem.return_range.v_max, xp.inf
    )
    return CertifiedTrust(problem.pi_b, w, error, problem.may_rise & known, problem.tolerance)


@dataclass(frozen=True)
class CertifiedTrust:
    """c(pi) = w . (pi - b) - error . |pi - b| >= 0 in every row, solved exactly; a pair with an
    infinite error does not move.
    """

    maximises: ClassVar[bool] = True
    price: ClassVar[None] = None
    slack: ClassVar[float] = 0.0  # what is proved is proved
    b: Array
    w: Array
    error: Array
    may_rise: Array
    tolerance: float

    def c(self, move: Array) -> Array:
        """c [...] of a move away from b."""
        return row_sum(times(self.w, move)) - row_sum(times(self.error, namespace(move).abs(move)))

    def worth(self, q: Array, move: Array) -> Array:
        """q . move [...]: nothing but the constraint has a price."""
        return row_sum(q * move)

    def best_move(self, value: Array, price: Array | float) -> Array:
        """argmax of  value . move - price error . |move|:  all mass that gains goes to the best
        value - price error.
        """
        xp = namespace(value)
        known = self.error < xp.inf
        cost = price * xp.where(known, self.error, 0.0)
        rows = xp.reshape(xp.where(self.may_rise, value - cost, -1e300), (-1, value.shape[-1]))
        columns = actions_first(rows)
        best = xp.reshape(xp.max(columns, axis=0), value.shape[:-1])[..., None]
        receiver = xp.reshape(first_max(columns), value.shape[:-1])[..., None]
        gives = known & (value + cost < best - self.tolerance)
        given = only(gives, self.b)
        to = count_up(value.shape[-1], value) == receiver
        return only(to, xp.zeros_like(given) + row_sum(given)[..., None]) - given

    def step(self, q: Array, pi: Array) -> Array:
        """argmax q . pi  s.t.  c(pi) >= 0:  where the best move is not certified, the search of
        `planning.advantage`; each of its maxima is a closed form.
        """
        xp = namespace(q)
        flat = self._each(lambda x: xp.reshape(x, (-1, x.shape[-1])))
        q = xp.reshape(q, flat.b.shape)
        moves, _ = best_moves(q, flat.best_move(q, 0.0), flat)
        return self.b + xp.reshape(moves, self.b.shape)

    def maximise(self, q: Array, mu: Array) -> Maximum:
        """Of q . m + mu c(m): the best move for q + mu w at the price mu of errors."""
        xp = namespace(q)
        price = mu[:, None]
        move = self.best_move(q + price * self.w, price)
        size = 1.0 + xp.max(xp.abs(q), axis=-1) + mu * xp.max(xp.abs(self.w), axis=-1)
        return Maximum(move, row_sum(q * move) + mu * self.c(move), 1e-14 * size + self.tolerance)

    def take(self, index: Array) -> CertifiedTrust:
        """The same for these problems of the batch, or for these rows."""
        xp = namespace(self.b)
        return self._each(lambda x: xp.take(x, index, axis=0))

    def _each(self, change: Callable[[Array], Array]) -> CertifiedTrust:
        b, w, error, may_rise = map(change, (self.b, self.w, self.error, self.may_rise))
        return replace(self, b=b, w=w, error=error, may_rise=may_rise)


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
