"""A policy with its labels: read, written, shown, and acted by."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot import Labels, Policy

LABELS = Labels(("low", "mid", "high"), ("keep", "try"))
PI = np.array([[0.75, 0.25], [0.0, 1.0], [0.5, 0.5]])


def policy(**given: Any) -> Policy:
    return Policy(**({"pi": PI, "labels": LABELS} | given))


def test_a_saved_policy_comes_back(tmp_path: Path) -> None:
    made = policy(baseline=np.full((3, 2), 0.5), count=np.array([[3.0, 1], [0, 2], [1, 1]]))
    again = surefoot.load_policy(made.save(tmp_path / "new" / "policy.csv"))
    assert again.labels.states == LABELS.states and again.labels.actions == LABELS.actions
    assert np.array_equal(again.pi, PI)
    text = (tmp_path / "new" / "policy.csv").read_text()
    assert text.splitlines()[:3] == [
        "state,action,probability,baseline,count",
        '"low","keep",0.75,0.5,3',
        '"low","try",0.25,0.5,1',
    ]


def test_states_of_several_columns_come_back(tmp_path: Path) -> None:
    labels = Labels((("i", 1), ("j", 2)), ("x", "y", "z"), ("ward", "count"))
    made = Policy(pi=np.eye(3)[:2], labels=labels)
    again = surefoot.load_policy(made.save(tmp_path / "policy.csv"))
    assert again.labels.state_columns == ("ward", "state count")
    assert again.labels.states == (("i", "1"), ("j", "2"))
    assert again.act(["j", 2], np.random.default_rng(0)) == "y"


def test_it_draws_actions_by_label_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    drawn = [policy().act("low", rng) for _ in range(2000)]
    assert abs(drawn.count("keep") / 2000 - 0.75) < 0.04
    assert policy().act("mid", rng) == "try"


def test_an_unknown_state_is_answered_with_the_nearest() -> None:
    with pytest.raises(surefoot.PolicyError, match=r"state 'lo' is not in the policy.*'low'"):
        policy().probabilities("lo")


def test_nothing_is_chosen_where_an_episode_has_ended() -> None:
    ended = policy(pi=PI * [[1], [1], [0]])
    with pytest.raises(surefoot.PolicyError, match="'high' ends an episode"):
        ended.act("high", np.random.default_rng(0))


def test_states_elsewhere_are_acted_in_and_written(tmp_path: Path) -> None:
    made = policy(elsewhere=(("top", "jump", 1.0),))
    assert made.act("top", np.random.default_rng(0)) == "jump"
    assert surefoot.load_policy(made.save(tmp_path / "p.csv")).probabilities("top")["jump"] == 1


def test_without_labels_the_codes_are_the_labels() -> None:
    assert Policy(pi=PI).act(np.int64(1), np.random.default_rng(0)) == 1


def test_a_policy_of_another_shape_than_its_labels_is_refused() -> None:
    with pytest.raises(surefoot.PolicyError, match=r"\[3, 2\], got \[2, 2\]"):
        policy(pi=PI[:2])


def test_it_goes_into_the_order_of_other_labels() -> None:
    other = Labels(("mid", "top", "low"), ("try", "hold", "keep"))
    played = np.full((3, 3), 1 / 3)
    found = policy().over(played, other)
    assert found.tolist() == [[1, 0, 0], [1 / 3] * 3, [0.25, 0, 0.75]]
    assert Policy(pi=PI).over(np.zeros((4, 2))).tolist() == [*PI.tolist(), [0, 0]]
    count = np.array([[3, 0], [0, 0], [0, 1]])  # its log never visited state 1
    seen = Policy(pi=PI, count=count).over(np.full((3, 2), 0.5))
    assert seen.tolist() == [PI[0].tolist(), [0.5, 0.5], PI[2].tolist()]


@pytest.mark.parametrize(
    "library",
    [*(pytest.param(x, marks=pytest.mark.slow) for x in ("pandas", "polars", "pyarrow")), "none"],
)
def test_a_frame_is_of_the_library_that_is_there(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ("pandas", "polars", "pyarrow")
    if library != "none":
        pytest.importorskip(library)
    missing = others[: others.index(library) if library in others else 3]
    for name in missing:
        monkeypatch.delitem(sys.modules, name, raising=False)

    class Missing:
        def find_spec(self, name: str, *_: object) -> None:
            if name.split(".")[0] in missing:
                raise ModuleNotFoundError(name)

    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    frame = policy().to_frame()
    assert type(frame).__module__.split(".")[0] == ("builtins" if library == "none" else library)
    assert str(frame["state"][0]) == "low"
    assert len(frame["probability"]) == 5


def test_a_solution_has_the_labels_of_its_log_and_can_be_saved(tmp_path: Path) -> None:
    log = logfiles.good_log(tmp_path)
    rule = logfiles.rule(tmp_path)
    problem = surefoot.problem(log, gamma=0.9, pi_b=rule)
    solution = surefoot.improve(problem, surefoot.LowerExactSoftSPIBB(epsilon=1.0, delta=1.0))
    assert solution.labels == problem.labels == surefoot.read_log(log).labels
    s, a = solution.labels.state_code("low"), solution.labels.action_code("try")
    assert solution.policy.probabilities("low")["try"] == solution.pi[s, a]
    again = surefoot.load_policy(solution.save(tmp_path / "policy.csv"))
    states = solution.labels.states
    assert np.array_equal(again.over(np.zeros(solution.pi.shape), solution.labels), solution.pi)
    frame = solution.policy.to_frame()
    assert sorted(set(frame["state"])) == sorted(states)
    assert list(frame)[-2:] == ["baseline", "count"]


def test_a_batch_has_no_one_policy() -> None:
    problem = surefoot.problem(
        state=[0, 1], action=[0, 0], reward=[0.0, 1.0], next_state=[1, 0], episode=[0, 0], gamma=0.5
    )
    many = replace(
        problem,
        counts=surefoot.Counts(
            *(x[None] for x in (problem.counts.n_sas, problem.counts.r_sas, problem.counts.r_rest)),
            2,
            1,
        ),
        **{x: getattr(problem, x)[None] for x in ("pi_b", "start", "terminal", "allowed")},
        log=None,
    )
    with pytest.raises(surefoot.PolicyError, match="batch"):
        surefoot.improve(many, "basic-rl").save("nowhere.csv")


def test_it_plays_in_gymnasium(tmp_path: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    from surefoot.logs import rollout_columns

    environment = gymnasium.make("FrozenLake-v1", is_slippery=False)
    rng = np.random.default_rng(1)
    uniform = Policy(pi=np.full((16, 4), 0.25))
    steps = rollout_columns(environment, uniform.act, rng, episodes=400)
    problem = surefoot.problem(steps, gamma=0.95, reward_range=(0, 1))
    path = surefoot.improve(problem, "basic-rl").save(tmp_path / "policy.csv")
    learned, total = surefoot.load_policy(path), 0.0
    for seed in range(5):
        state, ended = environment.reset(seed=seed)[0], False
        while not ended:
            action = learned.act(state, rng)
            state, reward, terminal, truncated, _ = environment.step(int(action))
            total, ended = total + float(reward), terminal or truncated
    assert total == 5
