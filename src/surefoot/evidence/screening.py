"""Screening: a quarter of the log proposes a move in each of a few states, chosen for the tests
that it should pass; the rest tests them, one test each, and shows how soon the baseline comes to
these states; the bound of what passes. No proposal has to be right for its test to be valid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from surefoot.core import Batch
from surefoot.core.arrays import to_numpy
from surefoot.core.batch import COLUMNS
from surefoot.core.errors import NotAvailableError, PolicyError
from surefoot.core.evidence import APPROXIMATE, RIGOROUS
from surefoot.evidence.bound import (
    ASSUMES_MARKOV,
    EVERYWHERE,
    OWN_LOG,
    SLACK,
    Bound,
    Certificate,
    no_other_state,
    range_sentences,
)
from surefoot.evidence.return_bounds import advantage_bound, on_policy
from surefoot.evidence.return_evidence import (
    INDEPENDENT,
    Regenerations,
    bracket,
    regenerations_of,
    shuffled,
    star_interval,
    star_of,
)
from surefoot.planning import evaluate
from surefoot.planning.ambiguity import start_is_estimated
from surefoot.problems import Problem
from surefoot.problems.problem import OFF_POLICY
from surefoot.statistics.radii import any_time_bernstein, best_bet, betting_lower, squares_in_order

DOUBT = 1.0  # standard errors taken off a proposed gain, since it was chosen for being large
CLEAR = 2.0  # radii that a gain is long which should clearly pass
POOLED = 5.0  # returns of all pairs that each pair's own variance is mixed with
RECEIVERS = 6  # the best so many actions of a state are tried as receivers
MOST_MEANS = 40_000  # means, beyond which nothing is said
PART = 4  # one episode in four proposes; of one trajectory the first quarter of the steps
OF_STAR = 0.1  # of delta, spent on the value at which cycles end
OF_REACH = 0.05  # of delta, spent on how soon the starts come to the states with a proposal
MARGIN = 1e-9  # by which share a radius is enlarged, so that rounding never breaks the proof


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a test of each state is expected to see, [S]: draws, their variance, and how far their
    mean lies above the least of them.
    """

    n: np.ndarray
    variance: np.ndarray
    width: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Moves away from the baseline [S, A], 0 where none is proposed; q: the baseline's values by
    the same rows [S, A].
    """

    move: np.ndarray
    q: np.ndarray
    plan: Plan

    @property
    def states(self) -> np.ndarray:
        """Where a move is proposed, [S]."""
        found: np.ndarray = (self.move != 0).any(axis=-1)
        return found


@dataclass(frozen=True)
class _Best:
    """The best move so far in every state: score says how surely it should pass, merit by what it
    is chosen.
    """

    merit: np.ndarray
    score: np.ndarray
    move: np.ndarray
    variance: np.ndarray
    width: np.ndarray

    def or_else(self, other: _Best) -> _Best:
        """The better of two in each state."""
        ahead = other.merit > self.merit
        return _Best(
            np.where(ahead, other.merit, self.merit),
            np.where(ahead, other.score, self.score),
            np.where(ahead[:, None], other.move, self.move),
            np.where(ahead, other.variance, self.variance),
            np.where(ahead, other.width, self.width),
        )


@dataclass(frozen=True)
class _Table:
    """What some rows say of every pair [S, A]: b (0 where a pair may not move), q, the variance of
    its returns, visits; and how many draws the test of a state should have [S].
    """

    b: np.ndarray
    q: np.ndarray
    variance: np.ndarray
    n_sa: np.ndarray
    draws: np.ndarray
    lo: float
    hi: float

    def in_order(self, order: np.ndarray) -> _Table:
        """With the actions of each state in another order."""
        b, q, variance, n_sa = (
            np.take_along_axis(x, order, -1) for x in (self.b, self.q, self.variance, self.n_sa)
        )
        return replace(self, b=b, q=q, variance=variance, n_sa=n_sa)

    def scored(self, donors: int, to: int, log: float) -> _Best:
        """The first `donors` actions give all their mass to the action `to`. The score is (gain -
        its standard error) / radius that its test should have; of moves that should clearly pass,
        that counts more of which more should be proved.
        """
        move = np.where(np.arange(self.b.shape[-1]) < donors, -self.b, 0.0)
        mass = -move.sum(axis=-1)
        move[:, to] = mass
        some = (mass > 0) & (self.b[:, to] > 0)
        share = mass / np.where(some, self.b[:, to], 1.0)
        worst = np.where(move < 0, self.hi - self.q, 0.0).max(axis=-1)
        width = np.maximum(share * (self.q[:, to] - self.lo), worst)
        some &= width > 0
        width = np.where(some, width, 1.0)
        weight = np.where(self.b > 0, move**2 / np.where(self.b > 0, self.b, 1.0), 0.0)
        variance = (weight * self.variance).sum(axis=-1)
        error = np.sqrt((move**2 * self.variance / np.maximum(self.n_sa, 1.0)).sum(axis=-1))
        _, radius = best_bet(self.draws, variance, log, width)
        gain = (move * self.q).sum(axis=-1) - DOUBT * error
        score = np.where(some, gain / radius, -np.inf)
        scale = self.hi - self.lo or 1.0  # without a range there is nothing to gain
        merit = np.where(score > CLEAR, CLEAR + (gain - radius) / scale, score)
        return _Best(merit, score, move, variance, width)

    def best(self, log: float) -> _Best:
        """The move of each state that should pass by the widest margin: the actions worth least
        give all their mass to one of the best.
        """
        order = np.argsort(np.where(self.b > 0, self.q, -np.inf), axis=-1, kind="stable")
        table, size = self.in_order(order), self.b.shape[-1]
        nothing = np.zeros(len(self.b))
        best = _Best(nothing - np.inf, nothing - np.inf, 0 * self.b, nothing, nothing)
        for donors in range(1, size):
            for to in range(max(donors, size - RECEIVERS), size):
                best = best.or_else(table.scored(donors, to, log))
        back = np.argsort(order, axis=-1, kind="stable")
        return replace(best, move=np.take_along_axis(best.move, back, -1))


def propose(
    problem: Problem, log: Batch, part: np.ndarray, returns: tuple[np.ndarray, np.ndarray],
    more: float, delta: float,
) -> Proposal:  # fmt: skip
    """The best move of as many states as should all pass at delta; of one state at least, if any
    move looks good.

    part: the rows that may be read; returns: (rows, values) of first visits of states among them;
    more: how many times as many the test has.
    """
    table = _table(problem, log, part, returns, more)
    log_1 = max(float(-np.log(delta)), 1e-9)
    best = table.best(log_1)
    order = np.argsort(-best.score, kind="stable")
    together = np.sqrt(1 + np.log(np.arange(1, len(order) + 1)) / log_1)
    passing = int(np.cumprod(best.score[order] > together).sum())
    chosen = np.zeros(len(order), dtype=bool)
    chosen[order[: max(passing, 1)]] = True
    chosen &= best.score > 0
    move = np.where(chosen[:, None], best.move, 0.0)
    plan = Plan(n=table.draws, variance=best.variance, width=best.width)
    return Proposal(move=move, q=table.q, plan=plan)


def _table(
    problem: Problem,
    log: Batch,
    part: np.ndarray,
    returns: tuple[np.ndarray, np.ndarray],
    more: float,
) -> _Table:
    shape, returns_range = (problem.n_states, problem.n_actions), problem.return_range
    columns = {name: getattr(log, name)[part] for name in COLUMNS}
    beside = {name: x[part] for name, x in log.beside.items()}
    if log.survives is not None:
        beside["survives"] = _own_lengths(log, part)
    seen = problem.with_log(replace(log, **columns, beside=beside)).blocks[0]
    v = evaluate(seen.model, seen.pi_b, tolerance=None)
    q = to_numpy(seen.model.backup(v)).reshape(shape)
    rows, values = returns
    found = moments(log.pair[rows], values, shape[0] * shape[1])
    n, _, variance = (x.reshape(shape) for x in found)
    pooled = float((n * variance).sum()) / max(float(n.sum()), 1.0)
    variance = (n * variance + POOLED * pooled) / (n + POOLED)
    n_sa = to_numpy(seen.n_sa).reshape(shape)
    usable = to_numpy(problem.may_rise).reshape(shape) & (n_sa > 1)
    b = np.where(usable, to_numpy(problem.pi_b).reshape(shape), 0.0)
    lo, hi = returns_range.lo, returns_range.hi
    return _Table(b, np.clip(q, lo, hi), variance, n_sa, more * n.sum(axis=-1), lo, hi)


def _own_lengths(log: Batch, part: np.ndarray) -> np.ndarray:
    """`survives` of these rows. Of steps before cuts, whose length nobody knows, the log has the
    mean of their pair over all of its rows: here it is the mean over this part.
    """
    assert log.survives is not None
    survives, known = log.survives[part], ~log.cuts[part]
    usual = float(survives[known].mean()) if known.any() else 1.0
    return np.where(known, survives, usual)


def moments(group: np.ndarray, x: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
    """n, mean and variance (1/n) of each group, each [size]; 0 where there is nothing."""
    n = np.bincount(group, minlength=size).astype(float)
    some = np.maximum(n, 1.0)
    mean = np.bincount(group, weights=x, minlength=size) / some
    return n, mean, np.bincount(group, weights=(x - mean[group]) ** 2, minlength=size) / some


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
    before, after = (regenerations_of(only, problem.gamma, x) for x in ((0, cut), (cut, len(log))))
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


def _star_guess(cycles: Regenerations, problem: Problem) -> float:
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Reach:
    """Of n [X] draws from each source: the mean and scatter [X, K] of gamma^T where the first
    target met after T steps is the k-th, 0 where another is met first, or none.

    targets [K] are states; sources [X] are the targets, then the starts that are none. A draw from
    a target is 0 where the action taken there is one that gives mass away. delta: of one mean.
    """

    sources: np.ndarray
    targets: np.ndarray
    n: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    delta: float

    def lower_at(self, scale: float = 1.0) -> np.ndarray:
        """Lower bounds on the means, all at once, if there were `scale` times as many draws."""
        n = np.broadcast_to(scale * self.n[:, None], self.mean.shape)
        found: np.ndarray = self.mean - any_time_bernstein(n, self.variance, self.delta)
        return np.asarray(np.maximum(found, 0.0))

    def gain(self, c: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """A lower bound on v^pi - v^{pi_b} [S] for c [S], >= 0 in the targets and 0 elsewhere:
        h = c + U h in the targets, U h in the starts, U the lower bounds.
        """
        if not len(self.sources):
            return c
        u, k = self.lower_at(scale), len(self.targets)
        h = np.linalg.solve(np.eye(k) - u[:k], c[self.targets])
        found = c.copy()
        found[self.sources] = np.maximum(c[self.sources], np.append(h, u[k:] @ h))
        return found


def reach(
    problem: Problem,
    log: Batch,
    part: np.ndarray,
    move: np.ndarray,
    delta: float,
    turn: np.ndarray,
) -> Reach:
    """From the rows of this part; targets are the states with a move [S, A], which is chosen
    without them. turn [rows]: by which draws are put in order, rows of an episode alike.
    """
    targets = (move != 0).any(axis=-1)
    starts = (to_numpy(problem.start).reshape(-1) > 0) & ~targets
    # which states are starts may itself be read off the log
    if start_is_estimated(problem) or problem.start_visits:
        possible = ~to_numpy(problem.terminal).reshape(-1)
    else:
        possible = starts | targets
    k, union = np.flatnonzero(targets), int(targets.sum()) * int(possible.sum())
    sources = np.append(k, np.flatnonzero(starts))
    if not 0 < union <= MOST_MEANS:
        k = sources = k[:0]
    place = np.full(problem.n_states, -1)
    place[sources] = np.arange(len(sources))
    rows, met, worth = _first_met(log, part & (place[log.state] >= 0), targets, problem.gamma)
    order = np.argsort(turn[rows], kind="stable")
    rows, met, worth = rows[order], met[order], worth[order]
    worth = np.where(move[log.state[rows], log.action[rows]] < 0, 0.0, worth)
    group, size = place[log.state[rows]], len(sources)
    n = np.bincount(group, minlength=size).astype(float)
    mean, variance = np.zeros((2, size, len(k)))
    for i, s in enumerate(k):
        y = np.where(met == s, worth, 0.0)
        mean[:, i] = np.bincount(group, weights=y, minlength=size) / np.maximum(n, 1.0)
        variance[:, i] = squares_in_order(group, y, size, 0.5) / np.maximum(n, 1.0)
    each = delta / max(union, 1)
    return Reach(sources=sources, targets=k, n=n, mean=mean, variance=variance, delta=each)


def _first_met(
    log: Batch, use: np.ndarray, targets: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, the target met after it or -1, gamma^steps until then) of each visit of a target, and
    of the first visit of every other state since a target was met, or since the episode began;
    among the rows to use.

    A target that a cut episode has just come to is met; but where steps take unequal time nobody
    knows how long that step took, and it is not.
    """
    at = np.arange(len(log)) + log.episode  # one place more for where each episode stops
    states = np.empty(len(log) + log.n_episodes, dtype=log.state.dtype)
    states[at], states[at[log.last] + 1] = log.state, log.next_state[log.last]
    marks = np.flatnonzero(targets[states])
    rows = np.flatnonzero(use)
    stretch = np.searchsorted(marks, at[rows]) * log.n_episodes + log.episode[rows]
    key = stretch * log.n_states + log.state[rows]
    rows = rows[np.sort(np.unique(key, return_index=True)[1])]
    end = np.append(marks, len(states))[np.searchsorted(marks, at[rows] + targets[log.state[rows]])]
    stop = log.stop[rows]
    unknown = log.cuts[stop] if log.survives is not None else False
    meets = end <= at[stop] + ~np.asarray(unknown)
    met = np.where(meets, states[np.where(meets, end, 0)], -1)
    steps = np.where(meets, end - at[rows], 0)
    return rows, met, log.discounts_over(gamma, rows, steps)


@dataclass(frozen=True, kw_only=True)
class ScreenedAdvantageBound(Bound):
    """c(s) = theta lower bound of  sum_a move q^{pi_b},  for a policy  pi = pi_b + theta move  with
    theta in [0, 1] in every state. Where c >= 0 everywhere, v^pi - v^{pi_b} at a start is at least
    E[ gamma^T c(S_T) ], S_T the first state with a proposal that the baseline comes to.

    The moves are those that a quarter of the log proposes; any other policy is refused.
    """

    name: ClassVar[str] = "screened-advantage"

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate of a policy along the proposed moves."""
        on_policy(self.name, problem)
        found = screened(problem, self.left(problem))
        theta, off = self._along(problem, pi, found)

        def bound_at(scale: float) -> float:
            c = np.where(theta > 0, theta * found.lower_at(scale), 0.0) - off
            if self.where == EVERYWHERE or c.min() < 0:
                return advantage_bound(self, problem, c, scale)
            return self.mean_at_start(problem, found.reach.gain(c, scale), scale)

        tests = int((found.move != 0).any(axis=-1).sum())
        part = "episode" if problem.log is None or problem.log.n_episodes > 1 else "row"
        note = f"one {part} in {PART} proposed moves in {tests} states, the others tested them"
        return self.certificate(
            problem,
            pi,
            bound_at,
            label=RIGOROUS if problem.return_range.declared else APPROXIMATE,
            assumptions=(
                ASSUMES_MARKOV,
                no_other_state(problem),
                OWN_LOG,
                *found.assumptions,
                *range_sentences(problem),
            ),
            n=np.broadcast_to(found.n[:, None], pi.shape),
            notes=(note,),
        )

    def _along(
        self, problem: Problem, pi: np.ndarray, found: Screened
    ) -> tuple[np.ndarray, np.ndarray]:
        """(theta [S] with pi = pi_b + theta move, what rounding may cost); raise where there is
        none.
        """
        change = pi - to_numpy(problem.pi_b)
        squares = (found.move**2).sum(axis=-1)
        theta = (change * found.move).sum(axis=-1) / np.where(squares > 0, squares, 1.0)
        off = abs(change - theta[:, None] * found.move).sum(axis=-1)
        wrong = (off > SLACK) | (theta < 0) | (theta > 1 + SLACK)
        if wrong.any():
            raise PolicyError(
                f"{self.name}: in {int(wrong.sum())} states the policy leaves the moves that a part"
                f" of the log proposed, first in state {problem.labels.state(np.argmax(wrong))}:"
                ' improve with "screened-advantage" at this delta, or ask for the bound "advantage"'
            )
        return np.clip(theta, 0.0, 1.0), off * problem.return_range.width
