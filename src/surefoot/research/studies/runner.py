"""The runner: a study in its folder, with a spec, a manifest, and a Parquet file a shard, each
written whole; missing shards are computed by local processes, on a GPU or on a Dask cluster.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from surefoot.core.atomic import PARTIAL, read_json, whole_file, write_whole, writing
from surefoot.core.cluster import cluster, computed
from surefoot.core.errors import NotAvailableError, StudyError
from surefoot.research.studies.results import Cell, Results
from surefoot.research.studies.spec import Study, StudySetting, Variant, settings, variants
from surefoot.research.studies.trials import Trials, run_trials, score

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

MANIFEST, SPEC, SHARDS = "manifest.json", "study.json", "shards"
PACKAGES = ("surefoot", "numpy", "scipy", "duckdb", "torch")


@dataclass(frozen=True, order=True)
class Shard:
    """Trials start, ..., stop - 1 of one variant of the study."""

    variant: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Its file."""
        return f"variant{self.variant:02d}-trials{self.start:07d}-{self.stop:07d}.parquet"


@dataclass(frozen=True)
class Folder:
    """Where a study lives."""

    path: Path
    study: Study
    shard_trials: int

    @cached_property
    def settings(self) -> tuple[StudySetting, ...]:
        """The algorithms of the study with their parameters."""
        return settings(self.study)

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The benchmarks of the study."""
        return variants(self.study)

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """How the work is cut."""
        cuts = range(0, self.study.trials, self.shard_trials)
        return tuple(
            Shard(v, i, min(i + self.shard_trials, self.study.trials))
            for v in range(len(self.variants))
            for i in cuts
        )

    def file(self, shard: Shard) -> Path:
        """The file of a shard."""
        return self.path / SHARDS / shard.name

    def missing(self) -> list[Shard]:
        """Shards without a sound file; damaged files and what a kill left half are removed."""
        self.tidy()
        return [shard for shard in self.shards if not self._sound(shard)]

    def tidy(self) -> None:
        """Remove files that were being written by processes that are gone."""
        for left in (self.path / SHARDS).glob(f"*{PARTIAL}"):
            left.unlink(missing_ok=True)

    def _sound(self, shard: Shard) -> bool:
        path = self.file(shard)
        if not path.exists():
            return False
        try:
            read_shard(self, shard)
        except DamagedShardError:
            path.unlink()
            return False
        return True

    def results(self) -> Results:
        """All trials of all cells, in the order of trials; raises if a shard is missing."""
        cells, scores, baselines, converged = [], [], [], []
        for v, variant in enumerate(self.variants):
            parts = [read_shard(self, shard) for shard in self.shards if shard.variant == v]
            rho, ok, rho_b, rho_star = (
                np.concatenate([getattr(part, name) for part in parts], axis=-1)
                for name in ("rho", "converged", "rho_b", "rho_star")
            )
            found, base = (score(variant.benchmark, x, rho_b, rho_star) for x in (rho, rho_b))
            for i, size in enumerate(self.study.benchmark.sizes):
                for j, setting in enumerate(self.settings):
                    cells.append(Cell(variant.label, size, setting.name, setting.parameters))
                    scores.append(found[i, j])
                    baselines.append(base)
                    converged.append(ok[i, j])
        return Results(tuple(cells), np.stack(scores), np.stack(baselines), np.stack(converged))


class DamagedShardError(StudyError):
    """A shard file that is not what this study wrote."""


def open_folder(path: str | Path, study: Study, shard_trials: int, device: str) -> Folder:
    """The folder of this study, new or to be resumed; a folder of anything else is refused."""
    path = Path(path)
    manifest = path / MANIFEST
    if manifest.exists():
        try:
            found = read_json(manifest)
            same, cut = found["fingerprint"] == study.fingerprint, int(found["shard_trials"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StudyError(
                f"{manifest} cannot be read ({error}): choose another folder, or remove this one"
            ) from error
        if not same:
            raise StudyError(
                f"{path} holds another study ({found.get('name')!r}, {found.get('trials')} trials,"
                f" seed {found.get('seed')}): choose another folder with --out, or remove this one"
            )
        folder = Folder(path, study, cut)
        _check_version(folder, found)
        return folder
    if path.exists() and (not path.is_dir() or not _in_the_making(path)):
        raise StudyError(
            f"{path} exists and is not the folder of a study: choose another one with --out"
        )
    with writing(path):
        (path / SHARDS).mkdir(parents=True, exist_ok=True)
    write_whole(path / SPEC, json.dumps(study.model_dump(), indent=2) + "\n")
    write_whole(manifest, json.dumps(_manifest(study, shard_trials, device), indent=2) + "\n")
    return Folder(path, study, shard_trials)


def _check_version(folder: Folder, manifest: dict[str, Any]) -> None:
    """Raise if the rest of a study would be computed by another surefoot than its beginning."""
    begun, now = (manifest.get("versions") or {}).get("surefoot"), versions().get("surefoot")
    if begun is not None and begun != now and folder.missing():
        raise StudyError(
            f"{folder.path} was begun with surefoot {begun}, and this is {now}: results of two"
            f" versions do not mix. Go on with {begun}, or choose another folder with --out"
        )


@contextmanager
def undone_if_fruitless(path: Path) -> Iterator[None]:
    """After an error before the first shard is finished, the folder is as it was before."""
    made = (path / SHARDS, path / SPEC, path / MANIFEST, path, *path.parents)
    new = [x for x in made if not x.exists()]
    try:
        yield
    except BaseException:
        shards = list((path / SHARDS).iterdir()) if (path / SHARDS).is_dir() else []
        if path / MANIFEST in new and all(x.name.endswith(PARTIAL) for x in shards):
            for x in (*shards, *new):
                with suppress(OSError):  # a folder that holds something else stays
                    x.rmdir() if x.is_dir() else x.unlink(missing_ok=True)
        raise


def _in_the_making(path: Path) -> bool:
    """Whether a folder holds nothing but what a run writes before the manifest."""
    return all(
        x.name == SPEC
        or x.name.startswith((f".{SPEC}.", f".{MANIFEST}."))
        or (x.name == SHARDS and x.is_dir() and not any(x.iterdir()))
        for x in path.iterdir()
    )


def _manifest(study: Study, shard_trials: int, device: str) -> dict[str, object]:
    """What a figure can be traced by."""
    return {
        "name": study.name,
        "fingerprint": study.fingerprint,
        "trials": study.trials,
        "seed": study.seed,
        "shard_trials": shard_trials,
        "device": device,
        "versions": versions(),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def versions() -> dict[str, str]:
    """The releases that results depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_shard(folder: Folder, shard: Shard, trials: Trials) -> None:
    """One row for each (size, trial): rho_b, rho_star; value and convergence of every setting."""
    import duckdb

    sizes, n = folder.study.benchmark.sizes, shard.stop - shard.start
    table = {
        "size": np.repeat(np.array(sizes, dtype=np.int64), n),
        "trial": np.tile(np.arange(shard.start, shard.stop, dtype=np.int64), len(sizes)),
        "rho_b": np.tile(trials.rho_b, len(sizes)),
        "rho_star": np.tile(trials.rho_star, len(sizes)),
    }
    for j, one in enumerate(folder.settings):
        table[one.label] = np.ascontiguousarray(trials.rho[:, j].reshape(-1))
        table[f"converged: {one.label}"] = np.ascontiguousarray(trials.converged[:, j].reshape(-1))
    kept = ", ".join(f"{k}: '{v}'" for k, v in _notes(folder, shard, table).items())
    with whole_file(folder.file(shard), parents=False) as part, duckdb.connect() as connection:
        connection.execute("set threads = 1")
        connection.register("shard", table)
        try:
            connection.execute(
                f"copy shard to '{_quoted(part)}' (format parquet, compression zstd, use_tmp_file"
                f" false, kv_metadata {{{kept}}})"
            )
        except duckdb.IOException as error:
            raise OSError(str(error)) from error


def read_shard(folder: Folder, shard: Shard) -> Trials:
    """The trials in the file of a shard; whatever is wrong with it raises DamagedShardError."""
    import duckdb

    path, file = folder.file(shard), f"'{_quoted(folder.file(shard))}'"
    if not path.exists():
        raise StudyError(
            f"{folder.path} is not finished: {shard.name} is missing; run the study again to"
            " resume it"
        )
    try:
        with duckdb.connect() as connection:
            connection.execute("set threads = 1")
            kept = {
                bytes(k).decode(): bytes(v).decode()
                for _, k, v in connection.execute(f"from parquet_kv_metadata({file})").fetchall()
            }
            table = connection.execute(f"from read_parquet({file})").fetchnumpy()
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise DamagedShardError(f"{path} cannot be read: {error}") from error
    table = {name: np.asarray(x) for name, x in table.items()}
    if not _notes(folder, shard, table).items() <= kept.items():
        raise DamagedShardError(f"{path} is not what this study wrote")
    shape = (len(folder.study.benchmark.sizes), shard.stop - shard.start)
    rho, converged = (
        np.stack([table[f"{what}{one.label}"].reshape(shape) for one in folder.settings], axis=1)
        for what in ("", "converged: ")
    )
    rho_b, rho_star = (table[name].reshape(shape)[0] for name in ("rho_b", "rho_star"))
    return Trials(rho_b, rho_star, rho, converged)


def _notes(folder: Folder, shard: Shard, table: dict[str, np.ndarray]) -> dict[str, str]:
    """What is kept beside a table to know it again: study, shard, and a digest of all columns."""
    digest = hashlib.sha256()
    for name in sorted(table):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(table[name]).tobytes())
    study = folder.study.fingerprint
    return {"fingerprint": study, "shard": shard.name, "digest": digest.hexdigest()}


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


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
