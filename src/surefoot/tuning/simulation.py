"""Posterior simulation: what every setting is worth in models drawn from the posterior of a log,
shrunk across actions.

here       the policy learned from the log there is, valued in every drawn model: its gain as far as
           this log tells
again      in every drawn model the log is made anew (same episodes, same baseline), every setting
           learns from that one and is valued in the model: its gain over logs like this one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, repr=False)
class Simulation:
    """Gains over the baseline in K drawn models: here [settings, K], again [settings, R] in the
    first R of them.

    rho_b [K] is the value of the baseline; reward [R] the mean reward a step of the logs made anew,
    `observed` that of the log there is; pi [settings, S, A] and converged [settings] are what the
    settings learn from the log there is.
    """

    here: np.ndarray
    again: np.ndarray
    rho_b: np.ndarray
    reward: np.ndarray
    observed: float
    pi: np.ndarray
    converged: np.ndarray


def simulate(
    problem: Problem,
    algorithms: Sequence[Algorithm],
    models: int,
    again: int,
    *,
    seed: int = 0,
    posterior: Posterior | None = None,
    progress: Progress = lambda done, total: None,
) -> Simulation:
    """Value the algorithms in `models` drawn models, and in the first `again` of them on logs made
    anew.

    Draws depend on (seed, model) alone, not on the algorithms, nor on how many models there are.
    """
    for name, value, least in (("models", models, 1), ("again", again, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ParameterError(
                f"{name} must be a whole number of at least {least}, got {value!r}"
            )
    posterior, again = posterior or Posterior(problem), min(again, models)
    shrinkage = Shrinkage(posterior)
    solutions = [improve(problem, x) for x in algorithms]
    own = np.stack([to_numpy(x.pi) for x in solutions])
    keys = first_key(seed, "tuning", np.arange(models, dtype=np.int64))
    here, anew = np.empty((len(own), models)), np.empty((len(own), again))
    rho_b, reward = np.empty(models), np.empty(again)
    data = log_shape(problem) if again else ()
    returns = any(x.needs_returns for x in algorithms)
    size = max(1, CELLS // (problem.n_states**2 * problem.n_actions))
    done, total = 0, len(own) * (models + again)

    def advance(by: int) -> None:
        nonlocal done
        done += by
        progress(done, total)

    for first, last in parts(models, again, size):
        worlds = shrinkage.worlds(keys[first:last])
        rho_b[first:last] = worlds.rho_b
        for j, pi in enumerate(own):
            here[j, first:last] = (
                worlds.value(np.broadcast_to(pi, worlds.pi_b.shape)) - rho_b[first:last]
            )
            advance(last - first)
        if first >= again:
            continue
        logs = log_again(posterior, worlds, keys[first:last], data, with_returns=returns)
        reward[first:last] = rewards_of(logs) / to_numpy(logs.n_sa).sum(axis=(1, 2))
        for j, algorithm in enumerate(algorithms):
            anew[j, first:last] = worlds.value(improve(logs, algorithm).pi) - rho_b[first:last]
            advance(last - first)
    observed = float(rewards_of(problem) / problem.n_sa.sum())
    for gain in (here, anew):
        gain[np.abs(gain) < ROUNDING * problem.return_range.width] = 0.0
    return Simulation(
        here, anew, rho_b, reward, observed, own, np.array([bool(x.status.ok) for x in solutions])
    )


def parts(models: int, again: int, size: int) -> list[tuple[int, int]]:
    """Ranges of at most `size` models, none on both sides of `again`."""
    cuts = sorted({*range(0, again, size), *range(again, models, size), models})
    return list(pairwise(cuts))


def rewards_of(problem: Problem) -> np.ndarray:
    """The sum of the rewards of each problem's log."""
    if problem.reward_table is None:
        return np.asarray(to_numpy(problem.counts.r_sas).sum(axis=(-3, -2, -1)))
    return np.asarray(
        (to_numpy(problem.counts.n_sas) * to_numpy(problem.reward_table)).sum(axis=(-3, -2, -1))
    )


def log_shape(problem: Problem) -> tuple[Episodes, ...]:
    """The episodes of a log like this one: a cut episode is cut at its own length again, one that
    ended may go on to the longest.

    Where episodes are cut at more than GROUPS lengths, they are put into as many groups of like
    length.
    """
    log = problem.log
    if log is None:
        raise NotAvailableError(
            "a log is made anew from the lengths of its episodes, but this problem carries no rows"
            " (over 2,000,000 of them, or counted elsewhere): pass again=0, which values policies"
            " in drawn models only"
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


def log_again(
    posterior: Posterior,
    worlds: Worlds,
    keys: Array,
    data: tuple[Episodes, ...],
    *,
    with_returns: bool = False,
) -> Problem:
    """The problems [K] that logs of these worlds pose, as the problem at hand is posed; an
    estimated baseline is estimated anew.
    """
    problem = posterior.problem
    found = list(Sampler(worlds).counts(keys, data, with_returns=with_returns))
    counts = _with_rewards(
        posterior, worlds, keys, np.asarray(sum(to_numpy(x.n_sas) for x, _ in found))
    )
    pi_b = estimate_baseline(counts.n_sa, worlds.allowed) if problem.pi_b_estimated else worlds.pi_b
    table = worlds.reward_table
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
        returns_given=_joined([x for _, x in found if x is not None]),
        n_bound_states=problem.n_bound_states,
    )


def _with_rewards(posterior: Posterior, worlds: Worlds, keys: Array, n_sas: np.ndarray) -> Counts:
    """Counts with the rewards of so many visits: their sum has variance n sigma^2, their scatter
    its mean (n - 1) sigma^2.
    """
    r_sas = n_sas * worlds.reward_table
    rest = np.zeros(n_sas.shape[:-1])
    if posterior.scatter.any():
        r_sas = r_sas + np.sqrt(n_sas * posterior.scatter[..., None]) * normals(
            keys, NOISE, n_sas.shape[1:]
        )
        rest = posterior.scatter * np.maximum(n_sas - 1, 0).sum(axis=-1)
    return Counts(n_sas, r_sas, rest, worlds.n_states, worlds.n_actions)


def _joined(groups: list[Returns]) -> Returns | None:
    """The returns of several groups of episodes together (Chan's rule)."""
    if not groups:
        return None
    n, mean, m2 = (to_numpy(getattr(groups[0], name)) for name in ("n", "mean", "m2"))
    for group in groups[1:]:
        both = n + group.n
        some = np.maximum(both, 1.0)
        x, y = np.where(n > 0, mean, 0.0), np.where(group.n > 0, group.mean, 0.0)
        m2 = m2 + group.m2 + n * group.n / some * (x - y) ** 2
        mean = np.where(both > 0, (n * x + group.n * y) / some, np.nan)
        n = both
    return Returns(n, mean, m2)
