"""Judging: what is wrong with which row; an error that names the first offenders, or a store
without them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from surefoot.core.labels import match, places_of
from surefoot.errors import LogError
from surefoot.logs.accounting import CUT, NO_SUCCESSOR, REASONS
from surefoot.logs.clock import ADVICE, ZONED
from surefoot.logs.database import Database, Workspace, name_sql, text_sql
from surefoot.logs.notes import REMEDIES
from surefoot.logs.passes import Slice
from surefoot.logs.query import MISSING, Reading, bad_reward_sql
from surefoot.logs.store import Store
from surefoot.logs.tally import plain_label

SHOWN = 3  # offenders named for each reason
SEGMENT, ENDS, NEXT = "surefoot_segment", "surefoot_ends", "surefoot_next_"
# The columns whose values show what is wrong.
ROLES = {
    "episode": ("episode",),
    "time": ("time",),
    "state": ("state",),
    "action": ("action",),
    "action-not-allowed": ("action",),
    "reward": ("reward",),
    "flag": ("terminal", "truncated"),
    "both-flags": ("terminal", "truncated"),
    "next-state": ("next_state",),
    "duplicate": ("episode", "time"),
    "backwards": ("episode", "time"),
    "after-end": ("episode", "time"),
    "contradiction": ("next_state",),
}


@dataclass(frozen=True)
class Kept:
    """The rows that stay when bad ones are dropped: a reading of them, how many were left out and
    why, and where episodes start.

    size_left_out, nameless   as in `Accounting`
    """

    reading: Reading
    left_out: dict[str, int]
    starts: tuple[tuple[Any, int], ...]
    size_left_out: float
    nameless: int


def judge(
    database: Database,
    reading: Reading,
    workspace: Workspace,
    droppable: frozenset[str],
    part: Slice = None,
) -> Kept:
    """Look at every row with its neighbours; raise unless all faults found may be dropped, else
    write out the rows that stay.
    """
    _judge_rows(database, reading, part)
    counted = database.rows(
        "judging rows",
        "select reason, count(*) from judged where reason is not null group by reason",
    )
    found = {str(reason): int(n) for reason, n in counted}
    lost: list[str] = (
        [] if reading.given else [reason for reason in ("episode", "time") if reason in found]
    )
    faults = [
        reason
        for reason in REASONS
        if reason in found and (reason not in droppable or reason in lost)
    ]
    if faults:
        raise LogError(
            _in_words(
                database, reading, {reason: found[reason] for reason in faults}, cannot_drop=lost
            )
        )
    starts = database.rows(
        "finding the first states",
        "select s, count(*) from judged where pos = 1 and reason is null group by s",
    )
    lost_size = database.rows(
        "judging rows",
        "select coalesce(sum(abs(r)), 0) from judged where reason is not null and not"
        f" {bad_reward_sql()}",
    )
    return Kept(
        _kept(database, reading, workspace),
        found,
        tuple((s, int(n)) for s, n in starts),
        float(lost_size[0][0]),
        _nameless(database, reading),
    )


def _nameless(database: Database, reading: Reading) -> int:
    """How many episodes have a name that reads like a missing value."""
    if reading.label_types("episode") != ("VARCHAR",):
        return 0
    listed = ", ".join(map(text_sql, MISSING))
    return int(
        database.rows(
            "judging rows",
            f"select count(distinct e) from judged where reason is null and e in ({listed})",
        )[0][0]
    )


def _judge_rows(database: Database, reading: Reading, part: Slice) -> None:
    """The table `judged`: every row with its place `pos` in its episode, its next state and its
    `reason` to be left out.
    """
    forbidden = _forbidden(database, reading, part)
    window = f"window w as (partition by e order by {reading.order_keys})"
    time = "lag(t) over w" if reading.has_time else "null"
    twice = "when t = t_before then 'duplicate' " if reading.has_time else ""
    local = _local(reading, forbidden)
    placed = (
        f"(select *, row_number() over w as pos, {time} as t_before, {local} as local from"
        f" {reading.steps(part)} {window})"
    )
    database.run(
        "judging rows",
        "create or replace temp table placed as select *, case when local in ('episode', 'time')"
        f" then local {twice}end as early from {placed}",
    )
    holes = bool(
        database.rows("judging rows", "select count(*) from placed where early is not null")[0][0]
    )
    past = "past as (partition by e order by pos rows between unbounded preceding and 1 preceding)"
    around = (
        "(select *, lead(s) over w as s_after, lead(pos) over w is null as last,"
        " coalesce(bool_or(ends or cut) over past, false) as late from (from placed where early is"
        f" null) window w as (partition by e order by pos), {past})"
    )
    follows = _following(reading, holes)
    back = "when t < t_before then 'backwards' " if reading.has_time and not reading.by_time else ""
    database.run(
        "judging rows",
        f"create or replace temp table judged as select e, s, r, file, row, pos, {follows['known']}"
        f" as n_known, {follows['ends']} as ends, {follows['hole']} as hole, case when local is not"
        f" null then local {back}when late then 'after-end' {follows['reasons']} end as reason from"
        f" {around} union all by name select e, s, r, file, row, pos, early as reason from placed"
        " where early is not null",
    )


def _local(reading: Reading, forbidden: str) -> str:
    """What is wrong with a row by itself."""
    timeless = "when t is null then 'time' " if reading.has_time else ""
    missing = "when n is null and not ends then 'next-state' " if reading.given else ""
    return (
        f"case when e is null then 'episode' {timeless}when s is null then 'state' when a is null"
        f" then 'action' {forbidden}when {bad_reward_sql()} then 'reward' when ends is null or cut"
        f" is null then 'flag' when ends and cut then 'both-flags' {missing}end"
    )


def _following(reading: Reading, holes: bool) -> dict[str, str]:
    """How the next state is known, and what is wrong between a row and the next.

    Where rows were left out that have no place (`holes`), a next_state that is not the following
    state is no contradiction: the row between the two may be one of them.
    """
    if reading.given:
        clash = (
            "not last and n is not null and s_after is not null and n <> s_after and not ends and"
            " not cut"
        )
        reasons = "" if holes else f"when {clash} then 'contradiction'"
        return {"known": "n is not null", "ends": "ends", "hole": clash, "reasons": reasons}
    ends = "(ends or last)" if reading.episode_end == "terminal" else "ends"
    cut = (
        f"when last and not {ends} then '{CUT}' when cut then '{CUT}' when not {ends} and s_after"
        f" is null then '{NO_SUCCESSOR}'"
    )
    return {"known": "not last and not ends", "ends": ends, "hole": "false", "reasons": cut}


def _forbidden(database: Database, reading: Reading, part: Slice) -> str:
    """The case of an action outside the allowed set; its labels are compared here, not by
    DuckDB.
    """
    if reading.allowed is None:
        return ""
    query = f"select distinct a as x from {reading.steps(part)} where a is not null"
    database.run(
        "looking at actions",
        "create or replace temp table taken as select x, row_number() over (order by x) as place"
        f" from ({query})",
    )
    found = database.rows("looking at actions", "select x, place from taken order by place")
    right = allowed_places([plain_label(x) for x, _ in found], reading.allowed)
    wrong = [int(place) for i, (_, place) in enumerate(found) if i not in right]
    listed = ", ".join(map(str, wrong)) or "0"
    return f"when a in (select x from taken where place in ({listed})) then 'action-not-allowed' "


def allowed_places(taken: list[Any], allowed: tuple[Any, ...]) -> set[int]:
    """The places of the actions taken that are allowed: labels that a user gives are looked for
    among those of the log.
    """
    places = places_of(taken)
    return {place for label in allowed if (place := match(label, places)) is not None}


def _in_words(
    database: Database, reading: Reading, found: dict[str, int], cannot_drop: list[str]
) -> str:
    """Every reason with its first offenders and the option that would drop them."""
    parts = []
    for reason, n in found.items():
        rows = database.rows(
            "finding the first offenders",
            f"select file, row from judged where reason = {text_sql(reason)} order by file, row"
            f" limit {SHOWN}",
        )
        first = "; ".join(_offender(database, reading, reason, file, row) for file, row in rows)
        parts.append(f"{n:,} {REASONS[reason]}, first {first}")
    option = f"leave them out with drop_bad_rows={','.join(found)!r}"
    if cannot_drop:
        option = (
            "give next_state: without it, rows that have no place leave unknown which row follows"
            " which, and cannot be dropped"
        )
    hints = "".join(f". {hint}" for hint in _hints(reading, found, " ".join(parts)))
    return "the log has bad rows: " + ". ".join(parts) + f". Mend them, or {option}{hints}"


def _hints(reading: Reading, found: dict[str, int], said: str) -> list[str]:
    """What else than dropping may be right."""
    hints = []
    if "reward" in found and (" missing" in said or any(f" {word!r}" in said for word in MISSING)):
        hints.append(
            f"{REMEDIES['reward']}; to drop the rows would lose the steps, not only their rewards"
        )
    if {"reward", "time"} & set(found) and re.search(r"'[+-]?\d+,\d+'", said):
        hints.append("If the comma is a decimal one, say decimal=','")
    if "time" in found and reading.dated:
        offset = (
            "Some times of this log have a UTC offset: then all need one"
            if reading.time_type == ZONED
            else "None has a UTC offset"
        )
        hints.append(
            "A time is a number, or a date such as 2024-03-31 18:30:00 or 2024-03-31"
            f" 18:30:00+05:30. {offset}"
        )
    if reading.wall_clock and {"backwards", "duplicate"} & set(found):
        hints.append(ADVICE)
    if "backwards" in found:
        hints.append(
            "Only if the rows do not lie in the order in which they happened, sort by time with"
            " order='time'"
        )
    return hints


def _offender(database: Database, reading: Reading, reason: str, file: str, row: int) -> str:
    """The place and the values of a bad row; rows count from 1, the header is none."""
    store = reading.store
    shown = [
        (name, to)
        for role in ROLES[reason]
        for name, to in zip(
            getattr(store.columns, role), getattr(store.physical, role), strict=True
        )
    ]
    text = ""
    if shown:
        place, number = store.place_sql.split(", ")
        chosen = ", ".join(f"left(cast({name_sql(to)} as varchar), 60)" for _, to in shown)
        query = f"select {chosen} from {store.sql} where {place} = $1 and {number} = $2"
        values = database.rows("finding the first offenders", query, [file, row])[0]
        words = [
            f"{name} {x!r}" if x is not None else f"{name} missing"
            for (name, _), x in zip(shown, values, strict=True)
        ]
        text = f" ({', '.join(words)})"
    return f"{store.names.get(file, file)} row {row + 1}{text}"


def _kept(database: Database, reading: Reading, workspace: Workspace) -> Reading:
    """The rows without a reason, in order, as a store of its own; an episode is split where rows
    were left out of its middle.
    """
    store = reading.store
    state = store.physical.state
    follow = store.physical.next_state or tuple(f"{NEXT}{i}" for i in range(len(state)))
    used = list(dict.fromkeys(x for names in store.physical.roles().values() for x in names))
    target = str(workspace.path / "kept.parquet")
    steps = zip(state, follow, strict=True)
    derived = (
        ""
        if reading.given
        else "".join(
            f", case when n_known then lead({name_sql(s)}) over w end as {name_sql(f)}"
            for s, f in steps
        )
    )
    columns = ", ".join(
        map(
            name_sql, [*dict.fromkeys([*used, *follow]), SEGMENT, ENDS, "source_file", "source_row"]
        )
    )
    rows = (
        f"(select *{derived} from {_neighbours(store, used)} window w as (partition by e order by"
        " pos))"
    )
    database.run(
        "writing out the rows that stay",
        f"copy (select {columns} from {rows} where reason is null order by e, {SEGMENT}, pos) to"
        f" {text_sql(target)} (format parquet)",
    )
    physical = replace(
        store.physical,
        episode=(*store.physical.episode, SEGMENT),
        next_state=follow,
        terminal=(ENDS,),
    )
    types = store.types | {
        SEGMENT: "BIGINT",
        ENDS: "BOOLEAN",
        "source_file": "VARCHAR",
        "source_row": "BIGINT",
    }
    types |= (
        {} if reading.given else {f: store.types[s] for s, f in zip(state, follow, strict=True)}
    )
    return replace(
        reading,
        store=replace(store, files=(target,), physical=physical, types=types),
        episode_end="cut",
        by_time=False,
    )


def _neighbours(store: Store, used: list[str]) -> str:
    """The columns of all rows that have a place in their episode, with the segment they lie in:
    a new one after each gap.
    """
    place, number = store.place_sql.split(", ")
    window = "window w as (partition by e order by pos)"
    placed = "(from judged where reason is null or reason not in ('episode', 'time', 'duplicate'))"
    gaps = (
        "(select *, coalesce(lag(reason is not null or hole) over w, false)::integer as gap from"
        f" {placed} {window})"
    )
    columns = ", ".join(map(name_sql, used))
    return (
        f"(select r.*, j.e, j.pos, j.segment as {SEGMENT}, j.ends as {ENDS}, j.reason, j.n_known"
        f" from (select *, (sum(gap) over w)::bigint as segment from {gaps} {window}) j join"
        f" (select {columns}, {place} as source_file, {number} as source_row from {store.sql}) r on"
        " r.source_file = j.file and r.source_row = j.row)"
    )
