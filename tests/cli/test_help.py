"""The help: commands in the order a person meets them, flags as flags, examples that run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import surefoot
from support import logfiles, small_study
from surefoot.cli import COMMANDS

NAMES = [name for _, name, _, _ in COMMANDS]


def test_commands_come_in_the_order_a_person_meets_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = logfiles.run(monkeypatch, capsys, "--help")
    words = [line.split()[1] for line in text.splitlines() if line.startswith("│ ")]
    assert [word for word in words if word in NAMES] == NAMES
    assert (code, text.index("With a log") < text.index("For research")) == (0, True)


def test_the_version_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = logfiles.run(monkeypatch, capsys, "--version")
    assert shown == (0, f"surefoot {surefoot.__version__}\n", "")


@pytest.mark.parametrize("columns", ["80", "100"])
@pytest.mark.parametrize("command", NAMES)
def test_help_ends_with_an_example_and_shows_flags_as_flags(
    command: str,
    columns: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    code, text, _ = logfiles.run(monkeypatch, capsys, command, "--help")
    assert code == 0
    assert f"Example: surefoot {command}" in " ".join(text.split())
    assert "bool" not in text.lower()
    assert "`" not in text
    assert ("--json" in text) == (command not in ("run", "reproduce"))


def test_the_help_says_that_the_reward_of_a_cut_row_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text, _ = logfiles.run(monkeypatch, capsys, "improve", "--help")
    assert "its reward is lost" in " ".join(text.replace("│", " ").split())


@pytest.mark.slow
def test_the_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wards = ("ward-3", "ward-4")
    logfiles.visits(tmp_path / "log.csv", wards=wards)
    logfiles.visits(tmp_path / "new.csv", n=800, seed=1, wards=wards)
    logfiles.coin(tmp_path / "rule.csv", 0.5, wards=wards)
    rows = [(i, 0, 20 + i % 60, 50 + i % 70, i % 2, 1) for i in range(100)]
    header = ("episode", "time", "age", "pulse", "action", "reward")
    logfiles.write(tmp_path / "raw.csv", header, rows)
    (tmp_path / "my-study.toml").write_text(small_study.TEXT)
    for _, name, _, example in COMMANDS:
        words = shlex.split(example.replace("1000", "10"))
        code, _, error = logfiles.run(monkeypatch, capsys, name, *words)
        assert code == (3 if name == "certify" else 0), (name, error)  # few rows prove little
