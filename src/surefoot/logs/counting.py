"""Counting: a few queries over the steps of a log, one for each question; the answers make a Tally.

    look            what are the rows like, each by itself?
    find_episodes   does every row follow from the one before?
    group_triples   how often does each (s, a, s2) occur, and with what rewards?
    code_labels     which number stands for which label?

At the first sign of a bad row `faults` says which rows are bad, or goes on without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp
from typing import Any

import numpy as np

from surefoot.core.array_checks import SMALLEST
from surefoot.core.errors import LogError, SurefootError
from surefoot.core.evidence import GROUP
from surefoot.core.labels import as_text
from surefoot.logs.accounting import AT_LIMIT, CUT, accounting, nothing_left
from surefoot.logs.column_roles import MISSING
from surefoot.logs.database import Database, text_sql
from surefoot.logs.faults import find_forbidden, unrewarded_in, without_faults, wrong_alone
from surefoot.logs.query import USED, Part, Reading, with_time_type
from surefoot.logs.store import sorted_store
from surefoot.logs.tally import TO_END, Tally, plain_label

DIVISORS = (1, 10, 100, 1_000, 10_000)
KEPT = 32  # bits that the smallest reward keeps at least in `parts`


# time that runs backwards in fewer steps than this share is a fault, not a shuffled log
ONLY_NOW_AND_THEN = 0.1
FEW = 0.05  # of the rows: so many that ended may be left out to treat them like those that did not


@dataclass(frozen=True, kw_only=True)
class Look:
    """What the rows are like.

    rows, faulty, filled   their number; of those with a fault that shows in a row by itself; of
                           those without a reward
    low, high, size        the lowest and the highest reward, and the sum of |reward|
    sums                   how to add the rewards up
    """

    rows: int
    faulty: int
    filled: int
    low: float
    high: float
    size: float
    sums: RewardSums


@dataclass(frozen=True, kw_only=True)
class Order:
    """How the rows lie: blocks of rows of one episode, episodes, steps back in time within a block,
    and rows that do not follow from the one before (the first of an episode among them).
    """

    blocks: int
    episodes: int
    back: int
    breaks: int

    def clock_fault(self, rows: int) -> bool:
        """Whether the log is in order but for a few steps back in time: a fault rather than a
        shuffled log.
        """
        few = 0 < self.back < ONLY_NOW_AND_THEN * (rows - self.blocks)
        return few and self.blocks == self.episodes


def count_log(database: Database, reading: Reading, part: Part = None) -> tuple[Reading, Tally]:
    """(a reading whose rows lie in order, their tally); raises where a row is bad, unless it may
    be dropped.
    """
    ordered = reading.options.check_order
    reading = with_time_type(reading, database) if ordered else reading
    seen = look(database, reading, part, ordered=ordered)
    # first what makes a table that bad rows are looked for with
    good = not (find_forbidden(database, reading, part) or seen.faulty)
    if ordered:
        found = find_episodes(database, reading, part)
        reading, sorting = _to_be_sorted(database, reading, found, seen.rows, part)
        if good and sorting:
            store = sorted_store(reading.store, database, reading.sort_keys)
            reading = replace(reading, store=store)
            found = find_episodes(database, reading, part)
        good = good and found.breaks == found.episodes
    if good:
        reading, at_limit = with_limit(database, reading) if part is None else (reading, 0)
        used = group_triples(database, reading, seen.sums, part)
        if used == seen.rows or not reading.given:
            left_out = {AT_LIMIT: at_limit}
            return reading, _tally(
                database, reading, seen, used, starts=ordered, part=part, left_out=left_out
            )
    return _count_without_faults(database, reading, seen.rows, part)


def look(database: Database, reading: Reading, part: Part, *, ordered: bool) -> Look:
    """Two queries: which labels are missing (Parquet files often know that without reading), and
    what the numbers are like.
    """
    needed = ["s", "a", *(["episode"] if ordered else [])]
    needed += ["t"] if ordered and reading.time_kind else []
    rows, *there = database.rows(
        "looking at labels",
        f"select count(*), {', '.join(f'count({x})' for x in needed)} from {reading.steps(part)}",
    )[0]
    wrong, filled, low, high, size, smallest, divisor = database.rows(
        "looking at rewards and flags",
        f"""select count(*) filter (where {wrong_alone(reading)}),
                   count(*) filter (where filled),
                   min(r), max(r), coalesce(sum(abs(r)), 0),
                   min(abs(r)) filter (where r <> 0), {divisor_sql()}
            from {reading.steps(part)}""",
    )[0]
    largest = max(-low, high) if low is not None else 0.0
    if 0 < largest < SMALLEST:
        raise LogError(
            f"all rewards lie between {low:g} and {high:g}: their squares are too small to compute"
            " with; multiply all rewards by a constant"
        )
    return Look(
        rows=rows,
        faulty=wrong + sum(rows - n for n in there),
        filled=filled,
        low=np.nan if low is None else low,
        high=np.nan if high is None else high,
        size=size,
        sums=RewardSums(rows, largest, largest if smallest is None else smallest, divisor or 0),
    )


def find_episodes(database: Database, reading: Reading, part: Part = None) -> Order:
    """The table `episodes`: each with its first state s, whether its first row is used, and where
    its rows do not follow from each other. DuckDB streams the windows: the rows are not sorted.
    """
    database.run(
        "looking at the order of rows",
        f"""create or replace temp table episodes as
            select episode, any_value(s) as s, any_value({USED}) as used,
                   count(*) filter (where new) as blocks,
                   count(*) filter (where not new and t < t_before) as back,
                   count(*) as breaks
            from (
                select *, episode is distinct from lag(episode) over () as new,
                       lag(t) over () as t_before, lag(s2) over () as s2_before,
                       lag(ends or cut) over () as over_before
                from {reading.transitions(part)})
            where new or t <= t_before or over_before or (s = s2_before) is not true
            group by episode""",
    )
    blocks, episodes, back, breaks = database.rows(
        "looking at the order of rows",
        """select coalesce(sum(blocks), 0)::bigint, count(episode),
                  coalesce(sum(back), 0)::bigint, coalesce(sum(breaks), 0)::bigint
           from episodes""",
    )[0]
    return Order(blocks=blocks, episodes=episodes, back=back, breaks=breaks)


def _to_be_sorted(
    database: Database, reading: Reading, found: Order, rows: int, part: Part
) -> tuple[Reading, bool]:
    """(how the rows are to be taken, whether sorting may put them right).

    Steps back that are a fault of the clock are not sorted away, unless order="time" asks for it.
    """
    apart = found.blocks != found.episodes
    if not (reading.sorts and (found.back or apart)):
        return reading, apart
    back, at_night = steps_back(database, reading, part) if reading.wall_clock else (0, 0)
    # most of them as clocks are put back: the rows are in order, and sorting would mix them up
    clock_change = 0 < back <= 2 * at_night
    if reading.options.order == "auto" and (found.clock_fault(rows) or clock_change):
        return replace(reading, by_time=False), False
    return replace(reading, put_right=back), True


def steps_back(database: Database, reading: Reading, part: Part) -> tuple[int, int]:
    """Of the steps of all episodes, in the order of the files: how many go back in time, and how
    many of these as clocks are put back: by at most an hour, at night.
    """
    back, at_night = database.rows(
        "looking at the clock",
        f"""select count(*),
                   count(*) filter (where t_before::timestamp - t::timestamp <= interval 1 hour
                                          and hour(t_before::timestamp) in (23, 0, 1, 2, 3))
            from (select t, lag(t) over (partition by episode order by file, row) as t_before
                  from {reading.steps(part)})
            where t < t_before""",
    )[0]
    return int(back), int(at_night)


def with_limit(database: Database, reading: Reading) -> tuple[Reading, int]:
    """(the reading with the `limit` of its episodes, how many episodes ended just there).

    It is the length of every episode that was cut, if none is longer, most of those of this length
    were cut, and few rows are lost with the others.
    """
    if reading.given or not reading.store.of("terminal") or reading.options.episode_end != "cut":
        return reading, 0
    cut, shortest, longest, ended, rows = database.rows(
        "looking for a time limit",
        f"""with lengths as (select count(*) as n, bool_or(ends) as ended
                             from {reading.steps()} group by episode)
            select count(*) filter (where not ended), min(n) filter (where not ended), max(n),
                   count(*) filter (where ended and n = (select max(n) from lengths)), sum(n)
            from lengths""",
    )[0]
    if not cut or shortest < longest or longest < 2 or ended > min(cut, FEW * rows):
        return reading, 0
    return replace(reading, limit=int(longest)), int(ended)


def group_triples(database: Database, reading: Reading, sums: RewardSums, part: Part = None) -> int:
    """The table `triples`: (s, a, s2, ends) with k rows that lead somewhere, the sum r and the
    scatter m2 of their rewards; the number of these rows.
    """
    # A constant `ends` among the keys would cost 13 % of the time (20 million rows).
    keys = "s, a, s2, ends" if reading.may_end else "s, a, s2"
    rows = f"(from {reading.transitions(part)} where {USED})"
    database.run("counting", f"create or replace temp table triples as {sums.groups(keys, rows)}")
    return int(database.rows("counting", "select coalesce(sum(k), 0) from triples")[0][0])


def code_labels(database: Database) -> dict[str, tuple[Any, ...]]:
    """The tables `states` and `actions`: labels x in their natural order with their codes 0, 1,
    ...; kept also as files, for reading the rows again.
    """
    among = {
        "states": "select s as x from triples union select s2 from triples where s2 is not null",
        "actions": "select distinct a as x from triples",
    }
    return {name: _coded(database, name, query) for name, query in among.items()}


def code_beside(database: Database, reading: Reading) -> dict[str, tuple[Any, ...]]:
    """{role: labels} of the labels beside the steps (policies, groups), coded as states are."""
    found = {}
    for name, what in reading.beside_labels.items():
        query = f"select distinct {name} as x from {reading.steps()}"
        found[what] = _coded(database, name, query)
    for name, what in reading.beside_labels.items():
        if what.startswith(GROUP):
            _check_groups(database, reading, name, what)
    return found


def _check_groups(database: Database, reading: Reading, name: str, what: str) -> None:
    """Raise where the group changes within an episode."""
    found = database.rows(
        "looking at groups",
        f"""select episode, min({name}), max({name}), count(*) over () from {reading.steps()}
            group by episode having min({name}) <> max({name}) order by episode limit 1""",
    )
    if found:
        episode, low, high = (as_text(plain_label(x)) for x in found[0][:3])
        raise LogError(
            f"the {what.replace(':', '')} changes within episode {episode!r}: {low!r} and {high!r}"
            f" ({found[0][3]:,} such episodes): a group belongs to a whole episode; put what"
            " changes into the state, or split the episodes"
        )


def _coded(database: Database, name: str, query: str) -> tuple[Any, ...]:
    """The labels x of a query in their order, with their codes 0, 1, ... as a table and a file."""
    database.run(
        "coding labels",
        f"""create or replace temp table {name} as
            select x, (row_number() over (order by x) - 1)::integer as code from ({query})""",
    )
    target = text_sql(str(database.folder / name))
    database.run("coding labels", f"copy {name} to {target} (format parquet)")
    found = database.rows("coding labels", f"select x from {name} order by code")
    return tuple(plain_label(x) for (x,) in found)


def _tally(
    database: Database,
    reading: Reading,
    seen: Look,
    used: int,
    *,
    starts: bool,
    part: Part = None,
    left_out: dict[str, int] | None = None,
    size_left_out: float = 0.0,
    unrewarded: dict[str, int] | None = None,
) -> Tally:
    """The tally of the table `triples`; with `starts`, of the table `episodes` too."""
    low, high, size = seen.low, seen.high, seen.size
    reasons = dict(left_out or {}) | {"broken-row": reading.store.broken}
    if used < seen.rows:
        low, high, size = database.rows(
            "looking at the rows used",
            f"""select min(r), max(r), coalesce(sum(abs(r)), 0)
                from {reading.transitions(part)} where {USED}""",
        )[0]
        reasons[CUT] = seen.rows - used - reasons.get(AT_LIMIT, 0)
        size_left_out = max(seen.size - size, 0.0)
    unrewarded = unrewarded or {}
    outcomes = {} if reading.options.bandit or not starts else _outcomes(database, reading, part)
    if seen.filled and outcomes and not unrewarded:
        unrewarded = unrewarded_in(database, reading.steps(part))
    labels = code_labels(database)
    first, nameless = _starts(database, len(labels["states"])) if starts else (None, 0)
    account = accounting(
        used + sum(reasons.values()),
        used,
        reasons,
        filled=seen.filled,
        put_right=reading.put_right,
        nameless=nameless,
        **unrewarded,
        **outcomes,
        size_used=size,
        size_left_out=size_left_out,
    )
    ends = "ends" if reading.may_end else "false as ends"
    columns = database.arrays(
        "coding labels",
        f"""select s.code as s, a.code as a, coalesce(s2.code, {TO_END}) as s2,
                   k::double as k, r, m2, {ends}
            from triples x join states s on x.s = s.x join actions a on x.a = a.x
                 left join states s2 on x.s2 = s2.x""",
    )
    ended = columns["s2"][columns.pop("ends")]
    return Tally(
        states=labels["states"],
        actions=labels["actions"],
        **columns,
        ended=tuple(np.unique(ended[ended != TO_END]).tolist()),
        starts=first,
        lowest=np.nan if low is None else low,
        highest=np.nan if high is None else high,
        accounting=account,
        reward=reading.store.columns.of_reward,
    )


def _outcomes(database: Database, reading: Reading, part: Part) -> dict[str, int]:
    """Whether an episode has two different rewards (the first one found ends the search); if none
    has, how many have several rows.
    """
    what = "looking for outcomes of episodes"
    rows = f"""(select episode, r <> lag(r) over () as differs
                from {reading.steps(part)} qualify episode = lag(episode) over ())"""
    if database.rows(what, f"select 1 from {rows} where differs limit 1"):
        return {"varied": 1}
    query = f"select count(distinct episode) from {rows}"
    return {"repeated": int(database.rows(what, query)[0][0])}


def _starts(database: Database, n_states: int) -> tuple[np.ndarray, int]:
    """(how many episodes start in each state, of those whose first row is used; how many have a
    name that reads like a missing value).
    """
    what = "finding the first states"
    found = database.arrays(
        what,
        """select code, count(*) as n from episodes join states on episodes.s = states.x
           where used group by code""",
    )
    starts = np.zeros(n_states)
    starts[found["code"]] = found["n"]
    words = ", ".join(map(text_sql, MISSING))
    query = f"select count(*) from episodes where episode::varchar in ({words})"
    return starts, int(database.rows(what, query)[0][0])


def _count_without_faults(
    database: Database, reading: Reading, rows: int, part: Part
) -> tuple[Reading, Tally]:
    """Raise, or count the rows that stay."""
    kept = without_faults(database, with_time_type(reading, database), part)
    if not kept.left_out:
        raise SurefootError(
            "the queries over this log disagree about its rows; this is a fault of surefoot,"
            " please report it"
        )
    if sum(kept.left_out.values()) == rows and part is None:
        raise LogError(nothing_left(kept.left_out))
    seen = look(database, kept.reading, None, ordered=False)
    return kept.reading, _tally(
        database,
        kept.reading,
        seen,
        group_triples(database, kept.reading, seen.sums),
        starts=True,
        left_out=kept.left_out,
        size_left_out=kept.size_left_out,
        unrewarded=kept.unrewarded,
    )


def divisor_sql() -> str:
    """The least D of which all r are whole multiples of 1 / D, as near as a DOUBLE can be; larger
    than all DIVISORS if there is none.
    """
    cases = " ".join(f"when round(r * {d}::double) / {d}::double = r then {d}" for d in DIVISORS)
    return f"max(case {cases} else {DIVISORS[-1] + 1} end)"


@dataclass(frozen=True)
class RewardSums:
    """SQL for the sum r and the scatter m2 = sum((r - mean)^2) of the rewards r of a group of k
    rows, which no order of rows, files or threads can change: whole numbers are added up, never
    rounded ones.

    Three ways, the first that holds for the rewards of a log of n < 2^B rows, of which M is the
    largest in size:

    steps    all are whole multiples of 1 / D (D = 1, 10, ..., 10,000) and n (M D)^2 < 2^53: sums of
             x = r D and x^2 are exact as DOUBLE.
    parts    r is h 2^L + l units of M 2^-(H + L), whole numbers with |h| <= 2^H and
             |l| <= 2^(L - 1). One 128-bit integer holds sum(h) and sum(l) apart, as
             sum(h 2^(L + B) + l), another holds sum(h^2). A sum is then right to n M 2^-(H + L) and
             rounded once (H + L is 72 for 100 million rows, 102 for a thousand), and rewards that
             differ by less than M 2^-H do not scatter (H is 49 to 52).
    sorted   where that is too coarse, since some reward is less than 2^(32 - H - L) of the largest:
             each group is sorted before it is added up, which is slower.
    """

    rows: int
    largest: float
    smallest: float  # of the |r| > 0
    divisor: int = 0  # D, where all r are whole multiples of 1 / D

    @property
    def bits(self) -> tuple[int, int, int]:
        """(H, L, B)."""
        count = max(self.rows, 1).bit_length()
        high = min(52, (126 - count) // 2)
        return high, min(50, 126 - high - 2 * count), count

    @property
    def way(self) -> str:
        """How these rewards are added up."""
        stepped = self.divisor in DIVISORS
        if stepped and max(self.rows, 1) * (self.largest * self.divisor + 1) ** 2 < 2.0**53:
            return "steps"
        high, low, _ = self.bits
        return "parts" if self.smallest >= self.largest * 2.0 ** (KEPT - high - low) else "sorted"

    def groups(self, keys: str, rows: str) -> str:
        """SQL: the groups of rows with k, r and m2.

        With X = sum(h) and any whole number m near the mean: sum((h - X / k)^2) = sum(h^2) - m (2 X
        - k m) - (X - k m)^2 / k, in which nothing large is rounded.
        """
        if self.way == "sorted":
            return f"""
                select {keys}, count(*) as k, sum(r order by r) as r,
                       var_pop(r order by r) * count(*) as m2
                from {rows} group by {keys}"""
        scatter = "greatest(0, (q - m * (2 * x - k * m))::double - ((x - k * m)::double) ** 2 / k)"
        if self.way == "steps":
            d = f"{self.divisor}::double"
            return f"""
                select {keys}, k, x / {d} as r, {scatter} / {self.divisor**2}::double as m2 from (
                    select *, round(x / k) as m from (
                        select {keys}, count(*) as k, sum(h) as x, sum(h * h) as q
                        from (select *, round(r * {d}) as h from {rows}) group by {keys}))"""
        high, low, count = self.bits
        shift = high - frexp(self.largest)[1]  # 2^shift makes the rewards at most 2^H in size
        both = low + count
        packed = f"cast(h * {_power(both)} as hugeint) + cast((y - h) * {_power(low)} as bigint)"
        total = f"(x * {1 << low}::hugeint + (p - x * {1 << both}::hugeint))::double"
        return f"""
            select {keys}, k, {total} * {_power(-shift - low)} as r,
                   {scatter} * {_power(-2 * shift)} as m2 from (
                select *, round(x::double / k)::hugeint as m from (
                    select *, (p + {1 << (both - 1)}::hugeint) >> {both} as x from (
                        select {keys}, count(*) as k, sum({packed}) as p,
                               sum(cast(h as bigint)::hugeint * cast(h as bigint)) as q
                        from (select *, round(y) as h from
                                 (select *, r * {_power(shift)} as y from {rows}))
                        group by {keys})))"""


def _power(exponent: int) -> str:
    """2^exponent as an SQL number."""
    return f"{2.0**exponent!r}::double"
