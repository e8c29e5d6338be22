"""--refit: the tested method learned once more, from all rows; what is written and said, and where
it is refused.
"""

from __future__ import annotations

import csv
import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot import ParameterError, read_log
from surefoot.advice import learn_and_test
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.problems.guards import with_guards

Run = Any
WORDS = "policy-all.csv holds the tested method, learned from all rows: that policy itself was not"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def rows(path: Path) -> dict[tuple[str, str], float]:
    with path.open(newline="") as file:
        read = csv.DictReader(file)
        return {(x["state"], x["action"]): float(x["probability"]) for x in read}


def test_the_policy_of_all_rows_is_written_beside_the_one_that_was_tested(
    tmp_path: Path, run: Run
) -> None:
    log, out = logfiles.good_log(tmp_path, better=0.15, n=1200), tmp_path / "out"
    code, text, _ = run("improve", log, "--gamma", 0.5, "--out", out, "--no-report", "--refit")
    assert code == 0
    assert WORDS in " ".join(text.split())
    assert f"files The policy is {out / 'policy.csv'}" in " ".join(text.split())
    assert (out / "policy-all.csv").exists()
    tested, everything = rows(out / "policy.csv"), rows(out / "policy-all.csv")
    assert tested != everything
    counted = read_log(log)
    problem = counted.problem(0.5)
    algorithm = chosen_algorithm(problem)
    pi = np.asarray(surefoot.improve(problem, algorithm).pi)
    expected = {
        (str(s), str(a)): float(pi[i, j])
        for i, s in enumerate(counted.states)
        for j, a in enumerate(counted.actions)
        if not problem.terminal[i]
    }
    assert {x: everything[x] for x in expected} == pytest.approx(expected, abs=1e-9)
    advice = learn_and_test(counted, problem, algorithm, refit=True)
    assert advice.refitted is not None
    assert np.array_equal(advice.refitted, pi)
    assert not np.array_equal(advice.pi, pi)
    plain = learn_and_test(counted, problem, algorithm)
    assert plain.refitted is None
    assert np.array_equal(plain.pi, advice.pi)  # what was tested stays as it is


def test_the_file_is_written_where_it_was_asked_for_and_goes_with_the_next_run(
    tmp_path: Path, run: Run
) -> None:
    log, out = logfiles.good_log(tmp_path), tmp_path / "out"
    given = ("improve", log, "--gamma", 0.5, "--out", out, "--no-report")
    assert run(*given, "--refit")[0] == 0
    assert (out / "policy-all.csv").exists()
    code, text, _ = run(*given)
    assert code == 0
    assert not (out / "policy-all.csv").exists()
    assert "policy-all.csv" not in text


@pytest.mark.parametrize("accept", [(), ("--accept",)])
def test_what_the_data_do_not_support_is_not_learned_again(
    accept: tuple[str, ...], tmp_path: Path, run: Run
) -> None:
    log, out = logfiles.idle_log(tmp_path), tmp_path / "out"
    code, text, _ = run(
        "improve", log, "--gamma", 0.5, "--out", out, "--no-report", "--refit", *accept
    )
    assert code == (0 if accept else 3)
    assert not (out / "policy-all.csv").exists()
    assert "policy-all.csv" not in text


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--algorithm", "pi-b-spibb"), "pi-b-spibb has a threshold"),
        (("--algorithm", "lower-exact-soft-spibb"), "lower-exact-soft-spibb has a threshold"),
        (("--most-changes", 2), "chooses states on one half"),
        (("--guard", "cost:lower"), "guards and groups hold for the tested policy alone"),
        (("--group", "ward"), "guards and groups hold for the tested policy alone"),
    ],
)
def test_where_all_rows_may_teach_otherwise_it_is_refused(
    given: tuple[Any, ...], why: str, tmp_path: Path, run: Run
) -> None:
    steps = [(*x, i % 7, "ab"[i // 5 % 2]) for i, x in enumerate(logfiles.steps())]
    log = logfiles.write(tmp_path / "log.csv", (*logfiles.HEADER, "cost", "ward"), steps)
    out = tmp_path / "out"
    code, _, said = run("improve", log, "--gamma", 0.5, "--out", out, "--refit", *given)
    assert code == 2
    assert "--refit (refit=True in Python) is not possible here: " in said
    assert why in " ".join(said.split())
    assert not out.exists()


def test_python_refuses_in_the_same_words(tmp_path: Path) -> None:
    steps = [(*x, i % 7) for i, x in enumerate(logfiles.steps())]
    log = read_log(
        logfiles.write(tmp_path / "log.csv", (*logfiles.HEADER, "cost"), steps), guard="cost"
    )
    problem = with_guards(log.problem(0.5), ["cost:lower"])
    with pytest.raises(ParameterError, match="is not possible here: guards and groups hold"):
        learn_and_test(log, problem, chosen_algorithm(problem), refit=True)


def test_what_does_not_converge_on_all_rows_is_not_written_and_said(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = importlib.import_module("surefoot.advice.learn_and_test")
    right = made.improve

    def lost(problem: Any, algorithm: Any) -> Any:
        found = right(problem, algorithm)
        return replace(found, status=replace(found.status, converged=np.asarray(False)))

    monkeypatch.setattr(made, "improve", lost)
    log, out = logfiles.good_log(tmp_path, better=0.15, n=1200), tmp_path / "out"
    code, text, _ = run("improve", log, "--gamma", 0.5, "--out", out, "--no-report", "--refit")
    assert code == 0
    assert not (out / "policy-all.csv").exists()
    assert "no policy from all rows: learning that did not converge" in " ".join(text.split())
