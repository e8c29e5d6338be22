"""How a command ends: errors as sentences and exit codes, signals, closed pipes, full disks."""

from __future__ import annotations

import errno
import io
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from surefoot.cli.terminal import (
    CRASH,
    DONE,
    INTERRUPTED,
    PIPE_CLOSED,
    WRONG_INPUT,
    complain,
    print_json_error,
)
from surefoot.core.errors import SurefootError

TOO_LITTLE = (
    "there is too little memory for this log: fewer states and actions need less, and --threads 1"
    " --memory 1GB keeps the counting of rows small"
)
# how the errors that are no MemoryError say so
SHORT_OF_MEMORY = ("can't start new thread", "failed to map segment", "Cannot allocate memory")
SAME_REQUEST = 10.0  # seconds in which a second signal is the same request: GNU timeout sends two


@dataclass(frozen=True)
class Ending:
    """How a command ended: `kind` and `message` of an error, if any; `told`: stderr has it."""

    exit_code: int
    kind: str = ""
    message: str = ""
    told: bool = False


def run_to_the_end(app: Callable[[], object]) -> None:
    """Run the command that was asked for, and exit.

    An error is a sentence on stderr and an exit code; with --json also a document on stdout.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a label that the terminal cannot show is no crash
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in sys.argv[1:]
    with stopping_signals() as signals:
        try:
            end = _run(app)
        except Exception as error:
            if signals.came is None:
                if as_json:
                    _tell(Ending(CRASH, type(error).__name__, str(error)))
                raise
            # whatever the interruption became on its way
            end = Ending(INTERRUPTED, "KeyboardInterrupt")
        if signals.came is not None and end.kind:  # else it was done by then
            end = Ending(128 + signals.came, signals.came.name, f"ended by {signals.came.name}")
        if end.kind and not end.told:
            complain(end.message)
        if end.kind and as_json:
            _tell(end)
        sys.exit(end.exit_code)


def _run(app: Callable[[], object]) -> Ending:
    """How the command ended, once the last byte of its output is written."""
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as stop:
        return _stopped(stop)
    except KeyboardInterrupt:
        return Ending(INTERRUPTED, "KeyboardInterrupt", "interrupted")
    except SurefootError as error:
        return Ending(WRONG_INPUT, type(error).__name__, str(error))
    except BrokenPipeError:
        silence_stdout()
        return Ending(PIPE_CLOSED)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not (isinstance(error, MemoryError) or any(x in str(error) for x in SHORT_OF_MEMORY)):
            raise
        return Ending(WRONG_INPUT, "MemoryError", f"{TOO_LITTLE} ({error})")
    except OSError as error:
        _drop_unwritable()
        if error.errno == errno.ENOSPC and not error.filename:
            return Ending(WRONG_INPUT, "OSError", f"the output cannot be written: {error.strerror}")
        return Ending(
            WRONG_INPUT,
            type(error).__name__,
            f"{error.strerror or error}: {error.filename}" if error.filename else str(error),
        )
    return Ending(DONE)


def _tell(end: Ending) -> None:
    """An error for machines, where stdout can be written."""
    try:
        print_json_error(end.kind, end.message, end.exit_code)
        sys.stdout.flush()
    except OSError:
        silence_stdout()


def _drop_unwritable() -> None:
    """Discard what stdout still holds if it cannot be written, as on a full disk.

    Otherwise the interpreter would try once more at its end.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silence_stdout()


def _stopped(stop: SystemExit) -> Ending:
    """The ending behind typer's SystemExit; typer has printed errors about options itself."""
    code, cause = int(stop.code or DONE), stop.__context__
    if isinstance(cause, BrokenPipeError):  # typer ends with 1
        silence_stdout()
        return Ending(PIPE_CLOSED)
    if code == INTERRUPTED:
        return Ending(code, "KeyboardInterrupt", "interrupted", told=True)
    if code == WRONG_INPUT and cause is not None:
        # In newer versions of typer these classes are private, but all have format_message.
        return Ending(
            code, "UsageError", getattr(cause, "format_message", cause.__str__)(), told=True
        )
    return Ending(code)


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end.

    It is no plain KeyboardInterrupt, on which Python may end with a signal of its own.
    """


class Signals:
    """SIGTERM, and SIGHUP of a closed terminal, end a command as Ctrl-C does.

    Temporary files are removed on the way out.
    """

    def __init__(self) -> None:
        self.came: signal.Signals | None = None
        self._when = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Interrupt whatever is being done."""
        if put_off(number, frame):
            return
        self.came, before, self._when = signal.Signals(number), self._when, time.monotonic()
        if self._when - before >= SAME_REQUEST:
            raise Stopped

    def again(self, lost: sys.UnraisableHookArgs) -> None:
        """Raise the signal again if Python dropped its exception, as it does in some callbacks."""
        if isinstance(lost.exc_value, Stopped) and self.came is not None:
            self._when = -math.inf
            raise_later(self.came)
        else:
            sys.__unraisablehook__(lost)


def put_off(number: int, frame: FrameType | None) -> bool:
    """Whether a signal came during an import, and will be raised again after it: some compiled
    modules end the process when they are interrupted half made.
    """
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    if frame is not None:
        raise_later(number)
    return frame is not None


def raise_later(number: int) -> None:
    """Raise a signal again in a moment; one for the process wakes the main thread up."""
    windows = sys.platform == "win32"
    threading.Timer(
        0.05, lambda: signal.raise_signal(number) if windows else os.kill(os.getpid(), number)
    ).start()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C: a KeyboardInterrupt, but none within an import."""
    if not put_off(number, frame):
        signal.default_int_handler(number, frame)


@contextmanager
def stopping_signals() -> Iterator[Signals]:
    """Let SIGTERM and SIGHUP end the command, unless the process ignores them.

    Once one came, the handlers stay until the process has ended.
    """
    signals, before = Signals(), dict[int, Any]()
    for number in (signal.SIGTERM, *([signal.SIGHUP] if sys.platform != "win32" else [])):
        if signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, signals)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, _interrupt)
    hook, sys.unraisablehook = sys.unraisablehook, signals.again
    try:
        yield signals
    finally:
        sys.unraisablehook = hook
        for one, handler in before.items() if signals.came is None else ():
            signal.signal(one, handler)


def silence_stdout() -> None:
    """Discard what is still to be written: nobody reads it, or it cannot be written."""
    with suppress(OSError, ValueError):  # a stdout that is no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
        os.close(nowhere)
