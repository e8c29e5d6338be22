"""surefoot check: what a log can and cannot teach, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from surefoot.cli.log_options import ReadOptions, progress, read, reads_a_log
from surefoot.cli.terminal import console, print_json
from surefoot.text import plural

if TYPE_CHECKING:
    from surefoot.diagnosis import Finding
    from surefoot.logs import Log

COLOURS = {"ok": "green", "note": "yellow", "warning": "bold red"}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "check", epilog="Example: `surefoot check log.csv --gamma 0.95 --baseline rule.csv`"
    )(check)


@reads_a_log
def check(
    log: Annotated[
        str, typer.Argument(help="The log: a CSV or Parquet file, a folder or a pattern.")
    ],
    gamma: Annotated[float, typer.Option(help="Discount factor: how far returns reach.")] = 0.95,
    baseline: Annotated[
        Path | None,
        typer.Option(help="The policy that made the log: a file with state, action, probability."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    *,
    options: ReadOptions,
) -> None:
    """Check a log before learning from it.

    Size, coverage, rare pairs, dead ends, independent returns, time gaps; whether it is Markov,
    whether world and baseline stay the same, whether episodes are copies or rows contradict each
    other. Every finding is ok, a note or a warning. The exit code is 0 for every log that can be
    read.
    """
    from surefoot.diagnosis import check_log
    from surefoot.logs import read_baseline

    with progress() as shown:
        found = read(log, options, shown)
        given = (
            None if baseline is None else read_baseline(baseline, found, unknown_states="ignore")
        )
        findings = check_log(found, gamma=gamma, baseline=given)
    if as_json:
        print_json("check", _for_machines(log, found, findings))
    else:
        _print(found, findings)


def _for_machines(name: str, log: Log, findings: tuple[Finding, ...]) -> dict[str, Any]:
    account = log.accounting
    return {
        "log": name,
        "columns": log.columns,
        "rows": {"read": account.rows, "used": account.used, "left_out": dict(account.left_out)},
        "warnings": sum(finding.level == "warning" for finding in findings),
        "vetoes": [finding.key for finding in findings if finding.vetoes],
        "findings": [
            {
                "name": x.name,
                "level": x.level,
                "sentence": x.sentence,
                "numbers": dict(x.numbers),
                "key": x.key,
                "vetoes": x.vetoes,
            }
            for x in findings
        ],
    }


def _print(log: Log, findings: tuple[Finding, ...]) -> None:
    """Row accounting, then one finding a line."""
    console.print(escape(str(log.accounting)), highlight=False, soft_wrap=True)
    console.print(escape(log.columns), highlight=False, soft_wrap=True, style="dim")
    for finding in findings:
        level = f"[{COLOURS[finding.level]}]{finding.level:>7}[/]"
        console.print(
            f"{level}  [bold]{escape(finding.name)}:[/] {escape(finding.sentence)}",
            highlight=False,
            soft_wrap=True,
        )
    counted = sum(finding.level == "warning" for finding in findings)
    last = plural(counted, "warning") if counted else "no warnings"
    console.print(f"{plural(len(findings), 'finding')}, {last}", highlight=False)
    keys = [finding.key for finding in findings if finding.vetoes]
    if keys:
        words = (
            "improve supports no policy learned from this log, unless told to with --despite"
            f" {','.join(keys)}"
        )
        console.print(words, highlight=False, soft_wrap=True)
