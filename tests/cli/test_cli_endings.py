"""How a command ends before its time: signals, closed pipes, full disks, wrong input under
--json; and what it leaves behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import logfiles, small_study
from surefoot.cli.ending import Signals, Stopped, stopping_signals
from surefoot.logs.database import Database, Workspace

COMMAND = (sys.executable, "-m", "surefoot.cli")
STUDY = small_study.TEXT.replace("trials = 16", "trials = 5000")


def begin(folder: Path, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """A command whose temporary files go to `folder`."""
    command = [*COMMAND, *map(str, arguments)]
    environment = {**os.environ, **small_study.ONE_THREAD, "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment,
        preexec_fn=small_study.heed_ctrl_c,
        **options,
    )


def wait_for(found: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not found() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that takes a second or two to read."""
    path = tmp_path_factory.mktemp("log") / "long.csv"
    rows = "".join(
        f"{i // 40},{i % 40},s{i * 7919 % 997},{'xyz'[i % 3]},{i % 11}\n" for i in range(600_000)
    )
    path.write_text("episode,time,state,action,reward\n" + rows, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("number", "codes"),
    [
        (signal.SIGTERM, (143,)),
        (signal.SIGHUP, (129,)),
        (signal.SIGINT, (130, -signal.SIGINT)),
    ],  # a shell calls both of these 130
    ids=["SIGTERM", "SIGHUP", "Ctrl-C"],
)
def test_a_signal_ends_a_command_and_leaves_nothing_behind(
    long_log: Path, tmp_path: Path, number: int, codes: tuple[int, ...]
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = begin(
        scratch, "improve", long_log, "--gamma", 0.9, "--out", tmp_path / "out", "--json"
    )
    wait_for(lambda: list(scratch.iterdir()), process)
    process.send_signal(number)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode in codes, complaint
    assert "Traceback" not in complaint
    assert json.loads(said)["error"]["exit_code"] == codes[0]
    assert [x.name for x in scratch.iterdir() if x.name.startswith("surefoot")] == []
    assert not (tmp_path / "out").exists()


def test_sigterm_ends_a_study_with_its_workers_and_the_same_command_resumes(tmp_path: Path) -> None:
    file, out = tmp_path / "study.toml", tmp_path / "out"
    file.write_text(STUDY, encoding="utf-8")
    process = begin(tmp_path, "run", file, "--out", out, "--workers", 1, start_new_session=True)
    wait_for(lambda: list(out.glob("shards/*.parquet")), process)
    process.terminate()
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "run the same command to resume" in complaint
    assert list(out.glob("shards/*.parquet"))
    assert [
        x for x in out.rglob("*") if x.name.endswith(".partial") or x.name.startswith(".")
    ] == []
    end = time.monotonic() + 20
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(process.pid, 0)
            time.sleep(0.05)


def test_two_signals_at_once_are_one_request() -> None:
    """GNU timeout sends SIGTERM to its child, and then to the child's group: the second must not
    break the cleaning up.
    """
    signals = Signals()
    with pytest.raises(KeyboardInterrupt):
        signals(signal.SIGTERM, None)
    signals(signal.SIGTERM, None)
    assert signals.came is signal.SIGTERM


def test_an_interruption_that_python_drops_comes_again() -> None:
    """As in a callback of the import system: whoever is being imported just then must not keep
    the command from ending.
    """

    class Dropping:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped), stopping_signals() as signals:
        thing = Dropping()
        del thing
        assert signals.came is signal.SIGTERM
        time.sleep(5)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_signal_as_soon_as_the_folder_is_there_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def interrupted(self: Path, *given: Any, **options: Any) -> None:
        make(self, *given, **options)
        raise Stopped

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(Stopped):
        Workspace()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_no_import_is_interrupted_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A compiled module that is interrupted there can end the process (nanobind does)."""
    name = f"half_way_{number}"
    text = f"import signal\nsignal.raise_signal({int(number)})\nwhole = True\n"
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(number)
    try:
        with stopping_signals():
            assert __import__(name).whole
            with pytest.raises(KeyboardInterrupt):
                time.sleep(5)
    finally:
        signal.signal(number, before)


def test_signals_that_are_ignored_stay_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert isinstance(signal.getsignal(signal.SIGTERM), Signals)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_query_that_a_signal_interrupts_is_an_interruption_not_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = Workspace()

    def interrupt(sql: str) -> None:
        raise RuntimeError("Query interrupted")

    with Database(workspace) as database:
        stub = SimpleNamespace(execute=interrupt, close=database.connection.close)
        monkeypatch.setattr(database, "connection", stub)
        with pytest.raises(KeyboardInterrupt):
            database.rows("counting", "select 1")
    workspace.close()


@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("improve", "--help")])
def test_a_closed_pipe_ends_a_command_quietly(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_error_keeps_its_exit_code_where_nobody_reads_stderr() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, "improve", "nowhere.csv", "--gamma", "1", "--json"],
            stderr=writing,
            stdout=subprocess.PIPE,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["type"] == "LogError"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_told_once() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "list"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: the output cannot be written: No space left on device"
    ]


def test_a_label_that_the_terminal_cannot_show_is_no_crash(tmp_path: Path) -> None:
    policy = tmp_path / "policy.csv"
    policy.write_text("state,action,probability\nlow,大,1\n", encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, "apply", str(policy), "--state", "low"],
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert (done.returncode, done.stdout) == (0, b"  1.0000  \\u5927\n")


@pytest.mark.parametrize(
    ("arguments", "kind", "word"),
    [
        (("improve", "nowhere.csv", "--gamma", "0.9"), "LogError", "nowhere.csv"),
        (("improve", "nowhere.csv"), "ParameterError", "--gamma"),
        (("improve", "nowhere.csv", "--gamma", "much"), "UsageError", "--gamma"),
        (("compare", "LOG", "--gamma", "2"), "ProblemError", "gamma"),
        (("apply", "nowhere.csv", "--state", "x"), "PolicyError", "nowhere.csv"),
        (("check", "LOG", "--drop-bad-rows", "frogs"), "UnknownNameError", "frogs"),
        (("nonsense",), "UsageError", "nonsense"),
    ],
)
def test_an_error_under_json_is_a_document_and_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    kind: str,
    word: str,
) -> None:
    log = logfiles.good_log(tmp_path)
    given = [str(log) if x == "LOG" else x for x in arguments]
    code, said, complaint = logfiles.run(monkeypatch, capsys, *given, "--json")
    found = json.loads(said)
    assert (code, list(found), found["schema"]) == (2, ["schema", "error"], "surefoot/error/1")
    assert (found["error"]["type"], found["error"]["exit_code"]) == (kind, 2)
    assert word in found["error"]["message"] and word in complaint
    assert logfiles.run(monkeypatch, capsys, *given)[:2] == (2, "")


def test_a_crash_under_json_is_a_document_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash() -> None:
        raise ZeroDivisionError("a fault of surefoot")

    monkeypatch.setattr("surefoot.algorithms.defaults.described", crash)
    monkeypatch.setattr(sys, "argv", ["surefoot", "list", "--json"])
    from surefoot.cli import main

    with pytest.raises(ZeroDivisionError):
        main()
    assert json.loads(capsys.readouterr().out)["error"] == {
        "type": "ZeroDivisionError",
        "message": "a fault of surefoot",
        "exit_code": 1,
    }


def test_a_verdict_is_no_error_under_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logfiles.idle_log(tmp_path)
    code, said, _ = logfiles.run(
        monkeypatch, capsys, "improve", log, "--gamma", 0.9, "--out", tmp_path / "out", "--json"
    )
    assert (code, json.loads(said)["supported"]) == (3, False)
