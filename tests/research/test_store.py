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
from pathlib import Path

import numpy as np
import pytest

from support import small_study
from surefoot.core.atomic import whole_file, write_whole
from surefoot.core.errors import StudyError, WriteError
from surefoot.research.studies.runner import (
    DamagedShardError,
    Folder,
    Shard,
    compute,
    open_folder,
    read_shard,
    run,
    undone_if_fruitless,
    write_shard,
)
from surefoot.research.studies.spec import Study
from surefoot.research.studies.trials import Trials

STUDY = small_study.small(trials=6)
ARRAYS = ("rho_b", "rho_star", "rho", "converged")


def some_trials(shard: Shard, seed: int = 0) -> Trials:
    """Numbers of every kind, for the 2 sizes and 5 settings of the small study."""
    rng, n = np.random.default_rng(seed), shard.stop - shard.start
    rho = rng.normal(size=(2, 5, n)) * 10.0 ** rng.integers(-300, 300, (2, 5, n))
    rho[0, 0, 0], rho[1, 1, 0], rho[0, 2, 0] = -0.0, 5e-324, np.nextafter(1, 2)
    return Trials(rng.random(n), rng.random(n) + 1, rho, rng.random((2, 5, n)) < 0.5)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A finished folder of four shards, made of some numbers."""
    made = open_folder(tmp_path / "study", STUDY, 3, "cpu")
    for i, shard in enumerate(made.shards):
        write_shard(made, shard, some_trials(shard, i))
    return made


def same(ours: Trials, theirs: Trials) -> bool:
    return all(getattr(ours, name).tobytes() == getattr(theirs, name).tobytes() for name in ARRAYS)


def test_the_work_is_cut_by_variant_and_trials() -> None:
    folder = Folder(Path("x"), STUDY, 4)
    assert folder.shards == (Shard(0, 0, 4), Shard(0, 4, 6), Shard(1, 0, 4), Shard(1, 4, 6))
    assert len({folder.file(shard) for shard in folder.shards}) == 4


def test_what_is_written_is_read_to_the_last_bit(folder: Folder) -> None:
    assert folder.missing() == []
    for i, shard in enumerate(folder.shards):
        found = read_shard(folder, shard)
        assert found.rho.shape[-1] == shard.stop - shard.start
        assert same(found, some_trials(shard, i))


def test_results_hold_every_cell_in_order_with_the_baseline_beside_it(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "study", STUDY, 3, "cpu")
    parts = {}
    for i, shard in enumerate(folder.shards):
        rng = np.random.default_rng(i)
        parts[shard] = Trials(
            rng.random(3),
            rng.random(3) + 1,
            rng.random((2, 5, 3)),
            rng.random((2, 5, 3)) < 0.5,
        )
        write_shard(folder, shard, parts[shard])
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
    second = [parts[shard] for shard in folder.shards if shard.variant == 1]
    rho_b, rho_star = (
        np.concatenate([getattr(x, name) for x in second]) for name in ("rho_b", "rho_star")
    )
    rho = np.concatenate([x.rho[1, 2] for x in second])
    assert results.score[17] == pytest.approx((rho - rho_b) / (rho_star - rho_b), rel=1e-14)
    assert np.array_equal(
        results.converged[17], np.concatenate([x.converged[1, 2] for x in second])
    )


def test_results_of_an_unfinished_folder_say_what_is_missing(folder: Folder) -> None:
    gone = folder.shards[2]
    folder.file(gone).unlink()
    assert folder.missing() == [gone]
    with pytest.raises(StudyError, match=f"{gone.name} is missing.*resume"):
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
    shard = folder.shards[1]
    path = folder.file(shard)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(DamagedShardError, match=shard.name):
        read_shard(folder, shard)
    assert folder.missing() == [shard]
    assert not path.exists()
    compute(folder, shard, "cpu")
    assert folder.missing() == []


def test_no_flipped_bit_changes_a_number_in_silence(folder: Folder) -> None:
    """Every 61st byte: either the damage is found, or the numbers are what they were (a bit of
    padding, or of a statistic).
    """
    shard = folder.shards[0]
    path = folder.file(shard)
    raw = path.read_bytes()
    found = 0
    for at in range(0, len(raw), 61):
        flipped = bytearray(raw)
        flipped[at] ^= 1 << (at % 8)
        path.write_bytes(flipped)
        try:
            read = read_shard(folder, shard)
        except DamagedShardError:
            found += 1
        else:
            assert same(read, some_trials(shard, 0)), at
    assert found > len(raw) / 61 / 4


def test_a_shard_of_another_study_is_found(folder: Folder, tmp_path: Path) -> None:
    other = open_folder(tmp_path / "other", small_study.small(trials=6, seed=8), 3, "cpu")
    shard = folder.shards[0]
    write_shard(other, shard, some_trials(shard))
    shutil.copy(other.file(shard), folder.file(shard))
    assert folder.missing() == [shard]


@pytest.mark.parametrize("where", [1, 2], ids=["other trials", "another variant"])
def test_a_shard_under_the_name_of_another_one_is_found(folder: Folder, where: int) -> None:
    shutil.copy(folder.file(folder.shards[0]), folder.file(folder.shards[where]))
    assert folder.missing() == [folder.shards[where]]


def test_a_shard_with_fewer_trials_than_its_name_says_is_found(folder: Folder) -> None:
    fewer = Shard(0, 0, 2)
    shutil.copy(folder.file(folder.shards[0]), folder.file(fewer))
    with pytest.raises(DamagedShardError):
        read_shard(folder, fewer)


def test_a_folder_is_resumed_with_the_cut_it_was_begun_with(folder: Folder) -> None:
    again = open_folder(folder.path, STUDY, 5, "cpu")
    assert again == folder and again.shard_trials == 3


def test_a_folder_of_another_study_is_refused_and_left_alone(folder: Folder) -> None:
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    for other in (small_study.small(trials=7), small_study.small(trials=6, seed=9)):
        with pytest.raises(StudyError, match=r"holds another study \('small', 6 trials, seed 7\)"):
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
    assert open_folder(tmp_path, STUDY, 3, "cpu").missing() == list(
        Folder(tmp_path, STUDY, 3).shards
    )


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
        assert open_folder(path, STUDY, 3, "cpu").missing() == list(whole.shards)


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
        shard.name for shard in folder.shards
    )


def test_a_folder_that_has_gone_is_an_error_in_words(folder: Folder) -> None:
    shutil.rmtree(folder.path)
    with pytest.raises(WriteError, match="cannot be written"):
        write_shard(folder, folder.shards[0], some_trials(folder.shards[0]))
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
    shard = folder.shards[0]
    write_shard(folder, shard, some_trials(shard))
    assert same(read_shard(folder, shard), some_trials(shard))
    assert folder.missing() == list(folder.shards[1:])


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
    first, second = folder.shards[:2]
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
    assert [path.name for path in (folder.path / "shards").iterdir()] == [first.name]
    assert same(read_shard(folder, first), some_trials(first))
    (tiny_disk / "ballast").unlink()
    write_shard(folder, second, some_trials(second))
    assert folder.missing() == list(folder.shards[2:])


def test_a_disk_too_full_to_begin_on_is_an_error_in_words_and_can_be_begun_on_later(
    tiny_disk: Path,
) -> None:
    fill(tiny_disk, leave=0)
    with pytest.raises(WriteError, match=r"cannot be written.*make room"):
        open_folder(tiny_disk / "study", STUDY, 3, "cpu")
    (tiny_disk / "ballast").unlink()
    assert open_folder(tiny_disk / "study", STUDY, 3, "cpu").missing() == list(
        Folder(tiny_disk, STUDY, 3).shards
    )


LIMITED = """
import resource, signal, sys
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/research"]
from test_store import STUDY, some_trials
from surefoot.core.errors import WriteError
from surefoot.research.studies.runner import open_folder, write_shard
folder = open_folder(sys.argv[1], STUDY, 3, "cpu")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_shard(folder, folder.shards[0], some_trials(folder.shards[0]))
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
        for shard in folder.shards[:shards]:
            write_shard(folder, shard, some_trials(shard))
        folder.file(folder.shards[-1]).with_suffix(".partial").write_bytes(b"half")
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
        assert folder.missing() == list(folder.shards[1:])


def test_a_failure_in_a_folder_begun_before_removes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "study"
    open_folder(path, STUDY, 3, "cpu")
    before = {x: x.read_bytes() for x in path.rglob("*") if x.is_file()}
    with pytest.raises(StudyError), undone_if_fruitless(path):
        open_folder(path, small_study.small(trials=7), 3, "cpu")
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
