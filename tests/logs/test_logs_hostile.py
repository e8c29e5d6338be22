"""Hostile log files: the right answer, or an error in words that names what is wrong; never
another exception, never a lost row.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_logs_read import agrees

from support import mutated_logs, naive_logs
from support.effort import few
from surefoot import SurefootError
from surefoot.logs import read_log

duckdb = pytest.importorskip("duckdb")

QUICK, MANY = range(80), range(80, 2400)


def check(path: Path, content: bytes) -> str:
    """What became of a file: "read", "refused", or "dropped" where bad rows had to be left out."""
    path.write_bytes(content)
    try:
        log = read_log(path, threads=1)
    except SurefootError as error:
        assert len(str(error).split()) >= 5, error
        return check_dropping(path)
    agrees(log, naive_logs.read(path))
    return "read"


def check_dropping(path: Path) -> str:
    """With leave to drop bad rows every row of the file is accounted for."""
    try:
        log = read_log(path, threads=1, drop_bad_rows=True)
    except SurefootError as error:
        assert len(str(error).split()) >= 5, error
        return "refused"
    assert log.accounting.n_left_out > 0
    assert log.counts.n_sas.sum() == log.accounting.used
    try:
        rows = naive_logs.records(path)
    except naive_logs.UnreadableError:
        return "dropped"
    assert log.accounting.rows == len(rows) - 1
    return "dropped"


def test_mutated_files_are_read_rightly_or_refused_in_words(tmp_path: Path) -> None:
    found = [check(tmp_path / "log.csv", mutated_logs.mutated(seed)) for seed in QUICK]
    assert found.count("read") > len(found) / 5
    assert found.count("dropped") > len(found) / 10


@pytest.mark.slow
@pytest.mark.parametrize("start", few(range(MANY.start, MANY.stop, 232), 0))
def test_thousands_of_mutated_files_are_read_rightly_or_refused_in_words(
    tmp_path: Path, start: int
) -> None:
    for seed in range(start, start + 232):
        try:
            check(tmp_path / "log.csv", mutated_logs.mutated(seed))
        except BaseException:
            shutil.copy(tmp_path / "log.csv", tmp_path / f"failed-{seed}.csv")
            print(f"seed {seed}")
            raise


@given(st.binary(max_size=300), st.sampled_from([".csv", ".parquet", ".csv.gz", ".tsv"]))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_bytes_are_refused_in_words(
    tmp_path_factory: Any, content: bytes, ending: str
) -> None:
    path = tmp_path_factory.mktemp("bytes") / f"log{ending}"
    path.write_bytes(content)
    with pytest.raises(SurefootError):
        read_log(path)


def test_parquet_files_with_flipped_bytes_are_read_or_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    rows = ", ".join(
        f"('e{i // 4}', {i % 4}, 's{i * 7 % 5}', 'a{i % 3}', {i / 8},"
        f" {'true' if i % 4 == 3 else 'false'})"
        for i in range(40)
    )
    duckdb.sql(
        f"copy (select * from (values {rows}) t(episode, time, state, action, reward, terminal)) to"
        f" '{path}' (format parquet)"
    )
    whole = path.read_bytes()
    read_log(path)
    for seed in range(60):
        rng = random.Random(seed)
        raw = bytearray(whole)
        for _ in range(rng.choice([1, 2, 10])):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        path.write_bytes(bytes(raw))
        try:
            log = read_log(path, threads=1)
        except SurefootError as error:
            assert len(str(error).split()) >= 5
        else:
            assert log.counts.n_sas.sum() == log.accounting.used
