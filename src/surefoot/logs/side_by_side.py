"""Side by side: a log cut where episodes start, so that several threads can go through it, each
in the order of its rows.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from surefoot.logs.database import Database, parquet_sql
from surefoot.logs.query import Reading

SMALLEST = 500_000  # rows that a thread gets at least
REACH = 100_000  # rows among which the start of an episode is looked for


def readings_side_by_side(database: Database, reading: Reading) -> list[Reading]:
    """Readings of parts of the log, about one a thread, together all of its rows; no part begins
    within an episode.

    Only where the log has times: that they go on shows that a thread sees its rows in order,
    whatever the others do.
    """
    store = reading.store
    threads = min(database.threads, store.rows // SMALLEST)
    if threads < 2 or not reading.has_time or store.direct:
        return [reading]
    rows = dict(
        database.rows(
            "looking at the files",
            f"select file_name, num_rows from {parquet_sql(store.files, metadata=True)}",
        )
    )
    if any(file not in rows for file in store.files):
        return [reading]
    ends = list(accumulate(rows[file] for file in store.files))
    cuts = {
        _episode_start(database, reading, ends, ends[-1] * i // threads) for i in range(1, threads)
    }
    return [
        _between(reading, ends, low, high) for low, high in pairwise(sorted({0, *cuts, ends[-1]}))
    ]


def _episode_start(database: Database, reading: Reading, ends: list[int], place: int) -> int:
    """The first row from this place on that starts an episode; 0, where a log may always be cut,
    if none does within reach.
    """
    rows = _between(reading, ends, place - 1, place + REACH).steps()
    first = (
        "select row_number() over () as i, hash(e) is distinct from lag(hash(e)) over () as first"
        f" from {rows}"
    )
    found = database.rows(
        "looking for episodes", f"select min(i) from ({first}) where first and i > 1"
    )[0][0]
    return 0 if found is None else place + int(found) - 2


def _between(reading: Reading, ends: list[int], low: int, high: int) -> Reading:
    """The rows low, ..., high - 1 of the log, whose files end at these rows."""
    pieces: list[tuple[list[str], str]] = []
    for file, start, end in zip(reading.store.files, [0, *ends], ends, strict=False):
        first, last = max(low, start) - start, min(high, end) - start
        if first >= last:
            continue
        some = (
            ""
            if last - first == end - start
            else f" where file_row_number >= {first} and file_row_number < {last}"
        )
        if pieces and not some and not pieces[-1][1]:
            pieces[-1][0].append(file)
        else:
            pieces.append(([file], some))
    rows = " union all by name ".join(
        f"from {parquet_sql(tuple(files))}{some}" for files, some in pieces
    )
    return replace(reading, store=replace(reading.store, direct=f"({rows})"))
