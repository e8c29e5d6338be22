"""Starts: what an estimated start costs a certificate, that a known one costs nothing, and that
what is printed says which.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surefoot
from surefoot.algorithms.certified_advantage import CertifiedAdvantage, OneStepCertifiedAdvantage
from surefoot.evidence.certificates import certify
from surefoot.evidence.return_evidence import evidence
from surefoot.logs import read_log
from surefoot.planning.ambiguity import (
    OF_START,
    least_mean,
    left_for_values,
    start_distance,
    start_variance,
)

BOTH = np.array([[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
BOUNDS: list[Any] = [
    ("advantage", {"error": "mpeb"}),
    ("certified-advantage", {}),
    ("theorem-1", {"error": "mpeb"}),
    ("spibb", {"successors": 1}),
    ("robust", {"successors": 1}),
    ("delta-method", {"data": "fresh"}),
]


def two_starts(
    n: int, seed: int, gains: tuple[float, float] = (0.5, 0.02), rare: float = 0.5, **options: Any
) -> surefoot.Problem:
    """One decision, in start 0 (probability `rare`) or 1; action 1 gains `gains` over the
    uniform baseline. Rewards are known.
    """
    rng = np.random.default_rng(seed)
    state, action = (rng.random(n) >= rare).astype(int), rng.integers(0, 2, n)
    pays = np.array([[max(-2 * g, 0.0), max(2 * g, 0.0)] for g in gains])
    table = np.zeros((3, 2, 3))
    table[:2] = pays[..., None]
    rows = {
        "state": state,
        "action": action,
        "reward": pays[state, action],
        "next_state": np.full(n, 2),
        "episode": np.arange(n),
        "gamma": 0.0,
        "pi_b": np.full((3, 2), 0.5),
        "terminal_states": [2],
        "return_range": (0, 1),
        "reward_table": table,
        "n_states": 3,
    }
    return surefoot.problem(**{**rows, **options})


def test_a_start_from_the_log_is_estimated_from_its_episodes_and_a_given_one_is_known() -> None:
    assert two_starts(40, 0).start_episodes == 40
    assert two_starts(40, 0, start=0).start_episodes is None
    assert two_starts(40, 0, start=[0.5, 0.5, 0.0]).start_episodes is None
    problem = two_starts(40, 0)
    assert dataclasses.replace(problem, gamma=0.5).start_episodes == 40
    assert problem.with_log(problem.log).start_episodes == problem.blocks[0].start_episodes == 40
    with pytest.raises(surefoot.ProblemError, match="start_episodes must be >= 1"):
        dataclasses.replace(problem, start_episodes=0)


def test_the_start_of_a_log_file_is_estimated_from_its_episodes_too() -> None:
    rows = {
        "episode": np.repeat(np.arange(6), 2),
        "state": np.arange(12) % 3,
        "action": np.arange(12) % 2,
        "reward": np.ones(12),
    }
    log = read_log(rows)
    assert log.problem(0.9).start_episodes == log.n_episodes == 6
    assert log.problem(0.9, start=log.states[0]).start_episodes is None


@pytest.mark.parametrize(("states", "n"), [(2, 1000), (40, 1000), (4000, 1000), (4000, 50)])
def test_the_distance_of_the_start_is_the_smaller_of_two_formulas(states: int, n: int) -> None:
    counts = np.bincount(
        np.random.default_rng(0).integers(0, min(states, 5), n), minlength=states + 1
    )
    problem = surefoot.problem(
        state=np.repeat(np.arange(states + 1), counts),
        action=np.zeros(n, int),
        reward=np.zeros(n),
        next_state=np.full(n, states),
        episode=np.arange(n),
        terminal_states=[states],
        gamma=0.5,
        pi_b=np.ones((states + 1, 1)),
        reward_range=(0, 1),
        sparse=True,
    )
    delta = 0.005
    few = math.sqrt(
        (states * math.log(2) + math.log1p(-(2.0 ** (1 - states))) + math.log(2 / delta)) / (2 * n)
    )
    many = np.sqrt(counts).sum() / n + math.sqrt(2 * math.log(2 / delta) / n)
    assert start_distance(problem, delta) == pytest.approx(min(few, many, 1.0))
    assert (few < many) == (states <= 40)


def test_the_distance_that_knows_no_number_of_states_is_exceeded_in_at_most_a_delta_share() -> None:
    """Exactly, for two starts; and the same without its last term is exceeded far more often."""
    n, delta = 60, 0.1
    k = np.arange(n + 1)
    roots = (np.sqrt(k) + np.sqrt(n - k)) / n
    rates, without = [], []
    for p in (0.02, 0.1, 0.3, 0.5):
        off = abs(k / n - p)
        rates.append(binom.pmf(k, n, p)[off > roots + math.sqrt(2 * math.log(1 / delta) / n)].sum())
        without.append(binom.pmf(k, n, p)[off > 0.3 * roots].sum())
    assert max(rates) <= delta < max(without)


def test_the_least_mean_is_the_least_over_all_distributions_within_the_distance() -> None:
    problem = two_starts(400, 1)
    delta, (p, q, _) = 0.05, problem.start
    d = start_distance(problem, delta)
    assert 0 < d < p
    h = np.array([0.4, -0.1, 5.0])  # nobody starts in state 2, which is an end
    assert least_mean(problem, h, delta) == pytest.approx(
        min((p - x) * 0.4 + (q + x) * -0.1 for x in np.linspace(-d, d, 41))
    )
    assert least_mean(problem, -h, delta) == pytest.approx(
        min((p - x) * -0.4 + (q + x) * 0.1 for x in np.linspace(-d, d, 41))
    )
    assert least_mean(problem, np.full(3, 0.3), delta) == pytest.approx(0.3)
    assert least_mean(problem, np.array([0.4, -np.inf, 0.0]), delta) == -np.inf
    always = dataclasses.replace(
        problem, start=np.array([1.0, 0.0, 0.0])
    )  # start 1 never came; no gain is below lo - hi = -1
    assert least_mean(always, np.array([0.4, -np.inf, 0.0]), delta) == pytest.approx(
        (1 - d) * 0.4 - d
    )
    few = two_starts(2, 1)
    assert start_distance(few, delta) == 1.0
    assert least_mean(few, np.array([0.4, -0.1, 0.0]), delta) == pytest.approx(-0.1)


def test_the_least_mean_is_above_the_truth_in_at_most_a_delta_share_even_if_the_worst_h_is_chosen_afterwards() -> (
    None
):
    """h = 1 in whichever start came too often: the exact probability over the number of episodes
    from start 0.
    """
    n, delta = 40, 0.2
    problem = two_starts(n, 0)
    k = np.arange(n + 1)
    posed = [dataclasses.replace(problem, start=np.array([x, n - x, 0]) / n) for x in k]
    low = np.array([[least_mean(x, np.eye(3)[s], delta) for s in (0, 1)] for x in posed])
    for p in (0.05, 0.3, 0.5, 0.8):
        above = (low[:, 0] > p + 1e-12) | (low[:, 1] > 1 - p + 1e-12)
        assert binom.pmf(k, n, p)[above].sum() <= delta
        plain = (k / n > p + 1e-12) | (1 - k / n > 1 - p + 1e-12)  # the start taken as known
        assert binom.pmf(k, n, p)[plain].sum() > delta


@pytest.mark.parametrize(("method", "options"), BOUNDS)
def test_with_two_starts_no_bound_is_above_the_truth_in_more_than_a_delta_share_of_logs(
    method: str, options: dict[str, Any]
) -> None:
    """Taken as known, the start makes 5 to 50 % of these bounds too high."""
    logs, truth = 60, 0.5 * 0.5 + 0.5 * 0.02
    bounds = np.array(
        [certify(two_starts(20_000, seed), BOTH, method, **options).bound for seed in range(logs)]
    )
    assert (bounds > truth).sum() <= binom.ppf(0.999, logs, 0.05)
    unpaid = np.array(
        [
            certify(
                two_starts(20_000, seed), BOTH, method, where="starts of the log", **options
            ).bound
            for seed in range(logs)
        ]
    )
    assert (bounds < unpaid).all()
    if method in ("spibb", "robust", "delta-method"):
        assert (unpaid > truth).mean() > 0.3


@pytest.mark.parametrize(("method", "options"), BOUNDS)
def test_a_known_start_costs_nothing_and_neither_does_the_start_of_the_log_itself(
    method: str, options: dict[str, Any]
) -> None:
    problem = two_starts(20_000, 0)
    known = dataclasses.replace(problem, start_episodes=None)
    free = certify(known, BOTH, method, **options)
    assert certify(
        problem, BOTH, method, where="starts of the log", **options
    ).bound == pytest.approx(free.bound, abs=1e-12)
    assert certify(problem, BOTH, method, **options).bound < free.bound - 1e-3
    one = dataclasses.replace(problem, start_episodes=1)
    assert certify(one, BOTH, method, **options).bound == pytest.approx(free.bound, abs=1e-12)


def test_the_bound_of_rows_without_any_error_is_the_least_mean_of_the_gains() -> None:
    problem = two_starts(2000, 3)
    for method in (
        "spibb",
        "robust",
    ):  # one successor each, rewards known: only the start is uncertain
        found = certify(problem, BOTH, method, successors=1, delta=0.1)
        assert found.bound == pytest.approx(
            least_mean(problem, np.array([0.5, 0.02, 0.0]), OF_START * 0.1), abs=1e-6
        )


def test_bounds_from_returns_leave_a_share_of_delta_for_the_start() -> None:
    problem = two_starts(20_000, 3)
    radius = evidence(problem, (1 - OF_START) * 0.1, error="hoeffding").radius
    move = abs(BOTH - problem.pi_b)
    c = np.array([0.5, 0.02, 0.0]) - np.where(
        move > 0, move * np.where(move > 0, radius, 0), 0
    ).sum(axis=1)
    found = certify(problem, BOTH, "advantage", delta=0.1)
    assert found.bound == pytest.approx(
        least_mean(problem, np.where([1, 1, 0], c, 0.0), OF_START * 0.1)
    )
    everywhere = certify(problem, BOTH, "advantage", delta=0.1, where="every state")
    assert (
        everywhere.bound
        == certify(
            two_starts(20_000, 3, start=0), BOTH, "advantage", delta=0.1, where="every state"
        ).bound
    )


@pytest.mark.parametrize("method", ["advantage", "theorem-1", "spibb", "robust", "mbie"])
def test_where_all_starts_gain_alike_only_the_share_of_delta_is_paid(method: str) -> None:
    n = 8000
    state, action = np.arange(n) % 2, np.arange(n) // 2 % 2  # every pair as often as every other
    options = {"gamma": 0.5, "state": state, "action": action, "reward": 0.4 * action}
    problem = two_starts(n, 0, (0.2, 0.2), **options)
    known = dataclasses.replace(problem, start_episodes=None)
    assert certify(problem, BOTH, method, delta=0.1).bound == pytest.approx(
        certify(known, BOTH, method, delta=0.09).bound, abs=1e-6
    )
    assert (
        certify(problem, BOTH, method, delta=0.1).bound
        < certify(known, BOTH, method, delta=0.1).bound - 1e-5
    )


def test_certified_advantage_improves_with_the_errors_that_its_certificate_uses() -> None:
    problem = two_starts(400, 2)
    radius = evidence(problem, (1 - OF_START) * 0.05, error="hoeffding").radius
    found = CertifiedAdvantage(0.05, "hoeffding").certified(problem).error
    assert found[:2] == pytest.approx(radius[:2])


@pytest.mark.parametrize("cls", [CertifiedAdvantage, OneStepCertifiedAdvantage])
def test_the_certified_advantage_of_an_estimated_start_is_not_negative_at_the_same_delta(
    cls: type,
) -> None:
    problem = two_starts(400, 2, (0.2, -0.2))
    solution = surefoot.improve(problem, cls(0.05))
    assert (solution.pi != problem.pi_b).any()
    assert certify(problem, solution, "certified-advantage").bound >= 0
    assert certify(problem, solution, "certified-advantage", where="every state").bound == 0
    assert left_for_values(problem, 0.05) == pytest.approx(0.045)


def test_the_delta_method_adds_the_variance_of_the_start() -> None:
    """By hand: rewards are known, so the start is all that varies; Var(h) / (n - 1) with h the
    gains.
    """
    problem = two_starts(500, 5)
    p = problem.start[0]
    sigma = 0.48 * math.sqrt(p * (1 - p) / 499)
    gain, z = 0.5 * p + 0.02 * (1 - p), 1.6448536269514722
    assert start_variance(problem, np.array([0.5, 0.02, 0.0])) == pytest.approx(sigma**2)
    given = dataclasses.replace(problem, start_episodes=None)
    found, known = (certify(x, BOTH, "delta-method", data="fresh") for x in (problem, given))
    assert found.bound == pytest.approx(gain - z * sigma)
    assert known.bound == pytest.approx(gain)


def test_the_delta_method_counts_what_rewards_scatter_within_a_triple() -> None:
    """One successor, so all the variance is that of the rewards: the mean of action 1 minus half
    of both means.
    """
    rng = np.random.default_rng(0)
    n = 200
    action, reward = np.arange(n) % 2, rng.random(n)
    problem = surefoot.problem(
        state=np.zeros(n, int),
        action=action,
        reward=reward,
        next_state=np.ones(n, int),
        episode=np.arange(n),
        gamma=0.5,
        pi_b=np.full((2, 2), 0.5),
        terminal_states=[1],
        return_range=(0, 1),
        start=0,
    )
    pi = np.array([[0.0, 1.0], [0.5, 0.5]])
    both = [reward[action == a] for a in (0, 1)]
    sigma = 0.5 * math.sqrt(sum(x.var() / (len(x) - 1) for x in both))
    gain = 0.5 * (both[1].mean() - both[0].mean())
    # rewards scatter, so any in the range may be what was not shown in 100 visits
    least, most = problem.reward_range
    unshown = math.log(20) / 100 * 0.5 * max(both[1].mean() - least, most - both[0].mean())
    assert certify(problem, pi, "delta-method", data="fresh").bound == pytest.approx(
        gain - math.hypot(1.6448536269514722 * sigma, unshown)
    )


def test_a_certificate_says_whose_starts_it_is_about() -> None:
    problem = two_starts(400, 0)
    paid = certify(problem, BOTH, "advantage")
    assert paid.bounded == "v^pi - v^{pi_b} at the start"
    assert any("start like the 400 of the log" in x for x in paid.assumptions)
    assert any('where="starts of the log"' in x for x in paid.notes)
    unpaid = certify(problem, BOTH, "advantage", where="starts of the log")
    assert unpaid.bounded == "v^pi - v^{pi_b} averaged over the starts of this log"
    known = certify(two_starts(400, 0, start=0), BOTH, "advantage")
    assert "episodes start as given" in known.assumptions and not known.notes
    one = certify(dataclasses.replace(problem, start_episodes=1), BOTH, "advantage")
    assert "where the one episode of the log starts" in one.bounded
    with pytest.raises(surefoot.NotAvailableError, match="the start was given"):
        certify(two_starts(400, 0, start=0), BOTH, "advantage", where="starts of the log")
    with pytest.raises(surefoot.ParameterError, match="where must be one of"):
        certify(problem, BOTH, "spibb", where="every state")


def test_more_episodes_are_counted_as_more_starts_in_the_data_needed() -> None:
    problem = two_starts(100, 0, (0.4, -0.3))
    found = certify(problem, BOTH, "robust", successors=1)
    assert found.bound < 0 and math.isfinite(found.data_needed)
    assert certify(
        two_starts(int(found.data_needed), 0, (0.4, -0.3)), BOTH, "robust", successors=1
    ).useful


@pytest.mark.parametrize("start", [None, 0, 1])
@pytest.mark.parametrize("where", ["start", "every state"])
def test_at_gamma_0_a_move_without_returns_gives_no_nan(start: int | None, where: str) -> None:
    """Action 1 was never tried in start 1: c = -inf there, and gamma/(1 - gamma) times it was
    nan.
    """
    state, action = np.array([0] * 400 + [1] * 20), np.array([0, 1] * 200 + [0] * 20)
    problem = surefoot.problem(
        state=state,
        action=action,
        reward=1.0 * action,
        next_state=np.full(420, 2),
        episode=np.arange(420),
        gamma=0.0,
        start=start,
        pi_b=np.array([[0.5, 0.5], [0.99, 0.01], [0.5, 0.5]]),
        terminal_states=[2],
        return_range=(0, 1),
        n_states=3,
    )
    found = certify(problem, BOTH, "advantage", where=where)
    assert not math.isnan(found.bound)
    assert (found.bound > 0) == (start == 0 and where == "start")
    assert "nan" not in str(found)
