"""Screened moves on every log there is: the exact probability that a lower bound lies above the
truth, at worst over two coins.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import factorial, prod

import numpy as np

import surefoot
from surefoot.evidence.screening import PART, Plan, Screened, screened, shuffled

N, DELTA = 24, 0.2
OUTCOMES = ((0, 0), (0, 1), (1, 0), (1, 1))  # (action, whether it wins)
CHANCES = (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0)  # of a win, for each action


def all_counts(n: int) -> np.ndarray:
    """How often each outcome can come in n episodes, [ways, 4]."""
    ways = [(i, j, k, n - i - j - k) for i, j, k in product(range(n + 1), repeat=3)]
    return np.array([x for x in ways if x[-1] >= 0])


def chances(counts: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The probability of these counts, [ways]; both actions are taken alike."""
    each = np.array([0.5 * (p[a] if wins else 1 - p[a]) for a, wins in OUTCOMES])
    orders = [factorial(sum(x)) / prod(map(factorial, x)) for x in counts.tolist()]
    return np.asarray(np.array(orders) * (each**counts).prod(axis=1))


def proposal(outcome: np.ndarray) -> Screened:
    """What these outcomes of N episodes propose, with a draw of each that tests."""
    action, win = np.array(OUTCOMES)[outcome].T
    problem = surefoot.problem(
        state=np.zeros(N, dtype=int),
        action=action,
        reward=1.0 * win,
        next_state=np.ones(N, dtype=int),
        episode=np.arange(N),
        gamma=0.9,
        pi_b=np.full((2, 2), 0.5),
        terminal_states=[1],
        return_range=(0, 1),
        start=0,
    )
    return screened(problem, DELTA)


def on_all_tests(found: Screened, z: np.ndarray, tests: np.ndarray) -> Screened:
    """The same proposal as that of many states, each with one way of the tests to come out."""
    ways, n = len(tests), int(tests[0].sum())
    plan = Plan(**{x: np.full(ways, y[0]) for x, y in vars(found.plan).items()})
    return replace(
        found,
        move=np.tile(found.move[:1], (ways, 1)),
        q=np.tile(found.q[:1], (ways, 1)),
        floor=np.full(ways, found.floor[0]),
        plan=plan,
        state=np.repeat(np.arange(ways), n),
        draws=(np.repeat(np.tile(z, ways), tests.reshape(-1)),),
    )


def worst_rate(factor: float) -> tuple[float, float]:
    """max over two coins of the probability of a bound above the truth, and of a bound above 0, the
    logarithm of the tests times a factor.
    """
    proposes = shuffled(N) % PART == 0
    first, tests = all_counts(int(proposes.sum())), all_counts(int((~proposes).sum()))
    coins = np.array(list(product(CHANCES, repeat=2)))
    of_first, of_tests = (np.array([chances(x, p) for p in coins]) for x in (first, tests))
    wrong, proved = np.zeros((2, len(coins)))
    for counts, chance in zip(first, of_first.T, strict=True):
        outcome = np.empty(N, dtype=int)
        outcome[proposes] = np.repeat(np.arange(4), counts)
        outcome[~proposes] = np.arange((~proposes).sum()) % 4
        found = proposal(outcome)
        if not found.move[0].any():
            continue
        many = on_all_tests(found, found.draws[0][:4], tests)
        lower = replace(many, log=factor * found.log).lower_at()
        above = lower > (coins @ found.move[0])[:, None] + 1e-12
        wrong += chance * (of_tests * above).sum(axis=1)
        proved += chance * (of_tests @ (lower > 0))
    return float(wrong.max()), float(proved.max())


def test_of_all_logs_a_share_of_delta_at_most_has_a_bound_above_the_truth() -> None:
    wrong, proved = worst_rate(1.0)
    assert 0 < wrong <= DELTA
    assert proved > 0.5


def test_the_check_turns_red_where_half_of_the_logarithm_is_left_out() -> None:
    assert worst_rate(0.5)[0] > DELTA
