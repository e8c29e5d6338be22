"""Sums and scatters of rewards: the same to the last bit whatever the threads and the order of
the rows, and right.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from surefoot import LogError
from surefoot.logs import Log, read_log
from surefoot.logs.counting import RewardSums

duckdb = pytest.importorskip("duckdb")

RNG = np.random.default_rng(0)
N = 6000
REWARDS = {
    "whole numbers": RNG.integers(-3, 4, N).astype(float),
    "three decimals": np.round(RNG.normal(size=N), 3),
    "any": RNG.normal(size=N),
    "far from 0": 1e6 + RNG.normal(size=N),
    "of two sizes": np.where(RNG.random(N) < 0.5, 1e9, 1e-3) * (1 + 0.1 * RNG.normal(size=N)),
    "of all sizes": 10.0 ** RNG.uniform(-30, 30, N),
    "one decimal, always": np.full(N, 0.1),
}


def steps(reward: np.ndarray) -> dict[str, np.ndarray]:
    """A log in order: episodes of ten steps, three states, two actions."""
    rng = np.random.default_rng(1)
    state = rng.integers(0, 3, (N // 10, 11))
    return {
        "episode": np.repeat(np.arange(N // 10), 10),
        "time": np.tile(np.arange(10), N // 10),
        "state": state[:, :-1].ravel(),
        "action": rng.integers(0, 2, N),
        "reward": reward,
        "next_state": state[:, 1:].ravel(),
    }


def bits(log: Log) -> tuple[bytes, ...]:
    """Counts, sums and scatters to the last bit."""
    return tuple(
        np.asarray(x).tobytes()
        for x in (log.counts.n_sas, log.counts.r_sas, log.counts.r_rest, log.starts, log.rewards)
    )


@pytest.mark.parametrize("kind", ["three decimals", "any", "of all sizes"])
def test_no_bit_depends_on_threads_or_on_the_order_of_files(tmp_path: Path, kind: str) -> None:
    table = steps(REWARDS[kind])
    seen = set()
    for threads, order in (
        (1, (0, 1, 2, 3)),
        (2, (0, 1, 2, 3)),
        (4, (0, 1, 2, 3)),
        (1, (3, 1, 0, 2)),
        (2, (2, 0, 3, 1)),
    ):
        folder = tmp_path / f"{threads}-{order[0]}"
        folder.mkdir()
        for place, part in enumerate(order):  # whole episodes, so that each file is in order
            rows = {
                name: column[part * N // 4 : (part + 1) * N // 4] for name, column in table.items()
            }
            with duckdb.connect() as connection:
                connection.register("rows", rows)
                connection.execute(f"copy rows to '{folder}/{place}.parquet' (format parquet)")
        seen.add(bits(read_log(folder, threads=threads)))
    assert len(seen) == 1
    assert bits(read_log(folder, threads=4, check_order=False))[:3] == seen.pop()[:3]


@pytest.mark.parametrize("kind", REWARDS)
def test_sums_and_scatters_are_those_of_exact_arithmetic(kind: str) -> None:
    table = steps(REWARDS[kind])
    log = read_log(table)
    value = [
        Fraction(repr(x) if "decimal" in kind else x) for x in table["reward"].tolist()
    ]  # 0.1 means a tenth
    at = (table["state"], table["action"], table["next_state"])
    exact = np.full((3, 2, 3), Fraction(0))
    scatter = np.full((3, 2), Fraction(0))
    np.add.at(exact, at, value)
    means = exact / log.counts.n_sas.astype(int)
    np.add.at(scatter, at[:2], [(x - mean) ** 2 for x, mean in zip(value, means[at], strict=True)])
    np.testing.assert_allclose(log.counts.r_sas, exact.astype(float), rtol=4e-16)
    if kind == "one decimal, always":
        assert not log.counts.r_rest.any()
    else:
        np.testing.assert_allclose(log.counts.r_rest, scatter.astype(float), rtol=1e-10)


@pytest.mark.parametrize("rows", [1, 1000, 10**6, 10**8, 10**10])
def test_the_whole_numbers_fit_in_their_integers(rows: int) -> None:
    high, low, count = RewardSums(rows, 1.0, 1.0).bits
    assert rows < 2**count
    assert rows * 2 ** (2 * high) < 2**127
    assert rows * (2 ** (high + low + count) + 2 ** (low - 1)) < 2**127
    assert rows * 2 ** (low - 1) < 2 ** (low + count - 1)


def test_the_way_is_that_of_the_rewards() -> None:
    assert RewardSums(10**8, 1.5, 0.001, 1000).way == "steps"
    assert RewardSums(10**8, 1.5, 0.001, 10_000).way == "parts"
    assert RewardSums(10**8, 1.5, 1e-9).way == "parts"
    assert RewardSums(10**8, 1e9, 1e-9).way == "sorted"
    assert RewardSums(1000, 0.0, 0.0).way == "parts"


ORDERED = {
    "in the order of their names": ["a", "b", "c"],
    "counted up": ["run-9", "run-10", "run-11"],
    "in no order": ["b", "c", "a"],
}


@pytest.mark.parametrize("names", ORDERED)
@pytest.mark.parametrize("follow", [True, False])
def test_episodes_that_lie_together_need_no_sorting(
    tmp_path: Path, names: str, follow: bool
) -> None:
    lines = ["episode,time,state,action,reward" + ",next_state" * follow]
    for name in ORDERED[names]:
        lines += [f"{name},{t},s{i},x,1" + f",s{i + 1}" * follow for i, t in enumerate((1, 2, 10))]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    log = read_log(path)
    assert log.workspace is not None
    assert not (log.workspace.path / "ordered.parquet").exists()
    assert log.n_episodes == 3
    assert len(log.batch()) == log.accounting.used == (9 if follow else 6)


def test_an_episode_that_comes_again_is_one_episode(tmp_path: Path) -> None:
    rows = ["a,0,s,x,1", "a,1,t,x,1", "b,0,s,x,1", "b,1,t,x,1", "a,2,u,x,1"]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["episode,time,state,action,reward", *rows]) + "\n")
    log = read_log(path)
    assert (log.n_episodes, log.accounting.used, log.accounting.left_out_as("cut")) == (2, 3, 2)


@pytest.mark.parametrize("late", [0.5, 0.12345])
def test_the_range_of_rewards_is_that_of_the_rows_used(late: float) -> None:
    """The last row of a cut episode has the largest reward, and leads nowhere without
    next_state.
    """
    table = steps(np.tile([-1.0, 2.0, late, 0, 0, 0, 0, 0, 0, 7.0], N // 10))
    assert read_log(table).rewards == (-1.0, 7.0)
    del table["next_state"]
    assert read_log(table).rewards == (-1.0, 2.0)


LATE = {
    "none": {},
    "no multiple": {4000: 0.12345},
    "large": {4000: 1e7},
    "two sizes": {4000: 1e9, 5000: 1e-9},
}


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("late", LATE)
def test_no_bit_depends_on_where_an_odd_reward_lies(late: str, given: bool) -> None:
    """The first episodes are all of whole thousandths, or come after those that are not."""
    reward = REWARDS["three decimals"].copy()
    for row, value in LATE[late].items():
        reward[row] = value
    table = steps(reward)
    if not given:
        del table["next_state"]
    log = read_log(table, threads=2)
    turned = np.arange(N).reshape(-1, 10)[::-1].ravel()
    again = read_log({name: column[turned] for name, column in table.items()}, threads=2)
    assert bits(log) == bits(again)
    assert log.accounting == again.accounting


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("reward", np.nan, "reward"),
        ("reward", np.inf, "reward"),
        ("time", 0, "time"),
        ("next_state", 7, "next"),
        ("episode", 2, "episode"),
    ],
)
def test_a_late_fault_is_named(
    tmp_path: Path, column: str, value: float, said: str, text: bool
) -> None:
    table = steps(REWARDS["three decimals"])
    table[column] = table[column].astype(float)
    table[column][5005] = value
    file = tmp_path / ("log.csv" if text else "log.parquet")
    with duckdb.connect() as connection:
        connection.register("rows", table)
        connection.execute(f"copy rows to '{file}' (format {'csv' if text else 'parquet'})")
    with pytest.raises(LogError, match=said):
        read_log(file)
