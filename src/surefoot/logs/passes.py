"""The passes over a log: what its numbers are like, how often every triple occurs and whether the rows are in order, how they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from surefoot.core.batch import LARGEST
from surefoot.errors import LogError
from surefoot.logs.database import Database
from surefoot.logs.reading import Reading, bad_flags_sql
from surefoot.logs.sums import DIVISORS, RewardSums, in_steps

Slice = tuple[int, int] | None  # part i of k of the episodes
Facts = Sequence[tuple[str, Sequence[str]]]  # aggregates of the rows that fulfil a condition, all in SQL
USED = "(n is not null or ends)"  # SQL: whether a row leads somewhere
ONLY_NOW_AND_THEN = 0.1  # time that runs backwards in fewer steps than this share is a fault, not a shuffled log
FAULT = "surefoot: a row does not follow from the row before"


@dataclass(frozen=True)
class Survey:
    """The number of rows, whether any has a bad reward or flag or no episode, the range of the rewards, and how to add them up.

    `together`: every episode is one block of rows; None where this was not asked. `of_used`: the range is that of the rows used.
    """

    rows: int
    bad: bool
    lowest: float
    highest: float
    sums: RewardSums
    together: bool | None = None
    of_used: bool = False


def survey(database: Database, reading: Reading, part: Slice = None, *, blocks: bool = False) -> Survey:
    """One pass over the numeric columns, and with `blocks` over the episodes.

    The first rows tell whether the rewards may be whole multiples of 1 / D. Blocks are told apart by 64-bit hashes of the episodes:
    that two which follow each other have the same is as likely as 1 in 2^64.
    """
    divisor, _ = _first_rewards(database, reading, part)
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


def _first_rewards(database: Database, reading: Reading, part: Slice) -> tuple[int, float]:
    """(D, where the rewards of the first rows are whole multiples of 1 / D, else 0; the largest of them in size)."""
    few = f"(select r from {reading.steps(part)} where abs(r) < 1e6 limit 1000)"
    held = ", ".join(f"bool_and({in_steps(d)})" for d in DIVISORS)
    size, *holds = database.rows("looking at rewards", f"select max(abs(r)), {held} from {few}")[0]
    return next((d for d, held in zip(DIVISORS, holds, strict=True) if held), 0), float(size or 0.0)


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


def group_triples(
    database: Database, reading: Reading, sums: RewardSums, part: Slice = None, *, in_order: bool = False, also: Facts = ()
) -> list[float | None]:
    """The table `triples`: (s, a, n, ends) with k rows, the sum r and the scatter m2 of their rewards; n is NULL where they lead nowhere.

    in_order   every episode is one block of rows (see `survey`): look, as they pass by, whether in it each row leads to the next, time
               goes on and nothing follows an end, and stop at the first fault with an OutOfOrderError. The table `starts` then holds
               how many used rows (k) of each state s start an episode. Without next_state this is needed: each row leads to the
               state of the next.
    also       numbers that are found in the same pass and returned
    """
    rows = _in_order(reading, reading.steps(part)) if in_order else reading.steps(part)
    keys = "s, a, n, ends" if reading.may_end else "s, a, n"
    ends = "ends" if reading.may_end else "false as ends"
    grouped = f"(select {keys}, count(*) as k, {sums.aggregates} from x group by {keys})"
    queries = [f"select s, a, n, {ends}, k, r, m2 from {sums.finished(grouped)}"]  # the others tell themselves apart by k <= 0
    if in_order:
        queries.append(f"select s, null, null, null, -count(*), null, null from x where first and {USED} group by s")
    place = 0
    for condition, wanted in also:
        numbers, places = ", ".join(f"({x})::double" for x in wanted), list(range(place, place + len(wanted)))
        queries.append(f"select null, null, null, null, 0, unnest([{numbers}]), unnest({places}) from x where {condition}")
        place += len(wanted)
    once = "" if database.reads_once else "not materialized"
    query = f"with x as {once} (from {sums.prepared(rows)}) {' union all '.join(queries)}"
    database.run("counting", f"set preserve_insertion_order = {'true' if in_order else 'false'}")
    try:
        database.run("counting", f"create or replace temp table triples as {query}")
    except LogError as error:
        if FAULT in str(error):
            raise OutOfOrderError(str(error)) from error
        raise
    finally:
        database.run("counting", "set preserve_insertion_order = true")
    database.run("counting", "create or replace temp table starts as select s, -k as k from triples where k < 0")
    found = [row[0] for row in database.rows("counting", "select r from triples where k = 0 order by m2")]
    database.run("counting", "delete from triples where k <= 0")
    return found


def count_at_once(database: Database, reading: Reading, part: Slice = None, *, in_order: bool = False) -> Survey | None:
    """`group_triples` without a survey before it: one pass over a log whose rewards are whole multiples of 1 / D and which is in order.

    None where the first rows, or in the end all rows, say that it is not so, or that anything at all is wrong: the survey tells what.
    """
    if not database.reads_once:
        return None
    divisor, size = _first_rewards(database, reading, part)
    guess = RewardSums(reading.store.rows, size, size, divisor)
    if guess.way != "steps":
        return None
    odd = "0"
    if reading.store.physical.terminal or reading.store.physical.truncated:
        odd = f"count(*) filter (where {'odd' if in_order else bad_flags_sql()})"
    wanted = ["count(*)", "count(r)", "min(r)", "max(r)", guess.exact, odd]
    wanted += [f"min(r) filter (where {USED})", f"max(r) filter (where {USED})"] if not reading.given else []
    also = [("true", wanted), *([("first", ["count(*)", "count(distinct e)"])] if in_order else [])]
    found = [float("nan") if x is None else x for x in group_triples(database, reading, guess, part, in_order=in_order, also=also)]
    rows, there, low, high, exact, faults = found[:6]
    fine = rows == there > 0 and exact == 1 and faults == 0 and -LARGEST <= low <= high <= LARGEST
    if not fine or (in_order and found[-2] != found[-1]):  # blocks of rows, episodes
        return None
    sums = replace(guess, rows=int(rows), largest=max(-low, high))
    low, high = (low, high) if reading.given else (found[6], found[7])
    return Survey(int(rows), False, low, high, sums, True if in_order else None, of_used=True) if sums.way == "steps" else None


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
    odd = f"{bad_flags_sql()} as odd"
    if reading.given:
        return f"(select e, s, a, r, n, ends, {odd}, {first} from {around})"
    last = "h is distinct from h_after"
    flag = f"(ends or {last})" if reading.episode_end == "terminal" else "ends"
    return f"(select e, s, a, r, case when {last} then null else s_after end as n, {flag} as ends, {odd}, {first} from {around})"


def rewards_used(database: Database, reading: Reading, part: Slice = None) -> tuple[float, float]:
    """The (lowest, highest) reward of the rows that lead somewhere, in a log without next_state whose rows are in order."""
    rows = f"(select r, ends, hash(e) is distinct from lead(hash(e)) over () as last from {reading.steps(part)})"
    low, high = database.rows("finding the rewards", f"select min(r), max(r) from {rows} where ends or not last")[0]
    return low, high
