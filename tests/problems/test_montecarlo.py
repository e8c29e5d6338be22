"""Monte-Carlo returns: by recursion, with cuts treated as asked, against naive twins."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot
from support import worlds
from surefoot import LogError, ProblemError, Returns
from surefoot.core import Batch, make_batch
from surefoot.problems import discounted_returns, monte_carlo, separation, thinned_counts

S, A = 4, 3  # states 0..2 act, state 3 is terminal


def episodes(rng: np.random.Generator, lengths: list[int], ended: list[bool]) -> Batch:
    """Random episodes of these lengths; each ends in state 3 or is cut."""
    columns = []
    for number, (n, end) in enumerate(zip(lengths, ended, strict=True)):
        path = rng.integers(0, S - 1, n + 1)
        path[-1] = S - 1 if end else path[-1]
        columns.append(
            (np.full(n, number), path[:-1], rng.integers(0, A, n), rng.normal(size=n), path[1:])
        )
    episode, state, action, reward, next_state = (
        np.concatenate(c) for c in zip(*columns, strict=True)
    )
    log = {
        "episode": episode,
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": next_state,
    }
    return make_batch(**log, terminal_states=[S - 1], n_states=S, n_actions=A)


@st.composite
def batches(
    draw: st.DrawFn, shortest: int = 1, longest: int = 9, fewest: int = 1, most: int = 6
) -> Batch:
    n = draw(st.integers(fewest, most))
    lengths = draw(st.lists(st.integers(shortest, longest), min_size=n, max_size=n))
    ended = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return episodes(np.random.default_rng(draw(st.integers(0, 2**32))), lengths, ended)


def walk(batch: Batch) -> list[tuple[list[int], bool]]:
    """The rows of each episode, and whether it ended."""
    found = []
    for number in range(batch.n_episodes):
        rows = [i for i in range(len(batch)) if batch.episode[i] == number]
        found.append((rows, bool(batch.ends[rows[-1]])))
    return found


def naive_returns(batch: Batch, gamma: float, steps: float = np.inf) -> np.ndarray:
    """G_t of every row over at most `steps` steps, by a plain loop."""
    g = np.zeros(len(batch))
    for rows, _ in walk(batch):
        for i, row in enumerate(rows):
            for k, later in enumerate(rows[i:]):
                if k < steps:
                    g[row] += gamma**k * batch.reward[later]
    return g


def table(batch: Batch, g: np.ndarray, use: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n, mean and variance (NumPy's) of the returns of these rows."""
    n, mean, variance = np.zeros((S, A)), np.full((S, A), np.nan), np.full((S, A), np.nan)
    for s in range(S):
        for a in range(A):
            here = [g[i] for i in use if (batch.state[i], batch.action[i]) == (s, a)]
            n[s, a] = len(here)
            if here:
                mean[s, a] = np.mean(here)
            if len(here) > 1:
                variance[s, a] = np.var(here, ddof=1)
    return n, mean, variance


def agrees(found: Returns, wanted: tuple[np.ndarray, np.ndarray, np.ndarray]) -> bool:
    values = (found.n, found.mean, found.variance)
    return all(
        np.allclose(x, y, rtol=1e-10, atol=1e-12, equal_nan=True)
        for x, y in zip(values, wanted, strict=True)
    )


gammas = st.sampled_from([0.0, 0.3, 0.9, 0.99, 1.0])


@given(batches(longest=4, fewest=4, most=8), gammas)
@settings(max_examples=50, deadline=None)
def test_returns_of_many_short_episodes_are_those_of_a_loop(batch: Batch, gamma: float) -> None:
    assert np.allclose(
        discounted_returns(batch, gamma), naive_returns(batch, gamma), rtol=1e-12, atol=1e-12
    )


@given(batches(shortest=4, longest=40, most=3), gammas)
@settings(max_examples=50, deadline=None)
def test_returns_of_few_long_episodes_are_those_of_a_loop(batch: Batch, gamma: float) -> None:
    assert np.allclose(
        discounted_returns(batch, gamma), naive_returns(batch, gamma), rtol=1e-12, atol=1e-12
    )


@given(batches(), gammas)
@settings(max_examples=50, deadline=None)
def test_every_visit_gives_a_return(batch: Batch, gamma: float) -> None:
    found = monte_carlo(batch, gamma)
    assert agrees(found, table(batch, naive_returns(batch, gamma), list(range(len(batch)))))
    assert found.cut == sum(len(rows) for rows, ended in walk(batch) if not ended)


@given(batches(longest=20), gammas)
@settings(max_examples=50, deadline=None)
def test_first_visits_are_the_first_of_a_pair_in_each_episode(batch: Batch, gamma: float) -> None:
    use = []
    for rows, _ in walk(batch):
        seen = set()
        for i in rows:
            pair = (batch.state[i], batch.action[i])
            if pair not in seen:
                use.append(i)
            seen.add(pair)
    assert agrees(
        monte_carlo(batch, gamma, visits="first"), table(batch, naive_returns(batch, gamma), use)
    )


@given(batches(longest=60, most=3), st.sampled_from([0.0, 0.05, 0.3, 0.6, 0.9]))
@settings(max_examples=50, deadline=None)
def test_thinned_visits_are_those_of_a_sequential_rule(batch: Batch, gamma: float) -> None:
    k = separation(gamma)
    use = []
    for rows, _ in walk(batch):
        last: dict[tuple[int, int], int] = {}
        for t, i in enumerate(rows):
            pair = (batch.state[i], batch.action[i])
            if pair not in last or t - last[pair] > k:
                use.append(i)
                last[pair] = t
    wanted = table(batch, naive_returns(batch, gamma), use)
    assert agrees(monte_carlo(batch, gamma, visits="thinned"), wanted)
    assert (thinned_counts(batch, gamma) == wanted[0]).all()


@given(batches(longest=30, most=4), st.sampled_from([0.999, 1 - 1e-9, 1 - 1e-15]))
@settings(max_examples=30, deadline=None)
def test_thinning_with_a_horizon_beyond_every_episode_keeps_first_visits(
    batch: Batch, gamma: float
) -> None:
    assert (thinned_counts(batch, gamma) == monte_carlo(batch, gamma, visits="first").n).all()


@given(batches(), gammas)
@settings(max_examples=50, deadline=None)
def test_leaving_out_cut_episodes_uses_whole_ones_only(batch: Batch, gamma: float) -> None:
    use = [i for rows, ended in walk(batch) if ended for i in rows]
    found = monte_carlo(batch, gamma, cut_returns="leave-out")
    assert agrees(found, table(batch, naive_returns(batch, gamma), use))
    assert found.cut == 0


@given(batches(), gammas, st.integers(1, 11))
@settings(max_examples=100, deadline=None)
def test_returns_over_k_steps_start_at_least_k_steps_before_the_shortest_cut_of_the_log(
    batch: Batch, gamma: float, k: int
) -> None:
    limit = min((len(rows) for rows, ended in walk(batch) if not ended), default=np.inf)
    use = [i for rows, _ in walk(batch) for t, i in enumerate(rows) if t + k <= limit]
    found = monte_carlo(batch, gamma, cut_returns=k)
    assert agrees(found, table(batch, naive_returns(batch, gamma, steps=k), use))
    assert found.cut == 0


END_AT_ONCE = 0.3  # each step leads into the end with this probability, and pays 1 then


def all_logs(episodes: int, limit: int) -> list[tuple[float, Batch]]:
    """Every log of so many episodes of one state, cut after `limit` steps, with its probability."""
    ways = [(END_AT_ONCE * (1 - END_AT_ONCE) ** t, t + 1, True) for t in range(limit)] + [
        ((1 - END_AT_ONCE) ** limit, limit, False)
    ]
    found = []
    for chosen in product(ways, repeat=episodes):
        length, ended = np.array([n for _, n, _ in chosen]), np.array([e for _, _, e in chosen])
        last = np.repeat(np.cumsum(length) - 1, length) == np.arange(length.sum())
        ends = last & np.repeat(ended, length)
        n = len(ends)
        log = {
            "state": np.zeros(n),
            "action": np.zeros(n),
            "reward": 1.0 * ends,
            "next_state": 1 * ends,
        }
        batch = make_batch(
            **log, episode=np.repeat(np.arange(episodes), length), terminal_states=[1], n_actions=2
        )
        found.append((math.prod(p for p, _, _ in chosen), batch))
    return found


def test_whether_a_return_of_k_steps_is_used_does_not_depend_on_what_follows_the_visit() -> None:
    """By enumeration of all logs: the sum of used returns minus their mean has expectation 0,
    which selected ends would raise.
    """
    gamma, k, limit = 0.9, 2, 3
    truth = END_AT_ONCE + gamma * (1 - END_AT_ONCE) * END_AT_ONCE
    excess = {"declared": 0.0, "read off": 0.0, "unless cut": 0.0}
    for p, batch in all_logs(2, limit):
        for name, found in (
            ("declared", monte_carlo(batch, gamma, cut_returns=k, limit=limit)),
            ("read off", monte_carlo(batch, gamma, cut_returns=k)),
        ):
            excess[name] += p * found.n[0, 0] * (found.mean[0, 0] - truth)
            if batch.cuts.any():
                assert found.n[0, 0] == (batch.time + k <= limit).sum()
        # The rule "drop a visit only if its own k steps were cut" keeps late visits of the episodes
        # that end.
        g = naive_returns(batch, gamma, steps=k)
        whole = [
            i
            for rows, ended in walk(batch)
            for t, i in enumerate(rows)
            if ended or len(rows) - t >= k
        ]
        excess["unless cut"] += p * sum(g[i] - truth for i in whole)
    assert excess["declared"] == pytest.approx(0, abs=1e-12)
    selected = (
        2 * (1 - END_AT_ONCE) ** 2 * END_AT_ONCE * (1 - truth)
    )  # two episodes, each with a visit at time 2 if it then ends
    assert excess["unless cut"] == pytest.approx(selected)
    # Read off the log, the limit is unknown only where no episode reached it: the other episode
    # ended too.
    assert excess["read off"] == pytest.approx(selected * (1 - (1 - END_AT_ONCE) ** limit))


def test_a_declared_limit_beyond_a_cut_is_refused() -> None:
    batch = episodes(np.random.default_rng(0), [5, 3], [True, False])
    assert monte_carlo(batch, 0.9, cut_returns=1, limit=3).n.sum() == 6
    for limit in (4, 0):
        with pytest.raises(ProblemError, match="shortest cut 3 steps"):
            monte_carlo(batch, 0.9, cut_returns=1, limit=limit)


@given(batches(), batches(), gammas)
@settings(max_examples=50, deadline=None)
def test_returns_of_two_logs_add_up_to_the_returns_of_both(
    one: Batch, other: Batch, gamma: float
) -> None:
    names = ("state", "action", "reward", "next_state")
    both = make_batch(
        **{name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names},
        episode=np.concatenate([one.episode, other.episode + one.n_episodes]),
        terminal_states=[S - 1], n_states=S, n_actions=A,
    )  # fmt: skip
    together, whole = monte_carlo(one, gamma) + monte_carlo(other, gamma), monte_carlo(both, gamma)
    assert agrees(together, (whole.n, whole.mean, whole.variance))
    assert together.cut == whole.cut


def test_a_worked_example() -> None:
    batch = make_batch(
        state=[0, 1, 0, 0],
        action=[2, 0, 2, 2],
        reward=[1.0, 2.0, 4.0, 8.0],
        next_state=[1, 0, 3, 1],
        episode=[0, 0, 0, 1],
        terminal=[0, 0, 1, 0],
        n_states=S,
        n_actions=A,
    )
    assert discounted_returns(batch, 0.5).tolist() == [1 + 1 + 1, 2 + 2, 4, 8]
    found = monte_carlo(batch, 0.5)
    assert (found.n[0, 2], found.mean[0, 2], found.variance[0, 2], found.cut) == (3, 5, 7, 1)
    assert (found.n[1, 0], found.mean[1, 0]) == (1, 4)
    assert np.isnan(found.variance[1, 0])
    assert np.isnan(found.mean[2, 1])
    assert found.n.sum() == 4


def test_a_visit_exactly_k_steps_before_a_cut_is_used() -> None:
    batch = make_batch(
        state=[0, 1, 2],
        action=[0, 1, 2],
        reward=[1.0, 2.0, 4.0],
        next_state=[1, 2, 0],
        episode=[0, 0, 0],
    )
    found = monte_carlo(batch, 0.5, cut_returns=2)
    assert found.n.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert (found.mean[0, 0], found.mean[1, 1]) == (2.0, 4.0)


def test_visits_shortly_before_an_end_are_used_whole() -> None:
    batch = make_batch(
        state=[0, 1, 2],
        action=[0, 1, 2],
        reward=[1.0, 2.0, 4.0],
        next_state=[1, 2, 3],
        episode=[0, 0, 0],
        terminal=[0, 0, 1],
    )
    for k in (3, 10, 10**30):
        assert monte_carlo(batch, 0.5, cut_returns=k).n.sum() == 3
    assert monte_carlo(batch, 0.5, cut_returns=2).mean[0, 0] == 2.0
    assert monte_carlo(batch, 0.5, cut_returns=3).mean[0, 0] == 3.0


def test_more_steps_than_a_cut_episode_has_leave_nothing() -> None:
    batch = make_batch(
        state=[0, 1],
        action=[0, 1],
        reward=[1.0, 2.0],
        next_state=[1, 2],
        episode=[0, 0],
        n_actions=3,
    )
    assert monte_carlo(batch, 0.5, cut_returns=2).n.sum() == 1
    for k in (3, 4, 10**30):
        assert monte_carlo(batch, 0.5, cut_returns=k).n.sum() == 0


def test_a_million_steps_are_summed_from_the_end() -> None:
    n, gamma = 1_000_000, 0.99
    rng = np.random.default_rng(5)
    reward = rng.normal(size=n)
    state = rng.integers(0, 5, n + 1)
    batch = make_batch(
        state=state[:-1],
        action=rng.integers(0, 3, n),
        reward=reward,
        next_state=state[1:],
        episode=np.zeros(n),
    )
    g = discounted_returns(batch, gamma)
    assert np.isfinite(g).all()
    weight = gamma ** np.arange(4000)  # beyond, 0.99^4000 = 3e-18
    for t in (0, 1, n // 2, n - 4001, n - 300, n - 2, n - 1):
        ahead = reward[t : t + 4000]
        assert g[t] == pytest.approx(weight[: len(ahead)] @ ahead, rel=1e-11, abs=1e-11)
    assert monte_carlo(batch, gamma, visits="thinned").n.sum() > 1000


def test_one_long_and_many_short_episodes_stand_in_one_log() -> None:
    batch = episodes(
        np.random.default_rng(2), [30, *[1] * 10, 12], [True, *[False, True] * 5, False]
    )
    assert np.allclose(discounted_returns(batch, 0.9), naive_returns(batch, 0.9), rtol=1e-12)


def test_ninety_steps_separate_returns_at_the_papers_discount() -> None:
    assert separation(0.95) == 90
    assert 0.95**90 <= 0.01 < 0.95**89


def test_with_k_of_ninety_a_visit_needs_more_than_ninety_steps() -> None:
    for gap, kept in ((90, 1), (91, 2)):
        state = np.ones(gap + 1, dtype=int)
        state[[0, gap]] = 0
        n = len(state)
        following = np.append(state[1:], 1)
        batch = make_batch(
            state=state,
            action=np.zeros(n),
            reward=np.zeros(n),
            next_state=following,
            episode=np.zeros(n),
            n_actions=2,
        )
        assert thinned_counts(batch, 0.95)[0, 0] == kept


def test_thinning_counts_each_episode_afresh() -> None:
    batch = make_batch(
        state=[0, 0, 0],
        action=[1, 1, 1],
        reward=[1, 2, 3],
        next_state=[1, 1, 1],
        episode=["a", "b", "c"],
        n_actions=2,
    )
    assert thinned_counts(batch, 0.95)[0, 1] == 3


@pytest.mark.parametrize(("gamma", "rho"), [(1.0, 0.01), (0.9, 0.0), (0.9, 1.0), (0.9, np.nan)])
def test_separation_refuses_what_has_no_meaning(gamma: float, rho: float) -> None:
    with pytest.raises(ProblemError, match=r"gamma = 1|rho"):
        separation(gamma, rho)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan])
def test_a_discount_outside_0_to_1_is_refused(gamma: float) -> None:
    with pytest.raises(ProblemError, match="gamma"):
        monte_carlo(episodes(np.random.default_rng(0), [3], [True]), gamma)


@pytest.mark.parametrize("cut_returns", ["as-ends", 0, -1, 2.5, True, None, "3"])
def test_an_unknown_treatment_of_cuts_is_refused_at_the_door(cut_returns: Any) -> None:
    with pytest.raises(ProblemError, match="cut_returns must be"):
        monte_carlo(episodes(np.random.default_rng(0), [3], [True]), 0.9, cut_returns=cut_returns)
    with pytest.raises(ProblemError, match="cut_returns must be"):
        surefoot.problem(
            state=[0],
            action=[0],
            reward=[0],
            next_state=[1],
            episode=[0],
            gamma=0.9,
            cut_returns=cut_returns,
        )


def test_an_unknown_kind_of_visit_is_refused() -> None:
    with pytest.raises(ProblemError, match='"every", "first" or "thinned"'):
        monte_carlo(episodes(np.random.default_rng(0), [3], [True]), 0.9, visits="last")


def test_returns_of_other_shapes_do_not_add_up() -> None:
    x = Returns(np.ones((2, 3)), np.ones((2, 3)), np.zeros((2, 3)))
    y = Returns(np.ones((1, 2, 3)), np.ones((1, 2, 3)), np.zeros((1, 2, 3)))
    with pytest.raises(LogError, match="do not add up"):
        x + y
    with pytest.raises(LogError, match="one shape"):
        Returns(np.ones((2, 3)), np.ones((3, 2)), np.zeros((2, 3)))
    with pytest.raises(TypeError):
        x + 1  # type: ignore[operator]


def test_returns_are_read_only() -> None:
    found = monte_carlo(episodes(np.random.default_rng(0), [3], [True]), 0.9)
    for x in (found.n, found.mean, found.m2):
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1


def test_the_treatment_of_cuts_reaches_the_returns_of_a_problem() -> None:
    log = {
        "state": [0, 1],
        "action": [0, 1],
        "reward": [1.0, 2.0],
        "next_state": [1, 2],
        "episode": [0, 0],
        "n_actions": 3,
    }
    totals = [
        surefoot.problem(**log, gamma=0.5, cut_returns=c).returns.n.sum()
        for c in ("as-end", "leave-out", 2)
    ]
    assert totals == [2, 0, 1]


def test_the_monte_carlo_mean_approaches_q_of_the_baseline() -> None:
    world = worlds.random_mdp(np.random.default_rng(3), n_states=12, n_actions=3)
    world = replace(world, pi_b=np.full((12, 3), 1 / 3))
    log = worlds.sample(world, np.random.default_rng(4), episodes=4000, steps=400)
    problem = worlds.problem(world, log)
    exact = world.model.backup(surefoot.evaluate(world.model, world.pi_b))
    found = problem.returns_of("first")  # independent returns: one an episode
    assert found.cut < 0.001 * found.n.sum()
    enough = found.n >= 100
    assert enough.sum() >= 20
    error = np.sqrt(found.variance[enough] / found.n[enough])
    assert (np.abs(found.mean[enough] - exact[enough]) <= 5 * error + 1e-9).all()
    every = problem.returns
    assert (np.abs(every.mean[enough] - exact[enough]) <= 5 * error + 1e-9).all()
