"""Garnets: the law of what is drawn, and the quality of the baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.research.benchmarks import Garnet
from surefoot.research.simulate import Sampler, Worlds, first_key, trial_numbers

SMALL = Garnet(n_states=8, n_actions=3, branching=2, eta=0.9)


def worlds_of(made: Garnet, n: int, seed: int = 3) -> Worlds:
    return made.worlds(first_key(seed, made.name, trial_numbers(0, n)))


@pytest.mark.parametrize("made", [Garnet(), SMALL, Garnet(n_states=4, branching=4)])
def test_each_pair_leads_to_distinct_states_with_probabilities_that_sum_to_one(
    made: Garnet,
) -> None:
    world = worlds_of(made, 10)
    assert world.successor.shape == (10, made.n_states, made.n_actions, made.branching)
    assert (np.diff(np.sort(world.successor, axis=-1), axis=-1) > 0).all()
    assert np.allclose(world.probability.sum(axis=-1), 1, atol=1e-14)
    assert np.allclose(world.pi_b.sum(axis=-1), 1, atol=1e-14)
    assert not world.terminal.any() and (world.start[:, 0] == 1).all()


def test_rewards_are_uniform_numbers_of_the_state_that_is_entered() -> None:
    made = Garnet(n_states=60, eta=0.9)
    world = worlds_of(made, 60)
    pays = world.reward_table
    assert pays.shape == (60, 1, 1, 60) and pays.min() >= 0 and pays.max() <= 1
    n = pays.size
    assert pays.mean() == pytest.approx(0.5, abs=5 * np.sqrt(1 / 12 / n))
    assert pays.var() == pytest.approx(1 / 12, abs=5 * np.sqrt(1 / 180 / n))
    assert abs(np.corrcoef(pays[:30].ravel(), pays[30:].ravel())[0, 1]) < 5 / np.sqrt(n / 2)
    log = Sampler(world.only(7)).log(11, made.episodes(3))
    assert len(log["state"]) == 3 * 50 and log["truncated"].sum() == 3
    assert np.array_equal(log["reward"], pays[7, 0, 0][log["next_state"]])


def test_the_optimum_is_that_of_value_iteration() -> None:
    world = worlds_of(SMALL, 4)
    for i in range(4):
        v = np.zeros(8)
        for _ in range(1000):
            v = (world.p[i] @ (world.reward_table[i, 0, 0] + 0.95 * v)).max(axis=1)
        assert world.rho_star[i] == pytest.approx(v[0], rel=1e-9)


@pytest.mark.parametrize("eta", [0.5, 0.9])
def test_the_baseline_is_as_good_as_asked_for(eta: float) -> None:
    world = worlds_of(Garnet(n_states=60, eta=eta), 20)
    lowest = world.value(np.full_like(world.pi_b, 0.2))
    share = (world.rho_b - lowest) / (world.rho_star - lowest)
    assert (share <= eta + 1e-12).all() and share == pytest.approx(eta, abs=0.02)


def test_counts_and_log_of_a_trial_are_the_same_problem() -> None:
    world, keys = worlds_of(SMALL, 3), first_key(3, "garnet", trial_numbers(0, 3))
    ((counts, _),) = Sampler(world).counts(keys, (SMALL.episodes(5),), with_returns=False)
    whole = world.problem(counts, None)
    alone = world.only(1)
    one = alone.problem_of_log(Sampler(alone).log(int(keys[1]), SMALL.episodes(5)), sparse=False)
    assert np.array_equal(whole.n_sa[1], one.n_sa)
    assert np.allclose(whole.r[1], one.r, atol=1e-15)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"n_states": 1}, "n_states"),
        ({"n_actions": 1}, "n_actions"),
        ({"n_states": 5, "branching": 6}, "branching"),
        ({"eta": 1.1}, "eta"),
        ({"gamma": 1.0}, "gamma"),
        ({"horizon": 0}, "horizon"),
    ],
)
def test_a_wrong_parameter_of_a_garnet_raises_with_its_name(
    parameters: dict[str, Any], name: str
) -> None:
    with pytest.raises(surefoot.SurefootError, match=f"garnet: {name} "):
        Garnet(**parameters)
