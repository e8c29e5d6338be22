"""Trusts: how far each probability may move, and the step that solves the row problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from surefoot.core.arrays import (
    Array,
    actions_first,
    count_up,
    first_true,
    like,
    namespace,
    one_hot,
    only,
    row_slices,
    row_sum,
    take_fields,
)
from surefoot.planning.advantage import RowGuard, best_guarded_rows
from surefoot.planning.sweep import keep_or_best_rows
from surefoot.planning.trade import trade_rows
from surefoot.problems import Problem


@dataclass(frozen=True, kw_only=True)
class FreeTrust:
    """Costs of 0 and infinity, the greedy step and both SPIBB:  argmax_pi q . pi  over probability
    rows  with pi <= b where not may_rise  and  pi >= b where not may_fall.

    The receiver is the best action that may rise; every action that may fall and is worse gives it
    all its mass. Values within `tolerance` are equal, and equal values move no mass; with
    `lowest_index` they move to the lowest index instead. A row in which nothing may rise is b. With
    `leave_closed` an action that may not rise loses its mass even if it is worth more than the
    receiver (a method without a baseline chooses among seen actions only, whatever their values).
    Otherwise this is `best_rows` for costs of 0 and infinity (Laroche et al. 2019, Algorithms 1 and
    2; the greedy step has may_rise = may_fall = everywhere).
    """

    maximises: ClassVar[bool] = True
    price: ClassVar[None] = None
    b: Array
    may_rise: Array
    may_fall: Array | None = None  # None: all may
    tolerance: float = 0.0
    lowest_index: bool = False
    leave_closed: bool = False

    @cached_property
    def _columns(self) -> tuple[Array, Array, Array | None]:
        """[A, rows]: b; beyond all values where an action may not rise, else 0; what may fall."""
        closed = only(~actions_first(self.may_rise), like(self.b, [[1e300]]))
        fall = None if self.may_fall is None else actions_first(self.may_fall)
        return actions_first(self.b), closed, fall

    def step(self, q: Array, pi: Array) -> Array:
        """All free mass to the best action that may rise."""
        xp = namespace(q)
        flat = xp.reshape(q, (-1, q.shape[-1]))
        out = xp.empty_like(flat)
        for i in row_slices(flat):
            out[i, :] = self._block(actions_first(flat[i, :]), i)
        return xp.reshape(out, q.shape)

    def _block(self, q: Array, rows: slice) -> Array:
        xp = namespace(q)
        (b, closed, fall), tolerance = self._columns, self.tolerance
        value = q - closed[:, rows]
        best = xp.max(value, axis=0)
        receiver = first_true(value >= best - tolerance)
        gives = (
            q < best - tolerance
            if not self.leave_closed
            else xp.abs(q - xp.where(best > -1e299, best, xp.nan)) > tolerance
        )
        if self.lowest_index:
            gives = gives | (
                (count_up(q.shape[0], q)[:, None] > receiver) & (q <= best + tolerance)
            )
        given = only(gives if fall is None else gives & fall[:, rows], b[:, rows])
        pi = b[:, rows] - given
        pi += only(one_hot(receiver, q.shape[0]), xp.sum(given, axis=0))
        return xp.permute_dims(pi, (1, 0))

    def take(self, index: Array) -> FreeTrust:
        """The same for these problems of the batch."""
        return take_fields(self, index, "b", "may_rise", "may_fall")


def free_rows(
    q: Array, b: Array, may_rise: Array, may_fall: Array | None = None, **options: Any
) -> Array:
    """The best rows for q [..., A], once; options are those of `FreeTrust`."""
    return FreeTrust(b=b, may_rise=may_rise, may_fall=may_fall, **options).step(q, b)


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
        limits = self.b, self.up, self.down, self.budget
        price, tolerance = self.price, self.tolerance
        if not guards:
            return keep_or_best_rows(q, pi, *limits, price=price, tolerance=tolerance)
        return best_guarded_rows(q, *limits, guards, price=price, tolerance=tolerance).pi

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
