"""Evidence: what independent returns of the baseline in a log say about q^{pi_b}, with an error that holds for all pairs at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefoot.core import Batch, Returns
from surefoot.errors import NotAvailableError, ParameterError
from surefoot.problems import Problem
from surefoot.problems.montecarlo import apart, discounted_returns, separation, step_limit, time_in_episode
from surefoot.problems.problem import check_name
from surefoot.rows.arrays import Array, namespace
from surefoot.trust.radii import any_time, empirical_bernstein, hoeffding, spent_at

RETURN_ERRORS = ("hoeffding", "mpeb")
VISITS = ("independent", "first", "thinned", "every")


@dataclass(frozen=True, repr=False)
class Evidence:
    """q_hat = mean and |q^{pi_b} - q_hat| <= radius for all pairs at once w.p. 1 - delta; [..., S, A].

    n: returns used; mean: the middle of what the returns allow; variance: of the less certain end; unknown: half the mean width of
    what returns that were cut leave open. `open` are the pairs the union is over; elsewhere the radius is infinite. The counts are
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
        n, delta = scale * self.n, self.delta / self.n_pairs
        if self.error == "hoeffding":
            found = hoeffding(n, delta, self.width) if self.fixed else any_time(n, delta / 2, self.width)
        else:
            found = empirical_bernstein(n, self.variance, delta if self.fixed else spent_at(n, delta), self.width)
        return xp.where(self.open & (self.n > 0), found + xp.where(self.n > 0, self.unknown, 0.0), xp.inf)

    @property
    def returns(self) -> Returns:
        """As Monte-Carlo returns, for algorithms that read them."""
        xp = namespace(self.n)
        m2 = xp.where(self.n > 1, self.variance * xp.where(self.n > 1, self.n - 1, 0.0), 0.0)
        return Returns(self.n, self.mean, m2)


def evidence(
    problem: Problem, delta: float, *, error: str = "hoeffding", visits: str = "independent", steps: int | None = None
) -> Evidence:
    """What the log says about q^{pi_b}, at failure probability delta over all pairs.

    visits: "first" uses the first visit of a pair in each episode, to the episode's end or cut; "thinned" uses returns of `steps`
    steps from visits at least so far apart (default: where gamma^steps <= 0.01); "independent" is "first" for more than one episode,
    else "thinned". A return that is cut leaves open what would have followed, which lies in the return range: that is part of the
    radius. "every" uses all returns as they are, as the paper does: they depend on each other, and nothing is proved.
    error: "hoeffding" or "mpeb" (Maurer & Pontil's empirical Bernstein).
    """
    check_name("error", error, RETURN_ERRORS)
    check_name("visits", visits, VISITS)
    if not 0 < delta <= 1:
        raise ParameterError(f"delta must lie in (0, 1], got {delta!r}")
    if visits == "every":
        return _every(problem, delta, error)
    if problem.log is None:
        raise NotAvailableError(
            "independent returns are taken from the log, but the problem was built from counts: build it with surefoot.problem, or use "
            'visits="every"'
        )
    if problem.gamma == 1 and visits != "first":
        raise NotAvailableError("gamma = 1: returns of one trajectory never separate; use whole episodes")
    if visits == "independent":
        visits = "first" if problem.log.n_episodes > 1 else "thinned"
    rows, used, fixed, assumptions, rigorous = _chosen(problem, visits, steps)
    return _summed(problem, rows, used, delta, error, visits, fixed, assumptions, rigorous)


def with_independent_returns(problem: Problem, **options: object) -> Problem:
    """The problem with its Monte-Carlo returns replaced by the independent ones, so that algorithms read what certificates read."""
    found = evidence(problem, 0.5, **options)  # type: ignore[arg-type]
    return replace(problem, returns_given=found.returns)


def _every(problem: Problem, delta: float, error: str) -> Evidence:
    """All returns as they are, the errors of the paper: S A pairs in the union."""
    xp = namespace(problem.n_sa)
    returns, width = problem.returns, problem.return_range.width
    nothing = xp.zeros_like(returns.n)
    acting = (nothing == 0) & ~problem.terminal[..., None]
    assumption = "the returns of a pair are independent and complete (they are not: visits of one episode overlap)"
    n_pairs = problem.n_bound_states * problem.n_actions
    return Evidence(
        returns.n, returns.mean, returns.variance, nothing, acting, delta, error, width, n_pairs, "every", True, (assumption,), False
    )


def _chosen(problem: Problem, visits: str, steps: int | None) -> tuple[np.ndarray, np.ndarray, bool, tuple[str, ...], bool]:
    """(rows, how many steps of the return each may use, whether counts are fixed, assumptions, whether that is rigorous)."""
    log = problem.log
    assert log is not None
    pair = log.state * log.n_actions + log.action
    stop = np.flatnonzero(log.last)[log.episode]
    left = stop - np.arange(len(log)) + 1  # steps to the end of the log of this episode
    if visits == "first":
        if steps is not None:
            raise ParameterError('steps belongs to visits="thinned": a first visit uses its whole episode')
        rows = np.unique(log.episode * (log.n_states * log.n_actions) + pair, return_index=True)[1]
        whole = (
            "episodes are independent, and their number was fixed in advance",
            "a cut was decided by what had happened before it, not by what would have followed",
        )
        return rows, left[rows], True, whole, True
    k = separation(problem.gamma) if steps is None else int(steps)
    if k < 1:
        raise ParameterError(f"steps must be a whole number >= 1, got {steps!r}")
    keep = apart(log, pair, np.ones(len(log), dtype=bool), k - 1)
    limit = step_limit(log)
    rows = np.flatnonzero(keep & (time_in_episode(log) + k <= limit))
    sentences = (
        "the log was stopped after a number of steps fixed in advance",
        f"every episode would have been cut after {limit:g} steps" if limit < math.inf else "no episode would ever have been cut",
    )
    length = np.bincount(log.episode)
    one_limit = bool((length <= limit).all())
    return rows, np.minimum(left[rows], k), False, sentences, one_limit


def _summed(
    problem: Problem, rows: np.ndarray, used: np.ndarray, delta: float, error: str, visits: str, fixed: bool,
    assumptions: tuple[str, ...], rigorous: bool,
) -> Evidence:  # fmt: skip
    """Sums over the chosen returns: what is certain of each, and what its cut leaves open."""
    log = problem.log
    assert log is not None
    low, high = _bracket(problem, log, rows, used)
    size = log.n_states * log.n_actions
    pair = (log.state * log.n_actions + log.action)[rows]
    n = np.bincount(pair, minlength=size).astype(float)
    some = np.where(n > 0, n, 1.0)
    ends = [np.bincount(pair, weights=x, minlength=size) / some for x in (low, high)]
    scatter = [np.bincount(pair, weights=(x - m[pair]) ** 2, minlength=size) for x, m in zip((low, high), ends, strict=True)]
    variance = np.maximum(*scatter) / np.where(n > 1, n - 1, 1.0)
    mean = np.where(n > 0, 0.5 * (ends[0] + ends[1]), np.nan)
    n, mean, variance, unknown = (x.reshape(problem.pi_b.shape) for x in (n, mean, variance, 0.5 * (ends[1] - ends[0])))
    acting = (problem.pi_b > 0) & ~problem.terminal[..., None]
    return Evidence(
        n, mean, variance, unknown, acting, delta, error, problem.return_range.width, max(int(acting.sum()), 1), visits, fixed,
        assumptions, rigorous,
    )  # fmt: skip


def _bracket(problem: Problem, log: Batch, rows: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest mean of a return given its first `used` steps: what follows a cut lies in [lo, hi], as does the whole."""
    lo, hi, gamma = problem.return_range.lo, problem.return_range.hi, problem.gamma
    g = discounted_returns(log, gamma)
    stop = np.flatnonzero(log.last)[log.episode[rows]]
    beyond = rows + used
    inside = beyond <= stop
    later = gamma ** used.astype(float)
    seen = g[rows] - np.where(inside, later * g[np.where(inside, beyond, 0)], 0.0)
    goes_on = inside | log.cuts[stop]
    low, high = (np.where(goes_on, np.clip(seen + later * end, lo, hi), g[rows]) for end in (lo, hi))
    return low, high
