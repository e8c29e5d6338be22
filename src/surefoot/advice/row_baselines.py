"""A known baseline that goes by the raw rows of a log whose states are made: what it does in every
row, on average in each state, and whether it can have made the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.checks.finding import BASELINE, LEVEL, OK, STRICT, WARNING, Finding
from surefoot.checks.propensities import Gambler
from surefoot.core import Batch, Labels, Policy, Solution
from surefoot.core.array_checks import is_table
from surefoot.core.errors import BaselineError, option
from surefoot.core.labels import as_text, unknown
from surefoot.logs import Log, OfRows
from surefoot.logs.database import Database
from surefoot.logs.features import RawRows
from surefoot.logs.given_policies import own_policy, said_of_row
from surefoot.serving.action_bins import ActionBins
from surefoot.serving.controller import Controller, load_controller
from surefoot.serving.whole_files import coded, codes_of_rows, planned

SAME = 1e-9  # probabilities that differ by less are equal
VARIES = (
    "the baseline goes by more than the state: in a state it counts as its mean over the rows"
    " there, and in whole episodes row by row. Where nothing changes it is called itself, as before"
)


def goes_by_rows(given: Any) -> bool:
    """Whether a baseline is one that can be asked about raw rows."""
    nested = isinstance(given, (str, Path, Policy, Solution, Controller, OfRows, Mapping))
    return nested or is_table(given)


@dataclass(frozen=True, repr=False, kw_only=True)
class RowBaseline:
    """`pi` [labels, actions] of what the baseline goes by, `code` which of these labels every raw
    row has, `cell` which of the `states` it is in, and `at` the raw row of each row that is used.
    """

    pi: np.ndarray
    code: np.ndarray
    actions: tuple[Any, ...]
    cell: np.ndarray
    states: tuple[str, ...]
    at: np.ndarray
    exploration: float = 0.0

    def policy(self, log: Log, bins: ActionBins | None) -> tuple[Policy, np.ndarray]:
        """(what it does in each state of the log, exactly or on average; its probabilities
        [labels, A] by the actions of the log).
        """
        pi = self._by_actions_of(log, bins)
        found = (log.labels.find_state(x) for x in self.states)
        place = np.array([-1 if s is None else s for s in found])[self.cell]
        there = place >= 0
        s, each = place[there], pi[self.code[there]]
        n = np.bincount(s, minlength=log.n_states)
        total = np.stack([np.bincount(s, x, log.n_states) for x in each.T], axis=1)
        mean = np.where(n[:, None] > 0, total / np.maximum(n, 1)[:, None], 1 / log.n_actions)
        varies = bool(np.abs(each - mean[s]).max(initial=0.0) > SAME)
        notes = (VARIES,) if varies else ()
        return Policy(pi=mean, labels=log.labels, estimated=varies, notes=notes), pi

    def chosen(self, batch: Batch, pi: np.ndarray) -> np.ndarray:
        """Its probability of the action of every used row; raise where that is 0."""
        found: np.ndarray = pi[self.code[self.at], batch.action]
        never = np.flatnonzero(found <= 0)
        if len(never):
            i = never[0]
            raise BaselineError(
                f"the log takes action {batch.labels.action(batch.action[i])} in row"
                f" {self.at[i] + 1}, which the baseline never does there ({len(never):,} such"
                " rows): it is not the policy that made this log. Give its probabilities, with"
                f" {option('exploration')} where it acts at random now and then"
            )
        return found

    def _by_actions_of(self, log: Log, bins: ActionBins | None) -> np.ndarray:
        """`pi` in the order of the actions of the log; a dose is the bin it falls into."""
        pi = np.zeros((len(self.pi), log.n_actions))
        for i, action in enumerate(self.actions):
            a = log.labels.find_action(action)
            if a is None and bins is not None:
                label = bins.label_of(action)
                a = None if label is None else log.labels.find_action(label)
            if a is not None:
                pi[:, a] += self.pi[:, i]
            elif self.pi[:, i].any():
                raise BaselineError(
                    f"the baseline: {unknown('action', action, log.actions)}; if it exists, name"
                    f" all actions with {option('actions')}"
                )
        if not self.exploration:
            return pi
        if ((pi > 0) & (pi < 1 - SAME)).any():
            raise BaselineError(
                f"{option('exploration')} goes with a rule, one action a row: this baseline has"
                " probabilities already; leave it out if they are those with which it acts"
            )
        return (1 - self.exploration) * pi + self.exploration / log.n_actions


def can_have_made(batch: Batch, chosen: np.ndarray) -> Finding:
    """Does the log take actions more often than a baseline that is known row by row does? The bets
    of `checks.propensities`.
    """
    gambler = Gambler((batch.n_states, batch.n_actions))
    gambler.add(batch.state, batch.action, chosen)
    capital, (s, a) = gambler.capital()
    p = math.exp(min(-capital, 0.0))
    numbers = {"p_value": p, "level": LEVEL}
    if p >= LEVEL:
        words = f"the given baseline can have made the log, row by row (p = {p:.2g})"
        return Finding("baseline", OK, words, numbers, BASELINE)
    where = f" in state {batch.labels.state(s)}" if s >= 0 else ""
    words = (
        f"the given baseline cannot have made this log (p = {p:.2g}): action"
        f" {batch.labels.action(a)}{where} comes more often than it says. Give the policy that did"
    )
    return Finding("baseline", WARNING, words, numbers, BASELINE, p < STRICT)


def baseline_of_rows(
    given: Any,
    rows: RawRows,
    database: Database,
    cells: tuple[np.ndarray, tuple[str, ...]],
    at: np.ndarray,
    actions: Sequence[Any] | ActionBins,
    exploration: float,
) -> RowBaseline:
    """What a given baseline does in every raw row: a function of rows, a table over columns of the
    log, or a controller that makes its own states of them. Where `actions` are ranges of doses it
    may name a dose for its range.
    """
    if isinstance(given, OfRows):
        pi, code, known = _by_function(given, rows, database, actions)
    else:
        pi, code, known = _by_controller(_controller(given), rows, database)
    return RowBaseline(
        pi=pi, code=code, actions=known, cell=cells[0], states=cells[1], at=at,
        exploration=exploration,
    )  # fmt: skip


def _by_function(
    given: OfRows, rows: RawRows, database: Database, actions: Sequence[Any] | ActionBins
) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    """(what a function says of every different row, which of these every row is, the actions)."""
    _check_columns(given.columns, rows, "OfRows looks at")
    if isinstance(actions, ActionBins):
        given = replace(given, function=_with_ranges(given.function, actions))
        actions = actions.labels
    labels, of = coded(database, rows, "states", given.columns), Labels(("",), tuple(actions))
    pi = np.array([said_of_row(given, _parts(x), of) for x in labels.labels])
    return pi, codes_of_rows(database, rows, None, labels), of.actions


def _by_controller(
    controller: Controller, rows: RawRows, database: Database
) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    """The same of a table over columns of the log, or of what makes its own states of them."""
    encoder, labels = controller.encoder, None
    if encoder is None:
        columns = controller.policy.labels.state_columns
        _check_columns(columns, rows, "the baseline is a table over")
        labels = coded(database, rows, "states", columns)
        plan = planned(controller, labels.labels)
    else:
        _check_columns(encoder.features, rows, "the baseline goes by")
        rows = replace(rows, features=encoder.features)
        rows.missing(database, encoder.features)
        plan = planned(controller, (*encoder.labels, None))
    code = codes_of_rows(database, rows, encoder, labels)
    blank = np.flatnonzero(~(plan.pi.sum(axis=1) > 0)[code])
    if len(blank):
        raise BaselineError(
            f"the baseline says nothing about row {blank[0] + 1}"
            f"{_where(plan.labels[code[blank[0]]])} ({len(blank):,} such rows of {len(code):,}):"
            " add what it does there"
        )
    return plan.pi, code, plan.actions


def _with_ranges(
    function: Callable[[Mapping[str, Any]], Any], bins: ActionBins
) -> Callable[[Mapping[str, Any]], Any]:
    """The function, with the range of every dose that it names."""

    def found(row: Mapping[str, Any]) -> Any:
        said = function(row)
        if not isinstance(said, Mapping):
            return said
        each: dict[Any, Any] = {}
        for action, p in said.items():
            label = action if action in bins.labels else bins.label_of(action) or action
            each[label] = each.get(label, 0) + p
        return each

    return found


def _parts(label: Any) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


def _where(label: Any) -> str:
    return "" if label is None else f", where its label is {as_text(label)!r}"


def _controller(given: Any) -> Controller:
    """What decides, of whatever is given as a baseline."""
    if isinstance(given, Controller):
        return given
    if isinstance(given, (str, Path)) and Path(given).suffix.lower() == ".json":
        return load_controller(given)
    return Controller(policy=own_policy(given))


def _check_columns(columns: Sequence[str], rows: RawRows, what: str) -> None:
    """Raise where the log does not have what the baseline goes by."""
    lost = [x for x in columns if x not in rows.names]
    if lost:
        raise BaselineError(
            f"{what} {', '.join(map(repr, columns))}, and {rows.name} has no column {lost[0]!r}."
            f" With {option('features')} the states are made here, so that a baseline cannot name"
            " them: give one over columns of the log (its columns, action, probability), a"
            " controller that decides from raw measurements (.json of surefoot export), or make"
            " the states first, with surefoot discretize"
        )
