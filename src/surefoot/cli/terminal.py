"""The terminal: exit codes, text and JSON on stdout, errors and progress on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
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

DONE, CRASH, WRONG_INPUT, NO_SUPPORT, WORSE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 4, 130, 141
# Raised when a field of --json goes away or changes its meaning, not when one is added.
JSON_VERSION = 1


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
        errors.print(f"[bold red]error:[/] {escape(words)}", soft_wrap=True)


def json_text(command: str, found: Mapping[str, Any]) -> str:
    """JSON that names its schema, in ASCII; NaN and infinities are null."""
    from surefoot.advice import plain

    return json.dumps(
        {"schema": f"surefoot/{command}/{JSON_VERSION}"} | plain(found), indent=2, allow_nan=False
    )


def show(
    command: str,
    found: Mapping[str, Any],
    lines: Callable[[], Iterable[str | Text]],
    as_json: bool,
    report: Path | None = None,
    page: Callable[[], str] | None = None,
) -> None:
    """Print what a command found: a JSON document (docs/json.md has the fields), or its lines.

    With `report`, its page is written there first.
    """
    if report is not None and page is not None:
        from surefoot.atomic import write_whole

        found = {**found, "report": str(write_whole(report, page()))}
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
        "schema": f"surefoot/error/{JSON_VERSION}",
        "error": {"type": kind, "message": message, "exit_code": exit_code},
    }
    typer.echo(json.dumps(found, indent=2))


class Bars:
    """One progress bar for each piece of work."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total` of this piece of work."""
        if what not in self.tasks:
            self.tasks[what] = self.progress.add_task(what, total=total)
        self.progress.update(self.tasks[what], completed=done, total=total)


@contextmanager
def bars() -> Iterator[Bars]:
    """Progress bars on stderr, with the time left, where that is a terminal."""
    columns = (
        TextColumn("{task.description}"), BarColumn(),
        MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as progress:
        yield Bars(progress)
