"""The loop over many problems, sums over successors as operators, and DUIPI's moments against
their formula.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot
from support import worlds
from support.naive_duipi import plain_rows
from surefoot.algorithms.duipi import CentredDUIPI, moments_of
from surefoot.core import Support, operator
from surefoot.planning import iterate, loop


@dataclass(frozen=True)
class Shrinking:
    """x <- rate x + drift, done when it moves by less than the tolerance; a rate of -1 never is.

    Data are per problem.
    """

    rate: np.ndarray
    drift: np.ndarray

    def advance(
        self, state: tuple[np.ndarray, ...], step: int
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        x, steps = state
        new = self.rate[:, None] * x + self.drift[:, None]
        return (new, np.full_like(steps, step)), np.abs(new - x).max(axis=1) < 1e-6

    def take(self, index: np.ndarray) -> Shrinking:
        return Shrinking(self.rate[index], self.drift[index])


def alone(rate: float, drift: float, x: np.ndarray, max_steps: int) -> tuple[np.ndarray, int, bool]:
    for step in range(1, max_steps + 1):
        new = rate * x + drift
        if np.abs(new - x).max() < 1e-6:
            return new, step, True
        x = new
    return x, max_steps, False


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from([-1.0, 0.0, 0.3, 0.9, 0.97, 1.0]), st.floats(0.5, 2)),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 300),
    st.sampled_from([1, 6, 10, 25600]),
)
def test_every_problem_ends_as_it_would_alone(
    problems: list[tuple[float, float]], max_steps: int, group_cells: int
) -> None:
    rate, drift = (np.array(x) for x in zip(*problems, strict=True))
    start = np.random.default_rng(len(problems)).normal(size=(len(problems), 2))
    before = loop.GROUP_CELLS
    loop.GROUP_CELLS = group_cells  # 2 cells a problem: groups of 1, 3, 5 and everyone
    try:
        (x, steps), status = iterate(
            Shrinking(rate, drift), (start, np.zeros(len(rate), dtype=int)), max_steps
        )
    finally:
        loop.GROUP_CELLS = before
    for i in range(len(rate)):
        value, last, converged = alone(rate[i], drift[i], start[i], max_steps)
        assert np.array_equal(x[i], value)
        assert steps[i] == status.steps[i] == last
        assert status.converged[i] == converged


def test_problems_that_never_converge_are_marked_and_do_not_hold_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "GROUP_CELLS", 8)
    rate = np.tile([0.0, 0.5, -1.0, 0.9, -1.0], 20)
    (_, steps), status = iterate(
        Shrinking(rate, np.ones(100)), (np.zeros((100, 2)), np.zeros(100, dtype=int)), 1000
    )
    never = rate == -1
    assert np.array_equal(status.converged, ~never)
    assert (steps[never] == 1000).all() and (steps[~never] < 200).all()
    assert (status.steps[rate == 0] == 2).all()
    assert not status.ok and "40 of 100" in repr(status)


class Counting(Shrinking):
    """Counts the problems it advances."""

    advanced = 0

    def advance(
        self, state: tuple[np.ndarray, ...], step: int
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        Counting.advanced += len(self.rate)
        assert len(self.rate) == len(state[0])
        return super().advance(state, step)

    def take(self, index: np.ndarray) -> Counting:
        return Counting(self.rate[index], self.drift[index])


def test_problems_that_are_done_are_not_worked_on() -> None:
    """One slow problem among a thousand quick ones: the work is about what each alone takes."""
    rate = np.zeros(1000)
    rate[17] = -1.0
    Counting.advanced = 0
    iterate(Counting(rate, np.ones(1000)), (np.zeros((1000, 2)), np.zeros(1000, dtype=int)), 500)
    assert Counting.advanced <= 2 * 1000 + 500


def test_one_step_is_enough_for_who_needs_one_and_the_limit_may_be_one() -> None:
    (x, _), status = iterate(
        Shrinking(np.array([0.0, 0.5]), np.array([0.0, 1.0])),
        (np.zeros((2, 3)), np.zeros(2, dtype=int)),
        1,
    )
    assert status.converged.tolist() == [True, False] and status.steps.tolist() == [1, 1]
    assert x.tolist() == [[0] * 3, [1] * 3]


@pytest.mark.slow
def test_pytorch_problems_end_as_they_do_in_numpy() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")

    @dataclass(frozen=True)
    class Body:
        rate: Any

        def advance(self, state: tuple[Any, ...], step: int) -> tuple[tuple[Any, ...], Any]:
            new = self.rate * state[0] + 1
            return (new,), abs(new - state[0]) < 1e-6

        def take(self, index: Any) -> Body:
            return Body(self.rate[index])

    rate = np.tile([0.0, 0.5, -1.0, 0.9, 0.99], 7)
    (ours,), status = iterate(Body(rate), (np.zeros(35),), 400)
    (theirs,), status_t = iterate(
        Body(torch.asarray(rate)), (torch.zeros(35, dtype=torch.float64),), 400
    )
    assert np.allclose(ours, theirs.numpy(), rtol=1e-14)
    assert np.array_equal(status.steps, status_t.steps.numpy()) and np.array_equal(
        status.converged, status_t.converged.numpy()
    )


def problems(
    n: int, table: str, *, steps: int = 12, sparse: bool = False
) -> list[surefoot.Problem]:
    """Small logs: rewards declared by arrival, by (s, s'), by (s, a, s'), or estimated."""
    found = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        world = replace(worlds.garnet(rng, 5, 3, gamma=0.8), terminal=(4,))
        reward = {
            "arrival": world.reward * 0 + world.reward[0],
            "triple": rng.normal(size=(5, 3, 5)),
        }.get(table, world.reward)
        log = worlds.sample(world, rng, 3, steps)
        of_triple = reward if table == "triple" else np.repeat(reward[:, None, :], 3, axis=1)
        log["reward"] = of_triple[log["state"], log["action"], log["next_state"]]
        declared = None if table == "estimated" else reward
        found.append(
            worlds.problem(world, log, reward_range=(-9, 9), reward_table=declared, sparse=sparse)
        )
    return found


def plain_sums(
    support: Support, weights: list[tuple[np.ndarray, np.ndarray]], ys: list[np.ndarray]
) -> np.ndarray:
    """What an operator stands for: x over the entries of every pair, x_all over all states."""
    return sum(
        support.dot(x, support.at(y)) + x_all * y.sum(axis=-1)[:, None, None]
        for (x, x_all), y in zip(weights, ys, strict=True)
    )


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("steps", [0, 1, 12, 200])
def test_an_operator_is_the_sum_over_successors_it_stands_for(steps: int, parts: int) -> None:
    if steps:
        support = worlds.stacked(problems(4, "pair", steps=steps)).support
    else:  # nothing was ever seen
        support = worlds.stacked(problems(4, "pair")).support
        support = type(support)(support.state * 0, support.n * 0, support.reward * 0)
    rng = np.random.default_rng(1)
    weights = [
        (rng.normal(size=support.n.shape) * (support.n > 0), rng.normal(size=(4, 5, 3)))
        for _ in range(parts)
    ]
    apply = operator(support, *weights)
    ys = [rng.normal(size=(4, 5)) for _ in range(parts)]
    expected = plain_sums(support, weights, ys)
    assert apply(*ys).shape == (4, 5, 3) and np.allclose(apply(*ys), expected, atol=1e-13)
    for index in ([2], [0, 3], [1, 2, 3], [0, 1, 2, 3]):
        some = apply.take(np.array(index))
        assert np.allclose(some(*(y[index] for y in ys)), expected[index], atol=1e-13)
    again = apply.take(np.array([0, 2, 3])).take(np.array([1, 2]))
    assert np.allclose(again(*(y[2:] for y in ys)), expected[2:], atol=1e-13)


def test_an_operator_of_a_sparse_support_is_the_sum_over_successors_it_stands_for() -> None:
    for seed, problem in enumerate(problems(3, "pair", steps=8, sparse=True)):
        support, rng = problem.blocks[0].support, np.random.default_rng(seed)
        weights = [(rng.normal(size=support.n.shape), rng.normal(size=(1, 5, 3))) for _ in range(2)]
        ys = [rng.normal(size=(1, 5)) for _ in range(2)]
        assert np.allclose(
            operator(support, *weights).take(np.array([0]))(*ys),
            plain_sums(support, weights, ys),
            atol=1e-13,
        )


@pytest.mark.slow
def test_an_operator_in_pytorch_is_that_in_numpy() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra; make test-all installs it")
    support = worlds.stacked(problems(3, "pair")).support
    theirs = type(support)(
        *(torch.asarray(np.array(x)) for x in (support.state, support.n, support.reward))
    )
    rng = np.random.default_rng(1)
    weights = [
        (rng.normal(size=support.n.shape) * (support.n > 0), rng.normal(size=(3, 5, 3)))
        for _ in range(2)
    ]
    ys = [rng.normal(size=(3, 5)) for _ in range(2)]
    index = np.array([2, 0])
    other = operator(
        theirs, *((torch.asarray(x), torch.asarray(x_all)) for x, x_all in weights)
    ).take(torch.asarray(index))
    found = other(*(torch.asarray(y[index]) for y in ys)).numpy()
    assert np.allclose(operator(support, *weights)(*ys)[index], found, atol=1e-13)


@pytest.mark.parametrize("alpha", [0.1, 0.7, 0.0], ids=["prior 0.1", "prior 0.7", "frequentist"])
@pytest.mark.parametrize("table", ["arrival", "pair", "triple", "estimated"])
def test_the_moments_of_duipi_are_those_of_the_formula(table: str, alpha: float) -> None:
    single = problems(4, table)
    batch = worlds.stacked(single)
    moments, _ = moments_of(batch, alpha)
    assert moments.by_arrival == (table == "arrival")
    rng = np.random.default_rng(0)
    v, w = rng.normal(size=(4, 5)), rng.random((4, 5))
    some = moments.take(np.array([2, 0]))
    for part, index in ((moments, range(4)), (some, (2, 0))):
        at = list(index)
        q, u = part.of_q(v[at]), part.of_u(v[at], w[at])
        for i, problem in enumerate(at):
            q_plain, u_plain = plain_rows(single[problem], alpha).backup(v[problem], w[problem])
            assert np.allclose(q[i], q_plain, atol=1e-12)
            assert np.allclose(u[i], u_plain, atol=1e-12)


@pytest.mark.parametrize("prior", ["bayesian", "frequentist"])
@pytest.mark.parametrize("table", ["arrival", "triple", "estimated"])
@pytest.mark.parametrize("group_cells", [15, 45])
def test_duipi_gives_a_batch_what_it_gives_each_problem_alone(
    table: str, prior: str, group_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of one and of three problems, some of which do not converge."""
    single = problems(12, table, steps=20)
    algorithm = surefoot.algorithm(
        "duipi",
        xi=0.4,
        prior=prior,
        max_steps={"arrival": 98, "triple": 90, "estimated": 97}[table],
    )
    each = [surefoot.improve(problem, algorithm) for problem in single]
    monkeypatch.setattr(loop, "GROUP_CELLS", group_cells)
    together = surefoot.improve(worlds.stacked(single), algorithm)
    assert 0 < together.status.converged.sum() < 12  # max_steps lies among the steps that they need
    for i, solution in enumerate(each):
        assert bool(together.status.converged[i]) == solution.status.ok
        assert np.allclose(together.q[i], solution.q, atol=1e-9)
        if solution.status.ok:
            assert int(together.status.steps[i]) == int(np.max(solution.status.steps))
            assert np.allclose(together.pi[i], solution.pi, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 0.7, 0.0], ids=["prior 0.1", "prior 0.7", "frequentist"])
@pytest.mark.parametrize("table", ["arrival", "pair", "triple", "estimated"])
def test_the_variance_of_centred_duipi_is_that_of_its_targets(table: str, alpha: float) -> None:
    single = problems(4, table)
    prior = "bayesian" if alpha else "frequentist"
    made = CentredDUIPI(xi=1.0, prior=prior, alpha=alpha or 0.1)
    v = np.random.default_rng(0).normal(size=(4, 5))
    found = made.estimate(worlds.stacked(single)).local(v)
    for i, problem in enumerate(single):
        rows, n, some = plain_rows(problem, alpha), problem.n_sa, problem.n_sa > 1
        total = (n + 5 * alpha)[some]
        scatter = 0.0 if problem.reward_table is not None else problem.counts.r_rest[some] / total
        expected = (rows.centred(v[i])[some] + scatter) / (total + 1 if alpha else total - 1)
        assert some.any()
        assert np.allclose(found[i][some], expected, rtol=1e-9)
