"""Batch: a log is put in order and checked at the door; what is wrong with it is said in words
one can act on.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot
from surefoot import LogError
from surefoot.core import Batch, make_batch
from surefoot.core.batch import COLUMNS

# Two episodes of 3 and 2 steps over 4 states and 3 actions; the first ends in state 3, the second
# is cut in state 1.
LOG: dict[str, Any] = {
    "state": [0, 1, 2, 0, 2],
    "action": [1, 2, 0, 0, 1],
    "reward": [1.0, -2.0, 0.5, 4.0, 0.25],
    "next_state": [1, 2, 3, 2, 1],
    "episode": [7, 7, 7, 3, 3],
    "terminal": [0, 0, 1, 0, 0],
}


def batch(**changes: Any) -> Batch:
    return make_batch(**{**LOG, **changes})


def rows(x: Batch) -> list[tuple[Any, ...]]:
    return list(zip(x.state, x.action, x.reward, x.next_state, x.ends, strict=True))


@st.composite
def logs(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Whole episodes in order of time, 4 states (the last one terminal) and 3 actions."""
    columns: list[tuple[int, ...]] = []
    for episode in range(draw(st.integers(1, 4))):
        steps = draw(st.integers(1, 6))
        path = draw(st.lists(st.integers(0, 2), min_size=steps, max_size=steps))
        end = draw(st.integers(0, 3))
        for t, (s, to) in enumerate(zip(path, [*path[1:], end], strict=True)):
            columns.append(
                (episode, t, s, draw(st.integers(0, 2)), draw(st.integers(-3, 3)), to, to == 3)
            )
    names = ("episode", "time", "state", "action", "reward", "next_state", "terminal")
    return {name: np.array(x) for name, x in zip(names, zip(*columns, strict=True), strict=True)}


@given(logs(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_shuffled_rows_with_times_give_the_same_batch(
    log: dict[str, np.ndarray], random: Any
) -> None:
    order = list(range(len(log["state"])))
    random.shuffle(order)
    straight = make_batch(**log, n_states=4, n_actions=3)
    shuffled = make_batch(**{name: x[order] for name, x in log.items()}, n_states=4, n_actions=3)
    assert rows(straight) == rows(shuffled)
    assert (straight.episode == shuffled.episode).all()


@given(logs(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_shuffled_rows_with_times_give_the_same_counts_and_returns(
    log: dict[str, np.ndarray], random: Any
) -> None:
    order = list(range(len(log["state"])))
    random.shuffle(order)
    options = {"gamma": 0.9, "n_states": 4, "n_actions": 3}
    straight = surefoot.problem(**log, **options)
    shuffled = surefoot.problem(**{name: x[order] for name, x in log.items()}, **options)
    assert (straight.counts.n_sas == shuffled.counts.n_sas).all()
    assert (straight.counts.r_sas == shuffled.counts.r_sas).all()
    for name in ("n", "mean", "m2"):
        assert np.array_equal(
            getattr(straight.returns, name), getattr(shuffled.returns, name), equal_nan=True
        )


@given(logs())
@settings(max_examples=50, deadline=None)
def test_episode_ids_may_be_any_labels(log: dict[str, np.ndarray]) -> None:
    labels = np.array(["z", "b", "k", "a"])[log["episode"]]
    ranks = np.array([3, 1, 2, 0])  # of these labels in the alphabet
    straight = make_batch(**{**log, "episode": ranks[log["episode"]]})
    assert rows(straight) == rows(make_batch(**{**log, "episode": labels}))
    assert rows(straight) == rows(make_batch(**{**log, "episode": labels.astype(object)}))


@given(logs())
@settings(max_examples=50, deadline=None)
def test_next_state_left_out_is_the_state_of_the_next_row(log: dict[str, np.ndarray]) -> None:
    last = np.append(log["episode"][1:] != log["episode"][:-1], True)
    keep = ~last | log["terminal"]  # the last step of a cut episode has no successor
    short = {name: x for name, x in log.items() if name != "next_state"}
    if not keep.any():
        with pytest.raises(LogError, match="no row has a successor"):
            make_batch(**short, n_states=3, n_actions=3)
        return
    found = make_batch(**short, n_states=3, n_actions=3)
    assert (found.state == log["state"][keep]).all()
    assert (
        found.next_state == log["next_state"][keep]
    ).all()  # "(end)" is state 3, as the terminal state of these logs
    assert found.left_out == (~keep).sum()
    assert found.row.tolist() == np.flatnonzero(keep).tolist()


def test_rows_are_ordered_by_episode_and_keep_their_order_within() -> None:
    found = batch()
    assert found.episode.tolist() == [0, 0, 1, 1, 1]
    assert found.row.tolist() == [3, 4, 0, 1, 2]
    assert found.state.tolist() == [0, 2, 0, 1, 2]
    assert found.reward.tolist() == [4.0, 0.25, 1.0, -2.0, 0.5]


@pytest.mark.parametrize("interleaved", [[0, 3, 1, 4, 2], [3, 0, 4, 1, 2]])
def test_interleaved_episodes_need_no_times(interleaved: list[int]) -> None:
    mixed = {name: np.array(x)[interleaved] for name, x in LOG.items()}
    assert rows(make_batch(**mixed)) == rows(batch())


@pytest.mark.parametrize(
    "time",
    [
        [2.5, 3.5, 4.5, -1.0, 0.0],
        [-3, -2, -1, 8, 9],
        np.array(
            ["2024-01-01", "2024-01-02", "2024-02-01", "2023-01-01", "2023-01-02"], dtype="M8[D]"
        ),
        [datetime(2024, 1, day) for day in (1, 2, 3, 4, 5)],
    ],
)
def test_times_may_be_numbers_or_dates(time: Any) -> None:
    backwards = {name: np.array(x)[::-1] for name, x in LOG.items()}
    assert rows(make_batch(**backwards, time=np.array(time)[::-1])) == rows(batch())


def test_ends_and_cuts_are_kept_apart() -> None:
    found = batch()
    assert found.ends.tolist() == [False, False, False, False, True]
    assert found.cuts.tolist() == [False, True, False, False, False]
    assert found.terminal_states == (3,)


def test_a_row_into_a_terminal_state_ends_without_a_flag() -> None:
    found = batch(terminal=None, terminal_states=[3])
    assert rows(found) == rows(batch())


@pytest.mark.parametrize("given_states", [3, (3,), [3.0], {3}, np.array([3]), range(3, 4)])
def test_terminal_states_may_come_in_any_plain_form(given_states: Any) -> None:
    assert batch(terminal=None, terminal_states=given_states).terminal_states == (3,)


def test_a_terminal_row_without_successor_leads_to_an_extra_state() -> None:
    found = batch(next_state=[1, 2, -1, 2, 1])
    assert found.has_end
    assert (found.n_states, found.terminal_states) == (4, (3,))
    assert found.next_state.tolist() == [2, 1, 1, 2, 3]


def test_the_extra_state_comes_after_all_declared_states_and_is_no_part_of_bounds() -> None:
    problem = surefoot.problem(**{**LOG, "next_state": [1, 2, -1, 2, 1]}, n_states=6, gamma=0.9)
    assert (problem.n_states, problem.n_bound_states) == (7, 6)
    assert problem.terminal.tolist() == [False] * 6 + [True]


def test_without_an_extra_state_bounds_use_all_states() -> None:
    problem = surefoot.problem(**LOG, n_states=6, gamma=0.9)
    assert (problem.n_states, problem.n_bound_states) == (6, 6)


def test_named_and_unnamed_ends_may_stand_in_one_log() -> None:
    found = batch(state=[0, 1, 2, 0, 2], next_state=[1, 2, 3, 2, -1], terminal=[0, 0, 1, 0, 1])
    assert found.terminal_states == (3, 4)
    assert found.cuts.sum() == 0


def test_left_out_rows_are_named_in_the_notes() -> None:
    short = {name: x for name, x in LOG.items() if name != "next_state"}
    problem = surefoot.problem(**short, gamma=0.9)
    assert len(problem.log) == 4
    assert any("1 cut episodes are left out" in note for note in problem.notes)


def test_sizes_are_one_more_than_the_highest_id() -> None:
    assert (batch().n_states, batch().n_actions) == (4, 3)
    assert batch(terminal_states=[9]).n_states == 10


def test_declared_sizes_may_be_larger_than_what_was_seen() -> None:
    found = batch(n_states=8, n_actions=5)
    assert (found.n_states, found.n_actions) == (8, 5)


@pytest.mark.parametrize("name", ["state", "action", "next_state", "terminal", "episode"])
def test_whole_floats_are_ids_and_flags(name: str) -> None:
    assert rows(batch(**{name: np.array(LOG[name], dtype=float)})) == rows(batch())


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, np.int64])
def test_any_integer_type_is_an_id(dtype: type) -> None:
    assert rows(batch(state=np.array(LOG["state"], dtype=dtype))) == rows(batch())


def test_arrays_are_read_only() -> None:
    found = batch()
    for name in COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(found, name)[0] = 0


def test_inputs_are_not_modified_and_stay_writable() -> None:
    given_log = {name: np.array(x) for name, x in LOG.items()}
    kept = {name: x.copy() for name, x in given_log.items()}
    given_log["next_state"][2] = kept["next_state"][2] = -1
    make_batch(**given_log)
    for name, x in given_log.items():
        assert np.array_equal(x, kept[name])
        assert x.flags.writeable


def test_a_batch_does_not_change_when_its_inputs_do() -> None:
    given_log = {name: np.array(x) for name, x in LOG.items()}
    found = make_batch(**given_log)
    given_log["state"][:] = 0
    assert rows(found) == rows(batch())


def test_an_episode_of_one_step_is_an_episode() -> None:
    found = batch(
        state=[0], action=[1], reward=[2.0], next_state=[3], episode=["x"], terminal=[True]
    )
    assert (len(found), found.n_episodes, found.n_states) == (1, 1, 4)
    assert found.last.tolist() == [True]
