"""The command line: each command parses, calls the library, prints, and ends with an exit code.

0 done, 2 wrong input, 3 the data do not support an improvement, 4 a policy is shown to be worse;
129, 130, 143 ended by SIGHUP, Ctrl-C or SIGTERM, 141 nobody reads the output; 1 is a crash. Only 0,
3 and 4 are verdicts.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

import surefoot
from surefoot.cli.ending import run_to_the_end
from surefoot.cli.in_use import apply, discretize, export
from surefoot.cli.learning import check, compare, improve, report, tune
from surefoot.cli.options import Commands, add
from surefoot.cli.policies import certify, demo, evaluate, list_all, plan, safety_test, watch
from surefoot.cli.studies import benchmark, reproduce, run

RULE, WITH_A_LOG, FOR_RESEARCH = "--gamma 0.95 --baseline rule.csv", "With a log", "For research"
NEW = "--policy improved/policy.csv --reward-range 0,1"
# in the order a person meets them, each with an example
COMMANDS = (
    (WITH_A_LOG, "demo", demo, "--out demo"),
    (WITH_A_LOG, "check", check, "log.csv --baseline rule.csv"),
    (WITH_A_LOG, "improve", improve, f"log.csv {RULE} --out improved"),
    (WITH_A_LOG, "report", report, "improved"),
    (WITH_A_LOG, "compare", compare, f"log.csv {RULE}"),
    (WITH_A_LOG, "tune", tune, f"log.csv {RULE} --out tuning.csv"),
    (WITH_A_LOG, "plan", plan, f"log.csv {RULE} --loss 0.1"),
    (WITH_A_LOG, "evaluate", evaluate, f"new.csv {RULE} --policy improved/policy.csv"),
    (WITH_A_LOG, "certify", certify, f"log.csv {RULE} {NEW}"),
    (WITH_A_LOG, "safety-test", safety_test, f"new.csv {RULE} {NEW}"),
    (WITH_A_LOG, "apply", apply, "improved/policy.csv --file new.csv --out decisions.csv"),
    (WITH_A_LOG, "export", export, "improved/policy.csv --out decide.sql"),
    (WITH_A_LOG, "watch", watch, f"new.csv {RULE} {NEW} --state-file capital.json"),
    (WITH_A_LOG, "discretize", discretize, "raw.csv --features age,pulse --out states.csv"),
    (FOR_RESEARCH, "run", run, "my-study.toml --out results/my-study --workers 2"),
    (FOR_RESEARCH, "benchmark", benchmark, "my_entry.py --worlds wet-chicken --trials 1000"),
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


def main() -> None:
    """The entry point of the command `surefoot`.

    Its matrices are small: more threads of OpenBLAS only wait for each other (a third of the
    processor time of `surefoot improve` on the log that ships). Who sets their number has it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported
    run_to_the_end(app)
