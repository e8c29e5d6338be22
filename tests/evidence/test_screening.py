"""Screening: the draws against a plain loop, the split, and the bounds against the truth, also
where nothing is to be gained.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import surefoot
from support import worlds
from surefoot.evidence.return_evidence import regenerations_of, star_interval, star_of
from surefoot.evidence.screening import MARGIN, PART, Screened, moments, reach, screened, shuffled
from surefoot.problems.montecarlo import discounted_returns

B = np.array([0.5, 0.4, 0.1])


def coins(rng: np.random.Generator, chances: np.ndarray, episodes: int) -> surefoot.Problem:
    """One decision in one of a few states, drawn each time: a win pays 1, with chances [S, A]."""
    s = rng.integers(0, len(chances), episodes)
    a = rng.choice(3, p=B, size=episodes)
    end, n = len(chances), len(chances) + 1
    return surefoot.problem(
        state=s,
        action=a,
        reward=(rng.random(episodes) < chances[s, a]).astype(float),
        next_state=np.full(episodes, end),
        episode=np.arange(episodes),
        gamma=0.9,
        pi_b=np.tile(B, (n, 1)),
        terminal_states=[end],
        return_range=(0, 1),
        n_states=n,
        start=0,
    )


def journey(seed: int, steps: int, episodes: int = 1) -> surefoot.Problem:
    """One trajectory of a small continuing world, or some that are cut."""
    log = worlds.sample(small(), np.random.default_rng(seed), episodes, steps)
    return worlds.problem(small(), log)


def small() -> worlds.World:
    return worlds.garnet(np.random.default_rng(3), 4, 3, gamma=0.5)


def gains(world: worlds.World, found: Screened) -> np.ndarray:
    """The true sum_a move q^{pi_b}, [S]."""
    q = world.model.backup(surefoot.evaluate(world.model, world.pi_b))
    return np.asarray((found.move * q).sum(axis=-1))


def test_a_draw_is_the_weighted_return_of_the_first_visit_of_a_state_in_an_episode_not_read_before() -> (
    None
):
    """Terminal states, cut episodes, several visits: a loop over the episodes that test."""
    world = worlds.random_mdp(np.random.default_rng(7), n_states=20, n_actions=3)
    world = dataclasses.replace(world, pi_b=np.full((20, 3), 1 / 3))
    problem = worlds.problem(world, worlds.sample(world, np.random.default_rng(6), 2000, 12))
    found, log, gamma = screened(problem, 0.2), problem.log, problem.gamma
    assert log is not None
    lo, hi = problem.return_range.lo, problem.return_range.hi
    draws: dict[int, list[float]] = {s: [] for s in range(20)}
    cut = 0
    for episode in np.flatnonzero(shuffled(log.n_episodes) % PART):
        rows = np.flatnonzero(log.episode == episode)
        met = set()
        for t in rows:
            s, a = int(log.state[t]), int(log.action[t])
            if s in met:
                continue
            met.add(s)
            ratio = found.move[s, a] / problem.pi_b[s, a]
            later = rows[rows >= t]
            g = sum(gamma**i * log.reward[u] for i, u in enumerate(later))
            if not log.ends[rows[-1]]:
                cut += 1
                g = np.clip(g + gamma ** len(later) * (lo if ratio > 0 else hi), lo, hi)
            gain = (found.move[s] * found.q[s]).sum()
            draws[s].append(ratio * (g - found.q[s, a]) + gain)
    proposed = np.flatnonzero((found.move != 0).any(axis=-1))
    assert cut > 20 and len(proposed) > 0
    for s in proposed:
        assert len(found.draws) == 1
        assert found.n[s] == len(draws[s])
        assert np.allclose(found.draws[0][found.state == s], draws[s])
        assert found.floor[s] <= min(draws[s])


def test_what_is_proposed_depends_on_the_proposing_part_alone() -> None:
    rng = np.random.default_rng(0)
    problem = coins(rng, np.array([[0.2, 0.5, 0.9], [0.4, 0.4, 0.8]]), 400)
    other = coins(np.random.default_rng(9), np.full((2, 3), 0.5), 400)
    log, tested = problem.log, shuffled(400) % PART != 0
    assert log is not None and other.log is not None
    columns = {
        name: np.where(tested, getattr(other.log, name), getattr(log, name))
        for name in ("state", "action", "reward", "next_state")
    }
    found, changed = (screened(x, 0.2) for x in (problem, problem.with_log(
        dataclasses.replace(log, **columns)
    )))  # fmt: skip
    for name in ("move", "q", "floor"):
        assert np.array_equal(getattr(found, name), getattr(changed, name))
    assert all(
        np.array_equal(getattr(found.plan, name), getattr(changed.plan, name))
        for name in ("n", "variance", "width")
    )
    assert found.log == changed.log
    assert (found.move != 0).any()
    assert not np.array_equal(found.draws[0], changed.draws[0])


def sorted_draws(seed: int, episodes: int, actions: int) -> surefoot.Problem:
    """One decision among many actions that all win alike; the log is sorted by action and win."""
    rng = np.random.default_rng(seed)
    action, win = rng.integers(0, actions, episodes), rng.random(episodes) < 0.5
    order = np.lexsort((win, action))
    return surefoot.problem(
        state=np.zeros(episodes, dtype=int), action=action[order], reward=1.0 * win[order],
        next_state=np.ones(episodes, dtype=int), episode=np.arange(episodes), gamma=0.9,
        pi_b=np.full((2, actions), 1 / actions), terminal_states=[1], return_range=(0, 1), start=0,
    )  # fmt: skip


def test_of_logs_sorted_by_what_happened_at_most_a_delta_share_proves_a_move() -> None:
    """Every fourth episode of a sorted log knows what the others show: a split by position proves a
    move in 37 of these 60 logs.
    """
    found = (screened(sorted_draws(seed, 960, 12), 0.2) for seed in range(60))
    assert sum((x.lower_at() > 0).any() for x in found) <= 0.2 * 60


def test_the_first_quarter_of_one_trajectory_proposes_and_the_cycles_of_the_rest_test() -> None:
    problem = journey(1, 4000)
    found, log, gamma = screened(problem, 0.2), problem.log, problem.gamma
    assert log is not None
    s, star = int(np.argmax((found.move != 0).any(axis=-1))), star_of(log)
    path = np.append(log.state, log.next_state[-1])
    back = np.flatnonzero(path == star)
    g = np.append(discounted_returns(log, gamma), 0.0)
    rows, seen = [], False
    for t in range(len(log) // PART, len(log)):
        seen = seen and path[t] != star
        if path[t] == s and not seen and (back > t).any():
            rows.append(t)
            seen = True
    end = np.array([back[back > t][0] for t in rows])
    d = gamma ** (end - rows).astype(float)
    ratio = (found.move / problem.pi_b)[s, log.action[rows]]
    gain = (found.move[s] * found.q[s]).sum()
    assert found.n[s] == len(rows)
    v = surefoot.evaluate(small().model, small().pi_b)[star]
    z = ratio * (g[rows] - d * g[end] + v * d - found.q[s, log.action[rows]]) + gain
    low, high = (x[found.state == s] for x in found.draws)
    assert (np.minimum(low, high) <= z + 1e-9).all() and (z <= np.maximum(low, high) + 1e-9).all()
    assert 0 < abs(high - low).max() < 1


def test_the_value_at_which_cycles_end_is_bounded_at_its_share_of_delta() -> None:
    problem = journey(1, 20_000)
    log, found = problem.log, screened(problem, 0.2)
    assert log is not None
    only = dataclasses.replace(log, action=np.zeros_like(log.action), n_actions=1)
    cycles = regenerations_of(only, problem.gamma, (len(log) // PART, len(log)))
    least, most = star_interval(cycles, problem, 0.1 * 0.2, "bernstein")
    use = (found.move != 0).any(axis=-1)[log.state[cycles.row]]
    s, a = log.state[cycles.row[use]], log.action[cycles.row[use]]
    ratio = (found.move / problem.pi_b)[s, a]
    low, high = found.draws
    assert high - low == pytest.approx(ratio * (most - least) * cycles.d[use])


@pytest.mark.parametrize("one", [False, True])
def test_how_soon_a_move_is_reached_is_measured_on_the_rows_that_did_not_propose_it(
    one: bool,
) -> None:
    problem = journey(1, 20_000) if one else journey(1, 12, 1000)
    log, found = problem.log, screened(problem, 0.2)
    assert log is not None and (found.move != 0).any()
    turn = np.arange(len(log)) if one else shuffled(log.n_episodes)[log.episode]
    tested = turn >= len(log) // PART if one else turn % PART != 0
    wanted = reach(problem, log, tested, found.move, 0.05 * 0.2, turn)
    for name in ("sources", "targets", "n", "mean", "variance", "delta"):
        assert np.array_equal(getattr(found.reach, name), getattr(wanted, name)), name


HARD: dict[str, Any] = {
    "rare wins": np.full((1, 3), 0.05),
    "rare losses": np.full((1, 3), 0.95),
    "even": np.full((1, 3), 0.5),
    "several states": np.full((4, 3), 0.5),
}


@pytest.mark.parametrize("name", HARD)
def test_where_nothing_is_gained_a_move_passes_in_at_most_a_delta_share_of_logs(name: str) -> None:
    """Of 300 logs those with a test; with a twentieth of ln(tests/delta) the share is larger, so
    that this can fail.
    """
    delta, wrong, weak, tests = 0.2, 0, 0, 0
    for seed in range(300):
        found = screened(coins(np.random.default_rng(seed), HARD[name], 240), delta)
        tests += (found.move != 0).any()
        wrong += (found.lower_at() > 0).any()
        weak += (dataclasses.replace(found, log=found.log / 20).lower_at() > 0).any()
    assert tests > 150
    assert wrong <= delta * tests
    assert weak > delta * tests


@pytest.mark.parametrize("one", [False, True])
def test_delta_is_shared_by_all_tests_and_by_what_else_is_bounded(one: bool) -> None:
    found = screened(journey(0, 20_000) if one else journey(1, 12, 2000), 0.05)
    tests = int((found.move != 0).any(axis=-1).sum())
    assert tests > 1
    assert found.log == pytest.approx(np.log(tests / (0.05 * (0.85 if one else 0.95))))
    sources = tests + (not found.move[0].any())  # the start, where it is none of them
    assert found.reach.delta == pytest.approx(0.05 * 0.05 / (tests * sources))


def same_actions() -> worlds.World:
    """The small world with actions that all do the same: no policy gains anything."""
    world = small()
    return dataclasses.replace(world, p=np.repeat(world.p[:, :1], 3, axis=1))


@pytest.mark.parametrize(("episodes", "steps"), [(1, 1500), (150, 5)])
def test_where_all_actions_do_the_same_no_more_than_a_delta_share_of_logs_proves_a_move(
    episodes: int, steps: int
) -> None:
    """One trajectory, and episodes that are all cut; 120 logs of each."""
    wrong, tests = 0, 0
    for seed in range(120):
        log = worlds.sample(same_actions(), np.random.default_rng(seed), episodes, steps)
        found = screened(worlds.problem(same_actions(), log), 0.2)
        tests += (found.move != 0).any()
        wrong += (found.lower_at() > 0).any()
    assert tests > 60
    assert wrong <= 0.2 * tests


@pytest.mark.parametrize("seed", range(12))
def test_no_lower_bound_of_one_trajectory_lies_above_the_truth(seed: int) -> None:
    found = screened(journey(seed, 3000), 0.05)
    assert (found.lower_at() <= gains(small(), found) + 1e-9).all()


def test_ample_data_prove_most_of_what_is_gained() -> None:
    for problem in (journey(0, 100_000), journey(1, 12, 5000)):
        found = screened(problem, 0.05)
        true, lower = gains(small(), found), found.lower_at()
        assert (lower > 0.5 * abs(true)).sum() >= 2
        assert (lower[true > 0.1] > 0).all()


def test_more_data_only_raise_the_bounds_and_none_exceeds_the_mean() -> None:
    found = screened(coins(np.random.default_rng(2), np.array([[0.2, 0.5, 0.9]]), 400), 0.05)
    bounds = [found.lower_at(x)[0] for x in (0.25, 1.0, 4.0, 1e6)]
    assert bounds == sorted(bounds)
    assert found.draws[0].mean() - 0.01 < bounds[-1] <= found.draws[0].mean()


def test_a_state_without_visits_in_the_tested_part_proves_nothing() -> None:
    """Every fourth episode starts in state 1, which no other episode meets."""
    n = 400
    s = (shuffled(n) % PART == 0).astype(int)
    a = np.random.default_rng(0).integers(0, 2, n)
    problem = surefoot.problem(
        state=s, action=a, reward=1.0 * a, next_state=np.full(n, 2), episode=np.arange(n),
        gamma=0.9, pi_b=np.full((3, 2), 0.5), terminal_states=[2], return_range=(0, 1), start=0,
    )  # fmt: skip
    found = screened(problem, 0.05)
    assert found.n[1] == 0
    assert not found.lower_at()[1] > 0
    assert np.array_equal(
        surefoot.improve(problem, surefoot.ScreenedAdvantage(0.05)).pi[1], [0.5, 0.5]
    )


def test_counts_alone_and_one_episode_that_ends_are_refused() -> None:
    problem = coins(np.random.default_rng(0), np.full((1, 3), 0.5), 40)
    with pytest.raises(surefoot.NotAvailableError, match="from its log"):
        screened(dataclasses.replace(problem, log=None), 0.05)
    with pytest.raises(surefoot.NotAvailableError, match="several episodes"):
        screened(coins(np.random.default_rng(0), np.full((1, 3), 0.5), 1), 0.05)


def test_between_two_ends_no_value_has_a_smaller_bound_than_both() -> None:
    """X + v D for v between the ends of v*: the log of the capital is concave in v."""
    found = screened(journey(2, 20_000), 0.2)
    low, high = found.draws
    for share in (0.1, 0.5, 0.9):
        between = dataclasses.replace(found, draws=((1 - share) * low + share * high,))
        assert (between.lower_at() >= found.lower_at() - 1e-9).all()
    assert (found.lower_at() > 0).any()


def test_moments_are_those_of_each_group() -> None:
    n, mean, variance = moments(np.array([0, 2, 2]), np.array([5.0, 1.0, 3.0]), 4)
    assert n.tolist() == [1, 0, 2, 0]
    assert mean.tolist() == [5, 0, 2, 0]
    assert variance.tolist() == [0, 0, 1, 0]
    assert 0 < MARGIN < 1e-6


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"propensity": np.full(400, 0.25)}, "propensities"),
        ({"pi_b": None, "n_actions": 2}, "estimated from the same log"),
    ],
)
def test_moves_of_another_policy_than_the_baseline_are_not_proved(
    given: dict[str, Any], words: str
) -> None:
    """The draws are weighted by the baseline: rows of another policy, or a baseline read off the
    same rows, would prove what is not true.
    """
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 400)
    rows = {
        "state": np.zeros(400, dtype=int),
        "action": action,
        "reward": (rng.random(400) < 0.3 + 0.5 * action) * 1.0,
        "next_state": np.ones(400, dtype=int),
        "episode": np.arange(400),
    }
    known = {"gamma": 0.9, "terminal_states": [1], "n_states": 2, "return_range": (0, 1)}
    pose = {**rows, **known, "pi_b": np.full((2, 2), 0.5)}
    assert screened(surefoot.problem(**pose), 0.1).lower_at()[0] > 0
    problem = surefoot.problem(**{**pose, **given})
    with pytest.raises(surefoot.NotAvailableError, match=words):
        surefoot.improve(problem, surefoot.ScreenedAdvantage(delta=0.1))
