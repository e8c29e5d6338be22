"""The options of commands: those that commands on a log share, and how they look in the help:
panels in one order, flags as flags, an example.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from surefoot.core.errors import ParameterError
from surefoot.core.parameters import value_of

PROBLEM, BASELINE, POLICY, METHOD, OUTPUT, COLUMNS, READING = PANELS = (
    "The problem",
    "The baseline",
    "The policy",
    "The method",
    "Output",
    "Columns of the log (found by name unless given)",
    "Reading the log",
)
Source = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="The log: a CSV or Parquet file, a folder, a pattern such as 'a*.csv', a .npz or .hdf5"
        " file of D4RL's arrays, or the .toml file that surefoot check --save wrote.",
    ),
]
# what commands other than check and improve take, too, and do not show: they refer to check
FOLDED = (
    COLUMNS,
    READING,
    *("start", "allowed", "forbidden", "baseline_policy"),
    *("exploration", "smoothing", "renormalise"),
)
RARE = (
    *("time", "next_state", "terminal", "truncated", "propensity", "policy_column"),
    *("smoothing", "renormalise"),
)
SHORT = ("compare", "tune", "plan", "evaluate")  # these fold what only gamma 1 needs
AS_CHECK = (
    "Which columns LOG has, how it is read, which actions are allowed and how a baseline is"
    " estimated: the options of surefoot check --help for these also work here. Save them once with"
    " surefoot check LOG ... --save log.toml, and give log.toml as LOG."
)
NOT_GIVEN = math.nan  # of a number that is needed


def option(panel: str, value: str, meaning: str, *names: str, default: bool | str = True) -> Any:
    """An option in a panel of the help; `value` stands for what it takes, "" for a flag."""
    return typer.Option(
        *names, help=meaning, metavar=value, rich_help_panel=panel, show_default=default
    )


ReportFile = Annotated[
    Path | None,
    option(OUTPUT, "FILE", "Also write an HTML report to FILE, such as page.html.", "--report"),
]
Despite = Annotated[
    str,
    option(
        METHOD,
        "KEY,...",
        "Findings of surefoot check to ignore in the verdict, such as drift,copies; also"
        " policy-drift, markov, baseline, contradictions, propensities, cuts, time, missing,"
        " leakage. The verdict then names them, and the exit code is 5.",
    ),
]
Explain = Annotated[
    bool, option(OUTPUT, "", "Print all details: assumptions, method, notes.", "--explain")
]
AsJson = Annotated[bool, option(OUTPUT, "", "Print JSON for machines, and nothing else.", "--json")]

Edges = Annotated[
    list[str] | None,
    option(
        METHOD,
        "FEATURE=EDGES",
        "Bins of your own instead of quantiles, such as --edges pulse=60,80 for below 60, from 60"
        " and from 80 on. May be repeated.",
    ),
]


class Command(TyperCommand):
    """A command that shows --help as a flag, and takes an option once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an option that is given twice: the first of its values would be forgotten."""
        given = self.make_parser(ctx).parse_args(args=list(args))[2]
        once = [x for x in given if not (x.multiple or getattr(x, "is_flag", True))]
        for x in once:
            if once.count(x) > 1:
                raise ParameterError(f"{x.opts[0]} is given {once.count(x)} times: give it once")
        return super().parse_args(ctx, args)

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
    """Register a command. An argument that is an `LogOptions` becomes one option for each field."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for key, p in inspect.signature(command, eval_str=True).parameters.items():
        if isinstance(p.annotation, type) and issubclass(p.annotation, LogOptions):
            groups[key] = p.annotation
            folded = (*FOLDED, *(("return_range",) if name in SHORT else ()))
            folded = {"check": (), "improve": (READING, *RARE)}.get(name, folded)
            parameters += _fields(p.annotation, folded)
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
    if groups and name != "check":
        paragraphs.append(AS_CHECK)
    app.command(
        name,
        cls=Command,
        rich_help_panel=panel,
        help="\n\n".join(x.replace("\n", " ") for x in paragraphs),
        epilog=f"Example: surefoot {name} {example}",
    )(call)


def _taken(kind: type[LogOptions], given: dict[str, Any], said: set[str], name: str) -> Any:
    """The options of a command as one value, taken out of what was given."""
    defaults = {f.name: f.default for f in fields(kind)}
    for x in kind.refused:
        if x in said and given[x] != defaults.get(x):
            raise ParameterError(f"surefoot {name} has no {_flag(x)}: {kind.refused[x]}")
    own = {x: given.pop(x) for x in dict.fromkeys([*defaults, *kind.refused])}
    found = kind(**{x: own[x] for x in defaults})
    object.__setattr__(found, "said", frozenset(said & defaults.keys()))
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _fields(kind: type[LogOptions], folded: Collection[str]) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a command, and what it refuses; those, and the
    panels and fields in `folded`, are not shown.
    """
    hints = get_type_hints(kind, include_extras=True)
    found = {
        f.name: (hints[f.name], ... if f.default is MISSING else f.default) for f in fields(kind)
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


def _columns(meaning: str, value: str = "NAME") -> Any:
    return option(COLUMNS, value, meaning, default=False)


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """The options of every command that learns from a log: how it is read, and what is asked of it.
    A command takes each of the fields.

    said      what stands on the command line
    refused   options that the command does not take, and why: fields it inherits, and those of
              earlier versions. They are not shown, and answered with that sentence
    """

    refused: ClassVar[Mapping[str, str]] = MappingProxyType({})

    said: ClassVar[frozenset[str]] = frozenset()

    def asking(self) -> dict[str, Any]:
        """What was given on the command line, as the keywords of a question."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name in self.said}
        return {x: WORDS[x](value) if x in WORDS else value for x, value in given.items()}

    episode: Annotated[
        str | None, _columns("The episode of the row; '-' if there is none.", "NAME,...")
    ] = None
    time: Annotated[
        str | None, _columns("The order of steps within an episode; '-' if there is none.")
    ] = None
    state: Annotated[
        str | None, _columns("The state; several columns are joined into one.", "NAME,...")
    ] = None
    action: Annotated[
        str | None, _columns("The action; several columns are combined.", "NAME,...")
    ] = None
    reward: Annotated[
        str | None,
        _columns(
            "The reward of the step, a number. Say died:lower where less of it is better; default:"
            " higher is better.",
            "NAME[:DIRECTION]",
        ),
    ] = None
    next_state: Annotated[
        str | None,
        _columns(
            "The next state (default: that of the next row); '-' if there is none.", "NAME,..."
        ),
    ] = None
    terminal: Annotated[
        str | None, _columns("Whether the episode ended with this row; '-' if there is none.")
    ] = None
    truncated: Annotated[
        str | None,
        _columns("Whether the episode was cut off after this row; '-' if there is none."),
    ] = None
    propensity: Annotated[
        str | None,
        _columns(
            "The probability with which the action was chosen, in (0, 1]; '-' if there is none."
        ),
    ] = None
    policy_column: Annotated[
        str | None, _columns("Which policy chose the action, where several made the log.")
    ] = None
    bandit: Annotated[
        bool,
        option(
            READING,
            "",
            "Each row is a separate one-step decision; gamma is 0.",
            "--bandit",
        ),
    ] = False
    terminal_states: Annotated[
        str, option(READING, "LABEL,...", "States that end an episode, such as home,dead.")
    ] = ""
    episode_end: Annotated[
        str,
        option(
            READING,
            "WORD",
            "What the last row of an episode is if it has no next state: terminal, or cut (its next"
            " state is unknown, and its reward is lost).",
        ),
    ] = "cut"
    order: Annotated[
        str,
        option(
            READING,
            "WORD",
            "time: sort the rows by time; file: keep their order; auto: detect.",
        ),
    ] = "auto"
    terminal_to_end: Annotated[
        bool,
        option(
            READING,
            "",
            "Ignore the next state of terminal rows.",
            "--terminal-to-end",
        ),
    ] = False
    actions: Annotated[
        str,
        option(
            READING,
            "LABEL,...",
            "The complete list of actions, including any never taken, such as stay,left,right.",
        ),
    ] = ""
    drop_bad_rows: Annotated[
        str,
        option(
            READING,
            "REASON,...",
            "Drop rows with these faults, such as reward,state; or all.",
        ),
    ] = ""
    missing_reward: Annotated[
        float | None,
        option(
            READING,
            "NUMBER",
            "The reward of rows with a missing reward, such as 0. Without it they are bad rows.",
        ),
    ] = None
    decimal: Annotated[
        str, option(READING, "CHARACTER", "The decimal sign of numbers in text.")
    ] = "."
    delimiter: Annotated[
        str,
        option(
            READING,
            "CHARACTER",
            "What separates the columns of text: a character, or tab.",
            default="found",
        ),
    ] = ""
    encoding: Annotated[
        str, option(READING, "NAME", "The encoding of text, such as utf-8, latin-1, cp1252.")
    ] = "utf-8"
    date_format: Annotated[
        str,
        option(
            READING,
            "FORMAT",
            "How dates are written, such as 'dd/mm/yyyy hh:mm', where that cannot be seen.",
            default="found",
        ),
    ] = ""
    values: Annotated[
        str,
        option(
            READING,
            "WORD=NUMBER,...",
            "The numbers that the words of the reward stand for, such as survived=1,died=0.",
            default=False,
        ),
    ] = ""

    unit: Annotated[
        str,
        option(
            READING,
            "WORDS",
            "What people call the reward, such as survival or EUR: gains are told in it. A return"
            " from 0 to 1 that is not discounted is told in percentage points.",
            default=False,
        ),
    ] = ""
    history: Annotated[
        int,
        option(
            READING,
            "STEPS",
            "Add the last STEPS (action, state) pairs to each state.",
        ),
    ] = 0
    discount_per: Annotated[
        str | None,
        option(
            READING,
            "UNIT",
            "Discount by elapsed time: gamma applies per UNIT, a number of time units, or s, min,"
            " hour, day, week for dates. Without it each row is one step.",
        ),
    ] = None
    threads: Annotated[
        int | None,
        option(READING, "NUMBER", "Threads that count the rows.", default="one for each core"),
    ] = None
    memory: Annotated[
        str | None,
        option(
            READING,
            "SIZE",
            "The most memory that counting the rows may take, such as 2GB.",
            default="80% of the machine's",
        ),
    ] = None

    gamma: Annotated[
        float,
        option(
            PROBLEM,
            "NUMBER",
            "The discount factor: a reward t steps ahead counts gamma^t. Required unless --bandit.",
            default=False,
        ),
    ] = NOT_GIVEN
    start: Annotated[
        str | None,
        option(
            PROBLEM,
            "STATE",
            "Start state for the comparison, or 'visits': all states, weighted by visits.",
            default="the starts of the episodes; visits in a log of one episode",
        ),
    ] = None
    reward_range: Annotated[
        str | None,
        option(
            PROBLEM,
            "LOW,HIGH",
            "The lowest and the highest possible reward, such as 0,1, in the column's own units.",
        ),
    ] = None
    return_range: Annotated[
        str | None,
        option(
            PROBLEM,
            "LOW,HIGH",
            "The lowest and the highest possible return from any state. Required if gamma is 1.",
        ),
    ] = None
    allowed: Annotated[
        Path | None, option(PROBLEM, "FILE", "The allowed actions: columns state, action.")
    ] = None
    forbidden: Annotated[
        Path | None,
        option(PROBLEM, "FILE", "Actions that must never be chosen: columns state, action."),
    ] = None
    baseline: Annotated[
        Path | None,
        option(
            BASELINE,
            "FILE",
            "The policy that made the log, or, with propensities, the policy to improve on: columns"
            " state, action, probability.",
            default="estimated from the log",
        ),
    ] = None
    baseline_policy: Annotated[
        str | None,
        option(
            BASELINE,
            "LABEL",
            "The policy of --policy-column to improve on, estimated from its own rows.",
        ),
    ] = None
    exploration: Annotated[
        float,
        option(
            BASELINE,
            "SHARE",
            "The baseline is a rule (columns state, action) that takes any allowed action at random"
            " with this probability, such as 0.1.",
        ),
    ] = 0.0
    smoothing: Annotated[
        float,
        option(
            BASELINE,
            "NUMBER",
            "Pseudo-count added to each action when the baseline is estimated.",
        ),
    ] = 0.0
    renormalise: Annotated[
        bool,
        option(
            BASELINE,
            "",
            "Remove forbidden actions from the baseline and rescale.",
            "--renormalise",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class GuardedOptions(LogOptions):
    """The options of a command on a log that looks after more than the reward."""

    guard: Annotated[
        list[str] | None,
        option(
            METHOD,
            "COLUMN:DIRECTION",
            "A further column that must not get worse, such as cost:lower or quality:higher. With a"
            " tolerance: readmitted:lower:0.01 (a loss of up to 0.01 in its discounted sum is"
            " allowed; append :0,1 to declare the range). May be repeated.",
        ),
    ] = None
    group: Annotated[
        list[str] | None,
        option(
            METHOD,
            "NAME,...",
            "Column that names each episode's group: the policy must be no worse for any group."
            " May be repeated: --group sex --group ward looks after both groupings, --group"
            " sex,ward after every combination.",
        ),
    ] = None
    group_tolerance: Annotated[
        float,
        option(
            METHOD,
            "NUMBER",
            "Loss allowed for each group, in units of the gain; inf: report groups, never reject.",
        ),
    ] = 0.0


def listed(text: str) -> list[str]:
    """The words of a text, joined by commas."""
    return [x.strip() for x in text.split(",") if x.strip()]


def parsed_settings(settings: list[str] | None) -> dict[str, Any]:
    """{key: value} of --set key=value."""
    found: dict[str, Any] = {}
    for text in settings or []:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise ParameterError(f"--set takes key=value, such as epsilon=0.5, got {text!r}")
        found[key.strip()] = value_of(value.strip())
    return found


def parsed_edges(texts: list[str] | None) -> dict[str, list[float]]:
    """{feature: edges} of --edges FEATURE=1,2,5."""
    found: dict[str, list[float]] = {}
    for text in texts or []:
        name, sign, numbers = text.rpartition("=")
        try:
            values = [float(x) for x in numbers.split(",")]
        except ValueError:
            values = []
        if not sign or not name.strip() or not values:
            raise ParameterError(
                f"--edges takes FEATURE=NUMBER,NUMBER,..., such as pulse=60,80,100, got {text!r}"
            )
        if name.strip() in found:
            raise ParameterError(f"--edges has two lists for {name.strip()!r}: give one")
        found[name.strip()] = values
    return found


def paired(name: str, text: str) -> tuple[float, float]:
    """The two numbers of --name LOW,HIGH."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError as error:
        flag = name.replace("_", "-")
        raise ParameterError(f"--{flag} takes LOW,HIGH, such as 0,1, got {text!r}") from error
    return low, high


# how the text of an option becomes the keyword of a question; others are taken as they are
WORDS: dict[str, Callable[[Any], Any]] = {
    "actions": listed,
    "terminal_states": listed,
    "drop_bad_rows": lambda text: text == "all" or text,
    "values": listed,
    "reward_range": partial(paired, "reward_range"),
    "return_range": partial(paired, "return_range"),
}
