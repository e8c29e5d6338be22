"""What a policy would have done in every row of a file, and how often that differs from what was
done: shadow mode.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core import LabelledPolicy, Labels, Policy, RowsLike
from surefoot.core.array_checks import library_of
from surefoot.core.atomic import whole_file
from surefoot.core.errors import LogError, ParameterError
from surefoot.core.labels import as_cell, as_text, nearest
from surefoot.core.policy import framed
from surefoot.logs.column_roles import NONE, named_as
from surefoot.logs.database import Database, Progress, Workspace, name_sql, parquet_sql, text_sql
from surefoot.logs.features import BLOCK, RawRows, open_rows
from surefoot.serving.controller import Controller, check_seed, controller_of, most_probable
from surefoot.serving.discretize import check_targets, file_format, write_rows
from surefoot.serving.encoders import Encoder, codes

MOST_LABELS = 1_000_000  # different states of a file
CELLS = 10_000_000  # rows x actions drawn at once
MISSING, UNKNOWN = -1, -2  # codes of logged actions that are not there, or that nobody knows


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What was decided.

    rows             of the file; `decided` of them got a decision
    unseen           (state, rows) of every state that the policy does not know, most rows first
    without_state    rows in which a part of the state is missing, so that they have no state
    fallback         rows without a state or in an unseen one in which the fallback decided
    stochastic, tied rows in which other actions have a chance; in which others are as probable
    actions          {action: rows in which it was decided}
    compared         rows with a decision and a logged action, None where the file has no actions;
                     in `differs` of them they differ; `agreement` is the mean probability that the
                     policy takes the logged action
    unknown_actions  {logged action that the policy does not have: rows}
    moved            the mean total variation distance to the baseline beside the policy over the
                     rows in states that it knows: the share of decisions that change; None without
                     a baseline. preferred: the share of these rows whose most probable action is
                     not the baseline's
    table            the rows with their decisions, where they were written to no file
    """

    rows: int
    decided: int
    unseen: tuple[tuple[Any, int], ...]
    without_state: int
    fallback: int
    stochastic: int
    tied: int
    actions: dict[str, int]
    compared: int | None
    differs: int
    agreement: float
    unknown_actions: dict[str, int]
    moved: float | None
    preferred: float | None
    sampled: bool
    table: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class Coding:
    """The different labels of some columns, missing ones among them, in the order of their codes;
    how many rows have each; and the join that finds the codes of rows x in their table.
    """

    labels: Sequence[Any]
    counts: tuple[int, ...] = ()
    join: str = ""


@dataclass(frozen=True, repr=False, kw_only=True)
class Plan:
    """What the controller does in each label of the file: row i of pi is that of labels[i].

    place: the state of the policy of each label, or -1. actions: those of policy and fallback.
    """

    labels: Sequence[Any]
    place: np.ndarray
    pi: np.ndarray
    actions: tuple[Any, ...]


@dataclass(frozen=True, repr=False, kw_only=True)
class _Sums:
    """Rows by label and by decision, and what comparing with the logged actions gave."""

    labels: np.ndarray
    chosen: np.ndarray
    compared: int
    differs: int
    agreement: float


def apply(
    policy: Controller | LabelledPolicy,
    source: RowsLike,
    out: str | Path | None = None,
    *,
    otherwise: Hashable | LabelledPolicy = None,
    state_column: str | None = None,
    action_column: str | None = None,
    sample: bool = False,
    seed: int | None = None,
    column: str = "decision",
    decimal: str = ".",
    delimiter: str = "",
    encoding: str = "utf-8",
    progress: Progress | None = None,
) -> Applied:
    """What a policy would have done in every row of a file or frame: `surefoot apply --file`.

    The rows get two new columns, the decision and its probability, in their order: in the file
    `out` (.csv, .csv.gz or .parquet), or else in `Applied.table`, a frame of the library of
    `source` (polars in, polars out). The decision is the most probable action, or with `sample` one
    drawn for each row, from the seed. Both are empty where the policy does not know the state.

    policy          a Policy, a Solution, a Controller, the path of a file of one of them, a table,
                    or {state: {action: probability}}
    otherwise       what to do in states that the policy does not know: the label of an action, or a
                    second policy (a file of one as a Path)
    state_column, action_column  columns of the rows (several joined by commas make one label),
                    found by name unless given; action_column="-": compare with nothing
    decimal, delimiter, encoding  of text files, as in `read_log`; text is written as it was read

    >>> import surefoot
    >>> rule = {"low": {"up": 0.7, "stay": 0.3}, "high": {"stay": 1}}
    >>> done = surefoot.apply(rule, {"state": ["high", "low", "lost"]})
    >>> done.table["decision"], done.unseen
    (['stay', 'up', None], (('lost', 1),))
    """
    check_seed(seed, sample)
    controller = controller_of(policy, otherwise)
    if isinstance(controller.otherwise, Controller):
        raise ParameterError(
            "a whole file is decided state by state, and this fallback is asked about rows: decide"
            " row by row (surefoot.load_controller), or with another fallback"
        )
    if out is not None:
        out = Path(out)
        file_format(out)
    with closing(Workspace()) as workspace, Database(workspace, progress=progress) as database:
        encoder = controller.encoder
        features = () if encoder is None else encoder.features
        rows = open_rows(source, features, database, workspace, delimiter, encoding, decimal)
        for name in (column, f"{column}_probability"):
            check_targets(out, None, name, rows)
        taken = _action_columns(rows, action_column)
        if encoder is None:
            states = coded(database, rows, "states", _state_columns(controller, rows, state_column))
        elif state_column is not None:
            raise ParameterError("the encoder makes the state: leave --state-column out")
        else:
            rows.missing(database, encoder.features)  # they are numbers
            states = Coding((*encoder.labels, None))  # None: without a state
        plan = planned(controller, states.labels)
        logged = coded(database, rows, "actions", taken) if taken else Coding(())
        known = _action_codes(logged.labels, plan.actions)
        blocks = _blocks(database, rows, encoder, states, logged, known)
        sums = _decide(database, blocks, plan, np.random.default_rng(seed) if sample else None)
        table = None
        if out is None:
            table = _decided(database, rows, plan, source, column)
        else:
            _write(database, rows, plan, out, column)
    strange = {
        as_text(x): n
        for x, n, code in zip(logged.labels, logged.counts, known, strict=True)
        if code == UNKNOWN
    }
    return _applied(controller, plan, sums, bool(taken), strange, sample, table)


def _state_columns(controller: Controller, rows: RawRows, given: str | None) -> tuple[str, ...]:
    """The columns of the state: as named, as in the policy, or the one whose name says so."""
    wanted = controller.policy.labels.headers
    if given is not None:
        names = _named(given, rows, "state")
        if len(names) != len(wanted):
            raise LogError(
                f"a state of the policy has {len(wanted)} columns ({', '.join(wanted)}), but"
                f" {len(names)} are given ({', '.join(names)})"
            )
        return names
    if all(x in rows.names for x in wanted):
        return tuple(wanted)
    found = named_as("state", rows.names) if len(wanted) == 1 else []
    if len(found) != 1:
        lost = next(x for x in wanted if x not in rows.names)
        raise LogError(
            f"{rows.name} has no column {lost!r} for the state; {nearest(lost, rows.names)}. Name"
            " it with --state-column"
        )
    return tuple(found)


def _action_columns(rows: RawRows, given: str | None) -> tuple[str, ...]:
    """The columns of the logged action; () where there are none."""
    if given == NONE:
        return ()
    if given is not None:
        return _named(given, rows, "action")
    found = named_as("action", rows.names)
    if len(found) > 1:
        raise LogError(
            f"{rows.name} has {len(found)} columns that could be the action:"
            f" {', '.join(map(repr, found[:4]))}. Name the right one with --action-column, or none"
            " with --action-column -"
        )
    return tuple(found)


def _named(given: str, rows: RawRows, role: str) -> tuple[str, ...]:
    names: Sequence[str] = [given] if given in rows.names else [x.strip() for x in given.split(",")]
    for name in names:
        if name not in rows.names:
            raise LogError(
                f"{rows.name} has no column {name!r} (given as the {role});"
                f" {nearest(name, rows.names)}"
            )
    return tuple(names)


def coded(database: Database, rows: RawRows, table: str, columns: Sequence[str]) -> Coding:
    """The labels of some columns; makes the table of their codes."""
    chosen = ", ".join(f"{name_sql(rows.physical[x])} as k{i}" for i, x in enumerate(columns))
    database.run(
        f"finding the {table}",
        f"create temp table {table} as select (row_number() over () - 1)::bigint as code, * from"
        f" (select {chosen}, count(*) as n from {rows.sql} group by all)",
    )
    (n,) = database.rows("counting labels", f"select count(*) from {table}")[0]
    if n > MOST_LABELS:
        raise LogError(
            f"{rows.name} has {n:,} different {table} (column {', '.join(columns)}), more than"
            f" {MOST_LABELS:,}: is the column right?"
        )
    keys = ", ".join(f"k{i}" for i in range(len(columns)))
    same = " and ".join(
        f"x.{name_sql(rows.physical[x])} is not distinct from {table}.k{i}"
        for i, x in enumerate(columns)
    )
    found = database.rows("reading labels", f"select n, {keys} from {table} order by code")
    labels = [row[1] if len(columns) == 1 else tuple(row[1:]) for row in found]
    return Coding(labels, tuple(row[0] for row in found), f"left join {table} on {same}")


def planned(controller: Controller, labels: Sequence[Any]) -> Plan:
    """What the controller does in every label."""
    policy, otherwise = controller.policy, controller.otherwise
    actions = list(policy.labels.actions)
    if isinstance(otherwise, Policy):
        actions += [a for a in otherwise.labels.actions if policy.labels.find_action(a) is None]
    known = Labels(("",), tuple(actions))
    found = (policy.labels.find_state(x) for x in labels)
    place = np.array([-1 if x is None else x for x in found], dtype=np.int64)
    pi = np.zeros((len(labels), len(actions)))
    pi[place >= 0, : policy.pi.shape[1]] = policy.pi[place[place >= 0]]
    for i in np.flatnonzero(place < 0).tolist() if otherwise is not None else ():
        if not isinstance(otherwise, Policy):
            pi[i, known.action_code(otherwise)] = 1.0
        elif otherwise.knows(labels[i]):
            for a, p in otherwise.probabilities(labels[i]).items():
                pi[i, known.action_code(a)] = p
    return Plan(labels=labels, place=place, pi=pi, actions=tuple(actions))


def _action_codes(logged: Sequence[Any], actions: tuple[Any, ...]) -> np.ndarray:
    """The code of every logged action among those of the plan."""
    known = Labels(("",), actions)
    found = [MISSING if _missing(x) else known.find_action(x) for x in logged]
    return np.array([UNKNOWN if x is None else x for x in found], dtype=np.int64)


def _missing(label: Any) -> bool:
    """Whether a part of a label is NULL or NaN."""
    return any(x is None or x != x for x in (label if isinstance(label, tuple) else (label,)))


def _blocks(
    database: Database,
    rows: RawRows,
    encoder: Encoder | None,
    states: Coding,
    logged: Coding,
    action_codes: np.ndarray,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(the label, the logged action) of each row as codes, block by block in the order of rows."""
    chosen = ", states.code as s" * bool(states.join) + ", actions.code as a" * bool(logged.join)
    features = iter(()) if encoder is None else rows.blocks(database)
    for file in rows.stored:
        (n,) = database.rows("counting rows", f"select count(*) from {parquet_sql((file,))}")[0]
        for start in range(0, int(n), BLOCK):
            where = f"file_row_number >= {start} and file_row_number < {start + BLOCK}"
            found = database.arrays(
                "looking up rows",
                f"select x.file_row_number as row{chosen} from"
                f" (from {parquet_sql((file,))} where {where}) x {states.join} {logged.join}",
            )
            order = np.argsort(found["row"], kind="stable")
            action = (
                action_codes[found["a"][order]] if "a" in found else np.full(len(order), MISSING)
            )
            if encoder is None:
                state = found["s"][order]
            else:
                state = codes(encoder, next(features))
                state = np.where(state < 0, len(states.labels) - 1, state)
            yield np.asarray(state), np.asarray(action)


def codes_of_rows(
    database: Database, rows: RawRows, encoder: Encoder | None, labels: Coding | None
) -> np.ndarray:
    """Which label every row has: of those of some columns, or of the states of an encoder (its last
    code: no state).
    """
    states = Coding((*encoder.labels, None)) if labels is None and encoder is not None else labels
    assert states is not None
    blocks = _blocks(database, rows, encoder, states, Coding(()), np.zeros(0, dtype=np.int64))
    return np.concatenate([state for state, _ in blocks])


def _decide(
    database: Database,
    blocks: Iterator[tuple[np.ndarray, np.ndarray]],
    plan: Plan,
    rng: np.random.Generator | None,
) -> _Sums:
    """Make the table `decisions`, in the order of the rows, and add up what it says."""
    best = most_probable(plan.pi)
    labels = np.zeros(len(plan.labels), dtype=np.int64)
    chosen = np.zeros(len(plan.actions), dtype=np.int64)
    compared = differs = 0
    agreement = 0.0
    database.run("deciding", "create temp table decisions (a integer, p double)")
    for state, action in blocks:
        decision = best.action[state] if rng is None else _drawn(plan.pi, state, rng)
        acts = decision >= 0
        p = np.where(acts, plan.pi[state, decision], np.nan)
        labels += np.bincount(state, minlength=len(labels))
        chosen += np.bincount(decision[acts], minlength=len(chosen))
        both = acts & (action != MISSING)
        compared += int(both.sum())
        differs += int((decision != action)[both].sum())
        same = both & (action >= 0)
        agreement += float(plan.pi[state[same], action[same]].sum())
        with database.table("decided", {"a": decision.astype(np.int32), "p": p}):
            database.run("deciding", "insert into decisions select a, p from decided")
    return _Sums(
        labels=labels,
        chosen=chosen,
        compared=compared,
        differs=differs,
        agreement=agreement / max(compared, 1),
    )


def _drawn(pi: np.ndarray, state: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One action a row, drawn from pi; -1 where pi has none. A row takes one number of rng."""
    total = np.cumsum(pi, axis=1)
    last = pi.shape[1] - 1 - (pi[:, ::-1] > 0).argmax(axis=1)  # of those that have a chance
    u, found = rng.random(len(state)), np.empty(len(state), dtype=np.int64)
    step = max(1, CELLS // pi.shape[1])
    for i in range(0, len(state), step):
        s = state[i : i + step]
        found[i : i + step] = np.minimum((u[i : i + step, None] >= total[s]).sum(axis=1), last[s])
    return np.where(total[state, -1] > 0, found, -1)


def _write(database: Database, rows: RawRows, plan: Plan, out: Path, column: str) -> None:
    """The rows of the file with their decisions, in their order."""
    names = [as_text(a) for a in plan.actions]
    p = "p"
    if not out.name.lower().endswith(".parquet"):
        names = [as_cell(x) for x in names]
        p = p if rows.decimal == "." else "replace(p::varchar, '.', ',')"
    label = f"case when a >= 0 then ([{', '.join(map(text_sql, names))}])[a + 1] end"
    chance = f"case when a >= 0 then {p} end as {name_sql(f'{column}_probability')}"
    with whole_file(out) as part:
        write_rows(
            database,
            rows,
            f"select {rows.all_columns}, {label} as {name_sql(column)}, {chance} from {rows.sql}"
            " positional join decisions",
            out,
            part,
        )


def _decided(database: Database, rows: RawRows, plan: Plan, source: Any, column: str) -> Any:
    """The rows with their decisions as a table: a frame keeps its columns as they are."""
    found = database.rows("reading decisions", "select a, p from decisions")
    new: dict[str, list[Any]] = {
        column: [plan.actions[a] if a >= 0 else None for a, _ in found],
        f"{column}_probability": [p if a >= 0 else None for a, p in found],
    }
    library = library_of(source)
    if library == "pandas":
        return source.assign(**new)
    if library == "pyarrow":
        for name, values in new.items():
            source = source.append_column(name, [values])
        return source
    if library == "polars":
        return source.hstack(framed(tuple(new), list(zip(*new.values(), strict=True)), library))
    if isinstance(source, dict):
        return {**source, **new}
    old = database.rows("reading rows", f"select {rows.all_columns} from {rows.sql}")
    lines = [(*x, *y) for x, y in zip(old, zip(*new.values(), strict=True), strict=True)]
    return framed((*rows.names, *new), lines)


def _applied(
    controller: Controller,
    plan: Plan,
    sums: _Sums,
    has_actions: bool,
    strange_actions: dict[str, int],
    sampled: bool,
    table: Any,
) -> Applied:
    """All that was counted."""
    best, n = most_probable(plan.pi), sums.labels
    strange = plan.place < 0
    lost = np.array([_missing(x) for x in plan.labels], dtype=bool) & strange
    unseen = [
        (plan.labels[i], int(n[i])) for i in np.flatnonzero(strange & ~lost & (n > 0)).tolist()
    ]
    moved = preferred = None
    baseline = controller.policy.baseline
    if baseline is not None and n[~strange].sum():
        weight = n[~strange] / n[~strange].sum()
        pi, b = (x[plan.place[~strange]] for x in (controller.policy.pi, baseline))
        moved = float(weight @ (0.5 * np.abs(pi - b).sum(axis=1)))
        preferred = float(weight @ (most_probable(pi).action != most_probable(b).action))
    return Applied(
        rows=int(n.sum()),
        decided=int(sums.chosen.sum()),
        unseen=tuple(sorted(unseen, key=lambda x: (-x[1], as_text(x[0])))),
        without_state=int(n[lost].sum()),
        fallback=int(n[strange & (best.action >= 0)].sum()),
        stochastic=int(n[best.stochastic].sum()),
        tied=int(n[best.tied].sum()),
        actions={as_text(a): int(k) for a, k in zip(plan.actions, sums.chosen, strict=True) if k},
        compared=sums.compared if has_actions else None,
        differs=sums.differs,
        agreement=sums.agreement,
        unknown_actions=strange_actions,
        moved=moved,
        preferred=preferred,
        sampled=sampled,
        table=table,
    )
