"""Reading logs: the counts of a plain second reader, labels, derived successors, formats, and
rows in any order.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_any
from hypothesis import strategies as st

import surefoot
from support import naive_logs
from surefoot.logs import Log, read_log

duckdb = pytest.importorskip("duckdb")

LABELS = ["a", "A", "01", "1", "é", "=1+1", "<b>x</b>", "x,y", 'q"q', " s ", "NULL", "nan", "ü\n2"]


def write(
    path: Path,
    rows: Sequence[Sequence[Any]],
    header: str = "episode,time,state,action,reward,next_state,terminal",
) -> Path:
    import csv

    with open(path, "w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([header.split(","), *rows])
    return path


def triples(log: Log) -> dict[tuple[Any, Any, Any], tuple[int, float]]:
    """{(state, action, next state): (rows, sum of rewards)} by label."""
    counts = log.counts
    n, r = (
        x.toarray().reshape(log.n_states, log.n_actions, -1) if counts.is_sparse else x
        for x in (counts.n_sas, counts.r_sas)
    )
    return {
        (log.states[s], log.actions[a], log.states[t]): (int(n[s, a, t]), float(r[s, a, t]))
        for s, a, t in np.argwhere(n > 0)
    }


def agrees(log: Log, naive: naive_logs.NaiveLog) -> None:
    found = triples(log)
    assert set(found) == set(naive.triples)
    for triple, rewards in naive.triples.items():
        assert found[triple][0] == len(rewards)
        assert found[triple][1] == pytest.approx(sum(rewards), rel=1e-12, abs=1e-9)
    assert log.accounting.rows == naive.rows
    assert log.accounting.left_out_as("cut") == naive.cut
    assert log.accounting.left_out_as("at-limit") == naive.at_limit
    assert log.starts is not None
    assert {log.states[i]: int(n) for i, n in enumerate(log.starts) if n} == {
        s: n for s, n in naive.starts.items() if n
    }


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[Any]], bool]:
    """(rows of some episodes in any order, whether next_state is given)."""
    with_next = draw(st.booleans())
    rows = []
    for episode in range(draw(st.integers(1, 5))):
        n = draw(st.integers(1, 6))
        path = draw(st.lists(st.sampled_from(LABELS), min_size=n + 1, max_size=n + 1))
        ended = draw(st.booleans())
        times = draw(st.lists(st.integers(-5, 40), min_size=n, max_size=n, unique=True).map(sorted))
        for i in range(n):
            last = i == n - 1
            follow = "" if last and ended else path[i + 1]
            reward = draw(st.sampled_from([0, 1, -2.5, 0.1, 1e9, 3e-7]))
            row = [
                f"e{episode}",
                times[i],
                path[i],
                draw(st.sampled_from(LABELS[:4])),
                reward,
                int(last and ended),
            ]
            rows.append([*row[:5], follow, row[5]] if with_next else row)
    return draw(st.permutations(rows)), with_next


@given_any(logs(), st.sampled_from([1, 2]))
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_log_is_counted_as_a_plain_reader_counts_it(
    tmp_path_factory: Any, made: tuple[list[list[Any]], bool], threads: int
) -> None:
    rows, with_next = made
    header = "episode,time,state,action,reward," + (
        "next_state,terminal" if with_next else "terminal"
    )
    path = write(tmp_path_factory.mktemp("log") / "log.csv", rows, header)
    naive = naive_logs.read(path)
    if not naive.triples:
        with pytest.raises(surefoot.LogError, match="successor"):
            read_log(path, order="time")
        return
    agrees(read_log(path, threads=threads, order="time"), naive)
    agrees(read_log(path, sparse=True, order="time"), naive)


DERIVED = "episode,time,state,action,reward,terminal"
ROWS = [
    ["e1", 0, "a", "x", 1, 0], ["e1", 1, "b", "y", 2, 0], ["e1", 2, "c", "x", 3, 1],
    ["e2", 0, "a", "y", 4, 0], ["e2", 1, "c", "y", 5, 0],
]  # fmt: skip


def same(left: Log, right: Log) -> None:
    assert (left.states, left.actions) == (right.states, right.actions)
    assert triples(left) == triples(right)
    assert np.array_equal(left.counts.r_rest, right.counts.r_rest)
    assert np.array_equal(np.asarray(left.starts), np.asarray(right.starts))
    assert left.accounting == right.accounting


def test_the_last_row_of_an_episode_ends_it_if_flagged_and_is_cut_off_otherwise(
    tmp_path: Path,
) -> None:
    log = read_log(write(tmp_path / "log.csv", ROWS, DERIVED))
    assert triples(log) == {
        ("a", "x", "b"): (1, 1),
        ("b", "y", "c"): (1, 2),
        ("c", "x", "(end)"): (1, 3),
        ("a", "y", "c"): (1, 4),
    }
    assert dict(log.accounting.left_out) == {"cut": 1}
    assert log.terminal.tolist() == [False, False, False, True]
    assert log.problem(0.9).n_bound_states == 3


def test_episode_end_terminal_makes_the_last_rows_ends(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log.csv", ROWS, DERIVED), episode_end="terminal")
    assert triples(log)["c", "y", "(end)"] == (1, 5)
    assert log.accounting.n_left_out == 0


def test_without_time_the_order_in_the_files_is_the_order(tmp_path: Path) -> None:
    header = "episode,state,action,reward"
    write(tmp_path / "part-2.csv", [["e1", "c", "x", 3], ["e2", "d", "x", 4]], header)
    write(
        tmp_path / "part-1.csv",
        [["e1", "a", "x", 1], ["e2", "z", "x", 9], ["e1", "b", "x", 2]],
        header,
    )
    log = read_log(tmp_path)
    assert set(triples(log)) == {("a", "x", "b"), ("b", "x", "c"), ("z", "x", "d")}
    same(log, read_log([tmp_path / "part-2.csv", tmp_path / "part-1.csv"]))
    same(log, read_log(str(tmp_path / "*.csv")))


def test_gaps_in_ids_make_no_phantom_states(tmp_path: Path) -> None:
    log = read_log(
        {
            "episode": np.zeros(3),
            "state": np.array([7, 5_000_000, 7]),
            "action": np.array([3, 900, 3]),
            "reward": np.ones(3),
        }
    )
    assert log.states == (7, 5_000_000)
    assert log.actions == (3, 900)


def test_labels_of_text_files_stay_text_and_keep_their_zeros(tmp_path: Path) -> None:
    rows = [["e", "01", "1", 0], ["e", "1", "01", 0], ["e", "1.0", "1", 0]]
    assert read_log(write(tmp_path / "log.csv", rows, "episode,state,action,reward")).states == (
        "01",
        "1",
        "1.0",
    )


def test_several_columns_make_one_label(tmp_path: Path) -> None:
    rows = [
        ["p", 1, "icu", 3, "x", 1, 0],
        ["p", 2, "icu", 4, "x", 1, 0],
        ["p", 3, "home", 4, "y", 1, 1],
    ]
    path = write(tmp_path / "log.csv", rows, "patient,time,ward,severity,action,reward,terminal")
    log = read_log(path, state="ward, severity", episode="patient")
    assert log.states == (("home", "4"), ("icu", "3"), ("icu", "4"), "(end)")
    assert (("icu", "3"), "x", ("icu", "4")) in triples(log)
    assert log.batch().state.tolist() == [1, 2, 0]
    with_next = [
        [*row, follow, n]
        for row, (follow, n) in zip(rows, [("icu", 4), ("home", 4), ("", "")], strict=True)
    ]
    given = write(
        tmp_path / "given.csv",
        with_next,
        "patient,time,ward,severity,action,reward,terminal,next_ward,next_severity",
    )
    same(log, read_log(given, state=["ward", "severity"], episode="patient"))


def test_a_label_that_is_the_name_of_the_extra_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(surefoot.LogError, match="rename it"):
        read_log(write(tmp_path / "log.csv", [["e", 0, "(end)", "x", 1, 1]], DERIVED))


def test_csv_gzip_and_parquet_give_the_same_log(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", ROWS, DERIVED)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    duckdb.sql(
        f"copy (from read_csv('{path}', all_varchar = true)) to '{tmp_path}/log.parquet' (format"
        " parquet)"
    )
    (tmp_path / "packed.parquet.gz").write_bytes(
        gzip.compress((tmp_path / "log.parquet").read_bytes())
    )
    for other in ("log.csv.gz", "log.parquet", "packed.parquet.gz"):
        same(read_log(path), read_log(tmp_path / other))


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_the_delimiter_is_read_from_the_header(tmp_path: Path, delimiter: str) -> None:
    path = write(tmp_path / "log.csv", ROWS, DERIVED)
    (tmp_path / "other.csv").write_text(path.read_text().replace(",", delimiter))
    same(read_log(path), read_log(tmp_path / "other.csv"))


@pytest.mark.parametrize("name", ["odd [1]*?.csv", "it's.csv", 'quo"te.csv', "ünïcode 日.csv"])
def test_file_names_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    write(tmp_path / "odd 1xx.csv", ROWS[:1], DERIVED)
    assert read_log(write(tmp_path / name, ROWS, DERIVED)).accounting.rows == 5


@pytest.mark.parametrize(
    "name", ['na"me', "drop table", "it's", "Straße", "a;b", "select", "$1", "{x}"]
)
def test_column_names_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "log.csv", ROWS, DERIVED.replace("state", name))
    duckdb.sql(
        f"copy (from read_csv('{path}', all_varchar = true)) to '{tmp_path}/log.parquet' (format"
        " parquet)"
    )
    for file in (path, tmp_path / "log.parquet"):
        assert read_log(file, state=[name]).states == ("a", "b", "c", "(end)")


def test_columns_that_differ_in_case_alone_are_two(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [[*row, "other"] for row in ROWS], DERIVED + ",STATE")
    assert read_log(path, state="state").states[0] == "a"


@pytest.mark.slow
def test_tables_in_memory_give_the_same_log(tmp_path: Path) -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    whole = read_log(write(tmp_path / "log.csv", ROWS, DERIVED))
    columns = dict(zip(DERIVED.split(","), map(list, zip(*ROWS, strict=True)), strict=True))
    for table in (
        pandas.DataFrame(columns),
        pyarrow.table(columns),
        {k: np.array(v) for k, v in columns.items()},
    ):
        same(whole, read_log(table))


@pytest.mark.slow
def test_missing_next_states_of_a_pandas_table_lead_to_the_end() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {
            "episode": [1, 1, 2],
            "state": [3, 4, 3],
            "action": [0, 1, 1],
            "reward": [1.0, 2.0, 3.0],
            "terminal": [0, 1, 1],
        }
    )
    table["next_state"] = [4.0, np.nan, np.nan]
    log = read_log(table)
    assert log.states == (3, 4, "(end)")
    assert set(triples(log)) == {(3, 0, 4), (4, 1, "(end)"), (3, 1, "(end)")}


def test_text_and_numbers_as_state_and_next_state_are_refused() -> None:
    columns = {"episode": [1], "state": [3], "action": [0], "reward": [1.0]}
    with pytest.raises(surefoot.LogError, match="same type"):
        read_log({k: np.array(v) for k, v in columns.items()} | {"next_state": np.array(["3"])})


def test_one_long_log_is_one_episode_if_asked(tmp_path: Path) -> None:
    path = write(
        tmp_path / "log.csv", [["a", "x", 1], ["b", "x", 1], ["a", "x", 2]], "state,action,reward"
    )
    assert set(triples(read_log(path, episode="-"))) == {("a", "x", "b"), ("b", "x", "a")}


@pytest.mark.parametrize("sparse", [False, True])
def test_the_scatter_of_rewards_is_that_of_the_array_interface(
    tmp_path: Path, sparse: bool
) -> None:
    rng = np.random.default_rng(0)
    n = 3000
    s, a, reward = rng.integers(0, 4, n), rng.integers(0, 3, n), 1e6 + rng.normal(size=n)
    table = {
        "episode": np.zeros(n),
        "time": np.arange(n),
        "state": s,
        "action": a,
        "reward": reward,
    }
    log = read_log(table, sparse=sparse, threads=2)
    arrays = surefoot.problem(
        state=s, action=a, reward=reward, episode=np.zeros(n), gamma=0.9, sparse=sparse
    )
    assert np.allclose(log.counts.r_rest, arrays.counts.r_rest, rtol=1e-7)
    assert np.array_equal(log.counts.n_sa, arrays.counts.n_sa)


def test_labels_and_counts_do_not_depend_on_the_order_of_rows_or_on_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [
        [
            f"e{i // 50}",
            i % 50,
            f"s{rng.integers(9)}",
            f"a{rng.integers(3)}",
            int(rng.integers(5)),
            0,
        ]
        for i in range(2000)
    ]
    whole = read_log(write(tmp_path / "log.csv", rows, DERIVED), threads=1)
    for seed in range(3):
        mixed = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
        again = read_log(write(tmp_path / "mixed.csv", mixed, DERIVED), threads=2)
        assert again.states == whole.states
        assert triples(again) == triples(whole)
        assert np.array_equal(again.counts.r_rest, whole.counts.r_rest)
        assert np.array_equal(np.asarray(again.starts), np.asarray(whole.starts))


def test_without_checking_the_order_counts_are_the_same_and_the_start_must_be_given(
    tmp_path: Path,
) -> None:
    header = "episode,time,state,action,reward,next_state"
    path = write(
        tmp_path / "log.csv", [["e", 0, "a", "x", 1, "b"], ["e", 1, "b", "x", 1, "a"]], header
    )
    log = read_log(path, check_order=False)
    assert triples(log) == triples(read_log(path))
    with pytest.raises(surefoot.ProblemError, match="start"):
        log.problem(0.9)
    assert log.problem(0.9, start="a").start.tolist() == [1, 0]


def test_progress_is_reported_in_words_and_shares(tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    read_log(
        write(tmp_path / "log.csv", ROWS, DERIVED),
        progress=lambda what, share: seen.append((what, share)),
    )
    assert any("counting" in what for what, _ in seen)
    assert all(0 <= share <= 1 for _, share in seen)


def test_the_temporary_folder_goes_with_the_log(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log.csv", ROWS, DERIVED))
    assert log.workspace is not None
    folder = log.workspace.path
    assert folder.exists()
    del log
    assert not folder.exists()


def test_importing_surefoot_does_not_import_duckdb() -> None:
    import subprocess
    import sys

    code = "import sys, surefoot; sys.exit('duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
