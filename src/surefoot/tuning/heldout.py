"""Held-out gains: a setting learns from one half of a log and is valued in models of the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surefoot.advice.units import ENOUGH_EPISODES
from surefoot.algorithms import Algorithm
from surefoot.core import Batch, Counts
from surefoot.improvement import improve
from surefoot.ope.episodes import random_part, take_rows
from surefoot.problems import Problem
from surefoot.rows.arrays import to_numpy
from surefoot.simulate import first_key
from surefoot.tuning.posterior import Posterior

SPLITS, MODELS = 5, 20  # how often the log is halved; in how many models each half values
TUNING_BLOCKS = 20  # about so many, of fewer than ENOUGH_EPISODES


@dataclass(frozen=True, repr=False)
class HeldOut:
    """Gains [models] of policies from one half in models of the other; `units` were divided."""

    gains: np.ndarray
    units: str

    @property
    def mean(self) -> float:
        """Over all models."""
        return float(self.gains.mean())

    @property
    def loses(self) -> float:
        """The share of models in which the policy of the other half is worse than the baseline."""
        return float((self.gains < 0).mean())


def held_out(problem: Problem, algorithm: Algorithm, *, seed: int = 0) -> HeldOut | None:
    """Halve the log SPLITS times; learn from each half, value in models of the other.

    None where the log cannot be halved. The models are those of the posterior, not shrunk: the two
    halves err independently, so what one half made of noise is worth nothing on average in the
    models of the other.
    """
    gains, units = [], ""
    for split in range(SPLITS):
        found = halves(problem, seed, split)
        if found is None:
            return None
        first, second, units = found
        for i, (learned, other) in enumerate(((first, second), (second, first))):
            keys = first_key(seed, f"held out {split} {i}", np.arange(MODELS, dtype=np.int64))
            worlds = Posterior(other).worlds(keys)
            pi = np.broadcast_to(to_numpy(improve(learned, algorithm).pi), worlds.pi_b.shape)
            gains.append(worlds.value(pi) - worlds.rho_b)
    return HeldOut(np.concatenate(gains), units)


def halves(problem: Problem, seed: int, split: int) -> tuple[Problem, Problem, str] | None:
    """Two problems with half of the episodes each, and what was divided.

    A few long episodes are cut into blocks; without rows, the counts are divided step by step.
    """
    rng = np.random.Generator(np.random.PCG64((seed, split)))
    if problem.log is None:
        if float(problem.n_sa.sum()) < 2:
            return None
        one, two = (
            replace(problem, counts=x, returns_given=None) for x in _thinned(problem.counts, rng)
        )
        return one, two, "steps"
    unit, units = _units(problem.log)
    number = int(unit.max()) + 1
    if number < 2:
        return None
    first = random_part(number, number // 2, rng)
    one, two = (problem.with_log(take_rows(problem.log, x[unit])) for x in (first, ~first))
    return one, two, units  # where a block is missing, an episode is cut


def _units(log: Batch) -> tuple[np.ndarray, str]:
    """The unit of every row, and what a unit is."""
    if log.n_episodes >= ENOUGH_EPISODES:
        return log.episode, "episodes"
    length = -(-len(log) // TUNING_BLOCKS)
    return np.cumsum(log.time % length == 0) - 1, f"blocks of {length} steps"


def _thinned(counts: Counts, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Counts divided step by step, each step to either half with probability 1/2.

    The sum of m of n rewards, given the sum r of all, has mean r m / n and variance
    sigma^2 m (n - m) / n if rewards are normal: the share of a half is drawn from that.
    """
    n = to_numpy(counts.n_sas)
    mine = rng.binomial(n.astype(np.int64), 0.5).astype(float)
    shape = n.shape[:2]
    if counts.r_sas is None:
        return Counts(mine, None, None, *shape), Counts(n - mine, None, None, *shape)
    r = to_numpy(counts.r_sas)
    rest = np.zeros(shape) if counts.r_rest is None else to_numpy(counts.r_rest)
    some, freedom = np.maximum(n, 1.0), np.maximum(n - 1.0, 0.0).sum(axis=-1)
    variance = rest / np.maximum(freedom, 1.0)
    error = np.sqrt(variance[..., None] * mine * (n - mine) / some)
    share = r * mine / some + error * rng.standard_normal(n.shape)

    def part(k: np.ndarray, total: np.ndarray) -> Counts:
        return Counts(k, total, variance * np.maximum(k - 1.0, 0.0).sum(axis=-1), *shape)

    return part(mine, share), part(n - mine, r - share)
