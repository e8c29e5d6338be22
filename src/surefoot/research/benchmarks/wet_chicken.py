"""Wet Chicken: paddle close to the waterfall; falling takes you back to the start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from surefoot.core import Model, known_model
from surefoot.core.arrays import Array
from surefoot.core.errors import ParameterError
from surefoot.core.parameters import check_flag, check_number
from surefoot.problems import ReturnRange
from surefoot.research.benchmarks.benchmark import VALUE, check_whole
from surefoot.research.simulate.sampling import Episodes
from surefoot.research.simulate.worlds import Worlds, one_world

ACTIONS = ("drift", "hold", "paddle back", "left", "right")
MOVES = ((0, 0), (-1, 0), (-2, 0), (0, -1), (0, 1))  # (a_x, a_y)


@dataclass(frozen=True)
class WetChicken:
    """x' = round(x + a_x + v + b tau),  y' = y + a_y.

    v = max_velocity y / width,  b = turbulence - v,  tau ~ U(-1, 1). Past the fall (x' >= length)
    the boat is back at (0, 0); otherwise x' and y' are clipped to the river. The reward is the new
    x. Scholl et al. 2022, Section 5.2 (Hans & Udluft 2009), with the misprints of the paper
    corrected: the turbulence factor is b, y' follows from y, and y' is 0 below 0. State x * width +
    y, start (0, 0).

    The baseline steers to (2, 2) by a rule of thumb and takes a random action with probability
    epsilon. Its logs start at (0, 0). In the published code, which lets one boat drift from log to
    log, they start where it happens to be: `resets=False` draws that from where the baseline is in
    the long run. Policies are valued at (0, 0) in both.
    """

    name: ClassVar[str] = "wet-chicken"
    score: ClassVar[str] = VALUE
    sparse: ClassVar[bool] = False
    length: int = 5
    width: int = 5
    turbulence: float = 3.5
    max_velocity: float = 3.0
    epsilon: float = 0.1
    gamma: float = 0.95
    resets: bool = True

    def __post_init__(self) -> None:
        check_whole(self, "length", low=1)
        check_whole(self, "width", low=1)
        check_number(self, "epsilon", low=0, high=1)
        check_flag(self, "resets")
        check_number(self, "gamma", low=0, high=1, open_high=True)
        if not (self.turbulence < float("inf") and self.max_velocity >= 0):
            raise ParameterError(
                "wet-chicken: turbulence must be finite and max_velocity at least 0"
            )
        if not self.turbulence > self.max_velocity * (self.width - 1) / self.width:
            raise ParameterError(
                "wet-chicken: turbulence must exceed the fastest stream: else the river would not"
                " be random everywhere"
            )

    @property
    def n_states(self) -> int:
        """length * width."""
        return self.length * self.width

    @cached_property
    def p(self) -> np.ndarray:
        """P [S, A, S], exact: how much of [centre - b, centre + b] rounds to each x'."""
        p = np.zeros((self.n_states, len(ACTIONS), self.n_states))
        for s in range(self.n_states):
            x, y = divmod(s, self.width)
            velocity = self.max_velocity * y / self.width
            b = self.turbulence - velocity
            for a, (a_x, a_y) in enumerate(MOVES):
                centre = x + a_x + velocity
                # -1/2, 1/2, ..., length - 1/2
                edges = np.clip(np.arange(-0.5, self.length), centre - b, centre + b)
                share = np.diff(edges) / (2 * b)
                share[0] += (edges[0] - (centre - b)) / (2 * b)  # what rounds below 0 stays at 0
                to_y = min(max(y + a_y, 0), self.width - 1)
                p[s, a, np.arange(self.length) * self.width + to_y] += share
                p[s, a, 0] += (centre + b - edges[-1]) / (2 * b)  # over the fall
        return p

    @cached_property
    def reward_table(self) -> np.ndarray:
        """R [S, S']: the x of the next state."""
        arrival = np.arange(self.n_states) // self.width
        return np.broadcast_to(arrival.astype(float), (self.n_states, self.n_states))

    @cached_property
    def pi_b(self) -> np.ndarray:
        """Epsilon-greedy: back if too far out, else to the middle lane, there to (2, 2)."""
        choice = np.empty(self.n_states, dtype=int)
        for s in range(self.n_states):
            x, y = divmod(s, self.width)
            at_middle = ("drift", "hold", "paddle back")[min(x, 2)]
            name = "paddle back" if x > 2 else "right" if y < 2 else "left" if y > 2 else at_middle
            choice[s] = ACTIONS.index(name)
        return (1 - self.epsilon) * np.eye(len(ACTIONS))[choice] + self.epsilon / len(ACTIONS)

    @cached_property
    def model(self) -> Model:
        """The true MDP."""
        reward = self.reward_table[:, None, :] + np.zeros_like(self.p)
        return known_model(self.p, reward, self.gamma)

    @cached_property
    def long_run(self) -> np.ndarray:
        """Where the baseline is in the long run: d = d P_pi_b, [S]."""
        chain = np.einsum("sa,sat->st", self.pi_b, self.p)
        balance = np.vstack([chain.T - np.eye(self.n_states), np.ones(self.n_states)])
        found: np.ndarray = np.linalg.lstsq(balance, np.eye(len(balance))[-1], rcond=None)[0].clip(
            0
        )
        return found

    def episodes(self, size: int) -> Episodes:
        """One trajectory of `size` steps."""
        return Episodes(size, 1, size)

    def worlds(self, keys: Array) -> Worlds:
        """The one river that all trials share."""
        far = self.length - 1
        return one_world(
            keys,
            self.p,
            reward_table=self.reward_table[:, None, :],
            pi_b=self.pi_b,
            start=np.eye(self.n_states)[0],
            log_start=None if self.resets else self.long_run,
            gamma=self.gamma,
            reward_range=(0.0, float(far)),
            return_range=ReturnRange(0.0, far / (1 - self.gamma), declared=True),
        )
