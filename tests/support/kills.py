"""Processes that are killed at a given step, as SIGKILL or a power failure would."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do some work in a forked process that dies just before the step-th change of the disk (a
    flush, a renaming or a removal); whether it died.
    """
    child = os.fork()
    if child == 0:
        try:
            _die_at(step)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _die_at(step: int) -> None:
    """Replace what changes the disk, in this process that is about to end."""
    left = iter(range(step))

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **options: object) -> object:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return wrapped

    for owner, name in ((os, "replace"), (os, "fsync"), (Path, "unlink")):
        setattr(owner, name, counted(getattr(owner, name)))
