"""surefoot compare, evaluate, apply, list and demo: what they print, and that machines can read
it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.cli import shipped_example as demo
from surefoot.research.benchmarks import BENCHMARKS, WetChicken
from surefoot.research.benchmarks.wet_chicken import ACTIONS
from surefoot.research.simulate import Sampler, first_key

Run = Any


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def improved(folder: Path, run: Run) -> tuple[Path, Path]:
    log = logfiles.good_log(folder)
    assert (
        run(
            "improve",
            log,
            "--gamma",
            0.9,
            "--baseline",
            logfiles.rule(folder),
            "--out",
            folder / "out",
        )[0]
        == 0
    )
    return log, folder / "out" / "policy.csv"


def test_compare_runs_every_algorithm_on_one_log(tmp_path: Path, run: Run) -> None:
    code, text, _ = run("compare", logfiles.good_log(tmp_path, n=300), "--gamma", 0.5, "--json")
    assert code == 0
    rows = {row["algorithm"]: row for row in json.loads(text)["algorithms"]}
    assert list(rows) == list(surefoot.ALGORITHMS)
    assert rows["ramdp"]["parameters"]["kappa"] > 0
    basic = rows["basic-rl"]
    assert basic["converged"] is True
    assert basic["in_sample_optimistic"]["gain"] > basic["held_out"]["low"] > 0


def test_compare_prints_a_table_with_the_optimistic_column_labelled(
    tmp_path: Path, run: Run
) -> None:
    code, text, _ = run(
        "compare",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--only",
        "basic-rl,ramdp+pi-b-spibb",
    )
    assert code == 0
    assert "optimistic: gain in sample" in text
    assert sum(line.startswith(("basic-rl", "ramdp+pi-b-spibb")) for line in text.splitlines()) == 2
    assert "estimated from the log" in text


def test_compare_says_which_algorithm_cannot_run(tmp_path: Path, run: Run) -> None:
    rows = [(e, t, s, a, r, t == 4) for e, t, s, a, r in logfiles.steps()]
    log = logfiles.write(tmp_path / "ends.csv", (*logfiles.HEADER, "terminal"), rows)
    code, text, _ = run(
        "compare", log, "--gamma", 1, "--return-range", "-20,20", "--only", "basic-rl,vi-lcb"
    )
    assert code == 0
    assert "vi-lcb    not available: vi-lcb divides by 1 - gamma" in text


def test_the_baseline_evaluated_as_a_policy_gains_nothing(tmp_path: Path, run: Run) -> None:
    log, rule = logfiles.good_log(tmp_path), logfiles.rule(tmp_path)
    code, text, _ = run(
        "evaluate", log, "--gamma", 0.9, "--baseline", rule, "--policy", rule, "--json"
    )
    found = json.loads(text)
    assert code == 0
    assert found["values"]["gain"]["value"] == pytest.approx(0, abs=1e-9)
    low, value, high = (found["values"]["policy"][name] for name in ("low", "value", "high"))
    assert low < value < high


def test_evaluate_finds_the_value_of_a_better_policy(tmp_path: Path, run: Run) -> None:
    log, policy = improved(tmp_path, run)
    code, text, _ = run("evaluate", log, "--gamma", 0.9, "--policy", policy)
    assert code == 0
    assert "baseline, ESTIMATED" in text
    assert "coverage  0.0% of the policy's decisions" in text
    assert float(text.split("\ngain")[1].split()[0]) > 0.5


def test_evaluate_says_how_much_of_a_policy_was_never_seen(tmp_path: Path, run: Run) -> None:
    rows = [row for row in logfiles.steps() if not (row[2] == "low" and row[3] == "try")]
    log = logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows)
    policy = logfiles.write(
        tmp_path / "always.csv",
        ("state", "action", "probability"),
        [(s, "try", 1) for s in ("low", "mid", "high")],
    )
    found = json.loads(run("evaluate", log, "--gamma", 0.9, "--policy", policy, "--json")[1])
    assert 0.2 < found["share_never_seen"] < 0.4


def test_evaluating_a_policy_that_is_none_exits_2(tmp_path: Path, run: Run) -> None:
    policy = logfiles.write(
        tmp_path / "half.csv", ("state", "action", "probability"), [("low", "try", 0.5)]
    )
    code, text, error = run(
        "evaluate", logfiles.good_log(tmp_path), "--gamma", 0.9, "--policy", policy
    )
    assert (code, text) == (2, "")
    assert "the policy" in error


def test_evaluating_a_policy_that_uses_forbidden_actions_exits_2(tmp_path: Path, run: Run) -> None:
    allowed = logfiles.write(tmp_path / "allowed.csv", ("state", "action"), [("low", "keep")])
    given = (
        "--gamma",
        0.9,
        "--allowed",
        allowed,
        "--renormalise",
        "--policy",
        logfiles.rule(tmp_path),
    )
    code, _, error = run("evaluate", logfiles.good_log(tmp_path), *given)
    assert code == 2
    assert "not allowed" in error


def test_a_forbidden_action_is_never_chosen_and_one_that_the_log_takes_needs_a_word(
    tmp_path: Path, run: Run
) -> None:
    log, out = logfiles.good_log(tmp_path), tmp_path / "out"
    forbidden = logfiles.write(tmp_path / "no.csv", ("state", "action"), [("low", "try")])
    given = ("improve", log, "--gamma", 0.9, "--forbidden", forbidden, "--out", out)
    code, _, error = run(*given)
    assert (code, "pairs that are not allowed" in error, "--renormalise" in error) == (
        2,
        True,
        True,
    )
    code, _, error = run(*given, "--renormalise", "--accept")
    assert code in (0, 3), error
    assert surefoot.load_policy(out / "policy.csv").probabilities("low")["keep"] == 1.0


def test_apply_lists_or_draws_actions(tmp_path: Path, run: Run) -> None:
    rule = logfiles.rule(tmp_path)
    code, text, _ = run("apply", rule, "--state", "mid")
    assert (code, text.split()) == (0, ["0.7500", "keep", "0.2500", "try"])
    drawn = [
        run("apply", rule, "--state", "mid", "--sample", "--seed", seed)[1].strip()
        for seed in range(24)
    ]
    assert set(drawn) == {"keep", "try"}
    assert drawn.count("keep") > 12
    assert drawn[3] == run("apply", rule, "--state", "mid", "--sample", "--seed", 3)[1].strip()
    found = json.loads(run("apply", rule, "--state", "mid", "--sample", "--seed", 3, "--json")[1])
    said = {
        "state": {"state": "mid"},
        "probabilities": {"keep": 0.75, "try": 0.25},
        "action": drawn[3],
    }
    assert found == {"schema": "surefoot/apply/1"} | said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--state", "midd"], "nearest are 'mid'"), (["--state", "mid", "--seed", "-1"], ">= 0")],
)
def test_apply_refuses_what_it_does_not_know(
    arguments: list[str], words: str, tmp_path: Path, run: Run
) -> None:
    code, text, error = run("apply", logfiles.rule(tmp_path), *arguments)
    assert (code, text) == (2, "")
    assert words in error


def test_list_names_every_algorithm_and_benchmark(run: Run) -> None:
    code, text, _ = run("list")
    assert code == 0
    assert all(name in text for name in (*surefoot.ALGORITHMS, *BENCHMARKS))
    found = json.loads(run("list", "--json")[1])
    assert [row["name"] for row in found["algorithms"]] == list(surefoot.ALGORITHMS)
    assert all(row["description"] for row in found["algorithms"])
    assert found["default"] in surefoot.ALGORITHMS


def test_the_demo_goes_the_whole_way(tmp_path: Path, run: Run) -> None:
    code, text, _ = run("demo", "--out", tmp_path / "demo")
    assert code == 0
    for word in ("verdict   SUPPORTED", "truth     from x=0 y=0: rule of thumb 29.75", "x=1 y=2"):
        assert word in text
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "policy.csv",
        "changes.csv",
        "pairs.csv",
        "report.html",
        "summary.json",
        "training.npz",
    }
    found = json.loads(run("demo", "--out", tmp_path / "demo", "--json")[1])
    assert found["truth"]["baseline"] < found["truth"]["policy"] < found["truth"]["best"]


def shipped_files() -> dict[str, str]:
    """The text of the shipped files, by name: a log under the rule of thumb, and the rule.

    The log is trial 0 of seed 0. To make them again: write each text to src/surefoot/data under its
    name.
    """
    river = WetChicken()
    key = int(first_key(0, river.name, np.zeros(1, dtype=np.int64))[0])
    log = Sampler(river.worlds(np.array([key]))).log(key, river.episodes(5000))
    columns = zip(
        *(log[name].tolist() for name in ("time", "state", "action", "reward", "next_state")),
        strict=True,
    )
    rows = [
        ("trip 1", t, demo.state_label(s), ACTIONS[a], f"{r:g}", demo.state_label(n))
        for t, s, a, r, n in columns
    ]
    rule = [
        (demo.state_label(s), ACTIONS[a], f"{p:.2f}")
        for s in range(river.n_states)
        for a, p in enumerate(river.pi_b[s])
    ]
    return {
        demo.LOG: _csv(("episode", "time", "state", "action", "reward", "next_state"), rows),
        demo.BASELINE: _csv(("state", "action", "probability"), rule),
    }


def _csv(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return made.getvalue()


def test_the_shipped_files_are_what_their_function_makes() -> None:
    folder = Path(surefoot.__file__).parent / "data"
    for name, text in shipped_files().items():
        assert (folder / name).read_text() == text


def test_a_demo_without_a_folder_makes_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert "The 5 largest" in run("demo")[1]
    assert len(list(tmp_path.glob("surefoot-demo-*/policy.csv"))) == 1


@pytest.mark.slow
def test_counting_on_a_cluster_gives_the_same_counts_and_a_tested_policy(
    tmp_path: Path, run: Run
) -> None:
    distributed = pytest.importorskip("distributed")
    rows = logfiles.steps(1200)
    folder = tmp_path / "logs"
    folder.mkdir()
    for i in range(3):
        logfiles.write(folder / f"{i}.csv", logfiles.HEADER, rows[i::3])  # an episode spans files
    assert run("improve", folder, "--gamma", 0.9, "--out", tmp_path / "here")[0] == 0
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        given = ("--dask", cluster.scheduler_address, "--baseline", logfiles.rule(tmp_path))
        there = ("improve", folder, "--gamma", 0.9, "--out", tmp_path / "there")
        code, text, _ = run(*there, "--dask", cluster.scheduler_address)
        told = " ".join(text.split())
        assert code == 3 and "NOT SUPPORTED" in told and "not looked at: memory, drift" in told
        despite = re.findall(r"--despite ([\w,-]+)", told)[0]
        accepted = ("--despite", despite)
        assert run(*there, "--dask", cluster.scheduler_address, *accepted)[0] == 5
        ruled = ("improve", folder, "--gamma", 0.9, "--out", tmp_path / "ruled")
        assert run(*ruled, *given, *accepted)[0] == 5
    here, there = (
        json.loads((tmp_path / name / "summary.json").read_text()) for name in ("here", "there")
    )
    assert here["log"]["fingerprint"] == there["log"]["fingerprint"]
    assert (
        there["worth"]["held_out"]["units"] == 16
    )  # other halves than here: another policy, learned and tested in the same way
    assert {x["key"] for x in there["not_looked_at"]} == set(despite.split(","))


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_exits_2(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("surefoot.core.cluster.PATIENCE", "1s")
    code, _, error = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--dask",
        "tcp://127.0.0.1:9",
        "--out",
        tmp_path / "out",
    )
    assert code == 2
    assert "no Dask scheduler answers" in error


def test_an_action_of_the_baseline_that_the_log_never_took_can_be_named(
    tmp_path: Path, run: Run
) -> None:
    log = logfiles.good_log(tmp_path)
    rows = [
        (s, a, p)
        for s in ("low", "mid", "high")
        for a, p in (("keep", 0.748), ("try", 0.25), ("wait", 0.002))
    ]
    rule = logfiles.write(tmp_path / "rule3.csv", ("state", "action", "probability"), rows)
    given = ("improve", log, "--gamma", 0.9, "--baseline", rule, "--out", tmp_path / "improved")
    code, _, said = run(*given)
    assert (
        code,
        "name all actions with --actions when reading the log" in " ".join(said.split()),
    ) == (2, True)
    assert run(*given, "--actions", "keep,try,wait")[0] == 0
    assert '"wait"' in (tmp_path / "improved" / "policy.csv").read_text()
    code, _, said = run(*given, "--actions", "keep,wait")
    assert (code, "try" in said) == (2, True)
