"""Pieces of a log: sums along its episodes, and random parts of them; units, the pieces that count
as independent, whole episodes or blocks of a single one, and what was counted in each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.checks.time_order import row_stamps, row_times
from surefoot.core import Batch, Counts, count_triples
from surefoot.core.batch import COLUMNS
from surefoot.core.errors import LogError, NotAvailableError, ParameterError
from surefoot.logs import Log, Tally, add_up, make_log
from surefoot.logs.log import joined
from surefoot.logs.read import options_of, tallies_on_dask
from surefoot.logs.tally import TO_END

TRAINING_SHARE = 0.2  # of the episodes that go into the training part (Thomas et al. 2015)
FEWEST_IN_PART = 2  # episodes a part needs: one has no scatter
ENOUGH_EPISODES = 8  # fewer say little about what differs from one to the next
BLOCKS = 100  # about so many blocks of a log that is one episode
MOST_UNITS = 1000  # more episodes than this are put together: a finer scatter gains nothing
SETS = "sets of episodes"  # what a unit is where several episodes make one
# of a log that is not held in memory, whose triples are kept for each unit: beyond so many entries
# it has fewer units, but as many as COARSE_UNITS
MOST_ENTRIES, COARSE_UNITS = 4_000_000, 64
SAMPLED_ROWS = 2_000_000  # rows of such a log that are held all the same, for `Units.sample`
PIECE = 1000  # rows in a row that stand for a log that is one episode
GOLDEN = (5**0.5 - 1) / 2  # its multiples, less whole numbers, are spread evenly over [0, 1]
DASK_PARTS = 16  # units that are counted on a cluster, at least
ENTRY_COLUMNS = ("unit", "state", "action", "next_state", "k", "r", "m2", "goes_on")
START_COLUMNS = ("start_unit", "start_state", "start_k")
Columns = tuple[np.ndarray, ...]


def running_sums(batch: Batch, x: np.ndarray) -> np.ndarray:
    """x_0 + ... + x_t within each episode, for all of them one step of time after the other.

    Not by differences of one long cumulative sum: -inf (the logarithm of a weight 0) would become
    NaN, and rounding would leak from one episode into the next.
    """
    first = np.flatnonzero(batch.first)
    length = np.diff(np.append(first, len(batch)))
    longest_first = np.argsort(-length, kind="stable")
    first, shorter = first[longest_first], -length[longest_first]
    total = np.array(x, dtype=float)
    for t in range(1, int(length.max())):
        at = first[: np.searchsorted(shorter, -t, side="left")] + t  # episodes of more than t steps
        total[at] += total[at - 1]
    return total


def take_rows(batch: Batch, keep: np.ndarray, piece: np.ndarray | None = None) -> Batch:
    """The rows marked in `keep` as a log of their own; states and actions keep their ids.

    An episode is cut where a row is missing, and where `piece` [rows] changes within it.
    """
    at = np.flatnonzero(keep)
    columns = {name: getattr(batch, name)[at] for name in COLUMNS}
    beside = {name: x[at] for name, x in batch.beside.items()}
    broken = (np.diff(at) != 1) | (np.diff(columns["episode"]) != 0)
    if piece is not None:
        broken |= np.diff(piece[at]) != 0
    columns["episode"] = np.append(0, np.cumsum(broken))
    return replace(batch, **columns, beside=beside, left_out=0)


def take_episodes(batch: Batch, which: np.ndarray) -> Batch:
    """The log of the episodes marked in `which` [n_episodes]."""
    which = np.asarray(which)
    if which.dtype != bool or which.shape != (batch.n_episodes,):
        raise LogError(
            f"expected one flag for each of {batch.n_episodes} episodes, got {which.dtype} of shape"
            f" {which.shape}"
        )
    if not which.any():
        raise LogError("no episode is taken: at least one is needed")
    return take_rows(batch, which[batch.episode])


def random_part(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """[n] flags of which `size` are set, chosen at random: every split of a log is drawn here."""
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.permutation(n)[:size]] = True
    return chosen


def split_episodes(
    batch: Batch, rng: np.random.Generator, share: float = TRAINING_SHARE
) -> tuple[Batch, Batch]:
    """(training part, held-out part): a random `share` of the episodes, and the others."""
    if not 0 < share < 1:
        raise ParameterError(f"share must lie in (0, 1), got {share!r}")
    n = batch.n_episodes
    if n < 2 * FEWEST_IN_PART:
        raise LogError(
            f"a log of {n} episodes cannot be split: each part needs {FEWEST_IN_PART} of them"
        )
    training = random_part(n, min(max(round(share * n), FEWEST_IN_PART), n - FEWEST_IN_PART), rng)
    return take_episodes(batch, training), take_episodes(batch, ~training)


@dataclass(frozen=True, repr=False, kw_only=True)
class Units:
    """Entries: in unit `unit`, (state, action) led to next_state k times with rewards that sum to r
    (m2: their scatter).

    A log in memory has one entry a row, with k = 1. `goes_on` is k, or less where steps take
    unequal time: then the rest of the k rows ends, see `Batch.survives`. Codes are those of the
    log. `kind` says what a unit is, in words. Units are numbered in the order of the log.
    `start_*`: so many episodes of a unit start in this state. `blocks`: units are pieces of the one
    episode. `turn`: the place of every episode in time, where the policy that made the log varies
    (units are then numbered by it, since what comes later may depend on what came before).
    `extremes` [2, entries]: the lowest and the highest reward of each entry, or beyond; None where
    an entry is one row. `sample`: rows that stand for those of a log that is not held in memory,
    and the same units of these rows; None where there are none. `stamps`: the time of every row in
    memory, where times say more than the order; `times` may say so within an episode alone.
    """

    unit: np.ndarray
    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    k: np.ndarray
    r: np.ndarray
    m2: np.ndarray
    goes_on: np.ndarray
    start_unit: np.ndarray
    start_state: np.ndarray
    start_k: np.ndarray
    number: int
    n_states: int
    n_actions: int
    kind: str
    blocks: bool
    turn: np.ndarray | None = None
    extremes: np.ndarray | None = None
    sample: tuple[Batch, Units] | None = None
    stamps: np.ndarray | None = None
    times: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"Units({self.number} {self.kind}, {len(self.unit):,} entries)"

    @cached_property
    def pair(self) -> np.ndarray:
        """s * A + a of every entry."""
        return np.asarray(self.state.astype(np.int64) * self.n_actions + self.action)

    @property
    def ends(self) -> np.ndarray:
        """The lowest and the highest reward of every entry [2, entries]."""
        return np.stack([self.r / self.k] * 2) if self.extremes is None else self.extremes

    def some(self, chosen: np.ndarray) -> Units:
        """The entries of the chosen units [number]; units keep their numbers."""
        keep, first = chosen[self.unit], chosen[self.start_unit]
        entries = {name: getattr(self, name)[keep] for name in ENTRY_COLUMNS}
        starts = {name: getattr(self, name)[first] for name in START_COLUMNS}
        extremes = None if self.extremes is None else self.extremes[:, keep]
        return replace(self, **entries, **starts, extremes=extremes)

    def episodes(self, chosen: np.ndarray) -> int | None:
        """How many episodes the chosen units [number] are; None: pieces of one, or not known."""
        known = not self.blocks and len(self.start_k)
        return round(float(self.start_k[chosen[self.start_unit]].sum())) if known else None

    def counts(self, *, as_sparse: bool) -> Counts:
        """What all of them count together."""
        size = self.n_states, self.n_actions
        columns = self.state, self.action, self.next_state, self.k, self.r, self.m2
        if (self.goes_on == self.k).all():
            return count_triples(*columns, *size, as_sparse=as_sparse)
        share = np.append(self.goes_on / self.k, 1 - self.goes_on / self.k)
        use = share > 0
        s, a, follow, k, r, m2 = (np.append(x, x) for x in columns)
        follow[len(self.state) :] = self.n_states - 1  # "(end)"
        parts = s[use], a[use], follow[use], (k * share)[use], (r * share)[use], (m2 * share)[use]
        return count_triples(*parts, *size, as_sparse=as_sparse)


def units_of(log: Log, batch: Batch | None, gamma: float) -> Units:
    """The units of a log: from its rows where they are in memory, else read once more."""
    if batch is None:
        return units_of_log(log, gamma)
    stamps = None if log.reading is None else row_stamps(log)[1]
    found = units_of_batch(batch, gamma, stamps if batch.policy_varies else None)
    if log.reading is None:
        return found
    times = row_times(log) if stamps is None else stamps
    at = [None if x is None else x[batch.row] for x in (stamps, times)]
    return replace(found, stamps=at[0], times=at[1])


def units_of_batch(batch: Batch, gamma: float, stamps: np.ndarray | None = None) -> Units:
    """The units of rows in memory: episodes, or contiguous blocks of a single one. `stamps` are the
    times of the rows of the log, where they say more than its order.
    """
    kind, length = _kind(batch.n_episodes, len(batch), gamma, MOST_UNITS)
    if length or not batch.policy_varies:
        unit = np.arange(len(batch)) // length if length else batch.episode % MOST_UNITS
        return _of_rows(batch, unit, kind, length)
    at = np.arange(batch.n_episodes) if stamps is None else stamps[batch.row[batch.first]]
    turn = np.argsort(np.argsort(at, kind="stable"))
    number = min(batch.n_episodes, MOST_UNITS)
    unit = (turn * number // batch.n_episodes)[batch.episode]
    return replace(_of_rows(batch, unit, kind, length), turn=turn)


def _of_rows(batch: Batch, unit: np.ndarray, kind: str, length: int) -> Units:
    """Units with one entry for each row."""
    one, zero = np.ones(len(batch)), np.zeros(len(batch))
    on = one if batch.survives is None else batch.survives
    entries = unit, batch.state, batch.action, batch.next_state, one, batch.reward, zero, on
    return _joined([entries], [_starts(unit, batch)], batch.n_states, batch.n_actions, kind, length)


def units_of_log(log: Log, gamma: float) -> Units:
    """The units of a log that need not fit in memory: its triples are counted in each unit, block
    by block. They are those of rows in memory, unless that takes too many entries.
    """
    if log.reading is None or log.n_episodes is None:
        raise NotAvailableError(
            "this log holds counts alone: its rows were counted elsewhere, or read with"
            " check_order=False"
        )
    n_rows, most = log.accounting.used, _most_units(log)
    kind, length = _kind(log.n_episodes, n_rows, gamma, most)
    entries, starts, ends, episodes, rows = [], [], [], 0, 0
    kept, kept_units = [], []
    for batch in log.blocks():
        step, episode = np.arange(rows, rows + len(batch)), batch.episode + episodes
        unit = step // length if length else episode % most
        entry, extremes = _grouped(unit, batch)
        entries.append(entry)
        ends.append(extremes)
        starts.append(_starts(unit, batch))
        piece = step // PIECE if length else episode
        keep = piece * GOLDEN % 1 < SAMPLED_ROWS / n_rows
        if keep.any():
            kept.append(take_rows(batch, keep, piece))
            kept_units.append(unit[keep])
        episodes, rows = episodes + batch.n_episodes, rows + len(batch)
    found = _joined(entries, starts, log.n_states, log.n_actions, kind, length)
    sample = joined(kept)
    part = _of_rows(sample, np.concatenate(kept_units), kind, length)
    sample_units = replace(part, number=found.number)
    extremes = np.concatenate(ends, axis=1)
    return replace(found, extremes=extremes, sample=(sample, sample_units))


def _most_units(log: Log) -> int:
    """As many as in memory, or fewer where all triples of all of them would be too many."""
    if log.accounting.used <= MOST_ENTRIES:
        return MOST_UNITS
    n_sas = log.counts.n_sas
    triples = n_sas.nnz if log.counts.is_sparse else np.count_nonzero(n_sas)
    return int(min(MOST_UNITS, max(COARSE_UNITS, MOST_ENTRIES // max(int(triples), 1))))


def units_of_tallies(tallies: Sequence[Tally], log: Log) -> Units:
    """One unit for each part of a log that was tallied by itself (parts hold whole episodes);
    `log` is that of all parts.
    """
    states, end = log.states[: log.n_states - log.has_end], log.n_states - 1
    entries: list[Columns] = []
    starts: list[Columns] = []
    for tally in tallies:
        t = tally.over(states, log.actions)
        if not len(t.s):
            continue
        i, n = len(entries), np.zeros(0) if t.starts is None else t.starts
        next_state = np.where(t.s2 == TO_END, end, t.s2)
        k = t.k.astype(float)
        entries.append((np.full(len(t.s), i), t.s, t.a, next_state, k, t.r, t.m2, k))
        at = np.flatnonzero(n)
        starts.append((np.full(len(at), i), at, n[at].astype(float)))
    found = _joined(entries, starts, log.n_states, log.n_actions, SETS, 0)
    # k values with the scatter m2 lie within sqrt( m2 (k - 1) / k ) of their mean (Samuelson 1968)
    mean, far = found.r / found.k, np.sqrt(found.m2 * (found.k - 1) / found.k)
    return replace(found, extremes=np.clip([mean - far, mean + far], *log.rewards))


def log_and_units_on_dask(
    address: Any,
    source: Any,
    *,
    parts: int | None = None,
    terminal_states: Any = (),
    sparse: bool | None = None,
    **options: Any,
) -> tuple[Log, Units]:
    """(the Log that the workers of a Dask cluster count, its parts as units): episodes whose hash
    is i modulo the number of parts. The Log holds counts alone: no rows, so no Monte-Carlo returns.

    One long episode is a single part: there is nothing to check its improvement on.
    """
    made, ends = options_of(terminal_states=terminal_states, **options)
    tallies = tallies_on_dask(address, source, made, parts=parts, fewest=DASK_PARTS)
    log = make_log(add_up(tallies), made, terminal_states=ends, sparse=sparse)
    return log, units_of_tallies(tallies, log)


def horizon(gamma: float) -> int:
    """1 / (1 - gamma) steps, the effective length of a return; at most 1,000."""
    return min(1000, math.ceil(1 / (1 - gamma) - 1e-9)) if gamma < 1 else 1000


def _kind(n_episodes: int, n_rows: int, gamma: float, most: int) -> tuple[str, int]:
    """(what a unit is, in words; the steps of a block of a log that is one episode, else 0)."""
    if n_episodes > 1:
        return "episodes" if n_episodes <= most else SETS, 0
    length = max(math.ceil(n_rows / min(BLOCKS, most)), horizon(gamma))
    return f"blocks of {length} steps", length


def _starts(unit: np.ndarray, batch: Batch) -> Columns:
    """(unit, state, 1) of the first row of every episode of a batch."""
    return unit[batch.first], batch.state[batch.first], np.ones(batch.n_episodes)


def _grouped(unit: np.ndarray, batch: Batch) -> tuple[Columns, np.ndarray]:
    """The rows of a batch as one entry for each (unit, s, a, s'), and their `Units.extremes`."""
    key = (unit.astype(np.int64) * batch.n_states + batch.state) * batch.n_actions + batch.action
    order = np.lexsort((batch.next_state, key))
    key, to, r = key[order], batch.next_state[order], batch.reward[order]
    new = np.append(True, (np.diff(key) != 0) | (np.diff(to) != 0))
    first, entry = np.flatnonzero(new), np.cumsum(new) - 1
    k = np.diff(np.append(first, len(key))).astype(float)
    total = np.add.reduceat(r, first)
    m2 = np.add.reduceat((r - (total / k)[entry]) ** 2, first)
    at = order[first]
    extremes = np.stack([np.minimum.reduceat(r, first), np.maximum.reduceat(r, first)])
    pair = unit[at], batch.state[at], batch.action[at]
    return (*pair, batch.next_state[at], k, total, m2, k), extremes


def _joined(
    entries: Sequence[Columns],
    starts: Sequence[Columns],
    n_states: int,
    n_actions: int,
    kind: str,
    length: int,
) -> Units:
    if not entries:
        raise LogError("no row of the log has a successor")
    columns: dict[str, Any] = {
        name: column[0] if len(column) == 1 else np.concatenate(column)
        for names, parts in ((ENTRY_COLUMNS, entries), (START_COLUMNS, starts))
        for name, column in zip(names, zip(*parts, strict=True), strict=True)
    }
    number = int(columns["unit"].max()) + 1
    return Units(
        **columns, number=number, n_states=n_states, n_actions=n_actions, kind=kind,
        blocks=length > 0,
    )  # fmt: skip
