"""Whatever is given as a policy, over the states and actions of a log or a problem: by labels.
Arrays, which have none, go by position; rows of the log say what else a baseline may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import is_array_api_obj

from surefoot.core import Batch, Labels, Policy, Solution
from surefoot.core.array_checks import is_table, library_of, number
from surefoot.core.arrays import to_numpy
from surefoot.core.errors import BaselineError, LogError, ParameterError, PolicyError, option
from surefoot.core.labels import as_text, match, number_said, places_of, unknown
from surefoot.logs.policy_files import (
    ERRORS,
    Pairs,
    Place,
    first_there,
    fitted,
    labels_of,
    load_policy,
    over_log,
    policy_of_rows,
    read_policy,
    read_table,
    width,
)
from surefoot.problems import Problem
from surefoot.problems.given import baseline_array, checked_row, estimated_policy, tabulated

if TYPE_CHECKING:
    from surefoot.logs.log import Log

Rows = list[tuple[Any, ...]]
FORMS = (
    "a Policy, a Solution, the path of a policy file, a table, {state: {action: probability}} or a"
    " function of the state"
)


def place_of(of: Log | Problem | Batch) -> Place:
    """What a policy for a log or a problem is about."""
    labels = of.labels
    if not labels.states:
        labels = Labels(tuple(range(of.n_states)), tuple(range(of.n_actions)))
    if isinstance(of, Problem):
        end = of.n_bound_states == of.n_states - 1
        return Place(labels, to_numpy(of.terminal).reshape(-1), end)
    return Place(labels, of.terminal, of.has_end)


def align_policy(given: Any, of: Log | Problem | Batch) -> Any:
    """pi [S, A] in the order of a log or a problem, of whatever is given as a policy: what has
    labels is put in order by them, or refused; an array is taken as it is.

    given   a Policy, a Solution, the path of a policy file, a table with one row a pair (state,
            action, probability) or one column an action, {state: {action: probability}}, a function
            from the label of a state to {action: probability}, or an array [..., S, A]
    of      the problem, or the log, in whose order the states and actions are

    >>> import surefoot
    >>> steps = {"episode": [0, 0], "state": ["low", "high"], "action": ["up", "stay"],
    ...          "reward": [0.0, 1.0], "next_state": ["high", "low"]}
    >>> problem = surefoot.problem(steps, gamma=0.9)
    >>> rule = {"low": {"up": 0.7, "stay": 0.3}, "high": {"stay": 1}}
    >>> problem.labels.states, align_policy(rule, problem).tolist()
    (('high', 'low'), [[1.0, 0.0], [0.3, 0.7]])
    """
    if isinstance(given, Solution):
        if given.labelled is None or place_of(of).labels.same(given.labels):
            return given.pi
        given = given.policy
    if is_array_api_obj(given) or isinstance(given, (list, tuple)):
        return given
    found = labelled(given, of, "policy")
    if not isinstance(found, Policy):
        raise PolicyError(f"a policy is {FORMS}, or an array [S, A]; got {type(found).__name__}")
    place = place_of(of)
    pi = np.array(found.pi)
    blank = place.terminal & (pi == 0).all(axis=1)  # nothing is chosen there
    if isinstance(of, Problem):
        pi[blank] = to_numpy(of.pi_b).reshape(pi.shape)[blank]
    else:
        pi[blank] = 1 / pi.shape[1]
    return pi


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


def labelled(given: Any, of: Log | Problem | Batch, what: str = "baseline") -> Any:
    """What has labels as a Policy over those of a log or a problem: see `align_policy`. Others,
    such as arrays, as they are. `what`: "baseline" or "policy".
    """
    if is_array_api_obj(given):
        return given
    place = place_of(of)
    if isinstance(given, Solution):
        given = given.policy
    if isinstance(given, Policy):
        if given.estimated and what == "baseline" and not place.labels.same(given.labels):
            raise BaselineError(
                "this baseline belongs to a log with other labels: read it again with this log"
            )
        return given if given.estimated and what == "baseline" else fitted(given, place, what)
    if isinstance(given, (str, Path)):
        return read_policy(given, place, what=what, unknown_states="ignore")
    if _nested(given):
        rows = _rows_of(given)
        lifted = 0 < place.labels.now == width([s for s, _, _ in rows])
        return over_log(rows, lifted, place, what)
    if isinstance(given, Mapping) or is_table(given):
        return _of_table(given, place, what)
    if callable(given):
        shape = len(place.labels.states), len(place.labels.actions)
        pi = tabulated(given, place.labels, *shape, place.terminal)
        pi[place.terminal] = 1 / shape[1]  # nothing is chosen there, as a file leaves it out
        return Policy(pi=pi, labels=place.labels)
    return given


def with_exploration(
    rule: Policy | None, exploration: float, log: Log, allowed: np.ndarray | None = None
) -> Policy | None:
    """pi_b(a|s) = (1 - exploration) rule(a|s) + exploration / A(s): a rule as its controller takes
    it, A(s) being how many actions are allowed in s. Without exploration as it is.
    """
    name = option("exploration")
    if not 0 <= number(name, exploration, "a number in [0, 1)") < 1:
        raise ParameterError(
            f"{name} is the probability with which the baseline acts at random, in [0, 1): got"
            f" {exploration!r}"
        )
    if not exploration:
        return rule
    if rule is None or rule.estimated:
        raise ParameterError(
            f"{name} is the noise of a rule that is given: name its file, with the action of each"
            " state, with --baseline"
        )
    acts = ~log.terminal
    mixed = np.flatnonzero(acts & (rule.pi.max(axis=1) < 1))
    lots = [s for s, _, p in rule.elsewhere if p < 1]
    if len(mixed) or lots:
        where = log.labels.state(mixed[0]) if len(mixed) else as_text(lots[0])
        raise BaselineError(
            f"{name} goes with a rule, one action a state: the baseline has probabilities between 0"
            f" and 1 already, first in state {where} ({len(mixed) + len(lots)} such entries); leave"
            " it out if they are those with which the baseline acts"
        )
    mask = np.ones(rule.pi.shape, dtype=bool) if allowed is None else np.asarray(allowed)
    noise = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    pi = np.where(acts[:, None], (1 - exploration) * rule.pi + exploration * noise, rule.pi)
    names = [as_text(a) for a in rule.labels.actions]
    each = exploration / len(names)
    elsewhere = tuple(
        (s, a, each + (1 - exploration) * (a == as_text(taken)))
        for s, taken, _ in rule.elsewhere
        for a in names
    )
    note = (
        f"the baseline is a rule taken with its noise: with probability {exploration:g} any of the"
        " actions, each equally likely"
    )
    return replace(rule, pi=pi, elsewhere=elsewhere, notes=(*rule.notes, note))


def own_policy(given: Any) -> Policy:
    """A policy with the labels that it has itself: a Policy, a Solution, the path of a policy file,
    a table with one row a pair or one column an action, or {state: {action: probability}}.
    """
    if isinstance(given, Solution):
        return given.policy
    if isinstance(given, Policy):
        return given
    if isinstance(given, (str, Path)):
        return load_policy(given)
    if _nested(given):
        rows = _rows_of(given)
        return policy_of_rows(rows, labels_of(rows, ["state"]), "policy")
    if isinstance(given, Mapping) or is_table(given):
        names = _names(given)
        if "action" in names:
            return load_policy(given)
        rows, columns = _wide(given, ["state"])
        found = policy_of_rows(rows, labels_of(rows, columns or ["state"]), "policy")
        return found.in_frames_of(library_of(given))
    raise PolicyError(
        f"a policy with labels was expected: {FORMS.rpartition(' or ')[0]}; got"
        f" {type(given).__name__}"
    )


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
        pi[s] += times * said_of_row(given, raw, log.labels)
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


def said_of_row(given: OfRows, raw: Sequence[Any], labels: Labels) -> np.ndarray:
    """The probabilities of the actions in a row with these values of its columns."""
    row = dict(zip(given.columns, map(_raw_value, raw), strict=True))
    where = f"the baseline function, for the row {row},"
    try:
        said = given.function(row)
    except Exception as error:  # a function of the user may raise anything
        raise BaselineError(f"{where} fails: {type(error).__name__}: {error}") from error
    return checked_row(said, labels, where)


def _raw_value(x: Any) -> Any:
    if not isinstance(x, str):
        return None if x is None or x != x else x
    number = number_said(x)
    return x if number is None else number


def policy_code(log: Log, label: Any) -> int:
    """The code of a policy, given by its label in the column of policies."""
    if "policy" not in log.beside:
        raise LogError(
            f"the baseline is to be policy {as_text(label)!r}, but no column says which policy"
            f" chose an action: name it with {option('policy')}"
        )
    found = match(label, places_of(log.beside["policy"]))
    if found is None:
        raise LogError(unknown("policy", label, log.beside["policy"]))
    return found


def baseline_of(
    log: Log, label: Any, smoothing: float = 0.0, allowed: np.ndarray | None = None
) -> Policy:
    """The shares of actions in the rows of one policy; in states that it never visited, those of
    the whole log.
    """
    code = policy_code(log, label)
    n_sa = np.zeros(log.n_sa.size)
    for block in log.blocks():
        n_sa += np.bincount(block.pair[block.beside["policy"] == code], minlength=len(n_sa))
    own = n_sa.reshape(log.n_sa.shape)
    visited = own.sum(axis=1) > 0
    rows = np.where(visited[:, None], own, log.n_sa)
    elsewhere = int(((log.n_sa.sum(axis=1) > 0) & ~visited).sum())
    more = f"; in {elsewhere} states without any, from all rows" if elsewhere else ""
    note = (
        f"the baseline is policy {as_text(label)!r} as its {int(own.sum()):,} rows show it, state"
        f" by state{more}; guarantees for a known baseline do not apply"
    )
    found = estimated_policy(rows, log.labels, smoothing, allowed)
    return Policy(
        pi=found.pi, labels=log.labels, estimated=True, smoothing=found.smoothing, notes=(note,),
        of_policy=code,
    )  # fmt: skip


def _nested(given: Any) -> bool:
    """Whether it is {state: {action: probability}}."""
    if not isinstance(given, Mapping) or not given:
        return False
    return all(isinstance(x, Mapping) for x in given.values())


def _rows_of(given: Mapping[Any, Mapping[Any, Any]]) -> Rows:
    return [(s, a, p) for s, row in given.items() for a, p in row.items()]


def _of_table(table: Any, place: Place, what: str) -> Policy:
    """The policy of a table: long if it has a column of actions, else wide."""
    names = _names(table)
    pairs = Pairs(place.labels, "", "")
    roles = pairs([str(name) for name in names])
    if first_there(roles["action"], names):
        return read_policy(table, place, what=what, unknown_states="ignore")
    rows, _ = _wide(table, roles["state"], what)
    return over_log(rows, pairs.lifted, place, what)


def _wide(table: Any, wanted: Sequence[str], what: str = "policy") -> tuple[Rows, Sequence[str]]:
    """(the rows of a table with one column an action, the columns of its state): the first of the
    wanted ones that are there, else the index of pandas.
    """
    names = _names(table)
    columns = first_there(wanted, names)
    if columns:
        label = list(zip(*(_values(table, name) for name in columns), strict=True))
        states = [x[0] for x in label] if len(columns) == 1 else label
    elif hasattr(table, "index") and not isinstance(table, Mapping):  # of pandas
        states = _values(table, None)
    else:
        said = " or ".join(map(repr, wanted))
        raise ERRORS[what](
            "a table of a policy has one row a pair (columns state, action, probability), or one"
            f" row a state and a column for each action; no column of {names} says the state:"
            f" {said} is expected"
        )
    actions = [name for name in names if name not in columns]
    rows = [(s, a, p) for a in actions for s, p in zip(states, _values(table, a), strict=True)]
    return rows, columns


def _names(table: Any) -> list[Any]:
    """The columns of a table."""
    return list(getattr(table, "column_names", getattr(table, "columns", table)))


def _values(table: Any, name: Any) -> list[Any]:
    """A column of a table as a list; the index where name is None."""
    column = table.index if name is None else table[name]
    for how in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, how):
            return list(getattr(column, how)())
    return list(column)
