"""Can the propensities be true? A bet that nobody wins if they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from surefoot import read_log
from surefoot.checks import Finding, check_log
from surefoot.checks.propensities import STAKES, Gambler

MADE = np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])


def columns(n: int = 1500, seed: int = 0, **changed: Any) -> dict[str, Any]:
    """A bandit log of two policies."""
    rng = np.random.default_rng(seed)
    who = rng.integers(0, 2, n)
    action = (rng.random(n)[:, None] > MADE[who].cumsum(axis=1)).sum(axis=1)
    found = {
        "state": rng.integers(0, 2, n),
        "action": action,
        "reward": rng.random(n),
        "pscore": MADE[who, action],
        "who": np.array(["x", "y"])[who].tolist(),
    }
    return found | changed


def capital(shape: tuple[int, int], *blocks: tuple[np.ndarray, ...]) -> float:
    gambler = Gambler(shape)
    for state, action, p in blocks:
        gambler.add(state, action, p)
    return gambler.capital()[0]


def finding(log: dict[str, Any], **options: Any) -> Finding:
    found = check_log(read_log(log, bandit=True, threads=1, **options), gamma=0.0)
    return next(x for x in found if x.key == "propensities")


def test_true_ones_are_believed() -> None:
    found = finding(columns(), policy="who")
    assert (found.level, found.vetoes) == ("ok", False)


def test_those_of_another_policy_are_not() -> None:
    log = columns()
    other = MADE[[1 if x == "x" else 0 for x in log["who"]], log["action"]]
    found = finding(log | {"pscore": other})
    assert found.vetoes
    assert "cannot be true" in found.sentence


def test_sums_above_1_are_a_fault_of_one_policy_and_a_question_of_several() -> None:
    log = columns()
    large = log | {"pscore": np.minimum(1.3 * log["pscore"], 1.0)}
    found = finding(large, policy="who")
    assert found.vetoes
    assert found.numbers["states_with_sums_above_1"] == 2
    of_x = np.array([x == "x" for x in large["who"]])
    alone = {name: np.asarray(x)[of_x] for name, x in large.items() if name != "who"}
    found = finding(alone)
    assert (found.level, found.vetoes) == ("warning", False)
    assert "--policy-column" in found.sentence


def test_a_policy_that_changes_may_have_sums_above_1() -> None:
    log = columns()
    moving = np.linspace(0.3, 0.9, 1500)
    found = finding(log | {"pscore": moving, "action": np.arange(1500) % 2})
    assert found.numbers["states_with_sums_above_1"] == 0
    rare = {"state": np.arange(8) // 2, "action": np.arange(8) % 2, "reward": np.ones(8)}
    assert finding(rare | {"pscore": np.full(8, 0.9)}).level == "ok"  # too few rows to say


def test_the_capital_is_that_of_the_bets_one_by_one() -> None:
    """A naive twin: every bet is opened by its first row, and plays all later ones."""
    rng = np.random.default_rng(1)
    state, action = rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    p = rng.uniform(0.1, 0.9, 60)
    total = 0.0
    for group in (state, np.zeros(60, dtype=int)):
        opened: dict[tuple[int, int], tuple[int, np.ndarray]] = {}
        for s, a, x in zip(group, action, p, strict=True):
            for (t, b), (_, money) in opened.items():
                if t == s:
                    money *= 1 + STAKES * ((b == a) / x - 1)
            if (s, a) not in opened:
                opened[s, a] = len(opened) + 1, np.ones(len(STAKES))
        total += sum(money.mean() / (j * (j + 1)) for j, money in opened.values()) / 2
    whole = capital((3, 4), (state, action, p))
    cuts = [slice(0, 7), slice(7, 40), slice(40, 60)]
    parts = capital((3, 4), *((state[x], action[x], p[x]) for x in cuts))
    assert whole == pytest.approx(np.log(total), abs=1e-9)
    assert parts == pytest.approx(whole, abs=1e-9)


@pytest.mark.parametrize(("rows", "actions"), [(300, 3), (20, 1000)])
def test_alarms_about_true_ones_stay_below_the_level(rows: int, actions: int) -> None:
    rng, found = np.random.default_rng(2), []
    for _ in range(300):
        pi = rng.dirichlet(np.ones(actions), size=2)
        state = rng.integers(0, 2, rows)
        action = np.array([rng.choice(actions, p=pi[s]) for s in state])
        found.append(capital((2, actions), (state, action, pi[state, action])))
    assert np.mean(np.exp(found)) <= 1 + 4 * np.std(np.exp(found)) / np.sqrt(300)
    assert np.mean(np.array(found) >= np.log(20)) <= 0.05
