"""Columns beside the steps: propensity, policy, group and guards come along with the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from surefoot import LogError, read_log
from surefoot.evidence.units import take_episodes


def table(**changed: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "episode": np.repeat(np.arange(30), 10),
        "t": np.tile(np.arange(10), 30),
        "state": rng.integers(0, 3, 300),
        "action": rng.integers(0, 2, 300),
        "reward": rng.random(300),
        "pscore": np.linspace(0.1, 1, 300),
        "sex": np.repeat(rng.choice(["f", "m"], 30), 10).tolist(),
        "cost": np.arange(300) / 7,
    }
    return columns | changed


def test_they_come_along_with_their_rows_in_order() -> None:
    columns = table()
    shuffled = np.random.default_rng(1).permutation(300)
    mixed = {name: np.asarray(x, dtype=object)[shuffled].tolist() for name, x in columns.items()}
    log = read_log(mixed, group="sex", guard="cost,reward", policy="sex")
    batch = log.batch()
    kept = np.arange(300) % 10 < 9  # the last rows of cut episodes lead nowhere
    assert log.beside == {"policy": ("f", "m"), "group": ("f", "m")}
    assert np.array_equal(batch.beside["propensity"], columns["pscore"][kept])
    assert np.array_equal(batch.beside["g0"], columns["cost"][kept])
    assert np.array_equal(batch.beside["g1"], batch.reward)
    labels = [log.beside["group"][x] for x in batch.beside["group"]]
    assert labels == np.asarray(columns["sex"])[kept].tolist()
    part = take_episodes(batch, np.arange(30) == 3)
    assert np.array_equal(part.beside["g0"], columns["cost"][30:39])


def test_what_nobody_named_is_not_taken_but_for_propensities() -> None:
    batch = read_log(table()).batch()
    assert list(batch.beside) == ["propensity"]
    assert read_log(table(), propensity="-").batch().propensity is None


@pytest.mark.parametrize("value", [0.0, -0.1, 1.01, np.nan, np.inf])
def test_a_propensity_outside_its_range_is_a_bad_row(value: float) -> None:
    columns = table()
    columns["pscore"][7] = value
    with pytest.raises(LogError, match=r"1 rows whose propensity is no probability.*row 8"):
        read_log(columns)
    # the row before it still leads to its state
    assert read_log(columns, drop_bad_rows="propensity").accounting.used == 269


def test_rounding_above_1_is_no_fault() -> None:
    columns = table()
    columns["pscore"][7] = 1 + 1e-12
    found = read_log(columns).batch().propensity
    assert found is not None
    assert found.max() == 1.0


def test_text_in_a_guarded_column_is_named() -> None:
    costs = [*table()["cost"].astype(str)[:-1], "dear"]
    with pytest.raises(LogError, match=r"1 rows whose guarded column is not a finite .*'dear'"):
        read_log(table(cost=costs), guard="cost")


def test_a_missing_group_is_named() -> None:
    with pytest.raises(LogError, match="1 rows without a group"):
        read_log(table(sex=[*table()["sex"][:-1], None]), group="sex")


def test_several_groupings_come_along_each_by_itself() -> None:
    ward = np.repeat(np.random.default_rng(3).choice([7, 8, 9], 30), 10)
    columns = table(ward=ward)
    log = read_log(columns, group=["sex", "ward", "sex,ward"])
    named = {"group: sex": ("f", "m"), "group: ward": (7, 8, 9)}
    assert log.groups == named | {"group: sex + ward": log.groups["group: sex + ward"]}
    kept, batch = np.arange(300) % 10 < 9, log.batch()
    for name, x in (("sex", np.asarray(columns["sex"])), ("ward", ward)):
        labels = np.asarray(log.groups[f"group: {name}"])[batch.beside[f"group: {name}"]]
        assert np.array_equal(labels, x[kept])
    assert set(log.groups["group: sex + ward"]) == set(
        zip(columns["sex"], ward.tolist(), strict=True)
    )
    assert "group = sex and ward and sex + ward" in log.columns
    alone = read_log(columns, group=["sex"])
    assert alone.groups == read_log(columns, group="sex").groups == {"group": ("f", "m")}
    assert alone.columns.endswith("group = sex")


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (["sex", "sex"], "episodes are grouped by sex twice: say it once"),
        (["sex,state", ("state", "sex")], "grouped by state and sex twice"),
        (["sex", "site"], "no column 'site'"),
        (["sex", 5], "no column '5'"),
        (["sex", "state"], "the group state changes within episode"),
        (["sex", "late"], "1 rows without a group, .*late missing"),
    ],
)
def test_a_wrong_grouping_among_others_is_named(group: Any, words: str) -> None:
    late = [*table()["sex"][:-1], None]
    with pytest.raises(LogError, match=words):
        read_log(table(late=late), group=group)
