"""Datasets of reinforcement learning: arrays by D4RL's names, in memory and in files, and episodes
as Minari and d3rlpy hold them, are the log of their steps.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_logs_read import same
from typer.testing import CliRunner

import surefoot
from surefoot.cli import app
from surefoot.core.errors import SurefootError
from surefoot.logs import read_log

# episode:  0  0  0 | 1  1 | 2 | 3  3
STEPS = {
    "observations": np.array([0, 1, 2, 0, 1, 2, 1, 0]),
    "actions": np.array([0, 1, 0, 1, 0, 1, 0, 1]),
    "rewards": np.array([0.0, 0.0, 1.0, 0.0, 0.0, 5.0, 0.0, 0.0]),
    "terminals": np.array([0, 0, 1, 0, 0, 1, 0, 0], dtype=bool),
    "timeouts": np.array([0, 0, 0, 0, 1, 0, 0, 0], dtype=bool),
}
# the same, said in the words of a table; the last two rows are cut by the end of the data
TABLE = {
    "episode": [0, 0, 0, 1, 1, 2, 3, 3],
    "time": [0, 1, 2, 0, 1, 0, 0, 1],
    "state": STEPS["observations"],
    "action": STEPS["actions"],
    "reward": STEPS["rewards"],
    "terminal": STEPS["terminals"],
    "truncated": STEPS["timeouts"],
}


def changed(**changes: Any) -> dict[str, Any]:
    return {x: y for x, y in {**STEPS, **changes}.items() if y is not None}


def test_episodes_go_on_to_the_step_that_ended_or_was_cut() -> None:
    log = read_log(STEPS)
    same(log, read_log(TABLE))
    assert (log.n_episodes, log.n_ended, log.accounting.left_out_as("cut")) == (4, 2, 2)


@pytest.mark.parametrize(
    "arrays",
    [
        changed(observations=STEPS["observations"].astype("float32")[:, None]),
        changed(actions=STEPS["actions"][:, None], rewards=STEPS["rewards"][:, None]),
        changed(terminals=STEPS["terminals"].astype(float)),
        changed(timeouts=STEPS["timeouts"] | STEPS["terminals"]),  # what ended was not cut
        changed(
            terminals=None,
            timeouts=None,
            terminations=STEPS["terminals"],
            truncations=STEPS["timeouts"],
        ),
        changed(infos=np.zeros((8, 3)), version=np.array(2), labels=np.array([b"x"] * 8)),
        {x: list(y) for x, y in STEPS.items()},
    ],
    ids=["float32 rows", "columns", "float flags", "both flags", "Gymnasium", "more", "lists"],
)
def test_shapes_and_types_of_other_programs_are_the_same_log(arrays: dict[str, Any]) -> None:
    same(read_log(arrays), read_log(TABLE))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=40))
def test_with_next_observations_no_cut_step_is_lost_and_timeouts_need_not_be_said(
    steps: list[tuple[int, int]],
) -> None:
    """D4RL's arrays for Q-learning have next observations and no timeouts."""
    seen, kind = (np.array(x) for x in zip(*steps, strict=True))
    ended, cut = kind == 1, kind == 2
    follow = np.append(seen[1:], 9)
    follow[ended | cut] = 7  # where nobody acts
    arrays = {
        "observations": seen,
        "actions": seen % 2,
        "rewards": np.ones(len(seen)),
        "next_observations": follow,
        "terminals": ended,
    }
    told, found = read_log({**arrays, "timeouts": cut}), read_log(arrays)
    assert told.accounting.used == len(seen)
    same(told, found)
    assert found.n_episodes == 1 + int((ended | cut)[:-1].sum())


def test_further_arrays_of_one_number_a_step_are_columns() -> None:
    arrays = changed(cost=np.arange(8.0), ward=["a"] * 8, episode_id=[0] * 8)
    log = read_log(
        {**arrays, "terminals": np.zeros(8), "timeouts": np.zeros(8)},
        guard="cost",
        group="ward",
    )
    assert log.n_episodes == 1  # the dataset says which
    columns = log.stored.store.columns
    assert (columns.guard, columns.group) == (("cost",), ("ward",))


@pytest.mark.parametrize("kind", ["npz", "hdf5", "h5"])
def test_a_file_of_arrays_is_the_log_of_its_arrays(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"log.{kind}"
    if kind == "npz":
        np.savez_compressed(file, **STEPS)
    else:
        h5py = pytest.importorskip("h5py", reason="h5py is an extra: pip install 'surefoot[hdf5]'")
        with h5py.File(file, "w") as out:
            for name, x in STEPS.items():
                out[name] = x
            out["infos/qpos"], out["metadata/note"] = np.zeros((8, 2)), "text"
        with h5py.File(file) as opened:
            same(read_log(opened), read_log(TABLE))
    same(read_log(file), read_log(TABLE))
    toml = tmp_path / "log.toml"
    done = CliRunner().invoke(app, ["check", str(file), "--save", str(toml)])
    assert done.exit_code == 0 and "state = observations" in done.stdout
    same(read_log(toml), read_log(TABLE))
    with pytest.raises(SurefootError, match="give it alone"):
        read_log([file, str(file)])


def test_columns_in_a_file_of_numpy_are_a_table(tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", **TABLE)
    same(read_log(tmp_path / "log.npz"), read_log(TABLE))


def test_measurements_are_refused_until_they_are_states(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "observations": rng.normal(size=(400, 3)),
        "actions": rng.normal(size=(400, 1)),
        "rewards": rng.normal(size=400),
        "terminals": np.arange(400) % 10 == 9,
        "timeouts": np.zeros(400),
    }
    with pytest.raises(SurefootError, match=r"observations_0 to observations_2\), and no states"):
        read_log(arrays)
    states, log = tmp_path / "states.csv", tmp_path / "log.csv"
    surefoot.discretize(arrays, states, features=["observations_0", "observations_2"], states=9)
    with pytest.raises(SurefootError, match=r"--features actions_0 --column action"):
        read_log(states)
    surefoot.discretize(states, log, features=["actions_0"], states=2, column="action")
    found = read_log(log)
    assert (found.n_episodes, found.n_ended, found.n_states, found.n_actions) == (40, 40, 10, 2)


def test_whole_numbers_in_several_columns_are_named_as_the_state() -> None:
    arrays = changed(observations=np.stack([STEPS["observations"], np.arange(8) % 2], axis=1))
    with pytest.raises(SurefootError, match=r"--state observations_0,observations_1"):
        read_log(arrays)
    assert (0, 0) in read_log(arrays, state="observations_0,observations_1").states


def episodes(more: int) -> list[Any]:
    """The episodes of STEPS, each with `more` observations than steps."""
    found = []
    for number, (begin, end) in enumerate([(0, 3), (3, 5), (5, 6), (6, 8)]):
        seen = STEPS["observations"][begin:end]
        found.append(
            SimpleNamespace(
                id=number,
                observations=np.append(seen, [9] * more),
                actions=STEPS["actions"][begin:end],
                rewards=STEPS["rewards"][begin:end],
                terminations=STEPS["terminals"][begin:end],
                truncations=~STEPS["terminals"][begin:end] & (np.arange(begin, end) == end - 1),
            )
        )
    return found


def test_a_minari_dataset_has_the_observation_after_the_last_step() -> None:
    dataset = SimpleNamespace(iterate_episodes=lambda: iter(episodes(1)))
    follow = np.array([1, 2, 9, 1, 9, 9, 0, 9])
    truncated = np.array([0, 0, 0, 0, 1, 0, 0, 1])
    expected = {**TABLE, "next_state": follow, "truncated": truncated}
    same(read_log(dataset), read_log(expected))
    assert read_log(dataset).accounting.used == 8


def test_a_dataset_of_d3rlpy_ends_or_cuts_its_episodes_as_a_whole() -> None:
    found = [
        SimpleNamespace(
            observations=x.observations[:, None].astype("float32"),
            actions=x.actions[:, None],
            rewards=x.rewards[:, None].astype("float32"),
            terminated=bool(x.terminations.any()),
        )
        for x in episodes(0)
    ]
    same(read_log(SimpleNamespace(episodes=found)), read_log(TABLE))


WRONG: list[tuple[Any, str]] = [
    (changed(timeouts=None), "nobody can tell where an episode was cut off"),
    (changed(rewards=np.zeros(7)), "rewards have 7 steps and actions 8"),
    (changed(observations=np.arange(9)), "observations have 9 steps and actions 8"),
    (changed(timeouts=np.zeros(3)), "timeouts have 3 steps and actions 8"),
    (changed(rewards=np.zeros((8, 2))), r"rewards have the shape \(8, 2\)"),
    (changed(terminals=np.arange(8)), "terminals are flags, 0 or 1"),
    (changed(terminals=np.full(8, np.nan)), "terminals are flags, 0 or 1"),
    (changed(observations=np.zeros((8, 4, 4))), r"shape \(8, 4, 4\).*take features"),
    (changed(observations={"goal": np.zeros(8)}), "observations are a dict of arrays"),
    (changed(observations=np.arange(8) + 0.5), "and no states"),
    (SimpleNamespace(episodes=[]), "the dataset has no episodes"),
    (SimpleNamespace(episodes=[episodes(3)[0]]), "episode 0 has 6 observations for 3 actions"),
    (SimpleNamespace(episodes=[episodes(0)[0], episodes(1)[1]]), "episode 1 of the dataset has"),
    (
        SimpleNamespace(
            episodes=[
                episodes(0)[0],
                SimpleNamespace(**{**vars(episodes(0)[1]), "observations": np.zeros((2, 4))}),
            ]
        ),
        "do not fit together",
    ),
    (SimpleNamespace(), "datasets? of episodes as Minari"),
]


@pytest.mark.parametrize(("source", "words"), WRONG, ids=[words[:25] for _, words in WRONG])
def test_what_is_no_dataset_is_refused_in_words(source: Any, words: str) -> None:
    with pytest.raises(SurefootError, match=words):
        read_log(source)


def test_a_broken_file_of_arrays_is_refused_in_words(tmp_path: Path) -> None:
    broken, objects = tmp_path / "broken.npz", tmp_path / "objects.npz"
    broken.write_bytes(b"PK no archive")
    np.savez(objects, **changed(note=np.array([{}], dtype=object)))
    for file in (broken, objects):
        with pytest.raises(SurefootError, match="cannot be read as arrays with names"):
            read_log(file)
    (tmp_path / "log.h5").write_bytes(b"no HDF5")
    with pytest.raises(SurefootError, match=r"needs? h5py|cannot be read as arrays"):
        read_log(tmp_path / "log.h5")
