"""What time and the past explain of a gain: whether an action looks better because of when, or
after what, it was taken.

If outcomes drift and the behaviour drifts with them, or if both follow the past, an action gets
credit for its circumstances. Tests of drift and of memory see that where it is strong; here it is
taken off the gain, however weak. With x the circumstances of a step and e = y - q(s, a) what its
outcome y = r + gamma v(s') has beyond its pair, beta is the regression of e on x within pairs, and

    explained = sum over pairs of  d(s) (pi - pi_b)(a|s)  beta . ( mean of x in (s, a) - mean of x
    in s ).

Where nothing is wrong, both factors are of the order 1 / sqrt(n): their product costs next to
nothing.
"""

from __future__ import annotations

import numpy as np

from surefoot.advice.units import ENOUGH_EPISODES, Units
from surefoot.core import Batch
from surefoot.problems import Problem

# periods of the log, in the order of its rows: one for each 50 rows, from 8 to 32
PERIODS, FEWEST_ROWS = (8, 32), 50
SAMPLED_ROWS = 500_000  # rows looked at, evenly spaced
MOST_PREVIOUS_ACTIONS = 12  # beyond, the previous action is left out


def explained(
    problem: Problem, units: Units, chosen: np.ndarray, v: np.ndarray, weight: np.ndarray
) -> float:
    """The part of a gain that time and the past explain in the chosen units; `weight` is d(s) (pi -
    pi_b)(a|s), v the baseline's values.

    0 where the rows are not in memory.
    """
    log = problem.log
    if log is None or len(units.unit) != len(log):
        return 0.0
    pair = units.pair
    y = log.reward + problem.gamma * v[log.next_state]
    x = _circumstances(log, units, _within(log.reward, pair, weight.size))
    some = slice(None, None, -(-len(log) // SAMPLED_ROWS))
    pair, y, x, held_out = pair[some], y[some], x[some], chosen[units.unit[some]]
    inside = np.stack([_within(column, pair, weight.size) for column in x.T], axis=1)
    scale = np.sqrt((inside**2).mean(axis=0))
    inside = inside / np.where(scale > 1e-9, scale, np.inf)
    beta = np.linalg.lstsq(
        inside.T @ inside + 1e-6 * len(y) * np.eye(x.shape[1]),
        inside.T @ _within(y, pair, weight.size),
        rcond=None,
    )[0]
    effect = (x / np.where(scale > 1e-9, scale, np.inf)) @ beta
    pair, effect = pair[held_out], effect[held_out]
    credit = _mean(effect, pair, weight.size) - np.repeat(
        _mean(effect, pair // weight.shape[1], len(weight)), weight.shape[1]
    )
    seen = np.bincount(pair, minlength=weight.size) > 0
    return float((weight.reshape(-1) * credit)[seen].sum())


def _circumstances(log: Batch, units: Units, residual: np.ndarray) -> np.ndarray:
    """When a step was taken and after what [rows, features]: the period of the log; the step of the
    episode; the reward before (beyond its pair) and the action before; and the mean of the other
    rewards of its unit (beyond their pairs).
    """
    n = len(log)
    before = np.where(log.first, 0.0, np.append(0.0, residual[:-1]))
    count = np.bincount(units.unit, minlength=units.number)[units.unit]
    others = (
        np.bincount(units.unit, weights=residual, minlength=units.number)[units.unit] - residual
    ) / np.maximum(count - 1, 1)
    periods = min(max(n // FEWEST_ROWS, PERIODS[0]), PERIODS[1])
    columns = [*_flags(np.arange(n) * periods // n, periods), before, others]
    if log.n_episodes >= ENOUGH_EPISODES:
        columns += _flags(np.minimum(np.log2(log.time + 1).astype(int), 5), 6)
    if log.n_actions <= MOST_PREVIOUS_ACTIONS:
        columns += _flags(
            np.where(log.first, 0, np.append(0, log.action[:-1] + 1)), log.n_actions + 1
        )
    return np.stack(columns, axis=1)


def _flags(x: np.ndarray, n: int) -> list[np.ndarray]:
    """x in 0..n-1 as columns of 0 and 1, but for the first value."""
    return [(x == i).astype(float) for i in range(1, n)]


def _mean(x: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    """The mean of x in each group; 0 where it is empty."""
    found: np.ndarray = np.bincount(at, weights=x, minlength=n) / np.maximum(
        np.bincount(at, minlength=n), 1
    )
    return found


def _within(x: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    """x less the mean of its group."""
    return np.asarray(x - _mean(x, at, n)[at])
