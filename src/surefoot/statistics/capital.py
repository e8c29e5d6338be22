"""Capital: a test of "the mean is at most 0" that may be looked at after every value.

Ten gamblers share a capital of 1. With values x_i >= lo, lo < 0, gambler k stakes the constant
share b_k = STAKE 2^-k of what he has on every value:
    K_t = (1/10) sum_k prod_{i <= t} ( 1 + b_k x_i / |lo| ),   k = 0..9.
Proof that one may look at any time. Let E[ x_i | past ] <= 0 for every i. Each factor is at least 1
- STAKE > 0, as x_i >= lo. So by `surefoot.statistics.bounds.log_wealth`
    P( K_t >= 1/alpha for some t = 1, 2, 3, ... ) <= alpha:
the event is about all times together, so whoever looks after every batch, and stops when it pleases
them, is wrong with probability at most alpha. No number of values is fixed in advance, and none is
counted twice. There is no ceiling on the values: a large one only raises the capital. The stakes
are a geometric grid, since the best one depends on the mean and the scatter of the values, which
nobody knows: some gambler is within a factor of sqrt(2) of it, and shares the prize with nine
others, which costs ln 10 once. On six kinds of logs of 4,000 decisions this found as much as stakes
that follow the estimated best one, and more or earlier than those of Waudby-Smith & Ramdas (JRSS B
2024, eq. 26) on five of them. Where the number of values is fixed in advance, `uncapped_betting`
has more power: its stakes aim at that number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core.errors import ParameterError, ProblemError
from surefoot.statistics.bounds import STAKE, check_delta, log_wealth

SHARES = STAKE * 2.0 ** -np.arange(10)


@dataclass(frozen=True, kw_only=True)
class Capital:
    """What the gamblers have after n values.

    logs         the logarithm of what each has made of his part
    n, total     the number of values, and their sum
    highest      the logarithm of the highest capital so far
    reached_at   the number of values after which it first reached 1/alpha; None if it did not
    """

    logs: tuple[float, ...] = (0.0,) * len(SHARES)
    n: int = 0
    total: float = 0.0
    highest: float = 0.0
    reached_at: int | None = None

    @property
    def now(self) -> float:
        """The logarithm of the capital."""
        return float(_joint(np.array(self.logs)[:, None])[0])

    def after(self, x: np.ndarray, lo: float, alpha: float) -> Capital:
        """The capital after these values too, in their order."""
        check_delta(alpha)
        if not -math.inf < lo < 0:
            raise ParameterError(
                f"a bet needs a floor below 0, got {lo!r}: no value can be negative, or how low"
                " they are is not known"
            )
        x = np.asarray(x, dtype=float)
        if not len(x):
            return self
        wrong = np.flatnonzero(~(x >= lo * (1 + 1e-9)))
        if len(wrong):
            raise ProblemError(
                f"no value may lie below {lo:g}, entry {wrong[0]} is {x[wrong[0]]:g}"
                f" ({len(wrong)} such entries)"
            )
        x = np.maximum(x, lo)
        path = log_wealth(SHARES[:, None], x / -lo) + np.array(self.logs)[:, None]
        joint = _joint(path)
        hit = np.flatnonzero(joint >= math.log(1 / alpha))
        first = self.n + int(hit[0]) + 1 if len(hit) else None
        return Capital(
            logs=tuple(map(float, path[:, -1])),
            n=self.n + len(x),
            total=self.total + float(x.sum()),
            highest=max(self.highest, float(joint.max())),
            reached_at=first if self.reached_at is None else self.reached_at,
        )

    def document(self) -> dict[str, Any]:
        """It as JSON holds it."""
        return {
            "log_capital_of_each": list(self.logs),
            "episodes": self.n,
            "sum": self.total,
            "highest_log_capital": self.highest,
            "reached_at": self.reached_at,
        }


def capital_of(content: Mapping[str, Any]) -> Capital:
    """The capital of what was read from JSON."""
    logs = tuple(map(float, content["log_capital_of_each"]))
    numbers = (*logs, float(content["sum"]), float(content["highest_log_capital"]))
    at, n = content["reached_at"], int(content["episodes"])
    if len(logs) != len(SHARES) or not np.isfinite(numbers).all() or n < 0:
        raise ProblemError(f"a capital is {len(SHARES)} finite numbers, and a number of episodes")
    return Capital(
        logs=logs, n=n, total=numbers[-2], highest=numbers[-1],
        reached_at=None if at is None else int(at),
    )  # fmt: skip


def _joint(path: np.ndarray) -> np.ndarray:
    """ln of the mean over gamblers [gamblers, t] of what they have."""
    top = path.max(axis=0)
    found: np.ndarray = top + np.log(np.exp(path - top).mean(axis=0))
    return found
