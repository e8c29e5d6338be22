"""Files that are written whole or not at all, several of them as one: a reader sees the old ones or
the new ones, never half; and the locks by which it is known that the process that wrote is gone.

Each is written beside its place, flushed to the disk, and renamed; its mode is 0644. Several are
renamed once all are written and a list of them lies beside: whoever is killed on the way, the next
who writes or looks there brings it to its end (`settle`).

A lock on a file or folder ends with the process that holds it, however it ends: who can take one
knows that its maker is gone. Systems without such locks (Windows, some network disks) remove
nothing of others.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from surefoot.core.errors import WriteError

PARTIAL = ".partial"  # how the name of a file ends while it is being written
SWAP = ".swap"  # how the list of files ends that are about to take their names
Moves = list[tuple[str, str]]  # (name while being written, name)


@contextmanager
def whole_files(
    *paths: str | Path, known: Sequence[Path] = (), parents: bool = True
) -> Iterator[tuple[Path, ...]]:
    """Files beside `paths` to write into, which take their names together at the end.

    First the last path of an earlier run goes, then the others of `paths` and `known`, then the new
    ones come: whenever the last one is there, all of its run are. After an error nothing is left of
    them, and all is as it was; what a process left that was killed is removed. Missing folders are
    made.
    """
    targets = tuple(map(Path, paths))
    place = targets[-1].parent if known or len(targets) > 1 else targets[-1]
    with writing(place), ExitStack() as locks:
        parts: list[Path] = []
        begun = False
        try:
            for path in targets:
                if parents:
                    path.parent.mkdir(parents=True, exist_ok=True)
                settle(path.parent)
                parts.append(_part(path, locks))
            yield tuple(parts)
            for part in parts:
                _flush(part)
            begun = True
            _swap(parts, targets, known)
        finally:
            for part in () if begun and _listed(targets[-1]).exists() else parts:
                part.unlink(missing_ok=True)


@contextmanager
def whole_file(path: str | Path, *, parents: bool = True) -> Iterator[Path]:
    """A file beside `path` to write into, which takes its name at the end.

    After an error nothing is left of it, and `path` is as it was. Missing folders are made.
    """
    with whole_files(path, parents=parents) as (part,):
        yield part


def settle(folder: str | Path) -> None:
    """Bring to its end what a process was doing that was killed while files took their names."""
    for listed in Path(folder).glob(f".*{SWAP}"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            held = take(listed)
            if held is None:
                continue  # it is being done
            try:
                found = json.loads(listed.read_bytes())
                _finish(listed, found["gone"], [(part, name) for part, name in found["moves"]])
            finally:
                os.close(held)


def _part(path: Path, locks: ExitStack) -> Path:
    """A new file beside a path, locked; those of processes that are gone are removed."""
    remove_left(path.parent.glob(f".{glob.escape(path.name)}.*{PARTIAL}"))
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PARTIAL, dir=path.parent)
    os.close(handle)
    with suppress(OSError):
        held = take(name)
        if held is not None:
            locks.callback(os.close, held)
    return Path(name)


def _swap(parts: Sequence[Path], targets: Sequence[Path], known: Sequence[Path]) -> None:
    """Give finished files their names; where they are several of one folder, a list comes first,
    by which `settle` can end it.
    """
    last, others = targets[-1], [*targets[:-1], *known]
    if not others:
        os.replace(parts[0], last)
        return
    if {path.parent for path in others} != {last.parent}:
        last.unlink(missing_ok=True)
        for part, path in zip(parts, targets, strict=True):
            os.replace(part, path)
        return
    gone = list(dict.fromkeys(path.name for path in (last, *others)))
    moves = [(part.name, path.name) for part, path in zip(parts, targets, strict=True)]
    with ExitStack() as locks:
        listed, beside = _listed(last), _part(_listed(last), locks)
        try:
            beside.write_text(json.dumps({"gone": gone, "moves": moves}), encoding="utf-8")
            _flush(beside)
            os.replace(beside, listed)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        try:
            _finish(listed, gone, moves)
        except BaseException:  # an interruption: what has begun is ended all the same
            _finish(listed, gone, moves)
            raise


def _finish(listed: Path, gone: Sequence[str], moves: Moves) -> None:
    """Old files go, and new ones take their names, as far as this is still to be done."""
    folder = listed.parent
    if any(Path(name).name != name for name in (*gone, *(x for move in moves for x in move))):
        return  # not ours: it is about another folder
    waiting = [(folder / part, folder / name) for part, name in moves if (folder / part).exists()]
    done = {name for part, name in moves if not (folder / part).exists()}
    for name in gone:
        if name not in done:
            (folder / name).unlink(missing_ok=True)
    for part, path in waiting:
        os.replace(part, path)
    listed.unlink(missing_ok=True)


def _listed(last: Path) -> Path:
    """Where the list lies of files that are about to take their names."""
    return last.with_name(f".{last.name}{SWAP}")


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file of text or bytes, and say where it is."""
    with whole_file(path) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


def write_csv(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a CSV file; floats keep 12 significant digits, so that equal runs give equal bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_field(value) for value in row] for row in rows])
    return write_whole(path, text.getvalue())


def write_together(
    folder: str | Path,
    contents: Mapping[str, Iterable[str] | bytes],
    *,
    last: str,
    known: Sequence[str],
) -> dict[str, Path]:
    """Replace the known files of a folder by these, so that `last` is there only when all of its
    run are; see `whole_files`.
    """
    folder = Path(folder)
    names = (*(name for name in contents if name != last), last)
    paths = {name: folder / name for name in names}
    with whole_files(*paths.values(), known=[folder / name for name in known]) as parts:
        for name, part in zip(names, parts, strict=True):
            content = contents[name]
            with open(part, "wb") as file:
                file.writelines(
                    [content] if isinstance(content, bytes) else map(str.encode, content)
                )
    return paths


def read_json(path: str | Path) -> Any:
    """What a JSON file holds; where it is missing, an interrupted writing is brought to its end
    first. Raise OSError, or ValueError where it is no JSON.
    """
    path = Path(path)
    if not path.exists():
        settle(path.parent)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


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


def file_hash(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def take(path: str | Path, *, make: bool = False) -> int | None:
    """The descriptor of a lock on a file or folder, to be closed; None where another holds it.

    Raise OSError where it is gone, or the system has no such locks.
    """
    try:
        import fcntl
    except ImportError as error:
        raise OSError("this system has no locks that end with a process") from error
    how = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR | (os.O_CREAT if make else 0)
    held = os.open(path, how | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(held), os.stat(path)):
            return held
    except BlockingIOError:
        pass
    except BaseException:
        os.close(held)
        raise
    os.close(held)
    return None


def remove_left(paths: Iterable[Path]) -> None:
    """Remove files and folders that were made and locked by processes which are gone."""
    for path in paths:
        with suppress(OSError):
            held = take(path)
            if held is None:
                continue
            try:
                if os.fstat(held).st_uid == os.getuid():
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
            finally:
                os.close(held)
