"""The net: what the commands say of small logs of every kind stays what it was, to the last digit.

A change that is meant: `python tests/net/write_golden.py`, and say in the commit what moved, why.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from net.runs import FOLDER, differences, runs
from support.net_logs import LOGS

QUICK = ("guards", "episodes", "drifts")


@pytest.mark.parametrize(
    "name",
    [x if x in QUICK else pytest.param(x, marks=pytest.mark.slow) for x in LOGS],
)
def test_the_commands_say_what_they_said(name: str, tmp_path: Path) -> None:
    golden = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(runs(name, tmp_path)))
    changed = [f"log {name}, surefoot {x}" for x in differences(golden, found)]
    assert not changed, "\n".join([*changed[:30], "(python tests/net/write_golden.py writes anew)"])


def test_every_golden_file_has_its_log() -> None:
    assert {x.stem for x in FOLDER.glob("*.json")} == set(LOGS)


def test_the_net_sees_what_changes_goes_and_lets_pass_what_comes() -> None:
    old = {"gain": 1.0, "rows": [1, 2], "words": "so", "left": None}
    assert not list(differences(old, old | {"gain": 1.0 + 1e-10, "more": 1}))
    assert list(differences(old, old | {"gain": 1.0 + 1e-7})) == ["gain: was 1.0, is 1.0000001"]
    assert list(differences(old, old | {"rows": [1, 3]})) == ["rows[1]: was 2, is 3"]
    assert list(differences(old, {x: old[x] for x in old if x != "left"})) == [
        "left: was None, is gone"
    ]
    assert list(differences({"x": {"y": True}}, {"x": {"y": 1}})) == ["x.y: was True, is 1"]
