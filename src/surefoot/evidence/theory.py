"""The paper's theory in code: Definitions 1 to 3 as predicates, Assumption 1 and its
counterexample, the bound of Theorem 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from surefoot.core import DenseModel, Model, known_model
from surefoot.core.arrays import Array, namespace, times, to_numpy
from surefoot.core.errors import NotAvailableError, ProblemError

ROUNDING = 1e-9  # by which share of its scale a constraint may be missed


@dataclass(frozen=True)
class Check:
    """Whether a definition holds in every state, in which state it comes closest to failing (or
    fails most), and by how much.

    `excess` is what the worst state exceeds its limit by: negative where there is room, positive
    where it is violated. It is true in a condition only if it holds: `if constrained(...)`.
    """

    holds: bool
    worst_state: int
    excess: float

    def __bool__(self) -> bool:
        return self.holds


def constrained(pi: Array, pi_b: Array, e: Array, epsilon: float) -> Check:
    """Definition 1:  sum_a e(s, a) |pi(a|s) - pi_b(a|s)| <= epsilon  in every state."""
    return _check(_spent(e, namespace(pi).abs(pi - pi_b)), epsilon)


def lower_constrained(pi: Array, pi_b: Array, e: Array, epsilon: float) -> Check:
    """Definition 3:  sum_a e(s, a) max(0, pi(a|s) - pi_b(a|s)) <= epsilon  in every state."""
    xp = namespace(pi)
    return _check(_spent(e, xp.where(pi < pi_b, 0.0, pi - pi_b)), epsilon)


def advantageous(pi: Array, pi_b: Array, q: Array) -> Check:
    """Definition 2:  sum_a q(s, a) pi(a|s) >= sum_a q(s, a) pi_b(a|s)  in every state.

    Where pi = pi_b, q is not read: it may be infinite or NaN there (a pair without a return).
    """
    xp = namespace(pi)
    move = pi - pi_b
    gain = xp.sum(times(q, move), axis=-1)
    scale = xp.max(xp.where((move != 0) & (xp.abs(q) < xp.inf), xp.abs(q), 0.0), axis=-1)
    return _check(-gain, 0.0, scale)


def _spent(e: Array, amount: Array) -> Array:
    return namespace(e).sum(times(e, amount), axis=-1)


def _check(spent: Array, limit: float, scale: Array | float = 0.0) -> Check:
    """Whether spent <= limit in every state but for rounding at its scale; NaN never passes."""
    spent, scale = (to_numpy(x).astype(float) for x in (spent, scale))
    excess = spent - limit
    worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
    room = ROUNDING * np.maximum(abs(limit), scale)
    return Check(bool((excess <= room).all()), worst % excess.shape[-1], float(excess.flat[worst]))


@dataclass(frozen=True)
class Assumption1:
    """What Assumption 1 would need on this MDP and data: `kappa` (it asks for less than 1 /
    gamma), and the pairs that break it.
    """

    kappa: float
    limit: float
    violated: np.ndarray
    undecided: np.ndarray

    @property
    def holds(self) -> bool:
        """kappa < 1 / gamma, over the pairs that can be decided."""
        return self.kappa < self.limit

    @property
    def share_violated(self) -> float:
        """The share of decided pairs that violate it."""
        decided = ~self.undecided
        return float(self.violated[decided].mean()) if decided.any() else math.nan


def assumption_1(model: Model, pi_b: np.ndarray, e: np.ndarray) -> Assumption1:
    """Assumption 1:  sum_{s', a'} e(s', a') pi_b(a'|s') P(s'|s, a)  <=  kappa e(s, a)  for all
    pairs, with kappa < 1 / gamma.

    Returns the smallest kappa that is enough. A pair whose own error is infinite satisfies it
    (anything <= inf), and so is undecided here; if an infinite error can follow a finite one, kappa
    is infinite. model is the true MDP (one problem, dense); e [S, A]; give terminal states the
    error of their pseudo-action, by the number of arrivals, as in the proof of Theorem 3.
    """
    if not isinstance(model, DenseModel):
        raise ProblemError("assumption_1 needs a dense model of the true MDP")
    if model.gamma <= 0:
        raise NotAvailableError("Assumption 1 asks for kappa < 1 / gamma: use gamma > 0")
    e, pi_b = np.asarray(e, dtype=float), np.asarray(pi_b, dtype=float)
    expected = times(e, pi_b).sum(axis=-1)  # of e in s', by the baseline's action
    p = np.asarray(model.p, dtype=float)
    following = times(np.broadcast_to(expected, p.shape), p).sum(axis=-1)
    acting = np.asarray(model.weight) > 0
    undecided = ~acting | np.isinf(e)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(undecided, -np.inf, following / np.where(undecided, 1.0, e))
    limit = 1 / model.gamma
    kappa = float(ratio.max()) if not undecided.all() else math.nan
    return Assumption1(kappa, limit, ~(ratio < limit) & ~undecided, undecided)


def counterexample(gamma: float) -> Model:
    """Theorem 3: one state, one action, n terminal states reached with probability 1/n each, with
    sqrt(n) > 1 / gamma.

    For any data that visit every state, the mean of the errors behind state 0 is at least sqrt(n)
    e(0) > e(0) / gamma, so Assumption 1 fails; state 0 is the start, states 1..n are terminal.
    """
    if not 0 < gamma < 1:
        raise ProblemError(f"the counterexample is for 0 < gamma < 1, got {gamma!r}")
    n = math.floor((1 + 1e-9) / gamma**2) + 1  # sqrt(n) > 1 / gamma, clear of rounding
    p = np.zeros((n + 1, 1, n + 1))
    p[0, 0, 1:] = 1 / n
    return known_model(p, np.zeros((n + 1, 1)), gamma, terminal_states=range(1, n + 1))


def theorem_1_bound(epsilon: float, g_max: float, gamma: float) -> float:
    """Theorem 1:  v^pi(s) - v^{pi_b}(s) >= -epsilon g_max / (1 - gamma)  in every state, with
    probability at least 1 - delta.

    For a (pi_b, epsilon, e_Q)-constrained policy that is advantageous with respect to the
    Monte-Carlo q of independent returns, where delta is the one in e_Q and g_max bounds |return|.
    """
    if not 0 <= gamma < 1:
        raise NotAvailableError(
            f"Theorem 1 divides by 1 - gamma: it needs 0 <= gamma < 1, got {gamma!r}"
        )
    if not (epsilon >= 0 and g_max >= 0):
        raise ProblemError(f"epsilon and g_max must be >= 0, got {epsilon!r} and {g_max!r}")
    return -epsilon * g_max / (1 - gamma)
