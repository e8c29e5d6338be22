"""Measurements instead of states: the half of a log that a policy is learned from cuts its
features into states, and the other half is encoded with what was frozen then, and tests once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.advice.gain import held_out_gain, learning_half
from surefoot.advice.posing import (
    Posed,
    as_said,
    check_keywords,
    discount_of,
    in_words,
    pose,
    several,
)
from surefoot.algorithms.priced_soft_spibb import PricedSoftSPIBB
from surefoot.checks.time_order import row_values
from surefoot.core import Batch, Labels, count_batch
from surefoot.core.errors import NotAvailableError, ParameterError, SurefootError, option
from surefoot.evidence.units import Units, take_rows, units_of, units_of_batch
from surefoot.logs import Log, OfRows
from surefoot.logs.column_roles import NONE, RANGES
from surefoot.logs.database import Database, Workspace
from surefoot.logs.description import POSING
from surefoot.logs.features import RawRows
from surefoot.logs.log import IN_MEMORY
from surefoot.logs.read import read_log
from surefoot.logs.store import Source
from surefoot.problems import Problem
from surefoot.problems.build import build
from surefoot.problems.given import Counted, Start
from surefoot.problems.guards import guards_of
from surefoot.problems.problem import VISITS
from surefoot.serving.discretize import (
    FILLED,
    LAST,
    check_bins,
    encode_rows,
    keep_codes,
    measured_rows,
    write_coded,
    write_rows,
)
from surefoot.serving.encoders import Encoder, fit_quantiles

STATE, ROW = "state", "surefoot row"
TEXT = ("decimal", "delimiter", "encoding")
ROLES = ("episode", "time", "reward")
NUMBERS = (4, 6, 9, 12, 16, 25, 36, 50, 75, 100, 150, 200)  # of states, that are tried
FEWEST_ROWS = 10  # of the learning half, a state, on average
SEEDS = (0, 1)  # of the parts that the learning half is cut into
ALGORITHM = PricedSoftSPIBB()


@dataclass(frozen=True, repr=False)
class Measured:
    """A log whose states were made: its rows with a column of states, the encoder, and the units
    of which those in `learning` made it.
    """

    source: Source
    encoder: Encoder
    units: Units
    learning: np.ndarray
    workspace: Workspace


def posed_with_states(
    source: Any,
    how: Mapping[str, Any],
    features: Sequence[str],
    *,
    states: int | None,
    edges: Mapping[str, Sequence[float]] | None,
    missing: str,
) -> Posed:
    """The problem of a log whose states are made of measurements; `how`: as `pose` takes it."""
    check_keywords(how)
    given, asked = as_said(source, how)
    # Which half is learned from hangs on whether propensities differ within a state. They may
    # differ in the log as a whole and not within the states: then states are made once more.
    for without in ({}, {"propensity": NONE}):
        made = with_states(
            given, {**asked, **without}, features, states=states, edges=edges, missing=missing
        )
        posed = pose(made.source, **{**asked, "state": STATE})
        units = units_of(posed.log, posed.problem.log, posed.problem.gamma)
        half = learning_half(units)[units.unit]
        if np.array_equal(half, made.learning[made.units.unit]):
            return replace(posed, source=in_words(source), measured=made)
    raise SurefootError(
        "the halves of this log are others with the states that were made: make the states first,"
        " with surefoot discretize"
    )


def with_states(
    source: Any,
    asked: Mapping[str, Any],
    features: Sequence[str],
    *,
    states: int | None = None,
    edges: Mapping[str, Sequence[float]] | None = None,
    missing: str = "error",
) -> Measured:
    """The rows of a log with a state for each, made of its `features` as `discretize` does, but by
    the learning half alone. `asked`: how the log is read, and its gamma and ranges.
    """
    _check(source, asked)
    edges = dict(edges or {})
    names = (*features, *(x for x in edges if x not in features))
    check_bins("quantile", edges, missing)
    text = {x: asked[x] for x in TEXT if asked.get(x)}
    roles = _named({x: asked.get(x) for x in ROLES})
    workspace = Workspace()
    with Database(workspace) as database:
        rows, _, lost = measured_rows(
            source, names, names if missing in FILLED else (), database, workspace,
            missing=missing, roles=roles, needed=missing == LAST,
            date_format=asked.get("date_format", ""), **text,
        )  # fmt: skip
        x = np.concatenate(list(rows.blocks(database)))
        halves = _halves(rows, len(x), database, workspace, asked)
        blank = tuple(name for name, n in lost.items() if n)

        def fitted(n: int) -> Encoder:
            return fit_quantiles(names, x[halves.raw], n, edges=edges, missing=blank)

        encoder = fitted(states) if states is not None else _best(halves, x, fitted)
        encode_rows(database, rows, encoder)
        target = workspace.path / f"states{_ending(rows)}"
        write_coded(database, rows, encoder, target, STATE, None)
    return Measured(_source(rows, target), encoder, halves.units, halves.learning, workspace)


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


def _best(halves: _Halves, x: np.ndarray, fitted: Callable[[int], Encoder]) -> Encoder:
    """The encoder whose states let one part of the learning half improve most on another, as far
    as that is sure: the mean lower bound of the gain.
    """
    best: tuple[float, Encoder] | None = None
    for n in NUMBERS:
        if best is not None and len(halves.raw) < n * FEWEST_ROWS:
            break
        encoder = fitted(n)
        problem, units = halves.problem(encoder.encode(x), len(encoder.labels))
        gains = [held_out_gain(problem, units, ALGORITHM, seed=seed) for seed in SEEDS]
        low = float(np.mean([y.evidence.low for y in gains]))
        if best is None or low > best[0]:
            best = low, encoder
    assert best is not None
    return best[1]


def _check(source: Any, asked: Mapping[str, Any]) -> None:
    """Raise where states cannot be made of the rows of a log."""
    if isinstance(source, Log):
        raise ParameterError(
            f"{option('features')}: a Log is read already, and has states; give the file or table"
        )
    if asked.get("state"):
        raise ParameterError(
            f"{option('features')} make the states: leave {option('state')} out, or the features"
        )
    if asked.get("next_state"):
        raise ParameterError(
            f"{option('features')} make states of single rows: the next state is that of the next"
            f" row; leave {option('next_state')} out"
        )
    if asked.get("dask") is not None:
        raise NotAvailableError(f"{option('features')} need the rows in memory: leave out --dask")
    for name in ("baseline", "allowed", "forbidden"):
        given = asked.get(name)
        if given is not None and not (name == "baseline" and _of_labels_or_rows(given)):
            raise ParameterError(
                f"{option(name)} is about states, which are made of"
                f" {option('features')} here: make the states first, with surefoot discretize"
                + (
                    "; or give the rule as a function of raw rows (surefoot.OfRows, in Python)"
                    if name == "baseline"
                    else ""
                )
            )


def _of_labels_or_rows(baseline: Any) -> bool:
    """Whether a baseline can speak of states that nobody knew."""
    return callable(baseline) or isinstance(baseline, OfRows)


def _named(roles: Mapping[str, Any]) -> dict[str, str | None]:
    """Columns by role as `discretize` takes them: joined by commas, without a direction."""
    found: dict[str, str | None] = {}
    for role, given in roles.items():
        text = given if given is None or isinstance(given, str) else ",".join(given)
        found[role] = text if text is None or role != "reward" else text.partition(":")[0]
    return found


def _halves(
    rows: RawRows, n: int, database: Database, workspace: Workspace, asked: Mapping[str, Any]
) -> _Halves:
    """The rows of a log before there are states, in the halves that they will be in."""
    reading = {x: asked[x] for x in asked if x not in (*POSING, "dask", "progress")}
    reading["policy"] = reading.pop("policy_column", None)
    guards = [*(x.column for x in guards_of(several(reading.get("guard")))), ROW]
    target = workspace.path / f"rows{_ending(rows)}"
    keep_codes(database, [np.arange(n)])  # beside the rows just as their states will be
    number = f"select {rows.all_columns}, 'any' as {STATE}, code as \"{ROW}\""
    write_rows(database, rows, f"{number} from {rows.sql} positional join codes", target, target)
    log = read_log(_source(rows, target), **{**reading, "state": STATE, "guard": guards})
    if log.accounting.used > IN_MEMORY:
        raise NotAvailableError(
            f"{option('features')} take a log of at most {IN_MEMORY:,} rows, this one has"
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
