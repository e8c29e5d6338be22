"""Progress where stderr is no terminal: lines for long work, none for short work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import logfiles
from surefoot.cli import terminal
from surefoot.cli.terminal import ProgressLines


def test_a_line_comes_every_ten_seconds_at_most_and_short_work_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, said = [100.0], list[str]()
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    lines = ProgressLines(said.append)
    for second in range(36):
        clock[0] = 100.0 + second
        lines("reading log.csv", second, 40)
        if second < 10:
            assert said == []
    assert said == [
        "reading log.csv: 25%, 10 s so far",
        "reading log.csv: 50%, 20 s so far",
        "reading log.csv: 75%, 30 s so far",
    ]
    clock[0] += 10
    lines("counting", 0, 1)
    assert said[-1] == "counting, 45 s so far"


@pytest.mark.parametrize("slow", [False, True])
def test_commands_show_progress_of_long_work_on_stderr_alone(
    slow: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, rule = logfiles.good_log(tmp_path), logfiles.rule(tmp_path)
    commands: list[tuple[tuple[Any, ...], str]] = [
        (("check", log), "reading"),
        (
            ("tune", log, "--gamma", 0.9, "--baseline", rule, "--models", 25, "--simulated", 0),
            "models x settings: ",
        ),
    ]
    if slow:  # every call is long after the one before
        monkeypatch.setattr(ProgressLines, "EVERY", 0.0)
    for arguments, words in commands:
        _, printed, said = logfiles.run(monkeypatch, capsys, *arguments)
        assert (words in said) == slow, said
        assert "so far" not in printed
