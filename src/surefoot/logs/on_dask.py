"""Counting on several machines: every Dask worker tallies a part of the log with DuckDB, and the
tallies add up.
"""

from __future__ import annotations

import hashlib
import os
import platform
from typing import Any

from surefoot.core.cluster import cluster, computed
from surefoot.core.errors import LogError
from surefoot.logs.column_roles import NONE
from surefoot.logs.from_tally import make_log
from surefoot.logs.log import Log
from surefoot.logs.query import Options, Part
from surefoot.logs.read import count_part, options_of
from surefoot.logs.sources import find_source
from surefoot.logs.tally import Tally, add_up

BLOCK, BLOCKS = 1 << 20, 64  # bytes of a file by which it is known


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
    A worker that finds other files there, or runs another surefoot, is refused.

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
    files = [os.path.abspath(file) for file in find_source(source).files]
    marks = {file: mark(file) for file in files}
    with cluster(address) as client:
        k = parts or max(fewest, len(client.scheduler_info()["workers"]))
        tasks: list[tuple[Any, ...]] = [(marks, options, (i, k)) for i in range(k)]
        if by_file:
            tasks = [({file: marks[file]}, options, None) for file in files]
        found = dict(computed(client, count_marked, tasks))
    return [found[i] for i in range(len(tasks))]


def count_marked(marks: dict[str, str], options: Options, part: Part) -> Tally:
    """The tally of a part of these files, if they are here what they are where they were marked."""
    for file, given in marks.items():
        here = mark(file) if os.path.isfile(file) else "missing"
        if here != given:
            raise LogError(
                f"{file} on the Dask worker {platform.node()} is not the file that was given"
                f" ({here} there, {given} here): all workers must read the same files, as on a"
                " shared disk"
            )
    return count_part(list(marks), options, part)


def mark(file: str) -> str:
    """What a file is known by: its size, and a digest of it (of 64 MB of a larger one, spread
    evenly).
    """
    size, digest = os.path.getsize(file), hashlib.sha256()
    with open(file, "rb") as raw:
        for i in range(BLOCKS):
            raw.seek(max(i * BLOCK, i * (size - BLOCK) // (BLOCKS - 1)))
            digest.update(raw.read(BLOCK))
    return f"{size:,} bytes, {digest.hexdigest()[:16]}"
