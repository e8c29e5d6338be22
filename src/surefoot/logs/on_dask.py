"""Counting on several machines: every Dask worker tallies a part of the log with DuckDB, and the
tallies add up.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from surefoot.errors import NotAvailableError
from surefoot.logs.column_roles import NONE
from surefoot.logs.from_tally import make_log
from surefoot.logs.log import Log
from surefoot.logs.query import Options
from surefoot.logs.read import count_part, options_of
from surefoot.logs.sources import find_source
from surefoot.logs.tally import Tally, add_up

PATIENCE = "10s"  # how long a scheduler may take to answer


def count_on_dask(
    address: Any,
    source: Any,
    *,
    parts: int | None = None,
    terminal_states: Any = (),
    sparse: bool | None = None,
    **options: Any,
) -> Log:
    """The Log of files that all workers of a Dask cluster can read, with the options of `read_log`.

    Counts, labels and accounting are those of `read_log`; sums of rewards are added up part by
    part, so they may differ in the last bit. Only a time limit is not looked for (see
    `Reading.limit`), since no part shows it.

    address   of the scheduler, such as "tcp://host:8786", or a dask.distributed Client
    parts     in how many parts the episodes are split (default: one a worker)

    An episode may span files, so every task reads all files and keeps the episodes of its part:
    episodes whose hash is i modulo the number of parts. Where next_state is given and
    check_order=False, every file is one task and is read once. The Log holds counts alone: no rows,
    so no Monte-Carlo returns.
    """
    made, ends = options_of(terminal_states=terminal_states, **options)
    no_next = dict(made.columns).get("next_state") == NONE
    by_file = not (made.check_order or no_next or made.drop)
    tallies = tallies_on_dask(address, source, made, parts=parts, by_file=by_file)
    return make_log(add_up(tallies), made, terminal_states=ends, sparse=sparse)


def tallies_on_dask(
    address: Any,
    source: Any,
    options: Options,
    *,
    parts: int | None = None,
    fewest: int = 1,
    by_file: bool = False,
) -> list[Tally]:
    """The tallies of the parts of a log, each counted by a worker: of every file, or of the
    episodes whose hash is i modulo the number of parts (default: one a worker, at least `fewest`).
    """
    try:
        client_class: Any = import_module("distributed").Client
    except ImportError as error:
        raise NotAvailableError(
            "counting on a cluster needs dask.distributed: pip install distributed"
        ) from error
    files = list(find_source(source).files)
    try:
        client = (
            address
            if isinstance(address, client_class)
            else client_class(address, timeout=PATIENCE)
        )
    except (OSError, ValueError, TimeoutError) as error:
        raise NotAvailableError(f"no Dask scheduler answers at {address}: {error}") from error
    try:
        k = parts or max(fewest, len(client.scheduler_info()["workers"]))
        tasks = (
            [(f, options) for f in files]
            if by_file
            else [(files, options, (i, k)) for i in range(k)]
        )
        found: list[Tally] = client.gather(
            [client.submit(count_part, *task, pure=False) for task in tasks]
        )
        return found
    finally:
        if client is not address:
            client.close()
