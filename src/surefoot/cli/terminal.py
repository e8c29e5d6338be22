"""The terminal: exit codes, text and JSON on stdout, errors and progress on stderr, signals."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
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
# of every output under --json; raised when a field goes away or changes its meaning, not when one
# is added
JSON_VERSION = 1
SAME_REQUEST = 10.0  # seconds in which a second signal is the same request: GNU timeout sends two


class Screen(Console):
    """A console that leaves it to `main` what a closed pipe means; rich would end with exit code
    1.
    """

    def on_broken_pipe(self) -> None:
        """Raise it again: rich calls this while it handles the BrokenPipeError."""
        raise


console = Screen()
errors = Screen(stderr=True)


def complain(words: str) -> None:
    """An error on stderr; whoever closed stderr does not want to hear it."""
    with suppress(BrokenPipeError):
        errors.print(f"[bold red]error:[/] {escape(words)}", soft_wrap=True)


def json_text(command: str, found: Mapping[str, Any]) -> str:
    """What a command found, as JSON that names its schema; NaN and infinities are null, and
    every character is ASCII.
    """
    from surefoot.advice import plain

    return json.dumps(
        {"schema": f"surefoot/{command}/{JSON_VERSION}"} | plain(found), indent=2, allow_nan=False
    )


def show(
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


def print_json_error(kind: str, message: str, exit_code: int) -> None:
    """An error for machines, instead of what the command would have found."""
    found = {
        "schema": f"surefoot/error/{JSON_VERSION}",
        "error": {"type": kind, "message": message, "exit_code": exit_code},
    }
    typer.echo(json.dumps(found, indent=2))


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end: an interruption, but not Ctrl-C, on which Python may
    end with a signal of its own.
    """


class Signals:
    """SIGTERM, and SIGHUP of a terminal that is closed, end a command as Ctrl-C does: what is
    temporary is removed on the way out.
    """

    def __init__(self) -> None:
        self.came: signal.Signals | None = None
        self._when = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Interrupt whatever is being done."""
        self.came, before, self._when = signal.Signals(number), self._when, time.monotonic()
        if self._when - before >= SAME_REQUEST:
            raise Stopped

    def again(self, lost: sys.UnraisableHookArgs) -> None:
        """What to do with an exception that Python drops, such as one in a callback of the
        import system: if it is ours, ask again.
        """
        if isinstance(lost.exc_value, Stopped) and self.came is not None:
            self._when = -math.inf
            threading.Timer(0.05, signal.raise_signal, [self.came]).start()
        else:
            sys.__unraisablehook__(lost)


@contextmanager
def heeded_signals() -> Iterator[Signals]:
    """Heed SIGTERM and SIGHUP, where the process does not ignore them; once one came, until the
    process has ended.
    """
    signals, before = Signals(), {}
    for number in (signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])):
        if signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, signals)
    hook, sys.unraisablehook = sys.unraisablehook, signals.again
    try:
        yield signals
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items() if signals.came is None else ():
            signal.signal(number, handler)


def silence_stdout() -> None:
    """Send what is left to be written nowhere: nobody reads it, or it cannot be written."""
    with suppress(OSError, ValueError):  # a stdout that is no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
        os.close(nowhere)


class Bars:
    """One progress bar for each piece of work, made when it is first heard of."""

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
