"""A Markov reward process: its values, and its discounted visits from the start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from surefoot.core import Model, known_model
from surefoot.planning import evaluate, visits

DENSE_STATES = 1500  # up to here the linear systems are solved directly


@dataclass(frozen=True, repr=False)
class Chain:
    """v = r + gamma P v, and the discounted visits d = start + gamma P' d; P is CSR [S, S]."""

    matrix: sparse.csr_array
    r: np.ndarray
    gamma: float
    start: np.ndarray

    @cached_property
    def _model(self) -> Model:
        """The MDP with one action that goes on as this process does."""
        n, p = len(self.r), self.matrix
        dense = p.toarray()[:, None, :] if n <= DENSE_STATES else p
        return known_model(dense, self.r[:, None], self.gamma)

    @cached_property
    def v(self) -> np.ndarray:
        """Values [S]."""
        found: np.ndarray = evaluate(self._model, np.ones((len(self.r), 1)), tolerance=None)
        return found

    @cached_property
    def d(self) -> np.ndarray:
        """Discounted visits [S] from the start."""
        found: np.ndarray = visits(self._model, np.ones((len(self.r), 1)), self.start)
        return found

    @property
    def at_start(self) -> float:
        """The value at the start."""
        return float(self.start @ self.v)
