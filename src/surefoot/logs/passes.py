"""The passes over a log: what its numbers are like, whether its rows are in order, how often every triple occurs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surefoot.logs.database import Database
from surefoot.logs.reading import Reading, bad_row_sql

Slice = tuple[int, int] | None  # part i of k of the episodes
PROBE = 100_000  # rows looked at to tell a log in order from a shuffled one
ONLY_NOW_AND_THEN = 0.1  # time that runs backwards in fewer steps than this share is a fault, not a shuffled log


@dataclass(frozen=True)
class Survey:
    """Rows, rows with a bad reward or flag, and the range of the rewards."""

    rows: int
    bad: int
    lowest: float
    highest: float


def survey(database: Database, reading: Reading, part: Slice = None) -> Survey:
    """One pass over the numeric columns."""
    rows, bad, low, high = database.rows(
        "looking at rewards and flags",
        f"select count(*), count(*) filter (where {bad_row_sql()}), min(r), max(r) from {reading.steps(part)}",
    )[0]
    return Survey(int(rows), int(bad), float("nan") if low is None else low, float("nan") if high is None else high)


@dataclass(frozen=True)
class Order:
    """Whether every episode is one block of rows, in which each row leads to the next and time goes on; and where episodes start."""

    fine: bool
    episodes: int
    starts: tuple[tuple[Any, int], ...]


def look_at_order(database: Database, reading: Reading, part: Slice = None) -> Order:
    """One pass in the order of the rows. Each row is compared with the one before by hashes of what must be equal."""
    rows = f"{reading.steps(part)}"
    probe = database.rows(
        "looking at the order of rows",
        f"select count(*), count(*) filter (where jump) from {_jumps(reading, f'(from {rows} limit {PROBE})')}",
    )
    if probe[0][0] > 1000 and probe[0][1] > probe[0][0] / 2:
        shape = order_shape(database, reading, part)
        if shape.blocks > shape.episodes:
            return Order(False, shape.episodes, ())
    time = "t is null" if reading.has_time else "false"
    database.run(
        "checking the order of rows",
        f"create or replace temp table jumps as select e, s, jump, back, {time} as timeless from {_jumps(reading, rows)} "
        f"where jump or back or e is null or {time}",
    )
    jumps, episodes, wrong = database.rows(
        "checking the order of rows",
        "select count(*) filter (where jump), count(distinct e), count(*) filter (where back or e is null or timeless) from jumps",
    )[0]
    fine = jumps == episodes and wrong == 0
    starts = database.rows("finding the first states", "select s, count(*) from jumps where jump group by s") if fine else []
    return Order(fine, int(episodes), tuple((s, int(n)) for s, n in starts))


def _jumps(reading: Reading, rows: str) -> str:
    """Each row, with `jump`: it does not follow from the row before; `back`: it does, but time does not go on.

    The hash of (episode, next state) of a row is that of (episode, state) of the next; where the next state is to be derived,
    the episode alone. A step flagged terminal or truncated is followed by none.
    """
    here, link = ("hash(e, s)", "hash(e, n)") if reading.given else ("hash(e)", "hash(e)")
    time = ", t, lag(t) over () as t_before" if reading.has_time else ""
    back = "coalesce(not jump and t <= t_before, false)" if reading.has_time else "false"
    linked = f"(select *, {here} as here, case when ends or cut then 0 else {link} end as link from {rows})"
    before = f"(select e, s, here, lag(link) over () as before{time} from {linked})"
    return f"(select *, {back} as back from (select *, here is distinct from before as jump from {before}))"


@dataclass(frozen=True)
class Shape:
    """Blocks of rows of one episode, episodes, and steps within a block at which time does not go on."""

    blocks: int
    episodes: int
    back: int
    steps: int

    @property
    def clock_fault(self) -> bool:
        """Whether the log is in order but for a few steps back in time: a fault rather than a shuffled log."""
        return 0 < self.back < ONLY_NOW_AND_THEN * self.steps and self.blocks == self.episodes


def order_shape(database: Database, reading: Reading, part: Slice = None) -> Shape:
    """How the rows of a log lie that is not in order, or has a fault."""
    back = "count(*) filter (where not new and t < t_before)" if reading.has_time else "0"
    time = ", t, lag(t) over () as t_before" if reading.has_time else ""
    rows = f"(select e, lag(e) over () as e_before{time} from {reading.steps(part)})"
    blocks, episodes, backwards, steps = database.rows(
        "looking at the order of rows",
        f"select count(*) filter (where new), count(distinct e), {back}, count(*) filter (where not new) "
        f"from (select *, e is distinct from e_before as new from {rows})",
    )[0]
    return Shape(int(blocks), int(episodes), int(backwards), int(steps))


def group_triples(database: Database, reading: Reading, part: Slice = None, *, surveyed: bool = True) -> None:
    """The table `triples`: (s, a, n, ends) with k rows, their sum r, scatter m2 and range; n is NULL where they lead nowhere.

    Without next_state the rows must be in order: each leads to the state of the next row of its episode. `firsts` counts the
    rows that are the first of their episode; where the rows were not surveyed before, `bad` those with a bad reward or flag.
    """
    rows = reading.steps(part)
    extra, keys = "", "s, a, n, ends" if reading.may_end else "s, a, n"
    ends = "ends" if reading.may_end else "false as ends"
    if not reading.given:
        last = "e is distinct from e_after"
        flag = f"(ends or {last})" if reading.episode_end == "terminal" else "ends"
        around = f"(select *, lag(e) over () as e_before, lead(e) over () as e_after, lead(s) over () as s_after from {rows})"
        follow = f"case when {last} then null else s_after end as n"
        rows = f"(select s, a, r, {follow}, {flag} as ends, e is distinct from e_before as new from {around})"
        extra = ", count(*) filter (where new) as firsts, min(r) as low, max(r) as high"
    if not surveyed:
        extra = f", count(*) filter (where {bad_row_sql()}) as bad, min(r) as low, max(r) as high"
    database.run("counting", "set preserve_insertion_order = " + ("false" if reading.given else "true"))
    database.run(
        "counting",
        f"create or replace temp table triples as select s, a, n, {ends}, count(*) as k, sum(r) as r, var_pop(r) as v{extra} "
        f"from {rows} group by {keys}",
    )
    database.run("counting", "set preserve_insertion_order = true")
