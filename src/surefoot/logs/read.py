"""`read_log`: from files or a table to a Log; `count_part`: one part of a log, so that parts can
be counted apart and added up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from surefoot.core.array_checks import library_of
from surefoot.core.errors import LogError, option
from surefoot.logs.accounting import droppable
from surefoot.logs.column_roles import ALONG, NONE, SYNONYMS, Column
from surefoot.logs.counting import code_beside, count_log
from surefoot.logs.database import Database, Progress, Workspace
from surefoot.logs.description import POSING, is_description, read_description
from surefoot.logs.from_tally import make_log
from surefoot.logs.histories import checked_steps, remember
from surefoot.logs.log import Log
from surefoot.logs.pace import checked_per, with_pace
from surefoot.logs.query import Options, Part, Reading
from surefoot.logs.sources import as_utf8, find_source, single
from surefoot.logs.store import open_store
from surefoot.logs.tally import Tally


def read_log(
    source: Any,
    *,
    episode: Column = None,
    time: Column = None,
    state: Column = None,
    action: Column = None,
    reward: Column = None,
    next_state: Column = None,
    terminal: Column = None,
    truncated: Column = None,
    propensity: Column = None,
    policy: Column = None,
    group: Column = None,
    guard: Column = None,
    terminal_states: Iterable[Any] = (),
    actions: Iterable[Any] | None = None,
    episode_end: str = "cut",
    order: str = "auto",
    terminal_to_end: bool = False,
    drop_bad_rows: bool | str | Iterable[str] = False,
    check_order: bool = True,
    sparse: bool | None = None,
    threads: int | None = None,
    memory_limit: str | None = None,
    progress: Progress | None = None,
    missing_reward: float | None = None,
    decimal: str = ".",
    delimiter: str = "",
    encoding: str = "utf-8",
    history: int = 0,
    discount_per: str | float | None = None,
    bandit: bool = False,
) -> Log:
    """Read and count a log with one row a step.

    source                a CSV or Parquet file (also .gz), a folder, a pattern, a list of them
                          (taken in the order of their names), a pandas, polars or Arrow table,
                          or the TOML file that `surefoot check --save` wrote: what stands there
                          holds where a keyword has its default
    episode ... truncated columns by role: a name, or several joined by commas that make one label
                          (state="ward,severity"); left out, they are found by name; "-" says that
                          there is none (episode="-": the log is one episode)
    reward                also COLUMN:lower or COLUMN:higher, which is better (reward="died:lower");
                          without a direction, more is better
    propensity            the probability with which the action was chosen; found by name too
    policy                which policy chose the action
    group                 a group that the episode belongs to, constant in it
    guard                 further numbers to look after, each a column of its own
    terminal_states       labels of states that end an episode; states that flagged rows lead to are
                          added
    actions               labels of the actions there are: others are bad rows; unused ones join the
                          table of actions
    episode_end           without next_state, the last row of an episode that is not flagged
                          terminal is "cut" (it leads nowhere, is left out, and its reward is lost)
                          or "terminal" (it ends the episode); with next_state this concerns rows
                          that lack it
    order                 "time" sorts by the time column; "file" takes the rows as they come, and
                          time must go on; "auto" sorts too, but takes a few steps back in time in a
                          log otherwise in order for a fault
    terminal_to_end       rows flagged terminal lead to "(end)", whatever their next_state says
    drop_bad_rows         leave bad rows out instead of raising: True, or reasons such as "reward"
                          (see `Accounting`)
    check_order           False skips what needs the rows in order (duplicates, contradictions, rows
                          after the end), and with it the start distribution; only where next_state
                          is given
    sparse                hold the counts in CSR (default: where S * A * S > 5,000,000)
    threads, memory_limit, progress  of DuckDB; progress is called with (what, share done)
    missing_reward        the reward of rows whose reward is empty (NULL, NaN, NA), such as 0;
                          without it they are bad rows
    decimal, delimiter    of numbers in text, "." or ","; of the columns of text files (default: the
                          one the header has most of)
    encoding              of text files: "utf-8", "latin-1", "cp1252", "utf-16" and others that
                          Python knows
    history               steps that a state remembers: it becomes the observation with the actions
                          and observations before it, as a label of several columns; the first steps
                          of an episode, which have fewer, stay apart
    discount_per          the unit of time after which a reward counts gamma: a number of time
                          units, or for dates "s", "min", "hour", "day", "week". Without it every
                          row counts as one step
    bandit                every row is an episode of one step; no column for the episode or the next
                          state is looked for

    Times are numbers, or dates with or without a UTC offset, which is used: in one log all have
    one, or none. Dates without one that run back as on a night when clocks are put back are an
    error, not sorted, unless order="time" asks for it. In text files every field is text ("01" and
    "1" are two labels) and an empty one, quoted or not, is missing; Parquet and tables keep their
    types, NaN is missing and "" is a label. An empty flag is not set.
    """
    given = {key: value for key, value in locals().items() if key != "source"}
    if is_description(source):
        described = read_description(source)
        source, given = described.source, described.over(given)
        given = {key: value for key, value in given.items() if key not in POSING}
    steps, per = checked_steps(given.pop("history")), given.pop("discount_per")
    checked_per(per)
    sparse, progress = given.pop("sparse"), given.pop("progress")
    options, ends = options_of(**given)
    workspace = Workspace()
    reading, tally, beside = _counted(source, options, workspace, progress)
    log = make_log(
        tally,
        options,
        terminal_states=ends,
        sparse=sparse,
        reading=reading,
        workspace=workspace,
        beside=beside,
    )
    log = with_pace(remember(log, steps), per)
    return replace(log, labels=replace(log.labels, library=library_of(source)))


def options_of(
    *, terminal_states: Any = (), actions: Any = None, drop_bad_rows: Any = False, **given: Any
) -> tuple[Options, tuple[Any, ...]]:
    """(the options of `read_log` as one value that can be sent, the labels of terminal states)."""
    columns = {role: given.pop(role, None) for role in SYNONYMS}
    for role, x in columns.items():
        if x is not None and not isinstance(x, str):
            columns[role] = tuple(x) if isinstance(x, Iterable) else str(x)
    if given.get("bandit"):
        named = [x for x in ALONG if columns[x] not in (None, NONE)]
        if named:
            raise LogError(
                f"a bandit log has one step an episode: leave out {option(named[0])}, or"
                f" {option('bandit', True)}"
            )
        columns |= dict.fromkeys(ALONG, NONE)
        given["episode_end"] = "terminal"
    options = Options(
        columns=tuple(columns.items()),
        drop=droppable(drop_bad_rows),
        actions=None if actions is None else _labels("actions", actions),
        **given,
    )
    return options, _labels("terminal_states", terminal_states)


def _labels(option: str, values: Any) -> tuple[Any, ...]:
    """Labels given by a user, several columns as tuples."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise LogError(f"{option} must be several labels, such as ['a', 'b'], got {values!r}")
    return tuple(tuple(x) if isinstance(x, (list, tuple)) else x for x in values)


def count_part(source: Any, options: Options, part: Part = None) -> Tally:
    """The tally of one part of a log: of some of its files, or of the episodes that fall into part
    i of k.

    Tallies add up: `add_up` of all parts is the tally of the whole log, in which no time limit was
    looked for (see `Reading.limit`). An episode must not be
    split between parts unless next_state is given and `check_order` is off.
    """
    workspace = Workspace()
    try:
        return _counted(source, options, workspace, None, part)[1]
    finally:
        workspace.close()


def _counted(
    source: Any,
    options: Options,
    workspace: Workspace,
    progress: Progress | None,
    part: Part = None,
) -> tuple[Reading, Tally, dict[str, tuple[Any, ...]]]:
    """The rows as Parquet, what was counted in them, and the labels beside their steps."""
    found = as_utf8(find_source(source), options.encoding, workspace.path)
    threads, limit = options.threads, options.memory_limit
    with Database(workspace, threads, limit, progress, shared=True) as database:
        store = open_store(
            found,
            dict(options.columns),
            single(options.delimiter),
            database,
            drop_broken="broken-row" in options.drop,
        )
        if part is not None and part[0]:
            store = replace(store, broken=0)  # they count in part 0
        reading = Reading(store=store, options=options, by_time=options.order != "file")
        if not options.check_order and not reading.given:
            raise LogError(
                "check_order=False needs next_state: without it the order of the rows is the log"
            )
        reading, tally = count_log(database, reading, part)
        return reading, tally, code_beside(database, reading)
