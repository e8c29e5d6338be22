"""Logs that other libraries hold: a real Minari dataset on disk, polars tables; the same log as
from the arrays themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_logs_read import same

from surefoot.core.errors import LogError
from surefoot.logs import read_log, rollout_columns


def rollouts() -> dict[str, np.ndarray]:
    gymnasium = pytest.importorskip("gymnasium")
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    return rollout_columns(
        lake,
        lambda state, rng: rng.integers(4),
        np.random.default_rng(0),
        episodes=30,
        max_steps=20,
    )


def buffers(table: dict[str, np.ndarray]) -> list[Any]:
    """The episodes as Minari records them: one observation more than actions."""
    from minari.data_collector import EpisodeBuffer

    found = []
    for number in np.unique(table["episode"]):
        rows = {name: x[table["episode"] == number] for name, x in table.items()}
        observations = [*rows["state"].tolist(), int(rows["next_state"][-1])]
        lists = {
            "actions": "action",
            "rewards": "reward",
            "terminations": "terminal",
            "truncations": "truncated",
        }
        found.append(
            EpisodeBuffer(
                id=int(number),
                observations=observations,
                **{k: rows[v].tolist() for k, v in lists.items()},
            )
        )
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`eval_env` is set to None")
def test_a_minari_dataset_on_disk_is_the_log_of_its_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip(
        "minari", reason="Minari is an extra: pip install 'surefoot[minari]'"
    )
    gymnasium = pytest.importorskip("gymnasium")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    table = rollouts()
    dataset = minari.create_dataset_from_buffers(
        dataset_id="lake/rollouts-v0",
        buffer=buffers(table),
        env=gymnasium.make("FrozenLake-v1", is_slippery=False),
        algorithm_name="uniform",
        author="surefoot",
        author_email="none@example.org",
        code_permalink="none",
        description="a test",
        data_format="arrow",
    )
    whole = read_log(table)
    assert whole.terminal.any()
    same(whole, read_log(dataset))
    same(whole, read_log(minari.load_dataset("lake/rollouts-v0")))


@pytest.mark.slow
def test_a_polars_table_is_the_log_of_its_columns() -> None:
    polars = pytest.importorskip("polars", reason="polars is a guest, not a dependency")
    table = rollouts()
    same(read_log(table), read_log(polars.DataFrame(table)))
    labels = {
        **table,
        "state": [f"s{x}" for x in table["state"]],
        "next_state": [f"s{x}" for x in table["next_state"]],
    }
    named = read_log(polars.DataFrame(labels))
    assert set(named.states) == {f"s{x}" for x in read_log(table).states}


def test_columns_that_are_lists_are_the_log_of_their_arrays() -> None:
    lists = {
        "episode": [0, 0, 1, 1],
        "state": ["a", "b", "a", "b"],
        "action": [1, 2, 1, 2],
        "reward": [0.0, 1.0, 0.5, 1.0],
        "next_state": ["b", "a", "b", "a"],
    }
    same(read_log(lists), read_log({name: np.array(x) for name, x in lists.items()}))
    mixed = read_log(lists | {"reward": [0, 1.5, None, 1]}, missing_reward=0)
    assert mixed.counts.r_sas.sum() == 2.5
    with pytest.raises(LogError, match="without a state"):
        read_log(lists | {"state": ["a", None, "a", "b"]})
