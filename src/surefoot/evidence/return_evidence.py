"""Return evidence: what independent returns of the baseline in a log say about q^{pi_b}, with an
error that holds for all pairs at once. One trajectory that keeps coming back to a state falls into
independent stretches between its visits there: regeneration cycles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefoot.core import Batch, Returns
from surefoot.core.arrays import Array, namespace
from surefoot.core.errors import NotAvailableError, ParameterError
from surefoot.core.parameters import check_name
from surefoot.problems import Problem
from surefoot.problems.montecarlo import apart, discounted_returns, separation, step_limit
from surefoot.problems.problem import OFF_POLICY
from surefoot.statistics.radii import (
    any_time,
    any_time_bernstein,
    empirical_bernstein,
    hoeffding,
    spent_at,
    squares_in_order,
)

LEARNING = 0.1  # the share of a trajectory that is spent on choosing the state, and then left out
ROUNDS = 10  # how often the interval of v* is made smaller; it is valid after each
RETURN_ERRORS = ("hoeffding", "mpeb", "bernstein")
INDEPENDENT = (
    "episodes are independent, their number was fixed in advance, and neither one of them nor a row"
    " is missing because of what happened there"
)
VISITS = ("independent", "first", "thinned", "cycles", "every")


@dataclass(frozen=True, repr=False)
class Regenerations:
    """First visits of pairs in completed cycles, in order of time: X, the discounted rewards up to
    the return to s*, and D = gamma^steps; `row` says where in the log each is.

    q^{pi_b}(s, a) = E X + v* E D  with  v* = v^{pi_b}(s*). The visits that begin a cycle in s* are
    apart: of these, v* = E X + v* E D.
    """

    pair: np.ndarray
    x: np.ndarray
    d: np.ndarray
    star_x: np.ndarray
    star_d: np.ndarray
    row: np.ndarray

    def value_of_star(
        self, lo: float, hi: float, radius: Callable[[np.ndarray], float]
    ) -> tuple[float, float]:
        """An interval for v*: the v in [lo, hi] with  |mean(X) - v (1 - mean(D))| <= radius of the
        draws X + v D.

        Their variance is convex in v, so over an interval it is largest at an end. From [lo, hi]
        on, the larger radius of the two ends gives a smaller interval, and so on; where the radius
        holds for X + v* D, none of them loses v*.
        """
        low, high = lo, hi
        if len(self.star_x) == 0:
            return low, high
        mean, rest = float(self.star_x.mean()), 1 - float(self.star_d.mean())
        for _ in range(ROUNDS):
            r = max(radius(self.star_x + v * self.star_d) for v in (low, high))
            low, high = max(low, (mean - r) / rest), min(high, (mean + r) / rest)
            if not low <= high:  # no v fits: the radius does not hold for this log
                return lo, hi
        return low, high


def learning_steps(log: Batch) -> int:
    """How many steps are spent on choosing s*: by the length of the trajectory alone."""
    return int(np.ceil(LEARNING * len(log)))


def star_of(log: Batch) -> int:
    """s*: the state seen most in the first steps of the trajectory."""
    return int(np.bincount(log.state[: learning_steps(log)]).argmax())


def comes_back(log: Batch, gamma: float) -> bool:
    """Whether, in the first steps, s* came back sooner on average than returns take to separate."""
    begin = learning_steps(log)
    returns = int((log.state[:begin] == star_of(log)).sum()) - 1
    return begin < separation(gamma) * returns


def regenerations_of(
    log: Batch, gamma: float, span: tuple[int, int] | None = None
) -> Regenerations:
    """The cycles of one trajectory, without its first steps; or those of the rows of a span.

    s* is chosen by what came before, so what follows is a trajectory from where the first steps
    stopped, whatever they chose.
    """
    begin, n = (learning_steps(log), len(log)) if span is None else span
    size = log.n_states * log.n_actions
    # where steps take unequal time nobody knows how long the last one of the log took
    after = -1 if n == len(log) and log.survives is not None else log.next_state[n - 1]
    states = np.append(log.state[begin:n], after)
    back = begin + np.flatnonzero(states == star_of(log))  # times in s*, n among them
    pair = log.pair
    cycle = np.searchsorted(back, np.arange(begin, n), side="right")
    first = np.unique(cycle * size + pair[begin:n], return_index=True)[1]
    first = begin + np.sort(first[cycle[first] < len(back)])  # the last cycle is not complete
    g = np.append(discounted_returns(log, gamma), 0.0)

    def until_back(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        end = back[np.searchsorted(back, at, side="right")]
        d = log.discounts_over(gamma, at, end - at)
        return g[at] - d * g[end], d

    return Regenerations(pair[first], *until_back(first), *until_back(back[:-1]), first)


@dataclass(frozen=True, kw_only=True, repr=False)
class ReturnEvidence:
    """q_hat = mean and |q^{pi_b} - q_hat - constant of the state| <= radius for all pairs at once
    w.p. 1 - delta; [..., S, A].

    The constant is 0 but for cycles; sum_a (pi - pi_b) q does not depend on it. n: returns used;
    mean: the middle of what the returns allow; variance: of the less certain end; unknown: what
    they leave open (half the mean width of what follows a cut, or of the value at which cycles
    end). `open` are the pairs the union is over; elsewhere the radius is infinite. The counts are
    `fixed` where, given which episodes meet a pair, its returns are independent.
    """

    n: Array
    mean: Array
    variance: Array
    unknown: Array
    open: Array
    delta: float
    error: str
    width: float
    n_pairs: int
    visits: str
    fixed: bool
    assumptions: tuple[str, ...]
    rigorous: bool

    @cached_property
    def radius(self) -> Array:
        """The error of mean."""
        return self.radius_at(1.0)

    def radius_at(self, scale: float) -> Array:
        """The error if there were `scale` times as many returns with the same mean and variance."""
        xp = namespace(self.n)
        found = return_radius(
            self.error,
            self.fixed,
            scale * self.n,
            self.variance,
            self.delta / self.n_pairs,
            self.width,
        )
        unknown = self.unknown / math.sqrt(scale) if self.visits == "cycles" else self.unknown
        return xp.where(
            self.open & (self.n > 0), found + xp.where(self.n > 0, unknown, 0.0), xp.inf
        )

    @property
    def returns(self) -> Returns:
        """As Monte-Carlo returns, for algorithms that read them."""
        xp = namespace(self.n)
        m2 = xp.where(self.n > 1, self.variance * xp.where(self.n > 1, self.n - 1, 0.0), 0.0)
        return Returns(self.n, self.mean, m2)


def return_radius(
    error: str, fixed: bool, n: Array, variance: Array, delta: Array | float, width: float
) -> Array:
    """The radius by this name of n draws in a range of this width, each side at delta / 2; at
    every n at once where n is not fixed.
    """
    if error == "bernstein":
        return any_time_bernstein(n, variance, delta, width)
    if error == "hoeffding":
        return hoeffding(n, delta, width) if fixed else any_time(n, delta / 2, width)
    return empirical_bernstein(n, variance, delta if fixed else spent_at(n, delta), width)


def evidence(
    problem: Problem,
    delta: float,
    *,
    error: str = "hoeffding",
    visits: str = "independent",
    steps: int | None = None,
) -> ReturnEvidence:
    """What the log says about q^{pi_b}, at failure probability delta over all pairs.

    visits: "first" uses the first visit of a pair in each episode, to the episode's end or cut;
    "cycles" uses the first visit in each cycle of one trajectory, to the end of the cycle (see
    `Regenerations`); "thinned" uses returns of `steps` steps from visits at least so far apart
    (default: where gamma^steps <= 0.01). "independent" is "first" for more than one episode; for
    one it is "cycles" if in its first tenth a state comes back sooner than returns separate, else
    "thinned", both on the rest. A return that is cut leaves open what would have followed, which
    lies in the return range: that is part of the radius. "every" uses all returns as they are, as
    the paper does: they depend on each other, and nothing is proved. error: "hoeffding", "mpeb"
    (Maurer & Pontil's empirical Bernstein) or "bernstein" (one that holds at every n at once).
    """
    check_name("error", error, RETURN_ERRORS)
    check_name("visits", visits, VISITS)
    if not 0 < delta <= 1:
        raise ParameterError(f"delta must lie in (0, 1], got {delta!r}")
    if visits == "every":
        return _every(problem, delta, error)
    log, begin = _log(problem, visits, steps), 0
    if visits == "independent" and (log.n_episodes > 1 or steps is not None):
        visits = "thinned" if steps is not None else "first"
    elif visits == "independent":
        visits = "cycles" if comes_back(log, problem.gamma) else "thinned"
        begin = learning_steps(log)
    if visits == "cycles":
        draws = _cycles(problem, log, delta, error)
    elif visits == "thinned":
        draws = _thinned(problem, log, steps, begin)
    else:
        draws = _first_visits(problem, log)
    return _summed(problem, draws, visits, delta, error)


def _log(problem: Problem, visits: str, steps: int | None) -> Batch:
    """The log; raise unless such visits can be taken from it."""
    if problem.log is None:
        raise NotAvailableError(
            "independent returns are taken from the log, but the problem was built from counts:"
            ' build it with surefoot.problem, or use visits="every"'
        )
    if problem.off_policy:
        raise NotAvailableError(OFF_POLICY)
    if problem.gamma == 1 and visits != "first":
        raise NotAvailableError(
            "gamma = 1: returns of one trajectory never separate; use whole episodes"
        )
    if steps is not None and visits not in ("independent", "thinned"):
        raise ParameterError(
            f'steps belongs to visits="thinned", not to {visits!r}, which takes returns as far as'
            " they go"
        )
    return problem.log


def with_independent_returns(problem: Problem, **options: object) -> Problem:
    """The problem with independent returns, so that algorithms read what certificates read."""
    found = evidence(problem, 0.5, **options)  # type: ignore[arg-type]
    return replace(problem, returns_given=found.returns)


def _every(problem: Problem, delta: float, error: str) -> ReturnEvidence:
    """All returns as they are, the errors of the paper: S A pairs in the union."""
    xp = namespace(problem.n_sa)
    returns, width = problem.returns, problem.return_range.width
    nothing = xp.zeros_like(returns.n)
    acting = (nothing == 0) & ~problem.terminal[..., None]
    assumption = (
        "the returns of a pair are independent and complete (they are not: visits of one episode"
        " overlap)"
    )
    return ReturnEvidence(
        n=returns.n,
        mean=returns.mean,
        variance=returns.variance,
        unknown=nothing,
        open=acting,
        delta=delta,
        error=error,
        width=width,
        n_pairs=problem.n_bound_states * problem.n_actions,
        visits="every",
        fixed=True,
        assumptions=(assumption,),
        rigorous=False,
    )


@dataclass(frozen=True)
class _Draws:
    """The draws of each pair in order of time, each in [low, high], and what must be true for them
    to be independent.

    quantities: over how many more than the means of the pairs the union is.
    """

    pair: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fixed: bool
    assumptions: tuple[str, ...]
    rigorous: bool = True
    quantities: int = 0


def _summed(
    problem: Problem, draws: _Draws, visits: str, delta: float, error: str
) -> ReturnEvidence:
    """Sums over the draws of every pair: what is certain of each, and what its cut, or the end
    of its cycle, leaves open.
    """
    shape, acting, returns = problem.pi_b.shape, _acting(problem), problem.return_range
    size, middle = problem.n_states * problem.n_actions, returns.middle
    n, (low, high), variance = _moments(error, draws.pair, (draws.low, draws.high), size, middle)
    mean = np.where(n > 0, 0.5 * (low + high), np.nan)
    n, mean, variance, unknown = (x.reshape(shape) for x in (n, mean, variance, 0.5 * (high - low)))
    if visits == "cycles":
        # v* enters every pair of a state by its own E D: only their differences matter.
        seen = acting & (n > 0)
        largest = unknown.max(axis=-1, where=seen, initial=0.0)
        least = unknown.min(axis=-1, where=seen, initial=returns.hi - returns.lo)
        unknown = np.where(seen, abs(unknown - 0.5 * (largest + least)[..., None]), 0.0)
    return ReturnEvidence(
        n=n,
        mean=mean,
        variance=variance,
        unknown=unknown,
        open=acting,
        delta=delta,
        error=error,
        width=returns.width,
        n_pairs=max(int(acting.sum()), 1) + draws.quantities,
        visits=visits,
        fixed=draws.fixed,
        assumptions=draws.assumptions,
        rigorous=draws.rigorous,
    )


def _moments(
    error: str, pair: np.ndarray, ends: tuple[np.ndarray, ...], size: int, middle: float
) -> tuple[Array, list[Array], Array]:
    """n, the mean of each end, and the larger variance as this error reads it; each [size]."""
    n = np.bincount(pair, minlength=size).astype(float)
    some = np.where(n > 0, n, 1.0)
    means = [np.bincount(pair, weights=x, minlength=size) / some for x in ends]
    if error == "bernstein":
        squares = [squares_in_order(pair, x, size, middle) for x in ends]
        return n, means, np.max(squares, axis=0) / some
    scatter = [
        np.bincount(pair, weights=(x - m[pair]) ** 2, minlength=size)
        for x, m in zip(ends, means, strict=True)
    ]
    return n, means, np.max(scatter, axis=0) / np.where(n > 1, n - 1, 1.0)


def _acting(problem: Problem) -> np.ndarray:
    """The pairs the union is over: those the baseline uses, a set fixed in advance."""
    found: np.ndarray = (problem.pi_b > 0) & ~problem.terminal[..., None]
    return found


def shuffled(n: int) -> np.ndarray:
    """A place [n] for each of n episodes, by a fixed draw of lots: it knows nothing of the order in
    which the log has them, which may be that of what happened in them.
    """
    return np.random.default_rng(0).permutation(n)


def _first_visits(problem: Problem, log: Batch) -> _Draws:
    """The first visit of every pair in every episode, to its end or cut; episodes by lots."""
    rows = log.first_visits
    rows = rows[np.argsort(shuffled(log.n_episodes)[log.episode[rows]], kind="stable")]
    assumptions = (
        INDEPENDENT,
        "a cut was decided by what had happened before it, not by what would have followed",
    )
    return _Draws(log.pair[rows], *bracket(problem, log, rows, len(log)), True, assumptions)


def _thinned(problem: Problem, log: Batch, steps: int | None, begin: int) -> _Draws:
    """Returns of k steps from visits k apart, from row `begin` on, k before the step limit."""
    k = separation(problem.gamma) if steps is None else int(steps)
    if k < 1:
        raise ParameterError(f"steps must be a whole number >= 1, got {steps!r}")
    keep = apart(log, np.arange(len(log)) >= begin, k - 1)
    limit = step_limit(log)
    rows = np.flatnonzero(keep & (log.time + k <= limit))
    assumptions = (
        "the log was stopped after a number of steps fixed in advance",
        (
            f"every episode would have been cut after {limit:g} steps"
            if limit < math.inf
            else "no episode would ever have been cut"
        ),
    )
    # a single episode that ended was not stopped after a number of steps
    fixed = bool((np.bincount(log.episode) <= limit).all() and (log.n_episodes > 1 or log.cuts[-1]))
    return _Draws(log.pair[rows], *bracket(problem, log, rows, k), False, assumptions, fixed)


def bracket(
    problem: Problem, log: Batch, rows: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest mean of a return given its first `steps`: what follows a cut
    lies in [lo, hi], as does the whole. Where steps take unequal time nobody knows how long the
    one before a cut took: what follows it counts anything between nothing and gamma.
    """
    lo, hi, gamma = problem.return_range.lo, problem.return_range.hi, problem.gamma
    g = discounted_returns(log, gamma)
    stop = log.stop[rows]
    used = np.minimum(stop - rows + 1, steps)
    beyond = rows + used
    inside = beyond <= stop
    later = log.discounts_over(gamma, rows, used)
    seen = g[rows] - np.where(inside, later * g[np.where(inside, beyond, 0)], 0.0)
    cut = ~inside & log.cuts[stop]
    least, most = later * lo, later * hi
    if log.survives is not None:
        whole = gamma * log.discounts_over(gamma, rows, used - 1)
        least = np.where(cut, whole * min(lo, 0.0), least)
        most = np.where(cut, whole * max(hi, 0.0), most)
    low, high = (
        np.where(inside | cut, np.clip(seen + end, lo, hi), g[rows]) for end in (least, most)
    )
    return low, high


def _cycles(problem: Problem, log: Batch, delta: float, error: str) -> _Draws:
    """X + v* D of first visits in cycles, at both ends of v*: one more quantity to bound."""
    if log.n_episodes > 1 or not log.cuts[-1]:
        raise NotAvailableError(
            'cycles are those of one trajectory that goes on: use visits="first" for episodes'
        )
    share = delta / (int(_acting(problem).sum()) + 1)
    cycles = regenerations_of(log, problem.gamma)
    low, high = (cycles.x + v * cycles.d for v in star_interval(cycles, problem, share, error))
    assumptions = (
        "the log was stopped after a number of steps fixed in advance",
        (
            "the trajectory starts afresh whenever it comes to state"
            f" {log.labels.state(star_of(log))}, chosen by its first {learning_steps(log)} steps"
        ),
    )
    return _Draws(cycles.pair, low, high, False, assumptions, quantities=1)


def star_interval(
    cycles: Regenerations, problem: Problem, delta: float, error: str
) -> tuple[float, float]:
    """Between which values v^{pi_b} of the state lies at which cycles end, at delta."""
    lo, hi = problem.return_range.lo, problem.return_range.hi

    def radius(y: np.ndarray) -> float:
        n, _, variance = _moments(error, np.zeros(len(y), dtype=int), (y,), 1, 0.5 * (lo + hi))
        return float(return_radius(error, False, n, variance, delta, hi - lo)[0])

    return cycles.value_of_star(lo, hi, radius)
