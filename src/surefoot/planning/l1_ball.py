"""The worst transitions in an L1 ball around those of the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from surefoot.core import Support
from surefoot.core.arrays import Array, namespace, take_fields
from surefoot.planning.plan import Backup
from surefoot.problems import Arrivals


@dataclass(frozen=True, kw_only=True)
class WorstCase(Backup):
    """v -> min over the L1 balls of  sum_s' P(s') (R(s, a, s') + gamma v(s')).

    The worst case takes `mass`, half the radius, from the best successors seen and gives it to the
    worst state of all.
    """

    support: Support
    arrivals: Arrivals
    weight: Array
    mass: Array
    r: Array
    seen: Array
    declared: bool  # whether rewards come from a table
    gamma: float
    tolerance: float

    def backup(self, v: Array) -> Array:
        """One worst-case backup."""
        xp = namespace(v)
        z = self.support.reward + self.gamma * self.support.at(v)
        worst = xp.minimum(self._outside(v), self.support.least(z))
        kept = self.support.without_top(
            self.support.n * self.support.spread(self.weight), z, self.mass
        )
        return xp.where(self.seen, kept + self.mass * xp.where(self.seen, worst, 0.0), self.r)

    def _outside(self, v: Array) -> Array:
        """The least R + gamma v(s') over successors never observed, [B, S, A]; a successor observed
        has its own reward.

        With a declared table there is no difference, and the least over all states will do.
        """
        xp = namespace(v)
        z = self.arrivals.plus(self.gamma * v)
        if self.declared:
            return xp.min(z, axis=-1) + xp.zeros_like(self.r)
        z = z[:, 0, 0, :]
        order = xp.argsort(z, axis=-1, stable=True)
        worst, missing = xp.full_like(self.r, xp.inf), self.seen
        # From the worst state up, until every pair has met one that it never led to.
        for j in range(z.shape[-1]):
            state = order[:, j]
            inside = self.support.has(state)
            value = xp.take_along_axis(z, state[:, None], axis=-1)[:, :, None]
            worst = xp.where(missing & ~inside, value, worst)
            missing = missing & inside
            if not bool(xp.any(missing)):
                break
        return worst

    def take(self, index: Array) -> Self:
        """The same for these problems of the batch."""
        part = take_fields(self, index, "weight", "mass", "r", "seen")
        return replace(part, support=self.support.take(index), arrivals=self.arrivals.take(index))
