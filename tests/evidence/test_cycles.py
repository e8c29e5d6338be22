"""Regeneration cycles: the stretches against a plain loop, the interval of v*, and the event on
logs of a river solved exactly.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import surefoot
from support import worlds
from surefoot.evidence import ReturnEvidence, evidence
from surefoot.evidence.return_evidence import (
    Regenerations,
    learning_steps,
    regenerations_of,
    star_of,
)
from surefoot.statistics.radii import any_time, hoeffding

GAMMA = 0.8


@cache
def river() -> worlds.World:
    """A small river: a chain of 4 states that falls back to state 0; long stretches pay more, so
    that short cycles mislead.
    """
    p = np.zeros((4, 2, 4))
    for s in range(4):
        on = min(s + 1, 3)
        p[s, 0, on] += 0.5
        p[s, 0, 0] += 0.5
        p[s, 1, on] += 0.9
        p[s, 1, 0] += 0.1
    reward = np.repeat(np.arange(4.0)[:, None], 4, axis=1)
    return worlds.World(
        p, reward, np.array([[0.5, 0.5], [0.7, 0.3], [0.6, 0.4], [0.8, 0.2]]), GAMMA, ()
    )


def log_of(seed: int, steps: int) -> dict[str, Any]:
    """One trajectory from state 0."""
    u = np.random.default_rng(seed).random((steps, 2))
    first, ahead = river().pi_b[:, 0].tolist(), river().p[:, :, 0].tolist()
    state, action = [0], []
    for x, y in u.tolist():
        s = state[-1]
        action.append(int(x >= first[s]))
        state.append(0 if y < ahead[s][action[-1]] else min(s + 1, 3))
    now = np.array(state)
    return {
        "state": now[:-1],
        "action": action,
        "reward": 1.0 * now[:-1],
        "next_state": now[1:],
        "episode": np.zeros(steps, dtype=int),
    }


@cache
def problem(seed: int, steps: int) -> surefoot.Problem:
    return worlds.problem(river(), log_of(seed, steps), reward_range=(0, 3))


@pytest.mark.parametrize("seed", range(5))
def test_the_first_visit_of_each_pair_in_each_complete_cycle_runs_to_the_next_visit_of_the_chosen_state(
    seed: int,
) -> None:
    log = problem(seed, 60).log
    assert log is not None
    begin, star = learning_steps(log), star_of(log)
    assert begin == 6
    assert star == np.bincount(log.state[:6]).argmax()
    path = [*log.state.tolist(), int(log.next_state[-1])]
    wanted, starts, seen = [], [], set()
    for t in range(begin, 60):
        if path[t] == star:
            seen = set()
        pair = (log.state[t], log.action[t])
        later = [u for u in range(t + 1, 61) if path[u] == star]
        if pair in seen or not later:
            continue
        seen.add(pair)
        x = sum(GAMMA**i * log.reward[t + i] for i in range(later[0] - t))
        wanted.append((pair[0] * 2 + pair[1], x, GAMMA ** (later[0] - t)))
        if path[t] == star:
            starts.append(wanted[-1][1:])
    found = regenerations_of(log, GAMMA)
    assert np.allclose(np.stack([found.pair, found.x, found.d], axis=1), wanted)
    assert np.allclose(np.stack([found.star_x, found.star_d], axis=1), starts)


def test_the_value_at_which_cycles_end_lies_where_its_own_equation_holds_within_the_radius() -> (
    None
):
    """A radius without variance: |mean X - v (1 - mean D)| <= r, in closed form."""
    log = problem(0, 4000).log
    assert log is not None
    found = regenerations_of(log, GAMMA)
    mean, rest = found.star_x.mean(), 1 - found.star_d.mean()
    assert found.value_of_star(0, 15, lambda y: 0.1) == pytest.approx(
        ((mean - 0.1) / rest, (mean + 0.1) / rest)
    )
    assert found.value_of_star(0, 15, lambda y: 100.0) == (0, 15)
    assert found.value_of_star(100, 150, lambda y: 0.1) == (
        100,
        150,
    )  # no value fits: nothing is said
    # With a variance: the radius at its own ends, or smaller.
    low, high = found.value_of_star(0, 15, lambda y: float(y.std() / 10))
    for v in (low, high):
        assert abs(mean - rest * v) == pytest.approx(
            max((found.star_x + u * found.star_d).std() for u in (low, high)) / 10, rel=1e-3
        )


@pytest.mark.parametrize("d", [(0.5, 0.1), (0.1, 0.5)])
def test_no_value_within_its_own_radius_is_lost_whichever_way_the_radius_grows(
    d: tuple[float, float],
) -> None:
    x, d = np.array([0.0, 1.0]), np.array(d)
    empty = np.empty(0)
    radius = lambda y: 0.5 * float(abs(y[0] - y[1]))  # noqa: E731
    low, high = Regenerations(empty, empty, empty, x, d, empty).value_of_star(-20, 20, radius)
    fits = [
        v
        for v in np.linspace(-20, 20, 4001)
        if abs(x.mean() - (1 - d.mean()) * v) <= radius(x + v * d)
    ]
    assert low <= min(fits) and max(fits) <= high
    assert high - low < 20


def exact() -> np.ndarray:
    found: np.ndarray = river().model.backup(surefoot.evaluate(river().model, river().pi_b))
    return found


@pytest.mark.parametrize("error", ["hoeffding", "mpeb", "bernstein"])
def test_the_means_approach_q_and_the_error_of_differences_is_within_the_radii(error: str) -> None:
    found = evidence(problem(1, 60_000), 0.05, error=error)
    assert found.visits == "cycles" and not found.fixed
    assert np.allclose(found.mean, exact(), atol=0.25)
    assert missed(found) == 0
    assert found.n_pairs == 8 + 1  # one more for the value at which cycles end


def missed(found: ReturnEvidence, share: float = 1.0) -> int:
    """In how many states no constant brings all errors within (a share of) the radii: |q - mean
    - constant| <= radius has no solution.
    """
    error, radius, none = exact() - found.mean, share * found.radius, np.isinf(found.radius)
    low, high = error - radius, error + radius
    return int(
        (np.where(none, -np.inf, low).max(axis=1) > np.where(none, np.inf, high).min(axis=1)).sum()
    )


@pytest.mark.parametrize("error", ["hoeffding", "bernstein"])
def test_the_event_holds_in_all_but_a_delta_share_of_logs_and_would_not_with_a_small_share_of_the_radius(
    error: str,
) -> None:
    logs, delta = 60, 0.2
    found = [
        evidence(problem(seed, 200), delta, error=error, visits="cycles") for seed in range(logs)
    ]
    assert (
        sum(missed(e) > 0 for e in found) <= delta * logs < sum(missed(e, 0.02) > 0 for e in found)
    )


def test_without_the_last_cycle_sums_are_biased_so_that_the_radius_must_hold_at_every_number_of_cycles() -> (
    None
):
    """Long cycles pay more and fit less often into what is left of the log: E sum (X + v* D -
    v*) over complete ones is below 0.
    """
    v, sums = float(surefoot.evaluate(river().model, river().pi_b)[0]), []
    for seed in range(1500):
        log = log_of(seed, 12)
        at = np.flatnonzero(np.append(log["state"], log["next_state"][-1]) == 0)
        steps = [
            (GAMMA ** np.arange(b - a) @ log["reward"][a:b], GAMMA ** (b - a))
            for a, b in pairwise(at)
        ]
        sums.append(sum(x + v * d - v for x, d in steps))
    assert np.mean(sums) + 3 * np.std(sums) / np.sqrt(len(sums)) < 0


def test_what_v_star_leaves_open_is_paid_as_far_as_the_actions_of_a_state_differ() -> None:
    made = problem(3, 4000)
    found = evidence(made, 0.1, visits="cycles")
    assert made.log is not None
    cycles, width = regenerations_of(made.log, GAMMA), made.return_range.width
    r, rest = (
        float(any_time(np.array(float(len(cycles.star_x))), 0.1 / 9 / 2, width)),
        1 - cycles.star_d.mean(),
    )
    low, high = ((cycles.star_x.mean() + sign * r) / rest for sign in (-1, 1))
    n = np.bincount(cycles.pair, minlength=8).reshape(4, 2)
    x, d = (
        np.bincount(cycles.pair, weights=y, minlength=8).reshape(4, 2) / n
        for y in (cycles.x, cycles.d)
    )
    assert np.allclose(found.mean, x + d * (low + high) / 2)
    assert np.allclose(found.unknown, abs(d - d.mean(axis=1, keepdims=True)) * (high - low) / 2)
    assert np.allclose(found.radius, any_time(found.n, 0.1 / 9 / 2, width) + found.unknown)
    assert found.unknown.max() > 0.01


def test_the_choice_between_cycles_and_thinning_reads_the_first_tenth_alone_which_is_then_left_out() -> (
    None
):
    steps = 200
    rare = {  # a ring of 50 states: nothing comes back in the first tenth
        "state": np.arange(steps) % 50,
        "next_state": (np.arange(steps) + 1) % 50,
        "action": np.zeros(steps, int),
        "reward": np.ones(steps),
        "episode": np.zeros(steps, int),
        "gamma": GAMMA,
        "pi_b": np.ones((50, 1)),
        "reward_range": (0, 1),
    }
    found = evidence(surefoot.problem(**rare), 0.1)
    assert found.visits == "thinned"
    assert (
        found.n.sum() == 180 - 21 + 1
    )  # every state is more than 21 steps from itself; 21 steps must fit
    assert evidence(problem(0, 200), 0.1).visits == "cycles"


def test_cycles_of_episodes_are_refused() -> None:
    log = worlds.sample(river(), np.random.default_rng(0), 3, 20)
    with pytest.raises(surefoot.NotAvailableError, match="one trajectory that goes on"):
        evidence(worlds.problem(river(), log, reward_range=(0, 3)), 0.1, visits="cycles")
    with pytest.raises(surefoot.ParameterError, match="steps belongs to"):
        evidence(problem(0, 60), 0.1, visits="cycles", steps=3)


def test_cycles_prove_more_than_thinned_returns_of_the_same_log() -> None:
    radius = {
        visits: evidence(problem(2, 20_000), 0.05, error="bernstein", visits=visits).radius
        for visits in ("cycles", "thinned")
    }
    assert (radius["cycles"] < 0.8 * radius["thinned"]).all()


def test_hoeffding_of_a_fixed_number_is_not_what_cycles_are_given() -> None:
    found = evidence(problem(0, 400), 0.1, visits="cycles")
    fixed = hoeffding(found.n, found.delta / found.n_pairs, found.width)
    assert (found.radius[found.n > 0] > fixed[found.n > 0]).all()
