"""What a user should know about a log that was read, and what may make its lesson wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from surefoot.core.labels import as_text
from surefoot.errors import option
from surefoot.logs.accounting import CUT, Accounting, in_words
from surefoot.logs.query import MISSING
from surefoot.text import some

if TYPE_CHECKING:
    from surefoot.logs.log import Log

WORDS = frozenset(MISSING)
MOST = 0.5  # the share from which on it is most


def notes_on(log: Log, missing_reward: float | None) -> list[str]:
    """What else a user should know."""
    return [
        *_left_out(log),
        *_taken(log.accounting, missing_reward),
        *_odd_labels(log),
    ]


def warnings_on(log: Log) -> Iterator[str]:
    """Signs that the rows used do not hold what the log is about."""
    account = log.accounting
    low, high = log.rewards
    if low == high and (low == 0 or not log.terminal.any()):
        yield (
            f"all rewards of the rows used are {low:g}: by them every policy is as good as every"
            " other. Is the reward column right?"
        )
    total = account.size_used + account.size_left_out
    if account.n_left_out and account.size_left_out > MOST * total:
        yield (
            f"{account.size_left_out / total:.0%} of the reward (in size) lies in rows that are"
            f" left out, and is lost: {in_words(dict(account.left_out))}.{_remedy(account)}"
        )
    if account.n_left_out > MOST * account.rows:
        yield (
            f"most rows are left out, {account.n_left_out:,} of {account.rows:,}:"
            f" {in_words(dict(account.left_out))}.{_remedy(account)}"
        )


def _remedy(account: Accounting) -> str:
    """What to do about the rows left out for the most common reason."""
    reason = max(account.left_out, key=lambda pair: pair[1])[0]
    return f" {REMEDIES[reason]}" if reason in REMEDIES else ""


REMEDIES = {
    CUT: (
        f"If every episode ends with its last row, say {option('episode_end', 'terminal')}; else"
        " give next_state, or flag rows that end an episode"
    ),
    "reward": f"If an empty reward means 0, say {option('missing_reward', 0)}",
}


def nothing_left(left_out: dict[str, int]) -> str:
    """That every row was left out, and what to do."""
    remedies = ". ".join(words for reason, words in REMEDIES.items() if left_out.get(reason))
    return (
        f"no row of the log is left to learn from: {in_words(left_out)}."
        f" {remedies or 'Mend the rows'}"
    )


def _left_out(log: Log) -> Iterator[str]:
    """Rows left out, and episodes cut."""
    left_out = log.accounting.left_out_as(CUT)
    if left_out:
        yield (
            f"the last rows of {left_out} cut episodes are left out: without next_state they lead"
            " nowhere"
        )
    cut = (log.n_episodes or 0) - log.n_ended
    if cut > 0:
        yield (
            f"{cut} of {log.n_episodes} episodes are cut, not ended: Monte-Carlo returns that run"
            " into a cut are short"
        )
    dropped = log.accounting.n_left_out - left_out
    if dropped:
        yield f"{dropped} bad rows were left out: " + ", ".join(
            f"{n} {r}" for r, n in log.accounting.left_out if r != CUT
        )
    if log.starts is None:
        yield "the order of the rows was not checked, and the first states are unknown"
    low, high = log.rewards
    if low == high != 0 and log.terminal.any():
        yield (
            f"all rewards of the rows used are {low:g}: policies differ only in how long their"
            " episodes last"
        )


def _taken(account: Accounting, missing_reward: float | None) -> Iterator[str]:
    """How rows were taken."""
    if account.filled and missing_reward is not None:
        yield (
            f"{account.filled:,} rows have no reward: it counts as {missing_reward:g}, as"
            " missing_reward says"
        )
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


def _odd_labels(log: Log) -> Iterator[str]:
    """Labels of states and actions that read like missing values; they are labels all the same."""
    columns = log.reading.store.columns if log.reading is not None else None
    for role, labels, axis in (("state", log.states, 1), ("action", log.actions, 0)):
        odd = [i for i, label in enumerate(labels) if _reads_missing(label)]
        if odd:
            named = some([repr(as_text(labels[i])) for i in odd])
            column = ", ".join(getattr(columns, role)) if columns else role
            yield (
                f"the {role} {named} (column {column}) reads like a missing value, but is a label"
                f" like others: {int(log.n_sa.sum(axis=axis)[odd].sum()):,} rows used have it. If"
                f" it means that the {role} is not known, make the field empty: the row is then"
                f" bad, and {option('drop_bad_rows', role)} leaves it out"
            )


def _reads_missing(label: Any) -> bool:
    if isinstance(label, str):
        return label in WORDS
    return isinstance(label, tuple) and any(isinstance(x, str) and x in WORDS for x in label)
