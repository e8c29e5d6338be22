"""Worst-case values: the least value of pi over all models near the data, minus the greatest
value of pi_b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from surefoot.algorithms.worst_case import WorstCase
from surefoot.certificates.certificate import (
    EVERYWHERE,
    START,
    Certificate,
    check_delta,
    check_where,
    left_at_start,
    made,
    mean_at_start,
)
from surefoot.certificates.spibb_bound import row_label, row_radius
from surefoot.parameters import check_choice, check_number
from surefoot.planning import value_iteration
from surefoot.problems import Arrivals, Problem
from surefoot.rows.arrays import Array, to_numpy
from surefoot.trust.radii import ROW_RADII

SETTLED = (
    1e-6  # accuracy of worst-case values as a share of the return range; they err on the safe side
)


@dataclass(frozen=True)
class RobustBound:
    """min_P v(pi; P) - max_P v(pi_b; P)  over all P with  ||P(.|s, a) - P_hat(.|s, a)||_1 <= r(s,
    a)  for every pair; any policy.

    The safety test of Petrik et al. 2016. The true P is among them w.p. 1 - delta, so it holds
    whichever policy was chosen. A pair never seen is worth lo to pi and hi to pi_b. The union is
    over pairs and over every number of visits; MBIE's and the robust algorithm's own radii leave
    the latter out.
    """

    name: ClassVar[str] = "robust"
    factor: ClassVar[float] = 1.0
    delta: float = 0.05
    radius: str = "weissman"
    successors: int | None = None
    where: str = START

    def __post_init__(self) -> None:
        check_delta(self)
        check_choice(self, "radius", tuple(ROW_RADII))
        check_where(self)
        if self.successors is not None:
            check_number(self, "successors", low=1, whole=True, finite=True)

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """Two robust evaluations."""
        label, assumptions = row_label(problem, self.radius, self.successors)
        block = problem.blocks[0]
        pi_b = to_numpy(problem.pi_b)

        def bound_at(scale: float) -> float:
            n = to_numpy(block.n_sa)
            r = row_radius(
                problem,
                self.radius,
                scale * n,
                left_at_start(self, problem),
                self.successors,
                self.factor,
            )
            worst = extreme_value(block, pi, r, worst=True)
            best = extreme_value(block, pi_b, r, worst=False)
            gap = worst - best
            return (
                float(gap.min())
                if self.where == EVERYWHERE
                else mean_at_start(self, problem, gap, scale)
            )

        return made(self, problem, pi, bound_at, label, assumptions, problem.n_sa, "training")


@dataclass(frozen=True)
class MBIEBound(RobustBound):
    """The same with MBIE's union, 2 S A (2^S - 2) / delta, which spends half as much (Strehl &
    Littman 2008).
    """

    name: ClassVar[str] = "mbie"
    factor: ClassVar[float] = 2.0


@dataclass(frozen=True)
class _Only:
    """A trust that allows one policy: value iteration then evaluates it."""

    maximises: ClassVar[bool] = True
    pi: Array

    def step(self, q: Array, pi: Array) -> Array:
        """That policy."""
        return self.pi

    def take(self, index: Array) -> _Only:
        """The same for these problems of the batch."""
        return replace(self, pi=self.pi[index])


@dataclass(frozen=True, kw_only=True)
class _AtLeast(WorstCase):
    """v -> max(worst case, least):  the true values are at least both, so every step from
    `least` upwards stays below them.
    """

    least: Array

    def backup(self, v: Array) -> Array:
        """One worst-case backup, not below the least of returns."""
        found: Array = np.maximum(super().backup(v), self.least)
        return found


def extreme_value(block: Problem, pi: np.ndarray, radius: np.ndarray, *, worst: bool) -> np.ndarray:
    """min_P v(pi; P), or max_P, over the L1 balls [S], within the return range.

    From below and from above, so that a value not settled errs on the safe side. The greatest value
    is minus the least with all rewards turned round.
    """
    sign = 1.0 if worst else -1.0
    far = block.return_range.lo if worst else block.return_range.hi
    table = block.arrivals.table
    if block.reward_table is None:  # nothing is known of a reward never observed
        table = np.full_like(table, block.reward_range[0] if worst else block.reward_range[1])
    r = np.where(block.seen, block.r, far)
    r = np.where(block.terminal[..., None], 0.0, r)
    support = replace(block.support, reward=sign * block.support.reward)
    operator = _AtLeast(
        support=support,
        arrivals=Arrivals(sign * table),
        weight=block.weight,
        mass=np.minimum(0.5 * radius, 1.0).reshape(block.pi_b.shape),
        r=sign * r,
        seen=block.seen,
        declared=block.reward_table is not None,
        gamma=block.gamma,
        tolerance=max(block.tolerance, SETTLED * block.return_range.width),
        least=np.where(block.terminal, 0.0, sign * far)[..., None],
    )
    v = np.where(block.terminal, 0.0, sign * far)
    rows = np.ascontiguousarray(pi.reshape(block.pi_b.shape))
    found = value_iteration(operator, _Only(rows), rows, v)
    value: np.ndarray = sign * (rows * found.q).sum(axis=-1)[0]
    return value
