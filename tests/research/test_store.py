"""The folder of a study: shards that come back bit by bit, damage that is found, folders that
are refused, disks that are full.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from support import small_study
from surefoot.algorithms import Restricts
from surefoot.core.atomic import whole_file, write_whole
from surefoot.core.errors import StudyError, WriteError
from surefoot.planning import by_count
from surefoot.research.studies.runner import compute, run
from surefoot.research.studies.shards import (
    DamagedShardError,
    Folder,
    Shard,
    open_folder,
    read_shard,
    undone_if_fruitless,
    write_shard,
)
from surefoot.research.studies.spec import Study, define_study, parse_study
from surefoot.research.studies.trials import Trials

STUDY = small_study.small(trials=6)
ARRAYS = ("rho_b", "rho_star", "rho", "converged", "seconds")
SIZES, SETTINGS = (0, 1), (0, 1, 2, 3, 4)


def shard(variant: int, start: int, stop: int) -> Shard:
    """All sizes and settings of some trials."""
    return Shard(variant, start, stop, SIZES, SETTINGS)


SHARDS = [shard(0, 0, 3), shard(0, 3, 6), shard(1, 0, 3), shard(1, 3, 6)]  # STUDY, cut by threes


def some_trials(shard: Shard, seed: int = 0) -> Trials:
    """Numbers of every kind, for the 2 sizes and 5 settings of the small study."""
    rng, n = np.random.default_rng(seed), shard.stop - shard.start
    rho = rng.normal(size=(2, 5, n)) * 10.0 ** rng.integers(-300, 300, (2, 5, n))
    rho[0, 0, 0], rho[1, 1, 0], rho[0, 2, 0] = -0.0, 5e-324, np.nextafter(1, 2)
    converged, seconds = rng.random((2, 5, n)) < 0.5, rng.random((2, 5))
    return Trials(rng.random(n), rng.random(n) + 1, rho, converged, seconds)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A finished folder of four shards, made of some numbers."""
    made = open_folder(tmp_path / "study", STUDY, 3, "cpu")
    for i, one in enumerate(made.missing()):
        write_shard(made, one, some_trials(one, i))
    return made


def same(ours: Trials, theirs: Trials) -> bool:
    return all(getattr(ours, name).tobytes() == getattr(theirs, name).tobytes() for name in ARRAYS)


def test_the_work_is_cut_by_variant_and_trials(tmp_path: Path) -> None:
    folder = Folder(tmp_path, STUDY, 4)
    found = [shard(0, 0, 4), shard(0, 4, 6), shard(1, 0, 4), shard(1, 4, 6)]
    assert folder.missing() == found
    assert len({folder.file(x) for x in found}) == 4


def test_what_is_written_is_read_to_the_last_bit(folder: Folder) -> None:
    assert folder.missing() == []
    for i, one in enumerate(SHARDS):
        found = read_shard(folder.file(one))
        assert (found.start, found.sizes) == (one.start, (5, 30))
        assert (found.variant, found.settings) == (
            folder.variant_keys[one.variant],
            folder.setting_keys,
        )
        assert same(found.trials, some_trials(one, i))


def test_results_hold_every_cell_in_order_with_the_baseline_beside_it(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "study", STUDY, 3, "cpu")
    parts = {}
    for i, one in enumerate(SHARDS):
        rng = np.random.default_rng(i)
        parts[one] = Trials(
            rng.random(3),
            rng.random(3) + 1,
            rng.random((2, 5, 3)),
            rng.random((2, 5, 3)) < 0.5,
            np.full((2, 5), 3.0 * (i + 1)),
        )
        write_shard(folder, one, parts[one])
    results = folder.results()
    assert len(results.cells) == 2 * 2 * 5 and results.n_trials == 6
    assert (results.baseline == 0).all()  # normalised
    cell = results.cells[10 + 5 + 2]
    assert (cell.benchmark, cell.size, cell.algorithm, cell.parameters) == (
        "random-mdps eta=0.5",
        30,
        "pi-b-spibb",
        "n_wedge=2",
    )
    assert results.seconds is not None
    assert results.seconds[17] == (9 + 12) / 6  # a trial, of the two shards of the second variant
    second = [parts[one] for one in SHARDS if one.variant == 1]
    rho_b, rho_star = (
        np.concatenate([getattr(x, name) for x in second]) for name in ("rho_b", "rho_star")
    )
    rho = np.concatenate([x.rho[1, 2] for x in second])
    assert results.score[17] == pytest.approx((rho - rho_b) / (rho_star - rho_b), rel=1e-14)
    assert np.array_equal(
        results.converged[17], np.concatenate([x.converged[1, 2] for x in second])
    )


def test_results_of_an_unfinished_folder_say_what_is_missing(folder: Folder) -> None:
    gone = SHARDS[3]
    folder.file(gone).unlink()
    assert folder.missing() == [gone]
    words = r"basic-rl at size 5 is missing from trial 3 on \(random-mdps eta=0\.5\).*resume"
    with pytest.raises(StudyError, match=words):
        folder.results()


def truncated(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def without_its_end(raw: bytes) -> bytes:
    return raw[:-1]


def foreign(raw: bytes) -> bytes:
    return b"These are no numbers.\n" * 100


def empty(raw: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [truncated, without_its_end, foreign, empty])
def test_a_damaged_shard_is_found_removed_and_made_again(folder: Folder, damage: object) -> None:
    one = SHARDS[1]
    path = folder.file(one)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(DamagedShardError, match=path.name):
        read_shard(path)
    assert folder.missing() == [one]
    assert not path.exists()
    compute(folder, one, "cpu")
    assert folder.missing() == []


def test_no_flipped_bit_changes_a_number_in_silence(folder: Folder) -> None:
    """Every 61st byte: either the damage is found, or the numbers are what they were (a bit of
    padding, or of a statistic).
    """
    path = folder.file(SHARDS[0])
    raw = path.read_bytes()
    found = 0
    for at in range(0, len(raw), 61):
        flipped = bytearray(raw)
        flipped[at] ^= 1 << (at % 8)
        path.write_bytes(flipped)
        try:
            read = read_shard(path)
        except DamagedShardError:
            found += 1
        else:
            assert (read.start, read.sizes, read.settings) == (0, (5, 30), folder.setting_keys)
            assert same(read.trials, some_trials(SHARDS[0], 0)), at
    assert found > len(raw) / 61 / 4


def test_a_shard_of_another_study_counts_for_nothing(folder: Folder, tmp_path: Path) -> None:
    other = open_folder(tmp_path / "other", small_study.small(trials=6, seed=8), 3, "cpu")
    one = SHARDS[0]
    write_shard(other, one, some_trials(one))
    shutil.copy(other.file(one), folder.file(one))
    assert folder.missing() == [one]


@pytest.mark.parametrize("where", [1, 2], ids=["other trials", "another variant"])
def test_a_shard_under_the_name_of_another_one_does_not_stand_for_it(
    folder: Folder, where: int
) -> None:
    shutil.copy(folder.file(SHARDS[0]), folder.file(SHARDS[where]))
    assert folder.missing() == [SHARDS[where]]


def test_a_folder_is_resumed_with_the_cut_it_was_begun_with(folder: Folder) -> None:
    again = open_folder(folder.path, STUDY, 5, "cpu")
    assert again == folder and again.shard_trials == 3


def test_more_trials_sizes_and_settings_are_what_is_missing_and_the_rest_stays(
    folder: Folder,
) -> None:
    before = {path: path.read_bytes() for path in (folder.path / "shards").iterdir()}
    text = small_study.TEXT.replace("sizes = [5, 30]", "sizes = [30, 12, 5]")
    text = text.replace("n_wedge = [2, 5]", "n_wedge = [5, 2, 9]")
    grown = open_folder(folder.path, parse_study(text, "grown.toml", 8), 3, "cpu")
    new, every = (4,), (0, 1, 2, 3, 4, 5)  # the setting n_wedge=9, and all of them
    for v in (0, 1):
        for start in (0, 3):
            assert Shard(v, start, start + 3, (0, 2), new) in grown.missing()
            assert Shard(v, start, start + 3, (1,), every) in grown.missing()
        assert Shard(v, 6, 8, (0, 1, 2), every) in grown.missing()
    assert len(grown.missing()) == 2 * (4 + 1)
    for i, one in enumerate(grown.missing()):
        n, shape = one.stop - one.start, (len(one.sizes), len(one.settings))
        fixed = np.full((*shape, n), 100.0 + i)
        ones = np.ones(n)
        write_shard(grown, one, Trials(0 * ones, ones, fixed, fixed > 0, fixed[..., 0]))
    assert grown.missing() == [] and folder.missing() == []
    assert {path: path.read_bytes() for path in before} == before
    manifest = json.loads((folder.path / "manifest.json").read_text())
    assert manifest["trials"] == 8 and manifest["shard_trials"] == 3


def test_a_class_whose_code_changes_is_computed_anew_and_the_others_are_not(
    tmp_path: Path,
) -> None:
    def version(share: float, code: str = "n > share * n.sum(axis=-1)[..., None]") -> Any:
        @dataclass(frozen=True)
        class Known(Restricts):
            name: ClassVar[str] = "known"

            def trust(self, problem: Any, n: Any) -> Any:
                return by_count(problem, known(n, share), free_fall=False)

        known = eval(f"lambda n, share: {code}", {"__name__": __name__})
        Known.__module__ = "__main__"  # as if it came from a notebook
        return Known()

    def missing(*changed: Any) -> list[Shard]:
        study = define_study("wet-chicken", ["basic-rl", version(*changed)], 10, 3)
        return open_folder(tmp_path, study, 3, "cpu").missing()

    study = define_study("wet-chicken", ["basic-rl", version(0.1)], 10, 3)
    folder = open_folder(tmp_path, study, 3, "cpu")
    for one in folder.missing():
        compute(folder, one, "cpu")
    assert missing(0.1) == []
    assert missing(0.2) == [Shard(0, 0, 3, (0,), (1,))]
    assert missing(0.1, "n >= share * n.sum(axis=-1)[..., None]") == missing(0.2)


def test_a_folder_of_another_study_is_refused_and_left_alone(folder: Folder) -> None:
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    ties = small_study.TEXT.replace(
        "[[algorithms]]", "[problem]\nties = 'lowest-index'\n[[algorithms]]", 1
    )
    river = define_study("wet-chicken", "basic-rl", 10, 6, seed=7)
    for other in (small_study.small(trials=6, seed=9), parse_study(ties, "ties.toml"), river):
        with pytest.raises(StudyError, match=r"holds another study \(.*'seed': 7.*grows by trials"):
            open_folder(folder.path, other, 3, "cpu")
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not lose me")
    with pytest.raises(StudyError, match="is not the folder of a study"):
        open_folder(tmp_path, STUDY, 3, "cpu")
    with pytest.raises(StudyError, match="is not the folder of a study"):
        open_folder(tmp_path / "thesis.txt", STUDY, 3, "cpu")
    with pytest.raises(WriteError, match="cannot be written"):
        open_folder(tmp_path / "thesis.txt" / "below", STUDY, 3, "cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert open_folder(tmp_path, STUDY, 3, "cpu").missing() == SHARDS


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fingerprint": 3}', "null"])
def test_a_manifest_that_cannot_be_read_is_named(folder: Folder, text: str) -> None:
    (folder.path / "manifest.json").write_text(text)
    with pytest.raises(StudyError, match=r"manifest\.json|another study"):
        open_folder(folder.path, STUDY, 3, "cpu")


def test_a_folder_whose_making_was_interrupted_is_resumed(tmp_path: Path) -> None:
    """Killed after each step of its making: the next run takes it over."""
    whole = open_folder(tmp_path / "whole", STUDY, 3, "cpu")
    shards_only, spec_too = tmp_path / "first", tmp_path / "second"
    (shards_only / "shards").mkdir(parents=True)
    (spec_too / "shards").mkdir(parents=True)
    shutil.copy(whole.path / "study.json", spec_too)
    for path in (shards_only, spec_too):
        assert open_folder(path, STUDY, 3, "cpu").missing() == SHARDS


def test_the_folder_says_what_made_it(folder: Folder) -> None:
    manifest = json.loads((folder.path / "manifest.json").read_text())
    assert (
        manifest["name"] == "small"
        and manifest["trials"] == 6
        and manifest["seed"] == 7
        and manifest["shard_trials"] == 3
    )
    assert manifest["fingerprint"] == STUDY.fingerprint and manifest["device"] == "cpu"
    assert {"surefoot", "numpy", "scipy", "duckdb"} <= set(manifest["versions"])
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["python"].startswith("3.") and manifest["machine"]
    assert Study(**json.loads((folder.path / "study.json").read_text())) == STUDY


def test_nothing_but_whole_files_is_left_after_writing(folder: Folder) -> None:
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "manifest.json",
        "shards",
        "study.json",
    ]
    assert sorted(path.name for path in (folder.path / "shards").iterdir()) == sorted(
        folder.file(one).name for one in SHARDS
    )


def test_a_folder_that_has_gone_is_an_error_in_words(folder: Folder) -> None:
    shutil.rmtree(folder.path)
    with pytest.raises(WriteError, match="cannot be written"):
        write_shard(folder, SHARDS[0], some_trials(SHARDS[0]))
    with (
        pytest.raises(WriteError, match="cannot be written"),
        whole_file(folder.path / "note.txt", parents=False) as part,
    ):
        part.write_text("x")


@pytest.mark.parametrize(
    "name",
    [
        "Bellman's study",
        'the "best" one',
        "runs [2]",
        "what*ever?",
        "{braces}",
        "Ürümqi und zurück",
    ],
)
def test_any_name_of_a_folder_will_do(tmp_path: Path, name: str) -> None:
    folder = open_folder(tmp_path / name, STUDY, 3, "cpu")
    one = SHARDS[0]
    write_shard(folder, one, some_trials(one))
    assert same(read_shard(folder.file(one)).trials, some_trials(one))
    assert folder.missing() == SHARDS[1:]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, where this may be made."""
    with small_study.tiny_disk(tmp_path / "disk") as path:
        if path is None:
            pytest.skip("a small file system can only be mounted by root")
        yield path


def fill(path: Path, leave: int) -> None:
    """Use up a disk but for some bytes."""
    with open(path / "ballast", "wb") as file:
        free = os.statvfs(path).f_bavail * os.statvfs(path).f_frsize
        file.write(b"x" * max(0, free - leave))


def test_a_full_disk_is_an_error_in_words_and_leaves_whole_files_only(tiny_disk: Path) -> None:
    folder = open_folder(tiny_disk / "study", STUDY, 3, "cpu")
    first, second = SHARDS[:2]
    write_shard(folder, first, some_trials(first))
    fill(tiny_disk, leave=0)
    with pytest.raises(WriteError, match=r"cannot be written.*make room"):
        write_shard(folder, second, some_trials(second))
    with pytest.raises(WriteError, match=r"cannot be written.*make room"):
        write_whole(folder.path / "note.txt", "x" * 5000)
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "manifest.json",
        "shards",
        "study.json",
    ]
    assert [path.name for path in (folder.path / "shards").iterdir()] == [folder.file(first).name]
    assert same(read_shard(folder.file(first)).trials, some_trials(first))
    (tiny_disk / "ballast").unlink()
    write_shard(folder, second, some_trials(second))
    assert folder.missing() == SHARDS[2:]


def test_a_disk_too_full_to_begin_on_is_an_error_in_words_and_can_be_begun_on_later(
    tiny_disk: Path,
) -> None:
    fill(tiny_disk, leave=0)
    with pytest.raises(WriteError, match=r"cannot be written.*make room"):
        open_folder(tiny_disk / "study", STUDY, 3, "cpu")
    (tiny_disk / "ballast").unlink()
    assert open_folder(tiny_disk / "study", STUDY, 3, "cpu").missing() == SHARDS


LIMITED = """
import resource, signal, sys
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/research"]
from test_store import SHARDS, STUDY, some_trials
from surefoot.core.errors import WriteError
from surefoot.research.studies.shards import open_folder, write_shard
folder = open_folder(sys.argv[1], STUDY, 3, "cpu")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_shard(folder, SHARDS[0], some_trials(SHARDS[0]))
except WriteError as error:
    print(error)
"""


def test_a_file_that_may_not_grow_is_an_error_in_words_and_leaves_nothing(tmp_path: Path) -> None:
    """As on a full disk, for who may not mount one: files of more than 1,000 bytes cannot be
    written.
    """
    assert resource.RLIMIT_FSIZE and signal.SIGXFSZ
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "study"), str(Path(__file__).parents[1])],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stdout and "make room" in done.stdout
    assert list((tmp_path / "study" / "shards").iterdir()) == []


def begin_and_fail(path: Path, study: Study, shards: int) -> None:
    with undone_if_fruitless(path):
        folder = open_folder(path, study, 3, "cpu")
        for one in SHARDS[:shards]:
            write_shard(folder, one, some_trials(one))
        folder.file(SHARDS[-1]).with_suffix(".partial").write_bytes(b"half")
        raise KeyboardInterrupt


def test_a_study_that_finished_nothing_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for path in (there, tmp_path / "new" / "below"):
        with pytest.raises(KeyboardInterrupt):
            begin_and_fail(path, STUDY, 0)
    assert [x.name for x in tmp_path.rglob("*")] == ["there"]


def test_a_study_that_finished_a_shard_keeps_it_whatever_fails_then(tmp_path: Path) -> None:
    for _ in range(2):  # the second failure finds the folder begun
        with pytest.raises(KeyboardInterrupt):
            begin_and_fail(tmp_path / "study", STUDY, 1)
        folder = open_folder(tmp_path / "study", STUDY, 3, "cpu")
        assert folder.missing() == SHARDS[1:]


def test_a_failure_in_a_folder_begun_before_removes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "study"
    open_folder(path, STUDY, 3, "cpu")
    before = {x: x.read_bytes() for x in path.rglob("*") if x.is_file()}
    with pytest.raises(StudyError), undone_if_fruitless(path):
        open_folder(path, small_study.small(seed=8), 3, "cpu")
    (tmp_path / "thesis.txt").write_text("do not lose me")
    with pytest.raises(StudyError), undone_if_fruitless(tmp_path):
        open_folder(tmp_path, STUDY, 3, "cpu")
    assert {x: x.read_bytes() for x in path.rglob("*") if x.is_file()} == before
    assert (tmp_path / "thesis.txt").exists()


def test_a_study_begun_with_another_version_is_not_gone_on_with(tmp_path: Path) -> None:
    study = small_study.small()
    out = tmp_path / "out"
    run(study, out, workers=1, shard_trials=8)
    manifest = out / "manifest.json"
    content = json.loads(manifest.read_text())
    content["versions"]["surefoot"] = "0.0.9"
    manifest.write_text(json.dumps(content))
    run(study, out, workers=1)  # all is there: nothing is computed
    next((out / "shards").glob("*.parquet")).unlink()
    with pytest.raises(StudyError, match=r"begun with surefoot 0\.0\.9, and this is"):
        run(study, out, workers=1)


def test_more_workers_than_any_machine_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="workers must be from 1 to 1,024"):
        run(small_study.small(), tmp_path / "out", workers=10**6)
