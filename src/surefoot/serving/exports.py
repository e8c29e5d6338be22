"""A policy for other programs: SQL that decides, row by row; JSON is `Controller.save`."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core import FilePath, LabelledPolicy, Policy
from surefoot.core.atomic import write_whole
from surefoot.core.errors import ParameterError
from surefoot.core.labels import as_text
from surefoot.core.text import plural
from surefoot.logs.database import name_sql, text_sql
from surefoot.serving.controller import Controller, controller_of, most_probable
from surefoot.serving.encoders import Encoder

MANY = 1_000  # states from which on a join is faster than CASE WHEN


def case_when(controller: Controller, *, numbers: Collection[str] = (), made_from: str = "") -> str:
    """An SQL expression for the action of a row: the most probable one of its state.

    A column is compared as text, CAST(x AS VARCHAR) = '7', as policy files hold labels; those in
    `numbers`, and labels that are numbers, as numbers: x = 7. A missing value (NULL) is its own
    label where the policy has one. A state that the policy does not know gets the fallback, or
    NULL. Names are quoted by ", text by ', both doubled inside, as standard SQL does.
    """
    if controller.encoder is not None:
        raise ParameterError(
            "SQL has no encoder: give the state a column first (surefoot discretize --apply), and"
            " export the policy without the encoder"
        )
    policy, otherwise = controller.policy, "NULL"
    columns = policy.labels.headers
    wrong = [x for x in numbers if x not in columns]
    if wrong:
        raise ParameterError(
            f"the policy has no column {wrong[0]!r}; those of its state are {', '.join(columns)}"
        )
    branches = list(_branches(policy, columns, numbers))
    if isinstance(controller.otherwise, Policy):
        same = controller.otherwise.labels.headers == columns
        if not same:
            raise ParameterError("policy and fallback have different columns of the state")
        branches += _branches(controller.otherwise, columns, numbers)
    elif controller.otherwise is not None:
        otherwise = text_sql(as_text(controller.otherwise))
    lines = [*_comments(controller, made_from), "CASE"]
    lines += [f"  WHEN {test} THEN {action}" for test, action in branches]
    return "\n".join([*lines, f"  ELSE {otherwise}", "END"]) + "\n"


def export(
    policy: Controller | LabelledPolicy,
    out: str | Path,
    *,
    encoder: Encoder | FilePath | None = None,
    otherwise: Hashable | LabelledPolicy = None,
    numbers: Collection[str] = (),
) -> Controller:
    """Write a policy for another program, and say what was written: `surefoot export`.

    `out` ends in .sql (an expression for the most probable action of a row, `case_when`) or in
    .json (all probabilities; with an `encoder` from raw measurements, and `load_controller` reads
    it). policy, otherwise: as in `surefoot.apply`. numbers: in SQL, columns that hold numbers.
    """
    out, controller = Path(out), controller_of(policy, otherwise, encoder)
    kind = out.suffix.lower()
    if kind not in (".sql", ".json"):
        raise ParameterError(f"{out} must end in .sql or .json")
    if kind == ".json":
        if numbers:
            raise ParameterError("--numbers is for SQL (numbers=... in Python)")
        controller.save(out)
        return controller
    name = Path(policy).name if isinstance(policy, (str, Path)) else ""
    write_whole(out, case_when(controller, numbers=numbers, made_from=name))
    return controller


def export_notes(controller: Controller) -> list[str]:
    """What a user of the most probable actions should know."""
    policy = controller.policy
    best = most_probable(policy.pi)
    drawn, tied = best.stochastic, int(best.tied.sum())
    notes = []
    if drawn.any():
        notes.append(
            f"in {int(drawn.sum()):,} of {plural(len(drawn), 'state')} the policy draws its"
            " actions. The most probable one alone is ANOTHER POLICY than the one that was tested:"
            " draw (surefoot apply --sample), or test the new one"
        )
    if tied:
        notes.append(
            f"in {plural(tied, 'state')} several actions are equally probable: the first of them"
            " is taken, in the order of the policy file"
        )
    if len(drawn) > MANY:
        notes.append(
            f"{len(drawn):,} states make a long CASE: a join with the policy file is faster"
        )
    return notes


def _comments(controller: Controller, made_from: str) -> Iterator[str]:
    source = f"from {made_from}" if made_from else ""
    yield f"-- made by surefoot {_one_line(source)}".rstrip()
    unknown = "NULL" if controller.otherwise is None else controller.fallback_words
    yield f"-- in states that the policy does not know: {_one_line(unknown)}"
    yield from (f"-- {_one_line(note)}" for note in export_notes(controller))


def _one_line(text: str) -> str:
    """A text that cannot end a comment."""
    return " ".join(text.split())


def _branches(
    policy: Policy, columns: tuple[str, ...], numbers: Collection[str]
) -> Iterator[tuple[str, str]]:
    """(condition, action) of the states of a policy; those of one column are listed by action."""
    best = most_probable(policy.pi)
    for a, action in enumerate(policy.labels.actions):
        then = text_sql(as_text(action))
        states = [policy.labels.states[s] for s in np.flatnonzero(best.action == a)]
        if len(columns) > 1:
            for label in states:
                parts = zip(columns, label, strict=True)
                yield " AND ".join(_test(name, [x], name in numbers) for name, x in parts), then
        elif states:
            plain = [x for x in states if x is not None]
            if plain:
                yield _test(columns[0], plain, columns[0] in numbers), then
            if len(plain) < len(states):
                yield _test(columns[0], [None], False), then


def _test(column: str, labels: list[Any], as_number: bool) -> str:
    """Whether a column has one of these labels."""
    name = name_sql(column)
    if labels == [None]:
        return f"{name} IS NULL"
    if as_number or all(isinstance(x, Number) for x in labels):
        values = [_number_sql(x, column) for x in labels]
    else:
        name, values = f"CAST({name} AS VARCHAR)", [text_sql(as_text(x)) for x in labels]
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} IN ({', '.join(values)})"


def _number_sql(label: Any, column: str) -> str:
    """A label as an SQL number, digit by digit as it is written."""
    if isinstance(label, (bool, np.bool_)):
        return "TRUE" if label else "FALSE"
    text = as_text(label).strip()
    try:
        if not np.isfinite(float(text)):
            raise ValueError
    except ValueError as error:
        raise ParameterError(
            f"column {column!r} cannot be compared as a number: the policy has the label {text!r}"
        ) from error
    return text
