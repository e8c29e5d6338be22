"""The verdict of `surefoot improve`: what forbids it, what it is against, where it counts, and
what it says it rests on.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from support.logfiles import one_line
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.evidence import model_of_units, units_of_batch
from surefoot.evidence.value_on_log import own_return

Run = Any


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def coins(
    path: Path,
    reward: Any,
    shares: Any,
    n: int = 2000,
    seed: int = 0,
    header: tuple[str, ...] = logfiles.VISIT,
) -> Path:
    """One-step episodes in the order of time: action b with probability shares(passed),
    reward(rng, b, passed).
    """
    rng = np.random.default_rng(seed)
    passed = np.arange(n) / n
    b = rng.random(n) < shares(passed)
    r = reward(rng, b, passed)
    return logfiles.write(
        path,
        header,
        [(f"v{i:05d}", 0, "s", "b" if b[i] else "a", repr(float(r[i])), 1) for i in range(n)],
    )


def drifting(path: Path, better: float) -> Path:
    """The world gets better while b becomes common; at every moment b is better by so much."""
    return coins(
        path,
        lambda rng, b, t: 2 * t + better * b + rng.normal(size=len(b)),
        lambda t: 0.1 + 0.6 * t,
    )


def test_a_world_that_drifts_with_its_baseline_forbids_a_promise_unless_waived_by_name(
    tmp_path: Path, run: Run
) -> None:
    given = (
        "improve",
        drifting(tmp_path / "log.csv", 1.0),
        "--gamma",
        0.9,
        "--out",
        tmp_path / "out",
    )
    code, text, _ = run(*given)
    assert code == 3
    assert text.startswith("verdict   NOT SUPPORTED")
    assert "outcomes changed over time" in text and "--despite" in text
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {x["key"] for x in found["against"]} >= {"drift", "policy-drift"}
    assert run(*given, "--despite", "drift")[0] == 3  # one of two
    code, text, _ = run(*given, "--despite", "drift,policy-drift")
    assert code == 5  # as asked
    assert text.startswith("verdict   SUPPORTED despite drift, policy-drift: ")
    assert "outcomes changed over time" in one_line(text)
    assert "while the log was made: FOUND TO BE FALSE" in one_line(text)
    text = one_line(run(*given, "--despite", "drift,policy-drift", "--explain")[1])
    assert "despite drift, as asked: outcomes changed over time" in text
    assert "the world stayed the same while the log was made: FOUND TO BE FALSE" in text
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert found["despite"] == ["drift", "policy-drift"] and all(
        x["waived"] for x in found["against"]
    )
    assert found["verdict"] == "supported despite drift, policy-drift" and found["supported"]
    assert "Passed over, as asked: outcomes changed over time" in found["reason"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "SUPPORTED despite drift, policy-drift" in page
    assert '<div class="verdict">' in page  # not green


def test_a_waiver_of_what_was_not_found_leaves_the_verdict_as_it_is(
    tmp_path: Path, run: Run
) -> None:
    given = ("improve", logfiles.good_log(tmp_path), "--gamma", 0.9, "--out", tmp_path / "out")
    code, text, _ = run(*given, "--despite", "drift,copies")
    assert code == 0 and text.startswith("verdict   SUPPORTED: ")
    assert '<div class="verdict good">' in (tmp_path / "out" / "report.html").read_text()


def test_what_time_explains_is_no_gain_even_where_drift_is_waived(tmp_path: Path, run: Run) -> None:
    given = (
        "improve",
        drifting(tmp_path / "log.csv", -0.3),
        "--gamma",
        0.9,
        "--out",
        tmp_path / "out",
    )
    code, text, _ = run(*given, "--despite", "drift,policy-drift")
    assert code == 3
    assert (
        "of the gain may be explained by when, or after what, the actions were taken"
        in one_line(text)
    )


def test_an_unknown_waiver_is_an_error(tmp_path: Path, run: Run) -> None:
    code, _, error = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--despite",
        "reason",
        "--out",
        tmp_path / "out",
    )
    assert code == 2
    assert "drift, policy-drift, markov, baseline, copies, contradictions" in error.replace(
        "\n", " "
    )


def test_a_contradicted_baseline_never_ends_with_exit_code_0(tmp_path: Path, run: Run) -> None:
    rows = [(s, a, 0.5) for s in ("low", "mid", "high") for a in ("keep", "try")]
    wrong = logfiles.write(tmp_path / "wrong.csv", ("state", "action", "probability"), rows)
    code, text, _ = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--baseline",
        wrong,
        "--out",
        tmp_path / "out",
    )
    assert code == 3
    assert "NOT SUPPORTED" in text and "the baseline did not make this log" in text


def test_every_output_names_its_assumptions(tmp_path: Path, run: Run) -> None:
    code, text, _ = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--out",
        tmp_path / "out",
        "--explain",
    )
    assert code == 0
    first, reason = one_line(text).split(", the range seen ")
    assert first.startswith("verdict SUPPORTED: held-out data show that the new policy earns more")
    assert "than the baseline on average. Condition: rewards stay within " in first
    assert reason.startswith("Asymptotic test at 5%: the gain on held-out data is ")
    text = one_line(text)
    kept = json.loads((tmp_path / "out" / "summary.json").read_text())["assumptions"]
    for words in (
        "no hidden cause",
        "the world tomorrow",
        "Markov",
        "no reward lies outside",
        "it was estimated",
    ):
        assert words in text and any(words in x for x in kept)
    _, text, _ = run(
        "improve",
        logfiles.good_log(tmp_path),
        "--gamma",
        0.9,
        "--reward-range",
        "-5,5",
        "--out",
        tmp_path / "out",
    )
    assert "no reward lies outside" not in text
    assert text.splitlines()[0].endswith("the new policy earns more than the baseline on average")


def test_what_the_log_cannot_exclude_is_said_and_a_declared_catastrophe_forbids_a_promise(
    tmp_path: Path, run: Run
) -> None:
    log = coins(
        tmp_path / "log.csv",
        lambda rng, b, t: b * 1.0 + 0.1 * rng.normal(size=len(b)),
        lambda t: np.full(len(t), 0.05),
        600,
    )
    given = ("improve", log, "--gamma", 0.9, "--out", tmp_path / "out")
    code, text, _ = run(*given, "--reward-range", "-2,2", "--explain")
    assert code == 0
    text = one_line(text)
    assert "'b' in 's', tested " in text and "the interval allows for" in text
    assert "went as badly as the declared rewards allow" in text
    code, text, _ = run(*given, "--reward-range", "-1000,2")
    assert code == 3
    text = one_line(text)
    assert "no gain is shown on held-out data (estimate 0." in text
    assert "if nothing worse can happen than what was seen" in text
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["cannot_exclude"]
    assert (found["state"], found["action"], found["outcome"]) == ("s", "b", -1000)
    assert found["not_excluded_one_in"] == pytest.approx(found["visits"] / np.log(20))
    assert found["could_take"] > found["gain"]


def test_gains_count_against_the_policy_that_made_the_log_forced_changes_included(
    tmp_path: Path, run: Run
) -> None:
    """The rule mostly does what is best. It is forbidden: what is left gains by itself, and is
    far worse than what ran.
    """
    rng = np.random.default_rng(0)
    action = rng.choice(["best", "fair", "poor"], size=1500, p=[0.8, 0.1, 0.1])
    pays = {"best": 1.0, "fair": 0.5, "poor": 0.0}
    rows = [(f"v{i:05d}", 0, "s", a, pays[a] + 0.1 * rng.normal(), 1) for i, a in enumerate(action)]
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, rows)
    rule = logfiles.write(
        tmp_path / "rule.csv",
        ("state", "action", "probability"),
        [("s", "best", 0.8), ("s", "fair", 0.1), ("s", "poor", 0.1)],
    )
    allowed = logfiles.write(
        tmp_path / "allowed.csv", ("state", "action"), [("s", "fair"), ("s", "poor")]
    )
    given = ("--gamma", 0.9, "--allowed", allowed, "--renormalise", "--out", tmp_path / "out")
    for baseline in (("--baseline", rule), ()):
        assert "forbidden actions were taken out of" in run("improve", log, *given, *baseline)[1]
        code, text, _ = run("improve", log, *given, *baseline, "--explain")
        found = json.loads((tmp_path / "out" / "summary.json").read_text())
        assert code == 3
        assert "WORSE" in text
        text = one_line(text)
        assert found["worth"]["held_out"]["gain"] < -0.3
        assert found["worth"]["over_renormalised"] > 0.1
        assert found["baseline"]["renormalised"] is True
        assert "gains are against the policy that made the log" in text
        left = "the baseline without its forbidden actions, which was not tested: in sample -0."
        assert found["policy_is"].startswith(left)
        assert "baseline, unchanged" not in text


@pytest.mark.parametrize("how", ["given", "estimated", "smoothed", "one of several"])
def test_python_answers_as_the_command_does_where_actions_are_forbidden(
    how: str, tmp_path: Path, run: Run
) -> None:
    rng = np.random.default_rng(0)
    n, names = 1200, ("best", "fair", "poor")
    action = rng.choice(3, size=n, p=[0.8, 0.1, 0.1])
    reward = np.array([1.0, 0.5, 0.0])[action] + 0.1 * rng.normal(size=n)
    rows = [
        (i, 0, "s", names[a], repr(float(r)), 1, "xy"[i % 2])
        for i, (a, r) in enumerate(zip(action, reward, strict=True))
    ]
    path = logfiles.write(tmp_path / "log.csv", (*logfiles.VISIT, "who"), rows)
    rule = logfiles.write(
        tmp_path / "rule.csv",
        ("state", "action", "probability"),
        [("s", name, p) for name, p in zip(names, (0.8, 0.1, 0.1), strict=True)],
    )
    forbidden = logfiles.write(tmp_path / "no.csv", ("state", "action"), [("s", "best")])
    options: dict[str, tuple[Any, ...]] = {
        "given": ("--baseline", rule),
        "estimated": (),
        "smoothed": ("--smoothing", 3),
        "one of several": ("--policy-column", "who", "--baseline-policy", "x"),
    }
    given = ("--gamma", 0.9, "--forbidden", forbidden, "--renormalise", *options[how])
    run("improve", path, *given, "--out", tmp_path / "out", "--no-report")
    told = json.loads((tmp_path / "out" / "summary.json").read_text())["worth"]
    log = surefoot.read_log(path, policy="who" if how == "one of several" else None)
    mask = np.array([[name != "best" for name in log.actions]] * log.n_states)
    pi_b = {"given": rule, "smoothed": log.estimated_baseline(3, mask)}.get(how)
    label = "x" if how == "one of several" else None
    problem = log.problem(
        0.9, pi_b, forbidden=forbidden, masked_baseline="renormalise", baseline_policy=label
    )
    found = surefoot.advise(log, problem, chosen_algorithm(problem))
    assert found.gain is not None and found.gain.evidence.estimate < -0.3
    assert found.gain.evidence.estimate == pytest.approx(told["held_out"]["gain"], abs=1e-12)
    assert found.over_renormalised == pytest.approx(told["over_renormalised"], abs=1e-12)


def test_without_episodes_the_start_is_the_distribution_of_visits(tmp_path: Path, run: Run) -> None:
    """Decisions without consequences: b is better by 1 in state x, which is the first row, and
    one of ten decisions.
    """
    rng = np.random.default_rng(0)
    n = 4000
    state = np.where(rng.random(n) < 0.1, "x", "y")
    state[0] = "x"
    b = rng.random(n) < 0.5
    reward = (state == "x") * b * 1.0 + 0.1 * rng.normal(size=n)
    rows = [(state[i], "b" if b[i] else "a", reward[i], state[(i + 1) % n]) for i in range(n)]
    log = logfiles.write(tmp_path / "log.csv", ("state", "action", "reward", "next_state"), rows)
    given = (
        "improve",
        log,
        "--episode",
        "-",
        "--gamma",
        0,
        "--set",
        "epsilon=10",
        "--out",
        tmp_path / "out",
    )
    code, text, _ = run(*given, "--explain")
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert code == 0
    text = one_line(text)
    assert found["start"] == "visits"
    assert found["worth"]["held_out"]["gain"] == pytest.approx(0.05, abs=0.01)
    assert (
        "averages over all states as often as they were visited" in text
        and "from an average visited state on" in text
    )
    run(*given, "--start", "x")
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (found["start"], found["worth"]["held_out"]["gain"]) == (
        "given",
        pytest.approx(0.5, abs=0.05),
    )
    rows = [
        (f"e{i // 4}", i % 4, state[i], "b" if b[i] else "a", reward[i], state[(i + 1) % n])
        for i in range(n)
    ]
    several = logfiles.write(
        tmp_path / "several.csv",
        ("episode", "time", "state", "action", "reward", "next_state"),
        rows,
    )
    run(
        "improve",
        several,
        "--gamma",
        0,
        "--set",
        "epsilon=10",
        "--start",
        "visits",
        "--out",
        tmp_path / "out",
    )
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (found["start"], found["worth"]["held_out"]["gain"]) == (
        "visits",
        pytest.approx(0.05, abs=0.01),
    )


def walk(hidden: bool, n: int = 400) -> surefoot.Problem:
    """Episodes of two steps through one state.

    With `hidden` the second step always pays what the first one did not.
    """
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, n)
    second = 1 - first if hidden else rng.integers(0, 2, n)
    reward = np.stack([first, 2.0 * second], axis=1).reshape(-1)
    return surefoot.problem(
        state=np.zeros(2 * n),
        action=rng.integers(0, 2, 2 * n),
        reward=reward,
        next_state=np.tile([0, -1], n),
        terminal=np.tile([0, 1], n),
        episode=np.repeat(np.arange(n), 2),
        pi_b=[[0.5, 0.5]],
        gamma=0.5,
    )


def test_the_logs_own_mean_return_stands_beside_the_models_baseline() -> None:
    """Half of the steps lead on: the model expects a third step now and then, and is wrong."""
    problem = walk(hidden=True)
    units = units_of_batch(problem.log, 0.5)
    value = model_of_units(problem, units).compare(np.asarray(problem.pi_b)).baseline.value
    found = own_return(problem, value)
    assert found.mean == pytest.approx(0.5 + 0.5 * 2 * 0.5, abs=0.05)
    assert found.contradicts_model
    assert not own_return(problem, found.mean + found.standard_error).contradicts_model
    # a given start is another quantity
    assert own_return(replace(problem, start_episodes=None), value) is None


def covered(draw: Any, truth: float, logs: int = 200) -> float:
    """The share of logs whose 90 % interval for the value of the policy holds the truth."""
    hits = 0
    for seed in range(logs):
        problem, pi = draw(np.random.default_rng(seed))
        parts = units_of_batch(problem.log, problem.gamma)
        low, high = model_of_units(problem, parts).compare(pi).policy.interval()
        hits += low <= truth <= high
    return hits / logs


def test_intervals_contain_the_scatter_of_the_start() -> None:
    def draw(rng: np.random.Generator) -> tuple[surefoot.Problem, np.ndarray]:
        state = (rng.random(60) < 0.3).astype(int)
        problem = surefoot.problem(
            state=state,
            action=rng.integers(0, 2, 60),
            reward=state * 1.0,
            next_state=np.full(60, -1),
            terminal=np.ones(60),
            episode=np.arange(60),
            pi_b=[[0.5, 0.5]] * 2,
            gamma=0.9,
            n_states=2,
        )
        return problem, np.asarray(problem.pi_b)

    assert 0.85 <= covered(draw, 0.3) <= 0.99


def test_intervals_contain_the_scatter_of_rare_outcomes() -> None:
    def draw(rng: np.random.Generator) -> tuple[surefoot.Problem, np.ndarray]:
        n = 300
        problem = surefoot.problem(
            state=np.zeros(n),
            action=(rng.random(n) < 0.2).astype(int),
            reward=(rng.random(n) < 0.02) * 1.0,
            next_state=np.full(n, -1),
            terminal=np.ones(n),
            episode=np.arange(n),
            pi_b=[[0.8, 0.2]],
            gamma=0.9,
            n_actions=2,
        )
        return problem, np.array(
            [[0.0, 1.0], [0.5, 0.5]]
        )  # the rarer action alone: 60 visits, one success

    assert covered(draw, 0.02) >= 0.9


def test_a_state_without_actions_counts_against_the_policy_that_comes_there_more_often() -> None:
    """Action 1 leads to state 1, where the log stops; whoever comes there may find the worst
    value there is.
    """
    rng = np.random.default_rng(0)
    n = 300
    state = np.where(rng.random(n) < 0.5, 0, 2)
    action = rng.integers(0, 2, n)
    follow = np.where(action == 1, 1, np.where(rng.random(n) < 0.5, 0, 2))
    problem = surefoot.problem(
        state=state,
        action=action,
        reward=np.where(state == 0, 1.0, 0.0),
        next_state=follow,
        episode=np.arange(n),
        gamma=0.5,
        pi_b=[[0.5, 0.5]] * 3,
        start=0,
    )
    parts = units_of_batch(problem.log, 0.5)
    there = model_of_units(problem, parts)
    more, less = (there.compare(np.array([[1 - p, p]] * 3)).strict for p in (0.9, 0.1))
    assert more.gain.value < more.policy.value - more.baseline.value - 0.05
    assert less.gain.value < less.policy.value - less.baseline.value - 0.05


@pytest.mark.parametrize("how", ["mask", "smoothing"])
def test_forced_moves_that_cannot_be_checked_count_as_the_worst(
    how: str, tmp_path: Path, run: Run
) -> None:
    """A common state has a sure gain; in 100 rare ones a mask, or smoothing, sends the policy to
    actions that are hardly ever seen.
    """
    rng = np.random.default_rng(0)
    rows = []
    for i in range(2000):
        common = rng.random() < 0.5
        state = "common" if common else f"rare {rng.integers(100):02d}"
        action = (
            ("a" if rng.random() < 0.6 else "b")
            if common
            else ("a" if rng.random() < 0.97 else "b")
        )
        reward = (0.3 * (action == "b") if common else -5.0 * (action == "b")) + 0.3 * rng.normal()
        rows.append((f"v{i:05d}", 0, state, action, reward, 1))
    log = logfiles.write(tmp_path / "log.csv", logfiles.VISIT, rows)
    states = sorted({row[2] for row in rows})
    allowed = [("common", "a"), ("common", "b"), *((s, "b") for s in states if s != "common")]
    mask = logfiles.write(tmp_path / "allowed.csv", ("state", "action"), allowed)
    rule = [
        (s, a, p)
        for s in states
        for a, p in (("a", 0.6 if s == "common" else 0.97), ("b", 0.4 if s == "common" else 0.03))
    ]
    made = logfiles.write(tmp_path / "rule.csv", ("state", "action", "probability"), rule)
    given = ("improve", log, "--gamma", 0.9, "--out", tmp_path / "out")
    assert run(*given, "--baseline", made)[0] == 0  # the common state alone
    forced = (
        ("--baseline", made, "--allowed", mask, "--renormalise")
        if how == "mask"
        else ("--smoothing", 1)
    )
    assert run(*given, *forced)[0] == 3
