"""Reading: the columns of a store as the steps of a log, in SQL.

The letters are those of the glossary: s, a, r, and s2 for s'.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.core.array_checks import LARGEST
from surefoot.core.errors import LogError, option
from surefoot.core.parameters import check_name
from surefoot.logs.column_roles import MISSING, Column
from surefoot.logs.database import Database, text_sql
from surefoot.logs.store import Store, checked_encoding, single

SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
WHOLE = (*SIGNED, *(f"U{kind}" for kind in SIGNED))
FLOATING = ("FLOAT", "DOUBLE")
LOCAL, ZONED = "timestamp", "timestamptz"  # times as text: without a UTC offset, and with one
BY_FORMAT = "format "  # what a type of time begins with that is text in another order than ISO's
# how a day may be written in words of --date-format, in numbers alone
DAY_FIRST = ("dd/mm/yyyy", "dd.mm.yyyy", "dd-mm-yyyy")
MONTH_FIRST = ("mm/dd/yyyy", "mm-dd-yyyy")
YEAR_FIRST = ("yyyy/mm/dd", "yyyy.mm.dd")
# what may follow a day whose format has no clock
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
PARTS = {"yyyy": "%Y", "yy": "%y", "dd": "%d", "hh": "%H", "ss": "%S"}
CODES = r"([^%]|%%|%-?[dmyHIMSj]|%[aAbBYpfgnzwuUWGV])+"  # a format in strptime's codes
FIRST_YEAR = 1000  # no time lies before: DuckDB reads "31/03/24" as the 24th of March of year 31
# types that do not say how far from UTC the clock is
WALL_CLOCK = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
TEMPORAL = ("DATE", *WALL_CLOCK, "TIMESTAMP WITH TIME ZONE")
PLAIN = (*WHOLE, *FLOATING, "VARCHAR", "BOOLEAN", "DATE", *WALL_CLOCK[:3])
AS_TEXT = ("UUID", "TIME", "INTERVAL", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "BIT")
YES, NO = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")
OFFSET = ":[0-9.]+(Z| UTC| GMT| ?[+-][0-9][0-9](:?[0-9][0-9])?) *$"
NO_SECONDS = "^([^:]*:[0-9][0-9])([Z +-])"
# what a time without an offset does not match; DuckDB would pass over offsets, names of zones, "PM"
NO_OFFSET = ":.*[^0-9:. ]"
EXACT = 2**53  # whole numbers up to here are exact as DOUBLE
ROUNDING = 1e-9  # a probability may lie above 1 by so much
USED = "(s2 is not null or ends)"  # whether a row leads somewhere
Part = tuple[int, int] | None  # part i of k of the episodes


@dataclass(frozen=True)
class Options:
    """How a log is to be read; see `read_log`."""

    columns: tuple[tuple[str, Column], ...] = ()
    episode_end: str = "cut"
    order: str = "auto"
    drop: frozenset[str] = frozenset()
    actions: tuple[Any, ...] | None = None
    terminal_to_end: bool = False
    check_order: bool = True
    threads: int | None = None
    memory: str | None = None
    missing_reward: float | None = None
    decimal: str = "."
    delimiter: str = ""
    encoding: str = "utf-8"
    bandit: bool = False
    date_format: str = ""
    values: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        check_name("episode_end", self.episode_end, ("cut", "terminal"))
        check_name("order", self.order, ("auto", "time", "file"))
        check_name("decimal", self.decimal, (".", ","))
        checked_encoding(self.encoding)
        single(self.delimiter)
        strptime(self.date_format)
        for name in ("terminal_to_end", "check_order", "bandit"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise LogError(f"{name} must be True or False, got {getattr(self, name)!r}")
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
                  no number, not finite, or too large to compute with. Minus the column where lower
                  is better
    filled        whether the reward was missing and is the `missing_reward`
    ends, cut     the flags terminal and truncated; NULL where unreadable, false where empty
    p             the propensity as DOUBLE; NULL where it is no number in (0, 1]
    policy        the label of the policy that chose the action
    grp0, ...     labels of the group, one for each grouping
    g0, g1, ...   guarded columns as DOUBLE; NULL where they are no finite number
    file, row     where the user finds the row; `at` is its row in the file that is read

    limit         without next_state, the number of rows after which every episode is cut (0: none
                  is known): who gets so far has a last row without successor. It is left out also
                  if it ended. To leave it out only if it did not would make ends too frequent
    """

    store: Store
    options: Options
    by_time: bool = True
    time_type: str = ""
    put_right: int = 0
    limit: int = 0

    @property
    def given(self) -> bool:
        """Whether the log names the next state."""
        return bool(self.store.of("next_state"))

    @property
    def sorts(self) -> bool:
        """Whether the rows of an episode are put in the order of their times."""
        return bool(self.time_kind) and self.by_time

    @property
    def time_kind(self) -> str:
        """The DuckDB type of the time column; "" where there is none."""
        return self.store.types.get("time_0", "")

    @property
    def dated(self) -> bool:
        """Whether times are moments, not numbers."""
        of_text = self.time_type in (LOCAL, ZONED) or self.time_type.startswith(BY_FORMAT)
        return of_text or self.time_kind in TEMPORAL

    @property
    def wall_clock(self) -> bool:
        """Whether times are moments without a UTC offset, which occur twice where clocks are put
        back.
        """
        by_format = self.time_type.startswith(BY_FORMAT) and "%z" not in self.time_type
        return self.time_type == LOCAL or by_format or self.time_kind in WALL_CLOCK

    @property
    def may_end(self) -> bool:
        """Whether a row can end its episode."""
        return bool(self.store.of("terminal")) or self.options.episode_end == "terminal"

    @property
    def sort_keys(self) -> str:
        """What puts the rows of the store in order: episode, time, then as they came."""
        episode = [self.label("episode")] if self.store.of("episode") else []
        time = [self._time()] if self.sorts else []
        return ", ".join((*episode, *time, *self.store.place))

    def steps(self, part: Part = None, where: str = "true", *, all_columns: bool = False) -> str:
        """All steps, those of the episodes that fall into part i of k, or those of some rows; with
        the columns of the store beside them if asked for.
        """
        file, row = self.store.place
        episode = self.label("episode") if self.store.of("episode") else self._whole()
        if part is not None:
            where = f"hash({episode}) % {part[1]} = {part[0]}"
        return f"""(
            select {"*," if all_columns else ""} {episode} as episode, {self._time()} as t,
                   {self.label("state")} as s, {self.label("action")} as a,
                   {self._reward()} as r, {self._next()} as s2, {self._filled()} as filled,
                   {self._ends()} as ends, {self.flagged("truncated")} as cut,
                   {"".join(f"{sql} as {x}, " for x, sql in self.beside.items())}
                   {file} as file, {row} as row, file_row_number as at
            from {self.store.sql} where {where})"""

    def transitions(self, part: Part = None) -> str:
        """The steps in the order in which they lie, each with its next state: the one given, or
        the state of the next row of its episode.
        """
        if self.given:
            return self.steps(part)
        ends, late = "ends", ""
        if self.options.episode_end == "terminal":
            ends = "ends or last"
        elif self.limit:
            ends = "ends and not late"
            before = f"lag(episode, {self.limit - 1}) over ()"
            late = f"{before} is not null and {before} = episode as late,"
        return f"""(
            select * replace (case when not last then s_after end as s2, {ends} as ends) from (
                select *, {late} lead(s) over () as s_after,
                       lead(episode) over () is distinct from episode as last
                from {self.steps(part)}))"""

    @property
    def beside(self) -> dict[str, str]:
        """{name in `steps`: SQL} of the columns beside the steps that this log has."""
        found = {}
        if self.store.of("propensity"):
            p = self._number("propensity_0", "propensity")
            found["p"] = f"case when {p} > 0 and {p} <= {1 + ROUNDING!r} then least({p}, 1.0) end"
        if self.store.of("policy"):
            found["policy"] = self.label("policy")
        for i, places in enumerate(self.store.columns.groupings.values()):
            found[f"grp{i}"] = self._joined([f"group_{j}" for j in places], "group")
        for i, x in enumerate(self.store.of("guard")):
            found[f"g{i}"] = self._number(x, "guarded")
        return found

    @property
    def beside_labels(self) -> dict[str, str]:
        """{name in `steps`: what a log calls it} of those beside the steps that are labels."""
        groupings = {f"grp{i}": x for i, x in enumerate(self.store.columns.groupings)}
        return ({"policy": "policy"} if self.store.of("policy") else {}) | groupings

    def label(self, role: str) -> str:
        """The label of a role."""
        return self._joined(self.store.of(role), role)

    def _joined(self, names: Sequence[str], role: str) -> str:
        """One column as it is; several together as one struct, missing where any is."""
        parts = [self._label(name, role) for name in names]
        if len(parts) == 1:
            return parts[0]
        packed = ", ".join(f"k{i} := {part}" for i, part in enumerate(parts))
        missing = " or ".join(f"{part} is null" for part in parts)
        return f"case when {missing} then null else struct_pack({packed}) end"

    def _whole(self) -> str:
        """The episode of a log without such a column: one for all, or (bandit) one for each row."""
        if not self.options.bandit:
            return "0"
        file, row = self.store.place
        return row if len(self.store.names) == 1 else f"struct_pack(k0 := {file}, k1 := {row})"

    def _label(self, name: str, role: str) -> str:
        """One column of a label; NaN is missing."""
        kind, sql = self.store.types[name], name
        if kind in FLOATING:
            return f"case when not isnan({sql}) then {sql} end"
        if kind in PLAIN or kind.startswith("DECIMAL"):
            return sql
        if kind in AS_TEXT or kind.startswith("ENUM"):
            return f"cast({sql} as varchar)"
        raise LogError(
            f"a {role} is a number, a text, a date or a truth value; the column"
            f" {self.store.columns.ours()[name]!r} is {kind[:80]}"
        )

    def _next(self) -> str:
        """next_state in the type of state: pandas makes floats of whole numbers where one is
        missing.
        """
        if not self.given:
            return f"case when false then {self.label('state')} end"
        states, follow = (
            tuple(self.store.types[x] for x in self.store.of(role))
            for role in ("state", "next_state")
        )
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
            return f"case when {self.flagged('terminal')} then null else {sql} end"
        return sql

    def _reward(self) -> str:
        sql = self._valued() if self.options.values else self._number("reward_0", "reward")
        fill = self.options.missing_reward
        if fill is not None:
            sql = f"case when {self._filled()} then {float(fill)!r}::double else {sql} end"
        return sql if self.store.columns.of_reward.sign > 0 else f"(0::double - ({sql}))"

    def _valued(self) -> str:
        """The number that every word of the reward stands for; NULL for other words."""
        words = "trim(cast(reward_0 as varchar))"
        each = (f"when {text_sql(x)} then {y!r}::double" for x, y in self.options.values)
        return f"(case {words} {' '.join(each)} end)"

    def _number(self, x: str, what: str) -> str:
        """A column as DOUBLE; NULL where it is no number, not finite, or too large."""
        kind = self.store.types[x]
        if not (kind in (*WHOLE, *FLOATING, "VARCHAR", "BOOLEAN") or kind.startswith("DECIMAL")):
            raise LogError(
                f"the {what} column {self.store.columns.ours()[x]!r} must hold numbers, its type is"
                f" {kind}"
            )
        sql = (
            number_sql(x, self.options.decimal) if kind == "VARCHAR" else f"try_cast({x} as double)"
        )
        return f"case when abs({sql}) <= {LARGEST!r} then {sql} end"

    def _filled(self) -> str:
        if self.options.missing_reward is None:
            return "false"
        kind, x = self.store.types["reward_0"], "reward_0"
        if kind == "VARCHAR":
            return f"({x} is null or trim({x}) in ({', '.join(map(text_sql, MISSING))}))"
        return f"({x} is null or isnan({x}))" if kind in FLOATING else f"({x} is null)"

    def _time(self) -> str:
        kind, x = self.time_kind, "time_0"
        if not kind:
            return "null::integer"
        if kind == "VARCHAR":
            return time_of_text(x, self.time_type, self.options.decimal)
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
        flag = self.flagged("terminal")
        if self.given and self.options.episode_end == "terminal":
            return f"({flag} or {self._next()} is null)"
        return flag

    def flagged(self, role: str) -> str:
        """Whether a row has this flag, in SQL over the columns of the store; NULL where it cannot
        be read.
        """
        name = f"{role}_0"
        if name not in self.store.types:
            return "false"
        if self.store.types[name] == "BOOLEAN":
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
    """The reading with the type of a time that is text."""
    options, kind = reading.options, reading.time_kind
    if options.date_format and kind and kind not in (*TEMPORAL, "VARCHAR"):
        raise LogError(
            f"{option('date_format', options.date_format)} says how times that are text are"
            f" written; the time column {reading.store.columns.time[0]!r} is {kind}"
        )
    if kind != "VARCHAR" or reading.time_type:
        return reading
    given = (options.decimal, options.date_format)
    return replace(reading, time_type=time_type_of(database, reading.store.sql, "time_0", *given))


def time_type_of(
    database: Database, rows: str, x: str, decimal: str = ".", date_format: str = ""
) -> str:
    """The type of a time that is text: whole numbers, numbers, or dates, in a given format or a
    found one; whichever most rows can be read as.

    Where some dates have a UTC offset, all need one: those without it are unreadable.
    """
    if date_format:
        return f"{BY_FORMAT}{strptime(date_format)}"
    what, number = "looking at the time column", number_sql(x, decimal)
    n, numbers, largest = database.rows(
        what, f"select count({x}), count({number}), max(abs({number})) from {rows}"
    )[0]
    if numbers < n:
        local, zoned = database.rows(
            what, f"select count({moment(x, LOCAL)}), count({moment(x, ZONED)}) from {rows}"
        )[0]
        others = max(numbers, local + zoned)
        found = _date_format(database, rows, x, others) if others < n else ""
        if found:
            return f"{BY_FORMAT}{found}"
        if local + zoned > numbers:
            return ZONED if zoned else LOCAL
    elif n and largest >= EXACT:
        whole = f"select count(*) from {rows} where {x} similar to '[+-]?[0-9]{{1,18}}'"
        if database.rows(what, whole)[0][0] == n:
            return "bigint"
    return "double"


def _date_format(database: Database, rows: str, x: str, others: int) -> str:
    """The format that reads more times than `others`, and all that any format reads; "" without
    one. Where day and month could both come first, nobody can know: that is an error.
    """
    days = (*DAY_FIRST, *MONTH_FIRST, *YEAR_FIRST)
    read = [moment(x, BY_FORMAT + strptime(day)) for day in days]
    known = f"coalesce({', '.join(read)})"
    counted = ", ".join(f"count({y})" for y in (*read, known))
    *counts, most, example = database.rows(
        "looking at the time column",
        f"select {counted}, min({x}) filter ({known} is not null) from {rows}",
    )[0]
    fit = [day for day, k in zip(days, counts, strict=True) if k == most > others]
    if len(fit) > 1:
        raise LogError(
            f"times such as {example!r} may have the day or the month first: say which with"
            f" {option('date_format', fit[0])} or {option('date_format', fit[-1])}"
        )
    return strptime(fit[0]) if fit else ""


def strptime(words: Any) -> str:
    """The formats of DuckDB, one a line, of one in words such as "dd/mm/yyyy hh:mm", which without
    a clock stands for any; of one in codes, such as "%d %b %Y", itself.
    """
    if words == "":
        return ""
    made = "" if not isinstance(words, str) else words.strip()
    if "%" not in made:
        day, _, clock = made.lower().partition(" ")
        for part, code in (*PARTS.items(), ("mm", "%m")):
            day = day.replace(part, code)
        for part, code in (*PARTS.items(), ("mm", "%M")):
            clock = clock.replace(part, code)
        made = f"{day} {clock.strip()}".strip()
        codes = sorted(re.findall("%.", made))
        rest = re.sub("%.", "", made)
        known = {"%d", "%m"} < set(codes) and re.search("%y", made, re.IGNORECASE)
        if not known or len(set(codes)) < len(codes) or re.search(r"\w", rest):
            made = ""
        elif "%H" not in codes:
            made = "\n".join(f"{made}{clock}" for clock in CLOCKS)
    if not re.fullmatch(CODES, made) or "%" not in made.replace("%%", ""):
        raise LogError(
            f"a date format is made of dd, mm, yyyy (or yy), hh, mm and ss, such as 'dd/mm/yyyy"
            f" hh:mm', or of strptime's codes, such as '%d %b %Y'; got {words!r}"
        )
    return made


def time_of_text(x: str, kind: str, decimal: str) -> str:
    """A time that is text, by its type; NULL where it cannot be read."""
    if kind == "bigint":
        return f"try_cast({x} as bigint)"
    sql = number_sql(x, decimal) if kind in ("", "double") else moment(x, kind)
    return f"case when isfinite({sql}) then {sql} end"


def number_sql(x: str, decimal: str) -> str:
    """A text as DOUBLE; with a decimal comma a point is no part of a number."""
    if decimal == ".":
        return f"try_cast({x} as double)"
    return f"case when not contains({x}, '.') then try_cast(replace({x}, ',', '.') as double) end"


def moment(x: str, kind: str) -> str:
    """SQL: a text as a moment of this kind, LOCAL or ZONED, or in a format; NULL where it is of
    another kind or none.

    Names of zones do not count as offsets: in the hour that comes twice they leave open which one
    is meant.
    """
    if kind.startswith(BY_FORMAT):
        formats = ", ".join(map(text_sql, kind.removeprefix(BY_FORMAT).split("\n")))
        known, read = "true", f"try_strptime(trim({x}), [{formats}])"
    elif kind == ZONED:
        joined = f"replace(replace({x}, ' +', '+'), ' -', '-')"
        # DuckDB 1 reads an offset after seconds alone
        full = f"regexp_replace({joined}, {text_sql(NO_SECONDS)}, '\\1:00\\2')"
        read = f"coalesce(try_cast({joined} as timestamptz), try_cast({full} as timestamptz))"
        known = f"regexp_matches({x}, {text_sql(OFFSET)})"
    else:
        read = f"try_cast({x} as timestamp)"
        known = f"not regexp_matches({x}, {text_sql(NO_OFFSET)})"
    return f"case when {known} and year({read}) >= {FIRST_YEAR} then {read} end"
