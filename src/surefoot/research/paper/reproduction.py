"""What `surefoot reproduce` does: the studies behind each target, and what is written of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from pathlib import Path

from surefoot.algorithms.conventions import conventions_of
from surefoot.core.atomic import write_csv, write_whole
from surefoot.core.errors import StudyError
from surefoot.report.style import save
from surefoot.research.figures import (
    FinishedStudy,
    RunOptions,
    Share,
    assumption_1_figure,
    draw_study,
    run_study,
    write_page,
)
from surefoot.research.paper.claim import ClaimVerdict, render_claims
from surefoot.research.paper.guarantees import (
    AssumptionRow,
    BoundRow,
    BudgetRow,
    ExactRow,
    assumption_1_study,
    c10,
    c11,
    c11b,
    c12,
    guarantees_study,
)
from surefoot.research.paper.sentences import judge_sentences, render_sentences
from surefoot.research.paper.study_claims import c13, c16, hcpi_table, judge_figures, mending
from surefoot.research.paper.table_1 import c9, render_table_1
from surefoot.research.studies.runner import check_device
from surefoot.research.studies.spec import shipped_study

BENCHMARKS = ("random-mdps", "wet-chicken")
# studies beyond the paper are scripts beside their results
MOVED = {
    "priced": "papers/priced/priced_study.py",
    "product": "papers/scholl2022/product_study.py",
}
Verdicts = tuple[ClaimVerdict, ...]


def reproduce(target: str, options: RunOptions) -> Verdicts:
    """Run what a target needs, write its outputs under `options.out`, and return its verdicts."""
    if target in MOVED:
        raise StudyError(f"{target} is no target: run {MOVED[target]} of the repository")
    if target not in TARGETS:
        raise StudyError(f"nothing is called {target!r}; reproduce one of: {', '.join(TARGETS)}")
    for name, number in (("trials", options.trials), ("workers", options.workers)):
        if number is not None and number < 1:
            raise StudyError(f"{name} must be at least 1, got {number}")
    if options.out.exists() and not options.out.is_dir():
        raise StudyError(f"{options.out} is a file: choose a folder with --out")
    check_device(options.device)
    conventions_of(options.conventions)
    verdicts = TARGETS[target](options)
    if verdicts:
        name = "claims.md" if target == "all" else f"claims-{target}.md"
        write_whole(options.out / name, render_claims(verdicts))
    return verdicts


def _shipped(name: str, options: RunOptions) -> FinishedStudy:
    """A shipped study, run or resumed in its own folder."""
    study = shipped_study(name, options.trials, options.conventions)
    return run_study(study, options.out / name, options)


def _figures(
    options: RunOptions, names: Sequence[str] = BENCHMARKS, others: Verdicts = ()
) -> Verdicts:
    """C1 to C8, C14 and C15; and the sentences that these and the others decide."""
    finished = []
    for name in names:
        done = _shipped(name, options)
        draw_study(done)
        finished.append(done)
    verdicts = judge_figures([done.results for done in finished])
    for done in finished:
        write_page(done, [(x.claim, x.verdict, x.note) for x in verdicts])
    found = judge_sentences([done.results for done in finished], {x.claim: x for x in others})
    name = "sentences.md" if names == BENCHMARKS else f"sentences-{names[0]}.md"
    write_whole(options.out / name, render_sentences(found))
    return verdicts


def _table_1(options: RunOptions) -> Verdicts:
    results = [_shipped(f"{name}-grid", options).results for name in BENCHMARKS]
    write_whole(options.out / "table-1.md", render_table_1(results))
    return (c9(results),)


def _assumption_1(options: RunOptions) -> Verdicts:
    rows = assumption_1_study(
        options.trials or 100, device=options.device, progress=options.told("assumption-1")
    )
    _write_rows(options.out / "assumption-1.csv", rows)
    drawn = assumption_1_figure(_shares(rows), title="Assumption 1 on Random MDPs")
    save(drawn, options.out / "assumption-1")
    return (c10(rows),)


def _shares(rows: Sequence[AssumptionRow]) -> list[Share]:
    """Of the decisive data sets at (gamma, size), all baselines together, the share that holds."""
    shares = []
    for gamma, size in dict.fromkeys((row.gamma, row.size) for row in rows):
        here = [row for row in rows if (row.gamma, row.size) == (gamma, size)]
        decisive, held = sum(row.decisive for row in here), sum(row.holds for row in here)
        shares.append(Share(gamma, size, held / max(decisive, 1), decisive))
    return shares


def _guarantees(options: RunOptions) -> Verdicts:
    found = guarantees_study(
        options.trials or 1000, device=options.device, progress=options.told("guarantees")
    )
    _write_rows(options.out / "guarantees-bounds.csv", found.bounds)
    _write_rows(options.out / "guarantees-budgets.csv", found.budgets)
    _write_rows(options.out / "guarantees-exact.csv", found.exact)
    results = [_shipped(f"{name}-steps", options).results for name in BENCHMARKS]
    title = "# Does mending the published step move the figures?"
    write_whole(options.out / "mending.md", f"{title}\n\n{mending(results).markdown()}\n")
    return c11(found.bounds), c11b(found.budgets), c12(found.exact), c13(results)


def _hcpi(options: RunOptions) -> Verdicts:
    done = _shipped("random-mdps-hcpi", options)
    title = (
        "# HCPI and Robust MDP against the SPIBB family: Random MDPs,"
        f" {done.study.trials:,} trials, CVaR at {done.study.alpha:g}"
    )
    table = hcpi_table(done.results, done.how)
    write_whole(done.out / "hcpi.md", f"{title}\n\n{table.markdown()}\n")
    return (c16(done.results),)


def _write_rows(
    path: Path, rows: Sequence[AssumptionRow | BoundRow | BudgetRow | ExactRow]
) -> None:
    write_csv(path, [field.name for field in fields(rows[0])], map(astuple, rows))


def _all(options: RunOptions) -> Verdicts:
    targets = (_table_1, _assumption_1, _guarantees, _hcpi)
    others = tuple(verdict for target in targets for verdict in target(options))
    return (*_figures(options, others=others), *others)


TARGETS: dict[str, Callable[[RunOptions], Verdicts]] = {
    "random-mdps": lambda options: _figures(options, ("random-mdps",)),
    "wet-chicken": lambda options: _figures(options, ("wet-chicken",)),
    "table-1": _table_1,
    "assumption-1": _assumption_1,
    "guarantees": _guarantees,
    "hcpi": _hcpi,
    "all": _all,
}
