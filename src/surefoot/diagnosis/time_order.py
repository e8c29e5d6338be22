"""Clock: which rows of a log are early and which late, and on which day of the week, in what
month, at what hour they were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from surefoot.diagnosis.times import time_sql
from surefoot.logs import Log
from surefoot.logs.database import Database
from surefoot.logs.query import Reading

SEGMENTS = 96  # the rows in order of time, cut into so many parts of equal size
MOST_STAMPS = 20_000_000  # rows up to which their times are held in memory
DAY = 86_400.0
BY_TIME, BY_FILE = "in order of their times", "in the order of the file"


@dataclass(frozen=True, repr=False)
class Clock:
    """The time of every row, as one of 96 segments of the log; rows are numbered as `Log.blocks`
    numbers them.

    words      the order that was used
    segment    of every row; None: the rows lie in order
    calendar   the day of the week, ... of every row, by name, where times are dates
    """

    words: str
    rows: int
    segment: np.ndarray | None = None
    calendar: Mapping[str, np.ndarray] = field(default_factory=dict)

    def segments(self, row: np.ndarray) -> np.ndarray:
        """The segment of some rows."""
        if self.segment is None:
            return np.asarray(np.minimum(row * SEGMENTS // max(self.rows, 1), SEGMENTS - 1))
        return np.asarray(self.segment[row], dtype=np.int64)


def clock(log: Log) -> Clock:
    """The clock of a log.

    `Log.blocks` hands out whole episodes: as they lie in the file, or, where the file does not hold
    each in one piece, in the order of their labels, which need not be one of time. So the order is
    that of the time column, where its stamps can be compared between episodes (dates, or numbers
    that do not start or end alike in most episodes, as a count of steps does); else that of the
    file as it came.
    """
    reading, workspace = log.stored, log.workspace
    assert workspace is not None  # what is stored lies there
    lying = Clock(BY_FILE, log.accounting.rows)
    with Database(workspace, 1, log.memory_limit) as database:
        if (
            reading.has_time
            and log.accounting.rows <= MOST_STAMPS
            and (log.n_episodes == 1 or _comparable(database, reading))
        ):
            stamps = _column(database, reading, time_sql(reading))
            calendar = _calendar(stamps) if reading.dated else {}
            return Clock(BY_TIME, len(stamps), _segments(stamps), calendar)
        if (
            "source_row" in reading.store.types and log.accounting.rows <= MOST_STAMPS
        ):  # they were sorted
            places = _column(database, reading, "row_number() over (order by file, row)")
            return replace(lying, segment=_segments(places))
    return lying


def _comparable(database: Database, reading: Reading) -> bool:
    """Whether times tell which of two episodes came first."""
    episodes = f"(select min(t) as low, max(t) as high from {reading.steps()} group by e)"
    most = [
        f"(select max(k) from (select count(*) as k from {episodes} group by {edge}))"
        for edge in ("low", "high")
    ]  # how many episodes start, and how many end, at one and the same time
    n, starts, ends = database.rows(
        "comparing times", f"select (select count(*) from {episodes}), {', '.join(most)}"
    )[0]
    return bool(starts < n) if reading.dated else bool(2 * max(starts, ends) <= n)


def _column(database: Database, reading: Reading, sql: str) -> np.ndarray:
    """A number of every row, in the order of `Log.blocks`."""
    parts = []
    for file in reading.store.files:
        part = replace(reading, store=replace(reading.store, files=(file,)))
        found = database.arrays(
            "reading times", f"select ({sql})::double as x, y.at from {part.steps()} y"
        )
        order = np.argsort(found["at"], kind="stable")
        parts.append(np.ma.filled(found["x"], np.nan)[order])
    return np.concatenate(parts)


def _segments(stamps: np.ndarray) -> np.ndarray:
    """Equal numbers of rows in each, but what has the same stamp stays together."""
    cuts = np.sort(stamps)[np.arange(1, SEGMENTS) * len(stamps) // SEGMENTS]
    return np.searchsorted(cuts, stamps, side="right").astype(np.uint8)


def _calendar(stamps: np.ndarray) -> dict[str, np.ndarray]:
    """What may come back, in a log that is long enough for it to come back twice."""
    span = float(np.ptp(stamps))
    found: dict[str, np.ndarray] = {}
    if span >= 2 * DAY and (stamps % DAY != stamps[0] % DAY).any():
        found["hours of the day"] = (stamps // 3600 % 24).astype(np.uint8)
    if span >= 14 * DAY:
        found["days of the week"] = (stamps // DAY % 7).astype(np.uint8)
    if span >= 730 * DAY:
        found["months"] = (
            stamps.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64) % 12
        ).astype(np.uint8)
    return found
