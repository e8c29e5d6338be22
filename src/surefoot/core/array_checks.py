"""Checks of arrays and numbers at the door: what NumPy takes silently is an error in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.core.arrays import Array, namespace, to_numpy
from surefoot.core.errors import LogError, ProblemError, SurefootError

LARGEST = 1e60  # numbers beyond this are refused: products of their variances would overflow
SMALLEST = 1e-150  # a log in which no reward but 0 is as large as this is refused
MOST_PAIRS = 10**9  # states x actions beyond this are refused: they would not fit in memory
ROUNDING = 1e-9  # a probability may lie below 0 by this much, from computing
SUMS = 1e-6  # a row of probabilities may miss 1 by this much
TABLES = ("pandas", "polars", "pyarrow", "duckdb")  # what DuckDB reads, beside columns in a dict
# what float() would read, or cut to its real part
NO_NUMBERS = (str, bytes, complex, np.complexfloating)


def is_table(values: Any) -> bool:
    """Whether it is a frame or table of pandas, polars or Arrow, whose columns have labels."""
    library = type(values).__module__.partition(".")[0]
    return library in TABLES and (hasattr(values, "columns") or hasattr(values, "column_names"))


def library_of(values: Any) -> str:
    """The library of a frame or table; "" of anything else."""
    return type(values).__module__.partition(".")[0] if is_table(values) else ""


def plain_array(name: str, values: Any, error: type[SurefootError] = LogError) -> np.ndarray:
    """A fresh array of `values`; what NumPy cannot take, or is masked, is an error."""
    if np.ma.is_masked(values):
        raise error(f"{name} has masked entries: fill or drop them first")
    if is_table(values):
        raise error(
            f"{name} is a table, whose labels would be ignored here: give an array in the order of"
            " the codes"
        )
    try:
        found: np.ndarray = np.array(values)
    except (TypeError, ValueError, RuntimeError) as trouble:
        raise error(f"{name} must be an array of plain values: {trouble}") from trouble
    return found


def number_array(name: str, values: Any, error: type[SurefootError] = LogError) -> np.ndarray:
    """A fresh float array of `values`: real numbers, not text, dates or complex numbers."""
    found = plain_array(name, values, error)
    kinds = (
        {type(x).__name__ for x in found.flat if isinstance(x, NO_NUMBERS)}
        if found.dtype.kind == "O"
        else set()
    )
    if found.dtype.kind not in "biufO" or kinds:
        raise error(
            f"{name} must hold numbers, got {' and '.join(sorted(kinds)) or found.dtype}: convert"
            " it first"
        )
    try:
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
            found = found.astype(float)
    except (TypeError, ValueError, OverflowError) as trouble:
        raise error(f"{name} must hold numbers: {trouble}") from trouble
    return found


def column(name: str, values: Any, n: int) -> np.ndarray:
    """Numbers, text or dates, none of them undefined."""
    found = plain_array(name, values)
    check_length(name, found, n)
    if found.dtype.kind in "cV":
        raise LogError(f"{name} must hold numbers, text or dates, got {found.dtype}")
    if found.dtype.kind in "fmM":
        wrong = np.flatnonzero(~np.isfinite(found))
        if len(wrong):
            raise LogError(
                f"{name} must be finite, row {wrong[0]} is {word(found[wrong[0]])} ({len(wrong)}"
                " such rows)"
            )
    return found


def ranks(name: str, values: np.ndarray) -> np.ndarray:
    """0 for the smallest value, 1 for the next, ..."""
    try:
        if values.dtype.kind == "O" and any(x is None or x != x for x in values):
            raise TypeError("some are missing")
        return np.unique(values, return_inverse=True)[1].reshape(-1)
    except (TypeError, ValueError) as trouble:
        raise LogError(
            f"{name} must hold values of one kind that can be put in order: {trouble}"
        ) from trouble


def check_length(name: str, values: np.ndarray, n: int) -> None:
    """Raise unless there is one value a row."""
    if values.ndim != 1 or len(values) != n:
        raise LogError(
            f"{name} must be one value a row: expected {n} values, got an array of shape"
            f" {values.shape}"
        )


def ids(name: str, values: Any, missing: int | None = None) -> np.ndarray:
    """Whole numbers >= 0 (or `missing`), as a fresh int64 array."""
    found = plain_array(name, values)
    if found.ndim != 1:
        raise LogError(f"{name} must be a one-dimensional array of ids, got shape {found.shape}")
    if len(found) == 0:
        return np.empty(0, dtype=np.int64)
    if found.dtype.kind not in "iufb":
        raise LogError(
            f"{name} must hold whole numbers, got {found.dtype}: encode labels as 0, 1, 2, ..."
            " first"
        )
    if found.dtype.kind == "f":  # half precision cannot be compared with MOST_PAIRS
        found = found.astype(np.promote_types(found.dtype, np.float64))
    low = 0 if missing is None else missing
    hint = "" if missing is None else f", {missing} where there is none"
    wrong = _not_whole(found)
    if len(wrong):
        raise LogError(
            f"{name} must hold whole numbers{hint}, row {wrong[0]} is {word(found[wrong[0]])}"
            f" ({len(wrong)} such rows)"
        )
    wrong = np.flatnonzero((found < low) | (found >= MOST_PAIRS))
    if len(wrong):
        raise LogError(
            f"{name} ids start at 0 and lie below {MOST_PAIRS:,}{hint}, row {wrong[0]} is"
            f" {word(found[wrong[0]])} ({len(wrong)} such rows): number them 0, 1, 2, ..."
        )
    whole: np.ndarray = found.astype(np.int64)
    return whole


def state_ids(name: str, values: Any) -> set[int]:
    """One id or several; a mask is not taken for ids."""
    given = np.atleast_1d(
        plain_array(name, list(values) if isinstance(values, (set, frozenset)) else values)
    )
    if given.size == 0:
        return set()
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise LogError(
            f"{name} must be state ids, such as (3, 7), got {given.dtype} of shape {given.shape}"
        )
    wrong = _not_whole(given)
    if len(wrong):
        raise LogError(f"{name} must be whole numbers, entry {wrong[0]} is {word(given[wrong[0]])}")
    return {int(s) for s in given}


def _not_whole(values: np.ndarray) -> np.ndarray:
    """Where floats are no whole numbers."""
    if values.dtype.kind != "f":
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(~np.isfinite(values) | (values != np.floor(values)))


def rewards(values: Any, n: int) -> np.ndarray:
    """Finite numbers, one a row."""
    found = number_array("reward", values)
    check_length("reward", found, n)
    wrong = np.flatnonzero(~(np.abs(found) <= LARGEST))
    if len(wrong):
        raise LogError(
            f"reward must be finite (at most {LARGEST:g} in size), row {wrong[0]} is"
            f" {found[wrong[0]]} ({len(wrong)} such rows): mend or drop these rows"
        )
    return found


def probabilities(name: str, values: Any, n: int) -> np.ndarray:
    """Numbers in (0, 1], one a row."""
    found = number_array(name, values)
    check_length(name, found, n)
    wrong = np.flatnonzero(~((found > 0) & (found <= 1 + 1e-9)))
    if len(wrong):
        raise LogError(
            f"{name} must be a probability above 0, at most 1, row {wrong[0]} is"
            f" {found[wrong[0]]} ({len(wrong)} such rows): an action that was taken had one"
        )
    return np.asarray(np.minimum(found, 1.0))


def check_rows(name: str, rows: Array, error: type[SurefootError], *, ends: bool = False) -> None:
    """Raise unless every row holds probabilities that sum to 1, or zeros alone; `ends`: they may
    sum to less.
    """
    xp = namespace(rows)
    total = xp.sum(rows, axis=-1)
    good = (xp.abs(total - 1.0) <= SUMS) | (xp.all(rows == 0, axis=-1)) | (ends & (total < 1.0))
    good = good & xp.all(rows >= -ROUNDING, axis=-1)
    if bool(xp.all(good)):
        return
    wrong = np.argwhere(~to_numpy(good))
    first = tuple(int(i) for i in wrong[0])
    row = to_numpy(rows)[first]
    raise error(
        f"each row of {name} must hold probabilities that sum to 1: row {list(first)} has"
        f" {np.array2string(row, threshold=8)} with sum {row.sum():.12g} ({len(wrong)} such rows)"
    )


def not_negative(name: str, values: Array, error: type[SurefootError]) -> None:
    """Raise unless all are finite numbers >= 0."""
    xp = namespace(values)
    if not bool(xp.all((values >= 0) & (values < xp.inf))):
        raise error(f"{name} must hold finite numbers >= 0: correct those that are negative or NaN")


def flags(name: str, values: Any, n: int) -> np.ndarray:
    """True or False, one a row; all False where none are given."""
    if values is None:
        return np.zeros(n, dtype=bool)
    found = plain_array(name, values)
    check_length(name, found, n)
    if found.dtype.kind not in "biuf":
        raise LogError(f"{name} must hold True/False or 0/1, got {found.dtype}")
    wrong = np.flatnonzero((found != 0) & (found != 1))
    if len(wrong):
        raise LogError(
            f"{name} must hold True/False or 0/1, row {wrong[0]} is {word(found[wrong[0]])}"
            f" ({len(wrong)} such rows)"
        )
    flags: np.ndarray = found.astype(bool)
    return flags


def word(x: Any) -> str:
    """A single value as a user wrote it."""
    if isinstance(x, (np.datetime64, np.timedelta64)):
        return str(x)
    return repr(x.item() if isinstance(x, np.generic) else x)


def pair_of_numbers(name: str, values: Any) -> tuple[float, float]:
    """`values` as (low, high), checked."""
    try:
        if isinstance(values, (str, bytes, set, frozenset, dict)):
            raise TypeError("text and unordered values are no pair")
        low, high = values
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{name} must be a pair (low, high), got {values!r}") from error
    low, high = number(name, low), number(name, high)
    if not -LARGEST <= low <= high <= LARGEST:
        raise ProblemError(
            f"{name} must be finite (at most {LARGEST:g} in size) with low <= high, got {values!r}"
        )
    return low, high


def number(name: str, value: Any, what: str = "a number") -> float:
    """`value` as a float: one real number, not text and not a flag."""
    try:
        if (
            isinstance(value, (str, bytes, bool, np.bool_))
            or np.ndim(value)
            or np.iscomplexobj(value)
            or np.ma.is_masked(value)
        ):
            raise TypeError("not one real number")
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProblemError(f"{name} must be {what}, got {value!r}") from error
