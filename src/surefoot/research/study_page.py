"""The page of a study: figures, a table for every size, paired differences, claims, provenance."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from surefoot.core.atomic import read_json
from surefoot.core.text import plural, with_interval
from surefoot.report.page import Item, PageTable, Picture, Section, number, percent, sections_page
from surefoot.research.studies.results import Results, SummaryRow
from surefoot.research.studies.shards import MANIFEST
from surefoot.research.studies.spec import Study
from surefoot.statistics.metrics import Intervals, mean_and_cvar

MARKS = {"holds": "ok", "does not hold": "warning"}


def study_page(
    study: Study,
    folder: Path,
    results: Results,
    summary: Sequence[SummaryRow],
    how: Intervals,
    figures: Sequence[Path],
    claims: Sequence[Mapping[str, str]] = (),
    seconds: float | None = None,
) -> str:
    """What a study found; `claims` have the fields claim, verdict and note. `seconds` is how long
    the last run took.
    """
    labels = list(dict.fromkeys(cell.label for cell in results.cells))
    sections = [
        Section(title="Figures", pictures=[_drawn(path, study) for path in figures]),
        Section(
            title="Mean and CVaR",
            sentences=[
                f"With 95 % intervals over {study.trials:,} trials; CVaR is the mean of the worst"
                f" {percent(study.alpha)} of them. Worse: the share of trials below the baseline."
            ],
            tables=_tables(summary),
        ),
    ]
    if len(labels) > 1:
        sections.append(
            Section(
                title="Paired differences",
                sentences=[
                    f"Against {labels[0]}, on the same trials. An interval that does not touch 0 is"
                    " decided; one in twenty is by chance."
                ],
                tables=_differences(results, labels[0], how),
            )
        )
    if claims:
        items = [
            Item(f"{x['claim']} {x['verdict']}: {x['note']}", MARKS.get(x["verdict"], "note"))
            for x in claims
        ]
        sections.insert(0, Section(title="Claims", items=items))
    lost = sum(row.not_converged for row in summary)
    notes = [f"{plural(lost, 'fit')} did not converge: the last iterate counts."] * bool(lost)
    return sections_page(
        heading=f"Study {study.name}",
        word=f"{plural(len(labels), 'setting')} on {study.benchmark.name}, {study.trials:,} trials",
        good=True,
        sentences=[_best(summary), *notes],
        sections=[x for x in sections if x.pictures or x.tables or x.items],
        made=_provenance(folder) | _timing(seconds),
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


def _timing(seconds: float | None) -> dict[str, str]:
    """How long the last run took."""
    if seconds is None:
        return {}
    return {"last run": f"{number(seconds)} s; what earlier runs had finished is not in it"}


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


def _provenance(folder: Path) -> dict[str, str]:
    """What the manifest of the study's folder says."""
    found: dict[str, Any] = read_json(folder / MANIFEST)
    versions = ", ".join(f"{k} {v}" for k, v in found.pop("versions", {}).items())
    return {str(k): str(v) for k, v in found.items()} | {"versions": versions}
