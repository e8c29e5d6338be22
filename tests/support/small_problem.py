"""A log of five rows over four states and three actions, and what `surefoot.problem` says to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot

S, A = 4, 3
# One episode of 5 steps over states 0..2 (state 3 is never seen), cut at its end; actions 0..2.
LOG: dict[str, Any] = {
    "state": [0, 1, 2, 0, 1],
    "action": [0, 1, 0, 2, 1],
    "reward": [1.0, -2.0, 0.5, 3.0, 0.0],
    "next_state": [1, 2, 0, 1, 0],
    "episode": [0, 0, 0, 0, 0],
    "n_states": S,
    "n_actions": A,
    "gamma": 0.9,
}
PI_B = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.7, 0.3, 0.0], [0.2, 0.3, 0.5]])
# The same with an end: state 3 is terminal.
ENDED: dict[str, Any] = {
    **LOG, "state": [0, 1, 2, 0, 1], "next_state": [1, 2, 0, 1, 3], "terminal": [0, 0, 0, 0, 1],
}  # fmt: skip


def problem(**changes: Any) -> surefoot.Problem:
    """The problem of LOG with these changes."""
    return surefoot.problem(**{**LOG, **changes})


def message(error: type[Exception], **changes: Any) -> str:
    """What the error says that LOG with these changes raises."""
    with pytest.raises(error) as caught:
        problem(**changes)
    return str(caught.value)


def with_row(s: int, row: list[float]) -> np.ndarray:
    """PI_B with another row."""
    pi_b = PI_B.copy()
    pi_b[s] = row
    return pi_b


def mask(*forbidden: tuple[int, int]) -> np.ndarray:
    """All pairs are allowed but these."""
    allowed = np.ones((S, A), dtype=bool)
    for s, a in forbidden:
        allowed[s, a] = False
    return allowed
