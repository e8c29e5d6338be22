"""Tuning on noise: logs with nothing to find, and what is shrunk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import surefoot
from surefoot.advice.tuning import Posterior, Shrinkage, choose
from surefoot.advice.tuning.shrinkage import VISITS
from surefoot.research.simulate import first_key

KEYS = first_key(7, "test", np.arange(300, dtype=np.int64))
STATES, ACTIONS = 60, 3


def decisions(
    seed: int, effect: float = 0.0, n: int = 2400, law: str = "normal", **changes: object
) -> surefoot.Problem:
    """One-step decisions in 60 states; the actions of a state differ by `effect` times a
    standard normal number.
    """
    rng = np.random.default_rng(seed)
    pi_b = rng.dirichlet(np.full(ACTIONS, 2.0), STATES)
    mean = rng.uniform(0.3, 0.7, STATES)[:, None] + effect * rng.normal(size=(STATES, ACTIONS))
    state = rng.integers(0, STATES, n)
    action = np.minimum(
        (rng.random(n)[:, None] > pi_b[state].cumsum(axis=1)).sum(axis=1), ACTIONS - 1
    )
    paid = mean[state, action]
    reward = rng.normal(paid, 1.0) if law == "normal" else (rng.random(n) < paid) * 1.0
    given = {
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": np.full(n, -1),
        "terminal": np.ones(n),
        "gamma": 0.9,
    }
    return surefoot.problem(
        **(
            given
            | {"episode": np.arange(n), "pi_b": pi_b, "n_states": STATES, "n_actions": ACTIONS}
            | changes
        )
    )


def walk(seed: int, n: int = 1500) -> surefoot.Problem:
    """One long episode: actions decide where it goes, and every reward is the same noise
    wherever it is paid.
    """
    rng = np.random.default_rng(seed)
    leads, action = rng.integers(0, STATES, (STATES, ACTIONS)), rng.integers(0, ACTIONS, n)
    state = np.zeros(n + 1, dtype=int)
    for t in range(n):
        state[t + 1] = leads[state[t], action[t]] if rng.random() < 0.8 else rng.integers(STATES)
    return surefoot.problem(
        state=state[:-1],
        action=action,
        reward=rng.normal(size=n),
        next_state=state[1:],
        episode=np.zeros(n),
        gamma=0.9,
        pi_b=np.full((STATES, ACTIONS), 1 / ACTIONS),
        n_states=STATES,
        n_actions=ACTIONS,
        start=np.full(STATES, 1 / STATES),
    )


@pytest.mark.parametrize("law", ["normal", "bernoulli"])
def test_no_change_is_chosen_where_the_actions_of_sixty_states_are_the_same(law: str) -> None:
    chosen = [
        choose(decisions(seed, law=law), models=100, simulated=0, seed=seed).changes
        for seed in range(6)
    ]
    assert sum(chosen) <= 1


def test_no_change_is_chosen_where_actions_lead_elsewhere_and_all_states_pay_the_same() -> None:
    assert (
        sum(choose(walk(seed), models=100, simulated=0, seed=seed).changes for seed in range(4))
        <= 1
    )


def test_differences_that_are_real_in_many_states_are_still_found() -> None:
    for law, effect in (("normal", 0.6), ("bernoulli", 0.15)):
        found = choose(decisions(0, effect, law=law), models=100, simulated=0)
        assert found.changes, law
        assert found.chosen.on_log.cvar > 0
        assert found.chosen.loses < 0.2


def test_models_in_which_nothing_differs_value_every_policy_as_the_baseline() -> None:
    problem = decisions(0)
    shrinkage = Shrinkage(Posterior(problem))
    nothing = np.append(np.zeros(len(VISITS) - 1), 1.0)
    shrinkage.__dict__.update(by_successors=nothing, by_rewards=nothing)
    drawn = shrinkage.worlds(KEYS[:5])
    pi = np.broadcast_to(surefoot.improve(problem, "basic-rl").pi, drawn.pi_b.shape)
    assert np.allclose(drawn.value(pi), drawn.rho_b)


def test_models_in_which_all_differences_are_real_pay_what_the_log_saw() -> None:
    """c = 1/64 of a visit: the mean advantage of a pair over the models is what its visits paid,
    give or take their standard error.
    """
    problem = decisions(1, 0.6)
    shrinkage = Shrinkage(Posterior(problem))
    real = np.append(1.0, np.zeros(len(VISITS) - 1))
    shrinkage.__dict__.update(by_successors=real, by_rewards=real)
    found = shrinkage.advantages(np.zeros((len(KEYS), problem.n_states)), KEYS)
    paid = np.asarray(problem.counts.r_sa / np.maximum(problem.n_sa, 1))
    often = (np.asarray(problem.n_sa) > 5).all(axis=1)
    wanted = (paid - (problem.pi_b * paid).sum(axis=1, keepdims=True))[often]
    assert found.mean(axis=0)[often] == pytest.approx(wanted, abs=0.15)
    assert np.corrcoef(found.mean(axis=0)[often].ravel(), wanted.ravel())[0, 1] > 0.99
    assert (problem.pi_b * found).sum(axis=-1) == pytest.approx(np.zeros(found.shape[:2]), abs=1e-9)


def test_shrinkage_leaves_the_baseline_what_it_is_worth() -> None:
    """With declared rewards only the advantages change."""
    table = np.random.default_rng(0).normal(size=(STATES, ACTIONS, STATES))
    problem = walk(0)
    problem = replace(problem, reward_table=table)
    posterior = Posterior(problem)
    plain, shrunk = posterior.worlds(KEYS[:4]), Shrinkage(posterior).worlds(KEYS[:4])
    assert shrunk.rho_b == pytest.approx(plain.rho_b)
    assert not np.allclose(shrunk.reward_table, plain.reward_table)


def test_a_rare_action_that_did_well_by_chance_is_not_believed_where_rare_actions_pay_less() -> (
    None
):
    """The usual action pays 0.5 more in all states: rare ones are worse in the models, also
    those whose few visits paid more.
    """
    rng = np.random.default_rng(4)
    state, pi_b = rng.integers(0, STATES, 2000), np.tile([0.9, 0.05, 0.05], (STATES, 1))
    action = rng.choice(ACTIONS, size=2000, p=pi_b[0])
    problem = decisions(
        0,
        n=2000,
        state=state,
        action=action,
        reward=rng.normal(-0.5 * (action > 0), 1.0),
        pi_b=pi_b,
    )
    drawn = (
        Shrinkage(Posterior(problem))
        .advantages(np.zeros((len(KEYS), problem.n_states)), KEYS)
        .mean(axis=0)[:STATES]
    )
    paid = np.asarray(problem.counts.r_sa / np.maximum(problem.n_sa, 1))[:STATES]
    lucky = (paid[:, 1:] > paid[:, :1]) & (np.asarray(problem.n_sa)[:STATES, 1:] > 0)
    assert lucky.sum() > 10
    assert (drawn[:, 1:][lucky] < drawn[:, :1].repeat(2, axis=1)[lucky]).mean() > 0.9
    found = choose(problem, models=100, simulated=0)
    (pi,) = found.simulation.pi[[row is found.chosen for row in found.rows][1:]]
    assert pi[:STATES, 0].mean() > 0.95  # of 0.9: the rare ones less often


def test_the_log_tells_whether_actions_differ() -> None:
    same, different = (Shrinkage(Posterior(decisions(3, effect))) for effect in (0.0, 1.0))
    assert same.by_rewards[-1] > 0.3
    assert different.by_rewards[-1] < 1e-6
    assert Shrinkage(Posterior(walk(0))).by_successors[-1] < 1e-6
