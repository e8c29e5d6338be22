"""Documents for machines: one a command, with a schema whose fields docs/json.md names, and
nothing that is no JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import logfiles
from surefoot import demo
from surefoot.advice.files import SCHEMA
from surefoot.cli.terminal import json_text

DOCS = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (surefoot/\S+)\n(.*?)(?=^## |\Z)", DOCS, flags=re.M | re.S))
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
def test_a_document_names_its_schema_and_the_docs_name_its_fields(
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
    schema = f"surefoot/{command}/1"
    assert next(iter(found.items())) == ("schema", schema)
    named = SECTIONS[schema] + (SECTIONS["surefoot/improve/1"] if command == "demo" else "")
    assert [field for field in found if field != "schema" and f"`{field}`" not in named] == []


def test_the_files_have_the_schema_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said, _ = logfiles.run(monkeypatch, capsys, *COMMANDS["improve"](tmp_path), "--json")
    printed, written = (
        json.loads(said),
        json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8")),
    )
    assert printed == written | {"files": printed["files"]}
    assert written["schema"] == SCHEMA
    _, said, _ = logfiles.run(monkeypatch, capsys, *COMMANDS["tune"](tmp_path), "--json")
    assert json.loads(said) == json.loads((tmp_path / "tune.json").read_text(encoding="utf-8"))


def test_every_schema_of_the_docs_is_one_that_is_printed() -> None:
    assert set(SECTIONS) == {f"surefoot/{command}/1" for command in (*COMMANDS, "error")}


def test_numbers_that_do_not_exist_are_null_and_labels_are_ascii() -> None:
    text = json_text("check", {"x": float("nan"), "y": [float("inf"), 1], "ü": "大"})
    assert text.isascii()
    assert json.loads(text) == {"schema": "surefoot/check/1", "x": None, "y": [None, 1], "ü": "大"}
