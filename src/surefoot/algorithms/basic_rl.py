"""Basic RL: trust the estimated model blindly; what safe policy improvement is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import Algorithm


@dataclass(frozen=True)
class BasicRL(Algorithm):
    """max_pi  v(pi; M_hat): dynamic programming on the maximum-likelihood model (Sutton & Barto).

    Like every method here it chooses among seen actions; a state never acted in keeps the baseline.
    """

    name: ClassVar[str] = "basic-rl"
