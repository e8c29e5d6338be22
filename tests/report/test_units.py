"""Gains in the reader's unit: words alone change, and percentage points are told of shares alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot import LogError
from surefoot.advice.summary import _relative
from surefoot.core.plain_values import plain
from surefoot.logs import read_log
from surefoot.report.improvement_words import improvement_statements
from surefoot.report.log_words import amount, difference, in_unit, more, span, value
from surefoot.report.statements import text

Run = Callable[..., tuple[int, str, str]]
ONCE = {"episode_end": "terminal", "gamma": 1, "return_range": (0, 1)}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def stays(low: float = 0.0, high: float = 1.0, half: bool = False) -> dict[str, Any]:
    """One decision an episode; who takes "b" survives more often (`high`), else `low`."""
    rng = np.random.default_rng(1)
    b = rng.random(3000) < 0.3
    lives = rng.random(3000) < 0.4 + 0.3 * b
    reward = np.where(lives, high, low)
    if half:
        reward[7] = 0.5 * (low + high)
    return {
        "episode": np.arange(3000), "time": np.zeros(3000), "state": np.zeros(3000, dtype=int),
        "action": np.where(b, "b", "a"), "reward": reward,
    }  # fmt: skip


def told(source: Any, **how: Any) -> str:
    advice = surefoot.advise(source, **how)
    return " ".join(text(improvement_statements(advice.document), explain=True).split())


def test_a_share_is_told_in_percentage_points_and_no_number_moves() -> None:
    plainly = surefoot.advise(stays(), **ONCE).document
    named = surefoot.advise(stays(), unit="survival", **ONCE).document
    assert named["log"]["reward"]["unit"] == "survival" and named["log"]["reward"]["share"]
    assert plainly["log"]["reward"]["unit"] is None
    one, two = (plain(x) | {"log": None, "statements": None} for x in (plainly, named))
    assert json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    held = named["worth"]["held_out"]
    gain, low, high = (f"{100 * held[x]:.1f}" for x in ("gain", "low", "high"))
    worth = f"+{gain} percentage points of survival ({low} to {high}, 90 % interval), from"
    assert worth in told(stays(), unit="survival", **ONCE)
    assert "percentage" not in told(stays(), **ONCE)


def test_the_relative_gain_stands_beside_it() -> None:
    document = surefoot.advise(stays(), unit="survival", **ONCE).document
    held, (base,) = (
        document["worth"]["held_out"]["gain"],
        [
            x
            for x in document["worth"]["estimates"]
            if x["of"] == "baseline" and not x["optimistic"]
        ],
    )
    assert document["worth"]["relative"] == pytest.approx(held / base["value"])
    shown = f"{100 * held / base['value']:+.2g} % relative to the baseline"
    assert shown in told(stays(), unit="survival", **ONCE)


@pytest.mark.parametrize(
    ("low", "value_of", "sign", "there"),
    [(0.6, 1.0, 1.0, True), (0.4, 1.0, 1.0, False), (-3.0, -1.0, 1.0, False), (-0.7, -1.0, -1.0, True)],
)  # fmt: skip
def test_a_relative_gain_needs_a_baseline_clearly_above_0(
    low: float, value_of: float, sign: float, there: bool
) -> None:
    ends = sorted((low, 2 * value_of - low))
    row = {
        "data": "held-out half", "of": "baseline", "value": value_of, "low": ends[0],
        "high": ends[1],
    }  # fmt: skip

    class Gained:
        class evidence:  # noqa: N801
            estimate = 0.5

    found = _relative([row], Gained(), sign)  # type: ignore[arg-type]
    assert found == (pytest.approx(sign * 0.5 / (sign * value_of)) if there else None)


@pytest.mark.parametrize(
    ("columns", "how"),
    [
        (stays(half=True), ONCE),  # one reward between 0 and 1: no share
        (stays(high=10.0), ONCE | {"return_range": (0, 10)}),
        (stays(), ONCE | {"return_range": (0, 5)}),  # several survivals an episode are possible
        (stays(), ONCE | {"gamma": 0.9, "return_range": None}),  # discounted
    ],
)
def test_what_is_no_share_is_told_in_the_unit_itself(
    columns: dict[str, Any], how: dict[str, Any]
) -> None:
    document = surefoot.advise(columns, unit="EUR", **how).document
    assert not document["log"]["reward"]["share"]
    words = told(columns, unit="EUR", **how)
    assert f"{document['worth']['held_out']['gain']:+.3g} EUR (" in words
    assert "percentage points" not in words


def test_revenue_below_1_is_no_share_in_a_sparse_log_either() -> None:
    columns = stays()
    for half in (False, True):
        columns["reward"] = stays(half=half)["reward"]
        for sparse in (False, True):
            log = read_log(columns, episode_end="terminal", sparse=sparse)
            assert log.reward_is_binary is not half


def test_less_is_better_and_the_sign_is_that_of_the_column() -> None:
    columns = stays(low=1.0, high=0.0)
    how = ONCE | {"reward": "reward:lower", "unit": "deaths"}
    document = surefoot.advise(columns, **how).document
    held = document["worth"]["held_out"]
    gain, low, high = (f"{-100 * held[x]:.1f}" for x in ("gain", "low", "high"))
    assert held["gain"] > 0 and document["worth"]["relative"] < 0
    words = told(columns, **how)
    assert f"{gain} percentage points of deaths ({high} to {low}, 90 % interval)" in words


def log(unit: str = "", share: bool = False, direction: str = "higher") -> dict[str, Any]:
    return {"reward": {"column": "r", "unit": unit, "share": share, "direction": direction}}


def test_amounts_in_every_kind_of_unit() -> None:
    survival, money, cost = log("survival", True), log("EUR"), log("EUR", False, "lower")
    assert amount(0.0714, survival) == "7.1 percentage points more"
    assert more(0.0714, survival) == "7.1 percentage points more survival"
    assert difference(-0.0714, survival) == "-7.1 percentage points of survival"
    assert difference(0.0003, survival) == "+0.03 percentage points of survival"
    assert (value(0.829, survival), value(12.345, money)) == ("82.9 %", "12.3 EUR")
    assert more(0.5612, money) == "0.561 EUR more"
    assert difference(1234567.8, money) == "+1,234,568 EUR"
    assert (difference(0.56, cost), more(0.56, cost)) == ("-0.56 EUR", "0.56 EUR less")
    assert span(0.061, 0.082, survival) == "between 6.1 and 8.2 percentage points more"
    ends = span(-0.061, 0.082, survival)
    assert ends == "between 6.1 percentage points less and 8.2 percentage points more"
    assert (in_unit(cost), in_unit(log())) == (", in EUR less", "")
    assert amount(0.0714, log()) == "0.0714 more"


@pytest.mark.parametrize("unit", ["two\nlines", "x" * 41, 7])
def test_a_unit_that_is_none_is_refused(unit: Any) -> None:
    with pytest.raises(LogError, match="what people call the reward, a word or a few on one line"):
        read_log(stays(), episode_end="terminal", unit=unit)


def test_the_description_of_a_log_keeps_it(tmp_path: Path, run: Run) -> None:
    source = logfiles.good_log(tmp_path)
    toml = tmp_path / "log.toml"
    assert run("check", source, "--gamma", "0.9", "--unit", "EUR", "--save", toml)[0] == 0
    assert 'unit = "EUR"' in toml.read_text(encoding="utf-8")
    assert read_log(toml).reward.unit == "EUR"
    assert read_log(toml, unit="USD").reward.unit == "USD"
    assert read_log(toml, reward="time").reward.unit == ""  # it was said of another column
    toml.write_text(toml.read_text(encoding="utf-8").replace('"EUR"', "3"), encoding="utf-8")
    code, _, said = run("check", toml)
    assert code == 2 and "reading.unit must be a word or a few" in " ".join(str(said).split())


def test_compare_and_evaluate_tell_the_same_unit(tmp_path: Path, run: Run) -> None:
    source = logfiles.good_log(tmp_path)
    rule = logfiles.rule(tmp_path)
    words = ("--gamma", "0.9", "--unit", "EUR")
    _, said, _ = run("compare", source, *words, "--only", "basic-rl")
    assert "90 % interval, in EUR." in " ".join(said.split())
    _, said, _ = run("evaluate", source, "--policy", rule, *words)
    assert said.count(" EUR from") == 3
