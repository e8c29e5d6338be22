"""surefoot run, surefoot benchmark, surefoot reproduce: studies from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.options import METHOD, OUTPUT, listed, option
from surefoot.cli.terminal import INTERRUPTED, bars, console, errors

if TYPE_CHECKING:
    from surefoot.advice.questions import Told

Out = Annotated[
    Path, option(OUTPUT, "FOLDER", "Where results go. An interrupted run resumes there.")
]
Trials = Annotated[
    int | None,
    option(METHOD, "NUMBER", "How many trials to run.", default="as the study says"),
]
Conventions = Annotated[
    str | None,
    option(
        METHOD,
        "NAME",
        "scholl2022: all that the published code of that paper does differently.",
        default="as the study says",
    ),
]
Workers = Annotated[
    int | None,
    option(METHOD, "NUMBER", "How many local processes to use.", default="one for each core"),
]
Device = Annotated[str, option(METHOD, "NAME", "cpu, or cuda for a GPU (needs PyTorch).")]
Dask = Annotated[
    str | None,
    option(METHOD, "ADDRESS", "Run on a Dask cluster: its scheduler, such as tcp://host:8786."),
]
# these are listed by surefoot run, and taken by the others, too
OwnWorkers = Annotated[int | None, typer.Option("--workers", hidden=True)]
OwnDevice = Annotated[str, typer.Option("--device", hidden=True)]
OwnDask = Annotated[str | None, typer.Option("--dask", hidden=True)]


def run(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="The study: a TOML file.")],
    out: Out,
    trials: Trials = None,
    conventions: Conventions = None,
    workers: Workers = None,
    device: Device = "cpu",
    dask: Dask = None,
) -> None:
    """Run a study from a TOML file.

    The file names benchmark, sizes, algorithms and trials. Writes summary.csv, figures and
    report.html. What is finished is never computed again: run the same command to resume, or with
    more trials, sizes or algorithms to go on.
    """
    from surefoot.research.studies.runner import study

    with _resumable(out) as progress:
        results = study(
            file,
            trials=trials,
            conventions=conventions,
            out=out,
            workers=workers,
            device=device,
            dask=dask,
            progress=lambda done, total: progress(file.stem, done, total),
        )
        made = results.save(out)
    typer.echo(f"{results.n_trials:,} trials of {len(results.cells)} cells: {out / 'summary.csv'}")
    for path in made:
        typer.echo(f"{'page' if path.suffix == '.html' else 'figure'}: {path}")


def benchmark(
    entry: Annotated[
        Path | None,
        typer.Argument(
            metavar="ENTRY",
            help="A Python file with an algorithm. Without it all algorithms of surefoot are run.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            "FOLDER",
            "Keep what is computed there, and go on from it.",
            default="nothing kept",
        ),
    ] = None,
    worlds: Annotated[
        str | None,
        option(METHOD, "NAMES", "Which worlds to run, with commas between.", default="all"),
    ] = None,
    trials: Annotated[
        int | None,
        option(METHOD, "NUMBER", "How many trials to run.", default="as the benchmark says"),
    ] = None,
    workers: OwnWorkers = None,
) -> None:
    """Compare an algorithm of your own on frozen worlds.

    Prints mean, CVaR, the share of trials worse than the baseline and seconds, with paired
    differences from lower-approx-soft-spibb; with --out also writes scores.csv.
    """
    from surefoot.research.score_table import benchmark as scores

    with _resumable(out) as progress:
        found = scores(
            entry,
            worlds=None if worlds is None else listed(worlds),
            trials=trials,
            out=out,
            workers=workers,
            progress=progress,
        )
    typer.echo(str(found))
    if out is not None:
        found.save(out / "scores.csv")
        typer.echo(f"\nscores: {out / 'scores.csv'}")


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="random-mdps, wet-chicken, table-1, assumption-1, guarantees, hcpi, or all.",
        ),
    ],
    out: Out = Path("results"),
    trials: Trials = None,
    conventions: Conventions = None,
    workers: OwnWorkers = None,
    device: OwnDevice = "cpu",
    dask: OwnDask = None,
) -> None:
    """Reproduce the results of Scholl et al. 2022.

    These are its figures, Table 1, Assumption 1 and its guarantees. Writes summaries, figures, and
    a file of claims with a verdict on each: claims.md for all, claims-TARGET.md for one. Figures
    also give sentences.md, with a verdict on what each sentence of the paper says. Takes --workers,
    --device and --dask as surefoot run does.
    """
    from surefoot.research.figures import RunOptions
    from surefoot.research.paper.reproduction import reproduce as reproduce_target

    with _resumable(out) as progress:
        options = RunOptions(
            out=out,
            trials=trials,
            conventions=conventions,
            workers=workers,
            device=device,
            dask=dask,
            progress=progress,
        )
        verdicts = reproduce_target(target, options)
    for verdict in verdicts:
        console.print(
            f"[bold]{verdict.claim}[/] {verdict.verdict} ({verdict.note})",
            soft_wrap=True,
            highlight=False,
        )
    typer.echo(f"results: {out}")


@contextmanager
def _resumable(out: Path | None) -> Iterator[Told]:
    """Progress bars; on Ctrl-C or SIGTERM, say that finished shards stay and how to go on."""
    try:
        with bars() as progress:
            yield progress
    except KeyboardInterrupt:
        if out is None:
            raise
        errors.print(
            f"interrupted: finished shards are kept in {out}; run the same command to resume",
            soft_wrap=True,
        )
        sys.exit(INTERRUPTED)
