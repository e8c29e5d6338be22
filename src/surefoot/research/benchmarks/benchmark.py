"""What a benchmark gives: the true MDP of each trial, and the episodes of a data set."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from surefoot.core.arrays import Array
from surefoot.core.errors import ParameterError
from surefoot.research.simulate.sampling import Episodes
from surefoot.research.simulate.worlds import Worlds

NORMALISED = "normalised"  # (rho - rho_b) / (rho* - rho_b): 0 is the baseline, 1 the optimum
VALUE = "value"  # rho


class Benchmark(Protocol):
    """A frozen dataclass of what can be varied; `score` is NORMALISED or VALUE.

    `sparse` says that S is too large for dense counts, and that all trials share one world.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]
    score: ClassVar[str]

    @property
    def sparse(self) -> bool:
        """Whether counts are sparse, and trials solved one by one."""

    def worlds(self, keys: Array) -> Worlds:
        """The true MDPs and baselines of the trials with these keys [B], in their namespace."""

    def episodes(self, size: int) -> Episodes:
        """What a data set of this size consists of."""


def check_whole(benchmark: Any, name: str, low: int, high: float = float("inf")) -> None:
    """Raise unless a parameter is a whole number in [low, high]."""
    value = getattr(benchmark, name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        limit = f"of at least {low}" if high == float("inf") else f"from {low} to {high}"
        raise ParameterError(
            f"{benchmark.name}: {name} must be a whole number {limit}, got {value!r}"
        )
