"""Reproducing the paper: the studies behind each target, and what is written from them: tables,
figures, verdicts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.algorithms import PENALISES, RESTRICTS, parts, taxonomy
from surefoot.atomic import write_csv, write_whole
from surefoot.errors import StudyError
from surefoot.paper import Verdict, judge_figures, judge_table_1, render_claims, render_table_1
from surefoot.paper.assumption import AssumptionRow, assumption_1_study, judge_assumption
from surefoot.paper.guarantees import guarantees_study, judge_guarantees
from surefoot.paper.hcpi_claims import hcpi_table, judge_hcpi
from surefoot.paper.step_claims import judge_steps, mending
from surefoot.report.figures import Share, assumption_1_figure, pareto_figure, study_figure
from surefoot.report.style import save
from surefoot.studies.pareto import (
    Rival,
    good_everywhere,
    pareto_table,
    rivals_of,
    write_fronts,
    write_rivals,
)
from surefoot.studies.results import Cell, Results
from surefoot.studies.runner import check_device, run
from surefoot.studies.spec import Study, shipped_study, variants
from surefoot.studies.summaries import summarise, write_summary

BENCHMARKS = ("random-mdps", "wet-chicken")
PRODUCT = (
    *(f"{name}-product" for name in (*BENCHMARKS, "icu-sepsis")),
    *(f"{name}-proved" for name in BENCHMARKS),
)
# what the product study compares with: at Table 1's setting, on ICU-Sepsis at Wet Chicken's
REFERENCE = "lower-approx-soft-spibb"

Progress = Callable[[str, int, int], None]  # (what, done, total)


@dataclass(frozen=True)
class Options:
    """How to run: where to, how many trials (None: as many as the study says), and on what."""

    out: Path
    trials: int | None = None
    workers: int | None = None
    device: str = "cpu"
    dask: str | None = None
    progress: Progress = lambda what, done, total: None

    def run(self, name: str) -> tuple[Study, Results]:
        """A shipped study, run or resumed in its own folder, with its summary."""
        study = shipped_study(name, trials=self.trials)
        return study, run_study(study, self.out / name, self)


def run_study(study: Study, out: Path, options: Options) -> Results:
    """Run a study and write its summary.csv."""
    results = run(
        study, out, workers=options.workers, device=options.device, dask=options.dask,
        progress=lambda done, total: options.progress(study.name, done, total),
    )  # fmt: skip
    write_summary(out / "summary.csv", summarise(results, alpha=study.alpha, seed=study.seed))
    return results


def draw_study(study: Study, results: Results, out: Path) -> list[Path]:
    """The figure of every variant of a study, as SVG and PNG; none where there is only one size."""
    if len(study.benchmark.sizes) < 2:
        return []
    rows = summarise(results, alpha=study.alpha, seed=study.seed)
    made: list[Path] = []
    labels = [variant.label for variant in variants(study)]
    for i, variant in enumerate(variants(study)):
        here = [row for row in rows if row.benchmark == variant.label]
        baseline = float(results.where(benchmark=variant.label).baseline.mean())
        words = (
            "normalised performance" if variant.benchmark.score == "normalised" else "performance"
        )
        drawn = study_figure(
            here,
            baseline=baseline,
            alpha=study.alpha,
            score=words,
            title=f"{variant.label}, {study.trials:,} trials",
        )
        made += save(drawn, out / ("figure" if len(labels) == 1 else f"figure-{i + 1}"))
    return made


def reproduce(target: str, options: Options) -> tuple[Verdict, ...]:
    """Run what a target needs, write its outputs under `options.out`, and return the verdicts it
    allows; "all" writes claims.md.
    """
    if target not in TARGETS:
        raise StudyError(f"nothing is called {target!r}; reproduce one of: {', '.join(TARGETS)}")
    for name, number in (("trials", options.trials), ("workers", options.workers)):
        if number is not None and number < 1:
            raise StudyError(f"{name} must be at least 1, got {number}")
    if options.out.exists() and not options.out.is_dir():
        raise StudyError(f"{options.out} is a file: choose a folder with --out")
    check_device(options.device)
    verdicts = TARGETS[target](options)
    if verdicts:
        name = "claims.md" if target == "all" else f"claims-{target}.md"
        write_whole(options.out / name, render_claims(verdicts))
    return verdicts


def _figure(name: str, options: Options) -> Results:
    study, results = options.run(name)
    draw_study(study, results, options.out / name)
    return results


def _figures(options: Options) -> tuple[Verdict, ...]:
    return judge_figures([_figure(name, options) for name in BENCHMARKS])


def _table_1(options: Options) -> tuple[Verdict, ...]:
    results = [options.run(f"{name}-grid")[1] for name in BENCHMARKS]
    write_whole(options.out / "table-1.md", render_table_1(results))
    return (judge_table_1(results),)


def _assumption_1(options: Options) -> tuple[Verdict, ...]:
    rows = assumption_1_study(
        options.trials or 100,
        device=options.device,
        progress=lambda done, total: options.progress("assumption-1", done, total),
    )
    _write_rows(options.out / "assumption-1.csv", rows)
    save(
        assumption_1_figure(_shares(rows), title="Assumption 1 on Random MDPs"),
        options.out / "assumption-1",
    )
    return (judge_assumption(rows),)


def _shares(rows: Sequence[AssumptionRow]) -> list[Share]:
    """All baselines together: of the decisive data sets at (gamma, size), the share for which it
    holds.
    """
    shares = []
    for gamma, size in dict.fromkeys((row.gamma, row.size) for row in rows):
        here = [row for row in rows if (row.gamma, row.size) == (gamma, size)]
        decisive = sum(row.decisive for row in here)
        shares.append(
            Share(gamma, size, sum(row.holds for row in here) / max(decisive, 1), decisive)
        )
    return shares


def _guarantees(options: Options) -> tuple[Verdict, ...]:
    found = guarantees_study(
        options.trials or 1000,
        device=options.device,
        progress=lambda done, total: options.progress("guarantees", done, total),
    )
    for name in ("bounds", "budgets", "exact"):
        _write_rows(options.out / f"guarantees-{name}.csv", getattr(found, name))
    results = [options.run(f"{name}-steps")[1] for name in BENCHMARKS]
    write_whole(
        options.out / "mending.md",
        "# Does mending the published step move the figures?\n\n"
        + mending(results).markdown()
        + "\n",
    )
    return (*judge_guarantees(found), judge_steps(results))


def _hcpi(options: Options) -> tuple[Verdict, ...]:
    study, results = options.run("random-mdps-hcpi")
    table = hcpi_table(results, alpha=study.alpha, seed=study.seed)
    title = (
        f"# HCPI and Robust MDP against the SPIBB family: Random MDPs, {study.trials:,} trials,"
        f" CVaR at {study.alpha:g}"
    )
    write_whole(options.out / study.name / "hcpi.md", f"{title}\n\n{table.markdown()}\n")
    return (judge_hcpi(results),)


def _product(options: Options) -> tuple[Verdict, ...]:
    """The product study: fronts and rivals of every benchmark; it judges no claim of the paper."""
    for name in PRODUCT:
        study, results = options.run(name)
        out = options.out / study.name
        reference = next(
            (c.algorithm, c.parameters) for c in results.cells if c.algorithm == REFERENCE
        )
        fronts = pareto_table(results, class_of, alpha=study.alpha, seed=study.seed)
        write_fronts(out / "fronts.csv", fronts)
        title = f"{study.benchmark.name}, {study.trials:,} trials: mean against CVaR"
        save(
            pareto_figure(fronts, reference=reference, alpha=study.alpha, title=title),
            out / "fronts",
        )
        rivals = rivals_of(results, reference, class_of, alpha=study.alpha, seed=study.seed)
        write_rivals(out / "rivals.csv", rivals)
        write_whole(out / "product.md", _product_words(study, " ".join(reference), rivals))
    return ()


def _product_words(study: Study, reference: str, rivals: Sequence[Rival]) -> str:
    """Which settings are at least as good as the reference in both metrics at every size, in
    words.
    """
    lines = [f"# {study.benchmark.name}: against {reference}, {study.trials:,} trials", ""]
    for word, strictly in (("at least as good", False), ("strictly better", True)):
        found = good_everywhere(rivals, strictly=strictly)
        lines += [
            f"## {word} in mean and CVaR at every size: {len(found)} of {len(rivals)} settings",
            "",
        ]
        lines += [f"- {' '.join(x).strip()} ({class_of(Cell('', 0, *x))})" for x in found] or [
            "- none"
        ]
        lines.append("")
    return "\n".join(lines)


def class_of(cell: Cell) -> str:
    """The paper's taxonomy: "penalises", "restricts", "both" (a penalised estimate inside a
    trust), or "neither".
    """
    found = taxonomy(*parts(cell.algorithm))
    return "both" if found == f"{PENALISES} and {RESTRICTS}" else found


def _write_rows(path: Path, rows: Sequence[object]) -> None:
    """Frozen dataclasses as CSV."""
    columns = tuple(f.name for f in dataclasses.fields(rows[0]))  # type: ignore[arg-type]
    write_csv(path, columns, [[getattr(row, name) for name in columns] for row in rows])


def _all(options: Options) -> tuple[Verdict, ...]:
    found = [
        verdict
        for part in (_figures, _table_1, _assumption_1, _guarantees, _hcpi)
        for verdict in part(options)
    ]
    _product(options)
    return tuple(found)


TARGETS: dict[str, Callable[[Options], tuple[Verdict, ...]]] = {
    "random-mdps": lambda options: judge_figures([_figure("random-mdps", options)]),
    "wet-chicken": lambda options: judge_figures([_figure("wet-chicken", options)]),
    "table-1": _table_1,
    "assumption-1": _assumption_1,
    "guarantees": _guarantees,
    "hcpi": _hcpi,
    "product": _product,
    "all": _all,
}
