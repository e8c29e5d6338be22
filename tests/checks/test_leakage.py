"""A measurement that says the action or the reward of its own row is found, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.checks.leakage import LITTLE, left
from surefoot.core.errors import SurefootError

COLUMNS = ("heat", "also", "action", "reward")
HOW: dict[str, Any] = {"bandit": True}


def raw(folder: Path, also: Any, n: int = 2000) -> Path:
    """Single decisions; `also` makes a second measurement of (heat, action, reward)."""
    rng = np.random.default_rng(2)
    rows = []
    for _ in range(n):
        heat, cool = float(rng.uniform(0, 10)), int(rng.random() < 0.4)
        reward = round(float(0.5 * ((heat > 6) == bool(cool)) + rng.normal()), 4)
        rows.append((round(heat, 3), also(heat, cool, reward, rng), cool, reward))
    return logfiles.write(folder / "raw.csv", COLUMNS, rows)


def advised(log: Path, **how: Any) -> Any:
    return surefoot.advise(log, features=["heat", "also"], states=9, **HOW, **how)


@pytest.mark.parametrize(
    ("also", "said"),
    [
        (lambda heat, cool, reward, rng: cool + 0.1 * rng.random(), "the action of its own row"),
        (lambda heat, cool, reward, rng: 7 - 3 * reward, "the reward of its own row"),
        (lambda heat, cool, reward, rng: np.exp(reward), "the reward of its own row"),
    ],
)
def test_the_action_or_the_reward_in_disguise_forbids_the_word(
    also: Any, said: str, tmp_path: Path
) -> None:
    log = raw(tmp_path, also)
    found = advised(log)
    assert not found.supported
    (finding,) = [x for x in found.findings if x.key == "leakage"]
    assert finding.vetoes and "'also'" in finding.sentence and said in finding.sentence
    checked = surefoot.check(log, features=["heat", "also"], states=9, **HOW)
    assert "leakage" in checked.vetoes and said in str(checked)


def test_what_was_known_before_may_be_kept_despite_it(tmp_path: Path) -> None:
    """A reward that is made of a measurement of its own row, and an action that pays later."""
    rng = np.random.default_rng(4)
    rows, cool = [], 0
    for e in range(400):
        heat = float(rng.uniform(0, 1))
        for t in range(5):
            cool = int(rng.random() < 0.5)
            rows.append((e, t, round(heat, 4), cool, round(-heat, 4)))
            heat = float(rng.uniform(0, 0.4 if cool else 1))
    header = ("episode", "time", "heat", "action", "reward")
    log = logfiles.write(tmp_path / "log.csv", header, rows)
    how = {"features": ["heat"], "states": 4, "gamma": 0.9, "reward_range": (-1, 0)}
    how |= {"episode_end": "terminal"}
    assert "leakage" in surefoot.advise(log, **how).reason
    kept = surefoot.advise(log, **how, despite=["leakage", "markov"])
    assert kept.supported and "leakage" in kept.waived


@pytest.mark.parametrize("seed", range(5))
def test_honest_measurements_are_not_suspected(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=3000)
    explores = (rng.random(3000) < np.where(x > 0.3, 0.97, 0.03)).astype(int)
    reward = 3 * x + 0.3 * rng.normal(size=3000)
    shares = left(x, explores, reward)
    assert shares[0] > LITTLE["action"] and shares[1] > LITTLE["reward"]
    assert shares[1] == pytest.approx(0.09 / 9.09, rel=0.25)
    mixed = left(rng.permutation(x), explores, reward)
    assert mixed == pytest.approx((1.0, 1.0), abs=0.1)


def test_ties_and_gaps_say_nothing_by_their_order() -> None:
    """Rewards that drift along the log, and a measurement of two values."""
    n = 4000
    x = np.where(np.arange(n) % 2 == 0, 0.0, 1.0)
    reward, action = np.linspace(0, 1, n), (np.arange(n) < n // 2).astype(int)
    assert min(left(x, action, reward)) > 0.9
    assert left(np.full(n, np.nan), action, reward) == (1.0, 1.0)
    assert left(x, np.zeros(n, dtype=int), np.zeros(n)) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("also", "how", "said"),
    [
        (lambda *x: 3.0, {}, "'also' is constant"),
        (lambda *x: "hot", {}, "'also' is 'hot', not a finite number"),
        (lambda heat, *x: "" if heat > 9 else 1 + heat, {}, "'also' is missing"),
        (lambda heat, *x: heat + 1, {"states": 1500}, "more than the 1,000 rows of the half"),
        (lambda heat, *x: heat + 1, {"features": ["heat", "reward"]}, "is the reward of the log"),
        (lambda heat, *x: heat + 1, {"features": ["heat", "action"]}, "is the action of the log"),
        (lambda heat, *x: heat + 1, {"guard": ["also:lower"]}, "is the guard of the log"),
    ],
)
def test_bad_measurements_are_a_sentence_each(
    also: Any, how: dict[str, Any], said: str, tmp_path: Path
) -> None:
    log = raw(tmp_path, also)
    with pytest.raises(SurefootError, match=said):
        surefoot.advise(log, **({"features": ["heat", "also"], "states": 9} | HOW | how))
