"""Certificates on every data set there is: the exact probability that a bound lies above the
truth, at worst over two-point worlds.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surefoot
from surefoot.evidence.certificates import certify
from surefoot.statistics.radii import clopper_pearson

N = 5  # draws of each action
DELTA = 0.2
CHANCES = (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0)  # of a win, for each action
PAYS = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
UNIFORM = np.full((3, 2), 0.5)

RIGOROUS: list[Any] = [
    ("certified-advantage", {"error": "hoeffding"}),
    ("certified-advantage", {"error": "bernstein"}),
    ("advantage", {"error": "hoeffding"}),
    ("advantage", {"error": "mpeb"}),
    ("advantage", {"error": "bernstein"}),
    ("planned-advantage", {"error": "hoeffding"}),
    ("planned-advantage", {"error": "bernstein"}),
    ("theorem-1", {"error": "hoeffding"}),
    ("spibb", {"successors": 2}),
    ("spibb", {"radius": "clopper-pearson", "successors": 2}),
    ("robust", {"successors": 2}),
    ("robust", {"radius": "clopper-pearson", "successors": 2}),
    ("mbie", {"successors": 2}),
]


@cache
def world(wins_0: int, wins_1: int, gamma: float) -> surefoot.Problem:
    """One decision between two coins, N throws of each: a win pays 1 on arrival in state 1, else
    state 2 is reached; both are ends.
    """
    action = np.repeat([0, 1], N)
    win = np.concatenate([np.arange(N) < wins_0, np.arange(N) < wins_1])
    return surefoot.problem(
        state=np.zeros(2 * N, dtype=int),
        action=action,
        reward=1.0 * win,
        next_state=np.where(win, 1, 2),
        episode=np.arange(2 * N),
        gamma=gamma,
        pi_b=UNIFORM,
        terminal_states=[1, 2],
        return_range=(0, 1),
        reward_table=PAYS,
        start=0,
    )


def bounds(gamma: float, method: str, options: dict[str, Any]) -> np.ndarray:
    """The bound for the policy that takes the coin with more wins, of every data set [N + 1, N +
    1]; nan: refused, or a draw.
    """
    found = np.full((N + 1, N + 1), np.nan)
    for i, j in product(range(N + 1), repeat=2):
        if i != j:
            pi = np.where(np.arange(3)[:, None] == 0, np.eye(2)[int(j > i)], UNIFORM)
            try:
                certificate = certify(world(i, j, gamma), pi, method, delta=DELTA, **options)
            except surefoot.PolicyError:
                continue
            assert certificate.label == "rigorous"
            found[i, j] = certificate.bound
    return found


def worst_rate(bound: np.ndarray) -> float:
    """max over two coins of the probability of a data set whose bound is above what the coin
    ahead truly gains.
    """
    k, ahead = np.arange(N + 1), np.sign(np.arange(N + 1) - np.arange(N + 1)[:, None])
    rates = []
    for p, q in product(CHANCES, repeat=2):
        violated = np.nan_to_num(bound, nan=-np.inf) > 0.5 * (q - p) * ahead + 1e-12
        rates.append((binom.pmf(k, N, p)[:, None] * binom.pmf(k, N, q) * violated).sum())
    return float(max(rates))


@pytest.mark.parametrize("gamma", [0.0, pytest.param(0.9, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("method", "options"), RIGOROUS)
def test_a_rigorous_bound_is_above_the_truth_with_probability_delta_at_most(
    method: str, options: dict[str, Any], gamma: float
) -> None:
    assert worst_rate(bounds(gamma, method, options)) <= DELTA


def test_the_check_turns_red_for_bounds_that_leave_the_error_out() -> None:
    """The estimated gain itself, and the spibb bound that knows of gamma v' alone (0 at gamma =
    0).
    """
    ahead = abs(np.arange(N + 1) - np.arange(N + 1)[:, None]) / N / 2
    assert worst_rate(np.where(ahead > 0, ahead, np.nan)) > DELTA
    assert worst_rate(np.where(ahead > 0, ahead / 2, np.nan)) > DELTA


def test_the_delta_method_takes_a_quantile_of_the_standard_deviation_off_the_gain() -> None:
    """By hand: the variance of the mean of a coin is u = p (1 - p) / (N - 1), pi_b mixes both,
    pi takes the second.
    """
    p = np.array([1, 4]) / N
    u = p * (1 - p) / (N - 1)
    pi = np.where(np.arange(3)[:, None] == 0, [0.0, 1.0], UNIFORM)
    gain, z = 0.5 * (p[1] - p[0]), 1.6448536269514722
    found = certify(world(1, 4, 0.9), pi, "delta-method", data="fresh")
    assert found.label == "asymptotic"
    # both coins make the difference skewed to the left: a rare win missed, a rare loss gained
    third = sum(0.125 * x * (1 - x) * abs(1 - 2 * x) for x in p) / N**2
    skewed = third * (2 * z**2 + 1) / 6 / (0.25 * u.sum())
    assert found.bound == pytest.approx(gain - z * np.sqrt(0.25 * u.sum()) - skewed)
    row = found.evidence
    assert (row.low, row.delta, row.validity) == (found.bound, found.delta, found.label)
    assert row.positive == (found.bound > 0) and not row.worse


def test_a_bound_that_was_measured_to_fail_is_not_offered_and_says_what_is() -> None:
    with pytest.raises(surefoot.UnknownNameError, match="take delta-method"):
        certify(world(1, 4, 0.9), UNIFORM, "duipi", data="fresh")


def test_the_robust_bound_is_the_worst_case_of_the_policy_minus_the_best_case_of_the_baseline() -> (
    None
):
    """By hand: each coin within half its L1 radius, the baseline's too; the union is over 2
    pairs and every N.
    """
    pi = np.where(np.arange(3)[:, None] == 0, [0.0, 1.0], UNIFORM)
    found = certify(
        world(1, 4, 0.9), pi, "robust", delta=DELTA, radius="clopper-pearson", successors=2
    )
    r = float(clopper_pearson(np.array(float(N)), DELTA / (2 * N * (N + 1))))
    best = 0.5 * (min(1 / N + r, 1) + min(4 / N + r, 1))
    assert found.bound == pytest.approx(max(4 / N - r, 0) - best)
