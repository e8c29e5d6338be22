"""The cross-fitted gain: a policy learned from one half of a log, judged on the other half, with the quantile that decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from surefoot.advice.model import Comparison, UnitModel
from surefoot.advice.units import Units, sub_batch
from surefoot.improvement import improve
from surefoot.problems import Problem

LEVEL = 0.05  # the quantile that must lie above 0
SPLITS = 4  # random halvings, each used both ways
RESAMPLES = 2000
FEWEST_UNITS = 8
SLOW = 2_000_000  # entries beyond which one halving must do


@dataclass(frozen=True)
class Gain:
    """What the policy is worth beyond the baseline at the start: estimate, quantiles LEVEL and 1 - LEVEL.

    `units` pieces of the log (`kind` says of what) were halved `splits` times. `checked` is the share of the moved mass whose
    pairs the held-out half saw at least twice; the rest counts as neither gain nor loss. NaN where there are too few units.
    """

    estimate: float
    low: float
    high: float
    units: int
    kind: str
    splits: int
    checked: float

    @property
    def positive(self) -> bool:
        """Whether the low quantile lies above 0."""
        return self.low > 0


def cross_fitted_gain(
    problem: Problem, units: Units, algorithm: Any, *, splits: int | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> Gain:
    """The gain at the start that the algorithm's policy shows on data it was not learned from.

    The units are halved at random. A policy is learned from one half; the other half makes a model of its own, in which policy and
    baseline are compared; then the halves change places. In every held-out model the quantiles come from a bootstrap over its units
    (of first order: each resample re-weights the scores of `UnitModel.compare`, scaled for small numbers by Student's t).

    The two directions of a halving are not independent: if chance favours an action in both halves, both report a gain (for one
    pair of actions the correlation is 2 / pi). So quantiles are averaged, as if all parts moved together, and not pooled, as if they
    were independent: pooling would promise too much. Averaging over several halvings takes the luck of one out.
    """
    if units.number < FEWEST_UNITS:
        return Gain(np.nan, np.nan, np.nan, units.number, units.kind, 0, np.nan)
    splits = (1 if len(units.unit) > SLOW else SPLITS) if splits is None else splits
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(splits):
        first = np.zeros(units.number, dtype=bool)
        first[rng.permutation(units.number)[: units.number // 2]] = True
        for chosen in (first, ~first):
            pi = improve(part_problem(problem, units, chosen), algorithm).pi
            compared = UnitModel(units.some(~chosen), units, problem).compare(pi)
            found.append(
                (compared.gain, *interval(compared.gain, compared.scores[~chosen], rng, compared.extra, resamples), compared.checked)
            )
    gain, low, high, checked = (float(np.mean(x)) for x in zip(*found, strict=True))
    return Gain(gain, low, high, units.number, units.kind, splits, checked)


def in_sample(problem: Problem, units: Units, pi: np.ndarray) -> Comparison:
    """The policy against the baseline in the model of all units: optimistic where the policy was learned from them."""
    return UnitModel(units, units, problem).compare(pi)


def part_problem(problem: Problem, units: Units, chosen: np.ndarray) -> Problem:
    """The problem that the chosen units alone pose, with the same baseline, start and ranges."""
    counts = units.some(chosen).counts(as_sparse=problem.counts.is_sparse)
    log = None if problem.log is None else sub_batch(problem.log, units.unit, chosen)
    return replace(problem, counts=counts, log=log, returns_given=None, notes=())


def interval(
    estimate: float, scores: np.ndarray, rng: np.random.Generator, extra: float = 0.0, resamples: int = RESAMPLES, level: float = LEVEL
) -> tuple[float, float]:
    """The quantiles level and 1 - level of  estimate + sum_u (m_u - 1) score_u + noise,  m multinomial, noise of variance `extra`.

    The deviations are scaled so that a normal score gets Student's quantile instead of the normal one.
    """
    n = len(scores)
    centred = scores - scores.mean()
    spread = np.sqrt(n / (n - 1)) * stats.t.ppf(1 - level, n - 1) / stats.norm.ppf(1 - level)
    moves = rng.normal(0.0, np.sqrt(extra), resamples)
    step = max(1, 2_000_000 // n)
    for i in range(0, resamples, step):
        m = rng.multinomial(n, np.full(n, 1.0 / n), size=min(step, resamples - i))
        moves[i : i + step] += m @ centred
    low, high = np.quantile(estimate + spread * moves, [level, 1 - level])
    return float(low), float(high)
