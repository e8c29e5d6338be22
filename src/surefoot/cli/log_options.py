"""The options that commands on a log share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from surefoot.cli.options import BASELINE, COLUMNS, METHOD, PROBLEM, READING, OfLog, option
from surefoot.core.errors import ParameterError
from surefoot.core.parameters import value_of

NOT_GIVEN = math.nan  # of a number that is needed


def _columns(meaning: str, value: str = "NAME") -> Any:
    return option(COLUMNS, value, meaning, default=False)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(OfLog):
    """How a log is read: the options of every command that reads one."""

    def asking(self) -> dict[str, Any]:
        """What was given on the command line, as the keywords of a question."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name in self.said}
        return {x: WORDS[x](value) if x in WORDS else value for x, value in given.items()}

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


@dataclass(frozen=True, kw_only=True)
class LogOptions(ReadOptions):
    """The options of every command that learns from a log."""

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


@dataclass(frozen=True, kw_only=True)
class GuardedOptions(LogOptions):
    """The options of a command on a log that looks after more than the reward."""

    guard: Annotated[
        list[str] | None,
        option(
            METHOD,
            "COLUMN:DIRECTION",
            "A further column that must not get worse, such as cost:lower or quality:higher. With a"
            " tolerance: readmitted:lower:0.01 (a loss of 0.01 in its discounted sum counts as"
            " none; then :0,1 declares its range). May be repeated.",
        ),
    ] = None
    group: Annotated[
        str | None,
        option(
            METHOD,
            "NAME,...",
            "A column with the group of an episode: the policy must be no worse for any group.",
        ),
    ] = None
    group_tolerance: Annotated[
        float,
        option(
            METHOD,
            "NUMBER",
            "The loss of a group that counts as none, in units of the gain; inf: tell, do not ask.",
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
    "reward_range": partial(paired, "reward_range"),
    "return_range": partial(paired, "return_range"),
}
