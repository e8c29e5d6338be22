"""`surefoot.problem`: one door for files, tables, logs and arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.core.counts import Counts


def same(x: surefoot.Problem, y: surefoot.Problem) -> bool:
    arrays = ("pi_b", "start", "terminal", "allowed")
    return (
        all(np.array_equal(getattr(x, name), getattr(y, name)) for name in arrays)
        and np.array_equal(x.counts.n_sas, y.counts.n_sas)
        and x.notes == y.notes
        and x.labels == y.labels
    )


@pytest.mark.parametrize(
    "kind",
    [
        "str",
        "path",
        "folder",
        "columns",
        pytest.param("pandas", marks=pytest.mark.slow),
        pytest.param("polars", marks=pytest.mark.slow),
        "log",
    ],
)
def test_every_source_gives_the_problem_of_its_log(kind: str, tmp_path: Path) -> None:
    path = logfiles.good_log(tmp_path)
    source: Any = path
    if kind == "str":
        source = str(path)
    elif kind == "folder":
        source = tmp_path
    elif kind == "columns":
        rows = [line.split(",") for line in path.read_text().splitlines()]
        source = {name: np.array(x) for name, *x in zip(*rows, strict=True)}
        source["reward"] = source["reward"].astype(float)
        source["time"] = source["time"].astype(int)
    elif kind in ("pandas", "polars"):
        library = pytest.importorskip(kind)
        source = library.read_csv(path)
    elif kind == "log":
        source = surefoot.read_log(path)
    found = surefoot.problem(source, gamma=0.9)
    assert same(found, surefoot.read_log(path).problem(0.9))
    assert found.labels.states == ("high", "low", "mid")


def test_a_baseline_may_be_a_file_a_policy_of_its_own_labels_or_an_array(tmp_path: Path) -> None:
    log, rule = logfiles.good_log(tmp_path), logfiles.rule(tmp_path, ("top", "mid", "low", "high"))
    read = surefoot.load_policy(rule)
    assert read.labels.states == ("top", "mid", "low", "high")
    by_path, by_policy = (surefoot.problem(log, gamma=0.9, pi_b=x) for x in (rule, read))
    assert same(by_path, by_policy)
    assert not by_path.pi_b_estimated
    assert same(
        surefoot.problem(log, gamma=0.9, pi_b=by_path.pi_b),
        surefoot.problem(
            log, gamma=0.9, pi_b=surefoot.Policy(pi=by_path.pi_b, labels=by_path.labels)
        ),
    )


def test_what_was_noted_about_a_policy_stays_with_the_problem(tmp_path: Path) -> None:
    log = logfiles.good_log(tmp_path)
    rows = [
        (s, a, p) for s in ("low", "mid", "high") for a, p in (("keep", 0.3333), ("try", 0.6666))
    ]
    rule = logfiles.write(tmp_path / "rounded.csv", ("state", "action", "probability"), rows)
    by_path, by_policy = (
        surefoot.problem(log, gamma=0.9, pi_b=x) for x in (rule, surefoot.load_policy(rule))
    )
    for found in (by_path, by_policy):
        assert any("3 states summed to 1 only within" in note for note in found.notes)


def test_options_of_reading_and_files_of_allowed_actions_go_through(tmp_path: Path) -> None:
    log = logfiles.good_log(tmp_path)
    allowed = logfiles.write(tmp_path / "allowed.csv", ("state", "action"), [("low", "keep")])
    found = surefoot.problem(
        log,
        gamma=0.9,
        allowed=allowed,
        masked_baseline="renormalise",
        actions=["keep", "try", "hold"],
        start="mid",
    )
    assert found.labels.actions == ("hold", "keep", "try")
    assert found.allowed[found.labels.state_code("low")].tolist() == [False, True, False]
    assert found.start.tolist() == [0, 0, 1]


def test_a_log_takes_no_options_of_reading(tmp_path: Path) -> None:
    log = surefoot.read_log(logfiles.good_log(tmp_path))
    with pytest.raises(surefoot.ProblemError, match="order belong to read_log"):
        surefoot.problem(log, gamma=0.9, order="time")


def test_arrays_are_still_arrays() -> None:
    found = surefoot.problem(
        state=[0, 1, 0],
        action=[0, 1, 1],
        reward=[0.0, 1.0, 0.0],
        next_state=[1, 0, 0],
        episode=[0, 0, 0],
        gamma=0.9,
    )
    assert isinstance(found.counts, Counts)
    assert found.labels == surefoot.Labels()
    solution = surefoot.improve(found, "basic-rl")
    assert solution.labels.states == (0, 1)


def test_an_unknown_start_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(surefoot.LogError, match=r"state 'hihg' is not in the log.*'high'"):
        surefoot.problem(logfiles.good_log(tmp_path), gamma=0.9, start="hihg")
