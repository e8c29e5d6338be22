"""Random MDPs: every step of the recipe re-derived from what it made, and the statistics of the
slow twin.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import surefoot
from support import worlds as twins
from surefoot.research.benchmarks import RandomMDPs
from surefoot.research.simulate import Worlds, first_key, trial_numbers

SMALL = RandomMDPs(n_states=7, n_actions=3, n_successors=2, horizon=12)
SHAPES = [
    RandomMDPs(),
    SMALL,
    RandomMDPs(n_states=6, n_actions=4, n_successors=6, eta=0.6),
    RandomMDPs(n_states=3, n_actions=2, n_successors=1, gamma=0.8),
]
SHAPE_IDS = ["paper", "small", "all successors", "one successor"]


def keys(n: int, seed: int = 4) -> np.ndarray:
    return first_key(seed, "random-mdps", trial_numbers(0, n))


def plain(benchmark: RandomMDPs, n: int) -> Worlds:
    """The same worlds without the egg: neither pairs nor goal nor baseline depend on it."""
    return replace(benchmark, egg="none").worlds(keys(n))


def goal_of(world: Worlds, i: int) -> int:
    """The only end of a world without an egg."""
    (goal,) = np.flatnonzero(world.terminal[i])
    return int(goal)


def best_q(p: np.ndarray, goal: int, gamma: float) -> np.ndarray:
    """Optimal q for a goal that pays 1 and ends, by value iteration to the last digit."""
    v, change = np.zeros(len(p)), 1.0
    reward = np.arange(len(p)) == goal
    while change > 1e-15:
        q = p @ np.where(reward, 1.0, gamma * v)
        q[goal] = 0
        v, old = q.max(axis=1), v
        change = np.abs(v - old).max()
    return q


def rho(p: np.ndarray, pi: np.ndarray, goal: int, gamma: float) -> float:
    """The value of a policy at state 0, goal as above, by one linear system."""
    chain = np.einsum("sa,sat->st", pi, p)
    chain[goal] = 0
    pays = chain[:, goal].copy()
    chain[:, goal] = 0
    return float(np.linalg.solve(np.eye(len(p)) - gamma * chain, pays)[0])


@pytest.mark.parametrize("benchmark", SHAPES, ids=SHAPE_IDS)
def test_the_successors_of_a_pair_are_distinct_and_their_probabilities_sum_to_one(
    benchmark: RandomMDPs,
) -> None:
    world = benchmark.worlds(keys(20))
    shape = (20, benchmark.n_states, benchmark.n_actions, benchmark.n_successors)
    assert world.successor.shape == world.probability.shape == shape
    ordered = np.sort(world.successor, axis=-1)
    assert (np.diff(ordered, axis=-1) > 0).all()
    assert ordered.min() >= 0 and ordered.max() < benchmark.n_states
    assert (world.probability >= 0).all()
    assert np.allclose(world.probability.sum(axis=-1), 1, atol=1e-14)
    assert np.allclose(world.pi_b.sum(axis=-1), 1, atol=1e-14)
    assert (world.start == np.eye(benchmark.n_states)[0]).all()


def test_every_state_is_as_likely_a_successor_and_gaps_have_their_law() -> None:
    world = RandomMDPs(n_states=6, n_actions=3, n_successors=3).worlds(keys(400))
    n = 400 * 18
    for k in range(3):
        often = np.bincount(world.successor[..., k].reshape(-1), minlength=6) / n
        assert np.abs(often - 1 / 6).max() < 5 * np.sqrt(5 / 36 / n)
    # The gaps of two sorted uniform numbers: Dirichlet(1, 1, 1), so mean 1/3 and E x^2 = 1/6.
    for k in range(3):
        gap = world.probability[..., k].reshape(-1)
        assert gap.mean() == pytest.approx(1 / 3, abs=5 * np.sqrt(1 / 18 / n))
        assert (gap**2).mean() == pytest.approx(1 / 6, abs=5 * np.sqrt((1 / 15 - 1 / 36) / n))


@pytest.mark.parametrize(
    "benchmark",
    [
        SMALL,
        replace(SMALL, horizon=5),
        RandomMDPs(n_states=9, n_actions=2, n_successors=3, horizon=20),
        replace(SMALL, gamma=0.7, horizon=4),
    ],
    ids=["small", "short reach", "nine states", "impatient"],
)
def test_the_goal_is_the_farthest_state_within_reach(benchmark: RandomMDPs) -> None:
    world = plain(benchmark, 30)
    far = benchmark.gamma**benchmark.horizon
    limited = 0  # worlds where reach decides
    for i in range(30):
        value = np.array(
            [best_q(world.p[i], g, benchmark.gamma)[0].max() for g in range(1, benchmark.n_states)]
        )
        within = value > far
        limited += within.any() and not within.all()
        wanted = (
            np.where(within, value, np.inf).min() if within.any() else value.max()
        )  # none in reach: the nearest
        assert value[goal_of(world, i) - 1] == pytest.approx(wanted, rel=1e-9)
    assert limited > 0 or benchmark.horizon > 5


def test_the_goal_of_a_world_of_the_papers_size_is_the_farthest_within_reach() -> None:
    world = plain(RandomMDPs(), 2)
    for i in range(2):
        value = np.array([best_q(world.p[i], g, 0.95)[0].max() for g in range(1, 50)])
        assert value[goal_of(world, i) - 1] == pytest.approx(
            value[value > 0.95**50].min(), rel=1e-9
        )


@pytest.mark.parametrize("eta", [0.9, 0.5, 0.1])
@pytest.mark.parametrize(
    "benchmark", [RandomMDPs(), replace(SMALL, n_states=9, horizon=50)], ids=["paper", "small"]
)
def test_before_the_egg_the_baseline_has_the_wanted_performance_to_within_one_perturbation(
    benchmark: RandomMDPs, eta: float
) -> None:
    """It is at most the target, and taking back the perturbation of some state lifts it above."""
    n = 6
    world = plain(replace(benchmark, eta=eta), n)
    gamma = benchmark.gamma
    for i in range(n):
        p, pi, goal = world.p[i], world.pi_b[i], goal_of(world, i)
        q = best_q(p, goal, gamma)
        low = rho(p, np.full(pi.shape, 1 / pi.shape[1]), goal, gamma)
        target = low + eta * (q[0].max() - low)
        assert rho(p, pi, goal, gamma) <= target + 1e-12
        lifted = []
        for s in range(len(p)):
            back = pi.copy()
            back[s, q[s].argmax()] /= 0.9
            back[s] /= back[s].sum()
            lifted.append(rho(p, back, goal, gamma))
        assert max(lifted) > target - 1e-12


@pytest.mark.parametrize("eta", [0.9, 0.4])
def test_the_baseline_is_a_softmax_of_optimal_values_with_odds_of_best_actions_lowered(
    eta: float,
) -> None:
    """log pi(a|s) / pi(b|s) = T (q*(a) - q*(b)) for one T = 2e6 0.9^k; against the best action it
    is lowered m_s times by log 0.9.

    And T is the first at which the softmax falls to halfway between the wanted performance and the
    optimum.
    """
    benchmark = RandomMDPs(n_states=10, n_actions=4, n_successors=3, eta=eta)
    world = plain(benchmark, 8)
    for i in range(8):
        p, pi, goal = world.p[i], world.pi_b[i], goal_of(world, i)
        q = best_q(p, goal, 0.95)
        low = rho(p, np.full(pi.shape, 1 / 4), goal, 0.95)
        heat, soft = 2e6, np.eye(4)[q.argmax(axis=1)]
        while rho(p, soft, goal, 0.95) > low + (1 + eta) / 2 * (q[0].max() - low):
            z = heat * (q - q.max(axis=1, keepdims=True))
            soft = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
            heat *= 0.9
        best = q.argmax(axis=1)
        times = np.zeros(10)
        for s in range(10):
            if s == goal:
                continue
            odds = pi[s] / soft[s]
            others = np.delete(odds, best[s])
            assert np.allclose(others, others[0], rtol=1e-6)
            times[s] = np.log(odds[best[s]] / others[0]) / np.log(0.9)
        assert np.abs(times - np.rint(times)).max() < 1e-5
        assert times.min() > -1e-5 and times.max() > 0.5


@pytest.mark.parametrize("benchmark", SHAPES, ids=SHAPE_IDS)
def test_the_egg_is_neither_start_nor_goal_and_nothing_else_changes(benchmark: RandomMDPs) -> None:
    without = plain(benchmark, 40)
    for egg, worth in (("good", 1.0), ("bad", -1.0)):
        world = replace(benchmark, egg=egg).worlds(keys(40))
        assert np.array_equal(world.pi_b, without.pi_b) and np.array_equal(world.p, without.p)
        for i in range(40):
            goal = goal_of(without, i)
            (found,) = set(np.flatnonzero(world.terminal[i])) - {goal}
            assert found not in (0, goal)
            wanted = np.zeros(benchmark.n_states)
            wanted[goal], wanted[found] = 1.0, worth
            assert (world.reward_table[i] == wanted).all()
        assert world.reward_range == (min(worth, 0.0), 1.0)
        assert (world.return_range.lo, world.return_range.hi) == (min(worth, 0.0), 1.0)
    assert (without.reward_table.sum(axis=-1) == 1).all()


def test_every_state_but_start_and_goal_is_as_likely_the_egg() -> None:
    benchmark = RandomMDPs(n_states=6, n_actions=2, n_successors=3)
    world, without = benchmark.worlds(keys(600)), plain(benchmark, 600)
    eggs, goals = (
        (world.terminal & ~without.terminal).argmax(axis=1),
        without.terminal.argmax(axis=1),
    )
    rank = eggs - 1 - (eggs > goals)  # among the four states that are neither
    often = np.bincount(rank, minlength=4) / 600
    assert len(often) == 4 and np.abs(often - 1 / 4).max() < 4.5 * np.sqrt(3 / 16 / 600)


def test_an_egg_that_pays_can_only_raise_the_optimum_and_a_trap_only_lower_it() -> None:
    good, bad, none = (
        replace(RandomMDPs(n_states=12, n_actions=3), egg=egg).worlds(keys(25))
        for egg in ("good", "bad", "none")
    )
    assert (good.rho_star >= none.rho_star - 1e-12).all()
    assert (bad.rho_star <= none.rho_star + 1e-12).all()
    assert (bad.rho_b <= none.rho_b + 1e-12).all()
    assert (good.rho_star > none.rho_star + 1e-3).any()


def test_values_of_worlds_are_those_of_their_models_one_by_one() -> None:
    world = SMALL.worlds(keys(5))
    for i in range(5):
        model = surefoot.known_model(
            world.p[i], world.reward_table[i, :, 0, :], 0.95, np.flatnonzero(world.terminal[i])
        )
        best = surefoot.optimal(model)
        assert world.rho_b[i] == pytest.approx(
            float(surefoot.evaluate(model, world.pi_b[i])[0]), rel=1e-10
        )
        assert world.rho_star[i] == pytest.approx(
            float(surefoot.evaluate(model, best.pi)[0]), rel=1e-10
        )
        assert world.value(np.repeat(best.pi[None], 5, axis=0))[i] == pytest.approx(
            world.rho_star[i], rel=1e-10
        )


@pytest.mark.parametrize(
    "benchmark",
    [*SHAPES[1:], RandomMDPs(n_states=8, n_actions=2, horizon=2)],
    ids=[*SHAPE_IDS[1:], "no goal within reach"],
)
def test_the_world_of_a_trial_does_not_depend_on_the_other_trials(benchmark: RandomMDPs) -> None:
    together = benchmark.worlds(keys(150, seed=1))
    for i in (0, 3, 28, 133, 149):
        alone = benchmark.worlds(keys(150, seed=1)[i : i + 1])
        assert np.array_equal(alone.terminal[0], together.terminal[i])
        assert np.array_equal(alone.p[0], together.p[i])
        assert np.allclose(alone.pi_b[0], together.pi_b[i], rtol=0, atol=1e-12)


@pytest.mark.parametrize("eta", [0.0, 0.5, 0.9, 1.0])
def test_where_every_policy_is_worth_the_same_any_baseline_will_do(eta: float) -> None:
    """One action: V_u = V*, and nothing has to be lowered."""
    world = RandomMDPs(n_states=8, n_actions=1, n_successors=3, eta=eta).worlds(keys(40))
    assert (world.pi_b == 1).all()


def test_where_no_perturbation_is_enough_the_best_actions_are_as_good_as_gone() -> None:
    """What is left without them may still be too good, and the recipe would not end: trial 76 of
    these small worlds.
    """
    benchmark = RandomMDPs(n_states=6, n_actions=4, n_successors=6, eta=0.3, egg="none")
    world = benchmark.worlds(keys(150, seed=1))
    low = world.value(np.full(world.pi_b.shape, 0.25))
    above = world.rho_b > low + 0.3 * (world.rho_star - low) + 1e-12
    assert np.flatnonzero(above).tolist() == [76]
    q, goal = best_q(world.p[76], goal_of(world, 76), 0.95), goal_of(world, 76)
    gone = world.pi_b[76][np.arange(6), q.argmax(axis=1)]
    assert np.delete(gone, goal).max() < 1e-9


@pytest.mark.slow
def test_performance_agrees_in_the_mean_with_the_slow_twin() -> None:
    """rho_b, rho*, and how good the baseline is after the egg, of 150 worlds and 60 of the twin,
    within four standard errors.
    """
    ours = RandomMDPs().worlds(keys(150))
    found = np.stack([ours.rho_b, ours.rho_star, ours.rho_b / ours.rho_star])
    theirs = []
    for seed in range(60):
        world = twins.random_mdp(np.random.default_rng(seed))
        b, best = world.value(world.pi_b), world.value(surefoot.optimal(world.model).pi)
        theirs.append((b, best, b / best))
    wanted = np.array(theirs).T
    error = np.sqrt(found.var(axis=1) / 150 + wanted.var(axis=1) / 60)
    assert (np.abs(found.mean(axis=1) - wanted.mean(axis=1)) < 4 * error).all()
    spread = np.log(found.std(axis=1) / wanted.std(axis=1))
    assert (np.abs(spread) < 4 * np.sqrt(1 / 300 + 1 / 120)).all()


def test_performance_agrees_in_the_mean_with_the_slow_twin_on_small_worlds() -> None:
    benchmark = RandomMDPs(n_states=12, n_actions=3)
    ours = benchmark.worlds(keys(400))
    found = np.stack([ours.rho_b, ours.rho_star, ours.rho_b / ours.rho_star])
    made = [twins.random_mdp(np.random.default_rng(seed), 12, 3) for seed in range(60)]
    pairs = np.array([(w.value(w.pi_b), w.value(surefoot.optimal(w.model).pi)) for w in made]).T
    wanted = np.stack([*pairs, pairs[0] / pairs[1]])
    error = np.sqrt(found.var(axis=1) / 400 + wanted.var(axis=1) / 60)
    assert (np.abs(found.mean(axis=1) - wanted.mean(axis=1)) < 4 * error).all()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"n_states": 2}, "n_states"),
        ({"n_states": 10.0}, "n_states"),
        ({"n_states": True}, "n_states"),
        ({"n_actions": 0}, "n_actions"),
        ({"n_successors": 0}, "n_successors"),
        ({"n_states": 5, "n_successors": 6}, "n_successors"),
        ({"eta": 1.5}, "eta"),
        ({"eta": -0.1}, "eta"),
        ({"eta": float("nan")}, "eta"),
        ({"eta": "high"}, "eta"),
        ({"gamma": 1.0}, "gamma"),
        ({"horizon": 0}, "horizon"),
        ({"egg": "golden"}, "egg"),
    ],
)
def test_a_wrong_parameter_raises_with_its_name(parameters: dict[str, Any], name: str) -> None:
    with pytest.raises(surefoot.SurefootError, match=f"random-mdps: {name} "):
        RandomMDPs(**parameters)


@pytest.mark.slow
def test_pytorch_makes_the_same_worlds() -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")
    for benchmark in (RandomMDPs(), SMALL):
        ours = benchmark.worlds(keys(6))
        theirs = benchmark.worlds(first_key(4, "random-mdps", trial_numbers(0, 6, "torch")))
        for name in ("successor", "probability", "reward_table", "start", "terminal", "allowed"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name).numpy()), name
        for name in ("pi_b", "rho_b", "rho_star"):
            assert np.allclose(
                getattr(ours, name), getattr(theirs, name).numpy(), rtol=0, atol=1e-12
            ), name
