"""--most-changes: which changes stay, that the learning half alone chooses them, and that what is
tested, written and said is the restricted policy.
"""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles, worlds
from surefoot.advice import held_out_gain
from surefoot.advice.few_changes import few_changes
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.core.errors import ParameterError
from surefoot.evidence import model_of_units, units_of_batch
from surefoot.evidence.units import random_part


def decisions(seed: int, better: list[float], n: int = 4000) -> surefoot.Problem:
    """One-step episodes; state s comes with probability in proportion to s + 1, and action 2 of
    three pays better[s] more.
    """
    rng = np.random.default_rng(seed)
    share = np.arange(1, len(better) + 1.0)
    state = rng.choice(len(better), n, p=share / share.sum())
    action = rng.choice(3, n, p=[0.5, 0.2, 0.3])
    reward = np.array(better)[state] * (action == 2) + rng.normal(0, 0.3, n)
    return surefoot.problem(
        state=state, action=action, reward=reward, next_state=state, episode=np.arange(n),
        pi_b=[[0.5, 0.2, 0.3]] * len(better), gamma=0.0,
    )  # fmt: skip


def restricted(problem: surefoot.Problem, pi: np.ndarray, most: int) -> list[int]:
    """The states that change, judged by the whole log."""
    units = units_of_batch(problem.log, problem.gamma)
    found, _ = few_changes(problem, units, np.ones(units.number, dtype=bool), pi, most)
    return list(np.flatnonzero(np.abs(found - problem.pi_b).max(axis=1) > 0))


def value(problem: surefoot.Problem, pi: np.ndarray) -> float:
    model = model_of_units(problem, units_of_batch(problem.log, problem.gamma))
    return model.chain(model.rows(pi)).at_start


def test_in_decisions_without_consequences_visits_times_advantage_ranks_the_states() -> None:
    problem = decisions(0, [0.9, 0.1, 0.5, 0.2])  # times 1, 2, 3, 4 visits: 0.9, 0.2, 1.5, 0.8
    pi = np.tile([0.0, 0.0, 1.0], (4, 1))
    assert restricted(problem, pi, 1) == [2]
    assert restricted(problem, pi, 2) == [0, 2]
    assert restricted(problem, pi, 3) == [0, 2, 3]
    assert restricted(problem, pi, 4) == [0, 1, 2, 3]


def test_a_change_that_loses_is_left_out_even_if_there_is_room() -> None:
    problem = decisions(1, [0.9, -0.5, 0.5, -0.2])
    assert restricted(problem, np.tile([0.0, 0.0, 1.0], (4, 1)), 3) == [0, 2]


def corridor(n: int = 3000) -> surefoot.Problem:
    """Three places: from 0 action 1 leads to 1, else to the side place 2 that ends. In 1, action 1
    pays 4, action 0 costs 1; in 2, action 1 pays 1. The baseline chooses action 1 once in five.
    """
    rng = np.random.default_rng(0)
    rows: dict[str, list[float]] = {
        k: [] for k in ("episode", "state", "action", "reward", "next_state", "terminal")
    }

    def add(*row: float) -> None:
        for column, x in zip(rows.values(), row, strict=True):
            column.append(x)

    for e in range(n):
        first, second = (rng.random(2) < 0.2).astype(int)
        place = 1 if first else 2
        pays = (4 if second else -1) if place == 1 else second
        add(e, 0, first, 0, place, 0)
        add(e, place, second, pays, -1, 1)
    return surefoot.problem(
        **{k: np.array(x) for k, x in rows.items()}, pi_b=[[0.8, 0.2]] * 3, gamma=0.9,
    )  # fmt: skip


def test_changes_that_need_each_other_stay_together() -> None:
    problem = corridor()
    n = problem.n_states
    pi = np.tile([0.0, 1.0], (n, 1))
    pi[3:] = problem.pi_b[3:]
    assert restricted(problem, pi, 2) == [0, 1]  # worth 3.6; each of them alone 0.1 and 0.7
    assert restricted(problem, pi, 1) == [1]  # 0.9 0.2 0.8 5 = 0.72; 2 alone 0.9 0.8 0.8 1 = 0.58


def test_no_other_set_of_two_is_better_in_most_small_worlds_and_none_by_much() -> None:
    shares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        world = worlds.random_mdp(rng, n_states=8, n_actions=3)
        problem = worlds.problem(world, worlds.sample(world, rng, 60, 20), pi_b=world.pi_b)
        pi = np.asarray(surefoot.improve(problem, "basic-rl").pi)
        moved = np.flatnonzero(np.abs(pi - problem.pi_b).max(axis=1) > 1e-9)

        def worth(kept: Any, problem: Any = problem, pi: Any = pi) -> float:
            mine = np.isin(np.arange(len(pi)), kept)[:, None]
            return value(problem, np.where(mine, pi, problem.pi_b))

        base = worth([])
        best = max(worth(pair) for pair in itertools.combinations(moved, 2)) - base
        chosen = worth(restricted(problem, pi, 2)) - base
        assert chosen >= 0
        shares.append(chosen / best if best > 0 else 1.0)
    assert np.mean(np.array(shares) > 1 - 1e-9) >= 0.8
    assert np.mean(shares) > 0.95


def test_the_learning_half_alone_chooses_the_states() -> None:
    problem = decisions(3, [0.5, 0.5, 0.5, 0.5, 0.5], n=2000)
    units, algorithm = units_of_batch(problem.log, 0.0), chosen_algorithm(problem)
    first = held_out_gain(problem, units, algorithm, most_changes=2, seed=4)
    learning = random_part(units.number, units.number // 2, np.random.default_rng(4))
    reward = np.where(learning[units.unit], problem.log.reward, -problem.log.reward)
    turned = problem.with_log(replace(problem.log, reward=reward))
    again = held_out_gain(
        turned, units_of_batch(turned.log, 0.0), algorithm, most_changes=2, seed=4
    )
    assert (first.outside == again.outside).all()
    assert first.outside.sum() == 3
    assert first.evidence.estimate > 0 > again.evidence.estimate


def test_what_is_tested_is_the_restricted_policy() -> None:
    problem = decisions(5, [0.5, 0.4, 0.3, 0.2], n=3000)
    units, algorithm = units_of_batch(problem.log, 0.0), chosen_algorithm(problem)
    all_of_it = held_out_gain(problem, units, algorithm, seed=1)
    few = held_out_gain(problem, units, algorithm, most_changes=1, seed=1)
    assert (np.abs(few.pi - problem.pi_b).max(axis=1) > 0).sum() == 1
    assert 0 < few.evidence.estimate < 0.7 * all_of_it.evidence.estimate
    learning = random_part(units.number, units.number // 2, np.random.default_rng(1))
    compared = model_of_units(problem, units, ~learning).compare(few.pi)
    assert few.evidence.estimate == pytest.approx(compared.gain.value)


@pytest.mark.parametrize("most", [0, -1, 2.0, "3", True])
def test_a_number_of_changes_that_is_none_is_refused(most: Any) -> None:
    problem = decisions(0, [0.5, 0.5], n=100)
    with pytest.raises(ParameterError, match="whole number of at least 1"):
        held_out_gain(
            problem, units_of_batch(problem.log, 0.0), chosen_algorithm(problem), most_changes=most
        )


def test_the_command_writes_what_was_tested_and_says_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, rule = logfiles.good_log(tmp_path, n=3000), logfiles.rule(tmp_path)
    given = ("--gamma", 0.5, "--baseline", rule, "--most-changes", 1, "--out", tmp_path / "out")
    code, text, _ = logfiles.run(monkeypatch, capsys, "improve", log, *given, "--explain")
    assert code == 0
    assert "--most-changes 1: those that are worth most" in logfiles.one_line(text)
    changes = json.loads((tmp_path / "out" / "summary.json").read_text())["changes"]
    assert (changes["most_changes"], changes["states_changed"]) == (1, 1)
    assert changes["states_left_out"] == 2
    with open(tmp_path / "out" / "policy.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({x["state"] for x in rows if x["probability"] != x["baseline"]}) == 1
    with open(tmp_path / "out" / "pairs.csv", newline="") as file:
        why = {x["state"]: x["why"] for x in csv.DictReader(file)}
    assert (
        list(why.values()).count("outside the changes that are worth most (--most-changes 1)") == 2
    )
    assert "Outside the changes that are worth most (--most-changes 1)" in (
        tmp_path / "out" / "report.html"
    ).read_text("utf-8")


@pytest.mark.parametrize("most", ["0", "-2", "2.5", "few"])
def test_the_command_refuses_other_numbers_and_writes_nothing(
    most: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logfiles.good_log(tmp_path)
    given = ("--gamma", 0.5, "--most-changes", most, "--out", tmp_path / "out")
    code, _, error = logfiles.run(monkeypatch, capsys, "improve", log, *given)
    assert code == 2
    assert "--most-changes" in error
    assert not (tmp_path / "out").exists()
