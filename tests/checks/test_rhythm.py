"""Cycles of any period, in rewards and actions: found, seldom where there are none, and taken off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.checks.rhythm import EPISODES, ROWS, STEPS, places, rhythm
from surefoot.statistics.periodogram import cycle

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("period", [2, 3, 7, 12, 24, 30])
def test_a_cycle_of_any_period_is_found_with_its_period(period: int) -> None:
    t = np.arange(900)
    y = (t % period < max(period // 3, 1)) + 0.3 * RNG.standard_normal(900)
    found = cycle(y)
    assert found.p_value < 1e-6
    assert found.period == period
    code, kinds = found.phase(t)
    assert kinds == min(period, 12)
    assert len({int(x) for x in code[t % period == 0]}) == 1


@pytest.mark.parametrize("draw", ["normal", "coin", "rare", "heavy", "red"])
@pytest.mark.parametrize("n", [120, 1000])
def test_where_there_is_none_it_is_seldom_found(draw: str, n: int) -> None:
    """At most 5 % of 300 series, with room for chance (binomial, p < 1e-4)."""
    rng, wrong = np.random.default_rng(n), 0
    for _ in range(300):
        y = {
            "normal": rng.standard_normal,
            "coin": lambda k: (rng.random(k) < 0.5) * 1.0,
            "rare": lambda k: (rng.random(k) < 0.02) * 1.0,
            "heavy": lambda k: rng.standard_t(2, k),
            "red": lambda k: np.convolve(rng.standard_normal(k), 0.6 ** np.arange(20), "same"),
        }[draw](n)
        wrong += cycle(y).p_value < 0.05
    assert wrong <= 31


@pytest.mark.parametrize("n", [0, 1, 99])
def test_a_series_too_short_to_say_has_none(n: int) -> None:
    found = cycle(np.arange(n) % 2 * 1.0)
    assert found.p_value == 1.0
    assert found.phase(np.arange(n))[1] == 1


def test_what_never_varies_has_no_cycle() -> None:
    assert cycle(np.ones(500)).p_value == 1.0


def table(how: str, n: int = 1400, *, shuffled: bool = False) -> dict[str, Any]:
    """Level and habit both follow the day of the week; times are plain numbers."""
    rng = np.random.default_rng(3)
    steps = 2 if how == "episodes" else 1
    day, step = np.divmod(np.arange(n), steps)
    free = day % 7 >= 5
    action = (rng.random(n) < np.where(free, 0.9, 0.2)).astype(int)
    columns = {
        "episode": np.zeros(n, dtype=int) if how == "one" else day,
        "time": np.arange(n) if steps == 1 else step,
        "state": rng.integers(0, 2, n),
        "action": action,
        "reward": 0.5 * free - 0.05 * action + 0.5 * rng.standard_normal(n),
    }
    if how != "one":
        columns["terminal"] = (step == steps - 1).astype(int)
    order = rng.permutation(n) if shuffled else np.arange(n)
    return {name: x[order] for name, x in columns.items()}


@pytest.mark.parametrize(
    ("how", "clocks"), [("one-step", {ROWS}), ("one", {ROWS}), ("episodes", {EPISODES, STEPS})]
)
def test_rows_have_a_place_on_every_clock_of_their_log(how: str, clocks: set[str]) -> None:
    batch = surefoot.read_log(table(how)).batch()
    where = places(batch)
    assert set(where) == clocks
    slow = where.get(EPISODES, where.get(ROWS))
    y = batch.reward - batch.reward.mean()
    assert rhythm(y, slow).period == 7


@pytest.mark.parametrize("how", ["one-step", "one", "episodes"])
def test_an_action_gets_no_credit_for_the_day_of_the_week(how: str) -> None:
    advice = surefoot.advise(table(how), gamma=0.0 if how != "episodes" else 0.9)
    assert not advice.supported
    row = advice.gain.evidence
    assert row.estimate < 0.02 or row.explained > 0.6 * row.estimate


@pytest.mark.parametrize("shuffled", [False, True])
def test_check_names_the_period_whatever_the_order_of_the_file(shuffled: bool) -> None:
    found = {x.key: x for x in surefoot.check(table("one-step", shuffled=shuffled)).findings}
    assert "rise and fall every 7 rows" in found["policy-drift"].sentence
    assert found["policy-drift"].vetoes
    assert found["drift"].level == "warning"
