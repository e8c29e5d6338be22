"""Steps of unequal length: `read_log(discount_per=...)`, `--discount-per`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support.logfiles import run, write
from surefoot import evidence
from surefoot.advice import learn_and_test
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.core.errors import LogError, NotAvailableError
from surefoot.evidence import units_of
from surefoot.evidence.episode_values import _discounts_left, episode_values
from surefoot.evidence.estimates import action_values, doubly_robust_values
from surefoot.evidence.unit_model import model_of_units
from surefoot.evidence.units import units_of_batch
from surefoot.evidence.weights import weigh
from surefoot.logs import read_log
from surefoot.planning import evaluate
from surefoot.problems.montecarlo import discounted_returns, monte_carlo

GAMMA = 0.8
LENGTHS = np.array([[0.5, 3.0], [1.0, 1.5]])  # mean length of a step of (s, a)
REWARDS = np.array([[1.0, 2.0], [0.2, 0.0]])
FOLLOW = np.array([[0.7, 0.2], [0.4, 0.9]])  # probability of state 1 next


def walk(
    episodes: int = 60, seed: int = 0, *, equal: float | None = None, steps: int = 12
) -> dict[str, Any]:
    """A semi-Markov log: a step of (s, a) takes LENGTHS, or twice as long, by chance; episodes
    end after some steps, at an end that is flagged.
    """
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {
        x: [] for x in ("episode", "time", "state", "action", "reward", "terminal")
    }
    for e in range(episodes):
        time, s, n = 0.0, int(rng.integers(2)), int(rng.integers(2, steps))
        for t in range(n):
            a = int(rng.random() < 0.4)
            long = bool(rng.random() < 0.3)
            values = (e, time, f"s{s}", f"a{a}", REWARDS[s, a] + rng.normal(0, 0.1), t == n - 1)
            for name, x in zip(rows, values, strict=True):
                rows[name].append(x)
            time += equal or LENGTHS[s, a] * (1 + long)
            s = int(rng.random() < FOLLOW[s, a])
    return {name: np.array(x) for name, x in rows.items()}


def problem(table: dict[str, Any], per: Any = 1, **more: Any) -> Any:
    return read_log(table, discount_per=per).problem(GAMMA, reward_range=(-2, 4), **more)


def test_a_worked_example() -> None:
    # one episode: rewards 1, 2, 4 at the times 0, 1, 4, then the end
    table = {
        "episode": [0, 0, 0], "time": [0, 1, 4], "state": ["x", "x", "y"],
        "action": ["a", "a", "a"], "reward": [1.0, 2.0, 4.0], "terminal": [0, 0, 1],
    }  # fmt: skip
    found = read_log(table, discount_per=1).problem(0.5, reward_range=(0, 4))
    assert found.gamma == 0.5  # the shortest step takes one unit
    assert found.labels.states == ("x", "y", "(end)")
    g = discounted_returns(found.log, found.gamma)
    assert g == pytest.approx([1 + 0.5 * (2 + 0.125 * 4), 2 + 0.125 * 4, 4.0])
    assert found.log.survives.tolist() == [1.0, 0.25, 1.0]  # nothing follows the end
    # from x: one step of 1 unit back to x, one of 3 units to y; what counts after them is 1/2, 1/8
    assert np.asarray(found.counts.n_sas)[0, 0] == pytest.approx([1.0, 0.25, 0.75])
    assert found.n_sa[0, 0] == 2.0  # exactly
    v = evaluate(found.model, found.pi_b)
    # v(x) = 3/2 + (1/2 v(x) + 1/8 v(y)) / 2, v(y) = 4
    assert v[0] == pytest.approx((1.5 + 0.25) / 0.75) and v[1] == pytest.approx(4.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_value_is_that_of_the_semi_markov_process(sparse: bool) -> None:
    """v = r + sum over rows of gamma^dt v(s') / n, solved by brute force from the rows."""
    table = walk()
    log = read_log(table, discount_per=2, sparse=sparse)
    made = log.problem(GAMMA, reward_range=(-2, 4))
    batch = log.batch()
    elapsed = batch.beside["elapsed"]
    v, pi = np.zeros(log.n_states), np.asarray(made.pi_b)
    n = log.n_sa
    for _ in range(2000):
        after = np.where(batch.ends, 0.0, GAMMA ** np.nan_to_num(elapsed) * v[batch.next_state])
        q = np.bincount(batch.pair, batch.reward + after, n.size).reshape(n.shape)
        v = (pi * q / np.maximum(n, 1)).sum(axis=1)
    assert np.asarray(evaluate(made.model, made.pi_b)).reshape(-1) == pytest.approx(v, abs=1e-7)
    assert np.array_equal(np.round(np.asarray(made.n_sa)), np.asarray(made.n_sa).reshape(n.shape))
    units = units_of(log, made.log, made.gamma)
    in_units = model_of_units(made, units).compare(pi)
    assert in_units.v == pytest.approx(v, abs=1e-7)
    counted, again = units.counts(as_sparse=sparse), made.counts
    parts = ((x.n_sas.toarray() if sparse else x.n_sas) for x in (counted, again))
    np.testing.assert_allclose(*parts, atol=1e-9)


def test_returns_count_time_in_every_way() -> None:
    table = walk(40, seed=1)
    made = problem(table, 3)
    gamma, log = made.gamma, made.log
    begin = np.array([table["time"][table["episode"] == e][0] for e in np.unique(table["episode"])])
    when = (table["time"] - begin[table["episode"]]) / 3
    expected = np.bincount(table["episode"], GAMMA**when * table["reward"])
    assert discounted_returns(log, gamma)[log.first] == pytest.approx(expected, rel=1e-8)
    pi_b = np.asarray(made.pi_b)
    for estimate in (
        evidence.importance_sampling, evidence.per_decision, evidence.weighted_importance_sampling,
        evidence.weighted_per_decision,
    ):  # fmt: skip
        found = estimate(log, pi_b, pi_b, gamma).estimate
        assert found == pytest.approx(expected.mean(), rel=1e-7), estimate
    # long episodes go another way through the recursion
    one = problem(walk(3, seed=2, steps=400), 3)
    single = discounted_returns(one.log, one.gamma)
    by_hand, total = [], 0.0
    for r, d, last in zip(
        one.log.reward[::-1], (one.gamma * one.log.survives)[::-1], one.log.last[::-1], strict=True
    ):
        total = r + (0.0 if last else d * total)
        by_hand.append(total)
    assert single == pytest.approx(by_hand[::-1])


def test_doubly_robust_values_are_those_of_their_recursion() -> None:
    """X_t = v(s_t) + rho_t (r_t + gamma^dt X_{t+1} - q(s_t, a_t)), row by row."""
    made = problem(walk(30, seed=7), 3)
    log, model = made.log, evidence.fitted_model(made.log, made.gamma, reward_range=(-2, 4))
    pi_b = np.array([[0.6, 0.4], [0.6, 0.4], [0.5, 0.5]])
    pi = np.array([[0.3, 0.7], [0.8, 0.2], [0.5, 0.5]])
    found = doubly_robust_values(pi, weigh(log, pi, pi_b), model, made.gamma)
    v, q = action_values(model, pi)
    np.testing.assert_allclose(model.transitions, made.model.transitions)
    expected, x = [], 0.0
    for i in range(len(log) - 1, -1, -1):
        s, a = log.state[i], log.action[i]
        after = 0.0 if log.last[i] else made.gamma * log.survives[i] * x
        x = v[s] + pi[s, a] / pi_b[s, a] * (log.reward[i] + after - q[s, a])
        if log.first[i]:
            expected.append(x)
    assert found == pytest.approx(expected[::-1])


def test_returns_of_k_steps_stop_after_k_steps() -> None:
    table = walk(80, seed=1)
    long = np.bincount(table["episode"])[table["episode"]] >= 6
    table = {name: x[long] for name, x in table.items() if name != "terminal"}  # all are cut
    made = problem(table, 3)
    log = made.log
    found = monte_carlo(log, made.gamma, cut_returns=2)
    share = made.gamma * log.survives
    two = log.reward + np.where(log.last, 0.0, share * np.append(log.reward[1:], 0.0))
    shortest = np.bincount(log.episode).min()
    use = log.time + 2 <= shortest
    mean = np.bincount(log.pair[use], two[use], found.n.size) / np.bincount(
        log.pair[use], minlength=found.n.size
    ).clip(1)
    seen = found.n.reshape(-1) > 0
    assert shortest >= 5 and seen.sum() == 4
    assert found.mean.reshape(-1)[seen] == pytest.approx(mean[seen], rel=1e-9)


def test_values_of_episodes_keep_their_floor_and_their_mean() -> None:
    made = problem(walk(4000, seed=3), 3)
    pi_b = np.array([[0.6, 0.4], [0.6, 0.4], [0.5, 0.5]])
    pi = np.array([[0.3, 0.7], [0.8, 0.2], [0.5, 0.5]])
    standard = evidence.Standard(reward_range=(-2, 4), horizon=12)
    values = episode_values(made.log, pi, pi_b, made.gamma, standard)
    plain = evidence.per_decision(made.log, pi, pi_b, made.gamma).estimate
    own = discounted_returns(made.log, made.gamma)[made.log.first].mean()
    error = values.x.std() / np.sqrt(len(values.x))
    assert abs(values.x.mean() - (plain - own)) < 4 * error  # rewards below 0: the floor shifts
    assert values.x.min() >= values.lo


def test_all_steps_of_an_episode_count_the_same_in_total() -> None:
    """With those after its end: else the length of an episode, which a policy changes, would shift
    the mean.
    """
    made = problem(walk(50, seed=8), 3)
    pi_b = np.array([[0.6, 0.4], [0.6, 0.4], [0.5, 0.5]])
    weights = weigh(made.log, pi_b, pi_b)
    left = _discounts_left(weights, made.gamma, 12)
    real = np.bincount(made.log.episode, np.exp(weights.log_discounts(made.gamma)))
    total = (1 - made.gamma**12) / (1 - made.gamma)
    assert left + real == pytest.approx(np.full(50, total))
    assert (left >= 0).all()


def test_scores_are_derivatives_where_time_counts() -> None:
    made = replace(problem(walk(60, seed=9), 2), start_episodes=None)
    units = units_of_batch(made.log, made.gamma)
    pi = np.array([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]])
    scores = model_of_units(made, units).compare(pi).gain.scores
    for unit in (0, 17, 59):
        weight = np.where(units.unit == unit, 1e-5, 0.0)

        def gain(sign: int, weight: np.ndarray = weight) -> float:
            names = ("k", "r", "goes_on")
            changed = {name: getattr(units, name) * (1 + sign * weight) for name in names}
            return model_of_units(made, replace(units, **changed)).compare(pi).gain.value

        derivative = (gain(1) - gain(-1)) / 2e-5
        assert scores[unit] == pytest.approx(derivative, rel=0.1, abs=1e-4)


def test_equal_steps_of_one_unit_give_the_same_bits_as_without() -> None:
    table = walk(60, seed=4, equal=1.0)
    plain = read_log(table).problem(GAMMA, reward_range=(-2, 4))
    timed = problem(table, 1)
    assert timed.gamma == plain.gamma and timed.log.survives is None
    assert timed.labels.states == plain.labels.states
    np.testing.assert_array_equal(timed.counts.n_sas, plain.counts.n_sas)
    algorithm = chosen_algorithm(plain, "priced-soft-spibb")
    a, b = (
        learn_and_test(read_log(table, discount_per=per), x, algorithm).gain
        for per, x in ((None, plain), (1, timed))
    )
    assert a.evidence == b.evidence
    np.testing.assert_array_equal(a.pi, b.pi)


def test_equal_steps_of_another_length_change_gamma_alone() -> None:
    table = walk(60, seed=4, equal=24.0)
    timed = problem(table, 48)
    assert timed.gamma == pytest.approx(GAMMA**0.5) and timed.log.survives is None


def test_dates_take_words() -> None:
    table = walk(20, seed=6)
    hours = (table["time"] * 24 * 3600).astype("timedelta64[s]")
    table["time"] = np.datetime64("2024-01-01") + hours
    per_day, per_two = (read_log(table, discount_per=x).pace for x in ("day", "hour"))
    assert per_day.shortest == pytest.approx(0.5) and per_two.shortest == pytest.approx(12)
    with pytest.raises(LogError, match="are dates"):
        read_log(table, discount_per=1)


@pytest.mark.parametrize(
    ("per", "words"), [("day", "are numbers"), (0, "are numbers"), (-1, "are numbers")]
)
def test_bad_units_get_a_sentence(per: Any, words: str) -> None:
    with pytest.raises(LogError, match=words):
        read_log(walk(), discount_per=per)


def test_times_are_needed() -> None:
    table = walk()
    del table["time"]
    with pytest.raises(LogError, match="needs a time column"):
        read_log(table, discount_per=1)


def test_the_last_step_before_a_cut_counts_as_long_as_its_pair_does() -> None:
    table = {
        "episode": [0, 0, 0], "time": [0, 1, 4], "state": ["x", "x", "x"],
        "action": ["a", "a", "a"], "reward": [1.0, 2.0, 4.0], "next_state": ["x", "x", "x"],
    }  # fmt: skip
    made = read_log(table, discount_per=1).problem(0.5, reward_range=(0, 4))
    assert made.log.survives.tolist() == pytest.approx([1, 0.25, 0.625])


def test_tune_refuses_unequal_steps() -> None:
    with pytest.raises(NotAvailableError, match="does not go with --discount-per"):
        surefoot.tune(problem(walk()), models=40, simulated=0)


def slow_and_fast(path: Path, n: int = 400, seed: int = 0) -> Path:
    """Three steps an episode; "fast" pays 1 and takes 1 day, "slow" pays 1.3 and takes 10."""
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(n):
        time = 0
        for t in range(3):
            slow = rng.random() < 0.5
            reward = (1.3 if slow else 1.0) + rng.normal(0, 0.1)
            rows.append(
                (f"e{e}", time, f"step {t}", "slow" if slow else "fast", repr(reward), t == 2)
            )
            time += 10 if slow else 1
    header = ("episode", "time", "state", "action", "reward", "terminal")
    return write(path, header, rows)


def test_time_turns_a_choice_around(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    log = slow_and_fast(tmp_path / "log.csv")
    rule = write(
        tmp_path / "rule.csv",
        ("state", "action", "probability"),
        [(f"step {t}", a, 0.5) for t in range(3) for a in ("fast", "slow")],
    )
    common = (
        "improve", log, "--gamma", 0.9, "--baseline", rule, "--reward-range", "0,3",
        "--no-report", "--json",
    )  # fmt: skip
    chosen = {}
    for name, more in (("steps", ()), ("days", ("--discount-per", "1"))):
        code, out, _ = run(monkeypatch, capsys, *common, *more, "--out", tmp_path / name)
        assert code == 0
        summary = json.loads(out)
        assert summary["gamma"] == 0.9
        chosen[name] = surefoot.load_policy(tmp_path / name / "policy.csv").probabilities("step 0")
        if name == "steps":
            assert any("each row counts as one step" in x for x in summary["notes"])
        else:
            assert any("time counts" in x for x in summary["notes"])
    assert chosen["steps"]["slow"] > 0.9
    assert chosen["days"]["fast"] > 0.9
    fresh = slow_and_fast(tmp_path / "fresh.csv", seed=1)
    code, _, _ = run(
        monkeypatch, capsys, "safety-test", fresh, "--policy", tmp_path / "days" / "policy.csv",
        "--baseline", rule, "--gamma", 0.9, "--discount-per", 1, "--reward-range", "0,3",
        "--horizon", 3,
    )  # fmt: skip
    assert code == 0
    code, out, _ = run(monkeypatch, capsys, "check", fresh, "--discount-per", 1, "--json")
    time = next(x for x in json.loads(out)["findings"] if x["name"] == "time")
    assert time["level"] == "ok" and "time counts" in time["sentence"]
