"""The runner: what a study lacks in its folder is computed by local processes, on a GPU or on a
Dask cluster.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from types import ModuleType

from surefoot.core.cluster import cluster, computed
from surefoot.core.errors import NotAvailableError, StudyError
from surefoot.research.studies.identity import MAIN
from surefoot.research.studies.results import Results
from surefoot.research.studies.shards import (
    Folder,
    Shard,
    open_folder,
    undone_if_fruitless,
    write_shard,
)
from surefoot.research.studies.spec import (
    AlgorithmsLike,
    BenchmarkLike,
    Study,
    define_study,
    read_study,
    settings,
    variants,
)
from surefoot.research.studies.trials import run_trials

# Trials a shard: a GPU is fastest with whole studies; sparse problems, and those whose log is read,
# run one by one.
SHARD_TRIALS = {"cpu": 250, "gpu": 10000, "sparse": 20, "logs": 50}
MOST_WORKERS = 1024  # local processes; more than the machine has cores do not help
ATTEMPTS = 3  # how many pools of workers are tried before giving up
ONE_THREAD = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

Progress = Callable[[int, int], None]  # (trials done, trials in all)
Finished = Generator[Shard, None, None]  # shards as they are finished


def run(
    study: Study,
    out: str | Path | None = None,
    *,
    workers: int | None = None,
    device: str = "cpu",
    dask: str | None = None,
    shard_trials: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Results:
    """Run a study, or what its folder lacks of it, and return its results.

    Killed at any moment, the same call resumes it; without a folder nothing is kept. `workers`
    local processes (default: all cores), each with one BLAS thread; with `device` "cuda" the shards
    run one after the other on the GPU; with `dask`, the address of a scheduler, they are sent there
    and the folder must be visible to the workers. Results do not depend on any of them, but for
    rounding on another device. The cut into shards is kept from the first run.
    """
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise StudyError(f"workers must be from 1 to {MOST_WORKERS:,}, got {workers:,}")
    if shard_trials is not None and shard_trials < 1:
        raise StudyError(f"a shard needs at least 1 trial, got {shard_trials}")
    check_device(device)
    if out is None:
        if dask is not None:
            raise StudyError("on a Dask cluster a study needs a folder that its workers see: out")
        with TemporaryDirectory(prefix="surefoot-study-") as made:
            options = {"workers": workers, "device": device, "shard_trials": shard_trials}
            return run(study, Path(made) / "study", progress=progress, **options)  # type: ignore[arg-type]
    sparse = any(variant.benchmark.sparse for variant in variants(study))
    if sparse:
        device = "cpu"  # problems that are too large for a batch
    logs = any(setting.algorithm.needs_log for setting in settings(study))
    kind = "sparse" if sparse else "logs" if logs else "cpu" if device == "cpu" else "gpu"
    out, cut = Path(out).absolute(), shard_trials or SHARD_TRIALS[kind]
    with undone_if_fruitless(out):
        folder = open_folder(out, study, cut, device)
        missing = folder.missing()
        if dask is not None:
            finished = _on_dask(folder, missing, device, dask)
        elif device != "cpu":
            finished = _here(folder, missing, device)
        else:
            finished = _in_processes(folder, missing, workers or os.cpu_count() or 1)
        _follow(folder, missing, finished, progress)
    return folder.results()


def study(
    benchmark: BenchmarkLike,
    algorithms: AlgorithmsLike | None = None,
    sizes: int | Sequence[int] | None = None,
    trials: int | None = None,
    seed: int | None = None,
    *,
    alpha: float | None = None,
    conventions: str | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    device: str = "cpu",
    dask: str | None = None,
    progress: Progress = lambda done, total: None,
) -> Results:
    """Algorithms compared on a benchmark: `trials` data sets of every size, each improved by every
    algorithm and evaluated in the true MDP.

    benchmark     its name, with parameters ("random-mdps eta=0.5"), a table as in a study file, or
                  an object, such as `surefoot.research.benchmarks.from_gymnasium(env)`
    algorithms    names with parameters ("ramdp kappa=0.05"), or objects; one or a list; a dict
                  {"mine": MyAlgorithm()} gives the names that results show
    alpha         of CVaR: the mean of the worst share alpha of the trials (0.01)
    out           a folder that keeps what was computed and grows by trials, sizes and algorithms:
                  what is there is not run again. Without it nothing is kept

    Or `surefoot.study("my-study.toml", out="results")`: the first is a study file, which says all
    but `trials` and `conventions`. Classes of a notebook or script work, too: their processes are
    forks of this one, and where there are none (macOS, Windows) this process does the work.
    """
    if isinstance(benchmark, (str, Path)) and str(benchmark).endswith(".toml"):
        told = {"algorithms": algorithms, "sizes": sizes, "seed": seed, "alpha": alpha}
        twice = next((k for k, v in told.items() if v is not None), None)
        if twice is not None:
            raise StudyError(f"{benchmark} says {twice} itself: leave it out, or change the file")
        defined = read_study(benchmark, trials, conventions)
    else:
        alpha, seed = 0.01 if alpha is None else alpha, seed or 0
        defined = define_study(
            benchmark, algorithms, sizes, trials, seed, alpha=alpha, conventions=conventions
        )
    return run(defined, out, workers=workers, device=device, dask=dask, progress=progress)


def _follow(folder: Folder, missing: list[Shard], finished: Finished, progress: Progress) -> None:
    """Tell how far the work is until all shards are there."""
    lacking = {(s.variant, t) for s in missing for t in range(s.start, s.stop)}
    total = folder.study.trials * len(folder.variants)
    waiting = missing
    # an interruption in `progress`, too, ends the workers and removes what they were writing
    with closing(finished):
        progress(total - len(lacking), total)
        for shard in finished:
            waiting = [x for x in waiting if x != shard]
            lacking = {(s.variant, t) for s in waiting for t in range(s.start, s.stop)}
            progress(total - len(lacking), total)


def check_device(device: str) -> None:
    """Raise unless the device can be used."""
    if device == "cpu":
        return
    try:
        import torch
    except ImportError as error:
        raise StudyError(
            f"--device {device} needs PyTorch: pip install 'surefoot[torch]'"
        ) from error
    if device == "torch":
        return
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise StudyError(f"--device {device}: {str(error).splitlines()[0]}") from error


def compute(folder: Folder, shard: Shard, device: str) -> Shard:
    """Compute one shard and write its file."""
    trials = run_trials(
        folder.study,
        folder.variants[shard.variant],
        shard.start,
        shard.stop,
        device,
        sizes=[folder.study.benchmark.sizes[i] for i in shard.sizes],
        chosen=[folder.settings[j] for j in shard.settings],
    )
    write_shard(folder, shard, trials)
    return shard


def _here(folder: Folder, missing: list[Shard], device: str) -> Finished:
    for shard in missing:
        yield compute(folder, shard, device)


def _in_processes(folder: Folder, missing: list[Shard], workers: int) -> Finished:
    """A pool of processes; after one dies, what is missing goes to a new pool.

    They are fresh ones, unless a class comes from a notebook or a script, which a fresh process
    does not have: then they are forks of this one, which inherit the study; where there are no
    forks, this process does the work.
    """
    travels = _travels(folder.study)
    if not travels and (sys.platform == "darwin" or "fork" not in get_all_start_methods()):
        yield from _here(folder, missing, "cpu")
        return
    for _ in range(ATTEMPTS):
        if not missing:
            return
        try:
            with _pool(min(workers, len(missing)), "spawn" if travels else "fork") as pool:
                with _without_main() if travels else _inherited(folder):
                    waiting = [
                        pool.submit(compute, folder, shard, "cpu")
                        if travels
                        else pool.submit(_compute_inherited, shard)
                        for shard in missing
                    ]
                for future in as_completed(waiting):
                    shard = future.result()
                    missing = [s for s in missing if s != shard]
                    yield shard
        except BrokenProcessPool:
            missing = folder.missing()
        finally:
            folder.tidy()  # the workers are gone, whatever ended them
    if missing:
        raise StudyError(
            f"{len(missing)} shards could not be computed: a worker died {ATTEMPTS} times, perhaps"
            " for want of memory"
        )


def _travels(study: Study) -> bool:
    """Whether a fresh process can load all that the study names."""
    try:
        return MAIN.encode() not in pickle.dumps(study)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


_INHERITED: list[Folder] = []  # what forks of this process find


@contextmanager
def _inherited(folder: Folder) -> Iterator[None]:
    """Forks that start in here have this folder."""
    _INHERITED.append(folder)
    try:
        yield
    finally:
        _INHERITED.remove(folder)


def _compute_inherited(shard: Shard) -> Shard:
    return compute(_INHERITED[-1], shard, "cpu")


@contextmanager
def _without_main() -> Iterator[None]:
    """Fresh processes that start in here do not run the caller's script again: nothing in it is
    needed, and without `if __name__ == "__main__"` it would start the study once more.
    """
    main = sys.modules[MAIN]
    sys.modules[MAIN] = ModuleType(MAIN)
    try:
        yield
    finally:
        sys.modules[MAIN] = main


@contextmanager
def _pool(workers: int, start: str = "spawn") -> Iterator[ProcessPoolExecutor]:
    """Processes; fresh ones have one BLAS thread each: NumPy reads the setting when it is loaded.

    At the end, unfinished shards are not waited for; they leave nothing behind.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    pool = ProcessPoolExecutor(workers, mp_context=get_context(start), initializer=_end_with_parent)
    try:
        yield pool
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(timeout=5)


def _end_with_parent() -> None:
    """A worker whose parent was killed ends too, instead of waiting for work for ever."""
    parent = parent_process()
    if parent is not None:
        Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()


def _on_dask(folder: Folder, missing: list[Shard], device: str, address: str) -> Finished:
    """The same shards on a cluster; Dask itself sends the shards of a dead worker to another."""
    if not _travels(folder.study):
        raise StudyError(
            "a class of a notebook or script cannot be sent to a cluster: put it into a module that"
            " the workers have"
        )
    try:
        with cluster(address) as client:
            tasks = [(folder, shard, device) for shard in missing]
            for _, shard in computed(client, compute, tasks, retries=ATTEMPTS):
                yield shard
    except NotAvailableError as error:
        raise StudyError(str(error)) from error
