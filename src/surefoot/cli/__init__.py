"""The command line: each command parses, calls one function of the library, prints, and ends with an exit code.

0 done, 2 wrong input, 3 the data do not support an improvement, 4 a policy fails its safety test, 130 interrupted; 1 is a crash, never a
verdict.
"""

from __future__ import annotations

import sys

import typer

from surefoot.cli import check, discretize, improve, policies, safety, studies, tune
from surefoot.cli.reading import as_options
from surefoot.cli.terminal import WRONG_INPUT, complain
from surefoot.errors import SurefootError

app = typer.Typer(
    name="surefoot", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False,
    help="Improve a decision policy from its own log, and do not make it worse.",
)  # fmt: skip
studies.add_to(app)
check.add_to(app)
discretize.add_to(app)
improve.add_to(app)
policies.add_to(app)
safety.add_to(app)
tune.add_to(app)


def main() -> None:
    """The entry point: errors of the library are told in one sentence, with exit code 2."""
    try:
        app()
    except SurefootError as error:
        complain(as_options(str(error)))
        sys.exit(WRONG_INPUT)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        complain(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
        sys.exit(WRONG_INPUT)
