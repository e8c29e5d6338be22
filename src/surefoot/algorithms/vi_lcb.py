"""VI-LCB: value iteration with a lower confidence bound of Bernstein form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from surefoot.algorithms.algorithm import Estimates
from surefoot.core import Model
from surefoot.core.arrays import Array, namespace, take_fields
from surefoot.core.errors import NotAvailableError
from surefoot.core.parameters import check_number
from surefoot.planning import Backup
from surefoot.problems import Problem


@dataclass(frozen=True)
class VILCB(Estimates):
    """q <- max{ r + gamma P v - b(v), lo },   v = max_a q,   with

        b = min{ max{ sqrt(c_b L Var_P(v) / n), 2 c_b L H / n }, H } + 5 R / n,
        L = ln( N / ((1 - gamma) delta) ).

    Li, Shi, Chen, Chi & Wei, Annals of Statistics 2024, eq. 25-28, for rewards in [0, 1]; here H =
    hi - lo is the width of the return range (there 1/(1 - gamma)) and R that of the reward range
    (there 1). N is the number of transitions. The theory asks for c_b = 144; in practice it is a
    hyper-parameter around 0.01 to 1. Refuses gamma = 1.
    """

    name: ClassVar[str] = "vi-lcb"
    c_b: float
    delta: float

    def __post_init__(self) -> None:
        check_number(self, "c_b", low=0, finite=True)
        check_number(self, "delta", low=0, high=1, open_low=True)

    def estimate(self, problem: Problem) -> Backup:
        """The backup with its penalty."""
        if problem.gamma == 1:
            raise NotAvailableError("vi-lcb divides by 1 - gamma: use gamma < 1")
        xp = namespace(problem.n_sa)
        total = xp.sum(problem.n_sa, axis=(-2, -1))[:, None, None]
        log = xp.log(xp.where(total > 0, total, 1.0) / ((1 - problem.gamma) * self.delta))
        low, high = problem.reward_range
        return _PenalisedBackup(
            model=problem.model,
            scale=self.c_b * xp.where(log > 0, log, 0.0) * problem.weight,
            offset=5 * (high - low) * problem.weight,
            lo=problem.return_range.lo,
            width=problem.return_range.width,
            seen=problem.seen,
            gamma=problem.gamma,
            tolerance=problem.tolerance,
        )


@dataclass(frozen=True, kw_only=True)
class _PenalisedBackup(Backup):
    """v -> max{ r + gamma P v - b(v), lo }."""

    model: Model
    scale: Array  # c_b L / n
    offset: Array  # 5 R / n
    lo: float
    width: float
    seen: Array
    gamma: float
    tolerance: float

    @property
    def contraction(self) -> float:
        """gamma from 1/2 on (Li et al.); below, the penalty's own slope, at most 1/2, is added."""
        return self.gamma if self.gamma >= 0.5 else self.gamma + 0.5

    def backup(self, v: Array) -> Array:
        """One penalised backup."""
        xp = namespace(v)
        # Centred on the middle, so that variances do not cancel.
        middle = 0.5 * (xp.max(v, axis=-1) + xp.min(v, axis=-1))[:, None]
        mean = self.model.expect(v - middle)
        variance = self.model.expect((v - middle) ** 2) - mean**2
        spread = xp.sqrt(self.scale * xp.where(variance > 0, variance, 0.0))
        rough = 2 * self.scale * self.width
        b = xp.minimum(xp.maximum(spread, rough), xp.full_like(rough, self.width)) + self.offset
        q = self.model.backup(v) - xp.where(self.seen, b, 0.0)
        return xp.where(self.seen & (q < self.lo), self.lo, q)

    def take(self, index: Array) -> _PenalisedBackup:
        """The same for these problems of the batch."""
        part = take_fields(self, index, "scale", "offset", "seen")
        return replace(part, model=self.model.take(index))
