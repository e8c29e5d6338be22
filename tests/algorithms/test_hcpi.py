"""HCPI as an algorithm: what it accepts, what it keeps, what it refuses, and that the test sees
only episodes not learned from.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import surefoot
from support import worlds
from support.held_out import hcpi
from surefoot import BaselineError, NotAvailableError, ParameterError
from surefoot.evidence import GAIN, Standard, evidence_of, fitted_model, split_episodes

PROPOSE = "lower-exact-soft-spibb epsilon=1 delta=1"


def bandit(n: int, gap: float, **options: object) -> surefoot.Problem:
    """One decision, then the end: action 0 pays 0.4 on average, action 1 pays `gap` more; both
    tried alike, rewards 0 or 1.
    """
    rng = np.random.default_rng(3)
    action = rng.integers(0, 2, n)
    return surefoot.problem(
        state=np.zeros(n, dtype=int),
        action=action,
        reward=(rng.random(n) < 0.4 + gap * action) * 1.0,
        next_state=np.ones(n, dtype=int),
        episode=np.arange(n),
        gamma=0.9,
        terminal_states=[1],
        **{"pi_b": np.full((2, 2), 0.5), "reward_range": (0, 1), **options},
    )


@pytest.mark.parametrize(
    ("estimator", "bound"),
    [("pdis", "betting"), ("is", "maurer-pontil"), ("dr", "student-t"), ("dr", "bca")],
)
def test_a_clear_improvement_is_accepted_and_the_notes_say_on_what_evidence(
    estimator: str, bound: str
) -> None:
    solution = surefoot.improve(
        bandit(1000, 0.5), surefoot.algorithm("hcpi", delta=0.05, estimator=estimator, bound=bound)
    )
    assert solution.pi[0, 1] >= 0.9
    (verdict,) = (note for note in solution.notes if note.startswith("hcpi:"))
    assert (
        0 < float(verdict.split("is accepted: V^pi - V^pi_b >= ")[1].split()[0]) < 0.25
    )  # the truth, for all of action 1
    assert f"on 800 episodes not learned from ({estimator}, {bound};" in verdict


def test_without_evidence_the_baseline_is_kept_to_the_last_digit_and_the_notes_say_so() -> None:
    problem = bandit(60, 0.02)
    solution = surefoot.improve(problem, surefoot.algorithm("hcpi", delta=0.05))
    assert np.array_equal(solution.pi, problem.pi_b)
    assert any("rejected, and the baseline kept" in note for note in solution.notes)


def test_a_proposal_that_is_the_baseline_leaves_nothing_to_test() -> None:
    problem = bandit(60, 0.3)
    solution = surefoot.improve(
        problem, surefoot.algorithm("hcpi", delta=0.05, propose="pi-b-spibb n_wedge=1000")
    )
    assert np.array_equal(solution.pi, problem.pi_b)
    assert any("proposes nothing else" in note for note in solution.notes)


def test_it_is_the_test_of_surefoot_ope_on_what_the_training_part_proposes() -> None:
    world = worlds.garnet(np.random.default_rng(1), 5, 3, gamma=0.7)
    problem = worlds.problem(
        world,
        worlds.sample(world, np.random.default_rng(2), 900, 3),
        reward_table=None,
        reward_range=(0, 4),
    )
    made = surefoot.algorithm(
        "hcpi", delta=0.2, bound="student-t", propose=PROPOSE, share=0.4, seed=5
    )
    seen = []

    def propose(training: surefoot.Batch) -> np.ndarray:
        seen.append(training.n_episodes)
        options = {
            "pi_b": world.pi_b,
            "gamma": world.gamma,
            "start": 0,
            "reward_range": (0, 4),
            "n_states": 5,
            "n_actions": 3,
        }
        columns = {
            name: getattr(training, name)
            for name in ("state", "action", "reward", "next_state", "episode")
        }
        return surefoot.improve(
            surefoot.problem(**columns, **options),
            surefoot.algorithm(PROPOSE.split()[0], epsilon=1, delta=1),
        ).pi

    expected, row, _ = hcpi(
        problem.log,
        propose,
        world.pi_b,
        world.gamma,
        Standard(delta=0.2, bound="student-t"),
        rng=np.random.default_rng(5),
        share=0.4,
    )
    assert seen == [360]
    assert row.positive
    assert np.allclose(surefoot.improve(problem, made).pi, expected, atol=1e-12)


def test_what_the_held_out_episodes_say_does_not_change_the_proposal() -> None:
    problem = bandit(200, 0.3)
    training, _ = split_episodes(problem.log, np.random.default_rng(0))
    turned = np.where(
        np.isin(problem.log.row, training.row), problem.log.reward, 1 - problem.log.reward
    )
    other = bandit(200, 0.3)
    other = other.with_log(dataclasses.replace(other.log, reward=turned))
    one, two = (
        surefoot.improve(x, surefoot.algorithm("hcpi", delta=0.05)) for x in (problem, other)
    )
    assert np.array_equal(one.q, two.q)


def thin_air() -> surefoot.Problem:
    """Forty steps, two actions that pay the same but for noise: no logged episode takes a
    deterministic policy's forty actions.
    """
    rng = np.random.default_rng(0)
    episodes, steps = 60, 40
    n = episodes * steps
    state = np.tile(np.arange(steps), episodes)
    return surefoot.problem(
        state=state, action=rng.integers(0, 2, n), reward=rng.normal(size=n), next_state=state + 1,
        episode=np.repeat(np.arange(episodes), steps), gamma=1.0,
        pi_b=np.full((steps + 1, 2), 0.5), terminal_states=[steps], return_range=(-1e3, 1e3),
    )  # fmt: skip


def test_the_word_of_the_model_is_no_evidence_where_no_episode_is_possible_under_the_policy() -> (
    None
):
    problem = thin_air()
    for fewest, accepted in ((0, True), (10, False)):
        made = surefoot.algorithm(
            "hcpi", delta=0.05, estimator="dr", bound="student-t", fewest_effective=fewest
        )
        assert (surefoot.improve(problem, made).pi != problem.pi_b).any() == accepted


def test_the_approximate_bounds_say_nothing_with_too_few_effective_episodes_and_why() -> None:
    problem = thin_air()
    pi = np.eye(2)[np.zeros(41, dtype=int)]
    model = fitted_model(problem.log, 1.0, return_range=(-1e3, 1e3))
    for estimator in ("dr", "pdis"):
        found = evidence_of(
            GAIN,
            problem.log,
            pi,
            problem.pi_b,
            1.0,
            Standard(estimator=estimator, bound="student-t", return_range=(-1e3, 1e3)),
            model=model,
        )
        assert found.low == -np.inf
        assert any("at least 10 are needed" in note for note in found.notes)
    with pytest.raises(ParameterError, match="fewest_effective"):
        Standard(fewest_effective=-1)


def test_where_no_candidate_can_be_judged_the_baseline_is_kept_in_words() -> None:
    problem = thin_air()
    made = surefoot.algorithm(
        "hcpi", delta=0.05, estimator="dr", bound="student-t", fewest_effective=1e6
    )
    solution = surefoot.improve(problem, made)
    assert np.array_equal(solution.pi, problem.pi_b)
    assert any("no candidate can be judged" in note for note in solution.notes)


def test_it_refuses_an_estimated_baseline_a_single_episode_and_a_baseline_of_another_log() -> None:
    made = surefoot.algorithm("hcpi", delta=0.05)
    with pytest.raises(NotAvailableError, match="estimated here: give the baseline itself"):
        surefoot.improve(bandit(60, 0.3, pi_b=None, n_states=2, n_actions=2), made)
    with pytest.raises(NotAvailableError, match="needs 4 episodes, the log has 3"):
        surefoot.improve(bandit(3, 0.3), made)
    with pytest.raises(BaselineError, match="pi_b is not the policy that made this log"):
        surefoot.improve(bandit(60, 0.3, pi_b=[[1.0, 0.0], [0.5, 0.5]]), made)
    with pytest.raises(ParameterError, match="no floor"):
        surefoot.algorithm("hcpi", delta=0.05, estimator="dr")


def test_a_range_that_nobody_declared_is_named_in_the_verdict() -> None:
    made = surefoot.algorithm("hcpi", delta=0.05)
    assert any(
        "observed in the log, not declared" in n
        for n in surefoot.improve(bandit(60, 0.3, reward_range=None), made).notes
    )
    assert not any(
        "observed in the log" in n for n in surefoot.improve(bandit(60, 0.3), made).notes
    )


def test_a_proposal_that_fails_is_named_with_its_reason() -> None:
    made = surefoot.algorithm("hcpi", delta=0.05, propose="mbie delta=0.5")
    with pytest.raises(NotAvailableError, match=r"hcpi: mbie cannot propose.*needs gamma < 1"):
        surefoot.improve(thin_air(), made)


def test_a_declared_reward_range_counts_beside_a_declared_return_range() -> None:
    """Without it the verdict would call the rewards observed."""
    made = surefoot.algorithm("hcpi", delta=0.05)
    for rewards, observed in (((0, 1), False), (None, True)):
        problem = bandit(60, 0.3, reward_range=rewards, return_range=(0, 2))
        notes = surefoot.improve(problem, made).notes
        assert any("observed in the log" in note for note in notes) == observed
