"""Posterior simulation: what the policies that settings learn from a log gain in models drawn from
its posterior, shrunk; and whether logs simulated in these models look like the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from surefoot.advice.tuning.posterior import NOISE, Posterior, normals
from surefoot.advice.tuning.shrinkage import Shrinkage
from surefoot.algorithms import Algorithm
from surefoot.algorithms.improvement import improve
from surefoot.core.arrays import Array, to_numpy
from surefoot.core.errors import NotAvailableError, ParameterError
from surefoot.problems import Problem
from surefoot.research.simulate import Episodes, Sampler, Worlds, first_key

CELLS = 20_000_000  # entries [models, S, A, S'] held at once
GROUPS = 8  # lengths of episodes that a simulated log has at most
ROUNDING = 1e-10  # a gain below this share of the return range is 0

Progress = Callable[[int, int], None]


@dataclass(frozen=True, repr=False, kw_only=True)
class Simulation:
    """Gains over the baseline in K drawn models, with logs simulated in the first R of them.

    on_log [settings, K]   of the policies learned from the log at hand
    rho_b [K]              the value of the baseline
    reward [R], observed   the mean reward a step of the simulated logs, and of the log at hand
    pi [settings, S, A], converged [settings]   what the settings learn from the log at hand
    """

    on_log: np.ndarray
    rho_b: np.ndarray
    reward: np.ndarray
    observed: float
    pi: np.ndarray
    converged: np.ndarray


def simulate(
    posterior: Posterior,
    algorithms: Sequence[Algorithm],
    models: int,
    simulated: int,
    *,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Simulation:
    """Value the algorithms in `models` drawn models; simulate logs in the first `simulated` ones.

    Draws depend on (seed, model) alone, not on the algorithms, nor on how many models there are.
    """
    for name, given, least in (("models", models, 1), ("simulated", simulated, 0)):
        if isinstance(given, bool) or not isinstance(given, int) or given < least:
            raise ParameterError(
                f"{name} must be a whole number of at least {least}, got {given!r}"
            )
    problem, simulated, done = posterior.problem, min(simulated, models), 0
    shrinkage = Shrinkage(posterior)
    solutions = [improve(problem, x) for x in algorithms]
    pi = np.stack([to_numpy(x.pi) for x in solutions])
    keys = first_key(seed, "tuning", np.arange(models, dtype=np.int64))
    shape = log_shape(problem) if simulated else ()

    def gain(worlds: Worlds, pi: Array) -> np.ndarray:
        nonlocal done
        found = worlds.value(pi) - worlds.rho_b
        done += len(found)
        progress(done, len(algorithms) * models)
        return np.where(np.abs(found) < ROUNDING * problem.return_range.width, 0.0, found)

    on_log, rho_b, reward = [], [], [np.empty(0)]
    for first, last in parts(models, simulated, CELLS // problem.counts.n_sas.size):
        worlds = shrinkage.worlds(keys[first:last])
        rho_b.append(worlds.rho_b)
        on_log.append(np.stack([gain(worlds, np.broadcast_to(x, worlds.pi_b.shape)) for x in pi]))
        if first < simulated:
            reward.append(mean_rewards(posterior, worlds, keys[first:last], shape))
    return Simulation(
        on_log=np.concatenate(on_log, axis=1),
        rho_b=np.concatenate(rho_b),
        reward=np.concatenate(reward),
        observed=_mean_reward(problem),
        pi=pi,
        converged=np.array([bool(x.status.ok) for x in solutions]),
    )


def parts(models: int, simulated: int, size: int) -> list[tuple[int, int]]:
    """Ranges of at most `size` models (or 1), none on both sides of `simulated`."""
    size = max(1, size)
    cuts = sorted({*range(0, simulated, size), *range(simulated, models, size), models})
    return list(pairwise(cuts))


def _mean_reward(problem: Problem) -> float:
    """The mean reward a step of the log."""
    table, counts = problem.reward_table, problem.counts
    r = counts.r_sas if table is None else to_numpy(counts.n_sas) * to_numpy(table)
    return float(to_numpy(r).sum() / problem.n_sa.sum())


def log_shape(problem: Problem) -> tuple[Episodes, ...]:
    """The episodes of a log like this one.

    An episode that was cut is cut at its own length again; one that ended may go on to the longest
    length. Where episodes are cut at more than GROUPS lengths, they are put into as many groups of
    like length.
    """
    log = problem.log
    if log is None:
        raise NotAvailableError(
            "a log is simulated from the lengths of its episodes, but this problem carries no rows"
            " (over 2,000,000 of them, or counted elsewhere): pass simulated=0, which leaves"
            " the check of the models out"
        )
    lengths = np.bincount(log.episode)
    cut = np.zeros(len(lengths), dtype=bool)
    cut[log.episode[log.cuts]] = True
    limits = np.sort(np.where(cut, lengths, lengths.max()))
    changes = np.flatnonzero(np.diff(limits)) + 1
    groups = np.split(limits, changes) if len(changes) < GROUPS else np.array_split(limits, GROUPS)
    return tuple(
        Episodes(i + 1, len(x), int(np.ceil(x.mean()))) for i, x in enumerate(groups) if len(x)
    )


def mean_rewards(
    posterior: Posterior, worlds: Worlds, keys: Array, shape: tuple[Episodes, ...]
) -> np.ndarray:
    """The mean reward a step of a log simulated in each world [K].

    The sum of n rewards of a pair has variance n sigma^2.
    """
    sampled = Sampler(worlds).counts(keys, shape, with_returns=False)
    n_sas = np.asarray(sum(to_numpy(counts.n_sas) for counts, _ in sampled))
    r_sas = n_sas * worlds.reward_table
    if posterior.scatter.any():
        error = np.sqrt(n_sas * posterior.scatter[..., None])
        r_sas = r_sas + error * normals(keys, NOISE, n_sas.shape[1:])
    return np.asarray(r_sas.sum(axis=(1, 2, 3)) / n_sas.sum(axis=(1, 2, 3)))
