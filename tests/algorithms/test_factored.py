"""Factored: its product against numbers by hand and a planted world, what it counts, and columns
that are not independent.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot import Factored, Problem
from surefoot.core import Labels

GAMMA = 0.9


def problem_of(rows: list[tuple[Any, ...]], **options: Any) -> Problem:
    """Rows (state, action, reward, next state) of episodes of one step; states are tuples, and
    what is no tuple is an end.
    """
    states = sorted({x for row in rows for x in (row[0], row[3])}, key=lambda x: (str(type(x)), x))
    ends = [x for x in states if not isinstance(x, tuple)]
    states = [x for x in states if isinstance(x, tuple)] + ends
    code = {x: i for i, x in enumerate(states)}
    made = surefoot.problem(
        state=[code[x[0]] for x in rows], action=[x[1] for x in rows],
        reward=[float(x[2]) for x in rows], next_state=[code[x[3]] for x in rows],
        episode=list(range(len(rows))), n_states=len(states), gamma=GAMMA, reward_range=(0, 9),
        terminal_states=[code[x] for x in ends], **options,
    )  # fmt: skip
    labels = Labels(tuple(states), tuple(range(made.n_actions)), ("x", "y"))
    return dataclasses.replace(made, labels=labels)


def model_of(problem: Problem, weight: float) -> tuple[Any, np.ndarray]:
    """(the model, n~ [S, A])."""
    found = Factored(weight).estimate(problem.blocks[0])
    return found.model, np.asarray(found.n)[0]


# Whatever the state, action 0 leads to (0, 1) in two of four rows: no column has a parent.
LEADS = (((0, 0), 1), ((0, 1), 2), ((0, 1), 2), ((1, 1), 3))
ROWS = [(s, 0, r, to) for s in ((0, 0), (0, 1), (1, 1)) for to, r in LEADS]
ROWS += [((1, 1), 1, 4, (1, 1))]


def test_the_product_is_that_of_the_columns() -> None:
    """Of the rows of action 0, x' = 1 in a quarter and y' = 1 in three; (1, 0) was never seen and
    is left out.
    """
    model, n = model_of(problem_of(ROWS), np.inf)
    product = np.array([3 / 4 * 1 / 4, 3 / 4 * 3 / 4, 1 / 4 * 3 / 4])  # (0, 0), (0, 1), (1, 1)
    for s in range(3):
        assert np.allclose(model.p[0, s, 0], product / product.sum())
        assert model.r[0, s, 0] == pytest.approx(2)
    assert n[:, 0].tolist() == [12, 12, 12]
    assert n[:, 1].tolist() == [0, 0, 1]


def test_rows_of_a_pair_overrule_the_product_by_their_number() -> None:
    """Four rows of a pair against m = 12: k = 3/4, 1 / n~ = (1 - 1/16) / 12 + 1/16 / 4."""
    model, n = model_of(problem_of(ROWS), 12.0)
    product = np.array([3, 9, 3]) / 15
    assert np.allclose(model.p[0, 0, 0], 0.25 * np.array([0.25, 0.5, 0.25]) + 0.75 * product)
    assert n[0, 0] == pytest.approx(1 / (15 / 16 / 12 + 1 / 16 / 4))


def test_without_weight_it_is_the_maximum_likelihood_model() -> None:
    problem = problem_of(ROWS)
    model, n = model_of(problem, 0.0)
    assert np.allclose(model.p[0], problem.model.p)
    assert np.allclose(model.r[0], problem.r)
    assert np.allclose(n, problem.n_sa)


def test_a_pair_never_seen_has_a_value_where_its_parents_were_seen_and_rises_nowhere() -> None:
    problem = problem_of(ROWS, pi_b=np.full((3, 2), 0.5))
    model, n = model_of(problem, 10.0)
    assert model.r[0, 0, 1] == 4  # the one row of action 1
    assert n[0, 1] == 0
    pi = surefoot.improve(problem, Factored()).pi
    assert (pi[:2, 1] <= 0.5).all()
    assert pi[2, 1] == 1  # it was seen there, and pays more


def planted(rng: np.random.Generator, n: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """(problem of n rows, P [S, A, S] and r [S, A] of its world): three columns of three values.

    Action 1 raises x with probability 0.8, action 0 lowers it; y goes one towards x as often; z is
    a walk of its own; the reward is y.
    """
    every = np.array(list(itertools.product(range(3), repeat=3)))
    x, y, z = every.T
    p = np.ones((27, 2, 27))
    for a in range(2):
        for column, meant in ((x, x + 2 * a - 1), (y, y + np.sign(x - y)), (z, (z + 1) % 3)):
            p[:, a] *= 0.1 + 0.7 * (column == meant.clip(0, 2)[:, None])
    r = np.broadcast_to(y.astype(float)[:, None], (27, 2))
    state, action = rng.integers(27, size=n), (rng.random(n) < 0.2).astype(int)
    follow = (rng.random((n, 1)) > p[state, action].cumsum(axis=1)).sum(axis=1).clip(max=26)
    made = surefoot.problem(
        state=state, action=action, reward=r[state, action] + rng.normal(size=n) / 2,
        next_state=follow, episode=np.arange(n), n_states=27, n_actions=2, gamma=GAMMA,
        reward_range=(-5, 9), pi_b=np.broadcast_to([0.8, 0.2], (27, 2)),
    )  # fmt: skip
    labels = Labels(tuple(map(tuple, every.tolist())), (0, 1), ("x", "y", "z"))
    return dataclasses.replace(made, labels=labels), p, r


def test_parents_are_found() -> None:
    """Rows that agree in them share one estimate, and it is near the truth."""
    problem, p, r = planted(np.random.default_rng(0), 3000)
    model, n = model_of(problem, np.inf)
    assert np.abs(model.p[0] - p).max() < 0.1
    assert np.abs(problem.model.p - p).max() > 0.25
    assert np.abs(model.r[0] - r).max() < 0.1
    by_column = model.p[0].reshape(3, 3, 3, 2, 3, 3, 3)  # x, y, z, a, x', y', z'
    of_x, of_y, of_z = (by_column.sum(axis=sums) for sums in ((5, 6), (4, 6), (4, 5)))
    assert np.allclose(of_x, of_x[:, :1, :1])  # by x alone
    assert np.allclose(of_y, of_y[:, :, :1])  # by x and y
    assert np.allclose(of_z, of_z[:1, :1])
    assert np.allclose(model.r[0].reshape(3, 3, 3, 2), model.r[0].reshape(3, 3, 3, 2)[:1, :, :1])
    fewest = np.bincount(problem.log.state // 3 * 2 + problem.log.action).reshape(9, 2)
    assert np.allclose(n, fewest.repeat(3, axis=0))  # the rows that agree in x, y and a


def test_where_columns_are_independent_it_beats_the_joint_model() -> None:
    gains = []
    for seed in range(5):
        problem, p, r = planted(np.random.default_rng(seed), 400)
        truth = surefoot.known_model(p, np.broadcast_to(r[..., None], p.shape), GAMMA)
        at_baseline = surefoot.evaluate(truth, problem.pi_b).mean()
        gains.append(
            [
                surefoot.evaluate(truth, surefoot.improve(problem, made).pi).mean() - at_baseline
                for made in (
                    surefoot.algorithm("factored+priced-soft-spibb"),
                    surefoot.PricedSoftSPIBB(),
                )
            ]
        )
    factored, joint = np.mean(gains, axis=0)
    assert factored > 1.5 * joint > 0


def test_columns_that_move_together_are_seen_to() -> None:
    """Under action 0 x' = y', a fair coin; under action 1 they are independent."""
    leads = [(0, x, x) for x in (0, 1)] * 4 + [(1, x, y) for x in (0, 1) for y in (0, 1)] * 2
    rows = [((i, j), a, 0, (x, y)) for i in (0, 1) for j in (0, 1) for a, x, y in leads]
    problem = problem_of(rows)
    model, n = model_of(problem, np.inf)
    equal = [x == y for x, y in problem.labels.states]
    assert np.allclose(model.p[0, :, 0][:, equal], 0.5)
    assert np.allclose(model.p[0, :, 1], 0.25)
    assert (n == 32).all()


def test_two_columns_that_tell_only_together_what_is_paid_are_found() -> None:
    """The reward is 1 where x = y: neither column tells it alone."""
    rng = np.random.default_rng(0)
    rows = [
        ((x, y), 0, x == y, tuple(rng.integers(2, size=2).tolist()))
        for x in (0, 1) for y in (0, 1) for _ in range(10)
    ]  # fmt: skip
    problem = problem_of(rows)
    model, _ = model_of(problem, np.inf)
    assert model.r[0, :, 0].tolist() == [float(x == y) for x, y in problem.labels.states]


def test_how_an_episode_ends_is_one_more_column() -> None:
    """Half of action 0's rows end it; the others go on as the columns say."""
    leads = ("(end)", "(end)", (0, 0), (0, 1))
    problem = problem_of([((0, y), 0, 0, to) for y in (0, 1) for to in leads])
    assert problem.terminal.tolist() == [False, False, True]
    model, _ = model_of(problem, np.inf)
    assert np.allclose(model.p[0, :2, 0], [0.25, 0.25, 0.5])
    assert (model.p[0, 2] == 0).all()


@pytest.mark.parametrize(
    "states", [(), ("a", "b", "c"), ((0, 0), (0, 1), "c"), ((0,), (0, 1), (1, 1))]
)
def test_states_that_are_no_products_are_refused_in_words(states: Any) -> None:
    actions = (0, 1) if states else ()
    problem = dataclasses.replace(problem_of(ROWS), labels=Labels(states, actions))
    words = (
        "state 'c' is no combination"
        if "c" in states[2:] and len(states[0]) > 1
        else "--state ward,bed"
    )
    with pytest.raises(surefoot.ParameterError, match=words):
        surefoot.improve(problem, Factored())


def test_what_does_not_fit_into_memory_is_refused_in_words(monkeypatch: Any) -> None:
    monkeypatch.setattr("surefoot.algorithms.factored.MOST_ENTRIES", 10)
    with pytest.raises(surefoot.NotAvailableError, match="merge values of the columns"):
        surefoot.improve(problem_of(ROWS), Factored())


def test_a_log_with_several_state_columns_is_all_it_needs() -> None:
    rng = np.random.default_rng(0)
    n = 300
    columns = {
        "episode": np.arange(n) // 10, "time": np.arange(n) % 10, "ward": rng.integers(2, size=n),
        "bed": rng.integers(3, size=n), "action": rng.integers(2, size=n), "reward": rng.random(n),
    }  # fmt: skip
    problem = surefoot.problem(columns, state="ward,bed", gamma=0.9)
    assert surefoot.improve(problem, "factored").algorithm.name == "factored"
    with pytest.raises(surefoot.ParameterError, match="products of two or more columns"):
        surefoot.improve(surefoot.problem(columns, state="bed", gamma=0.9), "factored")
