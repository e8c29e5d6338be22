"""Whatever is given as a policy, over the states and actions of a log: by labels. Arrays, which
have none, go by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core import Policy
from surefoot.core.array_checks import is_table
from surefoot.errors import BaselineError
from surefoot.logs.policy_files import Pairs, fitted, over_log, read_policy, width
from surefoot.problems.baseline_function import tabulated
from surefoot.problems.given import baseline_array

if TYPE_CHECKING:
    from surefoot.logs.log import Log

Rows = list[tuple[Any, ...]]


def policy_for(given: Any, log: Log) -> Policy:
    """A policy over the labels of a log, whatever it is given as (see `labelled`)."""
    found = labelled(given, log)
    if isinstance(found, Policy):
        return found
    pi, shape = baseline_array(found), log.n_sa.shape
    if len(pi) == shape[0] - 1 and log.has_end:
        pi = np.concatenate([pi, np.full((1, pi.shape[1]), 1 / shape[1])])
    if pi.shape != shape:
        raise BaselineError(f"pi_b must be [S, A] = {list(shape)}, got {list(pi.shape)}")
    return Policy(pi=pi, labels=log.labels)


def labelled(given: Any, log: Log) -> Any:
    """What has labels as a Policy over those of a log: a Policy, a file, a function of the state, a
    table with one row a pair or one column an action, or {state: {action: probability}}. Others,
    such as arrays, as they are.
    """
    if isinstance(given, Policy):
        if given.estimated and not log.labels.same(given.labels):
            raise BaselineError(
                "this baseline belongs to a log with other labels: read it again with this log"
            )
        return given if given.estimated else fitted(given, log)
    if isinstance(given, (str, Path)):
        return read_policy(given, log, unknown_states="ignore")
    if isinstance(given, Mapping) and given and all(isinstance(x, Mapping) for x in given.values()):
        rows = [(s, a, p) for s, row in given.items() for a, p in row.items()]
        return over_log(rows, 0 < log.labels.now == width([s for s, _, _ in rows]), log)
    if isinstance(given, Mapping) or is_table(given):
        return _of_table(given, log)
    if callable(given):
        pi = tabulated(given, log.labels, log.n_states, log.n_actions, log.terminal)
        return Policy(pi=pi, labels=log.labels)
    return given


def _of_table(table: Any, log: Log) -> Policy:
    """The policy of a table: long if it has a column of actions, else wide."""
    names = list(getattr(table, "column_names", getattr(table, "columns", table)))
    pairs = Pairs(log.labels, "", "")
    roles = pairs([str(name) for name in names])
    if _first(roles["action"], names):
        return read_policy(table, log, unknown_states="ignore")
    columns = _first(roles["state"], names)
    if columns:
        label = list(zip(*(_values(table, name) for name in columns), strict=True))
        states = [x[0] for x in label] if len(columns) == 1 else label
    elif hasattr(table, "index") and not isinstance(table, Mapping):  # of pandas
        states = _values(table, None)
    else:
        raise BaselineError(
            "a table of a policy has one row a pair (columns state, action, probability), or one"
            f" row a state and a column for each action; no column of {names} says the state:"
            f" {' or '.join(map(repr, roles['state']))} is expected"
        )
    actions = [name for name in names if name not in columns]
    rows = [(s, a, p) for a in actions for s, p in zip(states, _values(table, a), strict=True)]
    return over_log(rows, pairs.lifted, log)


def _first(wanted: Sequence[str], names: Sequence[Any]) -> list[str]:
    """The columns of the first of the wanted names (joined by commas) that are all there."""
    choices = ([name] if name in names else name.split(",") for name in wanted)
    return next((x for x in choices if all(part in names for part in x)), [])


def _values(table: Any, name: Any) -> list[Any]:
    """A column of a table as a list; the index where name is None."""
    column = table.index if name is None else table[name]
    for how in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, how):
            return list(getattr(column, how)())
    return list(column)
