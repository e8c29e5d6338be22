"""surefoot check: what a log can and cannot teach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.text import Text

from surefoot.cli.log_options import ReadOptions
from surefoot.cli.options import BASELINE, PROBLEM, AsJson, ReportFile, Source, option
from surefoot.cli.progress import reading_progress
from surefoot.cli.terminal import show_with_page

COLOURS = {"ok": "green", "note": "yellow", "warning": "bold red"}


def check(
    log: Source,
    gamma: Annotated[
        float, option(PROBLEM, "NUMBER", "The discount factor: how far ahead returns look.")
    ] = 0.95,
    baseline: Annotated[
        Path | None,
        option(
            BASELINE, "FILE", "The policy that made the log: columns state, action, probability."
        ),
    ] = None,
    report: ReportFile = None,
    as_json: AsJson = False,
    *,
    options: ReadOptions,
) -> None:
    """Check a log before learning from it.

    It looks at size, coverage, rare pairs, dead ends, independent returns and time gaps. It tests
    whether the log is Markov (and if not, which --history helps), whether world and baseline stay
    the same, whether episodes are copies, and whether rows contradict each other. Every finding is
    ok, a note or a warning. The exit code is 0 for every log that can be read.
    """
    from surefoot import advice

    with reading_progress() as progress:
        found = advice.check(
            log, gamma=gamma, baseline=baseline, progress=progress, **options.asking()
        )
    show_with_page(found, as_json, report, coloured)


def coloured(line: str) -> Text:
    """A line of the command in the colour of its level."""
    level = line.split(maxsplit=1)[0] if line.startswith(" ") else ""
    return (
        Text(line) if level not in COLOURS else Text.assemble((line[:7], COLOURS[level]), line[7:])
    )
