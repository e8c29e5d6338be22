"""Threads that read parts of a log side by side, and keys in place of text: the same counts, to
the last bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot import LogError
from surefoot.logs import Log, read_log
from surefoot.logs import coding as coding_module
from surefoot.logs import side_by_side as side_module
from surefoot.logs.coding import places
from surefoot.logs.database import Database, Workspace
from surefoot.logs.side_by_side import readings_side_by_side

duckdb = pytest.importorskip("duckdb")

ROWS, LENGTH = 1200, 12


def table(length: int = LENGTH, next_state: bool = True) -> dict[str, np.ndarray]:
    """Episodes of this many steps with text labels, in order."""
    rng = np.random.default_rng(3)
    episodes = ROWS // length
    state = rng.integers(0, 5, (episodes, length + 1)).astype(str)
    columns = {
        "episode": np.repeat([f"e{i:03d}" for i in range(episodes)], length),
        "time": np.tile(np.arange(length), episodes),
        "state": state[:, :-1].ravel(),
        "action": rng.choice(["stay", "go", "wait for it"], ROWS),
        "reward": rng.integers(-2, 3, ROWS) / 10,
    }
    return columns | ({"next_state": state[:, 1:].ravel()} if next_state else {})


def write(folder: Path, columns: dict[str, np.ndarray], cuts: tuple[int, ...]) -> Path:
    """Parquet files that end at these rows."""
    folder.mkdir()
    for low, high in zip((0, *cuts), (*cuts, ROWS), strict=True):
        with duckdb.connect() as connection:
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


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads get parts of a few rows, and actions are looked at in small logs too."""
    monkeypatch.setattr(side_module, "SMALLEST", 100)
    monkeypatch.setattr(side_module, "REACH", 50)
    monkeypatch.setattr(coding_module, "WORTH_A_LOOK", 1)


def parts_of(log: Log, threads: int) -> list[int]:
    """How many rows each part has that the threads read."""
    assert log.reading is not None
    with Database(Workspace(), threads) as database:
        found = readings_side_by_side(database, log.reading)
        return [
            int(database.rows("counting", f"select count(*) from {x.steps()}")[0][0]) for x in found
        ]


@pytest.mark.parametrize("next_state", [True, False])
@pytest.mark.parametrize("cuts", [(), (600,), (5, 7, 607), (300, 301, 900)])
def test_parts_side_by_side_give_the_same_bits(
    tmp_path: Path, next_state: bool, cuts: tuple[int, ...], small_parts: None
) -> None:
    folder = write(tmp_path / "log", table(next_state=next_state), cuts)
    alone = read_log(folder, threads=1)
    for threads in (2, 3, 5):
        log = read_log(folder, threads=threads)
        assert bits(log) == bits(alone)
        assert log.workspace is not None
        assert not (log.workspace.path / "ordered.parquet").exists()  # all were found in order
        parts = parts_of(alone, threads)
        assert len(parts) == threads
        assert sum(parts) == ROWS
        assert not any(n % LENGTH for n in parts)  # whole episodes
        assert max(parts) - min(parts) <= 2 * LENGTH


def test_a_log_is_not_cut_within_an_episode(tmp_path: Path, small_parts: None) -> None:
    log = read_log(write(tmp_path / "log", table(length=600), (200,)), threads=4)
    assert parts_of(log, 4) == [
        600,
        600,
    ]  # only one start of an episode lies within reach of a place to cut
    assert log.n_episodes == 2


def test_without_times_one_thread_reads_all(tmp_path: Path, small_parts: None) -> None:
    columns = table()
    del columns["time"]
    log = read_log(write(tmp_path / "log", columns, (600,)), threads=4)
    assert parts_of(log, 4) == [ROWS]
    assert log.n_episodes == ROWS // LENGTH


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("time", 0, "same episode and time"), ("next_state", "9", "next_state")],
)
def test_a_fault_in_the_second_part_is_found(
    tmp_path: Path, column: str, value: Any, said: str, small_parts: None
) -> None:
    columns = table()
    columns[column][ROWS - 3] = value
    folder = write(tmp_path / "log", columns, (600,))
    with pytest.raises(LogError, match=f"{ROWS - 600 - 2}") as side:
        read_log(folder, threads=2)
    with pytest.raises(LogError) as alone:
        read_log(folder, threads=1)
    assert str(side.value) == str(alone.value)


def test_an_episode_in_two_parts_of_the_log_is_put_together(
    tmp_path: Path, small_parts: None
) -> None:
    columns = table(next_state=False)
    order = np.concatenate(
        (np.arange(6), np.arange(LENGTH, ROWS), np.arange(6, LENGTH))
    )  # the first episode goes on at the end
    moved = {name: x[order] for name, x in columns.items()}
    log = read_log(write(tmp_path / "moved", moved, (600,)), threads=2)
    assert bits(log) == bits(read_log(write(tmp_path / "log", columns, (600,)), threads=1))


def test_keys_of_actions_count_what_labels_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "log", table(), (600,))
    labels = read_log(folder)
    monkeypatch.setattr(coding_module, "WORTH_A_LOOK", 1)
    keys = read_log(folder)
    assert bits(keys) == bits(labels)
    assert keys.actions == ("go", "stay", "wait for it")
    assert keys.reading == labels.reading  # the rows are read again with their labels
    assert np.array_equal(keys.batch().action, labels.batch().action)
    monkeypatch.setattr(coding_module, "FEW", 2)
    assert bits(read_log(folder)) == bits(labels)
    with pytest.raises(LogError, match="wait for it"):
        read_log(folder, allowed=["go", "stay"])


def test_an_action_that_only_a_cut_row_takes_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = table(next_state=False)
    columns["action"] = columns["action"].astype("U20")
    columns["action"][-1] = "never followed"
    folder = write(tmp_path / "log", columns, ())
    labels = read_log(folder)
    monkeypatch.setattr(coding_module, "WORTH_A_LOOK", 1)
    assert bits(read_log(folder)) == bits(labels)
    assert "never followed" not in labels.actions


def test_a_missing_action_is_named_with_keys_too(tmp_path: Path, small_parts: None) -> None:
    folder = tmp_path / "log.parquet"
    with duckdb.connect() as connection:
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
    with duckdb.connect() as connection:
        connection.register("part", table())
        connection.execute(f"copy ({missing}) to '{file}' (format parquet)")
    with pytest.raises(LogError, match=f"row 85 .*{column} missing"):
        read_log(file)


def test_labels_whose_hashes_collide_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "log", table(), ())
    right = bits(read_log(folder))
    asked = []

    def hashes(x: str, kind: int) -> str:
        asked.append(kind)
        return f"hash({x}) // (1::ubigint << 63)" if kind == 0 else f"hash({x}, {kind})"

    monkeypatch.setattr(coding_module, "_hash", hashes)
    assert bits(read_log(folder)) == right
    assert {0, 1} <= set(asked)


@pytest.mark.parametrize("n", [1, 2, 1000, 50_000])
def test_places_are_those_of_the_numbers(n: int) -> None:
    rng = np.random.default_rng(n)
    among = rng.permutation(np.unique(rng.integers(0, 2**64, n, dtype=np.uint64)))
    among[: n // 3] >>= np.uint64(40)  # many begin alike
    among = np.unique(among)
    wanted = rng.integers(0, len(among), 5000)
    assert np.array_equal(places(among[wanted], among), wanted)
    with pytest.raises(Exception, match="missing in its table"):
        places(np.array([among.max() - np.uint64(1)]), among[among != among.max() - np.uint64(1)])
