"""Times as text: with a UTC offset or without one, never both in one log; and nights on which
clocks may have been put back.
"""

from __future__ import annotations

from surefoot.errors import option
from surefoot.logs.database import text_sql

LOCAL, ZONED = "timestamp", "timestamptz"
WALL_CLOCK = (
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
)  # types that do not say how far from UTC the clock is
OFFSET = ":[0-9.]+(Z| UTC| GMT| ?[+-][0-9][0-9](:?[0-9][0-9])?) *$"
NO_SECONDS = "^([^:]*:[0-9][0-9])([Z +-])"
# what a time without an offset does not match; DuckDB would pass over offsets, names of zones and
# "PM"
NO_OFFSET = ":.*[^0-9:. ]"
ADVICE = (
    "If the clocks were put back there, give times with a UTC offset, such as 2024-10-27"
    f" 02:30+01:00, or take the rows as they come with {option('time', '-')}"
)


def moment(x: str, kind: str) -> str:
    """SQL: a text as a moment of this kind, LOCAL or ZONED; NULL where it is of the other kind or
    none.

    Names of zones do not count as offsets: in the hour that comes twice they leave open which one
    is meant.
    """
    if kind == ZONED:
        joined = f"replace(replace({x}, ' +', '+'), ' -', '-')"
        # DuckDB 1 reads an offset after seconds alone
        full = f"regexp_replace({joined}, {text_sql(NO_SECONDS)}, '\\1:00\\2')"
        read = f"coalesce(try_cast({joined} as timestamptz), try_cast({full} as timestamptz))"
        return f"case when regexp_matches({x}, {text_sql(OFFSET)}) then {read} end"
    return (
        f"case when not regexp_matches({x}, {text_sql(NO_OFFSET)}) then try_cast({x} as"
        " timestamp) end"
    )


def put_back(t: str, before: str) -> str:
    """SQL: whether a step back in time could be a clock put back: by at most an hour, at night."""
    hour = f"hour({before}::timestamp)"
    return (
        f"({before}::timestamp - {t}::timestamp <= interval 1 hour and ({hour} < 4 or {hour} = 23))"
    )
