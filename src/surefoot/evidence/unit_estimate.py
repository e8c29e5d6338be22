"""An estimate of a value from units of a log, and its interval: the scatter of the units, the bias
that may be left, and outcomes that have not been seen.

docs/supported.md gives the reasons for every term of the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

DELTA = 0.05  # the failure probability of each side of an interval, and of the one test
EVENTS = math.log(1 / DELTA)  # 3.0: if so many are expected, at least one is seen in 95 of 100 logs
UNSEEN_STEPS = 30  # numbers of events that an interval looks at
FEWEST_MERGED = 20  # blocks are merged two, four, ... at a time as long as so many are left


@dataclass(frozen=True, repr=False, kw_only=True)
class Unseen:
    """The most that an outcome which these units have not shown, or not often, may still take away
    or add (the rule of three).

    If in a pair the worst outcome of its state has probability p, none is seen in n visits with
    probability (1 - p)^n, at most exp(-events) with events = n p. The most that so many events in
    all could change is events * each, each = max over pairs of |shift| distance / n: one pair takes
    it all. `pair` is that pair, s * A + a; `worst` the outcome, `distance` from the mean of the
    pair. n counts the visits of the whole log where its other units have not shown such an outcome
    either: a policy that was learned from them would not have been, had they shown it, and if it
    had, it would be known here.
    """

    each: float
    pair: int
    n: float
    shift: float
    worst: float
    distance: float

    @property
    def change(self) -> float:
        """The most that may be lost (or gained) at 5 %, the sampling error aside."""
        return EVENTS * self.each


@dataclass(frozen=True, repr=False, kw_only=True)
class UnitEstimate:
    """A value estimated from units, and what its interval needs.

    scores      [units] what each unit adds to the error; they sum to nearly 0, and their scatter is
                that of the estimate
    of_pairs    the variance that comes from the outcomes of pairs, on `degrees` degrees of freedom;
                the rest comes from the start
    loss, more  what outcomes that have not been seen could take away, or add
    blocks      units are blocks of one trajectory, and may depend on their neighbours
    left        how much of the bias of the value may still be there (see `plug_in_bias`)
    """

    value: float
    scores: np.ndarray
    of_pairs: float
    degrees: float
    loss: Unseen
    more: Unseen
    blocks: bool
    left: float = 0.0

    def interval(self, delta: float = DELTA, *, unseen: bool = True) -> tuple[float, float]:
        """(low, high): each is wrong with probability about delta, where there are many units;
        outcomes that have not been seen count, unless `unseen` says otherwise.

            low = value - left - max over events of
                [ events * loss.each + ( t + |skewness| (2 t^2 + 1) / 6 ) error ],
            t at the level delta exp(events),  error^2 = sum_u (score_u - mean)^2 n / (n - 1)

        A rare outcome of which so many events were to be expected stays unseen with probability
        exp(-events). That and a sampling error of at least t happen together with probability
        delta: the bound holds whichever of the two the luck was. `high` likewise with `more`.
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
        events = np.linspace(0.0, 0.99 * math.log(1 / delta), UNSEEN_STEPS if unseen else 1)
        below, above, size = 0.0, 0.0, 1
        while size == 1 or (self.blocks and n // size >= FEWEST_MERGED):
            group = np.minimum(np.arange(n) // size, n // size - 1)
            sums = np.bincount(group, weights=self.scores)
            m = len(sums)
            variance = float(((sums - sums.mean()) ** 2).sum()) * m / (m - 1)
            rest = max(variance - self.of_pairs, 0.0)
            spread = self.of_pairs**2 / self.degrees + rest**2 / (m - 1)
            freedom = max((self.of_pairs + rest) ** 2 / spread, 1.0) if spread > 0 else math.inf
            t, error = stdtrit(min(freedom, m - 1.0), 1 - delta * np.exp(events)), variance**0.5
            johnson = skewness * (2 * t * t + 1) / 6
            low = (t + np.maximum(-johnson, 0.0)) * error + events * self.loss.each
            high = (t + np.maximum(johnson, 0.0)) * error + events * self.more.each
            below, above = max(below, float(low.max())), max(above, float(high.max()))
            size *= 2
        return self.value - below - self.left, self.value + above + self.left
