"""The held-out gain: a policy is learned from one half of a log and tested on the other half, once;
what is tested is what is used.

Two tests. Per-episode importance-weighted differences with a betting bound: valid for any number of
episodes and without the Markov property, but it needs the true baseline and short episodes.
Otherwise the difference of both policies in the model of the held-out half, with a standard error
from its independent units: valid for many units, and for states that say enough. Which one is
decided on the half that the policy is learned from, so that there is one test at level DELTA.
docs/supported.md has the proofs and what was measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from surefoot.advice.adjust import explained
from surefoot.advice.unit_model import Comparison, Estimate, UnitModel, Unseen
from surefoot.advice.units import Units
from surefoot.core import Solution
from surefoot.errors import SurefootError
from surefoot.improvement import improve
from surefoot.ope import Standard, uncapped_betting
from surefoot.ope.episode_values import EpisodeValues, episode_values
from surefoot.ope.episodes import first_rows, random_part, take_episodes, take_rows, times
from surefoot.problems import Problem
from surefoot.problems.problem import EPISODES

DELTA = 0.05  # the failure probability of the one test
FEWEST_UNITS = 8
FEWEST_MERGED = 20  # blocks are put together, two, four, ... at a time, as long as so many are left
FEWEST_EPISODES = 20  # held out, for the finite-sample test
# the finite-sample test is taken where its bound promises this share of the mean on the learning
# half
CLEAR = 0.5
FINITE_SAMPLE, ASYMPTOTIC = "finite-sample", "asymptotic"


@dataclass(frozen=True, repr=False)
class Gain:
    """What the tested policy `pi` is worth beyond the policy that made the log, at the start, on
    data it was not learned from.

    low, high       one-sided bounds at DELTA each; NaN where there are too few units
    test            "finite-sample" or "asymptotic"
    units, kind     the independent pieces of the log; `tested` of them were held out
    checked         the share of the moved mass whose pairs two or more held-out units saw; the rest
                    was taken back
    unseen          what an outcome that the held-out half has not shown could take away at most
    informative     how many held-out steps took an action that gains probability
    explained       what time and the past explain of the gain (`adjust`); a gain must stay after
                    that
    """

    pi: np.ndarray
    solution: Solution
    estimate: float
    low: float
    high: float
    test: str
    units: int
    tested: int
    kind: str
    checked: float
    unseen: Unseen | None
    informative: int
    explained: float = 0.0
    longest: int = 0

    @property
    def excluded(self) -> bool:
        """Whether outcomes that have not shown could take away less than the gain."""
        return self.unseen is None or self.unseen.change < self.estimate

    @property
    def positive(self) -> bool:
        """Whether the low bound lies above 0, also without what time explains, and no unseen
        outcome could take the gain away.
        """
        return self.low > 0 and self.low > self.explained and self.excluded


def held_out_gain(
    problem: Problem,
    units: Units,
    algorithm: Any,
    *,
    pi_b: np.ndarray | None = None,
    markov: bool = True,
    seed: int = 0,
) -> Gain:
    """Learn a policy from a random half of the units, and test it on the others.

    `pi_b` made the log (default: the baseline). With markov=False only the finite-sample test may
    speak, which does not need it.
    """
    pi_b = np.asarray(problem.pi_b if pi_b is None else pi_b)
    learning = random_part(units.number, units.number // 2, np.random.default_rng(seed))
    solution = improve(part_problem(problem, units, learning), algorithm)
    pi = np.asarray(solution.pi)
    found = Gain(
        pi,
        solution,
        math.nan,
        math.nan,
        math.nan,
        ASYMPTOTIC,
        units.number,
        int((~learning).sum()),
        units.kind,
        1.0,
        None,
        _informative(problem, units, ~learning, pi),
    )
    if units.number < FEWEST_UNITS:
        return found
    finite = _finite_sample(problem, units, learning, pi, pi_b, algorithm, seed, forced=not markov)
    if finite is None and not markov:
        return found
    return replace(
        found, **(_asymptotic(problem, units, learning, pi, pi_b) if finite is None else finite)
    )


def part_problem(problem: Problem, units: Units, chosen: np.ndarray) -> Problem:
    """The problem that the chosen units alone pose, with the same baseline, start and ranges."""
    counts = units.some(chosen).counts(as_sparse=problem.counts.is_sparse)
    log = None if problem.log is None else take_rows(problem.log, chosen[units.unit], units.unit)
    return replace(problem, counts=counts, log=log, returns_given=None, notes=())


def _asymptotic(
    problem: Problem, units: Units, learning: np.ndarray, pi: np.ndarray, pi_b: np.ndarray
) -> dict[str, Any]:
    """Both policies in the model of the held-out units; moves that these cannot check are taken
    back.
    """
    model = UnitModel(units.some(~learning), units, problem, pi_b)
    tested = model.checkable(pi)
    moved, kept = (
        float((np.abs(x - problem.pi_b) * model.n_sa.sum(axis=1, keepdims=True)).sum())
        for x in (pi, tested)
    )
    compared = model.compare(tested, strict=True)
    low, high = interval(compared.difference, units, ~learning)
    return {
        "pi": tested,
        "estimate": compared.gain,
        "low": low,
        "high": high,
        "checked": kept / moved if moved > 0 else 1.0,
        "unseen": compared.difference.loss,
        "informative": _informative(problem, units, ~learning, tested),
        "explained": explained(problem, units, ~learning, compared.v, compared.weight),
    }


def _finite_sample(
    problem: Problem,
    units: Units,
    learning: np.ndarray,
    pi: np.ndarray,
    pi_b: np.ndarray,
    algorithm: Any,
    seed: int,
    *,
    forced: bool,
) -> dict[str, Any] | None:
    """The test on weighted episodes, where it is possible and the learning half lets it expect a
    clear answer (or it is `forced`).
    """
    log = problem.log
    if (
        log is None
        or units.blocks
        or problem.pi_b_estimated
        or problem.start_from != EPISODES
        or log.cuts.any()
        or log.contradictions()
    ):
        # what is weighed are whole episodes of the baseline, from where they start to where they
        # end
        return None
    unit = units.unit[first_rows(log)]  # of every episode
    n = int((~learning[unit]).sum())
    if n < FEWEST_EPISODES:
        return None
    longest = int(times(log).max()) + 1
    standard = Standard(delta=DELTA, reward_range=problem.reward_range, horizon=longest)

    def values(chosen: np.ndarray, policy: np.ndarray) -> EpisodeValues:
        return episode_values(
            take_episodes(log, chosen[unit]), policy, pi_b, problem.gamma, standard
        )

    rng = np.random.default_rng(seed)
    try:
        if not forced:
            first = learning & (
                rng.random(units.number) < 0.5
            )  # half of the learning half stands for it, the rest for what is held out
            sketch = values(
                learning & ~first,
                np.asarray(improve(part_problem(problem, units, first), algorithm).pi),
            )
            spare = math.log(1 / DELTA) / n
            mean, promised = (
                sketch.x.mean(),
                sketch.x.mean() - math.sqrt(2 * sketch.x.var() * spare) + sketch.lo * spare,
            )
            if not promised > CLEAR * mean:
                return None
        found = values(~learning, pi)
    except SurefootError:  # weights or ranges that this test cannot use
        return None
    mean = float(found.x.mean())
    low = uncapped_betting(found.x[rng.permutation(n)], DELTA, lo=found.lo).value
    spread = float(stdtrit(n - 1, 1 - DELTA)) * float(found.x.std(ddof=1)) / math.sqrt(n)
    compared = UnitModel(units.some(~learning), units, problem, pi_b).compare(pi)
    return {
        "estimate": mean,
        "low": low,
        "high": mean + spread,
        "test": FINITE_SAMPLE,
        "longest": longest,
        "explained": explained(problem, units, ~learning, compared.v, compared.weight),
    }


def _informative(problem: Problem, units: Units, chosen: np.ndarray, pi: np.ndarray) -> int:
    """The steps of the chosen units that took an action which gains probability."""
    gains = (pi > np.asarray(problem.pi_b) + 1e-9).reshape(-1)
    return int(units.k[chosen[units.unit] & gains[units.pair]].sum())


def interval(
    found: Estimate, units: Units, chosen: np.ndarray, level: float = DELTA
) -> tuple[float, float]:
    """(low, high): each is wrong with probability about `level`, where there are many units.

        value -+ ( t + |skewness| (2 t^2 + 1) / 6 ) sqrt( sum_u (score_u - mean)^2 n / (n - 1) +
        extra )

    t is Student's quantile with Satterthwaite's degrees of freedom, at most n - 1; the second term
    is Johnson's correction for a skewed mean (Johnson 1978), taken only where it widens the side.
    Blocks of one trajectory may depend on their neighbours: they are also put together two, four,
    ... at a time, and the widest interval counts.
    """
    scores = found.scores[chosen]
    centred = scores - scores.mean()
    square = float((centred**2).sum())
    skewness = float((centred**3).sum()) / square**1.5 if square > 0 else 0.0
    widest = {-1.0: 0.0, 1.0: 0.0}
    for group in _groupings(units, chosen):
        sums = np.bincount(group, weights=scores)
        n = len(sums)
        if n < 2:
            continue
        variance = float(((sums - sums.mean()) ** 2).sum()) * n / (n - 1) + found.extra
        t, spread = float(stdtrit(_degrees(found, variance, n), 1 - level)), math.sqrt(variance)
        for side in widest:
            widest[side] = max(
                widest[side], (t + max(side * skewness, 0.0) * (2 * t * t + 1) / 6) * spread
            )
    return found.value - widest[-1.0], found.value + widest[1.0]


def _degrees(found: Estimate, variance: float, n: int) -> float:
    """Satterthwaite's degrees of freedom, at most n - 1, of a variance that comes from outcomes
    of pairs and else from n units.
    """
    rest = max(variance - found.of_pairs, 0.0)
    total, spread = found.of_pairs + rest, found.of_pairs**2 / found.degrees + rest**2 / (n - 1)
    return min(n - 1.0, max(total**2 / spread, 1.0)) if spread > 0 else n - 1.0


def _groupings(units: Units, chosen: np.ndarray) -> list[np.ndarray]:
    """Ways to put the chosen units together, as group numbers: each by itself; neighbouring
    blocks.
    """
    n = int(chosen.sum())
    found = [np.arange(n)]
    if not units.blocks:
        return found
    size = 2
    while n // size >= FEWEST_MERGED:
        found.append(np.minimum(np.arange(n) // size, n // size - 1))
        size *= 2
    return found


def in_sample(
    problem: Problem, units: Units, pi: np.ndarray, pi_b: np.ndarray | None = None
) -> Comparison:
    """The policy against the baseline in the model of all units: optimistic where the policy was
    learned from them.
    """
    return UnitModel(
        units, units, problem, np.asarray(problem.pi_b if pi_b is None else pi_b)
    ).compare(pi)
