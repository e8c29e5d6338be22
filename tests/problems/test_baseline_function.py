"""A baseline given as a function of the state: as the same probabilities given as an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.core.errors import BaselineError

STEPS = {
    "episode": [0, 0, 0, 1, 1, 1, 1],
    "ward": ["a", "b", "a", "b", "a", "c", "a"],
    "grade": [1, 2, 1, 2, 1, 3, 1],
    "action": ["x", "y", "z", "x", "y", "z", "x"],
    "reward": [0.0, 1.0, 0.5, 0.0, 1.0, 0.5, 1.0],
    "terminal": [False, False, True, False, False, False, True],
}
PI = {("a", 1): [0.5, 0.25, 0.25], ("b", 2): [0.5, 0.5, 0.0], ("c", 3): [0.0, 0.0, 1.0]}


def posed(pi_b: Any) -> surefoot.Problem:
    return surefoot.problem(STEPS, gamma=0.9, pi_b=pi_b, state="ward,grade", reward_range=(0, 1))


@pytest.mark.parametrize(
    "function",
    [
        lambda s: PI[s],
        lambda s: np.array(PI[s]),
        lambda s: {a: p for a, p in zip("xyz", PI[s], strict=True) if p},
        lambda s: {"none": 0.0} | dict(zip("zyx", PI[s][::-1], strict=True)),
    ],
)
def test_a_function_of_the_label_is_the_table_of_its_values(function: Callable[..., Any]) -> None:
    problem = posed(function)
    acting = [list(problem.labels.states).index(s) for s in PI]
    assert np.asarray(problem.pi_b)[acting].tolist() == list(PI.values())
    assert not problem.pi_b_estimated


def test_states_in_which_nobody_acts_are_not_asked_about() -> None:
    asked = []
    posed(lambda s: asked.append(s) or PI[s])
    assert asked == [("a", 1), ("b", 2), ("c", 3)]


def test_arrays_have_ids_for_labels() -> None:
    given = {"state": [0, 1, 0], "action": [0, 1, 2], "reward": [0.0, 1.0, 0.0], "episode": [0] * 3}
    problem = surefoot.problem(
        **given,
        next_state=[1, 0, 0],
        gamma=0.5,
        pi_b=lambda s: {0: 0.2, 1: 0.2 + 0.1 * s, 2: 0.6 - 0.1 * s},
    )
    assert np.asarray(problem.pi_b) == pytest.approx(np.array([[0.2, 0.2, 0.6], [0.2, 0.3, 0.5]]))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda s: 1 / 0, r"fails in state 'a, 1': ZeroDivisionError"),
        (lambda s: {"x": 0.5}, r"in state 'a, 1', returned probabilities that sum to 0.5, not 1"),
        (lambda s: {"x": 0.5, "w": 0.5}, "action 'w' is not in the log; .*actions="),
        (lambda s: {"x": -0.5, "y": 1.5}, "must return probabilities, got -0.5"),
        (lambda s: {"x": float("nan")}, "must return probabilities, got nan"),
        (lambda s: {"x": "much"}, "must return probabilities, got 'much'"),
        (lambda s: [0.5, 0.5], r"must return 3 probabilities.*the shape \[2\]"),
        (lambda s: "x", r"must return \{action: probability\}.*always takes an action returns"),
        (lambda s: None, "got None"),
    ],
)
def test_what_a_function_returns_is_checked_and_the_state_is_named(
    function: Callable[..., Any], words: str
) -> None:
    with pytest.raises(BaselineError, match=words):
        posed(function)


RAW = {
    "episode": [0, 0, 0, 0, 1, 1],
    "state": ["a", "a", "b", "a", "b", "a"],
    "pulse": ["60", "80", "60", None, "90", "60"],
    "action": ["x", "y", "x", "x", "y", "y"],
    "reward": [0.0, 1.0, 0.5, 0.0, 1.0, 0.5],
    "terminal": [False, False, False, True, False, True],
}


def by_pulse(row: Any) -> dict[str, float]:
    share = 0.5 if row["pulse"] is None else row["pulse"] / 100
    return {"x": share, "y": 1 - share}


def test_a_function_of_raw_rows_is_averaged_over_the_rows_of_each_state_and_is_an_estimate() -> (
    None
):
    problem = surefoot.problem(RAW, gamma=0.9, pi_b=surefoot.OfRows(by_pulse, ["pulse"]))
    a, b = (0.6 + 0.8 + 0.5 + 0.6) / 4, (0.6 + 0.9) / 2
    expected = np.array([[a, 1 - a], [b, 1 - b]])
    assert np.asarray(problem.pi_b)[:2] == pytest.approx(expected)
    assert problem.pi_b_estimated
    assert any("a function of more than the state" in x for x in problem.notes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: surefoot.OfRows(by_pulse, "pulse"), r"such as OfRows\(rule, \['pulse', 'age'\]\)"),
        (lambda: surefoot.OfRows(by_pulse, []), "takes a function and the columns"),
        (lambda: surefoot.OfRows(None, ["pulse"]), "takes a function and the columns"),
        (lambda: surefoot.OfRows(by_pulse, ["puls"]), "no column 'puls'.*'pulse'"),
        (
            lambda: surefoot.OfRows(lambda row: {"x": 0.1}, ["pulse"]),
            r"row \{'pulse': 60\}, returned",
        ),
        (lambda: surefoot.OfRows(lambda row: row["age"], ["pulse"]), "fails: KeyError: 'age'"),
    ],
)
def test_a_function_of_raw_rows_that_is_none_is_refused(make: Any, words: str) -> None:
    with pytest.raises(surefoot.SurefootError, match=words):
        surefoot.problem(RAW, gamma=0.9, pi_b=make())


def test_a_log_that_was_read_has_no_raw_rows() -> None:
    with pytest.raises(surefoot.ProblemError, match="a Log has no raw rows"):
        surefoot.problem(
            surefoot.read_log(RAW), gamma=0.9, pi_b=surefoot.OfRows(by_pulse, ["pulse"])
        )
