"""Gymnasium's toy-text environments (FrozenLake, Taxi, CliffWalking, ...) by their table P."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from surefoot.core.arrays import Array
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import check_number
from surefoot.research.benchmarks.benchmark import NORMALISED, check_whole
from surefoot.research.benchmarks.known_mdp import KnownMDP, from_gymnasium
from surefoot.research.simulate.sampling import Episodes
from surefoot.research.simulate.worlds import Worlds


@dataclass(frozen=True)
class ToyText:
    """Any environment with a start distribution and a table P, by its name; `from_gymnasium` takes
    an environment itself, and says how its table is read.

    The baseline follows an optimal policy but for a share `epsilon` of random actions.
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
    def _known(self) -> KnownMDP:
        try:
            return from_gymnasium(
                self.environment, gamma=self.gamma, baseline=self.epsilon, mask=self.mask
            )
        except NotAvailableError as error:
            raise NotAvailableError(f"toy-text: {error}") from error

    def worlds(self, keys: Array) -> Worlds:
        """The one environment that all trials share."""
        return self._known.worlds(keys)
