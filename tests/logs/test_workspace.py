"""Temporary folders: each is removed by the process that made it, or after that process was
killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support import logfiles
from surefoot.logs import read_log

KEEP = """
import sys, time
from surefoot.logs import read_log
log = read_log(sys.argv[1])
print("read", flush=True)
time.sleep(600)
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, here and in processes that are started."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def reader(log: Path) -> subprocess.Popen[str]:
    """A process that has read a log and goes on."""
    process = subprocess.Popen(
        [sys.executable, "-c", KEEP, str(log)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "read\n"
    return process


def test_the_folder_of_a_killed_process_goes_when_the_next_log_is_read(
    tmp_path: Path, scratch: Path
) -> None:
    log = logfiles.good_log(tmp_path)
    process = reader(log)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (left,) = scratch.iterdir()
    kept = read_log(log)
    assert not left.exists()
    assert len(list(scratch.iterdir())) == 1
    assert kept.n_episodes == 120


def test_the_folder_of_a_living_process_stays_when_another_log_is_read(
    tmp_path: Path, scratch: Path
) -> None:
    log = logfiles.good_log(tmp_path)
    process = reader(log)
    try:
        (used,) = scratch.iterdir()
        read_log(log)
        assert any(used.iterdir())
    finally:
        process.kill()
        process.communicate()


def test_a_forked_child_that_ends_leaves_its_parent_the_rows(tmp_path: Path, scratch: Path) -> None:
    log = read_log(logfiles.good_log(tmp_path))
    child = os.fork()
    if child == 0:
        log.workspace.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert log.problem(0.9).log.n_episodes == 120
