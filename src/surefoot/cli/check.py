"""surefoot check: what a log can and cannot teach."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.text import Text

from surefoot.cli.log_options import NOT_GIVEN, LogOptions
from surefoot.cli.options import OUTPUT, PROBLEM, AsJson, ReportFile, Source, option
from surefoot.cli.progress import reading_progress
from surefoot.cli.terminal import show_with_page

COLOURS = {"ok": "green", "note": "yellow", "warning": "bold red"}


GAMMA = 0.95  # how far ahead returns look where nobody said it


@dataclass(frozen=True, kw_only=True)
class CheckOptions(LogOptions):
    """The options of a check."""

    gamma: Annotated[
        float,
        option(
            PROBLEM,
            "NUMBER",
            "The discount factor: how far ahead returns look. Saved only if given.",
            default=f"{GAMMA}",
        ),
    ] = NOT_GIVEN


def check(
    log: Source,
    save: Annotated[
        Path | None,
        option(
            OUTPUT,
            "FILE",
            "Write down how LOG is read and what is asked of it, such as log.toml: every command"
            " takes that file as LOG.",
        ),
    ] = None,
    report: ReportFile = None,
    as_json: AsJson = False,
    *,
    options: CheckOptions,
) -> None:
    """Check a log before learning from it.

    It looks at size, coverage, rare pairs, dead ends, independent returns and time gaps. It tests
    whether the log is Markov (and if not, which --history helps), whether world and baseline stay
    the same, whether episodes are copies, and whether rows contradict each other. Every finding is
    ok, a note or a warning. The exit code is 0 for every log that can be read.

    With --save the columns as found, the options given here and the paths of baseline and masks are
    written to a file that stands for all of them from then on.
    """
    from surefoot import advice

    with reading_progress() as progress:
        found = advice.check(log, save=save, progress=progress, **options.asking())
    show_with_page(found, as_json, report, styled=coloured)


def coloured(line: str) -> Text:
    """A line of the command in the colour of its level."""
    level = line.split(maxsplit=1)[0] if line.startswith(" ") else ""
    return (
        Text(line) if level not in COLOURS else Text.assemble((line[:7], COLOURS[level]), line[7:])
    )
