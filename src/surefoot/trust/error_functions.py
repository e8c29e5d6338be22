"""Error functions e(s, a): how uncertain a pair is, infinite where nothing was seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from surefoot.parameters import look_up
from surefoot.problems import Problem
from surefoot.rows.arrays import Array, namespace


def hoeffding(n: Array, n_states: int, n_actions: int, delta: float) -> Array:
    """e_Q = sqrt( (2/n) ln(2 S A / delta) ):  |Q - Q_hat| <= e_Q g_max for all pairs at once w.p.

    1 - delta (Scholl et al., eq. 5).
    """
    return _root(n, math.log(2 * n_states * n_actions / delta))


def transition(n: Array, n_states: int, n_actions: int, delta: float) -> Array:
    """e_P = sqrt( (2/n) ln(2 S A 2^S / delta) ):  ||P - P_hat||_1 <= e_P for all pairs at once w.p.
    1 - delta.

    Weissman's inequality is over the successors, so the exponent is |S|; the paper's eq. 7 prints
    |A|. In log space: S ln 2.
    """
    return _root(n, math.log(2 * n_states * n_actions / delta) + n_states * math.log(2))


def mpeb(
    n: Array, variance: Array, n_states: int, n_actions: int, delta: float, g_max: float
) -> Array:
    """e_B = 2 [ sqrt( 2 Var L / n ) + 7 L / (3 (n - 1)) ],  L = ln(4 S A / delta),  Var = variance
    / (2 g_max)^2.

    Maurer & Pontil's empirical Bernstein bound for returns in an interval of length 2 g_max,
    two-sided and over all pairs:
    |Q - Q_hat| <= e_B g_max (Scholl et al. 2022b). Infinite where n <= 1. `variance` is the sample
    variance of the returns.
    """
    xp = namespace(n)
    log = math.log(4 * n_states * n_actions / delta)
    enough = n > 1
    count = xp.where(enough, n, 2.0)
    spread = xp.where(enough, variance, 0.0) / (2 * g_max) ** 2
    e = 2 * (xp.sqrt(2 * spread * log / count) + 7 * log / (3 * (count - 1)))
    return xp.where(enough, e, xp.inf)


def _root(n: Array, log: float) -> Array:
    """sqrt(2 log / n), infinite where n = 0."""
    xp = namespace(n)
    some = n > 0
    return xp.where(some, xp.sqrt(2 * log / xp.where(some, n, 1.0)), xp.inf)


def _of(problem: Problem) -> tuple[int, int]:
    return problem.n_bound_states, problem.n_actions


def _g_max(problem: Problem, g_max: float | None) -> float:
    return problem.return_range.g_max if g_max is None else g_max


def _mpeb_of(problem: Problem, visits: str, delta: float, g_max: float | None) -> Array:
    returns = problem.returns if visits == "every" else problem.returns_of(visits)
    scale = _g_max(problem, g_max)
    return mpeb(returns.n, returns.variance, *_of(problem), delta, scale if scale > 0 else 1.0)


@dataclass(frozen=True)
class ErrorFunction:
    """e [..., S, A] of (problem, counts, delta, g_max), and what it asks of the problem."""

    e: Callable[[Problem, Array, float, float | None], Array]
    needs_returns: bool = False  # the Monte-Carlo returns of every visit
    needs_log: bool = False  # the rows themselves, to thin them


ERRORS: Mapping[str, ErrorFunction] = MappingProxyType(
    {
        "hoeffding": ErrorFunction(
            lambda problem, n, delta, g_max: hoeffding(n, *_of(problem), delta)
        ),
        "transition": ErrorFunction(
            lambda problem, n, delta, g_max: transition(n, *_of(problem), delta)
        ),
        "mpeb": ErrorFunction(
            lambda problem, n, delta, g_max: _mpeb_of(problem, "every", delta, g_max),
            needs_returns=True,
        ),
        "hoeffding-thinned": ErrorFunction(
            lambda problem, n, delta, g_max: hoeffding(
                problem.returns_of("thinned").n, *_of(problem), delta
            ),
            needs_log=True,
        ),
        "mpeb-thinned": ErrorFunction(
            lambda problem, n, delta, g_max: _mpeb_of(problem, "thinned", delta, g_max),
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
    return found.e(problem, problem.n_sa if n is None else n, delta, g_max)
