"""Logs whose rows contradict each other: noted, and refused where whole episodes are needed."""

from __future__ import annotations

from typing import Any

import pytest

import surefoot
from surefoot import LogError

# A log whose rows contradict each other: row 0 leads to state 2, row 1 is in state 1.
BROKEN: dict[str, Any] = {
    "state": [0, 1, 0],
    "action": [0, 1, 1],
    "reward": [0.0, 1.0, 2.0],
    "next_state": [2, 0, 1],
    "episode": [0, 0, 0],
    "n_states": 3,
    "gamma": 0.9,
}


def test_contradicting_rows_are_noted_and_counted() -> None:
    problem = surefoot.problem(**BROKEN)
    assert any(
        "name a next state that is not the state of the following row" in note
        for note in problem.notes
    )
    assert problem.n_sa.sum() == 3
    solution = surefoot.improve(problem, surefoot.algorithm("exact-soft-spibb", epsilon=1, delta=1))
    assert any("following row" in note for note in solution.notes)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("one-step+exact-soft-spibb", {"epsilon": 1, "delta": 1}),
        ("adv-approx-soft-spibb", {"epsilon": 1, "delta": 1}),
        ("exact-soft-spibb", {"epsilon": 1, "delta": 1, "error": "mpeb"}),
    ],
)
def test_contradicting_rows_are_refused_where_returns_are_needed(
    name: str, parameters: dict[str, Any]
) -> None:
    problem = surefoot.problem(**BROKEN)
    with pytest.raises(LogError, match="Monte-Carlo returns need whole episodes"):
        surefoot.improve(problem, surefoot.algorithm(name, **parameters))
