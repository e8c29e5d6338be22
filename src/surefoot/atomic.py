"""Files that are written whole or not at all: a reader sees the old one or the new one, never half.

Each is written beside its place, flushed to the disk, and renamed; its mode is 0644.
"""

from __future__ import annotations

import csv
import io
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefoot.errors import WriteError

PARTIAL = ".partial"  # how the name of a file ends while it is being written


@contextmanager
def whole_file(path: str | Path, *, parents: bool = True) -> Iterator[Path]:
    """A file beside `path` to write into, which takes its name at the end.

    After an error nothing is left of it, and `path` is as it was. Missing folders are made.
    """
    path = Path(path)
    with writing(path):
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PARTIAL, dir=path.parent)
        os.close(handle)
        part = Path(name)
        try:
            yield part
            _flush(part)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file of text or bytes, and say where it is."""
    with whole_file(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


def write_csv(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file; floats keep 12 significant digits, so that equal runs give equal bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_field(value) for value in row] for row in rows])
    write_whole(path, text.getvalue())


def write_together(
    folder: str | Path,
    contents: Mapping[str, Iterable[str] | bytes],
    *,
    last: str,
    known: Sequence[str],
) -> dict[str, Path]:
    """Replace the known files of a folder by these, so that `last` is there only when all of its
    run are.

    First `last` of an earlier run goes, then the other known files, then the new ones come.
    """
    folder = Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".surefoot-", dir=folder))
        try:
            for name, content in contents.items():
                with open(beside / name, "wb") as file:
                    parts = [content] if isinstance(content, bytes) else map(str.encode, content)
                    file.writelines(parts)
                _flush(beside / name)
            for name in (last, *(name for name in known if name != last)):
                (folder / name).unlink(missing_ok=True)
            for name in (*(name for name in contents if name != last), last):
                os.replace(beside / name, folder / name)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return {name: folder / name for name in contents}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Trouble with the disk, in words."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{path} cannot be written ({error.strerror or error}): make room or choose another"
            " folder; what is finished is kept"
        ) from error


def _flush(path: Path) -> None:
    """Have the bytes of a finished file on the disk before it gets its name."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    path.chmod(0o644)


def _field(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return repr(float(f"{value:.12g}") + 0.0) if math.isfinite(value) else str(value)
