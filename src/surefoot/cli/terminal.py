"""The terminal: exit codes, text and JSON on stdout, errors and progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from surefoot.advice.answers import Answer, Paged
    from surefoot.advice.questions import Told
    from surefoot.logs.database import Progress as Reading


DONE, CRASH, WRONG_INPUT, NO_SUPPORT, WORSE, DESPITE = 0, 1, 2, 3, 4, 5
INTERRUPTED, PIPE_CLOSED = 130, 141


class Screen(Console):
    """A console that leaves a closed pipe to `main`; rich would end with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Raise it again: rich calls this while it handles the BrokenPipeError."""
        raise


console = Screen()
errors = Screen(stderr=True)


def complain(words: str) -> None:
    """An error on stderr; nothing if stderr was closed."""
    with suppress(BrokenPipeError):
        try:
            errors.print(Text.assemble(("error:", "bold red"), " ", words), soft_wrap=True)
        except MemoryError:  # too little even for colours
            sys.stderr.write(f"error: {words}\n")


def json_text(command: str, found: Mapping[str, Any]) -> str:
    """JSON that names its schema, in ASCII; NaN and infinities are null."""
    from surefoot.core.plain_values import as_document

    return json.dumps(as_document(command, found), indent=2, allow_nan=False)


def show(
    answer: Answer,
    as_json: bool,
    beside: Mapping[str, Any] | None = None,
    *,
    explain: bool = False,
    styled: Callable[[str], str | Text] = str,
) -> None:
    """Print an answer, and what the command has beside it; `explain`: all that is said of it."""
    found = {**answer.document, **(beside or {})}

    def lines() -> Iterable[str | Text]:
        return map(styled, answer.said(found, explain=explain).split("\n"))

    show_document(answer.command, found, lines, as_json)


def show_with_page(
    answer: Paged,
    as_json: bool,
    report: Path | None,
    *,
    explain: bool = False,
    styled: Callable[[str], str | Text] = str,
) -> None:
    """Print an answer; its page goes to `report` first."""
    beside = {} if report is None else {"report": str(answer.report(report))}
    show(answer, as_json, beside, explain=explain, styled=styled)


def show_document(
    command: str,
    found: Mapping[str, Any],
    lines: Callable[[], Iterable[str | Text]],
    as_json: bool,
) -> None:
    """Print what a command found: a JSON document (docs/json.md has the fields), or its lines."""
    if as_json:
        typer.echo(json_text(command, found))
        return
    for line in lines():
        if isinstance(line, Text):
            console.print(line, highlight=False, soft_wrap=True)
        else:
            typer.echo(line)
    if "report" in found:
        typer.echo(f"report    {found['report']}")


def print_json_error(kind: str, message: str, exit_code: int) -> None:
    """An error for machines, instead of what the command would have found."""
    found = {
        "schema": "surefoot/error/1",
        "error": {"type": kind, "message": message, "exit_code": exit_code},
    }
    typer.echo(json.dumps(found, indent=2))


class ProgressLines:
    """A line at most every EVERY seconds, where stderr is no terminal; short work has none."""

    EVERY: ClassVar[float] = 10.0

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._begin = say, time.monotonic()
        self._last = self._begin

    def __call__(self, what: str, done: float, total: float) -> None:
        """`done` of `total` of this piece of work."""
        now = time.monotonic()
        if now - self._last < self.EVERY:
            return
        self._last = now
        share = f": {done / total:.0%}" if total > 0 and done > 0 else ""
        self._say(f"{what}{share}, {now - self._begin:.0f} s so far")


def tell(words: str) -> None:
    """A plain line on stderr; nothing if stderr was closed."""
    with suppress(BrokenPipeError):
        errors.print(words, soft_wrap=True, highlight=False, markup=False)


class Bars:
    """One progress bar for each piece of work."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: float, total: float) -> None:
        """`done` of `total` of this piece of work."""
        if what not in self.tasks:
            self.tasks[what] = self.progress.add_task(what, total=total)
        self.progress.update(self.tasks[what], completed=done, total=total)


@contextmanager
def bars() -> Iterator[Told]:
    """Progress on stderr: bars with the time left where that is a terminal, else a line now and
    then.
    """
    if not errors.is_terminal:
        yield ProgressLines(tell)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(),
        MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=errors) as progress:
        yield Bars(progress)


@contextmanager
def reading_progress() -> Iterator[Reading]:
    """How far the reading of a file is: a bar; where stderr is no terminal, a line now and then."""
    from surefoot.logs import progress_bar

    if errors.is_terminal:
        with progress_bar(errors) as shown:
            yield shown
        return
    lines = ProgressLines(tell)
    yield lambda what, share: lines(what, share, 1.0)


def reading(shown: Told) -> Reading:
    """The reading of a file as one of the bars of a command that has more to show: two displays at
    once cannot be.
    """
    return lambda what, share: shown(what, share, 1.0)
