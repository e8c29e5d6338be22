"""Problem: what an algorithm may know, checked at the door, with every assumption noted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot
from support.small_problem import ENDED, PI_B, A, S, mask, message, problem, with_row
from surefoot import BaselineError, LogError, ProblemError

# The baseline


def test_a_given_baseline_is_taken_as_it_is() -> None:
    found = problem(pi_b=PI_B)
    assert (found.pi_b == PI_B).all()
    assert not found.pi_b_estimated
    assert not any("baseline" in note for note in found.notes)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([0.5, 0.25, 0.2], "sum 0.95"),
        ([0.5, 0.6, -0.1], "-0.1"),
        ([0.0, 0.0, 0.0], "sum 0 "),
        ([1.0, 1.0, 1.0], "sum 3"),
    ],
)
def test_a_row_that_is_no_probability_row_is_located(row: list[float], said: str) -> None:
    text = message(BaselineError, pi_b=with_row(2, row))
    assert "must hold probabilities that sum to 1" in text
    assert "state 2" in text
    assert said in text
    assert "1 such rows" in text


@pytest.mark.parametrize(
    "row", [[0.5, np.nan, 0.5], [0.5, np.inf, 0.5], [0.5, -np.inf, np.inf], [0.0, 1e308, 1e308]]
)
def test_a_probability_that_is_not_finite_is_located(row: list[float]) -> None:
    text = message(BaselineError, pi_b=with_row(2, row))
    assert f"action 1 of state 2 has {row[1]}" in text


@pytest.mark.parametrize(
    "shape", [(S + 1, A), (S - 1, A), (S, A + 1), (S, A - 1), (A, S), (S * A,), (1, S, A), ()]
)
def test_a_baseline_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    text = message(BaselineError, pi_b=np.full(shape, 1 / A))
    assert "pi_b must be [S, A]" in text


@pytest.mark.parametrize(
    "bad", ["uniform", [["a"] * A] * S, [[1.0], [0.5, 0.5]], PI_B.astype(complex), PI_B.astype(str)]
)
def test_a_baseline_that_holds_no_numbers_is_refused(bad: Any) -> None:
    assert "pi_b" in message(BaselineError, pi_b=bad)


def test_sizes_come_from_the_baseline_where_they_are_not_given() -> None:
    found = problem(pi_b=PI_B, n_states=None, n_actions=None)
    assert (found.n_states, found.n_actions) == (S, A)


def test_a_forbidden_action_in_the_baseline_is_located() -> None:
    text = message(BaselineError, pi_b=PI_B, allowed=mask((2, 1), (3, 0)))
    assert "2 actions that are not allowed, first action 1 in state 2 with probability 0.3" in text
    assert 'masked_baseline="renormalise"' in text


def test_a_forbidden_action_of_probability_0_is_fine() -> None:
    assert (problem(pi_b=PI_B, allowed=mask((1, 0), (2, 2))).pi_b == PI_B).all()


def test_renormalising_takes_forbidden_actions_out_and_says_so() -> None:
    found = problem(pi_b=PI_B, allowed=mask((2, 1), (3, 0)), masked_baseline="renormalise")
    assert np.allclose(
        found.pi_b, [PI_B[0], PI_B[1], [1, 0, 0], [0, 0.375, 0.625]], rtol=0, atol=1e-15
    )
    assert any(
        "forbidden actions in 2 states (up to 30.0% of a row)" in note for note in found.notes
    )


def test_renormalising_leaves_rows_without_forbidden_actions_alone() -> None:
    found = problem(pi_b=PI_B, allowed=mask((2, 1)), masked_baseline="renormalise")
    assert (found.pi_b[[0, 1, 3]] == PI_B[[0, 1, 3]]).all()


@pytest.mark.parametrize("row", [[0.3, 0.3, 0.1], [0.6, 0.6, -0.2], [0.0, np.nan, 0.5]])
def test_renormalising_mends_no_row_that_was_wrong_before(row: list[float]) -> None:
    text = message(
        BaselineError,
        pi_b=with_row(2, row),
        allowed=mask((2, 2), (3, 0)),
        masked_baseline="renormalise",
    )
    assert "state 2" in text


def test_a_baseline_of_forbidden_actions_only_cannot_be_renormalised() -> None:
    text = message(BaselineError, pi_b=PI_B, allowed=mask((1, 1)), masked_baseline="renormalise")
    assert "state 1: the baseline uses forbidden actions only" in text


def test_rows_of_terminal_states_may_be_zero() -> None:
    found = surefoot.problem(**ENDED, pi_b=with_row(3, [0, 0, 0]))
    assert (found.pi_b[:3] == PI_B[:3]).all()
    assert found.pi_b[3].sum() == pytest.approx(1)


def test_the_extra_state_needs_no_row_in_the_baseline_the_mask_or_the_start() -> None:
    found = surefoot.problem(
        **{**ENDED, "next_state": [1, 2, 0, 1, -1]},
        pi_b=PI_B,
        allowed=mask((1, 0)),
        start=[0.5, 0.5, 0, 0],
    )
    assert found.pi_b.shape == found.allowed.shape == (S + 1, A)
    assert found.start.tolist() == [0.5, 0.5, 0, 0, 0]


def test_logged_actions_the_baseline_never_takes_are_noted() -> None:
    found = problem(pi_b=with_row(1, [0.5, 0.0, 0.5]))
    assert any("2 logged actions have probability 0" in note for note in found.notes)


# The estimated baseline


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_an_estimated_baseline_is_the_share_of_each_action(seed: int) -> None:
    n_sa = np.random.default_rng(seed).integers(0, 3, (S, A)).astype(float)
    pi_b = surefoot.estimate_baseline(n_sa)
    for s in range(S):
        total = n_sa[s].sum()
        wanted = n_sa[s] / total if total else np.full(A, 1 / A)
        assert np.allclose(pi_b[s], wanted, rtol=0, atol=1e-15)


def test_an_estimated_baseline_is_marked_and_noted() -> None:
    found = problem()
    assert found.pi_b_estimated
    assert any("baseline is estimated" in note for note in found.notes)
    assert np.allclose(found.pi_b, [[0.5, 0, 0.5], [0, 1, 0], [1, 0, 0], [1 / 3] * 3])


def test_an_estimated_baseline_is_uniform_over_allowed_actions_where_nobody_was() -> None:
    assert problem(allowed=mask((3, 1))).pi_b[3].tolist() == [0.5, 0, 0.5]


def test_estimating_without_an_allowed_action_is_refused() -> None:
    with pytest.raises(ProblemError, match="allowed action"):
        surefoot.estimate_baseline(np.ones((S, A)), mask((1, 0), (1, 1), (1, 2)))


# The mask


@pytest.mark.parametrize(
    "bad",
    [np.ones((S, A), dtype=int), np.ones((S, A)), "all", [[None] * A] * S, np.ones((S, A)) * 1j],
)
def test_a_mask_that_is_not_boolean_is_refused(bad: Any) -> None:
    assert "allowed must be a boolean mask [S, A]" in message(ProblemError, allowed=bad)


@pytest.mark.parametrize("shape", [(A, S), (S + 1, A), (S,), (1, S, A)])
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    assert "allowed must be [S, A] = [4, 3]" in message(
        ProblemError, allowed=np.ones(shape, dtype=bool)
    )


def test_a_state_without_an_allowed_action_is_located() -> None:
    text = message(ProblemError, allowed=mask((3, 0), (3, 1), (3, 2)))
    assert "state 3 has no allowed action (1 such states)" in text


def test_a_terminal_state_needs_no_allowed_action() -> None:
    found = surefoot.problem(**ENDED, allowed=mask((3, 0), (3, 1), (3, 2)))
    assert found.terminal[3]


def test_a_log_that_takes_forbidden_actions_is_located() -> None:
    text = message(LogError, allowed=mask((1, 1)))
    assert "1 pairs that are not allowed, first action 1 in state 1 (2 times)" in text


def test_forbidden_logged_actions_stay_in_the_counts_if_asked() -> None:
    found = problem(allowed=mask((0, 2)), masked_baseline="renormalise")
    assert found.n_sa[0, 2] == 1
    assert found.pi_b[0].tolist() == [1, 0, 0]
    assert not found.may_rise[0, 2]


# The start


def test_the_default_start_is_where_episodes_started() -> None:
    found = problem(episode=[0, 1, 1, 2, 2])
    assert np.allclose(found.start, [2 / 3, 1 / 3, 0, 0])


@pytest.mark.parametrize("start", [2, 2.0, np.int64(2), np.array(2), [0, 0, 1, 0]])
def test_a_start_may_be_a_state_or_a_distribution(start: Any) -> None:
    assert problem(start=start).start.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("bad", [-1, 4, 0.5, np.nan, np.inf, "a", 1j, {}])
def test_a_start_that_is_no_state_is_refused(bad: Any) -> None:
    assert "start must" in message(ProblemError, start=bad)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([0.5, 0.5, 0.5, 0], "sum 1.5"),
        ([1.5, -0.5, 0, 0], "state 1 has -0.5"),
        ([np.nan, 1, 0, 0], "state 0 has nan"),
        ([np.nan] * 4, "4 such states"),
        ([1, 0, 0], "(3,)"),
        ([[1, 0, 0, 0]], "(1, 4)"),
    ],
)
def test_a_start_that_is_no_distribution_is_refused(bad: Any, said: str) -> None:
    assert said in message(ProblemError, start=bad)


def test_a_single_start_state_needs_no_matrix() -> None:
    n = 200_000  # [S, S] would be 320 GB
    found = problem(n_states=n, start=1)
    assert found.start[1] == 1
    assert found.start.sum() == 1
