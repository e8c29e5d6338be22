"""What text may mean: missing rewards, labels that read like missing values, labels as a user
writes them, decimal commas, encodings.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_logs_read import same, triples, write

from surefoot import LogError, SurefootError
from surefoot.checks import check_log
from surefoot.core.labels import in_kind_of, match, places_of
from surefoot.logs import Log, add_up, count_part, make_log, read_log
from surefoot.logs.read import options_of

duckdb = pytest.importorskip("duckdb")
HEADER = "episode,time,state,action,reward,terminal"


def paid_at_the_end(n: int = 20, reward: Any = 5, flag: int = 1) -> list[list[Any]]:
    """Episodes of three steps whose reward stands in the last row alone."""
    return [
        [f"e{i}", t, "abc"[t], "xy"[(i + t) % 2], reward if t == 2 else "", flag * (t == 2)]
        for i in range(n)
        for t in range(3)
    ]


def warnings(log: Log) -> list[str]:
    return [note for note in log.notes if note.startswith("WARNING")]


@pytest.mark.parametrize("empty", ["", "NA", "NaN", "null"])
def test_a_missing_reward_counts_as_what_it_is_said_to_be(tmp_path: Path, empty: str) -> None:
    rows = [[*row[:4], row[4] or empty, row[5]] for row in paid_at_the_end()]
    path = write(tmp_path / "log.csv", rows, HEADER)
    with pytest.raises(LogError, match="missing_reward=0"):
        read_log(path)
    log = read_log(path, missing_reward=0)
    zeros = [[*row[:4], 0 if row[4] == empty else row[4], row[5]] for row in rows]
    assert triples(log) == triples(read_log(write(tmp_path / "zeros.csv", zeros, HEADER)))
    assert log.accounting.used == 60
    assert log.accounting.filled == 40
    assert log.counts.r_sas.sum() == 100
    assert "40 rows have no reward: it counts as 0, as missing_reward says" in log.notes
    assert warnings(log) == []


def test_missing_rewards_of_numbers_and_of_parts_are_filled_too(tmp_path: Path) -> None:
    rows = paid_at_the_end()
    table = {
        name: np.array([row[i] for row in rows])
        for i, name in enumerate(HEADER.split(","))
        if name not in ("reward", "time")
    }
    table |= {
        "reward": np.array([row[4] or np.nan for row in rows], dtype=float),
        "time": np.arange(60) % 3,
    }
    whole = read_log(table, missing_reward=-0.5)
    assert whole.counts.r_sas.sum() == 80
    path = write(tmp_path / "log.csv", rows, HEADER)
    options, _ = options_of(missing_reward=-0.5)
    parts = make_log(add_up(count_part(path, options, (i, 3)) for i in range(3)), options)
    assert parts.accounting == whole.accounting
    assert "40 rows have no reward: it counts as -0.5, as missing_reward says" in parts.notes


def test_a_reward_that_is_no_number_stays_a_bad_row(tmp_path: Path) -> None:
    rows = paid_at_the_end(reward="five")
    with pytest.raises(LogError, match=r"20 rows whose reward is not a finite number.*'five'"):
        read_log(write(tmp_path / "log.csv", rows, HEADER), missing_reward=0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "0", True])
def test_a_missing_reward_must_be_a_number(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(LogError, match="missing_reward must be a number"):
        read_log(write(tmp_path / "log.csv", paid_at_the_end(), HEADER), missing_reward=wrong)


def test_dropping_the_rows_without_a_reward_is_warned_of(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log.csv", paid_at_the_end(), HEADER), drop_bad_rows="reward")
    assert any(
        "most rows are left out, 40 of 60" in note and "missing_reward=0" in note
        for note in warnings(log)
    )
    assert any(
        x.level == "warning" and "most rows are left out" in x.sentence for x in check_log(log)
    )


def test_rewards_that_lie_in_rows_cut_off_are_warned_of(tmp_path: Path) -> None:
    rows = paid_at_the_end(flag=0)
    log = read_log(write(tmp_path / "log.csv", rows, HEADER), missing_reward=0)
    assert any(
        "100% of the reward (in size) lies in rows that are left out" in x
        and "episode_end='terminal'" in x
        for x in warnings(log)
    )
    assert any("all rewards of the rows used are 0" in x for x in warnings(log))
    assert warnings(read_log(tmp_path / "log.csv", missing_reward=0, episode_end="terminal")) == []


@pytest.mark.parametrize("sign", [1, -1])
def test_the_size_of_rewards_left_out_counts_whatever_their_sign(tmp_path: Path, sign: int) -> None:
    rows = [
        [f"e{i}", t, "ab"[t % 2], "x", (9 if i % 2 else 9 * sign) if t == 2 else i % 3, 0]
        for i in range(20)
        for t in range(3)
    ]
    log = read_log(write(tmp_path / "log.csv", rows, HEADER))
    size = sum(2 * (i % 3) for i in range(20))
    assert (log.accounting.size_used, log.accounting.size_left_out) == (size, 180)
    assert any(f"{180 / (180 + size):.0%} of the reward" in note for note in warnings(log))
    rows[0][4] = "?"
    dropped = read_log(write(tmp_path / "log.csv", rows, HEADER), drop_bad_rows=True)
    assert (dropped.accounting.size_used, dropped.accounting.size_left_out) == (size, 180)


def test_rewards_that_are_all_equal_are_warned_of_unless_episodes_end(tmp_path: Path) -> None:
    rows = [["e", t, "ab"[t % 2], "xy"[t // 2 % 2], 1, 0] for t in range(20)]
    assert any(
        "every policy is as good" in x
        for x in warnings(read_log(write(tmp_path / "log.csv", rows, HEADER)))
    )
    rows[-1][5] = 1
    log = read_log(write(tmp_path / "log.csv", rows, HEADER))
    assert warnings(log) == []
    assert any("policies differ only in how long their episodes last" in note for note in log.notes)
    rows[3][4] = 2
    assert not any(
        "all rewards" in note for note in read_log(write(tmp_path / "log.csv", rows, HEADER)).notes
    )


def test_that_no_row_is_left_is_said_in_plain_words(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", paid_at_the_end(flag=0), HEADER)
    with pytest.raises(
        LogError,
        match=(
            r"no row of the log is left to learn from: 40 rows whose reward .*; 20 last rows of cut"
        ),
    ) as error:
        read_log(path, drop_bad_rows=True)
    for words in ("missing_reward=0", "episode_end='terminal'"):
        assert words in str(error.value)
    assert "{" not in str(error.value)


@pytest.mark.parametrize("label", ["NA", "NaN", "nan", "null", "None"])
@pytest.mark.parametrize("role", [2, 3])
def test_a_label_that_reads_like_a_missing_value_is_named(
    tmp_path: Path, label: str, role: int
) -> None:
    rows = [["e", t, "ab"[t % 2], "xy"[t // 2 % 2], t, 0] for t in range(9)]
    rows[2][role] = rows[5][role] = label
    log = read_log(write(tmp_path / "log.csv", rows, HEADER.replace("state", "ward")), state="ward")
    (note,) = [note for note in log.notes if "reads like a missing value" in note]
    assert (
        f"the {'state' if role == 2 else 'action'} {label!r} (column"
        f" {'ward' if role == 2 else 'action'})" in note
    )
    assert "2 rows used have it" in note


def test_empty_labels_of_tables_and_parts_of_labels_are_named() -> None:
    table = {
        "episode": np.zeros(4),
        "state": np.array(["", "a", "", "a"]),
        "action": np.array(list("xyxy")),
        "reward": np.arange(4.0),
    }
    assert any("the state '' (column state) reads like" in note for note in read_log(table).notes)
    log = read_log(table | {"bed": np.array(["1", "NA", "2", "1"])}, action="action,bed")
    assert any(
        "the action 'y, NA' (column action, bed)" in note and "1 rows used" in note
        for note in log.notes
    )


@pytest.mark.parametrize("drop", [False, True])
def test_an_episode_whose_name_reads_like_a_missing_value_is_named(
    tmp_path: Path, drop: bool
) -> None:
    rows = [
        ["NA" if i > 3 else f"e{i}", t + 3 * i, "ab"[t % 2], "x", t, 0]
        for i in range(6)
        for t in range(3)
    ]
    rows[0][4] = "?" if drop else 0
    log = read_log(write(tmp_path / "log.csv", rows, HEADER), drop_bad_rows=drop)
    assert any(
        "1 episodes have a name that reads like a missing value" in note for note in log.notes
    )
    assert not any(
        "reads like" in note
        for note in read_log(
            write(tmp_path / "log.csv", rows[:12], HEADER), drop_bad_rows=drop
        ).notes
    )


NUMBERS = ["01", "1", "1e3", "-0", "+1", "1.0", ".5", "true"]


def test_labels_are_matched_as_text_first(tmp_path: Path) -> None:
    rows = [["e", t, NUMBERS[t % 8], NUMBERS[(t + 1) % 8], t, 0] for t in range(24)]
    log = read_log(write(tmp_path / "log.csv", rows, HEADER), actions=[*NUMBERS, "007"])
    assert sorted(log.actions) == sorted([*NUMBERS, "007"])
    assert [log.states[log.labels.state_code(x)] for x in NUMBERS] == NUMBERS
    with pytest.raises(LogError, match="outside the allowed set"):
        read_log(tmp_path / "log.csv", actions=NUMBERS[1:])


def test_labels_are_matched_as_numbers_where_the_log_has_numbers() -> None:
    table = {
        "episode": np.zeros(6),
        "state": np.array([1, 1000, 0, 1, 2, 0]),
        "action": np.array([1.0, 0.5, -0.0, 1, 1, 1]),
    }
    log = read_log(
        table | {"reward": np.arange(6.0)},
        actions=["+1", "5e-1", "-0", "07"],
        terminal_states=["2e3"],
    )
    assert log.actions == (0.0, 0.5, 1.0, 7)
    assert [log.labels.state_code(x) for x in ("01", "1e3", "-0", "2.0")] == [1, 3, 0, 2]
    assert any("terminal state '2e3' is not in the log" in note for note in log.notes)
    for wrong in ("1_000", "nan", "one", "", "1e999", "٣"):
        assert match(wrong, places_of((1, 3, 1000))) is None
    assert in_kind_of("7", ("a", "7.0")) == "7"


def test_a_decimal_comma_is_read_as_one(tmp_path: Path) -> None:
    rows = [["e", f"{t},5", "ab"[t % 2], "x", f"{t},25", int(t == 4)] for t in range(5)]
    path = write(tmp_path / "log.csv", rows, HEADER)
    with pytest.raises(LogError, match=r"decimal=','"):
        read_log(path)
    log = read_log(path, decimal=",")
    assert log.counts.r_sas.sum() == 11.25
    rows[2][4] = "1.234"
    with pytest.raises(LogError, match=r"'1\.234'"):
        read_log(write(tmp_path / "log.csv", rows, HEADER), decimal=",")
    with pytest.raises(SurefootError, match="decimal"):
        read_log(path, decimal="'")


ROWS = [[f"e{i // 3}", i % 3, "äß€"[i % 2], "é,x"[i % 2], i, int(i % 3 == 2)] for i in range(60)]


@pytest.mark.parametrize("delimiter", [";", "tab", "\t", "~", ":"])
def test_the_delimiter_can_be_named(tmp_path: Path, delimiter: str) -> None:
    sign = "\t" if delimiter == "tab" else delimiter
    header = HEADER.replace("state", "state a,b,c")  # more commas than delimiters, in a name
    lines = [header.replace("state a,b,c", "#").replace(",", sign).replace("#", "state a,b,c")]
    lines += [sign.join(map(str, row)).replace("é,x", "é") for row in ROWS]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    log = read_log(path, delimiter=delimiter, state=["state a,b,c"])
    assert log.accounting.used == 60
    assert len(log.batch()) == 60  # the rows are read again in the same way


@pytest.mark.parametrize("wrong", ["", "ab", '"', "\n"])
def test_a_delimiter_is_one_character(tmp_path: Path, wrong: str) -> None:
    path = write(tmp_path / "log.csv", ROWS, HEADER)
    if not wrong:
        assert read_log(path, delimiter=wrong).accounting.used == 60
        return
    with pytest.raises(LogError, match="delimiter must be one character"):
        read_log(path, delimiter=wrong)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("encoding", "codec"),
    [("latin-1", "latin-1"), ("CP1252", "cp1252"), ("utf-16", "utf-16"), ("utf-8", "utf-8-sig")],
)
def test_the_encoding_can_be_named(tmp_path: Path, encoding: str, codec: str, packed: bool) -> None:
    rows = [[*row[:2], "äß"[i % 2], *row[3:]] for i, row in enumerate(ROWS * 400)]
    rows = [[f"e{i // 3}", *row[1:]] for i, row in enumerate(rows)]
    plain = write(tmp_path / "log.csv", rows, HEADER.replace("state", "état"))
    content = plain.read_text(encoding="utf-8").encode(codec)
    path = tmp_path / ("other.csv.gz" if packed else "other.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    log = read_log(path, encoding=encoding, state="état")
    same(read_log(plain, state="état"), log)
    assert len(log.batch()) == 24_000
    broken = [[*rows[0][:3]], *rows]
    content = (
        write(plain, broken, HEADER.replace("state", "état"))
        .read_text(encoding="utf-8")
        .encode(codec)
    )
    path.write_bytes(gzip.compress(content) if packed else content)
    assert (
        read_log(path, encoding=encoding, state="état", drop_bad_rows=True).accounting.left_out_as(
            "broken-row"
        )
        == 1
    )


@pytest.mark.parametrize(
    ("codec", "encoding"),
    [("latin-1", "utf-8"), ("utf-16-be", "utf-16"), ("utf-16", "utf-8"), ("utf-8", "utf-16")],
)
def test_another_encoding_than_the_one_named_is_refused_in_words(
    tmp_path: Path, codec: str, encoding: str
) -> None:
    lines = [
        HEADER,
        *(",".join(map(str, [*row[:2], "äß"[row[1] % 2], "é", *row[4:]])) for row in ROWS),
        "",
    ]
    (tmp_path / "log.csv").write_bytes("\n".join(lines).encode(codec))
    with pytest.raises(
        LogError,
        match=rf"log\.csv is not (?i:{encoding}).*encoding='latin-1'|log\.csv has no column",
    ) as error:
        read_log(tmp_path / "log.csv", encoding=encoding)
    assert "decoded-" not in str(error.value)


def test_text_of_another_encoding_is_known_by_its_own_name(tmp_path: Path) -> None:
    rows = [[*row[:2], "😀ß"[i % 2], *row[3:]] for i, row in enumerate(ROWS)]
    rows[7][4] = "?"
    path = write(tmp_path / "log.csv", rows, HEADER)
    path.write_bytes(path.read_text(encoding="utf-8").encode("utf-16"))
    with pytest.raises(LogError, match=r"/log\.csv row 8 \(reward '\?'\)"):
        read_log(path, encoding="utf-16")
    assert read_log(path, encoding="utf-16", drop_bad_rows=True).states[:2] == ("ß", "😀")
    with pytest.raises(
        LogError, match=r"/log\.csv is not UTF-8 text.*encoding='latin-1', 'cp1252' or 'utf-16'"
    ):
        read_log(path)


@pytest.mark.parametrize("wrong", ["klingon", "base64", "", 3])
def test_an_encoding_that_is_not_known_is_refused_with_some_that_are(
    tmp_path: Path, wrong: Any
) -> None:
    with pytest.raises(SurefootError, match=r"no encoding is called.*utf-8, utf-16, latin-1"):
        read_log(write(tmp_path / "log.csv", ROWS, HEADER), encoding=wrong)


@pytest.mark.parametrize("given", [False, True])
def test_dropping_rows_forgets_no_column_and_shows_no_inner_names(
    tmp_path: Path, given: bool
) -> None:
    header = "patient,day,ward,bed,treatment,reward,terminal"
    rows = [[f"p{i // 3}", i % 3, "ab"[i % 2], i % 2, "x", i, int(i % 3 == 2)] for i in range(30)]
    if given:
        header += ",next_ward,next_bed"
        rows = [[*row, *(("", "") if row[6] else rows[i + 1][2:4])] for i, row in enumerate(rows)]
    path = write(tmp_path / "log.csv", rows, header)
    names = {"episode": "patient", "time": "day", "state": "ward,bed", "action": "treatment"}
    whole = read_log(path, **names)
    rows[4][5] = "?"
    log = read_log(write(path, rows, header), **names, drop_bad_rows=True)
    assert log.columns == whole.columns
    assert "time = day" in log.columns
    found = {x.name: x.sentence for x in check_log(log)}
    assert "time gaps equal 1" in found["time"]
    assert not any("surefoot_" in sentence for sentence in found.values())
    assert len(log.batch()) == log.accounting.used == 29
    assert set(triples(log)) <= set(triples(whole))


@pytest.mark.parametrize("at", [-8, -4], ids=["checksum", "length"])
def test_a_packed_file_with_a_wrong_end_is_refused(tmp_path: Path, at: int) -> None:
    content = bytearray(gzip.compress(b"episode,time,state,action,reward\n" + b"1,0,a,b,1\n" * 9))
    content[at] ^= 1
    file = tmp_path / "log.csv.gz"
    file.write_bytes(content)
    with pytest.raises(LogError, match=r"log.csv.gz cannot be read: (CRC check|Incorrect length)"):
        read_log(file)


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("drop", [False, "broken-row"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_longer_than_any_buffer_is_not_dropped_in_silence(
    tmp_path: Path, end: str, drop: bool | str, packed: bool
) -> None:
    rows = "".join(f"{i},0,a,b,1,\n" for i in range(9))
    text = f"episode,time,state,action,reward,note\n{rows}9,0,a,b,1,{'x' * 40_000_000}{end}"
    file = tmp_path / ("log.csv.gz" if packed else "log.csv")
    file.write_bytes(gzip.compress(text.encode(), 1) if packed else text.encode())
    with pytest.raises(LogError, match="has a line of more than 8 MB"):
        read_log(file, drop_bad_rows=drop)


@pytest.mark.parametrize("scale", [1e-300, 5e-324, 1e-160])
def test_rewards_next_to_nothing_are_refused_in_words(scale: float) -> None:
    table = {"episode": [1, 1], "state": ["a", "b"], "action": ["x", "x"], "reward": [1.0, -2.0]}
    table["reward"] = [x * scale for x in table["reward"]]
    with pytest.raises(LogError, match="multiply all rewards by a constant"):
        read_log(table)


@pytest.mark.parametrize("option", ["terminal_to_end", "check_order", "bandit"])
def test_a_flag_is_true_or_false_and_no_text(option: str) -> None:
    table = {"episode": [1, 1], "state": ["a", "b"], "action": ["x", "x"], "reward": [1.0, 2.0]}
    with pytest.raises(LogError, match=f"{option} must be True or False, got 'false'"):
        read_log(table, **{option: "false"})
