"""The runner: missing shards are computed by local processes, on a GPU or on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread

from surefoot.core.cluster import cluster, computed
from surefoot.core.errors import NotAvailableError, StudyError
from surefoot.research.studies.results import Results
from surefoot.research.studies.shards import (
    Folder,
    Shard,
    open_folder,
    undone_if_fruitless,
    write_shard,
)
from surefoot.research.studies.spec import Study, settings, variants
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
    out: str | Path,
    *,
    workers: int | None = None,
    device: str = "cpu",
    dask: str | None = None,
    shard_trials: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Results:
    """Run a study, or what is missing of it, and return its results.

    Killed at any moment, the same call resumes it. `workers` local processes (default: all cores),
    each with one BLAS thread; with `device` "cuda" the shards run one after the other on the GPU;
    with `dask`, the address of a scheduler, they are sent there and the folder must be visible to
    the workers. Results do not depend on any of them, but for rounding on another device. The cut
    into shards is kept from the first run.
    """
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise StudyError(f"workers must be from 1 to {MOST_WORKERS:,}, got {workers:,}")
    if shard_trials is not None and shard_trials < 1:
        raise StudyError(f"a shard needs at least 1 trial, got {shard_trials}")
    check_device(device)
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


def _follow(folder: Folder, missing: list[Shard], finished: Finished, progress: Progress) -> None:
    """Tell how far the work is until all shards are there."""
    total = sum(s.stop - s.start for s in folder.shards)
    done = total - sum(s.stop - s.start for s in missing)
    # an interruption in `progress`, too, ends the workers and removes what they were writing
    with closing(finished):
        progress(done, total)
        for shard in finished:
            done += shard.stop - shard.start
            progress(done, total)


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
    variant = folder.variants[shard.variant]
    write_shard(folder, shard, run_trials(folder.study, variant, shard.start, shard.stop, device))
    return shard


def _here(folder: Folder, missing: list[Shard], device: str) -> Finished:
    for shard in missing:
        yield compute(folder, shard, device)


def _in_processes(folder: Folder, missing: list[Shard], workers: int) -> Finished:
    """A pool of fresh processes; after one dies, what is missing goes to a new pool."""
    for _ in range(ATTEMPTS):
        if not missing:
            return
        try:
            with _pool(min(workers, len(missing))) as pool:
                waiting = [pool.submit(compute, folder, shard, "cpu") for shard in missing]
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


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that start with one BLAS thread each: NumPy reads the setting when it is loaded.

    At the end, unfinished shards are not waited for; they leave nothing behind.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_end_with_parent
    )
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
    try:
        with cluster(address) as client:
            tasks = [(folder, shard, device) for shard in missing]
            for _, shard in computed(client, compute, tasks, retries=ATTEMPTS):
                yield shard
    except NotAvailableError as error:
        raise StudyError(str(error)) from error
