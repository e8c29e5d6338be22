"""Logs and studies on a Dask cluster: the same files, the same surefoot, and words instead of
waiting or tracebacks.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import surefoot
from support import logfiles, small_study
from support.dask_machines import Machines, machines
from surefoot import LogError, NotAvailableError
from surefoot.core.errors import StudyError
from surefoot.evidence.units import log_and_units_on_dask
from surefoot.logs import read_log
from surefoot.research.studies.runner import run

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Machines]:
    with machines(tmp_path / "dask") as found:
        yield found


def test_a_worker_reads_the_file_that_was_given_not_its_own_of_that_name(
    tmp_path: Path, dask: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, n in ((here, 600), (there, 300)):
        folder.mkdir()
        logfiles.good_log(folder, n=n)
    dask.worker(there)
    monkeypatch.chdir(here)
    found, _ = log_and_units_on_dask(dask.address, "log.csv")
    assert np.array_equal(found.counts.n_sas, read_log("log.csv").counts.n_sas)


@pytest.mark.parametrize("change", ["other bytes", "another size", "missing"])
def test_a_worker_that_finds_another_file_there_refuses(tmp_path: Path, change: str) -> None:
    from surefoot.logs.read import count_marked, mark, options_of

    file = logfiles.good_log(tmp_path)
    marks, text = {str(file): mark(str(file))}, file.read_text()
    assert count_marked(marks, options_of()[0], (0, 1)).accounting.rows == 600
    if change == "missing":
        file.unlink()
    else:
        file.write_text(text.replace("keep", "kept") if change == "other bytes" else text * 2)
    with pytest.raises(LogError, match="is not the file that was given"):
        count_marked(marks, options_of()[0], (0, 1))


def test_workers_of_another_surefoot_are_refused(tmp_path: Path, dask: Machines) -> None:
    other = tmp_path / "other"
    shutil.copytree(Path(surefoot.__file__).parent, other / "surefoot")
    with open(other / "surefoot" / "evidence" / "theory.py", "a", encoding="utf-8") as file:
        file.write("# another version\n")
    dask.worker(tmp_path, path=other)
    with pytest.raises(NotAvailableError, match=r"the Dask worker .* runs surefoot .*, here is"):
        log_and_units_on_dask(dask.address, logfiles.good_log(tmp_path))
    with pytest.raises(StudyError, match=r"the Dask worker .* runs surefoot .*, here is"):
        run(small_study.small(), tmp_path / "out", dask=dask.address)


def test_a_cluster_without_workers_is_waited_for_with_a_word_and_not_for_ever(
    tmp_path: Path,
    dask: Machines,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from surefoot.core import cluster

    monkeypatch.setattr(cluster, "WAIT", 1.0)
    with pytest.raises(NotAvailableError, match="no worker has joined the Dask scheduler at tcp"):
        log_and_units_on_dask(dask.address, logfiles.good_log(tmp_path))
    assert "waiting for a worker to join tcp" in capsys.readouterr().err


def test_a_scheduler_that_is_killed_ends_a_study_in_words(tmp_path: Path, dask: Machines) -> None:
    file, out = tmp_path / "study.toml", tmp_path / "out"
    file.write_text(small_study.TEXT.replace("trials = 16", "trials = 20000"), encoding="utf-8")
    dask.worker(tmp_path)
    command = [sys.executable, "-m", "surefoot.cli", "run", file, "--out", out]
    process = subprocess.Popen(
        [*map(str, command), "--dask", dask.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not list(out.glob("shards/*.parquet")) and time.monotonic() < end:
        time.sleep(0.05)
    dask.scheduler.kill()
    _, said = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in said) == (2, False), said
    assert "the Dask scheduler at tcp" in said
    assert "is gone" in said
