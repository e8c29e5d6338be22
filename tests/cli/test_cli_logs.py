"""surefoot improve: verdicts, exit codes and files, from a log on disk to the policy."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support import logfiles
from support.effort import few
from support.logfiles import one_line
from surefoot.logs import load_policy

Run = Any


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_log_that_shows_a_better_action_gives_a_better_policy_and_exit_code_0(
    tmp_path: Path, run: Run
) -> None:
    out = tmp_path / "out"
    code, text, _ = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--baseline",
        logfiles.rule(tmp_path),
        "--out",
        out,
        "--explain",
    )
    assert code == 0
    for word in (
        "600 rows = 480 used + 120 left out",
        "priced-soft-spibb (delta=1 epsilon=1",
        "OPTIMISTIC",
        "SUPPORTED",
    ):
        assert word in one_line(text)
    assert sorted(path.name for path in out.iterdir()) == [
        "changes.csv",
        "pairs.csv",
        "policy.csv",
        "report.html",
        "summary.json",
        "training.npz",
    ]
    rows = table(out / "policy.csv")
    assert list(rows[0]) == ["state", "action", "probability", "baseline", "count"]
    tries = {row["state"]: float(row["probability"]) for row in rows if row["action"] == "try"}
    assert all(p > 0.3 for p in tries.values())
    assert sum(int(row["count"]) for row in rows) == 480
    changes = table(out / "changes.csv")
    assert {row["state"] for row in changes} == {"low", "mid", "high"}
    assert all(
        row["more_of"] == "try" and float(row["estimated_gain_optimistic"]) > 0 for row in changes
    )
    moved = [float(row["mass_moved"]) for row in changes]
    assert moved == sorted(moved, reverse=True)
    assert tries[changes[0]["state"]] - 0.25 == pytest.approx(moved[0], abs=1e-5)


def test_a_log_without_a_better_action_leaves_the_baseline_and_exits_3(
    tmp_path: Path, run: Run
) -> None:
    out = tmp_path / "out"
    code, text, _ = run(
        "improve",
        logfiles.idle_log(tmp_path),
        "--gamma",
        0.9,
        "--baseline",
        logfiles.rule(tmp_path),
        "--out",
        out,
    )
    assert code == 3
    assert "NOT SUPPORTED: no gain is shown" in text
    assert "the baseline, unchanged" in text
    assert all(row["probability"] == row["baseline"] for row in table(out / "policy.csv"))
    assert any(row["probability"] != row["baseline"] for row in table(out / "candidate.csv"))
    assert json.loads((out / "summary.json").read_text())["supported"] is False


def test_accepting_an_unsupported_policy_is_said_in_every_output(tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    given = ("improve", logfiles.idle_log(tmp_path), "--gamma", 0.9, "--out", out, "--accept")
    code, text, _ = run(*given)
    assert code == 0
    assert "NOT SUPPORTED" in text
    assert "accepted although the data do not support it" in text
    assert any(row["probability"] != row["baseline"] for row in table(out / "policy.csv"))
    assert not (out / "candidate.csv").exists()
    assert json.loads((out / "summary.json").read_text())["accepted_unsupported"] is True
    code, text, _ = run(*given, "--json")
    assert (code, json.loads(text)["accepted_unsupported"]) == (0, True)


def test_a_log_with_one_action_in_each_state_has_nothing_to_learn_from(
    tmp_path: Path, run: Run
) -> None:
    rows = [(e, t, s, "keep" if s == "low" else "try", r) for e, t, s, _, r in logfiles.steps()]
    log = logfiles.write(tmp_path / "one.csv", logfiles.HEADER, rows)
    code, text, _ = run("improve", log, "--gamma", 0.9, "--out", tmp_path / "out")
    assert code == 3
    assert text.startswith("verdict   NOTHING TO LEARN: the log never tried an alternative")
    assert all(
        row["probability"] == row["baseline"] for row in table(tmp_path / "out" / "policy.csv")
    )
    code, text, _ = run("improve", log, "--gamma", 0.9, "--out", tmp_path / "out", "--json")
    assert (code, json.loads(text)["verdict"]) == (3, "nothing to learn")


def test_a_log_too_short_to_check_is_not_supported(tmp_path: Path, run: Run) -> None:
    log = logfiles.good_log(tmp_path, n=30)
    code, text, _ = run("improve", log, "--gamma", 0.9, "--out", tmp_path / "out")
    assert code == 3
    assert "too few independent pieces: the log has 6 episodes, at least 8 are needed" in one_line(
        text
    )


def test_a_policy_that_changes_nothing_is_not_supported(tmp_path: Path, run: Run) -> None:
    code, text, _ = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--out",
        tmp_path / "out",
        "--set",
        "epsilon=0",
    )
    assert code == 3
    assert "changes nothing" in text


def test_files_of_an_earlier_run_do_not_stay(tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    run("improve", logfiles.idle_log(tmp_path), "--gamma", 0.9, "--out", out)
    (out / "mine.txt").write_text("keep")
    run("improve", logfiles.good_log(tmp_path), "--gamma", 0.9, "--out", out)
    assert sorted(path.name for path in out.iterdir()) == [
        "changes.csv",
        "mine.txt",
        "pairs.csv",
        "policy.csv",
        "report.html",
        "summary.json",
        "training.npz",
    ]


def test_an_estimated_baseline_is_flagged_in_every_output(tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    _, text, _ = run("improve", logfiles.good_log(tmp_path), "--gamma", 0.9, "--out", out)
    assert "the estimated baseline is what is done today" in one_line(text)
    _, text, _ = run(
        "improve", logfiles.good_log(tmp_path), "--gamma", 0.9, "--out", out, "--explain"
    )
    assert "baseline  ESTIMATED" in text
    _, machine, _ = run(
        "improve", logfiles.good_log(tmp_path), "--gamma", 0.9, "--out", out, "--json"
    )
    for summary in (json.loads(machine), json.loads((out / "summary.json").read_text())):
        assert summary["baseline"]["estimated"] is True
        assert any("estimated from the log" in note for note in summary["notes"])
        assert summary["reward_range"]["declared"] is False
        assert any("observed, not declared" in note for note in summary["notes"])


def test_a_baseline_that_disagrees_with_the_log_is_reported_with_the_worst_states(
    tmp_path: Path, run: Run
) -> None:
    wrong = logfiles.write(
        tmp_path / "wrong.csv",
        ("state", "action", "probability"),
        [(s, a, 0.5) for s in ("low", "mid", "high") for a in ("keep", "try")],
    )
    _, text, _ = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--baseline",
        wrong,
        "--out",
        tmp_path / "out",
        "--explain",
    )
    assert "WARNING:  the baseline DISAGREES with the log" in text
    assert "worst in state" in text


def test_an_iteration_that_does_not_converge_is_visible(tmp_path: Path, run: Run) -> None:
    given = (
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--out",
        tmp_path / "out",
        "--algorithm",
        "duipi",
        "--set",
        "max_steps=2",
    )
    _, text, _ = run(*given)
    assert "NOT CONVERGED" in text
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["converged"] is False


def test_states_that_the_log_never_visits_keep_the_baseline(tmp_path: Path, run: Run) -> None:
    given = logfiles.rule(tmp_path, ("low", "mid", "high", "unheard of"))
    code, text, _ = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--baseline",
        given,
        "--out",
        tmp_path / "out",
        "--explain",
    )
    assert code == 0
    assert (
        "2 rows of the baseline file are about states or actions that the log does not have"
        in one_line(text)
    )
    assert load_policy(tmp_path / "out" / "policy.csv").probabilities("unheard of") == {
        "keep": 0.75,
        "try": 0.25,
    }


def test_states_of_several_columns_go_all_the_way(tmp_path: Path, run: Run) -> None:
    rows = [
        (e, t, s, "night" if i % 2 else "day", a, r)
        for i, (e, t, s, a, r) in enumerate(logfiles.steps(1000))
    ]
    log = logfiles.write(
        tmp_path / "wards.csv", ("episode", "time", "ward", "shift", "action", "reward"), rows
    )
    out = tmp_path / "out"
    assert run("improve", log, "--gamma", 0.9, "--state", "ward,shift", "--out", out)[0] == 0
    policy = load_policy(out / "policy.csv")
    assert policy.labels.state_columns == ("ward", "shift")
    assert ("low", "night") in policy.labels.states
    code, text, _ = run("apply", out / "policy.csv", "--state", "low,night")
    assert code == 0
    assert "try" in text
    again = run(
        "evaluate",
        log,
        "--gamma",
        0.9,
        "--state",
        "ward,shift",
        "--policy",
        out / "policy.csv",
        "--json",
    )
    assert again[0] == 0
    given = run(
        "improve",
        log,
        "--gamma",
        0.9,
        "--state",
        "ward,shift",
        "--baseline",
        out / "policy.csv",
        "--out",
        tmp_path / "more",
    )
    assert given[0] in (0, 3)


def test_forbidden_actions_are_never_used(tmp_path: Path, run: Run) -> None:
    allowed = logfiles.write(tmp_path / "allowed.csv", ("state", "action"), [("low", "keep")])
    given = (
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--allowed",
        allowed,
        "--out",
        tmp_path / "out",
    )
    code, _, error = run(*given)
    assert code == 2
    assert "not allowed" in error
    assert "or pass --renormalise" in " ".join(error.split())
    assert run(*given, "--renormalise")[0] == 0
    assert load_policy(tmp_path / "out" / "policy.csv").probabilities("low")["keep"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gamma", "1.5"], "gamma must lie in [0, 1]"),
        (["--gamma", "1"], "--return-range lo,hi"),
        (["--gamma", "0.9", "--algorithm", "basic"], "did you mean"),
        (["--gamma", "0.9", "--set", "epsilon"], "key=value"),
        (["--gamma", "0.9", "--set", "epsilon=-1"], "epsilon must be"),
        (["--gamma", "0.9", "--set", "kappa=1"], "does not take 'kappa'"),
        (["--gamma", "0.9", "--reward-range", "0"], "LOW,HIGH"),
        (["--gamma", "0.9", "--reward-range", "0,0.1"], "does not hold"),
        (["--gamma", "0.9", "--state", "stat"], "no column"),
        (["--gamma", "0.9", "--start", "nowhere"], "is not in the log"),
        (["--gamma", "0.9", "--baseline", "missing.csv"], "no file"),
        (["--gamma", "0.9", "--episode-end", "never"], "episode_end"),
        (["--gamma", "0.9", "--drop-bad-rows", "ugly"], "drop_bad_rows"),
        (["--gamma", "0.9", "--smoothing", "-1"], "smoothing"),
        (["--gamma", "high"], "valid number"),
        ([], "gamma"),
    ],
)
def test_wrong_input_exits_2_with_a_sentence_and_writes_nothing(
    arguments: list[str], words: str, tmp_path: Path, run: Run
) -> None:
    code, text, error = run(
        "improve", logfiles.good_log(tmp_path), "--out", tmp_path / "out", *arguments
    )
    assert code == 2
    assert words in " ".join(error.replace("│", " ").split())
    assert text == ""
    assert not (tmp_path / "out").exists()


def test_a_bad_row_stops_the_command_and_can_be_dropped_and_is_accounted_for(
    tmp_path: Path, run: Run
) -> None:
    rows = logfiles.steps()
    rows[7] = (*rows[7][:4], "much")
    log = logfiles.write(tmp_path / "bad.csv", logfiles.HEADER, rows)
    code, _, error = run("improve", log, "--gamma", 0.9, "--out", tmp_path / "out")
    assert code == 2
    assert "much" in error
    code, text, _ = run(
        "improve", log, "--gamma", 0.9, "--out", tmp_path / "out", "--drop-bad-rows", "reward"
    )
    assert code == 0
    assert "of 600 rows were left out" in one_line(text)
    _, text, _ = run(
        "improve", log, "--gamma", 0.9, "--out", tmp_path / "out", "--drop-bad-rows", "reward",
        "--explain",
    )  # fmt: skip
    assert "rows whose reward is not a finite number" in one_line(text)


def test_a_process_sees_the_same_exit_codes(tmp_path: Path) -> None:
    log = logfiles.good_log(tmp_path)

    def code(*arguments: object) -> int:
        command = [sys.executable, "-m", "surefoot.cli", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, cwd=tmp_path, timeout=120, check=False
        ).returncode

    assert code("improve", log, "--gamma", 0.9) == 0
    assert (tmp_path / "improved" / "policy.csv").exists()
    assert code("improve", logfiles.idle_log(tmp_path), "--gamma", 0.9) == 3


@pytest.mark.slow
@pytest.mark.parametrize("times", few([5, 25], 1))
def test_improve_killed_at_any_moment_leaves_a_whole_policy_or_none(
    tmp_path: Path, times: int
) -> None:
    log, out = logfiles.good_log(tmp_path, n=3000), tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "surefoot.cli",
        "improve",
        str(log),
        "--gamma",
        "0.9",
        "--out",
        str(out),
    ]
    begin = time.perf_counter()
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    took = time.perf_counter() - begin
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    rng = random.Random(0)
    for _ in range(times):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0.6, 1.1) * took)
            process.kill()
        if (out / "policy.csv").exists():  # hidden files are half-written: the next writer's care
            named = [path for path in out.iterdir() if not path.name.startswith(".")]
            assert {path.name: path.read_bytes() for path in named} == whole
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole
