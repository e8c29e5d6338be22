"""The command line: each command parses, calls the library, prints, and ends with an exit code.

0 done, 2 wrong input, 3 the data do not support an improvement, 4 a policy fails its safety test;
129, 130, 143 ended by SIGHUP, Ctrl-C or SIGTERM, 141 nobody reads the output; 1 is a crash. Only 0,
3 and 4 are verdicts.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import Annotated

import typer

import surefoot
from surefoot.cli.check import check
from surefoot.cli.discretize_command import discretize
from surefoot.cli.improve import compare, improve
from surefoot.cli.log_options import as_options
from surefoot.cli.options import Commands, add
from surefoot.cli.policies import apply, demo, evaluate, list_all
from surefoot.cli.safety_test import safety_test
from surefoot.cli.studies import reproduce, run
from surefoot.cli.terminal import (
    CRASH,
    DONE,
    INTERRUPTED,
    PIPE_CLOSED,
    WRONG_INPUT,
    complain,
    heeded_signals,
    print_json_error,
    silence_stdout,
)
from surefoot.cli.tune import tune
from surefoot.errors import SurefootError

RULE, WITH_A_LOG, FOR_RESEARCH = "--gamma 0.95 --baseline rule.csv", "With a log", "For research"
NEW = "--policy improved/policy.csv --reward-range 0,1"
# in the order a person meets them, each with an example
COMMANDS = (
    (WITH_A_LOG, "demo", demo, "--out demo"),
    (WITH_A_LOG, "check", check, "log.csv --baseline rule.csv"),
    (WITH_A_LOG, "improve", improve, f"log.csv {RULE} --out improved"),
    (WITH_A_LOG, "compare", compare, f"log.csv {RULE}"),
    (WITH_A_LOG, "tune", tune, f"log.csv {RULE} --out tuning.csv"),
    (WITH_A_LOG, "evaluate", evaluate, f"new.csv {RULE} --policy improved/policy.csv"),
    (WITH_A_LOG, "safety-test", safety_test, f"new.csv {RULE} {NEW}"),
    (WITH_A_LOG, "apply", apply, "improved/policy.csv --state ward-3 --sample --seed 7"),
    (
        WITH_A_LOG,
        "discretize",
        discretize,
        "measurements.csv --features age,pulse --states 200 --out log.csv",
    ),
    (FOR_RESEARCH, "run", run, "my-study.toml --out results/my-study --workers 2"),
    (FOR_RESEARCH, "reproduce", reproduce, "wet-chicken --trials 1000 --out results"),
    (FOR_RESEARCH, "list", list_all, "--json"),
)
app = typer.Typer(
    name="surefoot",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog="Start with surefoot demo. surefoot COMMAND --help has the options and an example.",
)
for panel, name, command, example in COMMANDS:
    add(app, panel, name, command, example)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"surefoot {surefoot.__version__}")
        raise typer.Exit


@app.callback()
def _surefoot(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            help="Show the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Improve a decision policy from its own log, and do not make it worse."""


@dataclass(frozen=True)
class Ending:
    """How a command ended: `kind` and `message` of an error, empty where it is none; `told`
    where stderr has the message already.
    """

    exit_code: int
    kind: str = ""
    message: str = ""
    told: bool = False


def main() -> None:
    """The entry point: an error is a sentence on stderr and an exit code; under --json it is a
    document on stdout as well.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a label that the terminal cannot show is no crash
    as_json = "--json" in sys.argv[1:]
    with heeded_signals() as signals:
        try:
            end = _run()
        except Exception as error:
            if signals.came is None:
                if as_json:
                    print_json_error(type(error).__name__, str(error), CRASH)
                raise
            end = Ending(
                INTERRUPTED, "KeyboardInterrupt"
            )  # whatever the interruption became on its way
        if signals.came is not None and end.kind:  # else it was done by then
            end = Ending(128 + signals.came, signals.came.name, f"ended by {signals.came.name}")
        if end.kind and not end.told:
            complain(end.message)
        if end.kind and as_json:
            print_json_error(end.kind, end.message, end.exit_code)
        sys.exit(end.exit_code)


def _run() -> Ending:
    """Run the command that was asked for, down to the last byte of its output."""
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
        return Ending(WRONG_INPUT, type(error).__name__, as_options(str(error)))
    except BrokenPipeError:
        silence_stdout()
        return Ending(PIPE_CLOSED)
    except OSError as error:
        _drop_unwritable()
        return Ending(
            WRONG_INPUT,
            type(error).__name__,
            f"{error.strerror or error}: {error.filename}" if error.filename else str(error),
        )
    return Ending(DONE)


def _drop_unwritable() -> None:
    """Give up what stdout still holds if it cannot be written, as on a full disk: else the
    interpreter would try once more.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        silence_stdout()


def _stopped(stop: SystemExit) -> Ending:
    """What typer made of the end of a command; it has told users already what was wrong with
    their options.
    """
    code, cause = int(stop.code or DONE), stop.__context__
    if isinstance(cause, BrokenPipeError):  # typer ends with 1
        silence_stdout()
        return Ending(PIPE_CLOSED)
    if code == INTERRUPTED:
        return Ending(code, "KeyboardInterrupt", "interrupted", told=True)
    if code == WRONG_INPUT and cause is not None:
        # From typer 0.2x on the classes of these errors are private, but all have click's
        # format_message.
        return Ending(
            code, "UsageError", getattr(cause, "format_message", cause.__str__)(), told=True
        )
    return Ending(code)
