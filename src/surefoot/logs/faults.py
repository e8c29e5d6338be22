"""Faults: what is wrong with which row; an error that names the first bad rows, or a store
without them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from surefoot.core.errors import LogError, option
from surefoot.core.labels import match, places_of
from surefoot.logs.accounting import CUT, NO_SUCCESSOR, REASONS, REMEDIES, no_reward_at_all
from surefoot.logs.column_roles import MISSING
from surefoot.logs.database import Database, text_sql
from surefoot.logs.query import ZONED, Part, Reading
from surefoot.logs.store import rewritten, write_parquet
from surefoot.logs.tally import plain_label

CLOCKS_PUT_BACK = (
    "If the clocks were put back there, give times with a UTC offset, such as 2024-10-27"
    f" 02:30+01:00, or take the rows as they come with {option('time', '-')}"
)
SHOWN = 3  # bad rows named for each reason
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
    "propensity": ("propensity",),
    "policy": ("policy",),
    "group": ("group",),
    "guard": ("guard",),
    "duplicate": ("episode", "time"),
    "backwards": ("episode", "time"),
    "after-end": ("episode", "time"),
    "contradiction": ("next_state",),
}


@dataclass(frozen=True)
class Kept:
    """The rows that stay when bad ones are dropped: a reading of them, how many were left out and
    why, the sum of |reward| of those left out, and the episodes without any reward.
    """

    reading: Reading
    left_out: dict[str, int]
    size_left_out: float
    unrewarded: dict[str, int]


def without_faults(database: Database, reading: Reading, part: Part = None) -> Kept:
    """Look at every row with its neighbours; raise unless all faults found may be dropped, else
    write out the rows that stay. The table `episodes` says where these start.
    """
    find_faults(database, reading, part)
    counted = database.rows(
        "finding bad rows",
        """select reason, count(*), coalesce(sum(abs(r)), 0) from judged
           where reason is not null group by reason""",
    )
    found = {str(reason): int(n) for reason, n, _ in counted}
    lost = [] if reading.given else [x for x in ("episode", "time") if x in found]
    faults = [x for x in REASONS if x in found and (x not in reading.options.drop or x in lost)]
    unrewarded = {} if reading.options.bandit else unrewarded_in(database, "judged")
    if faults:
        words = _in_words(database, reading, {x: found[x] for x in faults}, bool(lost))
        if unrewarded.get("unrewarded"):
            words += f". {no_reward_at_all(**unrewarded)}"
        raise LogError(words)
    database.run(
        "finding the first states",
        """create or replace temp table episodes as
           select episode, arg_min(s, place) as s, min(place) = 1 as used
           from judged where reason is null group by episode""",
    )
    kept = _kept(database, reading)
    return Kept(kept, found, float(sum(size for _, _, size in counted)), unrewarded)


def unrewarded_in(database: Database, rows: str) -> dict[str, int]:
    """How many episodes of these rows have no reward in any of them, and how many there are."""
    none, episodes = database.rows(
        "looking for episodes without a reward",
        f"""select count(*) filter (where nothing), count(*)
            from (select bool_and(filled or r is null) as nothing from {rows}
                  where episode is not null group by episode)""",
    )[0]
    return {"unrewarded": int(none), "episodes": int(episodes)}


def find_faults(database: Database, reading: Reading, part: Part) -> None:
    """The table `judged`: every row with its `place` in its episode, its next state, and the
    `reason` why it is bad.

    First come the faults of a row by itself. Rows without an episode or a time, and repeated ones,
    have no place: they are passed over when a row is compared with those before and after it.
    """
    order = "t, file, row" if reading.sorts else "file, row"
    database.run(
        "finding bad rows",
        f"""create or replace temp table placed as
            select *, case when fault in ('episode', 'time') then fault
                           when t = t_before then 'duplicate' end as no_place
            from (select *, row_number() over w as place, lag(t) over w as t_before,
                         {_first_of(_faults_alone(reading))} as fault
                  from {reading.steps(part, all_columns=True)}
                  window w as (partition by episode order by {order}))""",
    )
    misplaced = "select count(*) from placed where no_place is not null"
    # the row between two that do not fit may be one of them
    holes = database.rows("finding bad rows", misplaced)[0][0] > 0
    s2, ends, clash = "s2", "ends", CLASH
    if not reading.given:
        s2, clash = "case when not last and not ends then s_after end", "false"
        ends = "(ends or last)" if reading.options.episode_end == "terminal" else "ends"
    between = {
        "backwards": "false" if reading.sorts else "t < t_before",
        "after-end": "late",
        "contradiction": "false" if holes else clash,
        CUT: "false" if reading.given else f"cut or last and not {ends}",
        NO_SUCCESSOR: "false" if reading.given else f"s_after is null and not {ends}",
    }
    database.run(
        "finding bad rows",
        f"""create or replace temp table judged as
            select * exclude (s2, ends), {s2} as s2, {ends} as ends, {clash} as hole,
                   coalesce(fault, {_first_of(between)}) as reason
            from (select *, lead(s) over w as s_after, lead(place) over w is null as last,
                         coalesce(bool_or(ends or cut) over past, false) as late
                  from placed where no_place is null
                  window w as (partition by episode order by place),
                         past as (partition by episode order by place
                                  rows between unbounded preceding and 1 preceding))
            union all by name
            select *, no_place as reason from placed where no_place is not null""",
    )


CLASH = """not last and s2 is not null and s_after is not null and s2 <> s_after
           and not ends and not cut"""


def _faults_alone(reading: Reading) -> dict[str, str]:
    """What can be wrong with a row by itself."""
    return {
        "episode": "episode is null",
        "time": "t is null" if reading.time_kind else "false",
        "state": "s is null",
        "action": "a is null",
        "action-not-allowed": "false"
        if reading.options.actions is None
        else "a in (from forbidden)",
        "reward": "r is null",
        "flag": "ends is null or cut is null",
        "both-flags": "ends and cut",
        "next-state": "s2 is null and not ends" if reading.given else "false",
        **_faults_beside(reading),
    }


def _faults_beside(reading: Reading) -> dict[str, str]:
    """What can be wrong beside the step of a row."""
    guards = [x for x in reading.beside if x[0] == "g" and x[1:].isdigit()]
    labels = reading.beside_labels
    found = {
        "propensity": ["p"] if "p" in reading.beside else [],
        "policy": [x for x, what in labels.items() if what == "policy"],
        "group": [x for x, what in labels.items() if what != "policy"],
        "guard": guards,
    }
    return {
        reason: " or ".join(f"{x} is null" for x in names)
        for reason, names in found.items()
        if names
    }


def wrong_alone(reading: Reading) -> str:
    """SQL: whether the numbers and flags of a row have a fault."""
    known = ("r is null", "ends is null", "cut is null", "ends and cut")
    return " or ".join((*known, *_faults_beside(reading).values()))


def _first_of(faults: dict[str, str]) -> str:
    """SQL: the name of the first fault that a row has."""
    return f"case {' '.join(f'when {sql} then {name!r}' for name, sql in faults.items())} end"


def find_forbidden(database: Database, reading: Reading, part: Part) -> int:
    """The table `forbidden`: actions that were taken and are not allowed; their number. The labels
    are compared here, as a user writes them, not by DuckDB.
    """
    if reading.options.actions is None:
        return 0
    what = "looking at actions"
    database.run(
        what,
        f"""create or replace temp table taken as
            select x, row_number() over (order by x) as place
            from (select distinct a as x from {reading.steps(part)} where a is not null)""",
    )
    taken = database.rows(what, "select x from taken order by place")
    places = places_of([plain_label(x) for (x,) in taken])
    right = {match(label, places) for label in reading.options.actions}
    wrong = [i + 1 for i in range(len(taken)) if i not in right]
    query = f"select x from taken where list_contains({wrong}::bigint[], place)"
    database.run(what, f"create or replace temp table forbidden as {query}")
    return len(wrong)


def _in_words(
    database: Database, reading: Reading, found: dict[str, int], cannot_drop: bool
) -> str:
    """Every reason with its first bad rows and the option that would drop them."""
    parts = [
        f"{n:,} {REASONS[reason]}, first {_first_bad_rows(database, reading, reason)}"
        for reason, n in found.items()
    ]
    remedy = f"leave them out with {option('drop_bad_rows', ','.join(found))}"
    if cannot_drop:
        remedy = (
            "give next_state: without it, rows that have no place leave unknown which row follows"
            " which, and cannot be dropped"
        )
    hints = "".join(f". {hint}" for hint in _hints(reading, found, " ".join(parts)))
    return "the log has bad rows: " + ". ".join(parts) + f". Mend them, or {remedy}{hints}"


def _first_bad_rows(database: Database, reading: Reading, reason: str) -> str:
    """The places and the values of the first bad rows; rows count from 1, the header is none."""
    names, shown_as, parts = reading.store.names, reading.store.columns.ours(), []
    columns = [x for role in ROLES[reason] for x in reading.store.of(role)]
    shown = "".join(f", left(cast({x} as varchar), 60)" for x in columns)
    for file, row, *values in database.rows(
        "finding the first bad rows",
        f"""select file, row{shown} from judged where reason = {text_sql(reason)}
            order by file, row limit {SHOWN}""",
    ):
        words = [
            f"{shown_as[x]} missing" if value is None else f"{shown_as[x]} {value!r}"
            for x, value in zip(columns, values, strict=True)
        ]
        text = f" ({', '.join(words)})" if words else ""
        parts.append(f"{names.get(file, file)} row {row + 1}{text}")
    return "; ".join(parts)


def _hints(reading: Reading, found: dict[str, int], said: str) -> list[str]:
    """What else than dropping may be right."""
    hints = []
    if "reward" in found and (" missing" in said or any(f" {word!r}" in said for word in MISSING)):
        hints.append(
            f"{REMEDIES['reward']}; to drop the rows would lose the steps, not only their rewards"
        )
    if {"reward", "time"} & set(found) and re.search(r"'[+-]?\d+,\d+'", said):
        hints.append(f"If the comma is a decimal one, say {option('decimal', ',')}")
    if "reward" in found and reading.options.values:
        words = ", ".join(repr(x) for x, _ in reading.options.values)
        hints.append(f"{option('values', 'WORD=NUMBER,...')} names {words}: add the others")
    elif "reward" in found and re.search(r" '[^'\d]{2,}'[),]", said):
        hints.append(
            "If the words of the reward stand for numbers, say which:"
            f" {option('values', 'survived=1,died=0')}"
        )
    if "time" in found and (reading.dated or reading.time_kind == "VARCHAR"):
        offset = (
            "Some times of this log have a UTC offset: then all need one"
            if reading.time_type == ZONED
            else "None has a UTC offset"
        )
        hints.append(
            "A time is a number, or a date such as 2024-03-31 18:30:00, 2024-03-31 18:30:00+05:30,"
            f" 31/03/2024 18:30, 31.03.2024 or 03/31/2024 (all in one order); others"
            f" by {option('date_format', 'dd/mm/yy')}. {offset}"
        )
    if reading.wall_clock and {"backwards", "duplicate"} & set(found):
        hints.append(CLOCKS_PUT_BACK)
    if "backwards" in found:
        hints.append(
            "Only if the rows do not lie in the order in which they happened, sort by time with"
            f" {option('order', 'time')}"
        )
    return hints


def _kept(database: Database, reading: Reading) -> Reading:
    """The rows without a reason, in order, as a store of its own that names the next states; an
    episode is split where rows were left out of its middle.
    """
    store = reading.store
    segment = f"episode_{len(store.of('episode'))}"
    number = "row_number() over ()" if reading.options.bandit else "(sum(gap) over w)::bigint"
    follow = {f"next_state_{i}": x for i, x in enumerate(store.of("state"))}
    states = ", ".join(
        name if reading.given else f"case when s2 is not null then lead({x}) over w end as {name}"
        for name, x in follow.items()
    )
    others = ", ".join(x for x in store.inside if x != "terminal_0" and x not in follow)
    target = str(database.folder / "kept.parquet")
    write_parquet(
        database,
        "writing out the rows that stay",
        f"""select * exclude (episode, place, reason) from (
                select {others}, {states}, ends as terminal_0,
                       {number} as {segment},
                       file as source_file, row as source_row, episode, place, reason
                from (select *, coalesce(lag(reason is not null or hole) over w, false)::integer
                                as gap
                      from judged where no_place is null
                      window w as (partition by episode order by place))
                window w as (partition by episode order by place))
            where reason is null order by episode, {segment}, place""",
        target,
    )
    types = {segment: "BIGINT", "terminal_0": "BOOLEAN"}
    if not reading.given:
        types |= {name: store.types[x] for name, x in follow.items()}
    kept = rewritten(store, target, types)
    options = replace(reading.options, episode_end="cut")
    return replace(reading, store=kept, options=options, by_time=False)
