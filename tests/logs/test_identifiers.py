"""States that are identifiers are named in a warning; logs with many states are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.logs import Log, read_log


def log_of(rows: int = 2_000, **state: Any) -> Log:
    rng = np.random.default_rng(0)
    i = np.arange(rows)
    table = {
        "episode": i // 10,
        "time": i % 10,
        "action": rng.integers(0, 3, rows),
        "reward": rng.random(rows),
        "terminal": i % 10 == 9,
    }
    return read_log({**table, **state}, state=",".join(state))


def said(log: Log) -> list[str]:
    return [x for x in log.warnings if "a state that no other row is in" in x]


RNG = np.random.default_rng(1)
ROWS, WARD = np.arange(2_000), RNG.integers(0, 4, 2_000)


def test_the_column_that_names_the_row_is_named() -> None:
    (words,) = said(log_of(ward=WARD, visit=ROWS))
    assert "2,000 of 2,000 rows" in words and "'visit' looks like an identifier" in words
    assert "'ward'" not in words


def test_columns_that_differ_only_together_are_named_together() -> None:
    cells = RNG.permutation(2_500)[:2_000]
    (words,) = said(log_of(age=cells // 50, pulse=cells % 50))
    assert "age, pulse together differ in nearly every row" in words
    assert "surefoot discretize" in words and "identifier" not in words


def test_check_and_improve_say_it() -> None:
    log = log_of(visit=ROWS)
    assert "WARNING" in str(surefoot.check(log)) and said(log)[0] in str(surefoot.check(log))
    advice = surefoot.advise(log, gamma=0.9)
    assert not advice.supported and "'visit' looks like an identifier" in advice.explain()


# states x visits each, by chance: half of the rows stand alone below 0.69 visits a state
@pytest.mark.parametrize(
    ("states", "rows", "warned"),
    [(200, 2_000, False), (2_000, 2_000, False), (8_000, 2_000, True), (99, 99, False)],
)
def test_a_log_with_many_states_is_none_of_identifiers(
    states: int, rows: int, warned: bool
) -> None:
    assert bool(said(log_of(rows, s=RNG.integers(0, states, rows)))) == warned


@pytest.mark.slow
def test_five_thousand_states_of_ten_visits_and_long_tails_are_none() -> None:
    wide, tail = RNG.integers(0, 5_000, 50_000), np.minimum(RNG.zipf(1.2, 50_000), 10**9)
    assert not said(log_of(50_000, s=wide)) and not said(log_of(50_000, s=tail))
    mixed = np.where(RNG.random(50_000) < 0.45, 100 + np.arange(50_000), wide % 50)
    assert not said(log_of(50_000, s=mixed))
