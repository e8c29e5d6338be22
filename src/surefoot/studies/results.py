"""Results of a study: one score for every cell (benchmark, size, algorithm, parameters) and
trial, with the baseline's beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.errors import ProblemError


@dataclass(frozen=True, order=True)
class Cell:
    """One algorithm with one setting, on one benchmark, at one size of data; `parameters` reads
    "epsilon=1 delta=1".
    """

    benchmark: str
    size: int
    algorithm: str
    parameters: str

    @property
    def label(self) -> str:
        """Algorithm and parameters in words."""
        return f"{self.algorithm} {self.parameters}".strip()


@dataclass(frozen=True, repr=False)
class Results:
    """score, baseline, converged [cells, trials]: higher is better; column t of every cell is the
    same trial (the same data set).

    Cells of one (benchmark, size) saw the same data, so that their differences are paired.
    """

    cells: tuple[Cell, ...]
    score: np.ndarray
    baseline: np.ndarray
    converged: np.ndarray

    def __post_init__(self) -> None:
        for name in ("score", "baseline", "converged"):
            x = getattr(self, name)
            if x.ndim != 2 or x.shape != (len(self.cells), self.n_trials):
                raise ProblemError(
                    f"{name} must be [cells, trials] = [{len(self.cells)}, {self.n_trials}], got"
                    f" {x.shape}"
                )

    def __repr__(self) -> str:
        return f"Results({len(self.cells)} cells x {self.n_trials} trials)"

    @property
    def n_trials(self) -> int:
        """The number of trials of every cell."""
        return int(self.score.shape[1])

    def where(
        self,
        *,
        benchmark: str | None = None,
        size: int | None = None,
        algorithm: str | None = None,
        parameters: str | None = None,
    ) -> Results:
        """The cells that match what is given."""
        wanted = {
            "benchmark": benchmark,
            "size": size,
            "algorithm": algorithm,
            "parameters": parameters,
        }
        keep = [
            i
            for i, cell in enumerate(self.cells)
            if all(v is None or getattr(cell, k) == v for k, v in wanted.items())
        ]
        return Results(
            tuple(self.cells[i] for i in keep),
            self.score[keep],
            self.baseline[keep],
            self.converged[keep],
        )
