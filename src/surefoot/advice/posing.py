"""From a log, as a file, a table or a `Log`, and what is said of it, to the problem that it poses:
the words and defaults of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, get_type_hints

import numpy as np

from surefoot.checks.finding import doubt
from surefoot.core import Policy
from surefoot.core.errors import NotAvailableError, ParameterError, option
from surefoot.core.labels import nearest
from surefoot.evidence.units import Units, log_and_units_on_dask
from surefoot.logs import (
    Disagreement,
    Log,
    OfRows,
    averaged,
    disagreement,
    permitted,
    read_log,
    read_policy,
)
from surefoot.logs.column_roles import NONE, Column, Groupings
from surefoot.logs.database import Progress
from surefoot.logs.description import PATHS, POSING, described, description_of
from surefoot.logs.given_policies import baseline_of, policy_for, with_exploration
from surefoot.problems import Problem
from surefoot.problems.guards import guards_of, with_guards

if TYPE_CHECKING:
    from surefoot.advice.measurements import Measured

ROWS_ONLY = ("propensity", "policy", "bandit")  # what counts alone do not have
GAMMA = 0.95  # how far ahead returns look where nobody says it
HERE_ONLY = ("history", "discount_per")  # what is counted on this machine
DEFAULTS = {name: x.default for name, x in signature(read_log).parameters.items()} | {
    "exploration": 0.0,
    "smoothing": 0.0,
    "renormalise": False,
}


class Reading(TypedDict, total=False):
    """How a log is read: the keywords of `read_log` that are also options of the commands."""

    episode: Column
    time: Column
    state: Column
    action: Column
    reward: Column
    next_state: Column
    terminal: Column
    truncated: Column
    propensity: Column
    policy_column: Column
    terminal_states: Iterable[Any]
    actions: Iterable[Any] | None
    episode_end: str
    order: str
    terminal_to_end: bool
    drop_bad_rows: bool | str | Iterable[str]
    missing_reward: float | None
    decimal: str
    delimiter: str
    encoding: str
    date_format: str
    values: Mapping[str, float] | Iterable[str]
    unit: str
    history: int
    discount_per: str | float | None
    bandit: bool
    threads: int | None
    memory: str | None


class Posing(Reading, total=False):
    """How a log is read, and what is asked of it: keywords of every question, options of every
    command on a log.

    gamma                  the discount factor; needed unless bandit
    start                  the label of a state, or "visits"
    reward_range, return_range  (low, high), declared, in the units of the column
    allowed, forbidden     masks [S, A] or paths of files
    baseline               the policy that made the log, or is to be improved on: a path, a
                           `Policy`, a table, {state: {action: probability}}, a function of a
                           state's label, `OfRows`, an array; None: estimated from the log
    baseline_policy        of a log of several policies: the label of the one to improve on
    exploration            of a baseline that is a rule: the probability with which it takes any
                           allowed action instead, at random
    smoothing              added to every count where the baseline is estimated
    renormalise            take actions that are not allowed out of the baseline
    """

    gamma: float | None
    start: Any
    reward_range: tuple[float, float] | None
    return_range: tuple[float, float] | None
    allowed: Any
    forbidden: Any
    baseline: Any
    baseline_policy: Any
    exploration: float
    smoothing: float
    renormalise: bool


class Question(Posing, total=False):
    """And what looks after more than the reward, or is about this machine.

    guard     further columns that must not get worse, such as "cost:lower"
    group     the column with the group of an episode; several, for several groupings
    dask      the address of a scheduler to count on
    progress  called with (what is read, share done)
    """

    guard: Sequence[str] | None
    group: Groupings
    dask: Any
    progress: Progress | None


@dataclass(frozen=True, repr=False, kw_only=True)
class Posed:
    """A log, and the problem it poses.

    source        where it came from, in words
    gamma         as given: of a unit of time, where time counts
    disagreement  whether a given baseline can have made the log
    units         what a Dask cluster counted beside the log
    elsewhere     the rows of the baseline about states that the log never visits
    measured      how states were made of measurements, where they were
    """

    source: str
    log: Log
    problem: Problem
    gamma: float
    disagreement: Disagreement | None
    units: Units | None = None
    elsewhere: tuple[Any, ...] = ()
    measured: Measured | None = None

    def __repr__(self) -> str:
        return f"Posed({self.source}: {self.log!r})"

    @property
    def notes(self) -> list[str]:
        """What a user should know, also if the baseline cannot have made the log."""
        return [*self.problem.notes, *filter(None, [doubt(self.disagreement)])]


def check_keywords(how: Mapping[str, Any]) -> None:
    """Raise where a keyword is none of a question about a log."""
    known = [x for x in get_type_hints(Question) if x not in ("progress",)]
    for name in how:
        if name not in known and name != "progress":
            raise ParameterError(f"there is no keyword {name!r}; {nearest(name, known)}")


def as_said(source: Any, how: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """(the log, keywords of a question): where the source is the TOML file that describes a log,
    what it says, unless it is said here.
    """
    given = {("policy" if x == "policy_column" else x): y for x, y in how.items() if y is not None}
    reading, posing = ({x: y for x, y in given.items() if (x in POSING) == of} for of in (0, 1))
    source, reading, posing = described(source, reading, posing, given)
    if "policy" in reading:
        reading["policy_column"] = reading.pop("policy")
    return source, {**reading, **posing}


def pose(source: Any, **how: Unpack[Question]) -> Posed:
    """Read a log and its baseline, and build their problem, with its guards; `source` is what
    `read_log` takes, the TOML file that describes a log, or a Log.
    """
    check_keywords(how)
    source, said_of_it = as_said(source, how)
    return _pose(source, **said_of_it)


def _pose(
    source: Any,
    *,
    gamma: float | None = None,
    baseline: Any = None,
    baseline_policy: Any = None,
    exploration: float = 0.0,
    smoothing: float = 0.0,
    renormalise: bool = False,
    start: Any = None,
    reward_range: tuple[float, float] | None = None,
    return_range: tuple[float, float] | None = None,
    allowed: Any = None,
    forbidden: Any = None,
    guard: Sequence[str] | None = None,
    group: Groupings = None,
    dask: Any = None,
    progress: Progress | None = None,
    **reading: Unpack[Reading],
) -> Posed:
    """As `pose`, of a log that nothing describes."""
    if baseline is not None and baseline_policy is not None:
        raise ParameterError("give --baseline or --baseline-policy, not both")
    told = "policy" in source.beside if isinstance(source, Log) else "policy_column" in reading
    if baseline_policy is not None and not told:
        raise ParameterError(
            "--baseline-policy names one of several policies: say with --policy-column which"
            " column holds them"
        )
    bandit = source.bandit if isinstance(source, Log) else bool(reading.get("bandit"))
    gamma = discount_of(gamma, bandit=bandit)
    if dask is not None and (guard or group):
        raise NotAvailableError(
            "guards and groups need the rows of the log in memory: leave out --dask, and take a"
            " part of its episodes where the log is too large"
        )
    log, units = read(source, guard=guard, group=group, dask=dask, progress=progress, **reading)
    mask = permitted(log, allowed, forbidden)
    found = None if baseline is None else policy_for(_of_rows(baseline, source, log), log)
    found = with_exploration(found, exploration, log, mask)
    if baseline_policy is not None:
        given = baseline_of(log, baseline_policy, smoothing, mask)
    elif found is None:
        given = log.estimated_baseline(smoothing, mask)
    else:
        given = found
    problem = log.problem(
        gamma,
        given,
        start=start,
        allowed=mask,
        reward_range=reward_range,
        return_range=return_range,
        masked_baseline="renormalise" if renormalise else "error",
        needs_returns=None if dask is None else False,
    )
    return Posed(
        source=in_words(source),
        log=log,
        problem=with_guards(problem, several(guard)),
        gamma=gamma,
        disagreement=None if given.estimated or log.has_propensities else disagreement(log, given),
        units=units,
        elsewhere=given.elsewhere,
    )


def of_the_whole(how: Mapping[str, Any]) -> None:
    """Raise where guards, groups or a cluster are asked for that this question does not heed."""
    for name in ("guard", "group", "dask"):
        if how.get(name) not in (None, (), []):
            raise ParameterError(
                f"{option(name)} is not heeded here: surefoot improve takes it (surefoot.advise)"
            )


def check_tolerance(posed: Posed, group_tolerance: float) -> None:
    """Raise where a loss of groups is allowed, and there are none."""
    if group_tolerance and not posed.log.groups:
        raise ParameterError("--group-tolerance is about groups: name their column with --group")


def save_description(path: str | Path, log: Log, source: Any, how: Mapping[str, Any]) -> Path:
    """Write down how a log was read, and the problem it poses."""
    if not isinstance(source, (str, Path)):
        raise ParameterError(f"only a log in files can be described, got {in_words(source)}")
    for name in PATHS:
        if not isinstance(how.get(name), (str, Path, NoneType)):
            raise ParameterError(
                f"{option(name)}: a description names files: save it, and give the path"
            )
    how = {x: y.item() if isinstance(y, np.generic) else y for x, y in how.items()}
    reading = {x: value for x, value in how.items() if x in Reading.__annotations__}
    posing = {x: value for x, value in how.items() if x in POSING}
    if "policy_column" in reading:
        reading["policy"] = reading.pop("policy_column")
    return description_of(log, str(source), reading, posing).save(path)


def check_posing(log: Log, how: Mapping[str, Any], baseline: Policy | None) -> None:
    """Raise where a problem could not be posed so; the baseline has its noise already."""
    posing = {x: value for x, value in how.items() if x in POSING and x != "exploration"}
    gamma = posing.get("gamma", None if log.bandit else GAMMA)
    _pose(log, **{**posing, "baseline": baseline, "gamma": gamma})


def posed_by_hand(log: Log, problem: Problem) -> Posed:
    """A log with a problem that was posed already."""
    own = problem.labels.same(log.labels) and problem.n_states == log.n_states
    if not own or not np.allclose(np.asarray(problem.n_sa), log.n_sa):
        raise ParameterError(
            "this problem was not posed by this log: its states, actions or counts are others; give"
            " log.problem(...) of the same log"
        )
    found = None
    if not (problem.pi_b_estimated or log.has_propensities):
        made = np.asarray(problem.logging_policy)
        found = disagreement(log, Policy(pi=made, labels=log.labels))
    return Posed(
        source=in_words(log), log=log, problem=problem, gamma=problem.gamma, disagreement=found
    )


def read(
    source: Any,
    *,
    guard: Sequence[str] | None = None,
    group: Groupings = None,
    dask: Any = None,
    progress: Progress | None = None,
    **reading: Unpack[Reading],
) -> tuple[Log, Units | None]:
    """(the log; its units, where a Dask cluster counted them)."""
    how: dict[str, Any] = {**reading, "group": group}
    how["policy"] = how.pop("policy_column", None)
    if isinstance(source, Log):
        _check_read(source, {**how, "dask": dask})
        return source, None
    how["guard"] = [x.column for x in guards_of(several(guard))] or None
    if dask is None:
        return read_log(source, progress=progress, **how), None
    for name in HERE_ONLY:
        if how.pop(name, None):
            raise ParameterError(f"{option(name)} is counted on this machine: leave --dask out")
    if any(how.get(name) not in (None, NONE, False) for name in ROWS_ONLY):
        raise ParameterError(
            "--dask counts alone, and weighs nothing: --propensity, --policy-column and --bandit"
            " need the rows; leave --dask out"
        )
    unit = how.pop("unit", "")
    log, units = log_and_units_on_dask(dask, source, **{**how, "propensity": NONE})
    return replace(log, reward=replace(log.reward, unit=unit)), units


def _check_read(log: Log, how: Mapping[str, Any]) -> None:
    """Raise where a Log, which is read already, is to be read in some way."""
    for name in not_default(how):
        if not (name == "bandit" and log.bandit):
            raise ParameterError(
                f"{option(name)}: a Log is read already; say it to read_log, or give the file or"
                " table"
            )


def discount_of(gamma: float | None, *, bandit: bool) -> float:
    """The discount factor; 0 of a bandit log."""
    if not bandit and gamma is None:
        raise ParameterError(
            "--gamma is missing: the discount factor, such as 0.95 (--bandit needs none: every row"
            " is an episode of one step)"
        )
    if bandit and gamma:
        raise ParameterError("--bandit: every episode has one step, so leave --gamma out")
    return 0.0 if bandit or gamma is None else gamma


def _of_rows(given: Any, source: Any, log: Log) -> Any:
    """A baseline of raw rows as what it does on average in each state; others as they are."""
    if not isinstance(given, OfRows):
        return given
    if isinstance(source, Log):
        raise ParameterError("a Log has no raw rows any more: give the file or table to OfRows")
    return averaged(given, source, log)


def several(given: str | Sequence[Any] | None) -> list[Any]:
    """A list of what may be given alone."""
    if isinstance(given, Mapping):
        raise ParameterError(f"a list is expected, not {{name: value}}: got {list(given)}")
    return [given] if isinstance(given, str) else list(given or ())


def not_default(how: Mapping[str, Any]) -> dict[str, Any]:
    """What is not at its default."""
    empty = (list, tuple, str)
    return {
        name: value
        for name, value in how.items()
        if value is not None
        and not (isinstance(value, empty) and not value)
        and not (name in DEFAULTS and value == DEFAULTS[name])
    }


def typed(value: Any) -> str:
    """A value as one would type it, to the last digit."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(typed, value))
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(float(value))


def policy_over(given: Any, log: Log) -> Policy:
    """The policy that a question is about, over the labels of a log: the path of a file as
    `surefoot improve` writes it, or whatever `policy_for` takes.
    """
    if not isinstance(given, (str, Path)):
        return policy_for(given, log)
    return read_policy(
        given, log, what="policy", probability="probability", unknown_states="ignore"
    )


def in_words(source: Any) -> str:
    """What a log is called in outputs: its path, or what it is."""
    if isinstance(source, (str, Path)):
        return str(source)
    if isinstance(source, (list, tuple)):
        return ", ".join(map(str, source))
    return f"a {type(source).__name__}"
