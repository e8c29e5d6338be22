"""A study as a person has it: run in a folder, with its summary, its figures (mean and CVaR over
the size of the data) and its page; and the heat map of Assumption 1.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from surefoot.core.atomic import read_json, write_whole
from surefoot.core.errors import ProblemError
from surefoot.core.text import plural, with_interval
from surefoot.report.folder import REPORT
from surefoot.report.page import Item, PageTable, Picture, Section, number, percent, sections_page
from surefoot.report.style import FAINT, STYLES, Style, figure, save, style_of
from surefoot.research.studies.results import Results, SummaryRow, summary_rows, write_summary
from surefoot.research.studies.runner import MANIFEST, run
from surefoot.research.studies.spec import Study, variants
from surefoot.statistics.metrics import Intervals, mean_and_cvar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = {"holds": "ok", "fails": "warning"}
CLIP = 1.6  # an axis is clipped where its range is so many times that of its upper seven eighths
Look = dict[str, Any]  # keywords of matplotlib
Progress = Callable[[str, int, int], None]  # (what, done, total)
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
    """Mean and CVaR of one benchmark over the size of the data; a line a setting, with interval."""
    names = ("Mean", f"{100 * alpha:g}%-CVaR")
    with figure(10.0, 4.4, 1, 2) as (made, panels):
        for panel, metric, name in zip(panels, ("mean", "cvar"), names, strict=True):
            panel.set_title(f"{name} of the {score}", loc="left")
            draw_metric(panel, rows, metric, baseline=baseline)
        lines = panels[0].get_legend_handles_labels()
        made.legend(*lines, loc="outside right center", handlelength=3.6, labelspacing=0.7)
        if title:
            made.suptitle(title, x=0.01, ha="left", fontsize=11)
    return made


def draw_metric(
    panel: Axes, rows: Sequence[SummaryRow], metric: str, *, baseline: float | None = None
) -> None:
    """The metric "mean" or "cvar" of one benchmark over the size of the data."""
    check_one_benchmark([row.benchmark for row in rows])
    lines: dict[tuple[str, str], list[SummaryRow]] = {}
    for row in rows:
        lines.setdefault((row.algorithm, row.parameters), []).append(row)
    styles = _line_styles(list(lines))
    for key, line in lines.items():
        _draw_line(panel, sorted(line, key=lambda row: row.size), metric, styles[key])
    if baseline is not None:
        dashes = (0, (4, 3))
        look: Look = {"color": FAINT, "linewidth": 0.9, "linestyle": dashes, "zorder": 1}
        panel.axhline(baseline, label="Baseline", **look)
    size_axis(panel, sorted({row.size for row in rows}), rows[0].benchmark)
    labels = {key: style.label for key, style in styles.items()}
    _clip(panel, rows, metric, labels, baseline)


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
    seconds: float


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
    seconds = time.perf_counter() - start
    how = Intervals(alpha=study.alpha, seed=study.seed)
    summary = summary_rows(results, how)
    write_summary(out / "summary.csv", summary)
    return FinishedStudy(study, out, results, summary, how, seconds)


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
    cells = results.cells
    first = {(c.benchmark, c.size): i for i, c in enumerate(cells) if c.label == reference}
    pairs = [
        (i, first[c.benchmark, c.size])
        for i, c in enumerate(cells)
        if c.label != reference and (c.benchmark, c.size) in first
    ]
    contrasts = [((i, 1.0), (j, -1.0)) for i, j in pairs]
    mean, cvar = mean_and_cvar(results.score, how, contrasts)
    ends = [(x.value, *x.interval()) for x in (mean, cvar)]
    found: dict[tuple[str, int], list[tuple[str, ...]]] = {}
    for k, (i, _) in enumerate(pairs):
        words = [
            with_interval(float(x[k]), float(low[k]), float(high[k])).replace(" ", "\n", 1)
            if x[k] == x[k]
            else "not reported"
            for x, low, high in ends
        ]
        found.setdefault((cells[i].benchmark, cells[i].size), []).append((cells[i].label, *words))
    return [
        PageTable(f"{name}, size {size:,}", ("setting", "mean", "CVaR"), rows, frozenset({1, 2}))
        for (name, size), rows in found.items()
    ]


def _provenance(done: FinishedStudy) -> dict[str, str]:
    """What the manifest of the study's folder says, and how long the last run took."""
    found: dict[str, Any] = read_json(done.out / MANIFEST)
    versions = ", ".join(f"{k} {v}" for k, v in found.pop("versions", {}).items())
    took = f"{number(done.seconds)} s; what earlier runs had finished is not in it"
    return {str(k): str(v) for k, v in found.items()} | {"versions": versions, "last run": took}
