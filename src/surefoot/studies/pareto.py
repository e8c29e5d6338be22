"""Pareto fronts of mean against CVaR, and which settings are at least as good as a reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path

import numpy as np

from surefoot.atomic import write_csv
from surefoot.errors import ProblemError
from surefoot.studies.metrics import (
    NUMBERS,
    ROUNDING,
    Contrast,
    Intervals,
    largest,
    mean_and_cvar,
    numbers,
)
from surefoot.studies.results import Cell, Results

Classify = Callable[[Cell], str]


@dataclass(frozen=True, kw_only=True)
class FrontRow:
    """One setting on one benchmark at one size, or averaged over sizes (size None).

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


@dataclass(frozen=True, kw_only=True)
class Rival:
    """One setting against the reference on one benchmark.

    Paired differences [sizes] of mean and CVaR with corrected intervals, by the names in NUMBERS.
    """

    benchmark: str
    sizes: tuple[int, ...]
    group: str
    algorithm: str
    parameters: str
    differences: Mapping[str, np.ndarray]
    rounding: float

    @property
    def at_least_as_good(self) -> bool:
        """At no size does an interval lie below 0; a CVaR that is not reported does not pass."""
        ends = np.concatenate([self.differences["mean_high"], self.differences["cvar_high"]])
        return bool((ends >= -self.rounding).all())

    @property
    def strictly_better(self) -> bool:
        """At every size both intervals lie above 0."""
        ends = np.concatenate([self.differences["mean_low"], self.differences["cvar_low"]])
        return bool((ends > self.rounding).all())


def front(mean: np.ndarray, cvar: np.ndarray) -> np.ndarray:
    """Which points are undominated: none has one coordinate larger and the other no smaller.

    Equal points stand or fall together.
    """
    ahead = (mean[None] >= mean[:, None]) & (cvar[None] >= cvar[:, None])
    beyond = (mean[None] > mean[:, None]) | (cvar[None] > cvar[:, None])
    dominated = np.asarray((ahead & beyond).any(axis=1))
    return np.asarray(~dominated & ~np.isnan(mean) & ~np.isnan(cvar))


def pareto_table(
    results: Results, classify: Classify, how: Intervals | None = None
) -> tuple[FrontRow, ...]:
    """Every setting at every size and averaged over sizes, marked where it lies on a front.

    Averaged are the metrics: a setting's CVaR is the mean of its CVaRs at the sizes. Averaging each
    trial's scores first would let a good result at one size pay for a bad one at another; a
    log has one size.
    """
    rows: list[FrontRow] = []
    for benchmark in dict.fromkeys(cell.benchmark for cell in results.cells):
        part = results.where(benchmark=benchmark)
        row, sizes, settings = _complete(part)
        spans: list[tuple[int, ...]] = [(n,) for n in sizes] + ([sizes] if len(sizes) > 1 else [])
        contrasts = [
            tuple((row[*one, n], 1.0 / len(span)) for n in span)
            for span in spans
            for one in settings
        ]
        found = numbers(mean_and_cvar(part.score, how, contrasts))
        for i, span in enumerate(spans):
            here = slice(i * len(settings), (i + 1) * len(settings))
            cells = [Cell(benchmark, span[0], *one) for one in settings]
            values = {name: x[here] for name, x in found.items()}
            made = _front_rows(cells, values, classify)
            rows += made if len(span) == 1 else [replace(row, size=None) for row in made]
    return tuple(rows)


def _front_rows(
    cells: Sequence[Cell], values: Mapping[str, np.ndarray], classify: Classify
) -> list[FrontRow]:
    groups = np.array([classify(cell) for cell in cells])
    x, y = values["mean"], values["cvar"]
    own = np.zeros(len(cells), dtype=bool)
    for group in np.unique(groups):
        own[groups == group] = front(x[groups == group], y[groups == group])
    combined = front(x, y)
    return [
        FrontRow(
            group=str(groups[i]),
            on_front=bool(own[i]),
            on_combined=bool(combined[i]),
            **asdict(cell) | {name: float(z[i]) for name, z in values.items()},
        )
        for i, cell in enumerate(cells)
    ]


def rivals_of(
    results: Results, reference: tuple[str, str], classify: Classify, how: Intervals | None = None
) -> tuple[Rival, ...]:
    """Every setting against the reference (algorithm, parameters), by paired differences.

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
        if not others:
            continue
        contrasts: list[Contrast] = [
            ((row[*one, n], 1.0), (row[*reference, n], -1.0)) for one in others for n in sizes
        ]
        values = numbers(mean_and_cvar(part.score, how, contrasts), comparisons=2 * len(sizes))
        shape = (len(others), len(sizes))
        found += [
            Rival(
                benchmark=benchmark,
                sizes=sizes,
                group=classify(Cell(benchmark, sizes[0], *one)),
                algorithm=one[0],
                parameters=one[1],
                differences={name: x.reshape(shape)[i] for name, x in values.items()},
                rounding=ROUNDING * largest(part.score),
            )
            for i, one in enumerate(others)
        ]
    return tuple(found)


def good_everywhere(
    rivals: Sequence[Rival], *, strictly: bool = False
) -> tuple[tuple[str, str], ...]:
    """The settings that are at least as good as the reference, or strictly better, everywhere.

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
    write_csv(path, columns, [["all" if x is None else x for x in astuple(row)] for row in rows])


def write_rivals(path: str | Path, rivals: Sequence[Rival]) -> None:
    """The differences to the reference as CSV, one line per setting and size."""
    about = ("benchmark", "size", "group", "algorithm", "parameters")
    lines = [
        [r.benchmark, n, r.group, r.algorithm, r.parameters]
        + [float(r.differences[name][i]) for name in NUMBERS]
        + [r.at_least_as_good, r.strictly_better]
        for r in rivals
        for i, n in enumerate(r.sizes)
    ]
    write_csv(path, (*about, *NUMBERS, "at_least_as_good", "strictly_better"), lines)


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
