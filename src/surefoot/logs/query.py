"""Reading: the columns of a store as the steps of a log, in SQL.

The letters are those of the glossary: s, a, r, and s2 for s'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from surefoot.core.array_checks import LARGEST
from surefoot.errors import LogError
from surefoot.logs.clock import LOCAL, WALL_CLOCK, ZONED, moment
from surefoot.logs.database import Database, name_sql, text_sql
from surefoot.logs.sources import checked_encoding, single
from surefoot.logs.store import Store
from surefoot.parameters import check_name

SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
WHOLE = (*SIGNED, *(f"U{kind}" for kind in SIGNED))
FLOATING = ("FLOAT", "DOUBLE")
TEMPORAL = ("DATE", *WALL_CLOCK, "TIMESTAMP WITH TIME ZONE")
PLAIN = (
    *WHOLE,
    *FLOATING,
    "VARCHAR",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
)
AS_TEXT = ("UUID", "TIME", "INTERVAL", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "BIT")
YES, NO = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")
# how other programs write a missing value
MISSING = ("", "NA", "N/A", "<NA>", "NaN", "nan", "NAN", "NaT", "null", "NULL", "None")
EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
USED = "(s2 is not null or ends)"  # whether a row leads somewhere
Column = str | Iterable[str] | None
Part = tuple[int, int] | None  # part i of k of the episodes


@dataclass(frozen=True)
class Options:
    """How a log is to be read; see `read_log`."""

    columns: tuple[tuple[str, Column], ...] = ()
    episode_end: str = "cut"
    order: str = "auto"
    drop: frozenset[str] = frozenset()
    allowed: tuple[Any, ...] | None = None
    terminal_to_end: bool = False
    check_order: bool = True
    threads: int | None = None
    memory_limit: str | None = None
    missing_reward: float | None = None
    decimal: str = "."
    delimiter: str = ""
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_name("episode_end", self.episode_end, ("cut", "terminal"))
        check_name("order", self.order, ("auto", "time", "file"))
        check_name("decimal", self.decimal, (".", ","))
        checked_encoding(self.encoding)
        single(self.delimiter)
        fill = self.missing_reward
        if fill is not None and (
            isinstance(fill, bool) or not isinstance(fill, (int, float)) or not abs(fill) <= LARGEST
        ):
            raise LogError(
                f"missing_reward must be a number, the reward of rows that have none, got {fill!r}"
            )

    @property
    def label_columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of the state and of the action, as far as they were named."""
        given = dict(self.columns)

        def split(role: str) -> tuple[str, ...]:
            names = given.get(role) or role
            parts = names.split(",") if isinstance(names, str) else names
            return tuple(part.strip() for part in parts)

        return split("state"), split("action")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A store and how its columns are taken. `steps` is one row a step:

    episode, t    the label of the episode and the time (0 and NULL where there is no such column)
    s, a, s2      labels of state, action and next state; NULL where missing
    r             the reward as DOUBLE, the `missing_reward` where it is missing; NULL where it is
                  no number, not finite, or too large to compute with
    filled        whether the reward was missing and is the `missing_reward`
    ends, cut     the flags terminal and truncated; NULL where unreadable, false where empty
    file, row     where the user finds the row; `at` is its row in the file that is read
    """

    store: Store
    options: Options
    by_time: bool = True
    time_type: str = ""
    put_right: int = 0

    @property
    def given(self) -> bool:
        """Whether the log names the next state."""
        return bool(self.store.physical.next_state)

    @property
    def has_time(self) -> bool:
        """Whether the log has a time column."""
        return bool(self.store.physical.time)

    @property
    def sorts(self) -> bool:
        """Whether the rows of an episode are put in the order of their times."""
        return self.has_time and self.by_time

    @property
    def time_kind(self) -> str:
        """The DuckDB type of the time column; "" where there is none."""
        return self.store.types[self.store.physical.time[0]] if self.has_time else ""

    @property
    def dated(self) -> bool:
        """Whether times are moments, not numbers."""
        return self.time_type in (LOCAL, ZONED) or self.time_kind in TEMPORAL

    @property
    def wall_clock(self) -> bool:
        """Whether times are moments without a UTC offset, which occur twice where clocks are put
        back.
        """
        return self.time_type == LOCAL or self.time_kind in WALL_CLOCK

    @property
    def may_end(self) -> bool:
        """Whether a row can end its episode."""
        return bool(self.store.physical.terminal) or self.options.episode_end == "terminal"

    @property
    def sort_keys(self) -> str:
        """What puts the rows of the store in order: episode, time, then as they came."""
        episode = [self.label("episode")] if self.store.physical.episode else []
        time = [self._time()] if self.sorts else []
        return ", ".join((*episode, *time, *self.store.place))

    def steps(self, part: Part = None, where: str = "true", *, all_columns: bool = False) -> str:
        """All steps, those of the episodes that fall into part i of k, or those of some rows; with
        the columns of the store beside them if asked for.
        """
        file, row = self.store.place
        episode = self.label("episode") if self.store.physical.episode else "0"
        if part is not None:
            where = f"hash({episode}) % {part[1]} = {part[0]}"
        return f"""(
            select {"*," if all_columns else ""} {episode} as episode, {self._time()} as t,
                   {self.label("state")} as s, {self.label("action")} as a,
                   {self._reward()} as r, {self._next()} as s2, {self._filled()} as filled,
                   {self._ends()} as ends, {self._flag("truncated")} as cut,
                   {file} as file, {row} as row, file_row_number as at
            from {self.store.sql} where {where})"""

    def transitions(self, part: Part = None) -> str:
        """The steps in the order in which they lie, each with its next state: the one given, or
        the state of the next row of its episode.
        """
        if self.given:
            return self.steps(part)
        ends = "ends or last" if self.options.episode_end == "terminal" else "ends"
        return f"""(
            select * replace (case when not last then s_after end as s2, {ends} as ends) from (
                select *, lead(s) over () as s_after,
                       lead(episode) over () is distinct from episode as last
                from {self.steps(part)}))"""

    def label(self, role: str) -> str:
        """One column as it is; several together as one struct, missing where any is."""
        names = getattr(self.store.physical, role)
        parts = [self._label(name, role) for name in names]
        if len(parts) == 1:
            return parts[0]
        packed = ", ".join(f"k{i} := {part}" for i, part in enumerate(parts))
        missing = " or ".join(f"{part} is null" for part in parts)
        return f"case when {missing} then null else struct_pack({packed}) end"

    def label_types(self, role: str) -> tuple[str, ...]:
        """The DuckDB types of the columns of a label."""
        return tuple(self.store.types[name] for name in getattr(self.store.physical, role))

    def _label(self, name: str, role: str) -> str:
        """One column of a label; NaN is missing."""
        kind, sql = self.store.types[name], name_sql(name)
        if kind in FLOATING:
            return f"case when not isnan({sql}) then {sql} end"
        if kind in PLAIN or kind.startswith("DECIMAL"):
            return sql
        if kind in AS_TEXT or kind.startswith("ENUM"):
            return f"cast({sql} as varchar)"
        raise LogError(
            f"a {role} is a number, a text, a date or a truth value; the column"
            f" {self.store.shown[name]!r} is {kind[:80]}"
        )

    def _next(self) -> str:
        """next_state in the type of state: pandas makes floats of whole numbers where one is
        missing.
        """
        if not self.given:
            return f"case when false then {self.label('state')} end"
        states, follow = self.label_types("state"), self.label_types("next_state")
        sql = self.label("next_state")
        if states != follow:
            if len(states) > 1 or _family(states[0]) != _family(follow[0]):
                raise LogError(
                    f"state is {' + '.join(states)} and next_state is {' + '.join(follow)}: give"
                    " both the same type, so that equal labels are equal"
                )
            exact = (
                f"{sql} = floor({sql})" if states[0] in WHOLE and follow[0] in FLOATING else "true"
            )
            sql = f"case when {exact} then try_cast({sql} as {states[0]}) end"
        if self.options.terminal_to_end:
            return f"case when {self._flag('terminal')} then null else {sql} end"
        return sql

    def _reward(self) -> str:
        name = self.store.physical.reward[0]
        kind, x = self.store.types[name], name_sql(name)
        if not (kind in (*WHOLE, *FLOATING, "VARCHAR", "BOOLEAN") or kind.startswith("DECIMAL")):
            raise LogError(
                f"the reward column {self.store.columns.reward[0]!r} must hold numbers, its type is"
                f" {kind}"
            )
        sql = (
            number_sql(x, self.options.decimal) if kind == "VARCHAR" else f"try_cast({x} as double)"
        )
        sql = f"case when abs({sql}) <= {LARGEST!r} then {sql} end"
        fill = self.options.missing_reward
        if fill is None:
            return sql
        return f"case when {self._filled()} then {float(fill)!r}::double else {sql} end"

    def _filled(self) -> str:
        if self.options.missing_reward is None:
            return "false"
        name = self.store.physical.reward[0]
        x, kind = name_sql(name), self.store.types[name]
        if kind == "VARCHAR":
            return f"({x} is null or trim({x}) in ({', '.join(map(text_sql, MISSING))}))"
        return f"({x} is null or isnan({x}))" if kind in FLOATING else f"({x} is null)"

    def _time(self) -> str:
        if not self.has_time:
            return "null::integer"
        x, kind = name_sql(self.store.physical.time[0]), self.time_kind
        if kind == "VARCHAR":
            if self.time_type == "bigint":
                return f"try_cast({x} as bigint)"
            sql = moment(x, self.time_type) if self.dated else number_sql(x, self.options.decimal)
            return f"case when isfinite({sql}) then {sql} end"
        if kind in FLOATING:
            return f"case when isfinite({x}) then {x} end"
        if kind in (*WHOLE, *TEMPORAL) or kind.startswith("DECIMAL"):
            return x
        raise LogError(
            f"the time column {self.store.columns.time[0]!r} must hold numbers or dates, its type"
            f" is {kind}"
        )

    def _ends(self) -> str:
        """Flagged terminal; with episode_end = "terminal" also where next_state is empty."""
        flag = self._flag("terminal")
        if self.given and self.options.episode_end == "terminal":
            return f"({flag} or {self._next()} is null)"
        return flag

    def _flag(self, role: str) -> str:
        names = getattr(self.store.physical, role)
        if not names:
            return "false"
        name, kind = name_sql(names[0]), self.store.types[names[0]]
        if kind == "BOOLEAN":
            return f"coalesce({name}, false)"
        text = f"lower(trim(cast({name} as varchar)))"
        yes, no = (", ".join(text_sql(x) for x in words) for words in (YES, NO))
        return f"""case when {name} is null or {text} in ({no}) then false
                        when {text} in ({yes}) then true end"""


def _family(kind: str) -> str:
    """Types whose equal values are equal labels."""
    if kind in (*WHOLE, *FLOATING) or kind.startswith("DECIMAL"):
        return "number"
    return "text" if kind[:4] in ("VARC", "ENUM") else kind


def with_time_type(reading: Reading, database: Database) -> Reading:
    """The reading with the type of a time that is text: whole numbers, numbers, or dates;
    whichever most rows can be read as.

    Where some dates have a UTC offset, all need one: those without it are unreadable.
    """
    if reading.time_kind != "VARCHAR" or reading.time_type:
        return reading
    what, rows = "looking at the time column", reading.store.sql
    x = name_sql(reading.store.physical.time[0])
    number = number_sql(x, reading.options.decimal)
    n, numbers, largest = database.rows(
        what, f"select count({x}), count({number}), max(abs({number})) from {rows}"
    )[0]
    if numbers < n:
        local, zoned = database.rows(
            what, f"select count({moment(x, LOCAL)}), count({moment(x, ZONED)}) from {rows}"
        )[0]
        if local + zoned > numbers:
            return replace(reading, time_type=ZONED if zoned else LOCAL)
    elif n and largest >= EXACT:
        whole = f"select count(*) from {rows} where {x} similar to '[+-]?[0-9]{{1,18}}'"
        if database.rows(what, whole)[0][0] == n:
            return replace(reading, time_type="bigint")
    return replace(reading, time_type="double")


def number_sql(x: str, decimal: str) -> str:
    """A text as DOUBLE; with a decimal comma a point is no part of a number."""
    if decimal == ".":
        return f"try_cast({x} as double)"
    return f"case when not contains({x}, '.') then try_cast(replace({x}, ',', '.') as double) end"
