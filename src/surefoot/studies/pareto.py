"""Pareto fronts of mean against CVaR, per class and combined, and which settings are at least as
good as a reference everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.atomic import write_csv
from surefoot.errors import ProblemError
from surefoot.studies.metrics import (
    ALPHA,
    CVAR,
    LEVEL,
    MEAN,
    RESAMPLES,
    ROUNDING,
    Contrast,
    Estimates,
    contrast,
    largest,
)
from surefoot.studies.results import Cell, Results

NUMBERS = ("mean", "mean_low", "mean_high", "cvar", "cvar_low", "cvar_high")
Classify = Callable[[Cell], str]


@dataclass(frozen=True)
class FrontRow:
    """One setting on one benchmark at one size, or averaged over sizes (size None), and whether it
    lies on the fronts.

    on_front: no setting of its own class is better in one of mean and CVaR and at least as good in
    the other; on_combined: no setting at all is.
    """

    benchmark: str
    size: int | None
    group: str
    algorithm: str
    parameters: str
    mean: float
    mean_low: float
    mean_high: float
    cvar: float
    cvar_low: float
    cvar_high: float
    on_front: bool
    on_combined: bool


@dataclass(frozen=True)
class Rival:
    """One setting against the reference on one benchmark: paired differences [sizes] of mean and
    CVaR with corrected intervals.

    at_least_as_good: at no size does either interval lie below 0. strictly_better: at every size
    both lie above 0.
    """

    benchmark: str
    sizes: tuple[int, ...]
    group: str
    algorithm: str
    parameters: str
    mean: np.ndarray
    mean_low: np.ndarray
    mean_high: np.ndarray
    cvar: np.ndarray
    cvar_low: np.ndarray
    cvar_high: np.ndarray
    rounding: float

    @property
    def at_least_as_good(self) -> bool:
        """No interval of a difference lies below 0; a CVaR that is not reported shows nothing,
        so it does not pass.
        """
        if np.isnan(self.cvar).any():
            return False
        return bool(min(self.mean_high.min(), self.cvar_high.min()) >= -self.rounding)

    @property
    def strictly_better(self) -> bool:
        """Every interval of a difference lies above 0."""
        if np.isnan(self.cvar).any():
            return False
        return bool(min(self.mean_low.min(), self.cvar_low.min()) > self.rounding)


def front(mean: np.ndarray, cvar: np.ndarray) -> np.ndarray:
    """Which points are undominated: none has one coordinate larger and the other no smaller.

    Equal points stand or fall together.
    """
    ahead = (mean[None] >= mean[:, None]) & (cvar[None] >= cvar[:, None])
    beyond = (mean[None] > mean[:, None]) | (cvar[None] > cvar[:, None])
    dominated = np.asarray((ahead & beyond).any(axis=1))
    return np.asarray(~dominated & ~np.isnan(mean) & ~np.isnan(cvar))


def pareto_table(
    results: Results,
    classify: Classify,
    *,
    alpha: float = ALPHA,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> tuple[FrontRow, ...]:
    """Every setting at every size and averaged over sizes, with intervals, marked where it lies on
    a front.

    Averaged are the metrics: a setting's CVaR is the mean of its CVaRs at the sizes. Averaging each
    trial's scores first would let a good result at one size pay for a bad one at another, which
    nobody who owns a log of one size can do.
    """
    rows: list[FrontRow] = []
    for benchmark in dict.fromkeys(cell.benchmark for cell in results.cells):
        part = results.where(benchmark=benchmark)
        keys, contrasts = _spans(part)
        mean, tail = (
            contrast(
                part.score,
                contrasts,
                metric,
                alpha=alpha,
                seed=seed,
                resamples=resamples,
                level=level,
            )
            for metric in (MEAN, CVAR)
        )
        for size in dict.fromkeys(size for size, _ in keys):
            chosen = [i for i, key in enumerate(keys) if key[0] == size]
            rows += _front_rows(
                size, [keys[i][1] for i in chosen], np.array(chosen), mean, tail, classify
            )
    return tuple(rows)


def rivals_of(
    results: Results,
    reference: tuple[str, str],
    classify: Classify,
    *,
    alpha: float = ALPHA,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> tuple[Rival, ...]:
    """Every setting against the reference (algorithm, parameters), on each benchmark and at each
    size, by paired differences.

    The intervals of one setting hold together (Bonferroni over sizes and the two metrics). Over
    many settings some pass or win by luck: a few out of a hundred that tie.
    """
    found: list[Rival] = []
    for benchmark in dict.fromkeys(cell.benchmark for cell in results.cells):
        part = results.where(benchmark=benchmark)
        row, sizes, settings = _complete(part)
        if reference not in settings:
            raise ProblemError(
                f"{benchmark} has no {' '.join(reference)}, which the others are compared with; run"
                " it, or name another"
            )
        others = [one for one in settings if one != reference]
        contrasts: list[Contrast] = [
            ((row[*one, n], 1.0), (row[*reference, n], -1.0)) for one in others for n in sizes
        ]
        if not contrasts:
            continue
        numbers: list[np.ndarray] = []
        for metric in (MEAN, CVAR):
            estimates = contrast(
                part.score,
                contrasts,
                metric,
                alpha=alpha,
                seed=seed,
                resamples=resamples,
                level=level,
            )
            numbers += [
                x.reshape(len(others), len(sizes))
                for x in (estimates.value, *estimates.interval(2 * len(sizes)))
            ]
        rounding = ROUNDING * largest(part.score)
        for i, one in enumerate(others):
            group = classify(Cell(benchmark, sizes[0], *one))
            mine = dict(zip(NUMBERS, (x[i] for x in numbers), strict=True))
            found.append(
                Rival(
                    benchmark=benchmark,
                    sizes=sizes,
                    group=group,
                    algorithm=one[0],
                    parameters=one[1],
                    rounding=rounding,
                    **mine,
                )
            )
    return tuple(found)


def good_everywhere(
    rivals: Sequence[Rival], *, strictly: bool = False
) -> tuple[tuple[str, str], ...]:
    """The settings (algorithm, parameters) that are at least as good as the reference (or strictly
    better) on every benchmark given.

    Settings that did not run on every benchmark are left out.
    """
    benchmarks = {rival.benchmark for rival in rivals}
    passed: dict[tuple[str, str], set[str]] = {}
    for rival in rivals:
        if rival.strictly_better if strictly else rival.at_least_as_good:
            passed.setdefault((rival.algorithm, rival.parameters), set()).add(rival.benchmark)
    return tuple(setting for setting, where in passed.items() if where == benchmarks)


def write_fronts(path: str | Path, rows: Sequence[FrontRow]) -> None:
    """The table of fronts as CSV; a row that averages over sizes has the size "all"."""
    columns = tuple(field.name for field in fields(FrontRow))
    lines = [
        [
            getattr(row, name) if name != "size" or row.size is not None else "all"
            for name in columns
        ]
        for row in rows
    ]
    write_csv(path, columns, lines)


def write_rivals(path: str | Path, rivals: Sequence[Rival]) -> None:
    """The differences to the reference as CSV, one line per setting and size, with the answer
    for all sizes of the benchmark.
    """
    columns = (
        "benchmark",
        "size",
        "group",
        "algorithm",
        "parameters",
        *NUMBERS,
        "at_least_as_good",
        "strictly_better",
    )
    lines: list[list[Any]] = []
    for r in rivals:
        for i, n in enumerate(r.sizes):
            numbers = [float(getattr(r, name)[i]) for name in NUMBERS]
            lines.append(
                [
                    r.benchmark,
                    n,
                    r.group,
                    r.algorithm,
                    r.parameters,
                    *numbers,
                    r.at_least_as_good,
                    r.strictly_better,
                ]
            )
    write_csv(path, columns, lines)


def _complete(
    part: Results,
) -> tuple[dict[tuple[str, str, int], int], tuple[int, ...], tuple[tuple[str, str], ...]]:
    """Where each (algorithm, parameters, size) lies; every setting must have run at every size."""
    row = {(cell.algorithm, cell.parameters, cell.size): i for i, cell in enumerate(part.cells)}
    sizes = tuple(sorted({cell.size for cell in part.cells}))
    settings = tuple(dict.fromkeys((cell.algorithm, cell.parameters) for cell in part.cells))
    missing = next(((*one, n) for one in settings for n in sizes if (*one, n) not in row), None)
    if missing is not None:
        raise ProblemError(
            f"{' '.join(missing[:2])} did not run at size {missing[2]} of"
            f" {part.cells[0].benchmark}: run it, or leave it out"
        )
    return row, sizes, settings


def _spans(part: Results) -> tuple[list[tuple[int | None, Cell]], list[Contrast]]:
    """Every setting at each size, then averaged over sizes (None)."""
    row, sizes, settings = _complete(part)
    keys: list[tuple[int | None, Cell]] = [
        (n, part.cells[row[*one, n]]) for n in sizes for one in settings
    ]
    contrasts: list[Contrast] = [((row[*one, n], 1.0),) for n in sizes for one in settings]
    if len(sizes) > 1:
        keys += [(None, part.cells[row[*one, sizes[0]]]) for one in settings]
        contrasts += [tuple((row[*one, n], 1.0 / len(sizes)) for n in sizes) for one in settings]
    return keys, contrasts


def _front_rows(
    size: int | None,
    cells: Sequence[Cell],
    chosen: np.ndarray,
    mean: Estimates,
    tail: Estimates,
    classify: Classify,
) -> list[FrontRow]:
    groups = np.array([classify(cell) for cell in cells])
    x, y = mean.value[chosen], tail.value[chosen]
    own = np.zeros(len(cells), dtype=bool)
    for group in np.unique(groups):
        own[groups == group] = front(x[groups == group], y[groups == group])
    combined = front(x, y)
    numbers = [z[chosen] for z in (mean.value, *mean.interval(), tail.value, *tail.interval())]
    return [
        FrontRow(
            benchmark=cell.benchmark,
            size=size,
            group=str(groups[i]),
            algorithm=cell.algorithm,
            parameters=cell.parameters,
            on_front=bool(own[i]),
            on_combined=bool(combined[i]),
            **dict(zip(NUMBERS, (float(z[i]) for z in numbers), strict=True)),
        )
        for i, cell in enumerate(cells)
    ]
