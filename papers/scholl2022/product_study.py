"""Both classes of methods at once: fronts of mean against CVaR, and which settings are at least as
good as a reference. It judges no claim of the paper.

    python papers/scholl2022/product_study.py --out results [--trials 100] [--workers 2]
        [--device cuda]

The studies are in the folder studies, their results in the folders beside it. What is finished is
never computed again: run the same command to resume.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surefoot.algorithms import PENALISES, RESTRICTS, parts, taxonomy
from surefoot.cli.terminal import bars
from surefoot.core.atomic import write_csv, write_whole
from surefoot.core.errors import ProblemError
from surefoot.report.style import FAINT, Style, figure, save, style_of
from surefoot.research.figures import Look, check_one_benchmark, unit_of
from surefoot.research.paper.reproduction import BENCHMARKS, RunOptions, run_study
from surefoot.research.studies.results import Cell, Results
from surefoot.research.studies.spec import Study, read_study
from surefoot.statistics.metrics import (
    NUMBERS,
    ROUNDING,
    Contrast,
    Intervals,
    largest,
    mean_and_cvar,
    numbers,
)

STUDIES = Path(__file__).parent / "studies"
PRODUCT = (
    *(f"{name}-product" for name in (*BENCHMARKS, "icu-sepsis")),
    *(f"{name}-proved" for name in BENCHMARKS),
)
# what is compared with: at Table 1's setting, on ICU-Sepsis at Wet Chicken's
REFERENCE = "lower-approx-soft-spibb"
CLASSES: Mapping[str, Style] = MappingProxyType(
    {
        "neither": Style("neither", "#000000", (0, (1, 1.6)), "X"),
        "penalises": Style("penalises the value", "#E69F00", (0, (5, 2)), "^"),
        "restricts": Style("restricts the policy", "#0072B2", "-", "o"),
        "both": Style("both", "#8C1C4B", (0, (6, 1.5, 1.5, 1.5)), "s"),
    }
)

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


def pareto_figure(
    rows: Sequence[FrontRow],
    *,
    reference: tuple[str, str] | None = None,
    alpha: float = 0.01,
    title: str = "",
) -> Figure:
    """Mean against CVaR of every setting, and the fronts: a panel per size, one for the average.

    Panels show the neighbourhood of the fronts; how many settings lie outside is written into them.
    The reference (algorithm, parameters) is a star.
    """
    check_one_benchmark([row.benchmark for row in rows])
    sizes = sorted({row.size for row in rows if row.size is not None})
    wanted: list[int | None] = [*sizes, *([None] if any(row.size is None for row in rows) else [])]
    order = list(CLASSES)
    groups = sorted(
        {row.group for row in rows},
        key=lambda group: (order.index(group) if group in order else 99, group),
    )
    styles = {group: style_of(group, CLASSES, i) for i, group in enumerate(groups)}
    columns = min(len(wanted), 5 if len(wanted) > 9 else 3)
    height = -(-len(wanted) // columns)
    unit = unit_of(rows[0].benchmark)
    with figure(3.1 * columns + 0.3, 2.6 * height + 0.6, height, columns) as (made, panels):
        for panel, size in zip(panels, wanted, strict=False):
            name = "average over sizes" if size is None else f"{size:,} {unit}".strip()
            panel.set_title(name, loc="left")
            panel.set(xlabel="mean", ylabel=f"{100 * alpha:g}%-CVaR")
            here = [x for x in rows if x.size == size and np.isfinite([x.mean, x.cvar]).all()]
            _draw_fronts(panel, here, styles, reference)
        for panel in panels[len(wanted) :]:
            panel.set_axis_off()
        handles, labels = panels[0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside lower center", ncols=3, handlelength=3.0)
        if title:
            made.suptitle(title, x=0.01, ha="left", fontsize=11)
    return made


def _draw_fronts(
    panel: Axes,
    rows: Sequence[FrontRow],
    styles: dict[str, Style],
    reference: tuple[str, str] | None,
) -> None:
    best = sorted((row for row in rows if row.on_combined), key=lambda row: row.mean)
    look: Look = {"color": "#C8C8C8", "linewidth": 7, "marker": "o", "markersize": 9}
    panel.plot(*_points(best), zorder=1, label="front of all", **look)
    for group, style in styles.items():
        _draw_class(panel, [row for row in rows if row.group == group], style)
    star = [row for row in rows if (row.algorithm, row.parameters) == reference]
    if reference is not None:
        look = {"color": "white", "markeredgecolor": "black", "markersize": 11, "linewidth": 0}
        panel.plot(*_points(star), "*", zorder=5, label=" ".join(reference).strip(), **look)
    edge = [row for row in rows if row.on_combined or (row.on_front and row.group != "neither")]
    _near_fronts(panel, edge + star, rows)
    panel.grid(color="#ECECEC", linewidth=0.6)
    panel.set_axisbelow(True)


def _draw_class(panel: Axes, mine: Sequence[FrontRow], style: Style) -> None:
    """The settings of one class, and its front with intervals."""
    look: Look = {"color": style.colour, "markersize": 2.5, "alpha": 0.45, "linewidth": 0}
    panel.plot(*_points(mine), style.marker, **look)
    edge = sorted((row for row in mine if row.on_front), key=lambda row: (row.mean, -row.cvar))
    across = [[r.mean - r.mean_low for r in edge], [r.mean_high - r.mean for r in edge]]
    upright = [[r.cvar - r.cvar_low for r in edge], [r.cvar_high - r.cvar for r in edge]]
    look = {"fmt": "none", "ecolor": style.colour, "alpha": 0.35, "elinewidth": 0.8}
    panel.errorbar(*_points(edge), xerr=across, yerr=upright, **look)
    line = {**style.line, "markersize": 4, "linewidth": 1.2}
    panel.plot(*_points(edge), label=f"front: {style.label}", **line)


def _points(rows: Sequence[FrontRow]) -> tuple[list[float], list[float]]:
    return [row.mean for row in rows], [row.cvar for row in rows]


def _near_fronts(panel: Axes, edge: Sequence[FrontRow], rows: Sequence[FrontRow]) -> None:
    """Limits around the fronts, and how many settings lie outside."""
    if not edge:
        return
    points = np.array([(row.mean, row.cvar) for row in edge])
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.maximum(0.12 * (high - low), 1e-9 + 0.002 * np.abs(high))
    low, high = low - room, high + room
    panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    everything = np.array([(row.mean, row.cvar) for row in rows])
    outside = int(np.count_nonzero(((everything < low) | (everything > high)).any(axis=1)))
    if outside:
        panel.set_title(f"{outside} of {len(rows)} outside", loc="right", fontsize=7, color=FAINT)


def class_of(cell: Cell) -> str:
    """The paper's taxonomy: "penalises", "restricts", "both" or "neither"."""
    found = taxonomy(*parts(cell.algorithm))
    return "both" if found == f"{PENALISES} and {RESTRICTS}" else found


def make(options: RunOptions) -> None:
    """Fronts and rivals of every study, in its folder."""
    for name in PRODUCT:
        study = read_study(STUDIES / f"{name}.toml", options.trials)
        done = run_study(study, options.out / name, options)
        out, results = done.out, done.results
        reference = next(
            (c.algorithm, c.parameters) for c in results.cells if c.algorithm == REFERENCE
        )
        fronts = pareto_table(results, class_of, done.how)
        write_fronts(out / "fronts.csv", fronts)
        title = f"{study.benchmark.name}, {study.trials:,} trials: mean against CVaR"
        drawn = pareto_figure(fronts, reference=reference, alpha=study.alpha, title=title)
        save(drawn, out / "fronts")
        rivals = rivals_of(results, reference, class_of, done.how)
        write_rivals(out / "rivals.csv", rivals)
        write_whole(out / "product.md", _product_words(study, " ".join(reference), rivals))


def _product_words(study: Study, reference: str, rivals: Sequence[Rival]) -> str:
    """In words, which settings are at least as good as the reference in both metrics."""
    lines = [f"# {study.benchmark.name}: against {reference}, {study.trials:,} trials", ""]
    for word, strictly in (("at least as good", False), ("strictly better", True)):
        found = good_everywhere(rivals, strictly=strictly)
        title = f"## {word} in mean and CVaR at every size: {len(found)} of {len(rivals)} settings"
        listed = [f"- {' '.join(x).strip()} ({class_of(Cell('', 0, *x))})" for x in found]
        lines += [title, "", *(listed or ["- none"]), ""]
    return "\n".join(lines)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--trials", type=int, help="default: as many as each study says")
    parser.add_argument("--workers", type=int, help="default: one for each core")
    parser.add_argument("--device", default="cpu")
    with bars() as progress:
        make(RunOptions(**vars(parser.parse_args()), progress=progress))


if __name__ == "__main__":
    _main()
