"""Logs whose text needs a word of explanation, from the command line: options, warnings in every
output, messages in options' words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support import logfiles

Run = Any
ENDED = (*logfiles.HEADER, "terminal")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def paid_at_the_end(folder: Path, *, ended: bool = True) -> Path:
    """Episodes of five steps, whose rewards are summed up in the last row."""
    rows = logfiles.steps()
    total = [sum(float(row[4]) for row in rows[i : i + 5]) for i in range(0, len(rows), 5)]
    new = [
        (*row[:4], total[i // 5] if i % 5 == 4 else "", int(ended and i % 5 == 4))
        for i, row in enumerate(rows)
    ]
    return logfiles.write(folder / "end.csv", ENDED, new)


def test_a_log_paid_at_the_end_is_read_with_missing_reward(tmp_path: Path, run: Run) -> None:
    given = ("improve", paid_at_the_end(tmp_path), "--gamma", 0.9, "--out", tmp_path / "out")
    code, _, error = run(*given)
    assert code == 2
    assert "--missing-reward 0" in error
    code, text, _ = run(*given, "--missing-reward", 0, "--explain")
    assert code in (0, 3)
    assert "note:     480 rows have no reward: it counts as 0" in text


def test_every_command_on_a_log_prints_its_warnings(tmp_path: Path, run: Run) -> None:
    log, rule = paid_at_the_end(tmp_path, ended=False), logfiles.rule(tmp_path)
    read = ("--missing-reward", 0)
    learn = ("--gamma", 0.9, "--baseline", rule, *read)
    commands: dict[str, tuple[Any, ...]] = {
        "check": ("check", log, *read),
        "improve": ("improve", log, *learn, "--out", tmp_path / "out"),
        "compare": ("compare", log, *learn, "--only", "pi-b-spibb"),
        "evaluate": ("evaluate", log, *learn, "--policy", rule),
        "tune": (
            "tune",
            log,
            *learn,
            "--models",
            10,
            "--simulated",
            0,
            "--alpha",
            0.5,
            "--try",
            "pi-b-spibb n_wedge=5",
        ),
        "safety-test": ("safety-test", log, *learn, "--policy", rule),
    }
    for name, command in commands.items():
        for more in ((), ("--json",)):
            code, text, error = run(*command, *more)
            assert code in (0, 3), (name, error)
            text = logfiles.one_line(text)
            assert "WARNING: " in text, name
            assert "100% of the reward (in size) lies in rows that are left out" in text, name
            assert "say --episode-end terminal" in text, name
    assert any(
        "WARNING" in note
        for note in json.loads((tmp_path / "out" / "summary.json").read_text())["notes"]
    )


LABELS = ("01", "1", "1e3", "-0", "+1")


def test_labels_that_look_like_numbers_are_taken_as_the_log_has_them(
    tmp_path: Path, run: Run
) -> None:
    rows = [
        (e, t, LABELS[int(t) % 5], LABELS[i % 5], r, 0)
        for i, (e, t, _, _, r) in enumerate(logfiles.steps())
    ]
    rows = [
        (*row[:5], int(row[1] == 4)) if row[1] != 4 else (*row[:2], "01", *row[3:5], 1)
        for row in rows
    ]
    log = logfiles.write(tmp_path / "log.csv", ENDED, rows)
    given = ("improve", log, "--gamma", 0.9, "--out", tmp_path / "out", "--json")
    for start in LABELS[:4]:
        code, text, error = run(*given, "--actions", ",".join([*LABELS, "007"]), "--start", start)
        assert code in (0, 3), error
        assert json.loads(text)["log"]["actions"] == 6
    code, _, error = run(*given, "--actions", "1,1e3,-0,+1")
    assert code == 2
    assert "(action '01')" in error


def test_states_named_terminal_are_matched_as_text(tmp_path: Path, run: Run) -> None:
    rows = [
        (
            f"e{i // 2}",
            i % 2,
            "1" if i % 2 == 0 else "01",
            "xy"[i // 2 % 2],
            i % 3,
            "01" if i % 2 == 0 else "001",
        )
        for i in range(80)
    ]
    log = logfiles.write(tmp_path / "log.csv", (*logfiles.HEADER, "next_state"), rows)
    code, text, error = run(
        "improve", log, "--gamma", 0.9, "--terminal-states", "001", "--out", tmp_path / "out"
    )
    assert code in (0, 3), error
    assert "is not in the log" not in text
    assert (
        "act in state"
        in run(
            "improve", log, "--gamma", 0.9, "--terminal-states", "01", "--out", tmp_path / "out"
        )[2]
    )


def test_a_german_export_is_read(tmp_path: Path, run: Run) -> None:
    rows = logfiles.steps(labels=("früh", "spät", "nachts"))
    lines = [
        ";".join(logfiles.HEADER),
        *(";".join([*map(str, row[:4]), str(row[4]).replace(".", ",")]) for row in rows),
    ]
    path = tmp_path / "log.csv"
    path.write_bytes(("\n".join(lines) + "\n").encode("cp1252"))
    plain = logfiles.write(tmp_path / "plain.csv", logfiles.HEADER, rows)
    told = ("--decimal", ",", "--delimiter", ";", "--encoding", "cp1252")
    code, text, error = run(
        "improve", path, "--gamma", 0.9, "--json", "--out", tmp_path / "out", *told
    )
    assert code == 0, error
    here, there = (
        json.loads(text),
        json.loads(run("improve", plain, "--gamma", 0.9, "--json", "--out", tmp_path / "out")[1]),
    )
    assert here["log"]["fingerprint"] == there["log"]["fingerprint"]
    for left_out, words in ((0, "--decimal ,"), (4, "--encoding latin-1")):
        code, _, error = run("check", path, *(told[:left_out] + told[left_out + 2 :]))
        assert code == 2
        assert words in " ".join(error.split())


def test_rows_that_are_dropped_leave_the_columns_as_they_are_called(
    tmp_path: Path, run: Run
) -> None:
    rows = logfiles.steps()
    rows[7] = (*rows[7][:4], "much")
    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows)
    code, text, _ = run("check", log, "--drop-bad-rows", "reward")
    assert code == 0
    assert (
        "episode = episode, time = time, state = state, action = action, reward = reward\n" in text
    )
    assert "surefoot_" not in text
    assert "time gaps equal 1" in text


def test_a_night_on_which_clocks_are_put_back_is_explained_in_options(
    tmp_path: Path, run: Run
) -> None:
    times = ["01:50", "02:20", "02:50", "02:10", "02:40", "03:10"]
    rows = [("e", f"2024-10-27 {t}", f"s{i % 2}", "x", 1) for i, t in enumerate(times)]
    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows)
    code, _, error = run("check", log)
    assert code == 2
    for words in ("--time -", "--order time", "UTC offset"):
        assert words in " ".join(error.split())
    assert run("check", log, "--time", "-")[0] == 0
