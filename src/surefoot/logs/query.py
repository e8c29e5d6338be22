"""Reading: the columns of a store as the steps of a log (e, t, s, a, r, n, ends, cut), in SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from surefoot.core.batch import LARGEST
from surefoot.errors import LogError
from surefoot.logs.clock import LOCAL, WALL_CLOCK, ZONED, moment
from surefoot.logs.database import Database, name_sql, text_sql
from surefoot.logs.store import Store

WHOLE = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
)
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
MISSING = (
    "",
    "NA",
    "N/A",
    "<NA>",
    "NaN",
    "nan",
    "NAN",
    "NaT",
    "null",
    "NULL",
    "None",
)  # how other programs write a missing value
EXACT = 2**53  # whole numbers up to here are exact as DOUBLE


@dataclass(frozen=True)
class Reading:
    """A store and how its columns are to be taken; `steps` is one row a step.

    e, t        episode and time (absent columns: one episode; the order of the rows)
    s, a, n     labels of state, action and next state; NULL where missing; n only where `given`
                with `action_key` = m > 0, a is a key in place of a label: its hash modulo m (see
                `coding`)
    r           the reward as DOUBLE, `missing_reward` where it is missing; NULL where it is no
                number
    filled      whether the reward was missing; only with a `missing_reward`
    ends, cut   the flags terminal and truncated; NULL where unreadable, false where empty
    """

    store: Store
    episode_end: str = "cut"
    allowed: tuple[Any, ...] | None = None
    terminal_to_end: bool = False
    by_time: bool = True
    time_type: str = ""
    action_key: int = 0
    missing_reward: float | None = None
    decimal: str = "."
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
    def time_kind(self) -> str:
        """The DuckDB type of the time column; "" where there is none."""
        return self.store.types[self.store.physical.time[0]] if self.has_time else ""

    @property
    def dated(self) -> bool:
        """Whether times are moments, not numbers."""
        return self.time_type in (LOCAL, ZONED) or self.time_kind in TEMPORAL

    @property
    def wall_clock(self) -> bool:
        """Whether times are moments without a UTC offset, which come twice where clocks are put
        back.
        """
        return self.time_type == LOCAL or self.time_kind in WALL_CLOCK

    @property
    def may_end(self) -> bool:
        """Whether a row can end its episode; where none can, no flags need to be looked at."""
        return bool(self.store.physical.terminal) or self.episode_end == "terminal"

    @property
    def order_keys(self) -> str:
        """What puts the rows of an episode in order."""
        return ", ".join((*(["t"] if self.has_time and self.by_time else []), "file", "row"))

    @property
    def sort_keys(self) -> str:
        """What puts the rows of the store in order: episode, time, then as they came."""
        episode = [self.label("episode")] if self.store.physical.episode else []
        time = [self._time()] if self.has_time and self.by_time else []
        return ", ".join((*episode, *time, self.store.place_sql))

    def steps(self, part: tuple[int, int] | None = None, where: str | None = None) -> str:
        """The query of all steps, of the episodes that fall into part i of k, or of the rows
        where a condition holds.
        """
        columns = {
            "e": self.label("episode") if self.store.physical.episode else "0",
            **({"t": self._time()} if self.has_time else {}),
            "s": self.label("state"),
            "a": (
                f"(hash({self.label('action')}) % {self.action_key})::uinteger"
                if self.action_key
                else self.label("action")
            ),
            "r": self._reward(),
            **({} if self.missing_reward is None else {"filled": self._unpaid()}),
            **({"n": self._next()} if self.given else {}),
            "ends": self._ends(),
            "cut": self._flag("truncated"),
        }
        file, row = self.store.place_sql.split(", ")
        chosen = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
        where = where if part is None else f"hash({columns['e']}) % {part[1]} = {part[0]}"
        some = "" if where is None else f" where {where}"
        return (
            f"(select {chosen}, {file} as file, {row} as row, file_row_number as at from"
            f" {self.store.sql}{some})"
        )

    def label(self, role: str) -> str:
        """One column as it is; several together as one struct, missing where any is."""
        names = getattr(self.store.physical, role)
        parts = [_label(name, self.store.types[name], role) for name in names]
        if len(parts) == 1:
            return parts[0]
        packed = ", ".join(f"k{i} := {part}" for i, part in enumerate(parts))
        return (
            f"case when {' or '.join(f'{part} is null' for part in parts)} then null else"
            f" struct_pack({packed}) end"
        )

    def label_types(self, role: str) -> tuple[str, ...]:
        """The DuckDB types of the columns of a label."""
        return tuple(self.store.types[name] for name in getattr(self.store.physical, role))

    def _next(self) -> str:
        """next_state in the type of state: pandas makes floats of whole numbers where one is
        missing.
        """
        states, follow = self.label_types("state"), self.label_types("next_state")
        sql = self.label("next_state")
        if states != follow:
            if len(states) > 1 or any(
                _family(x) != _family(y) for x, y in zip(states, follow, strict=True)
            ):
                raise LogError(
                    f"state is {' + '.join(states)} and next_state is {' + '.join(follow)}: give"
                    " both the same type, so that equal labels are equal"
                )
            whole = states[0] in WHOLE and follow[0] in FLOATING
            sql = (
                f"case when {sql} = floor({sql}) then try_cast({sql} as {states[0]}) end"
                if whole
                else f"try_cast({sql} as {states[0]})"
            )
        return (
            f"case when {self._flag('terminal')} then null else {sql} end"
            if self.terminal_to_end
            else sql
        )

    def _reward(self) -> str:
        name = self.store.physical.reward[0]
        kind = self.store.types[name]
        if not (kind in (*WHOLE, *FLOATING, "VARCHAR", "BOOLEAN") or kind.startswith("DECIMAL")):
            raise LogError(
                f"the reward column {self.store.columns.reward[0]!r} must hold numbers, its type is"
                f" {kind}"
            )
        x = name_sql(name)
        sql = (
            x
            if kind == "DOUBLE"
            else number_sql(x, self.decimal)
            if kind == "VARCHAR"
            else f"try_cast({x} as double)"
        )
        return (
            sql
            if self.missing_reward is None
            else (
                f"case when {self._unpaid()} then {float(self.missing_reward)!r}::double else"
                f" {sql} end"
            )
        )

    def _unpaid(self) -> str:
        """SQL: whether a row has no reward."""
        name = self.store.physical.reward[0]
        x, kind = name_sql(name), self.store.types[name]
        words = (
            f"trim({x}) in ({', '.join(map(text_sql, MISSING))})"
            if kind == "VARCHAR"
            else f"isnan({x})"
            if kind in FLOATING
            else "false"
        )
        return f"({x} is null or {words})"

    def _time(self) -> str:
        name = self.store.physical.time[0]
        kind = self.store.types[name]
        if kind == "VARCHAR":
            x = name_sql(name)
            if self.time_type == "bigint":
                return f"try_cast({x} as bigint)"
            sql = moment(x, self.time_type) if self.dated else number_sql(x, self.decimal)
            return f"case when isfinite({sql}) then {sql} end"
        if kind in FLOATING:
            return f"case when isfinite({name_sql(name)}) then {name_sql(name)} end"
        if kind in (*WHOLE, *TEMPORAL) or kind.startswith("DECIMAL"):
            return name_sql(name)
        raise LogError(
            f"the time column {self.store.columns.time[0]!r} must hold numbers or dates, its type"
            f" is {kind}"
        )

    def _ends(self) -> str:
        """Flagged terminal; with episode_end = "terminal", so is a row whose next_state is
        empty.
        """
        flag = self._flag("terminal")
        return (
            f"({flag} or {self._next()} is null)"
            if self.given and self.episode_end == "terminal"
            else flag
        )

    def _flag(self, role: str) -> str:
        names = getattr(self.store.physical, role)
        if not names:
            return "false"
        name, kind = name_sql(names[0]), self.store.types[names[0]]
        if kind == "BOOLEAN":
            return f"coalesce({name}, false)"
        text = f"lower(trim(cast({name} as varchar)))"
        yes, no = (", ".join(text_sql(x) for x in words) for words in (YES, NO))
        return (
            f"case when {name} is null or {text} in ({no}) then false when {text} in ({yes}) then"
            " true end"
        )


def _label(name: str, kind: str, role: str) -> str:
    """One column of a label; NaN is missing."""
    sql = name_sql(name)
    if kind in FLOATING:
        return f"case when not isnan({sql}) then {sql} end"
    if kind in PLAIN or kind.startswith("DECIMAL"):
        return sql
    if kind in AS_TEXT or kind.startswith("ENUM"):
        return f"cast({sql} as varchar)"
    raise LogError(
        f"a {role} is a number, a text, a date or a truth value; the column {name!r} is {kind[:80]}"
    )


def _family(kind: str) -> str:
    """Types whose equal values are equal labels."""
    return (
        "number"
        if kind in (*WHOLE, *FLOATING) or kind.startswith("DECIMAL")
        else "text"
        if kind[:4] in ("VARC", "ENUM")
        else kind
    )


def with_time_type(reading: Reading, database: Database, first: int | None = None) -> Reading:
    """The reading with the type of a time that is text: whole numbers, numbers, or dates; whichever
    reads most (of the first) rows.

    Where some dates have a UTC offset, all need one: those without it are unreadable.
    """
    names = reading.store.physical.time
    if not names or reading.store.types[names[0]] != "VARCHAR" or reading.time_type:
        return reading
    x = name_sql(names[0])
    rows = reading.store.sql if first is None else f"(from {reading.store.sql} limit {first})"
    number = number_sql(x, reading.decimal)
    n, numbers, local, zoned, largest = database.rows(
        "looking at the time column",
        f"select count({x}), count({number}), count({moment(x, LOCAL)}), count({moment(x, ZONED)}),"
        f" max(abs({number})) from {rows}",
    )[0]
    if local + zoned > numbers:
        return replace(reading, time_type=ZONED if zoned else LOCAL)
    if numbers == n and largest is not None and largest >= EXACT:
        whole = database.rows(
            "looking at the time column",
            f"select count(*) from {rows} where {x} similar to '[+-]?[0-9]{{1,18}}'",
        )
        return replace(reading, time_type="bigint" if whole[0][0] == n else "double")
    return replace(reading, time_type="double")


def number_sql(x: str, decimal: str) -> str:
    """A text as DOUBLE; with a decimal comma a point is no part of a number."""
    return (
        f"try_cast({x} as double)"
        if decimal == "."
        else f"case when not contains({x}, '.') then try_cast(replace({x}, ',', '.') as double) end"
    )


def bad_reward_sql() -> str:
    """Whether r is missing, not finite, or too large to compute with."""
    return f"(r is null or not isfinite(r) or abs(r) > {LARGEST!r})"


def bad_flags_sql() -> str:
    """Whether a flag is unreadable, or both are set."""
    return "(ends is null or cut is null or (ends and cut))"
