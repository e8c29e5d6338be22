"""Assurance of an improvement: the certificate that fits its algorithm, a proof where there is
one, and plain words.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from support.corridor import corridor
from support.settings import EVERY, make
from surefoot.advice import assure, learn_and_test
from surefoot.advice.assurance import assurance_summary, proof, proves_itself, unless_contradicted
from surefoot.advice.summary import assumptions_of, summarise
from surefoot.advice.verdict import NOT_SUPPORTED, Verdict
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.checks import Finding
from surefoot.core.plain_values import plain
from surefoot.logs import read_log, read_policy
from surefoot.report.improvement_words import improvement_statements
from surefoot.report.improvement_words import proof as words_of_proof


def bandit(n: int = 1200, **options: Any) -> surefoot.Problem:
    """One decision, then the end: action 1 pays 1 with probability 0.8, action 0 with 0.3; both
    tried alike.
    """
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, n)
    return surefoot.problem(
        state=np.zeros(n, dtype=int),
        action=action,
        reward=(rng.random(n) < 0.3 + 0.5 * action) * 1.0,
        next_state=np.ones(n, dtype=int),
        episode=np.arange(n),
        gamma=0.9,
        terminal_states=[1],
        **{"pi_b": np.full((2, 2), 0.5), "reward_range": (0, 1), "return_range": (0, 1), **options},
    )


def assured(problem: surefoot.Problem, name: str, **options: Any) -> Any:
    algorithm = chosen_algorithm(problem, name)
    return assure(problem, surefoot.improve(problem, algorithm), algorithm, **options)


PROVED = ("certified-advantage", "planned-advantage", "screened-advantage")


def words(found: Any) -> str:
    (said,) = words_of_proof(plain(assurance_summary(found))["certificate"])
    return " ".join(said.whole)


def test_only_what_proves_its_policy_has_a_certificate_of_its_own() -> None:
    own = {name: make(name).proof for name in EVERY}
    assert {name for name, proof in own.items() if proof} == {
        name for name in EVERY if name.split("+")[-1].endswith(PROVED)
    }
    made = surefoot.algorithm("certified-advantage", delta=0.3, error="hoeffding", visits="first")
    assert made.proof == (
        "certified-advantage",
        {"delta": 0.3, "error": "hoeffding", "visits": "first"},
    )


def test_the_strongest_bound_is_given_at_its_share_of_delta() -> None:
    problem = bandit()
    solution = surefoot.improve(problem, "basic-rl")
    found = surefoot.certify(problem, solution, delta=0.4)
    each = [
        surefoot.certify(problem, solution, "screened-advantage", delta=0.1),
        surefoot.certify(problem, solution, "advantage", error="hoeffding", delta=0.1),
        surefoot.certify(problem, solution, "planned-advantage", delta=0.1),
        surefoot.certify(problem, solution, "robust", delta=0.1),
    ]
    assert found.bound == max(x.bound for x in each)
    assert found.delta == 0.4
    assert "the highest of 4 bounds" in found.notes[-1]
    assert found.bound < surefoot.certify(problem, solution, found.method, delta=0.4).bound


def test_the_strongest_bound_of_screened_moves_is_their_own() -> None:
    problem = bandit(400)
    delta = 0.2
    solution = surefoot.improve(problem, surefoot.ScreenedAdvantage(delta=delta / 4))
    found = surefoot.certify(problem, solution, delta=delta)
    assert found.method == "screened-advantage"
    assert found.useful
    with pytest.raises(surefoot.ParameterError, match="certify without a method"):
        surefoot.certify(problem, solution, epsilon=1)


@pytest.mark.parametrize("name", ["certified-advantage", "lower-exact-soft-spibb"])
def test_a_useful_certificate_is_said_in_words(name: str) -> None:
    found = assured(bandit(), name)
    assert found.useful and found.bound < 0.25  # the truth
    assert words(found).startswith(
        "Proved: the policy is no worse than the baseline."
    ) and "rigorous" in words(found)


def test_an_algorithm_with_a_proof_of_its_own_is_supported_by_it_from_all_data() -> None:
    problem = bandit()
    made = chosen_algorithm(problem, "certified-advantage")
    solution, judged = proof(problem, made)
    assert judged.supported and proves_itself(problem, made)
    assert np.allclose(solution.pi, surefoot.improve(problem, made).pi)
    assert "proved from all of the log (certified-advantage, rigorous)" in judged.reason
    assert proof(problem, made, ["drift"])[1].reason.startswith(
        "proved from all of the log (certified-advantage, if drift can be passed over)"
    )
    _, judged = proof(bandit(40), made)
    assert judged == Verdict(
        NOT_SUPPORTED, "certified-advantage proves no change of the baseline to be better"
    )
    assert not proves_itself(problem, chosen_algorithm(problem, "lower-exact-soft-spibb"))
    loose = chosen_algorithm(problem, "certified-advantage", {"delta": 0.3})
    assert not proves_itself(problem, loose)  # the word promises 5 %
    assert not proves_itself(bandit(reward_range=None, return_range=None), made)  # only observed


@pytest.mark.parametrize("name", PROVED)
def test_a_bound_that_is_only_approximate_is_no_proof(name: str) -> None:
    """Three rows were left out for not having ended: the same bound, and another word."""
    problem, made = bandit(), surefoot.algorithm(name, delta=0.05)
    _, judged = proof(problem, made)
    assert judged.supported and ", rigorous)" in judged.reason
    _, judged = proof(replace(problem, n_unfollowed=3), made)
    assert not judged.supported and "approximate" in judged.reason
    assert judged.reason.startswith("its own proof shows no gain: ")


def test_no_loss_is_no_gain() -> None:
    """At the start certified-advantage proves no more than 0: what changes lies two steps later."""
    problem = corridor(4000)
    made = surefoot.algorithm("certified-advantage", delta=0.05)
    solution = surefoot.improve(problem, made)
    found = surefoot.certify(problem, solution, "certified-advantage")
    assert found.useful and found.changed == 1 and found.bound == 0
    assert not proof(problem, made)[1].supported
    assert proof(problem, surefoot.PlannedAdvantage(0.05))[1].supported


@pytest.mark.parametrize(("delta", "enough"), [(0.05, True), (0.051, False)])
def test_a_proof_at_more_than_the_delta_of_the_test_does_not_stand_for_it(
    delta: float, enough: bool
) -> None:
    made = surefoot.algorithm("certified-advantage", delta=delta)
    assert proves_itself(bandit(), made) == enough


def test_nothing_proves_itself_over_a_baseline_that_is_estimated() -> None:
    made = surefoot.algorithm("certified-advantage", delta=0.05)
    assert proves_itself(bandit(), made)
    assert not proves_itself(bandit(pi_b=None, n_states=2, n_actions=2), made)


def test_what_proves_itself_has_no_second_chance_by_the_test(tmp_path: Path) -> None:
    """Proof and test, each at 5 %, would be wrong in up to 10 %: the log that the test supports is
    too small for the proof.
    """
    log, problem, _ = small_log(tmp_path)
    made = surefoot.ScreenedAdvantage(delta=0.05)
    judged = learn_and_test(log, problem, made, assured=True)
    assert judged.verdict == "supported" and judged.reason.startswith("proved")
    solution = judged.solution
    with pytest.MonkeyPatch.context() as patched:
        module = importlib.import_module("surefoot.advice.learn_and_test")
        lost = Verdict(NOT_SUPPORTED, "it shows no gain")
        patched.setattr(module, "proof", lambda *_: (solution, lost))
        judged = learn_and_test(log, problem, made, assured=True)
    assert (judged.verdict, judged.reason) == ("not supported", "it shows no gain")


def test_what_is_said_of_a_proved_policy_is_about_the_one_that_is_written(tmp_path: Path) -> None:
    """The test was of a policy from half of the log: its gain, and what it assumes, are not said."""
    log, problem, _ = small_log(tmp_path)
    made = surefoot.ScreenedAdvantage(delta=0.05)
    judged = learn_and_test(log, problem, made, assured=True)
    assert judged.gain is None and judged.assurance is not None
    assert np.array_equal(judged.pi, surefoot.improve(problem, made).pi)
    said = summarise(judged, "log.csv")
    assert said["worth"]["held_out"] is None and said["cannot_exclude"] is None
    assert {x["data"] for x in said["worth"]["estimates"]} == {"all data"}
    assert said["assumptions"][3:] == said["certificate"]["assumptions"]
    told = {x.kind: x for x in improvement_statements(said)}
    assert "in sample, OPTIMISTIC: " in " ".join(told["worth"].detail)
    assert told["worth"].words.startswith("at least 0.")
    assert told["verdict"].words.startswith(
        "SUPPORTED: it is proved, under the assumptions below, that"
    )
    assert told["sure"].words.startswith("proved from all of the log by screened-advantage")
    passed_over = {**said, "certificate": {**said["certificate"], "label": "approximate"}}
    (sure,) = (x for x in improvement_statements(passed_over) if x.kind == "sure")
    assert sure.words.startswith("proved, but for what was passed over, from all of the log")
    tested = learn_and_test(log, problem, surefoot.PiBSPIBB(n_wedge=5), assured=True)
    assert summarise(tested, "log.csv")["worth"]["held_out"] is not None


def test_an_estimated_baseline_is_a_reason_in_one_line() -> None:
    found = assured(bandit(pi_b=None, n_states=2, n_actions=2), "basic-rl")
    assert "No proof from this log: the baseline is estimated" in words(found)


def test_what_the_log_says_against_an_assumption_forbids_a_certificate_or_makes_it_approximate() -> (
    None
):
    memory, other = (
        Finding(key, "warning", f"{key} is broken", key=key, vetoes=True)
        for key in ("markov", "baseline")
    )
    found = assured(bandit(), "basic-rl", against=[memory])
    assert isinstance(found, str)
    assert words(found).startswith("No proof from this log: markov is broken. (Otherwise: v^pi - ")
    assert words(found).endswith("To accept this: --despite markov)")
    found = assured(bandit(), "basic-rl", against=[memory], despite=["markov"])
    assert found.label == "approximate" and found.useful and found.waived == ("markov",)
    assert "markov is broken" in found.assumptions[-1]
    found = assured(bandit(), "basic-rl", against=[memory, other], despite=["markov", "baseline"])
    assert words(found).startswith("No proof from this log: baseline is broken. (Otherwise: ")
    assert "--despite" not in words(found) and "cannot be passed over" in words(found)
    drift = Finding("drift", "warning", "it drifts", key="policy-drift", vetoes=True)
    of_rows = surefoot.certify(bandit(), surefoot.improve(bandit(), "basic-rl"), "robust")
    for finding in (other, drift):  # who made the log, rows do not care
        assert unless_contradicted(of_rows, [finding]) == of_rows
    assert isinstance(unless_contradicted(of_rows, [memory]), str)


def twice(folder: Path, n: int = 1500) -> tuple[Path, list[Any]]:
    """Two steps in one state. "new" pays about 1, but who does it twice loses 3: worth 0.46 more
    than "old" to the baseline, which does it once in five times, and -0.8 to who always does it.
    """
    rng = np.random.default_rng(0)
    rows: list[Any] = []
    for i in range(n):
        new, noise = rng.random(2) < 0.2, rng.normal(0, 0.01, 2)
        paid = np.clip(new + noise - [0, 3 * new.all()], -2.2, 1.2)
        for t in range(2):
            rows.append((i, t, "x", "new" if new[t] else "old", repr(float(paid[t])), t))
    path = logfiles.write(folder / "twice.csv", (*logfiles.HEADER, "terminal"), rows)
    head, rule = ("state", "action", "probability"), [("x", "new", 0.2), ("x", "old", 0.8)]
    logfiles.write(folder / "rule.csv", head, rule)
    given = ["--gamma", 0.9, "--baseline", folder / "rule.csv", "--reward-range", "-2.2,1.2"]
    return path, [*given, "--return-range", "-2.2,2.4"]


@pytest.mark.parametrize("name", ["certified-advantage", "screened-advantage"])
def test_nothing_is_proved_of_a_log_whose_past_matters(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both proofs rest on the Markov property; the test of whole episodes, which does without it,
    does not stand in for them.
    """
    path, given = twice(tmp_path)
    learn = ("improve", path, *given, "--algorithm", name, "--out", tmp_path / "out")
    code, text, _ = logfiles.run(monkeypatch, capsys, *learn, "--explain")
    assert code == 3
    assert "NOT SUPPORTED: outcomes depend on earlier steps" in text
    assert "proof     No proof from this log: outcomes depend" in text
    (tmp_path / "always.csv").write_text("state,action,probability\nx,new,1\nx,old,0\n")
    prove = ("certify", path, *given, "--policy", tmp_path / "always.csv")
    code, text, _ = logfiles.run(monkeypatch, capsys, *prove)
    assert code == 3
    assert "verdict   No proof from this log: outcomes depend" in text
    code, text, _ = logfiles.run(monkeypatch, capsys, *prove, "--despite", "markov")
    assert code == 5  # no proof, as the assumption was found false
    assert "if what the approximate bound assumes is true" in logfiles.one_line(text)
    code, _, error = logfiles.run(monkeypatch, capsys, *prove, "--despite", "memory")
    assert code == 2 and "despite takes drift" in error


def test_a_proof_that_held_out_data_contradict_supports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the memory not found: the test of whole episodes, if it is the one that is used, says
    that the policy is worse.
    """
    module = importlib.import_module("surefoot.advice.learn_and_test")
    test = module.held_out_gain
    monkeypatch.setattr(module, "held_out_gain", lambda *x, **y: test(*x, **{**y, "markov": False}))
    path, _ = twice(tmp_path, 4000)
    log = read_log(path)
    rule = read_policy(tmp_path / "rule.csv", log, unknown_states="ignore")
    problem = log.problem(0.9, rule, reward_range=(-2.2, 1.2), return_range=(-2.2, 2.4))
    judged = learn_and_test(
        log, problem, surefoot.ScreenedAdvantage(delta=0.05), assured=True, against=()
    )
    assert judged.verdict != "supported"
    assert "held-out data show that" in judged.reason and "(Otherwise: proved" in judged.reason


def test_a_large_problem_is_passed_over_with_a_sentence() -> None:
    found = assured(bandit(sparse=True), "pi-b-spibb")
    assert isinstance(found, str)
    assert words(found).count("the problem is large") == 1


def test_the_worst_case_over_many_states_is_not_computed_unasked() -> None:
    found = assured(bandit(n_states=102, pi_b=np.full((102, 2), 0.5)), "robust")
    assert "the highest of 3 bounds (screened-advantage, advantage" in found.notes[-1]


def test_a_vacuous_bound_is_called_vacuous() -> None:
    assert "this bound says no more than the range of returns does" in words(
        assured(bandit(12), "basic-rl")
    )
    pi_b = np.tile([0.495, 0.495, 0.01], (102, 1))  # too many states for the worst case
    never = bandit(200, pi_b=pi_b, n_actions=3)  # action 2 is never tried, and loses its mass
    found = assured(never, "basic-rl")
    assert "No proof from this log; no larger log of this kind" in words(found)
    assert found.notes[0].startswith("in 1 states it moves probability of pairs")


def test_a_bound_that_does_not_apply_leaves_the_place_to_another() -> None:
    found = assured(logfiles.random_problem(1, n=2000, episodes=200), "adv-exact-soft-spibb")
    assert found.method == "robust"  # mass of pairs without returns moves


def small_log(folder: Path) -> tuple[Any, surefoot.Problem, Path]:
    path = logfiles.visits(folder / "log.csv", n=400)
    log = read_log(path)
    return (
        log,
        log.problem(
            0.9,
            read_policy(logfiles.coin(folder / "rule.csv", 0.5), log, unknown_states="ignore"),
            return_range=(0, 1),
        ),
        path,
    )


@pytest.mark.parametrize("rows", [0, 3])
def test_an_advice_says_what_it_assumes_of_rows_left_out(tmp_path: Path, rows: int) -> None:
    log, problem, _ = small_log(tmp_path)
    made = learn_and_test(
        log, replace(problem, n_unfollowed=rows), surefoot.algorithm("pi-b-spibb", n_wedge=5)
    )
    words = "the 3 rows that did not end and are left out, as nothing is known to follow them, are"
    assert any(x.startswith(words) for x in assumptions_of(made)) == (rows > 0)
    assert any("left out" in x for x in assumptions_of(made)) == (rows > 0)


def test_improve_stores_the_certificate_and_the_held_out_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, path = small_log(tmp_path)
    given = (
        "--gamma",
        0.9,
        "--baseline",
        tmp_path / "rule.csv",
        "--return-range",
        "0,1",
        "--out",
        tmp_path / "out",
    )
    code, text, _ = logfiles.run(monkeypatch, capsys, "improve", path, *given, "--explain")
    kept = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert code == 0
    assert (kept["certificate"]["method"], kept["verdict"]) == ("screened-advantage", "supported")
    assert (kept["worth"]["held_out"]["units"], kept["worth"]["held_out"]["units_tested"]) == (
        400,
        200,
    )
    assert "the gain at the start is at least +0" in logfiles.one_line(text)
