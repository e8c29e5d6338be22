"""Starts: where episodes start, by those of a log, and the least mean the log allows."""

from __future__ import annotations

import math

import numpy as np

from surefoot.core.arrays import times, to_numpy
from surefoot.problems import Problem
from surefoot.statistics.radii import weissman

# of delta, spent on the start where it is estimated; a radius of values grows by about half a per
# cent for it
SHARE = 0.1


def start_is_estimated(problem: Problem) -> bool:
    """Whether the start was read off several episodes.

    The start of a single one is a fact about that log, and is taken as it is.
    """
    return problem.start_episodes is not None and problem.start_episodes > 1


def left_for_values(problem: Problem, delta: float) -> float:
    """What is left of delta for the values: all of it where the start is known."""
    return (1 - SHARE) * delta if start_is_estimated(problem) else delta


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
