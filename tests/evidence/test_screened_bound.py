"""The bound of screened moves: by hand, along the moves and nowhere else, and against the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

import surefoot
from support.small_world import known, truth
from surefoot.evidence.certificates import certify
from surefoot.evidence.screening import screened

FULL = np.array([[0.0, 1.0], [0.5, 0.5]])  # all mass to the better action


def bandit(episodes: int, **options: object) -> surefoot.Problem:
    """One decision, then the end: action 0 pays 0, action 1 pays 1; returns lie in [0, 2]."""
    action = np.arange(episodes) // 4 % 2  # both in every fourth episode
    rows = {
        "state": np.zeros(episodes, dtype=int),
        "action": action,
        "reward": 1.0 * action,
        "next_state": np.ones(episodes, dtype=int),
        "episode": np.arange(episodes),
        "pi_b": np.full((2, 2), 0.5),
        "gamma": 0.9,
        "terminal_states": [1],
        "return_range": (0, 2),
        "start": 0,
    }
    return surefoot.problem(**{**rows, **options})  # type: ignore[arg-type]


def by_hand(episodes: int, delta: float) -> float:
    """All draws are 0.5, of which none can lie below 0.5 - 2; one test; a twentieth of delta is for
    how soon the state is reached. The bet is the best of those tried, to second order.
    """
    n, log = 0.75 * episodes, math.log(1 / (0.95 * delta))
    planned = {}
    for k in range(26):
        bet = 0.475 * 0.5 ** (k / 2)
        if bet**2 > 2 * bet**2 * log / n:
            planned[bet] = (1 - math.sqrt(1 - 2 * log / n)) / bet
    bet = min(planned, key=planned.__getitem__)
    return 0.5 - (math.exp(log / n) - 1) / bet  # n ln(1 + bet (0.5 - m)) = log


@pytest.mark.parametrize("episodes", [40, 400])
def test_the_bound_is_the_mean_draw_minus_the_radius_of_one_test(episodes: int) -> None:
    found = certify(bandit(episodes), FULL, "screened-advantage")
    assert found.bound == pytest.approx(by_hand(episodes, 0.05))
    assert found.label == "rigorous"
    assert found.useful and found.changed == 1
    assert found.n_smallest == 0.75 * episodes
    assert certify(bandit(episodes), FULL, "screened-advantage", where="every state").bound == 0


def test_it_needs_a_fraction_of_the_data_of_the_union_over_all_pairs() -> None:
    pi = surefoot.improve(bandit(32), surefoot.ScreenedAdvantage(0.05)).pi
    assert np.array_equal(pi, FULL)
    assert certify(bandit(32), FULL, "screened-advantage").useful
    for error in ("hoeffding", "mpeb", "bernstein"):
        assert not certify(bandit(64), FULL, "advantage", error=error).useful


def test_a_share_of_a_move_has_that_share_of_its_bound_and_any_other_policy_is_refused() -> None:
    problem = bandit(400)
    for theta in (0.25, 0.5, 1.0):
        pi = problem.pi_b + theta * (FULL - problem.pi_b)
        found = certify(problem, pi, "screened-advantage")
        assert found.bound == pytest.approx(theta * by_hand(400, 0.05))
    backwards = problem.pi_b - 0.5 * (FULL - problem.pi_b)
    with pytest.raises(surefoot.PolicyError, match=r"leaves the moves.*state 0"):
        certify(problem, backwards, "screened-advantage")
    with pytest.raises(surefoot.PolicyError, match="leaves the moves"):
        certify(known(), surefoot.improve(known(), "basic-rl").pi[:, ::-1], "screened-advantage")


def test_a_move_that_failed_its_test_gets_a_bound_below_zero_and_how_much_data_it_needs() -> None:
    problem, delta = bandit(24), 0.001
    assert not screened(problem, delta).lower_at()[0] > 0
    found = certify(problem, FULL, "screened-advantage", delta=delta)
    assert found.bound < 0 and not found.useful
    enough = bandit(int(found.data_needed))
    assert certify(enough, FULL, "screened-advantage", delta=delta).useful


def test_an_estimated_start_leaves_less_for_the_test_and_an_observed_range_is_no_proof() -> None:
    estimated = bandit(400, start=None)
    found = certify(estimated, FULL, "screened-advantage")
    assert found.bound == pytest.approx(by_hand(400, 0.9 * 0.05), abs=1e-6)
    assert certify(bandit(400, return_range=None), FULL, "screened-advantage").label == (
        "approximate"
    )


def test_what_the_algorithm_returns_is_certified_in_every_state_and_truly_better() -> None:
    for delta in (0.05, 0.2):
        solution = surefoot.improve(known(), surefoot.ScreenedAdvantage(delta))
        found = certify(known(), solution, "screened-advantage", delta=delta)
        assert found.useful and found.changed >= 2
        assert found.bound <= truth(solution.pi)[0]
        assert (truth(solution.pi) >= -1e-12).all()
        assert any("moves passed their tests" in x for x in solution.notes)


def corridor(episodes: int) -> surefoot.Problem:
    """Two steps to the decision of `bandit` in state 2, which pays on the way back to state 0."""
    turns = 4 * episodes  # one trajectory of whole rounds
    action = np.stack([np.zeros(turns), np.zeros(turns), np.arange(turns) % 2], axis=1)
    state = np.tile([0, 1, 2], turns)
    return surefoot.problem(
        state=state,
        action=action.reshape(-1).astype(int),
        reward=(action.reshape(-1) == 1) * 1.0,
        next_state=(state + 1) % 3,
        episode=np.zeros(len(state), dtype=int),
        pi_b=np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]]),
        gamma=0.5,
        return_range=(0, 2),
        start=0,
    )


def test_what_a_later_state_gains_counts_at_the_start_as_often_and_as_soon_as_it_is_reached() -> (
    None
):
    """From state 0 state 2 is reached after two steps, and again after three, if action 1, which
    gives nothing away, is taken: h = c + u h.
    """
    problem, solution = (
        corridor(2000),
        surefoot.improve(corridor(2000), surefoot.ScreenedAdvantage(0.05)),
    )
    assert np.array_equal(solution.pi[2], [0, 1])
    found = screened(problem, 0.05)
    c = found.lower_at()[2]
    assert found.reach.sources.tolist() == [2, 0]
    assert found.reach.mean[:, 0] == pytest.approx([0.5 * 0.5**3, 0.5**2], rel=2e-3)
    again, once = found.reach.lower_at()[:, 0]
    assert 0.03 < again < 0.0625 and 0.2 < once < 0.25
    bound = certify(problem, solution, "screened-advantage").bound
    assert bound == pytest.approx(once * c / (1 - again))
    gain = (
        0.25 * 0.5 / (1 - 0.125)
    )  # the truth: half a reward more, every third step from the second on
    assert 0.7 * gain < bound < gain


def test_what_a_policy_from_a_file_misses_is_paid_where_nothing_was_proposed_too() -> None:
    problem = corridor(2000)
    solution = surefoot.improve(problem, surefoot.ScreenedAdvantage(0.05))
    pi = solution.pi.copy()
    pi[0] = [1 - 4e-10, 4e-10]
    assert certify(problem, solution, "screened-advantage", where="every state").bound == 0
    assert certify(problem, pi, "screened-advantage", where="every state").bound < 0


def stretched(seed: int, episodes: int = 1500) -> surefoot.Problem:
    """s0 leads to s1 after 1 or, once in two times, 40 units of time; the log stops during long
    steps, and knows where they lead. In s1 action 1 pays 1 in nine cases of ten, action 0 in one.
    """
    rng = np.random.default_rng(seed)
    rows: list[tuple[object, ...]] = []
    for e in range(episodes):
        long, a = rng.random() < 0.5, rng.integers(0, 2, 3)
        rows.append((e, 0, "s0", int(a[0]), 0.0, "s1", False, bool(long)))
        if not long:
            paid = float(rng.random() < (0.9 if a[1] else 0.1))
            rows.append((e, 1, "s1", int(a[1]), paid, "s2", False, False))
            rows.append((e, 2 + (rng.random() < 0.02), "s2", int(a[2]), 0.0, None, True, False))
    names = ["episode", "time", "state", "action", "reward", "next_state", "terminal", "truncated"]
    columns = {x: list(y) for x, y in zip(names, zip(*rows, strict=True), strict=True)}
    log = surefoot.read_log(columns, discount_per=1)
    pi_b = np.full((len(log.states), 2), 0.5)
    return log.problem(0.9, pi_b, return_range=(0, 1), start="s0")


def test_how_long_a_step_before_a_cut_took_is_not_made_up() -> None:
    """With the mean of the lengths that are known in its place, 20 of 20 bounds were too high."""
    for seed in range(3):
        problem = stretched(seed)
        solution = surefoot.improve(problem, surefoot.ScreenedAdvantage(delta=0.2))
        found = surefoot.certify(problem, solution, "screened-advantage", delta=0.2)
        s1 = list(problem.labels.states).index("s1")
        gain = (solution.pi[s1, 1] - 0.5) * 0.8
        assert gain > 0
        assert 0 < found.bound <= 0.5 * (0.9 + 0.9**40) * gain


@pytest.mark.parametrize("method", ["certified-advantage", "planned-advantage", "advantage"])
def test_a_row_that_misses_1_by_rounding_gains_nothing_where_returns_are_large(method: str) -> None:
    rng = np.random.default_rng(0)
    reward = 1e6 + rng.random(400)
    problem = bandit(400, reward=reward, gamma=0.0, return_range=(1e6, 1e6 + 1))
    pi = np.full((2, 2), 0.5) * (1 + 0.9e-9)
    found = certify(problem, pi, method)
    assert found.bound <= 0
    assert not found.useful
