"""The summary of a study: one row per cell with mean, CVaR, their intervals and what went wrong,
and its file summary.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from surefoot.atomic import write_csv
from surefoot.errors import ProblemError
from surefoot.studies.metrics import (
    ALPHA,
    LEVEL,
    RESAMPLES,
    bootstrap,
    largest,
    worse_than_baseline,
)
from surefoot.studies.results import Cell, Results


@dataclass(frozen=True)
class SummaryRow:
    """One line of summary.csv, its columns in this order; NaN means "not reported" (a CVaR of
    fewer than five trials).
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

    @property
    def cell(self) -> Cell:
        """Benchmark, size, algorithm and parameters of the row."""
        return Cell(self.benchmark, self.size, self.algorithm, self.parameters)


COLUMNS = tuple(field.name for field in fields(SummaryRow))
READ: Mapping[Any, Callable[[str], Any]] = MappingProxyType(
    {"str": str, "int": int, "float": float}
)  # by a column's type


def summarise(
    results: Results,
    *,
    alpha: float = ALPHA,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> tuple[SummaryRow, ...]:
    """One row for every cell, in the order of the results; intervals as in `metrics.bootstrap`."""
    if not results.cells:
        return ()
    mean, tail = bootstrap(results.score, alpha=alpha, seed=seed, resamples=resamples, level=level)
    low, high = mean.interval()
    cvar_low, cvar_high = tail.interval()
    worse = worse_than_baseline(results.score, results.baseline, _scales(results))
    lost = results.n_trials - np.count_nonzero(results.converged, axis=1)
    return tuple(
        SummaryRow(
            benchmark=cell.benchmark,
            size=cell.size,
            algorithm=cell.algorithm,
            parameters=cell.parameters,
            trials=results.n_trials,
            mean=float(mean.value[i]),
            mean_low=float(low[i]),
            mean_high=float(high[i]),
            cvar=float(tail.value[i]),
            cvar_low=float(cvar_low[i]),
            cvar_high=float(cvar_high[i]),
            worse_than_baseline=float(worse[i]),
            not_converged=int(lost[i]),
        )
        for i, cell in enumerate(results.cells)
    )


def write_summary(path: str | Path, rows: Sequence[SummaryRow]) -> None:
    """Write summary.csv, whole or not at all."""
    write_csv(path, COLUMNS, [[getattr(row, name) for name in COLUMNS] for row in rows])


def read_summary(path: str | Path) -> tuple[SummaryRow, ...]:
    """The rows of a summary.csv."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    if not lines or tuple(lines[0]) != COLUMNS:
        raise ProblemError(f"{path} is no summary: its first line must read {','.join(COLUMNS)}")
    return tuple(_row(path, number, line) for number, line in enumerate(lines[1:], start=2))


def _scales(results: Results) -> np.ndarray:
    """The largest score of each cell's benchmark [cells, 1]: a cell may hold nothing but
    rounding.
    """
    names = [cell.benchmark for cell in results.cells]
    rows = {name: [i for i, other in enumerate(names) if other == name] for name in names}
    scale = {name: largest(results.score[i], results.baseline[i]) for name, i in rows.items()}
    return np.array([[scale[name]] for name in names])


def _row(path: str | Path, number: int, line: list[str]) -> SummaryRow:
    try:
        values: list[Any] = [
            READ[field.type](text) for field, text in zip(fields(SummaryRow), line, strict=True)
        ]
    except ValueError as error:
        raise ProblemError(f"{path}, line {number}: not a row of a summary ({error})") from error
    return SummaryRow(*values)
