"""Logs of several policies with propensities, on the command line: bandits, values, tests."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.evidence.value_on_log import evaluation

MADE = np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
OLD, NEW = [0.7, 0.2, 0.1], [0.1, 0.1, 0.8]


def write(path: Path, header: list[str], rows: Any) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A bandit log of two policies; the reward is 1 with probability 0.2 + 0.2 a."""
    folder, rng, n = tmp_path_factory.mktemp("bandit"), np.random.default_rng(0), 3000
    state, who = rng.integers(0, 2, n), rng.integers(0, 2, n)
    action = (rng.random(n)[:, None] > MADE[who].cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(n) < 0.2 + 0.2 * action).astype(int)
    columns = state, action, reward, MADE[who, action], np.array(["x", "y"])[who]
    names = ["state", "action", "reward", "pscore", "who"]
    found = {"log": write(folder / "log.csv", names, zip(*columns, strict=True))}
    for name, row in (("old", OLD), ("new", NEW)):
        cells = [(s, a, row[a]) for s in range(2) for a in range(3)]
        found[name] = write(folder / f"{name}.csv", ["state", "action", "probability"], cells)
    wrong = zip(*columns[:3], MADE[1 - who, action], columns[4], strict=True)
    return found | {"wrong": write(folder / "wrong.csv", names, wrong), "folder": folder}


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def document(*words: Any, code: int = 0) -> dict[str, Any]:
        found, out, err = logfiles.run(monkeypatch, capsys, *words, "--json")
        assert found == code, err
        read: dict[str, Any] = json.loads(out)
        return read

    return document


def test_evaluate_gives_ips_snips_and_dr_with_what_they_assume(
    run: Run, files: dict[str, Path]
) -> None:
    found = run("evaluate", files["log"], "--bandit", "--policy", files["new"])
    truth = 0.2 + 0.2 * (0.1 + 1.6)
    for name in ("ips", "snips", "dr"):
        x = found["weighted"][name]
        assert x["low"] < truth < x["high"] < x["low"] + 0.12
        assert "propensities are true" in x["assumes"]
    assert found["weighted"]["log"]["value"] == pytest.approx(0.37, abs=0.03)
    assert any("'pscore'" in note for note in found["notes"])


def test_without_weights_that_can_be_true_there_are_none(run: Run, files: dict[str, Path]) -> None:
    found = run("evaluate", files["log"], "--bandit", "--policy", files["new"], "--propensity", "-")
    assert "--propensity" in found["weighted"]["not_available"]


def test_weights_that_the_log_refutes_give_no_values_in_the_command_and_in_python(
    run: Run, files: dict[str, Path]
) -> None:
    found = run("evaluate", files["wrong"], "--bandit", "--policy", files["new"])
    assert "propensities cannot be true" in found["weighted"]["not_available"]
    log = surefoot.read_log(files["wrong"], bandit=True)
    pi = surefoot.read_policy(files["new"], log).pi
    told = evaluation(log, log.problem(0.0), pi)["weighted"]
    assert told == found["weighted"]
    start = "evaluate", files["log"], "--bandit", "--policy", files["new"], "--propensity", "-"
    found = run(*start, "--baseline", files["new"])  # which did not make it
    assert "did not make this log" in found["weighted"]["not_available"]


def test_improve_compares_with_a_baseline_that_did_not_make_the_log(
    run: Run, files: dict[str, Path]
) -> None:
    out = files["folder"] / "improved"
    found = run(
        "improve", files["log"], "--bandit", "--baseline", files["old"], "--out", out,
        "--reward-range", "0,1", "--no-report",
    )  # fmt: skip
    assert found["supported"]
    assert found["worth"]["held_out"]["test"] == "finite-sample"  # weights judge, and no model
    assert not found["baseline"]["made_the_log"]
    assert found["own_return"] is None  # the log's returns are not the baseline's
    assert found["worth"]["in_sample_optimistic"]["baseline"] == pytest.approx(0.28, abs=0.03)
    assert found["certificate"]["method"] == "robust"


def test_pooled_as_one_policy_the_same_baseline_is_refused(
    run: Run, files: dict[str, Path]
) -> None:
    found = run(
        "improve", files["log"], "--bandit", "--baseline", files["old"], "--propensity", "-",
        "--out", files["folder"] / "pooled", "--no-report", code=3,
    )  # fmt: skip
    assert [x["key"] for x in found["against"]] == ["baseline"]


def test_a_safety_test_weighs_both_policies_or_takes_the_log_as_it_is(
    run: Run, files: dict[str, Path]
) -> None:
    start = "safety-test", files["log"], "--bandit", "--policy", files["new"]
    found = run(*start, "--reward-range", "0,1", "--baseline", files["old"])
    assert found["verdict"] == "passes"
    assert "weighted too" in found["compared_with"]
    assert found["gain_at_least"] < 0.26 < found["gain_at_most"]
    found = run(*start, "--reward-range", "0,1")
    assert "log itself" in found["compared_with"]
    assert found["gain_at_least"] < 0.54 - 0.37 < found["gain_at_most"]
    assert any("on average" in x for x in found["assumptions"])


VARIES = "no valid test: the policy that made the log varies, so that only its propensities may"


def test_one_of_the_policies_may_be_the_baseline(run: Run, files: dict[str, Path]) -> None:
    """`improve` has no test for it: what the rows of a policy show is no weight."""
    label = "--policy-column", "who", "--baseline-policy", "x", "--reward-range", "0,1"
    out = files["folder"] / "label"
    found = run("improve", files["log"], "--bandit", *label, "--out", out, "--no-report", code=3)
    assert found["reason"].startswith(VARIES)
    assert found["baseline"]["policy"] == "x"
    assert found["worth"]["in_sample_optimistic"]["baseline"] == pytest.approx(0.28, abs=0.03)
    with (out / "policy.csv").open() as file:
        shown = {(x["state"], x["action"]): float(x["baseline"]) for x in csv.DictReader(file)}
    assert shown["0", "0"] == pytest.approx(0.7, abs=0.05)
    start = "safety-test", files["log"], "--bandit", "--policy", files["new"], *label
    found = run(*start)
    assert found["verdict"] == "passes"
    assert "episodes of that policy itself" in found["compared_with"]
    assert found["gain_at_least"] < 0.26 < found["gain_at_most"]


def sentences(found: Any, key: str = "") -> list[str]:
    """The texts of a document that are no labels, files or fixed words."""
    if key in ("schema", "log", "name", "command", "files", "start", "by", "versions"):
        return []
    if isinstance(found, dict):
        return [x for k, v in found.items() for x in sentences(v, k)]
    if isinstance(found, list):
        return [x for y in found for x in sentences(y, key)]
    return [found] if isinstance(found, str) else []


@pytest.mark.parametrize(
    ("given", "code"), [(("--reward-range", "0,1"), 3), (("--baseline", "old"), 0)]
)
def test_improve_speaks_of_the_rows_of_a_bandit(
    run: Run, files: dict[str, Path], given: tuple[str, ...], code: int
) -> None:
    given = tuple(str(files.get(x, x)) for x in given)
    found = run(
        "improve", files["log"], "--bandit", *given, "--out", files["folder"] / "rows", code=code
    )
    wrong = [x for x in sentences(found) if "episode" in x or "step" in x]
    assert not wrong
    assert found["worth"]["held_out"]["unit"] == "sets of rows"


def test_the_page_says_that_several_policies_made_the_log(run: Run, files: dict[str, Path]) -> None:
    single = "The baseline is the policy that made the log"
    options = ("--bandit", "--policy-column", "who", "--reward-range", "0,1")
    for more, words, code in (
        ((), "It is what the log shows on average: 2 policies made the log.", 3),
        (("--baseline", files["old"]), "The baseline is the policy that was given; other", 0),
        (("--baseline-policy", "x"), "The baseline is policy &#39;x&#39; of the log", 3),
    ):
        out = files["folder"] / "page"
        run("improve", files["log"], *options, *more, "--out", out, code=code)
        page = (files["folder"] / "page" / "report.html").read_text(encoding="utf-8")
        assert words in page
        assert single not in page


def rare_clicks(folder: Path) -> tuple[Path, Path, Path]:
    """(log, rule, policy): action 1 always pays 1; in 440 of 8,000 rows it was taken, 400 would be
    usual.
    """
    action = (np.random.default_rng(0).permutation(8000) < 440).astype(int)
    shares = np.where(action == 1, 0.05, 0.95)
    cells = zip(["s"] * 8000, action, action, shares, strict=True)
    log = write(folder / "rare.csv", ["state", "action", "reward", "pscore"], cells)
    rule, policy = (
        write(folder / name, ["state", "action", "probability"], [("s", 0, 1 - p), ("s", 1, p)])
        for name, p in (("rule.csv", 0.05), ("policy.csv", 1))
    )
    return log, rule, policy


def test_an_estimate_beyond_what_is_possible_is_said_to_be_so(run: Run, tmp_path: Path) -> None:
    """Plain weights go beyond 1; the estimates of the tests have what weights alone add taken off:
    the truth, 0.95, is left.
    """
    log, rule, policy = rare_clicks(tmp_path)
    options = ("--bandit", "--reward-range", "0,1", "--baseline", rule)
    words = "above the largest possible, 1: its weights scatter"
    found = run("evaluate", log, *options, "--policy", policy)["weighted"]
    assert found["ips"]["value"] > 1
    assert words in found["ips"]["assumes"]
    assert words not in found["snips"]["assumes"]
    found = run("safety-test", log, *options, "--policy", policy)
    assert found["estimated_gain"] == pytest.approx(0.95)
    assert not any(words in x for x in found["notes"])
    found = run("improve", log, *options, "--out", tmp_path / "out")
    assert found["worth"]["held_out"]["gain"] == pytest.approx(0.95)
    assert words not in found["reason"]


def test_propensities_that_cannot_be_true_stop_promises(run: Run, files: dict[str, Path]) -> None:
    found = run("check", files["wrong"], "--bandit")
    assert found["vetoes"] == ["propensities"]
    start = files["wrong"], "--bandit", "--baseline", files["old"], "--reward-range", "0,1"
    found = run("improve", *start, "--out", files["folder"] / "w", "--no-report", code=3)
    assert "propensities cannot be true" in found["reason"]
    found = run("safety-test", *start, "--policy", files["new"], code=2)
    assert "propensities cannot be true" in found["error"]["message"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--gamma", "0.9"), "leave --gamma out"),
        (("--episode", "who"), "leave out --episode"),
        (("--baseline-policy", "x"), "--policy-column"),
        (("--policy-column", "who", "--baseline-policy", "z"), "policy 'z' is not in the log"),
        (("--propensity", "score"), "has no column 'score'"),
        (("--propensity", "who"), "propensity is no probability"),
        (("--propensity", "pscore", "--dask", "tcp://nowhere:1"), "--dask counts alone"),
    ],
)
def test_bad_input_gets_a_sentence(
    run: Run, files: dict[str, Path], words: tuple[str, ...], sentence: str
) -> None:
    out = files["folder"] / "none"
    found = run("improve", files["log"], "--bandit", "--out", out, *words, code=2)
    assert sentence in found["error"]["message"]
    assert not out.exists()


def test_gamma_is_needed_where_episodes_have_many_steps(run: Run, files: dict[str, Path]) -> None:
    found = run("improve", files["log"], "--episode", "-", code=2)
    assert "--gamma is missing" in found["error"]["message"]
