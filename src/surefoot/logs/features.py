"""The rows of a log as they came, with all columns, and the features among them as numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from surefoot.core.errors import LogError, ParameterError, option
from surefoot.core.labels import nearest
from surefoot.core.parameters import check_name
from surefoot.logs.database import Database, Workspace, name_sql, parquet_sql, text_sql
from surefoot.logs.query import number_sql, strptime, time_of_text, time_type_of
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
CARRIED = "surefoot carried"  # what columns are called that are written beside those of the log
CARRIED_PLACE = (f"{CARRIED} file", f"{CARRIED} row")


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

    files      those of the user; `titles` {stored file: which of them it holds}
    stored     the Parquet files that hold the rows in order
    names      of the columns; `physical` the name of each in `stored`
    features   the columns that make the state
    types      {name: the DuckDB type}
    decimal, delimiter, encoding   of the text that it was (`is_text`), and that is made of it
    time_type  of a time that is text, as `Reading` has it
    carried    {feature: the column that holds it where it is carried forward}
    place      what says where a row lies in `stored`; of carried rows, in what they were made from
    """

    name: str
    files: tuple[str, ...]
    titles: Mapping[str, str]
    stored: tuple[str, ...]
    names: tuple[str, ...]
    physical: Mapping[str, str]
    features: tuple[str, ...]
    types: Mapping[str, str]
    decimal: str = "."
    delimiter: str = ","
    encoding: str = "utf-8"
    is_text: bool = False
    time_type: str = ""
    carried: Mapping[str, str] = field(default_factory=dict)
    place: tuple[str, str] = PLACE

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
            return name_sql(self.carried[name])
        column = name_sql(self.physical[name])
        text = self.types[name] == "VARCHAR"
        number = number_sql(column, self.decimal) if text else f"try_cast({column} as double)"
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
        self._check_times(database, roles)
        target = str(workspace.path / "carried.parquet")
        carried = {name: f"{CARRIED} {i}" for i, name in enumerate(self.features)}
        last = ", ".join(
            f"last_value({self.number(name)} ignore nulls) over w as {name_sql(column)}"
            for name, column in carried.items()
        )
        place = ", ".join(
            f"{x} as {name_sql(y)}" for x, y in zip(PLACE, CARRIED_PLACE, strict=True)
        )
        write_parquet(
            database,
            "carrying measurements forward",
            f"select * exclude ({', '.join(PLACE)}), {place}, {last} from {self.sql} window w as"
            f" (partition by {self._episode(roles)} order by {self._place(roles)} rows between"
            f" unbounded preceding and current row) order by {', '.join(PLACE)}",
            target,
        )
        return replace(self, stored=(target,), carried=carried, place=CARRIED_PLACE)

    def _check_times(self, database: Database, roles: Mapping[str, str]) -> None:
        """Raise where a time cannot be read: nobody knows what was measured before it."""
        if "time" not in roles:
            return
        column, time = name_sql(self.physical[roles["time"]]), self._time(roles)
        lost = f"({column} is null or {time} is null)"
        what = "looking at the time column"
        (n,) = database.rows(what, f"select count(*) from {self.sql} where {lost}")[0]
        if n:
            place, value = self._first(database, column, lost)
            raise LogError(
                f"the time {value!r} in {place} cannot be read ({n:,} such rows), so nobody can say"
                " which measurement was the last: mend it, or say how dates are written with"
                f" {option('date_format', 'dd/mm/yyyy')}"
            )

    def _episode(self, roles: Mapping[str, str]) -> str:
        """What tells episodes apart, in SQL."""
        named = [name_sql(self.physical[name]) for name in roles["episode"].split(",") if name]
        return f"hash({', '.join(named)})" if named else "0"

    def _time(self, roles: Mapping[str, str]) -> str:
        """The time of a row, in SQL."""
        name = roles["time"]
        column = name_sql(self.physical[name])
        text = self.types[name] == "VARCHAR"
        return time_of_text(column, self.time_type, self.decimal) if text else column

    def _place(self, roles: Mapping[str, str]) -> str:
        """The place of a row in its episode, in SQL."""
        order = f"c := {', d := '.join(map(name_sql, self.place))}"
        if "time" in roles:
            text = name_sql(self.physical[roles["time"]])
            order = f"a := {self._time(roles)}, b := {text}, {order}"
        return f"struct_pack({order})"

    def timed(self, database: Database, roles: Mapping[str, str], date_format: str) -> RawRows:
        """The rows with the type of a time that is text."""
        strptime(date_format)
        if "time" not in roles or self.types[roles["time"]] != "VARCHAR":
            return self
        column = name_sql(self.physical[roles["time"]])
        found = time_type_of(database, self.sql, column, self.decimal, date_format)
        return replace(self, time_type=found)

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
        place = ", ".join(map(name_sql, self.place))
        shown = (
            f"select {place}, {column}::varchar from {self.sql} where {where} order by 1, 2 limit 1"
        )
        file, row, value = database.rows("reading features", shown)[0]
        return f"row {row + 1} of {self.titles.get(file, self.name)}", value or ""

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
    else:
        rows = _from_tables(found, features, database, workspace)
    return replace(rows, decimal=decimal, encoding=encoding if found.kind == "csv" else "utf-8")


def _from_tables(
    found: Source, features: tuple[str, ...], database: Database, workspace: Workspace
) -> RawRows:
    """Parquet files where they are; a table in memory is written out once."""
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
        files=found.titles,
        titles={} if found.kind == "table" else dict(zip(found.files, found.files, strict=True)),
        stored=found.files,
        names=names,
        physical={name: name for name in names},
        features=features,
        types={name: kind for name, kind in described if name in names},
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
    for file, title in zip(found.files[1:], found.titles[1:], strict=True):
        if header_of(file, delimiter, title) != (delimiter, names):
            raise LogError(
                f"all files of a log have the same header, but those of {found.titles[0]} and"
                f" {title} differ"
            )
    targets = {
        file: str(workspace.path / f"rows-{i:06d}.parquet") for i, file in enumerate(found.files)
    }
    rows = RawRows(
        name=found.name,
        files=found.titles,
        titles=dict(zip(targets.values(), found.titles, strict=True)),
        stored=tuple(targets.values()),
        names=tuple(names),
        physical={name: f"c{i}" for i, name in enumerate(names)},
        features=features,
        types=dict.fromkeys(names, "VARCHAR"),
        delimiter=delimiter,
        is_text=True,
    )
    for file, target in targets.items():
        title = rows.titles[target]
        write_text(database, title, f"from {read_text(file, delimiter, len(names))}", target)
    return rows
