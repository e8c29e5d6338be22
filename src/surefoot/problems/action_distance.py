"""Agreement: how far the actions of a log are from what a policy would have taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, repr=False)
class ActionDistance:
    """Chi-square distances of every state, [S], with their exact mean (`degrees`) and variance; and
    rows that are impossible.

    The p-values come from the gamma distribution with this mean and variance, which is the
    chi-square distribution where counts are large. They take visits for independent.
    """

    distance: np.ndarray
    degrees: np.ndarray
    variance: np.ndarray
    impossible: np.ndarray

    @property
    def p_values(self) -> np.ndarray:
        """Of each state."""
        return _tail(self.distance, self.degrees, self.variance)

    @property
    def p_value(self) -> float:
        """Of all states together."""
        return float(_tail(self.distance.sum(), self.degrees.sum(), self.variance.sum()))


def action_distance(n_sa: np.ndarray, policy: np.ndarray) -> ActionDistance:
    """The distance sum_a (n(s, a) - n(s) pi(a|s))^2 / (n(s) pi(a|s)) over actions with pi > 0.

    With k actions and n visits its mean is k - 1, its variance 2 (k - 1) + (sum_a 1 / pi(a|s) - k^2
    - 2 k + 2) / n (Haldane 1937).
    """
    possible = policy > 0
    counted = np.where(possible, n_sa, 0.0)
    n = counted.sum(axis=1)
    seen = n > 0
    expected = n[:, None] * policy
    safe = np.where(possible & seen[:, None], expected, 1.0)
    distance = np.where(possible & seen[:, None], (counted - expected) ** 2 / safe, 0.0).sum(axis=1)
    k = possible.sum(axis=1)
    degrees = np.where(seen, k - 1, 0).astype(float)
    inverse = np.where(possible, 1 / np.where(possible, policy, 1.0), 0.0).sum(axis=1)
    variance = np.where(
        seen & (k > 1), 2 * degrees + (inverse - k**2 - 2 * k + 2) / np.where(seen, n, 1.0), 0.0
    )
    return ActionDistance(distance, degrees, variance, np.where(possible, 0.0, n_sa).sum(axis=1))


def _tail(distance: Any, mean: Any, variance: Any) -> np.ndarray:
    """P(X >= distance) for the gamma distribution of this mean and variance, else 1."""
    from scipy import stats  # not at the top: it is slow to load, and few need it

    some = np.asarray((mean > 0) & (variance > 0))
    mean, variance = np.where(some, mean, 1.0), np.where(some, variance, 1.0)
    return np.where(some, stats.gamma.sf(distance, mean**2 / variance, scale=variance / mean), 1.0)
