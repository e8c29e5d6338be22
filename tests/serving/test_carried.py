"""Measurements that are missing: carried forward in time within their episode, never backwards and
never to another episode; text as other programs export it.
"""

from __future__ import annotations

import csv
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import surefoot
from support import logfiles
from surefoot import LogError, SurefootError
from surefoot.cli import app
from surefoot.logs import read_log
from surefoot.serving import Controller, discretize, fit_quantiles, read_encoder

duckdb = pytest.importorskip("duckdb")
HEADER = ("episode", "time", "pulse", "action", "reward")
EDGES = {"pulse": [60.0, 100.0]}
LOW, MID, HIGH, LOST = "pulse < 60", "60 <= pulse < 100", "pulse >= 100", "pulse missing"


def write(path: Path, rows: list[tuple[Any, ...]], header: tuple[str, ...] = HEADER) -> Path:
    return logfiles.write(path, header, rows)


def rows_of(pulses: list[Any], times: list[Any], episode: str = "e") -> list[tuple[Any, ...]]:
    return [(episode, t, x, "a", 1) for t, x in zip(times, pulses, strict=True)]


def states(source: Any, folder: Path, **changes: Any) -> list[str]:
    options = {"edges": EDGES, "missing": "last"} | changes
    discretize(source, folder / "out.csv", **options)
    return column_of(folder / "out.csv", "state", None)


def column_of(path: Path, name: str, delimiter: str | None, encoding: str = "utf-8") -> list[str]:
    """A column of a text file, of commas or semicolons where no delimiter is given."""
    with open(path, newline="", encoding=encoding, errors="replace") as file:
        header = file.readline()
        file.seek(0)
        sign = delimiter or (";" if ";" in header else ",")
        return [row[name] for row in csv.DictReader(file, delimiter=sign)]


def test_the_last_value_of_the_episode_is_carried_and_never_to_another(tmp_path: Path) -> None:
    rows = [
        *rows_of([50, "", "NA", 120], [0, 1, 2, 3], "e1"),
        *rows_of(["", "", 70, "nan"], [0, 1, 2, 3], "e2"),
        *rows_of(["", ""], [0, 1], "e3"),
    ]
    log = write(tmp_path / "log.csv", rows)
    expected = [LOW, LOW, LOW, HIGH, LOST, LOST, MID, MID, LOST, LOST]
    assert states(log, tmp_path) == expected
    order = np.random.default_rng(0).permutation(len(rows))
    mixed = write(tmp_path / "mixed.csv", [rows[i] for i in order])
    assert states(mixed, tmp_path) == [expected[i] for i in order]
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        assert [x["pulse"] for x in csv.DictReader(file)] == [str(rows[i][2]) for i in order]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_it_is_what_a_loop_finds(seed: int) -> None:
    import tempfile

    rng = np.random.default_rng(seed)
    rows = []
    for e in range(5):
        days = rng.choice(400, rng.integers(1, 12), replace=False)
        rows += [
            (f"e{e}", (date(2023, 11, 1) + timedelta(int(d))).strftime("%d/%m/%Y"),
             "" if rng.random() < 0.6 else int(rng.integers(30, 130)), "a", 1) for d in days
        ]  # fmt: skip
    rows.append(("e9", "13/11/2023", 80, "a", 1))
    rng.shuffle(rows)
    last: dict[str, Any] = {}
    expected = [""] * len(rows)
    for i in sorted(range(len(rows)), key=lambda i: rows[i][1].split("/")[::-1]):
        episode, _, x, *_ = rows[i]
        last[episode] = x if x != "" else last.get(episode, "")
        known = last[episode]
        expected[i] = LOST if known == "" else LOW if known < 60 else MID if known < 100 else HIGH
    with tempfile.TemporaryDirectory() as folder:
        log = write(Path(folder) / "log.csv", rows)
        assert states(log, Path(folder), date_format="dd/mm/yyyy") == expected


DAYS = {
    "dd/mm/yyyy": ["30/01/2024", "31/01/2024", "01/02/2024", "02/02/2024"],
    "iso, one digit": ["2024-9-28", "2024-9-29", "2024-10-1", "2024-10-2"],
    "offsets": [
        "2024-01-01 12:00+05:00", "2024-01-01 08:00+00:00",
        "2024-01-01 04:00-05:00", "2024-01-01 16:00+06:00",
    ],
    "numbers": ["9", "10", "11", "100"],
}  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "parquet", "table"])
@pytest.mark.parametrize("times", DAYS.values(), ids=DAYS)
def test_the_order_is_that_of_time_however_it_is_written(
    tmp_path: Path, times: list[str], form: str
) -> None:
    rows = rows_of([50, "", 120, ""], times)
    rows = [rows[i] for i in (3, 1, 0, 2)]
    source: Any = write(tmp_path / "log.csv", rows)
    if form == "parquet":
        kept = f"select * replace (try_cast(pulse as double) as pulse) from read_csv('{source}', "
        duckdb.sql(f"copy ({kept}all_varchar = true)) to '{tmp_path}/log.parquet'")
        source = tmp_path / "log.parquet"
    elif form == "table":
        source = {name: [row[i] for row in rows] for i, name in enumerate(HEADER)}
        source["pulse"] = np.array([np.nan, np.nan, 50.0, 120.0])
    assert states(source, tmp_path) == [HIGH, LOW, LOW, HIGH]


def test_several_files_are_one_log_and_keep_their_places(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i, (pulses, times) in enumerate([(["", 50], [2, 1]), ([120, ""], [3, 4]), ([""], [0])]):
        write(tmp_path / "in" / f"part-{i}.csv", rows_of(pulses, times))
    assert states(tmp_path / "in", tmp_path) == [LOW, LOW, HIGH, HIGH, LOST]
    encoder = discretize(tmp_path / "in" / "part-0.csv", tmp_path / "o.csv", edges=EDGES,
                         missing="last").encoder  # fmt: skip
    with pytest.raises(LogError, match=r"missing in row 1 of .*part-2\.csv \(1 such rows of 5\)"):
        discretize(tmp_path / "in", tmp_path / "o.csv", encoder=encoder, missing="last")


def test_without_a_time_the_order_is_that_of_the_file(tmp_path: Path) -> None:
    rows = [(e, x, a, r) for e, _, x, a, r in rows_of(["", 50, "", 120, ""], [0] * 5)]
    log = write(tmp_path / "log.csv", rows, ("episode", "pulse", "action", "reward"))
    assert states(log, tmp_path) == [LOST, LOW, LOW, HIGH, HIGH]


def test_what_stays_missing_has_a_bin_that_the_encoder_knows(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", rows_of(["", 50, ""], [0, 1, 2]))
    done = discretize(
        log, tmp_path / "out.csv", edges=EDGES, missing="last", save=tmp_path / "e.json"
    )
    assert done.notes[0] == "pulse is missing in 1 of 3 rows: their bin is 'pulse missing'"
    encoder = read_encoder(tmp_path / "e.json")
    assert encoder.missing == ("pulse",)
    assert encoder.labels[encoder.encode(np.array([[np.nan]]))[0]] == LOST
    whole = write(tmp_path / "whole.csv", rows_of([50, ""], [0, 1]))
    made = discretize(whole, tmp_path / "out.csv", edges=EDGES, missing="last").encoder
    assert made.missing == ()


def test_new_rows_are_carried_with_a_saved_encoder_and_need_no_reward(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", rows_of(["", 50, ""], [0, 1, 2]))
    encoder = discretize(log, tmp_path / "out.csv", edges=EDGES, missing="last").encoder
    fresh = [x[:3] for x in rows_of(["", 120, ""], [5, 3, 4])]
    new = write(tmp_path / "new.csv", fresh, ("episode", "time", "pulse"))
    found = states(new, tmp_path, encoder=encoder, edges={})
    assert found == [HIGH, HIGH, HIGH]
    assert states(new, tmp_path, encoder=encoder, edges={}, roles={"time": "time"}) == found
    alone = write(tmp_path / "alone.csv", [(50,), ("",)], ("pulse",))
    with pytest.raises(LogError, match="episode"):
        states(alone, tmp_path, encoder=encoder, edges={})


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["2024-01-01", "soon", "2024-01-03"], "the time 'soon' in row 2 of .*log.csv cannot be"),
        (["1", "", "3"], r"the time '' in row 2 .* \(1 such rows\)"),
        (["31/01/2024", "01/13/2024", "02/02/2024"], r"'31/01/2024' in row 1 .*--date-format dd"),
        (["01/02/2024", "02/02/2024", "03/02/2024"], "may have the day or the month first"),
    ],
)
def test_in_an_unknown_order_nothing_is_carried(
    tmp_path: Path, times: list[str], words: str
) -> None:
    log = write(tmp_path / "log.csv", rows_of([50, "", 120], times))
    with pytest.raises(LogError, match=words):
        states(log, tmp_path)
    assert not (tmp_path / "out.csv").exists()


def test_decimal_commas_other_signs_and_encodings_are_read(tmp_path: Path) -> None:
    text = "Épisode;Zeit;Puls;Maßnahme;Lohn\n" + "".join(
        f"e;{t};{x};ä;{r}\n"
        for t, x, r in [("1,5", "59,5", "1,5"), ("10,5", "", "0,5"), ("2,5", "120,25", "2")]
    )
    (tmp_path / "log.csv").write_text(text, encoding="cp1252")
    given: dict[str, Any] = {
        "edges": {"Puls": [60, 100]},
        "decimal": ",",
        "encoding": "cp1252",
        "roles": {"episode": "Épisode", "time": "Zeit", "reward": "Lohn"},
    }
    found = states(tmp_path / "log.csv", tmp_path, **given)
    assert found == ["Puls < 60", "Puls >= 100", "Puls >= 100"]
    out = tmp_path / "out.csv"
    assert column_of(out, "Maßnahme", ";", "cp1252") == ["ä"] * 3
    assert column_of(out, "Lohn", ";", "cp1252") == ["1,5", "0,5", "2"]  # as it was read
    log = read_log(
        out, episode="Épisode", time="Zeit", action="Maßnahme", reward="Lohn", state="state",
        decimal=",", delimiter=";", encoding="cp1252", episode_end="terminal",
    )  # fmt: skip
    assert log.rewards == (0.5, 2.0)
    with pytest.raises(LogError, match=r"'59,5', not a finite number, in row 1 of .*log\.csv"):
        states(tmp_path / "log.csv", tmp_path, **given | {"decimal": "."})
    with pytest.raises(LogError, match=r"log\.csv is not UTF-8 text"):
        states(tmp_path / "log.csv", tmp_path, **given | {"encoding": "utf-8"})
    with pytest.raises(SurefootError, match="the log itself"):
        discretize(tmp_path / "log.csv", tmp_path / "log.csv", **given | {"missing": "last"})


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_every_file_that_is_written_is_read_with_the_options_of_its_source(
    tmp_path: Path, ending: str, encoding: str
) -> None:
    text = "episode|time|pulse|action|reward\n" + "".join(
        f"é;{t // 2}|{t}|{50 + t},5|a,b|{t},25\n" for t in range(9)
    )
    (tmp_path / "log.csv").write_text(text, encoding=encoding)
    how = {"decimal": ",", "encoding": encoding}
    out, again = tmp_path / f"out.{ending}", tmp_path / f"again.{ending}"
    discretize(tmp_path / "log.csv", out, edges={"pulse": [53.0]}, **how)
    log = read_log(out, episode_end="terminal", **how)
    assert log.n_episodes == 5
    assert set(log.states) >= {"pulse < 53", "pulse >= 53"} and log.rewards == (0.25, 8.25)
    rule = {"pulse < 53": {"a,b": 0.25, "c": 0.75}, "pulse >= 53": {"a,b": 1}}
    done = surefoot.apply(rule, out, again, **how)
    assert done.decided == 9 and done.compared == 9
    assert read_log(again, episode_end="terminal", propensity="decision_probability", **how)
    assert not list(tmp_path.glob(".*"))


def test_what_the_encoding_of_the_log_cannot_write_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("state;reward\nlow;1,5\n", encoding="cp1252")
    with pytest.raises(LogError, match=r"out\.csv cannot be written as cp1252"):
        surefoot.apply({"low": {"Ω": 1}}, log, tmp_path / "out.csv", encoding="cp1252")
    assert [x.name for x in tmp_path.iterdir()] == ["log.csv"]
    assert surefoot.apply({"low": {"Ω": 1}}, log, tmp_path / "out.parquet", encoding="cp1252").rows


def test_probabilities_are_written_with_the_decimal_sign_of_the_file(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("state;reward\nlow;1,5\n", encoding="utf-8")
    rule = {"low": {"a": 0.75, "b": 0.25}}
    for decimal, expected in ((",", "0,75"), (".", "0.75")):
        surefoot.apply(rule, log, tmp_path / "out.csv", decimal=decimal)
        assert column_of(tmp_path / "out.csv", "decision_probability", ";") == [expected]
    encoder = fit_quantiles(("reward",), np.array([[1.0], [2.0]]), 2, edges={"reward": [1.25]})
    controller = Controller(policy={"reward >= 1.25": {"a": 1}}, encoder=encoder)
    assert surefoot.apply(controller, log, tmp_path / "out.csv", decimal=",").decided == 1
    with pytest.raises(LogError, match="'1,5', not a finite number"):
        surefoot.apply(controller, log, tmp_path / "out.csv")


def test_mixing_is_measured_with_decimal_commas(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(80, 20, 60).round(2)
    rows = [("e", i, y, "a", y / 2) for i, y in enumerate(x)]
    plain = write(tmp_path / "plain.csv", rows)
    comma = write(
        tmp_path / "comma.csv", [tuple(str(y).replace(".", ",") for y in row) for row in rows]
    )
    known = discretize(plain, tmp_path / "out.csv", edges=EDGES)
    found = discretize(comma, tmp_path / "out.csv", edges=EDGES, decimal=",")
    assert found.mixing.reward == pytest.approx(known.mixing.reward)  # type: ignore[union-attr]
    assert found.counts == known.counts


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decimal": ";"}, "decimal must be one of"),
        ({"delimiter": "ab"}, "delimiter must be one character"),
        ({"encoding": "klingon"}, "no encoding is called 'klingon'"),
        ({"date_format": "nonsense"}, "a date format is made of"),
        ({"missing": "first"}, "missing must be one of 'error', 'bin', 'last'"),
        ({"edges": {}, "features": ["pulse"], "method": "kmeans"}, "has no bins"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    log = write(tmp_path / "log.csv", rows_of([50, "", 120], [0, 1, 2]))
    with pytest.raises(SurefootError, match=words):
        states(log, tmp_path, **options)
    assert not (tmp_path / "out.csv").exists()


def test_the_command_line_takes_all_of_it(tmp_path: Path) -> None:
    rows = [("e", t, x, "a", 1) for t, x in
            [("02/01/2024", "59,5"), ("01/02/2024", ""), ("03/01/2024", "120,5")]]  # fmt: skip
    text = "\n".join(";".join(map(str, row)) for row in [HEADER, *rows])
    (tmp_path / "log.csv").write_text(text + "\n", encoding="latin-1")
    given = ["discretize", str(tmp_path / "log.csv"), "--edges", "pulse=60,100", "--missing"]
    given += ["last", "--decimal", ",", "--delimiter", ";", "--encoding", "latin-1", "--out"]

    def found(name: str, *words: str) -> list[str]:
        done = CliRunner().invoke(app, [*given, str(tmp_path / name), *words, "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["rows"] == 3
        return column_of(tmp_path / name, "state", ";", "latin-1")

    assert found("a.csv", "--date-format", "dd/mm/yyyy") == [LOW, HIGH, HIGH]
    assert found("b.csv", "--date-format", "mm/dd/yyyy") == [LOW, LOST, HIGH]
    applied = [
        *given[:2], "--apply", str(tmp_path / "a.csv.encoder.json"), "--missing", "last",
        "--decimal", ",", "--date-format", "dd/mm/yyyy", "--out", str(tmp_path / "c.csv"),
    ]  # fmt: skip
    assert CliRunner().invoke(app, applied).exit_code == 0
    assert (tmp_path / "c.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()
