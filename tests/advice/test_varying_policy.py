"""Logs whose propensities differ within a pair: several policies made them, or one that learned on
the way. The earlier half makes the policy, the later one tests it, by weights, in order of time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.advice import held_out_gain, learn_and_test
from surefoot.advice.gain import FINITE_SAMPLE, part_problem
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.evidence import Standard, units_of, units_of_batch
from surefoot.evidence.episode_values import episode_values
from surefoot.evidence.units import take_episodes
from surefoot.logs import Log
from surefoot.statistics import uncapped_betting

BASE = np.array([[0.5, 0.5]])


def learned_on_the_way(
    seed: int, contexts: int = 40, rows: int = 1500, better: float = 0.0
) -> dict[str, Any]:
    """One-step rows of a greedy rule that explores 20 %: in every context it prefers the action
    with the better mean so far. Both pay the same, but for `better`.
    """
    rng = np.random.default_rng(seed)
    total, n = np.zeros((contexts, 2)), np.zeros((contexts, 2))
    state = rng.integers(0, contexts, rows)
    action, reward, share = np.zeros(rows, dtype=int), np.zeros(rows), np.zeros(rows)
    for t in range(rows):
        mean = total[state[t]] / np.maximum(n[state[t]], 1)
        p = 0.9 if mean[1] > mean[0] else 0.1 if mean[1] < mean[0] else 0.5
        action[t] = rng.random() < p
        share[t] = p if action[t] else 1 - p
        reward[t] = float(rng.random() < 0.5 + better * action[t])
        total[state[t], action[t]] += reward[t]
        n[state[t], action[t]] += 1
    return {"state": state, "action": action, "reward": reward, "propensity": share}


def posed(columns: dict[str, Any], **options: Any) -> tuple[Log, surefoot.Problem]:
    log = surefoot.read_log(columns, bandit=True, threads=1, **options)
    pi_b = np.tile(BASE, (log.n_states, 1))
    return log, log.problem(0.0, pi_b, reward_range=(0, 1))


def test_the_later_half_tests_what_the_earlier_half_has_taught_in_order_of_time() -> None:
    log, problem = posed(learned_on_the_way(0))
    batch = problem.log
    assert batch is not None and batch.policy_varies
    units, algorithm = units_of(log, batch, 0.0), chosen_algorithm(problem, "basic-rl")
    found = held_out_gain(problem, units, algorithm)
    assert units.turn is not None
    earlier = np.arange(units.number) < units.number // 2
    assert found.held_out is not None
    assert np.array_equal(found.held_out, ~earlier)
    early = np.flatnonzero(~found.held_out[units.unit])
    assert early.max() < np.flatnonzero(found.held_out[units.unit]).min() == len(early)
    pi = surefoot.improve(part_problem(problem, units, earlier), algorithm).pi
    assert np.array_equal(found.pi, pi)
    assert found.evidence.validity == FINITE_SAMPLE and found.varies
    standard = Standard(delta=0.05, reward_range=(0, 1), horizon=1)
    late = take_episodes(batch, np.arange(1500) >= len(early))
    values = episode_values(late, found.pi, np.asarray(problem.pi_b), 0.0, standard)
    assert found.evidence.estimate == pytest.approx(values.estimate)
    assert found.evidence.low == pytest.approx(uncapped_betting(values.x, 0.05, lo=values.lo).low)
    turned = uncapped_betting(values.x[::-1], 0.05, lo=values.lo).low
    assert abs(found.evidence.low - turned) > 1e-6  # the order matters


def test_equal_actions_of_a_rule_that_learns_are_seldom_promised_to_differ() -> None:
    """An action that looked bad early is hardly tried again, so both halves of its rows agree that
    it is bad: by means of a random half 5 of these 20 logs promise a gain.
    """
    promises = 0
    for seed in range(20):
        log, problem = posed(learned_on_the_way(seed))
        units, algorithm = units_of(log, problem.log, 0.0), chosen_algorithm(problem)
        promises += held_out_gain(problem, units, algorithm).evidence.positive
    assert promises <= 3


def test_a_true_difference_is_found_by_the_weights_of_a_rule_that_learns() -> None:
    log, problem = posed(learned_on_the_way(0, contexts=5, better=0.4))
    found = learn_and_test(log, problem, chosen_algorithm(problem, "basic-rl"))
    assert found.supported
    assert found.gain is not None
    assert found.gain.evidence.validity == FINITE_SAMPLE and found.gain.varies


def test_propensities_that_are_those_of_one_policy_do_not_vary() -> None:
    columns = learned_on_the_way(0, rows=300)
    one = columns | {"propensity": np.where(columns["action"] == 1, 0.3, 0.7)}
    for given, varies in ((columns, True), (one, False)):
        log, problem = posed(given)
        batch = problem.log
        assert batch is not None
        assert batch.policy_varies == varies
        assert (units_of(log, batch, 0.0).turn is not None) == varies
    assert not replace(batch, beside={}).policy_varies


def test_times_decide_the_order_where_the_file_says_otherwise() -> None:
    columns = learned_on_the_way(1, rows=400)
    order = np.random.default_rng(0).permutation(400)
    dates = np.datetime64("2024-01-01", "us") + np.arange(400) * np.timedelta64(1, "h")
    mixed = {name: np.asarray(x)[order] for name, x in (columns | {"time": dates}).items()}
    plain, timed = posed(columns), posed(mixed, time="time")
    algorithm = chosen_algorithm(plain[1], "basic-rl")
    units = units_of(timed[0], timed[1].log, 0.0)
    assert units.turn is not None
    assert np.array_equal(units.turn, order)
    assert np.array_equal(np.sort(units.unit[order < 200]), np.arange(200))
    one, other = (
        held_out_gain(problem, units_of(log, problem.log, 0.0), algorithm)
        for log, problem in (plain, timed)
    )
    assert (other.evidence.estimate, other.evidence.low, other.evidence.high) == pytest.approx(
        (one.evidence.estimate, one.evidence.low, one.evidence.high)
    )
    by_file = held_out_gain(timed[1], units_of_batch(timed[1].log, 0.0), algorithm)
    assert abs(by_file.evidence.low - one.evidence.low) > 1e-6


def test_one_long_trajectory_of_a_policy_that_varies_is_not_supported_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, n = np.random.default_rng(0), 2000
    share = np.where(np.arange(n) < n // 2, 0.2, 0.6)
    action = (rng.random(n) < share).astype(int)
    rows = [
        ("e", t, t % 3, a, a + 0.1 * rng.normal(), p if a else 1 - p)
        for t, (a, p) in enumerate(zip(action.tolist(), share.tolist(), strict=True))
    ]
    log = logfiles.write(tmp_path / "log.csv", (*logfiles.HEADER, "propensity"), rows)
    rule = logfiles.write(
        tmp_path / "rule.csv",
        ("state", "action", "probability"),
        [(s, a, p) for s in range(3) for a, p in ((0, 0.6), (1, 0.4))],
    )
    given = "--gamma", 0.9, "--baseline", rule, "--out", tmp_path / "out", "--no-report"
    code, text, _ = logfiles.run(monkeypatch, capsys, "improve", log, *given)
    assert code == 3
    assert "no valid test: the policy that made the log varies" in text
    counted = surefoot.read_log(log)
    problem = counted.problem(0.9, surefoot.read_policy(rule, counted))
    units = units_of(counted, problem.log, 0.9)
    found = held_out_gain(problem, units, chosen_algorithm(problem))
    assert found.varies and np.isnan(found.evidence.low) and not found.evidence.positive
