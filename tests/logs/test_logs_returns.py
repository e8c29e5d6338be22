"""Monte-Carlo returns and problems of logs in files: what the array interface computes, in
blocks of any size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.logs import Log, read_log

pytest.importorskip("duckdb")
S, A = 4, 3


def columns(seed: int = 0, episodes: int = 30, given: bool = True) -> dict[str, np.ndarray]:
    """Episodes of 1 to 9 steps, rows shuffled; about half end in state 3, the others are flagged
    truncated.
    """
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for episode in range(episodes):
        n, ended = rng.integers(2, 10), rng.random() < 0.5
        path = [*rng.integers(0, S - 1, n), S - 1 if ended else 0]
        for t in range(n):
            last = t == n - 1
            rows.append(
                (
                    episode,
                    t,
                    path[t],
                    rng.integers(0, A),
                    rng.normal(),
                    path[t + 1],
                    last and ended,
                    last and not ended,
                )
            )
    mixed = [rows[i] for i in rng.permutation(len(rows))]
    names = ("episode", "time", "state", "action", "reward", "next_state", "terminal", "truncated")
    table = {name: np.array(x) for name, x in zip(names, zip(*mixed, strict=True), strict=True)}
    return table if given else {name: x for name, x in table.items() if name != "next_state"}


def close(left: surefoot.Returns, right: surefoot.Returns) -> None:
    assert np.array_equal(left.n, right.n)
    assert left.cut == right.cut
    assert np.allclose(left.mean, right.mean, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert np.allclose(left.m2, right.m2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    ("visits", "cut_returns"),
    [("every", "as-end"), ("first", "leave-out"), ("thinned", "as-end"), ("every", 3)],
)
def test_returns_of_a_log_are_those_of_its_arrays(
    given: bool, visits: str, cut_returns: str | int
) -> None:
    table = columns(given=given)
    arrays = surefoot.problem(**table, gamma=0.8, cut_returns=cut_returns)
    close(
        read_log(table).returns(0.8, visits=visits, cut_returns=cut_returns),
        arrays.returns_of(visits),
    )


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 50, 10_000])
def test_blocks_hold_whole_episodes_whatever_their_size(given: bool, rows: int) -> None:
    log = read_log(columns(given=given))
    blocks = list(log.blocks(rows))
    parts = [surefoot.monte_carlo(block, 0.8) for block in blocks]
    close(sum(parts[1:], parts[0]), log.returns(0.8))
    assert sum(len(block) for block in blocks) == log.accounting.used


def test_one_episode_of_a_million_steps_has_the_right_returns() -> None:
    n, gamma = 1_000_000, 0.99
    log = read_log(
        {
            "time": np.arange(n),
            "state": np.zeros(n, dtype=int),
            "action": np.zeros(n, dtype=int),
            "reward": np.ones(n),
            "terminal": np.arange(n) == n - 1,
        },
        episode="-",
    )
    returns = log.returns(gamma)
    left = np.arange(n, 0, -1)
    assert returns.mean[0, 0] == pytest.approx(((1 - gamma**left) / (1 - gamma)).mean(), rel=1e-12)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_problem_of_a_log_is_that_of_its_arrays(given: bool, sparse: bool) -> None:
    table = columns(seed=3, given=given)
    ours = read_log(table, sparse=sparse).problem(0.9)
    theirs = surefoot.problem(**table, gamma=0.9, sparse=sparse)
    for name in ("pi_b", "start", "terminal", "allowed", "n_sa", "r", "seen"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name)), name
    assert (ours.return_range, ours.reward_range, ours.n_bound_states) == (
        theirs.return_range,
        theirs.reward_range,
        theirs.n_bound_states,
    )
    assert ours.pi_b_estimated
    assert "estimated" in "".join(ours.notes)
    close(ours.returns, theirs.returns)


def test_a_large_log_carries_its_returns_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.logs.log.IN_MEMORY", 10)
    log = read_log(columns())
    assert log.problem(0.9, needs_returns=True).returns_given is not None
    with pytest.raises(surefoot.NotAvailableError, match="returns"):
        log.problem(0.9).returns  # noqa: B018


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"reward_range": (0, 1)}, "reward_range"),
        ({"return_range": (0, 0.01)}, "return_range"),
        ({"start": "nowhere"}, "not in the log"),
        ({"pi_b": np.ones((2, 2))}, "pi_b"),
        ({"gamma": 2}, "gamma"),
        ({"allowed": np.zeros((S, A), dtype=bool)}, "no allowed action"),
    ],
)
def test_a_wrong_declaration_is_refused_in_words(option: dict[str, Any], words: str) -> None:
    log = read_log(columns())
    with pytest.raises(surefoot.SurefootError, match=words):
        log.problem(**{"gamma": 0.9, **option})


@pytest.mark.parametrize("in_memory", [10, 10_000])
def test_every_return_of_a_log_is_checked_against_a_declared_range(
    in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole episodes are worth 1 each, and the second half of every one 2."""
    monkeypatch.setattr("surefoot.logs.log.IN_MEMORY", in_memory)
    n = 20
    table = {
        "episode": np.repeat(np.arange(n), 2),
        "time": np.tile([0, 1], n),
        "state": np.tile([0, 1], n),
        "action": np.zeros(2 * n, int),
    }
    log = read_log(
        {**table, "reward": np.tile([-1.0, 2.0], n), "terminal": np.tile([False, True], n)}
    )
    assert log.problem(1.0, return_range=(1, 2)).return_range.declared
    with pytest.raises(
        surefoot.ProblemError, match=r"the return from row 1 on is 2 \(at least \d+ such rows\)"
    ):
        log.problem(1.0, return_range=(0, 1))
    with pytest.raises(surefoot.ProblemError, match="the return from row 0 on is 1 "):
        log.problem(1.0, return_range=(1.5, 3))
    unread = log.problem(
        1.0, return_range=(1.5, 3), needs_returns=False
    )  # counts show the rewards of last steps alone
    assert any("checked against last steps only" in x for x in unread.notes)
    with pytest.raises(surefoot.ProblemError, match="go from 2 to 2"):
        log.problem(1.0, return_range=(0, 1), needs_returns=False)


def test_a_batch_is_the_log_in_order_with_codes() -> None:
    table = columns(given=False)
    batch, log = read_log(table).batch(), read_log(table)
    arrays = surefoot.problem(**table, gamma=0.9).log
    assert arrays is not None
    for name in ("state", "action", "reward", "next_state", "episode", "ends", "truncated"):
        assert np.array_equal(getattr(batch, name), getattr(arrays, name)), name
    assert (batch.left_out, batch.n_states) == (arrays.left_out, log.n_states)


def test_rows_of_many_files_are_one_log(tmp_path: Path) -> None:
    table = columns()
    whole = read_log(table)
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("steps", table)
        for i in range(4):
            connection.execute(
                f"copy (from steps where episode % 4 = {3 - i}) to '{tmp_path}/part-{i}.parquet'"
                " (format parquet)"
            )
    parts: Log = read_log(tmp_path)
    assert np.array_equal(parts.counts.n_sas, whole.counts.n_sas)
    close(parts.returns(0.7), whole.returns(0.7))


@pytest.mark.slow
def test_rows_come_in_order_whatever_the_row_groups_of_the_file(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    n = 7000
    state = np.arange(n) % 7
    table = {
        "episode": np.zeros(n, dtype=int),
        "time": np.arange(n),
        "state": state,
        "action": state % 3,
        "reward": np.arange(n) * 1.0,
    }
    parquet.write_table(pyarrow.table(table), tmp_path / "log.parquet", row_group_size=2051)
    log = read_log(tmp_path / "log.parquet")
    assert np.array_equal(log.batch().reward, np.arange(n - 1))
    assert np.array_equal(
        np.concatenate([part.reward for part in log.blocks(500)]), np.arange(n - 1)
    )
