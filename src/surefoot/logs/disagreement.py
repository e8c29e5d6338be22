"""Disagreement: whether a baseline can have made the log, and in which states it can not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from surefoot.errors import BaselineError
from surefoot.logs.baseline import Baseline
from surefoot.logs.labels import as_text

if TYPE_CHECKING:
    from surefoot.logs.log import Log


@dataclass(frozen=True, repr=False)
class Disagreement:
    """Chi-square distances between the actions of the log and a baseline.

    distance [S]    sum_a (n(s, a) - n(s) pi_b(a|s))^2 / (n(s) pi_b(a|s)) over actions with pi_b > 0; 0 in states never visited
    degrees [S]     the number of actions with pi_b > 0, less 1
    p_values [S]    of each state; p_value of all together
    impossible      rows with an action of probability 0; `impossible_in` [S] by state
    """

    distance: np.ndarray
    degrees: np.ndarray
    p_values: np.ndarray
    p_value: float
    impossible_in: np.ndarray
    states: tuple[Any, ...]
    visits: np.ndarray

    @property
    def impossible(self) -> int:
        """Rows whose action has probability 0 under the baseline."""
        return int(self.impossible_in.sum())

    def worst(self, n: int = 5) -> list[tuple[Any, float, float, int]]:
        """(label, distance, p-value, impossible rows) of the states that disagree most."""
        order = np.lexsort((-self.distance, self.p_values, -self.impossible_in))
        chosen = [int(i) for i in order if self.impossible_in[i] or self.distance[i] > 0][:n]
        return [(self.states[i], float(self.distance[i]), float(self.p_values[i]), int(self.impossible_in[i])) for i in chosen]

    def __str__(self) -> str:
        total = f"chi-square {self.distance.sum():.4g} on {int(self.degrees.sum())} degrees of freedom, p = {self.p_value:.3g}"
        lines = [f"{self.impossible} rows take an action of probability 0; {total}"]
        lines += [f"  {as_text(s)}: distance {d:.4g}, p = {p:.3g}, {k} impossible rows" for s, d, p, k in self.worst()]
        return "\n".join(lines)


def disagreement(log: Log, pi_b: Baseline | np.ndarray) -> Disagreement:
    """Compare the actions of a log with a baseline.

    The p-values come from the gamma distribution with the exact mean and variance of the distance, which is the chi-square
    distribution where counts are large: with k actions and n visits, mean k - 1, variance
    2 (k - 1) + (sum_a 1 / pi_b(a|s) - k^2 - 2 k + 2) / n (Haldane 1937). They take visits for independent.
    """
    policy = pi_b.pi_b if isinstance(pi_b, Baseline) else np.asarray(pi_b, dtype=float)
    if policy.shape != log.n_sa.shape:
        raise BaselineError(f"pi_b must be [S, A] = {list(log.n_sa.shape)}, got {list(policy.shape)}")
    n_sa = log.n_sa
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
    variance = np.where(seen & (k > 1), 2 * degrees + (inverse - k**2 - 2 * k + 2) / np.where(seen, n, 1.0), 0.0)
    return Disagreement(
        distance, degrees, _tail(distance, degrees, variance), float(_tail(distance.sum(), degrees.sum(), variance.sum())),
        np.where(possible, 0.0, n_sa).sum(axis=1), log.states, n_sa.sum(axis=1),
    )  # fmt: skip


def _tail(distance: Any, mean: Any, variance: Any) -> np.ndarray:
    """P(X >= distance) for the gamma distribution with this mean and variance; 1 where there is nothing to compare."""
    some = np.asarray((mean > 0) & (variance > 0))
    mean, variance = np.where(some, mean, 1.0), np.where(some, variance, 1.0)
    return np.where(some, stats.gamma.sf(distance, mean**2 / variance, scale=variance / mean), 1.0)
