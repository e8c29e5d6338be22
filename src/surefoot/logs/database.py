"""The DuckDB connection behind a reading: settings, quoting, errors in words, progress."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from surefoot.core.atomic import remove_left, take
from surefoot.core.errors import LogError, NotAvailableError, ProblemError, WriteError, option

MOST_THREADS = 1024
ROWS = "surefoot-rows-"  # how the names of temporary folders begin
INTERRUPTED = "Query interrupted"  # what DuckDB says when a signal came while it was working
TMPDIR = (
    "name a folder that has room, and may be written to, with the environment variable TMPDIR, such"
    " as TMPDIR=/data/tmp"
)
NO_ROOM = "There is too little room"
Progress = Callable[[str, float], None]  # (what is being done, share done in 0..1)


class Workspace:
    """A temporary folder that lives as long as the log which was read through it.

    Only the process that made it removes it, not one forked from it. Folders of processes that
    were killed go when the next one is made: nobody holds their lock any more.
    """

    def __init__(self) -> None:
        try:
            scratch = Path(tempfile.gettempdir())
        except OSError as error:
            raise WriteError(f"no temporary folder can be written: {TMPDIR}") from error
        remove_left(scratch.glob(f"{ROWS}*"))
        lock = list[int]()
        while not lock:
            self.path = scratch / f"{ROWS}{secrets.token_hex(8)}"
            # first what removes it: a signal may come as soon as it is there
            self._opened: dict[tuple[int, str | None], Any] = {}
            self._removal = weakref.finalize(
                self, _remove, self.path, os.getpid(), lock, self._opened
            )
            try:
                self.path.mkdir(mode=0o700)
            except OSError as error:
                raise WriteError(
                    f"the temporary folder {scratch} cannot be written ({error.strerror}): {TMPDIR}"
                ) from error
            try:
                held = take(self.path)
            except FileNotFoundError:  # taken for one of a dead process before it was locked
                continue
            except OSError:  # no locks here: nobody removes it but this process
                break
            lock += [] if held is None else [held]

    def shared(self, memory: str | None, connect: Callable[[], Any]) -> Any:
        """A connection to the one DuckDB that reads what is stored here: another DuckDB takes 16
        ms, another connection none. A forked process has its own.
        """
        key = os.getpid(), memory
        if key not in self._opened:
            self._opened[key] = connect()
        return self._opened[key].cursor()

    def close(self) -> None:
        """Remove the folder now."""
        self._removal()


def _remove(
    path: Path, maker: int, lock: list[int], opened: dict[tuple[int, str | None], Any]
) -> None:
    """Remove the folder of a workspace, in the process that made it."""
    if os.getpid() != maker:
        return
    for connection in opened.values():
        connection.close()
    opened.clear()
    shutil.rmtree(path, ignore_errors=True)
    for held in lock:
        with suppress(OSError):
            os.close(held)
    lock.clear()


class Database:
    """One connection; every statement that fails raises a LogError that names what was being
    done. With `shared`, to the DuckDB of all that read the rows of this workspace, one thread at a
    time but where `threads` says otherwise.
    """

    def __init__(
        self,
        workspace: Workspace,
        threads: int | None = None,
        memory: str | None = None,
        progress: Progress | None = None,
        shared: bool = False,
    ):
        try:
            import duckdb
        except ImportError as error:
            raise NotAvailableError("reading logs needs DuckDB: pip install duckdb") from error
        self._error: type[Exception] = duckdb.Error
        self._progress = progress
        self.folder = workspace.path
        settings: dict[str, Any] = {
            "temp_directory": str(workspace.path / "spill"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # memory that is no longer needed goes back, so that NumPy can have it
            "allocator_flush_threshold": "32MB",
            "allocator_bulk_deallocation_flush_threshold": "32MB",
        }
        if threads is not None:
            whole = isinstance(threads, int) and not isinstance(threads, bool)
            if not whole or not 1 <= threads <= MOST_THREADS:
                raise ProblemError(
                    f"threads must be a whole number from 1 to {MOST_THREADS:,}, got {threads!r}:"
                    " more than the machine has cores do not help"
                )
            settings["threads"] = threads
        if memory is not None:
            settings["memory_limit"] = memory
        self._many = shared and threads != 1

        def connect() -> Any:
            found = duckdb.connect(":memory:", config=settings | ({"threads": 1} if shared else {}))
            if shared:  # it stays: what it kept of files that are read once or twice would, too
                with suppress(duckdb.Error):  # DuckDB before 1.3 keeps nothing
                    found.execute("set enable_external_file_cache = false")
            return found

        try:
            self.connection = workspace.shared(memory, connect) if shared else connect()
            if self._many:
                self.connection.execute(f"set threads = {threads}" if threads else "reset threads")
        except (duckdb.Error, TypeError) as error:
            raise ProblemError(
                f"memory is a size such as 500MB or 2GB, got {memory!r} ({first_line(error)})"
                if memory is not None
                else f"DuckDB refuses these settings: {first_line(error)}"
            ) from error

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        if self._many:
            with suppress(self._error):
                self.connection.execute("set threads = 1")
        self.connection.close()

    def run(self, what: str, sql: str) -> None:
        """Execute one statement; `what` says in words what it is for."""
        with self._doing(what):
            self.connection.execute(sql)

    def rows(self, what: str, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._doing(what):
            found: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        return found

    def arrays(self, what: str, sql: str) -> dict[str, Any]:
        """The columns of a query as NumPy arrays."""
        with self._doing(what):
            found: dict[str, Any] = self.connection.sql(sql).fetchnumpy()
        return found

    @contextmanager
    def table(self, name: str, table: Any) -> Iterator[None]:
        """A table in memory under this name, read by one thread: with several, DuckDB 2.0.0 finds
        text of NumPy arrays and pandas categories empty in one read of ten. A relation belongs to
        another connection, which writes it out.
        """
        (threads,) = self.rows("counting threads", "select current_setting('threads')")[0]
        self.connection.execute("set threads = 1")
        try:
            if is_relation(table):
                target = str(self.folder / f"{name}.parquet")
                table.write_parquet(target)
                rows = f"read_parquet({path_sql(target)}, hive_partitioning = false)"
                self.connection.execute(f"create temp view {name} as from {rows}")
            else:
                self.connection.register(name, table)
        except Exception as error:  # of many kinds, among them those of the table's own library
            raise LogError(f"the table cannot be read: {first_line(error)}") from error
        yield  # after an error, or where it was interrupted, the connection is left as it is
        if is_relation(table):
            self.connection.execute(f"drop view {name}")
        else:
            self.connection.unregister(name)
        self.connection.execute(f"set threads = {int(threads)}")

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Errors name what was being done; progress is reported from a thread of its own."""
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(what, done), daemon=True)
        if self._progress is not None:
            self._progress(what, 0.0)
            watch.start()
        try:
            yield
        except RuntimeError as error:
            if str(error) == INTERRUPTED:
                # what the signal's handler raised, which DuckDB replaces
                raise KeyboardInterrupt from error
            raise
        except (self._error, UnicodeDecodeError, OverflowError) as error:
            raise LogError(f"{what} failed: {first_line(error)}{remedy(error)}") from error
        finally:
            if self._progress is not None:
                done.set()
                watch.join()
                self._progress(what, 1.0)

    def _watch(self, what: str, done: threading.Event) -> None:
        """Report the share done until it is done."""
        while not done.wait(0.2):
            share = self.connection.query_progress()
            if share >= 0 and self._progress is not None:
                self._progress(what, min(share / 100, 1.0))


@contextmanager
def progress_bar(console: Any = None) -> Iterator[Progress]:
    """A function for `read_log(progress=...)` that draws one bar, renamed as the work goes on.

    >>> with progress_bar() as progress:
    ...     log = read_log("log.csv", progress=progress)  # doctest: +SKIP
    """
    try:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars
    except ImportError as error:
        raise NotAvailableError("the progress bar needs rich: pip install rich") from error
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("reading the log", total=1.0)
        yield lambda what, share: bars.update(task, description=what, completed=share)


def remedy(error: BaseException) -> str:
    """What to do where room ran out, on the disk or in memory."""
    said = str(error).lower()
    if any(x in said for x in ("no space left", "read-only file", "quota exceeded")):
        return f". {NO_ROOM}: if that is the temporary folder ({tempfile.gettempdir()}), {TMPDIR}"
    if "out of memory" in said or "could not allocate" in said:
        return (
            f". {NO_ROOM}: fewer threads need less, {option('threads', 1)};"
            f" {option('memory', '2GB')} is the most that counting rows may take"
        )
    return ""


def first_line(error: BaseException) -> str:
    """What an error says, in one line of at most 400 characters."""
    text = " ".join(str(error).partition("Possible solutions")[0].split())
    return text if len(text) <= 400 else text[:400] + " ..."


def is_relation(table: Any) -> bool:
    """Whether it is a relation of DuckDB, of a connection of its own."""
    return type(table).__name__ == "DuckDBPyRelation"


def name_sql(name: str) -> str:
    """A column name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_sql(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def path_sql(path: str) -> str:
    """A file name as an SQL literal that DuckDB does not take for a pattern."""
    return text_sql("".join(f"[{c}]" if c in "*?[" else c for c in path))


def parquet_sql(files: tuple[str, ...]) -> str:
    """The rows of Parquet files, with `filename` and `file_row_number`."""
    listed = ", ".join(path_sql(file) for file in files)
    return (
        f"read_parquet([{listed}], filename = true, file_row_number = true, union_by_name = true,"
        " hive_partitioning = false)"
    )
