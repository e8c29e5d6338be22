"""Missing episodes, found by their numbers; rewards that differ with the propensity."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.advice import learn_and_test
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.checks import check_log, vetoes
from surefoot.checks.finding import Finding
from surefoot.logs import read_log


def numbered(labels: list[Any], better: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """One decision an episode, in this order."""
    rng = np.random.default_rng(seed)
    n = len(labels)
    action = rng.integers(0, 2, n)
    reward = (rng.random(n) < 0.3 + better * action).astype(float)
    return {
        "episode": labels, "state": ["s"] * n, "action": action, "reward": reward,
        "terminal": [1] * n,
    }  # fmt: skip


def found(columns: dict[str, Any]) -> Finding | None:
    log = read_log(columns, threads=1)
    return next((x for x in check_log(log, gamma=0.0) if x.key == "missing"), None)


@pytest.mark.parametrize("name", ["{}", "patient-{}", "{:05d}"])
def test_numbers_that_are_not_there_are_counted(name: str) -> None:
    labels = [name.format(i) for i in range(100, 300) if i % 10 != 3]
    it = found(numbered(labels))
    assert it is not None and it.vetoes and it.level == "warning"
    assert it.numbers["missing"] == 20 and "20 of the numbers" in it.sentence


@pytest.mark.parametrize(
    "labels",
    [
        [f"e{i}" for i in range(200)],
        [f"e{3 * i}" for i in range(200)],  # no count of episodes
        [f"{i:x}z" for i in range(200)],  # no numbers at the end
        [f"{year}{week:02d}" for year in (2024, 2025) for week in range(1, 53)],
        [f"a{i}" for i in range(100)] + [f"b{i}" for i in range(500, 600)],
        list(range(10)),
    ],
)
def test_numbers_that_are_all_there_or_do_not_count_up_say_nothing(labels: list[Any]) -> None:
    assert found(numbered(labels)) is None


@pytest.mark.parametrize(
    ("gone", "declared", "supported"),
    [(1, (0, 1), True), (1, None, True), (14, (0, 1), True), (150, (0, 1), False)],
)
def test_missing_episodes_forbid_the_word_unless_they_could_not_change_it(
    gone: int, declared: tuple[float, float] | None, supported: bool
) -> None:
    """One missing episode of 1,500 cannot undo a gain of .2, nor can 14; 150 can."""
    columns = numbered([f"e{i:04d}" for i in range(1500) if i % 7 != 3 or i >= 7 * gone], 0.4)
    log = read_log(columns, threads=1)
    problem = log.problem(0.0, np.full((log.n_states, 2), 0.5), reward_range=declared)
    judged = learn_and_test(log, problem, chosen_algorithm(problem))
    assert judged.supported == supported
    assert ("episodes are missing" in judged.reason) != supported
    if supported:
        assert any("Had all of them been as bad as can be" in x for x in judged.notes)
    else:
        known = [x for x in check_log(log, gamma=0.0) if x.key == "missing"]
        again = learn_and_test(log, problem, chosen_algorithm(problem), against=known)
        assert again.verdict == judged.verdict  # as `compare` asks
        waived = learn_and_test(log, problem, chosen_algorithm(problem), despite=("missing",))
        assert waived.verdict == "supported despite missing"


def test_where_one_in_a_hundred_is_missing_nothing_can_be_proved() -> None:
    for gone, vetoed in ((1, False), (30, True)):
        log = read_log(numbered([i for i in range(300) if i % 7 != 3 or i >= 7 * gone]), threads=1)
        assert ("missing" in {x.key for x in vetoes(log)}) == vetoed


@pytest.mark.parametrize(("success", "level"), [((0.2, 0.6), "warning"), ((0.4, 0.4), "ok")])
def test_rewards_that_differ_with_the_propensity_are_said(
    success: tuple[float, float], level: str
) -> None:
    """Two loggers, and success by logger: in each pair the effect has another sign."""
    rng = np.random.default_rng(1)
    who = rng.integers(0, 2, 1200)
    share = np.array([0.2, 0.8])[who]
    new = rng.random(1200) < share
    log = read_log(
        {
            "state": ["s"] * 1200, "action": np.where(new, "new", "old"),
            "reward": (rng.random(1200) < np.array(success)[who]).astype(float),
            "propensity": np.where(new, share, 1 - share),
        },
        bandit=True,
    )  # fmt: skip
    (it,) = (x for x in check_log(log, gamma=0.0) if x.name == "caseload")
    assert it.level == level and not it.vetoes


def test_a_baseline_file_whose_weights_are_too_large_is_named() -> None:
    """The log takes a0 with .9, the file says .8; no action matters: weights of "always a0" average
    1.6.
    """
    rng = np.random.default_rng(2)
    n, steps = 600, 4
    action = (rng.random((n, steps)) >= 0.9).astype(int)
    problem = surefoot.problem(
        state=np.zeros(n * steps, dtype=int), action=action.reshape(-1),
        reward=(rng.random(n * steps) < 0.5).astype(float),
        next_state=np.tile([0, 0, 0, 1], n), episode=np.repeat(np.arange(n), steps),
        time=np.tile(np.arange(steps), n), terminal=np.tile([0, 0, 0, 1], n) > 0, gamma=0.9,
        n_states=2, n_actions=2, pi_b=np.tile([0.8, 0.2], (2, 1)), reward_range=(0, 1),
    )  # fmt: skip
    from surefoot.evidence import Standard
    from surefoot.evidence.episode_values import episode_values

    standard = Standard(reward_range=(0, 1), horizon=4)
    always, order = np.array([[1.0, 0.0], [0.5, 0.5]]), rng.permutation(n)
    assert problem.log is not None
    wrong, right = (
        episode_values(problem.log, always, np.tile([b, 1 - b], (2, 1)), 0.9, standard)
        for b in (0.8, 0.9)
    )
    assert "must average 1" in wrong.too_heavy(order)
    assert right.too_heavy(order) == ""


def test_where_weights_decide_a_baseline_that_agrees_only_roughly_forbids_the_word() -> None:
    """600 decisions, of which 21 % take the second action; the file says 28 % (p = 0.02). The test
    of means does not need the file to be exact, weights do.
    """
    rng = np.random.default_rng(2)
    action = (rng.random(600) < 0.2).astype(int)
    reward = (rng.random(600) < np.where(action == 1, 0.9, 0.2)).astype(float)
    log = read_log(
        {
            "episode": np.arange(600), "state": np.zeros(600, dtype=int), "action": action,
            "reward": reward, "terminal": np.ones(600),
        },
        threads=1,
    )  # fmt: skip
    problem = log.problem(0.0, {0: {0: 0.72, 1: 0.28}}, reward_range=(0, 1))
    algorithm = chosen_algorithm(problem)
    assert learn_and_test(log, problem, algorithm).supported
    module = importlib.import_module("surefoot.advice.learn_and_test")
    test = module.held_out_gain
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "held_out_gain", lambda *x, **y: test(*x, **{**y, "markov": False}))
        judged = learn_and_test(log, problem, algorithm)
    assert judged.gain is not None and judged.gain.evidence.validity == "finite-sample"
    assert not judged.supported and "agree with the baseline only roughly" in judged.reason
