"""The direction of a reward: less of a column may be better, and what is declared or missing is said
in the units of the column.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot import LogError, ProblemError, read_log
from surefoot.logs import add_up, count_part, make_log
from surefoot.logs.read import options_of


def table(**columns: Any) -> dict[str, Any]:
    """30 episodes of 10 rows with what is given beside state and action."""
    rng = np.random.default_rng(0)
    return {
        "episode": np.repeat(np.arange(30), 10),
        "t": np.tile(np.arange(10), 30),
        "state": rng.integers(0, 3, 300),
        "action": rng.integers(0, 2, 300),
    } | columns


HARM = np.random.default_rng(1).integers(0, 5, 300).astype(float)


def test_lower_is_the_same_as_minus_the_column() -> None:
    turned = read_log(table(harm=HARM), reward="harm:lower")
    minus = read_log(table(reward=-HARM))
    assert np.array_equal(turned.counts.r_sas, minus.counts.r_sas)
    assert turned.rewards == minus.rewards
    assert np.array_equal(turned.batch().reward, minus.batch().reward)


def test_higher_is_the_column_as_it_is() -> None:
    said, plain = read_log(table(x=HARM), reward="x:higher"), read_log(table(reward=HARM))
    assert np.array_equal(said.counts.r_sas, plain.counts.r_sas)
    assert (said.reward.direction, plain.reward.direction) == ("higher", "")


@pytest.mark.parametrize("name", ["x:lower", "cost:lower", "a:higher"])
def test_a_column_whose_very_name_ends_like_a_direction_is_taken_as_it_is(name: str) -> None:
    log = read_log(table(**{name: HARM}), reward=name)
    assert (log.reward.column, log.reward.direction) == (name, "")
    assert log.rewards == (0.0, 4.0)
    assert read_log(table(**{name: HARM}), reward=f"{name}:lower").rewards == (-4.0, 0.0)


def test_a_misspelt_direction_is_refused_with_the_form() -> None:
    with pytest.raises(LogError, match=r"'harm:lowr'.*COLUMN:lower or COLUMN:higher"):
        read_log(table(harm=HARM), reward="harm:lowr")


def test_a_missing_reward_is_given_in_the_units_of_the_column() -> None:
    holes = HARM.copy()
    holes[::7] = np.nan
    filled = np.where(np.isnan(holes), 3.0, holes)
    log = read_log(table(harm=holes), reward="harm:lower", missing_reward=3)
    assert np.array_equal(log.batch().reward, read_log(table(reward=-filled)).batch().reward)


def test_ranges_and_tables_are_declared_in_the_units_of_the_column() -> None:
    log, minus = read_log(table(harm=HARM), reward="harm:lower"), read_log(table(reward=-HARM))
    a = log.problem(0.9, reward_range=(0, 6), return_range=(-1, 70))
    b = minus.problem(0.9, reward_range=(-6, 0), return_range=(-70, 1))
    assert (a.reward_range, a.return_range) == (b.reward_range, b.return_range)
    pay = np.array([0.0, 1.0, 4.0])
    known = log.problem(0.9, reward_table=pay).reward_table
    assert np.array_equal(known, minus.problem(0.9, reward_table=-pay).reward_table)


def test_a_range_that_does_not_hold_says_that_the_reward_is_turned() -> None:
    log = read_log(table(harm=HARM), reward="harm:lower")
    with pytest.raises(ProblemError, match=r"reward_range \(-3.*the reward is minus harm"):
        log.problem(0.9, reward_range=(0, 3))


def test_problem_and_improve_move_away_from_the_harm() -> None:
    rows = table()
    harm = (rows["action"] == 1).astype(float)
    for reward, better in (("harm:lower", 0), ("harm:higher", 1)):
        problem = surefoot.problem(rows | {"harm": harm}, gamma=0.5, reward=reward)
        pi = surefoot.improve(problem, "basic-rl").pi
        assert pi[:, better].min() == 1.0


def test_parts_of_a_log_know_the_direction(tmp_path: Path) -> None:
    rows = table(harm=HARM)
    path = tmp_path / "log.csv"
    lines = zip(*rows.values(), strict=True)
    path.write_text("\n".join([",".join(rows), *(",".join(map(str, x)) for x in lines)]) + "\n")
    options, _ = options_of(reward="harm:lower")
    log = make_log(add_up(count_part(str(path), options, (i, 3)) for i in range(3)), options)
    assert log.reward == read_log(path, reward="harm:lower").reward
    assert log.problem(0.9, reward_range=(0, 6), needs_returns=False).reward_range == (-6.0, 0.0)


@pytest.mark.parametrize(
    "name",
    ["died", "cost", "Total Cost", "readmitted_30d", "failureCount", "DEATH", "pump.error", "loss"],
)
def test_a_name_that_says_harm_is_a_warning_unless_a_direction_is_given(name: str) -> None:
    log = read_log(table(**{name: HARM}), reward=name)
    assert any("its name says harm" in x and f"{name}:lower" in x for x in log.warnings)
    for direction in ("lower", "higher"):
        assert not read_log(table(**{name: HARM}), reward=f"{name}:{direction}").warnings


@pytest.mark.parametrize(
    "name", ["reward", "survived", "costume_sales", "neg_cost", "no_error", "cost_saved", "glossy"]
)
def test_a_name_that_says_no_harm_is_no_warning(name: str) -> None:
    assert not read_log(table(**{name: HARM}), reward=name).warnings


def test_its_mean_is_said_in_the_units_of_the_column() -> None:
    rows = table(died=(np.arange(300) % 10 == 8) * 1.0)  # the last row of a cut episode is left out
    found = read_log(rows, reward="died:lower").reward_summary
    assert found["sentence"].startswith("less died is better; a row averages 0.1111, an epis")
    assert found["mean"] == pytest.approx(1 / 9)
    assert read_log(rows, reward="died:higher").reward_summary["sentence"] == (
        "more died is better; a row averages 0.1111, an episode 1"
    )


def test_episodes_without_any_reward_are_counted_and_said() -> None:
    holes = HARM.copy()
    holes[:20] = np.nan  # two whole episodes
    holes[25] = np.nan
    words = "2 of 30 episodes have no reward at all"
    with pytest.raises(LogError, match=words):
        read_log(table(reward=holes))
    for more in ({"missing_reward": 0}, {"drop_bad_rows": "reward"}):
        assert any(words in x for x in read_log(table(reward=holes), **more).notes)
    holes[:20:10] = 1.0
    assert not any("at all" in x for x in read_log(table(reward=holes), missing_reward=0).notes)


def test_an_outcome_repeated_in_every_row_of_its_episode_is_named() -> None:
    outcome = np.random.default_rng(2).integers(0, 2, 30).astype(float)

    def named(reward: np.ndarray) -> bool:
        log = read_log(table(reward=reward), order="time")
        return any("repeated in each of its rows" in x for x in log.warnings)

    repeated = np.repeat(outcome, 10)
    assert named(repeated)
    once = repeated.copy()
    once[5] = 1 - once[5]
    assert not named(once)
    assert not named(np.ones(300))
    few = table(reward=repeated)
    few = {x: np.asarray(y)[:50] for x, y in few.items()}
    assert not read_log(few).warnings


def test_rows_of_one_step_episodes_repeat_nothing() -> None:
    rows = table(reward=HARM, episode=np.arange(300))
    assert not read_log(rows, episode_end="terminal").warnings
