"""The bias of a plug-in value by loops: the naive twin of `plug_in_bias`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefoot.planning.evaluation import LATER

Outcome = tuple[int, float, float, float]  # next state, visits, of which went on, worth of each
Place = tuple[float, float, int, Sequence[Outcome]]  # spent, square, state, outcomes


def bias_by_loops(p: np.ndarray, gamma: float, places: Sequence[Place]) -> tuple[float, float]:
    """(value, left): of every place the covariance of what a visit is worth with how often it comes
    back, divided by the visits.
    """
    returns = np.linalg.inv(np.eye(len(p)) - gamma * p)
    value = left = 0.0
    for spent, square, state, outcomes in places:
        n = sum(k for _, k, _, _ in outcomes)
        if n < 2:
            continue
        back = [gamma * on / k * returns[to, state] for to, k, on, _ in outcomes]
        mean = sum(x * k for x, (_, k, _, _) in zip(back, outcomes, strict=True)) / n
        both = list(zip(back, outcomes, strict=True))
        worth = sum(k * y for _, k, _, y in outcomes) / n
        covariance = sum(k * (x - mean) * (y - worth) for x, (_, k, _, y) in both) / (n - 1)
        variance = sum(k * (x - mean) ** 2 for x, (_, k, _, _) in both) / (n - 1)
        term = spent * square / n * covariance
        value += term
        left += LATER * abs(term) * square / n * variance
    return value, left
