"""Reaching: how soon the baseline comes to states whose policy may change, from the starts and from
each other, by the log. In between, a policy that changes nothing else is the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.core import Batch
from surefoot.core.arrays import to_numpy
from surefoot.planning.starts import start_is_estimated
from surefoot.problems import Problem
from surefoot.statistics.radii import any_time_bernstein, squares_in_order

MOST = 40_000  # means, beyond which nothing is said


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
    if not 0 < union <= MOST:
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
