"""The bias of plug-in values: against exact expectations, a jackknife, and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom

import surefoot
from support.naive_bias import bias_by_loops
from surefoot.evidence import model_of_units, units_of_batch
from surefoot.planning import Bias, evaluation, plug_in_bias

GAMMA = 0.9


def expected(n: Sequence[int], p: Sequence[float], value: Callable[..., Any]) -> float:
    """E value(shares) - value(p) where share i is that of n[i] draws with probability p[i]."""
    counts = np.meshgrid(*(np.arange(m + 1) for m in n), indexing="ij")
    weight: Any = 1.0
    for k, m, q in zip(counts, n, p, strict=True):
        weight = weight * binom.pmf(k, m, q)
    shares = [k / m for k, m in zip(counts, n, strict=True)]
    return float((weight * value(*shares)).sum() - value(*p))


def found(
    n: Sequence[int],
    p: Sequence[float],
    to: Sequence[int],
    pays: Sequence[tuple[float, float]],
    *,
    pi: Sequence[float] = (),
    ended: bool = False,
) -> Bias:
    """Of a chain from state 0: of n[i] visits of place i a share p[i] goes on to state to[i] and
    pays pays[i][0], the rest ends and pays pays[i][1]. Places are states, or with pi the actions of
    the one state. `ended`: the end is no state, but visits that do not go on.
    """
    here = [0] * len(pi) if pi else list(range(len(n)))
    share = list(pi) if pi else [1.0] * len(n)
    end = max(here) + 1
    chain, r = np.zeros((end + 1, end + 1)), np.zeros(end + 1)
    for s, w, q, t, x in zip(here, share, p, to, pays, strict=True):
        chain[s, t] += w * q
        r[s] += w * (q * x[0] + (1 - q) * x[1])
    back = np.linalg.inv(np.eye(end + 1) - GAMMA * chain)
    v, d = back @ r, back[0]
    rows = []
    for i, (s, m, q, t, x) in enumerate(zip(here, n, p, to, pays, strict=True)):
        rows.append((i, s, t, m * q, m * q, x[0] + GAMMA * v[t]))
        after, on = (0, 0.0) if ended else (end, m * (1 - q))
        rows.append((i, s, after, m * (1 - q), on, x[1]))
    place, state, follow, k, on, y = (np.array(x) for x in zip(*rows, strict=True))
    return plug_in_bias(
        sparse.csr_array(chain), GAMMA, spent=d[here], square=np.array(share) ** 2,
        place=place, state=state, next_state=follow, k=k, on=on, y=y,
    )  # fmt: skip


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(("stay", "end"), [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.3, 2.0)])
def test_of_a_self_loop_it_is_that_of_all_binomial_outcomes(
    stay: float, end: float, ended: bool
) -> None:
    n, p = 1000, 0.8
    exact = expected([n], [p], lambda q: (q * stay + (1 - q) * end) / (1 - GAMMA * q))
    bias_of = found([n], [p], [0], [(stay, end)], ended=ended)
    assert n * bias_of.value == pytest.approx(n * exact, rel=0.03)


def test_it_is_too_high_where_staying_pays_and_too_low_where_the_end_does() -> None:
    lasting = found([100], [0.5], [0], [(1.0, 0.0)])
    cured = found([100], [0.5], [0], [(0.0, 1.0)])
    assert lasting.value > 0 > cured.value
    assert lasting.left > 0 < cured.left


@pytest.mark.parametrize("pays", [((1.0, 0.0), (2.0, 0.0)), ((0.0, 3.0), (0.0, 1.0))])
def test_of_a_loop_over_two_states_it_is_that_of_all_binomial_outcomes(
    pays: tuple[tuple[float, float], ...],
) -> None:
    n, p = (400, 500), (0.8, 0.7)

    def value(q0: Any, q1: Any) -> Any:
        r = [q * x[0] + (1 - q) * x[1] for q, x in zip((q0, q1), pays, strict=True)]
        return (r[0] + GAMMA * q0 * r[1]) / (1 - GAMMA**2 * q0 * q1)

    bias_of = found(n, p, (1, 0), pays)
    assert 400 * bias_of.value == pytest.approx(400 * expected(n, p, value), rel=0.03)


def test_actions_of_a_state_count_by_the_square_of_their_probability() -> None:
    n, p, pi = (500, 250), (0.8, 0.4), (0.3, 0.7)

    def value(q0: Any, q1: Any) -> Any:
        stays = pi[0] * q0 + pi[1] * q1
        return (2 * pi[0] * q0 + pi[1] * q1) / (1 - GAMMA * stays)

    bias_of = found(n, p, (0, 0), ((2.0, 0.0), (1.0, 0.0)), pi=pi)
    assert 500 * bias_of.value == pytest.approx(500 * expected(n, p, value), rel=0.03)


@pytest.mark.parametrize("n", [20, 50, 200])
def test_what_is_left_reaches_as_far_as_the_later_terms_of_a_self_loop(n: int) -> None:
    exact = expected([n], [0.5], lambda q: q / (1 - GAMMA * q))
    bias_of = found([n], [0.5], [0], [(1.0, 0.0)])
    assert abs(exact - bias_of.value) < bias_of.left
    assert n**2 * bias_of.left == pytest.approx(200**2 * found(
        [200], [0.5], [0], [(1.0, 0.0)]).left, rel=0.1)  # fmt: skip


def test_nothing_counted_has_no_bias() -> None:
    none = np.zeros(0)
    assert plug_in_bias(
        sparse.csr_array((1, 1)), GAMMA, spent=np.ones(1), square=np.ones(1),
        place=none, state=none, next_state=none, k=none, on=none, y=none,
    ) == Bias(0.0, 0.0)  # fmt: skip


class Counted:
    """A random chain: visits n [S, A, S], rewards r [S, A, S], a policy and a start."""

    def __init__(self, seed: int, n_states: int, n_actions: int, visits: float) -> None:
        rng = np.random.default_rng(seed)
        share = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
        self.n = rng.poisson(visits * share).astype(float)
        self.n[:, :, 0] += 2
        self.r = rng.normal(size=self.n.shape)
        self.pi = rng.dirichlet(np.ones(n_actions), size=n_states)
        self.start = rng.dirichlet(np.ones(n_states))

    def solved(self, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(P_pi, v) with these visits."""
        share = n / n.sum(axis=2, keepdims=True)
        p = np.einsum("sa,sat->st", self.pi, share)
        r = np.einsum("sa,sat,sat->s", self.pi, share, self.r)
        return p, np.linalg.solve(np.eye(len(p)) - GAMMA * p, r)

    def value(self, n: np.ndarray) -> float:
        return float(self.start @ self.solved(n)[1])

    @property
    def bias(self) -> Bias:
        n_actions = self.pi.shape[1]
        p, v = self.solved(self.n)
        d = np.linalg.solve(np.eye(len(p)) - GAMMA * p.T, self.start)
        s, a, t = np.nonzero(self.n)
        k = self.n[s, a, t]
        return plug_in_bias(
            sparse.csr_array(p), GAMMA, spent=np.repeat(d, n_actions),
            square=(self.pi**2).reshape(-1), place=s * n_actions + a, state=s, next_state=t,
            k=k, on=k, y=self.r[s, a, t] + GAMMA * v[t],
        )  # fmt: skip

    def by_loops(self) -> tuple[float, float]:
        p, v = self.solved(self.n)
        d = np.linalg.solve(np.eye(len(p)) - GAMMA * p.T, self.start)
        places = []
        for s, a in np.ndindex(*self.pi.shape):
            some = [int(t) for t in np.flatnonzero(self.n[s, a])]
            k = self.n[s, a]
            outcomes = [(t, k[t], k[t], self.r[s, a, t] + GAMMA * v[t]) for t in some]
            places.append((d[s], self.pi[s, a] ** 2, s, outcomes))
        return bias_by_loops(p, GAMMA, places)


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_a_jackknife_that_leaves_out_one_visit_at_a_time(seed: int) -> None:
    chain = Counted(seed, 4, 2, 200.0)
    value, jackknife = chain.value(chain.n), 0.0
    for s, a, t in product(*map(range, chain.n.shape)):
        k, n = chain.n[s, a, t], chain.n[s, a].sum()
        if k:
            less = chain.n.copy()
            less[s, a, t] -= 1
            jackknife += (n - 1) * k / n * (chain.value(less) - value)
    assert chain.bias.value == pytest.approx(jackknife, rel=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_its_formula_by_loops(seed: int) -> None:
    chain = Counted(seed, 5, 3, 6.0)
    assert (chain.bias.value, chain.bias.left) == pytest.approx(chain.by_loops(), rel=1e-9)


def test_for_many_states_random_signs_find_what_the_dense_solution_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_states, rng = 300, np.random.default_rng(0)
    k = rng.integers(5, 30, size=(3, n_states)).astype(float)  # stay, go on, end
    state, n = np.arange(n_states), k.sum(axis=0)
    shape = n_states, n_states
    p = sparse.csr_array((k[0] / n, (state, state)), shape=shape) + sparse.csr_array(
        (k[1] / n, (state, (state + 1) % n_states)), shape=shape
    )
    dense = np.eye(n_states) - GAMMA * p.toarray()
    v = np.linalg.solve(dense, k[0] / n)
    d = np.linalg.solve(dense.T, np.full(n_states, 1 / n_states))
    at = np.tile(state, 3)
    follow = np.concatenate([state, (state + 1) % n_states, state])
    on = np.concatenate([k[0], k[1], np.zeros(n_states)])
    stays = np.repeat([1.0, 0.0, 0.0], n_states)
    y = stays + GAMMA * on / k.reshape(-1) * v[follow]
    given = {
        "spent": d, "square": np.ones(n_states), "place": at, "state": at, "next_state": follow,
        "k": k.reshape(-1), "on": on, "y": y,
    }  # fmt: skip
    exact = plug_in_bias(p, GAMMA, **given)
    monkeypatch.setattr(evaluation, "DENSE_STATES", 0)
    probed = plug_in_bias(p, GAMMA, **given)
    assert probed.value != exact.value
    assert probed.value == pytest.approx(exact.value, rel=0.1)


def test_of_an_estimated_baseline_what_its_states_show_counts_and_not_its_pairs() -> None:
    """Action 1 always stays and pays 1, action 0 always ends: given the policy, nothing is left to
    chance; where it is estimated, how often it stays is.
    """
    n, p = 400, 0.75
    action = (np.arange(n) % 4 > 0).astype(int)
    problem = surefoot.problem(
        state=np.zeros(n, dtype=int), action=action, reward=action * 1.0,
        next_state=1 - action, episode=np.arange(n), truncated=action == 1,
        terminal_states=[1], start=0, gamma=GAMMA,
    )  # fmt: skip
    known = surefoot.problem(
        state=np.zeros(n, dtype=int), action=action, reward=action * 1.0,
        next_state=1 - action, episode=np.arange(n), truncated=action == 1,
        terminal_states=[1], start=0, gamma=GAMMA, pi_b=[[1 - p, p]] * 2,
    )  # fmt: skip
    by_state, by_pair = (
        model_of_units(x, units_of_batch(x.log, GAMMA)).base.bias for x in (problem, known)
    )
    exact = expected([n], [p], lambda q: q / (1 - GAMMA * q))
    assert n * by_state.value == pytest.approx(n * exact, rel=0.03)
    assert (by_pair.value, by_pair.left) == pytest.approx((0.0, 0.0), abs=1e-15)
