"""surefoot certify: which policies, which logs, and which delta it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import logfiles

Run = Any


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def decisions(folder: Path, name: str, seed: int, n: int = 600, often: float = 0.5) -> Path:
    """Single decisions in ward a: "new" heals 7 of 10, "old" 4 of 10."""
    rng = np.random.default_rng(seed)
    new, u = rng.random(n) < often, rng.random(n)
    rows = [
        (f"{seed}-{i}", 0, "ab"[i % 2], "new" if x else "old", int(y < 0.4 + 0.3 * x), 1)
        for i, (x, y) in enumerate(zip(new, u, strict=True))
    ]
    return logfiles.write(folder / name, logfiles.VISIT, rows)


def given(folder: Path, new: float = 0.9) -> tuple[Any, ...]:
    options = ("--gamma", 0.9, "--reward-range", "0,1", "--return-range", "0,1")
    policy, rule = (
        logfiles.coin(folder / f"{name}.csv", share) for name, share in (("pi", new), ("rule", 0.5))
    )
    return ("--policy", policy, "--baseline", rule, *options)


def test_a_fresh_log_proves_by_the_delta_method_and_must_be_called_so(
    tmp_path: Path, run: Run
) -> None:
    log = decisions(tmp_path, "later.csv", 1)
    code, _, said = run("certify", log, *given(tmp_path), "--method", "delta-method")
    assert code == 2 and "say --fresh" in said
    code, text, _ = run(
        "certify", log, *given(tmp_path), "--method", "delta-method", "--fresh", "--json"
    )
    found = json.loads(text)["certificate"]
    assert (code, found["label"], found["useful"]) == (0, "asymptotic", True)
    assert 0 < found["bound"] < 0.4 * 0.3
    code, _, said = run("certify", log, *given(tmp_path), "--fresh")
    assert code == 2 and "--fresh goes with --method delta-method" in said


def test_a_log_is_not_fresh_to_a_policy_that_was_made_from_it(tmp_path: Path, run: Run) -> None:
    log, (_, _, _, rule, *ranges) = decisions(tmp_path, "log.csv", 2), given(tmp_path)
    code, _, _ = run("improve", log, "--baseline", rule, *ranges, "--out", tmp_path / "out")
    assert code == 0
    own = ("--policy", tmp_path / "out" / "policy.csv", "--baseline", rule, *ranges)
    code, _, said = run("certify", log, *own, "--method", "delta-method", "--fresh")
    assert code == 2 and "was made from" in said


@pytest.mark.parametrize("delta", [0, -0.1, 0.6, 1, 1.5])
def test_a_bound_that_may_well_be_wrong_is_no_proof(tmp_path: Path, run: Run, delta: float) -> None:
    log = decisions(tmp_path, "log.csv", 3, n=60)
    code, _, said = run("certify", log, *given(tmp_path), "--delta", delta)
    assert code == 2 and "--delta must lie in (0, 0.5]" in said


def test_rows_are_bounded_whoever_made_the_log_and_returns_are_not(
    tmp_path: Path, run: Run
) -> None:
    log = decisions(tmp_path, "others.csv", 4, often=0.8)
    for method in (("--method", "robust"), ()):  # the strongest of those that hold
        code, text, _ = run("certify", log, *given(tmp_path), *method)
        assert code == 3 and "(robust; " in text
    returns = ("--method", "advantage", "--despite", "baseline")
    code, _, said = run("certify", log, *given(tmp_path), *returns)
    assert code == 2 and "the baseline cannot have made this log" in said


def test_a_baseline_that_is_only_estimated_is_refused_before_the_log_is_read(
    tmp_path: Path, run: Run
) -> None:
    options = ("--policy", logfiles.coin(tmp_path / "pi.csv", 0.9), "--gamma", 0.9)
    code, _, said = run("certify", tmp_path / "nowhere.csv", *options)
    assert code == 2 and "--baseline is missing: every proof compares" in said
