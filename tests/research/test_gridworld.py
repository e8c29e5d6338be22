"""The gridworld: its map cell by cell, values worked out by hand, and large grids by lists of
successors alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.algorithms import algorithm
from surefoot.core import known_model
from surefoot.planning import optimal
from surefoot.research.benchmarks import Gridworld
from surefoot.research.simulate import Sampler, Worlds, first_key, trial_numbers
from surefoot.research.studies.spec import Variant, parse_study
from surefoot.research.studies.trials import run_trials

NORTH, EAST, SOUTH, WEST = range(4)
# '|' is a wall to the right of a cell; the last line is row y = 0
PUBLISHED = [
    ". . . . .",
    ". . . .|.",
    ". . .|.|.",
    ". . .|. .",
    ". . .|. .",
]


def world_of(made: Gridworld) -> Worlds:
    return made.worlds(first_key(0, made.name, trial_numbers(0, 2)))


def step(x: int, y: int, move: int) -> int:
    """Where a move leads on the published map."""
    row = PUBLISHED[4 - y]
    to_x, to_y = x + (move == EAST) - (move == WEST), y + (move == NORTH) - (move == SOUTH)
    blocked = move in (EAST, WEST) and "|" in row[2 * min(x, to_x) + 1 : 2 * min(x, to_x) + 2]
    if blocked or not (0 <= to_x < 5 and 0 <= to_y < 5):
        to_x, to_y = x, y
    return to_x + 5 * to_y


def test_every_move_of_the_published_grid_leads_where_its_map_says() -> None:
    p = np.zeros((25, 4, 25))
    for s in range(25):
        for a in range(4):
            for turn, chance in ((0, 0.75), (1, 0.10), (2, 0.05), (3, 0.10)):
                p[s, a, step(s % 5, s // 5, (a + turn) % 4)] += chance
    world = world_of(Gridworld())
    assert np.allclose(world.p[0], p, atol=1e-15)
    assert np.flatnonzero(world.terminal[0]).tolist() == [24]
    assert world.start[0].tolist() == [1.0] + [0.0] * 24
    assert Gridworld().episodes(7) == Gridworld(horizon=50).episodes(7)


def test_the_smallest_grid_has_the_value_worked_out_by_hand() -> None:
    """Two by two, no walls: from a corner beside the goal u = 0.75 + gamma (0.15 u + 0.1 v), from
    the start v = gamma (0.85 u + 0.15 v).
    """
    gamma = 0.9
    system = np.array([[1 - 0.15 * gamma, -0.1 * gamma], [-0.85 * gamma, 1 - 0.15 * gamma]])
    _, v = np.linalg.solve(system, [0.75, 0.0])
    assert world_of(Gridworld(size=2, gamma=gamma)).rho_star[0] == pytest.approx(v, rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4, 7, 18])
def test_no_probability_is_lost_and_the_goal_can_be_reached_from_everywhere(size: int) -> None:
    world = world_of(Gridworld(size=size))
    assert np.allclose(world.p.sum(axis=-1), 1, atol=1e-14)
    assert np.allclose(world.pi_b.sum(axis=-1), 1, atol=1e-14)
    found = optimal(known_model(world.p[0], world.model.r[0], 0.95, [size**2 - 1]))
    assert (found.q.max(axis=-1)[:-1] > 0).all()


@pytest.mark.parametrize(("size", "gamma"), [(5, 0.95), (4, 0.8), (20, 0.97)])
def test_the_baseline_is_as_good_as_asked_for(size: int, gamma: float) -> None:
    uniform = np.full((1, size**2, 4), 0.25)
    for eta in (0.0, 0.3, 0.9):
        world = world_of(Gridworld(size=size, eta=eta, gamma=gamma))
        lowest = world.value(uniform)[0]
        target = lowest + eta * (world.rho_star[0] - lowest)
        assert world.rho_b[0] == pytest.approx(target, rel=1e-4)
        if eta == 0:
            assert np.allclose(world.pi_b, 0.25, atol=1e-5)


def test_the_baseline_is_a_power_of_the_optimal_values() -> None:
    """ln pi_b is beta ln q* but for a constant in each state, with one beta everywhere."""
    world = world_of(Gridworld())
    q = optimal(world.model).q[0, :-1]
    by, of = np.log(world.pi_b[0, :-1]), np.log(q)
    slope = (by.max(axis=1) - by.min(axis=1)) / (of.max(axis=1) - of.min(axis=1))
    assert np.allclose(slope, slope[0], rtol=1e-6) and slope[0] > 1


def test_a_large_grid_is_valued_by_its_successors_as_by_dense_arrays() -> None:
    made = Gridworld(size=18)
    world = world_of(made)
    before = world.successor.copy()
    assert made.sparse and not Gridworld(size=17).sparse
    found = world.rho_b[0], world.rho_star[0]
    assert "p" not in vars(world) and "model" not in vars(world)  # nothing dense was formed
    pi_b, best = world.pi_b, optimal(world.model).pi
    v_b, v = (surefoot.planning.evaluate(world.model, pi)[0, 0] for pi in (pi_b, best))
    assert found == (pytest.approx(v_b, rel=1e-9), pytest.approx(v, rel=1e-9))
    assert np.array_equal(world.successor, before)  # the world is not worked on in place


def test_a_log_of_a_large_grid_is_the_same_problem_sparse_and_dense() -> None:
    made = Gridworld(size=18)
    world = world_of(made)
    log = Sampler(world).log(5, made.episodes(30))
    one, other = (world.problem_of_log(log, sparse=sparse) for sparse in (True, False))
    assert np.allclose(one.r, other.r) and (one.r[-20:] > 0).any()
    for name in ("lower-approx-soft-spibb", "priced-soft-spibb"):
        chosen = algorithm(name, epsilon=1.0, delta=1.0)
        values = [
            world.value(np.reshape(surefoot.improve(x, chosen).pi, (1, 324, 4)))[0]
            for x in (one, other)
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-6)
        assert values[0] > world.rho_b[0]


def test_a_study_runs_small_and_large_grids() -> None:
    study = parse_study(
        """
        name = "grids"
        seed = 1
        trials = 2
        benchmark = {name = "gridworld", size = [5, 18], sizes = [40]}
        algorithms = [{name = "lower-approx-soft-spibb", epsilon = 1.0, delta = 1}]
        """,
        "here",
    )
    for size in (5, 18):
        found = run_trials(study, Variant(Gridworld(size=size), ""), 0, 2)
        assert ((found.rho > found.rho_b) & (found.rho <= found.rho_star)).all()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"size": 1}, "size"),
        ({"eta": 1}, "eta"),
        ({"gamma": 1.0}, "gamma"),
        ({"horizon": 0}, "horizon"),
        ({"size": 40, "gamma": 0.7}, "gamma 0.7 is too small for size 40"),
    ],
)
def test_a_wrong_parameter_of_the_gridworld_raises_with_its_name(
    parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(surefoot.SurefootError, match=f"gridworld: {words}"):
        world_of(Gridworld(**parameters))
