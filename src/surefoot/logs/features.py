"""The rows of a log as they came, with all columns, and the features among them as numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from surefoot.core.errors import LogError, ParameterError
from surefoot.core.labels import nearest
from surefoot.core.parameters import check_name
from surefoot.logs.database import Database, Workspace, name_sql, parquet_sql, text_sql
from surefoot.logs.query import BY_FORMAT, LOCAL, date_format_of, moment, number_sql, strptime
from surefoot.logs.store import (
    Source,
    as_utf8,
    columns_of,
    find_source,
    header_of,
    read_text,
    single,
    write_parquet,
    write_text,
)

BLOCK = 500_000  # rows coded together
# what stands in a field, in small letters, where there is no number
MISSING = ("", "na", "n/a", "nan", "null", "none")
PLACE = ("filename", "file_row_number")  # what DuckDB adds to the rows of Parquet files


@dataclass(frozen=True)
class Mixing:
    """How much rows of one state still differ, as shares of the variance of all rows.

    0: a state says all; 1: it says nothing; None where there is nothing to explain.

    reward      of the reward of a step
    successor   of each feature of the next row of the episode, in the order of the features
    """

    reward: float | None
    successor: tuple[float | None, ...]

    def sentence(self, features: Sequence[str]) -> str:
        """The shares in words."""
        names = ("reward", *features)
        shares = [
            f"{name} is constant" if x is None else f"{name} {x:.0%}"
            for name, x in zip(names, (self.reward, *self.successor), strict=True)
        ]
        return (
            f"left within states, of the variance of all rows: {shares[0]}; next"
            f" {', '.join(shares[1:])}"
        )


@dataclass(frozen=True, kw_only=True)
class RawRows:
    """The rows of a log.

    files      those of the user
    stored     the Parquet files that hold the rows in order
    names      of the columns; `physical` the name of each in `stored`
    features   the columns that make the state
    decimal    the decimal sign of numbers that are text
    carried    {feature: the column that holds it where it is carried forward}
    date_format  of times that are dates in another order than ISO's, as `strptime` takes it
    """

    name: str
    files: tuple[str, ...]
    stored: tuple[str, ...]
    names: tuple[str, ...]
    physical: Mapping[str, str]
    features: tuple[str, ...]
    decimal: str = "."
    text: bool = False
    carried: Mapping[str, str] = field(default_factory=dict)
    date_format: str = ""

    def __post_init__(self) -> None:
        for name in self.features:
            if name not in self.names:
                raise LogError(
                    f"{self.name} has no column {name!r} (given as a feature);"
                    f" {nearest(name, self.names)}"
                )
        for name in self.names:
            if self.names.count(name) > 1:
                raise LogError(
                    f"{self.name} has {self.names.count(name)} columns named {name!r}: rename them"
                )
        if len(set(self.features)) != len(self.features):
            raise ParameterError(f"every feature is named once, got {', '.join(self.features)}")

    @property
    def sql(self) -> str:
        """A FROM clause of all rows in order."""
        return parquet_sql(self.stored)

    @property
    def all_columns(self) -> str:
        """The columns of the log under their own names."""
        return ", ".join(
            f"{name_sql(self.physical[name])} as {name_sql(name)}" for name in self.names
        )

    def number(self, name: str) -> str:
        """A column as a finite number; NULL where it is none."""
        if name in self.carried:
            return self.carried[name]
        column = name_sql(self.physical[name])
        number = number_sql(column, self.decimal) if self.text else f"try_cast({column} as double)"
        return f"case when isfinite({number}) then {number} end"

    @property
    def numbers(self) -> str:
        """The features as numbers x0, x1, ..."""
        return ", ".join(f"{self.number(name)} as x{i}" for i, name in enumerate(self.features))

    def carry_forward(
        self, database: Database, workspace: Workspace, roles: Mapping[str, str]
    ) -> RawRows:
        """The same rows in which a feature that is missing is what it was last in the episode, in
        the order of time where there is one; before its first value it stays missing.
        """
        target = str(workspace.path / "carried.parquet")
        last = ", ".join(
            f"last_value({self.number(name)} ignore nulls) over w as carried_{i}"
            for i, name in enumerate(self.features)
        )
        write_parquet(
            database,
            "carrying measurements forward",
            f"select * exclude (filename, file_row_number), {last} from {self.sql} window w as"
            f" (partition by {self._episode(roles)} order by {self._place(roles)} rows between"
            " unbounded preceding and current row) order by filename, file_row_number",
            target,
        )
        carried = {name: f"carried_{i}" for i, name in enumerate(self.features)}
        return replace(self, stored=(target,), carried=carried)

    def _episode(self, roles: Mapping[str, str]) -> str:
        """What tells episodes apart, in SQL."""
        named = [name_sql(self.physical[name]) for name in roles["episode"].split(",") if name]
        return f"hash({', '.join(named)})" if named else "0"

    def _place(self, roles: Mapping[str, str]) -> str:
        """The place of a row in its episode, in SQL: text orders as a number where it is one, or as
        a date; ISO's dates order as text.
        """
        order = "c := filename, d := file_row_number"
        if "time" in roles:
            time = name_sql(self.physical[roles["time"]])
            number = f"try_cast({time} as double)"
            if self.date_format:
                number = moment(time, BY_FORMAT + self.date_format)
            order = f"a := {number}, b := {time}, {order}"
        return f"struct_pack({order})"

    def dated(self, database: Database, roles: Mapping[str, str], given: str = "") -> RawRows:
        """The rows with the format of their dates: as given, else as found."""
        if not self.text or "time" not in roles:
            return self
        time = name_sql(self.physical[roles["time"]])
        known = f"count({time}), count(try_cast({time} as double)), count({moment(time, LOCAL)})"
        n, *read = database.rows("looking at the time column", f"select {known} from {self.sql}")[0]
        if given or max(read) < n:
            found = strptime(given) if given else date_format_of(database, self.sql, time, n)
            return replace(self, date_format=found)
        return self

    def sample(self, database: Database, most: int) -> np.ndarray:
        """The features of all rows, or of an even draw of about `most`; always the same draw."""
        every = max(1, -(-_number_of(database, self.sql) // most))
        some = "" if every == 1 else f" where hash(file_row_number) % {every} = 0"
        return self._matrix(database, f"{self.sql}{some}")

    def blocks(self, database: Database) -> Iterator[np.ndarray]:
        """The features [n, features] of all rows, block by block in order."""
        for file in self.stored:
            rows = parquet_sql((file,))
            for start in range(0, _number_of(database, rows), BLOCK):
                where = f"file_row_number >= {start} and file_row_number < {start + BLOCK}"
                yield self._matrix(database, f"{rows} where {where}")

    def _matrix(self, database: Database, rows: str) -> np.ndarray:
        """The features of rows, NaN where missing.

        Those of one file are in order, which a filter of DuckDB does not always keep.
        """
        found = database.arrays(
            "reading features", f"select file_row_number as row, {self.numbers} from {rows}"
        )
        order = np.argsort(found.pop("row"), kind="stable")
        return np.stack([_floats(x, np.nan)[order] for x in found.values()], axis=1)

    def missing(self, database: Database, may_miss: Collection[str]) -> dict[str, int]:
        """In how many rows each feature is missing.

        Raises where one is that is not in `may_miss`, and where a feature is not a finite number.
        """
        n = _number_of(database, self.sql)
        if not n:
            raise LogError(f"{self.name} has no rows")
        found = {}
        for name in self.features:
            column, number = name_sql(self.physical[name]), f"({self.number(name)})"
            word = f"lower(trim({column}::varchar)) in ({', '.join(map(text_sql, MISSING))})"
            lost = f"{number} is null and ({column} is null or {word})"
            wrong = f"{number} is null and {column} is not null and not {word}"
            counted = f"select count(*) filter ({lost}), count(*) filter ({wrong}) from {self.sql}"
            found[name], bad = database.rows(f"reading {name}", counted)[0]
            if bad:
                place, value = self._first(database, column, wrong)
                raise LogError(
                    f"feature {name!r} is {value[:60]!r}, not a finite number, in {place} ({bad:,}"
                    f" such rows of {n:,}): correct it, leave these rows out, or leave the feature"
                    " out"
                )
            if found[name] and name not in may_miss:
                place, value = self._first(database, column, lost)
                shown = f" ({value!r})" if value else ""
                raise LogError(
                    f"feature {name!r} is missing{shown} in {place} ({found[name]:,} such rows of"
                    f" {n:,}): fill it in, leave these rows out, leave the feature out, or give"
                    " such rows a bin of their own with --missing bin when the encoder is made"
                    " (--missing last: the last value of the episode where there is one)"
                )
        return found

    def _first(self, database: Database, column: str, where: str) -> tuple[str, str]:
        """(the place of the first such row, what stands there)."""
        shown = (
            f"select filename, file_row_number, {column}::varchar from {self.sql} where {where}"
            " order by 1, 2 limit 1"
        )
        file, row, value = database.rows("reading features", shown)[0]
        given = dict(zip(self.stored, self.files, strict=True)).get(file, file)
        return f"row {row + 1} of {given}", value or ""

    def mixing(self, database: Database, roles: Mapping[str, str]) -> Mixing:
        """sum_s n_s var_s / (n var), of rewards and of the features of the next row.

        The states are in the table `codes`; rows follow each other in the order of time where there
        is one, else in that of the files.
        """
        names = ["r", *(f"y{i}" for i in range(len(self.features)))]
        following = ", ".join(f"lead(x{i}) over w as y{i}" for i in range(len(self.features)))
        chosen = ", ".join(
            f"count({x}) as n_{x}, avg({x}) as mean_{x}, var_pop({x}) as var_{x}" for x in names
        )
        found = database.arrays(
            "looking at how states mix",
            f"select {chosen} from (select code, r, {following} from (select code,"
            f" {self._episode(roles)} as e, {self._place(roles)} as place,"
            f" {self.number(roles['reward'])} as r, {self.numbers} from {self.sql} positional join"
            " codes) window w as (partition by e order by place)) group by code",
        )
        reward, *successor = (
            _within(*(found[f"{part}_{x}"] for part in ("n", "mean", "var"))) for x in names
        )
        return Mixing(reward, tuple(successor))


def _within(*columns: np.ndarray) -> float | None:
    """The share of the variance within groups of n rows with these means and variances."""
    n, mean, variance = (_floats(x, 0.0) for x in columns)
    if not n.sum():
        return None
    grand = float((n * mean).sum() / n.sum())
    within, between = float((n * variance).sum()), float((n * (mean - grand) ** 2).sum())
    total = within + between
    return within / total if total > 1e-24 * max(1.0, grand**2) * n.sum() else None


def _floats(x: np.ndarray, missing: float) -> np.ndarray:
    return np.asarray(np.ma.filled(np.ma.asarray(x, dtype=float), missing))


def _number_of(database: Database, rows: str) -> int:
    return int(database.rows("counting rows", f"select count(*) from {rows}")[0][0])


def open_rows(
    source: Any,
    features: tuple[str, ...],
    database: Database,
    workspace: Workspace,
    delimiter: str = "",
    encoding: str = "utf-8",
    decimal: str = ".",
) -> RawRows:
    """The rows of a log."""
    check_name("decimal", decimal, (".", ","))
    found = as_utf8(find_source(source), encoding, workspace.path)
    if found.kind == "csv":
        rows = _from_text(found, features, database, workspace, single(delimiter))
        return replace(rows, decimal=decimal)
    if found.kind == "table":
        target = str(workspace.path / "rows.parquet")
        with database.table("given", found.table):
            write_parquet(database, "reading the table", "from given", target)
        found = replace(found, files=(target,))
    packed = [file for file in found.files if file.lower().endswith(".gz")]
    if packed:
        raise ParameterError(f"{packed[0]}: unpack it first; Parquet is compressed by itself")
    described = columns_of(database, f"reading {found.name}", parquet_sql(found.files))
    names = tuple(name for name, _ in described if name not in PLACE)
    return RawRows(
        name=found.name,
        files=() if found.kind == "table" else found.files,
        stored=found.files,
        names=names,
        physical={name: name for name in names},
        features=features,
    )


def _from_text(
    found: Source,
    features: tuple[str, ...],
    database: Database,
    workspace: Workspace,
    delimiter: str,
) -> RawRows:
    """Text, written out once; every field stays the text it is."""
    delimiter, names = header_of(found.files[0], delimiter, found.titles[0])
    for file in found.files[1:]:
        if header_of(file, delimiter) != (delimiter, names):
            raise LogError(
                f"all files of a log have the same header, but those of {found.files[0]} and {file}"
                " differ"
            )
    targets = {
        file: str(workspace.path / f"rows-{i:06d}.parquet") for i, file in enumerate(found.files)
    }
    rows = RawRows(
        name=found.name,
        files=found.files,
        stored=tuple(targets.values()),
        names=tuple(names),
        physical={name: f"c{i}" for i, name in enumerate(names)},
        features=features,
        text=True,
    )
    for file, target in targets.items():
        write_text(database, file, f"from {read_text(file, delimiter, len(names))}", target)
    return rows
