"""Which column plays which role: found by name, or given; and what more of the reward means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.array_checks import pair_of_numbers
from surefoot.core.errors import LogError, option
from surefoot.core.evidence import GROUP, HIGHER, LOWER
from surefoot.core.labels import nearest
from surefoot.problems.guards import directed

MOST_OF_UNIT = 40  # characters
RANGES = ("reward_range", "return_range")
# words of a name that say harm: more of it is rarely better
HARM = frozenset(
    (
        "abandoned", "accident", "accidents", "adverse", "bounced", "churn", "churned",
        "complaint", "complaints", "complication", "complications", "cost", "costs", "crash",
        "crashes", "damage", "damages", "dead", "death", "deaths", "defaulted", "defect",
        "defects", "delay", "delays", "died", "dies", "downtime", "dropout", "error", "errors",
        "expense", "expenses", "fail", "failed", "fails", "failure", "failures", "fatal",
        "fatalities", "fatality", "fault", "faults", "fraud", "harm", "harmed", "harms",
        "incident", "incidents", "infected", "infection", "infections", "injured", "injuries",
        "injury", "loss", "losses", "lost", "mistake", "mistakes", "mortality", "outage",
        "outages", "penalties", "penalty", "readmission", "readmissions", "readmitted",
        "regret", "reject", "rejected", "relapse", "relapsed", "risk", "scrap", "sepsis",
        "waste",
    )
)  # fmt: skip
# beside these words it is no harm that a name speaks of
TURNED = frozenset(
    (
        "avoided", "free", "inverse", "inverted", "minus", "neg", "negated", "negative", "no",
        "non", "not", "prevented", "reduced", "reduction", "saved", "saving", "savings",
        "without",
    )
)  # fmt: skip
Column = str | Iterable[str] | None
Groupings = str | Iterable[str | Iterable[str]] | None  # one, or several
NONE = "-"  # given as a column: this role has none, whatever the names say
# Names are compared without case, spaces and punctuation: "Next State", "next_state" and
# "nextState" are one.
SYNONYMS = {
    role: tuple(names.split())
    for role, names in {
        "episode": "episode episode_id trajectory trajectory_id traj traj_id run run_id session"
        " session_id",
        "time": "time t step timestep timestamp step_id step_index tick",
        "state": "state s state_id obs observation",
        "action": "action a act action_id",
        "reward": "reward r rew",
        "next_state": "next_state s_next state_next next_s s_prime next_obs next_observation"
        " next_state_id",
        "terminal": "terminal terminated is_terminal done",
        "truncated": "truncated truncation timeout time_out",
        "propensity": "propensity propensity_score pscore action_prob action_probability"
        " behavior_prob behaviour_prob behavior_probability behaviour_probability logging_prob"
        " logging_probability",
        # These are never found by name: a user who means them names them.
        "policy": "",
        "group": "",
        "guard": "",
    }.items()
}
# names that count in datasets alone, where a role has no other (see `logs.rollouts`)
OF_DATASETS = {
    "state": "observations",
    "action": "actions",
    "reward": "rewards",
    "next_state": "next_observations",
    "terminal": "terminals",
    "truncated": "timeouts",
}
# how other programs write a missing value
MISSING = ("", "NA", "N/A", "<NA>", "NaN", "nan", "NAN", "NaT", "null", "NULL", "None")
NEEDED = ("episode", "state", "action", "reward")
ALONG = ("episode", "next_state", "terminal", "truncated")  # what bandit logs do without
SHARED = ("policy", "group", "guard")  # these columns may play another role too
# roles of one column; the others may join several into one label
SINGLE = ("time", "reward", "terminal", "truncated", "propensity")


@dataclass(frozen=True)
class Columns:
    """The columns of every role; () where the log has none. An episode of no columns: the whole
    log is one episode. `direction` is that of the reward, see `Reward`. The columns of the groups
    are those of all groupings, one grouping after the other, each of so many as `grouped` says.
    """

    episode: tuple[str, ...]
    time: tuple[str, ...]
    state: tuple[str, ...]
    action: tuple[str, ...]
    reward: tuple[str, ...]
    next_state: tuple[str, ...]
    terminal: tuple[str, ...]
    truncated: tuple[str, ...]
    propensity: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    guard: tuple[str, ...] = ()
    direction: str = ""
    grouped: tuple[int, ...] = ()

    @property
    def groupings(self) -> dict[str, range]:
        """{what a log calls a grouping beside its steps: the places of its columns in `group`}."""
        found, first = {}, 0
        for n in self.grouped:
            title = f": {' + '.join(self.group[first : first + n])}" if self.grouped[1:] else ""
            found[GROUP + title] = range(first, first + n)
            first += n
        return found

    @property
    def of_reward(self) -> Reward:
        """What more of the reward means."""
        return Reward(self.reward[0], self.direction)

    def ours(self) -> dict[str, str]:
        """{our name: the user's name} of every column; ours are state_0, state_1, ..., since those
        of the user may clash where case does not count.
        """
        found = ((role, i, name) for role in SYNONYMS for i, name in enumerate(getattr(self, role)))
        return {f"{role}_{i}": name for role, i, name in found}

    def __str__(self) -> str:
        found = {role: " + ".join(getattr(self, role)) for role in SYNONYMS}
        if self.grouped[1:]:
            found[GROUP] = " and ".join(x.removeprefix(f"{GROUP}: ") for x in self.groupings)
        return ", ".join(f"{role} = {names}" for role, names in found.items() if names)


def find_columns(
    names: Sequence[str], where: str, *, group: Groupings = None, **given: Column
) -> Columns:
    """The columns of all roles among the names of `where`."""
    given["reward"], direction = _directed(given.get("reward"), names)
    found = {role: _given(role, given.get(role), names, where) for role in SYNONYMS}
    groupings = _groupings(group, names, where)
    found[GROUP] = tuple(name for columns in groupings for name in columns)
    taken = {
        name for role, columns in found.items() if role not in SHARED for name in columns or ()
    }
    if found["next_state"] is None and found["state"]:  # state "ward, bed": "next_ward, next_bed"
        by_plain = {_plain(name): name for name in names}
        follow = [by_plain.get(_plain("next_" + name)) for name in found["state"]]
        if None not in follow:
            found["next_state"] = tuple(name for name in follow if name is not None)
    for role, columns in found.items():
        if columns is None:
            left = [name for name in names if name not in taken]
            found[role] = _by_name(role, left, where, of_dataset(names))
    made = Columns(
        **{x: columns or () for x, columns in found.items()},
        direction=direction,
        grouped=tuple(map(len, groupings)),
    )
    if made.next_state and len(made.next_state) != len(made.state):
        raise LogError(
            f"state is made of {len(made.state)} columns ({', '.join(made.state)}) and next_state"
            f" of {len(made.next_state)} ({', '.join(made.next_state)}): give as many, in the same"
            " order"
        )
    return made


def _groupings(given: Groupings, names: Sequence[str], where: str) -> list[tuple[str, ...]]:
    """The columns of every grouping."""
    each = (given,) if isinstance(given, str) else given or ()
    several = (x if isinstance(x, (list, tuple)) else str(x) for x in each)
    found = [x for x in (_given(GROUP, one, names, where) for one in several) if x]
    twice = [x for i, x in enumerate(found) if set(x) in map(set, found[:i])]
    if twice:
        raise LogError(f"episodes are grouped by {' and '.join(twice[0])} twice: say it once")
    return found


def _directed(option: Column, names: Sequence[str]) -> tuple[Column, str]:
    """(the column given as reward, its direction): of COLUMN:lower, unless a column has just this
    name.
    """
    texts = [option] if isinstance(option, str) else list(option or ())
    if len(texts) != 1 or not isinstance(texts[0], str) or texts[0] in names:
        return option, ""
    column, direction, rest = directed(texts[0])
    return (option, "") if rest or not direction else (column, direction)


def _given(role: str, option: Column, names: Sequence[str], where: str) -> tuple[str, ...] | None:
    """The columns the user named for a role; None where none were."""
    if option is None:
        return None
    if isinstance(option, str):
        if option == NONE:
            if role in NEEDED and role != "episode":
                raise LogError(
                    f"{role} is needed: {NONE!r} (no column) is for episode, time, next_state,"
                    " terminal, truncated and propensity"
                )
            return ()
        wanted = [option] if option in names else [part.strip() for part in option.split(",")]
    else:
        wanted = list(option)
    if (
        not wanted
        or not all(isinstance(name, str) and name for name in wanted)
        or len(set(wanted)) != len(wanted)
    ):
        raise LogError(
            f"{role} must be a column name, or different ones joined by commas, got {option!r}"
        )
    if len(wanted) > 1 and role in SINGLE:
        raise LogError(f"{role} is one column, got {', '.join(wanted)}")
    for name in wanted:
        if name not in names:
            form = "; a direction is COLUMN:lower or COLUMN:higher" * (role == "reward")
            raise LogError(
                f"{where} has no column {name!r} (given as {role}); {nearest(name, names)}"
                + form * (":" in name)
            )
    return tuple(wanted)


def _by_name(role: str, names: Sequence[str], where: str, dataset: bool) -> tuple[str, ...]:
    """The one column whose name says that it plays the role."""
    found = named_as(role, names, dataset)
    if len(found) > 1:
        raise LogError(
            f"{where} has {len(found)} columns that could be the {role}:"
            f" {', '.join(map(repr, found[:4]))}. Name the right one with {option(role)}"
        )
    many = [x for x in names if x.startswith(f"{OF_DATASETS.get(role, NONE)}_")] if dataset else []
    if not found and many and role in NEEDED:
        raise LogError(
            f"{where} has numbers for the {role} ({many[0]} to {many[-1]}), and no {role}s: make"
            f" them first, surefoot discretize ... --features {','.join(many[:3])}"
            f"{',...' * (len(many) > 3)} --column {role} (surefoot.discretize in Python). Whole"
            f" numbers can be named as they are, with {option(role, ','.join(many[:2]))}"
        )
    if not found and role in NEEDED:
        hint = (
            f"; {option(role, NONE)} makes the whole log one episode" if role == "episode" else ""
        )
        raise LogError(
            f"{where} has no column for the {role}: {nearest(role, names)}. Name it with"
            f" {option(role)}{hint}"
        )
    return tuple(found)


def named_as(role: str, names: Sequence[str], dataset: bool | None = None) -> list[str]:
    """The names that say that a column plays the role; `dataset`: they are of a dataset."""
    known = {_plain(name) for name in SYNONYMS[role]}
    found = [name for name in names if _plain(name) in known]
    of_it = of_dataset(names) if dataset is None else dataset
    return found or [name for name in names if of_it and name == OF_DATASETS.get(role)]


def of_dataset(names: Sequence[str]) -> bool:
    """Whether these columns are the arrays of a dataset."""
    return "rewards" in names and not {"observations", "observations_0"}.isdisjoint(names)


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


@dataclass(frozen=True)
class Reward:
    """The column of the reward and its direction: "higher" or "lower" is better; "" where nobody
    said it, which is taken as "higher". Where lower is better, the reward is minus the column.
    `unit`: what a reader calls it, such as "survival" or "EUR"; "": nobody said it.
    """

    column: str
    direction: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        unit = self.unit
        if not isinstance(unit, str) or not unit.isprintable() or len(unit) > MOST_OF_UNIT:
            raise LogError(
                f"{option('unit')} is what people call the reward, a word or a few on one line,"
                f" such as survival or EUR, got {unit!r}"
            )

    @property
    def sign(self) -> float:
        """1, or -1 where lower is better: times this, more is better."""
        return -1.0 if self.direction == LOWER else 1.0

    @property
    def names_harm(self) -> bool:
        """Whether the name of the column says harm, and nobody said which direction is better."""
        found = {x.lower() for x in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", self.column)}
        return not self.direction and bool(found & HARM) and not found & TURNED

    def range(self, name: str, declared: Any) -> tuple[float, float] | None:
        """A range that was declared of the column, as one of the reward."""
        if declared is None:
            return None
        low, high = pair_of_numbers(name, declared)
        return (low, high) if self.sign > 0 else (0.0 - high, 0.0 - low)

    def declared(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What was declared of the column, as what holds for the reward."""
        found = dict(given)
        if self.sign < 0:
            found |= {x: self.range(x, given[x]) for x in RANGES if x in given}
            if given.get("reward_table") is not None:
                found["reward_table"] = 0.0 - np.asarray(given["reward_table"], dtype=float)
        return found

    def summary(self, mean: float, episodes: int | None, rows: int) -> dict[str, Any]:
        """Its direction and its mean, in the units of the column, for machines; and the sentence
        for people.
        """
        mean = self.sign * mean
        each = mean * rows / episodes if episodes is not None and 1 < episodes < rows else None
        words = f"{'less' if self.sign < 0 else 'more'} {self.column} is better; a row averages"
        words += f" {mean:.4g}" + (f", an episode {each:.4g}" if each is not None else "")
        words += f" (the reward below is minus {self.column})" * (self.sign < 0)
        return {
            "column": self.column,
            "direction": self.direction or HIGHER,
            "direction_given": bool(self.direction),
            "mean": mean,
            "mean_an_episode": each,
            "unit": self.unit or None,
            "share": False,
            "sentence": words,
        }
