"""A Markov reward process: its values and its discounted visits, by a direct or an iterative
solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.errors import NotAvailableError

DENSE_STATES = 1500  # up to here linear systems are solved directly
ACCURACY = 1e-9  # relative residual of iterative solutions


@dataclass(frozen=True, repr=False)
class Chain:
    """A Markov reward process: v = r + gamma P v, and the discounted visits d = start + gamma P'
    d.
    """

    matrix: Any
    r: np.ndarray
    gamma: float
    start: np.ndarray

    @cached_property
    def v(self) -> np.ndarray:
        """Values [S]."""
        return solve(self.matrix, self.r, self.gamma)

    @cached_property
    def d(self) -> np.ndarray:
        """Discounted visits [S] from the start."""
        return solve(self.matrix.T.tocsr(), self.start, self.gamma)

    @property
    def at_start(self) -> float:
        """The value at the start."""
        return float(self.start @ self.v)


def solve(matrix: Any, right: np.ndarray, gamma: float) -> np.ndarray:
    """x = right + gamma matrix x."""
    n = len(right)
    if n <= DENSE_STATES:
        try:
            found: np.ndarray = np.linalg.solve(np.eye(n) - gamma * matrix.toarray(), right)
        except np.linalg.LinAlgError as error:
            raise NotAvailableError(
                "gamma = 1 and a part of the log in which episodes do not end: use gamma < 1"
            ) from error
        if gamma == 1 and not np.abs(found).max() < 1e10 * (1 + np.abs(right).max()):
            raise NotAvailableError(
                "gamma = 1 and a part of the log in which episodes do not end: use gamma < 1"
            )
        return found
    if gamma == 1:
        raise NotAvailableError(f"gamma = 1 is possible up to {DENSE_STATES} states: use gamma < 1")
    from scipy.sparse.linalg import LinearOperator, bicgstab

    operator = LinearOperator((n, n), matvec=lambda x: x - gamma * (matrix @ x), dtype=float)
    x, _ = bicgstab(operator, right, rtol=ACCURACY, maxiter=500)
    residual = right + gamma * (matrix @ x) - x
    size = np.abs(right).sum()
    for _ in range(100_000):  # sweeps converge in any case
        if np.abs(residual).sum() <= 10 * ACCURACY * size:
            break
        x = x + residual
        residual = gamma * (matrix @ residual)
    return np.asarray(x)
