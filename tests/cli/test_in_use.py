"""surefoot apply --file and surefoot export, as commands."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import surefoot
from support import logfiles
from surefoot.serving import QuantileEncoder, write_encoder

Run = Any


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def test_a_file_is_decided_and_what_is_not_known_is_said(tmp_path: Path, run: Run) -> None:
    policy = logfiles.coin(tmp_path / "p.csv", 0.8, wards=("a", "c"))
    log = logfiles.visits(tmp_path / "log.csv", n=100)
    rows = list(csv.DictReader(log.read_text().splitlines()))
    b = sum(x["state"] == "b" for x in rows)
    given = ("apply", policy, "--file", log, "--out", tmp_path / "out.csv")
    code, text, said = run(*given)
    assert (code, said) == (0, "")
    assert f"decided   {100 - b} of 100 rows (the most probable action)" in text
    assert f"unseen    {b} rows in 1 states that the policy does not know: 'b' ({b})\n" in text
    assert f"open      {b} rows got NO decision" in text
    assert f"note: in {100 - b} rows the policy draws its action" in text
    old = sum(x["state"] == "a" and x["action"] == "old" for x in rows)
    assert f"log       {old} of {100 - b} decisions" in text
    code, text, _ = run(*given, "--otherwise", "old", "--json")
    found = json.loads(text)
    assert (code, found["decided"], found["rows_by_fallback"]) == (0, 100, b)
    assert found["most_frequent_unseen"] == [{"state": "b", "rows": b}]
    assert found["against_baseline"] is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "give one of --state or --reading (one decision) and --file"),
        (("--state", "a", "--file", "log.csv"), "give one of --state"),
        (("--file", "log.csv"), "name the file that the decisions go to with --out"),
        (("--state", "a", "--reading", "p=1"), "give one of --state"),
        (("--reading", "p=1"), "--reading needs a policy that knows how states are made of meas"),
        (("--state", "a", "--out", "x.csv"), "--out is for the rows of --file"),
        (("--state", "a", "--seed", 3), "--seed is for draws: add --sample"),
        (("--state", "z"), "state 'z' is not in the policy"),
        (("--state", "a", "--otherwise", "nwe"), "'nwe' is not in the policy; the nearest"),
        (("--file", "none.csv", "--out", "x.csv"), "there is no file none.csv"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    given: tuple[Any, ...], words: str, tmp_path: Path, run: Run
) -> None:
    code, text, said = run("apply", logfiles.coin(tmp_path / "p.csv", 0.8), *given)
    assert (code, text, words in said) == (2, "", True), said


def test_an_export_by_ending_is_sql_or_a_controller(tmp_path: Path, run: Run) -> None:
    policy = logfiles.coin(tmp_path / "p.csv", 0.8, wards=("p < 1", "1 <= p < 2"))
    code, text, _ = run("export", policy, "--out", tmp_path / "d.sql")
    assert (code, "2 states" in text, "ANOTHER POLICY" in text) == (0, True, True)
    assert "IN ('p < 1', '1 <= p < 2') THEN 'new'" in (tmp_path / "d.sql").read_text()
    encoder = tmp_path / "e.json"
    write_encoder(QuantileEncoder(("x",), ((1.0, 2.0),)), encoder)
    rule = logfiles.coin(tmp_path / "rule.csv", 0.1, wards=("p >= 2",))
    encoder.write_text(encoder.read_text().replace('"x"', '"p"'))
    given = ("export", policy, "--out", tmp_path / "d.json", "--encoder", encoder)
    assert run(*given, "--fallback", rule)[0] == 0
    found = surefoot.load_controller(tmp_path / "d.json")
    assert [found.decide({"p": x}) for x in (0, 1.5, 9)] == ["new", "new", "old"]
    raw = logfiles.write(tmp_path / "raw.csv", ("p",), [(0,), (9,)])
    code, text, _ = run("apply", tmp_path / "d.json", "--file", raw, "--out", tmp_path / "o.csv")
    assert (code, "fallback  decided 1 of these rows" in text) == (0, True), text


@pytest.fixture
def controller(tmp_path: Path, run: Run) -> Path:
    """p from 1 on: probably new; below: unknown."""
    policy = logfiles.coin(tmp_path / "p.csv", 0.8, wards=("p >= 1 and q < 3", "p >= 1 and q >= 3"))
    encoder = tmp_path / "e.json"
    write_encoder(QuantileEncoder(("p", "q"), ((1.0,), (3.0,))), encoder)
    assert run("export", policy, "--out", tmp_path / "c.json", "--encoder", encoder)[0] == 0
    return tmp_path / "c.json"


def test_a_controller_takes_raw_readings(controller: Path, run: Run) -> None:
    given = ("apply", controller, "--reading", "q=-1e1")
    code, text, _ = run(*given, "--reading", "p = 3.2")
    assert (code, text) == (0, "in 'p >= 1 and q < 3'\n  0.8000  new\n  0.2000  old\n")
    found = json.loads(run(*given, "--reading", "p=3.2", "--json")[1])
    assert found["state"] == {"state": "p >= 1 and q < 3"}
    assert found["readings"] == {"q": "-1e1", "p": "3.2"}
    assert found["probabilities"] == pytest.approx({"new": 0.8, "old": 0.2})
    code, text, _ = run(*given, "--reading", "p=3.2", "--sample", "--seed", 1)
    assert text in ("new\n", "old\n")
    for value in ("", "inf", "nan"):
        code, text, _ = run(*given, "--reading", f"p={value}", "--otherwise", "old")
        assert (code, text.splitlines()[:2]) == (
            0,
            ["no state: the fallback decides", "  1.0000  old"],
        )
    code, text, _ = run(*given, "--reading", "p=0.5", "--otherwise", "old")
    assert "in 'p < 1 and q < 3': the fallback decides\n  1.0000  old\n" in text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("p=1",), "this row has no 'q', of which the state is made; it has 'p'"),
        (("p=1", "q"), "--reading takes NAME=NUMBER, once for each measurement, got 'q'"),
        (("p=1", "p=2", "q=1"), "once for each measurement, got 'p=2'"),
        (("p=1", "Q=1"), "the policy has no measurement 'Q'; there are 'p', 'q'"),
        (("p=1", "q=high"), "measurement 'q' must be a number, got 'high'"),
        (("p=", "q=1"), "this row has no state: measurement 'p' is missing"),
        (("p=0", "q=1"), "state 'p < 1 and q < 3' is not in the policy"),
    ],
)
def test_readings_that_are_none_are_refused(
    given: tuple[str, ...], words: str, controller: Path, run: Run
) -> None:
    options = [x for text in given for x in ("--reading", text)]
    code, text, said = run("apply", controller, *options)
    assert (code, text, words in said) == (2, "", True), said


def test_an_export_from_raw_readings_in_another_dialect_draws_by_a_key(
    tmp_path: Path, run: Run
) -> None:
    policy = logfiles.coin(tmp_path / "p.csv", 0.8, wards=("p < 1", "p >= 1"))
    encoder = tmp_path / "e.json"
    write_encoder(QuantileEncoder(("p",), ((1.0,),)), encoder)
    given = ("export", policy, "--out", tmp_path / "d.sql", "--encoder", encoder)
    code, text, _ = run(*given, "--dialect", "sqlite", "--key", "stay,t", "--otherwise", "old")
    assert (code, "draws its actions, here by a hash of stay, t: rows" in text) == (0, True)
    sql = (tmp_path / "d.sql").read_text()
    assert 'WHEN "p" IS NULL OR' in sql and 'CAST("stay" AS TEXT)' in sql
    ours = tmp_path / "ours.sql"
    surefoot.export(
        policy, ours, encoder=encoder, dialect="sqlite", key=["stay", "t"], otherwise="old"
    )
    assert ours.read_text() == sql


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--out", "d.txt"), "d.txt must end in .sql, .json, .st"),
        (("--out", "d.json", "--numbers", "state"), "--numbers is for SQL"),
        (("--out", "d.json", "--key", "stay"), "--key is for SQL"),
        (("--out", "d.json", "--dialect", "tsql"), "--dialect is for SQL"),
        (("--out", "d.json", "--state-column", "ward"), "--state-column is for SQL"),
        (("--out", "d.sql", "--dialect", "oracle"), "must be one of 'duckdb', 'postgres'"),
        (("--out", "d.sql", "--numbers", "state"), "cannot be compared as a number"),
        (("--out", "d.sql", "--otherwise", "old", "--fallback", "x"), "give one of --otherwise"),
        (("--out", "d.json", "--encoder", "none"), "none is no encoder"),
    ],
)
def test_exports_that_cannot_be_are_refused_and_nothing_is_written(
    given: tuple[Any, ...], words: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = run("export", logfiles.coin(tmp_path / "p.csv", 0.8), *given)
    assert (code, words in said) == (2, True), said
    assert sorted(x.name for x in tmp_path.iterdir()) == ["p.csv"]
