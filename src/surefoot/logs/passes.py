"""The passes over a log: what its numbers are like, how often every triple occurs and whether the rows are in order, how they lie."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.core.batch import LARGEST
from surefoot.errors import LogError
from surefoot.logs.database import Database
from surefoot.logs.reading import Reading, bad_flags_sql
from surefoot.logs.sums import DIVISORS, RewardSums, in_steps

Slice = tuple[int, int] | None  # part i of k of the episodes
ONLY_NOW_AND_THEN = 0.1  # time that runs backwards in fewer steps than this share is a fault, not a shuffled log
FAULT = "surefoot: a row does not follow from the row before"


@dataclass(frozen=True)
class Survey:
    """The number of rows, whether any has a bad reward or flag or no episode, the range of the rewards, and how to add them up.

    `together`: every episode is one block of rows; None where this was not asked.
    """

    rows: int
    bad: bool
    lowest: float
    highest: float
    sums: RewardSums
    together: bool | None = None


def survey(database: Database, reading: Reading, part: Slice = None, *, blocks: bool = False) -> Survey:
    """One pass over the numeric columns, and with `blocks` over the episodes.

    The first rows tell whether the rewards may be whole multiples of 1 / D. Blocks are told apart by 64-bit hashes of the episodes:
    that two which follow each other have the same is as likely as 1 in 2^64.
    """
    few = f"(select r from {reading.steps(part)} where abs(r) < 1e6 limit 1000)"
    held = database.rows("looking at rewards", f"select {', '.join(f'bool_and({in_steps(d)})' for d in DIVISORS)} from {few}")[0]
    divisor = next((d for d, holds in zip(DIVISORS, held, strict=True) if holds), 0)
    stepped = "false" if not divisor else f"count(*) filter (where not {in_steps(divisor)}) = 0"
    query, found = reading.steps(part), "null, null, null"
    if blocks:
        query = f"(select *, hash(e) as h, lag(hash(e)) over () as h_before from {query})"
        found = "count(e), count(*) filter (where h is distinct from h_before), count(distinct e)"
    rows, there, flags, low, high, smallest, steps, named, lying, episodes = database.rows(
        "looking at rewards and flags",
        f"select count(*), count(r), count(*) filter (where {bad_flags_sql()}), min(r), max(r), min(abs(r)) filter (where r <> 0), "
        f"{stepped}, {found} from {query}",
    )[0]
    low, high = (float("nan") if x is None else float(x) for x in (low, high))
    wrong = there < rows or flags > 0 or not (low >= -LARGEST and high <= LARGEST)  # NaN is the largest number of DuckDB
    largest = 0.0 if wrong else max(-low, high)
    sums = RewardSums(int(rows), largest, largest if smallest is None else float(smallest), divisor if steps else 0)
    return Survey(int(rows), rows > 0 and (wrong or (blocks and named < rows)), low, high, sums, lying == episodes if blocks else None)


class OutOfOrderError(LogError):
    """The rows of a log do not follow from each other in the order in which they lie."""


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


def group_triples(database: Database, reading: Reading, sums: RewardSums, part: Slice = None, *, in_order: bool = False) -> None:
    """The table `triples`: (s, a, n, ends) with k rows, the sum r and the scatter m2 of their rewards; n is NULL where they lead nowhere.

    in_order   every episode is one block of rows (see `survey`): look, as they pass by, whether in it each row leads to the next, time
               goes on and nothing follows an end, and stop at the first fault with an OutOfOrderError. `firsts` then counts the rows
               that start an episode. Without next_state this is needed: each row leads to the state of the next.
    """
    rows = _in_order(reading, reading.steps(part)) if in_order else reading.steps(part)
    keys = "s, a, n, ends" if reading.may_end else "s, a, n"
    ends = "ends" if reading.may_end else "false as ends"
    firsts = "count(*) filter (where first)" if in_order else "0"
    grouped = f"(select {keys}, count(*) as k, {firsts} as firsts, {sums.aggregates} from {sums.prepared(rows)} group by {keys})"
    database.run("counting", f"set preserve_insertion_order = {'true' if in_order else 'false'}")
    try:
        database.run(
            "counting",
            f"create or replace temp table triples as select s, a, n, {ends}, k, firsts, r, m2 from {sums.finished(grouped)}",
        )
    except LogError as error:
        if FAULT in str(error):
            raise OutOfOrderError(str(error)) from error
        raise
    finally:
        database.run("counting", "set preserve_insertion_order = true")


def _in_order(reading: Reading, rows: str) -> str:
    """The rows as they lie, each compared with the one before (DuckDB streams this); `first` in its episode. The first fault stops it."""
    before, follows = ["lag(h) over () as h_before"], ["h = h_before"]
    if reading.has_time:
        before.append("lag(t) over () as t_before")
        follows.append("t > t_before")
    if reading.may_end or reading.store.physical.truncated:
        before.append("lag(ends or cut) over () as over_before")
        follows.append("not over_before")
    if reading.given:
        before.append("lag(n) over () as n_before")
        follows.append("s = n_before")
    else:
        before += ["lead(h) over () as h_after", "lead(s) over () as s_after"]
    new = f"h is distinct from h_before{' and t is not null' if reading.has_time else ''}"
    first = f"case when {' and '.join(follows)} then false when {new} then true else error('{FAULT}') end as first"
    around = f"(select *, {', '.join(before)} from (select *, hash(e) as h from {rows}))"
    if reading.given:
        return f"(select s, a, r, n, ends, {first} from {around})"
    last = "h is distinct from h_after"
    flag = f"(ends or {last})" if reading.episode_end == "terminal" else "ends"
    return f"(select s, a, r, case when {last} then null else s_after end as n, {flag} as ends, {first} from {around})"


def rewards_used(database: Database, reading: Reading, part: Slice = None) -> tuple[float, float]:
    """The (lowest, highest) reward of the rows that lead somewhere, in a log without next_state whose rows are in order."""
    rows = f"(select r, ends, hash(e) is distinct from lead(hash(e)) over () as last from {reading.steps(part)})"
    low, high = database.rows("finding the rewards", f"select min(r), max(r) from {rows} where ends or not last")[0]
    return low, high
