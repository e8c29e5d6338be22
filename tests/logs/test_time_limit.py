"""Logs without next_state: the last row of a cut episode is lost, and ends must not look more
frequent for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.checks import Finding, check_log, vetoes
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


def certified(log: Log, name: str = "advantage", **options: Any) -> tuple[str, tuple[str, ...]]:
    problem = log.problem(
        0.9, np.full((log.n_states, log.n_actions), 0.5), return_range=(0, 100), start=0
    )
    pi = np.tile([0.4, 0.6], (log.n_states, 1))
    found = surefoot.certify(problem, pi, name, **options)
    return found.label, found.assumptions


def test_rows_left_out_raise_no_label() -> None:
    log = read_log(without_next(walks(np.random.default_rng(1).integers(2, 6, 300).tolist())))
    assert log.n_unfollowed > 0
    assert certified(log, "delta-method", data="fresh")[0] == "asymptotic"


def cut_in(state_1: int, state_0: int) -> Columns:
    """100 episodes 0, 1, end; some more are cut in state 1, whose rows end, some in state 0."""
    rows = [(e, t, t, 0, 0.0, t == 1) for e in range(100) for t in (0, 1)]
    rows += [(100 + e, t, t, 0, 0.0, False) for e in range(state_1) for t in (0, 1)]
    rows += [(500 + e, 0, 0, 0, 0.0, False) for e in range(state_0)]
    names = ("episode", "time", "state", "action", "reward", "terminal")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize(
    ("state_1", "level", "vetoes"),
    [(0, "note", False), (1, "note", False), (3, "warning", False), (7, "warning", True)],
)
def test_only_rows_left_out_of_pairs_that_end_count(state_1: int, level: str, vetoes: bool) -> None:
    """0, 1 %, 2.9 % and 6.5 % of the rows of state 1; those of state 0 never end, and are many."""
    found = finding(read_log(cut_in(state_1, 30)))
    assert found is not None
    assert found.numbers["rows"] == 30 + state_1
    assert found.numbers["share"] == pytest.approx(state_1 / (100 + state_1))
    assert (found.level, found.vetoes) == (level, vetoes)


def test_a_time_limit_is_assumed_where_it_was_read_off_the_log() -> None:
    label, assumptions = certified(read_log(without_next(walks([4] * 300))))
    assert label == "rigorous"
    assert "every episode that had not ended was cut after 4 rows" in assumptions
    label, assumptions = certified(read_log(walks([4] * 300), terminal_to_end=True))
    assert label == "rigorous"
    assert not any("cut after 4 rows" in x for x in assumptions)


def test_where_nothing_ends_no_row_that_ended_is_kept() -> None:
    log = read_log(without_next(walks([3, 5, 4] * 20, chance=0.0)))
    assert log.accounting.left_out_as("cut") == 60
    assert log.n_unfollowed == 0


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


def test_a_length_at_which_more_episodes_end_than_are_cut_is_no_time_limit() -> None:
    """10 episodes end with row 10, 4 are cut there; 200 rows, so that few would be lost."""
    columns = without_next(walks([10] * 14 + [3] * 20, chance=0.0))
    last = {(e, 9) for e in range(4, 14)} | {(e, 2) for e in range(14, 34)}
    columns["terminal"] = [
        (e, t) in last for e, t in zip(columns["episode"], columns["time"], strict=True)
    ]
    log = read_log(columns)
    assert log.accounting.rows == 200
    assert (log.time_limit, log.n_ended, log.n_unfollowed) == (0, 30, 4)


def test_a_time_limit_that_would_cost_many_rows_is_not_used() -> None:
    """40 episodes of two rows, 30 cut and 10 ended: an eighth of the rows."""
    columns = without_next(walks([2] * 40, chance=0.0))
    columns["terminal"] = [
        t == 1 and e < 10 for e, t in zip(columns["episode"], columns["time"], strict=True)
    ]
    log = read_log(columns)
    assert (log.time_limit, log.n_ended, log.n_unfollowed) == (0, 10, 30)


def test_where_last_rows_are_ends_there_is_no_limit_to_look_for() -> None:
    columns = without_next(walks([4] * 200))
    log = read_log(columns, episode_end="terminal")
    assert (log.time_limit, log.n_unfollowed, log.n_ended) == (0, 0, 200)
    assert len(log.batch()) == log.accounting.rows == log.accounting.used
    assert log.batch().ends.sum() == 200


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


def test_arrays_with_named_terminal_states_lose_the_last_rows_of_cut_episodes_alone() -> None:
    """20 episodes 0, 1, 9; the last row of each is in the end, but for one that is cut in 1."""
    given = {
        "state": np.tile([0, 1, 9], 20), "action": np.zeros(60, dtype=int),
        "reward": np.zeros(60), "episode": np.repeat(np.arange(20), 3),
    }  # fmt: skip
    options = {"gamma": 0.9, "return_range": (0, 1), "terminal_states": [9], "n_states": 10}
    assert surefoot.problem(**given, **options).n_unfollowed == 0
    short = {name: x[:-1] for name, x in given.items()}
    assert surefoot.problem(**short, **options).n_unfollowed == 1


def test_arrays_of_which_whole_episodes_are_left_out_are_counted_too() -> None:
    """One row each: 10 end, 5 are cut and vanish."""
    problem = surefoot.problem(
        state=np.zeros(15, dtype=int), action=np.zeros(15, dtype=int), reward=np.zeros(15),
        episode=np.arange(15), terminal=np.arange(15) < 10, gamma=0.9, return_range=(0, 1),
    )  # fmt: skip
    assert problem.n_unfollowed == 5


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


@pytest.mark.parametrize(
    ("lengths", "level", "vetoes"),
    [
        ([4] * 50, None, False),
        ([7], None, False),
        ([3, 5, 4] * 20, "warning", True),
        ([30, 29] * 25, "warning", False),
        ([4] * 49 + [3], "note", False),
    ],
)
def test_last_rows_of_episodes_that_never_end_and_differ_in_length_are_a_finding(
    lengths: list[int], level: str | None, vetoes: bool
) -> None:
    """Two equal actions were 0.33 apart, and supported, where an episode stopped once one had won
    or the other lost.
    """
    columns = without_next(walks(lengths, chance=0.0))
    del columns["terminal"]
    found = finding(read_log(columns))
    assert (None if found is None else found.level) == level
    assert found is None or found.vetoes == vetoes
    if found is not None:
        shorter = sum(x < max(lengths) for x in lengths)
        assert found.numbers["share"] == pytest.approx(shorter / sum(lengths))
        assert finding(read_log(columns, episode_end="terminal")) is None


def test_bad_rows_that_are_left_out_leave_nothing_rigorous() -> None:
    columns = walks([4] * 60)
    columns["reward"] = ["", *columns["reward"][1:]]
    log = read_log(columns, drop_bad_rows="reward", terminal_to_end=True)
    pi_b = np.full((log.n_states, log.n_actions), 1 / log.n_actions)
    problem = log.problem(0.9, pi_b, reward_range=(0, 100), return_range=(0, 1000))
    found = surefoot.certify(problem, problem.pi_b, "advantage")
    assert (problem.n_dropped, found.label) == (1, "approximate")
    assert "the 1 bad rows left out are like those that are used" in found.assumptions


def test_rows_whose_next_state_is_missing_count_as_left_out_for_not_having_ended() -> None:
    """Nobody knows where they lead, and rows that ended are kept. Only action 1 ends: all of them
    might have been in its pairs.
    """
    columns = walks([4] * 300)
    ends = [x and a == 1 for x, a in zip(columns["terminal"], columns["action"], strict=True)]
    lost = [i for i, x in enumerate(ends) if not x][:7]
    columns["terminal"] = ends
    columns["next_state"] = [
        None if ends[i] or i in lost else s for i, s in enumerate(columns["next_state"])
    ]
    log = read_log(columns, terminal_to_end=True, drop_bad_rows="next-state")
    assert log.accounting.left_out_as("next-state") == log.n_unfollowed == 7
    kept = sum(a == 1 for i, a in enumerate(columns["action"]) if i not in lost)
    found = finding(log)
    assert found is not None
    assert found.numbers["share"] == pytest.approx(7 / (7 + kept))


def test_rows_before_a_bad_one_count_as_left_out_for_not_having_ended() -> None:
    columns = without_next(walks([4] * 300))
    inner = [i for i, t in enumerate(columns["time"]) if t == 1][:5]
    columns["state"] = [None if i in inner else s for i, s in enumerate(columns["state"])]
    log = read_log(columns, drop_bad_rows="state")
    assert log.accounting.left_out_as("no-successor") == 5
    assert log.n_unfollowed == log.accounting.left_out_as("cut") + 5
