"""The rows of a log in order, coded, block by block of whole episodes; and the Monte-Carlo
returns they make.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core import Batch, Returns
from surefoot.core.errors import LogError
from surefoot.core.labels import match, places_of
from surefoot.logs.database import Database, path_sql
from surefoot.logs.query import BESIDE_LABELS, Reading
from surefoot.logs.tally import TO_END, plain_label
from surefoot.problems import monte_carlo
from surefoot.problems.montecarlo import step_limit

if TYPE_CHECKING:
    from surefoot.logs.log import Log

Columns = dict[str, np.ndarray]
BLOCK = 1_000_000  # rows of a block, unless another number is asked for
BESIDE_NAMES = {"p": "propensity", **BESIDE_LABELS}  # how a Batch calls them


def returns_of(log: Log, gamma: float, visits: str, cut_returns: str | int) -> Returns:
    """The returns of all blocks; they add up, since each block holds whole episodes.

    For returns of k steps the cuts of all count.
    """

    def blocks() -> Iterator[Batch]:
        return (log.weighed(block, gamma) for block in coded_blocks(log, 2_000_000))

    step = log.step_discount(gamma)
    limit = None if isinstance(cut_returns, str) else min(map(step_limit, blocks()))
    parts = (
        monte_carlo(block, step, visits=visits, cut_returns=cut_returns, limit=limit)
        for block in blocks()
    )
    return reduce(lambda x, y: x + y, parts)


def coded_blocks(log: Log, rows: int) -> Iterator[Batch]:
    """Batches of whole episodes, of about `rows` rows each; a longer episode makes a longer
    batch.
    """
    if log.view is not None:
        yield from map(log.view.batch, coded_blocks(log.view.base, rows))
        return
    reading, first_row = log.stored, 0
    rest: Columns = {}
    with log.database() as database:
        for chunk in _chunks(database, log, reading, rows):
            joined_up = {n: np.concatenate((rest[n], x)) if rest else x for n, x in chunk.items()}
            new = np.flatnonzero(joined_up["h"][1:] != joined_up["h"][:-1]) + 1
            whole = int(new[-1]) if len(new) else 0
            rest = {name: x[whole:] for name, x in joined_up.items()}
            if whole:
                part = {name: x[:whole] for name, x in joined_up.items()}
                yield from _batch(log, reading, part, first_row)
                first_row += whole
    yield from _batch(log, reading, rest, first_row)


def _chunks(database: Database, log: Log, reading: Reading, rows: int) -> Iterator[Columns]:
    """The coded columns h (episode), s, a, r, s2, ends, cut and those beside them, `rows` rows of
    one file at a time.
    """
    database.run("reading rows", "set disabled_optimizers = 'join_order,build_side_probe_side'")
    coded = [x for x in BESIDE_LABELS if x in reading.beside]
    for name in ("states", "actions", *coded):
        file = path_sql(str(database.folder / name))
        database.run("reading labels", f"create temp table {name} as from read_parquet({file})")
    taken = database.rows("reading labels", "select x from actions order by code")
    places = places_of(log.actions)
    to_action = np.array([match(plain_label(x), places) for (x,) in taken], dtype=np.int64)
    further = "".join(
        f", {x}.code as {x}" if x in coded else f", x.{x} as {x}" for x in reading.beside
    )
    joins = " ".join(f"left join {x} on x.{x} = {x}.x" for x in coded)
    for file in reading.store.files:
        part = replace(reading, store=replace(reading.store, files=(file,)))
        (n,) = database.rows("counting rows", f"select count(*) from {part.store.sql}")[0]
        for start in range(0, int(n), rows):
            where = f"file_row_number >= {start} and file_row_number < {start + rows}"
            # A state seen only in rows that are left out has no code.
            found = database.arrays(
                "reading rows",
                f"""select hash(episode) as h, coalesce(s.code, -1)::bigint as s, a.code as a, r,
                           coalesce(s2.code, {TO_END})::bigint as s2, ends, cut, x.at{further}
                    from {part.steps(where=where)} x left join states s on x.s = s.x
                         left join actions a on x.a = a.x left join states s2 on x.s2 = s2.x
                         {joins}""",
            )
            at = found.pop("at")
            chunk = {name: np.ma.filled(x, -1) for name, x in found.items()}
            if (at[1:] < at[:-1]).any():  # joins hand out small chunks late
                order = np.argsort(at, kind="stable")
                chunk = {name: x[order] for name, x in chunk.items()}
            yield chunk | {"a": to_action[chunk["a"]]}


def _batch(log: Log, reading: Reading, rows: Columns, first_row: int) -> Iterator[Batch]:
    """The batch of some whole episodes, unless all their rows are left out."""
    if not rows:
        return
    new = np.append(True, rows["h"][1:] != rows["h"][:-1])
    last = np.append(new[1:], True)
    end, ends = log.n_states - 1, rows["ends"].astype(bool)
    if reading.given:
        follow = np.where(rows["s2"] == TO_END, end, rows["s2"])
        keep = np.ones(len(new), dtype=bool)
    else:
        ends = ends | last if reading.options.episode_end == "terminal" else ends
        if reading.limit:  # no episode is longer
            ends = ends & (np.bincount(np.cumsum(new) - 1)[np.cumsum(new) - 1] < reading.limit)
        follow, keep = np.where(last, end, np.append(rows["s"][1:], end)), ~last | ends
    if not keep.any():
        return
    number = np.cumsum(new)[keep]
    episode = np.cumsum(np.append(False, number[1:] != number[:-1]))
    follow = follow[keep].astype(np.int64)
    yield Batch(
        state=rows["s"][keep],
        action=rows["a"][keep],
        reward=rows["r"][keep],
        next_state=follow,
        episode=episode,
        ends=log.terminal[follow],
        truncated=rows["cut"][keep].astype(bool),
        row=first_row + np.flatnonzero(keep),
        n_states=log.n_states,
        n_actions=log.n_actions,
        terminal_states=tuple(np.flatnonzero(log.terminal).tolist()),
        has_end=log.has_end,
        left_out=int((~keep).sum()),
        labels=log.labels,
        beside={BESIDE_NAMES.get(x, x): rows[x][keep] for x in reading.beside},
    )


def joined(parts: list[Batch]) -> Batch:
    """Batches of different episodes as one."""
    if not parts:
        raise LogError("no row of the log has a successor")
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(part.n_episodes for part in parts)])
    names = ("state", "action", "reward", "next_state", "ends", "truncated", "row")
    columns: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    columns["episode"] = np.concatenate(
        [part.episode + n for part, n in zip(parts, before, strict=False)]
    )
    columns["beside"] = {
        name: np.concatenate([part.beside[name] for part in parts]) for name in parts[0].beside
    }
    return replace(parts[0], **columns, left_out=sum(part.left_out for part in parts))
