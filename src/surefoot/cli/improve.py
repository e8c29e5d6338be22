"""surefoot improve, surefoot compare: from a log to a policy file, or to a table of what every
algorithm would do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.cli.log_options import LogOptions, Posed, parsed_settings, pose, reads_a_log
from surefoot.cli.terminal import NO_SUPPORT, bars, errors, print_json
from surefoot.text import aligned, interval, signed

if TYPE_CHECKING:
    from surefoot.advice import Advice

Source = Annotated[
    str, typer.Argument(help="The log: a CSV or Parquet file, a folder or a pattern.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines, and nothing else.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A parameter of the algorithm: key=value; may be repeated."),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(
        "improve",
        epilog=(
            "Example: `surefoot improve log.csv --gamma 0.95 --baseline rule.csv --out improved`"
        ),
    )(improve)
    app.command(
        "compare", epilog="Example: `surefoot compare log.csv --gamma 0.95 --baseline rule.csv`"
    )(compare)


@reads_a_log
def improve(
    log: Source,
    algorithm: Annotated[
        str, typer.Option(help="Its name; `surefoot list` shows all.")
    ] = "lower-exact-soft-spibb",
    settings: Settings = None,
    out: Annotated[
        Path, typer.Option(help="Folder for policy.csv, changes.csv and summary.json.")
    ] = Path("improved"),
    accept: Annotated[
        bool, typer.Option("--accept", help="Use the policy even where the data do not support it.")
    ] = False,
    despite: Annotated[
        str,
        typer.Option(
            help=(
                "Findings about the log that shall not forbid a promise, joined by commas: drift,"
                " policy-drift, markov, baseline, "
                "copies, contradictions. Every output then names them."
            )
        ),
    ] = "",
    dask: Annotated[
        str | None,
        typer.Option("--dask", help="Address of a Dask scheduler whose workers count the files."),
    ] = None,
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Improve the policy that made a log, and say whether the data support it.

    Exit code 0: supported (or accepted with --accept). Exit code 3: not supported; policy.csv then
    holds the baseline and candidate.csv the policy that was not supported. The default method moves
    away from the baseline only as far as counts allow; its parameters have no unit and need no
    tuning to the scale of rewards.
    """
    from surefoot.advice import advise, chosen_algorithm, summarise, write_advice
    from surefoot.advice.summary import text

    posed = pose(log, options, dask)
    chosen = chosen_algorithm(posed.problem, algorithm, parsed_settings(settings))
    waived = [x.strip() for x in despite.split(",") if x.strip()]
    advice = advise(
        posed.log,
        posed.problem,
        chosen,
        parts=posed.units,
        pi_b=posed.made_by,
        accept=accept,
        assured=True,
        despite=waived,
    )
    summary = summarise(advice, log, posed.disagreement)
    files = write_advice(out, advice, summary, options.state_names, posed.elsewhere)
    if as_json:
        print_json(
            "improve", summary | {"files": {name: str(path) for name, path in files.items()}}
        )
    else:
        typer.echo(text(summary))
        typer.echo(f"files     {', '.join(str(path) for path in files.values())}")
    if not (advice.supported or advice.accepted):
        raise typer.Exit(NO_SUPPORT)


@reads_a_log
def compare(
    log: Source,
    only: Annotated[
        str,
        typer.Option(
            help=(
                "Names of algorithms, joined by commas; composed names such as ramdp+pi-b-spibb"
                " too."
            )
        ),
    ] = "",
    as_json: AsJson = False,
    *,
    options: LogOptions,
) -> None:
    """Run all algorithms on one log, with default parameters, and print one table.

    The gain is measured on the half of the log that the policy was not learned from. Choosing the
    best row of this table is a choice too: judge the winner on fresh data. Exit code 0 whatever the
    verdicts.
    """
    from surefoot.advice.summary import log_summary, read_lines
    from surefoot.algorithms import ALGORITHMS

    posed = pose(log, options)
    names = [name.strip() for name in only.split(",") if name.strip()] or list(ALGORITHMS)
    rows = _compared(posed, names)
    summary: dict[str, Any] = {
        "log": log_summary(posed.log, log),
        "gamma": options.gamma,
        "algorithms": rows,
        "notes": posed.notes,
    }
    if as_json:
        print_json("compare", summary)
        return
    typer.echo("\n".join([*read_lines(summary["log"]), "", *_table(rows), ""]))
    typer.echo(
        "optimistic: gain in sample, on the data the policy was learned from. gain: learned from"
        " one half of the log, tested on the"
    )
    typer.echo(
        "other, with its 90 % interval. Supported says each row by itself; a table of many rows has"
        " a lucky one: judge the winner on"
    )
    typer.echo("fresh data.")
    for note in posed.notes:
        typer.echo(f"note: {note}")


def _compared(posed: Posed, names: list[str]) -> list[dict[str, Any]]:
    """One row of the table for each algorithm; one that cannot run on this log says why."""
    from surefoot.advice import advise, chosen_algorithm
    from surefoot.advice import units as units_of
    from surefoot.advice.advise import found_against
    from surefoot.errors import BaselineError, NotAvailableError, ParameterError

    units = units_of(posed.log, posed.problem.log, posed.problem.gamma)
    against = found_against(posed.log, posed.problem, posed.made_by)
    rows = []
    with bars() as shown:
        for i, name in enumerate(names):
            try:
                chosen = chosen_algorithm(posed.problem, name)
                rows.append(
                    _row(
                        advise(
                            posed.log,
                            posed.problem,
                            chosen,
                            parts=units,
                            pi_b=posed.made_by,
                            against=against,
                        )
                    )
                )
            except (BaselineError, NotAvailableError, ParameterError) as error:
                rows.append({"algorithm": name, "not_available": str(error)})
            if errors.is_terminal:
                shown("comparing algorithms", i + 1, len(names))
    return rows


def _row(advice: Advice) -> dict[str, Any]:
    from surefoot.advice import parameters_of
    from surefoot.advice.summary import gain_summary

    return {
        "algorithm": advice.algorithm.name,
        "parameters": parameters_of(advice.algorithm),
        "states_changed": len(advice.changed),
        "mass_moved": advice.mass_moved,
        "verdict": advice.verdict,
        "reason": advice.reason,
        "converged": None if advice.solution is None else bool(advice.solution.status.ok),
    } | gain_summary(advice.gain, advice.in_sample)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as text."""
    header = ("", "states", "mass", "optimistic", "gain", "90 % interval", "supported")
    lines: list[tuple[str, ...]] = [header]
    for row in rows:
        if "not_available" in row:
            lines.append((row["algorithm"], f"not available: {row['not_available']}"))
            continue
        inside, cross = row["in_sample_optimistic"] or {}, row["held_out"] or {}
        lost = "" if row["converged"] in (True, None) else "  NOT CONVERGED"
        lines.append(
            (
                row["algorithm"],
                f"{row['states_changed']:d}",
                f"{row['mass_moved']:.1%}",
                signed(inside.get("gain")),
                signed(cross.get("gain")),
                interval(cross.get("low"), cross.get("high")),
                ("yes" if row["verdict"] == "supported" else "no") + lost,
            )
        )
    return aligned(lines, "<>>>>><")
