"""Units of a log: they partition it, follow its episodes, and count what the log counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import surefoot
from support import logfiles
from surefoot.evidence import units_of_batch, units_of_log
from surefoot.evidence.units import BLOCKS, horizon, take_rows
from surefoot.logs import read_log


@pytest.mark.parametrize("sparse", [False, True])
def test_the_parts_of_a_log_count_what_the_log_counts(sparse: bool) -> None:
    problem = logfiles.random_problem(sparse=sparse)
    parts = units_of_batch(problem.log, problem.gamma)
    first = np.arange(parts.number) % 3 == 0
    one, other = (parts.some(x).counts(as_sparse=sparse) for x in (first, ~first))
    both = one + other
    dense = (lambda x: x.toarray()) if sparse else np.asarray
    assert np.array_equal(dense(both.n_sas), dense(problem.counts.n_sas))
    assert np.allclose(dense(both.r_sas), dense(problem.counts.r_sas))
    assert np.allclose(both.r_rest, problem.counts.r_rest)
    assert 0 < one.n_sa.sum() < both.n_sa.sum()


def test_many_episodes_are_units_of_their_own() -> None:
    problem = logfiles.random_problem(episodes=60)
    parts = units_of_batch(problem.log, problem.gamma)
    assert (parts.number, parts.kind) == (60, "episodes")
    assert np.array_equal(parts.unit, problem.log.episode)


def test_very_many_episodes_share_units_and_none_is_split() -> None:
    problem = logfiles.random_problem(n=4400, episodes=2200)
    parts = units_of_batch(problem.log, problem.gamma)
    assert parts.number == 1000
    for episode in (0, 7, 2199):
        assert len(set(parts.unit[problem.log.episode == episode])) == 1


def test_a_long_trajectory_is_cut_into_contiguous_blocks_longer_than_the_horizon() -> None:
    problem = logfiles.random_problem(n=3000, episodes=1)
    parts = units_of_batch(problem.log, problem.gamma)
    assert parts.number == BLOCKS
    assert np.array_equal(np.unique(np.diff(parts.unit)), [0, 1])
    assert np.bincount(parts.unit).min() >= horizon(problem.gamma) == 10


def test_a_few_long_episodes_are_units_and_not_cut() -> None:
    problem = logfiles.random_problem(n=3001, episodes=7)
    parts = units_of_batch(problem.log, problem.gamma)
    assert (parts.number, parts.kind, parts.blocks) == (7, "episodes", False)
    assert np.array_equal(parts.unit, problem.log.episode)


def test_rows_of_chosen_blocks_are_cut_where_a_block_stops() -> None:
    problem = logfiles.random_problem(n=300, episodes=1)
    parts = units_of_batch(problem.log, problem.gamma)
    chosen = np.zeros(parts.number, dtype=bool)
    chosen[[2, 3, 5]] = True
    batch = take_rows(problem.log, chosen[parts.unit], parts.unit)
    assert batch.n_episodes == 3  # neighbours are apart, too
    assert np.array_equal(parts.unit[batch.row][batch.first], [2, 3, 5])
    assert batch.contradictions() is None
    assert np.array_equal(batch.row, np.flatnonzero(chosen[parts.unit]))


def test_a_log_read_block_by_block_gives_the_counts_of_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read_log(logfiles.good_log(tmp_path, n=1000))
    problem = log.problem(0.9)
    blocks = type(log).blocks
    monkeypatch.setattr(type(log), "blocks", lambda self, rows=90: blocks(self, 90))
    streamed = units_of_log(log, 0.9)
    assert (streamed.number, streamed.kind) == (200, "episodes")  # as in memory
    counts = streamed.counts(as_sparse=False)
    assert np.array_equal(counts.n_sas, problem.counts.n_sas)
    assert np.allclose(counts.r_sas, problem.counts.r_sas)
    assert np.allclose(counts.r_rest, problem.counts.r_rest)


def test_a_long_trajectory_read_block_by_block_is_cut_into_blocks(tmp_path: Path) -> None:
    rows = [("e", i, *row[2:]) for i, row in enumerate(logfiles.steps(2000))]
    log = read_log(logfiles.write(tmp_path / "one.csv", logfiles.HEADER, rows))
    streamed = units_of_log(log, 0.9)
    assert streamed.number > 50
    assert streamed.k.sum() == log.accounting.used


def test_counts_alone_have_no_units(tmp_path: Path) -> None:
    from dataclasses import replace

    log = replace(read_log(logfiles.good_log(tmp_path)), reading=None)
    with pytest.raises(surefoot.NotAvailableError, match="counts alone"):
        units_of_log(log, 0.9)
