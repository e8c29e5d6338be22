"""CartPole with noisy actuation: a pole on a cart whose pushes sometimes go the other way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.core.parameters import check_number
from surefoot.research.benchmarks.continuous import explored

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TIME_STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FURTHEST, STEEPEST = 2.4, 12 * np.pi / 180  # beyond these an episode ends


@dataclass(frozen=True)
class CartPole:
    """The equations of motion of Barto, Sutton & Anderson 1983 in Euler steps of 0.02 s, with the
    constants of Gymnasium's CartPole-v1.

    A push of 10 N goes the other way with probability `noise`. The reward is 1 a step, until the
    cart is beyond 2.4 or the pole beyond 12 degrees. The baseline pushes to where the pole leans,
    whatever its speed, and takes a random action with probability epsilon.
    """

    name: ClassVar[str] = "cart-pole"
    features: ClassVar[tuple[str, ...]] = ("position", "speed", "angle", "turning")
    actions: ClassVar[tuple[str, ...]] = ("left", "right")
    noise: float = 0.1
    epsilon: float = 0.2
    gamma: float = 0.99

    def __post_init__(self) -> None:
        check_number(self, "noise", low=0, high=1)
        check_number(self, "epsilon", low=0, high=1)
        check_number(self, "gamma", low=0, high=1, open_high=True)

    @property
    def reward_range(self) -> tuple[float, float]:
        """(0, 1): after the end there is nothing."""
        return 0.0, 1.0

    def reset(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """All four numbers within 0.05 of 0."""
        return rng.uniform(-0.05, 0.05, (n, 4))

    def step(
        self, rng: np.random.Generator, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One Euler step."""
        flipped = rng.random(len(state)) < self.noise
        force = FORCE * np.where((action == 1) ^ flipped, 1.0, -1.0)
        _, speed, angle, turning = state.T
        total, moment = CART + POLE, POLE * HALF_LENGTH
        pushed = (force + moment * turning**2 * np.sin(angle)) / total
        lever = HALF_LENGTH * (4 / 3 - POLE * np.cos(angle) ** 2 / total)
        spin = (GRAVITY * np.sin(angle) - np.cos(angle) * pushed) / lever
        change = np.stack(
            [speed, pushed - moment * spin * np.cos(angle) / total, turning, spin], axis=1
        )
        there = state + TIME_STEP * change
        over = (np.abs(there[:, 0]) > FURTHEST) | (np.abs(there[:, 2]) > STEEPEST)
        return there, np.ones(len(state)), over

    def baseline(self, x: np.ndarray) -> np.ndarray:
        """Push to where the pole leans."""
        return explored((x[:, 2] > 0).astype(int), 2, self.epsilon)
