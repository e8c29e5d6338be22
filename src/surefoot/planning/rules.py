"""Rules: at most one action a state, the best one within a trust."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from surefoot.core.arrays import Array, count_up, namespace, row_dot, row_sum, times
from surefoot.planning.advantage import RowGuard
from surefoot.planning.trusts import SoftTrust


@dataclass(frozen=True, kw_only=True)
class RuleTrust:
    """argmax  q . pi - price . (pi - b)^+   over the rows  {stay} u {e_a within the trust}.

    e_a does a and nothing else; it is within the trust if its cost,

        up_a (1 - b_a) + sum over the other actions of down b,

    is covered by the budget, and all guards hold. Of actions of equal value it is the one that the
    baseline does most, and `stay` before all of them: a row moves only for a gain.
    """

    maximises: ClassVar[bool] = True
    within: SoftTrust
    stay: Array

    @property
    def b(self) -> Array:
        """The baseline."""
        return self.within.b

    @property
    def price(self) -> Array | None:
        """Of raising a probability."""
        return self.within.price

    def step(self, q: Array, pi: Array) -> Array:
        """The best of these rows."""
        xp, within = namespace(q), self.within
        price = xp.zeros_like(q) if within.price is None else within.price
        worth = xp.where(self._open, q - times(price, 1 - within.b), -xp.inf)
        raised = self.stay - within.b
        fee = times(price, xp.where(raised > 0, raised, 0.0))
        staying = row_dot(q, self.stay) - row_sum(fee)
        best = xp.max(worth, axis=-1)
        equal = worth >= best[..., None] - within.tolerance
        chosen = xp.argmax(xp.where(equal, within.b, -1.0), axis=-1)
        moves = best > staying + within.tolerance
        alone = xp.astype(count_up(q.shape[-1], q) == chosen[..., None], q.dtype)
        return xp.where(moves[..., None], alone, self.stay)

    @property
    def _open(self) -> Array:
        """Which e_a are within the trust."""
        x, xp = self.within, namespace(self.within.b)
        down = times(x.down, x.b)
        cost = times(x.up, 1 - x.b) + row_sum(down)[..., None] - xp.where(down < xp.inf, down, 0.0)
        found = (cost <= x.budget) & (x.up < xp.inf)
        guards = x.guards if x.w is None else (RowGuard(x.w), *x.guards)
        for guard in guards:
            found = found & self._meets(guard)
        return found

    def _meets(self, guard: RowGuard) -> Array:
        """Whether e_a keeps a guard: w_a - sum_a b w - fine_a (1 - b_a) >= 0."""
        kept = guard.w - row_dot(self.b, guard.w)[..., None]
        if guard.fine is not None:
            kept = kept - times(guard.fine, 1 - self.b)
        return kept >= 0

    def take(self, index: Array) -> RuleTrust:
        """The same for these problems of the batch."""
        xp = namespace(self.stay)
        return replace(self, within=self.within.take(index), stay=xp.take(self.stay, index, axis=0))
