"""The help: commands in the order a person meets them, flags as flags, examples that run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer

import surefoot
from support import logfiles, small_study
from surefoot.cli import COMMANDS, app

NAMES = [name for _, name, _, _ in COMMANDS]


def test_commands_come_in_the_order_a_person_meets_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = logfiles.run(monkeypatch, capsys, "--help")
    words = [line.split()[1] for line in text.splitlines() if line.startswith("│ ")]
    assert [word for word in words if word in NAMES] == NAMES
    assert (code, text.index("With a log") < text.index("For research")) == (0, True)


def test_the_version_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = logfiles.run(monkeypatch, capsys, "--version")
    assert shown == (0, f"surefoot {surefoot.__version__}\n", "")


@pytest.mark.parametrize("columns", ["80", "100"])
@pytest.mark.parametrize("command", NAMES)
def test_help_ends_with_an_example_and_shows_flags_as_flags(
    command: str,
    columns: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    code, text, _ = logfiles.run(monkeypatch, capsys, command, "--help")
    assert code == 0
    assert f"Example: surefoot {command}" in " ".join(text.split())
    assert "bool" not in text.lower()
    assert "`" not in text
    assert ("--json" in text) == (command not in ("run", "benchmark", "reproduce"))


def test_the_help_says_that_the_reward_of_a_cut_row_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text, _ = logfiles.run(monkeypatch, capsys, "check", "--help")
    assert "its reward is lost" in " ".join(text.replace("│", " ").split())


def test_check_alone_shows_how_a_log_is_read_and_others_refer_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--decimal", "--encoding", "--date-format", "--values", "--missing-reward")
    shown = {x: logfiles.run(monkeypatch, capsys, x, "--help")[1] for x in ("check", "improve")}
    assert all(flag in shown["check"] for flag in flags)
    assert not any(flag in shown["improve"] for flag in flags)
    assert "surefoot check --help" in " ".join(shown["improve"].replace("│", " ").split())
    assert "--state" in shown["improve"]


@pytest.mark.slow
def test_the_examples_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wards = ("ward-3", "ward-4")
    logfiles.visits(tmp_path / "log.csv", wards=wards)
    logfiles.visits(tmp_path / "new.csv", n=800, seed=1, wards=wards)
    logfiles.coin(tmp_path / "rule.csv", 0.5, wards=wards)
    rows = [(i, 0, 20 + i % 60, 50 + i % 70, i % 2, 1) for i in range(100)]
    header = ("episode", "time", "age", "pulse", "action", "reward")
    logfiles.write(tmp_path / "raw.csv", header, rows)
    (tmp_path / "my-study.toml").write_text(small_study.TEXT)
    (tmp_path / "my_entry.py").write_text("import surefoot\nENTRY = surefoot.PiBSPIBB(n_wedge=5)\n")
    for _, name, _, example in COMMANDS:
        words = shlex.split(example.replace("1000", "10"))
        code, _, error = logfiles.run(monkeypatch, capsys, name, *words)
        assert code == (3 if name == "certify" else 0), (name, error)  # few rows prove little


def shown(command: str) -> set[str]:
    """The options in the help of a command."""
    found = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    return {x.opts[0] for x in found if x.param_type_name == "option" and not x.hidden}


def test_no_more_options_are_shown_than_a_person_can_read() -> None:
    assert sum(len(shown(command)) for command in NAMES) <= 200


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("watch", {"start": "a", "smoothing": 1, "history": 1, "discount-per": "day"}),
        ("watch", {"baseline-policy": "a", "renormalise": "", "group": "g"}),
        ("safety-test", {"start": "a", "bound": "bca", "share": 0.3}),
        ("certify", {"smoothing": 1, "baseline-policy": "a"}),
        ("tune", {"rule": "mean", "by": "simulated", "tolerance": 1}),
        ("tune", {"bound": 5, "delta": 0.1, "histories": "0,1"}),
    ],
)
def test_what_a_command_refuses_is_not_shown_and_answered_with_the_reason(
    command: str,
    refused: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given: tuple[object, ...] = ("log.csv", "--gamma", 0.9, "--baseline", "rule.csv")
    given += ("--policy", "pi.csv") if command != "tune" else ()
    given += ("--state-file", "capital.json") if command == "watch" else ()
    for name, value in refused.items():
        assert f"--{name}" not in shown(command)
        option = (f"--{name}", *([value] if value != "" else []))
        code, _, said = logfiles.run(monkeypatch, capsys, command, *given, *option)
        assert code == 2 and f"surefoot {command} has no --{name}: " in said


@pytest.mark.parametrize("command", ["compare", "tune", "evaluate", "certify", "safety-test"])
def test_how_a_log_is_read_is_taken_by_every_command_and_listed_by_two(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--episode" not in shown(command) and "--episode" in shown("check") & shown("improve")
    _, text, _ = logfiles.run(monkeypatch, capsys, command, "--help")
    assert "surefoot check LOG ... --save log.toml" in " ".join(text.split())
    given = ("nowhere.csv", "--gamma", 0.9, "--baseline", "rule.csv", "--episode", "run")
    given += ("--policy", "pi.csv") if command not in ("compare", "tune") else ()
    code, _, said = logfiles.run(monkeypatch, capsys, command, *given)
    assert code == 2 and "there is no file nowhere.csv" in said


def test_an_option_given_twice_is_refused_and_its_first_value_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = ("check", "log.csv", "--gamma", "0.9", "--gamma", "0.95")
    code, _, said = logfiles.run(monkeypatch, capsys, *twice)
    assert (code, "--gamma is given 2 times: give it once" in said) == (2, True)


def test_an_option_that_takes_several_values_may_be_given_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logfiles.good_log(tmp_path)
    twice = ("improve", log, "--gamma", "0.9", "--guard", "harm:lower:0", "--guard", "pain:lower:0")
    _, _, said = logfiles.run(monkeypatch, capsys, *twice)
    assert "harm" in said and "times" not in said
