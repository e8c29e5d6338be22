"""surefoot safety-test: verdicts and exit codes, what it refuses, and how often its verdict is
wrong.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surefoot
from support import logfiles
from surefoot.advice.safety import Sample, sample_test, whole_sample
from surefoot.advice.verdict import FAILS, NO_EVIDENCE, PASSES
from surefoot.evidence import Standard
from surefoot.evidence.units import take_rows

Run = Any


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def gate(
    run: Run, folder: Path, new: float, *more: Any, better: float = 0.4, **changes: Any
) -> tuple[int, str, str]:
    log = logfiles.visits(folder / "log.csv", better=better, **changes)
    rule, pi = logfiles.coin(folder / "rule.csv", 0.5), logfiles.coin(folder / "pi.csv", new)
    return run(
        "safety-test",
        log,
        "--policy",
        pi,
        "--gamma",
        0.9,
        "--baseline",
        rule,
        "--reward-range",
        "0,1",
        "--horizon",
        1,
        *more,
    )


def test_a_better_policy_passes_a_worse_one_fails_and_a_close_one_has_no_evidence(
    tmp_path: Path, run: Run
) -> None:
    for new, code, word in (
        (0.9, 0, "PASSES: shown to be better"),
        (0.1, 4, "FAILS: shown to be worse"),
        (0.501, 3, "NO EVIDENCE"),
    ):
        found, text, _ = gate(run, tmp_path, new)
        assert (found, word in text) == (code, True), text
        assert "tested    400 episodes\n" in text
        assert text.startswith("verdict")  # the conclusion before what it rests on


@pytest.mark.parametrize(
    "how",
    [
        ("is", "maurer-pontil"),
        ("is", "hoeffding"),
        ("pdis", "student-t"),
        ("dr", "student-t"),
        ("dr", "bca"),
    ],
)
def test_every_estimator_and_bound_gives_both_verdicts(how: tuple[str, str]) -> None:
    found = [
        sample_test(
            *whole_sample(problem(0, 1500, better=0.4), pi).split(0.2),
            0.9,
            Standard(estimator=how[0], bound=how[1], reward_range=(0, 1), return_range=(0, 1)),
        ).verdict
        for pi in (np.array([[0.1, 0.9], [0.5, 0.5]]), np.array([[0.9, 0.1], [0.5, 0.5]]))
    ]
    assert found == [PASSES, FAILS]


def test_json_says_all_of_it(tmp_path: Path, run: Run) -> None:
    code, text, _ = gate(run, tmp_path, 0.9, "--delta", 0.1, "--json", seed=1)
    found = json.loads(text)
    assert code == 0
    assert (found["verdict"], found["delta"], found["delta_of_each_test"]) == (PASSES, 0.1, 0.05)
    assert (
        0 < found["gain_at_least"] < 0.16 < found["gain_at_most"]
    )  # the truth: 0.4 of the 0.4 in mass that is moved
    assert 0.1 < found["estimated_gain"] < 0.25
    assert (found["episodes_tested"], found["episodes_cap_chosen_on"], found["condition"]) == (
        400,
        0,
        "",
    )
    assert 240 < found["effective_episodes"] < 400
    assert found["centred"]
    for words in (
        "neither made nor chosen",
        "independent of each other, and the given baseline",
        "no hidden cause",
        "the same world",
    ):
        assert any(words in x for x in found["assumptions"])
    assert (
        found["training_overlap"]["checked"],
        found["training_overlap"]["episodes_left_out"],
    ) == (False, 0)


def sample_of(folder: Path, path: Path) -> Sample:
    """The episodes of a log, with the policy and the rule of `gate`."""
    log = surefoot.read_log(path)
    found = log.problem(0.9, folder / "rule.csv")
    pi = surefoot.read_policy(folder / "pi.csv", log, unknown_states="ignore").pi
    return whole_sample(found, pi)


def test_the_bound_can_be_prepared_on_another_log_which_may_number_its_states_otherwise(
    tmp_path: Path, run: Run
) -> None:
    other = logfiles.visits(tmp_path / "other.csv", n=90, seed=5, wards=("c", "b"))
    gate(run, tmp_path, 0.9)  # writes the log, the rule and the policy
    how = Standard(bound="maurer-pontil", reward_range=(0, 1), horizon=1)
    samples = [sample_of(tmp_path, path) for path in (other, tmp_path / "log.csv")]
    found = sample_test(*samples, 0.9, how)
    said = found.document
    assert (found.verdict, said["episodes_tested"], said["episodes_cap_chosen_on"]) == (
        PASSES,
        400,
        90,
    )
    found = sample_test(*samples[1].split(0.2), 0.9, how)
    said = found.document
    assert (said["episodes_tested"], said["episodes_cap_chosen_on"]) == (320, 80)
    code, text, _ = gate(run, tmp_path, 0.9, "--training", other)
    assert code == 0 and "tested    400 episodes\n" in text
    dr = Standard(estimator="dr", bound="student-t", reward_range=(0, 1), horizon=1)
    with pytest.raises(surefoot.SurefootError, match="leave out the training log"):
        sample_test(*samples, 0.9, dr, same_codes=False)


@pytest.mark.parametrize("gone", [("--bound", "bca"), ("--share", 0.3)])
def test_what_the_command_no_longer_has_is_kept_in_python(
    tmp_path: Path, run: Run, gone: tuple[Any, ...]
) -> None:
    code, _, said = gate(run, tmp_path, 0.9, *gone)
    assert code == 2
    assert f"surefoot safety-test has no {gone[0]}" in said and "surefoot.evidence.Standard" in said


def test_an_undeclared_range_is_a_condition_and_a_declared_one_is_not() -> None:
    pi = np.array([[0.1, 0.9], [0.5, 0.5]])
    for declared in ((), ((0, 1), (0, 1))):
        found = sample_test(
            None,
            whole_sample(problem(0), pi),
            0.9,
            Standard(**dict(zip(("reward_range", "return_range"), declared, strict=False))),
        )
        assert (found.document["condition"] == "no reward below 0 or above 1 exists") != bool(
            declared
        )
        assert any(
            "these were observed, nobody declared them" in x for x in found.document["assumptions"]
        ) != bool(declared)
        assert any(
            "observed in the log, not declared" in x for x in found.document["assumptions"]
        ) != bool(declared)


def test_without_a_declared_range_nothing_is_shown_unless_the_observed_one_is_accepted(
    tmp_path: Path, run: Run
) -> None:
    log, rule = logfiles.visits(tmp_path / "log.csv"), logfiles.coin(tmp_path / "rule.csv", 0.5)
    for new, word, code in ((0.9, "passes", 0), (0.1, "fails", 4)):
        given = (
            "safety-test",
            log,
            "--policy",
            logfiles.coin(tmp_path / "pi.csv", new),
            "--gamma",
            0.9,
            "--baseline",
            rule,
        )
        found, text, _ = run(*given, "--horizon", 1)
        assert (
            found,
            f"NOT SHOWN. {word.upper()} ONLY IF no reward below 0 or above 1 exists" in text,
        ) == (3, True), text
        found, text, _ = run(*given, "--horizon", 1, "--json")
        assert (json.loads(text)["verdict"], found) == (f"{word} if", 3)
        found, text, _ = run(*given, "--horizon", 1, "--observed-range", "--json")
        assert (json.loads(text)["verdict"], found) == (word, code)
        assert any("nobody declared them" in x for x in json.loads(text)["assumptions"])


def test_a_rare_loss_that_the_log_lacks_is_no_pass_with_an_observed_range() -> None:
    """+1, but -1000 once in 500 by either action; 200 episodes: the log often has no loss, and
    then nothing is shown.
    """
    pi, pi_b = np.array([[0.1, 0.9], [0.5, 0.5]]), np.array([[0.9, 0.1], [0.5, 0.5]])
    passes = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        action, loss = (rng.random(200) < 0.1).astype(int), rng.random(200) < 0.002
        found = surefoot.problem(
            state=np.zeros(200, dtype=int),
            action=action,
            reward=np.where(loss, -1000.0, 1.0 + 0.5 * action),
            episode=np.arange(200),
            next_state=np.ones(200, dtype=int),
            gamma=0.9,
            terminal_states=[1],
            pi_b=pi_b,
        )
        test = sample_test(None, whole_sample(found, pi), 0.9, Standard(horizon=1))
        passes += test.verdict == PASSES
        assert test.document["condition"]
    assert passes == 0


def test_the_range_that_counts_as_observed_contains_the_rewards_the_policy_was_made_from(
    tmp_path: Path, run: Run
) -> None:
    assert gate(run, tmp_path, 0.9)[0] == 0
    (tmp_path / "summary.json").write_text(
        json.dumps(
            {
                "log": {
                    "path": "x",
                    "rows_read": 9,
                    "fingerprint": "f",
                    "reward_lowest": -7.0,
                    "reward_highest": 1.0,
                }
            }
        )
    )
    code, _, said = gate(run, tmp_path, 0.9)
    assert (code, "reward_range (0.0, 1.0) does not hold: rewards go from -7 to 1" in said) == (
        2,
        True,
    ), said
    given = (
        "safety-test",
        tmp_path / "log.csv",
        "--policy",
        tmp_path / "pi.csv",
        "--gamma",
        0.9,
        "--baseline",
        tmp_path / "rule.csv",
    )
    assert (
        json.loads(run(*given, "--horizon", 1, "--json")[1])["condition"]
        == "no reward below -7 or above 1 exists"
    )


def test_a_return_range_is_of_whole_episodes_and_every_episode_is_held_against_it(
    tmp_path: Path, run: Run
) -> None:
    rows = [
        (f"v{i}", t, "a", "new" if (i + t) % 2 else "old", (3, -2)[t], t)
        for i in range(40)
        for t in range(2)
    ]
    log = logfiles.write(
        tmp_path / "log.csv", logfiles.VISIT, rows
    )  # every episode returns 3 - 2, the last step alone -2
    rule, pi = logfiles.coin(tmp_path / "rule.csv", 0.5), logfiles.coin(tmp_path / "pi.csv", 0.6)
    given = (
        "safety-test",
        log,
        "--policy",
        pi,
        "--gamma",
        1,
        "--baseline",
        rule,
        "--estimator",
        "is",
        "--horizon",
        2,
    )
    code, text, said = run(*given, "--return-range", "0,1", "--json")
    assert (code, json.loads(text)["condition"]) == (3, ""), said
    code, _, said = run(*given, "--return-range", "0,0.9")
    assert (
        code,
        "return_range (0, 0.9) does not hold: episode 0 has the return 1 (40 such episodes)"
        in said,
    ) == (2, True)
    assert "of a whole episode" in " ".join(
        run("safety-test", "--help")[1].replace("│", " ").split()
    )


@pytest.mark.parametrize("bound", ["student-t", "bca"])
def test_an_approximate_bound_is_not_given_where_weights_or_skewness_make_it_untrue(
    bound: str,
) -> None:
    """200 episodes, the rarer action in 1 of 50: hardly a weight above 0 is seen; 2,000 of a
    coin are enough.
    """
    few, many = np.array([[0.98, 0.02], [0.5, 0.5]]), np.array([[0.5, 0.5], [0.5, 0.5]])
    for n, pi_b, spoken in ((200, few, False), (1000, few, False), (2000, many, True)):
        rng = np.random.default_rng(n)
        action = (rng.random(n) < pi_b[0, 1]).astype(int)
        found = surefoot.problem(
            state=np.zeros(n, dtype=int),
            action=action,
            reward=(rng.random(n) < 0.3 + 0.3 * action) * 1.0,
            episode=np.arange(n),
            next_state=np.ones(n, dtype=int),
            gamma=0.9,
            terminal_states=[1],
            pi_b=pi_b,
        )
        test = sample_test(
            None,
            whole_sample(found, np.array([[0.5, 0.5], [0.5, 0.5]]) * [0.6, 1.4]),
            0.9,
            Standard(bound=bound),
        )
        assert any("NOT VALID here" in x for x in test.rows[0].notes) != spoken
        assert (test.verdict == NO_EVIDENCE) != spoken
        assert np.isfinite(test.rows[0].low) == spoken


@pytest.mark.slow
def test_what_no_test_is_valid_on_is_refused_with_code_2(tmp_path: Path, run: Run) -> None:
    log = logfiles.visits(tmp_path / "log.csv")
    rule, pi = logfiles.coin(tmp_path / "rule.csv", 0.5), logfiles.coin(tmp_path / "pi.csv", 0.9)
    given = ("safety-test", log, "--policy", pi, "--gamma", 0.9)
    small = logfiles.visits(tmp_path / "small.csv", n=3, seed=3)
    wrong = logfiles.coin(tmp_path / "wrong.csv", 0.8)
    never = logfiles.coin(tmp_path / "never.csv", 1.0)
    cases = {
        "give the true one (--baseline)": given,
        "cannot have made": (*given, "--baseline", wrong),
        "at least 4 are needed": (
            "safety-test",
            small,
            "--policy",
            pi,
            "--gamma",
            0.9,
            "--baseline",
            rule,
        ),
        "surefoot safety-test has no --start: whole episodes are compared": (
            *given,
            "--baseline",
            rule,
            "--start",
            "a",
        ),
        "delta is a failure probability": (*given, "--baseline", rule, "--delta", 0.95),
        "impossible rows": (*given, "--baseline", never),
    }
    for words, arguments in cases.items():
        code, out, said = run(*arguments)
        assert (code, out, words in said) == (2, "", True), said


@pytest.mark.slow
def test_an_action_that_the_baseline_never_takes_cannot_be_tested(tmp_path: Path, run: Run) -> None:
    log = logfiles.visits(tmp_path / "log.csv")
    rows = [
        line for line in log.read_text().splitlines() if ",new," not in line or ",b," not in line
    ]
    log.write_text("\n".join(rows) + "\n")  # in ward b only "old" was ever done, as the rule says
    sides = (("a", "new", 0.5), ("a", "old", 0.5), ("b", "old", 1.0))
    rule = logfiles.write(tmp_path / "rule.csv", ("state", "action", "probability"), sides)
    code, _, said = run(
        "safety-test",
        log,
        "--policy",
        logfiles.coin(tmp_path / "pi.csv", 0.9, ("a", "b")),
        "--gamma",
        0.9,
        "--baseline",
        rule,
    )
    assert (code, "not identified" in said) == (2, True)


def test_the_baseline_itself_has_nothing_to_show(tmp_path: Path, run: Run) -> None:
    code, text, _ = gate(run, tmp_path, 0.5)
    assert (code, "there is nothing to show" in text) == (3, True)


def problem(seed: int, n: int = 120, better: float = 0.0) -> surefoot.Problem:
    """One decision: action 1 succeeds more often by `better`."""
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 2, n)
    reward = (rng.random(n) < 0.1 + better * action) * 1.0
    return surefoot.problem(
        state=np.zeros(n, dtype=int),
        action=action,
        reward=reward,
        next_state=np.ones(n, dtype=int),
        episode=np.arange(n),
        gamma=0.9,
        terminal_states=[1],
        pi_b=np.full((2, 2), 0.5),
        reward_range=(0, 1),
        return_range=(0, 1),
    )


def test_between_policies_of_the_same_worth_a_verdict_is_given_no_more_often_than_delta() -> None:
    pi, delta, trials = np.array([[0.05, 0.95], [0.5, 0.5]]), 0.3, 80
    standard = Standard(delta=delta, estimator="is", reward_range=(0, 1), return_range=(0, 1))
    found = [
        sample_test(*whole_sample(problem(seed), pi).split(0.2), 0.9, standard)
        for seed in range(trials)
    ]
    assert sum(x.verdict != NO_EVIDENCE for x in found) <= binom.ppf(0.99, trials, delta)
    assert {x.rows[0].delta for x in found} == {delta / 2}
    assert {x.document["delta_of_loss"] for x in found} == {delta / 2}


def test_turning_all_rewards_round_turns_the_verdict_round() -> None:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 400)
    pi = np.array([[0.1, 0.9], [0.5, 0.5]])
    verdicts, bounds = [], []
    for sign in (1.0, -1.0):
        found = surefoot.problem(
            state=np.zeros(400, dtype=int),
            action=action,
            reward=sign * action,
            next_state=np.ones(400, dtype=int),
            episode=np.arange(400),
            gamma=0.9,
            terminal_states=[1],
            pi_b=np.full((2, 2), 0.5),
            reward_range=(-1, 1),
        )
        training, held_out = whole_sample(found, pi).split(0.2)
        result = sample_test(training, held_out, 0.9, Standard(delta=0.1, reward_range=(-1, 1)))
        assert isinstance(training, Sample)
        verdicts.append(result.verdict)
        bounds.append((result.rows[0].low, -result.rows[0].high))
    assert verdicts == [PASSES, FAILS]
    assert bounds[0] == pytest.approx(bounds[1][::-1])


@pytest.mark.slow
def test_copies_of_the_own_log_are_refused_and_another_log_of_the_same_name_is_not(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = logfiles.coin(tmp_path / "rule.csv", 0.5, ("a", "b"))
    log = logfiles.visits(tmp_path / "log.csv", n=1500)
    monkeypatch.chdir(tmp_path)
    assert (
        run("improve", "log.csv", "--gamma", 0.9, "--baseline", rule, "--out", tmp_path / "made")[0]
        == 0
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(log, elsewhere / "copy.csv")
    logfiles.visits(elsewhere / "log.csv", n=1500, seed=1)
    monkeypatch.chdir(elsewhere)
    given = (
        "--policy",
        tmp_path / "made" / "policy.csv",
        "--gamma",
        0.9,
        "--baseline",
        rule,
        "--reward-range",
        "0,1",
        "--horizon",
        1,
    )
    code, _, said = run("safety-test", "copy.csv", *given)
    assert (code, "was made from copy.csv" in said) == (2, True)
    code, text, _ = run("safety-test", "log.csv", *given)
    assert (code, "none of the 1,500 episodes was found among those" in text) == (0, True)
    code, _, said = run(
        "safety-test", log, *given, "--actions", "new,old,none"
    )  # read in another way, it is the same log
    assert (code, "was made from" in said) == (2, True)


def test_what_is_in_the_training_log_too_is_not_tested(tmp_path: Path, run: Run) -> None:
    rule, pi = (
        logfiles.coin(tmp_path / "rule.csv", 0.5, ("a", "b")),
        logfiles.coin(tmp_path / "pi.csv", 0.9, ("a", "b")),
    )
    log, copy = logfiles.visits(tmp_path / "log.csv", n=400), tmp_path / "copy.csv"
    shutil.copy(log, copy)
    given = (
        "safety-test",
        log,
        "--policy",
        pi,
        "--gamma",
        0.9,
        "--baseline",
        rule,
        "--reward-range",
        "0,1",
        "--horizon",
        1,
    )
    code, _, said = run(*given, "--training", copy)
    assert (code, "400 of 400 episodes are, or have the names of" in said) == (2, True)
    assert run(*given, "--training", logfiles.visits(tmp_path / "new.csv", n=400, seed=1))[0] == 0


def test_rows_left_out_for_not_having_ended_make_a_verdict_conditional(
    tmp_path: Path, run: Run
) -> None:
    """The return is -1 whatever is done, and action 1 ends an episode more often: among the rows
    that are left, it looks good. Of 10 such logs 8 passed.
    """
    rng = np.random.default_rng(0)
    rows: list[tuple[Any, ...]] = []
    for e in range(3000):
        for t in range(int(rng.integers(1, 5))):
            a = int(rng.random() < 0.5)
            ends = bool(rng.random() < (0.8 if a else 0.2))
            rows.append((e, t, "ab"[int(rng.integers(2))], "new" if a else "old", -(t == 0), ends))
            if ends:
                break
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, rows)
    given = (
        "--policy", logfiles.coin(tmp_path / "pi.csv", 0.9),
        "--baseline", logfiles.coin(tmp_path / "rule.csv", 0.5),
        "--gamma", 0.9, "--reward-range", "-1,0", "--return-range", "-1,0", "--horizon", 12,
    )  # fmt: skip
    code, text, said = run("safety-test", log, *given, "--json")
    if code != 2:  # the baseline may seem to be another: the actions of rows left out are missing
        assert (code, json.loads(text)["verdict"]) in ((3, "passes if"), (3, "no evidence")), said
        assert "last rows of cut episodes that are left out" in json.loads(text)["condition"]
        assert "--episode-end terminal" in json.loads(text)["remedy"]
    code, text, said = run("safety-test", log, *given, "--episode-end", "terminal", "--json")
    found = json.loads(text)
    assert (code, found["verdict"], found["condition"]) == (3, "no evidence", ""), said


@pytest.mark.parametrize("estimator", ["pdis", "is"])
@pytest.mark.parametrize("others", [False, True])
def test_the_estimated_gain_does_not_depend_on_the_declared_range(
    estimator: str, others: bool
) -> None:
    """Rewards near 5: what the weights alone add to a value grows with the distance to the range,
    and the mean of the values changes its sign; the floor, and so the bound, may change.
    """
    rng = np.random.default_rng(3)
    n = 60
    made = rng.uniform(0.3, 0.7, n * 2)
    action = (rng.random(n * 2) < made).astype(int)
    batch = surefoot.problem(
        state=np.zeros(n * 2, dtype=int),
        action=action,
        reward=5 + 0.05 * action + 0.1 * rng.uniform(-1, 1, n * 2),
        next_state=np.tile([0, 1], n),
        episode=np.repeat(np.arange(n), 2),
        gamma=0.9,
        terminal_states=[1],
        pi_b=np.full((2, 2), 0.5),
        propensity=np.where(action == 1, made, 1 - made) if others else None,
    ).log
    pi, pi_b = np.full((2, 2), [0.2, 0.8]), np.full((2, 2), 0.5)
    found = [
        sample_test(
            None,
            Sample(batch, pi, pi_b),
            0.9,
            Standard(reward_range=x, horizon=2, estimator=estimator),
        )
        for x in ((0, 6), (-20, 6), (-1, 40))
    ]
    estimates = [x.rows[0].estimate for x in found]
    assert estimates == pytest.approx([estimates[0]] * 3, abs=1e-9)
    assert estimates[0] == pytest.approx(0.3 * 0.05 * 1.9, abs=0.02)  # the truth
    assert len({x.rows[0].low for x in found}) == 3


def test_the_estimate_of_doubly_robust_values_does_not_depend_on_the_range() -> None:
    found = problem(0, better=0.3)
    first, second = Sample(found.log, np.full((2, 2), [0.1, 0.9]), np.full((2, 2), 0.5)).split(0.5)
    some = replace(first, batch=take_rows(first.batch, first.batch.action == 0))
    estimates = [
        sample_test(
            some, second, 0.9, Standard(estimator="dr", bound="student-t", reward_range=x)
        ).document["estimated_gain"]
        for x in ((0, 1), (-9, 3))
    ]
    assert estimates[0] == pytest.approx(estimates[1], abs=1e-12)
