"""What every command shares: exit codes, the console, complaints, progress bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

DONE, WRONG_INPUT, NO_SUPPORT, WORSE, INTERRUPTED = 0, 2, 3, 4, 130

console = Console()
errors = Console(stderr=True)


def complain(words: str) -> None:
    """An error on stderr."""
    errors.print(f"[bold red]error:[/] {escape(words)}", soft_wrap=True)


class Bars:
    """One progress bar for each piece of work, made when it is first heard of."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total` of this piece of work."""
        if what not in self.tasks:
            self.tasks[what] = self.progress.add_task(what, total=total)
        self.progress.update(self.tasks[what], completed=done, total=total)


@contextmanager
def bars() -> Iterator[Bars]:
    """Progress bars on stderr, with the time left."""
    columns = (
        TextColumn("{task.description}"), BarColumn(),
        MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=errors) as progress:
        yield Bars(progress)
