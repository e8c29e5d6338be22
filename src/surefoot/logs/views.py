"""Views: how the rows of one log become those of another, and what time makes of a discount."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from surefoot.core import Batch

if TYPE_CHECKING:
    from surefoot.logs.log import Log


class View(Protocol):
    """How the rows of one log become those of another."""

    @property
    def base(self) -> Log:
        """The log that the rows come from."""

    def batch(self, block: Batch) -> Batch:
        """Some whole episodes of it, as the other log has them."""


class Timed(Protocol):
    """How long steps take, and what that makes of a discount for each unit of time."""

    @property
    def unit(self) -> str:
        """The unit of time, in words."""

    def step_discount(self, gamma: float) -> float:
        """The discount of the shortest step."""

    def weighed(self, batch: Batch, gamma: float) -> Batch:
        """The rows with what counts after longer steps beside them."""

    def note(self, gamma: float) -> str:
        """What a user should know."""
