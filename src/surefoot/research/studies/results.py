"""Results of a study: a score for every cell and trial; and their summary, one row a cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.atomic import write_csv
from surefoot.core.errors import ProblemError
from surefoot.core.plain_values import SHOWN_ROWS, Shown
from surefoot.statistics.metrics import (
    Intervals,
    largest,
    mean_and_cvar,
    numbers,
    worse_than_baseline,
)


@dataclass(frozen=True, order=True)
class Cell:
    """One algorithm with one setting, on one benchmark, at one size of data.

    `parameters` reads "epsilon=1 delta=1".
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
class Results(Shown):
    """score, baseline, converged [cells, trials]: a higher score is better.

    Column t of every cell is the same trial: cells of one (benchmark, size) saw the same data, so
    that their differences are paired.
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

    def _facts(self) -> dict[str, Any]:
        return {"cells": len(self.cells), "trials": self.n_trials}

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]], int]:
        """A row a cell, as in summary.csv, without what takes long."""
        shown = self.cells[:SHOWN_ROWS]
        rows = [
            [*astuple(cell), float(score), float(baseline)]
            for cell, score, baseline in zip(
                shown, self.score.mean(axis=1), self.baseline.mean(axis=1), strict=False
            )
        ]
        header = [*(x.name for x in fields(Cell)), "mean score", "of the baseline"]
        return header, rows, len(self.cells) - len(shown)

    @property
    def n_trials(self) -> int:
        """The number of trials of every cell."""
        return int(self.score.shape[1])

    def where(self, **wanted: str | int) -> Results:
        """The cells with this benchmark, size, algorithm and parameters, as far as given."""
        return self.only(lambda cell: all(getattr(cell, k) == x for k, x in wanted.items()))

    def only(self, chosen: Callable[[Cell], bool]) -> Results:
        """The cells that are chosen."""
        keep = [i for i, cell in enumerate(self.cells) if chosen(cell)]
        arrays = (x[keep] for x in (self.score, self.baseline, self.converged))
        return Results(tuple(self.cells[i] for i in keep), *arrays)


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """One line of summary.csv, its columns in this order; NaN means "not reported".

    A CVaR of fewer than five trials is not.
    """

    benchmark: str
    size: int
    algorithm: str
    parameters: str
    trials: int
    mean: float
    mean_low: float
    mean_high: float
    cvar: float
    cvar_low: float
    cvar_high: float
    worse_than_baseline: float
    not_converged: int


def summary_rows(results: Results, how: Intervals | None = None) -> tuple[SummaryRow, ...]:
    """One row for every cell, in the order of the results; see `metrics.mean_and_cvar`."""
    if not results.cells:
        return ()
    found = numbers(mean_and_cvar(results.score, how))
    worse = worse_than_baseline(results.score, results.baseline, _scales(results))
    lost = results.n_trials - np.count_nonzero(results.converged, axis=1)
    return tuple(
        SummaryRow(
            trials=results.n_trials,
            **asdict(cell) | {name: float(x[i]) for name, x in found.items()},
            worse_than_baseline=float(worse[i]),
            not_converged=int(lost[i]),
        )
        for i, cell in enumerate(results.cells)
    )


def write_summary(path: str | Path, rows: Sequence[SummaryRow]) -> None:
    """Write summary.csv, whole or not at all."""
    write_csv(path, [field.name for field in fields(SummaryRow)], map(astuple, rows))


def _scales(results: Results) -> np.ndarray:
    """The largest score of each cell's benchmark [cells, 1]: a cell may hold only rounding."""
    names = [cell.benchmark for cell in results.cells]
    rows = {name: [i for i, other in enumerate(names) if other == name] for name in names}
    scale = {name: largest(results.score[i], results.baseline[i]) for name, i in rows.items()}
    return np.array([[scale[name]] for name in names])
