"""surefoot tune: the choice, its files and its exit codes."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from support import logfiles

FEW = ("--models", 100, "--simulated", 0)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_setting_is_chosen_and_the_line_it_prints_runs(tmp_path: Path, run: Any) -> None:
    log, rule, out = logfiles.good_log(tmp_path), logfiles.rule(tmp_path), tmp_path / "tuning.csv"
    code, text, _ = run(
        "tune",
        log,
        "--gamma",
        0.9,
        "--baseline",
        rule,
        "--models",
        100,
        "--simulated",
        10,
        "--out",
        out,
    )
    assert code == 0
    rows = table(out)
    assert rows[0]["setting"] == "no change"
    best = max(rows, key=lambda row: float(row["cvar"]))
    assert [row["setting"] for row in rows if row["chosen"] == "True"] == [best["setting"]]
    line = next(line for line in text.splitlines() if line.startswith("next"))
    words = shlex.split(line.removeprefix("next"))
    assert words[:2] == ["surefoot", "improve"]
    assert best["setting"].split()[0] in words
    code, _, _ = run(*words[1:], "--out", tmp_path / "improved")
    assert code == 0


def test_no_change_is_an_answer_with_exit_code_3(tmp_path: Path, run: Any) -> None:
    given = (
        logfiles.idle_log(tmp_path),
        "--gamma",
        0.9,
        "--baseline",
        logfiles.rule(tmp_path),
        *FEW,
        "--json",
    )
    code, text, _ = run("tune", *given)
    assert code == 3
    found = json.loads(text)
    assert found["chosen"] == "no change"
    assert found["next"] is None
    assert run("tune", *given, "--seed", 1)[1] != text


def test_the_same_seed_gives_the_same_answer(tmp_path: Path, run: Any) -> None:
    given = (
        "tune",
        logfiles.idle_log(tmp_path),
        "--gamma",
        0.9,
        *FEW,
        "--try",
        "lower-exact-soft-spibb",
        "--json",
    )
    assert run(*given) == run(*given)


def test_settings_of_ones_own_and_a_json_file(tmp_path: Path, run: Any) -> None:
    out = tmp_path / "tuning.json"
    code, _, _ = run(
        "tune",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        *FEW,
        "--try",
        "lower-exact-soft-spibb epsilon=0.1,0.5",
        "--try",
        "pi-b-spibb",
        "--out",
        out,
    )
    assert code == 0
    found = json.loads(out.read_text())
    assert [row["setting"].split()[0] for row in found["settings"]] == [
        "no",
        *["lower-exact-soft-spibb"] * 2,
        "pi-b-spibb",
    ]
    assert found["baseline"]["estimated"] is True
    assert found["check"]["p_value"] is None  # no log was simulated


@pytest.mark.parametrize(
    ("gone", "instead"),
    [
        (("--rule", "mean"), "the best CVaR"),
        (("--by", "simulated"), "the best CVaR"),
        (("--tolerance", 0.1), "the best CVaR"),
        (("--bound", 5), "surefoot certify --method spibb"),
        (("--delta", 0.1), "surefoot certify --method spibb"),
        (("--histories", "0,1"), "surefoot check"),
    ],
)
def test_what_the_command_no_longer_has_is_answered_with_what_to_use(
    gone: tuple[Any, ...], instead: str, tmp_path: Path, run: Any
) -> None:
    code, _, said = run("tune", logfiles.good_log(tmp_path), "--gamma", 0.9, *FEW, *gone)
    assert code == 2
    assert f"surefoot tune has no {gone[0]}" in said and instead in said


def test_what_loses_is_a_share_of_is_printed(tmp_path: Path, run: Any) -> None:
    _, text, _ = run(
        "tune",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--baseline",
        logfiles.rule(tmp_path),
        *FEW,
    )
    assert "the share of these models in which the policy is worse than the baseline" in text


@pytest.mark.parametrize(
    "wrong",
    [
        ("--try", "nobody"),
        ("--models", 5),
        ("--out", "tuning.txt"),
        ("--alpha", 2),
    ],
)
def test_wrong_input_is_exit_code_2_and_writes_nothing(
    wrong: tuple[object, ...], tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = logfiles.good_log(tmp_path)
    before = set(tmp_path.iterdir())
    code, _, said = run("tune", log, "--gamma", 0.9, *FEW, *wrong)
    assert code == 2
    assert "error" in said
    assert set(tmp_path.iterdir()) == before


def test_what_cannot_be_written_is_said(tmp_path: Path, run: Any) -> None:
    log, rule = logfiles.good_log(tmp_path), logfiles.rule(tmp_path)
    given = ("tune", log, "--gamma", 0.9, "--baseline", rule, *FEW)
    code, _, said = run(*given, "--out", rule / "tuning.csv")
    assert (code, "rule.csv" in said, "Traceback" in said) == (2, True, False)


def test_a_baseline_that_cannot_have_made_the_log_is_named_by_every_command(
    tmp_path: Path, run: Any
) -> None:
    log = logfiles.good_log(tmp_path)
    rows = [(s, a, p) for s in ("low", "mid", "high") for a, p in (("keep", 0.05), ("try", 0.95))]
    rule = logfiles.write(tmp_path / "wrong.csv", ("state", "action", "probability"), rows)
    given = (log, "--gamma", 0.9, "--baseline", rule)
    for command, more in (
        ("tune", FEW),
        ("compare", ("--only", "basic-rl")),
        ("evaluate", ("--policy", rule)),
    ):
        assert "cannot have made this log" in run(command, *given, *more)[1], command
    _, text, _ = run("improve", *given, "--out", tmp_path / "improved")
    assert "the baseline did not make this log" in " ".join(text.split())
