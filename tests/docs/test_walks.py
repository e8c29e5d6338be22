"""The two walks, from a raw export to a watched roll-out: every figure beside the truth."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from support import logfiles
from support.documents import DOCS, ROOT, run_page, text_of

PAGE = "walks.md"
MOST_COMMANDS = 8


@pytest.fixture
def worlds() -> ModuleType:
    """docs/make_walks.py."""
    spec = importlib.util.spec_from_file_location("make_walks", DOCS / "make_walks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_walks"] = module
    spec.loader.exec_module(module)
    return module


def test_each_walk_takes_at_most_eight_commands() -> None:
    for walk in text_of(PAGE).split("## A ward")[1].split("## A shop"):
        assert 3 < walk.count("$ surefoot ") + walk.count("$ python ") <= MOST_COMMANDS


@pytest.mark.slow
def test_what_the_walks_say_holds(
    tmp_path: Path,
    worlds: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both walks, word for word. What each page and each watch says beside what is true."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    done = run_page(PAGE, lambda *words: logfiles.run(monkeypatch, capsys, *words))
    assert done > 10

    ward, share = worlds.Ward(), worlds.ward_share("ward/policy.csv")
    (old, paid_old), (new, paid_new) = ward.worth(worlds.habit()), ward.worth(share)
    noise = 3 * np.sqrt(2 * 0.25 / 400_000)  # of the truth itself
    _compare("ward", {"gain": new - old, "cost": paid_new - paid_old}, noise)
    words = text_of(PAGE)
    assert f"from {100 * old:.1f} to {100 * new:.1f} %" in words
    assert f"{paid_new:,.0f} EUR instead of {paid_old:,.0f}" in words

    shop = worlds.Shop()
    pi = worlds.read("shop/policy.csv", list(worlds.SEGMENTS), worlds.ITEMS)
    (old, earned_old), (new, earned_new) = shop.worth(shop.versions["popular"]), shop.worth(pi)
    _compare("shop", {"gain": new - old, "revenue": earned_new - earned_old}, 0.0)
    assert f"{100 * old:.2f} clicks a hundred visits become {100 * new:.2f}" in words
    assert f"{earned_old:.2f} EUR a visit {earned_new:.2f}" in words


def _compare(folder: str, truth: dict[str, float], noise: float) -> None:
    """The page of a folder, and its page in parts, hold the truth."""
    found = json.loads(Path(folder, "summary.json").read_text(encoding="utf-8"))
    held = found["worth"]["held_out"]
    assert held["low"] - noise <= truth.pop("gain") <= held["high"] + noise
    guards = {x["name"]: x for x in found["guards"]}
    for name, change in truth.items():
        assert guards[name]["low"] <= change <= guards[name]["high"], name
    assert found["verdict"] == "supported"
    assert all(x["holds"] for x in (*found["guards"], *found["groups"]))
    page = Path(folder, "report.html").read_text(encoding="utf-8")
    assert "SUPPORTED" in page
