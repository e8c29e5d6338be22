"""How commands and options look in the help: panels in one order, flags as flags, an example."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import MISSING, fields
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from surefoot.core.errors import ParameterError

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
        help="The log: a CSV or Parquet file, a folder, a pattern such as 'a*.csv', or the .toml"
        " file that surefoot check --save wrote.",
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


class OfLog:
    """The options of a command on a log; a dataclass that inherits it takes each of its fields.

    said      what stands on the command line
    refused   options that the command does not take, and why: fields it inherits, and those of
              earlier versions. They are not shown, and answered with that sentence
    """

    refused: ClassVar[Mapping[str, str]] = MappingProxyType({})

    said: ClassVar[frozenset[str]] = frozenset()


# the commands that list all options of a log; others take those in FOLDED too, and refer to check
LISTING = ("check", "improve")
FOLDED = (
    COLUMNS,
    READING,
    *("start", "allowed", "forbidden", "baseline_policy", "smoothing", "renormalise"),
)
AS_CHECK = (
    "Which columns LOG has, how it is read, which actions are allowed and how a baseline is"
    " estimated: the options of surefoot check --help for these are taken here, too. Save them once"
    " by surefoot check LOG ... --save log.toml, and give log.toml as LOG."
)


def add(
    app: typer.Typer, panel: str, name: str, command: Callable[..., None], example: str
) -> None:
    """Register a command. An argument that is an `OfLog` becomes one option for each field."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for key, p in inspect.signature(command, eval_str=True).parameters.items():
        if isinstance(p.annotation, type) and issubclass(p.annotation, OfLog):
            groups[key] = p.annotation
            parameters += _fields(p.annotation, () if name in LISTING else FOLDED)
        else:
            parameters.append(p.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    parameters.sort(key=_rank)
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @functools.wraps(command)
    def call(context: typer.Context, **given: Any) -> None:
        said = {x for x in given if f"{context.get_parameter_source(x)}".endswith("COMMANDLINE")}
        for key, kind in groups.items():
            given[key] = _taken(kind, given, said, name)
        command(**given)

    call.__signature__ = inspect.Signature([*parameters, context])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in (*parameters, context)}
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    if groups and name not in LISTING:
        paragraphs.append(AS_CHECK)
    app.command(
        name,
        cls=Command,
        rich_help_panel=panel,
        help="\n\n".join(x.replace("\n", " ") for x in paragraphs),
        epilog=f"Example: surefoot {name} {example}",
    )(call)


def _taken(kind: type[OfLog], given: dict[str, Any], said: set[str], name: str) -> Any:
    """The options of a command as one value, taken out of what was given."""
    defaults = {f.name: f.default for f in fields(kind)}  # type: ignore[arg-type]
    for x in kind.refused:
        if x in said and given[x] != defaults.get(x):
            raise ParameterError(f"surefoot {name} has no {_flag(x)}: {kind.refused[x]}")
    own = {x: given.pop(x) for x in dict.fromkeys([*defaults, *kind.refused])}
    found = kind(**{x: own[x] for x in defaults})
    object.__setattr__(found, "said", frozenset(said & defaults.keys()))
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _fields(kind: type[OfLog], folded: Collection[str]) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a command, and what it refuses; those, and the
    panels and fields in `folded`, are not shown.
    """
    hints = get_type_hints(kind, include_extras=True)
    found = {
        f.name: (hints[f.name], ... if f.default is MISSING else f.default)
        for f in fields(kind)  # type: ignore[arg-type]
    }
    for x in kind.refused:
        if x not in found:
            found[x] = (Annotated[str | None, option(METHOD, "", "", _flag(x))], None)
    return [
        inspect.Parameter(
            x,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=_hidden(hint)
            if x in (*kind.refused, *folded) or _panel(hint) in folded
            else hint,
        )
        for x, (hint, default) in found.items()
    ]


def _hidden(hint: Any) -> Any:
    """The annotation of an option that is taken and not shown."""
    shown = copy(hint.__metadata__[0])
    shown.hidden = True
    return Annotated[hint.__origin__, shown]


def _panel(hint: Any) -> str | None:
    found: str | None = hint.__metadata__[0].rich_help_panel
    return found


def _rank(p: inspect.Parameter) -> int:
    """The place of a parameter in the help: arguments first, then panel by panel."""
    panel = _panel(p.annotation)
    return -1 if panel is None else PANELS.index(panel)
