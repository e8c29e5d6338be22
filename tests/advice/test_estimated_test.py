"""The safety test against what made the log, where nobody knows the baseline: approximate, and
said to be.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles

Run = Any


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """400 visits in which "new" succeeds .4 more often; half of them got it."""
    return Path(logfiles.visits(tmp_path / "log.csv", n=400))


def asked(log: Path, p: float, *more: Any) -> tuple[Any, ...]:
    """The test of a policy that takes "new" with probability p."""
    pi = logfiles.coin(log.parent / "pi.csv", p)
    words = ("--gamma", 0.9, "--reward-range", "0,1", "--estimated-baseline")
    return ("safety-test", log, "--policy", pi, *words, *more)


def test_it_passes_what_is_better_fails_what_is_worse_and_says_that_it_is_approximate(
    log: Path, run: Run
) -> None:
    for p, code, verdict, low, high in ((0.9, 0, "passes", 0, 1), (0.1, 4, "fails", -1, 0)):
        found_code, text, said = run(*asked(log, p, "--json"))
        assert found_code == code, said
        logfiles.validated(text)
        found = json.loads(text)
        assert found["verdict"] == verdict and found["estimator"] == "model"
        truth = 0.4 * (p - 0.5)
        assert low <= found["gain_at_least"] < truth < found["gain_at_most"] <= high
        assert found["effective_episodes"] is None
        assert any("asymptotic" in x for x in found["assumptions"])
    _, text, _ = run(*asked(log, 0.9, "--report", log.parent / "page.html"))
    assert "PASSES: approximately shown to be better than what made the log" in text
    assert "wrong with probability about 0.05" in text and "states say enough" in text
    assert "what made the log" in (log.parent / "page.html").read_text(encoding="utf-8")


def test_its_interval_is_that_of_the_model_at_half_of_delta(log: Path) -> None:
    policy: dict[str, Any] = {s: {"new": 0.9, "old": 0.1} for s in "ab"}
    how: dict[str, Any] = {"gamma": 0.9, "reward_range": (0, 1)}
    value = surefoot.evaluate_policy(log, policy, **how).values["gain"]
    found = surefoot.safety_test(log, policy, estimated_baseline=True, delta=0.1, **how)
    row = found.rows[0]
    assert (row.estimate, row.high) == pytest.approx((value["value"], value["high"]))
    explained = value["low"] - row.low  # by when, or after what, actions were taken
    assert explained > 0 and f"{explained:+.4g} of the estimated gain is explained" in row.notes[0]
    narrow = surefoot.safety_test(log, policy, estimated_baseline=True, delta=0.4, **how).rows[0]
    assert row.low < narrow.low < narrow.high < row.high
    assert row.validity == "asymptotic" and found.verdict == "passes"


def test_a_range_that_nobody_declared_and_what_check_finds_are_conditions(
    log: Path, tmp_path: Path, run: Run
) -> None:
    words = [x for x in asked(log, 0.9, "--json") if x not in ("--reward-range", "0,1")]
    code, text, _ = run(*words)
    found = json.loads(text)
    assert (code, found["verdict"]) == (3, "passes if")
    assert "no reward below 0 or above 1 exists" in found["condition"]
    assert run(*words, "--observed-range")[0] == 0
    copies = logfiles.write(
        tmp_path / "copies.csv",
        logfiles.VISIT,
        [
            (f"{k}-{i}", t, s, a, r, e)
            for k in range(4)
            for i in range(60)
            for rng in [np.random.default_rng(i)]
            for t, (s, a, r, e) in enumerate(
                ("a", ("old", "new")[rng.integers(2)], round(rng.random(), 6), int(t == 4))
                for t in range(5)
            )
        ],
    )
    code, text, said = run(*asked(copies, 0.9, "--json"))
    assert code == 3, said
    found = json.loads(text)
    assert "surefoot check finds" in found["condition"] and "copies" in found["condition"]


def test_what_was_never_tried_may_be_better_and_is_not_called_worse(
    tmp_path: Path, run: Run
) -> None:
    rows = [(f"v{i}", 0, "a", "old", i % 2, 1) for i in range(200)]
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, rows)
    code, text, said = run(*asked(log, 0.9, "--actions", "old,new", "--json"))
    assert code == 3, said
    found = json.loads(text)
    assert (found["gain_at_most"], found["share_never_tried"]) == (None, pytest.approx(0.9))
    assert found["gain_at_least"] <= 0


def test_episodes_that_the_policy_was_made_from_do_not_count(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (f"e{i}", t, f"s{rng.integers(4)}", ("keep", "try")[rng.integers(2)],
         round(rng.random(), 6), int(t == 2))
        for i in range(120) for t in range(3)
    ]  # fmt: skip
    old = logfiles.write(tmp_path / "old.csv", logfiles.VISIT, rows[:180])
    both = logfiles.write(tmp_path / "both.csv", logfiles.VISIT, rows)
    new = logfiles.write(tmp_path / "new.csv", logfiles.VISIT, rows[180:])
    out = tmp_path / "out"
    run("improve", old, "--gamma", 0.9, "--out", out, "--accept")
    found = {}
    for name, log in (("both", both), ("new", new)):
        words = ("--policy", out / "policy.csv", "--gamma", 0.9, "--reward-range", "0,1", "--json")
        _, text, said = run("safety-test", log, *words, "--estimated-baseline")
        assert text, said
        found[name] = json.loads(text)
    overlap = found["both"]["training_overlap"]
    assert (found["both"]["episodes_tested"], overlap["episodes_left_out"]) == (60, 60)
    assert found["both"]["estimated_gain"] == pytest.approx(found["new"]["estimated_gain"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--baseline", "rule.csv"), "is for a log whose baseline nobody knows: leave it out"),
        (("--guard", "time:lower"), "with --estimated-baseline only the gain as a whole is"),
        (("--group", "state"), "with --estimated-baseline only the gain as a whole is"),
        (("--group", "state", "--group", "time"), "only the gain as a whole is"),
        (("--horizon", "3"), "does not go with --estimated-baseline"),
        (("--estimator", "is"), "does not go with --estimated-baseline"),
        (("--delta", "0.9"), "failure probability"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(
    log: Path, run: Run, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(log.parent)
    logfiles.coin(log.parent / "rule.csv", 0.5)
    code, _, said = run(*asked(log, 0.9, *more))
    assert (code, words in said) == (2, True), said


def test_few_episodes_and_a_missing_baseline_are_told_what_to_do(tmp_path: Path, run: Run) -> None:
    log = Path(logfiles.visits(tmp_path / "small.csv", n=6))
    code, _, said = run(*asked(log, 0.9))
    assert code == 2 and "at least 8" in said
    words = [x for x in asked(log, 0.9) if x != "--estimated-baseline"]
    code, _, said = run(*words)
    assert code == 2 and "safety-test --estimated-baseline" in said


@pytest.mark.parametrize(
    ("gone", "p", "verdict"),
    [(3, 0.95, "passes"), (3, 0.05, "fails"), (60, 0.95, "passes if"), (60, 0.05, "fails if")],
)
def test_episodes_that_are_missing_are_named_as_far_as_they_matter(
    tmp_path: Path, run: Run, gone: int, p: float, verdict: str
) -> None:
    lost = set(np.random.default_rng(3).permutation(np.arange(1, 1999))[:gone])
    rng = np.random.default_rng(0)
    rows = []
    for i in range(2000):
        new = rng.random() < 0.5
        row = (i, 0, "a", "new" if new else "old", int(rng.random() < 0.3 + 0.1 * new), 1)
        rows += [row] * (i not in lost)
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, rows)
    _, text, said = run(*asked(log, p, "--json"))
    found = json.loads(text)
    assert found["verdict"] == verdict, said
    named = [x for x in found["notes"] if x.startswith(f"episodes are missing: {gone}")]
    assert len(named) == 1 and ("(missing)" in found["condition"]) == verdict.endswith("if")
    best = "bad" if p > 0.5 else "good"
    assert (f"Had all of them been as {best} as can be" in named[0]) != verdict.endswith("if")
