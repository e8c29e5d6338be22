"""Reaching: the draws against a plain loop, and the bounds against the truth."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import surefoot
from support import worlds
from surefoot.evidence.screening import Reach, reach
from surefoot.statistics.radii import any_time_bernstein

MOVE = np.zeros((5, 3))
MOVE[1], MOVE[3] = [-0.2, 0.2, 0.0], [0.0, -0.1, 0.1]


def world() -> worlds.World:
    return worlds.garnet(np.random.default_rng(8), 5, 3, gamma=0.8)


def posed(seed: int, episodes: int, steps: int) -> surefoot.Problem:
    return worlds.problem(
        world(), worlds.sample(world(), np.random.default_rng(seed), episodes, steps)
    )


def true_means(weight: np.ndarray) -> np.ndarray:
    """E gamma^T of the first of 1 and 3 met, from 1, 3 and 0, if actions count with this weight."""
    one, at, away = np.einsum("sa,sat->st", weight, world().p), [1, 3], [0, 2, 4]
    stay = np.linalg.inv(np.eye(3) - 0.8 * one[np.ix_(away, away)])
    from_away = stay @ (0.8 * one[np.ix_(away, at)])
    again = 0.8 * (one[np.ix_(at, at)] + one[np.ix_(at, away)] @ from_away)
    return np.vstack([again, from_away[:1]])


def by_loop(problem: surefoot.Problem, part: np.ndarray) -> dict[tuple[int, int], list[float]]:
    """(source, target) -> the draws: from every visit of 1 or 3, and the first of 0 since then."""
    log, found = problem.log, {(s, t): [] for s in (1, 3, 0) for t in (1, 3)}  # type: ignore[var-annotated]
    assert log is not None
    each = np.broadcast_to(log.discounts(0.8), len(log))
    for episode in range(log.n_episodes):
        rows = np.flatnonzero(log.episode == episode)
        path = [*log.state[rows].tolist(), int(log.next_state[rows[-1]])]
        started = False
        for i, row in enumerate(rows):
            s = path[i]
            if s in (1, 3):
                started = False
            if not part[row] or s not in (0, 1, 3) or (s == 0 and started):
                continue
            started = started or s == 0
            # nobody knows how long a step of unequal length before a cut took
            known = len(path) - (log.survives is not None and bool(log.cuts[rows[-1]]))
            later = [j for j in range(i + 1, known) if path[j] in (1, 3)]
            gives = MOVE[s, log.action[row]] < 0
            for t in (1, 3):
                hit = bool(later) and path[later[0]] == t and not gives
                found[s, t].append(float(np.prod(each[row : row + later[0] - i])) if hit else 0.0)
    return found


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize(("episodes", "steps"), [(60, 7), (1, 400)])
def test_draws_are_those_of_a_loop(episodes: int, steps: int, unequal: bool) -> None:
    """Also where steps take unequal time, so that each row has a discount of its own."""
    problem = posed(0, episodes, steps)
    log = problem.log
    assert log is not None
    if unequal:
        shares = np.random.default_rng(1).random(len(log))
        log = dataclasses.replace(log, beside={"survives": shares})
        problem = dataclasses.replace(problem, log=log)
    part = log.episode % 4 != 0 if episodes > 1 else np.arange(steps) >= 100
    order = np.arange(len(log))
    found, wanted = reach(problem, log, part, MOVE, 0.1, order), by_loop(problem, part)
    assert found.sources.tolist() == [1, 3, 0]
    assert found.targets.tolist() == [1, 3]
    for i, s in enumerate(found.sources):
        for j, t in enumerate(found.targets):
            y = np.array(wanted[s, t])
            before = (0.5 + np.cumsum(y) - y) / (np.arange(len(y)) + 1)
            assert found.n[i] == len(y) > 10
            assert found.mean[i, j] == pytest.approx(y.mean())
            assert found.variance[i, j] == pytest.approx(((y - before) ** 2).mean())
    n = np.broadcast_to(found.n[:, None], (3, 2))
    radius = any_time_bernstein(n, found.variance, 0.1 / 6)  # 3 sources x 2 targets
    assert np.allclose(found.lower_at(), np.maximum(found.mean - radius, 0))


def test_draws_are_taken_in_the_order_of_their_turns() -> None:
    """The scatter is counted from the draws before: another order of a log, the same turns."""
    problem = posed(1, 60, 7)
    log = problem.log
    assert log is not None
    back = np.argsort(-log.episode, kind="stable")
    columns = {x: getattr(log, x)[back] for x in ("state", "action", "reward", "next_state")}
    turned = dataclasses.replace(log, **columns)
    every = np.ones(len(log), dtype=bool)
    mine = reach(problem, log, every, MOVE, 0.1, 59 - log.episode)
    theirs = reach(problem, turned, every, MOVE, 0.1, turned.episode)
    assert mine.variance == pytest.approx(theirs.variance)
    as_it_lies = reach(problem, log, every, MOVE, 0.1, log.episode)
    assert mine.mean == pytest.approx(as_it_lies.mean)
    assert abs(mine.variance - as_it_lies.variance).max() > 1e-6


def test_with_the_true_means_the_gain_is_no_more_than_the_truth_and_nothing_is_lost_where_none_gives() -> (
    None
):
    """U by solving for the first target met; the advantage of the policy in the targets."""
    w = world()
    q = w.model.backup(surefoot.evaluate(w.model, w.pi_b))
    move, best = np.zeros((5, 3)), np.argsort(-q, axis=1)
    for s in (1, 3):
        move[s, best[s, 0]], move[s, best[s, 2]] = 0.02, -0.02
    for give in (True, False):
        pi = w.pi_b + move
        truth = surefoot.evaluate(w.model, pi) - surefoot.evaluate(w.model, w.pi_b)
        c = (move * q).sum(axis=-1)
        found = Reach(
            sources=np.array([1, 3, 0]),
            targets=np.array([1, 3]),
            n=np.full(3, 1e12),
            mean=true_means(w.pi_b * (move >= 0) if give else pi),
            variance=np.zeros((3, 2)),
            delta=0.01,
        )
        gain = found.gain(c)
        if give:
            assert (gain[[0, 1, 3]] < truth[[0, 1, 3]]).all()
            assert (gain[[1, 3]] > c[[1, 3]]).all()
        else:
            assert np.allclose(gain[[0, 1, 3]], truth[[0, 1, 3]])


def test_bounds_hold_for_all_means_at_once_in_all_but_a_delta_share_of_logs() -> None:
    w, wrong, weak = world(), 0, 0
    true = true_means(w.pi_b * (MOVE >= 0))
    for seed in range(100):
        problem = posed(seed, 1, 400)
        assert problem.log is not None
        found = reach(problem, problem.log, np.ones(400, dtype=bool), MOVE, 0.2, np.arange(400))
        wrong += (found.lower_at() > true).any()
        weak += (found.lower_at(25.0) > true).any()  # as if there were 25 times as many draws
    assert wrong <= 0.2 * 100
    assert weak > 0.2 * 100


def test_without_a_move_or_with_too_many_means_nothing_is_added() -> None:
    problem = posed(0, 20, 7)
    assert problem.log is not None
    every, nothing = np.ones(140, dtype=bool), np.zeros((5, 3))
    found = reach(problem, problem.log, every, nothing, 0.1, np.arange(140))
    assert found.gain(np.zeros(5)).tolist() == [0] * 5
