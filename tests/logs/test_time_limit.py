"""Logs without next_state: the last row of a cut episode is lost, and ends must not look more
frequent for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.diagnosis import Finding, check_log, vetoes
from surefoot.logs import Log, read_log

pytest.importorskip("duckdb")
Columns = dict[str, list[Any]]


def walks(lengths: list[int], seed: int = 0, chance: float = 0.15) -> Columns:
    """Episodes in three states that end by chance, or are cut after so many rows."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode, length in enumerate(lengths):
        s = 0
        for t in range(length):
            a, follow = int(rng.integers(2)), int(rng.integers(3))
            ends = bool(rng.random() < chance * (1 + a))
            rows.append((episode, t, s, a, float(t), follow, ends, t == length - 1 and not ends))
            if ends:
                break
            s = follow
    names = ("episode", "time", "state", "action", "reward", "next_state", "terminal", "truncated")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def without_next(columns: Columns) -> Columns:
    return {x: y for x, y in columns.items() if x not in ("next_state", "truncated")}


def finding(log: Log) -> Finding | None:
    return next((x for x in check_log(log) if x.name == "cuts"), None)


@pytest.mark.parametrize("limit", [4, 7])
def test_cut_after_k_rows_a_log_is_one_with_next_states_cut_a_row_before(limit: int) -> None:
    columns = walks([limit] * 400)
    log = read_log(without_next(columns))
    before = np.array(columns["time"]) < limit - 1
    shorter = {x: np.array(y)[before] for x, y in columns.items()}
    expected = read_log(shorter, terminal_to_end=True)
    assert log.time_limit == limit
    assert log.n_unfollowed == 0
    assert log.accounting.left_out_as("at-limit") > 10
    assert np.array_equal(log.counts.n_sas, expected.counts.n_sas)
    assert np.array_equal(log.counts.r_sas, expected.counts.r_sas)
    mine, theirs = log.batch(), expected.batch()
    for name in ("state", "action", "reward", "next_state", "episode", "ends"):
        assert np.array_equal(getattr(mine, name), getattr(theirs, name)), name
    assert "is left out of every episode" in " ".join(log.notes)
    assert finding(log) is None


def test_the_rows_at_the_limit_do_not_matter_to_histories_and_the_length_of_steps() -> None:
    columns = without_next(walks([4] * 200))
    remembered = read_log(columns, history=1)
    timed = read_log(columns, discount_per=1.0)
    assert remembered.accounting.used == timed.accounting.used == len(remembered.batch())


def test_cuts_after_different_numbers_of_rows_are_said_and_leave_nothing_rigorous() -> None:
    columns = walks(np.random.default_rng(1).integers(2, 6, 600).tolist())
    log = read_log(without_next(columns))
    cut = int(np.sum(columns["truncated"]))
    assert (log.time_limit, log.n_unfollowed) == (0, cut)
    found = finding(log)
    assert found is not None
    assert found.numbers["share"] == pytest.approx(cut / len(columns["time"]))  # all pairs end
    assert found.vetoes
    assert [x.key for x in vetoes(log) if x.key == "cuts"] == ["cuts"]
    label, assumptions = certified(log)
    assert label == "approximate"
    assert any(f"the {cut} rows that did not end" in x for x in assumptions)


def certified(log: Log) -> tuple[str, tuple[str, ...]]:
    problem = log.problem(
        0.9, np.full((log.n_states, log.n_actions), 0.5), return_range=(0, 100), start=0
    )
    pi = np.tile([0.4, 0.6], (log.n_states, 1))
    found = surefoot.certify(problem, pi, "advantage")
    return found.label, found.assumptions


def test_a_time_limit_is_assumed_where_it_was_read_off_the_log() -> None:
    label, assumptions = certified(read_log(without_next(walks([4] * 300))))
    assert label == "rigorous"
    assert "every episode that had not ended was cut after 4 rows" in assumptions
    label, assumptions = certified(read_log(walks([4] * 300), terminal_to_end=True))
    assert label == "rigorous"
    assert not any("cut after 4 rows" in x for x in assumptions)


def test_where_nothing_ends_nothing_is_kept_that_others_lose() -> None:
    log = read_log(without_next(walks([3, 5, 4] * 20, chance=0.0)))
    assert log.accounting.left_out_as("cut") == 60
    assert log.n_unfollowed == 0
    assert finding(log) is None


def test_a_few_cuts_at_the_length_at_which_episodes_end_cost_no_ends() -> None:
    columns = without_next(walks([3] * 100, chance=0.0))
    columns["terminal"] = [
        t == 2 and e > 0 for e, t in zip(columns["episode"], columns["time"], strict=True)
    ]
    log = read_log(columns)
    assert log.n_ended == 99
    assert (log.time_limit, log.n_unfollowed) == (0, 1)
    found = finding(log)
    assert found is not None
    assert not found.vetoes


def test_last_rows_in_named_terminal_states_are_not_cuts() -> None:
    columns = without_next(walks([5] * 100, chance=0.0))
    del columns["terminal"]
    columns["state"] = [
        9 if t == 4 else s for t, s in zip(columns["time"], columns["state"], strict=True)
    ]
    log = read_log(columns, terminal_states=[9])
    assert log.n_ended == 100
    assert log.n_unfollowed == 0
    columns["state"][-1] = 0
    assert read_log(columns, terminal_states=[9]).n_unfollowed == 1


def test_arrays_without_next_states_that_end_and_are_cut_leave_nothing_rigorous() -> None:
    columns = without_next(walks([4] * 300))
    del columns["time"]
    given = {x: np.array(y) for x, y in columns.items()}
    problem = surefoot.problem(gamma=0.9, return_range=(0, 100), **given)
    cut = 300 - int(given["terminal"].sum())
    assert problem.n_unfollowed == cut


@pytest.mark.parametrize("lengths", [[4] * 50, [4] * 49 + [3], [4] * 49 + [1], [7]])
def test_where_nothing_ends_last_rows_may_be_left_out_only_of_episodes_of_one_length(
    lengths: list[int],
) -> None:
    """Of others a cut may have to do with the row before it: from files and from arrays alike."""
    columns = without_next(walks(lengths, chance=0.0))
    del columns["terminal"]
    wanted = 0 if len(set(lengths)) == 1 else len(lengths)
    ranges = {"reward_range": (0, 100), "return_range": (0, 1000)}
    log = read_log(columns)
    given = {x: np.array(y) for x, y in columns.items()}
    pi_b = np.full((log.n_states, log.n_actions), 1 / log.n_actions)
    for problem in (
        log.problem(0.9, pi_b, **ranges),
        surefoot.problem(gamma=0.9, pi_b=pi_b, **ranges, **given),
    ):
        assert problem.n_unfollowed == wanted
        found = surefoot.certify(problem, problem.pi_b, "advantage")
        assert found.label == ("approximate" if wanted else "rigorous")
        assert any("are left out, as nothing is known" in x for x in found.assumptions) == (
            wanted > 0
        )
    counts_alone = log.problem(0.9, pi_b, needs_returns=False, **ranges)
    assert counts_alone.n_unfollowed == (len(lengths) if len(lengths) > 1 else 0)


def test_bad_rows_that_are_left_out_leave_nothing_rigorous() -> None:
    columns = walks([4] * 60)
    columns["reward"] = ["", *columns["reward"][1:]]
    log = read_log(columns, drop_bad_rows="reward", terminal_to_end=True)
    pi_b = np.full((log.n_states, log.n_actions), 1 / log.n_actions)
    problem = log.problem(0.9, pi_b, reward_range=(0, 100), return_range=(0, 1000))
    found = surefoot.certify(problem, problem.pi_b, "advantage")
    assert (problem.n_dropped, found.label) == (1, "approximate")
    assert "the 1 bad rows left out are like those that are used" in found.assumptions
