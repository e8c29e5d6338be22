"""HCPI in three steps, for tests that propose a policy of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from surefoot.core import Batch
from surefoot.core.evidence import Evidence
from surefoot.evidence import Standard, best_of, mixtures, split_episodes


def hcpi(
    batch: Batch,
    propose: Callable[[Batch], np.ndarray],
    pi_b: np.ndarray,
    gamma: float,
    standard: Standard,
    *,
    rng: np.random.Generator,
    share: float = 0.2,
) -> tuple[np.ndarray, Evidence, tuple[float, ...]]:
    """Split the episodes, propose a policy from one part, test its best mixture on the other."""
    training, held_out = split_episodes(batch, rng, share)
    candidates = mixtures(propose(training), pi_b)
    return best_of(training, held_out, candidates, pi_b, gamma, standard, rng=rng)
