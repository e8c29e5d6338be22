"""The stochastic gridworld of the SPIBB paper, at any size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from surefoot.core import SparseModel
from surefoot.core.arrays import Array
from surefoot.core.errors import ParameterError
from surefoot.core.parameters import check_number
from surefoot.planning import evaluate, optimal
from surefoot.problems import ReturnRange
from surefoot.research.benchmarks.benchmark import NORMALISED, check_whole
from surefoot.research.simulate.sampling import Episodes
from surefoot.research.simulate.worlds import LARGE, Worlds, listed_model, shared_world

ACTIONS = ("north", "east", "south", "west")
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))  # (dx, dy)
AHEAD, ASIDE, BACK = 0.75, 0.10, 0.05  # to each side: 0.10
SMALLEST = 1e-8  # value of the start below which values are too small to tell actions apart
CLOSE = 1e-6  # of beta: where the search for it ends


@dataclass(frozen=True)
class Gridworld:
    """size x size cells, four moves; reward 1 on entering the far corner, where the episode ends.

    Laroche et al. 2019, Section 3.1, as in their published code: a move goes where it should with
    probability 0.75, to each side with 0.10, back with 0.05; who would cross a wall stays. State x
    + size y; start (0, 0), goal (size - 1, size - 1). With m = size // 2 (of 5: 2), one wall stands
    between the columns m and m + 1 in the rows 0, ..., m, another between m + 1 and m + 2 in the
    rows m and m + 1. An episode is cut after `horizon` steps, 10 size if not given (of 5: 50).

    The published baseline is the softmax of a table that comes with their code; how it was made is
    not said. This one is our own: pi_b(a|s) ~ q*(s, a)^beta, the softmax of ln q*, which is as
    decided far from the goal as near it. beta is such that its performance is V_u + eta (V* - V_u),
    V_u that of the uniform policy.

    From 300 states on (size 18) counts are sparse. A large grid needs gamma nearer to 1.
    """

    name: ClassVar[str] = "gridworld"
    score: ClassVar[str] = NORMALISED
    size: int = 5
    eta: float = 0.5
    gamma: float = 0.95
    horizon: int | None = None

    def __post_init__(self) -> None:
        check_whole(self, "size", low=2)
        check_number(self, "eta", low=0, high=1, open_high=True)
        check_number(self, "gamma", low=0, high=1, open_high=True)
        if self.horizon is not None:
            check_whole(self, "horizon", low=1)

    @property
    def sparse(self) -> bool:
        """Whether the grid is large."""
        return self.size**2 >= LARGE

    def episodes(self, size: int) -> Episodes:
        """`size` trajectories of at most `horizon` steps."""
        return Episodes(size, size, 10 * self.size if self.horizon is None else self.horizon)

    def worlds(self, keys: Array) -> Worlds:
        """The one grid that all trials share."""
        n_states = self.size**2
        successor, probability = _steps(self.size)
        return shared_world(
            keys,
            successor,
            probability,
            reward_table=_reward(n_states),
            pi_b=_baseline(self),
            start=np.eye(1, n_states)[0],
            terminal_states=(n_states - 1,),
            gamma=self.gamma,
            reward_range=(0.0, 1.0),
            return_range=ReturnRange(0.0, 1.0, declared=True),
        )


def _steps(size: int) -> tuple[np.ndarray, np.ndarray]:
    """successor and probability [S, 4, 4]: where each action leads, by the move that happens."""
    y, x = np.divmod(np.arange(size**2), size)
    middle = size // 2
    wall = np.zeros((size, size), dtype=bool)  # [x, y]: between x and x + 1
    wall[-1] = True
    wall[middle : middle + 1, : middle + 1] = True
    wall[middle + 1 : middle + 2, middle : middle + 2] = True
    to = []
    for dx, dy in MOVES:
        inside = (x + dx >= 0) & (x + dx < size) & (y + dy >= 0) & (y + dy < size)
        free = inside & ~((dx != 0) & wall[np.minimum(x, x + dx), y])
        to.append(np.where(free, x + dx + size * (y + dy), x + size * y))
    turn = (np.arange(4)[None, :] - np.arange(4)[:, None]) % 4  # of the move from the action
    chance = np.array([AHEAD, ASIDE, BACK, ASIDE])[turn]
    shape = (size**2, 4, 4)
    successor = np.broadcast_to(np.stack(to, axis=-1)[:, None, :], shape)
    return successor, np.broadcast_to(chance, shape)


def _reward(n_states: int) -> np.ndarray:
    """[1, 1, S']: 1 for arriving in the goal."""
    return np.eye(1, n_states, n_states - 1)[None]


@lru_cache(maxsize=4)
def _baseline(grid: Gridworld) -> np.ndarray:
    """pi_b [S, 4]: beta by doubling, then bisection."""
    n_states = grid.size**2
    model = listed_model(*_steps(grid.size), _reward(n_states), [n_states - 1], grid.gamma)
    q = optimal(model).q
    best = float(q[0].max())
    if not best > SMALLEST:
        raise ParameterError(
            f"gridworld: gamma {grid.gamma:g} is too small for size {grid.size}: from the start the"
            f" goal is worth {best:.1g}; give a gamma nearer to 1"
        )
    rise = np.log(np.maximum(q, SMALLEST * best))
    rise -= rise.max(axis=1, keepdims=True)

    def softmax(beta: float) -> np.ndarray:
        weights: np.ndarray = np.exp(beta * rise)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    lowest = _value(model, softmax(0.0))
    target = lowest + grid.eta * (best - lowest)
    low, high = 0.0, 1.0
    while _value(model, softmax(high)) < target:
        low, high = high, 2 * high
    while high - low > CLOSE * high:
        beta = (low + high) / 2
        low, high = (beta, high) if _value(model, softmax(beta)) < target else (low, beta)
    return softmax(low if grid.eta == 0 else high)


def _value(model: SparseModel, pi: np.ndarray) -> float:
    """At the start."""
    return float(evaluate(model, pi[None])[0, 0])
