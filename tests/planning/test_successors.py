"""What counts of successors say about a mean over them: exact over two-point rows, tight, and the
same for dense and sparse problems.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import rel_entr

import surefoot
from surefoot.core import DenseSupport
from surefoot.planning import ambiguity as module
from surefoot.planning.ambiguity import Successors, shares, successors

N, DELTA = 40, 0.2  # visits of a pair, at most; failure rate of its row


def coin(n: int, k: int, row: tuple[float, ...] = (1.0,)) -> surefoot.Problem:
    """One decision: k of n episodes lead to state 1, the others to state 2, all by action 0, of
    those that the baseline takes with these probabilities.
    """
    return surefoot.problem(
        state=np.zeros(n, dtype=int),
        action=np.zeros(n, dtype=int),
        reward=np.zeros(n),
        next_state=np.where(np.arange(n) < k, 1, 2),
        episode=np.arange(n),
        gamma=0.9,
        pi_b=np.tile(row, (3, 1)),
        terminal_states=[1, 2],
        return_range=(0, 1),
        start=0,
        n_states=3,
        n_actions=len(row),
    )


@cache
def allowances() -> np.ndarray:
    """Of k of n draws, [N + 1, N + 1]."""
    found = np.zeros((N + 1, N + 1))
    for n in range(1, N + 1):
        for k in range(n + 1):
            found[n, k] = n * successors(coin(n, k), DELTA).allowed[0, 0, 0]
    return found


def ratios(p: float) -> np.ndarray:
    """ln of the likelihood of k of n draws at k/n over that at p, [N + 1, N + 1]."""
    n, k = np.arange(N + 1.0)[:, None], np.arange(N + 1.0)
    rest = np.maximum(n - k, 0.0)
    return np.asarray(rel_entr(k, n * p) + rel_entr(rest, n * (1 - p)))


def ever(failed: np.ndarray, p: float) -> float:
    """The probability that a walk through (n, k) meets a failure at some n <= N, exactly."""
    alive, gone = np.array([1.0]), 0.0
    for n in range(1, N + 1):
        alive = np.append(alive * (1 - p), 0.0) + np.append(0.0, alive * p)
        met = failed[n, : n + 1]
        gone, alive = gone + float(alive[met].sum()), np.where(met, 0.0, alive)
    return gone


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5])
def test_the_allowance_is_exceeded_at_any_number_of_visits_with_probability_delta_at_most(
    p: float,
) -> None:
    assert ever(ratios(p) > allowances(), p) <= DELTA


def test_the_check_turns_red_where_nothing_is_paid_for_not_knowing_the_row() -> None:
    assert max(ever(ratios(p) > math.log(1 / DELTA), p) for p in (0.1, 0.5)) > DELTA
    assert max(ever(ratios(p) > 0.6 * allowances(), p) for p in (0.01, 0.1, 0.5)) > DELTA


def rows_of(counts: np.ndarray, allowed: float) -> Successors:
    """One pair, whose successors are the states 1, 2, ..; nothing is known about state 0."""
    shape = (len(counts), 1, 1, 1)
    state = np.arange(1, len(counts) + 1).reshape(shape)
    share = (counts / counts.sum()).reshape(shape)
    support = DenseSupport(state, 1.0 * counts.reshape(shape), np.zeros(shape))
    return Successors(
        support=support, share=share, allowed=np.full((1, 1, 1), allowed), gamma=1.0, width=1.0
    )


@pytest.mark.parametrize("lowest", [-1.0, 0.25, 0.4])
@pytest.mark.parametrize("allowed", [0.01, 0.3, 2.0])
def test_the_best_nu_gives_the_least_mean_that_the_counts_allow(
    allowed: float, lowest: float
) -> None:
    """Against a general solver of  min P . h  s.t.  sum (k/n) ln((k/n)/P) <= allowed."""
    counts, h = np.array([5.0, 2.0, 3.0]), np.array([lowest, 0.9, 0.3, 0.6])
    share = counts / counts.sum()
    tried = minimize(
        lambda x: np.exp(x) @ h / np.exp(x).sum(),
        np.log(np.append(0.05, share)),
        constraints=[
            {
                "type": "ineq",
                "fun": lambda x: (
                    allowed - share @ np.log(share / (np.exp(x[1:]) / np.exp(x).sum()))
                ),
            }
        ],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-13},
    )
    rows = rows_of(counts, allowed)
    many = np.linspace(-3, 12, 6001)
    best = max(float(rows.least(h[None], np.full((1, 1, 1), h.min() - math.exp(-x)))[0, 0, 0])
               for x in many)  # fmt: skip
    assert best == pytest.approx(tried.fun, abs=2e-3)
    assert best <= tried.fun + 1e-7
    # the climb tries far fewer, and loses little
    later = rows.climb(lambda later: h, h)[1][0, 0]
    assert best - 0.01 <= later <= best + 1e-9


def test_a_climb_ends_at_the_fixed_point_and_every_step_is_a_bound() -> None:
    """A state that leads to itself, and to another with chance: h = c + gamma (least mean)."""
    rows = rows_of(np.array([8.0, 2.0]), 0.1)
    rows = Successors(**{**rows.__dict__, "gamma": 0.9})

    def backup(later: np.ndarray) -> np.ndarray:
        return np.array([0.0, 0.1 + later[0, 0], 0.05])

    h, later, steps = rows.climb(backup, np.zeros(3))
    assert 1 < steps < module.STEPS
    assert backup(later) == pytest.approx(h, abs=1e-6)
    assert h[1] < 0.1 + 0.9 * (0.8 * h[1] + 0.2 * 0.05)


def test_dense_and_sparse_problems_have_the_same_rows() -> None:
    rng = np.random.default_rng(3)
    state, action = rng.integers(0, 6, 300), rng.integers(0, 2, 300)
    log = {
        "state": state,
        "action": action,
        "reward": np.zeros(300),
        "next_state": (state + action + rng.integers(0, 2, 300)) % 6,
        "episode": np.arange(300),
    }
    given = {"gamma": 0.9, "pi_b": np.full((6, 2), 0.5), "return_range": (0, 1)}
    h = rng.random(6)
    found = [
        successors(surefoot.problem(**log, **given, sparse=sparse), 0.1).climb(lambda later: h, h)
        for sparse in (False, True)
    ]
    assert found[0][1] == pytest.approx(found[1][1])
    assert sum(shares(0.05)) == pytest.approx(0.05)


def test_the_union_is_over_all_pairs_that_the_baseline_uses_seen_or_not() -> None:
    alone, both = (successors(coin(20, 5, row), DELTA) for row in ((1.0,), (0.9, 0.1)))
    extra = 20 * (both.allowed[0, 0, 0] - alone.allowed[0, 0, 0])
    assert extra == pytest.approx(math.log(2))


def test_after_a_pair_never_seen_the_worst_state_may_follow() -> None:
    rows, h = successors(coin(20, 5, (0.9, 0.1)), DELTA), np.array([0.3, 0.9, -0.5])
    later = rows.climb(lambda later: h, h)[1]
    assert later[0, 1] == pytest.approx(0.9 * -0.5)
    assert later[0, 0] > later[0, 1]


def test_scale_is_as_many_times_the_counts() -> None:
    larger, scaled = successors(coin(80, 20), DELTA), successors(coin(20, 5), DELTA, 4.0)
    assert scaled.allowed[0, 0] == pytest.approx(larger.allowed[0, 0])
    assert scaled.share == pytest.approx(larger.share)
