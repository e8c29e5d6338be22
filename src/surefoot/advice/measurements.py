"""Measurements instead of states, and ranges of a number as actions: the half of a log that a
policy is learned from cuts them, and the other half is encoded with what was frozen then, and tests
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.advice.gain import CHOSEN, Gain, held_out_gain, learning_half
from surefoot.advice.posing import (
    Posed,
    as_said,
    check_keywords,
    discount_of,
    in_words,
    pose,
    read,
    several,
)
from surefoot.advice.row_baselines import (
    RowBaseline,
    baseline_of_rows,
    can_have_made,
    goes_by_rows,
)
from surefoot.algorithms.priced_soft_spibb import PricedSoftSPIBB
from surefoot.checks.finding import Finding
from surefoot.checks.leakage import leakage
from surefoot.checks.time_order import row_values
from surefoot.core import Batch, Labels, count_batch
from surefoot.core.errors import NotAvailableError, ParameterError, SurefootError, option
from surefoot.evidence.circumstances import MEASURED
from surefoot.evidence.unit_estimate import UnitEstimate
from surefoot.evidence.unit_model import model_of_units
from surefoot.evidence.units import Units, horizon, take_rows, units_of, units_of_batch
from surefoot.logs import Log
from surefoot.logs.column_roles import NONE, RANGES, named_as
from surefoot.logs.database import Database, Workspace, name_sql
from surefoot.logs.description import POSING
from surefoot.logs.features import RawRows, open_rows
from surefoot.logs.log import IN_MEMORY
from surefoot.logs.read import read_log
from surefoot.logs.store import Source
from surefoot.problems import Problem
from surefoot.problems.build import build
from surefoot.problems.given import Counted, Start
from surefoot.problems.guards import guards_of
from surefoot.problems.montecarlo import discounted_returns
from surefoot.problems.problem import VISITS
from surefoot.serving.action_bins import ActionBins, bins_of_actions, check_action_bins
from surefoot.serving.discretize import (
    FILLED,
    LAST,
    check_bins,
    keep_codes,
    label_sql,
    measured_rows,
    write_rows,
)
from surefoot.serving.encoders import Encoder, fit_quantiles

STATE, ACTION, ROW = "state", "action range", "surefoot row"
AFTER = ("action", "reward", "terminal", "truncated", "propensity", "guard")  # roles of no feature
TEXT = ("decimal", "delimiter", "encoding")
ROLES = ("episode", "time", "reward")
NUMBERS = (4, 6, 9, 12, 16, 25, 36, 50, 75, 100, 150, 200)  # of states, that are tried
FEWEST_ROWS = 10  # of the learning half, a state, on average
FINE = 50  # states, at most, in which what comparisons of numbers of states find is judged
# states, at least, where there are so many rows of the learning half for each: what happens next
# hangs on where in a coarse cell a row is, and the test of a policy in such cells is too high
COARSEST, ROWS_ENOUGH = 25, 40
SEEDS = (0, 1)  # of the parts that the learning half is cut into
ALGORITHM = PricedSoftSPIBB()


@dataclass(frozen=True, repr=False, kw_only=True)
class Tried:
    """What a number of states would give, judged within the half that learns: the mean over SEEDS
    of the held-out gain and its bounds, all in one model of finer states, since each in its own
    states flatters those that are too coarse; the rows a state; and `left`, the share of the
    variance of returns that lies within cells, whose means come from other rows (None: no return
    is seen to its end).
    """

    states: int
    gain: float
    low: float
    high: float
    rows: float
    left: float | None


@dataclass(frozen=True, repr=False, kw_only=True)
class Measured:
    """A log whose states, or bins of actions, were made: its rows with these columns, and the units
    of which those in `learning` made them.

    encoder     makes the states; None where the log has its own
    actions     makes the actions, where they are ranges
    tried       numbers of states, where they were compared
    findings    what the measurements say that a state cannot know
    beside      the measurements of the rows that are used
    by_row      whether what the baseline does differs within states, and is known of every row
    """

    source: Source
    encoder: Encoder | None
    actions: ActionBins | None
    units: Units
    learning: np.ndarray
    workspace: Workspace
    tried: tuple[Tried, ...] = ()
    findings: tuple[Finding, ...] = ()
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)
    by_row: bool = False
    baseline: RowBaseline | None = None


@dataclass(frozen=True, kw_only=True)
class Making:
    """What is to be made of the columns of a log, as `surefoot improve` takes it. `table`: compare
    numbers of states, whatever `states` says.
    """

    features: tuple[str, ...] = ()
    states: int | None = None
    edges: Mapping[str, Sequence[float]] = field(default_factory=dict)
    missing: str = "error"
    action_bins: int | None = None
    table: bool = False

    def __post_init__(self) -> None:
        names = (*self.features, *(x for x in self.edges if x not in self.features))
        object.__setattr__(self, "features", names)
        check_bins("quantile", self.edges, self.missing)
        if self.action_bins is not None:
            check_action_bins(self.action_bins)
        for name, given in (
            ("states", self.states is not None),
            ("missing", self.missing != "error"),
        ):
            if given and not names:
                raise ParameterError(
                    f"{option(name)} is about states that are made of measurements: name their"
                    f" columns with {option('features')}"
                )

    @property
    def given(self) -> dict[str, Any]:
        """What is to be made, by name."""
        found = {x.name: getattr(self, x.name) for x in fields(self) if x.name != "table"}
        return {name: x for name, x in found.items() if x and x != "error"}

    @property
    def asked(self) -> bool:
        """Whether anything is to be made."""
        return bool(self.features or self.action_bins)


def posed_with_states(source: Any, how: Mapping[str, Any], making: Making) -> Posed:
    """The problem of a log whose states are made of measurements, or whose actions are ranges of a
    number; `how`: as `pose` takes it.
    """
    check_keywords(how)
    given, asked = as_said(source, how)
    # Which half is learned from hangs on whether propensities differ within a state. They may
    # differ in the log as a whole and not within the states: then states are made once more.
    for without in ({}, {"propensity": NONE}):
        made = with_states(given, {**asked, **without}, making)
        posed = _posed(made, asked)
        units = units_of(posed.log, posed.problem.log, posed.problem.gamma)
        half = learning_half(units)[units.unit]
        if np.array_equal(half, made.learning[made.units.unit]):
            return replace(posed, source=in_words(source))
    raise SurefootError(
        "the halves of this log are others with the states that were made: make the states first,"
        " with surefoot discretize"
    )


def _posed(made: Measured, asked: Mapping[str, Any]) -> Posed:
    """The problem of the rows that were made. A baseline that goes by raw rows is in each state
    what it does there on average, and its probability of the action of every row is kept.
    """
    own = {"state": STATE} if made.encoder is not None else {}
    own |= {"action": ACTION} if made.actions is not None else {}
    given, pi, reading = made.baseline, None, {x: asked[x] for x in asked if x not in POSING}
    if given is None:
        posed = pose(made.source, **{**asked, **own})
    else:
        log, _ = read(made.source, **{**reading, **own})
        policy, pi = given.policy(log, made.actions)
        posing = {x: asked[x] for x in (*POSING, "guard") if x in asked and x != "exploration"}
        posed = pose(log, **{**posing, "baseline": policy})
    batch = posed.problem.log
    assert batch is not None  # `_halves` saw to it
    batch = replace(batch, beside={**batch.beside, **made.beside})
    whoever = made.encoder is not None and not asked.keys() & {"baseline", "baseline_policy"}
    chosen = batch.propensity if whoever and batch.policy_varies else None
    if given is not None and pi is not None:
        chosen = given.chosen(batch, pi)
        made = replace(made, findings=(*made.findings, can_have_made(batch, chosen)))
        chosen = chosen if posed.problem.pi_b_estimated else None
    if chosen is not None:
        batch = replace(batch, beside={**batch.beside, CHOSEN: chosen})
    problem = replace(posed.problem, log=batch)
    if given is not None:
        problem = replace(problem, made_log=None)  # it is that itself
    posed = replace(posed, problem=problem)
    return replace(posed, measured=replace(made, baseline=None, by_row=chosen is not None))


def with_states(source: Any, asked: Mapping[str, Any], making: Making) -> Measured:
    """The rows of a log with a state for each, made of its features as `discretize` does, but by
    the learning half alone; and with a range for each action, where that is asked for. `asked`: how
    the log is read, and its gamma and ranges.
    """
    _check(source, asked, making)
    names, workspace = making.features, Workspace()
    with Database(workspace) as database:
        rows, blank = _raw(source, asked, making, database, workspace)
        dose = None if making.action_bins is None else _dose(rows, database, asked)
        x = _numbers(rows, database)
        halves = _halves(rows, len(x), database, workspace, asked, binned=dose is not None)
        actions, done = None, np.zeros(len(x), dtype=np.int64)
        if dose is not None and making.action_bins is not None:
            half = np.isin(np.arange(len(x)), halves.raw)
            actions, done = bins_of_actions(*dose, half, making.action_bins)
            halves = halves.with_actions(done, len(actions.labels))
        encoder: Encoder | None = None
        tried: tuple[Tried, ...] = ()
        findings: tuple[Finding, ...] = ()
        if names:
            _check_features(names, halves.log)
            encoder, tried = _made_states(halves, x, making, blank)
            findings = (leakage(names, x[halves.at], halves.batch),)
        code = np.zeros(len(x), dtype=np.int64) if encoder is None else encoder.encode(x)
        baseline = None
        if encoder is not None and goes_by_rows(asked.get("baseline")):
            baseline = baseline_of_rows(
                asked["baseline"], rows, database, (code, encoder.labels), halves.at,
                halves.log.actions if actions is None else actions, asked.get("exploration") or 0.0,
            )  # fmt: skip
        target = workspace.path / f"states{_ending(rows)}"
        _write(database, rows, target, (code, encoder), (done, actions))
    return Measured(
        source=_source(rows, target), encoder=encoder, actions=actions, units=halves.units,
        learning=halves.learning, workspace=workspace, tried=tried, findings=findings,
        beside={f"{MEASURED}{i}": y for i, y in enumerate(x[halves.at].T)}, baseline=baseline,
    )  # fmt: skip


def _raw(
    source: Any, asked: Mapping[str, Any], making: Making, database: Database, workspace: Workspace
) -> tuple[RawRows, tuple[str, ...]]:
    """(the rows as they came, the features that are missing in some of them)."""
    text, missing = {x: asked[x] for x in TEXT if asked.get(x)}, making.missing
    roles = _named({x: asked.get(x) for x in ROLES}) if missing == LAST else {}
    if not making.features:
        return open_rows(source, (), database, workspace, **text), ()
    may_miss = making.features if missing in FILLED else ()
    rows, _, lost = measured_rows(
        source, making.features, may_miss, database, workspace, missing=missing,
        roles=roles, needed=missing == LAST,
        date_format=asked.get("date_format", ""), **text,
    )  # fmt: skip
    return rows, tuple(name for name, n in lost.items() if n)


def _numbers(rows: RawRows, database: Database) -> np.ndarray:
    """The features [n, features] of all rows."""
    if rows.features:
        return np.concatenate(list(rows.blocks(database)))
    (n,) = database.rows("counting rows", f"select count(*) from {rows.sql}")[0]
    return np.zeros((n, 0))


def _dose(rows: RawRows, database: Database, asked: Mapping[str, Any]) -> tuple[str, np.ndarray]:
    """(the column of actions, its numbers; NaN where there is none)."""
    given = asked.get("action")
    found = [given] if isinstance(given, str) else list(given or named_as("action", rows.names))
    if len(found) != 1 or found[0] not in rows.names:
        raise ParameterError(
            f"{option('action_bins')} makes ranges of one column of numbers: name it with"
            f" {option('action')}"
        )
    column = replace(rows, features=(found[0],))
    return found[0], np.concatenate(list(column.blocks(database)))[:, 0]


def _write(
    database: Database,
    rows: RawRows,
    target: Path,
    states: tuple[np.ndarray, Encoder | None],
    actions: tuple[np.ndarray, ActionBins | None],
) -> None:
    """The rows with the labels of the states and of the actions that were made."""
    (state, encoder), (action, bins) = states, actions
    n = 1 if bins is None else len(bins.labels)
    keep_codes(database, [state * n + action])
    added = [] if encoder is None else [label_sql(encoder.labels, f"code // {n}", STATE)]
    added += [] if bins is None else [label_sql(bins.labels, f"code % {n}", ACTION)]
    own = [STATE] * (encoder is not None) + [ACTION] * (bins is not None)
    chosen = ", ".join([*_kept(rows, own), *added])
    query = f"select {chosen} from {rows.sql} positional join codes"
    write_rows(database, rows, query, target, target)


def _kept(rows: RawRows, own: Iterable[str]) -> list[str]:
    """The columns of the log, but for those whose names are taken by what is made."""
    return [
        f"{name_sql(rows.physical[name])} as {name_sql(name)}"
        for name in rows.names
        if name.lower() not in own
    ]


def _made_states(
    halves: _Halves, x: np.ndarray, making: Making, blank: tuple[str, ...]
) -> tuple[Encoder, tuple[Tried, ...]]:
    """(the encoder that the learning half makes, the numbers of states that it compared)."""
    half = x[halves.raw]

    def fitted(n: int) -> Encoder:
        return fit_quantiles(making.features, half, n, edges=making.edges, missing=blank)

    own = (len(making.edges.get(name, ())) + 1 + (name in blank) for name in making.features)
    least = math.prod(own)  # bins that are there whatever the number of states
    numbers = [n for n in NUMBERS if n >= least] or [least]
    if making.states is None:
        return _best(halves, x, fitted, numbers)
    if making.states > len(half):
        raise ParameterError(
            f"{option('states')} {making.states:,} are more than the {len(half):,} rows of the half"
            f" that makes them: ask for at most {max(2, len(half) // FEWEST_ROWS):,}"
            f" ({FEWEST_ROWS} rows a state)"
        )
    encoder = fitted(making.states)
    every = sorted({*numbers, making.states})
    return encoder, _best(halves, x, fitted, every)[1] if making.table else ()


@dataclass(frozen=True, repr=False)
class _Halves:
    """A log without any states: its rows, its units, and which raw rows make the policy, since
    which half a row is in does not hang on states. `follow`: the raw row after each row.
    """

    log: Log
    batch: Batch
    units: Units
    learning: np.ndarray
    at: np.ndarray
    follow: np.ndarray
    gamma: float
    visits: bool
    declared: Mapping[str, Any]

    def with_actions(self, codes: np.ndarray, n: int) -> _Halves:
        """The same rows, where raw rows have these actions of n."""
        batch = replace(self.batch, action=codes[self.at], n_actions=n)
        return replace(self, batch=batch)

    @property
    def raw(self) -> np.ndarray:
        """The raw rows that the policy is learned from."""
        return np.sort(self.at[self.learning[self.units.unit]])

    def problem(self, codes: np.ndarray, n: int) -> tuple[Problem, Units]:
        """The problem of the learning half, where raw rows have these states of n; its units."""
        keep = self.learning[self.units.unit]
        half = take_rows(self.batch, keep, self.units.unit if self.units.blocks else None)
        beside = {x: y for x, y in half.beside.items() if x != "propensity"}  # to compare states
        follow = np.where(half.ends, n, codes[self.follow[keep]])
        size = n + self.batch.has_end
        made = replace(
            half, state=codes[self.at[keep]], next_state=follow, n_states=size, labels=Labels(),
            terminal_states=(n,) if self.batch.has_end else (), beside=beside,
        )  # fmt: skip
        terminal = np.arange(size) >= n
        counts = count_batch(made, size, made.n_actions, as_sparse=False)
        data = Counted(
            counts=counts, terminal=terminal, rewards=self.log.rewards, has_end=made.has_end,
            batch=made,
        )  # fmt: skip
        everywhere = self.units.blocks or self.visits
        starts = np.bincount(made.state[made.first | everywhere], minlength=size) / 1.0
        episodes = None if everywhere else made.n_episodes
        start = Start(starts / starts.sum(), episodes=episodes, is_visits=everywhere)
        found = build(data, self.gamma, None, start, **self.declared)
        return found, units_of_batch(made, self.gamma)


def _best(
    halves: _Halves, x: np.ndarray, fitted: Callable[[int], Encoder], numbers: Sequence[int]
) -> tuple[Encoder, tuple[Tried, ...]]:
    """(the encoder with whose states one part of the learning half improves most in the eyes of
    another; all that were tried). That part judges all of them by the same states, the finest of at
    most FINE that its rows allow. Fewer than COARSEST are only for short logs.
    """
    found: list[tuple[int, Tried, Encoder]] = []
    enough = min(COARSEST, len(halves.raw) // ROWS_ENOUGH)
    coarsest = max((n for n in numbers if n <= enough), default=numbers[0])
    fine = max((n for n in numbers if FEWEST_ROWS * n <= len(halves.raw) and n <= FINE), default=0)
    judge = fitted(max(fine, numbers[0]))
    place = judge.encode(x)
    finer = halves.problem(place, len(judge.labels))
    for n in numbers:
        if found and len(halves.raw) < n * FEWEST_ROWS:
            break
        encoder = fitted(n)
        if found and len(encoder.labels) == found[-1][1].states:
            found[-1] = n, *found[-1][1:]
            continue
        problem, units = halves.problem(encoder.encode(x), len(encoder.labels))
        gains = [held_out_gain(problem, units, ALGORITHM, seed=seed) for seed in SEEDS]
        judged = [_judged(gain, problem, *finer) for gain in gains]
        ends = [y.interval() for y in judged]
        tried = Tried(
            states=len(encoder.labels),
            gain=float(np.mean([y.value for y in judged])),
            low=float(np.mean([low for low, _ in ends])),
            high=float(np.mean([high for _, high in ends])),
            rows=len(halves.raw) / len(encoder.labels),
            left=_left_within(problem, units, gains),
        )
        found.append((n, tried, encoder))
    may = [(tried, encoder) for n, tried, encoder in found if n >= coarsest]
    _, encoder = max(may, key=lambda pair: (pair[0].gain, pair[0].states))
    return encoder, tuple(tried for _, tried, _ in found)


def _judged(gain: Gain, problem: Problem, finer: Problem, units: Units) -> UnitEstimate:
    """What the policy of a gain is worth in the model of its held-out units with finer states: in
    each of them it does what it does on average over the rows there.
    """
    assert gain.held_out is not None and problem.log is not None and finer.log is not None
    rows, place = gain.pi[problem.log.state], finer.log.state
    n = np.bincount(place, minlength=finer.n_states)
    total = np.stack([np.bincount(place, x, finer.n_states) for x in rows.T], axis=1)
    pi = np.where(n[:, None] > 0, total / np.maximum(n, 1)[:, None], finer.pi_b)
    return model_of_units(finer, units, gain.held_out).compare(pi).gain


def _left_within(problem: Problem, units: Units, gains: Sequence[Gain]) -> float | None:
    """E (G - mean of the cell)^2 / E (G - mean)^2 over the rows of one part, with means from the
    other. G is the return over 1 / (1 - gamma) steps, or over half an episode where that is less,
    of the rows in which it is seen.
    """
    batch, gamma = problem.log, problem.gamma
    assert batch is not None
    row = np.arange(len(batch))
    ahead = np.flatnonzero(batch.last)[batch.episode] - row
    lengths = np.bincount(batch.episode)
    steps = max(1, min(horizon(gamma), int(np.median(lengths)) // 2))
    there = ahead >= steps
    g = discounted_returns(batch, gamma)
    beyond = batch.discounts_over(gamma, row[there], np.full(int(there.sum()), steps))
    after = np.zeros(len(batch))
    after[there] = beyond * g[row[there] + steps]
    g, whole = g - after, batch.ends[batch.last][batch.episode] | (ahead >= steps - 1)
    shares = []
    for gain in gains:
        assert gain.held_out is not None
        tests = gain.held_out[units.unit]
        learns, tests = whole & ~tests, whole & tests
        if not learns.any() or not tests.any():
            return None
        mean = float(g[learns].mean())
        n = np.bincount(batch.state[learns], minlength=batch.n_states)
        total = np.bincount(batch.state[learns], g[learns], batch.n_states)
        cell = np.where(n > 0, total / np.maximum(n, 1), mean)
        spread = float(((g[tests] - mean) ** 2).mean())
        inside = float(((g[tests] - cell[batch.state[tests]]) ** 2).mean())
        shares.append(inside / spread if spread > 0 else 1.0)
    return float(np.mean(shares))


def _check_features(names: Sequence[str], log: Log) -> None:
    """Raise where a feature is a column that says what comes of the action, or the action."""
    assert log.reading is not None
    columns = log.reading.store.columns
    for role in AFTER:
        for name in getattr(columns, role):
            if name in names:
                raise ParameterError(
                    f"{option('features')} {name}: this column is the {role} of the log, and a"
                    " state may say only what was known before the action was chosen: leave it out"
                )


def _check(source: Any, asked: Mapping[str, Any], making: Making) -> None:
    """Raise where states, or actions, cannot be made of the rows of a log."""
    name = option("features" if making.features else "action_bins")
    if isinstance(source, Log):
        raise ParameterError(
            f"{name}: a Log is read already, and has states; give the file or table"
        )
    if asked.get("dask") is not None:
        raise NotAvailableError(f"{name} needs the rows in memory: leave out --dask")
    if not making.features:
        return
    if asked.get("state"):
        raise ParameterError(
            f"{option('features')} make the states: leave {option('state')} out, or the features"
        )
    if asked.get("next_state"):
        raise ParameterError(
            f"{option('features')} make states of single rows: the next state is that of the next"
            f" row; leave {option('next_state')} out"
        )
    for role in ("baseline", "allowed", "forbidden"):
        given = asked.get(role)
        if given is None or (role == "baseline" and (callable(given) or goes_by_rows(given))):
            continue
        more = f"; or give the rule over columns of the log ({option('baseline')})"
        raise ParameterError(
            f"{option(role)} is about states, which are made of {option('features')} here: make the"
            f" states first, with surefoot discretize{more * (role == 'baseline')}"
        )


def _named(roles: Mapping[str, Any]) -> dict[str, str | None]:
    """Columns by role as `discretize` takes them: joined by commas, without a direction."""
    found: dict[str, str | None] = {}
    for role, given in roles.items():
        text = given if given is None or isinstance(given, str) else ",".join(given)
        found[role] = text if text is None or role != "reward" else text.partition(":")[0]
    return found


def _halves(
    rows: RawRows,
    n: int,
    database: Database,
    workspace: Workspace,
    asked: Mapping[str, Any],
    *,
    binned: bool,
) -> _Halves:
    """The rows of a log before there are states, in the halves that they will be in."""
    reading = {x: asked[x] for x in asked if x not in (*POSING, "dask", "progress")}
    reading["policy"] = reading.pop("policy_column", None)
    guards = [*(x.column for x in guards_of(several(reading.get("guard")))), ROW]
    target = workspace.path / f"numbered{_ending(rows)}"
    keep_codes(database, [np.arange(n)])  # beside the rows just as their states will be
    own = {"state": STATE} if rows.features else {}
    own |= {"action": ACTION} if binned else {}
    any_label = [f"'any' as {name_sql(x)}" for x in own.values()]
    chosen = ", ".join([*_kept(rows, own.values()), *any_label, f"code as {name_sql(ROW)}"])
    query = f"select {chosen} from {rows.sql} positional join codes"
    write_rows(database, rows, query, target, target)
    log = read_log(_source(rows, target), **{**reading, **own, "guard": guards})
    if log.accounting.used > IN_MEMORY:
        raise NotAvailableError(
            f"states and actions are made of a log of at most {IN_MEMORY:,} rows, this one has"
            f" {log.accounting.used:,}: make the states with surefoot discretize, of a part of the"
            " log that is not used again"
        )
    gamma = discount_of(asked.get("gamma"), bandit=log.bandit)
    batch, step = log.weighed(log.batch(), gamma), log.step_discount(gamma)
    units = units_of(log, batch, step)
    every = row_values(log, f"g{len(guards) - 1}").astype(np.int64)
    return _Halves(
        log=log, batch=batch, units=units, learning=learning_half(units), at=every[batch.row],
        follow=np.append(every, 0)[batch.row + 1], gamma=step, visits=asked.get("start") == VISITS,
        declared=log.reward.declared({x: asked.get(x) for x in RANGES}),
    )  # fmt: skip


def _ending(rows: RawRows) -> str:
    return ".csv" if rows.is_text else ".parquet"


def _source(rows: RawRows, file: Path) -> Source:
    """A file as the rows that it was made of."""
    kind = "csv" if rows.is_text else "parquet"
    return Source(kind, (str(file),), (rows.name,))
