"""surefoot run, surefoot reproduce: studies from the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.terminal import INTERRUPTED, bars, console, errors

Out = Annotated[
    Path,
    typer.Option("--out", help="Folder for results; a run that was interrupted resumes there."),
]
Trials = Annotated[
    int | None, typer.Option("--trials", help="Number of trials, instead of what the study says.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", help="Local processes (default: all cores).")
]
Device = Annotated[str, typer.Option("--device", help="cpu, or cuda for a GPU (needs PyTorch).")]
Dask = Annotated[
    str | None, typer.Option("--dask", help="Address of a Dask scheduler to send the shards to.")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(
        "run", epilog="Example: `surefoot run my-study.toml --out results/my-study --workers 2`"
    )(run)
    app.command(
        "reproduce", epilog="Example: `surefoot reproduce wet-chicken --trials 1000 --out results`"
    )(reproduce)


def run(
    file: Annotated[Path, typer.Argument(help="The study: a TOML file.")],
    out: Out,
    trials: Trials = None,
    workers: Workers = None,
    device: Device = "cpu",
    dask: Dask = None,
) -> None:
    """Run a study: benchmark, sizes, algorithms and trials from a TOML file; writes summary.csv and
    figures.

    What is finished is never computed again: run the same command to resume.
    """
    from surefoot.paper.reproduction import Options, draw_study, run_study
    from surefoot.studies.spec import read_study

    study = read_study(file, trials=trials)
    with bars() as progress, _resumable(out):
        options = Options(out, trials, workers, device, dask, progress)
        results = run_study(study, out, options)
        made = draw_study(study, results, out)
    console.print(
        f"{study.trials:,} trials of {len(results.cells)} cells: {out / 'summary.csv'}",
        soft_wrap=True,
    )
    for path in made:
        console.print(f"figure: {path}", soft_wrap=True)


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            help=(
                "random-mdps, wet-chicken, table-1, assumption-1, guarantees, hcpi, product or all."
            )
        ),
    ],
    out: Out = Path("results"),
    trials: Trials = None,
    workers: Workers = None,
    device: Device = "cpu",
    dask: Dask = None,
) -> None:
    """Reproduce Scholl et al. 2022: its figures, Table 1, Assumption 1, its guarantees, and the
    product study beyond it.

    Writes summaries, figures and a file of claims (claims.md for all, claims-TARGET.md for one)
    with a verdict on each that is decided.
    """
    from surefoot.paper.reproduction import Options
    from surefoot.paper.reproduction import reproduce as reproduce_target

    with bars() as progress, _resumable(out):
        verdicts = reproduce_target(target, Options(out, trials, workers, device, dask, progress))
    for verdict in verdicts:
        console.print(
            f"[bold]{verdict.claim}[/] {verdict.verdict} ({verdict.note})",
            soft_wrap=True,
            highlight=False,
        )
    console.print(f"results: {out}", soft_wrap=True)


class _resumable:  # noqa: N801 - reads as a word in `with _resumable(out)`
    """On Ctrl-C or SIGTERM: what is finished stays, and how to go on is said."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            errors.print(
                f"interrupted: finished shards are kept in {self.out}; run the same command to"
                " resume",
                soft_wrap=True,
            )
            sys.exit(INTERRUPTED)
