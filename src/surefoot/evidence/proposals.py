"""Proposals: one move in each of a few states, chosen by one part of a log for the tests that it
should pass on the rest. Nothing here has to be right for these tests to be valid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surefoot.core import Batch
from surefoot.core.arrays import to_numpy
from surefoot.core.batch import COLUMNS
from surefoot.planning import evaluate
from surefoot.problems import Problem
from surefoot.statistics.radii import best_bet

DOUBT = 1.0  # standard errors taken off a proposed gain, since it was chosen for being large
CLEAR = 2.0  # radii that a gain is long which should clearly pass
POOLED = 5.0  # returns of all pairs that each pair's own variance is mixed with
RECEIVERS = 6  # the best so many actions of a state are tried as receivers


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
