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

import numpy as np
from scipy.special import stdtrit

from surefoot.advice.adjust import explained
from surefoot.advice.estimate import DELTA, Unseen
from surefoot.advice.unit_model import model_of_units
from surefoot.advice.units import Units
from surefoot.algorithms import Algorithm
from surefoot.core import Solution
from surefoot.errors import SurefootError
from surefoot.improvement import improve
from surefoot.ope import Standard, uncapped_betting
from surefoot.ope.episode_values import EpisodeValues, episode_values
from surefoot.ope.episodes import random_part, take_episodes, take_rows
from surefoot.problems import Problem
from surefoot.problems.problem import EPISODES

FEWEST_UNITS = 8
FEWEST_EPISODES = 20  # held out, for the finite-sample test
# the finite-sample test is taken where its bound promises this share of the mean on the learning
# half
CLEAR = 0.5
FINITE_SAMPLE, ASYMPTOTIC = "finite-sample", "asymptotic"


@dataclass(frozen=True, repr=False, kw_only=True)
class Gain:
    """What the tested policy `pi` is worth beyond the policy that made the log, at the start, on
    data it was not learned from.

    low, high       one-sided bounds at DELTA each; NaN where no test is valid
    test            "finite-sample" or "asymptotic"
    units, kind     the independent pieces of the log; `tested` of them were held out
    checked         the share of the moved mass whose pairs two or more held-out units saw; the rest
                    was taken back
    unseen          what an outcome that the held-out half has not shown could take away at most
    informative     how many held-out steps took an action that gains probability
    explained       what time and the past explain of the gain (`adjust`); a gain must stay after
                    that
    longest         the steps of the longest episode, where episodes were weighed
    """

    pi: np.ndarray
    solution: Solution
    units: int
    tested: int
    kind: str
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    test: str = ASYMPTOTIC
    checked: float = 1.0
    unseen: Unseen | None = None
    informative: int = 0
    explained: float = 0.0
    longest: int = 0

    @property
    def excluded(self) -> bool:
        """Whether outcomes that have not been seen could take away less than the gain."""
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
    algorithm: Algorithm,
    *,
    pi_b: np.ndarray | None = None,
    markov: bool = True,
    seed: int = 0,
) -> Gain:
    """Learn a policy from a random half of the units, and test it on the others.

    `pi_b` made the log (default: the baseline). With markov=False only the finite-sample test may
    be used, which does not need it.
    """
    pi_b = np.asarray(problem.pi_b if pi_b is None else pi_b)
    learning = random_part(units.number, units.number // 2, np.random.default_rng(seed))
    solution = improve(part_problem(problem, units, learning), algorithm)
    found = Gain(
        pi=np.asarray(solution.pi),
        solution=solution,
        units=units.number,
        tested=int((~learning).sum()),
        kind=units.kind,
    )
    if units.number >= FEWEST_UNITS:
        rng = np.random.default_rng(seed)
        weighed = _finite_sample(
            found, problem, units, learning, pi_b, algorithm, rng, forced=not markov
        )
        if weighed is not None:
            found = weighed
        elif markov:
            found = _asymptotic(found, problem, units, ~learning, pi_b)
    gains = (found.pi > np.asarray(problem.pi_b) + 1e-9).reshape(-1)
    informative = units.k[~learning[units.unit] & gains[units.pair]].sum()
    return replace(found, informative=int(informative))


def part_problem(problem: Problem, units: Units, chosen: np.ndarray) -> Problem:
    """The problem that the chosen units alone pose, with the same baseline, start and ranges."""
    counts = units.some(chosen).counts(as_sparse=problem.counts.is_sparse)
    log = problem.log
    if log is not None:
        log = take_rows(log, chosen[units.unit], units.unit)
    return replace(problem, counts=counts, log=log, returns_given=None, notes=())


def _asymptotic(
    found: Gain, problem: Problem, units: Units, held_out: np.ndarray, pi_b: np.ndarray
) -> Gain:
    """Both policies in the model of the held-out units; moves that these cannot check are taken
    back.
    """
    model = model_of_units(problem, units, held_out, pi_b)
    tested = model.checkable(found.pi)
    visits = model.n_sa.sum(axis=1, keepdims=True)
    moved, kept = (float((np.abs(x - problem.pi_b) * visits).sum()) for x in (found.pi, tested))
    compared = model.compare(tested, strict=True)
    low, high = compared.gain.interval()
    return replace(
        found,
        pi=tested,
        estimate=compared.gain.value,
        low=low,
        high=high,
        checked=kept / moved if moved > 0 else 1.0,
        unseen=compared.gain.loss,
        explained=explained(problem, units, held_out, compared.v, compared.weight),
    )


def _finite_sample(
    found: Gain,
    problem: Problem,
    units: Units,
    learning: np.ndarray,
    pi_b: np.ndarray,
    algorithm: Algorithm,
    rng: np.random.Generator,
    *,
    forced: bool,
) -> Gain | None:
    """The test on weighted episodes, where it is possible and the learning half lets it expect a
    clear answer (or it is `forced`).

    Possible: what is weighed are whole episodes of the given baseline, from where they start to
    where they end.
    """
    log = problem.log
    if log is None or units.blocks or problem.pi_b_estimated or problem.start_from != EPISODES:
        return None
    unit = units.unit[log.first]  # of every episode
    n = int((~learning[unit]).sum())
    if log.cuts.any() or log.contradictions() or n < FEWEST_EPISODES:
        return None
    longest = int(log.time.max()) + 1
    standard = Standard(delta=DELTA, reward_range=problem.reward_range, horizon=longest)

    def values(chosen: np.ndarray, pi: np.ndarray) -> EpisodeValues:
        return episode_values(take_episodes(log, chosen[unit]), pi, pi_b, problem.gamma, standard)

    try:
        if not forced:
            # half of the learning half makes a policy, the rest stands for what is held out
            first = learning & (rng.random(units.number) < 0.5)
            pi = np.asarray(improve(part_problem(problem, units, first), algorithm).pi)
            if not _clear(values(learning & ~first, pi), n):
                return None
        tested = values(~learning, found.pi)
    except SurefootError:  # weights or ranges that this test cannot use
        return None
    mean = float(tested.x.mean())
    spread = float(stdtrit(n - 1, 1 - DELTA)) * float(tested.x.std(ddof=1)) / math.sqrt(n)
    compared = model_of_units(problem, units, ~learning, pi_b).compare(found.pi)
    return replace(
        found,
        estimate=mean,
        low=uncapped_betting(tested.x[rng.permutation(n)], DELTA, lo=tested.lo).value,
        high=mean + spread,
        test=FINITE_SAMPLE,
        longest=longest,
        explained=explained(problem, units, ~learning, compared.v, compared.weight),
    )


def _clear(sketch: EpisodeValues, n: int) -> bool:
    """Whether n values like these would have a betting bound of at least CLEAR times their mean.

    The bound is foretold by Bernstein's width, sqrt( 2 variance ln(1/delta) / n ) and the distance
    to the floor times ln(1/delta) / n (as in `caps.forecast_width`, with the mean near 0).
    """
    mean, spare = sketch.x.mean(), math.log(1 / DELTA) / n
    promised = mean - math.sqrt(2 * sketch.x.var() * spare) + sketch.lo * spare
    return bool(promised > CLEAR * mean)
