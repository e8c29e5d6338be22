"""What the commands that read a log share: its options, reading it with progress, and the
problem it poses.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from surefoot.cli.terminal import errors
from surefoot.errors import BaselineError, LogError, ParameterError, PolicyError
from surefoot.parameters import value_of

if TYPE_CHECKING:
    import numpy as np

    from surefoot.advice import Units
    from surefoot.logs import Baseline, Disagreement, Log
    from surefoot.problems import Problem

LOG = "The log"
START = "The state whose value counts; or visits: every state, as often as the log visits it."


def _column(meaning: str) -> Any:
    return typer.Option(help=meaning, show_default="found by name", rich_help_panel=LOG)


Column = Annotated[str | None, _column("Its column.")]
MaybeColumn = Annotated[str | None, _column("Its column; - for none.")]
Label = Annotated[str | None, _column("Its column, or several joined by commas.")]
MaybeLabel = Annotated[str | None, _column("Its column, or several joined by commas; - for none.")]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a log is to be read; each field is an option of the same name of every command that
    reads one.
    """

    episode: MaybeLabel = None
    time: MaybeColumn = None
    state: Label = None
    action: Label = None
    reward: Column = None
    next_state: MaybeLabel = None
    terminal: MaybeColumn = None
    truncated: MaybeColumn = None
    terminal_states: Annotated[
        str, typer.Option(help="States that end an episode, joined by commas.", rich_help_panel=LOG)
    ] = ""
    episode_end: Annotated[
        str,
        typer.Option(
            help=(
                "Last row of an episode, without next state: terminal, or cut (it leads nowhere,"
                " and its reward is lost)."
            ),
            rich_help_panel=LOG,
        ),
    ] = "cut"
    order: Annotated[
        str,
        typer.Option(
            help="time: sort; file: rows as they come; auto: find out.", rich_help_panel=LOG
        ),
    ] = "auto"
    terminal_to_end: Annotated[
        bool,
        typer.Option(
            "--terminal-to-end",
            help="Terminal rows end, whatever their next state says.",
            rich_help_panel=LOG,
        ),
    ] = False
    actions: Annotated[
        str,
        typer.Option(
            help="All actions there are, joined by commas: also those the log never took.",
            rich_help_panel=LOG,
        ),
    ] = ""
    drop_bad_rows: Annotated[
        str,
        typer.Option(
            help="Reasons for which rows may be left out, joined by commas; or all.",
            rich_help_panel=LOG,
        ),
    ] = ""
    missing_reward: Annotated[
        float | None,
        typer.Option(
            help="The reward of rows whose reward is empty, such as 0.",
            show_default="bad",
            rich_help_panel=LOG,
        ),
    ] = None
    decimal: Annotated[
        str, typer.Option(help="Decimal sign of numbers in text: . or ,", rich_help_panel=LOG)
    ] = "."
    delimiter: Annotated[
        str,
        typer.Option(
            help="Between the columns of text: a character or tab.",
            show_default="found",
            rich_help_panel=LOG,
        ),
    ] = ""
    encoding: Annotated[
        str, typer.Option(help="Of text: utf-8, latin-1, cp1252, utf-16, ...", rich_help_panel=LOG)
    ] = "utf-8"

    def for_reading(self) -> dict[str, Any]:
        """The arguments of `read_log`."""
        actions = [x.strip() for x in self.actions.split(",") if x.strip()]
        return {
            f.name: getattr(self, f.name) for f in fields(ReadOptions) if f.name != "actions"
        } | {
            "allowed": actions or None,
            "terminal_states": [x.strip() for x in self.terminal_states.split(",") if x.strip()],
            "drop_bad_rows": self.drop_bad_rows == "all" or self.drop_bad_rows or False,
        }


@dataclass(frozen=True, kw_only=True)
class LogOptions(ReadOptions):
    """The options of every command that learns from a log."""

    gamma: Annotated[
        float, typer.Option(help="Discount factor: a reward t steps ahead counts gamma^t.")
    ]
    baseline: Annotated[
        Path | None, typer.Option(help="The policy that made the log: state, action, probability.")
    ] = None
    smoothing: Annotated[
        float,
        typer.Option(help="Added to every count where the baseline is estimated from the log."),
    ] = 0.0
    allowed: Annotated[
        Path | None, typer.Option(help="The allowed actions: a file with state, action.")
    ] = None
    renormalise: Annotated[
        bool,
        typer.Option(
            "--renormalise", help="Take actions that are not allowed out of the baseline."
        ),
    ] = False
    reward_range: Annotated[
        str | None, typer.Option(help="Lowest and highest possible reward: LOW,HIGH.")
    ] = None
    return_range: Annotated[
        str | None,
        typer.Option(help="Lowest and highest return from any state: LOW,HIGH; gamma 1 needs it."),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            help="The state whose value counts; or visits: all, as often as visited.",
            show_default="where episodes start; visits in a log of one episode",
        ),
    ] = None

    @property
    def rewards(self) -> tuple[float, float] | None:
        """The declared range of rewards."""
        return _pair("reward-range", self.reward_range)

    @property
    def returns(self) -> tuple[float, float] | None:
        """The declared range of returns."""
        return _pair("return-range", self.return_range)

    @property
    def state_columns(self) -> tuple[str, ...]:
        """The columns of the state, as far as they were given."""
        return tuple(part.strip() for part in (self.state or "state").split(","))

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the state columns in result files: "state", or those of a state of
        several columns.
        """
        given = self.state_columns
        taken = ("action", "probability", "baseline", "count")
        return (
            tuple(f"state {name}" if name in taken else name for name in given)
            if len(given) > 1
            else ("state",)
        )


def as_options(message: str) -> str:
    """What the library says about its arguments, in options of the command line:
    drop_bad_rows='reward' as --drop-bad-rows reward.
    """

    def option(found: re.Match[str]) -> str:
        value = found[2].strip("'\"()").replace(", ", ",")
        return f"--{found[1].replace('_', '-')}" + ("" if value == "True" else f" {value}")

    names = "|".join(f.name for f in fields(LogOptions))
    message = message.replace('masked_baseline="renormalise"', "--renormalise").replace(
        "allowed=[...]", "--actions"
    )
    return re.sub(rf"\b({names})=('[^']*'|\"[^\"]*\"|\([^)]*\)|\.\.\.|True|\d+)", option, message)


def reads_a_log(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of its argument `options`: ReadOptions or LogOptions."""
    own = inspect.signature(command, eval_str=True).parameters
    kind: type[ReadOptions] = own["options"].annotation
    hints = get_type_hints(kind, include_extras=True)
    reading = {f.name for f in fields(ReadOptions)}
    shared = {
        f.name: inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=... if f.default is MISSING else f.default,
            annotation=hints[f.name],
        )
        for f in fields(kind)
    }
    learning = [p for name, p in shared.items() if name not in reading]
    others = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, p in own.items()
        if name != "options"
    ]
    parameters = [
        others[0],
        *learning[:2],
        *others[1:],
        *learning[2:],
        *(shared[name] for name in shared if name in reading),
    ]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        options = kind(**{name: given.pop(name) for name in shared})
        command(**given, options=options)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


@dataclass(frozen=True)
class Posed:
    """A log, the problem it poses, whether a given baseline agrees with it, and its units where
    they were counted apart.

    `elsewhere` are the rows of the baseline file about states that the log never visits. `made_by`
    is the policy that made the log, before forbidden actions were taken out of it.
    """

    log: Log
    problem: Problem
    disagreement: Disagreement | None
    made_by: np.ndarray
    units: Units | None = None
    elsewhere: tuple[Any, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What a user should know of the problem, and whether another policy than the baseline
        made the log.
        """
        from surefoot.advice.summary import doubt

        return [*self.problem.notes, *filter(None, [doubt(self.disagreement)])]


@contextmanager
def progress() -> Iterator[Any]:
    """A bar on stderr where that is a terminal."""
    from surefoot.logs import progress_bar

    if not errors.is_terminal:
        yield None
        return
    with progress_bar(errors) as shown:
        yield shown


def read(source: str, options: ReadOptions, shown: Any = None) -> Log:
    """The log, whose notes speak of options."""
    from surefoot.logs import read_log

    return in_options(read_log(source, progress=shown, **options.for_reading()))


def in_options(log: Log) -> Log:
    """The log with notes that speak of options of the command line."""
    return replace(log, notes=tuple(map(as_options, log.notes)))


def pose(source: str, options: LogOptions, dask: str | None = None) -> Posed:
    """Read a log, here or on a Dask cluster, and build its problem."""
    from surefoot.advice import baseline_elsewhere, log_and_units_on_dask
    from surefoot.logs import disagreement, estimated_baseline, read_allowed

    units = None
    if dask is None:
        with progress() as shown:
            log = read(source, options, shown)
    else:
        log, units = log_and_units_on_dask(dask, source, **options.for_reading())
        log = in_options(log)
    mask = (
        None
        if options.allowed is None
        else read_allowed(options.allowed, log, **_allowed_names(options))
    )
    elsewhere: tuple[Any, ...] = ()
    if options.baseline is None:
        given = estimated_baseline(log, options.smoothing, mask)
    else:
        given = policy_file(options.baseline, log, options)
        elsewhere = baseline_elsewhere(
            options.baseline, log, options.state_columns, options.action or "action"
        )
    problem = log.problem(
        options.gamma,
        given,
        start=options.start,
        allowed=mask,
        reward_range=options.rewards,
        return_range=options.returns,
        masked_baseline="renormalise" if options.renormalise else "error",
        needs_returns=None if dask is None else False,
    )
    made_by = estimated_baseline(log) if given.estimated else given
    return Posed(
        log,
        problem,
        None if given.estimated else disagreement(log, given),
        made_by.pi_b,
        units,
        elsewhere,
    )


def policy_file(path: Path, log: Log, options: LogOptions, probability: str = "") -> Baseline:
    """A baseline, or another policy in a file of the same form; its rows about states that the
    log never visits are left aside.
    """
    from surefoot.logs import read_baseline

    try:
        return read_baseline(path, log, probability=probability, unknown_states="ignore")
    except LogError as error:
        own = len(options.state_columns) > 1 or options.state_columns[0] != "state"
        if log.reading is not None or not own:
            raise
        # Counted on a cluster, the log does not know what its columns are called.
        try:
            return read_baseline(
                path,
                log,
                state=options.state or "",
                probability=probability,
                unknown_states="ignore",
            )
        except LogError:
            raise error from None


def given_policy(path: Path, log: Log, options: LogOptions) -> np.ndarray:
    """The policy [S, A] in a file as `surefoot improve` writes it."""
    try:
        return policy_file(path, log, options, "probability").pi_b
    except BaselineError as error:
        raise PolicyError(
            str(error).replace("the baseline", "the policy").replace("baseline's", "policy's")
        ) from error


def parsed_settings(settings: list[str] | None) -> dict[str, Any]:
    """{key: value} of --set key=value."""
    found: dict[str, Any] = {}
    for text in settings or []:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise ParameterError(f"--set takes key=value, such as epsilon=0.5, got {text!r}")
        found[key.strip()] = value_of(value.strip())
    return found


def _pair(name: str, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ParameterError(f"--{name} takes LOW,HIGH, such as 0,1, got {text!r}") from error
    return low, high


def _allowed_names(options: LogOptions) -> dict[str, str]:
    """The columns of the file of allowed actions: those of the log where several make a state."""
    return {"state": options.state} if options.state and "," in options.state else {}
