"""surefoot check, as a user calls it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from surefoot.cli import app, main
from surefoot.core.errors import option

LOG = "episode,time,state,action,reward\n" + "".join(
    f"e{i // 10},{i % 10},{'wet' if i % 3 else 'dry'},{'go' if i % 4 else '[stay]'},{i % 2}\n"
    for i in range(60)
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(LOG, encoding="utf-8")
    return path


def test_the_rows_are_accounted_for_and_every_finding_is_printed(log: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(log)])
    assert done.exit_code == 0, done.output
    assert "60 rows read, 54 used, 6 left out" in done.stdout
    for name in (
        "size",
        "coverage",
        "rare pairs",
        "dead ends",
        "alternatives",
        "independent returns",
        "Markov",
        "drift",
        "policy drift",
        "copies",
        "contradictions",
        "time",
    ):
        assert f" {name}: " in done.stdout


def test_json_is_all_there_is_on_stdout(log: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(log), "--gamma", "0.9", "--json"])
    found = json.loads(done.stdout)
    assert found["rows"] == {"read": 60, "used": 54, "left_out": {"cut": 6}}
    assert {finding["level"] for finding in found["findings"]} <= {"ok", "note", "warning"}
    assert found["findings"][0]["numbers"]["states"] == 2


def test_a_baseline_file_is_compared_with_the_log(log: Path, tmp_path: Path) -> None:
    (tmp_path / "rule.csv").write_text(
        "state,action,probability\nwet,go,1\nwet,[stay],0\ndry,go,0.5\ndry,[stay],0.5\nfrozen,go,1\n"
    )
    done = CliRunner().invoke(
        app, ["check", str(log), "--baseline", str(tmp_path / "rule.csv"), "--json"]
    )
    found = {x["name"]: x for x in json.loads(done.stdout)["findings"]}
    assert found["baseline"]["level"] == "warning"
    assert found["baseline"]["numbers"]["impossible"] > 0


def test_columns_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        LOG.replace("state", "weather", 1).replace("episode", "trip_no", 1)
    )
    options = ["--state", "weather", "--episode", "trip_no", "--episode-end", "terminal", "--json"]
    done = CliRunner().invoke(app, ["check", str(tmp_path / "log.csv"), *options])
    assert json.loads(done.stdout)["rows"]["used"] == 60


@pytest.mark.parametrize(
    "arguments",
    [
        ["--state", "nothing"],
        ["--gamma", "2"],
        ["--baseline", "no-such-file.csv"],
        ["--gamma", "x"],
    ],
)
def test_wrong_input_exits_with_two_and_leaves_stdout_empty(
    log: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["surefoot", "check", str(log), *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert (stop.value.code, shown.out) == (2, "")
    assert "rror" in shown.err


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        (lambda x: x.replace(",1\n", ",x\n", 1), [], "leave them out with --drop-bad-rows reward"),
        (lambda x: x.replace("state", "place"), [], "Name it with --state ..."),
        (lambda x: x.replace("episode", "trip"), [], "--episode - (episode='-' in Python) makes"),
        (lambda x: x, ["--terminal-states", "wet"], "pass --terminal-to-end"),
    ],
)
def test_messages_name_the_options_of_the_command_line(
    change: Any,
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(change(LOG), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["surefoot", "check", str(path), *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("drop_bad_rows", "reward,time"),
            "--drop-bad-rows reward,time (drop_bad_rows='reward,time' in Python)",
        ),
        (("next_state",), "--next-state ... (next_state=... in Python)"),
        (("episode", "-"), "--episode - (episode='-' in Python)"),
        (("terminal_to_end", True), "--terminal-to-end (terminal_to_end=True in Python)"),
    ],
)
def test_an_option_is_said_in_the_words_of_both_doors(given: Any, said: str) -> None:
    assert option(*given) == said


def test_a_log_whose_clock_went_back_can_be_sorted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    rows = LOG.splitlines()
    path.write_text("\n".join([*rows[:5], rows[6], rows[5], *rows[7:]]) + "\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["surefoot", "check", str(path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "--order time" in capsys.readouterr().err
    assert CliRunner().invoke(app, ["check", str(path), "--order", "time"]).exit_code == 0


def test_what_makes_promises_untrue_is_said_with_its_key(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    day, noise, a = np.repeat(np.arange(200), 5), rng.normal(size=1_000), rng.integers(0, 2, 1_000)
    dates = np.datetime64("2023-01-01") + day
    rows = [
        f"v{rng.integers(10**12)},{d},x,{b},{float(t % 40 < 20) + z},1"
        for d, t, b, z in zip(dates, day, a, map(float, noise), strict=True)
    ]
    rng.shuffle(rows)
    path = tmp_path / "log.csv"
    path.write_text(
        "\n".join(["episode,time,state,action,reward,terminal", *rows]) + "\n", encoding="utf-8"
    )
    shown = CliRunner().invoke(app, ["check", str(path)]).stdout
    assert (
        "outcomes changed over time: given state and action, the rewards rise and fall 5 times over the log"
        in shown
    )
    assert "in order of their times" in shown
    assert "can stop improve from supporting a policy: drift" in shown and "--despite" in shown
    found = json.loads(CliRunner().invoke(app, ["check", str(path), "--json"]).stdout)
    assert found["vetoes"] == ["drift"]
    assert [x["key"] for x in found["findings"] if x["vetoes"]] == ["drift"]


def test_a_log_without_fault_is_not_said_to_be_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [
        f"e{i // 4},{i % 4},{'ab'[rng.integers(2)]},{rng.integers(2)},{float(rng.normal())!r}"
        for i in range(800)
    ]
    (tmp_path / "log.csv").write_text(
        "\n".join(["episode,time,state,action,reward", *rows]) + "\n", encoding="utf-8"
    )
    shown = CliRunner().invoke(app, ["check", str(tmp_path / "log.csv")]).stdout
    assert "--despite" not in shown
    assert "no episode repeats another" in shown
