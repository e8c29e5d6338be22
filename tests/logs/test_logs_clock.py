"""Times as text: offsets are heeded, nights on which clocks are put back are not sorted away, in
CSV, Parquet and tables alike.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_logs_read import triples, write

from surefoot import LogError
from surefoot.checks import check_log
from surefoot.logs import add_up, count_part, read_log
from surefoot.logs.read import options_of

duckdb = pytest.importorskip("duckdb")
HEADER = "episode,time,state,action,reward"


def steps(times: list[str], episode: str = "e") -> list[list[Any]]:
    return [[episode, t, f"s{i}", "x", 1] for i, t in enumerate(times)]


def as_csv(folder: Path, rows: list[list[Any]]) -> Any:
    return write(folder / "log.csv", rows, HEADER)


def as_parquet(folder: Path, rows: list[list[Any]]) -> Any:
    path = as_csv(folder, rows)
    duckdb.sql(
        f"copy (from read_csv('{path}', all_varchar = true)) to '{folder}/log.parquet' (format"
        " parquet)"
    )
    return folder / "log.parquet"


def as_arrow(folder: Path, rows: list[list[Any]]) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.table(
        {name: [row[i] for row in rows] for i, name in enumerate(HEADER.split(","))}
    )


Made = Callable[[Path, list[list[Any]]], Any]
FORMS = pytest.mark.parametrize(
    "made", [as_csv, as_parquet, pytest.param(as_arrow, marks=pytest.mark.slow)]
)


@FORMS
@pytest.mark.parametrize(
    "times",
    [
        ["2024-03-31 06:30+05:30", "2024-03-31 02:30+01:00", "2024-03-31 00:31-01:00"],
        ["2024-03-31T06:30:00Z", "2024-03-31T01:30:01-05:00", "2024-03-31T08:30:02+0200"],
        ["2024-03-31 06:30 UTC", "2024-03-31 06:30:00.7+00", "2024-03-31 02:00:01 -04:30"],
        ["2024-10-27 02:30:00+02:00", "2024-10-27 02:15:00+01:00", "2024-10-27 02:30:00+01:00"],
    ],
)
def test_times_are_read_with_their_offsets(tmp_path: Path, made: Made, times: list[str]) -> None:
    log = read_log(made(tmp_path, steps(times)))
    assert set(triples(log)) == {("s0", "x", "s1"), ("s1", "x", "s2")}
    mixed = read_log(made(tmp_path, [steps(times)[i] for i in (2, 0, 1)]), order="time")
    assert triples(mixed) == triples(log)


def test_columns_that_have_a_time_zone_are_sorted_by_the_moment(tmp_path: Path) -> None:
    moments = ["2024-10-27 00:30:00+00", "2024-10-27 00:15:00+00", "2024-10-27 01:15:00+00"]
    rows = ", ".join(f"('e', timestamptz '{t}', 's{i}', 'x', 1.0)" for i, t in enumerate(moments))
    duckdb.sql(
        f"copy (select * from (values {rows}) t({HEADER})) to '{tmp_path}/log.parquet' (format"
        " parquet)"
    )
    assert set(triples(read_log(tmp_path / "log.parquet"))) == {
        ("s1", "x", "s0"),
        ("s0", "x", "s2"),
    }


@FORMS
@pytest.mark.parametrize(
    "odd",
    [
        "2024-03-31 09:00",
        "2024-03-31 09:00 PM",
        "2024-03-31 09:00 Europe/Berlin",
        "2024-03-31 09:00 CET",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_time_that_cannot_be_compared_with_the_others_is_named(
    tmp_path: Path, made: Made, odd: str, place: int
) -> None:
    times = ["2024-03-31 06:30+05:30", "2024-03-31 02:30+01:00", "2024-03-31 00:31-01:00"]
    times[place] = odd
    with pytest.raises(LogError, match="time is missing or unreadable") as error:
        read_log(made(tmp_path, steps(times)))
    assert odd in str(error.value)
    assert "UTC offset: then all need one" in str(error.value)


@pytest.mark.parametrize("time", ["2024-03-31 11:00 PM", "2024-03-31 11:00 CET"])
def test_words_after_the_time_of_day_are_not_passed_over(tmp_path: Path, time: str) -> None:
    with pytest.raises(LogError, match=f"unreadable.*{time}"):
        read_log(as_csv(tmp_path, steps(["2024-03-31 09:30", time, "2024-03-31 11:30"])))


def test_an_offset_after_thousands_of_times_without_one_is_found(tmp_path: Path) -> None:
    times = [f"2024-03-{1 + i // 1000:02d} {i % 1000 // 60:02d}:{i % 60:02d}" for i in range(3000)]
    with pytest.raises(LogError, match="UTC offset: then all need one"):
        read_log(as_csv(tmp_path, steps([*times, "2024-03-30 09:00+01:00"])))


# On this night 02:00 to 03:00 comes twice; the rows lie in the order in which they happened.
NIGHT = [
    "2024-10-27 01:50",
    "2024-10-27 02:20",
    "2024-10-27 02:50",
    "2024-10-27 02:10",
    "2024-10-27 02:40",
    "2024-10-27 03:10",
]
HAPPENED = {(f"s{i}", "x", f"s{i + 1}") for i in range(5)}


def interleaved(n: int) -> list[list[Any]]:
    """The night in n episodes that go on side by side."""
    return [
        row for rows in zip(*(steps(NIGHT, f"e{i}") for i in range(n)), strict=True) for row in rows
    ]


@FORMS
@pytest.mark.parametrize("rows", [steps(NIGHT), interleaved(3)], ids=["one", "interleaved"])
def test_a_night_on_which_clocks_are_put_back_is_named_and_not_sorted(
    tmp_path: Path, made: Made, rows: list[list[Any]]
) -> None:
    source = made(tmp_path, rows)
    with pytest.raises(LogError, match="does not lie after that of the row before") as error:
        read_log(source)
    for words in ("time '2024-10-27 02:10'", "UTC offset", "time='-'", "order='time'"):
        assert words in str(error.value)
    assert set(triples(read_log(source, time="-"))) == HAPPENED
    asked = read_log(source, order="time")
    assert any("sorted by times without a UTC offset" in note for note in asked.notes)


def test_a_night_on_which_clocks_are_put_back_is_named_also_where_other_rows_are_dropped(
    tmp_path: Path,
) -> None:
    rows = steps(NIGHT)
    rows[0][4] = "?"
    with pytest.raises(LogError, match="does not lie after"):
        read_log(as_csv(tmp_path, rows), drop_bad_rows="reward")


def test_a_night_on_which_clocks_are_put_back_is_named_in_every_part_of_a_log(
    tmp_path: Path,
) -> None:
    path = as_csv(tmp_path, interleaved(3))
    with pytest.raises(LogError, match="does not lie after"):
        add_up(count_part(path, options_of()[0], (i, 2)) for i in range(2))


def test_times_without_an_offset_that_come_twice_are_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        LogError,
        match=r"repeat an \(episode, time\).*2024-10-27 02:30.*clocks were put back.*UTC offset",
    ):
        read_log(
            as_csv(
                tmp_path,
                steps(
                    ["2024-10-27 01:30", "2024-10-27 02:30", "2024-10-27 02:30", "2024-10-27 03:30"]
                ),
            )
        )


def test_timestamps_without_a_zone_are_local_times_too(tmp_path: Path) -> None:
    rows = ", ".join(f"('e', timestamp '{t}', 's{i}', 'x', 1.0)" for i, t in enumerate(NIGHT))
    duckdb.sql(
        f"copy (select * from (values {rows}) t({HEADER})) to '{tmp_path}/log.parquet' (format"
        " parquet)"
    )
    with pytest.raises(LogError, match="UTC offset"):
        read_log(tmp_path / "log.parquet")


def test_shuffled_rows_are_sorted_by_times_without_an_offset_and_that_is_said(
    tmp_path: Path,
) -> None:
    rows = steps([f"2024-06-{day:02d} {hour:02d}:00" for day in (1, 2) for hour in range(24)])
    path = as_csv(tmp_path, [rows[i * 29 % 48] for i in range(48)])
    log = read_log(path)
    assert set(triples(log)) == {(f"s{i}", "x", f"s{i + 1}") for i in range(47)}
    assert sum("sorted by times without a UTC offset" in note for note in log.notes) == 1
    assert not any("sorted" in note for note in read_log(as_csv(tmp_path, rows)).notes)


def test_gaps_between_times_with_offsets_are_those_of_the_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    times = [
        "2024-10-27 02:30:00+02:00",
        "2024-10-27 02:30:00+01:00",
        "2024-10-27 03:30:00+01:00",
        "2024-10-27 08:00:00+04:30",
    ]
    (found,) = [x for x in check_log(read_log(as_csv(tmp_path, steps(times)))) if x.name == "time"]
    assert "all 3 time gaps equal 3600 s" in found.sentence
