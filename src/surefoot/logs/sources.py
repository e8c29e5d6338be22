"""Where a log comes from: files, a folder, a pattern, or a table in memory; and whether files
are what they say.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import os
import shutil
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.array_checks import TABLES
from surefoot.core.atomic import settle
from surefoot.core.errors import LogError
from surefoot.core.labels import nearest

TEXT, PARQUET = ("csv", "tsv", "txt"), ("parquet", "pq")
NAME_IT = (
    "name its encoding, such as --encoding latin-1 (encoding='latin-1', 'cp1252' or 'utf-16' in"
    " Python), or convert the file to UTF-8"
)
ENDINGS = ", ".join(f".{ending}" for ending in (*TEXT, *PARQUET)) + ", each also with .gz"


@dataclass(frozen=True)
class Source:
    """`kind` is "csv", "parquet" or "table"; files are sorted by name, and `titles` is how the user
    knows them, where they are copies.
    """

    kind: str
    files: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    table: Any = None

    @property
    def name(self) -> str:
        """The source in words."""
        if self.kind == "table":
            return "the table"
        others = f" (and {len(self.files) - 1} more)" if len(self.files) > 1 else ""
        return self.titles[0] + others


def _column(values: Any) -> Any:
    """A list as an array, which DuckDB reads; values of several types stay what they are."""
    if not isinstance(values, (list, tuple)):
        return values
    same = len({type(x) for x in values}) == 1 and isinstance(values[0], (str, int, float))
    return np.array(values, dtype=None if same else object)


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
    elif isinstance(source, dict) and source:
        return Source("table", table={name: _column(x) for name, x in source.items()})
    elif type(source).__module__.partition(".")[0] in TABLES:
        return Source("table", table=source)
    else:
        raise LogError(
            "a log is a file, a folder, a pattern, a list of them, or a pandas, polars or Arrow"
            f" table; got {type(source).__name__}"
        )
    files = sorted(files)
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
            raise LogError(f"{file} cannot be read: {error}") from error
        copies.append(str(target))
    return replace(source, files=tuple(copies))


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
