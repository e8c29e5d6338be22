"""Histories: a log whose states remember the last K steps, so that a policy may use them.

The state becomes (o, a1, o1, ..., aK, oK): the observation o of the log, then action and
observation one step back, up to K steps back. Where an episode is younger, NO_STEP stands in their
place, so the first steps stay apart. A terminal state has no history: nobody acts there.

With h_k the history of k steps, h_k(t) = (o(t), a(t - 1), h_{k-1}(t - 1)): every step back is one
look into a table, block by block of the log, and no row is written anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.core import END, Batch, Labels, count_triples
from surefoot.core.errors import LogError, NotAvailableError, option
from surefoot.core.labels import as_text
from surefoot.core.text import plural
from surefoot.logs.accounting import AT_LIMIT, CUT
from surefoot.logs.log import Log
from surefoot.problems.given import held_sparse

NO_STEP = "(none)"  # in place of a step before the first one
TABLE = 2**26  # keys below this are looked up in a table, others by bisection
BLOCK = 500_000
MOST_HISTORIES = 2_000_000  # more than this: nearly every one is new


class Codebook:
    """Whole numbers >= 0 as codes 0, 1, ..., in the order in which they first come."""

    def __init__(self) -> None:
        self.keys = np.zeros(0, dtype=np.int64)  # by code
        self._table = np.zeros(0, dtype=np.int32)  # codes by key, where keys are small; or -1
        self._sorted = (self.keys, self.keys)  # keys and their codes, where they are not

    def __len__(self) -> int:
        return len(self.keys)

    def codes(self, keys: np.ndarray) -> np.ndarray:
        """The code of every key; new keys get one."""
        found = self._find(keys)
        unknown = np.flatnonzero(found < 0)
        if not len(unknown):
            return found
        new = _distinct(keys[unknown])
        codes = len(self.keys) + np.arange(len(new))
        self.keys = np.append(self.keys, new)
        if self.keys.max() < TABLE:
            larger = np.full(max(len(self._table), int(new[-1]) + 1), -1, dtype=np.int32)
            larger[: len(self._table)] = self._table
            larger[new] = codes
            self._table = larger
        else:
            order = np.argsort(self.keys)
            self._table, self._sorted = self._table[:0], (self.keys[order], order)
        found[unknown] = self._find(keys[unknown])
        return found

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """The codes of known keys, -1 of others."""
        if len(self._table):
            if int(keys.max()) < len(self._table):
                return np.asarray(self._table[keys].astype(np.int64))
            inside = keys < len(self._table)
            return np.where(inside, self._table[np.where(inside, keys, 0)], -1).astype(np.int64)
        known, codes = self._sorted
        if not len(known):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[at] == keys, codes[at], -1)


def _distinct(keys: np.ndarray) -> np.ndarray:
    """The different keys in order; marked where that is faster than sorting."""
    top = int(keys.max()) + 1
    if top >= min(TABLE, 32 * len(keys)):
        return np.unique(keys)
    there = np.zeros(top, dtype=bool)
    there[keys] = True
    return np.flatnonzero(there)


@dataclass(frozen=True, repr=False)
class History:
    """How the steps of `base`, a log without memory, become those of a log that remembers K of
    them.

    books       one for each k = 1, ..., K: h_k as ((h_{k-1} before) + 1, (action before) + 1, o)
    place       the code of each entry of the last book among the labels, which are in order
    ended       the code of the history of every terminal observation; -1 for others
    """

    base: Log
    steps: int
    books: tuple[Codebook, ...]
    place: np.ndarray
    ended: np.ndarray
    n_states: int
    terminal_states: tuple[int, ...]
    labels: Labels

    def batch(self, block: Batch) -> Batch:
        """The rows of some whole episodes with histories in place of observations."""
        raw, follow = raw_histories(self.books, block, self.base.n_actions)
        return replace(
            block,
            state=self.place[raw],
            next_state=self.next_state(block.next_state, follow),
            n_states=self.n_states,
            terminal_states=self.terminal_states,
            labels=self.labels,
        )

    def next_state(self, observation: np.ndarray, raw: np.ndarray) -> np.ndarray:
        """The code of the history to which a row leads, of this observation and raw code."""
        ends = self.ended[observation]
        return np.asarray(np.where(ends >= 0, ends, self.place[raw]))


def raw_histories(
    books: tuple[Codebook, ...], block: Batch, n_actions: int
) -> tuple[np.ndarray, np.ndarray]:
    """(h_K of every row, h_K of where it leads) as codes of the last book.

    A row that follows another of its episode has the history to which that one leads.
    """
    first, n = np.flatnonzero(block.first), block.n_states
    now = block.state
    follow = block.next_state
    for book in books:
        keys = ((now + 1) * (n_actions + 1) + block.action + 1) * n + block.next_state
        follow = book.codes(keys)
        start = book.codes(block.state[first])  # nothing before: 0 for both
        now = np.append(0, follow[:-1])
        now[first] = start
    return now, follow


def remember(log: Log, steps: int) -> Log:
    """The log with states that remember so many steps; 0: the log as it is."""
    steps = checked_steps(steps)
    if steps == 0:
        return log
    _check(log, steps)
    books = tuple(Codebook() for _ in range(steps))
    (s, a, follow, o, k, r, m2), starts, longest = _counted(log, books)
    if longest <= steps:
        raise LogError(
            f"no episode has more than {longest} steps that lead on: a history of {steps}"
            f" steps is never full; {option('history', max(longest - 1, 0))} is the most that"
            " can matter"
        )
    if len(books[-1]) > MOST_HISTORIES:
        raise LogError(
            f"{len(books[-1]):,} different histories of {plural(steps, 'step')} in"
            f" {log.accounting.used:,} rows are too many to learn anything from: remember fewer"
            f" steps ({option('history')}), or make fewer states (surefoot discretize)"
        )
    history = _numbered(log, steps, books)
    size = history.n_states, log.n_actions
    terminal = np.zeros(size[0], dtype=bool)
    terminal[list(history.terminal_states)] = True
    as_sparse = held_sparse(log.counts.is_sparse or None, *size)
    s, s2 = history.place[s], history.next_state(o, follow)
    return replace(
        log,
        counts=count_triples(s, a, s2, k, r, m2, *size, as_sparse=as_sparse),
        labels=history.labels,
        starts=np.bincount(history.place, starts, size[0]),
        terminal=terminal,
        notes=(*log.notes, _note(log, history)),
        view=history,
    )


def _note(log: Log, history: History) -> str:
    return (
        f"states are histories of {plural(history.steps, 'step')}:"
        f" {history.n_states - log.has_end:,} of them from {log.n_states - log.has_end:,}"
        " observations. What is said holds for policies of this memory, if what happens next"
        " depends on nothing older"
    )


def remembered(log: Log) -> tuple[Log, int]:
    """(the log without memory or lengths of steps, how many steps this one remembers)."""
    steps = 0
    while log.view is not None:
        steps = log.view.steps if isinstance(log.view, History) else steps
        log = log.view.base
    return log, steps


def checked_steps(steps: Any) -> int:
    """The number of steps to remember; an error where it is none."""
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 0:
        raise LogError(f"history must be a whole number of steps >= 0, got {steps!r}")
    return int(steps)


def _check(log: Log, steps: int) -> None:
    """Raise where histories cannot be told from the rows."""
    if log.view is not None:
        raise LogError("this log has a view of its own already: read it again")
    if log.reading is None or log.starts is None:
        raise NotAvailableError(
            "histories need the rows in order: this log was counted elsewhere, or read with"
            " check_order=False"
        )
    lost = {x: n for x, n in log.accounting.left_out if n and x not in (CUT, AT_LIMIT)}
    if lost:
        words = ", ".join(f"{n:,} {x}" for x, n in lost.items())
        raise LogError(
            f"rows were left out inside episodes ({words}), so that the step before a row may be"
            " missing: mend them, or leave out their episodes, before you ask for a history"
        )
    for what, labels in (("state", log.states), ("action", log.actions)):
        for label in labels:
            if NO_STEP in (label if isinstance(label, tuple) else (label,)):
                raise LogError(
                    f"the log has a {what} {as_text(label)!r}, and {NO_STEP!r} stands for a step"
                    " before the first one: rename it"
                )
    if (log.accounting.used + 2) * (log.n_actions + 1) * log.n_states >= 2**62:
        raise LogError(
            f"{log.n_states:,} states and {log.n_actions:,} actions are too many for histories of"
            f" {steps} steps"
        )


def _numbered(log: Log, steps: int, books: tuple[Codebook, ...]) -> History:
    """The histories in the order of their labels: by observation, then by what came before."""
    parts = _parts(books, np.arange(len(books[-1])), log.n_states, log.n_actions)
    # A terminal observation is one state, whatever led there; "(end)" is always the last.
    over = log.terminal[parts[:, 0]]
    parts[over, 1:] = -1
    kept, place = np.unique(parts, axis=0, return_inverse=True)
    place = place.reshape(-1)
    ended = np.full(log.n_states, -1)
    ended[parts[over, 0]] = place[over]
    ended_codes = np.unique(ended[ended >= 0])
    labels = Labels(
        tuple(_labels(kept, log)),
        log.actions,
        _columns(log.labels, steps),
        log.labels.action_columns,
        now=len(log.labels.state_columns),
    )
    return History(
        base=log,
        steps=steps,
        books=books,
        place=place,
        ended=ended,
        n_states=len(kept),
        terminal_states=tuple(int(s) for s in ended_codes),
        labels=labels,
    )


def _parts(
    books: tuple[Codebook, ...], codes: np.ndarray, n_states: int, n_actions: int
) -> np.ndarray:
    """(o, a1, o1, ..., aK, oK) of some histories [n, 2 K + 1]; -1 before the first step."""
    if not books:
        return codes[:, None]
    key = books[-1].keys[codes]
    before, action = key // n_states // (n_actions + 1) - 1, key // n_states % (n_actions + 1) - 1
    none = before < 0
    rest = _parts(books[:-1], np.where(none, 0, before), n_states, n_actions)
    rest = np.where(none[:, None], -1, rest)
    return np.column_stack([key % n_states, np.where(none, -1, action), rest])


def _labels(parts: np.ndarray, log: Log) -> list[Any]:
    """The labels of histories, one field a column; -1 is the last entry of a list, NO_STEP."""

    def fields(labels: tuple[Any, ...], columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
        found = [x if isinstance(x, tuple) else (x,) for x in labels]
        return [*found, (NO_STEP,) * len(columns)]

    states = fields(log.states, log.labels.state_columns)
    actions = fields(log.actions, log.labels.action_columns)
    found: list[Any] = [states[o] for o in parts[:, 0].tolist()]
    for k in range(1, parts.shape[1], 2):
        a, o = parts[:, k].tolist(), parts[:, k + 1].tolist()
        found = [x + actions[i] + states[j] for x, i, j in zip(found, a, o, strict=True)]
    if log.has_end and len(parts) and parts[-1, 0] == log.n_states - 1:
        found[-1] = END
    return found


def _columns(labels: Labels, steps: int) -> tuple[str, ...]:
    """The names of the columns of a history: those of the log, "action before", "state before",
    "action 2 before", ...
    """
    found = labels.state_columns
    for k in range(1, steps + 1):
        ago = "before" if k == 1 else f"{k} before"
        found += tuple(f"{x} {ago}" for x in (*labels.action_columns, *labels.state_columns))
    if len(set(found)) < len(found):
        twice = next(x for x in found if found.count(x) > 1)
        raise LogError(f"a history has two columns {twice!r}: rename that of the log")
    return found


def _counted(
    log: Log, books: tuple[Codebook, ...]
) -> tuple[tuple[np.ndarray, ...], np.ndarray, int]:
    """What one walk over a log counted, in raw codes: entries (h, a, h', o', k, r, m2) with k rows
    whose rewards sum to r and scatter by m2; how many episodes start in each h; the most steps of
    one.
    """
    n, n_actions, triples = log.n_states, log.n_actions, Codebook()
    k = r = m2 = starts = np.zeros(0)
    leads, longest = np.zeros(0, dtype=np.int64), 0
    for block in log.blocks(BLOCK):
        now, follow = raw_histories(books, block, n_actions)
        code = triples.codes((now * n_actions + block.action) * n + block.next_state)
        size = len(triples)
        k, r, m2, leads = (_longer(x, size) for x in (k, r, m2, leads))
        leads[code] = follow
        more = np.bincount(code, minlength=size).astype(float)
        total = np.bincount(code, block.reward, size)
        mean = total / np.maximum(more, 1.0)
        m2 = m2 + np.bincount(code, (block.reward - mean[code]) ** 2, size)
        both = (k > 0) & (more > 0)  # two parts of a triple: their means are apart
        apart = np.where(both, r / np.maximum(k, 1.0) - mean, 0.0)
        m2 = m2 + k * more / np.maximum(k + more, 1.0) * apart**2
        k, r = k + more, r + total
        starts = _longer(starts, len(books[-1]))
        starts += np.bincount(now[block.first], minlength=len(starts))
        longest = max(longest, int(block.time.max()) + 1)
    pair = triples.keys // n
    entries = pair // n_actions, pair % n_actions, leads, triples.keys % n, k, r, m2
    return entries, _longer(starts, len(books[-1])), longest


def _longer(x: np.ndarray, size: int) -> np.ndarray:
    """x with zeros up to this size."""
    return np.append(x, np.zeros(size - len(x), dtype=x.dtype))
