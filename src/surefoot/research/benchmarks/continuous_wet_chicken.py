"""Wet Chicken without rounding: the river of the paper as its authors first had it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.core.errors import ParameterError
from surefoot.core.parameters import check_number
from surefoot.research.benchmarks.continuous import explored

MOVES = np.array([(0, 0), (-1, 0), (-2, 0), (0, 1), (0, -1)], dtype=float)  # (a_x, a_y)


@dataclass(frozen=True)
class ContinuousWetChicken:
    """x' = x + a_x + v + b tau,  y' = y + a_y.

    v = max_velocity y / width,  b = turbulence - v,  tau ~ U(-1, 1). Past the fall (x' > length)
    the boat is back at (0, 0); otherwise x' and y' are clipped to [0, length] and [0, width]. The
    reward is the new x. Scholl et al. 2022, Section 5.2, before rounding (Hans & Udluft 2009).

    The baseline is the heuristic of `WetChicken`, with x rounded and y rounded down: it steers to
    the lane between y = 2 and 3, there to x = 2, and takes a random action with probability
    epsilon. The river has no end.
    """

    name: ClassVar[str] = "continuous-wet-chicken"
    features: ClassVar[tuple[str, ...]] = ("x", "y")
    actions: ClassVar[tuple[str, ...]] = ("drift", "hold", "paddle back", "right", "left")
    length: float = 5.0
    width: float = 5.0
    turbulence: float = 3.5
    max_velocity: float = 3.0
    epsilon: float = 0.1
    gamma: float = 0.95

    def __post_init__(self) -> None:
        check_number(self, "epsilon", low=0, high=1)
        check_number(self, "gamma", low=0, high=1, open_high=True)
        check_number(self, "length", low=0, open_low=True, finite=True)
        check_number(self, "width", low=0, open_low=True, finite=True)
        if not 0 <= self.max_velocity < self.turbulence < float("inf"):
            raise ParameterError(
                f"{self.name}: turbulence must be finite and exceed max_velocity, which must be at"
                " least 0: else the river would not be random everywhere"
            )

    @property
    def reward_range(self) -> tuple[float, float]:
        """(0, length)."""
        return 0.0, self.length

    def reset(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """All boats at (0, 0)."""
        return np.zeros((n, 2))

    def step(
        self, rng: np.random.Generator, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The river, see above."""
        v = self.max_velocity * state[:, 1] / self.width
        there = state + MOVES[action]
        there[:, 0] += v + (self.turbulence - v) * rng.uniform(-1, 1, len(state))
        fell = there[:, 0] > self.length
        there = np.clip(there, 0, (self.length, self.width))
        there[fell] = 0.0
        return there, there[:, 0].copy(), np.zeros(len(state), dtype=bool)

    def baseline(self, x: np.ndarray) -> np.ndarray:
        """Back off near the fall, else to the middle lane, there to (2, 2)."""
        back, right, left = x[:, 0] > 2.5, x[:, 1] < 2, x[:, 1] > 3
        middle = np.select([x[:, 0] > 1.5, x[:, 0] > 0.5], [2, 1], 0)
        return explored(np.select([back, right, left], [2, 3, 4], middle), 5, self.epsilon)
