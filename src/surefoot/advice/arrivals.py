"""Arrivals: in which order the episodes of a growing log came, and which of them are finished."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surefoot.checks.time_order import BY_TIME, row_stamps
from surefoot.core import Batch
from surefoot.logs import Log

FILE = 1 << 40  # rows of a file that a place leaves room for


@dataclass(frozen=True, repr=False)
class Arrivals:
    """The episodes of a log in the order in which they began (`order`); whether each, by its number
    in the log, is over: finished, with none before it of which no step is known yet.

    timed         whether that is the order of their times; else it is that of their first rows in
                  the files, which may be sorted by what happened
    began         when each of them began: equal where neither came first
    interleaved   whether rows of different episodes are mixed in the files
    stepless      how many unfinished episodes have no step yet: one row, which leads nowhere
    """

    order: np.ndarray
    over: np.ndarray
    timed: bool
    began: np.ndarray
    interleaved: bool
    stepless: int


@dataclass(frozen=True, repr=False)
class _Rows:
    """Of every row of the log, in the order of its row numbers: where it lies in the files it came
    from, its episode (episodes are numbered as they lie), and whether it is flagged truncated, or
    terminal.
    """

    place: np.ndarray
    episode: np.ndarray
    over: np.ndarray


def arrivals(log: Log, batch: Batch, horizon: int | None = None) -> Arrivals:
    """The order in which episodes began: by their times, where these tell which of two came first
    (`row_stamps`), else in the files, whatever their rows were sorted by.

    An episode is finished if its last row is flagged terminal or truncated, leads into a terminal
    state, or is the last possible one (`horizon`). If the files have one episode after the other,
    so is every episode after which another one began. With episode_end="terminal" the end is what
    a file happens to end with: it finishes nothing, but for flags.
    """
    rows = _rows(log)
    first = np.flatnonzero(np.diff(rows.episode, prepend=-1))
    began = np.minimum.reduceat(rows.place, first)
    walk = rows.episode[np.argsort(rows.place, kind="stable")]
    interleaved = int((np.diff(walk) != 0).sum()) + 1 > len(first)
    mine = rows.episode[batch.row[batch.first]]
    finished = np.logical_or.reduceat(rows.over, first)
    if log.stored.options.episode_end == "cut":
        finished[mine] |= batch.ends[batch.last]
    if horizon is not None:
        finished[mine] |= batch.time[batch.last] + 1 >= horizon
    if not interleaved:
        finished[np.arange(len(first)) != began.argmax()] = True
    stepless = ~finished
    stepless[mine] = False
    words, stamps, _ = row_stamps(log)
    timed = words == BY_TIME and stamps is not None
    if timed:
        assert stamps is not None
        began = np.minimum.reduceat(stamps, first)
    until = began[stepless].min() if stepless.any() else np.inf
    return Arrivals(
        order=np.argsort(began[mine], kind="stable"),
        over=finished[mine] & (began[mine] < until),
        timed=timed,
        began=began[mine],
        interleaved=interleaved,
        stepless=int(stepless.sum()),
    )


def _rows(log: Log) -> _Rows:
    reading, parts = log.stored, []
    number = {file: i for i, file in enumerate(reading.store.names)}
    with log.database() as database:
        for file in reading.store.files:
            part = replace(reading, store=replace(reading.store, files=(file,)))
            flags = f"{part.flagged('terminal')} or {part.flagged('truncated')}"
            sql = f"""select x.at, x.file, x.row, hash(x.episode) as h, {flags} as over
                      from {part.steps(all_columns=True)} x"""
            rows = database.arrays("reading the order of rows", sql)
            order = np.argsort(rows["at"], kind="stable")
            files, which = np.unique(rows["file"].astype(str), return_inverse=True)
            base = np.array([number[x] * FILE for x in files], dtype=np.int64)
            place = base[which] + np.asarray(rows["row"], dtype=np.int64)
            parts.append([x[order] for x in (place, rows["h"], np.ma.filled(rows["over"], False))])
    place, h, over = (np.concatenate(x) for x in zip(*parts, strict=True))
    episode = np.cumsum(np.append(True, h[1:] != h[:-1])) - 1
    return _Rows(place, episode, np.asarray(over, dtype=bool))
