"""surefoot check --save: the file stands for the log and its options, in every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import logfiles

Run = Any


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def improved(run: Run, *arguments: Any) -> tuple[int, dict[str, Any]]:
    """(exit code, all that is found), without how the log was named."""
    code, text, _ = run("improve", *arguments, "--json")
    found = json.loads(text)
    del found["command"], found["log"]["source"]
    found["statements"] = [x for x in found["statements"] if x["kind"] != "read"]
    return code, found


def foreign() -> tuple[Any, ...]:
    """A log with odd names, semicolons and decimal commas; how it is read; its problem."""
    rows = [f"{e};{t};{s};{a};{r.replace('.', ',')}" for e, t, s, a, r in logfiles.steps()]
    text = "Patient;Tag;Station links;Gabe;Ergebnis\n" + "\n".join(rows) + "\n"
    Path("fremd.csv").write_text(text, encoding="cp1252")
    rule = logfiles.rule(Path(), name="rule.csv")
    rule.write_text(rule.read_text().replace("state", "Station links", 1))
    reading = ("--episode", "Patient", "--time", "Tag", "--state", "Station links")
    reading += ("--action", "Gabe", "--reward", "Ergebnis", "--decimal", ",", "--delimiter", ";")
    reading += ("--encoding", "cp1252", "--episode-end", "terminal")
    problem = ("--gamma", 0.9, "--baseline", "rule.csv", "--reward-range", "-2,4")
    return "fremd.csv", (*reading, *problem), ()


def guarded() -> tuple[Any, ...]:
    """A log with a cost and two sexes, which are asked for beside its description."""
    rng = np.random.default_rng(0)
    rows = [
        (*row, "fm"[(i // 5) % 2], round(float(rng.random()), 3))
        for i, row in enumerate(logfiles.steps(1500))
    ]
    logfiles.write(Path("log.csv"), (*logfiles.HEADER, "sex", "cost"), rows)
    logfiles.rule(Path())
    saved = ("--gamma", 0.9, "--baseline", "rule.csv", "--reward-range", "-2,4")
    beside = ("--guard", "cost:lower:0.5", "--group", "sex", "--group-tolerance", 0.5)
    return "log.csv", (*saved, "--start", "mid", "--episode-end", "terminal"), beside


def bandit() -> tuple[Any, ...]:
    """A log of single decisions in which less of the reward is better."""
    rng = np.random.default_rng(1)
    new = rng.random(600) < 0.5
    died = rng.random(600) < np.where(new, 0.2, 0.5)
    rows = [
        ("ab"[i % 2], "new" if x else "old", int(y))
        for i, (x, y) in enumerate(zip(new, died, strict=True))
    ]
    logfiles.write(Path("died.csv"), ("state", "action", "died"), rows)
    logfiles.coin(Path("rule.csv"), 0.5, wards=("a", "b"))
    options = ("--bandit", "--reward", "died:lower", "--reward-range", "0,1")
    return "died.csv", (*options, "--baseline", "rule.csv"), ()


@pytest.mark.parametrize("case", [foreign, guarded, bandit])
def test_improve_finds_the_same_from_the_file_as_from_the_options(case: Any, run: Run) -> None:
    log, options, beside = case()
    code, text, said = run("check", log, *options, "--save", "log.toml")
    assert code == 0, said
    assert "saved     log.toml" in text
    spelled = improved(run, log, *options, *beside)
    assert improved(run, "log.toml", *beside) == spelled
    assert spelled[0] in (0, 3) and spelled[1]["verdict"]


def test_the_command_line_counts_before_the_file_even_with_a_default(run: Run) -> None:
    log, options, _ = guarded()
    run("check", log, *options, "--save", "log.toml")
    code, text, _ = run("check", "log.toml", "--episode-end", "cut", "--json")
    found = json.loads(text)
    assert (code, found["rows"]["left_out"]) == (0, {"cut": 300})
    _, other = improved(run, "log.toml", "--gamma", 0.5)
    assert other["gamma"] == 0.5


def test_what_is_not_given_is_not_saved(run: Run) -> None:
    logfiles.good_log(Path())
    run("check", "log.csv", "--save", "log.toml")
    assert "[problem]" not in Path("log.toml").read_text()
    code, _, said = run("improve", "log.toml")
    assert code == 2 and "--gamma is missing" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--reward-range", "0,1"), "reward"),
        (("--gamma", 1), "return_range"),
        (("--baseline-policy", "a"), "--policy-column"),
        (("--start", "nowhere"), "nowhere"),
    ],
)
def test_nothing_is_saved_that_improve_would_refuse(
    run: Run, options: tuple[Any, ...], words: str
) -> None:
    logfiles.good_log(Path())
    code, _, said = run("check", "log.csv", *options, "--save", "log.toml")
    assert code == 2 and words in said
    assert not Path("log.toml").exists()


@pytest.mark.parametrize("command", ["compare", "tune", "evaluate", "certify", "safety-test"])
def test_every_command_takes_the_file_as_a_log(run: Run, command: str) -> None:
    log, options, _ = guarded()
    run("check", log, *options, "--save", "log.toml")
    policy = () if command in ("compare", "tune") else ("--policy", "rule.csv")
    more = {"tune": ("--models", 30, "--simulated", 0), "compare": ("--only", "basic-rl")}
    code, _, said = run(command, "log.toml", *policy, *more.get(command, ()))
    assert code in (0, 3), said  # safety-test compares whole episodes: the start has no bearing


def test_a_watch_refuses_what_it_cannot_keep_from_the_file_too(run: Run) -> None:
    log, options, _ = guarded()
    run("check", log, *options, "--history", 1, "--save", "log.toml")
    watch = ("watch", "log.toml", "--policy", "rule.csv", "--state-file", "capital.json")
    code, _, said = run(*watch)
    assert code == 2 and "--history does not go with watch: log.toml says so" in said
    assert run(*watch, "--history", 0)[0] in (0, 3)


def test_a_file_that_describes_no_log_is_an_error_of_the_user(run: Run) -> None:
    Path("log.toml").write_text("[columns]\n")
    code, _, said = run("check", "log.toml")
    assert code == 2 and "log.toml does not say where the log is" in said
