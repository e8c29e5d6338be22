"""Coding: whole numbers 0, 1, ...

for the labels of the table `triples`, in the natural order of the labels.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np

from surefoot.errors import SurefootError
from surefoot.logs.database import Database, text_sql
from surefoot.logs.query import Reading

LABELS = {
    "states": (
        "select x, x as key from (select s as x from triples union select n from triples where n is"
        " not null)"
    ),
    "actions": "select x, key from keys where key in (select a from triples)",
}
ROOM = 16  # places in a table of hashes for each label
WORTH_A_LOOK = 1_000_000  # rows from which on it pays to look at the actions first
FEW = 256  # actions that are given keys


def with_action_keys(database: Database, reading: Reading) -> Reading:
    """The reading with a small number, its key, in place of each action that is text; the table
    `keys` has the labels x and their keys.

    Rows are grouped faster by small numbers than by text. To look at the actions first takes hardly
    any time: Parquet, too, holds a column of few values as numbers. The key is the hash of the
    label modulo the least number that tells all of them apart.
    """
    text = reading.label_types("action") == ("VARCHAR",)
    if not text or reading.store.direct or reading.store.rows < WORTH_A_LOOK:
        return reading
    database.run(
        "looking at actions",
        f"create or replace temp table acted as select a as x, hash(a) as h from {reading.steps()}"
        " group by a",
    )
    found = database.rows("looking at actions", "select x, h from acted")
    if len(found) > FEW or any(x is None for x, _ in found):
        return reading
    m = next(m for m in count(len(found)) if len({h % m for _, h in found}) == len(found))
    database.run(
        "looking at actions",
        f"create or replace temp table keys as select x, (h % {m})::uinteger as key from acted",
    )
    return replace(reading, action_key=m)


def keys_as_found(database: Database) -> None:
    """The table `keys` where labels of actions were not replaced."""
    database.run(
        "looking at actions",
        "create or replace temp table keys as select distinct a as x, a as key from triples",
    )


def make_label_tables(database: Database, folder: Path) -> None:
    """The tables `states` and `actions`, (x, key, code), kept also as Parquet files in the
    folder, for reading the rows again.
    """
    for name, query in LABELS.items():
        database.run(
            "coding labels",
            f"create or replace temp table {name} as select x, key, (row_number() over (order by x)"
            f" - 1)::integer as code from ({query})",
        )
        database.run(
            "coding labels",
            f"copy (select x, code from {name}) to {text_sql(str(folder / name))} (format parquet)",
        )


def codes_of(database: Database, column: str, labels: str, missing: int) -> np.ndarray:
    """The codes of a column of `triples` in a table of labels, row by row; `missing` where it is
    NULL.

    Labels are told apart by 64-bit hashes, of a kind that differs for all labels of the table: the
    codes are exact.
    """
    for kind in count():
        known = _hashes(database, f"select {_hash('key', kind)} as h from {labels} order by code")
        nothing = _hashes(
            database,
            f"select {_hash(column, kind)} as h from triples where {column} is null limit 1",
        )
        among = np.append(known, nothing)
        if np.diff(np.sort(among)).all():
            break
    found = places(_hashes(database, f"select {_hash(column, kind)} as h from triples"), among)
    if len(nothing):
        found[found == len(known)] = missing
    return found


def _hash(x: str, kind: int) -> str:
    """SQL: one of many hash functions."""
    return f"hash({x})" if kind == 0 else f"hash({x}, {kind})"


def _hashes(database: Database, query: str) -> np.ndarray:
    found: np.ndarray = database.arrays("coding labels", query)["h"]
    return found


def places(keys: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The place of each key in an array of different random numbers, both uint64.

    A table by the first bits of a number holds one of the numbers that begin so; the few keys that
    want another are searched for.
    """
    bits = (ROOM * len(among)).bit_length()
    shift = np.uint64(64 - bits)
    table = np.zeros(1 << bits, dtype=np.int32)
    table[among >> shift] = np.arange(len(among))
    found: np.ndarray = table[keys >> shift]
    missed = np.flatnonzero(among[found] != keys)
    order = np.argsort(among)
    found[missed] = order[
        np.minimum(np.searchsorted(among, keys[missed], sorter=order), len(among) - 1)
    ]
    if (among[found[missed]] != keys[missed]).any():
        raise SurefootError(
            "a label of the log is missing in its table; this is a fault of surefoot, please"
            " report it"
        )
    return found
