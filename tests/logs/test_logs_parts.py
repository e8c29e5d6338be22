"""Logs counted in parts, on a cluster, and logs that are no files: the same counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_logs_read import same
from test_logs_returns import columns

from surefoot.logs import (
    add_up,
    count_part,
    make_log,
    read_log,
    rollout_columns,
)
from surefoot.logs.read import options_of, tallies_on_dask

duckdb = pytest.importorskip("duckdb")


def parquet(folder: Path, table: dict[str, np.ndarray], files: int) -> Path:
    """A log in several files; episodes span them."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("steps", table)
        for i in range(files):
            connection.execute(
                f"copy (from steps where time % {files} = {i}) to '{folder}/part-{i}.parquet'"
                " (format parquet)"
            )
    return folder


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("parts", [1, 3, 40])
def test_parts_of_the_episodes_add_up_to_the_whole(tmp_path: Path, given: bool, parts: int) -> None:
    folder = parquet(tmp_path, columns(given=given), 3)
    options, _ = options_of()
    tally = add_up(count_part(folder, options, (i, parts)) for i in range(parts))
    whole, again = read_log(folder), make_log(tally, options)
    assert np.allclose(whole.counts.r_rest, again.counts.r_rest)
    assert np.allclose(whole.counts.r_sas, again.counts.r_sas)
    assert np.array_equal(whole.counts.n_sas, again.counts.n_sas)
    assert np.array_equal(np.asarray(whole.starts), np.asarray(again.starts))
    assert (whole.states, whole.accounting, whole.rewards, whole.notes) == (
        again.states,
        again.accounting,
        again.rewards,
        again.notes,
    )


@pytest.mark.parametrize("as_sparse", [True, False])
def test_parts_by_file_add_up_where_next_state_is_given_and_order_does_not_matter(
    tmp_path: Path, as_sparse: bool
) -> None:
    folder = parquet(tmp_path, columns(given=True), 3)
    options, _ = options_of(check_order=False)
    tally = add_up(count_part(file, options) for file in sorted(folder.iterdir()))
    whole = read_log(folder, check_order=False, sparse=as_sparse)
    found = tally.counts(as_sparse=as_sparse)
    assert np.allclose(found.r_rest, whole.counts.r_rest)
    assert abs(found.n_sas - whole.counts.n_sas).sum() == 0
    assert abs(found.r_sas - whole.counts.r_sas).max() < 1e-12


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"check_order": False}, {"next_state": "-"}])
def test_a_cluster_counts_what_one_machine_counts(tmp_path: Path, options: dict[str, Any]) -> None:
    distributed = pytest.importorskip("distributed")
    folder = parquet(tmp_path, columns(given=True), 3)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        made, _ = options_of(**options)
        tallies = tallies_on_dask(cluster.scheduler_address, folder, made, parts=None, fewest=1)
        found = make_log(add_up(tallies), made)
    whole = read_log(folder, **options)
    assert np.array_equal(found.counts.n_sas, whole.counts.n_sas)
    assert np.allclose(found.counts.r_rest, whole.counts.r_rest)
    assert (found.states, found.accounting) == (whole.states, whole.accounting)


def test_a_gymnasium_rollout_is_a_log() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    environment = gymnasium.make("FrozenLake-v1", is_slippery=False)
    table = rollout_columns(
        environment,
        lambda state, rng: rng.integers(4),
        np.random.default_rng(0),
        episodes=40,
        max_steps=30,
    )
    log = read_log(table)
    assert log.accounting.used == len(table["state"])
    assert {5, 7, 11, 12} & {
        log.states[i] for i in np.flatnonzero(log.terminal)
    }  # holes end the episode
    assert log.n_episodes == 40


def test_reading_twice_gives_the_same_log() -> None:
    same(read_log(columns()), read_log(columns()))
