"""Bad logs: an error names the reason, the file, the row, the value and the option; dropped rows
are accounted for.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_logs_read import triples, write

from surefoot import LogError, SurefootError, UnknownNameError
from surefoot.logs import Accounting, add_up, count_part, read_log
from surefoot.logs.accounting import accounting
from surefoot.logs.read import options_of

GIVEN = "episode,time,state,action,reward,next_state,terminal"
DERIVED = "episode,time,state,action,reward,terminal"
GOOD = [
    ["e1", 0, "a", "x", 1, "b", 0], ["e1", 1, "b", "y", 2, "c", 0], ["e1", 2, "c", "x", 3, "", 1],
    ["e2", 0, "a", "y", 4, "c", 0], ["e2", 1, "c", "y", 5, "", 1],
]  # fmt: skip


def spoiled(row: int, column: int, value: Any) -> list[list[Any]]:
    rows = [list(r) for r in GOOD]
    rows[row][column] = value
    return rows


# (rows, the reason, what the message must hold)
BAD: list[tuple[list[list[Any]], str, str]] = [
    (spoiled(1, 0, ""), "episode", "row 2 (episode missing)"),
    (spoiled(1, 1, ""), "time", "row 2 (time missing)"),
    (spoiled(1, 1, "later"), "time", "row 2 (time 'later')"),
    (spoiled(3, 2, ""), "state", "row 4 (state missing)"),
    (spoiled(3, 3, ""), "action", "row 4 (action missing)"),
    (spoiled(2, 4, "three"), "reward", "row 3 (reward 'three')"),
    (spoiled(2, 4, "nan"), "reward", "row 3 (reward 'nan')"),
    (spoiled(2, 4, "-inf"), "reward", "row 3 (reward '-inf')"),
    (spoiled(2, 4, "1e61"), "reward", "row 3 (reward '1e61')"),
    (spoiled(2, 6, "maybe"), "flag", "row 3 (terminal 'maybe')"),
    (spoiled(4, 6, 0), "next-state", "row 5 (next_state missing)"),
    (spoiled(1, 1, 0), "duplicate", "row 2 (episode 'e1', time '0')"),
    (spoiled(0, 5, "c"), "contradiction", "row 1 (next_state 'c')"),
    (spoiled(0, 6, 1), "after-end", "row 2 (episode 'e1', time '1')"),
]


@pytest.mark.parametrize(
    ("rows", "reason", "words"), BAD, ids=[f"{r}-{i}" for i, (_, r, _) in enumerate(BAD)]
)
def test_a_bad_row_is_named_with_its_file_row_and_value_and_the_option_that_drops_it(
    tmp_path: Path, rows: list[list[Any]], reason: str, words: str
) -> None:
    path = write(tmp_path / "log.csv", rows, GIVEN)
    with pytest.raises(LogError) as error:
        read_log(path)
    assert words in str(error.value)
    assert "log.csv" in str(error.value)
    assert f"drop_bad_rows={reason!r}" in str(error.value)


@pytest.mark.parametrize(
    ("rows", "reason", "words"), BAD, ids=[f"{r}-{i}" for i, (_, r, _) in enumerate(BAD)]
)
def test_a_dropped_row_is_counted_under_its_reason(
    tmp_path: Path, rows: list[list[Any]], reason: str, words: str
) -> None:
    log = read_log(write(tmp_path / "log.csv", rows, GIVEN), drop_bad_rows=reason)
    assert log.accounting.left_out_as(reason) >= 1
    assert log.accounting.rows == len(rows)
    assert log.counts.n_sas.sum() == log.accounting.used == len(rows) - log.accounting.n_left_out
    assert any("left out" in note for note in log.notes)


def test_a_reason_not_named_is_not_dropped(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="finite"):
        read_log(
            write(tmp_path / "log.csv", spoiled(2, 4, "x"), GIVEN), drop_bad_rows="duplicate,time"
        )


def test_an_unknown_reason_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="rewards"):
        read_log(write(tmp_path / "log.csv", GOOD, GIVEN), drop_bad_rows=["rewards"])


def test_dropping_a_row_joins_no_rows_that_did_not_follow_each_other(tmp_path: Path) -> None:
    rows = [
        ["e", 0, "a", "x", 1, 0],
        ["e", 1, "", "x", 1, 0],
        ["e", 2, "c", "x", 1, 0],
        ["e", 3, "d", "x", 1, 1],
    ]
    log = read_log(write(tmp_path / "log.csv", rows, DERIVED), drop_bad_rows=True)
    assert set(triples(log)) == {("c", "x", "d"), ("d", "x", "(end)")}
    assert dict(log.accounting.left_out) == {"state": 1, "no-successor": 1}


def test_a_row_with_a_bad_reward_still_tells_where_the_row_before_led(tmp_path: Path) -> None:
    rows = [["e", 0, "a", "x", 1, 0], ["e", 1, "b", "x", "?", 0], ["e", 2, "c", "x", 5, 1]]
    log = read_log(write(tmp_path / "log.csv", rows, DERIVED), drop_bad_rows=True)
    assert triples(log) == {("a", "x", "b"): (1, 1.0), ("c", "x", "(end)"): (1, 5.0)}
    assert (
        log.returns(0.5).cut == 1
    )  # the return of the first row stops at the gap: nothing is summed across it
    assert log.returns(0.5).mean[log.labels.state_code("a"), 0] == 1.0


def test_an_action_outside_the_allowed_set_is_a_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", GOOD, GIVEN)
    with pytest.raises(LogError, match=r"outside the allowed set, first .*row 2 \(action 'y'\)"):
        read_log(path, actions=["x", "z"])
    assert read_log(path, actions=["x", "y", "z"]).actions == ("x", "y", "z")
    assert (
        read_log(path, actions=["x", "z"], drop_bad_rows=True).accounting.left_out_as(
            "action-not-allowed"
        )
        == 3
    )


def test_a_ragged_row_is_named_or_dropped(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [*GOOD[:2], ["e1", 2, "c"], *GOOD[3:]], GIVEN)
    with pytest.raises(LogError, match=r"line 4 of .*log.csv has 3 fields where the header has 7"):
        read_log(path)
    log = read_log(path, drop_bad_rows=True)
    assert (log.accounting.rows, log.accounting.left_out_as("broken-row")) == (5, 1)


def test_time_that_runs_backwards_now_and_then_is_a_fault_and_shuffled_rows_are_not(
    tmp_path: Path,
) -> None:
    times = [*range(30), 7.5, *range(31, 60)]
    rows = [["e", t, "ab"[i % 2], "x", 1, 0] for i, t in enumerate(times)]
    path = write(tmp_path / "log.csv", rows, DERIVED)
    with pytest.raises(
        LogError, match=r"does not lie after.*row 31 \(episode 'e', time '7.5'\).*order='time'"
    ):
        read_log(path)
    assert read_log(path, order="time").accounting.used == 59
    mixed = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    assert read_log(write(tmp_path / "mixed.csv", mixed, DERIVED)).accounting.used == 59


def test_in_file_order_time_must_go_on(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [GOOD[1], GOOD[0], *GOOD[2:]], GIVEN)
    with pytest.raises(LogError, match="does not lie after"):
        read_log(path, order="file")


def test_acting_in_a_terminal_state_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", spoiled(2, 5, "a"), GIVEN)
    with pytest.raises(LogError, match=r"act in state 'a', which is terminal.*terminal_to_end"):
        read_log(path)
    assert read_log(path, terminal_to_end=True).states[-1] == "(end)"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("log.csv", b"", "is empty"),
        ("log.csv", b"episode,state,action,reward\n", "has no rows"),
        ("log.csv", b"\n\n", "first line"),
        ("log.csv", b"PAR1xxxx", "but is Parquet"),
        ("log.csv", gzip.compress(b"episode,state\n", mtime=0), "against its ending"),
        ("log.csv.gz", b"episode,state\n", "not compressed by gzip"),
        ("log.csv.gz", gzip.compress(b"episode,state,action,reward\n1,2,3,4\n", mtime=0)[:-9],
         "cannot be read|failed|as text"),
        ("log.parquet", b"episode,state\n", "is no Parquet file"),
        ("log.parquet", b"PAR1 and nothing else PAR1", "reading .* failed"),
        ("log.xlsx", b"PK", "ends in .xlsx"),
        ("log.csv", "episode,state,action,reward\n1,2,3,4\n".encode("utf-16"), "not UTF-8"),
        ("log.csv", b"episode,state,action,reward\n1,\xff,3,4\n", "line 2 .*not UTF-8"),
        ("log.csv", b'episode,state,action,reward\n1,"2,3,4\n', "quote that is not closed"),
        ("log.csv", b"episode,stat,action,reward\n1,2,3,4\n",
         "no column for the state: the nearest are 'stat'"),
        ("log.csv", b"episode,state,s,action,reward\n1,2,3,4,5\n",
         "could be the state: 'state', 's'"),
        ("log.csv", b"state,action,reward\n2,3,4\n", "no column for the episode"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_log_is_refused_in_words(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=words):
        read_log(tmp_path / name)


def test_a_missing_file_is_named_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path / "january.csv", GOOD, GIVEN)
    with pytest.raises(LogError, match=r"the nearest are 'january\.csv'"):
        read_log(tmp_path / "januar.csv")


def test_a_given_column_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        LogError, match=r"no column 'rewrad' \(given as reward\); the nearest are 'reward'"
    ):
        read_log(write(tmp_path / "log.csv", GOOD, GIVEN), reward="rewrad")


def test_a_header_of_ten_thousand_columns_is_read(tmp_path: Path) -> None:
    header = GIVEN + "," + ",".join(f"x{i}" for i in range(10_000))
    path = write(tmp_path / "log.csv", [[*row, *range(10_000)] for row in GOOD], header)
    assert read_log(path).accounting.used == 5


@pytest.mark.parametrize("source", [3, None, [], [1], {}, object(), "", "\0", ["a.csv", 3]])
def test_what_is_no_source_is_refused_in_words(source: Any) -> None:
    with pytest.raises(LogError):
        read_log(source)


def test_rows_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(SurefootError, match="do not add up"):
        Accounting(10, 8, (("reward", 1),))
    assert (accounting(10, 8, {"reward": 2}) + accounting(5, 5, {})).left_out == (("reward", 2),)


def test_parts_of_the_episodes_add_up_to_the_whole_with_bad_rows_dropped(tmp_path: Path) -> None:
    rows = [
        [f"e{i // 3}", i % 3, "abc"[i % 3], "x", i if i % 7 else "?", int(i % 3 == 2)]
        for i in range(60)
    ]
    path = write(tmp_path / "log.csv", rows, DERIVED)
    options, _ = options_of(drop_bad_rows=True)
    whole = read_log(path, drop_bad_rows=True)
    parts = add_up(count_part(path, options, (i, 4)) for i in range(4))
    assert parts.accounting == whole.accounting
    assert parts.counts(as_sparse=False).n_sas.tolist() == whole.counts.n_sas.tolist()
