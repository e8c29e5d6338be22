"""Baseline: the policy that made the log, from a file or estimated from the log; and which
actions a file allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core.counts import read_only
from surefoot.core.labels import as_text, unknown
from surefoot.errors import BaselineError, ParameterError
from surefoot.logs.table import read_table
from surefoot.parameters import check_name
from surefoot.problems import estimate_baseline
from surefoot.problems.problem import SUM_TO_ONE

if TYPE_CHECKING:
    from surefoot.logs.log import Log

# rows of a file may miss 1 by this much, since files hold rounded numbers; they are rescaled, and
# that is noted
ROUNDED = 1e-3


@dataclass(frozen=True, repr=False)
class Baseline:
    """pi_b [S, A] over the labels of a log; `estimated` from it with additive `smoothing`, or
    given.
    """

    pi_b: np.ndarray
    states: tuple[Any, ...]
    actions: tuple[Any, ...]
    estimated: bool = False
    smoothing: float = 0.0
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "pi_b", read_only(self.pi_b))

    def __repr__(self) -> str:
        how = f"estimated, smoothing {self.smoothing:g}" if self.estimated else "given"
        return f"Baseline({len(self.states)} states x {len(self.actions)} actions, {how})"

    @property
    def notes(self) -> tuple[str, ...]:
        """What every output should say about it."""
        if not self.estimated:
            return self.remarks
        how = (
            "by frequencies, without smoothing"
            if self.smoothing == 0
            else f"with {self.smoothing:g} added to every count"
        )
        return (
            (
                f"the baseline is estimated from the log ({how}); guarantees for a known baseline"
                " do not apply"
            ),
            *self.remarks,
        )


def estimated_baseline(
    log: Log, smoothing: float = 0.0, allowed: np.ndarray | None = None
) -> Baseline:
    """pi_b(a|s) = (n(s, a) + smoothing) / sum over allowed a; uniform in states never visited
    (Simao et al. 2020: smoothing 0).
    """
    if (
        isinstance(smoothing, bool)
        or not isinstance(smoothing, (int, float))
        or not 0 <= smoothing < np.inf
    ):
        raise ParameterError(f"smoothing must be a number >= 0, got {smoothing!r}")
    pi_b = estimate_baseline(log.n_sa + smoothing, allowed)
    return Baseline(pi_b, log.states, log.actions, estimated=True, smoothing=float(smoothing))


def read_baseline(
    source: Any,
    log: Log,
    *,
    state: str = "",
    action: str = "",
    probability: str = "",
    unknown_states: str = "error",
) -> Baseline:
    """The baseline in a file (or table) with one row for each (state, action, probability); pairs
    not named have probability 0.

    The columns are those of the log's state and action, or "state" and "action"; names joined by
    commas make one label. Rows of a state sum to 1 within 0.001 and are rescaled. Every state of
    the log in which somebody can act must be there. A state that the log does not have is an error,
    or with unknown_states="ignore" is left out.
    """
    check_name("unknown_states", unknown_states, ("error", "ignore"))
    columns = log.reading.store.columns if log.reading is not None else None
    own = (
        {"state": ",".join(columns.state), "action": ",".join(columns.action)}
        if columns
        else {"state": "state", "action": "action"}
    )
    roles = {
        "state": [state] if state else [own["state"], "state"],
        "action": [action] if action else [own["action"], "action"],
        "probability": (
            [probability] if probability else ["probability", "prob", "p", "pi_b", "baseline"]
        ),
    }
    pi_b = np.full((log.n_states, log.n_actions), np.nan)
    ignored = 0
    for number, row in enumerate(read_table(source, roles), start=1):
        s, a, p = _entry(row, number, log, unknown_states)
        if s is None or a is None:
            ignored += 1
            continue
        if not np.isnan(pi_b[s, a]):
            raise BaselineError(
                f"row {number} of the baseline repeats state {as_text(row[0])!r}, action"
                f" {as_text(row[1])!r}"
            )
        pi_b[s, a] = p
    remarks = (
        [
            f"{ignored} rows of the baseline file are about states or actions that the log does not"
            " have"
        ]
        if ignored
        else []
    )
    return Baseline(_rows(pi_b, log, remarks), log.states, log.actions, remarks=tuple(remarks))


def _entry(
    row: tuple[Any, ...], number: int, log: Log, unknown_states: str
) -> tuple[int | None, int | None, float]:
    """(s, a, p) of one row of the file; None for a state or (with p = 0) an action that the log
    does not have.
    """
    try:
        p = float(row[2])
    except (TypeError, ValueError) as error:
        raise BaselineError(
            f"row {number} of the baseline must hold a probability, got {row[2]!r}"
        ) from error
    if not 0 <= p <= 1 + ROUNDED:
        raise BaselineError(f"row {number} of the baseline must hold a probability, got {p:g}")
    s, a = log.labels.find_state(row[0]), log.labels.find_action(row[1])
    if s is None and unknown_states == "error":
        raise BaselineError(
            f"row {number} of the baseline: {unknown('state', row[0], log.states)};"
            " unknown_states='ignore' skips such rows"
        )
    if a is None and p > 0:
        raise BaselineError(
            f"row {number} of the baseline: {unknown('action', row[1], log.actions)}; if it exists,"
            " name all actions with allowed=[...] when reading the log"
        )
    return s, a, p


def _rows(pi_b: np.ndarray, log: Log, remarks: list[str]) -> np.ndarray:
    """Complete rows that sum to 1; rows of terminal states, in which nothing is chosen, may be
    missing.
    """
    named = ~np.isnan(pi_b).all(axis=1)
    lost = np.flatnonzero(~named & ~log.terminal)
    if len(lost):
        first = as_text(log.states[lost[0]])
        raise BaselineError(
            f"the baseline says nothing about state {first!r} ({len(lost)} such states of the log):"
            " add a row for each action"
        )
    pi_b = np.where(np.isnan(pi_b), 0.0, pi_b)
    total = pi_b.sum(axis=1)
    wrong = np.flatnonzero(named & (np.abs(total - 1) > ROUNDED))
    if len(wrong):
        raise BaselineError(
            f"the probabilities of state {as_text(log.states[wrong[0]])!r} sum to"
            f" {total[wrong[0]]:.6g}, not 1 ({len(wrong)} such states)"
        )
    scaled = int((named & (np.abs(total - 1) > SUM_TO_ONE)).sum())
    if scaled:
        remarks.append(
            f"the baseline's probabilities of {scaled} states summed to 1 only within {ROUNDED:g}"
            " and were rescaled"
        )
    return np.where(
        named[:, None], pi_b / np.where(named, total, 1.0)[:, None], 1.0 / log.n_actions
    )


def read_allowed(
    source: Any, log: Log, *, state: str = "state", action: str = "action"
) -> np.ndarray:
    """The mask [S, A] of a file that lists the allowed (state, action); a state it does not name
    allows everything.
    """
    mask = np.zeros((log.n_states, log.n_actions), dtype=bool)
    for row in read_table(source, {"state": [state], "action": [action]}):
        mask[log.labels.state_code(row[0]), log.labels.action_code(row[1])] = True
    mask[~mask.any(axis=1)] = True
    return mask
