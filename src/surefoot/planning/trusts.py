"""Trusts: how far each probability may move, and the step that solves the row problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from surefoot.core.arrays import Array, namespace, row_sum, take_fields
from surefoot.planning.advantage import RowGuard, best_guarded_rows
from surefoot.planning.free import FreeRows, free_step
from surefoot.planning.sweep import keep_or_best_rows
from surefoot.planning.trade import trade_rows
from surefoot.problems import Problem


@dataclass(frozen=True, kw_only=True)
class FreeTrust:
    """Costs of 0 and infinity: an action may rise (or fall) at will, or not at all."""

    maximises: ClassVar[bool] = True
    price: ClassVar[None] = None
    b: Array
    may_rise: Array
    may_fall: Array | None  # None: all may
    tolerance: float
    lowest_index: bool
    leave_closed: bool = False

    @cached_property
    def _rows(self) -> FreeRows:
        return free_step(
            self.b,
            self.may_rise,
            self.may_fall,
            tolerance=self.tolerance,
            lowest_index=self.lowest_index,
            leave_closed=self.leave_closed,
        )

    def step(self, q: Array, pi: Array) -> Array:
        """All free mass to the best action that may rise."""
        return self._rows(q)

    def take(self, index: Array) -> FreeTrust:
        """The same for these problems of the batch."""
        return take_fields(self, index, "b", "may_rise", "may_fall")


@dataclass(frozen=True, kw_only=True)
class SoftTrust:
    """sum_a up (pi - b)^+ + down (b - pi)^+ <= budget, exactly; with w, w . (pi - b) >= 0, and
    with guards theirs (see `RowGuard`).

    With a price, raising a probability also costs value.
    """

    maximises: ClassVar[bool] = True
    b: Array
    up: Array
    down: Array
    budget: float
    tolerance: float
    w: Array | None = None
    price: Array | None = None
    guards: tuple[RowGuard, ...] = ()

    def step(self, q: Array, pi: Array) -> Array:
        """The exact sweep."""
        guards = self.guards if self.w is None else (RowGuard(self.w), *self.guards)
        if not guards:
            return keep_or_best_rows(
                q,
                pi,
                self.b,
                self.up,
                self.down,
                self.budget,
                price=self.price,
                tolerance=self.tolerance,
            )
        return best_guarded_rows(
            q,
            self.b,
            self.up,
            self.down,
            self.budget,
            guards,
            price=self.price,
            tolerance=self.tolerance,
        ).pi

    def take(self, index: Array) -> SoftTrust:
        """The same for these problems of the batch."""
        taken = take_fields(self, index, "b", "up", "down", "w", "price")
        return replace(taken, guards=tuple(guard.take(index) for guard in self.guards))


@dataclass(frozen=True, kw_only=True)
class TradeTrust:
    """The same constraint, met by greedy trading; a row that would lose value is kept."""

    maximises: ClassVar[bool] = False
    price: ClassVar[None] = None
    b: Array
    e: Array
    may_rise: Array
    budget: float
    tolerance: float
    lower: bool
    published: bool
    lowest_index: bool
    w: Array | None = None

    def step(self, q: Array, pi: Array) -> Array:
        """Trade, and keep the old row where the new one is worse: else it need not converge."""
        xp = namespace(q)
        new = trade_rows(
            q,
            self.b,
            self.e,
            self.budget,
            lower=self.lower,
            w=self.w,
            may_rise=self.may_rise,
            published=self.published,
            tolerance=self.tolerance,
            lowest_index=self.lowest_index,
        )
        worse = row_sum((new - pi) * q) < -self.tolerance
        return xp.where(worse[..., None], pi, new)

    def take(self, index: Array) -> TradeTrust:
        """The same for these problems of the batch."""
        return take_fields(self, index, "b", "e", "may_rise", "w")


def as_soft(trust: FreeTrust | SoftTrust, guards: tuple[RowGuard, ...]) -> SoftTrust:
    """The same trust with guards; what is free costs nothing, what is closed too much."""
    if isinstance(trust, SoftTrust):
        return replace(trust, guards=guards)
    xp = namespace(trust.b)
    free = xp.zeros_like(trust.b)
    down = free if trust.may_fall is None else xp.where(trust.may_fall, 0.0, xp.inf)
    return SoftTrust(
        b=trust.b,
        up=xp.where(trust.may_rise, 0.0, xp.inf),
        down=down,
        budget=0.0,
        tolerance=trust.tolerance,
        guards=guards,
    )


def unrestricted(problem: Problem) -> FreeTrust:
    """Every seen and allowed action is open: what the methods without a baseline use."""
    return FreeTrust(
        b=problem.start_policy,
        may_rise=problem.choosable,
        may_fall=None,
        tolerance=problem.tolerance,
        lowest_index=problem.ties == "lowest-index",
        leave_closed=True,
    )


def by_count(problem: Problem, known: Array, *, free_fall: bool) -> FreeTrust:
    """Known pairs [B, S, A] move freely; others do not, or (free_fall) may only fall."""
    known = problem.may_rise & known
    return FreeTrust(
        b=problem.pi_b,
        may_rise=known,
        may_fall=None if free_fall else known,
        tolerance=problem.tolerance,
        lowest_index=problem.ties == "lowest-index",
    )


def soft(
    problem: Problem,
    e: Array,
    epsilon: float,
    *,
    lower: bool,
    w: Array | None = None,
    price: Array | None = None,
) -> SoftTrust:
    """The soft constraint around pi_b: up = e where it may rise; down = e, or 0 (lower)."""
    xp = namespace(e)
    return SoftTrust(
        b=problem.pi_b,
        up=xp.where(problem.may_rise, e, xp.inf),
        down=xp.zeros_like(e) if lower else e,
        budget=epsilon,
        tolerance=problem.tolerance,
        w=w,
        price=price,
    )


def trading(
    problem: Problem,
    e: Array,
    epsilon: float,
    *,
    lower: bool,
    published: bool,
    w: Array | None = None,
) -> TradeTrust:
    """The greedy version of `soft`."""
    return TradeTrust(
        b=problem.pi_b,
        e=e,
        may_rise=problem.may_rise,
        budget=epsilon,
        tolerance=problem.tolerance,
        lower=lower,
        published=published,
        lowest_index=problem.ties == "lowest-index",
        w=w,
    )
