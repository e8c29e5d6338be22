"""Policies in the model of some units: right values, scores that are derivatives, and nothing
from what was not seen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import surefoot
from support import logfiles
from support.naive_bias import bias_by_loops
from surefoot.advice.summary import log_summary
from surefoot.evidence import UnitModel, model_of_units, units_of_batch
from surefoot.evidence.value_on_log import evaluation
from surefoot.report.policy_words import evaluation_statements
from surefoot.report.statements import text


def pieces(problem: surefoot.Problem) -> UnitModel:
    parts = units_of_batch(problem.log, problem.gamma)
    return model_of_units(problem, parts)


def some_policy(problem: surefoot.Problem, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(problem.n_actions), size=problem.n_states)


def bias_of(problem: surefoot.Problem, pi: np.ndarray) -> tuple[float, float]:
    """How much too high the value of a policy is in the model of all rows, by loops."""
    log, gamma, shape = problem.log, problem.gamma, (*pi.shape, len(pi))
    n, r = np.zeros(shape), np.zeros(shape)
    np.add.at(n, (log.state, log.action, log.next_state), 1)
    np.add.at(r, (log.state, log.action, log.next_state), log.reward)
    n_sa = n.sum(axis=2, keepdims=True)
    p, pays = np.einsum("sa,sat->st", pi, n / n_sa), (pi[..., None] * r / n_sa).sum(axis=(1, 2))
    back = np.linalg.inv(np.eye(len(pi)) - gamma * p)
    v, d = back @ pays, np.asarray(problem.start) @ back
    places = []
    for s, a in np.ndindex(*pi.shape):
        to = [int(t) for t in np.flatnonzero(n[s, a])]
        k, x = n[s, a], r[s, a] / np.maximum(n[s, a], 1)
        outcomes = [(t, k[t], k[t], x[t] + gamma * v[t]) for t in to]
        places.append((d[s], pi[s, a] ** 2, s, outcomes))
    return bias_by_loops(p, gamma, places)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("sparse", [False, True])
def test_where_every_pair_was_seen_values_are_those_of_the_estimated_model_less_their_bias(
    sparse: bool, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.evidence.unit_model.DENSE_STATES", 1500 if direct else 0)
    problem = logfiles.random_problem(sparse=sparse)
    pi = some_policy(problem)
    found = pieces(problem).compare(pi)
    left = []
    for estimate, policy in ((found.policy, pi), (found.baseline, np.asarray(problem.pi_b))):
        plain = float(surefoot.evaluate_at_start(problem.model, policy, problem.start))
        bias, unsure = bias_of(problem, policy)
        assert abs(bias) > 1e-5
        assert estimate.value == pytest.approx(plain - bias, abs=1e-7)
        assert estimate.left == pytest.approx(unsure, rel=1e-6)
        left.append(unsure)
    assert found.gain.value == pytest.approx(found.policy.value - found.baseline.value, abs=1e-12)
    assert found.gain.left == pytest.approx(sum(left), rel=1e-6)


def test_a_score_is_the_derivative_of_the_gain_with_respect_to_the_weight_of_its_unit() -> None:
    problem = replace(
        logfiles.random_problem(n=12_000, n_states=3, n_actions=2), start_episodes=None
    )
    parts = units_of_batch(problem.log, problem.gamma)
    pi = some_policy(problem)
    scores = model_of_units(problem, parts).compare(pi).gain.scores
    for unit in (0, 17, 59):
        weight = np.where(parts.unit == unit, 1e-5, 0.0)

        def gain(sign: int, weight: np.ndarray = weight) -> float:
            scale = 1 + sign * weight
            changed = replace(
                parts, k=parts.k * scale, r=parts.r * scale, goes_on=parts.goes_on * scale
            )
            return model_of_units(problem, changed).compare(pi).gain.value

        assert scores[unit] == pytest.approx(
            (gain(1) - gain(-1)) / 2e-5, rel=3e-2
        )  # 1 / sqrt(1 - h) apart


def test_the_scatter_of_a_unit_that_makes_most_of_its_mean_is_not_too_small() -> None:
    """Over many logs of independent decisions the mean square of every unit's score is what it
    truly adds to the variance.
    """
    sizes = [220, 20, 20, 20, 20, 20, 20, 20, 20, 20]
    episode, n = np.repeat(np.arange(10), sizes), 400
    found, errors = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        problem = surefoot.problem(
            state=np.zeros(n),
            action=np.tile([0, 1], 200),
            reward=rng.normal(size=n),
            next_state=np.zeros(n),
            gamma=0.0,
            start=0,
            episode=episode,
            pi_b=[[0.5, 0.5]],
        )
        compared = pieces(problem).compare(np.array([[0.0, 1.0]]))
        found.append(compared.gain.scores**2)
        errors.append(compared.gain.value)
    expected = (
        0.25 / 200**2 * np.array(sizes)
    )  # half of the difference of two means of 200 unit variances, shared out
    # without the correction: expected * (1 - h), h = sizes / n
    assert np.mean(found, axis=0) == pytest.approx(expected, rel=0.3)
    assert np.var(errors) == pytest.approx(expected.sum(), rel=0.25)


def test_what_one_unit_alone_has_seen_cannot_be_checked() -> None:
    n = 60
    action = np.zeros(n, dtype=int)
    action[:5] = 1  # five times, all in the first episode
    problem = surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=action * 1.0,
        next_state=np.zeros(n),
        episode=np.arange(n) // 6,
        pi_b=[[0.8, 0.2]],
        gamma=0.5,
    )
    there = pieces(problem)
    assert np.array_equal(there.often, [[True, False]])
    assert np.array_equal(there.checkable(np.array([[0.1, 0.9]])), problem.pi_b)


def test_the_scatter_of_the_scores_is_that_of_the_gain_over_logs() -> None:
    pi = np.tile([0.6, 0.1, 0.3], (4, 1))
    found = [pieces(logfiles.random_problem(seed=3, n=1500)).compare(pi)]
    errors = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        base = logfiles.random_problem(seed=3, n=1500)
        chosen = rng.integers(0, 60, 60)  # a bootstrap of episodes, with every pair still seen
        parts = units_of_batch(base.log, base.gamma)
        rows = np.concatenate([np.flatnonzero(parts.unit == u) for u in chosen])
        names = ("state", "action", "next_state", "k", "r", "m2")
        again = replace(
            parts, unit=parts.unit[rows], **{name: getattr(parts, name)[rows] for name in names}
        )
        errors.append(model_of_units(base, again).compare(pi).gain.value)
    predicted = np.sqrt(60 * found[0].gain.scores.var(ddof=1))
    assert np.std(errors) == pytest.approx(predicted, rel=0.3)


def test_the_baseline_gains_nothing_and_scores_nothing() -> None:
    problem = logfiles.random_problem()
    found = pieces(problem).compare(np.asarray(problem.pi_b))
    assert found.gain.value == pytest.approx(0, abs=1e-12)
    assert np.abs(found.gain.scores).max() < 1e-12


def test_a_pair_seen_once_is_neither_gain_nor_loss() -> None:
    n = 41
    action = np.zeros(n, dtype=int)
    action[20] = 1
    problem = surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=np.where(action == 1, 100.0, 1.0),
        next_state=np.zeros(n),
        episode=np.arange(n),
        n_actions=3,
        pi_b=[[0.8, 0.1, 0.1]],
        gamma=0.5,
    )
    found = pieces(problem).compare(np.array([[0.0, 1.0, 0.0]]))
    assert found.gain.value == pytest.approx(0, abs=1e-9)
    assert np.array_equal(pieces(problem).checkable(np.array([[0.0, 1.0, 0.0]])), problem.pi_b)
    assert pieces(problem).compare(np.array([[0.1, 0.1, 0.8]])).gain.value == pytest.approx(
        0, abs=1e-9
    )


def test_three_equal_outcomes_do_not_make_a_pair_certain() -> None:
    """That they might have been what else happens in its state counts by the rule of three."""
    n = 103
    action = (np.arange(n) >= 100).astype(int)
    reward = np.where(action == 1, 1.0, np.arange(n) % 2)
    problem = surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=reward,
        next_state=np.zeros(n),
        episode=np.arange(n),
        pi_b=[[0.95, 0.05]],
        gamma=0.0,
    )
    found = pieces(problem).compare(np.array([[0.0, 1.0]]))
    assert found.gain.value > 0.4
    assert found.gain.loss.each == pytest.approx(0.95 / 3)  # it may pay 0, as the other does
    assert found.gain.interval(unseen=False)[0] > 0.3
    assert found.gain.interval()[0] < -0.3


def rare(outcomes: int, worst: float, **options: object) -> surefoot.Problem:
    """Action 0 pays 0, and `worst` once; action 1 pays 1, in so many visits, all alike."""
    n = 200 + outcomes
    action = (np.arange(n) >= 200).astype(int)
    reward = np.where(action == 1, 1.0, 0.0)
    reward[0] = worst
    return surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=reward,
        next_state=np.zeros(n),
        episode=np.arange(n),
        pi_b=[[0.9, 0.1]],
        gamma=0.0,
        **options,
    )


def test_what_an_unseen_outcome_could_take_follows_the_rule_of_three() -> None:
    """30 visits without the worst outcome leave it a probability of ln(20) / 30; it would cost
    its distance from the mean.
    """
    loss = pieces(rare(30, -4.0)).compare(np.array([[0.5, 0.5]])).gain.loss
    assert loss.change == pytest.approx(np.log(20) / 30 * 0.4 * (1 - -4.0))
    assert (loss.pair, loss.n, loss.worst) == (1, 30, -4.0)
    declared = (
        pieces(rare(30, -4.0, reward_range=(-1000, 1))).compare(np.array([[0.5, 0.5]])).gain.loss
    )
    assert declared.change == pytest.approx(np.log(20) / 30 * 0.4 * 1001)
    assert declared.worst == -1000


@pytest.mark.parametrize(
    ("shown", "n", "worst"),
    [
        (1.0, 30, -4.0),  # the other half has shown nothing bad either
        (-1.0, 30, -4.0),  # 2 / 15 < 5 / 30
        (-2.0, 15, -2.0),  # 3 / 15 > 5 / 30
        (-4.0, 15, -4.0),
    ],
)
def test_visits_of_the_half_that_made_the_policy_count_unless_it_has_shown_an_outcome_as_bad(
    shown: float, n: float, worst: float
) -> None:
    problem = rare(30, -4.0)
    learning = np.arange(230) % 2 == 0
    reward = problem.log.reward.copy()
    reward[200] = shown  # of the learning half, in the pair that gets mass
    problem = replace(problem, log=replace(problem.log, reward=reward))
    parts = units_of_batch(problem.log, 0.0)
    loss = model_of_units(problem, parts, ~learning).compare(np.array([[0.5, 0.5]])).gain.loss
    assert (loss.pair, loss.n, loss.worst) == (1, n, worst)
    assert loss.each == pytest.approx(0.4 * (1 - worst) / n)
    assert loss.change == pytest.approx(np.log(20) * loss.each)


def test_what_becomes_rarer_may_have_hidden_a_good_outcome() -> None:
    problem = rare(3, 0.0, reward_range=(0, 50))
    found = pieces(problem).compare(np.array([[1.0, 0.0]])).gain
    assert found.loss.change == pytest.approx(np.log(20) / 3 * 0.1 * (50 - 1))
    assert (found.loss.pair, found.loss.shift < 0, found.loss.worst) == (1, True, 50)


def test_moves_that_cannot_be_checked_are_taken_back_and_nothing_goes_further() -> None:
    problem = logfiles.random_problem(n=60, n_states=6, n_actions=4)
    model_of = pieces(problem)
    base, pi = np.asarray(problem.pi_b), some_policy(problem)
    kept = model_of.checkable(pi)
    assert np.allclose(kept.sum(axis=1), 1)
    assert (model_of.n_sa < 2).any()
    assert np.array_equal(kept[model_of.n_sa < 2], base[model_of.n_sa < 2])
    assert (np.abs(kept - base) <= np.abs(pi - base) + 1e-12).all()
    assert ((kept - base) * (pi - base) >= 0).all()
    often = (model_of.n_sa >= 2).all(axis=1)
    assert np.array_equal(kept[often], pi[often])
    assert kept.min() >= 0
    best = np.eye(4)[pi.argmax(axis=1)]  # 0.8 + (0 - 0.8) is not always 0
    assert model_of.checkable(best).min() >= 0


def test_the_scatter_of_the_start_is_part_of_the_scores() -> None:
    """Two starts with certain outcomes: all that is uncertain is how often each comes."""
    n = 200
    state = (np.arange(n) % 10 == 0).astype(int)
    problem = surefoot.problem(
        state=state,
        action=np.arange(n) // 10 % 2,
        reward=np.where(state == 1, 5.0, 1.0),
        terminal=np.ones(n),
        next_state=np.full(n, -1),
        episode=np.arange(n),
        pi_b=[[0.5, 0.5]] * 2,
        gamma=0.9,
    )
    policy = np.full((3, 2), 0.5)
    known = replace(problem, start_episodes=None)
    assert np.abs(pieces(known).compare(policy).policy.scores).max() < 1e-12
    drawn = pieces(problem).compare(policy).policy
    assert drawn.value == pytest.approx(1.4)
    assert (drawn.scores**2).sum() == pytest.approx(16 * 0.1 * 0.9 / n, rel=0.02)
    visits = pieces(replace(known, start_visits=True)).compare(policy).policy
    assert np.allclose(visits.scores, drawn.scores)


def test_a_state_never_acted_in_is_worth_the_average_state() -> None:
    state, follow = np.array([0, 0, 0, 0] * 10), np.array([0, 0, 0, 1] * 10)
    problem = surefoot.problem(
        state=state,
        action=np.array([0, 1] * 20),
        reward=np.ones(40),
        next_state=follow,
        episode=np.repeat(np.arange(10), 4),
        pi_b=[[0.5, 0.5]] * 2,
        gamma=0.9,
    )
    found = pieces(problem).compare(np.array([[1.0, 0.0]] * 2))
    assert found.policy.value == pytest.approx(10, abs=1e-9)
    assert found.baseline.value == pytest.approx(10, abs=1e-9)


def test_a_state_that_a_part_never_acts_in_does_what_the_whole_log_does() -> None:
    n = 40
    state = np.zeros(n, dtype=int)
    # the first four episodes alone act in state 1: it pays 5 and leads to state 0, which pays 1 for
    # ever
    state[:4] = 1
    problem = surefoot.problem(
        state=state,
        action=np.arange(n) % 2,
        reward=np.where(state == 1, 5.0, 1.0),
        next_state=np.zeros(n),
        episode=np.arange(n),
        n_states=2,
        pi_b=[[0.5, 0.5]] * 2,
        gamma=0.5,
        start=1,
    )
    parts = units_of_batch(problem.log, problem.gamma)
    held_out = np.arange(n) >= 4
    found = model_of_units(problem, parts, held_out).compare(np.array([[1.0, 0.0]] * 2))
    assert found.policy.value == pytest.approx(5 + 0.5 * 2)
    assert found.baseline.value == pytest.approx(5 + 0.5 * 2)


def test_undiscounted_episodes_that_end_have_values_and_endless_ones_are_refused() -> None:
    def walk(last: int) -> surefoot.Problem:
        return surefoot.problem(
            state=[0, 1] * 20,
            action=[0, 1] * 20,
            reward=[0.0, 1.0] * 20,
            next_state=[1, last] * 20,
            episode=np.repeat(np.arange(20), 2),
            terminal_states=(2,) if last == 2 else (),
            n_states=3,
            pi_b=[[0.5, 0.5]] * 3,
            gamma=1.0,
            return_range=(0, 1e4),
        )

    assert pieces(walk(2)).compare(np.full((3, 2), 0.5)).policy.value == pytest.approx(1.0)
    with pytest.raises(surefoot.NotAvailableError, match="gamma = 1"):
        pieces(walk(0)).compare(np.full((3, 2), 0.5))


def test_undiscounted_large_problems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.evidence.unit_model.DENSE_STATES", 0)
    with pytest.raises(surefoot.NotAvailableError, match="use gamma < 1"):
        pieces(replace(logfiles.random_problem(), gamma=1.0)).compare(np.full((4, 3), 1 / 3))


def test_the_scatter_of_its_own_frequencies_is_part_of_an_estimated_baseline() -> None:
    """Outcomes are certain given the action: what is uncertain of the baseline's value is how
    often it takes each.
    """
    rng = np.random.default_rng(0)
    n = 400
    action = (rng.random(n) < 0.3).astype(int)
    problem = surefoot.problem(
        state=np.zeros(n),
        action=action,
        reward=5.0 * action,
        next_state=np.full(n, -1),
        terminal=np.ones(n),
        episode=np.arange(n),
        gamma=0.9,
    )
    assert problem.pi_b_estimated
    found = pieces(problem).compare(np.asarray(problem.pi_b))
    assert found.baseline.scores.var() * n == pytest.approx((5 * action).var() / n, rel=0.02)
    known = replace(problem, pi_b_estimated=False)
    assert np.abs(pieces(known).compare(np.asarray(problem.pi_b)).baseline.scores).max() < 1e-12


@pytest.mark.parametrize("declared", [(0, 1), None])
def test_where_no_success_was_seen_the_interval_of_a_mean_is_that_of_the_rule_of_three(
    declared: tuple[float, float] | None,
) -> None:
    """100 decisions without a success: up to 3 % with the range declared; without it the interval
    says nothing, and what it rests on is said.
    """
    columns = {
        "episode": np.arange(100), "state": np.zeros(100, dtype=int), "terminal": np.ones(100),
        "action": np.arange(100) % 2, "reward": np.zeros(100),
    }  # fmt: skip
    log = surefoot.read_log(columns)
    problem = log.problem(0.0, np.full((log.n_states, 2), 0.5), reward_range=declared)
    found = evaluation(log, problem, np.full((log.n_states, 2), 0.5))
    for name in ("log", "ips"):
        assert found["weighted"][name]["low"] == 0
        high = 0.0 if declared is None else 0.03
        assert found["weighted"][name]["high"] == pytest.approx(high, rel=0.02)
    beside = {"log": log_summary(log, "log.csv", problem), "notes": []}
    said = text(evaluation_statements(found | beside))
    assert ("no reward lies outside [0, 0]" in said) == (declared is None)


def test_rounding_makes_no_probability_negative() -> None:
    """A row that sums to a little more than 1 leaves nothing for the baseline's other actions."""
    n = 400
    action = np.arange(n) % 4
    problem = surefoot.problem(
        state=np.zeros(n, dtype=int), action=action, reward=action / 4.0,
        next_state=np.ones(n, dtype=int), episode=np.arange(n), terminal=np.ones(n, dtype=bool),
        gamma=0.9, n_states=2,
    )  # fmt: skip
    tried = np.random.default_rng(0).dirichlet(np.ones(3), size=200)
    above = next(x for x in tried if x.sum() > 1)
    pi = np.array([[*above, 0.0], [0.25] * 4])
    assert pieces(problem).rows(pi).min() >= 0
    assert pieces(problem).compare(pi).gain.value < 0
