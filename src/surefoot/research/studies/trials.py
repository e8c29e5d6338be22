"""Trials: sample a data set, improve the baseline by every algorithm, evaluate in the true MDP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from surefoot.algorithms.improvement import improve
from surefoot.core import Counts, Returns
from surefoot.core.arrays import Array, is_numpy_array, namespace, to_numpy
from surefoot.core.errors import StudyError
from surefoot.problems import Problem
from surefoot.research.benchmarks.benchmark import NORMALISED, Benchmark
from surefoot.research.simulate.sampling import Episodes, Sampler, first_key, trial_numbers
from surefoot.research.simulate.worlds import Worlds
from surefoot.research.studies.spec import Study, StudySetting, Variant, settings

TOGETHER = 25  # trials of a shared world whose logs are walked at once


@dataclass(frozen=True, repr=False)
class Trials:
    """Values at the start in the true MDPs of some trials.

    rho_b, rho_star [trials]; rho, converged [sizes, settings, trials]; seconds [sizes, settings] of
    the processor for all trials.
    """

    rho_b: np.ndarray
    rho_star: np.ndarray
    rho: np.ndarray
    converged: np.ndarray
    seconds: np.ndarray


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
    *,
    sizes: Sequence[int] | None = None,
    chosen: Sequence[StudySetting] | None = None,
) -> Trials:
    """The trials start, ..., stop - 1 of one variant of a study: of all sizes and settings, or of
    those that are given.

    Nothing about a trial depends on where the ranges are cut.
    """
    benchmark = variant.benchmark
    sizes = study.benchmark.sizes if sizes is None else sizes
    chosen = settings(study) if chosen is None else chosen
    numbers = trial_numbers(start, stop, "cpu" if benchmark.sparse else device)
    keys = first_key(study.seed, benchmark.name, numbers)
    worlds = benchmark.worlds(keys)
    rho_b, rho_star = (
        np.broadcast_to(to_numpy(x), (stop - start,)) for x in (worlds.rho_b, worlds.rho_star)
    )
    shape = (len(sizes), len(chosen), stop - start)
    rho, converged = np.empty(shape), np.empty(shape, dtype=bool)
    seconds = np.zeros(shape[:2])
    for part in _parts(study, benchmark, sizes, chosen, worlds, keys):
        n = part.trials.stop - part.trials.start
        for j in part.settings:
            began = process_time()
            solution = improve(part.problem, chosen[j].algorithm)
            seconds[list(part.sizes), j] += (process_time() - began) / len(part.sizes)
            pi = solution.pi.reshape(-1, *worlds.pi_b.shape[1:])
            done = to_numpy(solution.status.converged).reshape(len(part.sizes), n)
            for k, i in enumerate(part.sizes):
                mine = pi[k * n : (k + 1) * n, ...]
                rho[i, j, part.trials] = to_numpy(part.worlds.value(mine))
                converged[i, j, part.trials] = done[k]
    return Trials(rho_b, rho_star, rho, converged, seconds)


@dataclass(frozen=True)
class _Part:
    """The data sets of some trials at some sizes as one problem, and which settings solve it."""

    sizes: Sequence[int]
    trials: slice
    worlds: Worlds
    settings: Sequence[int]
    problem: Problem


def _parts(
    study: Study,
    benchmark: Benchmark,
    sizes: Sequence[int],
    chosen: Sequence[StudySetting],
    worlds: Worlds,
    keys: Array,
) -> Iterator[_Part]:
    """All trials at once from their counts; one by one where the log is read, or S is large."""
    readers = [j for j, x in enumerate(chosen) if benchmark.sparse or x.algorithm.needs_log]
    others = [j for j in range(len(chosen)) if j not in readers]
    if others:
        returns = any(x.algorithm.needs_returns for x in chosen)
        data = tuple(benchmark.episodes(size) for size in sizes)
        yield from _counted(study, data, others, worlds, keys, returns)
    if readers:
        yield from _logged(study, benchmark, sizes, readers, worlds, keys)


def _counted(
    study: Study,
    data: tuple[Episodes, ...],
    settings: Sequence[int],
    worlds: Worlds,
    keys: Array,
    with_returns: bool,
) -> Iterator[_Part]:
    """All trials at once: size by size on a CPU, for its cache, else all sizes together."""
    options, everyone = study.problem.model_dump(), slice(0, keys.shape[0])
    parts = Sampler(worlds).counts(keys, data, with_returns=with_returns)
    if is_numpy_array(keys):
        for i, (counts, returns) in enumerate(parts):
            problem = worlds.problem(counts, returns, **options)
            yield _Part([i], everyone, worlds, settings, problem)
        return
    xp = namespace(keys)
    found = list(parts)
    n_sas = xp.concat([counts.n_sas for counts, _ in found], axis=0)
    counts = Counts(n_sas, None, None, worlds.n_states, worlds.n_actions)
    returns = None
    if with_returns:
        each = zip(*((r.n, r.mean, r.m2) for _, r in found if r is not None), strict=True)
        returns = Returns(*(xp.concat(list(x), axis=0) for x in each))
    problem = worlds.problem(counts, returns, **options)
    yield _Part(range(len(data)), everyone, worlds, settings, problem)


def _logged(
    study: Study,
    benchmark: Benchmark,
    sizes: Sequence[int],
    settings: Sequence[int],
    worlds: Worlds,
    keys: Array,
) -> Iterator[_Part]:
    """One trial and size after the other, from the log: the same steps that are counted."""
    options, keys = study.problem.model_dump(), to_numpy(keys)
    shared = worlds.pi_b.shape[0] == 1
    together = TOGETHER if shared and not benchmark.sparse else 1
    for first in range(0, len(keys), together):
        if first == 0 or not shared:
            alone = shared and is_numpy_array(worlds.pi_b)
            world = worlds if alone else worlds.only(first)
            sampler = Sampler(world)
        for i, size in enumerate(sizes):
            logs = sampler.logs(keys[first : first + together], benchmark.episodes(size))
            for t, log in enumerate(logs, start=first):
                problem = world.problem_of_log(log, sparse=benchmark.sparse, **options)
                yield _Part([i], slice(t, t + 1), world, settings, problem)
