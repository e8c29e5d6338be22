"""Trials: sample a data set, improve the baseline with every algorithm, evaluate in the true
MDP; many trials at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from surefoot.benchmarks import NORMALISED, Benchmark
from surefoot.core import Counts, Returns
from surefoot.errors import StudyError
from surefoot.improvement import improve
from surefoot.problems import Problem
from surefoot.rows.arrays import Array, is_numpy_array, namespace, to_numpy
from surefoot.simulate import Sampler, Worlds, first_key, trial_numbers
from surefoot.studies.spec import Study, Variant, settings

TOGETHER = 25  # trials of a shared world whose logs are walked at once


@dataclass(frozen=True, repr=False)
class Trials:
    """Values at the start in the true MDPs of trials start, ..., stop - 1.

    rho_b, rho_star [trials]; rho, converged [sizes, settings, trials].
    """

    start: int
    stop: int
    rho_b: np.ndarray
    rho_star: np.ndarray
    rho: np.ndarray
    converged: np.ndarray

    def scores(self, benchmark: Benchmark) -> np.ndarray:
        """What the benchmark's figures show, [sizes, settings, trials]."""
        return score(benchmark, self.rho, self.rho_b, self.rho_star)


def score(
    benchmark: Benchmark, rho: np.ndarray, rho_b: np.ndarray, rho_star: np.ndarray
) -> np.ndarray:
    """rho, or (rho - rho_b) / (rho* - rho_b) where the benchmark is normalised."""
    if benchmark.score == NORMALISED and not (rho_star > rho_b).all():
        raise StudyError(
            "the baseline of a trial is optimal already, so that nothing can be normalised: choose"
            " a worse one"
        )
    return (rho - rho_b) / (rho_star - rho_b) if benchmark.score == NORMALISED else rho


def run_trials(
    study: Study,
    variant: Variant,
    start: int,
    stop: int,
    device: str = "cpu",
    tick: Callable[[str], None] = lambda phase: None,
) -> Trials:
    """The trials start, ..., stop - 1 of one variant of a study; nothing about a trial depends on
    where the ranges are cut.

    `tick(phase)` is called after each phase of the work, for clocks and progress bars.
    """
    benchmark, chosen = variant.benchmark, settings(study)
    keys = first_key(
        study.seed,
        benchmark.name,
        trial_numbers(start, stop, "cpu" if benchmark.sparse else device),
    )
    worlds = benchmark.worlds(keys)
    tick("worlds")
    rho_b, rho_star = (
        np.broadcast_to(to_numpy(x), (stop - start,)) for x in (worlds.rho_b, worlds.rho_star)
    )
    tick("optimum")
    shape = (len(study.benchmark.sizes), len(chosen), stop - start)
    rho, converged = np.empty(shape), np.empty(shape, dtype=bool)
    for sizes, trials, problem in (_sparse_problems if benchmark.sparse else _dense_problems)(
        study, benchmark, worlds, keys
    ):
        tick("data")
        n = trials.stop - trials.start
        for j, setting in enumerate(chosen):
            if setting.algorithm.needs_log and problem.log is None:
                continue  # below, one log after the other
            solution = improve(problem, setting.algorithm)
            tick(setting.label)
            pi, done = (
                solution.pi.reshape(-1, *worlds.pi_b.shape[1:]),
                to_numpy(solution.status.converged).reshape(len(sizes), n),
            )
            for k, i in enumerate(sizes):
                rho[i, j, trials] = to_numpy(worlds.value(pi[k * n : (k + 1) * n, ...]))
                converged[i, j, trials] = done[k]
            tick("evaluation")
    readers = [j for j, setting in enumerate(chosen) if setting.algorithm.needs_log]
    if readers and not benchmark.sparse:
        for t, i, world, problem in _logged_problems(study, benchmark, worlds, keys):
            tick("logs")
            for j in readers:
                solution = improve(problem, chosen[j].algorithm)
                tick(chosen[j].label)
                rho[i, j, t], converged[i, j, t] = (
                    world.value(solution.pi[None])[0],
                    solution.status.ok,
                )
                tick("evaluation")
    return Trials(start, stop, rho_b, rho_star, rho, converged)


def _dense_problems(
    study: Study, benchmark: Benchmark, worlds: Worlds, keys: Array
) -> Iterator[tuple[list[int], slice, Problem]]:
    """(sizes, trials, problem): all trials at once; size by size on a CPU, whose cache likes
    small parts, else all sizes together.
    """
    data = tuple(benchmark.episodes(size) for size in study.benchmark.sizes)
    options, everyone = study.problem.model_dump(), slice(0, keys.shape[0])
    with_returns = any(setting.algorithm.needs_returns for setting in settings(study))
    parts = Sampler(worlds).counts(keys, data, with_returns=with_returns)
    if is_numpy_array(keys):
        for i, (counts, returns) in enumerate(parts):
            yield [i], everyone, worlds.problem(counts, returns, **options)
        return
    xp = namespace(keys)
    found = list(parts)
    counts = Counts(
        xp.concat([c.n_sas for c, _ in found], axis=0),
        None,
        None,
        worlds.n_states,
        worlds.n_actions,
    )
    returns = None
    if found[0][1] is not None:
        returns = Returns(
            *(
                xp.concat([getattr(r, name) for _, r in found], axis=0)
                for name in ("n", "mean", "m2")
            )
        )
    yield list(range(len(data))), everyone, worlds.problem(counts, returns, **options)


def _sparse_problems(
    study: Study, benchmark: Benchmark, worlds: Worlds, keys: Array
) -> Iterator[tuple[list[int], slice, Problem]]:
    """(size, trial, problem) one by one, with sparse counts, from the log itself."""
    sampler = Sampler(worlds)
    for t, key in enumerate(keys):
        for i, size in enumerate(study.benchmark.sizes):
            yield (
                [i],
                slice(t, t + 1),
                worlds.problem_of_log(
                    sampler.log(int(key), benchmark.episodes(size)), **study.problem.model_dump()
                ),
            )


def _logged_problems(
    study: Study, benchmark: Benchmark, worlds: Worlds, keys: Array
) -> Iterator[tuple[int, int, Worlds, Problem]]:
    """(trial, size, its world, problem) one by one, from the log itself: the same steps that the
    counts of the trial count.
    """
    options, keys = study.problem.model_dump(), to_numpy(keys)
    together = TOGETHER if worlds.pi_b.shape[0] == 1 else 1
    for first in range(0, len(keys), together):
        world = worlds.only(first)
        sampler = Sampler(world)
        for i, size in enumerate(study.benchmark.sizes):
            for t, log in enumerate(
                sampler.logs(keys[first : first + together], benchmark.episodes(size)), start=first
            ):
                yield t, i, world, world.problem_of_log(log, sparse=False, **options)
