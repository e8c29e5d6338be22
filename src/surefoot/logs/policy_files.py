"""Policy files: a baseline or another policy with one row for each (state, action, probability);
and files of allowed and of forbidden actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core import Labels, Policy
from surefoot.core.array_checks import ROUNDING, is_table, library_of
from surefoot.core.errors import (
    BaselineError,
    LogError,
    PolicyError,
    ProblemError,
    SurefootError,
    option,
)
from surefoot.core.labels import as_text, from_cell, nearest, unknown
from surefoot.core.parameters import check_name
from surefoot.core.policy import Row
from surefoot.logs.database import Database, Workspace, name_sql, path_sql
from surefoot.logs.store import columns_of, find_source, header_of, read_text, text_trouble
from surefoot.problems.given import SUM_TO_ONE, joint_mask

if TYPE_CHECKING:
    from surefoot.logs.log import Log

# rows of a file may miss 1 by this much, since files hold rounded numbers; they are rescaled, and
# that is noted
ROUNDED = 1e-3
PROBABILITY = ("probability", "prob", "p", "pi_b", "baseline")
ERRORS: dict[str, type[SurefootError]] = {"baseline": BaselineError, "policy": PolicyError}


@dataclass(frozen=True)
class Place:
    """The states and actions that a policy is to be about, where no log has them; codes where these
    have no labels.
    """

    labels: Labels
    terminal: np.ndarray
    has_end: bool


Roles = Mapping[str, Sequence[str]]  # the names that the columns of each role may have


def load_policy(source: Any) -> Policy:
    """The policy in a file or table, with the labels it has there; `Policy.save` and
    `surefoot improve` write such files.

    The columns of the state come before the column "action"; "probability" follows, and where
    there is one the column "baseline". A rule ends with its actions: each has probability 1.
    """
    columns: list[str] = []
    numbers = ["probability"]

    def roles(names: list[str]) -> Roles:
        if names[-1:] == ["action"]:
            numbers.clear()
        elif "action" not in names or "probability" not in names:
            raise LogError("its first line must name the columns state, action and probability")
        columns.extend(names[: names.index("action")])
        if not columns:
            raise LogError("the columns of the state come before the column action")
        numbers.extend(x for x in ("baseline",) if x in names[names.index("action") :])
        return {"state": [",".join(columns)], "action": ["action"]} | {x: [x] for x in numbers}

    try:
        rows = read_table(source, roles)
    except LogError as error:
        raise PolicyError(f"{source} cannot be read, or is no policy: {error}") from error
    if not rows:
        raise PolicyError(f"{source} has no rows: a policy has one for each state and action")
    rows = [(from_cell(s), from_cell(a), *(p or [1.0])) for s, a, *p in rows]
    labels = labels_of(rows, columns)
    found = policy_of_rows(rows, labels, "policy").in_frames_of(library_of(source))
    if len(numbers) < 2:
        return found
    given = policy_of_rows([(s, a, b) for s, a, _, b in rows], labels, "baseline")
    return replace(found, baseline=given.pi)


def read_policy(
    source: Any,
    log: Log | Place,
    *,
    what: str = "baseline",
    state: str = "",
    action: str = "",
    probability: str = "",
    unknown_states: str = "error",
) -> Policy:
    """The baseline (or another "policy": `what`) in a file or table, over the labels of a log;
    pairs not named have probability 0.

    The columns are those of the log's state and action, or "state" and "action"; names joined by
    commas make one label. A file with these alone is a rule: each row has probability 1. Rows of a
    state sum to 1 within 0.001 and are rescaled. Every state of
    the log in which somebody can act must be there. A state that the log does not have is an error,
    or with unknown_states="ignore" stays in `elsewhere`. Where the states of the log are histories,
    the file may be about observations: what it says of one holds whatever came before.
    """
    check_name("unknown_states", unknown_states, ("error", "ignore"))
    of_pair, found = (
        Pairs(log.labels, state, action),
        [probability] if probability else PROBABILITY,
    )

    def roles(names: list[str]) -> Roles:
        pair = of_pair(names)
        of_rule = [x for wanted in pair.values() for x in first_there(wanted, names)]
        return pair if sorted(of_rule) == sorted(names) else {**pair, "probability": found}

    rows = [(s, a, *(p or [1.0])) for s, a, *p in read_table(source, roles)]
    return over_log(rows, of_pair.lifted, log, what, unknown_states == "ignore")


def fitted(policy: Policy, log: Log | Place, what: str = "baseline") -> Policy:
    """A policy over the labels of a log; what it says of other states is in `elsewhere`."""
    if log.labels.same(policy.labels):
        return policy
    states, actions = policy.labels.states, policy.labels.actions
    rows: list[tuple[Any, ...]] = [
        (states[s], actions[a], policy.pi[s, a]) for s, a in np.argwhere(policy.pi > 0)
    ]
    rows += policy.elsewhere
    lifted = not policy.labels.now and 0 < log.labels.now == width(states)
    found = over_log(rows, lifted, log, what)
    return replace(found, notes=(*policy.notes, *found.notes))


def width(states: Sequence[Any]) -> int:
    """How many columns the labels of states have."""
    return len(states[0]) if isinstance(states[0], tuple) else 1


def over_log(
    rows: list[tuple[Any, ...]],
    lifted: bool,
    log: Log | Place,
    what: str = "baseline",
    ignore: bool = True,
) -> Policy:
    """The policy of some rows over the states of a log; `lifted`: they are about observations."""
    if not lifted:
        return _policy(rows, log.labels, log.terminal, what, ignore)
    labels, of = log.labels.observed
    terminal = np.bincount(of, ~log.terminal, len(labels.states)) == 0
    found = _policy(rows, labels, terminal, what, ignore)
    # what is said of observations that the log does not have is about no history of it
    return replace(found, pi=found.pi[of], labels=log.labels, elsewhere=())


def read_allowed(source: Any, log: Log, *, state: str = "", action: str = "") -> np.ndarray:
    """The mask [S, A] of a file that lists the allowed (state, action), its columns as in
    `read_policy`; a state it does not name allows everything.
    """
    of_pair = Pairs(log.labels, state, action)
    rows = read_table(source, of_pair)
    mask = _marked([(of_pair.code(s), log.labels.action_code(a)) for s, a in rows], of_pair, log)
    mask[~mask.any(axis=1)] = True
    return mask


def read_forbidden(source: Any, log: Log, *, state: str = "", action: str = "") -> np.ndarray:
    """The mask [S, A] of what a file of (state, action) forbids, its columns as in `read_policy`.

    A label that the log does not have may be a misspelt one that the log has: it is refused.
    """
    of_pair, pairs = Pairs(log.labels, state, action), []
    for number, (s, a) in enumerate(read_table(source, of_pair), start=1):
        try:
            pairs.append((of_pair.code(s), log.labels.action_code(a)))
        except LogError as error:
            raise LogError(
                f"row {number} of {source} forbids nothing: {error}. Correct it, or leave it out:"
                " what is not in the log is never chosen"
            ) from error
    return _marked(pairs, of_pair, log)


def _marked(pairs: list[tuple[int, int]], of_pair: Pairs, log: Log) -> np.ndarray:
    """The mask [S, A] of some pairs."""
    labels, of = of_pair.labels.observed if of_pair.lifted else (log.labels, slice(None))
    mask = np.zeros((len(labels.states), log.n_actions), dtype=bool)
    for s, a in pairs:
        mask[s, a] = True
    found: np.ndarray = mask[of]
    return found


def permitted(log: Log, allowed: Any = None, forbidden: Any = None) -> np.ndarray | None:
    """The mask [S, A] of what may be chosen, from masks, or files or tables of pairs (state,
    action), of what is allowed and what is forbidden; None where neither is given.
    """
    if allowed is None and forbidden is None:
        return None
    if isinstance(allowed, (str, Path)) or is_table(allowed):
        allowed = read_allowed(allowed, log)
    if isinstance(forbidden, (str, Path)) or is_table(forbidden):
        forbidden = read_forbidden(forbidden, log)
    mask: np.ndarray = joint_mask(allowed, forbidden)
    if isinstance(mask, np.ndarray) and mask.shape == (log.n_states, log.n_actions):
        empty = np.flatnonzero(~mask.any(axis=1) & ~log.terminal)
        if len(empty):
            raise ProblemError(
                f"state {log.labels.state(empty[0])} has no allowed action ({len(empty)} such"
                " states)"
            )
    return mask


class Pairs:
    """Finds the columns of a pair: as named, as in the log, or "state" and "action". `lifted`:
    the states of the log are histories, and the file is about observations.
    """

    def __init__(self, labels: Labels, state: str, action: str) -> None:
        self.labels, self.state, self.action, self.lifted = labels, state, action, False

    def __call__(self, names: list[str]) -> dict[str, Sequence[str]]:
        """The names that the columns of state and action may have."""
        whole, present = self.labels, self.labels.observed[0]
        before = f"{whole.action_columns[0]} before"
        self.lifted = whole.now > 0 and before not in names
        if not whole.now and before in names and not self.state:
            raise LogError(
                f"it is about histories (it has a column {before!r}): read the log with as many"
                f" steps of {option('history')}"
            )
        of = present if self.lifted else whole
        return {
            "state": [self.state] if self.state else [",".join(of.state_columns), "state"],
            "action": [self.action] if self.action else [",".join(of.action_columns), "action"],
        }

    def code(self, label: Any) -> int:
        """The code of a state, or of an observation where these are lifted."""
        return (self.labels.observed[0] if self.lifted else self.labels).state_code(label)


def labels_of(rows: list[tuple[Any, ...]], columns: Sequence[str]) -> Labels:
    """The states and actions that rows of (state, action, ...) name, in their order."""
    states, actions = (tuple(dict.fromkeys(row[i] for row in rows)) for i in (0, 1))
    return Labels(states, actions, tuple(columns))


def policy_of_rows(rows: list[tuple[Any, ...]], labels: Labels, what: str) -> Policy:
    """The policy of rows of (state, action, probability) that name every state of `labels`."""
    return _policy(rows, labels, np.zeros(len(labels.states), dtype=bool), what)


def _policy(
    rows: list[tuple[Any, ...]],
    labels: Labels,
    terminal: np.ndarray,
    what: str,
    ignore: bool = False,
) -> Policy:
    """The policy of the rows of a file; rows of states that `labels` do not have are kept apart."""
    error = ERRORS[what]
    pi = np.full((len(labels.states), len(labels.actions)), np.nan)
    ignored, elsewhere = 0, list[Row]()
    for number, row in enumerate(rows, start=1):
        p = _probability(row[2], f"row {number} of the {what}", error)
        s, a = labels.find_state(row[0]), labels.find_action(row[1])
        if s is None and not ignore:
            raise error(
                f"row {number} of the {what}: {unknown('state', row[0], labels.states)};"
                " unknown_states='ignore' skips such rows"
            )
        if a is None and p > 0:
            raise error(
                f"row {number} of the {what}: {unknown('action', row[1], labels.actions)}; if it"
                " exists, name all actions with --actions when reading the log (actions=[...] in"
                " Python)"
            )
        if s is None or a is None:
            ignored += 1
            if s is None and p > 0:
                elsewhere.append((row[0], as_text(row[1]), p))
        elif np.isnan(pi[s, a]):
            pi[s, a] = p
        else:
            raise error(
                f"row {number} of the {what} repeats state {as_text(row[0])!r}, action"
                f" {as_text(row[1])!r}"
            )
    notes = []
    if ignored:
        notes.append(
            f"{ignored} rows of the {what} file are about states or actions that the log does not"
            " have"
        )
    pi = _whole_rows(pi, labels, terminal, what, notes)
    return Policy(pi=pi, labels=labels, notes=tuple(notes), elsewhere=tuple(elsewhere))


def _probability(value: Any, where: str, error: type[SurefootError]) -> float:
    try:
        p = float(value)
    except (TypeError, ValueError) as trouble:
        raise error(f"{where} must hold a probability, got {value!r}") from trouble
    if not -ROUNDING <= p <= 1 + ROUNDED:
        raise error(f"{where} must hold a probability, got {p:g}")
    return max(p, 0.0)


def _whole_rows(
    pi: np.ndarray, labels: Labels, terminal: np.ndarray, what: str, notes: list[str]
) -> np.ndarray:
    """Complete rows that sum to 1; rows of terminal states, in which nothing is chosen, may be
    missing.
    """
    named = ~np.isnan(pi).all(axis=1)
    lost = np.flatnonzero(~named & ~terminal)
    if len(lost):
        raise ERRORS[what](
            f"the {what} says nothing about state {labels.state(lost[0])} ({len(lost)} such states"
            " of the log): add a row for each action"
        )
    pi = np.where(np.isnan(pi), 0.0, pi)
    total = pi.sum(axis=1)
    wrong = np.flatnonzero(named & (np.abs(total - 1) > ROUNDED))
    if len(wrong):
        raise ERRORS[what](
            f"the probabilities of state {labels.state(wrong[0])} sum to {total[wrong[0]]:.6g},"
            f" not 1 ({len(wrong)} such states)"
        )
    scaled = int((named & (np.abs(total - 1) > SUM_TO_ONE)).sum())
    if scaled:
        notes.append(
            f"the {what}'s probabilities of {scaled} states summed to 1 only within {ROUNDED:g}"
            " and were rescaled"
        )
    return np.where(named[:, None], pi / np.where(named, total, 1.0)[:, None], 1.0 / pi.shape[1])


def read_table(source: Any, roles: Roles | Callable[[list[str]], Roles]) -> list[tuple[Any, ...]]:
    """The rows of a small file or table: one value for each role, a tuple where a role has several
    columns.

    Each role comes with the names its columns may have, or is found from the names there are: one
    of them is looked for; several columns are one name joined by commas.
    """
    found = find_source(source)
    workspace = Workspace()
    try:
        with Database(workspace) as database, ExitStack() as opened:
            if found.kind == "csv":
                delimiter, names = header_of(found.files[0])
                where = read_text(found.files[0], delimiter, len(names))
                physical = {name: f"c{i}" for i, name in enumerate(names)}
            else:
                where = "given_table"
                if found.kind == "table":
                    opened.enter_context(database.table(where, found.table))
                else:
                    where = f"read_parquet({path_sql(found.files[0])})"
                names = [name for name, _ in columns_of(database, "reading a table", where)]
                physical = {name: name_sql(name) for name in names}
            if len(found.files) > 1:
                raise LogError(f"one file was expected, got {len(found.files)}")
            wanted = roles(names) if callable(roles) else roles
            columns = [_columns(role, wanted[role], names, found.name) for role in wanted]
            chosen = ", ".join(physical[name] for group in columns for name in group)
            try:
                rows = database.rows(f"reading {found.name}", f"select {chosen} from {where}")
            except LogError as error:
                raise LogError(text_trouble(found.name, str(error))) from error
    finally:
        workspace.close()
    return [tuple(_grouped(row, [len(group) for group in columns])) for row in rows]


def _columns(role: str, wanted: Sequence[str], names: Sequence[str], where: str) -> list[str]:
    """The columns of a role."""
    found = first_there(wanted, names)
    if not found:
        raise LogError(
            f"{where} has no column {wanted[0]!r} for the {role}; {nearest(wanted[0], names)}"
        )
    return found


def first_there(wanted: Sequence[str], names: Sequence[Any]) -> list[str]:
    """The columns of the first of the wanted names (or names joined by commas) that are all there;
    [] where there are none.
    """
    for choice in wanted:
        for parts in ([choice], choice.split(","), [x.strip() for x in choice.split(",")]):
            if all(part in names for part in parts):
                return parts
    return []


def _grouped(row: tuple[Any, ...], sizes: Iterable[int]) -> Iterable[Any]:
    start = 0
    for size in sizes:
        yield row[start] if size == 1 else row[start : start + size]
        start += size
