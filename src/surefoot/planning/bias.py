"""How much too high the value of a policy is, on average, in a model that was counted from data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from surefoot.core import known_model
from surefoot.planning.evaluation import evaluate

DENSE_STATES = 1000  # up to here all discounted returns to a state are solved for at once
# of what later terms may add: 0 to 1.6 was seen in ten families with 1.5 to 15 ends a pair
LATER = 2.0
PROBES = 8  # random signs that stand for them beyond; their noise falls with the number of states


@dataclass(frozen=True)
class Bias:
    """Of a value at the start: to second order, and how far the terms beyond that may reach."""

    value: float
    left: float


def plug_in_bias(
    p: sparse.csr_array,
    gamma: float,
    *,
    spent: np.ndarray,
    square: np.ndarray,
    place: np.ndarray,
    state: np.ndarray,
    next_state: np.ndarray,
    k: np.ndarray,
    on: np.ndarray,
    y: np.ndarray,
) -> Bias:
    """E v_hat - v at the start, to second order:

        gamma sum_{s,a} d(s) pi(a|s)^2 / n(s,a)  Cov( G(s', s), r + gamma v(s') | s, a ),
        G = (I - gamma P_pi)^-1.

    A value is a convex function of the transition probabilities: where a visit of (s, a) that pays
    more than usual also comes back to s more often, chance counts twice. From the expansion
    v_hat - v = d e + gamma d Delta G e + ...,  e = (r_hat - r) + gamma Delta v,  in which rows of
    Delta that belong to different pairs are independent, with mean 0 and a multinomial covariance.
    `left`: the next terms are larger by some epsilon, epsilon = gamma^2 sum_a pi^2 / n Var( G(s',
    s) | s, a ): by 3 for a self-loop and a Gaussian Delta, by less since the bias that is counted
    is too large itself.

    Entries: k visits of a place (a pair, or a state where the log's own frequencies stand for the
    policy) went from `state` to `next_state`, were worth y each, and went on in `on` cases. Of
    every place: `spent` is d, `square` pi^2 or 1. p [S, S] is P_pi.
    """
    if not len(place):
        return Bias(0.0, 0.0)
    size = len(spent)
    g = gamma * on / k * _returns_to(p, gamma, state, next_state)
    n = np.bincount(place, k, size)
    from_mean = g - (np.bincount(place, k * g, size) / np.maximum(n, 1.0))[place]
    share = square / np.maximum(n * (n - 1), 1.0)
    bias, epsilon = (share * np.bincount(place, k * from_mean * x, size) for x in (y, from_mean))
    return Bias(float((spent * bias).sum()), LATER * float((spent * np.abs(bias) * epsilon).sum()))


def _returns_to(
    p: sparse.csr_array, gamma: float, state: np.ndarray, next_state: np.ndarray
) -> np.ndarray:
    """G(s', s) of every entry; for many states an estimate without bias: E (G z)(s') z(s), where z
    are random signs.
    """
    n_states = p.shape[0]
    if n_states <= DENSE_STATES:
        g = np.linalg.solve(np.eye(n_states) - gamma * p.toarray(), np.eye(n_states))
        return np.asarray(g[next_state, state])
    rng, one = np.random.default_rng(0), np.ones((n_states, 1))
    found = np.zeros(len(state))
    for _ in range(PROBES):
        z = rng.choice([-1.0, 1.0], n_states)
        found += (
            evaluate(known_model(p, z[:, None], gamma, ends=True), one, tolerance=None)[next_state]
            * z[state]
        )
    return found / PROBES
