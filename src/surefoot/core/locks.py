"""Locks on files and folders that end with the process that holds them, however it ends: who can
take one knows that its maker is gone.

Systems without such locks (Windows, some network disks) remove nothing of others.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


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
