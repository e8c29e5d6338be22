"""`read_log`: from files or a table to a Log; parts of a log counted apart and added up, on a Dask
cluster or elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.core import END, Labels
from surefoot.core.array_checks import LARGEST, MOST_PAIRS, library_of
from surefoot.core.cluster import cluster, computed
from surefoot.core.errors import LogError, option
from surefoot.core.labels import as_text, in_kind_of, match, places_of, unknown
from surefoot.logs.accounting import droppable, notes_on, warnings_on
from surefoot.logs.column_roles import ALONG, NONE, SYNONYMS, Column, Groupings
from surefoot.logs.counting import code_beside, count_log
from surefoot.logs.database import Database, Progress, Workspace
from surefoot.logs.description import POSING, is_description, read_description
from surefoot.logs.histories import checked_steps, remember
from surefoot.logs.log import Log
from surefoot.logs.pace import checked_per, with_pace
from surefoot.logs.query import Options, Part, Reading
from surefoot.logs.store import as_utf8, find_source, open_store, single
from surefoot.logs.tally import Tally, merged
from surefoot.problems.given import held_sparse

BLOCK, BLOCKS = 1 << 20, 64  # bytes of a file by which it is known


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
    group: Groupings = None,
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
    memory: str | None = None,
    progress: Progress | None = None,
    missing_reward: float | None = None,
    decimal: str = ".",
    delimiter: str = "",
    encoding: str = "utf-8",
    history: int = 0,
    discount_per: str | float | None = None,
    bandit: bool = False,
    date_format: str = "",
    values: Mapping[str, float] | Iterable[str] = (),
    unit: str = "",
) -> Log:
    """Read and count a log with one row a step.

    source                a CSV or Parquet file (also .gz), a folder, a pattern, a list of them
                          (taken in the order of their names), a pandas, polars or Arrow table, a
                          DuckDB relation, whatever has `__arrow_c_stream__`, arrays by D4RL's
                          names (a dict, .npz, .hdf5), a dataset of Minari or d3rlpy,
                          or the TOML file that `surefoot check --save` wrote: what stands there
                          holds where a keyword has its default
    episode ... truncated columns by role: a name, or several joined by commas that make one label
                          (state="ward,severity"); left out, they are found by name; "-" says that
                          there is none (episode="-": the log is one episode)
    reward                also COLUMN:lower or COLUMN:higher, which is better (reward="died:lower");
                          without a direction, more is better
    propensity            the probability with which the action was chosen; found by name too
    policy                which policy chose the action
    group                 a group that the episode belongs to, constant in it; ["sex", "ward"] are
                          two groupings, "sex,ward" is one, with a group for every combination
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
    threads, memory       of DuckDB, which counts the rows: how many threads (default: one for each
                          core), and the most memory, such as "2GB" (default: 80 % of it)
    progress              is called with (what, share done)
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
    date_format           of times that are text, such as "dd/mm/yyyy hh:mm" (or "%d %b %Y"); ISO's
                          and those in which only the day, the month or the year can come first are
                          found
    values                the numbers that the words of the reward stand for, such as
                          {"survived": 1, "died": 0} or ["survived=1", "died=0"]
    unit                  what people call the reward, such as "survival" or "EUR": gains are told
                          in it

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
    steps, per, unit = (given.pop(x) for x in ("history", "discount_per", "unit"))
    steps = checked_steps(steps)
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
    labels = replace(log.labels, library=library_of(source))
    return replace(log, labels=labels, reward=replace(log.reward, unit=unit))


def options_of(
    *,
    terminal_states: Any = (),
    actions: Any = None,
    drop_bad_rows: Any = False,
    values: Any = (),
    **given: Any,
) -> tuple[Options, tuple[Any, ...]]:
    """(the options of `read_log` as one value that can be sent, the labels of terminal states)."""
    columns = {role: given.pop(role, None) for role in SYNONYMS}
    for role, x in columns.items():
        if x is not None and not isinstance(x, str):
            several = x if isinstance(x, Iterable) else (x,)
            columns[role] = tuple(tuple(y) if isinstance(y, (list, tuple)) else y for y in several)
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
        values=_values(values),
        **given,
    )
    return options, _labels("terminal_states", terminal_states)


def _labels(option: str, values: Any) -> tuple[Any, ...]:
    """Labels given by a user, several columns as tuples."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise LogError(f"{option} must be several labels, such as ['a', 'b'], got {values!r}")
    return tuple(tuple(x) if isinstance(x, (list, tuple)) else x for x in values)


def _values(given: Any) -> tuple[tuple[str, float], ...]:
    """(word, number) of the words of a reward, given as {word: number} or "word=number"."""
    if isinstance(given, Mapping):
        pairs = [*given.items()]
    else:
        texts = [x for x in given.split(",") if x.strip()] if isinstance(given, str) else given
        texts = texts if isinstance(texts, Iterable) else [texts]
        pairs = [str(x).rpartition("=")[::2] for x in texts]
    found: list[tuple[str, float]] = []
    for word, x in pairs:
        try:
            number = float(x)
        except (TypeError, ValueError):
            number = float("nan")
        if not (str(word).strip() and abs(number) <= LARGEST):
            raise LogError(
                f"values are words of the reward with their numbers, such as survived=1,died=0; got"
                f" {f'{word}={x}'!r}"
            )
        found.append((str(word).strip(), number))
    words = [word for word, _ in found]
    if len(set(words)) < len(words):
        twice = next(word for word in words if words.count(word) > 1)
        raise LogError(f"values give {twice!r} two numbers: give one")
    return tuple(found)


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
    threads, limit = options.threads, options.memory
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


def make_log(
    tally: Tally,
    options: Options,
    *,
    terminal_states: tuple[Any, ...] = (),
    sparse: bool | None = None,
    reading: Reading | None = None,
    workspace: Workspace | None = None,
    beside: Mapping[str, tuple[Any, ...]] | None = None,
) -> Log:
    """The Log of a tally, checked; `reading` and `workspace` say where its rows are."""
    if not tally.states:
        raise LogError(
            "no row has a successor: every episode is one step long and cut; give next_state, flag"
            f" terminal steps, or say {option('episode_end', 'terminal')} if every episode ends"
            " with its last row"
        )
    places = places_of(tally.actions)
    extra = [
        in_kind_of(x, tally.actions) for x in options.actions or () if match(x, places) is None
    ]
    tally = tally.over(tally.states, merged(tally.actions, tuple(extra))) if extra else tally
    states = tally.states
    if tally.has_end and END in states:
        raise LogError(
            f"the log has a state labelled {END!r}, the name of the extra state its terminal steps"
            " lead to: rename it"
        )
    states = (*states, END) if tally.has_end else states
    if len(states) * len(tally.actions) > MOST_PAIRS:
        raise LogError(
            f"{len(states)} states x {len(tally.actions)} actions are more than {MOST_PAIRS:,}"
            " pairs: is the state column right?"
        )
    label_columns = options.label_columns
    if reading is not None:
        label_columns = (reading.store.columns.state, reading.store.columns.action)
    labels = Labels(states, tally.actions, *label_columns)
    terminal, notes = _terminal(tally, labels, terminal_states)
    made = Log(
        counts=tally.counts(as_sparse=held_sparse(sparse, len(states), len(tally.actions))),
        labels=labels,
        starts=None if tally.starts is None else np.append(tally.starts, [0.0] * tally.has_end),
        terminal=terminal,
        rewards=(float(tally.lowest), float(tally.highest)),
        has_end=tally.has_end,
        accounting=tally.accounting,
        reward=tally.reward,
        columns=str(reading.store.columns) if reading is not None else "",
        notes=(),
        beside=dict(beside or {}),
        reading=reading,
        workspace=workspace,
    )
    _check_acting(made)
    warnings = tuple(f"WARNING: {x}" for x in warnings_on(made))
    notes = [*warnings, *notes_on(made, options.missing_reward), *notes]
    return replace(made, notes=tuple(notes), warnings=warnings)


def _terminal(tally: Tally, labels: Labels, named: tuple[Any, ...]) -> tuple[np.ndarray, list[str]]:
    """(the mask of terminal states, notes about those that never occur)."""
    terminal = np.zeros(len(labels.states), dtype=bool)
    terminal[list(tally.ended)] = True
    terminal[len(labels.states) - tally.has_end :] = True
    notes = []
    for label in named:
        place = labels.find_state(label)
        if place is None:
            notes.append(f"terminal {unknown('state', label, labels.states)}")
        else:
            terminal[place] = True
    return terminal, notes


def _check_acting(log: Log) -> None:
    """Nobody acts in a terminal state."""
    acting = np.flatnonzero(log.terminal & (log.n_sa.sum(axis=1) > 0))
    if len(acting):
        s = int(acting[0])
        raise LogError(
            f"{int(log.n_sa[s].sum())} rows act in state {as_text(log.states[s])!r}, which is"
            f" terminal ({len(acting)} such states): a terminal state has no actions. If a terminal"
            f" step returns to an ordinary state, pass {option('terminal_to_end', True)}: it then"
            " leads to an extra state (end)"
        )


def tallies_on_dask(
    address: Any, source: Any, options: Options, *, parts: int | None, fewest: int
) -> list[Tally]:
    """The tallies of the parts of a log in files that all workers of a Dask cluster can read, each
    counted by a worker that finds these files there and runs this surefoot: of the episodes whose
    hash is i modulo the number of parts (default: one a worker, at least `fewest`). An episode may
    span files, so every task reads all files.

    Counts, labels and accounting of their sum are those of `read_log`; sums of rewards may differ
    in the last bit. Only a time limit is not looked for (see `Reading.limit`), since no part shows
    it.

    address   of the scheduler, such as "tcp://host:8786", or a dask.distributed Client
    """
    files = [os.path.abspath(file) for file in find_source(source).files]
    if not files:
        raise LogError("a Dask cluster reads CSV and Parquet files: write the log as one of them")
    marks = {file: mark(file) for file in files}
    with cluster(address) as client:
        k = parts or max(fewest, len(client.scheduler_info()["workers"]))
        found = dict(computed(client, count_marked, [(marks, options, (i, k)) for i in range(k)]))
    return [found[i] for i in range(k)]


def count_marked(marks: dict[str, str], options: Options, part: Part) -> Tally:
    """The tally of a part of these files, if they are here what they are where they were marked."""
    for file, given in marks.items():
        here = mark(file) if os.path.isfile(file) else "missing"
        if here != given:
            raise LogError(
                f"{file} on the Dask worker {platform.node()} is not the file that was given"
                f" ({here} there, {given} here): all workers must read the same files, as on a"
                " shared disk"
            )
    return count_part(list(marks), options, part)


def mark(file: str) -> str:
    """What a file is known by: its size, and a digest of it (of 64 MB of a larger one, spread
    evenly).
    """
    size, digest = os.path.getsize(file), hashlib.sha256()
    with open(file, "rb") as raw:
        for i in range(BLOCKS):
            raw.seek(max(i * BLOCK, i * (size - BLOCK) // (BLOCKS - 1)))
            digest.update(raw.read(BLOCK))
    return f"{size:,} bytes, {digest.hexdigest()[:16]}"
