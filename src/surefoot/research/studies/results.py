"""Results of a study: a score for every cell and trial; their summary and their differences, one
row a cell; and the files and pictures of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core.atomic import write_csv
from surefoot.core.errors import ProblemError, StudyError
from surefoot.core.plain_values import SHOWN_ROWS, Shown
from surefoot.core.policy import framed
from surefoot.core.text import aligned
from surefoot.research.studies.spec import Study
from surefoot.statistics.metrics import (
    Intervals,
    largest,
    mean_and_cvar,
    numbers,
    worse_than_baseline,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    """score, baseline, converged [cells, trials]: a higher score is better; seconds [cells] of the
    processor that one trial took the algorithm, and the study, where they are known.

    Column t of every cell is the same trial: cells of one (benchmark, size) saw the same data, so
    that their differences are paired.
    """

    cells: tuple[Cell, ...]
    score: np.ndarray
    baseline: np.ndarray
    converged: np.ndarray
    seconds: np.ndarray | None = None
    study: Study | None = None

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

    def how(self, alpha: float | None = None) -> Intervals:
        """How intervals are made; CVaR at alpha, unless given that of the study."""
        known = (
            Intervals() if self.study is None else Intervals(self.study.alpha, seed=self.study.seed)
        )
        return known if alpha is None else replace(known, alpha=alpha)

    def summary(self, alpha: float | None = None) -> CellTable:
        """Mean and CVaR of every cell with 95 % intervals; see `SummaryRow`."""
        return CellTable(summary_rows(self, self.how(alpha)), self.how(alpha).alpha)

    def differences(self, reference: str, alpha: float | None = None) -> CellTable:
        """Every setting less the `reference`, which is named as in the cells, on the same trials.

        Paired 95 % intervals; see `Difference`.
        """
        rows = difference_rows(self, reference, self.how(alpha))
        return CellTable(rows, self.how(alpha).alpha, f"less {reference}")

    def to_frame(self) -> Any:
        """One row a cell and trial: a pandas frame, a polars frame, an Arrow table, or a dict of
        columns, by what is installed.
        """
        header = (*(x.name for x in fields(Cell)), "trial", "score", "baseline", "converged")
        rows = [
            (
                *astuple(cell),
                t,
                *(x[i, t].item() for x in (self.score, self.baseline, self.converged)),
            )
            for i, cell in enumerate(self.cells)
            for t in range(self.n_trials)
        ]
        return framed(header, rows)

    def plot(self, metric: str | None = None, **options: Any) -> list[Axes]:
        """Mean and CVaR over the size of the data; see `surefoot.research.figures.plot_results`."""
        from surefoot.research.figures import plot_results

        return plot_results(self, metric, **options)

    def save(self, out: str | Path) -> list[Path]:
        """Write summary.csv, the figures and report.html into a folder, as `surefoot run` does."""
        from surefoot.research.figures import save_results

        return save_results(self, Path(out))

    def where(self, **wanted: str | int) -> Results:
        """The cells with this benchmark, size, algorithm and parameters, as far as given."""
        return self.only(lambda cell: all(getattr(cell, k) == x for k, x in wanted.items()))

    def only(self, chosen: Callable[[Cell], bool]) -> Results:
        """The cells that are chosen."""
        keep = [i for i, cell in enumerate(self.cells) if chosen(cell)]
        score, baseline, converged = (x[keep] for x in (self.score, self.baseline, self.converged))
        return replace(
            self,
            cells=tuple(self.cells[i] for i in keep),
            score=score,
            baseline=baseline,
            converged=converged,
            seconds=None if self.seconds is None else self.seconds[keep],
        )


@dataclass(frozen=True, kw_only=True)
class CellRow:
    """Abstract: mean and CVaR of a cell, or of a difference, with interval ends.

    NaN means "not reported": a CVaR of fewer than five trials is not.
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


@dataclass(frozen=True, kw_only=True)
class SummaryRow(CellRow):
    """One line of summary.csv, its columns in this order."""

    worse_than_baseline: float
    not_converged: int


@dataclass(frozen=True, kw_only=True)
class Difference(CellRow):
    """A setting less the reference on the same trials: decided where the interval is clear of 0."""

    reference: str


@dataclass(frozen=True, repr=False)
class CellTable(Shown):
    """Rows about cells: a table in a notebook, a frame, a sequence."""

    rows: tuple[CellRow, ...]
    alpha: float
    what: str = ""

    def __iter__(self) -> Iterator[CellRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def _facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"rows": len(self.rows), "CVaR_at": self.alpha}
        return found | ({"differences": self.what} if self.what else {})

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]], int]:
        header = [x.name for x in fields(self.rows[0])] if self.rows else []
        shown = [astuple(row) for row in self.rows[:SHOWN_ROWS]]
        return header, shown, len(self.rows) - len(shown)

    def __str__(self) -> str:
        """One line a row."""
        columns = [
            [f"{row.benchmark} {row.size:,}", f"{row.algorithm} {row.parameters}".strip()]
            + [_with_ends(row, metric) for metric in ("mean", "cvar")]
            for row in self.rows
        ]
        header = ["benchmark, size", "setting", f"mean {self.what}", f"{100 * self.alpha:g}%-CVaR"]
        return "\n".join(aligned([[x.strip() for x in header], *columns], "<<>>"))

    def to_frame(self) -> Any:
        """One row a cell; the library as `Results.to_frame`."""
        header = [x.name for x in fields(self.rows[0])] if self.rows else []
        return framed(header, [astuple(row) for row in self.rows])


def _with_ends(row: CellRow, metric: str) -> str:
    value, low, high = (getattr(row, metric + x) for x in ("", "_low", "_high"))
    if value != value:
        return "not reported"
    return f"{value:.4g}" if low != low else f"{value:.4g} [{low:.4g}, {high:.4g}]"


def difference_rows(
    results: Results, reference: str, how: Intervals | None = None
) -> tuple[Difference, ...]:
    """Every other setting less the reference, in the order of the results."""
    cells = results.cells
    labels = list(dict.fromkeys(cell.label for cell in cells))
    known = [x for x in labels if x == reference] or list(
        dict.fromkeys(cell.label for cell in cells if cell.algorithm == reference)
    )
    if len(known) != 1:
        what = "is the name of several settings" if known else "is not among the settings"
        raise StudyError(f"{reference!r} {what}; there are: {', '.join(labels)}")
    first = {(c.benchmark, c.size): i for i, c in enumerate(cells) if c.label == known[0]}
    pairs = [
        (i, first[c.benchmark, c.size])
        for i, c in enumerate(cells)
        if c.label != known[0] and (c.benchmark, c.size) in first
    ]
    contrasts = [((i, 1.0), (j, -1.0)) for i, j in pairs]
    found = numbers(mean_and_cvar(results.score, how, contrasts)) if pairs else {}
    rows = []
    for k, (i, _) in enumerate(pairs):
        values: dict[str, Any] = {name: float(x[k]) for name, x in found.items()}
        about = asdict(cells[i]) | {"reference": known[0], "trials": results.n_trials}
        rows.append(Difference(**about, **values))
    return tuple(rows)


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
