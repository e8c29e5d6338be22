"""A control variate for weighted episodes: what the weights alone add to their values is taken off,
as far as the past says that it helps.

Weights have mean 1 at every step, so C = sum_{t < T} gamma^t c_t (w_t - 1) has mean 0 whatever the
rewards are (w_t stays what it is when an episode has stopped). With X the value of an episode and k
set by the episodes before it, X - k C has the mean of X, given the past; k = sum X C / sum C^2 over
the past is about what makes its scatter smallest. It is a control variate: where all rewards are
about the same, the weights alone make X scatter, and hardly anything is left of that.

The floor. Let no action be more likely by a factor above W under pi than under pi_b, in any state
there is: w_t <= W^(t+1) = W_t. Let rewards lie in [m, M], 0 among them, y_t = r_t - m, width = M -
m, and  c_t = min( width, beta / (W_t - 1) ),  0 <= k <= 1.  A step adds gamma^t (w_t - 1) (y_t - k
c_t). If w_t >= 1 that is at least -gamma^t k (W_t - 1) c_t, as y_t >= 0; if w_t < 1 at least
-gamma^t y_t, as k c_t >= 0. So X - k C is at least
    A(k) = -sum_t gamma^t max( width, k (W_t - 1) c_t ),  B(k) = lo - k sum_t gamma^t (W_t - 1) c_t,
lo the floor of X (returns are at most so high above m that sum_t gamma^t y_t <= -lo). The higher
one is the floor of the episode, known before it, as k is. A lower floor costs about ln(1/delta) / n
times its depth, and a larger beta may take more scatter off: beta is the largest with a floor of at
least depth lo at k = 1,  depth = max(1, n / DEEPER)  for n episodes. By A that is depth |lo| /
sum_t gamma^t, if it is at least width; else by B (depth - 1) |lo| / sum_t gamma^t. For
whole-episode values there is one such term, (w - 1) (G - lo - k c), with W^H.

W, m, M and the number of episodes must be known before the episodes are: W is declared
(`Standard.largest_ratio`), and where the range of rewards is only observed nothing is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.errors import ProblemError
from surefoot.evidence.weights import Weights

MOST_STEPS = 1000  # after so many, and where weights may be larger than this, c_t is 0
LARGEST_WEIGHT = 1e12
DEEPER = 250  # episodes for each time that the floor of the values may be as deep again
ROUNDED = 1e-3  # by how much the rows of a policy file may miss 1


def largest_ratio(
    pi: np.ndarray,
    pi_b: np.ndarray,
    rows: Iterable[tuple[Any, Any, float]] = (),
    rows_b: Iterable[tuple[Any, Any, float]] = (),
) -> float:
    """The largest pi / pi_b, enlarged by what rounding may do to a row of a file; inf where pi does
    what pi_b never does.

    rows, rows_b: (state, action, probability) of states that the arrays do not have.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = float(np.where(pi > 0, pi / pi_b, 0.0).max(initial=0.0))
    base = {(s, a): p for s, a, p in rows_b}
    for s, a, p in rows:
        if p > 0:
            b = base.get((s, a), 0.0)
            found = max(found, p / b if b > 0 else math.inf)
    return found * (1 + ROUNDED) / (1 - ROUNDED)


@dataclass(frozen=True, repr=False, kw_only=True)
class Control:
    """C of every episode, and how low X - k C can be.

    lo      the floor of X
    width   the floor of a step, by A
    most    (W_t - 1) c_t of the steps that are centred, in rising order
    count   gamma^t of these steps; `every` is that of all steps together
    """

    values: np.ndarray
    lo: float
    width: float
    most: np.ndarray
    count: np.ndarray
    every: float

    def floors(self, k: np.ndarray) -> np.ndarray:
        """The higher one of A and B for every k."""
        paid, counted = (np.append(0.0, np.cumsum(x)) for x in (self.count * self.most, self.count))
        limit = np.divide(self.width, k, out=np.full(np.shape(k), np.inf), where=k > 0)
        below = np.searchsorted(self.most, limit, side="right")  # these cost the width
        deeper = k * (paid[-1] - paid[below]) - self.width * (counted[-1] - counted[below])
        found: np.ndarray = np.maximum(-self.width * self.every - deeper, self.lo - k * paid[-1])
        return found


def whole_control(weights: Weights, ratio: float, lo: float, horizon: int | None) -> Control | None:
    """Of whole-episode values, whose floor is lo; None where weights have no known limit."""
    if horizon is None:
        return None
    made = _shares(ratio, -lo, _depth(weights) * -lo, np.array([horizon - 1]))
    if made is None:
        return None
    found = made[0][0] * (np.exp(weights.final_log) - 1)
    return Control(values=found, lo=lo, width=-lo, most=made[1], count=np.ones(1), every=1.0)


def step_control(
    weights: Weights, gamma: float, ratio: float, width: float, lo: float, horizon: int | None
) -> Control | None:
    """Of per-decision values, whose floor is lo; rewards and 0 are at most `width` apart."""
    batch, every = weights.batch, float(discounts(gamma, 0, horizon))
    steps = MOST_STEPS if horizon is None else min(horizon, MOST_STEPS)
    if not 0 < every * width < math.inf:
        return None
    beta = _depth(weights) * -lo / every
    beta = beta if beta >= width * (1 - 1e-9) else beta + lo / every
    made = _shares(ratio, width, beta, np.arange(steps))
    if made is None:
        return None
    c, most = made
    count = gamma ** np.arange(len(c))
    each = np.append(count * c, 0.0)
    excess = np.exp(np.minimum(weights.log, math.log(LARGEST_WEIGHT))) - 1
    found = np.bincount(batch.episode, weights=each[np.minimum(batch.time, len(c))] * excess)
    left = np.append(np.cumsum(each[::-1])[::-1], 0.0)  # what the steps from t on count
    found += excess[batch.last] * left[np.minimum(batch.time[batch.last] + 1, len(c))]
    order = np.argsort(most, kind="stable")
    return Control(
        values=found, lo=lo, width=width, most=most[order], count=count[order], every=every
    )


def discounts(gamma: float, first: Any, horizon: int | None) -> Any:
    """gamma^first + ... + gamma^(horizon - 1), without end if there is no horizon."""
    if gamma == 1:
        return math.inf if horizon is None else horizon - first
    return (gamma**first - (0.0 if horizon is None else gamma**horizon)) / (1 - gamma)


def past_shares(x: np.ndarray, control: np.ndarray) -> np.ndarray:
    """k of every episode, from those before it."""
    cross, square = (np.append(0.0, np.cumsum(y * control)[:-1]) for y in (x, control))
    k = np.divide(cross, square, out=np.zeros(len(x)), where=square > 0)
    return np.asarray(np.clip(k, 0.0, 1.0))


def centred(x: np.ndarray, control: Control, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(x - k C, the floor of each), the episodes in this order."""
    x, c = x[order], control.values[order]
    k = past_shares(x, c)
    return np.asarray(x - k * c), control.floors(k)


def _depth(weights: Weights) -> float:
    return max(1.0, weights.batch.n_episodes / DEEPER)


def _shares(
    ratio: float, width: float, beta: float, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(c_t, (W_t - 1) c_t) of these steps, as long as weights are not too large; None if there
    is nothing to take off.
    """
    logs = (steps + 1) * math.log(max(ratio, 1.0))
    above = np.expm1(logs[logs < math.log(LARGEST_WEIGHT)])
    if beta <= 0 or not len(above):
        return None
    with np.errstate(divide="ignore"):
        c = np.minimum(width, beta / above)
    return c, above * c


def check_ratio(weights: Weights, ratio: float) -> None:
    """Raise where a weight of the log is larger than the ratio allows."""
    allowed = (weights.batch.time + 1) * math.log(max(ratio, 1.0))
    wrong = np.flatnonzero(weights.log > allowed + 1e-9 * (1 + allowed))
    if len(wrong):
        i = int(wrong[0])
        raise ProblemError(
            f"largest_ratio {ratio:g} does not hold: the weight of episode"
            f" {weights.batch.episode[i]} is {math.exp(weights.log[i]):.4g} after"
            f" {weights.batch.time[i] + 1} steps"
        )
