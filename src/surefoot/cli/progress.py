"""How far a command is, on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surefoot.cli.terminal import ProgressLines, Shown, errors, tell

if TYPE_CHECKING:
    from surefoot.logs.database import Progress


@contextmanager
def reading_progress() -> Iterator[Progress]:
    """How far the reading of a file is: a bar; where stderr is no terminal, a line now and then."""
    from surefoot.logs import progress_bar

    if errors.is_terminal:
        with progress_bar(errors) as shown:
            yield shown
        return
    lines = ProgressLines(tell)
    yield lambda what, share: lines(what, share, 1.0)


def reading(shown: Shown) -> Progress:
    """The reading of a file as one of the bars of a command that has more to show: two displays at
    once cannot be.
    """
    return lambda what, share: shown(what, share, 1.0)
