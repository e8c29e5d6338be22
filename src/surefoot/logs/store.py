"""Store: the rows of a log as Parquet files, whatever they came as; text and tables are written
out once.
"""

from __future__ import annotations

import csv
import gzip
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.errors import LogError
from surefoot.logs.accounting import REASONS
from surefoot.logs.columns import NONE, Columns, find_columns
from surefoot.logs.database import (
    Database,
    Workspace,
    first_line,
    name_sql,
    parquet_sql,
    path_sql,
    text_sql,
)
from surefoot.logs.sources import NAME_IT, Source

Options = dict[str, str | Iterable[str] | None]


@dataclass(frozen=True)
class Store:
    """Parquet files with the columns of every role; `names` says how the user knows each file, for
    messages.

    `columns` are the user's column names, `physical` the names in the Parquet files, `types` their
    DuckDB types. `rows` counts all rows, `broken` those that could not be split into columns and
    were dropped. `direct` is a FROM clause of the rows where they are not all rows of the files:
    some of them, or text in `source` that is not written out.
    """

    files: tuple[str, ...]
    names: dict[str, str]
    columns: Columns
    physical: Columns
    types: dict[str, str]
    rows: int
    broken: int = 0
    direct: str = ""
    source: Source | None = None

    @property
    def sql(self) -> str:
        """The rows as a FROM clause."""
        return self.direct or parquet_sql(self.files)

    @property
    def place_sql(self) -> str:
        """(file, row number from 0) of a row in the log as it came."""
        return (
            "source_file, source_row" if "source_row" in self.types else "filename, file_row_number"
        )


def open_store(
    source: Source, options: Options, database: Database, workspace: Workspace, *, drop_broken: bool
) -> Store:
    """The store of a source."""
    if source.kind == "table":
        store = _from_table(source, options, database, workspace)
    elif source.kind == "csv":
        store = _from_text(source, options, database, workspace, drop_broken)
    else:
        store = _from_parquet(source, options, database, workspace)
    rows = int(database.rows("counting the rows", f"select count(*) from {store.sql}")[0][0])
    if rows + store.broken == 0:
        raise LogError(f"{source.name} has no rows: a log has one row a step")
    return replace(store, rows=rows + store.broken)


def _from_parquet(
    source: Source, options: Options, database: Database, workspace: Workspace
) -> Store:
    """Parquet files are read where they are; only a file.parquet.gz is unpacked first."""
    files = tuple(
        _unpacked(x, i, workspace) if x.lower().endswith(".gz") else x
        for i, x in enumerate(source.files)
    )
    described = [
        _described(database, file, name) for file, name in zip(files, source.files, strict=True)
    ]
    columns = find_columns(list(described[0]), source.files[0], **options)
    used = [name for names in columns.roles().values() for name in names]
    for name, types in zip(source.files, described, strict=True):
        for column in used:
            if types.get(column) != described[0][column]:
                raise LogError(
                    f"all files of a log have the same columns, but {column!r} is"
                    f" {described[0][column]} in {source.files[0]} and"
                    f" {types.get(column, 'missing')} in {name}"
                )
    return Store(
        files, dict(zip(files, source.files, strict=True)), columns, columns, described[0], 0
    )


def _described(database: Database, file: str, name: str) -> dict[str, str]:
    """{column: type} of a Parquet file."""
    found = database.rows(
        f"reading {name}",
        f"describe select * from read_parquet({path_sql(file)}, hive_partitioning = false)",
    )
    return {str(row[0]): str(row[1]) for row in found}


def _unpacked(file: str, number: int, workspace: Workspace) -> str:
    target = workspace.path / f"unpacked-{number:06d}.parquet"
    try:
        with gzip.open(file, "rb") as packed, open(target, "wb") as plain:
            shutil.copyfileobj(packed, plain)
    except (OSError, EOFError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise LogError(f"{file} cannot be unpacked: {error}") from error
    return str(target)


def _from_table(
    source: Source, options: Options, database: Database, workspace: Workspace
) -> Store:
    """A table in memory, written out once."""
    try:
        database.connection.register("given_table", source.table)
    except (
        Exception
    ) as error:  # DuckDB raises many kinds here, among them those of the table's own library
        raise LogError(f"the table cannot be read: {first_line(error)}") from error
    names = [
        str(row[0])
        for row in database.rows("reading the table", "describe select * from given_table")
    ]
    columns = find_columns(names, source.name, **options)
    physical = _physical(columns)
    pairs = _pairs(columns, physical)
    chosen = ", ".join(f"{name_sql(name)} as {name_sql(to)}" for name, to in pairs)
    target = str(workspace.path / "table.parquet")
    _write(database, "reading the table", f"select {chosen} from given_table", target)
    database.connection.unregister("given_table")
    return Store(
        (target,),
        {target: "the table"},
        columns,
        physical,
        _described(database, target, "the table"),
        0,
    )


def _from_text(
    source: Source, options: Options, database: Database, workspace: Workspace, drop_broken: bool
) -> Store:
    """Text, written out once: every field is text, an empty one (quoted or not) is missing."""
    columns, physical, delimiter, names = _text_columns(source, options)
    files = []
    for number, file in enumerate(source.files):
        target = str(workspace.path / f"text-{number:06d}.parquet")
        read = read_text([file], delimiter, len(names), drop_broken=drop_broken)
        try:
            _write(
                database,
                f"reading {source.titles[number]}",
                f"select {_chosen(columns, physical, names)} from {read}",
                target,
            )
        except LogError as error:
            raise LogError(text_trouble(source.titles[number], str(error))) from error
        files.append(target)
    types = dict.fromkeys((to for _, to in _pairs(columns, physical)), "VARCHAR")
    names_of = dict(zip(files, source.titles, strict=True))
    return Store(
        tuple(files), names_of, columns, physical, types, 0, _broken(database) if drop_broken else 0
    )


def text_as_it_is(source: Source, options: Options) -> Store:
    """Text that is not written out: for one pass that does not need to know where a row is."""
    columns, physical, delimiter, names = _text_columns(source, options)
    read = read_text(source.files, delimiter, len(names))
    types = dict.fromkeys((to for _, to in _pairs(columns, physical)), "VARCHAR")
    direct = (
        f"(select {_chosen(columns, physical, names)}, '' as filename, 0 as file_row_number from"
        f" {read})"
    )
    return Store(source.files, {}, columns, physical, types, 0, direct=direct, source=source)


def written_out(store: Store, database: Database, workspace: Workspace) -> Store:
    """The store as Parquet files: of text that was not written out so far, too."""
    if store.source is None:
        return store
    options: Options = {role: names or NONE for role, names in store.columns.roles().items()}
    return open_store(store.source, options, database, workspace, drop_broken=False)


def _text_columns(source: Source, options: Options) -> tuple[Columns, Columns, str, list[str]]:
    """(the columns, our names for them, the delimiter, all names of the header), the same in all
    files.
    """
    headers = [
        header_of(file, source.delimiter, title)
        for file, title in zip(source.files, source.titles, strict=True)
    ]
    delimiter, names = headers[0]
    for title, header in zip(source.titles, headers, strict=True):
        if header != headers[0]:
            raise LogError(
                f"all files of a log have the same header, but those of {source.titles[0]} and"
                f" {title} differ: {_difference(names, header[1])}"
            )
    columns = find_columns(names, source.titles[0], **options)
    twice = [name for found in columns.roles().values() for name in found if names.count(name) > 1]
    if twice:
        raise LogError(
            f"{source.titles[0]} has {names.count(twice[0])} columns named {twice[0]!r}: rename"
            " them"
        )
    return columns, _physical(columns), delimiter, names


def _chosen(columns: Columns, physical: Columns, names: list[str]) -> str:
    """The columns c0, c1, ... of a text file under our names."""
    place = {name: f"c{i}" for i, name in enumerate(names)}
    return ", ".join(f"{place[name]} as {name_sql(to)}" for name, to in _pairs(columns, physical))


def read_text(
    files: Sequence[str], delimiter: str, n_columns: int, *, drop_broken: bool = False
) -> str:
    """The rows of text files as a FROM clause: columns c0, c1, ... of text."""
    shape = ", ".join(f"c{i}: 'VARCHAR'" for i in range(n_columns))
    packed = {"gzip" if file.lower().endswith(".gz") else "none" for file in files}
    rejects = ", store_rejects = true, rejects_limit = 0" if drop_broken else ""
    return (
        f"read_csv([{', '.join(map(path_sql, files))}], auto_detect = false, header = true, delim ="
        f" {text_sql(delimiter)}, quote = '\"', escape = '\"', columns = {{{shape}}}, compression ="
        f" '{packed.pop() if len(packed) == 1 else 'auto'}'{rejects})"
    )


def _write(database: Database, what: str, query: str, target: str) -> None:
    database.run(what, f"copy ({query}) to {text_sql(target)} (format parquet, compression lz4)")


def _broken(database: Database) -> int:
    """How many lines of text could not be split into columns."""
    return int(
        database.rows(
            "counting broken rows",
            "select count(distinct (scan_id, file_id, line)) from reject_errors",
        )[0][0]
    )


def text_trouble(file: str, message: str) -> str:
    """What DuckDB says about a broken text file, in our words."""
    line = re.search(r"CSV Error on Line: (\d+)", message)
    where = f"line {line[1]} of {file}" if line else file
    option = 'drop_bad_rows="broken-row" leaves such rows out'
    found = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if found:
        return (
            f"{where} has {found[2]} fields where the header has {found[1]}: mend the file, or"
            f" {option}"
        )
    if "unicode" in message.lower() or "utf" in message.lower():
        return f"{where} is not UTF-8 text: {NAME_IT}, or {option}"
    if "unterminated quote" in message:
        return f"{where} has a quote that is not closed: mend the file, or {option}"
    return (
        f"{where} cannot be read as text with columns ({REASONS['broken-row']}): {message[-300:]}"
    )


def header_of(file: str, delimiter: str = "", title: str = "") -> tuple[str, list[str]]:
    """(delimiter, column names) of a text file: the delimiter given, or that among , ; tab |
    which its first line has most of.
    """
    title = title or file
    try:
        with gzip.open(file, "rb") if file.lower().endswith(".gz") else open(file, "rb") as raw:
            line = re.split("\r|\n", raw.readline(10_000_000).decode("utf-8-sig"), maxsplit=1)[0]
    except UnicodeDecodeError as error:
        raise LogError(
            f"{title} is not UTF-8 text ({error.reason} at byte {error.start}): {NAME_IT}"
        ) from error
    except (OSError, EOFError, gzip.zlib.error) as error:  # type: ignore[attr-defined]
        raise LogError(f"{title} cannot be read: {error}") from error
    bare = re.sub(r'"[^"]*"', "", line)
    delimiter = delimiter or max(",;\t|", key=bare.count)
    try:
        names = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise LogError(f"the first line of {title} is no header: {error}") from error
    names = [name.strip() for name in names]
    if not any(names):
        raise LogError(f"the first line of {title} is empty: it must name the columns")
    return delimiter, names


def _difference(first: list[str], second: list[str]) -> str:
    missing, extra = [x for x in first if x not in second], [x for x in second if x not in first]
    return (
        f"missing {missing[:3]}, extra {extra[:3]}"
        if missing or extra
        else "the order or the delimiter is not the same"
    )


def _physical(columns: Columns) -> Columns:
    """Names of our own for the columns of each role: those of the user may clash where case does
    not count.
    """
    return Columns(
        **{
            role: tuple(f"{role}_{i}" for i in range(len(names)))
            for role, names in columns.roles().items()
        }
    )


def _pairs(columns: Columns, physical: Columns) -> list[tuple[str, str]]:
    """(the user's name, our name) of every column."""
    return [
        (name, to)
        for role, names in columns.roles().items()
        for name, to in zip(names, getattr(physical, role), strict=True)
    ]


def sorted_store(store: Store, database: Database, workspace: Workspace, keys: str) -> Store:
    """The same rows written out in the order of `keys`, with the columns source_file and
    source_row.
    """
    target = str(Path(workspace.path) / "ordered.parquet")
    used = [name for names in store.physical.roles().values() for name in names]
    chosen = ", ".join(name_sql(name) for name in dict.fromkeys(used))
    query = (
        f"select {chosen}, filename as source_file, file_row_number as source_row from {store.sql}"
        f" order by {keys}"
    )
    _write(database, "putting the rows in order", query, target)
    types = {name: store.types[name] for name in used} | {
        "source_file": "VARCHAR",
        "source_row": "BIGINT",
    }
    return replace(store, files=(target,), types=types)
