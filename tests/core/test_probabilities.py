"""What is no probability, no count and no scale is refused where it comes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import surefoot
from support import logfiles
from surefoot import Policy, SurefootError
from surefoot.core.model import known_model
from surefoot.planning import error_function, evaluate_at_start
from surefoot.problems.given import estimate_baseline

NAN = float("nan")
NO_ROWS: list[Any] = [[NAN, 1.0], [-0.5, 1.5], [0.5, 0.3], [0.7, 0.7], [2.0, -1.0]]
GOOD = np.array([[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]])


def with_row(row: list[float]) -> np.ndarray:
    return np.array([GOOD[0], row, GOOD[2]])


def model() -> Any:
    return known_model(np.full((3, 2, 3), 1 / 3), np.ones((3, 2)), 0.9)


@pytest.mark.parametrize("row", NO_ROWS)
@pytest.mark.parametrize("field", ["pi", "baseline"])
def test_a_policy_holds_probabilities_alone(row: list[float], field: str) -> None:
    with pytest.raises(surefoot.PolicyError, match=f"each row of {field} must hold probabilities"):
        Policy(**({"pi": GOOD} | {field: with_row(row)}))


def test_a_policy_takes_rounding_below_zero_for_zero() -> None:
    assert Policy(pi=with_row([-1e-17, 1.0])).pi[1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("row", NO_ROWS)
def test_a_policy_that_is_none_is_not_evaluated(row: list[float]) -> None:
    with pytest.raises(surefoot.ProblemError, match="each row of pi must hold probabilities"):
        surefoot.evaluate(model(), with_row(row))


@pytest.mark.parametrize("start", [[NAN, 1.0, 0.0], [0.5, 0.2, 0.1], [2.0, -1.0, 0.0]])
def test_a_start_that_is_no_distribution_is_refused(start: list[float]) -> None:
    with pytest.raises(surefoot.ProblemError, match="each row of start"):
        evaluate_at_start(model(), GOOD, np.array(start))


@pytest.mark.parametrize("row", NO_ROWS)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_known_model_has_probabilities_alone(row: list[float], form: str) -> None:
    p = np.array([[[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]], [row, [0.5, 0.5], [1.0, 0.0]]])
    given = p if form == "dense" else sparse.csr_array(p.reshape(6, 2))
    with pytest.raises(surefoot.ProblemError, match=r"row of p must hold|p must hold finite"):
        known_model(given, np.ones((2, 3)), 0.9)


def test_what_a_known_model_says_of_terminal_states_is_not_looked_at() -> None:
    p = np.array([[[0.5, 0.5]], [[7.0, 7.0]]])
    assert surefoot.evaluate(known_model(p, np.ones((2, 1)), 0.5, [1]), np.ones((2, 1)))[1] == 0


def test_a_sparse_model_refuses_rewards_that_are_not_finite() -> None:
    with pytest.raises(surefoot.ProblemError, match="r must be finite"):
        known_model(sparse.csr_array(np.eye(2)), np.array([[1.0], [NAN]]), 0.9)


@pytest.mark.parametrize("wrong", [NAN, -1.0, np.inf])
def test_a_baseline_is_estimated_from_counts_alone(wrong: float) -> None:
    with pytest.raises(surefoot.ProblemError, match="n_sa must hold finite numbers >= 0"):
        estimate_baseline(np.array([[1.0, 2.0], [wrong, 3.0]]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta": NAN},
        {"delta": 0.0},
        {"delta": -0.1},
        {"delta": 1.5},
        {"g_max": NAN},
        {"g_max": -1.0},
        {"n": -1.0},
        {"n": NAN},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["hoeffding", "mpeb"])
def test_an_error_function_refuses_what_is_no_size(
    tmp_path: Path, wrong: dict[str, Any], name: str
) -> None:
    log = surefoot.read_log(logfiles.good_log(tmp_path))
    problem = log.problem(0.9, return_range=(-10, 10), needs_returns=True)
    given = {"delta": 0.05} | wrong
    if "n" in wrong:
        given["n"] = np.full(problem.n_sa.shape, wrong["n"])
    with pytest.raises(SurefootError, match=f"{next(iter(wrong))} must"):
        error_function(problem, name, **given)
