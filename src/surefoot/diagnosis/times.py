"""Time gaps of unequal length: a discount factor counts steps, so steps should take equal time."""

from __future__ import annotations

import numpy as np

from surefoot.diagnosis.finding import NOTE, OK, WARNING, Finding
from surefoot.logs import Log
from surefoot.logs.database import Database
from surefoot.logs.query import WHOLE, Reading
from surefoot.text import plural

ROUNDING = 1e-6  # gaps that differ by less than this share are equal
MANY = 0.01  # share of unequal gaps that is a warning


def gaps(log: Log) -> Finding:
    """Whether the time from one row of an episode to the next is constant."""
    reading, workspace = log.reading, log.workspace
    if reading is None or workspace is None or not reading.has_time:
        return Finding("time", OK, "no time column: steps count as equally long", {"steps": 0})
    with Database(workspace, log.threads, log.memory_limit) as database:
        database.run(
            "looking at times",
            f"create temp view gaps as select * from ({_gaps_sql(reading)}) where same",
        )
        n, low, high, largest = database.rows(
            "looking at times", "select count(*), min(gap), max(gap), max(abs(t)) from gaps"
        )[0]
        if not n:
            return Finding(
                "time", OK, "no episode has two steps: there are no time gaps", {"steps": 0}
            )
        largest = 0.0 if _exact(reading) else float(largest)
        if high - low <= _slack(float(high), largest):
            return Finding(
                "time",
                OK,
                f"all {n:,} time gaps are {_shown(high, reading)} long",
                _numbers(n, low, high, high, 0),
            )
        most = (
            "select gap::float as g, count(*) as k from gaps group by g order by k desc, g limit 1"
        )
        common = float(database.rows("looking at times", most)[0][0])
        apart = f"abs(gap - {common!r}::double) > {_slack(common, largest)!r}::double"
        (unequal,) = database.rows("looking at times", f"select count(*) from gaps where {apart}")[
            0
        ]
    level = WARNING if unequal > MANY * n else NOTE
    sentence = (
        f"{unequal:,} of {plural(n, 'time gap')} ({unequal / n:.1%}) differ from the most common"
        f" one, {_shown(common, reading)} (they go from {_shown(low, reading)} to"
        f" {_shown(high, reading)}): gamma discounts by step, not by time, and longer gaps are"
        " other transitions"
    )
    return Finding("time", level, sentence, _numbers(n, low, high, common, unequal))


def _gaps_sql(reading: Reading) -> str:
    """Each row's time as a number, its gap to the row before, and whether that row is of the
    same episode.
    """
    time, scale = _number_sql(reading)
    return (
        f"select {time_sql(reading)} as t, ({time} - lag({time}) over ())::double / {scale} as gap,"
        " e is not distinct from lag(e) over () and row_number() over () > 1 as same from"
        f" {reading.steps()}"
    )


def time_sql(reading: Reading) -> str:
    """The time of a step as a number, in seconds where it is a date."""
    time, scale = _number_sql(reading)
    return f"({time})::double / {scale}"


def _number_sql(reading: Reading) -> tuple[str, str]:
    """(the time as a number whose differences are exact where they can be, how many of it are
    one).
    """
    if reading.dated:
        moment = "t::timestamp" if reading.wall_clock or reading.time_kind == "DATE" else "t"
        return f"epoch_us({moment})::hugeint", "1e6"
    return "t::hugeint" if _exact(reading) else "t::double", "1e0"


def _exact(reading: Reading) -> bool:
    """Whether differences of times are exact."""
    return reading.dated or reading.time_type == "bigint" or reading.time_kind in WHOLE


def _slack(gap: float, largest: float) -> float:
    """Differences of gaps that are rounding: of the gap itself, and of the times it is the
    difference of (0 where these are exact).
    """
    return ROUNDING * abs(gap) + 8 * float(np.finfo(float).eps) * largest


def _shown(gap: float, reading: Reading) -> str:
    return f"{gap:g}{' s' if reading.dated else ''}"


def _numbers(n: int, low: float, high: float, common: float, unequal: int) -> dict[str, float]:
    return {
        "gaps": int(n),
        "shortest": float(low),
        "longest": float(high),
        "most_common": float(common),
        "unequal": int(unequal),
    }
