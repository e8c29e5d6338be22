"""Steps of unequal length: nobody knows how long the one before a cut took, and what is said of
it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.evidence.return_evidence import bracket
from surefoot.logs import read_log
from surefoot.problems.ranges import ReturnRange


def cut_walk(**more: Any) -> surefoot.Problem:
    """Three steps an episode, none of which ended; the last has no row after it."""
    table = {
        "episode": np.repeat(np.arange(40), 3),
        "time": np.tile([0.0, 1.0, 3.0], 40),
        "state": np.tile(["a", "b", "a"], 40),
        "action": np.tile(["x", "y"], 60),
        "reward": np.tile([1.0, 0.0, 0.5], 40),
        "next_state": np.tile(["b", "a", "b"], 40),
    }
    log = read_log(table, discount_per=1, episode_end="cut")
    return log.problem(0.5, np.full((log.n_states, 2), 0.5), reward_range=(0, 1), **more)


def test_how_long_the_step_before_a_cut_took_is_not_known_and_anything_may_count_of_what_follows() -> (
    None
):
    """From the second row on: 0, two time units later 0.5, then anything: between nothing and
    gamma of [0, 2] counts, after gamma^2.
    """
    found = cut_walk(return_range=(0, 2))
    low, high = bracket(found, found.log, np.array([1, 2]), 10)
    assert low == pytest.approx([0.25 * 0.5, 0.5])
    assert high == pytest.approx([0.25 * 0.5 + 0.25 * 0.5 * 2, 0.5 + 0.5 * 2])


@pytest.mark.parametrize("sign", [1, -1])
def test_after_a_cut_of_unknown_length_nothing_may_count_where_0_is_outside_the_range(
    sign: int,
) -> None:
    """The last row pays 0.5, then between nothing and gamma of [0.4, 2] counts; and mirrored."""
    problem = cut_walk(return_range=(0, 2))
    assert problem.log is not None
    log = dataclasses.replace(problem.log, reward=sign * problem.log.reward)
    lo, hi = sorted((0.4 * sign, 2.0 * sign))
    problem = dataclasses.replace(problem, return_range=ReturnRange(lo, hi, True))
    low, high = bracket(problem, log, np.array([2]), 10)
    assert sorted((low[0] * sign, high[0] * sign)) == pytest.approx([0.5, 0.5 + 0.5 * 2])
    assert low[0] < high[0]


def test_a_step_before_a_cut_may_be_shorter_than_others_of_its_pair() -> None:
    """All others of the pair took 3 units, the shortest step takes 1: gamma may count, not
    gamma^3.
    """
    table = {
        "episode": np.repeat(np.arange(40), 3), "time": np.tile([0.0, 3.0, 4.0], 40),
        "state": np.tile(["a", "b", "a"], 40), "action": np.full(120, "x"),
        "reward": np.tile([1.0, 0.0, 0.5], 40), "next_state": np.tile(["b", "a", "b"], 40),
    }  # fmt: skip
    log = read_log(table, discount_per=1, episode_end="cut")
    found = log.problem(0.5, np.ones((log.n_states, 1)), reward_range=(0, 1), return_range=(0, 2))
    assert found.log is not None and found.log.survives[2] == 0.25
    low, high = bracket(found, found.log, np.array([1, 2]), 10)
    assert low == pytest.approx([0.5 * 0.5, 0.5])
    assert high == pytest.approx([0.5 * 0.5 + 0.25 * 2, 0.5 + 0.5 * 2])


def test_a_range_that_rests_on_the_shortest_step_of_the_log_is_not_called_declared() -> None:
    follows, declared = cut_walk(), cut_walk(return_range=(0, 2))
    assert follows.return_range.hi == 2 and not follows.return_range.declared
    assert any("shortest step of the log" in x for x in follows.notes)
    assert declared.return_range.declared
    pi = np.tile([0.6, 0.4], (follows.n_states, 1))
    said = [surefoot.certify(x, pi, "advantage") for x in (follows, declared)]
    assert [x.label for x in said] == ["approximate", "rigorous"]
    assert any("rests on the shortest step" in x for x in said[0].assumptions)
    of_rows = surefoot.certify(declared, pi, "planned-advantage")
    assert of_rows.label == "approximate"
    assert any("steps before cuts" in x for x in of_rows.assumptions)


def test_bounds_on_rows_are_not_rigorous_where_steps_before_cuts_have_unknown_lengths() -> None:
    """Also where rewards are declared."""
    problem = cut_walk(return_range=(0, 2))
    table = np.full((problem.n_states, 1, problem.n_states), 0.5)
    pi = np.tile([0.6, 0.4], (problem.n_states, 1))
    found = surefoot.certify(dataclasses.replace(problem, reward_table=table), pi, "robust")
    assert found.label == "approximate"
    assert any("steps before cuts" in x for x in found.assumptions)
