"""Gymnasium's toy-text environments (FrozenLake, Taxi, CliffWalking, ...) by their table P."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from surefoot.core import known_model
from surefoot.core.arrays import Array
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import check_number
from surefoot.planning import optimal
from surefoot.problems import return_range
from surefoot.research.benchmarks.benchmark import NORMALISED, check_whole
from surefoot.research.simulate.sampling import Episodes
from surefoot.research.simulate.worlds import Worlds, one_world


@dataclass(frozen=True)
class ToyText:
    """Any environment with a start distribution and a table P.

    `env.unwrapped.P[s][a] = [(probability, s', reward, terminated), ...]`. The baseline follows an
    optimal policy but for a share `epsilon` of random actions. A state entered with `terminated`
    ends the episode; several rewards of one (s, a, s') are averaged. `mask=True` allows the actions
    of the environment's `action_mask` only.
    """

    name: ClassVar[str] = "toy-text"
    score: ClassVar[str] = NORMALISED
    sparse: ClassVar[bool] = False
    environment: str = "FrozenLake-v1"
    epsilon: float = 0.5
    gamma: float = 0.95
    max_steps: int = 100
    mask: bool = False

    def __post_init__(self) -> None:
        check_number(self, "epsilon", low=0, high=1)
        check_number(self, "gamma", low=0, high=1, open_high=True)
        check_whole(self, "max_steps", low=1)

    def episodes(self, size: int) -> Episodes:
        """`size` episodes of at most `max_steps` steps."""
        return Episodes(size, size, self.max_steps)

    @cached_property
    def _environment(self) -> Any:
        try:
            import gymnasium
        except ImportError as error:
            raise NotAvailableError(
                "toy-text needs Gymnasium: pip install 'surefoot[gymnasium]'"
            ) from error
        try:
            found = gymnasium.make(self.environment).unwrapped
        except (gymnasium.error.Error, ImportError, ValueError) as error:
            raise NotAvailableError(f"toy-text: {error}") from error
        if not hasattr(found, "P") or not hasattr(found, "initial_state_distrib"):
            raise NotAvailableError(
                f"toy-text: {self.environment} has no table P with a start distribution"
            )
        return found

    def worlds(self, keys: Array) -> Worlds:
        """The one environment that all trials share."""
        env = self._environment
        p, reward, terminal = self._table(env.P)
        allowed = np.ones(p.shape[:2], dtype=bool)
        if self.mask:
            if not hasattr(env, "action_mask"):
                raise NotAvailableError(
                    f"toy-text: {self.environment} has no action_mask; use mask=False"
                )
            allowed = np.array([env.action_mask(s) for s in range(len(p))]) > 0
        best = optimal(known_model(p, reward, self.gamma, terminal), allowed).pi
        any_action = self.epsilon * allowed / allowed.sum(axis=1, keepdims=True)
        span = (float(reward.min()), float(reward.max()))
        start = np.asarray(env.initial_state_distrib, dtype=float)
        return one_world(
            keys,
            p,
            reward_table=reward,
            pi_b=(1 - self.epsilon) * best + any_action,
            start=start / start.sum(),
            terminal_states=terminal,
            gamma=self.gamma,
            reward_range=span,
            return_range=return_range(span, self.gamma, has_terminal=bool(terminal), declared=True),
            allowed=allowed,
        )

    def _table(self, table: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
        """p and mean rewards [S, A, S], and the terminal states, of a table P."""
        shape = (len(table), len(table[0]), len(table))
        p, reward = np.zeros(shape), np.zeros(shape)
        ends: set[int] = set()
        in_place: set[int] = set()
        for s, actions in table.items():
            for a, outcomes in actions.items():
                for probability, to, r, terminated in outcomes:
                    p[s, a, to] += probability
                    reward[s, a, to] += probability * r
                    if terminated:
                        (in_place if to == s else ends).add(int(to))
        if in_place - ends:
            raise NotAvailableError(
                f"toy-text: {self.environment} can end in place in state {min(in_place - ends)},"
                " which P cannot tell apart"
            )
        mean = np.divide(reward, p, out=np.zeros(shape), where=p > 0)
        return p, mean, tuple(sorted(ends))
