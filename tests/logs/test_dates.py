"""Dates as exports write them: the order of day and month is found, given, or asked for."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_logs_clock import FORMS, HEADER, Made, as_csv, steps
from test_logs_read import triples, write

import surefoot
from support import logfiles
from surefoot import LogError
from surefoot.logs import read_log
from surefoot.logs.query import strptime

IN_TIME = {("s0", "x", "s1"), ("s1", "x", "s2"), ("s2", "x", "s3")}
# across a month and a year: as text, and by the wrong order, they lie otherwise
MOMENTS = [datetime(2023, 12, 30, 7), datetime(2024, 1, 2, 8, 5), datetime(2024, 1, 13, 21, 30)]
MOMENTS += [datetime(2024, 2, 1)]
FOUND = ["%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m/%d/%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"]
CLOCKS = ["", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p"]


def in_words(how: str) -> list[str]:
    return [t.strftime(how) for t in MOMENTS]


def mixed_up(times: list[str]) -> list[list[Any]]:
    rows = steps(times)
    return [rows[i] for i in (2, 0, 3, 1)]


@FORMS
@pytest.mark.parametrize("how", FOUND)
def test_the_order_of_day_and_month_is_found(tmp_path: Path, made: Made, how: str) -> None:
    log = read_log(made(tmp_path, mixed_up(in_words(how))), order="time")
    assert set(triples(log)) == IN_TIME
    assert log.stored.dated


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("day", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y"])
def test_any_clock_may_follow_the_day(tmp_path: Path, day: str, clock: str) -> None:
    log = read_log(as_csv(tmp_path, mixed_up(in_words(day + clock))), order="time")
    assert set(triples(log)) == IN_TIME


def test_clocks_may_differ_from_row_to_row_and_days_have_one_digit(tmp_path: Path) -> None:
    times = ["30/12/2023 9:00:00", " 2/1/2024", "13/1/2024 21:30", "1/2/2024 1:00 AM"]
    log = read_log(as_csv(tmp_path, mixed_up(times)), order="time")
    assert set(triples(log)) == IN_TIME


@FORMS
def test_dates_of_iso_are_what_they_were(tmp_path: Path, made: Made) -> None:
    times = [t.isoformat(" ") for t in MOMENTS]
    log = read_log(made(tmp_path, mixed_up(times)), order="time")
    assert set(triples(log)) == IN_TIME
    assert log.stored.time_type == "timestamp"


@FORMS
@pytest.mark.parametrize("clock", ["", " 10:30"])
@pytest.mark.parametrize("sign", ["/", "-"])
def test_where_day_and_month_could_both_come_first_it_asks(
    tmp_path: Path, made: Made, sign: str, clock: str
) -> None:
    times = [f"0{i}{sign}0{i + 1}{sign}2024{clock}" for i in range(1, 5)]
    source = made(tmp_path, steps(times))
    with pytest.raises(LogError, match="may have the day or the month first") as error:
        read_log(source)
    day, month = f"dd{sign}mm{sign}yyyy", f"mm{sign}dd{sign}yyyy"
    assert f"'{times[0]}'" in str(error.value)
    for words in (day, month):
        assert f"--date-format {words}" in str(error.value)
        assert set(triples(read_log(source, date_format=words))) == IN_TIME


def test_the_given_format_wins(tmp_path: Path) -> None:
    log = as_csv(tmp_path, [["e", t, t, "x", 1] for t in ("01/02/2024", "02/01/2024")])
    kinds = {x: read_log(log, order="time", date_format=x) for x in ("dd/mm/yyyy", "mm/dd/yyyy")}
    assert set(triples(kinds["dd/mm/yyyy"])) == {("02/01/2024", "x", "01/02/2024")}
    assert set(triples(kinds["mm/dd/yyyy"])) == {("01/02/2024", "x", "02/01/2024")}
    with pytest.raises(LogError, match="2 rows whose time is missing or unreadable"):
        read_log(log, date_format="dd.mm.yyyy")


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("dd/mm/yy", "%d/%m/%y"),
        ("dd/mm/yy hh:mm", "%d/%m/%y %H:%M"),
        ("DD.MM.YYYY hh:mm:ss", "%d.%m.%Y %H:%M:%S"),
        ("yyyymmdd", "%Y%m%d"),
        ("%d %b %Y", "%d %b %Y"),
        ("%d %B %Y, %H:%M", "%d %B %Y, %H:%M"),
        ("%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M %p"),
    ],
)
@FORMS
def test_a_format_is_in_words_or_in_codes(tmp_path: Path, made: Made, words: str, how: str) -> None:
    source = made(tmp_path, mixed_up(in_words(how)))
    assert set(triples(read_log(source, order="time", date_format=words))) == IN_TIME


def test_offsets_in_a_format_are_heeded(tmp_path: Path) -> None:
    times = ["1/2/2024 7:05 +0200", "1/2/2024 7:00 +0100", "1/2/2024 6:01 +0000"]
    log = read_log(as_csv(tmp_path, steps(times)), date_format="%d/%m/%Y %H:%M %z")
    assert set(triples(log)) == {("s0", "x", "s1"), ("s1", "x", "s2")}
    assert not log.stored.wall_clock


@FORMS
def test_rows_in_two_orders_are_bad_rows_and_never_guessed(tmp_path: Path, made: Made) -> None:
    with pytest.raises(LogError, match="2 rows whose time is missing or unreadable") as error:
        read_log(made(tmp_path, steps(["31/03/2024", "04/13/2024"])))
    assert "31/03/2024 18:30, 31.03.2024 or 03/31/2024 (all in one order)" in str(error.value)
    assert "--date-format" in str(error.value)


def test_a_word_among_dates_is_one_bad_row(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"1 rows whose time.*row 2 \(time 'soon'\)"):
        read_log(as_csv(tmp_path, steps(["31/03/2024", "soon", "01/04/2024"])))


def test_an_odd_date_among_dates_of_iso_is_a_bad_row_and_no_question(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"1 rows whose time.*row 3 \(time '01/02/2024'\)"):
        read_log(as_csv(tmp_path, steps(["2024-01-02", "2024-01-03", "01/02/2024"])))


@pytest.mark.parametrize("time", ["31/03/24", "1-2-24", "24-1-2", "31/03/24 10:00"])
def test_a_year_of_two_digits_is_not_guessed(tmp_path: Path, time: str) -> None:
    """DuckDB reads 31/03/24 as the 24th of March of the year 31."""
    with pytest.raises(LogError, match=r"missing or unreadable.*--date-format dd/mm/yy"):
        read_log(as_csv(tmp_path, steps([time, time])))


@pytest.mark.parametrize(
    "words",
    [
        "nonsense", "dd/mm", "%q", "%", "50%", "%%", "dd/mm/yyyy h:mm", "dd/mm/yyyy dd", "%Z", 5,
        "dd/mmm/yyyy", "yyyy", "dd/mm/yyyy hh:mm +zz", None,
    ],
)  # fmt: skip
def test_a_format_that_is_none_is_refused(tmp_path: Path, words: Any) -> None:
    with pytest.raises(LogError, match="a date format is made of dd, mm, yyyy"):
        read_log(as_csv(tmp_path, steps(["28/02/2024", "01/03/2024"])), date_format=words)


def test_a_format_for_times_that_are_numbers_is_refused(tmp_path: Path) -> None:
    table = {"episode": [0, 0], "time": [1, 2], "state": ["a", "b"], "action": ["x", "x"]}
    with pytest.raises(LogError, match="'time' is BIGINT"):
        read_log(table | {"reward": [0, 1]}, date_format="dd/mm/yyyy")


@given(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)), st.sampled_from(FOUND))
def test_what_words_mean_is_what_strptime_means(t: datetime, how: str) -> None:
    words = how.replace("%d", "dd").replace("%m", "mm").replace("%Y", "yyyy")
    assert strptime(words).split("\n")[0] == how
    assert strptime(f"{words} hh:mm") == f"{how} %H:%M"
    text = f"{t.day:02}/{t.month:02}/{t.year:04}"
    assert datetime.strptime(text, strptime("dd/mm/yyyy").split("\n")[0]).date() == t.date()


def weekly(n: int, how: str) -> list[list[Any]]:
    """Visits twelve hours apart, whose reward follows the day of the week."""
    rng, start = np.random.default_rng(1), datetime(2023, 11, 6)
    rows = []
    for i in range(n):
        t = start + timedelta(hours=12 * i)
        reward = float(t.weekday() >= 5) + 0.2 * rng.standard_normal()
        rows.append(["e", t.strftime(how), "ab"[rng.integers(2)], "xy"[rng.integers(2)], reward])
    return rows


def test_the_day_of_the_week_is_seen_in_any_order_of_day_and_month(tmp_path: Path) -> None:
    said = {}
    for how in ("%Y-%m-%d %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"):
        log = write(tmp_path / "log.csv", weekly(700, how), HEADER)
        (drift,) = (x for x in surefoot.check(log).findings if x.key == "drift")
        said[how] = (drift.level, drift.sentence)
    (level, sentence), *others = said.values()
    assert (level, "between days of the week" in sentence) == ("warning", True)
    assert others == [(level, sentence)] * 2


def test_time_is_discounted_by_the_day(tmp_path: Path) -> None:
    rows = mixed_up(["30/01/2024 12:00", "31/01/2024", "02/02/2024 00:00", "05/02/2024"])
    pace = read_log(as_csv(tmp_path, rows), order="time", discount_per="day").pace
    assert sorted(pace.elapsed[np.isfinite(pace.elapsed)]) == [0.5, 2.0, 3.0]


def test_the_command_line_and_a_description_take_a_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = as_csv(tmp_path, steps(["01/02/2024", "02/02/2024", "03/02/2024", "04/02/2024"]))
    run = [monkeypatch, capsys, "check", log]
    code, _, said = logfiles.run(*run)
    assert (code, "--date-format dd/mm/yyyy" in said) == (2, True)
    given = ["--date-format", "dd/mm/yyyy", "--save", tmp_path / "log.toml"]
    assert logfiles.run(*run, *given)[0] != 2
    assert 'date_format = "dd/mm/yyyy"' in (tmp_path / "log.toml").read_text()
    assert set(triples(read_log(tmp_path / "log.toml"))) == IN_TIME
