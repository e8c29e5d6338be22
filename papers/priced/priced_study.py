"""The price against its rivals, paired, cell by cell: how papers/priced is made.

    python papers/priced/priced_study.py --out results [--trials 100] [--workers 2] [--device cuda]

Both figures of the paper with 10,000 trials, and ten other benchmarks; the studies are in the
folder studies. What is finished is never computed again: run the same command to resume.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.special import bdtr

from surefoot.cli.terminal import bars
from surefoot.core.atomic import write_csv, write_whole
from surefoot.core.text import Table, signed, with_interval
from surefoot.report.style import FAINT, figure, save, style_of
from surefoot.research.benchmarks import NORMALISED
from surefoot.research.figures import draw_curve, size_axis
from surefoot.research.paper.claim import ALL, LOWER, RANDOM_MDPS, WET_CHICKEN
from surefoot.research.paper.reproduction import FinishedStudy, RunOptions, run_study
from surefoot.research.simulate import first_key, trial_numbers
from surefoot.research.studies.results import Cell, Results
from surefoot.research.studies.spec import Study, Variant, read_study, variants
from surefoot.statistics.metrics import (
    CVAR,
    MEAN,
    ROUNDING,
    Intervals,
    mean_and_cvar,
    numbers,
    worse_trials,
)

STUDIES = Path(__file__).parent / "studies"
FIGURES = ("random-mdps-priced", "wet-chicken-priced")
UNTOUCHED = (
    "random-mdps-other-priced",
    "wet-chicken-other-priced",
    "frozen-lake-priced",
    "gridworld-priced",
    "garnet-priced",
    "icu-sepsis-priced",
    "gridworld-large-priced",
)
ALPHA = 0.01  # of CVaR, unless the name of a benchmark says otherwise: with few trials
PRICED = "priced-soft-spibb"
ABOVE, TOUCHES, BELOW, UNKNOWN = "above", "touches 0", "below", "not reported"
SHOWN = ("the method", "the default", "without shrinkage", "without price")  # in the figure
METRICS = {MEAN: "mean", CVAR: "CVaR"}
DECIDED = 0.025
TABLE_1 = {RANDOM_MDPS: (1.0,), WET_CHICKEN: (0.5,)}  # epsilon of Lower-Approx; elsewhere both


@dataclass(frozen=True, kw_only=True)
class PairedCell:
    """One setting minus a rival on the same trials of one benchmark and size.

    Differences are shares of the way from the baseline to the optimum, with 95 % intervals of each
    cell by itself; worse: the share of trials that end below the baseline; more_often: the
    probability of so many trials in which the setting is worse and the rival is not, if both were
    equally likely (sign test); less_often: the reverse.
    """

    benchmark: str
    size: int
    algorithm: str
    parameters: str
    rival: str
    rival_parameters: str
    trials: int
    mean: float
    mean_low: float
    mean_high: float
    cvar: float
    cvar_low: float
    cvar_high: float
    worse: float
    rival_worse: float
    more_often: float
    less_often: float

    def verdict(self, metric: str) -> str:
        """Where the interval of the mean or the CVaR lies."""
        low, high = getattr(self, f"{metric}_low"), getattr(self, f"{metric}_high")
        if math.isnan(low) or math.isnan(high):
            return UNKNOWN
        return ABOVE if low > ROUNDING else BELOW if high < -ROUNDING else TOUCHES

    @property
    def lost_more(self) -> bool:
        """Whether the setting is decidedly more often worse than the baseline than the rival."""
        return self.more_often < DECIDED

    @property
    def pair(self) -> tuple[str, str]:
        """Setting and rival, by name and parameters."""
        ours, rival = (self.algorithm, self.parameters), (self.rival, self.rival_parameters)
        return " ".join(ours).strip(), " ".join(rival).strip()

    @property
    def is_default(self) -> bool:
        """Whether the setting is the one for everybody: its price alone grows."""
        return _grows(self.parameters)


def paired(study: Study, results: Results, how: Intervals) -> tuple[PairedCell, ...]:
    """All comparisons that a study was made for."""
    found: list[PairedCell] = []
    for variant in variants(study):
        part = results.where(benchmark=variant.label)
        name = variant.label if len(variants(study)) > 1 else study.name.removesuffix("-priced")
        name += "" if study.alpha == ALPHA else f", CVaR at {study.alpha:.0%}"
        way = _way(study, variant, float(part.baseline.mean()))
        for size in study.benchmark.sizes:
            here = part.where(size=size)
            pairs = list(_pairs(study, here.cells))
            found += [replace(x, benchmark=name) for x in _differences(here, pairs, way, how)]
    return tuple(found)


def _pairs(study: Study, cells: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """(setting, rival).

    On the figures: every setting of ours against Lower-Approx, and the first, the method itself,
    against all of the paper. Elsewhere: the price against Lower-Approx at the same epsilon, and the
    default at Table 1's.
    """
    ours = [i for i, cell in enumerate(cells) if cell.algorithm not in ALL]
    for i in ours:
        for j, rival in enumerate(cells):
            if rival.algorithm not in ALL:
                continue
            if study.name in FIGURES:
                fits = rival.algorithm == LOWER or i == ours[0]
            else:
                own, other = (_parameters(x.parameters).get("epsilon") for x in (cells[i], rival))
                growing = _grows(cells[i].parameters)
                table_1 = TABLE_1.get(study.benchmark.name, (0.5, 1.0))
                fits = other in table_1 if growing else own == other
            if fits:
                yield i, j


def _parameters(words: str) -> dict[str, float]:
    given = (x.split("=") for x in words.split())
    return {name: float(x) for name, x in given if x != "True"}


def _grows(words: str) -> bool:
    """Whether these parameters have a price that grows with the log."""
    return _parameters(words).get("growth", 0.0) > 0


def _way(study: Study, variant: Variant, rho_b: float) -> float:
    """From the baseline to the optimum, in units of the score."""
    if variant.benchmark.score == NORMALISED:
        return 1.0
    keys = first_key(study.seed, variant.benchmark.name, trial_numbers(0, 1, "cpu"))
    return float(np.mean(variant.benchmark.worlds(keys).rho_star)) - rho_b


def _differences(
    here: Results, pairs: Sequence[tuple[int, int]], way: float, how: Intervals
) -> Iterator[PairedCell]:
    score = here.score / way
    contrasts = [((i, 1.0), (j, -1.0)) for i, j in pairs]
    found = numbers(mean_and_cvar(score, how, contrasts))
    below = worse_trials(here.score, here.baseline)
    for k, (i, j) in enumerate(pairs):
        ours, rival = here.cells[i], here.cells[j]
        yield PairedCell(
            benchmark=ours.benchmark,
            size=ours.size,
            algorithm=ours.algorithm,
            parameters=ours.parameters,
            rival=rival.algorithm,
            rival_parameters=rival.parameters,
            trials=here.n_trials,
            worse=float(below[i].mean()),
            rival_worse=float(below[j].mean()),
            more_often=_sign_test(below[i], below[j]),
            less_often=_sign_test(below[j], below[i]),
            **{name: float(x[k]) for name, x in found.items()},
        )


def _sign_test(ours: np.ndarray, rival: np.ndarray) -> float:
    """P(X >= k), X binomial(n, 1/2): k of the n trials that only one loses are lost by ours."""
    k, n = int((ours & ~rival).sum()), int((ours ^ rival).sum())
    return float(bdtr(n - k, n, 0.5))


def write_paired(path: Path, cells: Sequence[PairedCell]) -> None:
    """All comparisons as CSV, with both verdicts."""
    columns = [field.name for field in fields(PairedCell)] + ["mean_verdict", "cvar_verdict"]
    write_csv(path, columns, ((*astuple(x), x.verdict(MEAN), x.verdict(CVAR)) for x in cells))


def lines_of(cells: Iterable[PairedCell]) -> dict[tuple[str, str, str], list[PairedCell]]:
    """The cells by benchmark, setting and rival, in order."""
    lines: dict[tuple[str, str, str], list[PairedCell]] = {}
    for cell in cells:
        lines.setdefault((cell.benchmark, *cell.pair), []).append(cell)
    return lines


def method(cells: Sequence[PairedCell], rival: str = LOWER) -> list[PairedCell]:
    """On each benchmark of the figures, the method itself against this rival."""
    first: dict[str, str] = {}
    for cell in cells:
        first.setdefault(cell.benchmark, cell.pair[0])
    return [x for x in cells if x.rival == rival and x.pair[0] == first[x.benchmark]]


def cell_table(cells: Sequence[PairedCell]) -> Table:
    """One row a cell."""
    columns = ("benchmark", "size", "mean", "", "CVaR", "", "worse than the baseline", "rival")
    rows = []
    for x in cells:
        shown = [
            entry
            for m in METRICS
            for entry in (
                with_interval(*(getattr(x, m + end) for end in ("", "_low", "_high"))),
                x.verdict(m),
            )
        ]
        rows.append((x.benchmark, f"{x.size:,}", *shown, f"{x.worse:.1%}", f"{x.rival_worse:.1%}"))
    return Table(columns, tuple(rows))


def role(cell: PairedCell) -> str:
    """What a setting of the figures is for, in words."""
    given = cell.parameters.split()
    known = {
        "the default": cell.is_default,
        "RaMDP's penalty instead of price and shrinkage": "+" in cell.algorithm,
        "neither price nor shrinkage": cell.algorithm != PRICED,
        "without shrinkage": "shrink=0" in given,
        "without price": "z=0" in given,
        "without budget": "epsilon=inf" in given,
        "one sigma for all states": "pool=inf" in given,
    }
    return next((words for words, fits in known.items() if fits), "the method")


def part_table(cells: Sequence[PairedCell]) -> Table:
    """One row a setting on one benchmark: the differences at its sizes."""
    lines = lines_of(cells)
    sizes = [f"{x.size:,}" for x in next(iter(lines.values()))]
    rows = [
        (role(line[0]), *(f"{signed(x.mean, '.3f')} / {signed(x.cvar, '.3f')}" for x in line))
        for line in lines.values()
    ]
    return Table(("mean / CVaR", *sizes), tuple(rows))


def line_table(cells: Sequence[PairedCell]) -> Table:
    """One row a line of comparisons: how many cells lie where, and which are not above 0."""
    columns = (
        "benchmark", "setting", "rival", "mean: above, touches 0, below",
        "CVaR: above, touches 0, below", "lowest mean", "lowest CVaR", "cells not above 0",
        "decidedly more often worse than the baseline (share of trials, rival's)",
    )  # fmt: skip
    rows = []
    for (benchmark, ours, rival), line in lines_of(cells).items():
        often = [f"{x.size:,} ({x.worse:.1%} and {x.rival_worse:.1%})" for x in line if x.lost_more]
        about = (benchmark, _short(ours), _short(rival), *(_tally(line, m) for m in METRICS))
        lowest = (_lowest(line, m) for m in METRICS)
        rows.append((*about, *lowest, _not_above(line), ", ".join(often) or "never"))
    return Table(columns, tuple(rows))


def paper_table(cells: Sequence[PairedCell]) -> Table:
    """For each size the algorithms of the paper whose mean or CVaR is higher, and by how much."""
    places: dict[tuple[str, int], list[PairedCell]] = {}
    for rival in ALL:
        for x in method(cells, rival):
            places.setdefault((x.benchmark, x.size), []).append(x)
    rows = []
    for (benchmark, size), here in places.items():
        higher = {m: [x for x in here if getattr(x, m) < 0] for m in METRICS}
        both = [x.rival for x in higher[MEAN] if x in higher[CVAR]]
        named = (
            ", ".join(f"{x.rival} by {-getattr(x, m):.3f}" for x in higher[m]) or "none"
            for m in METRICS
        )
        rows.append((benchmark, f"{size:,}", *named, ", ".join(both) or "none"))
    return Table(("benchmark", "size", "higher mean", "higher CVaR", "both"), tuple(rows))


def _short(setting: str) -> str:
    for name, word in ((PRICED, "priced"), (LOWER, "Lower-Approx")):
        setting = setting.replace(name, word)
    return setting


def _tally(line: Sequence[PairedCell], metric: str) -> str:
    found = [x.verdict(metric) for x in line]
    if UNKNOWN in found:
        return UNKNOWN
    return ", ".join(str(found.count(word)) for word in (ABOVE, TOUCHES, BELOW))


def _lowest(line: Sequence[PairedCell], metric: str) -> str:
    worst = min(line, key=lambda x: float(getattr(x, metric)))
    value = getattr(worst, metric)
    return UNKNOWN if math.isnan(value) else f"{signed(value, '.3f')} at {worst.size:,}"


def _not_above(line: Sequence[PairedCell]) -> str:
    """mean 10 (touches 0), CVaR 50 (below)."""
    found = [
        f"{word} at {x.size:,} {x.verdict(m)}"
        for m, word in METRICS.items()
        for x in line
        if x.verdict(m) in (TOUCHES, BELOW)
    ]
    return "; ".join(found) or "none"


@dataclass(frozen=True)
class Curve:
    """Differences over sizes: of the mean and of the CVaR, each as (low, value, high)."""

    benchmark: str
    label: str
    sizes: Sequence[int]
    ends: Sequence[Sequence[Sequence[float]]]


def curves(cells: Sequence[PairedCell], name: Callable[[PairedCell], str]) -> list[Curve]:
    """What is drawn against Lower-Approx: a curve for each line of cells that gets a name."""
    return [
        Curve(
            benchmark,
            name(line[0]),
            [x.size for x in line],
            [
                [[float(getattr(x, metric + end)) for x in line] for end in ("_low", "", "_high")]
                for metric in METRICS
            ],
        )
        for (benchmark, _, _), line in lines_of(cells).items()
        if line[0].rival == LOWER and name(line[0])
    ]


def on_figures(cell: PairedCell) -> str:
    """The name of a curve on the figures; some parts would need another scale."""
    return role(cell) if role(cell) in SHOWN else ""


def elsewhere(cell: PairedCell) -> str:
    """The name of a curve on the other benchmarks."""
    epsilon = cell.rival_parameters.split("epsilon=")[-1]
    ours = "the default" if cell.is_default else f"priced, epsilon {epsilon},"
    return f"{ours} against Lower-Approx, epsilon {epsilon}"


def differences_figure(curves: Sequence[Curve], title: str) -> Figure:
    """Paired differences of mean and CVaR over the size of the data: a row of panels a benchmark.

    A line for each label, with its intervals; 0 is the rival.
    """
    benchmarks = list(dict.fromkeys(one.benchmark for one in curves))
    labels = list(dict.fromkeys(one.label for one in curves))
    styles = {label: style_of(label, {}, i) for i, label in enumerate(labels)}
    with figure(10.0, 2.5 * len(benchmarks) + 0.7, len(benchmarks), 2) as (made, panels):
        places = [(name, metric) for name in benchmarks for metric in (0, 1)]
        for panel, (name, metric) in zip(panels, places, strict=True):
            panel.set_title(f"{name}: {('mean', 'CVaR')[metric]}", loc="left")
            panel.axhline(0.0, color=FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            here = [one for one in curves if one.benchmark == name]
            for one in here:
                low, value, high = one.ends[metric]
                draw_curve(panel, one.sizes, low, value, high, styles[one.label])
            sizes = sorted({n for one in here for n in one.sizes})
            size_axis(panel, sizes, name)
        handles = {
            label: handle
            for panel in panels
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        made.legend(
            [handles[label] for label in labels], labels, loc="outside lower center", ncols=2
        )
        made.suptitle(title, x=0.01, ha="left", fontsize=11)
    return made


def priced_words(figures: Sequence[PairedCell], others: Sequence[PairedCell]) -> str:
    """priced.md: the tables, with what each shows."""
    main, lower = method(figures), [x for x in figures if x.rival == LOWER]
    everywhere = [*lower, *others]
    parts = [
        "# The price against its rivals",
        "Differences are paired by trial and given as shares of the way from the baseline to the"
        " optimum, with 95 % intervals of each cell by itself (bootstrap-t), so that of twenty"
        " ties about one is called a difference. CVaR: the mean of the worst 1 % of the trials,"
        " unless the name of a benchmark says otherwise.",
        "## The method against Lower-Approx-Soft-SPIBB at Table 1's setting",
        _count(main),
        cell_table(main).markdown(),
        "## Which algorithms of the paper have a higher mean or CVaR than the method",
        paper_table(figures).markdown(),
        "## Its parts against Lower-Approx-Soft-SPIBB at Table 1's setting",
    ]
    for name in dict.fromkeys(x.benchmark for x in lower):
        here = [x for x in lower if x.benchmark == name]
        parts += [f"**{name}**", part_table(here).markdown()]
    same = [x for x in others if not x.is_default]
    default = [x for x in everywhere if x.is_default]
    parts += [
        "## Elsewhere: against Lower-Approx-Soft-SPIBB at the same epsilon",
        _count(same),
        line_table(same).markdown(),
        "## One setting for everybody, against Lower-Approx-Soft-SPIBB at Table 1's",
        _count(default),
        line_table(default).markdown(),
    ]
    return "\n\n".join(parts) + "\n"


def _count(cells: Sequence[PairedCell]) -> str:
    """Of 17 cells: mean 17 above, ..."""
    found = []
    for metric, word in METRICS.items():
        verdicts = [x.verdict(metric) for x in cells]
        tally = ", ".join(
            f"{verdicts.count(v)} {v}" for v in (ABOVE, TOUCHES, BELOW, UNKNOWN) if v in verdicts
        )
        found.append(f"in {word} {tally}")
    more, less = sum(x.lost_more for x in cells), sum(x.less_often < DECIDED for x in cells)
    return (
        f"Of {len(cells)} cells: {'; '.join(found)}. Worse than the baseline decidedly more often"
        f" than the rival in {more}, less often in {less}."
    )


def make(options: RunOptions) -> None:
    """Run the studies or resume them, and write all of papers/priced but the README."""
    found = []
    for stem, names, label in (
        ("priced-figures", FIGURES, on_figures),
        ("priced-elsewhere", UNTOUCHED, elsewhere),
    ):
        cells = [x for one in _run(names, options) for x in paired(one.study, one.results, one.how)]
        write_paired(options.out / f"{stem}.csv", cells)
        title = "Difference to Lower-Approx-Soft-SPIBB, in shares of the way to the optimum"
        save(differences_figure(curves(cells, label), title), options.out / stem)
        found.append(cells)
    write_whole(options.out / "priced.md", priced_words(*found))


def _run(names: Sequence[str], options: RunOptions) -> list[FinishedStudy]:
    """Each study, run or resumed in its own folder."""
    studies = [read_study(STUDIES / f"{name}.toml", options.trials) for name in names]
    return [run_study(study, options.out / study.name, options) for study in studies]


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--trials", type=int, help="default: as many as each study says")
    parser.add_argument("--workers", type=int, help="default: one for each core")
    parser.add_argument("--device", default="cpu")
    with bars() as progress:
        make(RunOptions(**vars(parser.parse_args()), progress=progress))


if __name__ == "__main__":
    _main()
