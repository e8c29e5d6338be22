"""Units: the pieces of a log that count as independent, whole episodes or blocks of a single
one, and what was counted in each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefoot.core import Batch, Counts
from surefoot.errors import LogError, NotAvailableError
from surefoot.logs import Accounting, Log, Tally
from surefoot.logs.tally import TO_END

ENOUGH_EPISODES = 8  # fewer say little about what differs from one to the next
BLOCKS = 100  # about so many blocks of a log that is one episode
MOST_UNITS = 1000  # more episodes than this are put together: the bootstrap gains nothing from them
COARSE_UNITS = 64  # units of a log too large for memory, whose triples are kept for each of them


@dataclass(frozen=True, repr=False)
class Units:
    """Entries: in unit `unit`, (state, action) led to next_state k times with rewards that sum to r
    (m2: their scatter).

    A log in memory has one entry a row, with k = 1. Codes are those of the log. `kind` says what a
    unit is, in words. Units are numbered in the order of the log. `start_*`: so many episodes of a
    unit start in this state. `blocks`: units are pieces of the one episode.
    """

    unit: np.ndarray
    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    k: np.ndarray
    r: np.ndarray
    m2: np.ndarray
    number: int
    n_states: int
    n_actions: int
    kind: str
    start_unit: np.ndarray
    start_state: np.ndarray
    start_k: np.ndarray
    blocks: bool = False

    def __repr__(self) -> str:
        return f"Units({self.number} {self.kind}, {len(self.unit):,} entries)"

    @cached_property
    def pair(self) -> np.ndarray:
        """s * A + a of every entry."""
        return np.asarray(self.state.astype(np.int64) * self.n_actions + self.action)

    def some(self, chosen: np.ndarray) -> Units:
        """The entries of the chosen units [number]; units keep their numbers."""
        keep, first = chosen[self.unit], chosen[self.start_unit]
        entries = {
            name: getattr(self, name)[keep]
            for name in ("unit", "state", "action", "next_state", "k", "r", "m2")
        }
        return replace(
            self,
            **entries,
            **{
                name: getattr(self, name)[first]
                for name in ("start_unit", "start_state", "start_k")
            },
        )

    def counts(self, *, as_sparse: bool) -> Counts:
        """What all of them count together."""
        tally = Tally(
            tuple(range(self.n_states)),
            tuple(range(self.n_actions)),
            self.state,
            self.action,
            self.next_state,
            self.k,
            self.r,
            self.m2,
            ended=(),
            starts=None,
            lowest=0.0,
            highest=0.0,
            accounting=Accounting(0, 0),
        )
        return tally.counts(as_sparse=as_sparse)


def units_of_batch(batch: Batch, gamma: float) -> Units:
    """The units of rows in memory: episodes, or contiguous blocks of a single one."""
    unit, kind = _numbered(batch, gamma, batch.n_episodes, len(batch), 0, 0)
    first = np.append(True, batch.last[:-1])
    number = int(unit.max()) + 1
    return Units(
        unit,
        batch.state,
        batch.action,
        batch.next_state,
        np.ones(len(batch)),
        batch.reward,
        np.zeros(len(batch)),
        number,
        batch.n_states,
        batch.n_actions,
        kind,
        unit[first],
        batch.state[first],
        np.ones(int(first.sum())),
        kind.startswith("blocks"),
    )


def units_of_log(log: Log, gamma: float) -> Units:
    """The units of a log that need not fit in memory: its triples are counted in some 64 units,
    block by block.
    """
    if log.reading is None or log.n_episodes is None:
        raise NotAvailableError(
            "this log holds counts alone: its rows were counted elsewhere, or read with"
            " check_order=False"
        )
    parts, starts, episodes, rows, kind = [], [], 0, 0, ""
    for batch in log.blocks():
        unit, kind = _numbered(
            batch, gamma, log.n_episodes, log.accounting.used, episodes, rows, coarse=True
        )
        parts.append(_grouped(unit, batch))
        first = np.append(True, batch.last[:-1])
        starts.append((unit[first], batch.state[first], np.ones(int(first.sum()))))
        episodes, rows = episodes + batch.n_episodes, rows + len(batch)
    return _joined(parts, starts, log.n_states, log.n_actions, kind)


def units_of_tallies(tallies: Sequence[Tally], log: Log) -> Units:
    """One unit for each part of a log that was tallied by itself (parts hold whole episodes);
    `log` is that of all parts.
    """
    end = log.n_states - 1
    states, actions = log.states[: log.n_states - log.has_end], log.actions
    parts, starts = [], []
    for i, tally in enumerate(tallies):
        t = tally.over(states, actions)
        if len(t.s):
            parts.append(
                (
                    np.full(len(t.s), i),
                    t.s,
                    t.a,
                    np.where(t.t == TO_END, end, t.t),
                    t.k.astype(float),
                    t.r,
                    t.m2,
                )
            )
            at = np.flatnonzero(t.starts) if t.starts is not None else np.zeros(0, dtype=np.int64)
            starts.append(
                (
                    np.full(len(at), i),
                    at,
                    np.zeros(0) if t.starts is None else t.starts[at].astype(float),
                )
            )
    return _joined(parts, starts, log.n_states, log.n_actions, "groups of episodes")


def units(log: Log, batch: Batch | None, gamma: float) -> Units:
    """The units of a log: from its rows where they are in memory, else read once more."""
    return units_of_log(log, gamma) if batch is None else units_of_batch(batch, gamma)


def horizon(gamma: float) -> int:
    """1 / (1 - gamma) steps, the effective length of a return; at most 1,000."""
    return min(1000, math.ceil(1 / (1 - gamma) - 1e-9)) if gamma < 1 else 1000


def _numbered(
    batch: Batch,
    gamma: float,
    n_episodes: int,
    n_rows: int,
    episodes_before: int,
    rows_before: int,
    coarse: bool = False,
) -> tuple[np.ndarray, str]:
    """(the unit of every row, what a unit is): of a batch that starts after so many episodes and
    rows of its log.
    """
    most = COARSE_UNITS if coarse else MOST_UNITS
    if n_episodes > 1:
        episode = batch.episode + episodes_before
        return (
            (episode, "episodes") if n_episodes <= most else (episode % most, "groups of episodes")
        )
    length = max(math.ceil(n_rows / (COARSE_UNITS if coarse else BLOCKS)), horizon(gamma))
    return (np.arange(len(batch)) + rows_before) // length, f"blocks of {length} steps"


Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _grouped(unit: np.ndarray, batch: Batch) -> Part:
    """The rows of a batch as one entry for each (unit, s, a, s')."""
    key = (unit.astype(np.int64) * batch.n_states + batch.state) * batch.n_actions + batch.action
    order = np.lexsort((batch.next_state, key))
    key, to, r = key[order], batch.next_state[order], batch.reward[order]
    new = np.append(True, (np.diff(key) != 0) | (np.diff(to) != 0))
    first, entry = np.flatnonzero(new), np.cumsum(new) - 1
    k = np.diff(np.append(first, len(key))).astype(float)
    total = np.add.reduceat(r, first)
    m2 = np.add.reduceat((r - (total / k)[entry]) ** 2, first)
    at = order[first]
    return unit[at], batch.state[at], batch.action[at], batch.next_state[at], k, total, m2


def _joined(
    parts: Iterable[Part],
    starts: Iterable[tuple[np.ndarray, ...]],
    n_states: int,
    n_actions: int,
    kind: str,
) -> Units:
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    if not columns:
        raise LogError("no row of the log has a successor")
    unit, s, a, t, k, r, m2 = columns
    known, number = np.unique(unit, return_inverse=True)  # parts without rows leave no gaps
    number = number.reshape(-1)
    first, at, many = (np.concatenate(column) for column in zip(*starts, strict=True))
    return Units(
        number,
        s,
        a,
        t,
        k,
        r,
        m2,
        len(known),
        n_states,
        n_actions,
        kind,
        np.searchsorted(known, first),
        at,
        many,
        kind.startswith("blocks"),
    )
