"""A Dask cluster: is a scheduler there, are workers, do they run this very surefoot; and results as
they come, with a word when nothing does.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import Any

from surefoot.core.errors import NotAvailableError

PATIENCE = 10  # seconds in which a scheduler must answer
WAIT = 60.0  # seconds in which a worker must join, at the beginning or after all are gone
FIRST = "FIRST_COMPLETED"
LOOK = 2.0  # seconds between two looks at the cluster


@cache
def code_here() -> str:
    """The version of this surefoot with a digest of its files, so that it is known again."""
    try:
        name = version("surefoot")
    except PackageNotFoundError:
        name = "unknown"
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return f"{name} ({digest.hexdigest()[:12]})"


def as_sent(code: str, work: Callable[..., Any], *arguments: Any) -> Any:
    """Do some work on a worker, if it runs the code of who sent it."""
    if code_here() != code:
        raise NotAvailableError(_other("a Dask worker", code_here(), code))
    return work(*arguments)


def _other(who: str, theirs: str, ours: str) -> str:
    return (
        f"{who} runs surefoot {theirs}, here is {ours}: install the same version on all of them and"
        " restart the workers"
    )


@contextmanager
def cluster(address: Any) -> Iterator[Any]:
    """A client of the scheduler at an address (or this client) whose workers run this code."""
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise NotAvailableError(
            "a Dask cluster needs dask.distributed: pip install 'surefoot[dask]'"
        ) from error
    client = address
    if not isinstance(address, distributed.Client):
        try:
            client = distributed.Client(address, timeout=PATIENCE)
        except (OSError, ValueError, TimeoutError) as error:
            raise NotAvailableError(f"no Dask scheduler answers at {address!r}: {error}") from error
    with _quiet():
        try:
            _await_workers(client)
            _check_code(client)
            yield client
        finally:
            if client is not address:
                client.close(timeout=LOOK)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the tracebacks that Dask logs: what matters of them is said in words here."""
    levels = {x: x.level for x in map(logging.getLogger, ("distributed", "distributed.client"))}
    try:
        for logger in levels:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def _await_workers(client: Any) -> None:
    """Wait for a worker, and say so; raise if none comes."""
    if client.scheduler_info()["workers"]:
        return
    where = client.scheduler.address
    print(f"waiting for a worker to join {where}, {WAIT:g} seconds at most", file=sys.stderr)
    try:
        client.wait_for_workers(1, timeout=WAIT)
    except (TimeoutError, OSError) as error:
        raise NotAvailableError(
            f"no worker has joined the Dask scheduler at {where} in {WAIT:g} seconds: start some"
            f" (dask worker {where}), and run this again"
        ) from error


def _check_code(client: Any) -> None:
    """Raise if a worker runs another surefoot, or none."""

    def code() -> str:  # sent as it is: an older surefoot does not have it
        from surefoot.core.cluster import code_here as there

        return there()

    try:
        found = client.run(code, on_error="return")
    except OSError as error:
        raise _gone(client) from error
    for worker, theirs in found.items():
        if theirs != code_here():
            said = theirs if isinstance(theirs, str) else f"of another version ({theirs})"
            raise NotAvailableError(_other(f"the Dask worker {worker}", said, code_here()))


def computed(
    client: Any, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], retries: int = 0
) -> Iterator[tuple[int, Any]]:
    """(number of the task, its result) as they are done; raise where the cluster is gone."""
    distributed = import_module("distributed")
    code, alone = code_here(), None
    waiting = {
        client.submit(as_sent, code, work, *task, pure=False, retries=retries): i
        for i, task in enumerate(tasks)
    }
    while waiting:
        try:
            done = distributed.wait(list(waiting), timeout=LOOK, return_when=FIRST).done
        except TimeoutError:
            alone = _still_there(client, alone)
            continue
        except (CancelledError, OSError) as error:
            raise _gone(client) from error
        for future in done:
            try:
                found = future.result()
            except (CancelledError, distributed.comm.CommClosedError) as error:
                raise _gone(client) from error
            yield waiting.pop(future), found


def _gone(client: Any) -> NotAvailableError:
    return NotAvailableError(
        f"the Dask scheduler at {client.scheduler.address} is gone: start it and its workers again,"
        " and run this again"
    )


def _still_there(client: Any, alone: float | None) -> float | None:
    """Since when there is no worker, None while there is one; raise if the scheduler is gone, or
    no worker has come for long.
    """
    if client.status != "running":
        raise _gone(client)
    if client.scheduler_info()["workers"]:
        return None
    if alone is None:
        print(f"no worker is left: waiting {WAIT:g} seconds for another", file=sys.stderr)
        return monotonic()
    if monotonic() - alone > WAIT:
        raise NotAvailableError(
            f"all Dask workers are gone for {WAIT:g} seconds: start some, and run this again"
        )
    return alone
