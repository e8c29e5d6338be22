"""Batch: one log, checked at the door, its rows in order of episode and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.core.array_checks import (
    MOST_PAIRS,
    check_length,
    column,
    flags,
    ids,
    probabilities,
    ranks,
    rewards,
    state_ids,
    word,
)
from surefoot.core.errors import LogError
from surefoot.core.labels import Labels

END = "(end)"
COLUMNS = ("state", "action", "reward", "next_state", "episode", "ends", "truncated", "row")
OWN = 1e-6  # propensities that differ from a policy by less than this share are its own


@dataclass(frozen=True, repr=False, kw_only=True)
class Batch:
    """Rows (s, a, r, s') of one log, episodes one after the other, each in order of time; arrays
    are read-only.

    `episode` numbers the episodes 0, 1, ...; `ends` marks the rows that lead into a terminal state,
    `truncated` those flagged as such, `cuts` the rows after which an episode stops without having
    reached a terminal state (a time limit, or simply the end of the log). `row` is the position of
    each row in the log as it came, for error messages; `left_out` counts the rows of it that are
    not here, since they had no successor. `labels` say what the codes stand for. `beside` are
    further columns of the log, where it has them: "propensity" of the action taken, "policy" and
    "group" as codes, the guarded columns "g0", "g1", ..., `elapsed` time and `survives`
    """

    state: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_state: np.ndarray
    episode: np.ndarray
    ends: np.ndarray
    truncated: np.ndarray
    row: np.ndarray
    n_states: int
    n_actions: int
    terminal_states: tuple[int, ...] = ()
    has_end: bool = False
    left_out: int = 0
    labels: Labels = field(default=Labels(), compare=False)
    beside: Mapping[str, np.ndarray] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return (
            f"Batch({len(self)} rows, {self.n_episodes} episodes, {self.n_states} states x"
            f" {self.n_actions} actions)"
        )

    def __post_init__(self) -> None:
        for name in COLUMNS:
            getattr(self, name).flags.writeable = False
        for further in self.beside.values():
            further.flags.writeable = False

    def __len__(self) -> int:
        return len(self.state)

    @cached_property
    def policy_varies(self) -> bool:
        """Whether the propensities of a pair differ: several policies made the log, or one that
        learned on the way.
        """
        if self.propensity is None:
            return False
        least, most = np.full((2, self.n_states * self.n_actions), np.nan)
        np.fmin.at(least, self.pair, self.propensity)
        np.fmax.at(most, self.pair, self.propensity)
        return bool(np.any(most - least > OWN * most))

    @property
    def propensity(self) -> np.ndarray | None:
        """The probability with which each row's action was chosen; None where the log has none."""
        return self.beside.get("propensity")

    @property
    def survives(self) -> np.ndarray | None:
        """The share of what follows each row that counts beyond gamma, where steps take unequal
        time: the rest of the row ends. None where all count alike.
        """
        return self.beside.get("survives")

    def discounts(self, gamma: float) -> np.ndarray | float:
        """What the value after each row counts: gamma, or gamma times `survives`."""
        return gamma if self.survives is None else gamma * self.survives

    def discounts_over(self, gamma: float, rows: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """What counts of a value so many steps after each of these rows: gamma^steps, or the
        product of the discounts of the steps.
        """
        if self.survives is None:
            return np.asarray(gamma ** steps.astype(float))
        logs = np.log(np.maximum(gamma * self.survives, 1e-300))
        total = np.append(0.0, np.cumsum(logs))
        return np.asarray(np.exp(total[rows + steps] - total[rows]))

    def made_by(self, pi: np.ndarray) -> bool:
        """Whether the propensities are those of this policy [S, A]; True where there are none."""
        if self.propensity is None:
            return True
        taken = pi[self.state, self.action]
        return bool((np.abs(taken - self.propensity) <= OWN * self.propensity).all())

    @cached_property
    def first(self) -> np.ndarray:
        """Whether a row is the first of its episode."""
        return np.append(True, self.episode[1:] != self.episode[:-1])

    @cached_property
    def time(self) -> np.ndarray:
        """The time of each row in its episode, from 0."""
        found: np.ndarray = np.arange(len(self)) - np.flatnonzero(self.first)[self.episode]
        return found

    @cached_property
    def last(self) -> np.ndarray:
        """Whether a row is the last of its episode."""
        return np.append(self.episode[1:] != self.episode[:-1], True)

    @cached_property
    def stop(self) -> np.ndarray:
        """The last row of each row's episode."""
        found: np.ndarray = np.flatnonzero(self.last)[self.episode]
        return found

    @cached_property
    def pair(self) -> np.ndarray:
        """The number s A + a of each row's pair."""
        found: np.ndarray = self.state * self.n_actions + self.action
        return found

    @cached_property
    def first_visits(self) -> np.ndarray:
        """The rows that visit a pair for the first time in their episode."""
        size = self.n_states * self.n_actions
        return np.unique(self.episode * size + self.pair, return_index=True)[1]

    @property
    def terminal(self) -> np.ndarray:
        """Which states are terminal, [S]."""
        found = np.zeros(self.n_states, dtype=bool)
        found[list(self.terminal_states)] = True
        return found

    @cached_property
    def cuts(self) -> np.ndarray:
        """Whether a row is the last of an episode that reached no terminal state."""
        found: np.ndarray = self.last & ~self.ends
        return found

    @cached_property
    def n_episodes(self) -> int:
        """The number of episodes."""
        return int(self.episode[-1]) + 1

    def contradictions(self) -> str | None:
        """What is wrong between one row and the next of an episode, in words; None where all is
        well.

        Counting does not care about the order of rows; Monte-Carlo returns do, and refuse a log
        with a contradiction.
        """
        return self._contradiction

    @cached_property
    def _contradiction(self) -> str | None:
        inner = ~self.last[:-1]
        after_cut = np.flatnonzero(inner & self.truncated[:-1])
        if len(after_cut):
            return (
                f"{len(after_cut)} rows are flagged truncated and are followed by more steps of the"
                f" same episode, first row {self.row[after_cut[0]]}: give every episode its own id"
            )
        after_end = np.flatnonzero(inner & self.ends[:-1])
        if len(after_end):
            i = after_end[0]
            return (
                f"{len(after_end)} rows lead into a terminal state and are followed by more steps"
                f" of the same episode, first row {self.row[i]} (next state"
                f" {self.labels.state(self.next_state[i])}): give every episode its own id"
            )
        broken = np.flatnonzero(inner & (self.next_state[:-1] != self.state[1:]))
        if len(broken):
            i = broken[0]
            return (
                f"{len(broken)} rows name a next state that is not the state of the following row,"
                f" first row {self.row[i]} (next state {self.labels.state(self.next_state[i])}, but"
                f" row {self.row[i + 1]} is in state {self.labels.state(self.state[i + 1])}): check"
                " the episode ids and the order of rows, or give `time`"
            )
        return None


def make_batch(
    *,
    state: Any,
    action: Any,
    reward: Any,
    next_state: Any = None,
    episode: Any,
    time: Any = None,
    terminal: Any = None,
    truncated: Any = None,
    propensity: Any = None,
    n_states: int | None = None,
    n_actions: int | None = None,
    terminal_states: Any = (),
) -> Batch:
    """Check plain arrays, one entry a step, and put them in order; see `surefoot.problem`."""
    rows: dict[str, Any] = _columns(state, action, reward, next_state, terminal, truncated)
    n = len(rows["state"])
    if propensity is not None:
        rows["propensity"] = probabilities("propensity", propensity, n)
    rows["episode"], order = _time_order(column("episode", episode, n), time)
    rows = {name: x[order] for name, x in rows.items()} | {"row": order}
    both = np.flatnonzero(rows["ends"] & rows["truncated"])
    if len(both):
        raise LogError(
            f"row {order[both[0]]} is flagged both terminal and truncated ({len(both)} such rows):"
            " an episode ends one way"
        )
    rows = _with_successors(rows) if next_state is None else rows
    missing = rows["next_state"] < 0
    lost = np.flatnonzero(missing & ~rows["ends"])
    if len(lost):
        raise LogError(
            f"row {rows['row'][lost[0]]} has no next_state and is not flagged terminal ({len(lost)}"
            " such rows): give the state it leads to, or flag it"
        )
    end_states = state_ids("terminal_states", terminal_states)
    states, actions = _sizes(rows, n_states, n_actions, end_states)
    if missing.any():
        rows["next_state"][missing] = states
        states += 1
    rows["ends"] = _arrivals(rows, end_states)
    beside = {"propensity": rows.pop("propensity")} if propensity is not None else {}
    return Batch(
        **rows,
        beside=beside,
        n_states=states,
        n_actions=actions,
        terminal_states=tuple(sorted(end_states)),
        has_end=bool(missing.any()),
        left_out=n - len(rows["state"]),
        labels=Labels(),
    )


def _columns(
    state: Any, action: Any, reward: Any, next_state: Any, terminal: Any, truncated: Any
) -> dict[str, np.ndarray]:
    """The columns as they came, each checked for itself, all of one length."""
    rows = {"state": ids("state", state), "action": ids("action", action)}
    n = len(rows["state"])
    if n == 0:
        raise LogError(
            "the log is empty: at least one row (state, action, reward, next_state) is needed"
        )
    check_length("action", rows["action"], n)
    rows["reward"] = rewards(reward, n)
    rows["ends"] = flags("terminal", terminal, n)
    rows["truncated"] = flags("truncated", truncated, n)
    if next_state is not None:
        rows["next_state"] = ids("next_state", next_state, missing=-1)
        check_length("next_state", rows["next_state"], n)
    return rows


def _time_order(episode: np.ndarray, time: Any) -> tuple[np.ndarray, np.ndarray]:
    """(the number of each row's episode, the rows by episode, then by time or as they came)."""
    number = ranks("episode", episode)
    if time is None:
        return number, np.argsort(number, kind="stable")
    time = column("time", time, len(episode))
    if time.dtype.kind in "US":
        raise LogError(
            f"time must hold numbers or dates, got text ({time.dtype}), which sorts '10' before"
            " '9': convert it"
        )
    rank = ranks("time", time) if time.dtype.kind == "O" else time
    order = np.lexsort((rank, number))
    same = np.flatnonzero(
        (number[order][1:] == number[order][:-1]) & (rank[order][1:] == rank[order][:-1])
    )
    if len(same):
        i, j = order[same[0]], order[same[0] + 1]
        raise LogError(
            f"rows {i} and {j} have the same episode {word(episode[i])} and time {word(time[i])}"
            f" ({len(same)} such pairs): a step may appear once"
        )
    return number, order


def _with_successors(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each row leads to the state of the next one of its episode; the last row of a cut episode,
    which leads nowhere, is left out.
    """
    state, ends, number = rows["state"], rows["ends"], rows["episode"]
    last = np.append(number[1:] != number[:-1], True)
    early = np.flatnonzero((ends | rows["truncated"]) & ~last)
    if len(early):
        raise LogError(
            f"row {rows['row'][early[0]]} is flagged"
            f" {'terminal' if ends[early[0]] else 'truncated'} but is not the last of its episode"
            f" ({len(early)} such rows): give every episode its own id, or give next_state"
        )
    following = np.where(last, -1, np.append(state[1:], -1))
    keep = ~last | ends
    if not keep.any():
        raise LogError(
            "no row has a successor: every episode is one step long and cut; give next_state"
        )
    rows = {name: x[keep] for name, x in (rows | {"next_state": following}).items()}
    rows["episode"] = ranks("episode", rows["episode"])
    return rows


def _sizes(
    rows: dict[str, np.ndarray], n_states: int | None, n_actions: int | None, end_states: set[int]
) -> tuple[int, int]:
    """(S, A), given or one more than the highest id; every id lies in range."""
    highest = max(int(rows["state"].max()), int(rows["next_state"].max()), *end_states, 0)
    states = highest + 1 if n_states is None else int(n_states)
    actions = int(rows["action"].max()) + 1 if n_actions is None else int(n_actions)
    for name, n, option in (
        ("state", states, "n_states"),
        ("action", actions, "n_actions"),
        ("next_state", states, "n_states"),
    ):
        wrong = np.flatnonzero(rows[name] >= n)
        if len(wrong):
            raise LogError(
                f"{name} must lie in 0..{n - 1} ({option}={n}), row {rows['row'][wrong[0]]} is"
                f" {rows[name][wrong[0]]} ({len(wrong)} such rows): raise {option} or correct"
                " the log"
            )
    outside = sorted(s for s in end_states if not 0 <= s < states)
    if outside:
        raise LogError(
            f"terminal_states must lie in 0..{states - 1}, got {outside[0]} ({len(outside)} such"
            " states)"
        )
    if states * actions > MOST_PAIRS:
        raise LogError(
            f"{states} states x {actions} actions are more than {MOST_PAIRS:,} pairs: number states"
            " and actions 0, 1, 2, ... without gaps"
        )
    return states, actions


def _arrivals(rows: dict[str, np.ndarray], end_states: set[int]) -> np.ndarray:
    """Which rows lead into a terminal state; the states that flagged rows lead to join
    `end_states`, and nobody acts in those.
    """
    end_states |= {int(s) for s in np.unique(rows["next_state"][rows["ends"]])}
    ended = sorted(end_states)
    acting = np.flatnonzero(np.isin(rows["state"], ended))
    if len(acting):
        i = acting[0]
        raise LogError(
            f"row {rows['row'][i]} acts in state {rows['state'][i]}, which is terminal"
            f" ({len(acting)} such rows): a terminal state has no actions. If a terminal step"
            " returns to an ordinary state, leave its next_state out (-1): it then leads to an"
            f" extra state {END}"
        )
    ends: np.ndarray = np.isin(rows["next_state"], ended)
    wrong = np.flatnonzero(rows["truncated"] & ends)
    if len(wrong):
        i = wrong[0]
        raise LogError(
            f"row {rows['row'][i]} is flagged truncated but leads to the terminal state"
            f" {rows['next_state'][i]} ({len(wrong)} such rows): an episode that reached a terminal"
            " state has ended; take the flag away"
        )
    return ends
