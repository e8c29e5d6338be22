"""--deterministic: a rule in every state that changes, tested and written as such."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot import NotAvailableError, ParameterError
from surefoot.advice import held_out_gain
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.algorithms.one_action import MIXTURE, MODE, OneAction, with_one_action
from surefoot.evidence import units_of_batch

DATA = Path(surefoot.__file__).parent / "data"
LOG, RULE = DATA / "wet_chicken.csv", DATA / "wet_chicken_rule.csv"
NAMES = ("priced-soft-spibb", "exact-soft-spibb", "pi-b-spibb", "ramdp+lower-exact-soft-spibb")


def river() -> surefoot.Problem:
    return surefoot.problem(LOG, gamma=0.95, pi_b=RULE, reward_range=(0, 4))


def alone(pi: np.ndarray) -> np.ndarray:
    return pi.max(axis=1) == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_what_changes_does_one_action_and_the_rest_stays(name: str) -> None:
    problem = river()
    found = surefoot.improve(problem, OneAction(chosen_algorithm(problem, name)))
    pi, pi_b = np.asarray(found.pi), np.asarray(problem.pi_b)
    assert found.status.ok
    same = np.abs(pi - pi_b).max(axis=1) == 0
    assert (alone(pi) | same).all() and (alone(pi) & ~same).any()


def test_the_best_mixture_is_worth_no_less_than_the_best_rule_within_the_same_limits() -> None:
    problem = river()
    free = surefoot.algorithm("exact-soft-spibb", epsilon=1.0, delta=1.0)
    values = [
        float(surefoot.evaluate_at_start(problem.model, np.asarray(x.pi), problem.start))
        for x in (surefoot.improve(problem, free), surefoot.improve(problem, OneAction(free)))
    ]
    assert (
        values[0]
        >= values[1]
        > float(surefoot.evaluate_at_start(problem.model, problem.pi_b, problem.start))
    )


def test_mode_does_the_most_frequent_action_where_nothing_changes() -> None:
    problem = river()
    algorithm = surefoot.PricedSoftSPIBB()
    pi = np.asarray(surefoot.improve(problem, OneAction(algorithm, MODE)).pi)
    assert alone(pi)[np.asarray(problem.n_sa).sum(axis=1) > 0].all()
    stays = np.asarray(OneAction(algorithm, MODE).untouched(problem))
    kept = np.abs(pi - stays).max(axis=1) == 0
    often = np.asarray(problem.pi_b).argmax(axis=1)
    tried = np.asarray(problem.n_sa)[np.arange(len(pi)), often] > 0
    assert (pi.argmax(axis=1) == often)[kept & tried].all() and (kept & tried).sum() > 10
    never = OneAction(algorithm, MODE).untouched(problem)[~np.asarray(problem.seen).any(axis=1)]
    assert never.size == 0 or (np.asarray(never) < 1).all()


@pytest.mark.parametrize("otherwise", [MIXTURE, MODE])
def test_what_is_tested_is_the_rule_that_is_written(otherwise: str, tmp_path: Path) -> None:
    advice = surefoot.advise(
        LOG, gamma=0.95, baseline=RULE, reward_range=(0, 4), deterministic=otherwise
    )
    assert advice.supported
    np.testing.assert_array_equal(advice.candidate, advice.gain.pi)
    changed = np.abs(advice.candidate - advice.pi_b).max(axis=1) > 1e-9
    assert alone(advice.candidate)[changed].all()
    advice.save(tmp_path, page=False)
    with open(tmp_path / "policy.csv", newline="") as file:
        rows = [
            (x["state"], float(x["probability"]), float(x["baseline"]))
            for x in csv.DictReader(file)
        ]
    moved = {s for s, p, b in rows if abs(p - b) > 1e-9}
    assert moved and {p for s, p, _ in rows if s in moved} == {0.0, 1.0}
    assert advice.document["algorithm"]["parameters"]["deterministic"] == otherwise


def test_a_state_whose_new_action_the_other_half_hardly_saw_stays_whole() -> None:
    rng = np.random.default_rng(0)
    n = 200
    state = np.append(np.zeros(n, dtype=int), np.ones(6, dtype=int))
    action = np.append(rng.integers(0, 2, n), [1, 0, 0, 0, 0, 0])
    problem = surefoot.problem(
        state=state, action=action, reward=1.0 * action, next_state=state,
        episode=np.arange(len(state)), pi_b=[[0.5, 0.5], [0.9, 0.1]], gamma=0.0,
    )  # fmt: skip
    units = units_of_batch(problem.log, 0.0)
    greedy = OneAction(surefoot.algorithm("pi-b-spibb", n_wedge=0))
    found = held_out_gain(problem, units, greedy)
    assert found.pi.tolist() == [[0.0, 1.0], [0.9, 0.1]]


def test_it_is_refused_in_words_where_there_is_no_best_rule() -> None:
    with pytest.raises(ParameterError, match=r"'mixture' .* or 'mode' .* got 'greedy'"):
        OneAction(surefoot.PricedSoftSPIBB(), "greedy")
    with pytest.raises(NotAvailableError, match="basic-rl limits no single state"):
        with_one_action(surefoot.BasicRL(), MIXTURE)
    with pytest.raises(NotAvailableError, match="take its exact version"):
        surefoot.improve(
            river(), OneAction(surefoot.algorithm("approx-soft-spibb", epsilon=1, delta=1))
        )
    with pytest.raises(ParameterError, match="refit"):
        surefoot.advise(
            LOG, gamma=0.95, baseline=RULE, reward_range=(0, 4), deterministic=MODE, refit=True
        )


def test_a_guard_is_kept_by_the_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 3000
    state, action = rng.integers(0, 3, n), rng.integers(0, 2, n)
    table: dict[str, Any] = {
        "episode": np.arange(n), "state": state, "action": action, "terminal": np.ones(n, dtype=int),
        "reward": 0.5 * action + rng.normal(0, 0.1, n),
        "cost": action * ((state == 2) - 0.5) + rng.normal(0, 0.1, n),
    }  # fmt: skip
    how = {"gamma": 0.0, "baseline": {s: {0: 0.5, 1: 0.5} for s in range(3)}}
    free = surefoot.advise(table, deterministic=MIXTURE, **how)
    held = surefoot.advise(table, deterministic=MIXTURE, guard=["cost:lower:0:-2,2"], **how)
    assert free.candidate[:3, 1].tolist() == [1.0, 1.0, 1.0]
    assert held.candidate[:3, 1].tolist() == [1.0, 1.0, 0.5]
