"""The order of rows: which are early and which late, whether steps take equal time, and whether
each row leads to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from surefoot.checks.finding import CONTRADICTIONS, NOTE, OK, WARNING, Finding
from surefoot.core.errors import option
from surefoot.core.text import plural
from surefoot.logs import Log
from surefoot.logs.accounting import REASONS
from surefoot.logs.database import Database
from surefoot.logs.pace import exact_times, number_sql, time_sql
from surefoot.logs.query import Reading

SEGMENTS = 96  # the rows in order of time, cut into so many parts of equal size
MOST_STAMPS = 20_000_000  # rows up to which their times are held in memory
DAY = 86_400.0
EPOCH = 10 * 365.25 * DAY, 130 * 365.25 * DAY  # seconds since 1970 that are taken for dates
BY_TIME, BY_FILE = "in order of their times", "in the order of the file"
ROUNDING = 1e-6  # time gaps that differ by less than this share are equal
MANY = 0.01  # share of unequal gaps that is a warning
CONTRADICTORY = ("backwards", "after-end", "contradiction")  # reasons to leave out rows


@dataclass(frozen=True, repr=False)
class Clock:
    """The time of every row, as one of 96 segments of the log, numbered as in `Log.blocks`.

    words      the order that was used
    segment    of every row; None: the rows lie in order
    calendar   the day of the week, ... of every row, by name, where times are dates
    unsorted   the rows lie in another order than that of time, and are too many to be sorted
    stamps     a number for each row that rises with time, where that is not the order of the rows
    """

    words: str
    rows: int
    segment: np.ndarray | None = None
    calendar: Mapping[str, np.ndarray] = field(default_factory=dict)
    unsorted: bool = False
    stamps: np.ndarray | None = None

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
    words, stamps, unsorted = row_stamps(log)
    if stamps is None:
        return Clock(words, log.accounting.rows, unsorted=unsorted)
    dated = words == BY_TIME and (log.stored.dated or like_dates(stamps))
    calendar = _calendar(stamps) if dated else {}
    return Clock(words, len(stamps), _segments(stamps), calendar, stamps=stamps)


def row_stamps(log: Log) -> tuple[str, np.ndarray | None, bool]:
    """(the order of the rows in words; a number for each row, in the order of `Log.blocks`, that
    rises with it, None: they lie in order, or are too many; whether they are too many and may lie
    in another order).
    """
    reading, rows = log.stored, log.accounting.rows
    with log.database() as database:
        timed = reading.time_kind and (log.n_episodes == 1 or _comparable(database, reading))
        if rows > MOST_STAMPS:
            other = timed and (reading.dated or log.n_episodes != 1)
            return BY_FILE, None, bool(other or reading.store.anew)
        if timed:
            return BY_TIME, _seconds(_column(database, reading, time_sql(reading))), False
        if reading.store.anew:  # they were sorted
            places = _column(database, reading, "row_number() over (order by file, row)")
            return BY_FILE, places, False
    return BY_FILE, None, False


def row_times(log: Log) -> np.ndarray | None:
    """The time of each row, in the order of `Log.blocks`, which may say something within its
    episode alone; None without times, or where rows are too many.
    """
    reading = log.stored
    if not reading.time_kind or log.accounting.rows > MOST_STAMPS:
        return None
    with log.database() as database:
        return _seconds(_column(database, reading, time_sql(reading)))


def _seconds(stamps: np.ndarray) -> np.ndarray:
    """Milli-, micro- and nanoseconds since 1970 as seconds; other numbers as they are."""
    for scale in (1.0, 1e3, 1e6, 1e9):
        if like_dates(stamps / scale):
            return np.asarray(stamps / scale)
    return stamps


def like_dates(stamps: np.ndarray) -> bool:
    """Whether numbers are seconds since 1970: all between 1980 and 2100."""
    low, high = EPOCH
    return bool(low <= stamps.min() and stamps.max() <= high)


def _comparable(database: Database, reading: Reading) -> bool:
    """Whether times tell which of two episodes came first."""
    most = [
        f"(select max(k) from (select count(*) as k from episodes group by {edge}))"
        for edge in ("low", "high")
    ]  # how many episodes start, and how many end, at one and the same time
    n, starts, ends = database.rows(
        "comparing times",
        f"""with episodes as materialized (
                select min(t) as low, max(t) as high from {reading.steps()} group by episode)
            select (select count(*) from episodes), {", ".join(most)}""",
    )[0]
    return bool(starts < n) if reading.dated else bool(2 * max(starts, ends) <= n)


def row_values(log: Log, name: str) -> np.ndarray:
    """A number beside every row (see `Reading.beside`), also of those left out, in the order of
    `Log.blocks`.
    """
    with log.database() as database:
        return _column(database, log.stored, name)


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
    """Equal numbers of rows in each, but rows with the same stamp stay together."""
    cuts = np.sort(stamps)[np.arange(1, SEGMENTS) * len(stamps) // SEGMENTS]
    return np.searchsorted(cuts, stamps, side="right").astype(np.uint8)


def _calendar(stamps: np.ndarray) -> dict[str, np.ndarray]:
    """What may recur, in a log that is long enough for it to recur twice."""
    span = float(np.ptp(stamps))
    found: dict[str, np.ndarray] = {}
    if span >= 2 * DAY and (stamps % DAY != stamps[0] % DAY).any():
        found["hours of the day"] = stamps // 3600 % 24
    if span >= 14 * DAY:
        found["days of the week"] = stamps // DAY % 7
    if span >= 730 * DAY:
        months = stamps.astype("datetime64[s]").astype("datetime64[M]")
        found["months"] = months.astype(np.int64) % 12
    return {name: x.astype(np.uint8) for name, x in found.items()}


def contradictions(log: Log, inside: tuple[str, ...]) -> Finding:
    """Does every row lead to the next? `inside` are the contradictions of rows that are used."""
    left_out = {
        reason: log.accounting.left_out_as(reason)
        for reason in CONTRADICTORY
        if log.accounting.left_out_as(reason)
    }
    numbers = {"left_out": left_out, "inside": list(inside)}
    if not left_out and not inside:
        return Finding("contradictions", OK, "no row contradicts the next", numbers, CONTRADICTIONS)
    words = [*(f"{n:,} {REASONS[reason]} (left out)" for reason, n in left_out.items()), *inside]
    sentence = (
        f"rows contradict each other: {'; '.join(words)}. Check the episode ids and the order of"
        " the rows"
    )
    return Finding("contradictions", WARNING, sentence, numbers, CONTRADICTIONS, vetoes=True)


def gaps(log: Log) -> Finding:
    """Is the time from one row of an episode to the next constant? A discount counts steps."""
    reading = log.reading
    if reading is None or log.workspace is None or not reading.time_kind:
        return Finding("time", OK, "no time column: steps count as equally long", {"steps": 0})
    with log.database(reading.options.threads) as database:
        view = f"create temp view gaps as select * from ({_gaps_sql(reading)}) where same"
        database.run("looking at times", view)
        n, low, high, largest = database.rows(
            "looking at times", "select count(*), min(gap), max(gap), max(abs(t)) from gaps"
        )[0]
        if not n:
            words = "no step follows another: there are no gaps of time"
            return Finding("time", OK, words, {"steps": 0})
        largest = 0.0 if exact_times(reading) else float(largest)
        common, unequal = high, 0
        middle = most = float(low)
        if low != high:
            quantiles = "select quantile_disc(gap, [0.5, 0.9]) from gaps"
            middle, most = map(float, database.rows("looking at times", quantiles)[0][0])
        if high - low > _slack(float(high), largest):
            common, unequal = _unequal(database, largest)
    unit = " s" if reading.dated else ""
    numbers = {
        "gaps": int(n),
        "shortest": float(low),
        "longest": float(high),
        "most_common": float(common),
        "unequal": int(unequal),
        "median": middle,
        "quantile_90": most,
    }
    if high - low <= _slack(float(high), largest):
        return Finding("time", OK, f"all {n:,} time gaps equal {high:g}{unit}", numbers)
    differ = (
        f"{unequal:,} of {plural(n, 'time gap')} ({unequal / n:.1%}) differ from the most common"
        f" one, {common:g}{unit} (median {middle:g}{unit}, 90 % at most {most:g}{unit}, from"
        f" {low:g}{unit} to {high:g}{unit})"
    )
    if log.pace is not None:
        words = f"{differ}: time counts, gamma is the discount for {log.pace.unit}"
        return Finding("time", OK, words, numbers)
    sentence = (
        f"{differ}: each row counts as one step, so gamma discounts by step, not by time;"
        f" {option('discount_per')} if time matters. Longer gaps are other transitions"
    )
    return Finding("time", WARNING if unequal > MANY * n else NOTE, sentence, numbers)


def _unequal(database: Database, largest: float) -> tuple[float, int]:
    """(the most common gap, how many differ from it)."""
    most = "select gap::float as g, count(*) as k from gaps group by g order by k desc, g limit 1"
    common = float(database.rows("looking at times", most)[0][0])
    apart = f"abs(gap - {common!r}::double) > {_slack(common, largest)!r}::double"
    found = database.rows("looking at times", f"select count(*) from gaps where {apart}")
    return common, int(found[0][0])


def _gaps_sql(reading: Reading) -> str:
    """Each row's time, its gap to the row before, and whether that row is of the same episode."""
    time, scale = number_sql(reading)
    return (
        f"select {time_sql(reading)} as t, ({time} - lag({time}) over ())::double / {scale} as"
        " gap, episode is not distinct from lag(episode) over () and row_number() over () > 1 as"
        f" same from {reading.steps()}"
    )


def _slack(gap: float, largest: float) -> float:
    """Differences of gaps that are rounding, of the gap itself and of inexact times."""
    return ROUNDING * abs(gap) + 8 * float(np.finfo(float).eps) * largest
