"""What more of the reward means, in the words of every command that reads a log."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from support import logfiles
from support.logfiles import one_line

Run = Any
NAMES = (
    "check", "improve", "compare", "evaluate", "certify", "safety-test", "watch", "tune",
)  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def deaths(folder: Path) -> Path:
    """Visits of one decision: with "new" more die."""
    path = logfiles.visits(folder / "deaths.csv", n=1000)
    text = path.read_text().replace("reward", "died", 1)
    path.write_text(text)
    return path


def given(folder: Path, reward: str) -> tuple[Any, ...]:
    rule = logfiles.coin(folder / "rule.csv", 0.5, ("a", "b"))
    return ("--reward", reward, "--gamma", 0.9, "--baseline", rule, "--reward-range", "0,1")


def commands(folder: Path, reward: str) -> dict[str, tuple[Any, ...]]:
    log, options = deaths(folder), given(folder, reward)
    other = logfiles.coin(folder / "other.csv", 0.1, ("a", "b"))
    few = ("--models", 10, "--simulated", 0, "--alpha", 0.5, "--try", "pi-b-spibb n_wedge=5")
    pages = ("--report", folder / "page.html")
    return {
        "check": ("check", log, "--reward", reward, *pages),
        "improve": ("improve", log, *options, "--out", folder / "out"),
        "compare": ("compare", log, *options, "--only", "pi-b-spibb", *pages),
        "evaluate": ("evaluate", log, *options, "--policy", other),
        "certify": ("certify", log, *options, "--policy", other),
        "safety-test": ("safety-test", log, *options, "--policy", other, "--horizon", 1, *pages),
        "watch": (
            "watch", log, *options, "--policy", other, "--state-file", folder / "capital.json",
            "--horizon", 1,
        ),
        "tune": ("tune", log, *options, *few, *pages),
    }  # fmt: skip


def pages(folder: Path) -> list[str]:
    found = [folder / "page.html", folder / "out" / "report.html"]
    return [x.read_text(encoding="utf-8") for x in found if x.exists()]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_says_what_more_of_the_reward_means(
    tmp_path: Path, run: Run, name: str
) -> None:
    command = commands(tmp_path, "died:lower")[name]
    code, text, error = run(*command)
    assert code in (0, 3, 4), error
    assert "less died is better; a row averages 0.53" in one_line(text)
    assert "says harm" not in text
    assert all("ess died is better; a row averages 0.53" in page for page in pages(tmp_path))
    code, text, error = run(*command, "--json")
    assert "less died is better; a row averages 0.53" in text, error
    assert '"direction": "lower"' in text


@pytest.mark.parametrize("name", NAMES)
def test_harm_as_a_reward_without_a_direction_is_a_warning_in_the_first_lines(
    tmp_path: Path, run: Run, name: str
) -> None:
    code, text, error = run(*commands(tmp_path, "died")[name])
    assert code in (0, 3, 4), error
    assert "more died is better; a row averages 0.53" in one_line(text)
    labels = [x[:9].strip() for x in text.splitlines() if x[:9].strip()]
    # after the verdict, or what was read, and before all else
    assert "WARNING:" in labels[:3] or "WARNING: 'died'" in "".join(text.splitlines()[:6])
    assert "WARNING: 'died' is the reward" in one_line(text)
    assert all("its name says harm" in page for page in pages(tmp_path))


def test_less_of_a_harm_is_supported_and_more_of_it_is_not(tmp_path: Path, run: Run) -> None:
    log = deaths(tmp_path)
    for reward, action in (("died:lower", "old"), ("died:higher", "new")):
        out = tmp_path / reward[5:]
        code, _, error = run("improve", log, *given(tmp_path, reward), "--out", out)
        assert code == 0, error
        with open(out / "policy.csv", newline="", encoding="utf-8") as file:
            rows = [x for x in csv.DictReader(file) if x["action"] == action]
        assert all(float(x["probability"]) > 0.5 for x in rows)
        summary = json.loads((out / "summary.json").read_text())
        assert summary["log"]["reward"]["direction"] == reward[5:]
        assert summary["worth"]["held_out"]["gain"] > 0.1


def test_a_safety_test_of_a_harm_takes_its_range_as_declared(tmp_path: Path, run: Run) -> None:
    log, other = deaths(tmp_path), logfiles.coin(tmp_path / "pi.csv", 0.1, ("a", "b"))
    for reward, code in (("died:lower", 0), ("died:higher", 4)):
        options = (*given(tmp_path, reward), "--policy", other, "--horizon", 1)
        found, text, error = run("safety-test", log, *options)
        assert found == code, text + error
        same = (*options, "--return-range", "0,1")
        assert run("safety-test", log, *same)[0] == code


def test_the_training_data_are_known_whatever_the_direction(tmp_path: Path, run: Run) -> None:
    log = deaths(tmp_path)
    run("improve", log, *given(tmp_path, "died:higher"), "--out", tmp_path / "out")
    copy = tmp_path / "copy.csv"
    copy.write_text(log.read_text().replace("\nv", "\nw"))  # the same episodes, with other names
    options = (*given(tmp_path, "died:lower"), "--policy", tmp_path / "out" / "policy.csv")
    code, text, error = run("safety-test", copy, *options)
    assert code == 2, text
    assert "was made from" in error


def test_a_guard_on_the_column_of_the_reward_shares_its_range(tmp_path: Path, run: Run) -> None:
    log, other = deaths(tmp_path), logfiles.coin(tmp_path / "pi.csv", 0.1, ("a", "b"))
    options = (*given(tmp_path, "died:lower"), "--policy", other, "--horizon", 1)
    code, text, error = run("safety-test", log, *options, "--guard", "died:lower")
    assert code == 0, text + error
    assert "no died below" not in text  # nothing observed is taken for granted
