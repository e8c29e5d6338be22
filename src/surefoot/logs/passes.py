"""The passes over a log: how often every triple occurs and whether the rows are in order, what
its numbers are like, how they lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from surefoot.core.batch import LARGEST
from surefoot.logs.clock import put_back
from surefoot.logs.coding import keys_as_found, with_action_keys
from surefoot.logs.database import Database, text_sql
from surefoot.logs.query import MISSING, Reading, bad_flags_sql
from surefoot.logs.side_by_side import readings_side_by_side
from surefoot.logs.sums import DIVISORS, RewardSums, in_steps

Slice = tuple[int, int] | None  # part i of k of the episodes
USED = "(n is not null or ends)"  # SQL: whether a row leads somewhere
PROBED = 1_000  # rows at the head of a log that tell what to expect of all
ONLY_NOW_AND_THEN = (
    0.1  # time that runs backwards in fewer steps than this share is a fault, not a shuffled log
)


@dataclass(frozen=True)
class Found:
    """What a pass over the rows found beside the triples.

    used, nowhere       rows that lead somewhere, and rows that do not
    unlabelled          states and actions that triples lack
    odd                 rows with a bad flag
    rewards             (lowest, highest) of all rows; NaN where one is missing, or is no multiple
                        of the step that was expected
    rewards_used        the same of the rows that lead somewhere
    sizes               sums of |reward| of the rows that lead somewhere, and of the others
    blocks, episodes    blocks of rows in which each follows from the one before, and episodes: as
                        many where all are in order
    nameless            blocks whose episode has a name that reads like a missing value
    """

    used: int
    nowhere: int
    unlabelled: int
    odd: int
    rewards: tuple[float, float]
    rewards_used: tuple[float, float]
    sizes: tuple[float, float]
    blocks: int
    episodes: int
    nameless: int

    @property
    def rows(self) -> int:
        """All rows of the pass."""
        return self.used + self.nowhere

    @property
    def in_order(self) -> bool:
        """Whether every episode is one block of rows."""
        return self.blocks == self.episodes


@dataclass(frozen=True)
class Survey:
    """The number of rows, whether any has a bad reward or flag, and how to add the rewards up."""

    rows: int
    bad: bool
    sums: RewardSums


def count_rows(
    database: Database, reading: Reading, part: Slice = None, *, in_order: bool = False
) -> tuple[Survey, Found | None]:
    """Count the triples of the rows as they lie: at once where the first rows promise rewards in
    steps, else after a survey.

    None: the rows were not counted, since some are bad, or are not in the order that was asked for.
    """
    divisor, size, promising = _first_rows(database, reading, part, in_order)
    guess = RewardSums(reading.store.rows, size, size, divisor)
    if database.reads_once and promising and guess.way == "steps":
        found = group_triples(database, reading, guess, part, in_order=in_order)
        low, high = found.rewards
        if found.odd == 0 and -LARGEST <= low <= high <= LARGEST:
            sums = replace(guess, rows=found.rows, largest=max(-low, high))
            if sums.way == "steps":
                return Survey(found.rows, False, sums), found if found.in_order else None
    seen = survey(database, reading, part)
    if seen.bad or not promising:
        return seen, None
    found = group_triples(database, reading, seen.sums, part, in_order=in_order)
    return seen, found if found.in_order else None


def _first_rows(
    database: Database, reading: Reading, part: Slice, in_order: bool
) -> tuple[int, float, bool]:
    """Of the first rows: (D, or 0 where not all rewards are whole multiples of 1 / D; the
    largest in size; whether they are in order).
    """
    few = f"(select r from {reading.steps(part)} where abs(r) < 1e6 limit {PROBED})"
    held = ", ".join(f"bool_and({in_steps(d)})" for d in DIVISORS)
    size, *holds = database.rows(
        "looking at the first rows", f"select max(abs(r)), {held} from {few}"
    )[0]
    divisor = next((d for d, held in zip(DIVISORS, holds, strict=True) if held), 0)
    if not in_order:
        return divisor, float(size or 0.0), True
    rows = _in_order(reading, f"(from {reading.steps(part)} limit {PROBED})")
    blocks, episodes = database.rows(
        "looking at the first rows", f"select count(*), count(distinct h_e) from {rows} where first"
    )[0]
    return divisor, float(size or 0.0), blocks == episodes


def survey(database: Database, reading: Reading, part: Slice = None) -> Survey:
    """One pass over the numeric columns; the first rows tell whether the rewards may be whole
    multiples of 1 / D.
    """
    divisor, _, _ = _first_rows(database, reading, part, False)
    stepped = "false" if not divisor else f"count(*) filter (where not {in_steps(divisor)}) = 0"
    rows, there, flags, low, high, smallest, steps = database.rows(
        "looking at rewards and flags",
        f"select count(*), count(r), count(*) filter (where {bad_flags_sql()}), min(r), max(r),"
        f" min(abs(r)) filter (where r <> 0), {stepped} from {reading.steps(part)}",
    )[0]
    low, high = (float("nan") if x is None else float(x) for x in (low, high))
    wrong = (
        there < rows or flags > 0 or not (low >= -LARGEST and high <= LARGEST)
    )  # NaN is the largest number of DuckDB
    largest = 0.0 if wrong else max(-low, high)
    sums = RewardSums(
        int(rows),
        largest,
        largest if smallest is None else float(smallest),
        divisor if steps else 0,
    )
    return Survey(int(rows), rows > 0 and wrong, sums)


@dataclass(frozen=True)
class Shape:
    """Blocks of rows of one episode, episodes, and steps within a block at which time does not
    go on.
    """

    blocks: int
    episodes: int
    back: int
    steps: int

    @property
    def clock_fault(self) -> bool:
        """Whether the log is in order but for a few steps back in time: a fault rather than a
        shuffled log.
        """
        return 0 < self.back < ONLY_NOW_AND_THEN * self.steps and self.blocks == self.episodes


def order_shape(database: Database, reading: Reading, part: Slice = None) -> Shape:
    """How the rows of a log lie that is not in order, or has a fault."""
    back = "count(*) filter (where not new and t < t_before)" if reading.has_time else "0"
    time = ", t, lag(t) over () as t_before" if reading.has_time else ""
    rows = f"(select e, lag(e) over () as e_before{time} from {reading.steps(part)})"
    blocks, episodes, backwards, steps = database.rows(
        "looking at the order of rows",
        f"select count(*) filter (where new), count(distinct e), {back}, count(*) filter (where not"
        f" new) from (select *, e is distinct from e_before as new from {rows})",
    )[0]
    return Shape(int(blocks), int(episodes), int(backwards), int(steps))


@dataclass(frozen=True)
class StepsBack:
    """Of the steps of all episodes, in the order of the files: how many go back in time, and how
    many of these as clocks are put back.
    """

    back: int
    at_night: int

    @property
    def clock_change(self) -> bool:
        """Whether most of them could be clocks put back: the rows are then in order, and sorting
        them would mix them up.
        """
        return 0 < self.back <= 2 * self.at_night


def steps_back(database: Database, reading: Reading, part: Slice = None) -> StepsBack:
    """The steps back of a log whose times have no UTC offset."""
    rows = (
        "(select t, lag(t) over (partition by e order by file, row) as t_before from"
        f" {reading.steps(part)})"
    )
    back, at_night = database.rows(
        "looking at the clock",
        f"select count(*), count(*) filter (where {put_back('t', 't_before')}) from {rows} where t"
        " < t_before",
    )[0]
    return StepsBack(int(back), int(at_night))


def group_triples(
    database: Database,
    reading: Reading,
    sums: RewardSums,
    part: Slice = None,
    *,
    in_order: bool = False,
) -> Found:
    """The table `triples`: (s, a, n, ends) with k rows, the sum r and the scatter m2 of their
    rewards; n is NULL where they lead nowhere.

    a is a key, whose label is in the table `keys`.

    in_order   look, as the rows pass by, whether in each episode every row leads to the next, time
               goes on and nothing follows an end (see `Found.in_order`). The table `starts` then
               holds how many used rows (k) of each state s start an episode. Without next_state
               this is needed: each row leads to the state of the next.
    """
    reading = with_action_keys(database, reading)
    parts = readings_side_by_side(database, reading) if in_order else []
    rows = (
        f"({' union all '.join(f'from {_in_order(x, x.steps(part))}' for x in parts)})"
        if in_order
        else reading.steps(part)
    )
    keys = "s, a, n, ends" if reading.may_end else "s, a, n"
    ends = "ends" if reading.may_end else "false as ends"
    grouped = f"(select {keys}, count(*) as k, {sums.aggregates} from x group by {keys})"
    facts = _facts(reading, sums, in_order)
    queries = [  # the others tell themselves apart by k <= 0
        f"select s, a, n, {ends}, k, r, m2 from {sums.finished(grouped)}",
        (
            f"select null, null, null, null, 0, unnest([{', '.join(facts.values())}]),"
            f" unnest({list(range(len(facts)))}) from x"
        ),
        *([_starts(reading)] if in_order else []),
    ]
    once = "" if database.reads_once else "not materialized"
    query = f"with x as {once} (from {sums.prepared(rows)}) {' union all '.join(queries)}"
    as_they_lie = (
        in_order and not reading.has_time
    )  # where there are times, that they go on is seen anyway
    database.run("counting", f"set preserve_insertion_order = {str(as_they_lie).lower()}")
    try:
        database.run("counting", f"create or replace temp table triples as {query}")
    finally:
        database.run("counting", "set preserve_insertion_order = true")
    database.run(
        "counting",
        "create or replace temp table starts as select s, r::bigint as k from triples where k < 0"
        " and r > 0",
    )
    numbers = [
        float("nan") if x is None else x
        for (x,) in database.rows("counting", "select r from triples where k = 0 order by m2")
    ]
    found = dict(zip(facts, numbers, strict=True))
    blocks, episodes = database.rows(
        "counting", "select coalesce(-sum(k), 0), coalesce(sum(m2), 0) from triples where k < 0"
    )[0]
    database.run("counting", "delete from triples where k <= 0")
    if not reading.action_key:
        keys_as_found(database)
    rows, unlabelled = database.rows(
        "adding up", "select coalesce(sum(k), 0), 2 * count(*) - count(s) - count(a) from triples"
    )[0]
    nowhere = database.rows(
        "adding up", f"select coalesce(sum(k), 0) from triples where not {USED}"
    )[0][0]
    return _found(
        found, int(rows - nowhere), int(nowhere), int(unlabelled), int(blocks), int(episodes)
    )


def _found(
    facts: dict[str, float], used: int, nowhere: int, unlabelled: int, blocks: int, episodes: int
) -> Found:
    """What was found, from the values of `_facts`; where all rows lead somewhere, what holds for
    all holds for those.
    """
    low, high, size = facts["low"], facts["high"], facts["size"]
    rewards_used, size_used = (
        (facts.get("low_used", low), facts.get("high_used", high)),
        facts.get("size_used", size),
    )
    sizes = (size_used, size - size_used)
    return Found(
        used,
        nowhere,
        unlabelled,
        int(facts["odd"]),
        (low, high),
        rewards_used,
        sizes,
        blocks,
        episodes,
        int(facts["nameless"]),
    )


def _facts(reading: Reading, sums: RewardSums, in_order: bool) -> dict[str, str]:
    """SQL: the number of bad flags, the range and the size of all rewards, and of those of the rows
    that lead somewhere where others do not, and the number of episodes with an odd name.
    """
    flagged = reading.store.physical.terminal or reading.store.physical.truncated
    odd = (
        f"count(*) filter (where {'odd' if in_order else bad_flags_sql()})::double"
        if flagged
        else "0::double"
    )
    low, high = sums.extremes()
    facts = {"odd": odd, "low": low, "high": high, "size": sums.size(), "nameless": "0::double"}
    if in_order and reading.label_types("episode") == ("VARCHAR",):
        named = ", ".join(f"hash({text_sql(x)})" for x in MISSING)
        facts["nameless"] = (
            f"count(*) filter (where case when first then h_e in ({named}) end)::double"
        )
    if not reading.given:
        used = f" filter (where {USED})"
        facts |= dict(zip(("low_used", "high_used"), sums.extremes(used), strict=True)) | {
            "size_used": sums.size(used)
        }
    return facts


def _starts(reading: Reading) -> str:
    """The first rows of blocks, by state: -k blocks, of which r lead somewhere, in m2 episodes
    that have a name and a time.
    """
    unnamed = f"(e is null{' or t is null' if reading.has_time else ''})"
    used = (
        "" if reading.given else f", count(*) filter (where {USED}) as used"
    )  # with next_state all rows are
    blocks = (
        f"select any_value(s) as s, {unnamed} as unnamed, count(*) as k{used} from x where first"
        f" group by h_e, {unnamed}"
    )
    numbers = (
        f"-sum(k)::bigint, sum({'k' if reading.given else 'used'})::double, count(*) filter (where"
        " not unnamed)"
    )
    return f"select s, null, null, null, {numbers} from ({blocks}) group by s"


def _in_order(reading: Reading, rows: str) -> str:
    """The rows as they lie, each compared with the one before (DuckDB streams this): `first`, where
    it does not follow from that.

    Episodes are told apart by 64-bit hashes h_e: that two which follow each other have the same is
    as likely as 1 in 2^64.
    """
    before, follows = ["lag(h_e) over () as h_before"], ["h_e = h_before"]
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
        before += ["lead(h_e) over () as h_after", "lead(s) over () as s_after"]
    around = f"(select *, {', '.join(before)} from (select *, hash(e) as h_e from {rows}))"
    kept = (
        f"e, h_e, {'t, ' if reading.has_time else ''}s, a, r, {bad_flags_sql()} as odd,"
        f" ({' and '.join(follows)}) is not true as first"
    )
    if reading.given:
        return f"(select {kept}, n, ends from {around})"
    last = "h_e is distinct from h_after"
    flag = f"(ends or {last})" if reading.episode_end == "terminal" else "ends"
    return (
        f"(select {kept}, case when {last} then null else s_after end as n, {flag} as ends from"
        f" {around})"
    )
