"""Batch: what is wrong with a log is said at the door, in words one can act on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from surefoot import LogError
from surefoot.core import Batch, make_batch
from surefoot.problems import discounted_returns

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


def message(error: type[Exception] = LogError, **changes: Any) -> str:
    with pytest.raises(error) as caught:
        batch(**changes)
    return str(caught.value)


def test_an_empty_log_is_refused() -> None:
    for nothing in ([], np.array([], dtype=object)):
        assert "the log is empty" in message(
            state=nothing, action=[], reward=[], next_state=[], episode=[], terminal=[]
        )


@pytest.mark.parametrize(
    "name", ["action", "reward", "next_state", "episode", "time", "terminal", "truncated"]
)
def test_a_column_of_another_length_is_named(name: str) -> None:
    said = message(**{name: [0, 1]})
    assert name in said
    assert "5 values" in said
    assert "(2,)" in said


@pytest.mark.parametrize(
    "name", ["state", "action", "reward", "next_state", "episode", "time", "terminal", "truncated"]
)
@pytest.mark.parametrize("shape", [(5, 1), (1, 5), ()])
def test_a_column_of_another_dimension_is_named(name: str, shape: tuple[int, ...]) -> None:
    said = message(**{name: np.zeros(shape, dtype=int)})
    assert name in said
    assert str(shape) in said


@pytest.mark.parametrize(
    "name", ["state", "action", "reward", "next_state", "episode", "time", "terminal"]
)
def test_a_ragged_column_is_named(name: str) -> None:
    assert name in message(**{name: [[0], [1, 2], [3], [4], [5]]})


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e61, -1e300, None])
def test_a_reward_that_is_no_finite_number_is_located(bad: Any) -> None:
    said = message(reward=[1.0, 2.0, bad, 0.0, bad])
    assert "reward must be finite" in said
    assert "row 2" in said
    assert "2 such rows" in said


@pytest.mark.parametrize(
    "bad", [["a", "b", "c", "d", "e"], ["1", "2", "3", "4", "5"], [1j] * 5, [{}] * 5]
)
def test_a_reward_that_is_no_number_is_refused(bad: Any) -> None:
    assert "reward must hold numbers" in message(reward=bad)


def test_numbers_as_text_are_refused_among_objects_too() -> None:
    assert "got str" in message(reward=np.array([1.0, "2", 3, 4, 5], dtype=object))


@pytest.mark.parametrize("name", ["state", "action", "next_state"])
@pytest.mark.parametrize("bad", [0.5, np.nan, np.inf])
def test_an_id_that_is_no_whole_number_is_located(name: str, bad: float) -> None:
    values = [0.0, bad, 1.0, bad, 1.0]
    said = message(**{name: values})
    assert f"{name} must hold whole numbers" in said
    assert "row 1" in said
    assert "2 such rows" in said


@pytest.mark.parametrize("name", ["state", "action"])
def test_a_negative_id_is_located(name: str) -> None:
    said = message(**{name: [0, 1, -1, 0, 0]})
    assert "ids start at 0" in said
    assert "row 2 is -1" in said


def test_a_next_state_below_minus_one_is_located() -> None:
    assert "row 0 is -2" in message(next_state=[-2, 2, 3, 2, 1])


@pytest.mark.parametrize("bad", [10**9, 2**62, np.uint64(2**63 + 1), 1e18, 1e300])
def test_an_id_too_large_to_be_one_is_located(bad: Any) -> None:
    said = message(state=np.array([0, 1, bad, 0, 2]))
    assert "row 2" in said
    assert "0, 1, 2, ..." in said


def test_more_pairs_than_fit_in_memory_are_refused() -> None:
    said = message(state=[0, 1, 999_999_999, 0, 2], next_state=[1, 2, 3, 2, 1])
    assert "without gaps" in said


@pytest.mark.parametrize(
    "bad", [["a"] * 5, [None] * 5, [2**70, 0, 0, 0, 0], [1 + 0j] * 5, ["2024"] * 5]
)
def test_ids_that_are_no_numbers_are_refused(bad: list[Any]) -> None:
    for name in ("state", "action", "next_state"):
        said = message(**{name: bad})
        assert f"{name} must hold whole numbers" in said
        assert "encode labels" in said


@pytest.mark.parametrize(
    ("name", "option"), [("state", "n_states"), ("next_state", "n_states"), ("action", "n_actions")]
)
def test_an_id_out_of_range_is_located(name: str, option: str) -> None:
    said = message(**{"n_states": 4, "n_actions": 3, name: [0, 1, 2, 9, 9]})
    assert f"{name} must lie in 0..{3 if option == 'n_states' else 2} ({option}=" in said
    assert "row 3 is 9" in said
    assert "2 such rows" in said


def test_rows_in_messages_are_those_of_the_log_as_it_came() -> None:
    said = message(state=[0, 1, 8, 0, 2], n_states=4, time=[4, 3, 2, 1, 0])
    assert "row 2 is 8" in said


def test_a_step_that_appears_twice_is_located() -> None:
    said = message(time=[0, 1, 1, 0, 1])
    assert "rows 1 and 2 have the same episode 7 and time 1" in said
    assert "1 such pairs" in said


def test_the_same_time_in_two_episodes_is_fine() -> None:
    assert rows(batch(time=[0, 1, 2, 0, 1])) == rows(batch())


def test_times_as_text_are_refused() -> None:
    assert "'10' before '9'" in message(time=["8", "9", "10", "1", "2"])


@pytest.mark.parametrize("name", ["episode", "time"])
@pytest.mark.parametrize(
    "bad", [[0, 1, 2, 3, np.nan], [0.0, np.inf, 1, 2, 3], np.array(["NaT"] * 5, dtype="M8[s]")]
)
def test_undefined_episodes_and_times_are_refused(name: str, bad: Any) -> None:
    assert f"{name} must be finite" in message(**{name: bad})


@pytest.mark.parametrize("name", ["episode", "time"])
@pytest.mark.parametrize(
    "bad",
    [[None, 1, 2, 3, 4], [1, "a", None, 2, 3], [np.nan, "a", "b", "c", "d"], [{}, 1, 2, 3, 4]],
)
def test_missing_or_mixed_episodes_and_times_are_refused(name: str, bad: list[Any]) -> None:
    assert name in message(**{name: np.array(bad, dtype=object)})


def test_complex_episodes_are_refused() -> None:
    assert "episode must hold numbers, text or dates" in message(episode=[1j] * 5)


def test_masked_entries_are_not_read_past_their_mask() -> None:
    assert "masked" in message(reward=np.ma.array(LOG["reward"], mask=[0, 0, 1, 0, 0]))
    assert rows(batch(reward=np.ma.array(LOG["reward"], mask=False))) == rows(batch())


@pytest.mark.parametrize("name", ["terminal", "truncated"])
@pytest.mark.parametrize("bad", [2, -1, 0.5, np.nan])
def test_a_flag_that_is_neither_0_nor_1_is_located(name: str, bad: float) -> None:
    said = message(**{name: [0, bad, 0, bad, 0]})
    assert f"{name} must hold True/False or 0/1" in said
    assert "row 1" in said
    assert "2 such rows" in said


@pytest.mark.parametrize("bad", [["no"] * 5, [None] * 5, [1j] * 5])
def test_flags_of_another_kind_are_refused(bad: list[Any]) -> None:
    assert "terminal must hold True/False or 0/1" in message(terminal=bad)


def test_acting_in_a_terminal_state_is_located() -> None:
    said = message(terminal_states=[2])
    assert "row 4 acts in state 2, which is terminal (2 such rows)" in said
    assert "(-1)" in said


def test_a_terminal_step_back_to_an_ordinary_state_is_explained() -> None:
    assert "(end)" in message(next_state=[1, 2, 0, 2, 1])


def test_both_flags_on_one_row_are_refused() -> None:
    said = message(truncated=[0, 0, 1, 0, 0])
    assert "row 2 is flagged both terminal and truncated (1 such rows)" in said


def test_a_truncated_row_into_a_terminal_state_is_refused() -> None:
    said = message(terminal=None, terminal_states=[3], truncated=[0, 0, 1, 0, 0])
    assert "row 2 is flagged truncated but leads to the terminal state 3" in said


def test_a_missing_successor_without_a_terminal_flag_is_located() -> None:
    said = message(next_state=[1, -1, 3, 2, -1])
    assert "row 4 has no next_state and is not flagged terminal (2 such rows)" in said


@pytest.mark.parametrize(
    ("flags", "word"),
    [({"terminal": [1, 0, 1, 0, 0]}, "terminal"), ({"truncated": [0, 1, 0, 0, 0]}, "truncated")],
)
def test_without_next_state_a_flag_inside_an_episode_is_refused(
    flags: dict[str, Any], word: str
) -> None:
    said = message(next_state=None, **flags)
    assert f"is flagged {word} but is not the last of its episode (1 such rows)" in said
    assert "its own id" in said


def test_an_episode_that_goes_on_after_a_cut_is_a_contradiction() -> None:
    found = batch(truncated=[0, 1, 0, 0, 0])
    assert "row 1" in str(found.contradictions())
    with pytest.raises(LogError, match="flagged truncated and are followed by more steps"):
        discounted_returns(found, 0.9)


def test_an_episode_that_goes_on_after_its_end_is_a_contradiction() -> None:
    found = batch(next_state=[-1, 2, 3, 2, 1], terminal=[1, 0, 1, 0, 0])
    assert "1 rows lead into a terminal state and are followed by more steps" in str(
        found.contradictions()
    )


def test_a_successor_other_than_the_next_state_is_a_contradiction() -> None:
    said = str(batch(next_state=[2, 2, 3, 2, 1]).contradictions())
    assert "first row 0 (next state 2, but row 1 is in state 1)" in said


def test_a_sound_log_has_no_contradiction() -> None:
    assert batch().contradictions() is None


@pytest.mark.parametrize(
    "bad", ["abc", [3.5], [np.nan], [[3]], None, [True, False, False, True], {"a": 1}, [None]]
)
def test_terminal_states_that_are_no_ids_are_refused(bad: Any) -> None:
    assert "terminal_states must be" in message(terminal_states=bad)


@pytest.mark.parametrize("bad", [[-1], [4], [10**12]])
def test_terminal_states_out_of_range_are_named(bad: list[int]) -> None:
    said = message(terminal_states=bad, n_states=4)
    assert f"terminal_states must lie in 0..3, got {bad[0]}" in said


def test_only_cut_episodes_of_one_step_leave_nothing_to_count() -> None:
    said = message(
        state=[0, 1], action=[0, 1], reward=[0, 0], next_state=None, episode=[0, 1], terminal=None
    )
    assert "give next_state" in said


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.uint8, np.longdouble])
def test_ids_of_any_number_type_are_whole_numbers(kind: type) -> None:
    ids = np.array(LOG["state"], dtype=kind)
    assert batch(state=ids).state.tolist() == batch().state.tolist()
