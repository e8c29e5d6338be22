"""A baseline that is a function of raw rows: it looks at more columns than the state has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core import Policy
from surefoot.core.labels import number_said
from surefoot.errors import BaselineError
from surefoot.logs.policy_files import read_table
from surefoot.problems.baseline_function import checked_row

if TYPE_CHECKING:
    from surefoot.logs.log import Log


@dataclass(frozen=True)
class OfRows:
    """`pi_b` of `surefoot.problem`: function({column: value}) -> {action: probability}, or the
    probabilities in the order of the actions.

    Text that says a number is that number; a missing value is None.
    """

    function: Callable[[Mapping[str, Any]], Any]
    columns: Sequence[str]

    def __post_init__(self) -> None:
        columns = self.columns
        named = not isinstance(columns, str) and all(isinstance(x, str) for x in columns)
        if not callable(self.function) or not named or not columns:
            raise BaselineError(
                "OfRows takes a function and the columns it looks at, such as OfRows(rule,"
                f" ['pulse', 'age']), got {self.function!r} and {columns!r}"
            )


def averaged(given: OfRows, source: Any, log: Log) -> Policy:
    """pi_b(a|s): the mean of what the function says over the rows of each state.

    It counts as estimated, for two reasons. Which rows a state has is chance. And what the function
    knows beyond the state may bear on outcomes, too.
    """
    pi, n = np.zeros((log.n_states, log.n_actions)), np.zeros(log.n_states)
    roles = {"state": [",".join(log.labels.state_columns)]} | {x: [x] for x in given.columns}
    for (label, *raw), times in Counter(read_table(source, roles)).items():
        s = log.labels.find_state(label)
        if s is None or log.terminal[s]:
            continue
        row = dict(zip(given.columns, map(_value, raw), strict=True))
        where = f"the baseline function, for the row {row},"
        try:
            said = given.function(row)
        except Exception as error:  # a function of the user may raise anything
            raise BaselineError(f"{where} fails: {type(error).__name__}: {error}") from error
        pi[s] += times * checked_row(said, log.labels, where)
        n[s] += times
    lost = np.flatnonzero((n == 0) & ~log.terminal)
    if len(lost):
        raise BaselineError(
            f"no row of the file is in state {log.labels.state(lost[0])} ({len(lost)} such states"
            " of the log): give the file that the log was read from"
        )
    note = (
        "the baseline is a function of more than the state: its mean over the rows of each state"
        " stands for it, as an estimate; what it knows beyond the state may bear on outcomes, too;"
        " guarantees for a known baseline do not apply"
    )
    pi = np.where(n[:, None] > 0, pi / np.maximum(n, 1)[:, None], 0.0)
    return Policy(pi=pi, labels=log.labels, estimated=True, notes=(note,))


def _value(x: Any) -> Any:
    if not isinstance(x, str):
        return None if x is None or x != x else x
    number = number_said(x)
    return x if number is None else number
