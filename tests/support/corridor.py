"""A corridor to one decision: what is gained there is gained later than at the start."""

from __future__ import annotations

import numpy as np

import surefoot


def corridor(episodes: int, **options: object) -> surefoot.Problem:
    """Two steps to a decision in state 2, then the end: action 0 pays 0, action 1 pays 1."""
    action = np.stack([np.zeros(episodes), np.zeros(episodes), np.arange(episodes) % 2], axis=1)
    rows = {
        "state": np.tile([0, 1, 2], episodes),
        "action": action.reshape(-1).astype(int),
        "reward": 1.0 * (action.reshape(-1) == 1),
        "next_state": np.tile([1, 2, 3], episodes),
        "episode": np.repeat(np.arange(episodes), 3),
        "pi_b": np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]),
        "gamma": 0.9,
        "terminal_states": [3],
        "return_range": (0, 1),
        "start": 0,
    }
    return surefoot.problem(**{**rows, **options})  # type: ignore[arg-type]
