"""Tables of other libraries: relations of DuckDB, and whatever hands out Arrow data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_logs_read import same, triples

import surefoot
from support import logfiles
from support.documents import blocks
from surefoot import LogError
from surefoot.logs import Log, read_log

duckdb = pytest.importorskip("duckdb")


class Stream:
    """An object of a library that nobody knows, with the Arrow interface."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class Broken:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise ValueError("no rows to give")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return logfiles.good_log(tmp_path)


def test_a_relation_is_a_log(log: Path) -> None:
    connection = duckdb.connect()
    relation = connection.from_csv_auto(str(log))
    same(read_log(relation), read_log(log))
    some = connection.sql("select * from relation where time > 0")
    assert read_log(some).accounting.rows == 480
    assert len(relation.fetchall()) == 600  # it is still there for its owner


def test_a_relation_of_no_connection_of_its_own_is_a_log(log: Path) -> None:
    same(read_log(duckdb.sql(f"from read_csv('{log}')")), read_log(log))


@pytest.mark.slow
def test_whatever_hands_out_arrow_data_is_a_log(log: Path) -> None:
    pytest.importorskip("pyarrow")
    table = duckdb.sql(f"from read_csv('{log}')").to_arrow_table()
    same(read_log(Stream(table)), read_log(log))
    with pytest.raises(LogError, match="the table cannot be read: no rows to give"):
        read_log(Broken())


def test_rows_of_a_relation_are_discretized_and_decided(tmp_path: Path) -> None:
    rows = "select 'e' as episode, i as time, i % 10 as pulse, 'a' as action, 1 as reward"
    relation = duckdb.sql(f"{rows} from range(40) t(i)")
    done = surefoot.discretize(relation, tmp_path / "out.csv", edges={"pulse": [5]})
    assert done.counts == (20, 20)
    found = read_log(tmp_path / "out.csv")
    assert set(triples(found)) >= {("pulse < 5", "a", "pulse >= 5")}
    policy = surefoot.Policy(
        pi=[[1.0, 0.0], [0.0, 1.0]],
        labels=surefoot.Labels(("pulse < 5", "pulse >= 5"), ("wait", "treat")),
    )
    new = duckdb.sql(f"from read_csv('{tmp_path}/out.csv')")
    decided = surefoot.apply(policy, new, action_column="-")
    assert decided.rows == 40


def test_a_table_with_a_missing_measurement_is_named(tmp_path: Path) -> None:
    table = {"episode": [0, 0], "pulse": [50.0, float("nan")], "action": [1, 1], "reward": [0, 0]}
    with pytest.raises(LogError, match=r"'pulse' is missing .*in row 2 of the table"):
        surefoot.discretize(table, tmp_path / "out.csv", edges={"pulse": [60]})


@pytest.mark.parametrize("source", [7, object(), [], {}])
def test_what_is_no_log_is_refused(source: Any) -> None:
    with pytest.raises(LogError, match="polars or Arrow table, a DuckDB relation"):
        read_log(source)


def joined(folder: Path, monkeypatch: pytest.MonkeyPatch, outcomes: str) -> Log:
    """The log of the page's query, with other outcomes."""
    code = next(x.text for x in blocks("your-log.md") if "stays.csv" in x.text)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(code.replace("1,survived\\n2,died\\n", outcomes), names)
    return names["log"]  # type: ignore[no-any-return]


def test_the_query_of_the_page_joins_stays_vitals_and_outcomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = joined(tmp_path, monkeypatch, "1,survived\\n2,died\\n")
    assert (log.n_episodes, log.n_ended, log.rewards) == (2, 2, (0.0, 1.0))
    assert set(log.states) - {("(end)",), "(end)"} == {
        (ward, high) for ward in ("north", "south") for high in (False, True)
    }
    again = read_log(
        "log.parquet", episode="patient", time="taken", state="ward,high", action="treatment",
        reward="outcome", values={"survived": 1, "died": 0}, missing_reward=0,
        episode_end="terminal",
    )  # fmt: skip
    same(log, again)
    unknown = joined(tmp_path, monkeypatch, "1,survived\\n")
    assert unknown.n_episodes == 2
    assert any("1 of 2 episodes have no reward at all" in x for x in unknown.notes)
