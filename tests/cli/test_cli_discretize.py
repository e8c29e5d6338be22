"""surefoot discretize, as a user calls it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from surefoot.cli import app, main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    rows = "".join(
        f"{i // 10},{i % 10},{i * 37 % 101},{i * 13 % 7},{'xy'[i % 2]},{i % 5}\n"
        for i in range(200)
    )
    path.write_text("episode,time,speed,load,action,reward\n" + rows, encoding="utf-8")
    return path


def test_a_state_column_an_encoder_and_how_much_states_mix(log: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app,
        [
            "discretize",
            str(log),
            "--features",
            "speed,load",
            "--states",
            "12",
            "--out",
            str(tmp_path / "out.csv"),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "200 rows read, 200 written" in done.stdout
    assert "12 states" in done.stdout
    assert "left within states, of the variance of all rows: reward" in done.stdout
    assert (tmp_path / "out.csv").read_text().splitlines()[
        1
    ] == "0,0,0,0,x,0,speed < 25 and load < 2"
    assert (tmp_path / "out.csv.encoder.json").exists()


def test_the_states_can_be_checked_at_once(log: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out.parquet")
    assert (
        CliRunner()
        .invoke(app, ["discretize", str(log), "--features", "speed", "--states", "4", "--out", out])
        .exit_code
        == 0
    )
    done = CliRunner().invoke(app, ["check", out, "--json"])
    assert json.loads(done.stdout)["findings"][0]["numbers"]["states"] == 4


def test_the_reward_may_have_a_direction_as_in_other_commands(log: Path, tmp_path: Path) -> None:
    given = ["discretize", str(log), "--features", "speed", "--states", "4", "--json"]
    plain, turned = (
        CliRunner().invoke(app, [*given, "--reward", reward, "--out", str(tmp_path / "out.csv")])
        for reward in ("reward", "reward:lower")
    )
    assert turned.exit_code == 0, turned.output
    found, expected = (json.loads(x.stdout) for x in (turned, plain))
    left, known = (x.pop("within_state_variance") for x in (found, expected))
    assert found == expected
    assert left["reward"] == pytest.approx(known["reward"])  # rows are summed in any order
    assert left["successor"] == pytest.approx(known["successor"])


def test_a_saved_encoder_is_applied(log: Path, tmp_path: Path) -> None:
    first, again, encoder = (str(tmp_path / name) for name in ("a.csv", "b.csv", "encoder.json"))
    run = CliRunner().invoke
    made = run(
        app,
        [
            "discretize",
            str(log),
            "--features",
            "speed,load",
            "--states",
            "9",
            "--out",
            first,
            "--encoder",
            encoder,
            "--json",
        ],
    )
    found = json.loads(made.stdout)
    assert (found["encoder"], found["rows"], sum(found["states"].values())) == (encoder, 200, 200)
    assert run(app, ["discretize", str(log), "--apply", encoder, "--out", again]).exit_code == 0
    assert Path(first).read_text() == Path(again).read_text()
    assert not (tmp_path / "b.csv.encoder.json").exists()


def test_edges_and_a_bin_for_missing_values(log: Path, tmp_path: Path) -> None:
    log.write_text(log.read_text().replace("0,3,10,", "0,3,,", 1))
    given = [
        "--features",
        "load",
        "--edges",
        "speed=25,50",
        "--edges",
        "load=3",
        "--missing",
        "bin",
        "--json",
    ]
    done = CliRunner().invoke(
        app, ["discretize", str(log), *given, "--out", str(tmp_path / "out.csv")]
    )
    found = json.loads(done.stdout)
    assert found["features"] == ["load", "speed"]
    speeds = ("speed < 25", "25 <= speed < 50", "speed >= 50")
    assert set(found["states"]) == {
        f"{load} and {speed}" for load in ("load < 3", "load >= 3") for speed in speeds
    } | {"load >= 3 and speed missing"}
    assert found["notes"][0] == "speed is missing in 1 of 200 rows: their bin is 'speed missing'"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--features", "action"],
        ["--features", "sped"],
        [],
        ["--features", "speed", "--apply", "x.json"],
        ["--apply", "x.json"],
        ["--apply", "x.json", "--edges", "speed=2"],
        ["--apply", "x.json", "--missing", "bin"],
        ["--edges", "speed"],
        ["--edges", "speed=1,fast"],
        ["--edges", "=1,2"],
        ["--edges", "speed=1", "--edges", "speed=2"],
    ],
)
def test_wrong_input_exits_with_two_and_writes_nothing(
    log: Path,
    tmp_path: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        sys,
        "argv",
        ["surefoot", "discretize", str(log), "--out", str(tmp_path / "out.csv"), *arguments],
    )
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert (stop.value.code, shown.out) == (2, "")
    assert "error" in shown.err
    assert os.listdir(tmp_path) == ["log.csv"]
