"""Counting on a Dask cluster in parts that are kept apart, so that some can make a policy and
the others test it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from surefoot.advice.units import Units, units_of_tallies
from surefoot.errors import NotAvailableError
from surefoot.logs import Log, add_up, count_part, make_log
from surefoot.logs.read import options_of
from surefoot.logs.sources import find_source

PARTS = 16  # at least: they are the units of the held-out gain
PATIENCE = "10s"  # how long a scheduler may take to answer


def log_and_units_on_dask(
    address: Any,
    source: Any,
    *,
    parts: int | None = None,
    terminal_states: Any = (),
    sparse: bool | None = None,
    **options: Any,
) -> tuple[Log, Units]:
    """(the Log that `count_on_dask` gives, its parts as units): episodes whose hash is i modulo the
    number of parts, on the workers.

    One long episode is a single part: there is nothing to check its improvement on.
    """
    try:
        client_class: Any = import_module("distributed").Client
    except ImportError as error:
        raise NotAvailableError(
            "counting on a cluster needs dask.distributed: pip install distributed"
        ) from error
    made, ends = options_of(terminal_states=terminal_states, **options)
    files = list(find_source(source).files)
    client = address if isinstance(address, client_class) else _client(client_class, address)
    try:
        k = parts or max(PARTS, len(client.scheduler_info()["workers"]))
        tallies = client.gather(
            [client.submit(count_part, files, made, (i, k), pure=False) for i in range(k)]
        )
    finally:
        if client is not address:
            client.close()
    log = make_log(
        add_up(tallies),
        None,
        None,
        terminal_states=ends,
        allowed=made.allowed,
        sparse=sparse,
        missing_reward=made.missing_reward,
        label_columns=made.label_columns,
    )
    return log, units_of_tallies(tallies, log)


def _client(client_class: Any, address: str) -> Any:
    try:
        return client_class(address, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError) as error:
        raise NotAvailableError(f"no Dask scheduler answers at {address}: {error}") from error
