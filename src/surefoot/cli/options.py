"""How commands and options look in the help: panels in one order, flags as flags, an example."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

PROBLEM, BASELINE, POLICY, METHOD, OUTPUT, COLUMNS, READING = PANELS = (
    "The problem",
    "The baseline",
    "The policy",
    "The method",
    "Output",
    "Columns of the log (found by name unless given)",
    "Reading the log",
)


def option(panel: str, value: str, meaning: str, *names: str, default: bool | str = True) -> Any:
    """An option in a panel of the help; `value` stands for what it takes, "" for a flag."""
    return typer.Option(
        *names, help=meaning, metavar=value, rich_help_panel=panel, show_default=default
    )


Source = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="The log: a CSV or Parquet file, a folder, or a pattern such as 'a*.csv'.",
    ),
]
ReportFile = Annotated[
    Path | None,
    option(OUTPUT, "FILE", "Also write a page for people there, such as page.html.", "--report"),
]
Despite = Annotated[
    str,
    option(
        METHOD,
        "KEY,...",
        "Findings of surefoot check to ignore when judging, such as drift,copies; also"
        " policy-drift, markov, baseline, contradictions, propensities, cuts, time, missing. The"
        " verdict then names them, and the exit code is 5.",
    ),
]
Explain = Annotated[
    bool, option(OUTPUT, "", "Say all of it: what it rests on, and how it was found.", "--explain")
]
AsJson = Annotated[bool, option(OUTPUT, "", "Print JSON for machines, and nothing else.", "--json")]


class Command(TyperCommand):
    """A command that shows --help as a flag."""

    def get_help_option(self, ctx: Any) -> Any:
        """`--help`, in the panel of the output."""
        return _as_flag(super().get_help_option(ctx), OUTPUT)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`surefoot check [OPTIONS] LOG`; newer versions of typer put LOG in braces."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Commands(TyperGroup):
    """All commands; --help is shown as a flag."""

    def get_help_option(self, ctx: Any) -> Any:
        """`--help`, in the panel of general options."""
        return _as_flag(super().get_help_option(ctx), None)


def _as_flag(found: Any, panel: str | None) -> Any:
    found.metavar, found.rich_help_panel = "", panel
    return found


def add(
    app: typer.Typer, panel: str, name: str, command: Callable[..., None], example: str
) -> None:
    """Register a command. An argument that is a dataclass becomes one option for each field."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for key, p in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(p.annotation):
            groups[key] = p.annotation
            parameters += _fields(p.annotation)
        else:
            parameters.append(p.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    parameters.sort(key=_rank)

    @functools.wraps(command)
    def call(**given: Any) -> None:
        for key, kind in groups.items():
            given[key] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        command(**given)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    app.command(
        name,
        cls=Command,
        rich_help_panel=panel,
        help="\n\n".join(x.replace("\n", " ") for x in paragraphs),
        epilog=f"Example: surefoot {name} {example}",
    )(call)


def _fields(kind: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a command."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=... if f.default is MISSING else f.default,
            annotation=hints[f.name],
        )
        for f in fields(kind)
    ]


def _rank(p: inspect.Parameter) -> int:
    """The place of a parameter in the help: arguments first, then panel by panel."""
    panel = p.annotation.__metadata__[0].rich_help_panel
    return -1 if panel is None else PANELS.index(panel)
