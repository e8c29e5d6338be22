"""Accounting: every row of a log is used, or left out for a reason that has a name; and what a user
should know about a log that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core.errors import LogError, SurefootError, UnknownNameError, option
from surefoot.core.labels import as_text
from surefoot.core.text import some
from surefoot.logs.column_roles import MISSING
from surefoot.problems.build import cut_notes

if TYPE_CHECKING:
    from surefoot.logs.log import Log

CUT = "cut"  # the last row of an episode that did not end: without next_state it leads nowhere
# the row after it has no state, so it leads nowhere (only where bad rows are dropped)
NO_SUCCESSOR = "no-successor"
AT_LIMIT = "at-limit"  # the last row of an episode that ended where others were cut

# What makes a row bad, in the order in which it is looked for: a row with two faults is counted
# under the first.
REASONS = {
    "broken-row": "rows that could not be split into the columns of the header",
    "episode": "rows without an episode",
    "time": "rows whose time is missing or unreadable",
    "state": "rows without a state",
    "action": "rows without an action",
    "action-not-allowed": "rows with an action outside the allowed set",
    "reward": "rows whose reward is not a finite number",
    "flag": "rows whose terminal or truncated flag is unreadable",
    "both-flags": "rows flagged both terminal and truncated",
    "next-state": "rows without a next_state that are not flagged terminal",
    "propensity": "rows whose propensity is no probability above 0 and at most 1",
    "policy": "rows that do not say which policy chose the action",
    "group": "rows without a group",
    "guard": "rows whose guarded column is not a finite number",
    "duplicate": "rows that repeat an (episode, time)",
    "backwards": "rows whose time does not lie after that of the row before",
    "after-end": "rows that follow a terminal or truncated step of their episode",
    "contradiction": "rows whose next_state is not the state of the following row",
}
OTHER = {
    CUT: "last rows of cut episodes, which lead nowhere without next_state",
    NO_SUCCESSOR: "rows whose following row was left out, so that their successor is unknown",
    AT_LIMIT: "last rows of episodes that ended at the time limit, left out as those of cut ones",
}

REMEDIES = {
    CUT: (
        f"If every episode ends with its last row, say {option('episode_end', 'terminal')}; else"
        " give next_state, or flag rows that end an episode"
    ),
    "reward": f"If an empty reward means 0, say {option('missing_reward', 0)}",
}
ENDS_KEPT = "; rows that ended are kept, so that ends look more frequent than they are"
FEWEST = 100  # rows; in fewer of them states seen once are no wonder
SEVERAL = 10  # episodes: in fewer, a reward may be constant by accident
MOST = 0.5  # the share from which on it is most


@dataclass(frozen=True)
class Accounting:
    """rows = used + the sum of left_out, always: `left_out` holds (reason, number of rows), reasons
    as in REASONS and OTHER.

    filled      rows without a reward, which counts as the `missing_reward` that was given
    put_right   steps back in a time without UTC offset, which sorting put in order
    nameless    episodes whose name reads like a missing value
    unrewarded  episodes no row of which has a reward, of so many `episodes` (looked for where a
                row has none, and not in bandit logs)
    repeated    episodes of several rows, where no episode has two different rewards
    varied      above 0 where an episode has two different rewards
    size_used, size_left_out   sums of |reward| of the rows used, and of the rows left out whose
                               reward can be read
    """

    rows: int
    used: int
    left_out: tuple[tuple[str, int], ...] = ()
    filled: int = 0
    put_right: int = 0
    nameless: int = 0
    unrewarded: int = 0
    episodes: int = 0
    repeated: int = field(default=0, compare=False)  # parts of a log count more than the whole
    varied: int = field(default=0, compare=False)
    size_used: float = field(default=0.0, compare=False)  # a sum of floats depends on the threads
    size_left_out: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        unknown = [reason for reason, _ in self.left_out if reason not in REASONS | OTHER]
        if unknown or min((self.rows, self.used, *(n for _, n in self.left_out))) < 0:
            raise SurefootError(
                f"an accounting needs known reasons and numbers >= 0, got {self.left_out}"
            )
        if self.rows != self.used + self.n_left_out:
            raise SurefootError(
                f"rows do not add up: {self.rows} read, {self.used} used, {self.n_left_out} left"
                " out; this is a fault of surefoot, please report it with the log's first rows"
            )

    @property
    def n_left_out(self) -> int:
        """The number of rows left out."""
        return sum(n for _, n in self.left_out)

    def left_out_as(self, reason: str) -> int:
        """The number of rows left out for this reason."""
        return dict(self.left_out).get(reason, 0)

    def __add__(self, other: Accounting) -> Accounting:
        """The rows of both logs."""
        if not isinstance(other, Accounting):
            return NotImplemented
        return accounting(
            self.rows + other.rows,
            self.used + other.used,
            {r: self.left_out_as(r) + other.left_out_as(r) for r in REASONS | OTHER},
            **{x: getattr(self, x) + getattr(other, x) for x in EXTRAS},
        )

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows read, {self.used:,} used, {self.n_left_out:,} left out"]
        lines += [f"  {n:,} {(REASONS | OTHER)[reason]}" for reason, n in self.left_out]
        return "\n".join(lines)


EXTRAS = tuple(f.name for f in fields(Accounting) if f.name not in ("rows", "used", "left_out"))


def accounting(rows: int, used: int, left_out: dict[str, int], **extras: Any) -> Accounting:
    """An Accounting with the reasons that occur, in their fixed order."""
    return Accounting(
        rows, used, tuple((r, left_out[r]) for r in REASONS | OTHER if left_out.get(r)), **extras
    )


def droppable(choice: bool | str | Iterable[str]) -> frozenset[str]:
    """The reasons whose rows may be dropped: none, all, or those named."""
    if isinstance(choice, bool):
        return frozenset(REASONS if choice else ())
    try:
        named = [x.strip() for x in choice.split(",")] if isinstance(choice, str) else list(choice)
    except TypeError as error:
        raise LogError(
            f"drop_bad_rows must be True, False or names of reasons, got {choice!r}"
        ) from error
    for name in named:
        if not isinstance(name, str) or name not in REASONS:
            raise UnknownNameError(
                f"drop_bad_rows knows the reasons {', '.join(REASONS)}; got {name!r}"
            )
    return frozenset(named)


def nothing_left(left_out: dict[str, int]) -> str:
    """That every row was left out, and what to do."""
    remedies = ". ".join(words for reason, words in REMEDIES.items() if left_out.get(reason))
    return (
        f"no row of the log is left to learn from: {_in_words(left_out)}."
        f" {remedies or 'Mend the rows'}"
    )


def no_reward_at_all(unrewarded: int, episodes: int) -> str:
    """That some episodes have no reward."""
    return f"{unrewarded:,} of {episodes:,} episodes have no reward at all"


def _in_words(left_out: dict[str, int]) -> str:
    """How many rows were left out and why."""
    return "; ".join(
        f"{left_out[r]:,} {words}" for r, words in (REASONS | OTHER).items() if left_out.get(r)
    )


def notes_on(log: Log, missing_reward: float | None) -> list[str]:
    """What a user should know about a log, beside its warnings."""
    return [*_left_out(log), *_taken(log, missing_reward)]


def warnings_on(log: Log) -> Iterator[str]:
    """Signs that the rows used do not hold what the log is about."""
    account = log.accounting
    low, high = log.rewards
    name = log.reward.column
    if log.reward.names_harm:
        yield (
            f"{name!r} is the reward, so more of it counts as better, but its name says harm. If"
            f" less of it is better, say {option('reward', f'{name}:lower')}; if more is,"
            f" {option('reward', f'{name}:higher')}"
        )
    if account.repeated >= SEVERAL and not account.varied and low != high:
        yield (
            f"the reward {name!r} is the same in all rows of every episode, and differs between"
            " episodes: it looks like one outcome of the episode, repeated in each of its rows. As"
            " it is, it counts once a row, so that long episodes count more. If it is one outcome,"
            " leave it in the last row alone, with 0 in the others"
        )
    if low == high and (low == 0 or not log.terminal.any()):
        yield (
            f"all rewards of the rows used are {low:g}: by them every policy is as good as every"
            " other. Is the reward column right?"
        )
    yield from _identifiers(log)
    if not account.left_out:
        return
    reason = max(account.left_out, key=lambda pair: pair[1])[0]
    remedy = f" {REMEDIES[reason]}" if reason in REMEDIES else ""
    why = f"{_in_words(dict(account.left_out))}.{remedy}"
    total = account.size_used + account.size_left_out
    if account.size_left_out > MOST * total:
        yield (
            f"{account.size_left_out / total:.0%} of the reward (in size) lies in rows that are"
            f" left out, and is lost: {why}"
        )
    if account.n_left_out > MOST * account.rows:
        yield f"most rows are left out, {account.n_left_out:,} of {account.rows:,}: {why}"


def _identifiers(log: Log) -> Iterator[str]:
    """That most rows are in a state that no other row is in: nothing can be learned there."""
    visits = log.n_sa.sum(axis=1)
    used = int(visits.sum())
    alone = np.flatnonzero(visits == 1)
    if used < FEWEST or len(alone) <= MOST * used:
        return
    names = log.reading.store.columns.state if log.reading else log.labels.headers
    labels = [log.states[s] for s in alone]
    rows = [label if isinstance(label, tuple) else (label,) for label in labels]
    differing = [len(set(x)) for x in zip(*rows, strict=True)]
    odd = [f"{x!r}" for x, n in zip(names, differing, strict=False) if n > MOST * used]
    many = len(names) > 1
    what = f"{', '.join(odd)} looks like an identifier" if odd else f"{', '.join(names)} together"
    if not odd:
        what += " differ in nearly every row" if many else " differs in nearly every row"
    yield (
        f"{len(alone):,} of {used:,} rows are in a state that no other row is in, where nothing can"
        f" be learned: {what}. Leave out of the state what names a row or a person; make"
        " measurements coarser first, with surefoot discretize"
    )


def _left_out(log: Log) -> Iterator[str]:
    """Rows left out, and episodes cut."""
    left_out, cut = log.accounting.left_out_as(CUT), (log.n_episodes or 0) - log.n_ended
    yield from cut_notes(left_out, cut, log.n_episodes, ENDS_KEPT if log.n_unfollowed else "")
    at_limit = log.accounting.left_out_as(AT_LIMIT)
    if at_limit:
        yield (
            f"{at_limit} episodes ended with row {log.time_limit}, after which all others are cut:"
            " without next_state this row is left out of every episode, so that ends do not look"
            " more frequent than they are"
        )
    bad = [(r, n) for r, n in log.accounting.left_out if r not in (CUT, AT_LIMIT)]
    if bad:
        yield f"{sum(n for _, n in bad)} bad rows were left out: " + ", ".join(
            f"{n} {r}" for r, n in bad
        )
    if log.starts is None:
        yield "the order of the rows was not checked, and the first states are unknown"
    low, high = log.rewards
    if low == high != 0 and log.terminal.any():
        yield (
            f"all rewards of the rows used are {low:g}: policies differ only in how long their"
            " episodes last"
        )


def _taken(log: Log, missing_reward: float | None) -> Iterator[str]:
    """How rows were taken; labels that read like missing values are labels all the same."""
    account = log.accounting
    if log.has_propensities and log.reading is not None:
        yield (
            f"propensities are used: column {log.reading.store.columns.propensity[0]!r}, the"
            " probability with which each action was chosen; so the log may come from several"
            f" policies. {option('propensity', '-')} ignores it"
        )
    if account.filled and missing_reward is not None:
        yield (
            f"{account.filled:,} rows have no reward: it counts as {missing_reward:g}, as"
            " missing_reward says"
        )
    if account.unrewarded:
        said = "their outcome is not known" if account.filled else "they are left out"
        yield f"{no_reward_at_all(account.unrewarded, account.episodes)}: {said}"
    if account.put_right:
        yield (
            f"the rows were sorted by times without a UTC offset ({account.put_right:,} steps went"
            " back in time): if these are local times, rows of a night on which clocks were put"
            " back may now be in a wrong order. Times with an offset are safe"
        )
    if account.nameless:
        yield (
            f"{account.nameless:,} episodes have a name that reads like a missing value, such as"
            " NA: rows of different episodes may have become one. If the episode of these rows is"
            " not known, make the field empty: they are then bad rows"
        )
    for role, labels, axis in (("state", log.states, 1), ("action", log.actions, 0)):
        parts = [label if isinstance(label, tuple) else (label,) for label in labels]
        odd = [
            i for i, x in enumerate(parts) if any(isinstance(y, str) and y in MISSING for y in x)
        ]
        if odd:
            named = some([repr(as_text(labels[i])) for i in odd])
            columns = getattr(log.reading.store.columns, role) if log.reading else (role,)
            yield (
                f"the {role} {named} (column {', '.join(columns)}) reads like a missing value, but"
                f" is a label like others: {int(log.n_sa.sum(axis=axis)[odd].sum()):,} rows used"
                f" have it. If it means that the {role} is not known, make the field empty: the row"
                f" is then bad, and {option('drop_bad_rows', role)} leaves it out"
            )
