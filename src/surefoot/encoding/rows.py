"""Rows: the rows of a log as they came, with all columns, and the features among them as
numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.labels import nearest
from surefoot.errors import LogError, ParameterError
from surefoot.logs.database import Database, Workspace, name_sql, parquet_sql, text_sql
from surefoot.logs.sources import Source, find_source
from surefoot.logs.store import header_of, read_text, text_trouble

BLOCK = 500_000  # rows coded together
MISSING = (
    "",
    "na",
    "n/a",
    "nan",
    "null",
    "none",
)  # what stands in a field, in small letters, where there is no number
PLACE = ("filename", "file_row_number")  # what DuckDB adds to the rows of Parquet files


@dataclass(frozen=True)
class Rows:
    """`sql` is a FROM clause of all rows in order; features are columns of it.

    `files` are those of the user, `stored` the Parquet files behind `sql`, `physical` the name of
    each column in them.
    """

    name: str
    files: tuple[str, ...]
    stored: tuple[str, ...]
    names: tuple[str, ...]
    physical: Mapping[str, str]
    features: tuple[str, ...]

    @property
    def sql(self) -> str:
        """All rows in order."""
        return parquet_sql(self.stored)

    @property
    def all_columns(self) -> str:
        """The columns of the log under their own names."""
        return ", ".join(
            f"{name_sql(self.physical[name])} as {name_sql(name)}" for name in self.names
        )

    def number(self, name: str) -> str:
        """A column as a finite number; NULL where it is none."""
        number = f"try_cast({name_sql(self.physical[name])} as double)"
        return f"case when isfinite({number}) then {number} end"

    def sample(self, database: Database, most: int) -> np.ndarray:
        """The features of all rows, or of an even draw of about `most` of them; the same draw
        every time.
        """
        (n,) = database.rows("counting rows", f"select count(*) from {self.sql}")[0]
        every = max(1, -(-int(n) // most))
        some = "" if every == 1 else f" where hash(file_row_number) % {every} = 0"
        return self._matrix(database, f"{self.sql}{some}")

    def blocks(self, database: Database) -> Iterator[np.ndarray]:
        """The features [n, features] of all rows, block by block in order."""
        for file in self.stored:
            (n,) = database.rows("counting rows", f"select count(*) from {parquet_sql((file,))}")[0]
            for start in range(0, int(n), BLOCK):
                where = f"file_row_number >= {start} and file_row_number < {start + BLOCK}"
                yield self._matrix(database, f"{parquet_sql((file,))} where {where}")

    def _matrix(self, database: Database, rows: str) -> np.ndarray:
        """The features of rows, NaN where missing; of one file in their order, which a filter of
        DuckDB does not always keep.
        """
        chosen = ", ".join(f"{self.number(name)} as x{i}" for i, name in enumerate(self.features))
        found = database.arrays(
            "reading features", f"select file_row_number as row, {chosen} from {rows}"
        )
        order = np.argsort(found.pop("row"), kind="stable")
        return np.stack(
            [np.ma.filled(np.ma.asarray(x, dtype=float), np.nan)[order] for x in found.values()],
            axis=1,
        )

    def ordered(self, roles: Mapping[str, str]) -> str:
        """(code, e, place, r, x0, ...) for `mixing`: beside the table `codes`, in the order of
        time where there is one.
        """
        episode = [name_sql(self.physical[name]) for name in roles["episode"].split(",") if name]
        time = name_sql(self.physical[roles["time"]]) if "time" in roles else ""
        # A time that is text orders as a number where it is one; dates written the usual way order
        # as text.
        order = (
            f"struct_pack(a := try_cast({time} as double), b := {time}, c := filename, d :="
            " file_row_number)"
            if time
            else ("struct_pack(c := filename, d := file_row_number)")
        )
        features = ", ".join(f"{self.number(name)} as x{i}" for i, name in enumerate(self.features))
        key = f"hash({', '.join(episode)})" if episode else "0"
        reward = self.number(roles["reward"])
        return (
            f"(select code, {key} as e, {order} as place, {reward} as r, {features} from {self.sql}"
            " positional join codes)"
        )


def open_rows(
    source: Any,
    features: tuple[str, ...],
    database: Database,
    workspace: Workspace,
    may_miss: Collection[str] = (),
) -> tuple[Rows, dict[str, int]]:
    """The rows of a log, and in how many of them each feature is missing.

    Raises where a feature is not a finite number, and where one is missing (empty, NaN, or a word
    of MISSING) that is not in `may_miss`.
    """
    found = find_source(source)
    if found.kind == "table":
        raise ParameterError("discretize reads files: write the table to a Parquet file first")
    rows = (
        _from_text(found, features, database, workspace)
        if found.kind == "csv"
        else _from_parquet(found, features, database)
    )
    return rows, _missing(database, rows, may_miss)


def _from_parquet(found: Source, features: tuple[str, ...], database: Database) -> Rows:
    packed = [file for file in found.files if file.lower().endswith(".gz")]
    if packed:
        raise ParameterError(f"{packed[0]}: unpack it first; Parquet is compressed by itself")
    described = database.rows(
        f"reading {found.name}", f"describe select * from {parquet_sql(found.files)}"
    )
    names = tuple(str(row[0]) for row in described if row[0] not in PLACE)
    _check_names(names, features, found.name)
    return Rows(
        found.name, found.files, found.files, names, {name: name for name in names}, features
    )


def _from_text(
    found: Source, features: tuple[str, ...], database: Database, workspace: Workspace
) -> Rows:
    """Text, written out once; every field stays the text it is."""
    delimiter, names = header_of(found.files[0])
    other = [file for file in found.files if header_of(file) != (delimiter, names)]
    if other:
        raise LogError(
            f"all files of a log have the same header, but those of {found.files[0]} and {other[0]}"
            " differ"
        )
    _check_names(tuple(names), features, found.name)
    stored = []
    for number, file in enumerate(found.files):
        target = str(workspace.path / f"rows-{number:06d}.parquet")
        read = read_text([file], delimiter, len(names))
        try:
            database.run(
                f"reading {file}",
                f"copy (from {read}) to {text_sql(target)} (format parquet, compression lz4)",
            )
        except LogError as error:
            raise LogError(text_trouble(file, str(error))) from error
        stored.append(target)
    physical = {name: f"c{i}" for i, name in enumerate(names)}
    return Rows(found.name, found.files, tuple(stored), tuple(names), physical, features)


def _check_names(names: tuple[str, ...], features: tuple[str, ...], where: str) -> None:
    for name in features:
        if name not in names:
            raise LogError(
                f"{where} has no column {name!r} (given as a feature); {nearest(name, names)}"
            )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise LogError(
            f"{where} has {names.count(twice[0])} columns named {twice[0]!r}: rename them"
        )
    if len(set(features)) != len(features):
        raise ParameterError(f"every feature is named once, got {', '.join(features)}")


def _missing(database: Database, rows: Rows, may_miss: Collection[str]) -> dict[str, int]:
    """In how many rows each feature is missing; in all others it is a finite number."""
    (n,) = database.rows("counting rows", f"select count(*) from {rows.sql}")[0]
    if not n:
        raise LogError(f"{rows.name} has no rows")
    found = {}
    for name in rows.features:
        column, number = name_sql(rows.physical[name]), f"({rows.number(name)})"
        word = f"lower(trim({column}::varchar)) in ({', '.join(map(text_sql, MISSING))})"
        lost, wrong = (
            f"{number} is null and ({column} is null or {word})",
            f"{number} is null and {column} is not null and not {word}",
        )
        counted = f"select count(*) filter ({lost}), count(*) filter ({wrong}) from {rows.sql}"
        found[name], bad = database.rows(f"reading {name}", counted)[0]
        if bad:
            place, value = _first(database, rows, column, wrong)
            raise LogError(
                f"feature {name!r} is {value[:60]!r}, not a finite number, in {place} ({bad:,} such"
                f" rows of {n:,}): correct it, leave these rows out, or leave the feature out"
            )
        if found[name] and name not in may_miss:
            place, value = _first(database, rows, column, lost)
            word = f" ({value!r})" if value else ""
            raise LogError(
                f"feature {name!r} is missing{word} in {place} ({found[name]:,} such rows of"
                f" {n:,}): fill it in, leave these rows out, leave the feature out, or give such"
                " rows a bin of their own with --missing bin when the encoder is made"
            )
    return found


def _first(database: Database, rows: Rows, column: str, where: str) -> tuple[str, str]:
    """(the place of the first such row, what stands there)."""
    shown = (
        f"select filename, file_row_number, {column}::varchar from {rows.sql} where {where} order"
        " by 1, 2 limit 1"
    )
    file, row, value = database.rows("reading features", shown)[0]
    return (
        f"row {row + 1} of {dict(zip(rows.stored, rows.files, strict=True)).get(file, file)}",
        value or "",
    )
