"""Encoders and `discretize`: states from continuous features, on real files."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kills import killed_at
from surefoot import LogError, ParameterError, SurefootError
from surefoot.logs import read_log
from surefoot.serving import (
    KMeansEncoder,
    QuantileEncoder,
    discretize,
    fit_kmeans,
    fit_quantiles,
    read_encoder,
    write_encoder,
)

HEADER = ("episode", "time", "age", "pulse", "sex", "action", "reward", "remark")


def write(path: Path, rows: list[tuple[Any, ...]], header: tuple[str, ...] = HEADER) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture
def rows() -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(0)
    age, pulse = rng.normal(50, 10, 400).round(2), rng.normal(80, 9, 400).round(1)
    return [
        (f"e{i // 20}", i % 20, age[i], pulse[i], i % 2, "ab"[i % 3 == 0], age[i] / 10, 'x, "y"\n')
        for i in range(400)
    ]


@pytest.fixture
def log(tmp_path: Path, rows: list[tuple[Any, ...]]) -> Path:
    return write(tmp_path / "log.csv", rows)


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@given(st.integers(0, 5_000), st.integers(1, 4), st.integers(2, 60), st.integers(1, 40))
def test_quantile_bins_never_exceed_the_states_asked_for_and_none_is_empty(
    seed: int, d: int, states: int, values: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, values + 1, (200, d)).astype(float)
    x[0], x[1] = 0, 1
    encoder = fit_quantiles(tuple("abcd"[:d]), x, states)
    assert np.prod(encoder.bins) <= states
    for i, (edges, bins) in enumerate(zip(encoder.edges, encoder.bins, strict=True)):
        assert len(np.unique(np.searchsorted(edges, x[:, i], side="right"))) == bins
    assert (encoder.encode(x) < len(encoder.labels)).all()


def test_bins_of_distinct_values_hold_equal_numbers_of_rows() -> None:
    x = np.random.default_rng(1).permutation(1_000.0 * np.arange(120))[:, None]
    encoder = fit_quantiles(("a",), x, 8)
    assert np.bincount(encoder.encode(x)).tolist() == [15] * 8


def test_a_feature_of_two_values_gets_two_bins_however_unequal() -> None:
    x = np.array([[0.0]] * 97 + [[1.0]] * 3)
    assert fit_quantiles(("a",), x, 50).edges == ((1.0,),)


def test_the_label_says_the_bin_of_every_feature() -> None:
    encoder = QuantileEncoder(("a", "b", "c"), ((0.0, 1.0), (), (5.0,)))
    codes = encoder.encode(np.array([[-1, 9, 4.9], [0, 9, 5], [7, 9, 4]]))
    assert [encoder.labels[code] for code in codes] == [
        "a < 0 and c < 5",
        "0 <= a < 1 and c >= 5",
        "a >= 1 and c < 5",
    ]


@pytest.mark.slow
def test_kmeans_takes_the_nearest_centre_of_standardised_features() -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal((0, 1000 * i), (0.1, 30), (40, 2)) for i in range(4)])
    encoder = fit_kmeans(("a", "b"), x, 9)
    z = (x - encoder.mean) / encoder.scale
    distance = ((z[:, None] - np.array(encoder.centres)) ** 2).sum(axis=2)
    assert (encoder.encode(x) == distance.argmin(axis=1)).all()
    assert encoder.labels[3] == "cluster:3"


def test_every_row_keeps_its_columns_and_its_place(
    log: Path, tmp_path: Path, rows: list[tuple[Any, ...]]
) -> None:
    done = discretize(log, tmp_path / "out.csv", features=["age", "pulse", "sex"], states=20)
    before, after = read(log), read(tmp_path / "out.csv")
    assert [{name: row[name] for name in HEADER} for row in after] == before
    x = np.array([row[2:5] for row in rows], dtype=float)
    assert [row["state"] for row in after] == [done.labels[code] for code in done.encoder.encode(x)]
    assert (done.rows, sum(done.counts)) == (400, 400)


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_what_is_written_can_be_read_as_a_log(log: Path, tmp_path: Path, name: str) -> None:
    done = discretize(log, tmp_path / name, features=["age"], states=5)
    assert read_log(tmp_path / name).states == tuple(sorted(done.labels))


def test_a_folder_of_parquet_files_keeps_types_and_order(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for i in range(3):
        query = (
            f"select {i} as episode, j as time, (j * 7 + {i}) % 11 as x, 'a' as action, 1.5::float"
            " as reward from range(40) t(j)"
        )
        duckdb.sql(f"copy ({query}) to '{tmp_path}/in/part-{i}.parquet'")
    discretize(tmp_path / "in", tmp_path / "out.parquet", features=["x"], states=11)
    labels = ("x < 1", *(f"{x} <= x < {x + 1}" for x in range(1, 10)), "x >= 10")
    found = duckdb.sql(
        f"select episode, time, x, state, typeof(reward) from '{tmp_path}/out.parquet'"
    ).fetchall()
    assert found == [
        (i, j, (j * 7 + i) % 11, labels[(j * 7 + i) % 11], "FLOAT")
        for i in range(3)
        for j in range(40)
    ]


@pytest.mark.slow
def test_rows_keep_their_state_in_files_of_odd_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n = 7_000
    columns = {
        "episode": np.zeros(n, dtype=int),
        "x": np.arange(n) * 77 % 101,
        "action": np.ones(n, dtype=int),
        "reward": np.zeros(n),
    }
    parquet.write_table(arrow.table(columns), tmp_path / "in.parquet", row_group_size=2_051)
    monkeypatch.setattr("surefoot.logs.features.BLOCK", 1_000)
    discretize(tmp_path / "in.parquet", tmp_path / "out.parquet", features=["x"], states=101)
    label = "case x when 0 then 'x < 1' when 100 then 'x >= 100' else x || ' <= x < ' || x + 1 end"
    assert duckdb.sql(
        f"select count(*) from '{tmp_path}/out.parquet' where state = {label}"
    ).fetchall() == [(n,)]


@pytest.mark.parametrize("method", ["quantile", pytest.param("kmeans", marks=pytest.mark.slow)])
def test_a_saved_encoder_gives_new_rows_the_same_states(
    log: Path, tmp_path: Path, method: str
) -> None:
    if method == "kmeans":
        pytest.importorskip("sklearn")
    file = tmp_path / "encoder.json"
    done = discretize(
        log, tmp_path / "out.csv", features=["age", "pulse"], states=12, method=method, save=file
    )
    assert read_encoder(file) == done.encoder
    fresh = write(
        tmp_path / "new.csv", [(row["pulse"], row["age"]) for row in read(log)], ("pulse", "age")
    )
    again = discretize(fresh, tmp_path / "new-out.csv", encoder=read_encoder(file))
    assert [row["state"] for row in read(tmp_path / "new-out.csv")] == [
        row["state"] for row in read(tmp_path / "out.csv")
    ]
    assert again.mixing is None


def test_mixing_is_the_share_of_variance_within_states(
    log: Path, tmp_path: Path, rows: list[tuple[Any, ...]]
) -> None:
    np.random.default_rng(3).shuffle(rows)  # the order of time counts, not that of rows
    done = discretize(write(log, rows), tmp_path / "out.csv", features=["age", "sex"], states=8)
    x = {(row[0], row[1]): row for row in rows}
    code = dict(
        zip(
            x,
            done.encoder.encode(np.array([(row[2], row[4]) for row in rows], dtype=float)),
            strict=True,
        )
    )
    follow = [(code[e, t], x[e, t + 1][2], x[e, t + 1][4]) for e, t in x if (e, t + 1) in x]
    assert done.mixing is not None
    assert done.mixing.reward == pytest.approx(
        share([(code[key], row[6]) for key, row in x.items()])
    )
    assert done.mixing.successor[0] == pytest.approx(share([(c, age) for c, age, _ in follow]))
    assert done.mixing.successor[1] == pytest.approx(
        share([(c, sex) for c, _, sex in follow]), abs=1e-12
    )


def share(pairs: list[tuple[int, float]]) -> float:
    code, value = (np.array(x, dtype=float) for x in zip(*pairs, strict=True))
    within = sum(((value[code == c] - value[code == c].mean()) ** 2).sum() for c in np.unique(code))
    return float(within / ((value - value.mean()) ** 2).sum())


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (2, "", "'age' is missing in row 8"),
        (2, "nan", r"'age' is missing \('nan'\) in row 8"),
        (2, "old", "'age' is 'old', not a finite number, in row 8"),
        (2, "1e999", "not a finite number"),
    ],
)
def test_a_feature_that_is_no_number_is_refused_with_its_row(
    tmp_path: Path, rows: list[tuple[Any, ...]], place: int, value: str, words: str
) -> None:
    rows[7] = (*rows[7][:place], value, *rows[7][place + 1 :])
    with pytest.raises(LogError, match=words):
        discretize(
            write(tmp_path / "log.csv", rows),
            tmp_path / "out.csv",
            features=["age", "pulse"],
            states=10,
        )
    assert sorted(os.listdir(tmp_path)) == ["log.csv"]


def test_a_constant_feature_is_refused(tmp_path: Path, rows: list[tuple[Any, ...]]) -> None:
    same = [(*row[:2], 50, *row[3:]) for row in rows]
    with pytest.raises(LogError, match="'age' is constant"):
        discretize(
            write(tmp_path / "log.csv", same), tmp_path / "out.csv", features=["age", "pulse"]
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"features": ["agee"]}, "nearest are 'age'"),
        ({"features": ["age", "age"]}, "once"),
        ({"features": ["age"], "states": 1}, "states must be"),
        ({"features": ["age"], "method": "tree"}, "method"),
        ({"features": ["age"], "column": "sex"}, "already has a column 'sex'"),
        ({}, "either features"),
    ],
)
def test_wrong_options_are_refused_in_words(
    log: Path, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(SurefootError, match=words):
        discretize(log, tmp_path / "out.csv", **options)
    assert not (tmp_path / "out.csv").exists()


def test_the_encoder_overwrites_neither_the_log_nor_the_states(log: Path, tmp_path: Path) -> None:
    before, out = log.read_bytes(), tmp_path / "out.csv"
    (tmp_path / "folder.csv").mkdir()
    for target, save, words in (
        (out, log, "is the log itself"),
        (out, out, "name two files"),
        (out, tmp_path, "is a folder"),
        (tmp_path / "folder.csv", tmp_path / "encoder.json", "is a folder"),
    ):
        with pytest.raises(ParameterError, match=words):
            discretize(log, target, features=["age"], save=save)
    assert log.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "log.csv"]


@pytest.mark.parametrize(
    ("column", "words"), [("AGE", "already has a column 'AGE'"), (" ", "needs a name")]
)
def test_the_new_column_is_another_one_also_for_who_does_not_tell_cases_apart(
    log: Path, tmp_path: Path, column: str, words: str
) -> None:
    with pytest.raises(SurefootError, match=words):
        discretize(log, tmp_path / "out.csv", features=["pulse"], column=column)


def test_an_encoder_of_too_many_states_is_refused() -> None:
    edges = tuple(map(float, range(400)))
    with pytest.raises(ParameterError, match="make 160,801 states, more than 100,000"):
        QuantileEncoder(("a", "b"), (edges, edges))


def test_the_log_itself_is_never_overwritten(log: Path) -> None:
    before = log.read_bytes()
    with pytest.raises(ParameterError, match="the log itself"):
        discretize(log, log, features=["age"])
    assert log.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": "surefoot encoder 1"}',
        '{"format": "surefoot encoder 1", "method": "x", "features": []}',
    ],
)
def test_a_file_that_is_no_encoder_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "encoder.json").write_text(content)
    with pytest.raises(SurefootError, match="encoder"):
        read_encoder(tmp_path / "encoder.json")


def test_an_encoder_with_edges_out_of_order_is_refused(tmp_path: Path) -> None:
    write_encoder(QuantileEncoder(("a",), ((1.0, 2.0),)), tmp_path / "encoder.json")
    content = json.loads((tmp_path / "encoder.json").read_text())
    (tmp_path / "encoder.json").write_text(json.dumps(content | {"edges": [[2.0, 1.0]]}))
    with pytest.raises(ParameterError, match="increasing"):
        read_encoder(tmp_path / "encoder.json")


def test_a_feature_left_with_one_bin_is_named(log: Path, tmp_path: Path) -> None:
    done = discretize(log, tmp_path / "out.csv", features=["age", "pulse", "sex"], states=3)
    assert any("pulse, sex got one bin" in note for note in done.notes)


def test_a_centre_without_a_place_for_every_feature_is_refused() -> None:
    with pytest.raises(ParameterError, match="centre"):
        KMeansEncoder(("a", "b"), (0.0, 0.0), (1.0, 1.0), ((1.0,),))


LOST = ("", "NA", " nan ", "null", "None", "n/a")


@pytest.fixture
def gaps(tmp_path: Path, rows: list[tuple[Any, ...]]) -> Path:
    """Every seventh pulse is missing, in all the usual ways."""
    return write(
        tmp_path / "gaps.csv",
        [(*r[:3], LOST[i // 7 % 6], *r[4:]) if i % 7 == 0 else r for i, r in enumerate(rows)],
    )


def test_missing_values_get_a_bin_of_their_own_if_asked(
    gaps: Path, tmp_path: Path, rows: list[tuple[Any, ...]]
) -> None:
    with pytest.raises(
        LogError,
        match=r"'pulse' is missing in row 1 of .*gaps.csv \(58 such rows of 400\).*--missing bin",
    ):
        discretize(gaps, tmp_path / "out.csv", features=["age", "pulse"])
    done = discretize(
        gaps,
        tmp_path / "out.csv",
        features=["age", "pulse"],
        states=20,
        missing="bin",
        save=tmp_path / "encoder.json",
    )
    found = [row["state"].split(" and ")[1] for row in read(tmp_path / "out.csv")]
    assert [i for i, bin_ in enumerate(found) if bin_ == "pulse missing"] == list(range(0, 400, 7))
    low, mid, high = done.encoder.edges[1]  # type: ignore[union-attr]
    between = (f"{low} <= pulse < {mid}", f"{mid} <= pulse < {high}")
    words = (f"pulse < {low}", *between, f"pulse >= {high}")
    assert [x for i, x in enumerate(found) if i % 7] == [
        words[sum(r[3] >= e for e in (low, mid, high))] for i, r in enumerate(rows) if i % 7
    ]
    assert done.notes[0] == "pulse is missing in 58 of 400 rows: their bin is 'pulse missing'"
    assert len(done.labels) <= 20
    assert done.mixing is not None and all(
        x is not None and 0 <= x <= 1 for x in (done.mixing.reward, *done.mixing.successor)
    )
    assert read_encoder(tmp_path / "encoder.json") == done.encoder


def test_an_encoder_without_a_bin_for_missing_values_refuses_them(
    gaps: Path, log: Path, tmp_path: Path
) -> None:
    made = discretize(
        gaps, tmp_path / "a.csv", features=["age", "pulse"], missing="bin", states=12
    ).encoder
    again = discretize(gaps, tmp_path / "b.csv", encoder=made)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert any(label.endswith("pulse missing") for label in again.labels)
    whole = discretize(log, tmp_path / "c.csv", features=["age", "pulse"], missing="bin").encoder
    assert (
        whole == discretize(log, tmp_path / "c.csv", features=["age", "pulse"]).encoder
    )  # nothing is missing: no bin
    with pytest.raises(LogError, match="'pulse' is missing in row 1"):
        discretize(gaps, tmp_path / "d.csv", encoder=whole)
    with pytest.raises(LogError, match="'pulse' is NaN in row 1"):
        whole.encode(np.array([[50.0, 80.0], [50.0, np.nan]]))
    with pytest.raises(LogError, match="'a' is NaN in row 0"):
        KMeansEncoder(("a",), (0.0,), (1.0,), ((0.0,),)).encode(np.array([[np.nan]]))


def test_a_value_that_is_broken_is_not_missing(gaps: Path, tmp_path: Path) -> None:
    gaps.write_text(gaps.read_text().replace("e3,5,", "e3,5,oldish", 1))
    with pytest.raises(LogError, match=r"'age' is 'oldish.*, not a finite number, in row 66"):
        discretize(gaps, tmp_path / "out.csv", features=["age", "pulse"], missing="bin")


def test_a_sensor_that_gives_one_value_or_none_tells_two_states_apart(
    tmp_path: Path, rows: list[tuple[Any, ...]]
) -> None:
    log = write(
        tmp_path / "log.csv", [(*r[:3], "" if i % 3 else 1, *r[4:]) for i, r in enumerate(rows)]
    )
    done = discretize(log, tmp_path / "out.csv", features=["pulse"], missing="bin")
    assert done.labels == ("pulse given", "pulse missing")
    nothing = write(tmp_path / "nothing.csv", [(*r[:3], "", *r[4:]) for r in rows])
    with pytest.raises(LogError, match="'pulse' is missing in every row"):
        discretize(nothing, tmp_path / "out.csv", features=["pulse"], missing="bin")


def test_given_edges_are_the_edges_of_the_bins(
    log: Path, tmp_path: Path, rows: list[tuple[Any, ...]]
) -> None:
    done = discretize(
        log, tmp_path / "out.csv", features=["age"], edges={"pulse": [70, 90.5]}, states=12
    )
    assert done.encoder.features == ("age", "pulse")
    assert done.encoder.edges[1] == (70.0, 90.5)  # type: ignore[union-attr]
    assert done.encoder.bins == (4, 3)  # type: ignore[union-attr]
    words = ("pulse < 70", "70 <= pulse < 90.5", "pulse >= 90.5")
    pulse = [row["state"].split(" and ")[1] for row in read(tmp_path / "out.csv")]
    assert pulse == [words[int(r[3] >= 70) + int(r[3] >= 90.5)] for r in rows]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"edges": {"pulse": [90, 70]}}, "edges of feature 'pulse' must be finite and increasing"),
        ({"edges": {"pulse": [float("nan")]}}, "must be finite and increasing"),
        ({"edges": {"puls": [70]}}, "has no column 'puls'"),
        (
            {"edges": {"age": [40, 50], "pulse": [70, 80, 90]}, "states": 11},
            "make 12 states, more than 11",
        ),
        ({"edges": {"age": [40]}, "method": "kmeans"}, "has no bins"),
        ({"features": ["age"], "missing": "bin", "method": "kmeans"}, "has no bins"),
        ({"features": ["age"], "missing": "zero"}, "missing must be one of 'error', 'bin'"),
    ],
)
def test_wrong_edges_and_rules_are_refused_in_words(
    log: Path, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(SurefootError, match=words):
        discretize(log, tmp_path / "out.csv", **options)
    assert not (tmp_path / "out.csv").exists()


def test_files_may_be_named_by_text(log: Path, tmp_path: Path) -> None:
    file, out = str(tmp_path / "encoder.json"), str(tmp_path / "out.csv")
    done = discretize(str(log), out, features=["age"], save=file)
    assert read_encoder(file) == done.encoder
    write_encoder(done.encoder, file)
    assert read_encoder(file) == done.encoder


def test_an_encoder_from_before_there_were_bins_for_missing_values_is_read(tmp_path: Path) -> None:
    old = {
        "format": "surefoot encoder 1",
        "method": "quantile",
        "features": ["a"],
        "edges": [[1.0]],
    }
    (tmp_path / "old.json").write_text(json.dumps(old))
    found = read_encoder(tmp_path / "old.json")
    assert found == QuantileEncoder(("a",), ((1.0,),), coded=True)
    assert found.labels == ("a:0", "a:1")


@pytest.mark.parametrize("step", range(12))
def test_a_killed_run_never_leaves_the_log_of_one_run_beside_the_encoder_of_another(
    step: int, tmp_path: Path
) -> None:
    source, out, save = (tmp_path / name for name in ("log.csv", "out.csv", "encoder.json"))
    source.write_text("episode,reward,x\n" + "".join(f"{i},1,{i}\n" for i in range(40)))

    def run(edge: float) -> object:
        return discretize(source, out, edges={"x": [edge]}, save=save)

    run(10.0)
    died = killed_at(step, lambda: run(20.0))
    encoder = read_encoder(save)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    x = np.array([[float(row["x"])] for row in rows])
    assert [row["state"] for row in rows] == [encoder.labels[i] for i in encoder.encode(x)]
    assert died or encoder.edges == ((20.0,),)
