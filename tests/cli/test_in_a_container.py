"""Where little is there: no room for temporary files or for the output, little memory, few threads;
each ends with a sentence and exit code 2.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support import logfiles, small_study
from surefoot import SurefootError
from surefoot.cli import app
from surefoot.logs import read_log
from surefoot.logs.database import Database, Workspace

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    rows = [(i // 20, i % 20, f"s{i * 7919 % 97}", "xyz"[i % 3], i % 11) for i in range(40_000)]
    return Path(logfiles.write(path, ("episode", "time", "state", "action", "reward"), rows))


def surefoot(*words: object, script: str = "", **options: object) -> tuple[int, str]:
    """(exit code, stderr) of a command in a process of its own."""
    code = f"{script}\nfrom surefoot.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **small_study.ONE_THREAD},
        **{"stdout": subprocess.DEVNULL, **options},  # type: ignore[call-overload]
    )
    return done.returncode, done.stderr


@needs_full
@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "json"])
def test_output_to_a_full_device_is_a_sentence(log: Path, words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        code, complaint = surefoot("check", log, *words, stdout=full)
        assert (code, complaint.count("error:")) == (2, 1)
        assert "the output cannot be written: No space left on device" in complaint
        code, complaint = surefoot("check", "nofile.csv", *words, stdout=full)
        assert (code, complaint.count("\n")) == (2, 1) and "there is no file" in complaint


def test_an_allocation_that_fails_is_a_sentence(log: Path) -> None:
    script = """
import numpy, surefoot.checks
def check_log(*given, **more):
    numpy.ones(1 << 50)
surefoot.checks.check_log = check_log
import surefoot.advice.questions
surefoot.advice.questions.check_log = check_log
"""
    code, complaint = surefoot("check", log, script=script)
    assert code == 2 and "Traceback" not in complaint
    assert "too little memory for this log" in complaint and "8.00 PiB" in complaint


def test_threads_and_memory_change_nothing_but_what_is_taken(log: Path) -> None:
    assert read_log(log, threads=1, memory="300MB").fingerprint == read_log(log).fingerprint
    given = ["check", str(log), "--json"]
    few = CliRunner().invoke(app, [*given, "--threads", "1", "--memory", "300MB"])
    assert few.exit_code == 0
    assert json.loads(few.stdout) == json.loads(CliRunner().invoke(app, given).stdout)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--memory", "2XB"), "memory is a size such as 500MB or 2GB, got '2XB'"),
        (("--threads", "0"), "threads must be a whole number from 1 to"),
        (("--memory", "1MB"), "--memory 2GB"),
    ],
)
def test_wrong_limits_are_refused_in_words(
    log: Path, words: tuple[str, str], complaint: str
) -> None:
    done = CliRunner().invoke(app, ["check", str(log), *words])
    assert isinstance(done.exception, SurefootError) and complaint in str(done.exception)
    assert "Possible solutions" not in str(done.exception)


def test_where_no_temporary_folder_can_be_made_tmpdir_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    with pytest.raises(SurefootError, match=r"/proc/nowhere cannot be written.*TMPDIR=/data/tmp"):
        Workspace()

    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(SurefootError, match=r"no temporary folder can be written.*TMPDIR"):
        Workspace()


@needs_full
def test_where_the_temporary_folder_is_full_tmpdir_is_named(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace()
    with Database(workspace) as database, pytest.raises(SurefootError, match=r"TMPDIR=/data/tmp"):
        how = "format csv, use_tmp_file false"
        database.run("writing", f"copy (from range(1000000)) to '/dev/full' ({how})")
    workspace.close()
