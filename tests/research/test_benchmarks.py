"""The benchmarks with one world: Wet Chicken against its slow twin, ICU-Sepsis and Gymnasium's
tables against their sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import surefoot
from support import worlds as twins
from surefoot.research.benchmarks import (
    BENCHMARKS,
    ICUSepsis,
    RandomMDPs,
    ToyText,
    WetChicken,
    benchmark,
    from_gymnasium,
    from_mdp,
)
from surefoot.research.simulate import Worlds, first_key, trial_numbers

needs_icu = pytest.mark.skipif(
    find_spec("icu_sepsis") is None, reason="ICU-Sepsis is an extra: pip install 'surefoot[icu]'"
)
needs_gymnasium = pytest.mark.skipif(
    find_spec("gymnasium") is None,
    reason="Gymnasium is an extra: pip install 'surefoot[gymnasium]'",
)


def world_of(made: Any) -> Worlds:
    return made.worlds(first_key(0, made.name, trial_numbers(0, 2)))


@pytest.mark.parametrize(
    ("length", "width", "epsilon"), [(5, 5, 0.1), (4, 3, 0.2), (3, 6, 0.5), (7, 2, 0.0)]
)
def test_wet_chicken_is_the_world_of_its_slow_twin(length: int, width: int, epsilon: float) -> None:
    ours, twin = (
        world_of(WetChicken(length=length, width=width, epsilon=epsilon)),
        twins.wet_chicken(length, width, epsilon),
    )
    assert np.allclose(ours.p[0], twin.p, atol=1e-14)
    assert np.allclose(ours.p.sum(axis=-1), 1, atol=1e-14)
    assert np.array_equal(ours.reward_table[0, :, 0, :], twin.reward)
    assert np.allclose(ours.pi_b[0], twin.pi_b, atol=1e-15)
    assert not ours.terminal.any()
    assert ours.rho_b[0] == pytest.approx(twin.value(twin.pi_b), rel=1e-12)


def test_wet_chicken_has_the_known_values_at_the_start() -> None:
    """Of an independent implementation: optimal 43.080, baseline 29.750, uniform 20.66."""
    world = world_of(WetChicken())
    assert world.rho_star[0] == pytest.approx(43.080, abs=5e-4)
    assert world.rho_b[0] == pytest.approx(29.750, abs=5e-4)
    assert world.value(np.full((1, 25, 5), 0.2))[0] == pytest.approx(20.66, abs=5e-3)
    assert (world.return_range.lo, world.return_range.hi) == (0.0, pytest.approx(80.0))
    successors = (world.p[0] > 0).sum(axis=-1)
    assert successors.mean() == pytest.approx(3.86, abs=5e-3) and successors.max() == 6


def test_wet_chicken_agrees_with_a_simulation_of_its_formula() -> None:
    """x' = round(x + a_x + v + b tau), from (3, 1) of a 5 x 4 river with its own turbulence and
    velocity, paddling right.
    """
    made = WetChicken(length=5, width=4, turbulence=2.5, max_velocity=2.0)
    n, velocity = 200_000, 2.0 * 1 / 4
    tau = np.random.default_rng(0).uniform(-1, 1, n)
    to_x = np.rint(3 + 0 + velocity + (2.5 - velocity) * tau).astype(int)
    falls = to_x > 4
    state = np.where(falls, 0, np.maximum(to_x, 0) * 4 + 2)
    often = np.bincount(state, minlength=20) / n
    p = world_of(made).p[0, 3 * 4 + 1, 4]
    assert np.abs(often - p).max() < 5 * np.sqrt(0.25 / n)
    assert (often[p == 0] == 0).all() and falls.any()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"length": 0}, "length"),
        ({"width": 2.5}, "width"),
        ({"epsilon": 1.1}, "epsilon"),
        ({"gamma": 1.0}, "gamma"),
        ({"turbulence": 2.0}, "turbulence"),
        ({"turbulence": float("nan")}, "turbulence"),
        ({"turbulence": float("inf")}, "turbulence"),
        ({"max_velocity": float("nan")}, "velocity|turbulence"),
    ],
)
def test_a_wrong_parameter_of_wet_chicken_raises_with_its_name(
    parameters: dict[str, Any], name: str
) -> None:
    with pytest.raises(surefoot.SurefootError, match=f"wet-chicken: ({name}) "):
        WetChicken(**parameters)


@pytest.mark.slow
@needs_icu
def test_icu_sepsis_has_the_known_undiscounted_values() -> None:
    """Clinicians 0.782, optimum 0.8751 (Choudhary et al. 2024)."""
    world = world_of(ICUSepsis(gamma=1.0))
    assert world.rho_b[0] == pytest.approx(0.782, abs=5e-4)
    assert world.rho_star[0] == pytest.approx(0.8751, abs=5e-5)


@pytest.mark.slow
@needs_icu
def test_both_numberings_of_doses_are_the_same_hospital() -> None:
    short, whole = world_of(ICUSepsis()), world_of(ICUSepsis(actions="all"))
    assert short.pi_b.shape == (1, 715, 13) and whole.pi_b.shape == (1, 715, 25)
    assert short.rho_b[0] == pytest.approx(whole.rho_b[0], rel=1e-10)
    assert short.rho_star[0] == pytest.approx(whole.rho_star[0], rel=1e-10)
    labels = ICUSepsis().labels
    for s in (0, 100, 400, 712):
        for a in np.flatnonzero(short.allowed[0, s]):
            dose = labels[s, a]
            assert np.array_equal(short.p[0, s, a], whole.p[0, s, dose])
            assert short.pi_b[0, s, a] == whole.pi_b[0, s, dose]
        assert short.allowed[0, s].sum() == whole.allowed[0, s].sum()


@pytest.mark.slow
@needs_icu
@pytest.mark.parametrize("actions", ["admissible", "all"])
def test_the_clinicians_use_admissible_doses_only_and_both_ends_end(actions: str) -> None:
    world = world_of(ICUSepsis(actions=actions))
    assert np.allclose(world.pi_b.sum(axis=-1), 1, atol=1e-12)
    assert (world.pi_b[~world.allowed] == 0).all()
    assert np.allclose(world.p[0, :713].sum(axis=-1), 1, atol=1e-12)
    assert np.flatnonzero(world.terminal[0]).tolist() == [713, 714]
    assert world.allowed[0].any(axis=-1).all()
    assert world.allowed[0, :713].sum(axis=-1).mean() == pytest.approx(3.1, abs=0.05)
    assert (world.reward_table[0, :, 0, 714] == 1).all() and world.reward_table.sum() == 715
    assert world.start.sum() == pytest.approx(1) and not world.start[0, 713:].any()


@pytest.mark.slow
@needs_icu
def test_a_wrong_parameter_of_icu_sepsis_raises_with_its_name() -> None:
    for parameters, name in (
        ({"actions": "some"}, "actions"),
        ({"gamma": 1.5}, "gamma"),
        ({"max_steps": 0}, "max_steps"),
    ):
        with pytest.raises(surefoot.SurefootError, match=f"icu-sepsis: {name} "):
            ICUSepsis(**parameters)


def outcomes(table: Any) -> Iterator[tuple[int, int, float, int, float, bool]]:
    for s, actions in table.items():
        for a, found in actions.items():
            for probability, to, reward, terminated in found:
                yield s, a, probability, to, reward, terminated


def best_values(table: Any, gamma: float) -> np.ndarray:
    """Value iteration on the table itself: an outcome that terminates has no future."""
    n_states, n_actions = len(table), len(table[0])
    s, a, probability, to, reward, terminated = (
        np.array(x) for x in zip(*outcomes(table), strict=True)
    )
    v = np.zeros(n_states)
    for _ in range(1200):
        q = np.zeros((n_states, n_actions))
        np.add.at(q, (s, a), probability * (reward + gamma * np.where(terminated, 0.0, v[to])))
        v = q.max(axis=1)
    return v


@needs_gymnasium
@pytest.mark.parametrize(
    "name",
    ["FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1", "CliffWalkingSlippery-v1"],
)
def test_the_optimum_of_a_toy_text_environment_is_that_of_its_table(name: str) -> None:
    import gymnasium

    env = gymnasium.make(name).unwrapped
    world = world_of(ToyText(name))
    start = np.asarray(env.initial_state_distrib)
    assert np.allclose(world.start[0], start / start.sum())
    assert world.rho_star[0] == pytest.approx(
        float(world.start[0] @ best_values(env.P, 0.95)), rel=1e-9
    )
    assert np.allclose(world.p.sum(axis=-1), 1, atol=1e-12)
    entered = {to for s, _, _, to, _, terminated in outcomes(env.P) if terminated and to != s}
    assert set(np.flatnonzero(world.terminal[0])) == entered


@needs_gymnasium
def test_the_baseline_of_a_toy_text_environment_lies_between_optimal_and_uniform() -> None:
    best, half, random = (world_of(ToyText(epsilon=epsilon)) for epsilon in (0.0, 0.5, 1.0))
    assert best.rho_b[0] == pytest.approx(best.rho_star[0], rel=1e-12)
    assert (random.pi_b == 0.25).all()
    assert np.allclose(half.pi_b, 0.5 * best.pi_b + 0.125)
    assert random.rho_b[0] < half.rho_b[0] < best.rho_b[0]


@needs_gymnasium
def test_a_mask_leaves_the_baseline_on_the_actions_of_the_environment() -> None:
    import gymnasium

    env = gymnasium.make("Taxi-v4").unwrapped
    world = world_of(ToyText("Taxi-v4", mask=True))
    wanted = np.array([env.action_mask(s) for s in range(500)]) > 0
    assert np.array_equal(world.allowed[0], wanted)
    assert (world.pi_b[~world.allowed] == 0).all() and np.allclose(world.pi_b.sum(axis=-1), 1)


@needs_gymnasium
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"environment": "NoSuchLake-v1"}, "NoSuchLake"),
        ({"environment": "Blackjack-v1"}, "no table P"),
        ({"environment": "FrozenLake-v1", "mask": True}, "action_mask"),
        ({"environment": "nowhere:Lake-v1"}, "nowhere"),
    ],
)
def test_an_environment_that_cannot_be_used_is_named(
    parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(surefoot.NotAvailableError, match=words):
        world_of(ToyText(**parameters))


def test_a_wrong_parameter_of_toy_text_raises_with_its_name() -> None:
    for parameters, name in (
        ({"epsilon": 2}, "epsilon"),
        ({"gamma": 1.0}, "gamma"),
        ({"max_steps": -1}, "max_steps"),
    ):
        with pytest.raises(surefoot.SurefootError, match=f"toy-text: {name} "):
            ToyText(**parameters)


def test_benchmarks_go_by_their_names() -> None:
    names = {"random-mdps", "wet-chicken", "icu-sepsis", "toy-text", "gridworld", "garnet"}
    assert set(BENCHMARKS) == names
    assert benchmark("random-mdps", eta=0.5) == RandomMDPs(eta=0.5)
    with pytest.raises(surefoot.UnknownNameError, match="did you mean 'wet-chicken'"):
        benchmark("wet-chiken")
    with pytest.raises(surefoot.ParameterError, match="wet-chicken does not take 'eta'"):
        benchmark("wet-chicken", eta=0.5)


def test_a_shared_world_gives_every_trial_its_value_and_its_problem() -> None:
    made = WetChicken(length=4, width=3)
    world = world_of(made)
    twin = twins.wet_chicken(4, 3)
    pi = np.random.default_rng(0).dirichlet(np.ones(5), (3, 12))
    assert np.allclose(world.value(pi), [twin.value(x) for x in pi], rtol=1e-12)


def test_one_large_world_is_evaluated_as_exactly_by_its_successors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of(WetChicken())
    rows = np.random.default_rng(0).dirichlet(np.ones(world.n_actions), (3, world.n_states))
    exact = world.value(rows)
    monkeypatch.setattr("surefoot.research.simulate.worlds.LARGE", 1)
    np.testing.assert_allclose(world.value(rows), exact, rtol=0, atol=1e-9)
    assert "_sparse" in vars(world)  # by that way


def two_states() -> tuple[np.ndarray, np.ndarray]:
    """Three actions that lead to state 0, to either, to state 1; state 1 pays 1 on arrival."""
    p = np.zeros((2, 3, 2))
    p[:, :, 1] = [0.0, 0.5, 1.0]
    p[:, :, 0] = 1 - p[:, :, 1]
    return p, np.array([[0.0, 1.0], [0.0, 1.0]])


def test_an_mdp_of_one_s_own_has_the_values_that_its_arrays_say() -> None:
    p, by_arrival = two_states()
    by_action = np.einsum("sat,st->sa", p, by_arrival)
    for r in (by_arrival, by_action):
        bench = from_mdp(p, r, 0.5, start=[0.25, 0.75], baseline=0.6)
        worlds = bench.worlds(first_key(0, bench.name, np.arange(1)))
        assert float(worlds.rho_star[0]) == pytest.approx(1 / (1 - 0.5))
        # 0.4 of the time the best action; of the random rest half the rewards
        assert float(worlds.rho_b[0]) == pytest.approx((0.4 + 0.6 * 0.5) / (1 - 0.5))
        assert worlds.reward_range == (0.0, 1.0)
    given = from_mdp(p, by_action, 0.5, baseline=[[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])
    worlds = given.worlds(first_key(0, given.name, np.arange(1)))
    assert float(worlds.rho_b[0]) == pytest.approx((0.3 * 0.5 + 0.5) / (1 - 0.5))
    assert np.array_equal(worlds.start, [[1.0, 0.0]])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"P": np.ones((2, 3, 2))}, "p .*sum"),
        ({"P": np.ones((2, 3))}, r"P must be \[S, A, S'\], got shape \[2, 3\]"),
        ({"R": np.ones((3, 3))}, "r must be"),
        ({"gamma": 1.0}, "gamma must be below 1"),
        ({"start": 2}, "start must be a state 0, ..., 1, got 2"),
        ({"start": [0.5, 0.6]}, "start.*sum"),
        ({"baseline": 1.5}, r"a share must lie in \[0, 1\], got 1.5"),
        ({"baseline": np.ones((3, 2)) / 2}, r"baseline must be \[S, A\] = \[2, 3\]"),
        ({"baseline": np.ones((2, 3))}, "baseline.*sum"),
        ({"allowed": np.zeros((2, 3))}, "at least one action in every state"),
        (
            {"allowed": [[1, 1, 0]] * 2, "baseline": np.ones((2, 3)) / 3},
            "the baseline takes an action that is not allowed",
        ),
        ({"max_steps": 0}, "max_steps must be a whole number"),
    ],
)
def test_an_mdp_of_one_s_own_that_is_none_is_refused_in_words(
    changes: dict[str, Any], words: str
) -> None:
    p, r = two_states()
    with pytest.raises(surefoot.SurefootError, match=words):
        from_mdp(**({"P": p, "R": r, "gamma": 0.5} | changes))


@needs_gymnasium
def test_an_environment_as_an_object_is_the_one_of_its_name() -> None:
    import gymnasium

    keys = first_key(0, "toy-text", np.arange(1))
    env = gymnasium.make("CliffWalking-v1")
    named, given = ToyText("CliffWalking-v1", epsilon=0.3), from_gymnasium(env, baseline=0.3)
    for x in (named.worlds(keys), from_gymnasium("CliffWalking-v1", baseline=0.3).worlds(keys)):
        for name in ("successor", "probability", "reward_table", "pi_b", "start", "terminal"):
            assert np.array_equal(getattr(x, name), getattr(given.worlds(keys), name)), name
        assert x.return_range == given.worlds(keys).return_range
    with pytest.raises(surefoot.SurefootError, match="CartPole-v1 has no table P"):
        from_gymnasium("CartPole-v1")
