"""How strong a hidden cause would have to be: the robust backup against a naive twin, its sampling
error against leaving units out, and what is said of it.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles, worlds
from support.naive_bias import bias_by_loops
from surefoot.advice import held_out_gain
from surefoot.core.errors import ParameterError
from surefoot.evidence import model_of_units, units_of_batch
from surefoot.evidence.confounding import (
    DRAWN,
    NOT_MARKOV,
    OTHERS,
    STRONGEST,
    SUMMED_UP,
    Sensitivity,
    WorstCase,
    confounding_summary,
    sensitivity,
)
from surefoot.evidence.unit_model import Chain
from surefoot.report.improvement_words import doubts
from surefoot.statistics.lowest_mean import lowest_mean


def small(seed: int = 0, episodes: int = 80) -> surefoot.Problem:
    rng = np.random.default_rng(seed)
    world = worlds.random_mdp(rng, n_states=7, n_actions=3)
    return worlds.problem(world, worlds.sample(world, rng, episodes, 15), pi_b=world.pi_b)


def changed_in(problem: surefoot.Problem, states: list[int]) -> np.ndarray:
    """The baseline, but half of the mass goes to the action tried most often in these states."""
    pi = np.array(problem.pi_b)
    for s in states:
        pi[s] *= 0.5
        pi[s, problem.n_sa[s].argmax()] += 0.5
    return pi


def case(problem: surefoot.Problem, pi: np.ndarray) -> WorstCase:
    return WorstCase(model_of_units(problem, units_of_batch(problem.log, problem.gamma)), pi)


def naive(found: WorstCase, strength: float) -> float:
    """The plain worst-case gain, by value iteration over loops."""
    model, log = found.model, found.model.problem.log
    n_states, gamma = model.problem.n_states, model.problem.gamma
    v, base = np.zeros(n_states), np.zeros(n_states)
    for _ in range(400):
        new, old = np.zeros(n_states), np.zeros(n_states)
        for s in range(n_states):
            for a in range(model.problem.n_actions):
                mine = (log.state == s) & (log.action == a)
                if not mine.any():
                    continue
                on = np.broadcast_to(log.discounts(gamma), len(log))[mine]
                z = log.reward[mine] + on * v[log.next_state[mine]]
                y = log.reward[mine] + on * base[log.next_state[mine]]
                old[s] += model.mixture[s, a] * y.mean()
                b = float(model.mixture[s, a])
                mean = lowest_mean(z, b, strength) if found.changed[s] else z.mean()
                new[s] += found.rows[s, a] * mean
        v, base = new, old
    return float(model.start @ (v - base))


def bias_in(
    found: WorstCase, rows: np.ndarray, chain: Chain, weight: np.ndarray
) -> tuple[float, float]:
    """How much too high the value of a policy is where rows of the log count so much, by loops."""
    log, gamma = found.model.problem.log, found.model.problem.gamma
    places = []
    for s, a in np.ndindex(*rows.shape):
        outcomes = [
            (to, weight[i], weight[i], log.reward[i] + gamma * chain.v[to])
            for i in np.flatnonzero((log.state == s) & (log.action == a))
            for to in [int(log.next_state[i])]
        ]
        places.append((chain.d[s], rows[s, a] ** 2, s, outcomes))
    return bias_by_loops(chain.p.toarray(), gamma, places)


@pytest.mark.parametrize("strength", [1.0, 1.3, 2.5, 8.0])
def test_the_robust_backup_is_that_of_a_naive_twin(strength: float) -> None:
    problem = small()
    found = case(problem, changed_in(problem, [0, 2, 3]))
    chain, worst = found._chain(strength)
    expected = naive(found, strength)
    assert chain.at_start - found.model.baseline.at_start == pytest.approx(expected, abs=1e-6)
    less = found._optimism(chain, worst, strength)
    tilt = np.where(found.changed[problem.log.state], worst.weight, 1.0)
    bias = [
        bias_in(found, rows, process, weight)
        for rows, process, weight in (
            (found.rows, chain, tilt),
            (found.model.mixture, found.model.baseline, np.ones_like(tilt)),
        )
    ]
    assert abs(bias[0][0] - bias[1][0]) > 1e-5
    less += bias[0][0] - bias[1][0]
    assert found.at(strength).estimate == pytest.approx(expected - less, abs=1e-6)
    assert found.estimate(strength).left == pytest.approx(bias[0][1] + bias[1][1], rel=1e-6)


def test_the_robust_backup_counts_unequal_steps() -> None:
    problem = small()
    survives = np.random.default_rng(0).random(len(problem.log))
    uneven = replace(problem, log=replace(problem.log, beside={"survives": survives}))
    found = case(uneven, changed_in(uneven, [0, 2, 3]))
    value = found._chain(2.5)[0].at_start - found.model.baseline.at_start
    assert value == pytest.approx(naive(found, 2.5), abs=1e-6)
    even = case(problem, changed_in(problem, [0, 2, 3]))
    assert abs(value - (even._chain(2.5)[0].at_start - even.model.baseline.at_start)) > 1e-3


def test_without_a_confounder_it_is_the_gain_and_its_interval() -> None:
    problem = small(1)
    found = case(problem, changed_in(problem, [0, 1, 4]))
    at = found.at(1)
    gain = found.model.compare(found.pi).gain
    assert at.estimate == pytest.approx(gain.value)
    assert at.low == pytest.approx(gain.interval()[0])


def test_a_policy_that_changes_nothing_cannot_be_confounded() -> None:
    problem = small(2)
    found = case(problem, np.array(problem.pi_b))
    assert found.at(5).estimate == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_stronger_confounders_leave_less(seed: int) -> None:
    problem = small(seed, episodes=300)
    found = case(problem, changed_in(problem, [0, 1, 2]))
    bounds = [found.at(x).estimate for x in (1, 1.2, 1.6, 2.4, 4, 9)]
    assert (np.diff(bounds) < 0).all()


def decisions(
    n: int, seed: int, better: float, *, known: bool = True, **options: Any
) -> surefoot.Problem:
    rng = np.random.default_rng(seed)
    state, action = rng.integers(0, 3, n), (rng.random(n) < 0.3).astype(int)
    pi_b = {"pi_b": [[0.7, 0.3]] * 3} if known else {}
    return surefoot.problem(
        state=state, action=action, reward=better * action + rng.normal(0, 0.5, n),
        next_state=state, episode=np.arange(n), gamma=0.0, **pi_b, **options,
    )  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
def test_the_sampling_error_is_that_of_the_jackknife(known: bool) -> None:
    problem = decisions(480, 0, 0.4, known=known)
    units = units_of_batch(problem.log, 0.0)
    pi = np.array(problem.pi_b)
    pi[1:] = [0.2, 0.8]

    def plain(chosen: np.ndarray) -> float:
        found = WorstCase(model_of_units(problem, units, chosen), pi)
        return found._chain(2.0)[0].at_start - found.model.baseline.at_start

    everything = np.ones(units.number, dtype=bool)
    left_out = []
    for i in range(units.number):
        chosen = everything.copy()
        chosen[i] = False
        left_out.append(plain(chosen))
    n = units.number
    jackknife = math.sqrt((n - 1) / n * ((left_out - np.mean(left_out)) ** 2).sum())
    scores = WorstCase(model_of_units(problem, units), pi).estimate(2.0).scores
    assert math.sqrt(((scores - scores.mean()) ** 2).sum()) == pytest.approx(jackknife, rel=0.03)


def test_where_the_gain_vanishes_the_bound_is_0() -> None:
    problem = decisions(2000, 1, 0.3)
    units = units_of_batch(problem.log, 0.0)
    pi = np.tile([0.1, 0.9], (3, 1))
    found = sensitivity(problem, units, pi)
    assert 1.5 < found.shown_up_to < found.vanishes_at < 3
    assert found.one_step
    at = WorstCase(model_of_units(problem, units), pi).at
    assert at(found.vanishes_at).estimate == pytest.approx(0, abs=0.005)
    assert at(found.shown_up_to).low == pytest.approx(0, abs=0.005)
    strengths = list(found.curve)
    assert strengths == sorted(strengths)
    assert strengths[0] == 1


def test_a_loss_is_not_shown_and_a_gain_beyond_all_outcomes_never_vanishes() -> None:
    problem = decisions(2000, 1, -0.3)
    pi = np.tile([0.1, 0.9], (3, 1))
    found = sensitivity(problem, units_of_batch(problem.log, 0.0), pi)
    assert (found.vanishes_at, found.shown_up_to) == (1, 1)
    problem = decisions(2000, 1, 50.0)
    found = sensitivity(problem, units_of_batch(problem.log, 0.0), pi)
    assert (found.vanishes_at, found.shown_up_to) == (math.inf, math.inf)
    assert max(found.curve) == STRONGEST


def test_a_confounded_log_is_taken_for_a_gain_and_the_line_says_how_little_it_takes() -> None:
    """A severity makes action 1 twice as likely in odds, and is the outcome: nothing helps."""
    odds = 0.3 / 0.7 * np.array([0.5, 2.0])
    e = odds / (1 + odds)
    p = (0.3 - e[0]) / (e[1] - e[0])
    above = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = 600
        u = (rng.random(n) < p).astype(int)
        problem = surefoot.problem(
            state=np.zeros(n), action=(rng.random(n) < e[u]).astype(int), reward=u * 1.0,
            next_state=np.zeros(n), episode=np.arange(n), gamma=0.0, pi_b=[[0.7, 0.3]],
        )  # fmt: skip
        found = case(problem, np.array([[0.0, 1.0]]))
        assert found.at(1).low > 0  # what the test without a confounder believes
        above += found.at(2).low > 0  # the true gain
    assert above <= 6  # 5 % of 40 are 2; 7 or more have a chance of 0.3 %


def test_drawn_actions_have_no_hidden_cause_and_other_policies_no_known_one() -> None:
    problem = decisions(400, 3, 0.5)
    units, pi = units_of_batch(problem.log, 0.0), np.tile([0.1, 0.9], (3, 1))
    drawn = {"propensity": np.array([0.7, 0.3])[problem.log.action]}
    known = replace(problem, log=replace(problem.log, beside=drawn))
    assert sensitivity(known, units, pi).not_given == DRAWN
    named = replace(problem, pi_b_estimated=True, pi_b_policy=1)
    assert sensitivity(named, units, pi).not_given == OTHERS


def test_sequences_need_states_that_say_enough_and_rows() -> None:
    problem = small(3)
    units, pi = units_of_batch(problem.log, problem.gamma), changed_in(problem, [0, 1])
    assert sensitivity(problem, units, pi, markov=False).not_given == NOT_MARKOV
    summed = replace(units, m2=units.m2 + 1.0)
    assert sensitivity(problem, summed, pi).not_given == SUMMED_UP


def test_many_rows_are_represented_by_some_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.evidence.confounding.MOST_ROWS", 500)
    problem = decisions(4000, 1, 0.3)
    found = sensitivity(problem, units_of_batch(problem.log, 0.0), np.tile([0.1, 0.9], (3, 1)))
    assert found.rows == 500
    assert 1.2 < found.vanishes_at < 4


@pytest.mark.parametrize("strength", [0.5, "x", math.nan])
def test_a_strength_below_1_is_refused(strength: Any) -> None:
    problem = small(4)
    with pytest.raises(ParameterError, match="number >= 1"):
        case(problem, changed_in(problem, [0])).at(strength)


def hidden_words(found: Any) -> str:
    """What is said of a hidden cause behind a supported gain."""
    said = doubts(
        {
            "supported": True, "accepted_unsupported": False, "confounding": found,
            "cannot_exclude": None, "worth": {"held_out": None},
        }
    )  # fmt: skip
    return " ".join(words for x in said for words in x.whole)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((1.8, 1.3), "If it made some actions 1.30 times as likely (odds)"),
        ((1.8, 1.3), "without it, 1.80 times"),
        ((1.8, 1.0), "sampling error alone could explain the gain"),
        ((1.8, 1.0), "1.80 times as likely (odds) would explain all of it"),
        ((math.inf, 7.0), "without it, more than 100 times"),
        (
            (math.inf, math.inf),
            "The gain stays unless it makes some actions more than 100 times as likely (odds)",
        ),
    ],
)
def test_the_sentence_says_what_was_found(found: tuple[float, float], words: str) -> None:
    made = Sensitivity(vanishes_at=found[0], shown_up_to=found[1], one_step=True)
    assert words in hidden_words(confounding_summary(made))
    on_file = json.loads(json.dumps(confounding_summary(made)).replace("Infinity", "null"))
    assert hidden_words(on_file) == hidden_words(confounding_summary(made))


def test_the_sentence_names_what_sequences_assume_and_why_there_is_none() -> None:
    made = Sensitivity(vanishes_at=2.0, shown_up_to=1.5, held_out=False)
    words = hidden_words(confounding_summary(made))
    assert "at each step, the gain could vanish; one that lasts may need less" in words
    assert "on the data that made the policy" in words
    assert SUMMED_UP in hidden_words(confounding_summary(Sensitivity(not_given=SUMMED_UP)))
    assert hidden_words(confounding_summary(None)) == ""


def test_improve_prints_the_line_where_the_policy_is_supported_and_not_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--gamma", 0.5, "--baseline", logfiles.rule(tmp_path), "--out", tmp_path / "out")
    good, idle = logfiles.good_log(tmp_path, n=1500, better=0.3), logfiles.idle_log(tmp_path)
    code, text, _ = logfiles.run(monkeypatch, capsys, "improve", good, *given, "--explain")
    assert code == 0
    assert "a reason for decisions that is not in the log" in text
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["confounding"]
    assert found["held_out"] is True
    assert found["vanishes_at"] > found["shown_up_to"] > 1
    assert found["curve"][0]["gain_at_least"] > 0
    assert "What a hidden cause could explain" in (tmp_path / "out/report.html").read_text("utf-8")
    code, text, _ = logfiles.run(monkeypatch, capsys, "improve", idle, *given, "--explain")
    assert code == 3
    assert "a reason for decisions that is not in the log" not in text


def test_the_held_out_half_is_the_one_that_the_policy_was_not_made_from() -> None:
    problem = decisions(400, 3, 0.5)
    found = held_out_gain(
        problem, units_of_batch(problem.log, 0.0), surefoot.PiBSPIBB(n_wedge=5), seed=2
    )
    rows = found.held_out[units_of_batch(problem.log, 0.0).unit]
    assert found.evidence.units == found.held_out.sum()
    mine = np.bincount(problem.log.action[~rows], minlength=2)
    assert (np.asarray(found.learned.n_sa).sum(axis=0) == mine).all()
