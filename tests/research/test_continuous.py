"""The benchmarks of measurements: their equations against numbers by hand and Gymnasium, what is
sampled from them, and what a policy is worth in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import pytest

import surefoot
from surefoot.research.benchmarks import (
    CONTINUOUS,
    CartPole,
    ContinuousWetChicken,
    IndustrialBenchmark,
    returns,
    sampled,
)
from surefoot.research.benchmarks.continuous import explored, picked
from surefoot.research.benchmarks.industrial import COLUMNS, LAGS, goldstone


class Fixed:
    """A generator whose uniform draws are given."""

    def __init__(self, *draws: float) -> None:
        self.draws = np.array(draws)

    def uniform(self, low: float, high: float, n: int) -> np.ndarray:
        assert (low, high, n) == (-1, 1, len(self.draws))
        return self.draws


@dataclass(frozen=True)
class Countdown:
    """x' = x - 1, the reward is x', and at 0 it is over."""

    name: ClassVar[str] = "countdown"
    features: ClassVar[tuple[str, ...]] = ("x",)
    actions: ClassVar[tuple[str, ...]] = ("on", "off")
    reward_range: ClassVar[tuple[float, float]] = (0.0, 9.0)
    gamma: float = 0.5

    def reset(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return np.arange(1.0, n + 1)[:, None]

    def step(self, rng: Any, state: np.ndarray, action: np.ndarray) -> Any:
        there = state - 1
        return there, there[:, 0], there[:, 0] == 0

    def baseline(self, x: np.ndarray) -> np.ndarray:
        return explored(np.zeros(len(x), dtype=int), 2, 0.5)


def test_the_river_moves_a_boat_as_its_equations_say() -> None:
    """v = 3 y / 5, b = 3.5 - v: three worked numbers, the last over the fall."""
    state = np.array([[2.0, 2.5], [1.0, 0.0], [4.0, 5.0]])
    there, reward, over = ContinuousWetChicken().step(
        Fixed(0.5, -1.0, 1.0),
        state,
        np.array([1, 2, 3]),  # hold, paddle back, right
    )
    assert np.allclose(there, [[2 - 1 + 1.5 + 2 * 0.5, 2.5], [0, 0], [0, 0]])
    assert np.array_equal(reward, there[:, 0])
    assert not over.any()
    edge, _, _ = ContinuousWetChicken().step(Fixed(0.0), np.array([[0.0, 4.5]]), np.array([3]))
    assert np.allclose(edge, [[2.7, 5.0]])


def test_the_rule_of_the_river_is_that_of_its_cells() -> None:
    """x rounded, y rounded down: there both rules choose the same."""
    from surefoot.research.benchmarks import WetChicken

    cells, river = WetChicken(), ContinuousWetChicken()
    at = np.array([(x, y + 0.5) for x in range(5) for y in range(5)])
    assert np.allclose(river.baseline(at), cells.pi_b[:, [0, 1, 2, 4, 3]])


@pytest.mark.skipif(
    find_spec("gymnasium") is None,
    reason="Gymnasium is an extra: pip install 'surefoot[gymnasium]'",
)
def test_cart_pole_without_noise_is_that_of_gymnasium() -> None:
    import gymnasium

    env = gymnasium.make("CartPole-v1").unwrapped
    rng, ours, lengths = np.random.default_rng(3), CartPole(noise=0.0), []
    for seed in range(5):
        start, _ = env.reset(seed=seed)
        state = np.array(env.state, dtype=float)[None]
        assert np.allclose(start, state, atol=1e-7)
        for t in range(500):
            action = rng.integers(2, size=1)
            state, reward, over = ours.step(rng, state, action)
            _, r, terminated, _, _ = env.step(int(action[0]))
            assert np.allclose(state[0], env.state, rtol=0, atol=1e-12)
            assert (reward[0], over[0]) == (r, terminated)
            if terminated:
                lengths.append(t)
                break
    assert len(lengths) == 5


def test_noise_turns_its_share_of_the_pushes() -> None:
    state = np.zeros((20_000, 4))
    there, _, _ = CartPole(noise=0.1).step(
        np.random.default_rng(0), state, np.ones(len(state), dtype=int)
    )
    assert (there[:, 1] < 0).mean() == pytest.approx(0.1, abs=0.01)


def test_the_potential_of_the_shift_has_its_lowest_point_where_the_angle_says() -> None:
    shift = np.linspace(-1.5, 1.5, 3001)
    for steps, best in ((6, 1.0), (3, np.sin(np.pi / 4)), (-6, -1.0), (-2, -0.5)):
        penalty = goldstone(np.full(len(shift), steps * np.pi / 12), shift)
        assert shift[penalty.argmin()] == pytest.approx(best, abs=2e-3)
    assert goldstone(np.array([np.pi / 2]), np.array([1.0])) == pytest.approx(-1)
    # sin 0.5: lowest r = 1.115355, at the shift 0.5; 1.25 is r = 1.388469, and l = 3.419349
    assert goldstone(np.array([np.pi / 6]), np.array([1.25])) == pytest.approx(-0.482745, abs=2e-6)
    assert goldstone(np.array([1.0]), np.array([0.0])) == 0


def test_the_angle_of_the_shift_turns_comes_back_and_rests() -> None:
    """Held at an effective shift of 1.5 it rises to 6, falls to -6 and stays; at 0 it goes home."""
    plant, state = IndustrialBenchmark(), np.zeros((1, len(COLUMNS)))
    state[:, 7:9] = 1.0  # domain and response
    seen = []
    for shift, steps in ((100.0, 20), (58.0, 7)):
        state[:, 2] = shift
        for _ in range(steps):
            plant._miscalibration(state)
            seen.append(int(state[0, 9]))
    assert seen == [*range(1, 7), *range(5, -7, -1), -6, -6, *range(-5, 1), 0]
    assert state[0, 7:9].tolist() == [1, 1]


def test_the_plant_at_rest_has_the_cost_and_fatigue_worked_out_by_hand() -> None:
    """v = g = 50, p = 70: exp(4.65) = 104.585, f = 30000 / 350 - 25 = 60.714; v_e = (122/81 -
    72/131) / (172/31 - 72/131), v_g = (1/121 - 1/171) / (1/71 - 1/171).
    """
    plant = IndustrialBenchmark()
    state = plant.reset(np.random.default_rng(0), 4000)
    assert np.allclose(state[:, len(COLUMNS) :], 104.585, atol=1e-3)
    v_e, v_g = plant._effective(np.array([50.0]), np.array([50.0]))
    assert v_e[0] == pytest.approx(0.19136, abs=1e-5)
    assert v_g[0] == pytest.approx(0.29339, abs=1e-5)
    fatigue = state[:, 3]
    assert fatigue.min() >= 60.714 / 3
    assert (fatigue < 60.714).all()
    # one step from rest turns phi by -1, where h_e = -0.4
    m = 1 + goldstone(np.array([-np.pi / 12]), np.array([-0.4]))[0]
    assert state[:, 4].mean() == pytest.approx(104.585 + 25 * m, abs=0.15)
    assert state[:, 4].std() == pytest.approx(1 + 0.005 * (104.585 + 25 * m), rel=0.05)


def test_a_cost_is_felt_five_to_nine_steps_late() -> None:
    """One step of the gain, exp(0.25) times the cost: by ninths 1, 3, 6, 8, 9."""
    plant = IndustrialBenchmark(noise=0.0)
    costs = []
    for first in (0, 4):  # nothing, or gain up
        rng = np.random.default_rng(1)
        state = plant.reset(rng, 1)
        felt = []
        for t in range(12):
            state, _, _ = plant.step(rng, state, np.array([first if t == 0 else 0]))
            felt.append(state[0, 4])
        costs.append(felt)
    late = np.subtract(*costs[::-1]) / (np.exp(4.9) - np.exp(4.65)) * 9
    assert np.allclose(late, [0, 0, 0, 0, 0, 1, 3, 6, 8, 9, 9, 9], atol=1e-9)
    assert LAGS.sum() == pytest.approx(1)


def test_a_plant_that_is_tired_breaks_down() -> None:
    """A hidden state above 1.2 grows by a tenth a step, up to 5, and fatigue by nearly 2 / 3."""
    plant, rng = IndustrialBenchmark(), np.random.default_rng(0)
    state = plant.reset(rng, 500)
    state[:, 5] = 1.3
    for t in range(1, 17):
        state, _, _ = plant.step(rng, state, np.zeros(500, dtype=int))
        assert np.allclose(state[:, 5], min(5, 1.3 * 1.1**t))
    assert state[:, 3].mean() == pytest.approx(60.714 * (1 + 2 / (1 + np.exp(-2.4))) / 3, rel=0.02)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_logs_hang_on_the_generator_alone(name: str) -> None:
    made = CONTINUOUS[name]()
    first, second, other = (sampled(made, np.random.default_rng(seed), 40, 3) for seed in (1, 1, 2))
    assert list(first)[:2] == ["episode", "time"]
    assert set(made.features) <= set(first)
    assert all(np.array_equal(first[x], second[x]) for x in first)
    assert not np.array_equal(first["reward"], other["reward"])
    if made.reward_range is not None:
        low, high = made.reward_range
        assert low <= first["reward"].min()
        assert first["reward"].max() <= high


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_actions_of_a_log_are_those_of_the_rule(name: str) -> None:
    made = CONTINUOUS[name]()
    log = sampled(made, np.random.default_rng(0), 100, 30)
    x = np.stack([log[f] for f in made.features], axis=1)
    rows = made.baseline(x)
    assert np.allclose(rows.sum(axis=1), 1)
    usual = np.array(made.actions)[rows.argmax(axis=1)] == log["action"]
    assert usual.mean() == pytest.approx(rows.max(axis=1).mean(), abs=0.03)


def test_episodes_end_by_themselves_and_their_logs_say_so() -> None:
    log = sampled(Countdown(), np.random.default_rng(0), 3, episodes=4)
    assert log["episode"].tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3]
    assert log["time"].tolist() == [0, 0, 1, 0, 1, 2, 0, 1, 2]
    assert log["x"].tolist() == [1, 2, 1, 3, 2, 1, 4, 3, 2]
    assert log["terminal"].tolist() == [1, 0, 1, 0, 0, 1, 0, 0, 0]
    read = surefoot.read_log(log, state="x", terminal="terminal")
    assert int(read.problem(0.5).terminal.sum()) == 1


def test_a_return_is_the_discounted_sum_up_to_the_end() -> None:
    made, rng = Countdown(), np.random.default_rng(0)
    start = np.array([[3.0], [1.0], [4.0]])
    assert returns(made, rng, made.baseline, start).tolist() == [2.5, 0, 3 + 1 + 0.25]
    assert returns(made, rng, made.baseline, start, horizon=1).tolist() == [2, 0, 3]
    assert start.tolist() == [[3], [1], [4]]


def test_actions_are_picked_as_often_as_their_rows_say() -> None:
    rows = np.broadcast_to([0.2, 0.5, 0.3], (30_000, 3))
    share = np.bincount(picked(np.random.default_rng(0), rows)) / len(rows)
    assert np.allclose(share, [0.2, 0.5, 0.3], atol=0.01)


def test_a_better_rule_is_worth_more_on_every_benchmark() -> None:
    """The values of the baselines are recorded numbers; that they are beaten is known."""

    def faster(x: np.ndarray) -> np.ndarray:
        """A lane to the right of the baseline's, near x = 2."""
        lane = np.select([x[:, 1] < 3, x[:, 1] > 4], [3, 4], 1)
        hold = np.select([x[:, 0] > 2.5, x[:, 0] > 1.5], [2, 1], 0)
        return explored(np.where((lane == 1) | (x[:, 0] > 3), hold, lane), 5, 0.0)

    def balanced(x: np.ndarray) -> np.ndarray:
        return explored((x[:, 2] + 0.5 * x[:, 3] > 0).astype(int), 2, 0.0)

    for made, better, expected in (
        (ContinuousWetChicken(), faster, 33.0),
        (CartPole(), balanced, 34.2),
        (IndustrialBenchmark(), IndustrialBenchmark(target=50, epsilon=0.0).baseline, -7393.0),
    ):
        rng = np.random.default_rng(1)
        start = made.reset(rng, 1000)
        usual, new = (returns(made, rng, y, start).mean() for y in (made.baseline, better))
        assert usual == pytest.approx(expected, rel=0.02)
        assert new > usual + 0.02 * abs(usual)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ContinuousWetChicken(turbulence=3.0), "must be finite and exceed max_velocity"),
        (lambda: CartPole(noise=1.5), "noise"),
        (lambda: IndustrialBenchmark(setpoint=101), "setpoint"),
        (lambda: sampled(CartPole(), np.random.default_rng(0), 0), "steps and episodes"),
        (
            lambda: returns(Countdown(gamma=1.0), np.random.default_rng(0), len, np.ones((1, 1))),
            "need a horizon",
        ),
    ],
)
def test_wrong_parameters_are_refused_in_words(call: Any, words: str) -> None:
    with pytest.raises(surefoot.ParameterError, match=words):
        call()
