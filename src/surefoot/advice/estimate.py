"""An estimate from the units of a log: its value, what each unit adds to its error, its interval.

docs/supported.md derives the scores and gives the reasons for every term of the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

DELTA = 0.05  # the failure probability of each side of an interval, and of the one test
EVENTS = math.log(1 / DELTA)  # 3.0: if so many are expected, at least one is seen in 95 of 100 logs
FEWEST_MERGED = 20  # blocks are merged two, four, ... at a time as long as so many are left


@dataclass(frozen=True, repr=False, kw_only=True)
class Unseen:
    """The most that an outcome which these units have not shown, or not often, may still take away
    or add (the rule of three).

    If in a pair the worst outcome of its state has probability p, none is seen in n visits with
    probability (1 - p)^n. All p with sum over pairs of n p <= EVENTS remain possible at 5 %. The
    most they change is EVENTS max over pairs of |shift| distance / n: one pair takes it all. `pair`
    is that pair, s * A + a; `worst` the outcome, `distance` from the mean of the pair.
    """

    change: float
    pair: int
    n: float
    shift: float
    worst: float
    distance: float


@dataclass(frozen=True, repr=False, kw_only=True)
class UnitEstimate:
    """A value estimated from units, and what its interval needs.

    scores      [units] what the estimate would lose without each unit; they sum to nearly 0, and
                their scatter is that of the estimate
    extra       the variance that pairs with few visits may hide from the scores
    of_pairs    the variance that comes from the outcomes of pairs, on `degrees` degrees of freedom;
                the rest comes from the start
    loss, more  what outcomes that have not been seen could take away, or add
    blocks      units are blocks of one trajectory, and may depend on their neighbours
    """

    value: float
    scores: np.ndarray
    extra: float
    of_pairs: float
    degrees: float
    loss: Unseen
    more: Unseen
    blocks: bool

    def interval(self, delta: float = DELTA) -> tuple[float, float]:
        """(low, high): each is wrong with probability about delta, where there are many units.

            value -+ ( t + |skewness| (2 t^2 + 1) / 6 ) sqrt( sum_u (score_u - mean)^2 n / (n - 1)
            + extra )

        t is Student's quantile. Its degrees of freedom are Satterthwaite's (1946) for a sum of two
        variances, (v + w)^2 / (v^2 / degrees + w^2 / (n - 1)), at most n - 1: v = of_pairs, w the
        rest. The skewness is that of the sum of the scores; Johnson's (1978) term is taken only on
        the side that it widens. Neighbouring blocks are also merged two, four, ... at a time, and
        the widest interval counts. NaN for fewer than two units.
        """
        n = len(self.scores)
        if n < 2:
            return math.nan, math.nan
        centred = self.scores - self.scores.mean()
        square = float((centred**2).sum())
        skewness = float((centred**3).sum()) / square**1.5 if square > 0 else 0.0
        below, above, size = 0.0, 0.0, 1
        while size == 1 or (self.blocks and n // size >= FEWEST_MERGED):
            group = np.minimum(np.arange(n) // size, n // size - 1)
            sums = np.bincount(group, weights=self.scores)
            m = len(sums)
            variance = float(((sums - sums.mean()) ** 2).sum()) * m / (m - 1) + self.extra
            rest = max(variance - self.of_pairs, 0.0)
            spread = self.of_pairs**2 / self.degrees + rest**2 / (m - 1)
            freedom = max((self.of_pairs + rest) ** 2 / spread, 1.0) if spread > 0 else math.inf
            t, error = float(stdtrit(min(freedom, m - 1.0), 1 - delta)), math.sqrt(variance)
            johnson = skewness * (2 * t * t + 1) / 6
            below = max(below, (t + max(-johnson, 0.0)) * error)
            above = max(above, (t + max(johnson, 0.0)) * error)
            size *= 2
        return self.value - below, self.value + above

    def interval_with_unseen(self) -> tuple[float, float]:
        """A 90 % interval that also covers outcomes which have not been seen: both errors count as
        independent.

        half width = sqrt( (half width of `interval`)^2 + (rule of three)^2 ): close to the exact
        limits for rare events, since k + sqrt(1.645^2 k + 3^2) is 3.0, 4.4, 7.1, 16 for k = 0, 1,
        3, 10, where Poisson's 95 % limit is 3.0, 4.7, 7.8, 17.
        """
        low, high = self.interval()
        return (
            self.value - math.hypot(self.value - low, self.loss.change),
            self.value + math.hypot(high - self.value, self.more.change),
        )


def as_left_out(share: np.ndarray) -> np.ndarray:
    """1 / (1 - share): turns residuals around a mean of which their unit has this share into
    those around the mean of the others.
    """
    return np.asarray(1.0 / np.where(share < 1 - 1e-12, 1 - share, 1.0))
