"""Several threads, files cut anywhere, labels as text: the same counts, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot import LogError, ProblemError
from surefoot.logs import Log, read_log
from surefoot.logs.database import Database, Workspace

duckdb = pytest.importorskip("duckdb")

ROWS, LENGTH = 1200, 12
MANY = 24_000  # rows in several row groups, which threads share


def table(length: int = LENGTH, next_state: bool = True, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Episodes of this many steps with text labels, in order."""
    rng = np.random.default_rng(3)
    episodes = rows // length
    state = rng.integers(0, 5, (episodes, length + 1)).astype(str)
    columns = {
        "episode": np.repeat([f"e{i:03d}" for i in range(episodes)], length),
        "time": np.tile(np.arange(length), episodes),
        "state": state[:, :-1].ravel(),
        "action": rng.choice(["stay", "go", "wait for it"], rows),
        "reward": rng.integers(-2, 3, rows) / 10,
    }
    return columns | ({"next_state": state[:, 1:].ravel()} if next_state else {})


def write(folder: Path, columns: dict[str, np.ndarray], cuts: tuple[int, ...]) -> Path:
    """Parquet files that end at these rows."""
    folder.mkdir()
    for low, high in zip((0, *cuts), (*cuts, len(columns["state"])), strict=True):
        with duckdb.connect(
            config={"threads": 1}
        ) as connection:  # see test_text_in_memory_is_whole
            connection.register("part", {name: x[low:high] for name, x in columns.items()})
            connection.execute(
                f"copy (select * from part) to '{folder}/{low:05d}.parquet' (format parquet,"
                " row_group_size 2048)"
            )
    return folder


def bits(log: Log) -> tuple[Any, ...]:
    counts = log.counts
    return (
        log.states,
        log.actions,
        log.rewards,
        *(np.asarray(x).tobytes() for x in (counts.n_sas, counts.r_sas, counts.r_rest, log.starts)),
    )


@pytest.mark.parametrize("next_state", [True, False])
@pytest.mark.parametrize("cuts", [(), (600,), (5, 7, 607), (300, 301, 900)])
def test_parts_side_by_side_give_the_same_bits(
    tmp_path: Path, next_state: bool, cuts: tuple[int, ...]
) -> None:
    folder = write(tmp_path / "log", table(next_state=next_state), cuts)
    alone = read_log(folder, threads=1)
    for threads in (2, 3, 5):
        log = read_log(folder, threads=threads)
        assert bits(log) == bits(alone)
        assert log.workspace is not None
        assert not (log.workspace.path / "ordered.parquet").exists()  # all were found in order


@pytest.mark.parametrize(
    ("reward", "next_state"), [("tenths", False), ("any", True), ("of all sizes", False)]
)
def test_no_bit_depends_on_threads_or_on_the_order_of_rows(
    tmp_path: Path, reward: str, next_state: bool
) -> None:
    columns = table(next_state=next_state, rows=MANY)
    rng = np.random.default_rng(0)
    if reward != "tenths":
        columns["reward"] = rng.normal(size=MANY) * 10.0 ** (
            rng.uniform(-30, 30, MANY) if reward == "of all sizes" else 0
        )
    orders = (np.arange(MANY), rng.permutation(MANY))
    folders = [
        write(tmp_path / str(i), {name: x[order] for name, x in columns.items()}, (MANY // 3,))
        for i, order in enumerate(orders)
    ]
    logs = [read_log(folder, threads=threads) for threads in (1, 2, 4) for folder in folders]
    assert len({bits(log) for log in logs}) == 1
    assert len({log.accounting for log in logs}) == 1


@pytest.mark.parametrize("kind", ["numpy", pytest.param("category", marks=pytest.mark.slow)])
def test_text_in_memory_is_whole(tmp_path: Path, kind: str) -> None:
    """DuckDB 2.0.0 with four threads found some of it empty in one of ten such copies."""
    names = np.repeat([f"e{i:03d}" for i in range(MANY // LENGTH)], LENGTH)
    given: Any = {"episode": names}
    if kind == "category":
        given = pytest.importorskip("pandas").DataFrame(given).astype("category")
    database = Database(Workspace(), threads=4)
    file = tmp_path / "copy.parquet"
    for _ in range(40):
        with database.table("given_table", given):
            database.run("a copy", f"copy given_table to '{file}' (row_group_size 2048)")
        found = database.arrays("reading it", f"select episode::varchar as e from '{file}'")["e"]
        assert (np.asarray(found) == names).all()
    assert database.rows("its threads", "select current_setting('threads')") == [(4,)]


def test_episodes_that_span_files_stay_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table(length=600), (200,))
    log = read_log(folder, threads=4)
    assert log.n_episodes == 2
    assert bits(log) == bits(read_log(folder, threads=1))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_without_times_the_rows_are_read_in_order(tmp_path: Path, threads: int) -> None:
    columns = table(next_state=False, rows=MANY)
    timed = read_log(write(tmp_path / "timed", columns, ()), threads=1)
    del columns["time"]
    folder = write(tmp_path / "log", columns, (MANY // 2 + 1,))  # within an episode
    log = read_log(folder, threads=threads)
    assert log.n_episodes == MANY // LENGTH
    assert bits(log) == bits(timed)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("time", 0, "same episode and time"), ("next_state", "9", "next_state")],
)
def test_a_fault_in_the_second_part_is_found(
    tmp_path: Path, column: str, value: Any, said: str
) -> None:
    columns = table()
    columns[column][ROWS - 3] = value
    folder = write(tmp_path / "log", columns, (600,))
    with pytest.raises(LogError, match=f"{ROWS - 600 - 2}") as side:
        read_log(folder, threads=2)
    with pytest.raises(LogError) as alone:
        read_log(folder, threads=1)
    assert str(side.value) == str(alone.value)


def test_an_episode_in_two_parts_of_the_log_is_put_together(tmp_path: Path) -> None:
    columns = table(next_state=False)
    order = np.concatenate(
        (np.arange(6), np.arange(LENGTH, ROWS), np.arange(6, LENGTH))
    )  # the first episode goes on at the end
    moved = {name: x[order] for name, x in columns.items()}
    log = read_log(write(tmp_path / "moved", moved, (600,)), threads=2)
    assert bits(log) == bits(read_log(write(tmp_path / "log", columns, (600,)), threads=1))


def test_an_action_that_is_not_allowed_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table(), (600,))
    assert read_log(folder).actions == ("go", "stay", "wait for it")
    with pytest.raises(LogError, match="wait for it"):
        read_log(folder, actions=["go", "stay"])


def test_an_action_that_only_a_cut_row_takes_is_none(tmp_path: Path) -> None:
    columns = table(next_state=False)
    columns["action"] = columns["action"].astype("U20")
    columns["action"][-1] = "never followed"
    assert "never followed" not in read_log(write(tmp_path / "log", columns, ())).actions


def test_a_missing_action_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "log.parquet"
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("part", table())
        connection.execute(
            f"copy (select * replace (nullif(action, 'stay') as action) from part) to '{folder}'"
            " (format parquet)"
        )
    with pytest.raises(LogError, match="action"):
        read_log(folder)


@pytest.mark.parametrize("column", ["episode", "time"])
def test_an_episode_of_one_row_without_a_name_or_a_time_is_found(
    tmp_path: Path, column: str
) -> None:
    file = tmp_path / "log.parquet"
    missing = (
        f"select * replace (case when episode <> 'e007' then {column} end as {column}) from part"
        " where episode <> 'e007' or time = 0"
    )
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("part", table())
        connection.execute(f"copy ({missing}) to '{file}' (format parquet)")
    with pytest.raises(LogError, match=f"row 85 .*{column} missing"):
        read_log(file)


def test_only_episodes_whose_first_row_is_used_count_as_starts() -> None:
    columns = {
        "episode": ["e", "e", "f", "g", "g"],
        "time": [0, 1, 0, 0, 1],
        "state": ["a", "b", "a", "b", "a"],
        "action": ["x"] * 5,
        "reward": [1.0, 1.0, 1.0, 1.0, 1.0],
    }
    log = read_log({name: np.array(x) for name, x in columns.items()})
    assert (log.states, np.asarray(log.starts).tolist()) == (("a", "b"), [1, 1])  # f is cut at once
    columns |= {"reward": [np.nan, 1.0, 1.0, 1.0, 1.0], "next_state": ["b", "a", "b", "a", "b"]}
    log = read_log({name: np.array(x) for name, x in columns.items()}, drop_bad_rows="reward")
    assert (log.states, np.asarray(log.starts).tolist()) == (("a", "b"), [1, 1])  # e lost its first


def test_more_threads_than_any_machine_has_are_refused() -> None:
    table = {"episode": [1, 1], "state": ["a", "b"], "action": ["x", "x"], "reward": [1.0, 2.0]}
    with pytest.raises(ProblemError, match="threads must be a whole number from 1 to 1,024"):
        read_log(table, threads=10**6)
