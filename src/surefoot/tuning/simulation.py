"""Posterior simulation: what settings gain in models drawn from the posterior of a log, shrunk.

on_log         the policy learned from the log at hand, valued in every drawn model
on_simulated   in every drawn model a log is simulated (same episodes, same baseline), every setting
               learns from it and is valued in the model: its gain over logs like this one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from surefoot.algorithms import Algorithm
from surefoot.core import Counts, Returns
from surefoot.errors import NotAvailableError, ParameterError
from surefoot.improvement import improve
from surefoot.problems import Problem, estimate_baseline
from surefoot.rows.arrays import Array, to_numpy
from surefoot.simulate import Episodes, Sampler, Worlds, first_key
from surefoot.tuning.posterior import NOISE, Posterior, normals
from surefoot.tuning.shrinkage import Shrinkage

CELLS = 20_000_000  # entries [models, S, A, S'] held at once
GROUPS = 8  # lengths of episodes that a simulated log has at most
ROUNDING = 1e-10  # a gain below this share of the return range is 0

Progress = Callable[[int, int], None]


@dataclass(frozen=True, repr=False, kw_only=True)
class Simulation:
    """Gains over the baseline in K drawn models, with logs simulated in the first R of them.

    on_log [settings, K], on_simulated [settings, R]
    rho_b [K]              the value of the baseline
    reward [R], observed   the mean reward a step of the simulated logs, and of the log at hand
    pi [settings, S, A], converged [settings]   what the settings learn from the log at hand
    """

    on_log: np.ndarray
    on_simulated: np.ndarray
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
    returns = any(x.needs_returns for x in algorithms)

    def gain(worlds: Worlds, pi: Array) -> np.ndarray:
        nonlocal done
        found = worlds.value(pi) - worlds.rho_b
        done += len(found)
        progress(done, len(algorithms) * (models + simulated))
        return np.where(np.abs(found) < ROUNDING * problem.return_range.width, 0.0, found)

    on_log, on_simulated, rho_b, reward = [], [np.empty((len(pi), 0))], [], [np.empty(0)]
    for first, last in parts(models, simulated, CELLS // problem.counts.n_sas.size):
        worlds = shrinkage.worlds(keys[first:last])
        rho_b.append(worlds.rho_b)
        on_log.append(np.stack([gain(worlds, np.broadcast_to(x, worlds.pi_b.shape)) for x in pi]))
        if first < simulated:
            logs = simulated_logs(posterior, worlds, keys[first:last], shape, returns=returns)
            reward.append(_total_reward(logs) / to_numpy(logs.n_sa).sum(axis=(1, 2)))
            on_simulated.append(np.stack([gain(worlds, improve(logs, x).pi) for x in algorithms]))
    return Simulation(
        on_log=np.concatenate(on_log, axis=1),
        on_simulated=np.concatenate(on_simulated, axis=1),
        rho_b=np.concatenate(rho_b),
        reward=np.concatenate(reward),
        observed=float(_total_reward(problem) / problem.n_sa.sum()),
        pi=pi,
        converged=np.array([bool(x.status.ok) for x in solutions]),
    )


def parts(models: int, simulated: int, size: int) -> list[tuple[int, int]]:
    """Ranges of at most `size` models (or 1), none on both sides of `simulated`."""
    size = max(1, size)
    cuts = sorted({*range(0, simulated, size), *range(simulated, models, size), models})
    return list(pairwise(cuts))


def _total_reward(problem: Problem) -> np.ndarray:
    """The sum of the rewards of each problem's log."""
    table, counts = problem.reward_table, problem.counts
    r = counts.r_sas if table is None else to_numpy(counts.n_sas) * to_numpy(table)
    return np.asarray(to_numpy(r).sum(axis=(-3, -2, -1)))


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
            " (over 2,000,000 of them, or counted elsewhere): pass simulated=0, which values"
            " policies in drawn models only"
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


def simulated_logs(
    posterior: Posterior,
    worlds: Worlds,
    keys: Array,
    shape: tuple[Episodes, ...],
    *,
    returns: bool = False,
) -> Problem:
    """The problems [K] that logs of these worlds pose, as the problem at hand is posed.

    An estimated baseline is estimated from each log.
    """
    problem = posterior.problem
    found = list(Sampler(worlds).counts(keys, shape, with_returns=returns))
    n_sas = np.asarray(sum(to_numpy(x.n_sas) for x, _ in found))
    counts = _with_rewards(posterior, worlds, keys, n_sas)
    pi_b = (
        estimate_baseline(counts.n_sa, worlds.allowed) if problem.pi_b_is_mixture else worlds.pi_b
    )
    table = worlds.reward_table
    groups = [x for _, x in found if x is not None]
    return Problem(
        counts=counts,
        pi_b=pi_b,
        gamma=problem.gamma,
        start=worlds.start,
        terminal=worlds.terminal,
        allowed=worlds.allowed,
        return_range=problem.return_range,
        reward_range=problem.reward_range,
        reward_table=(
            None
            if problem.reward_table is None
            else np.broadcast_to(table, (len(pi_b), *table.shape[1:]))
        ),
        pi_b_estimated=problem.pi_b_estimated,
        unseen_states=problem.unseen_states,
        ties=problem.ties,
        returns_given=reduce(_joined, groups) if groups else None,
        n_bound_states=problem.n_bound_states,
    )


def _with_rewards(posterior: Posterior, worlds: Worlds, keys: Array, n_sas: np.ndarray) -> Counts:
    """Counts with the rewards of so many visits.

    The sum of n rewards has variance n sigma^2; their scatter is put at its mean, (n - 1) sigma^2.
    """
    r_sas = n_sas * worlds.reward_table
    rest = np.zeros(n_sas.shape[:-1])
    if posterior.scatter.any():
        error = np.sqrt(n_sas * posterior.scatter[..., None])
        r_sas = r_sas + error * normals(keys, NOISE, n_sas.shape[1:])
        rest = posterior.scatter * np.maximum(n_sas - 1, 0).sum(axis=-1)
    return Counts(n_sas, r_sas, rest, worlds.n_states, worlds.n_actions)


def _joined(a: Returns, b: Returns) -> Returns:
    """The returns of two groups of episodes together (Chan, Golub and LeVeque 1983)."""
    n = to_numpy(a.n) + b.n
    some = np.maximum(n, 1.0)
    x, y = np.where(a.n > 0, a.mean, 0.0), np.where(b.n > 0, b.mean, 0.0)
    mean = np.where(n > 0, (a.n * x + b.n * y) / some, np.nan)
    return Returns(n, mean, a.m2 + b.m2 + a.n * b.n / some * (x - y) ** 2)
