"""The options that commands on a log share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import typer

from surefoot.cli.options import BASELINE, COLUMNS, PROBLEM, READING, OfLog, option
from surefoot.errors import ParameterError
from surefoot.parameters import value_of

NOT_GIVEN = math.nan  # of a number that is needed


def _columns(meaning: str, value: str = "NAME") -> Any:
    return option(COLUMNS, value, meaning, default=False)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(OfLog):
    """How a log is read: the options of every command that reads one."""

    episode: Annotated[
        str | None, _columns("Which episode a row belongs to; - for none.", "NAME,...")
    ] = None
    time: Annotated[str | None, _columns("The order of steps within an episode; - for none.")] = (
        None
    )
    state: Annotated[
        str | None, _columns("The state; several columns are joined into one.", "NAME,...")
    ] = None
    action: Annotated[str | None, _columns("Several columns make one action.", "NAME,...")] = None
    reward: Annotated[
        str | None,
        _columns(
            "The reward of the step, a number. Say died:lower where less of it is better; more is"
            " with :higher, and without a direction.",
            "NAME[:DIRECTION]",
        ),
    ] = None
    next_state: Annotated[
        str | None, _columns("The state of the next row unless given; - for none.", "NAME,...")
    ] = None
    terminal: Annotated[
        str | None, _columns("Whether the episode ended with this row; - for none.")
    ] = None
    truncated: Annotated[
        str | None, _columns("Whether the episode was cut off after this row; - for none.")
    ] = None
    propensity: Annotated[
        str | None,
        _columns("The probability with which the action was chosen, in (0, 1]; - for none."),
    ] = None
    policy_column: Annotated[
        str | None, _columns("Which policy chose the action, where several made the log.")
    ] = None
    bandit: Annotated[
        bool,
        option(
            READING,
            "",
            "Every row is an episode of one step: no episode, time or next state is needed, gamma"
            " is 0.",
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
            "What the last row of an episode is if it has no next state: terminal, or cut (it leads"
            " nowhere, and its reward is lost).",
        ),
    ] = "cut"
    order: Annotated[
        str,
        option(
            READING,
            "WORD",
            "time: sort the rows by time; file: keep their order; auto: find out which is right.",
        ),
    ] = "auto"
    terminal_to_end: Annotated[
        bool,
        option(
            READING,
            "",
            "Terminal rows end the episode, whatever their next state is.",
            "--terminal-to-end",
        ),
    ] = False
    actions: Annotated[
        str,
        option(
            READING,
            "LABEL,...",
            "All actions there are, such as stay,left,right: include those the log never took.",
        ),
    ] = ""
    drop_bad_rows: Annotated[
        str,
        option(
            READING,
            "REASON,...",
            "Leave out rows that are bad for these reasons, such as reward,state; or all.",
        ),
    ] = ""
    missing_reward: Annotated[
        float | None,
        option(
            READING,
            "NUMBER",
            "The reward of rows whose reward is empty, such as 0. Without it they are bad rows.",
        ),
    ] = None
    decimal: Annotated[str, option(READING, "SIGN", "The decimal sign of numbers in text.")] = "."
    delimiter: Annotated[
        str,
        option(
            READING,
            "SIGN",
            "What separates the columns of text: a character, or tab.",
            default="found",
        ),
    ] = ""
    encoding: Annotated[
        str, option(READING, "NAME", "The encoding of text, such as utf-8, latin-1, cp1252.")
    ] = "utf-8"

    history: Annotated[
        int,
        option(
            READING,
            "STEPS",
            "States remember so many steps: the actions and states before become part of them.",
        ),
    ] = 0
    discount_per: Annotated[
        str | None,
        option(
            READING,
            "UNIT",
            "Time counts: gamma is the discount for this unit, a number of time units, or s, min,"
            " hour, day, week for dates. Without it each row is one step.",
        ),
    ] = None

    def for_reading(self) -> dict[str, Any]:
        """The arguments of `read_log`."""
        return {
            f.name: getattr(self, f.name)
            for f in fields(ReadOptions)
            if f.name not in ("actions", "policy_column")
        } | {
            "policy": self.policy_column,
            "actions": listed(self.actions) or None,
            "terminal_states": listed(self.terminal_states),
            "drop_bad_rows": self.drop_bad_rows == "all" or self.drop_bad_rows or False,
        }


@dataclass(frozen=True, kw_only=True)
class LogOptions(ReadOptions):
    """The options of every command that learns from a log."""

    needs_gamma: ClassVar[bool] = True

    gamma: Annotated[
        float,
        option(
            PROBLEM,
            "NUMBER",
            "The discount factor: a reward t steps ahead counts gamma^t. Needed, but for --bandit.",
            default=False,
        ),
    ] = NOT_GIVEN
    start: Annotated[
        str | None,
        option(
            PROBLEM,
            "STATE",
            "Where policies are compared: a state; or visits: all states, weighted by visits.",
            default="where episodes start; visits in a log of one episode",
        ),
    ] = None
    reward_range: Annotated[
        str | None,
        option(
            PROBLEM,
            "LOW,HIGH",
            "The lowest and the highest possible reward, such as 0,1, as the column has it.",
        ),
    ] = None
    return_range: Annotated[
        str | None,
        option(
            PROBLEM,
            "LOW,HIGH",
            "The lowest and the highest possible return from any state. Needed if gamma is 1.",
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
            "The policy that made the log, or (with propensities) is to be improved on: columns"
            " state, action, probability.",
            default="estimated from the log",
        ),
    ] = None
    baseline_policy: Annotated[
        str | None,
        option(
            BASELINE,
            "LABEL",
            "The policy of --policy-column to improve on, as its own rows show it.",
        ),
    ] = None
    smoothing: Annotated[
        float,
        option(BASELINE, "NUMBER", "Added to every count if the baseline is estimated."),
    ] = 0.0
    renormalise: Annotated[
        bool,
        option(
            BASELINE,
            "",
            "Take actions that are not allowed out of the baseline.",
            "--renormalise",
        ),
    ] = False

    def over(self, log: str, named: Collection[str]) -> tuple[str, Self]:
        """The log, and the options as they hold for it: where the file LOG describes a log, what
        it says holds unless the command line says otherwise.
        """
        from surefoot.logs.description import described

        reading, posing = self.for_reading(), self.for_posing()
        keywords = {_keyword(x) for x in named}
        source, *merged = described(log, reading, posing, keywords)
        now, before = {**merged[0], **merged[1]}, {**reading, **posing}
        keys = {f.name: _keyword(f.name) for f in fields(LogOptions)}
        said = {name: now[k] for name, k in keys.items() if now[k] is not before[k]}
        found = replace(self, **{name: _as_option(name, x) for name, x in said.items()})
        return source, found._checked()

    def _checked(self) -> Self:
        """These options; raise where they contradict each other."""
        missing = math.isnan(self.gamma)
        if missing and not self.bandit and self.needs_gamma:
            raise typer.BadParameter(
                "--gamma is missing: the discount factor, such as 0.95 (--bandit needs none: every"
                " row is an episode of one step)"
            )
        if self.bandit and not missing and self.gamma != 0:
            raise ParameterError("--bandit: every episode has one step, so leave --gamma out")
        if self.baseline is not None and self.baseline_policy is not None:
            raise ParameterError("give --baseline or --baseline-policy, not both")
        if self.baseline_policy is not None and self.policy_column is None:
            raise ParameterError(
                "--baseline-policy names one of several policies: say with --policy-column which"
                " column holds them"
            )
        return replace(self, gamma=0.0) if missing and self.bandit else self

    def for_posing(self) -> dict[str, Any]:
        """The problem, in the words of `surefoot.logs.description`."""
        return {
            "gamma": None if math.isnan(self.gamma) else self.gamma,
            "start": self.start,
            "reward_range": self.rewards,
            "return_range": self.returns,
            "baseline": self.baseline,
            "baseline_policy": self.baseline_policy,
            "smoothing": self.smoothing,
            "allowed": self.allowed,
            "forbidden": self.forbidden,
            "renormalise": self.renormalise,
        }

    @property
    def rewards(self) -> tuple[float, float] | None:
        """The declared range of rewards."""
        return _pair("reward-range", self.reward_range)

    @property
    def returns(self) -> tuple[float, float] | None:
        """The declared range of returns."""
        return _pair("return-range", self.return_range)


def listed(text: str | Iterable[Any]) -> list[Any]:
    """The words of a text, joined by commas; a list, of labels that hold commas, as it is."""
    if not isinstance(text, str):
        return list(text)
    return [x.strip() for x in text.split(",") if x.strip()]


def _keyword(name: str) -> str:
    """The keyword of the library behind an option."""
    return "policy" if name == "policy_column" else name


def _as_option(name: str, value: Any) -> Any:
    """What a file says as one would write it on the command line; a list where some label could
    not be written there.
    """
    if name in ("baseline", "allowed", "forbidden"):
        return Path(value)
    if name == "drop_bad_rows" and value is True:
        return "all"
    if not isinstance(value, (list, tuple)):
        return value
    written = [", ".join(map(str, x)) if isinstance(x, list) else str(x) for x in value]
    if name == "start":  # one label of several columns
        return ", ".join(written)
    plain = all(x == x.strip() != "" and "," not in x for x in written)
    return ",".join(written) if plain else list(value)


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
