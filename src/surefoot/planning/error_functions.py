"""Error functions e(s, a): how uncertain a pair is, infinite where nothing was seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from surefoot.core import Returns
from surefoot.core.array_checks import not_negative, number
from surefoot.core.arrays import Array
from surefoot.core.errors import ProblemError
from surefoot.core.parameters import look_up
from surefoot.problems import Problem
from surefoot.statistics.radii import empirical_bernstein_at, hoeffding_at


def e_q(n: Array, n_states: int, n_actions: int, delta: float) -> Array:
    """e_Q = sqrt( (2/n) ln(2 S A / delta) ):  |Q - Q_hat| <= e_Q g_max for all pairs at once with
    probability 1 - delta (Scholl et al., eq. 5).
    """
    return hoeffding_at(n, math.log(2 * n_states * n_actions / delta), 2.0)


def e_p(n: Array, n_states: int, n_actions: int, delta: float) -> Array:
    """e_P = sqrt( (2/n) ln(2 S A 2^S / delta) ):  ||P - P_hat||_1 <= e_P for all pairs at once with
    probability 1 - delta.

    Weissman's inequality is over the successors, so the exponent is |S|; the paper's eq. 7 prints
    |A|. In log space: S ln 2.
    """
    log = math.log(2 * n_states * n_actions / delta) + n_states * math.log(2)
    return hoeffding_at(n, log, 2.0)


def e_b(
    n: Array, variance: Array, n_states: int, n_actions: int, delta: float, g_max: float
) -> Array:
    """e_B = 2 [ sqrt( 2 Var L / n ) + 7 L / (3 (n - 1)) ],  L = ln(4 S A / delta),  Var = variance
    / (2 g_max)^2.

    Maurer & Pontil's empirical Bernstein bound (MPeB) for returns in an interval of length 2 g_max,
    two-sided and over all pairs: |Q - Q_hat| <= e_B g_max (Scholl et al. 2022b). `variance` is the
    sample variance of the returns.
    """
    log = math.log(4 * n_states * n_actions / delta)
    return 2 * empirical_bernstein_at(n, variance / (2 * g_max) ** 2, log)


@dataclass(frozen=True)
class ErrorFunction:
    """e [..., S, A] of (problem, counts, delta, g_max), and what it asks of the problem."""

    e: Callable[[Problem, Array, float, float], Array]
    needs_returns: bool = False  # the Monte-Carlo returns of every visit
    needs_log: bool = False  # the rows themselves, to thin them


def _size(problem: Problem) -> tuple[int, int]:
    return problem.n_bound_states, problem.n_actions


def _mpeb(problem: Problem, returns: Returns, delta: float, g_max: float) -> Array:
    return e_b(returns.n, returns.variance, *_size(problem), delta, g_max)


ERRORS: Mapping[str, ErrorFunction] = MappingProxyType(
    {
        "hoeffding": ErrorFunction(lambda problem, n, delta, _: e_q(n, *_size(problem), delta)),
        "transition": ErrorFunction(lambda problem, n, delta, _: e_p(n, *_size(problem), delta)),
        "mpeb": ErrorFunction(
            lambda problem, n, delta, g_max: _mpeb(problem, problem.returns, delta, g_max),
            needs_returns=True,
        ),
        "hoeffding-thinned": ErrorFunction(
            lambda problem, n, delta, _: e_q(
                problem.returns_of("thinned").n, *_size(problem), delta
            ),
            needs_log=True,
        ),
        "mpeb-thinned": ErrorFunction(
            lambda problem, n, delta, g_max: _mpeb(
                problem, problem.returns_of("thinned"), delta, g_max
            ),
            needs_log=True,
        ),
    }
)


def error_function(
    problem: Problem, name: str, delta: float, g_max: float | None = None, *, n: Array | None = None
) -> Array:
    """e [..., S, A] by name; n defaults to the counts of the pairs.

    g_max, which only MPeB reads, defaults to half the return range.
    """
    found = look_up("error function", name, ERRORS)
    if not 0 < number("delta", delta) <= 1:
        raise ProblemError(f"delta must lie in (0, 1], got {delta!r}")
    if g_max is not None and not 0 <= number("g_max", g_max) < math.inf:
        raise ProblemError(f"g_max must be a finite number >= 0, got {g_max!r}")
    if n is not None:
        not_negative("n", n, ProblemError)
    scale = problem.return_range.g_max if g_max is None else g_max
    counts = problem.n_sa if n is None else n
    return found.e(problem, counts, delta, scale if scale > 0 else 1.0)
