"""A policy for other programs: SQL that decides, row by row; JSON is `Controller.save`, and
Structured Text `function_block`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core import FilePath, LabelledPolicy, Policy
from surefoot.core.atomic import write_whole
from surefoot.core.errors import ParameterError, PolicyError, option
from surefoot.core.labels import as_text
from surefoot.core.parameters import check_name
from surefoot.core.text import plural
from surefoot.serving.controller import Controller, controller_of, most_probable, untouched
from surefoot.serving.dialects import DIALECTS, Dialect
from surefoot.serving.encoders import Encoder, KMeansEncoder, bins_of
from surefoot.serving.origin import NOT_SHOWN
from surefoot.serving.structured_text import function_block

MANY = 1_000  # states from which on a join is faster than CASE WHEN
MANY_DRAWS = 200  # states with draws: 500 of them, of five actions, took DuckDB 15 s to plan
DIALECT = "duckdb"
BLANK = {".sql": "NULL", ".json": "", ".st": "0"}  # what stands for no decision, by ending


def case_when(
    controller: Controller,
    *,
    dialect: str = DIALECT,
    key: Sequence[str] = (),
    numbers: Collection[str] = (),
    state_column: Sequence[str] = (),
    made_from: str = "",
) -> str:
    """An SQL expression for the action of a row.

    Without an encoder the row has the state: a column is compared as text, as policy files hold
    labels; those in `numbers`, and labels that are numbers, as numbers. A missing value (NULL) is
    its own label where the policy has one. With an encoder of bins the row has the measurements.

    key    columns by whose hash an action is drawn with its probability: always the same one for
           the same key. Without: the most probable action; NULL, to do as before, where the policy
           leaves a baseline as it is that draws
    state_column  the columns of the state, if not those of the policy

    A state that the policy does not know, a measurement that is missing and has no bin, or is not
    finite, and a missing key get the fallback, or NULL.
    """
    check_name("dialect", dialect, DIALECTS)
    words, policy, second = DIALECTS[dialect], controller.policy, controller.otherwise
    otherwise, doses = "NULL", _has_doses(controller)
    if isinstance(second, Controller):
        own = second.policy.labels
        columns = own.state_columns if second.encoder is None else ()
        nested = case_when(second, dialect=dialect, key=key, state_column=columns)
        _, _, case = nested.partition("\nCASE")  # comments stand above it
        otherwise = f"(CASE{case.rstrip()})"
    elif second is not None and not isinstance(second, Policy):
        otherwise = _action(second, words, doses)
    if controller.encoder is None:
        columns = _columns(policy, state_column)
        tests = _by_label(words, columns, numbers)
        first = []
    else:
        if numbers or state_column:
            raise ParameterError(
                "the encoder makes the state: leave --numbers and --state-column out"
            )
        tests = _by_reading(words, controller.encoder)
        first = [(x, otherwise) for x in _no_readings(words, controller.encoder)]
    branches = first
    for found in (policy, second):
        if isinstance(found, Policy):
            if found.labels.headers != policy.labels.headers:
                raise ParameterError("policy and fallback have different columns of the state")
            for then, states in _outcomes(found, words, key, otherwise, doses).items():
                branches += [(test, then) for test in tests(states)]
    lines = [f"-- {_one_line(x)}" for x in _comments(controller, key, made_from)] + ["CASE"]
    lines += [f"  WHEN {test} THEN {then}" for test, then in branches]
    return "\n".join([*lines, f"  ELSE {otherwise}", "END"]) + "\n"


def export(
    policy: Controller | LabelledPolicy,
    out: str | Path,
    *,
    encoder: Encoder | FilePath | None = None,
    otherwise: Hashable | LabelledPolicy = None,
    dialect: str = DIALECT,
    key: Collection[str] = (),
    numbers: Collection[str] = (),
    state_column: str | None = None,
    accept: bool = False,
) -> Controller:
    """Write a policy for another program, and say what was written: `surefoot export`.

    `out` ends in .sql (an expression for the action of a row, `case_when`), in .json (all
    probabilities, which `load_controller` reads) or in .st (a function block in Structured Text of
    IEC 61131-3, of policies that do not draw). With an `encoder`, which .st needs, they decide from
    raw measurements. policy, otherwise: as in `surefoot.apply`.

    dialect       of SQL: duckdb, postgres, sqlite, bigquery, spark or tsql
    key           columns by whose hash SQL draws; without, it takes the most probable action
    numbers       in SQL, columns of the state that hold numbers
    state_column  in SQL, the column of the state (several joined by commas), if not that of the log
    accept        write even a candidate that was not shown to be better; the file says so first
    """
    out, controller = Path(out), with_doses(controller_of(policy, otherwise, encoder))
    kind, origin = out.suffix.lower(), controller.origin
    if origin is not None and origin.unsupported and not accept:
        raise PolicyError(
            f"{origin.policy_is}, from {origin.log}, is {NOT_SHOWN[:13]}: it was not shown to be"
            " better than its baseline. Test it on new data (surefoot safety-test), or write it all"
            f" the same with {option('accept', True)}: the file then says so"
        )
    if kind not in BLANK:
        raise ParameterError(f"{out} must end in {', '.join(BLANK)}")
    names = tuple(x.strip() for x in state_column.split(",")) if state_column else ()
    of_sql = {
        "key": key, "numbers": numbers, "state_column": names,
        "dialect": dialect if dialect != DIALECT else "",
    }  # fmt: skip
    for name, given in of_sql.items():
        if given and kind != ".sql":
            flag = name.replace("_", "-")
            raise ParameterError(f"--{flag} is for SQL ({name}=... in Python)")
    if kind == ".json":
        controller.save(out)
        return controller
    if not names and controller.encoder is None and len(controller.policy.labels.headers) == 1:
        names = (origin.state,) if origin is not None and origin.state else ()
    made_from = Path(policy).name if isinstance(policy, (str, Path)) else ""
    if kind == ".st":
        text = function_block(controller, list(_comments(controller, (), made_from, BLANK[kind])))
    else:
        text = case_when(
            controller, dialect=dialect, key=tuple(key), numbers=numbers, state_column=names,
            made_from=made_from,
        )  # fmt: skip
    write_whole(out, text)
    return controller


def with_doses(controller: Controller) -> Controller:
    """The controller with the median dose of the log in place of each range of doses."""
    doses = {} if controller.origin is None else controller.origin.doses
    policy, second = controller.policy, controller.otherwise
    if not doses or not set(map(as_text, policy.labels.actions)) <= doses.keys():
        return controller

    def dosed(found: Policy) -> Policy:
        numbers = [doses[as_text(a)] for a in found.labels.actions]
        order = np.argsort(numbers)
        labels = replace(found.labels, actions=tuple(numbers[a] for a in order))
        baseline = None if found.baseline is None else found.baseline[:, order]
        return replace(found, pi=found.pi[:, order], labels=labels, baseline=baseline)

    if isinstance(second, Policy):
        second = dosed(second)
    elif controller.fixed:
        second = doses[as_text(policy.labels.actions[policy.labels.action_code(second)])]
    return replace(controller, policy=dosed(policy), otherwise=second)


def export_notes(
    controller: Controller, key: Sequence[str] = (), blank: str = BLANK[".sql"]
) -> list[str]:
    """What a user of the decisions should know; `blank` stands for 'as before'."""
    policy = controller.policy
    best, same = most_probable(policy.pi), untouched(policy)
    drawn, n = best.stochastic, plural(len(best.action), "state")
    left = drawn & same & bool(blank)
    notes = []
    if key and drawn.any():
        names = ", ".join(key)
        notes.append(
            f"in {int(drawn.sum()):,} of {n} the policy draws its actions, here by a hash of"
            f" {names}: rows with the same {names} draw alike. The policy that was tested draws at"
            " every decision anew: name columns that tell all decisions apart, such as an episode"
            " and its time"
        )
    elif left.any():
        notes.append(
            f"in {int(left.sum()):,} of {n} the policy does what its baseline does, which draws:"
            f" they are {blank}, for 'as before'"
            + " (--key draws there, too)"
            * (blank == BLANK[".sql"])
        )
    if not key and (drawn & ~left).any():
        notes.append(
            f"in {int((drawn & ~left).sum()):,} of {n} the policy draws its"
            " actions. The most probable one alone is ANOTHER POLICY than the one that was tested:"
            " draw (surefoot apply --sample; in SQL --key), or test the new one"
        )
    tied = int((best.tied & ~left).sum())
    if controller.origin is not None and controller.origin.as_before:
        notes.append(
            f"where nothing changes there is {blank or 'no entry'}, for 'as before': the baseline"
            " goes by more than the state, so it is to be called itself there"
        )
    if controller.origin is not None and controller.origin.doses:
        medians = ", ".join(f"{x:g} for {label!r}" for label, x in controller.origin.doses.items())
        notes.append(f"a dose is the median of the log in its range: {medians}")
    if tied and not key:
        notes.append(
            f"in {plural(tied, 'state')} several actions are equally probable: the first of them"
            " is taken, in the order of the policy file"
        )
    encoder, origin = controller.encoder, controller.origin
    unsaid = isinstance(encoder, KMeansEncoder) or getattr(encoder, "coded", False)
    if unsaid and not (origin is not None and origin.encoder):
        notes.append(
            "the states of this encoder are named by numbers, and nothing beside the policy says"
            " which encoder made its states: make sure that it was this one"
        )
    if key and int(drawn.sum()) > MANY_DRAWS:
        notes.append(
            f"{int(drawn.sum()):,} states with draws make a long CASE: a database may take many"
            " seconds to read it"
        )
    elif len(drawn) > MANY:
        notes.append(
            f"{len(drawn):,} states make a long CASE: a join with the policy file is faster"
        )
    return notes


def _columns(policy: Policy, given: Sequence[str]) -> tuple[str, ...]:
    """The columns of the state."""
    wanted = policy.labels.headers
    if given and len(given) != len(wanted):
        raise ParameterError(
            f"a state of the policy has {len(wanted)} columns ({', '.join(wanted)}), but"
            f" {len(given)} are given ({', '.join(given)})"
        )
    return tuple(given) or tuple(wanted)


def _comments(
    controller: Controller, key: Sequence[str], made_from: str, blank: str = BLANK[".sql"]
) -> Iterator[str]:
    if controller.origin is not None:
        yield from controller.origin.words
    source = f"from {made_from}" if made_from else ""
    yield f"made by surefoot {source}".rstrip()
    unknown = blank if controller.otherwise is None else controller.fallback_words
    missing = "" if controller.encoder is None else ", and without a reading that it needs"
    yield f"in states that the policy does not know{missing}: {unknown}"
    yield from export_notes(controller, key, blank)


def _one_line(text: str) -> str:
    """A text that cannot end a comment."""
    return " ".join(text.split())


def _has_doses(controller: Controller) -> bool:
    """Whether its actions are doses."""
    doses = () if controller.origin is None else controller.origin.doses.values()
    return bool(doses) and set(controller.policy.labels.actions) <= set(doses)


def _action(a: Any, words: Dialect, doses: bool) -> str:
    """An action in SQL: a dose is a number."""
    return _exact(float(a)) if doses else words.text(as_text(a))


def _outcomes(
    policy: Policy, words: Dialect, key: Sequence[str], otherwise: str, doses: bool
) -> dict[str, list[Any]]:
    """{what is done, in SQL: the labels of the states in which it is}, in the order of actions."""
    best, same = most_probable(policy.pi), untouched(policy)
    actions = [_action(a, words, doses) for a in policy.labels.actions]
    found: dict[str, list[Any]] = {}
    for s in np.argsort(best.action, kind="stable").tolist():
        then = actions[best.action[s]]
        if best.action[s] < 0:
            continue
        if best.stochastic[s] and key:
            then = _draw(policy.pi[s], actions, words, key, otherwise)
        elif best.stochastic[s] and same[s]:
            then = "NULL"
        found.setdefault(then, []).append(policy.labels.states[s])
    return found


def _draw(
    p: np.ndarray, actions: Sequence[str], words: Dialect, key: Sequence[str], otherwise: str
) -> str:
    """The action of a lot: it is below a whole number with the sum of the probabilities so far."""
    ends = [0, *np.rint(np.cumsum(p) / p.sum() * words.lots).astype(np.int64).tolist()]
    chosen = [(a, high) for a, (low, high) in enumerate(pairwise(ends)) if high > low]
    lot = words.lot(key)
    lost = " OR ".join(f"{words.column(x)} IS NULL" for x in key)
    draws = " ".join(f"WHEN {lot} < {high} THEN {actions[a]}" for a, high in chosen[:-1])
    last = actions[chosen[-1][0]]
    return f"CASE WHEN {lost} THEN {otherwise} {draws} ELSE {last} END"


def _by_label(words: Dialect, columns: tuple[str, ...], numbers: Collection[str]) -> Any:
    """What tests whether a row has one of some states by the columns of its state."""
    wrong = [x for x in numbers if x not in columns]
    if wrong:
        raise ParameterError(
            f"the policy has no column {wrong[0]!r}; those of its state are {', '.join(columns)}"
        )

    def tests(states: Sequence[Any]) -> Iterator[str]:
        if len(columns) > 1:
            for label in states:
                parts = zip(columns, label, strict=True)
                yield " AND ".join(_test(words, name, [x], name in numbers) for name, x in parts)
            return
        plain = [x for x in states if x is not None]
        if plain:
            yield _test(words, columns[0], plain, columns[0] in numbers)
        if len(plain) < len(states):
            yield _test(words, columns[0], [None], False)

    return tests


def _test(words: Dialect, column: str, labels: list[Any], as_number: bool) -> str:
    """Whether a column has one of these labels."""
    name = words.column(column)
    if labels == [None]:
        return f"{name} IS NULL"
    if as_number or all(isinstance(x, Number) for x in labels):
        values = [_number_sql(words, x, column) for x in labels]
    else:
        name, values = words.label(column), [words.text(as_text(x)) for x in labels]
    return f"{name} = {values[0]}" if len(values) == 1 else f"{name} IN ({', '.join(values)})"


def _number_sql(words: Dialect, label: Any, column: str) -> str:
    """A label as an SQL number, digit by digit as it is written."""
    if isinstance(label, (bool, np.bool_)):
        return words.truth(bool(label))
    text = as_text(label).strip()
    try:
        if not np.isfinite(float(text)):
            raise ValueError
    except ValueError as error:
        raise ParameterError(
            f"column {column!r} cannot be compared as a number: the policy has the label {text!r}"
        ) from error
    return text


def _no_readings(words: Dialect, encoder: Encoder) -> Iterator[str]:
    """When a row has no state."""
    for name in encoder.features:
        if name in encoder.missing:
            yield f"NOT ({words.missing(name)}) AND ({words.no_reading(name)})"
        else:
            yield f"{words.column(name)} IS NULL OR {words.no_reading(name)}"


def _by_reading(words: Dialect, given: Encoder) -> Any:
    """What tests whether a row has one of some states by its measurements."""
    encoder = bins_of(given, "SQL")
    codes = {label: code for code, label in enumerate(encoder.labels)}

    def test(label: str) -> str:
        parts = []
        for name, found in zip(encoder.features, encoder.ranges(codes[label]), strict=True):
            column = words.column(name)
            if found is None:
                parts.append(f"({words.missing(name)})")
                continue
            low, high = found
            if low is not None:
                parts.append(f"{column} >= {_exact(low)}")
            if high is not None:
                parts.append(f"{column} < {_exact(high)}")
            elif name in encoder.missing:  # not NaN, which many databases hold to be largest
                parts.append(f"{column} < 1e308")
        return " AND ".join(parts) or "1 = 1"

    return lambda states: (test(x) for x in states if x in codes)


def _exact(x: float) -> str:
    """A number that every dialect reads as this one, in double precision."""
    if x == int(x) and abs(x) < 1e15:
        return str(int(x))
    text = repr(float(x))
    return text if "e" in text else f"{text}e0"
