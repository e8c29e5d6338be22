"""Ambiguity: the transitions and the starts that a log leaves open, and the worst of them. L1 balls
around its rows; what the counts of a pair's successors allow for the mean of any function of the
state after it, for all functions and all pairs at once; the start of episodes to come.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import gammaln

from surefoot.core import Support
from surefoot.core.arrays import Array, namespace, take_fields, times, to_numpy
from surefoot.planning.loop import iterate
from surefoot.planning.plan import Backup
from surefoot.problems import Arrivals, Problem
from surefoot.statistics.radii import weissman

STEPS = 10_000  # of a climb; each is a bound already
SETTLED = 1e-7  # the rise, as a share of the return range, at which a climb ends
# how far below the least of h nu is tried: near the last one, or as shares of the span of h
NEAR = np.array([1.0, 2.0, 0.5]).reshape(-1, 1, 1, 1)
NEAREST = 1e-12  # of the return range: nu stays below h
SIZES = 2.0 ** np.arange(-12, 13).reshape(-1, 1, 1, 1)
OF_ROWS = 0.2  # of delta, spent on rows; the rest is for values
MARGIN = 1e-9  # by which share the allowance is enlarged, so that rounding never breaks the proof
# of delta, spent on the start where it is estimated; a radius of values grows by about half a per
# cent for it
OF_START = 0.1


@dataclass(frozen=True, kw_only=True)
class WorstCase(Backup):
    """v -> min over the L1 balls of  sum_s' P(s') (R(s, a, s') + gamma v(s')).

    The worst case takes `mass`, half the radius, from the best successors seen and gives it to the
    worst state of all.
    """

    support: Support
    arrivals: Arrivals
    weight: Array
    mass: Array
    r: Array
    seen: Array
    declared: bool  # whether rewards come from a table
    gamma: float
    tolerance: float
    floor: Array | None = None  # no value lies below: every step up from there stays valid

    def backup(self, v: Array) -> Array:
        """One worst-case backup."""
        xp = namespace(v)
        z = self.support.reward + self.gamma * self.support.at(v)
        worst = xp.minimum(self._outside(v), self.support.least(z))
        kept = self.support.without_top(
            self.support.n * self.support.spread(self.weight), z, self.mass
        )
        q = xp.where(self.seen, kept + self.mass * xp.where(self.seen, worst, 0.0), self.r)
        return q if self.floor is None else xp.maximum(q, self.floor)

    def _outside(self, v: Array) -> Array:
        """The least R + gamma v(s') over successors never observed, [B, S, A]; a successor observed
        has its own reward.

        With a declared table there is no difference, and the least over all states will do.
        """
        xp = namespace(v)
        z = self.arrivals.plus(self.gamma * v)
        if self.declared:
            return xp.min(z, axis=-1) + xp.zeros_like(self.r)
        z = z[:, 0, 0, :]
        order = xp.argsort(z, axis=-1, stable=True)
        worst, missing = xp.full_like(self.r, xp.inf), self.seen
        # From the worst state up, until every pair has met one that it never led to.
        for j in range(z.shape[-1]):
            state = order[:, j]
            inside = self.support.has(state)
            value = xp.take_along_axis(z, state[:, None], axis=-1)[:, :, None]
            worst = xp.where(missing & ~inside, value, worst)
            missing = missing & inside
            if not bool(xp.any(missing)):
                break
        return worst

    def take(self, index: Array) -> Self:
        """The same for these problems of the batch."""
        part = take_fields(self, index, "weight", "mass", "r", "seen", "floor")
        return replace(part, support=self.support.take(index), arrivals=self.arrivals.take(index))


def within_radius(problem: Problem, radius: Array) -> WorstCase:
    """The worst case within these L1 radii of the rows of a block of problems."""
    xp = namespace(radius)
    return WorstCase(
        support=problem.support,
        arrivals=problem.arrivals,
        weight=problem.weight,
        mass=xp.minimum(0.5 * radius, xp.ones_like(radius)),
        r=problem.r,
        seen=problem.seen,
        declared=problem.reward_table is not None,
        gamma=problem.gamma,
        tolerance=problem.tolerance,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class Successors:
    """w.p. 1 - delta, for all pairs at once and however often each was seen, n:

        sum_s' k(s') ln( (k(s')/n) / P(s') )  <=  allowance,    k the counts of its successors.

    `share` is k/n at the entries of the support, `allowed` is allowance / n [1, S, A], infinite for
    a pair never seen.
    """

    support: Support
    share: np.ndarray
    allowed: np.ndarray
    gamma: float
    width: float

    def least(self, h: np.ndarray, nu: np.ndarray) -> np.ndarray:
        """nu + exp( sum_s' (k/n) ln(h(s') - nu) - allowance/n )  <=  sum_s' P(s') h(s'),  [1, S,
        A], for h [1, S] and any nu [1, S, A] below all of h; docs/certificates.md has the proof.
        """
        gap = self.support.at(h) - self.support.spread(nu)
        found: np.ndarray = nu + np.exp(self.support.dot(self.share, np.log(gap)) - self.allowed)
        return found

    def climb(
        self, backup: Callable[[np.ndarray], np.ndarray], h: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """(h, later, steps): h [S] <- max(h, backup(later)) until it hardly rises; later [S, A] is
        gamma times a lower bound on the mean of h after each pair.

        If h is a lower bound on something, and backup keeps it one, every step is. nu follows h: of
        the last one and two near it the best, and of all sizes before the climb ends.
        """
        one = np.ones(1, dtype=bool)
        state = h[None], np.zeros_like(self.allowed), np.ones_like(self.allowed), one
        (h, later, _, _), status = iterate(_Climb(self, backup), state, STEPS)
        return h[0], later[0], int(status.steps[0])


@dataclass(frozen=True)
class _Climb:
    """One step up: state (h, later, the least of h minus nu, whether to try all sizes)."""

    rows: Successors
    backup: Callable[[np.ndarray], np.ndarray]

    def advance(
        self, state: tuple[np.ndarray, ...], step: int
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        h, _, below, everything = state
        least = max(NEAREST * self.rows.width, 1e-300)
        tried = max(float(h.max() - h.min()), least) * SIZES if everything[0] else below * NEAR
        later, below = self._later(h, np.maximum(tried, least))
        new = np.maximum(h, self.backup(later[0]))
        settled = (new - h).max(axis=-1) <= SETTLED * self.rows.width
        return (new, later, below, settled), settled & everything

    def _later(self, h: np.ndarray, tried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """gamma times the best bound on the mean of h after each pair, and how far below the least
        of h its nu lies, [1, S, A]; tried [k, 1, 1 or S, 1 or A].
        """
        lowest, below = float(h.min()), np.zeros_like(self.rows.allowed)
        best = np.full(below.shape, -np.inf)
        for candidate in np.broadcast_to(tried, (len(tried), *below.shape)):
            found = self.rows.least(h, lowest - candidate)
            better = found > best
            best, below = np.where(better, found, best), np.where(better, candidate, below)
        return self.rows.gamma * np.maximum(best, lowest), below

    def take(self, index: np.ndarray) -> _Climb:
        """The same: there is one problem."""
        return self


def shares(delta: float) -> tuple[float, float]:
    """Of delta: (what values are bounded at, what rows are)."""
    return (1 - OF_ROWS) * delta, OF_ROWS * delta


def successors(problem: Problem, delta: float, scale: float = 1.0) -> Successors:
    """By the counts of the log, as if there were `scale` times as many.

    allowance = ln(pairs/delta) + sum k ln(k/n) - ln m(k),  m(k) the mean likelihood of the counts
    over rows P ~ Dirichlet(1/S, .., 1/S): m(k) / prod P^k is a martingale of mean 1 in the visits
    of a pair. The union is over the pairs that the baseline uses, a set fixed in advance.
    """
    block = problem.blocks[0]
    support, alpha = block.support, 1.0 / problem.n_states
    k, n = scale * to_numpy(support.n), scale * to_numpy(block.n_sa)
    seen, some = k > 0, np.where(n > 0, n, 1.0)
    share = k / to_numpy(support.spread(some))
    likelihood = k * np.log(np.where(seen, share, 1.0))
    mean = np.where(seen, gammaln(np.where(seen, k, 1.0) + alpha) - gammaln(alpha), 0.0)
    acting = (to_numpy(block.pi_b) > 0) & ~to_numpy(block.terminal)[..., None]
    allowance = np.log(max(int(acting.sum()), 1) / delta) + gammaln(n + 1)
    allowance = (1 + MARGIN) * (allowance + support.total(likelihood - mean))
    return Successors(
        support=support,
        share=share,
        allowed=np.where(acting & (n > 0), allowance / some, np.inf),
        gamma=problem.gamma,
        width=problem.return_range.width,
    )


def start_is_estimated(problem: Problem) -> bool:
    """Whether the start was read off several episodes.

    The start of a single one is a fact about that log, and is taken as it is.
    """
    return problem.start_episodes is not None and problem.start_episodes > 1


def left_for_values(problem: Problem, delta: float) -> float:
    """What is left of delta for the values: all of it where the start is known."""
    return (1 - OF_START) * delta if start_is_estimated(problem) else delta


def start_distance(problem: Problem, delta: float, scale: float = 1.0) -> float:
    """sup_A |start(A) - truth(A)| exceeds it w.p. <= delta, for n independent starts in m states:
    the smaller of two, each at delta / 2.

    sqrt( ln((2^m - 2) / delta) / (2n) )                  half of Weissman's L1 radius
    sum_s sqrt(start(s) / n) + sqrt( 2 ln(1/delta) / n )    whatever m is (docs/certificates.md has
    the proof)
    m: the states in which anybody acts. scale: as if there were so many times as many episodes.
    """
    assert problem.start_episodes is not None
    n = scale * problem.start_episodes
    few = 0.5 * float(weissman(np.array(n), delta / 2, int(_acting(problem).sum())))
    many = float(np.sqrt(to_numpy(problem.start) / n).sum()) + math.sqrt(
        2 * math.log(2 / delta) / n
    )
    return min(few, many, 1.0)


def least_mean(problem: Problem, h: np.ndarray, delta: float, scale: float = 1.0) -> float:
    """The least mean of h [S] over the true start: the distance is taken from the best starts and
    given to the worst state.

    h may have been chosen with the same data: all distributions within the distance are covered. It
    bounds a gain of pi over pi_b, which is nowhere below lo - hi.
    """
    acting, start = _acting(problem), to_numpy(problem.start)
    moved = start_distance(problem, delta, scale)
    best_first = np.argsort(-h, kind="stable")
    before = np.cumsum(start[best_first]) - start[best_first]
    taken = np.clip(moved - before, 0.0, start[best_first])
    kept = times(h[best_first], start[best_first] - taken).sum()
    return float(kept + moved * max(float(h[acting].min()), -problem.return_range.width))


def start_variance(problem: Problem, h: np.ndarray) -> float:
    """Var(h) / (n - 1), the variance of the mean of h [S] over starts; 0 where known."""
    if not start_is_estimated(problem):
        return 0.0
    assert problem.start_episodes is not None
    start = to_numpy(problem.start)
    return float(start @ (h - start @ h) ** 2) / (problem.start_episodes - 1)


def _acting(problem: Problem) -> np.ndarray:
    found: np.ndarray = ~to_numpy(problem.terminal)
    return found
