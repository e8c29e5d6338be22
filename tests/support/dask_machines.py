"""A Dask scheduler and workers as processes of their own, each in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from support import small_study


class Machines:
    """Starts a scheduler, and workers that join it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._file = folder / "scheduler.json"
        self.scheduler = self._begin("scheduler", "--port", "0", "--no-dashboard", cwd=folder)
        self.address = ""
        end = time.monotonic() + 60
        while not self.address and time.monotonic() < end:
            time.sleep(0.05)
            with suppress(OSError, ValueError):  # not there yet, or half written
                self.address = str(json.loads(self._file.read_text())["address"])

    def worker(self, cwd: Path, path: Path | None = None) -> None:
        """A worker in a folder, which finds surefoot in `path`; it has joined on return."""
        from distributed import Client

        self._begin("worker", "--no-nanny", "--nthreads", "1", "--no-dashboard", cwd=cwd, path=path)
        with Client(self.address) as client:
            client.wait_for_workers(1, timeout=60)

    def _begin(
        self, what: str, *more: str, cwd: Path, path: Path | None = None
    ) -> subprocess.Popen:
        found = {} if path is None else {"PYTHONPATH": str(path)}
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", what, "--scheduler-file", str(self._file), *more],
            cwd=cwd,
            env={**os.environ, **small_study.ONE_THREAD, **found},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    """A scheduler without workers; all processes are gone at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        yield Machines(folder, stack)
