"""Screening: a quarter of the log proposes a move in each of a few states; the rest tests them, one
test each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surefoot.core import Batch
from surefoot.core.arrays import to_numpy
from surefoot.core.errors import NotAvailableError
from surefoot.evidence.cycles import Cycles, cycles_of, star_of
from surefoot.evidence.proposals import Plan, Proposal, propose
from surefoot.evidence.reaching import Reach, reach
from surefoot.evidence.return_evidence import INDEPENDENT, bracket, shuffled, star_interval
from surefoot.problems import Problem
from surefoot.problems.problem import OFF_POLICY
from surefoot.statistics.radii import best_bet, betting_lower

PART = 4  # one episode in four proposes; of one trajectory the first quarter of the steps
OF_STAR = 0.1  # of delta, spent on the value at which cycles end
OF_REACH = 0.05  # of delta, spent on how soon the starts come to the states with a proposal
MARGIN = 1e-9  # by which share a radius is enlarged, so that rounding never breaks the proof


@dataclass(frozen=True, kw_only=True, repr=False)
class Screened:
    """Lower bounds on  sum_a move q^{pi_b}  in every state with a proposal, all at once w.p. 1 -
    delta.

    move [S, A] is 0 where nothing is proposed; q [S, A]: the baseline's values by the part that
    proposes, an estimate. draws: of the states in `state`, in order of time, none below floor [S];
    two for each visit where they lie between two values. log = ln(tests / delta). reach: how soon
    the starts, and they themselves, come to these states.
    """

    move: np.ndarray
    q: np.ndarray
    state: np.ndarray
    draws: tuple[np.ndarray, ...]
    floor: np.ndarray
    plan: Plan
    log: float
    reach: Reach
    assumptions: tuple[str, ...]

    @property
    def n(self) -> np.ndarray:
        """Draws of each state, [S]."""
        return np.bincount(self.state, minlength=len(self.floor)).astype(float)

    def lower_at(self, scale: float = 1.0) -> np.ndarray:
        """The bounds [S] if each draw had come `scale` times; 0 where nothing is proposed.

        The bet suits the draws that are expected, not those that came.
        """
        proposed = (self.move != 0).any(axis=-1)
        width = np.where(proposed, self.plan.width, 1.0)
        bet, _ = best_bet(scale * self.plan.n, self.plan.variance, self.log, width)
        log = (1 + MARGIN) * self.log
        found = [betting_lower(self.state, x, log, bet, self.floor, scale) for x in self.draws]
        lower = np.min(found, axis=0)
        return np.where(proposed, lower - MARGIN * abs(lower), 0.0)


@dataclass(frozen=True)
class _Visits:
    """First visits of states, in every episode or cycle: rows of the log, and two values between
    which the mean of each return lies, given what is seen of it.
    """

    row: np.ndarray
    low: np.ndarray
    high: np.ndarray


def screened(problem: Problem, delta: float) -> Screened:
    """Propose on one part of the log, test on the other; docs/certificates.md has the proof."""
    log = _log(problem)
    of = _trajectory if log.n_episodes == 1 else _episodes
    return of(problem, log, delta)


def _log(problem: Problem) -> Batch:
    """The log; raise unless it has stretches that start afresh."""
    log = problem.log
    if log is None:
        raise NotAvailableError(
            "screening splits the log, but the problem was built from counts: build it from its"
            " log with surefoot.problem"
        )
    if problem.off_policy:
        raise NotAvailableError(OFF_POLICY)
    if problem.pi_b_estimated:
        raise NotAvailableError(
            "screening weighs returns by the policy that made them: with a baseline estimated from"
            " the same log it proves nothing; give the true one"
        )
    if log.n_episodes == 1 and (problem.gamma == 1 or not log.cuts[-1]):
        raise NotAvailableError(
            "screening needs several episodes, or one trajectory that goes on and gamma < 1"
        )
    return log


def _states_only(log: Batch) -> Batch:
    """The same log with a single action: its pairs are states."""
    return replace(log, action=np.zeros_like(log.action), n_actions=1)


def _episodes(problem: Problem, log: Batch, delta: float) -> Screened:
    """One episode in four proposes."""
    turn = shuffled(log.n_episodes)[log.episode]
    first, rows = turn % PART == 0, np.sort(_states_only(log).first_visits)
    before, after = (rows[x[rows]] for x in (first, ~first))
    left = (1 - OF_REACH) * delta
    low, high = bracket(problem, log, before, len(log))
    found = propose(problem, log, first, (before, 0.5 * (low + high)), PART - 1.0, left)
    tested = _Visits(after, *bracket(problem, log, after, len(log)))
    soon = reach(problem, log, ~first, found.move, OF_REACH * delta, turn)
    return _tested(problem, log, found, (tested,), soon, left, (INDEPENDENT,))


def _trajectory(problem: Problem, log: Batch, delta: float) -> Screened:
    """The first quarter of the steps proposes; draws are first visits in cycles."""
    cut, only = len(log) // PART, _states_only(log)
    before, after = (cycles_of(only, problem.gamma, x) for x in ((0, cut), (cut, len(log))))
    part, left = np.arange(len(log)) < cut, (1 - OF_STAR - OF_REACH) * delta
    returns = before.row, before.x + _star_guess(before, problem) * before.d
    found = propose(problem, log, part, returns, PART - 1.0, left)
    ends = star_interval(after, problem, OF_STAR * delta, "bernstein")
    values = (after.x + v * after.d for v in ends)
    tested = tuple(_Visits(after.row, x, x) for x in values)
    soon = reach(problem, log, ~part, found.move, OF_REACH * delta, np.arange(len(log)))
    assumptions = (
        "the log was stopped after a number of steps fixed in advance",
        (
            "the trajectory starts afresh whenever it comes to state"
            f" {log.labels.state(star_of(log))}, chosen by its first steps"
        ),
    )
    return _tested(problem, log, found, tested, soon, left, assumptions)


def _star_guess(cycles: Cycles, problem: Problem) -> float:
    """v* by these cycles: an estimate, for the proposal alone."""
    lo, hi = problem.return_range.lo, problem.return_range.hi
    if len(cycles.star_x) == 0:
        return 0.5 * (lo + hi)
    return float(np.clip(cycles.star_x.mean() / (1 - cycles.star_d.mean()), lo, hi))


def _tested(
    problem: Problem,
    log: Batch,
    found: Proposal,
    visits: tuple[_Visits, ...],
    soon: Reach,
    delta: float,
    assumptions: tuple[str, ...],
) -> Screened:
    """The draws  z = (move/b) (G - q) + sum_a move q  of the action taken at each visit: their
    mean is sum_a move q^{pi_b} at most.

    Of a return that is cut, what raises z is taken at its least.
    """
    b = to_numpy(problem.pi_b).reshape(found.move.shape)
    lo, hi = problem.return_range.lo, problem.return_range.hi
    ratio = np.where(b > 0, found.move / np.where(b > 0, b, 1.0), 0.0)
    gain = (found.move * found.q).sum(axis=-1)
    end = np.where(ratio > 0, lo, hi) - found.q
    floor = gain + np.where(ratio != 0, ratio * end, 0.0).min(axis=-1)
    use = found.states[log.state[visits[0].row]]
    draws = []
    for x in visits:
        s, a = log.state[x.row[use]], log.action[x.row[use]]
        g = np.where(ratio[s, a] > 0, x.low[use], x.high[use])
        draws.append(ratio[s, a] * (g - found.q[s, a]) + gain[s])
    return Screened(
        move=found.move,
        q=found.q,
        state=log.state[visits[0].row[use]],
        draws=tuple(draws),
        floor=floor,
        plan=found.plan,
        log=float(np.log(max(int(found.states.sum()), 1) / delta)),
        reach=soon,
        assumptions=assumptions,
    )
