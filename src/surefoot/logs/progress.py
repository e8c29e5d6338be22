"""A progress bar in the terminal for a long read; shown only where a command asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from surefoot.errors import NotAvailableError
from surefoot.logs.database import Progress


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
