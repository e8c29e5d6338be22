"""Logs of a Wet Chicken river for the tests of diagnosis: as it is, with hidden memory, or
changing half-way.
"""

from __future__ import annotations

import numpy as np

from surefoot.research.benchmarks import WetChicken
from surefoot.research.benchmarks.wet_chicken import MOVES


def river_log(
    rng: np.random.Generator, steps: int, repeat: float = 0.0, change: float = 0.0
) -> dict[str, np.ndarray]:
    """One episode under the rule of thumb; the turbulence is that of the step before with
    probability `repeat`.

    In the second half the stream is faster by `change`.
    """
    river = WetChicken()
    tau = rng.uniform(-1, 1, steps)
    again = rng.random(steps) < repeat
    action = [rng.choice(5, size=steps, p=row) for row in river.pi_b]
    x = y = 0
    rows = []
    for t in range(steps):
        if t and again[t]:
            tau[t] = tau[t - 1]
        s = x * river.width + y
        a = action[s][t]
        velocity = river.max_velocity * y / river.width
        stream = velocity + (change if 2 * t >= steps else 0.0)
        to_x = int(
            np.floor(x + MOVES[a][0] + stream + (river.turbulence - velocity) * tau[t] + 0.5)
        )
        to_y = min(max(y + MOVES[a][1], 0), river.width - 1)
        x, y = (0, 0) if to_x >= river.length else (max(to_x, 0), to_y)
        rows.append((s, a, x))
    state, taken, reward = np.array(rows).T
    return {
        "episode": np.zeros(steps, dtype=int),
        "time": np.arange(steps),
        "state": state,
        "action": taken,
        "reward": reward.astype(float),
    }
