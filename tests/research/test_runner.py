"""The runner: byte-identical for any number of workers, killed and resumed, interrupted, on a
Dask cluster, on a disk that fills up.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import small_study
from surefoot.core.errors import StudyError
from surefoot.research.studies import runner, spec
from surefoot.research.studies.results import Results
from surefoot.research.studies.runner import run
from surefoot.research.studies.shards import open_folder

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes, Path]:
    """The small study run by one process, without disturbance: digest of the results,
    summary.csv, folder.
    """
    out = tmp_path_factory.mktemp("whole") / "out"
    return *small_study.finish(out), out


@pytest.fixture
def begin() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start runs; whatever is left of their process groups ends with the test."""
    begun: list[subprocess.Popen[str]] = []

    def one(*arguments: object, **options: int) -> subprocess.Popen[str]:
        begun.append(small_study.start(*arguments, **options))  # type: ignore[arg-type]
        return begun[-1]

    yield one
    for process in begun:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def members(group: int) -> list[int]:
    """The processes of a group that are alive (a zombie is not)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, of_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except (OSError, ValueError):
                continue
            if int(of_group) == group and state != "Z":
                found.append(int(entry.name))
    return found


def workers_of(group: int) -> list[int]:
    """The worker processes of a run."""
    found = []
    for pid in members(group):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"spawn_main" in command:
            found.append(pid)
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def shards(out: Path) -> list[str]:
    return (
        sorted(path.name for path in (out / "shards").glob("*.parquet"))
        if (out / "shards").exists()
        else []
    )


def results_of(out: Path, **changes: int) -> Results:
    return open_folder(out, small_study.small(**changes), 4, "cpu").results()


def is_linux() -> bool:
    return sys.platform == "linux"


needs_proc = pytest.mark.skipif(not is_linux(), reason="looks for processes in /proc")


def test_two_workers_give_the_bytes_that_one_gives(
    whole: tuple[str, bytes, Path], tmp_path: Path
) -> None:
    assert small_study.finish(tmp_path / "out", workers=2) == whole[:2]
    assert b"random-mdps eta=0.5,30,pi-b-spibb,n_wedge=5,16," in whole[1]


@pytest.mark.slow
def test_four_workers_give_the_bytes_that_one_gives(
    whole: tuple[str, bytes, Path], tmp_path: Path
) -> None:
    assert small_study.finish(tmp_path / "out", workers=4) == whole[:2]


@pytest.mark.slow
def test_another_cut_into_shards_gives_the_same_numbers(
    whole: tuple[str, bytes, Path], tmp_path: Path
) -> None:
    small_study.finish(tmp_path / "out", workers=2, shard_trials=7)
    ours, theirs = results_of(tmp_path / "out"), results_of(whole[2])
    assert ours.cells == theirs.cells and np.array_equal(ours.converged, theirs.converged)
    differs = (np.abs(ours.score - theirs.score) > 1e-9) & theirs.converged
    assert [(ours.cells[i].label, int(t)) for i, t in np.argwhere(differs)] == []


@pytest.mark.slow
def test_more_trials_begin_with_the_trials_of_fewer(
    whole: tuple[str, bytes, Path], tmp_path: Path
) -> None:
    small_study.finish(tmp_path / "out", shard_trials=8, trials=8)
    ours, theirs = results_of(tmp_path / "out", trials=8), results_of(whole[2])
    assert np.allclose(ours.score, theirs.score[:, :8], rtol=0, atol=1e-9)


def killed_again_and_again(
    begin: Callable[..., subprocess.Popen[str]], out: Path, times: int, workers: int
) -> int:
    """SIGKILL to the run, at random moments of the time it takes, so often; how often it was
    still at work.
    """
    rng = np.random.default_rng(times)
    at_work = 0
    for _ in range(times):
        process = begin(out, workers=workers)
        wait_until(lambda: out.exists() or process.poll() is not None)  # noqa: B023
        time.sleep(float(rng.uniform(0, 1.4)))
        at_work += process.poll() is None
        process.kill()
        process.wait()
    return at_work


def test_a_run_killed_and_resumed_gives_the_bytes_of_an_undisturbed_one(
    whole: tuple[str, bytes, Path], begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    assert killed_again_and_again(begin, tmp_path / "out", 2, workers=2) > 0
    assert small_study.finish(tmp_path / "out", workers=2) == whole[:2]


@pytest.mark.slow
def test_a_run_killed_ten_times_and_resumed_gives_the_bytes_of_an_undisturbed_one(
    whole: tuple[str, bytes, Path], begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    assert killed_again_and_again(begin, tmp_path / "out", 10, workers=1) > 0
    assert small_study.finish(tmp_path / "out", workers=1) == whole[:2]


def test_what_is_there_is_never_computed_again(
    whole: tuple[str, bytes, Path], tmp_path: Path
) -> None:
    out, study = whole[2], small_study.small()
    before = {path: path.stat().st_mtime_ns for path in (out / "shards").iterdir()}
    heard: list[tuple[int, int]] = []
    results = run(study, out, workers=1, progress=lambda done, total: heard.append((done, total)))
    assert small_study.digest(results) == whole[0]
    assert heard == [(32, 32)]
    assert {path: path.stat().st_mtime_ns for path in (out / "shards").iterdir()} == before


def test_a_truncated_shard_is_computed_again_and_the_others_are_not(
    whole: tuple[str, bytes, Path],
) -> None:
    out = whole[2]
    before = {path.name: path.read_bytes() for path in (out / "shards").iterdir()}
    times = {path.name: path.stat().st_mtime_ns for path in (out / "shards").iterdir()}
    victim = out / "shards" / sorted(before)[3]
    victim.write_bytes(before[victim.name][:200])
    assert small_study.finish(out) == whole[:2]
    after = {path.name: path.stat().st_mtime_ns for path in (out / "shards").iterdir()}
    assert {name for name in after if after[name] != times[name]} == {victim.name}
    assert set(after) == set(before)


@needs_proc
@pytest.mark.slow
def test_a_worker_that_is_killed_does_not_stop_the_study(
    whole: tuple[str, bytes, Path], begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = begin(out, workers=2)
    wait_until(lambda: len(shards(out)) > 1 and len(workers_of(process.pid)) > 0)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    assert (said.strip(), (out / "summary.csv").read_bytes()) == whole[:2]


@needs_proc
@pytest.mark.slow
def test_ctrl_c_ends_the_run_at_once_and_leaves_a_folder_that_resumes(
    whole: tuple[str, bytes, Path], begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = begin(out, workers=2)
    wait_until(lambda: len(shards(out)) > 1)
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to everyone
    process.communicate(timeout=20)
    assert process.returncode != 0
    wait_until(lambda: not members(process.pid), seconds=10)
    left = shards(out)
    assert 1 < len(left) < 8
    assert sorted(path.name for path in (out / "shards").iterdir()) == left  # nothing half-written
    assert small_study.finish(out, workers=2) == whole[:2]


@needs_proc
@pytest.mark.slow
def test_the_workers_of_a_run_that_was_killed_end_too(
    begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = begin(tmp_path / "out", workers=2)
    wait_until(lambda: len(shards(tmp_path / "out")) > 1)
    process.kill()
    wait_until(lambda: not workers_of(process.pid), seconds=10)


def script(path: Path, text: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script of its own: fresh processes import the main module."""
    path.write_text(f"import sys\nsys.path.insert(0, {str(TESTS)!r})\n{text}", encoding="utf-8")
    free = {
        k: v for k, v in os.environ.items() if not k.endswith(("_NUM_THREADS", "MAXIMUM_THREADS"))
    }
    return subprocess.run(
        [sys.executable, str(path), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=free,
    )


THREADS = """
import os, time
from surefoot.research.studies import runner

def look(_):
    time.sleep(1)
    return os.getpid(), tuple(os.environ.get(name) for name in runner.ONE_THREAD)

if __name__ == "__main__":
    before = dict(os.environ)
    with runner._pool(2) as pool:
        found = set(pool.map(look, range(4)))
    one_each = {seen for _, seen in found} == {("1",) * len(runner.ONE_THREAD)}
    print(len(found), one_each, dict(os.environ) == before)
"""


@pytest.mark.slow
def test_every_worker_has_one_thread_for_linear_algebra_and_the_callers_setting_stays(
    tmp_path: Path,
) -> None:
    done = script(tmp_path / "threads.py", THREADS)
    assert done.stdout.split() == ["2", "True", "True"], done.stdout + done.stderr


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_run_in_words_and_room_resumes_it(
    whole: tuple[str, bytes, Path], tmp_path: Path
) -> None:
    with small_study.tiny_disk(tmp_path / "disk", size="28k") as disk:
        if disk is None:
            pytest.skip("a small file system can only be mounted by root")
        process = small_study.start(disk / "out", workers=2)
        _, complaint = process.communicate(timeout=60)
        assert process.returncode != 0
        assert "WriteError" in complaint and "make room" in complaint
        assert 0 < len(shards(disk / "out")) < 8
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert small_study.finish(disk / "out", workers=2) == whole[:2]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"workers": 0}, "workers"), ({"workers": -2}, "workers"), ({"shard_trials": 0}, "shard")],
)
def test_a_wrong_option_is_named_before_anything_is_written(
    options: dict[str, int], words: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match=words):
        run(small_study.small(), tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_study_is_refused(whole: tuple[str, bytes, Path]) -> None:
    with pytest.raises(StudyError, match="another study"):
        run(small_study.small(seed=8), whole[2], workers=1)


@pytest.mark.slow
def test_a_device_that_is_not_there_is_named_and_pytorch_gives_the_numbers_of_numpy(
    whole: tuple[str, bytes, Path], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")
    for device in ("abacus", *(() if torch.cuda.is_available() else ("cuda",))):
        with pytest.raises(StudyError, match=f"--device {device}"):
            run(small_study.small(), tmp_path / "none", device=device)
    assert not (tmp_path / "none").exists()
    results, theirs = (
        run(small_study.small(), tmp_path / "out", device="torch"),
        results_of(whole[2]),
    )
    differs = (np.abs(results.score - theirs.score) > 1e-9) & theirs.converged
    assert [(results.cells[i].label, int(t)) for i, t in np.argwhere(differs)] == []


DASK = """
import os, signal, threading, time
from pathlib import Path
from support import small_study
from surefoot.research.studies.runner import run
from surefoot.statistics.metrics import Intervals
from surefoot.research.studies.results import summary_rows, write_summary

def murder(cluster, out):
    while len(list((out / "shards").glob("*.parquet"))) < 2:
        time.sleep(0.02)
    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

if __name__ == "__main__":
    from distributed import LocalCluster
    out, study = Path(sys.argv[1]), small_study.small()
    options = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with LocalCluster(**options) as cluster:
        threading.Thread(target=murder, args=(cluster, out), daemon=True).start()
        results = run(study, out, dask=cluster.scheduler_address, shard_trials=4)
    write_summary(out / "summary.csv", summary_rows(results, Intervals(study.alpha, 50)))
    print(small_study.digest(results))
"""


@pytest.mark.slow
def test_a_dask_cluster_with_a_worker_killed_on_the_way_gives_the_same_bytes(
    whole: tuple[str, bytes, Path], tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is an extra")
    done = script(tmp_path / "cluster.py", DASK, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (done.stdout.strip(), (tmp_path / "out" / "summary.csv").read_bytes()) == whole[:2]


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is an extra")
    done = script(
        tmp_path / "nobody.py",
        "from support import small_study\nfrom surefoot.research.studies.runner import run\n"
        'run(small_study.small(), sys.argv[1], dask="tcp://127.0.0.1:9")',
        tmp_path / "out",
    )
    assert "StudyError: no Dask scheduler answers at 'tcp://127.0.0.1:9'" in done.stderr


def test_the_benchmarks_of_a_study_are_made_once_for_all_its_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    study = small_study.small(trials=6)
    build = spec.benchmark

    def counted(name: str, **parameters: Any) -> Any:
        made.append(name)
        return build(name, **parameters)

    monkeypatch.setattr(spec, "benchmark", counted)
    folder = open_folder(tmp_path, study, 3, "cpu")
    made.clear()
    for shard in folder.missing():
        runner.compute(folder, shard, "cpu")
    folder.results()
    assert len(made) == 2
