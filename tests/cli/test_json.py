"""Documents for machines: one a command, with a schema that names its fields, and nothing that is
no JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import logfiles
from surefoot.cli import shipped_example as demo
from surefoot.cli.terminal import json_text
from surefoot.report.schema import DOCUMENTS

Arguments = Callable[[Path], tuple[Any, ...]]


def learning(folder: Path) -> tuple[Any, ...]:
    return (
        logfiles.visits(folder / "log.csv"),
        "--gamma",
        0.9,
        "--baseline",
        logfiles.coin(folder / "rule.csv", 0.5),
    )


def policy(folder: Path) -> Path:
    return logfiles.coin(folder / "policy.csv", 0.9)


def improved_folder(folder: Path) -> Path:
    demo.improved(folder / "demo")
    return folder / "demo"


COMMANDS: dict[str, Arguments] = {
    "improve": lambda x: ("improve", *learning(x), "--out", x / "out"),
    "report": lambda x: ("report", improved_folder(x)),
    "compare": lambda x: ("compare", *learning(x), "--only", "basic-rl,hcpi"),
    "evaluate": lambda x: ("evaluate", *learning(x), "--policy", policy(x)),
    "plan": lambda x: ("plan", *learning(x)),
    "certify": lambda x: ("certify", *learning(x), "--policy", policy(x)),
    "safety-test": lambda x: (
        "safety-test",
        *learning(x),
        "--policy",
        policy(x),
        "--return-range",
        "0,1",
        "--reward-range",
        "0,1",
    ),
    "tune": lambda x: (
        "tune",
        *learning(x),
        "--models",
        100,
        "--simulated",
        0,
        "--try",
        "basic-rl",
        "--out",
        x / "tune.json",
    ),
    "check": lambda x: ("check", logfiles.visits(x / "log.csv")),
    "discretize": lambda x: (
        "discretize",
        logfiles.good_log(x),
        "--features",
        "time",
        "--column",
        "x",
        "--out",
        x / "a.csv",
    ),
    "apply": lambda x: ("apply", policy(x), "--state", "a", "--sample"),
    "watch": lambda x: (
        "watch",
        *learning(x),
        "--policy",
        policy(x),
        "--reward-range",
        "0,1",
        "--state-file",
        x / "capital.json",
    ),
    "export": lambda x: ("export", policy(x), "--out", x / "decide.sql"),
    "list": lambda x: ("list",),
    "demo": lambda x: ("demo", "--out", x / "demo"),
}


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_document_names_its_schema_and_has_its_fields(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said, complaint = logfiles.run(
        monkeypatch, capsys, *COMMANDS[command](tmp_path), "--json"
    )
    assert code in (0, 3), complaint
    found = json.loads(said, parse_constant=no_constant)
    assert next(iter(found.items())) == ("schema", f"surefoot/{command}/1")
    logfiles.validated(said)


def test_the_files_have_the_schema_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said, _ = logfiles.run(monkeypatch, capsys, *COMMANDS["improve"](tmp_path), "--json")
    printed, written = (
        json.loads(said),
        json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8")),
    )
    assert printed == written | {"files": printed["files"]}
    assert written["schema"] == "surefoot/improve/1"
    logfiles.validated((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    _, said, _ = logfiles.run(monkeypatch, capsys, *COMMANDS["tune"](tmp_path), "--json")
    assert json.loads(said) == json.loads((tmp_path / "tune.json").read_text(encoding="utf-8"))


def test_every_document_that_has_a_model_is_printed() -> None:
    assert set(DOCUMENTS) == {*COMMANDS, "error"}


@pytest.mark.parametrize("command", DOCUMENTS)
def test_the_schema_of_every_document_can_be_printed(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = logfiles.run(monkeypatch, capsys, "list", "--schema", command)
    assert code == 0
    assert f'"surefoot/{command}/1"' in said
    assert json.loads(said)["$schema"].startswith("https://json-schema.org/")


def test_a_schema_that_there_is_not_is_refused_with_those_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, complaint = logfiles.run(monkeypatch, capsys, "list", "--schema", "run")
    assert code == 2
    assert "safety-test" in complaint


def test_numbers_that_do_not_exist_are_null_and_labels_are_ascii() -> None:
    text = json_text("check", {"x": float("nan"), "y": [float("inf"), 1], "ü": "大"})
    assert text.isascii()
    assert json.loads(text) == {"schema": "surefoot/check/1", "x": None, "y": [None, 1], "ü": "大"}
