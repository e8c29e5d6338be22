"""The folder of a study: its spec, a manifest, and Parquet files of shards, each written whole. It
grows: more trials, sizes and algorithms are added to what is there.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.core.atomic import PARTIAL, read_json, whole_file, write_whole, writing
from surefoot.core.errors import StudyError
from surefoot.research.studies.identity import digest
from surefoot.research.studies.results import Cell, Results
from surefoot.research.studies.spec import Study, StudySetting, Variant, settings, variants
from surefoot.research.studies.trials import Trials, score

MANIFEST, SPEC, SHARDS = "manifest.json", "study.json", "shards"
PACKAGES = ("surefoot", "numpy", "scipy", "duckdb", "torch")


@dataclass(frozen=True, order=True)
class Shard:
    """Trials start, ..., stop - 1 of one variant, at some sizes, with some settings: positions of
    them in the study.
    """

    variant: int
    start: int
    stop: int
    sizes: tuple[int, ...]
    settings: tuple[int, ...]


@dataclass(frozen=True)
class Stored:
    """What the file of a shard holds: its trials, and what they are of."""

    variant: str
    start: int
    sizes: tuple[int, ...]
    settings: tuple[str, ...]
    trials: Trials


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
    def setting_keys(self) -> tuple[str, ...]:
        """What each setting is known by in the files."""
        return tuple(one.key for one in self.settings)

    @cached_property
    def variant_keys(self) -> tuple[str, ...]:
        """What the data of each variant are known by in the files."""
        return tuple(one.key(self.study) for one in self.variants)

    def file(self, shard: Shard) -> Path:
        """The file of a shard."""
        inside = [self.study.benchmark.sizes[i] for i in shard.sizes]
        keys = [self.setting_keys[j] for j in shard.settings]
        name = f"{self.variant_keys[shard.variant]}-trials{shard.start:07d}-{shard.stop:07d}"
        return self.path / SHARDS / f"{name}-{digest(inside, keys)}.parquet"

    def missing(self) -> list[Shard]:
        """What is to be computed; damaged files and what a kill left half are removed."""
        self.tidy()
        there = np.zeros(self._shape, dtype=bool)
        for place, _ in self._found(remove=True):
            there[place] = True
        return [
            shard
            for v in range(len(self.variants))
            for first in range(0, self.study.trials, self.shard_trials)
            for shard in self._cut(v, first, there[v, :, :, first : first + self.shard_trials])
        ]

    def _cut(self, variant: int, first: int, there: np.ndarray) -> Iterator[Shard]:
        """What is missing among some trials [sizes, settings, trials]: ranges of trials that lack
        the same, and sizes that lack the same settings together.
        """
        edges = np.flatnonzero((there[:, :, 1:] != there[:, :, :-1]).any(axis=(0, 1))) + 1
        for start, stop in zip([0, *edges], [*edges, there.shape[2]], strict=True):
            lacking: dict[tuple[int, ...], list[int]] = {}
            for i, row in enumerate(there[:, :, start]):
                lacking.setdefault(tuple(np.flatnonzero(~row).tolist()), []).append(i)
            for which, sizes in lacking.items():
                if which:
                    yield Shard(variant, first + int(start), first + int(stop), (*sizes,), which)

    def tidy(self) -> None:
        """Remove files that were being written by processes that are gone."""
        for left in (self.path / SHARDS).glob(f"*{PARTIAL}"):
            left.unlink(missing_ok=True)

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        """[variants, sizes, settings, trials]."""
        study = self.study
        return len(self.variants), len(study.benchmark.sizes), len(self.settings), study.trials

    def _found(self, remove: bool = False) -> Iterator[tuple[Any, Trials]]:
        """What the files hold of this study, and its place in [variants, sizes, settings,
        trials]; what they hold of others stays there, and counts for nothing.
        """
        sizes, keys = list(self.study.benchmark.sizes), list(self.setting_keys)
        for path in sorted((self.path / SHARDS).glob("*.parquet")):
            try:
                stored = read_shard(path)
            except DamagedShardError:
                if not remove:
                    raise
                path.unlink()
                continue
            n = min(stored.trials.rho.shape[2], self.study.trials - stored.start)
            i, j = (
                np.array([k for k, x in enumerate(given) if x in known], dtype=int)
                for given, known in ((stored.sizes, sizes), (stored.settings, keys))
            )
            if n <= 0 or not i.size or not j.size or stored.variant not in self.variant_keys:
                continue
            place = np.ix_(
                np.array([self.variant_keys.index(stored.variant)]),
                np.array([sizes.index(stored.sizes[k]) for k in i]),
                np.array([keys.index(stored.settings[k]) for k in j]),
                np.arange(stored.start, stored.start + n),
            )
            yield place, _part(stored.trials, i, j, n)

    def results(self) -> Results:
        """All trials of all cells, in the order of trials; raises if a trial is missing."""
        rho, there = np.full(self._shape, np.nan), np.zeros(self._shape, dtype=bool)
        converged, seconds = there.copy(), np.zeros(self._shape[:3])
        ends = np.empty((self._shape[0], 2, self._shape[3]))  # rho_b, rho_star
        for place, found in self._found():
            v, i, j, t = place
            new = np.where(there[place].all(axis=-1), 0.0, found.seconds[None])
            seconds[v[..., 0], i[..., 0], j[..., 0]] += new
            rho[place], converged[place], there[place] = found.rho, found.converged, True
            ends[v.item(), :, t.ravel()] = np.stack([found.rho_b, found.rho_star], axis=1)
        self._check_whole(there)
        cells, scores, baselines = [], [], []
        for v, variant in enumerate(self.variants):
            of_all, of_baseline = (
                score(variant.benchmark, x, *ends[v]) for x in (rho[v], ends[v, 0])
            )
            for i, size in enumerate(self.study.benchmark.sizes):
                for j, one in enumerate(self.settings):
                    cells.append(Cell(variant.label, size, one.name, one.parameters))
                    scores.append(of_all[i, j])
                    baselines.append(of_baseline)
        return Results(
            tuple(cells),
            np.stack(scores),
            np.stack(baselines),
            converged.reshape(len(cells), -1),
            seconds=seconds.reshape(-1) / self.study.trials,
            study=self.study,
        )

    def _check_whole(self, there: np.ndarray) -> None:
        if there.all():
            return
        v, i, j, t = np.argwhere(~there)[0].tolist()
        raise StudyError(
            f"{self.path} is not finished: {self.settings[j].label} at size"
            f" {self.study.benchmark.sizes[i]} is missing from trial {t} on"
            f" ({self.variants[v].label}); run the study again to resume it"
        )


def _part(of: Trials, sizes: np.ndarray, settings: np.ndarray, n: int) -> Trials:
    """The first n trials at some sizes, with some settings."""
    cells, inside = np.ix_(sizes, settings), np.ix_(sizes, settings, np.arange(n))
    share = n / of.rho.shape[2]
    rho, converged, seconds = of.rho[inside], of.converged[inside], of.seconds[cells] * share
    return Trials(of.rho_b[:n], of.rho_star[:n], rho, converged, seconds)


class DamagedShardError(StudyError):
    """A shard file that is not as it was written."""


def open_folder(path: str | Path, study: Study, shard_trials: int, device: str) -> Folder:
    """The folder of this study, new, to be resumed or to grow; one of anything else is refused."""
    path = Path(path)
    manifest = path / MANIFEST
    if manifest.exists():
        try:
            found = read_json(manifest)
            same = found["holds"] == _holds(study)
            cut = int(found["shard_trials"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StudyError(
                f"{manifest} cannot be read, or is of an earlier surefoot ({error}): choose another"
                " folder, or remove this one"
            ) from error
        if not same:
            raise StudyError(
                f"{path} holds another study ({found['holds']}): a folder grows by trials, sizes"
                " and algorithms, while benchmark, seed and conventions stay. Choose another folder"
                " with --out, or remove this one"
            )
        folder = Folder(path, study, cut)
        _check_version(folder, found)
        if found.get("fingerprint") != study.fingerprint:
            _describe(folder, str(found.get("device", device)))
        return folder
    if path.exists() and (not path.is_dir() or not _in_the_making(path)):
        raise StudyError(
            f"{path} exists and is not the folder of a study: choose another one with --out"
        )
    with writing(path):
        (path / SHARDS).mkdir(parents=True, exist_ok=True)
    folder = Folder(path, study, shard_trials)
    _describe(folder, device)
    return folder


def _holds(study: Study) -> dict[str, Any]:
    """What all that a folder holds has in common."""
    one = variants(study)[0].benchmark.name
    return {"benchmark": one, "seed": study.seed, **study.problem.model_dump()}


def _describe(folder: Folder, device: str) -> None:
    """Write the spec, and what a figure can be traced by: of the study that was last asked for."""
    study = folder.study
    manifest = {
        "name": study.name,
        "fingerprint": study.fingerprint,
        "holds": _holds(study),
        "trials": study.trials,
        "seed": study.seed,
        "shard_trials": folder.shard_trials,
        "device": device,
        "versions": versions(),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    write_whole(folder.path / SPEC, json.dumps(study.model_dump(), indent=2) + "\n")
    write_whole(folder.path / MANIFEST, json.dumps(manifest, indent=2) + "\n")


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

    sizes = [folder.study.benchmark.sizes[i] for i in shard.sizes]
    n, labels = shard.stop - shard.start, [folder.settings[j].label for j in shard.settings]
    table = {
        "size": np.repeat(np.array(sizes, dtype=np.int64), n),
        "trial": np.tile(np.arange(shard.start, shard.stop, dtype=np.int64), len(sizes)),
        "rho_b": np.tile(trials.rho_b, len(sizes)),
        "rho_star": np.tile(trials.rho_star, len(sizes)),
    }
    for j, label in enumerate(labels):
        table[label] = np.ascontiguousarray(trials.rho[:, j].reshape(-1))
        table[_CONVERGED + label] = np.ascontiguousarray(trials.converged[:, j].reshape(-1))
    about = {
        "variant": folder.variant_keys[shard.variant],
        "settings": {
            x: folder.setting_keys[j] for x, j in zip(labels, shard.settings, strict=True)
        },
        "seconds": trials.seconds.tolist(),
    }
    said = json.dumps(about)
    notes = {"about": said.encode().hex(), "digest": _digest(table, said)}
    kept = ", ".join(f"{k}: '{v}'" for k, v in notes.items())
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


def read_shard(path: Path) -> Stored:
    """What a file holds; whatever is wrong with it raises DamagedShardError."""
    import duckdb

    file = f"'{_quoted(path)}'"
    try:
        with duckdb.connect() as connection:
            connection.execute("set threads = 1")
            kept = {
                bytes(k).decode(): bytes(v).decode()
                for _, k, v in connection.execute(f"from parquet_kv_metadata({file})").fetchall()
            }
            table = connection.execute(f"from read_parquet({file})").fetchnumpy()
        said = bytes.fromhex(kept["about"]).decode()
        about = json.loads(said)
        table = {name: np.asarray(x) for name, x in table.items()}
        if kept["digest"] != _digest(table, said):
            raise ValueError("its digest is another one")
    except (duckdb.Error, ValueError, KeyError) as error:
        raise DamagedShardError(f"{path} cannot be read, or was changed: {error}") from error
    sizes = tuple(dict.fromkeys(table["size"].tolist()))
    shape = (len(sizes), len(table["size"]) // len(sizes))
    rho, converged = (
        np.stack([table[what + label].reshape(shape) for label in about["settings"]], axis=1)
        for what in ("", _CONVERGED)
    )
    rho_b, rho_star = (table[name].reshape(shape)[0] for name in ("rho_b", "rho_star"))
    trials = Trials(rho_b, rho_star, rho, converged, np.array(about["seconds"]))
    keys = tuple(about["settings"].values())
    return Stored(about["variant"], int(table["trial"][0]), sizes, keys, trials)


_CONVERGED = "converged: "


def _digest(table: dict[str, np.ndarray], about: str) -> str:
    """Of all columns, and of what is said of them."""
    found = hashlib.sha256(about.encode())
    for name in sorted(table):
        found.update(name.encode())
        found.update(np.ascontiguousarray(table[name]).tobytes())
    return found.hexdigest()


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
