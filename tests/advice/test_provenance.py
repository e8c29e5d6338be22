"""Provenance: episodes of the training log are found in a tested log, whatever is done to it,
and honest logs are not accused.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import logfiles
from surefoot import PolicyError
from surefoot.advice.provenance import (
    PIECE,
    Fingerprints,
    as_bytes,
    of_rows,
    read_fingerprints,
    shared_episodes,
)
from surefoot.report.folder import TRAINING

Run = Any
Rows = list[list[str]]
Columns = dict[str, np.ndarray]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: logfiles.run(monkeypatch, capsys, *arguments)


def rows_in(path: Path) -> Rows:
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))[1:]


def renamed(rows: Rows, prefix: str = "other-") -> Rows:
    return [[prefix + row[0], *row[1:]] for row in rows]


def shuffled(rows: Rows) -> Rows:
    return random.Random(0).sample(rows, len(rows))


def one_step(folder: Path, name: str, seed: int, n: int = 400) -> Path:
    """Two wards, two actions, success or not: eight kinds of episode."""
    return logfiles.visits(folder / name, n=n, better=0.3, seed=seed)


def many_steps(folder: Path, name: str, seed: int) -> Path:
    return logfiles.write(
        folder / name, logfiles.HEADER, logfiles.steps(n=1000, better=1.0, seed=seed)
    )


CASES = {
    "one step": (one_step, logfiles.VISIT, logfiles.coin),
    "many steps": (many_steps, logfiles.HEADER, logfiles.rule),
}


@pytest.mark.parametrize("case", CASES)
def test_the_training_log_is_found_in_every_disguise_and_a_new_log_is_not(
    case: str, tmp_path: Path, run: Run
) -> None:
    make, header, _ = CASES[case]
    rule = (
        logfiles.coin(tmp_path / "rule.csv", 0.5) if case == "one step" else logfiles.rule(tmp_path)
    )
    old, new = rows_in(make(tmp_path, "old.csv", 0)), rows_in(make(tmp_path, "new.csv", 1))
    given = ("--gamma", 0.9, "--baseline", rule)
    run("improve", tmp_path / "old.csv", *given, "--out", tmp_path / "made")
    assert (
        json.loads((tmp_path / "made" / "summary.json").read_text())["training_fingerprints"]
        == TRAINING
    )

    def tested(rows: Sequence[Sequence[str]]) -> tuple[int, str]:
        log = logfiles.write(tmp_path / "tested.csv", header, rows)
        code, text, said = run(
            "safety-test",
            log,
            *given,
            "--policy",
            tmp_path / "made" / "policy.csv",
            "--observed-range",
        )
        return code, text + said

    for rows in (
        old[1:],
        old[:-1],
        renamed(old)[5:],
        shuffled(old)[5:],
        renamed(shuffled(old)[5:] if case == "one step" else old[5:]),
    ):
        code, said = tested(rows)
        assert code == 2, said
        assert "test it on data it was not made from" in said
    code, said = tested(new)
    n = len({row[0] for row in new})
    assert f"none of the {n:,} episodes was found among those the policy was made from" in said
    code, said = tested(old[: len(old) // 2] + renamed(new[: len(new) // 2]))
    assert code != 2, said
    assert (
        f"{n // 2:,} of {n:,} episodes are, or have the names of, episodes that the policy was made"
        " from: LEFT OUT" in logfiles.one_line(said)
    )
    assert f"tested    {n - n // 2:,} episodes" in said


def test_a_policy_without_its_fingerprints_says_that_overlap_was_not_checked(
    tmp_path: Path, run: Run
) -> None:
    log, rule, pi = (
        one_step(tmp_path, "log.csv", 0),
        logfiles.coin(tmp_path / "rule.csv", 0.5),
        logfiles.coin(tmp_path / "pi.csv", 0.9),
    )
    given = (
        "safety-test",
        log,
        "--policy",
        pi,
        "--gamma",
        0.9,
        "--baseline",
        rule,
        "--reward-range",
        "0,1",
        "--horizon",
        1,
    )
    _, text, _ = run(*given)
    assert (
        "training could not check whether the policy was made from these episodes; there is no"
        " training.npz beside the policy" in logfiles.one_line(text)
    )
    (tmp_path / TRAINING).write_bytes(b"no such thing")
    code, _, said = run(*given)
    assert (code, "cannot be read as the fingerprints of a log" in said) == (2, True)


def log_of(
    rng: np.random.Generator,
    n: int,
    steps: int,
    kinds: int,
    label: int = 0,
    *,
    continuous: bool = False,
) -> Columns:
    """n episodes of so many steps among few states, actions and rewards."""
    size = n * steps
    state, action = (
        rng.integers(0, kinds, size).astype(np.uint64) * np.uint64(k)
        for k in (1_000_003, 2_000_029)
    )
    reward = rng.normal(size=size) if continuous else (rng.random(size) < 0.3) * 1.0
    return {
        "label": (label + np.arange(n)).astype(np.uint64),
        "state": state,
        "action": action,
        "reward": reward,
        "start": np.arange(0, size, steps),
    }


def part(log: Columns, which: np.ndarray, steps: int) -> Columns:
    rows = (which[:, None] * steps + np.arange(steps)).ravel()
    found = {name: log[name][rows] for name in ("state", "action", "reward")}
    return found | {"label": log["label"][which], "start": np.arange(0, len(rows), steps)}


@pytest.mark.parametrize("steps", [1, 3, 30])
@pytest.mark.parametrize("kinds", [2, 12])
def test_no_honest_log_is_accused_though_it_uses_the_same_names(steps: int, kinds: int) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found = shared_episodes(
            of_rows(**log_of(rng, 80, steps, kinds)), of_rows(**log_of(rng, 120, steps, kinds))
        )
        assert (found.left_out.any(), found.share, found.trouble) == (False, 0.0, "")


def test_content_that_tells_episodes_apart_is_found_under_any_name_and_only_it_is_left_out() -> (
    None
):
    rng = np.random.default_rng(0)
    old, new = log_of(rng, 100, 30, 3), log_of(rng, 60, 30, 3, label=500)
    mixed = {
        name: np.concatenate([part(old, np.arange(40), 30)[name], new[name]])
        for name in ("label", "state", "action", "reward")
    }
    mixed["label"] = mixed["label"] + np.uint64(10_000)
    found = shared_episodes(of_rows(**mixed, start=np.arange(0, 3000, 30)), of_rows(**old))
    assert np.array_equal(found.left_out, np.arange(100) < 40)
    assert found.share == 0.4


def test_among_look_alikes_those_with_known_names_are_left_out_whatever_their_outcome() -> None:
    """To leave out only those with the same content would favour outcomes that are rare."""
    rng = np.random.default_rng(1)
    old, new = log_of(rng, 400, 1, 2), log_of(rng, 400, 1, 2, label=200)
    mixed = {
        name: np.concatenate([part(old, np.arange(200), 1)[name], new[name]])
        for name in ("label", "state", "action", "reward")
    }
    found = shared_episodes(of_rows(**mixed, start=np.arange(600)), of_rows(**old))
    assert np.array_equal(
        found.left_out, np.arange(600) < 400
    )  # new ones called 200..399 go too, 400..599 stay


def test_a_missing_row_or_a_longer_episode_does_not_hide_the_rest_of_an_episode() -> None:
    old = log_of(np.random.default_rng(0), 30, 4 * PIECE, 3)
    kept = np.delete(np.arange(120 * PIECE), 2 * PIECE)
    shorter = {name: old[name][kept] for name in ("state", "action", "reward")} | {
        "label": old["label"] + np.uint64(99)
    }
    found = shared_episodes(
        of_rows(**shorter, start=np.append(0, old["start"][1:] - 1)), of_rows(**old)
    )
    assert found.left_out.all()


def test_fingerprints_are_what_the_rows_say_and_survive_a_file(tmp_path: Path) -> None:
    log = log_of(np.random.default_rng(0), 12, 25, 3, continuous=True)
    found = of_rows(**log)
    assert len(found) == 12
    assert len(found.piece) == 12 * (25 - PIECE + 1)
    assert len(np.unique(found.content)) == 12
    again = of_rows(**part(log, np.array([7, 2]), 25))
    assert np.array_equal(again.content, found.content[[7, 2]])
    assert np.array_equal(again.piece[again.of == 0], found.piece[found.of == 7])
    (tmp_path / TRAINING).write_bytes(as_bytes(found))
    read = read_fingerprints(tmp_path / TRAINING)
    assert isinstance(read, Fingerprints)
    assert all(
        np.array_equal(getattr(read, name), getattr(found, name))
        for name in ("label", "content", "head", "piece", "of")
    )
    (tmp_path / TRAINING).write_bytes(as_bytes(found)[:100])
    with pytest.raises(PolicyError, match="cannot be read"):
        read_fingerprints(tmp_path / TRAINING)
