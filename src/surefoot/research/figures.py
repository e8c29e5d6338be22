"""A study as a person has it: run in a folder, with its summary, its figures (mean and CVaR over
the size of the data) and its page; and the heat map of Assumption 1.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from surefoot.core.atomic import read_json, write_whole
from surefoot.core.errors import NotAvailableError, ProblemError
from surefoot.core.text import plural, with_interval
from surefoot.report.folder import REPORT
from surefoot.report.page import Item, PageTable, Picture, Section, number, percent, sections_page
from surefoot.report.style import FAINT, MISSING, STYLES, Style, figure, save, style_of
from surefoot.research.studies.results import (
    Results,
    SummaryRow,
    difference_rows,
    summary_rows,
    write_summary,
)
from surefoot.research.studies.runner import run
from surefoot.research.studies.shards import MANIFEST
from surefoot.research.studies.spec import Study, variants
from surefoot.statistics.metrics import Intervals

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = {"holds": "ok", "fails": "warning"}
CLIP = 1.6  # an axis is clipped where its range is so many times that of its upper seven eighths
Look = dict[str, Any]  # keywords of matplotlib
Progress = Callable[[str, int, int], None]  # (what, done, total)
METRICS = ("mean", "cvar")
UNITS = {"random-mdps": "trajectories", "wet-chicken": "steps"}


@dataclass(frozen=True)
class Share:
    """One field of the heat map: the share of decisive data sets for which Assumption 1 holds."""

    gamma: float
    size: int
    share: float
    data_sets: int


def study_figure(
    rows: Sequence[SummaryRow],
    *,
    baseline: float | None = None,
    alpha: float = 0.01,
    score: str = "performance",
    title: str = "",
) -> Figure:
    """Mean and CVaR of one benchmark over the size of the data; a line a setting, with interval.

    A CVaR that no cell reports has no panel.
    """
    metrics = _reported(rows)
    with figure(5.0 * len(metrics) if len(metrics) > 1 else 6.5, 4.4, 1, len(metrics)) as drawn:
        made, panels = drawn
        for panel, metric in zip(panels, metrics, strict=True):
            panel.set_title(f"{_name(metric, alpha)} of the {score}", loc="left")
            draw_metric(panel, rows, metric, baseline=baseline)
        lines = panels[0].get_legend_handles_labels()
        made.legend(*lines, loc="outside right center", handlelength=3.6, labelspacing=0.7)
        if title:
            made.suptitle(title, x=0.01, ha="left", fontsize=11)
    return made


def _reported(rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    """The metrics that rows have."""
    return METRICS if any(row.cvar == row.cvar for row in rows) else METRICS[:1]


def _name(metric: str, alpha: float) -> str:
    return "Mean" if metric == METRICS[0] else f"{100 * alpha:g}%-CVaR"


def plot_results(
    results: Results,
    metric: str | None = None,
    *,
    benchmark: str | None = None,
    order: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    alpha: float | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> list[Axes]:
    """Mean and CVaR over the size of the data, in matplotlib's own settings (rcParams): fonts,
    sizes and spines are yours, the colours of known algorithms stay.

    metric       "mean" or "cvar"; otherwise both, CVaR only where it is reported
    benchmark    which one, where a study has several variants
    order        which settings, and in which order, by their names in the cells
    labels       {name in the cells: what the legend says}
    alpha        of CVaR, for studies that are too short for that of the study
    ax           axes of your own, one for each panel
    """
    if metric not in (None, *METRICS):
        raise ProblemError(f'metric is "mean" or "cvar", got {metric!r}')
    here = results if benchmark is None else results.where(benchmark=benchmark)
    check_one_benchmark([cell.benchmark for cell in here.cells])
    rows = summary_rows(here, results.how(alpha))
    metrics = _reported(rows) if metric is None else (metric,)
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise NotAvailableError(MISSING) from error
    if ax is None:
        wide, high = pyplot.rcParams["figure.figsize"]
        size = (wide * (1.5 if len(metrics) > 1 else 1), high)
        _, found = pyplot.subplots(
            1, len(metrics), figsize=size, layout="constrained", squeeze=False
        )
        ax = list(found.flat)
    panels = list(ax) if isinstance(ax, (Sequence, np.ndarray)) else [ax]
    if len(panels) != len(metrics):
        raise ProblemError(
            f"{len(metrics)} axes are needed ({', '.join(metrics)}), got {len(panels)}"
        )
    for panel, one in zip(panels, metrics, strict=True):
        baseline = float(here.baseline.mean())
        draw_metric(panel, rows, one, baseline=baseline, order=order, labels=labels)
        panel.set_title(_name(one, results.how(alpha).alpha))
    panels[0].legend()
    return panels


def draw_metric(
    panel: Axes,
    rows: Sequence[SummaryRow],
    metric: str,
    *,
    baseline: float | None = None,
    order: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> None:
    """The metric "mean" or "cvar" of one benchmark over the size of the data; `order` chooses
    settings and their order, `labels` renames them, both by their names in the cells.
    """
    check_one_benchmark([row.benchmark for row in rows])
    names = {(x.algorithm, x.parameters): f"{x.algorithm} {x.parameters}".strip() for x in rows}
    keys = list(names) if order is None else [_key_of(x, names) for x in order]
    styles = _line_styles(keys)
    for name, label in (labels or {}).items():
        key = _key_of(name, names)
        if key in styles:
            styles[key] = replace(styles[key], label=label)
    rows = [row for row in rows if (row.algorithm, row.parameters) in styles]
    lines = {key: [x for x in rows if (x.algorithm, x.parameters) == key] for key in keys}
    for key, line in lines.items():
        _draw_line(panel, sorted(line, key=lambda row: row.size), metric, styles[key])
    if baseline is not None:
        dashes = (0, (4, 3))
        look: Look = {"color": FAINT, "linewidth": 0.9, "linestyle": dashes, "zorder": 1}
        panel.axhline(baseline, label="Baseline", **look)
    size_axis(panel, sorted({row.size for row in rows}), rows[0].benchmark)
    shown = {key: style.label for key, style in styles.items()}
    _clip(panel, rows, metric, shown, baseline)


def _key_of(name: str, names: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    """The setting of this name: its whole label, or its algorithm where that has one setting."""
    found = [k for k, x in names.items() if x == name] or [k for k in names if k[0] == name]
    if len(found) != 1:
        raise ProblemError(
            f"{name!r} names {'several settings' if found else 'no setting'}; there are:"
            f" {', '.join(names.values())}"
        )
    return found[0]


def draw_curve(
    panel: Axes,
    sizes: Sequence[int],
    low: Sequence[float],
    value: Sequence[float],
    high: Sequence[float],
    style: Style,
) -> None:
    """A line over the size of the data, with the band of its intervals."""
    panel.fill_between(sizes, low, high, color=style.colour, alpha=0.13, linewidth=0)
    panel.plot(
        sizes, value, label=style.label, markeredgecolor="white", markeredgewidth=0.4, **style.line
    )


def size_axis(panel: Axes, sizes: Sequence[int], benchmark: str) -> None:
    """Sizes of the data of a benchmark on the x axis."""
    panel.set_xscale("log")
    panel.set_xticks(sizes, [f"{n:g}" if n < 1000 or n % 100 else f"{n / 1000:g}k" for n in sizes])
    panel.minorticks_off()
    panel.set_xlabel(unit_of(benchmark) or "size of the data")
    panel.grid(axis="y", color="#E4E4E4", linewidth=0.6)
    panel.set_axisbelow(True)


def assumption_1_figure(shares: Sequence[Share], *, title: str = "") -> Figure:
    """Where Assumption 1 holds, by discount factor and size; hatched where nothing is decisive."""
    if not shares:
        raise ProblemError("the heat map needs at least one share")
    gammas, sizes = sorted({one.gamma for one in shares}), sorted({one.size for one in shares})
    field = np.full((len(gammas), len(sizes)), np.nan)
    for one in shares:
        if one.data_sets > 0:
            field[gammas.index(one.gamma), sizes.index(one.size)] = one.share
    with figure(1.6 + 0.62 * len(sizes), 1.4 + 0.3 * len(gammas), 1, 1) as (made, panels):
        panel = panels[0]
        panel.patch.set(hatch="////", edgecolor="#BBBBBB", facecolor="white")
        image = panel.imshow(
            field, origin="lower", aspect="auto", cmap="cividis", vmin=0.0, vmax=1.0
        )
        for (i, j), value in np.ndenumerate(field):
            if np.isfinite(value):
                words = f"{value:.2f}".replace("0.", ".").replace("1.00", "1").replace(".00", "0")
                colour = "black" if value > 0.55 else "white"
                panel.text(j, i, words, ha="center", va="center", fontsize=7, color=colour)
        panel.set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
        panel.set_yticks(range(len(gammas)), [f"{g:g}" for g in gammas])
        panel.tick_params(length=0)
        panel.set(xlabel="size of the data", ylabel="discount factor γ")
        if np.isnan(field).any():
            words = "hatched: no data set visits every pair"
            look: Look = {"ha": "right", "fontsize": 7, "color": FAINT}
            panel.annotate(words, (1, 1.01), xycoords="axes fraction", **look)
        label = "share of data sets for which it holds"
        bar = made.colorbar(image, ax=panel, label=label, shrink=0.9)
        bar.outline.set_visible(False)
        if title:
            panel.set_title(title, loc="left", pad=16)
    return made


def unit_of(benchmark: str) -> str:
    """In what the size of a data set is counted; variants are called "random-mdps eta=0.9"."""
    return UNITS.get(benchmark.split(" ")[0], "")


def check_one_benchmark(names: Sequence[str]) -> None:
    """Raise unless all rows are of one benchmark."""
    if len(set(names)) != 1:
        raise ProblemError(
            f"a figure shows one benchmark, got {', '.join(sorted(set(names))) or 'no rows'}:"
            " choose the rows of one"
        )


def _line_styles(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Style]:
    """The style of each setting; several of one algorithm, and unknown ones, take spare styles."""
    styles: dict[tuple[str, str], Style] = {}
    spare = 0
    for algorithm, parameters in keys:
        alone = sum(other == algorithm for other, _ in keys) == 1
        if alone and algorithm in STYLES:
            styles[algorithm, parameters] = STYLES[algorithm]
        else:
            styles[algorithm, parameters] = style_of(
                algorithm if alone else f"{algorithm} {parameters}", {}, spare
            )
            spare += 1
    return styles


def _draw_line(panel: Axes, line: Sequence[SummaryRow], metric: str, style: Style) -> None:
    low, value, high = (
        [getattr(row, name) for row in line] for name in (f"{metric}_low", metric, f"{metric}_high")
    )
    draw_curve(panel, [row.size for row in line], low, value, high, style)


def _clip(
    panel: Axes,
    rows: Sequence[SummaryRow],
    metric: str,
    labels: dict[tuple[str, str], str],
    baseline: float | None,
) -> None:
    """Let the axis end above points that lie far below the rest; the panel says what they are."""
    values = np.array([getattr(row, metric) for row in rows])
    found = values[np.isfinite(values)]
    if not found.size:
        look: Look = {"transform": panel.transAxes, "ha": "center", "color": FAINT}
        panel.set_xlim(0.9 * rows[0].size, 1.1 * max(row.size for row in rows))
        panel.text(0.5, 0.5, "not reported: too few trials", **look)
        return
    shown = found if baseline is None else np.append(found, baseline)
    top, bottom, bulk = shown.max(), shown.min(), np.quantile(found, 1 / 8)
    core = top - min(bulk, top if baseline is None else baseline)
    if core > 0 and top - bottom > CLIP * core:
        bottom = top - 1.12 * core
    room = 0.05 * max(top - bottom, 1e-12)
    panel.set_ylim(bottom - room, top + room)
    outside: dict[str, list[tuple[int, float]]] = {}
    for row, value in zip(rows, values, strict=True):
        if value < bottom - room:
            outside.setdefault(labels[row.algorithm, row.parameters], []).append((row.size, value))
    if outside:
        parts = [
            f"{label} at {_span([n for n, _ in points])} (down to {min(v for _, v in points):.3g})"
            for label, points in outside.items()
        ]
        words = "below the axis: " + "\n".join(parts)
        place: Look = {
            "xycoords": "axes fraction",
            "xytext": (0, -36),
            "textcoords": "offset points",
        }
        panel.annotate(words, (0, 0), va="top", fontsize=7, color=FAINT, **place)


def _span(sizes: Sequence[int]) -> str:
    return f"{sizes[0]:,}" if len(sizes) == 1 else f"{min(sizes):,}–{max(sizes):,}"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run: where to, how many trials and with which conventions (None: as the study says),
    and on what.
    """

    out: Path
    trials: int | None = None
    conventions: str | None = None
    workers: int | None = None
    device: str = "cpu"
    dask: str | None = None
    progress: Progress = lambda what, done, total: None

    def told(self, what: str) -> Callable[[int, int], None]:
        """How far one piece of work is."""
        return lambda done, total: self.progress(what, done, total)


@dataclass(frozen=True)
class FinishedStudy:
    """A study that was run, with its summary, and the folder of both."""

    study: Study
    out: Path
    results: Results
    summary: tuple[SummaryRow, ...]
    how: Intervals
    seconds: float | None


def run_study(study: Study, out: Path, options: RunOptions) -> FinishedStudy:
    """Run or resume a study in a folder, and write its summary.csv."""
    start = time.perf_counter()
    results = run(
        study,
        out,
        workers=options.workers,
        device=options.device,
        dask=options.dask,
        progress=options.told(study.name),
    )
    return _finished(results, out, time.perf_counter() - start)


def _finished(results: Results, out: Path, seconds: float | None) -> FinishedStudy:
    if results.study is None:
        raise ProblemError("these results were not made by a study: nothing says what they are of")
    how = results.how()
    summary = summary_rows(results, how)
    write_summary(out / "summary.csv", summary)
    return FinishedStudy(results.study, out, results, summary, how, seconds)


def save_results(results: Results, out: Path) -> list[Path]:
    """summary.csv, the figures and the page of a study in a folder; the figures' and page's
    paths.
    """
    done = _finished(results, out, None)
    return [*draw_study(done), write_page(done)]


def draw_study(done: FinishedStudy) -> list[Path]:
    """The figure of every variant of a study, as SVG and PNG; none where there is only one size."""
    study = done.study
    if len(study.benchmark.sizes) < 2:
        return []
    made: list[Path] = []
    found = variants(study)
    for i, variant in enumerate(found):
        normalised = "normalised " if variant.benchmark.score == "normalised" else ""
        drawn = study_figure(
            [row for row in done.summary if row.benchmark == variant.label],
            baseline=float(done.results.where(benchmark=variant.label).baseline.mean()),
            alpha=study.alpha,
            score=f"{normalised}performance",
            title=f"{variant.label}, {study.trials:,} trials",
        )
        made += save(drawn, done.out / ("figure" if len(found) == 1 else f"figure-{i + 1}"))
    return made


def write_page(done: FinishedStudy, claims: Sequence[tuple[str, str, str]] = ()) -> Path:
    """report.html of a study, with the figures in its folder; claims are (claim, verdict, note)."""
    study = done.study
    settings = len({cell.label for cell in done.results.cells})
    lost = sum(row.not_converged for row in done.summary)
    notes = [f"{plural(lost, 'fit')} did not converge: the last iterate counts."] * bool(lost)
    items = [Item(f"{x} {said}: {note}", MARKS.get(said, "note")) for x, said, note in claims]
    sections = [Section(title="Claims", items=items), *_sections(done)]
    page = sections_page(
        heading=f"Study {study.name}",
        word=f"{plural(settings, 'setting')} on {study.benchmark.name}, {study.trials:,} trials",
        good=True,
        sentences=[_best(done.summary), *notes],
        sections=[x for x in sections if x.pictures or x.tables or x.items],
        made=_provenance(done),
    )
    return write_whole(done.out / REPORT, page)


def _sections(done: FinishedStudy) -> Iterator[Section]:
    """What a study found: figures, numbers, and differences from its first setting."""
    pictures = [_drawn(path, done.study) for path in sorted(done.out.glob("*.svg"))]
    yield Section(title="Figures", pictures=pictures)
    yield Section(
        title="Mean and CVaR",
        sentences=[
            f"With 95 % intervals over {done.study.trials:,} trials; CVaR is the mean of the worst"
            f" {percent(done.study.alpha)} of them. Worse: the share of trials below the baseline."
        ],
        tables=_tables(done.summary),
    )
    first, *others = dict.fromkeys(cell.label for cell in done.results.cells)
    if others:
        yield Section(
            title="Paired differences",
            sentences=[
                f"Against {first}, on the same trials. An interval that does not touch 0 is"
                " decided; one in twenty is by chance."
            ],
            tables=_differences(done.results, first, done.how),
        )


def _best(summary: Sequence[SummaryRow]) -> str:
    """The setting with the highest mean at the largest size of the last benchmark."""
    last = summary[-1].benchmark
    size = max(row.size for row in summary if row.benchmark == last)
    row = max(
        (row for row in summary if (row.benchmark, row.size) == (last, size)),
        key=lambda row: row.mean,
    )
    return (
        f"Highest mean on {last} at size {size:,}: {row.algorithm} {row.parameters}".rstrip()
        + f", {number(row.mean)} (95 % interval {number(row.mean_low)} to {number(row.mean_high)})."
    )


def _drawn(path: Path, study: Study) -> Picture:
    """A figure file as a picture of the page."""
    content = base64.b64encode(path.read_bytes()).decode()
    words = f"Mean and CVaR of every setting over the size of the data ({study.benchmark.name})."
    image = Markup('<img alt="{}" src="data:image/svg+xml;base64,{}">').format(words, content)
    return Picture(image, f"{words} The tables below have the numbers.", drawn=True)


def _tables(summary: Sequence[SummaryRow]) -> list[PageTable]:
    """A table for every benchmark and size."""
    found: dict[tuple[str, int], list[tuple[str, ...]]] = {}
    for row in summary:
        found.setdefault((row.benchmark, row.size), []).append(
            (
                f"{row.algorithm} {row.parameters}".strip(),
                _with_interval(row.mean, row.mean_low, row.mean_high),
                _with_interval(row.cvar, row.cvar_low, row.cvar_high),
                percent(row.worse_than_baseline),
            )
        )
    columns = ("setting", "mean", "CVaR", "worse")
    return [
        PageTable(f"{benchmark}, size {size:,}", columns, rows, frozenset({1, 2, 3}))
        for (benchmark, size), rows in found.items()
    ]


def _with_interval(value: float, low: float, high: float) -> str:
    if value != value:
        return "not reported"
    return f"{number(value)}\n{number(low)} to {number(high)}"


def _differences(results: Results, reference: str, how: Intervals) -> list[PageTable]:
    """Every setting less the reference, for each benchmark and size."""
    found: dict[tuple[str, int], list[tuple[str, ...]]] = {}
    for row in difference_rows(results, reference, how):
        words = [
            with_interval(x, low, high).replace(" ", "\n", 1) if x == x else "not reported"
            for x, low, high in (
                (row.mean, row.mean_low, row.mean_high),
                (row.cvar, row.cvar_low, row.cvar_high),
            )
        ]
        label = f"{row.algorithm} {row.parameters}".strip()
        found.setdefault((row.benchmark, row.size), []).append((label, *words))
    return [
        PageTable(f"{name}, size {size:,}", ("setting", "mean", "CVaR"), rows, frozenset({1, 2}))
        for (name, size), rows in found.items()
    ]


def _provenance(done: FinishedStudy) -> dict[str, str]:
    """What the manifest of the study's folder says, and how long the last run took."""
    manifest = done.out / MANIFEST
    found: dict[str, Any] = read_json(manifest) if manifest.exists() else {}
    versions = ", ".join(f"{k} {v}" for k, v in found.pop("versions", {}).items())
    holds = ", ".join(f"{k} {v}" for k, v in found.pop("holds", {}).items())
    said = {str(k): str(v) for k, v in found.items()} | {"versions": versions, "holds": holds}
    if done.seconds is not None:
        took = f"{number(done.seconds)} s; what earlier runs had finished is not in it"
        said["last run"] = took
    return {k: v for k, v in said.items() if v}
