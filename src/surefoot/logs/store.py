"""Store: CSV, Parquet and tables as rows of a log: where they come from (files, a folder, a
pattern, memory), whether files are what they say; text and tables are parsed once, into Parquet.
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import os
import re
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.array_checks import TABLES
from surefoot.core.atomic import settle
from surefoot.core.errors import LogError, option
from surefoot.core.labels import nearest
from surefoot.logs.accounting import REASONS
from surefoot.logs.column_roles import Column, Columns, find_columns
from surefoot.logs.database import (
    NO_ROOM,
    Database,
    first_line,
    is_relation,
    name_sql,
    parquet_sql,
    path_sql,
    remedy,
    text_sql,
)
from surefoot.logs.rollouts import (
    FILES,
    arrays_of,
    dataset_columns,
    episode_columns,
    is_dataset,
    plain,
)

ColumnOptions = dict[str, Column]
BLOCK = 1 << 23  # a line that holds a whole block of so many bytes is no row
PLACE = ("source_file", "source_row")  # where the rows of a store written out anew came from

TEXT, PARQUET = ("csv", "tsv", "txt"), ("parquet", "pq")
NAME_IT = (
    "name its encoding, such as --encoding latin-1 (encoding='latin-1', 'cp1252' or 'utf-16' in"
    " Python), or convert the file to UTF-8"
)
ENDINGS = (
    ", ".join(f".{ending}" for ending in (*TEXT, *PARQUET)) + ", each also with .gz,"
    f" {', '.join(FILES)}"
)


@dataclass(frozen=True)
class Source:
    """`kind` is "csv", "parquet" or "table" (in memory, or the arrays of a file); files are sorted
    by name, and `titles` is how the user knows them, where they are copies.
    """

    kind: str
    files: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    table: Any = None

    @property
    def name(self) -> str:
        """The source in words."""
        if not self.titles:
            return "the table"
        others = f" (and {len(self.files) - 1} more)" if len(self.files) > 1 else ""
        return self.titles[0] + others


def _column(values: Any) -> Any:
    """A list as an array, which DuckDB reads; values of several types stay what they are."""
    if not isinstance(values, (list, tuple)):
        return values
    same = len({type(x) for x in values}) == 1 and isinstance(values[0], (str, int, float))
    return np.array(values, dtype=None if same else object)


def _table(source: Mapping[str, Any]) -> dict[str, Any]:
    """Named columns, or named arrays of a dataset, as columns."""
    arrays = source if isinstance(source, dict) else plain(source)
    if is_dataset(arrays):
        return dict(dataset_columns(arrays))
    return {name: _column(x) for name, x in arrays.items()}


def _arrow(source: Any) -> Any:
    """Whatever hands out an Arrow stream, as a table that DuckDB reads."""
    try:
        pyarrow = import_module("pyarrow")
    except ImportError as error:
        raise LogError(
            f"a {type(source).__name__} hands out Arrow data, which needs pyarrow: pip install"
            " pyarrow"
        ) from error
    try:
        return pyarrow.table(source)
    except Exception as error:  # of many kinds, among them those of the library that hands it out
        raise LogError(f"the table cannot be read: {first_line(error)}") from error


def find_source(source: Any) -> Source:
    """The files or the table meant by `source`, looked at from outside."""
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        files = _files(os.fspath(source))
    elif (
        isinstance(source, (list, tuple))
        and source
        and all(isinstance(x, (str, os.PathLike)) for x in source)
    ):
        files = [file for x in source for file in _files(os.fspath(x))]
    elif isinstance(source, Mapping) and source:
        return Source("table", table=_table(source))
    elif hasattr(source, "iterate_episodes") or hasattr(source, "episodes"):
        return Source("table", table=episode_columns(source))
    elif type(source).__module__.partition(".")[0] in TABLES or is_relation(source):
        return Source("table", table=source)
    elif hasattr(source, "__arrow_c_stream__"):
        return Source("table", table=_arrow(source))
    else:
        raise LogError(
            "a log is a file, a folder, a pattern, a list of them, or a pandas, polars or Arrow"
            " table, a DuckDB relation, arrays by name, or a dataset of episodes as Minari and"
            f" d3rlpy have them; got {type(source).__name__}"
        )
    files = sorted(files)
    arrays = [file for file in files if file.lower().endswith(FILES)]
    if arrays and len(files) > 1:
        raise LogError(f"{arrays[0]} holds a whole log: give it alone, not with other files")
    if arrays:
        return Source("table", titles=(files[0],), table=_table(arrays_of(files[0])))
    real = [os.path.realpath(file) for file in files]
    if len(set(real)) < len(real):
        twice = next(file for file, path in zip(files, real, strict=True) if real.count(path) > 1)
        raise LogError(f"a file is named twice ({twice}): its rows would count twice")
    kinds = {file: _kind(file) for file in files}
    if len(set(kinds.values())) > 1:
        one = {kind: file for file, kind in kinds.items()}
        raise LogError(
            f"one log is of one kind, but {one['csv']} is text and {one['parquet']} is Parquet:"
            " read them one after the other"
        )
    return Source(kinds[files[0]], tuple(files), tuple(files))


def as_utf8(source: Source, encoding: str, folder: Path) -> Source:
    """The source with its text as UTF-8, of which copies are made in the folder where it is not."""
    if source.kind != "csv" or checked_encoding(encoding) == "utf-8":
        return source
    copies = []
    for number, file in enumerate(source.files):
        target = folder / f"decoded-{number:06d}.csv"
        opened = gzip.open if file.lower().endswith(".gz") else open
        try:
            with (
                opened(file, "rt", encoding=encoding, newline="") as text,
                open(target, "w", encoding="utf-8", newline="") as out,
            ):
                shutil.copyfileobj(text, out, 1 << 20)
        except UnicodeError as error:
            raise LogError(f"{file} is not {encoding} text ({error}): {NAME_IT}") from error
        except (OSError, EOFError, zlib.error) as error:
            raise LogError(f"{file} cannot be read: {error}{remedy(error)}") from error
        copies.append(str(target))
    return replace(source, files=tuple(copies))


def encode(file: Path, title: Path, encoding: str, folder: Path) -> None:
    """Give a file of UTF-8 text, which will be called `title`, this encoding, by a copy of it in
    the folder.
    """
    if checked_encoding(encoding) == "utf-8":
        return
    copy = folder / "as-utf-8"
    opened = gzip.open if title.name.lower().endswith(".gz") else open
    shutil.copyfile(file, copy)  # the file itself stays, and with it its lock
    try:
        with (
            opened(copy, "rt", encoding="utf-8", newline="") as text,
            opened(file, "wt", encoding=encoding, newline="") as out,
        ):
            shutil.copyfileobj(text, out, 1 << 20)
    except UnicodeError as error:
        raise LogError(
            f"{title} cannot be written as {encoding} ({error}): write a .parquet file, or rename"
            " what has other letters"
        ) from error
    copy.unlink()


def checked_encoding(encoding: str) -> str:
    """The name that Python has for an encoding."""
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError) as error:
        raise LogError(
            f"no encoding is called {encoding!r}; there are utf-8, utf-16, latin-1, cp1252 and"
            " others"
        ) from error


def single(delimiter: str) -> str:
    """A delimiter as one character; "tab" is one too."""
    words = {"tab": "\t", "\\t": "\t"}
    found = words.get(delimiter, delimiter) if isinstance(delimiter, str) else "??"
    if len(found) > 1 or found in ('"', "\n", "\r"):
        raise LogError(f"delimiter must be one character, such as ';' or 'tab', got {delimiter!r}")
    return found


def _files(text: str) -> list[str]:
    """The files meant by one path or pattern."""
    if "\0" in text or not text:
        raise LogError(f"{text!r} is no file name")
    if os.path.isdir(text):
        inside = (Path(root) / name for root, _, names in os.walk(text) for name in names)
        found = [
            str(p) for p in inside if _ending(p.name) in (*TEXT, *PARQUET) and p.name[0] not in "._"
        ]
        if not found:
            raise LogError(f"the folder {text} holds no log: files end in {ENDINGS}")
        return found
    if not os.path.exists(text):
        settle(os.path.dirname(text) or ".")
    if os.path.isfile(text):
        return [text]
    matching = glob.glob(text, recursive=True) if glob.has_magic(text) else []
    found = [file for file in matching if os.path.isfile(file)]
    if not found:
        folder = os.path.dirname(text) or "."
        there = os.listdir(folder) if os.path.isdir(folder) else []
        hint = f"the folder {folder} does not exist or is empty"
        if there:
            hint = nearest(os.path.basename(text), there)
        raise LogError(f"there is no file {text}: {hint}")
    return found


def _ending(name: str) -> str:
    """The ending of a file name without its dot and without .gz."""
    return name.lower().removesuffix(".gz").rpartition(".")[2]


def _kind(file: str) -> str:
    """What a file is, by its ending; its first bytes must agree."""
    ending, zipped = _ending(os.path.basename(file)), file.lower().endswith(".gz")
    if ending not in (*TEXT, *PARQUET):
        raise LogError(f"{file} ends in .{ending}: a log ends in {ENDINGS}")
    try:
        with open(file, "rb") as raw:
            start = raw.read(4)
        if not start:
            raise LogError(f"{file} is empty: a log has at least a header and one row")
        if (start[:2] == b"\x1f\x8b") != zipped:
            raise LogError(
                f"{file} is {'not ' if zipped else ''}compressed by gzip, against its ending:"
                " rename it"
            )
        if zipped:
            with gzip.open(file, "rb") as packed:
                start = packed.read(4)
    except (OSError, EOFError, zlib.error) as error:
        raise LogError(f"{file} cannot be read: {error}") from error
    if ending in PARQUET and start != b"PAR1":
        raise LogError(
            f"{file} ends in .{ending} but is no Parquet file (its first bytes are {start!r}):"
            " rename or export it again"
        )
    if ending in TEXT and (start == b"PAR1" or start[:2] == b"PK" or start[:2] == b"\x1f\x8b"):
        what = "Parquet" if start == b"PAR1" else "compressed"
        raise LogError(
            f"{file} ends in .{ending} but is {what}, not text: rename or export it again"
        )
    return "parquet" if ending in PARQUET else "csv"


@dataclass(frozen=True, kw_only=True)
class Store:
    """Parquet files with the columns of every role.

    names      {file: how the user knows it}, of the files as they came
    columns    the user's names of the columns
    inside     {our name: the name in the files}; ours are state_0, state_1, ...
    types      {our name: the DuckDB type}
    broken     lines of text that could not be split into columns and were dropped
    anew       whether the rows were written out anew, with PLACE beside them
    """

    files: tuple[str, ...]
    names: dict[str, str]
    columns: Columns
    inside: dict[str, str]
    types: dict[str, str]
    broken: int = 0
    anew: bool = False

    def of(self, role: str) -> tuple[str, ...]:
        """Our names for the columns of a role."""
        return tuple(x for x in self.inside if x.rpartition("_")[0] == role)

    @property
    def sql(self) -> str:
        """The rows as a FROM clause."""
        chosen = [f"{name_sql(inside)} as {x}" for x, inside in self.inside.items()]
        places = (*(PLACE if self.anew else ()), "filename", "file_row_number")
        listed = ", ".join((*chosen, *places))
        return f"(select {listed} from {parquet_sql(self.files)})"

    @property
    def place(self) -> tuple[str, str]:
        """(file, row number from 0) of a row in the log as it came."""
        return PLACE if self.anew else ("filename", "file_row_number")


def open_store(
    source: Source, options: ColumnOptions, delimiter: str, database: Database, *, drop_broken: bool
) -> Store:
    """The store of a source."""
    if source.kind == "table":
        store = _from_table(source, options, database)
    elif source.kind == "csv":
        store = _from_text(source, options, delimiter, database, drop_broken)
    else:
        store = _from_parquet(source, options, database)
    rows = int(database.rows("counting the rows", f"select count(*) from {store.sql}")[0][0])
    if rows + store.broken == 0:
        raise LogError(f"{source.name} has no rows: a log has one row a step")
    return store


def _from_parquet(source: Source, options: ColumnOptions, database: Database) -> Store:
    """Parquet files are read where they are; only a file.parquet.gz is unpacked first."""
    names, described = {}, {}
    for i, name in enumerate(source.files):
        file = name
        if name.lower().endswith(".gz"):
            file = str(database.folder / f"unpacked-{i:06d}.parquet")
            try:
                with gzip.open(name, "rb") as packed, open(file, "wb") as plain:
                    shutil.copyfileobj(packed, plain)
            except (OSError, EOFError, zlib.error) as error:
                raise LogError(f"{name} cannot be unpacked: {error}{remedy(error)}") from error
        names[file] = name
        rows = f"read_parquet({path_sql(file)}, hive_partitioning = false)"
        described[name] = dict(columns_of(database, f"reading {name}", rows))
    first = source.files[0]
    columns = find_columns(list(described[first]), first, **options)
    inside = columns.ours()
    types = {ours: described[first][name] for ours, name in inside.items()}
    for file, found in described.items():
        for ours, name in inside.items():
            if found.get(name) != types[ours]:
                raise LogError(
                    f"all files of a log have the same columns, but {name!r} is {types[ours]} in"
                    f" {first} and {found.get(name, 'missing')} in {file}"
                )
    return Store(files=tuple(names), names=names, columns=columns, inside=inside, types=types)


def columns_of(database: Database, what: str, rows: str) -> list[tuple[str, str]]:
    """(column, type) of a FROM clause."""
    found = database.rows(what, f"describe select * from {rows}")
    return [(str(name), str(kind)) for name, kind, *_ in found]


def _from_table(source: Source, options: ColumnOptions, database: Database) -> Store:
    """A table in memory, written out once."""
    what, target = "reading the table", str(database.folder / "table.parquet")
    with database.table("given_table", source.table):
        names = [name for name, _ in columns_of(database, what, "given_table")]
        columns = find_columns(names, source.name, **options)
        chosen = ", ".join(f"{name_sql(name)} as {ours}" for ours, name in columns.ours().items())
        write_parquet(database, what, f"select {chosen} from given_table", target)
    rows = f"read_parquet({path_sql(target)}, hive_partitioning = false)"
    types = dict(columns_of(database, what, rows))
    return Store(
        files=(target,),
        names={target: source.name},
        columns=columns,
        inside={ours: ours for ours in types},
        types=types,
    )


def _from_text(
    source: Source, options: ColumnOptions, delimiter: str, database: Database, drop_broken: bool
) -> Store:
    """Text, parsed once: every field is text, an empty one (quoted or not) is missing."""
    delimiter, names = _common_header(source, delimiter)
    columns = find_columns(names, source.titles[0], **options)
    ours = columns.ours()
    twice = [name for name in ours.values() if names.count(name) > 1]
    if twice:
        raise LogError(
            f"{source.titles[0]} has {names.count(twice[0])} columns named {twice[0]!r}: rename"
            " them"
        )
    chosen = ", ".join(f"c{names.index(name)} as {x}" for x, name in ours.items())
    files: dict[str, str] = {}
    for number, (file, title) in enumerate(zip(source.files, source.titles, strict=True)):
        target = str(database.folder / f"text-{number:06d}.parquet")
        rows = read_text(file, delimiter, len(names), drop_broken=drop_broken)
        write_text(database, title, f"select {chosen} from {rows}", target)
        files[target] = title
    broken = "select count(distinct (scan_id, file_id, line)) from reject_errors"
    return Store(
        files=tuple(files),
        names=files,
        columns=columns,
        inside={x: x for x in ours},
        types=dict.fromkeys(ours, "VARCHAR"),
        broken=int(database.rows("counting broken rows", broken)[0][0]) if drop_broken else 0,
    )


def _common_header(source: Source, delimiter: str) -> tuple[str, list[str]]:
    """(the delimiter, the names of the columns), the same in all text files."""
    first, *others = (
        header_of(file, delimiter, title)
        for file, title in zip(source.files, source.titles, strict=True)
    )
    for title, header in zip(source.titles[1:], others, strict=True):
        if header != first:
            missing = [x for x in first[1] if x not in header[1]]
            extra = [x for x in header[1] if x not in first[1]]
            difference = "the order or the delimiter is not the same"
            if missing or extra:
                difference = f"missing {missing[:3]}, extra {extra[:3]}"
            raise LogError(
                f"all files of a log have the same header, but those of {source.titles[0]} and"
                f" {title} differ: {difference}"
            )
    return first


def read_text(file: str, delimiter: str, n_columns: int, *, drop_broken: bool = False) -> str:
    """The rows of a text file as a FROM clause: columns c0, c1, ... of text."""
    shape = ", ".join(f"c{i}: 'VARCHAR'" for i in range(n_columns))
    packed = "gzip" if file.lower().endswith(".gz") else "none"
    rejects = ", store_rejects = true, rejects_limit = 0" if drop_broken else ""
    return (
        f"read_csv([{path_sql(file)}], auto_detect = false, header = true, delim ="
        f" {text_sql(delimiter)}, quote = '\"', escape = '\"', columns = {{{shape}}}, compression ="
        f" '{packed}'{rejects})"
    )


def write_text(database: Database, file: str, query: str, target: str) -> None:
    """Write the rows of a query over a text file to a Parquet file."""
    try:
        write_parquet(database, f"reading {file}", query, target)
    except LogError as error:
        raise LogError(text_trouble(file, str(error))) from error


def write_parquet(database: Database, what: str, query: str, target: str) -> None:
    """Write the rows of a query to a Parquet file."""
    database.run(what, f"copy ({query}) to {text_sql(target)} (format parquet, compression lz4)")


def text_trouble(file: str, message: str) -> str:
    """What DuckDB says about a broken text file, in our words."""
    if NO_ROOM in message:
        return message
    line = re.search(r"CSV Error on Line: (\d+)", message)
    where = f"line {line[1]} of {file}" if line else file
    drop = f"{option('drop_bad_rows', 'broken-row')} leaves such rows out"
    found = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if found:
        return (
            f"{where} has {found[2]} fields where the header has {found[1]}: mend the file, or"
            f" {drop}"
        )
    if "unicode" in message.lower() or "utf" in message.lower():
        return f"{where} is not UTF-8 text: {NAME_IT}, or {drop}"
    if "unterminated quote" in message:
        return f"{where} has a quote that is not closed: mend the file, or {drop}"
    return (
        f"{where} cannot be read as text with columns ({REASONS['broken-row']}): {message[-300:]}"
    )


def header_of(file: str, delimiter: str = "", title: str = "") -> tuple[str, list[str]]:
    """(delimiter, column names) of a text file: the delimiter given, or that among , ; tab |
    which its first line has most of. What DuckDB would pass over in the rest of it is an error.
    """
    title = title or file
    try:
        with gzip.open(file, "rb") if file.lower().endswith(".gz") else open(file, "rb") as raw:
            line = re.split("\r|\n", raw.readline(10_000_000).decode("utf-8-sig"), maxsplit=1)[0]
            _check_rest(raw, title)
    except UnicodeDecodeError as error:
        raise LogError(
            f"{title} is not UTF-8 text ({error.reason} at byte {error.start}): {NAME_IT}"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
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


def _check_rest(raw: Any, title: str) -> None:
    """Raise on what DuckDB passes over: a line that is longer than its buffers is dropped; length
    and checksum of a file packed by gzip, which Python checks at its end, are not looked at.
    """
    packed = isinstance(raw, gzip.GzipFile)
    while start := raw.read(1 << 16):
        ends = b"\n" in start or b"\r" in start
        if ends and not packed:
            raw.seek(BLOCK - len(start), os.SEEK_CUR)
            continue
        rest = raw.read(BLOCK - len(start))
        if not ends and len(start) + len(rest) == BLOCK and not re.search(b"\n|\r", rest):
            raise LogError(
                f"{title} has a line of more than {BLOCK / 1e6:.0f} MB, too long for one row:"
                " mend the file"
            )


def sorted_store(store: Store, database: Database, keys: str) -> Store:
    """The same rows written out in the order of `keys`, with where they came from."""
    target = str(database.folder / "ordered.parquet")
    chosen = ", ".join(store.inside)
    file, row = store.place
    query = f"""select {chosen}, {file} as source_file, {row} as source_row
                from {store.sql} order by {keys}"""
    write_parquet(database, "putting the rows in order", query, target)
    return rewritten(store, target, {})


def rewritten(store: Store, target: str, types: dict[str, str]) -> Store:
    """A store written out anew, with PLACE and more columns of these types."""
    types = store.types | types
    return replace(store, files=(target,), inside={x: x for x in types}, types=types, anew=True)
