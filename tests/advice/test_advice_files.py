"""The files of an improvement: whole or not at all, never a mix of two runs, and labels that
come back as they were.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import logfiles
from support.kills import killed_at
from surefoot.advice import learn_and_test, summarise, write_advice
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.core.atomic import write_together
from surefoot.core.errors import PolicyError, WriteError
from surefoot.core.labels import as_cell
from surefoot.core.plain_values import plain
from surefoot.logs import load_policy, read_log, read_policy

HOSTILE = (
    '=HYPERLINK("http://x","y")',
    "<script>alert(1)</script>",
    'comma, "quote"\nand line',
    "@SUM(A1)",
    "-1",
    "ключ 漢字 🛶",
)
NAMES = ("a.csv", "b.csv", "policy.csv")


class Stopped(BaseException):
    """Stands for an interruption: no handler of ours catches it."""


def old_and_new(folder: Path) -> set[str]:
    """The runs whose files lie in a folder."""
    return {(folder / name).read_text() for name in NAMES if (folder / name).exists()}


@pytest.mark.parametrize("stop", range(14))
def test_wherever_writing_stops_one_complete_run_is_there(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_together(tmp_path, {name: ["old"] for name in NAMES}, last="policy.csv", known=NAMES)
    steps = iter(range(100))

    def counted(call: object) -> object:
        def wrapped(*arguments: object, **options: object) -> object:
            if next(steps) == stop:
                raise Stopped
            return call(*arguments, **options)

        return wrapped

    with monkeypatch.context() as patch:
        for owner, name in ((os, "replace"), (os, "fsync"), (Path, "unlink")):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            write_together(
                tmp_path, {name: ["new"] for name in NAMES}, last="policy.csv", known=NAMES
            )
        except Stopped:
            pass
        else:
            assert stop >= 12  # 4 fsync, 3 unlink, 4 replace, and the list goes
    assert len(old_and_new(tmp_path)) == 1
    assert sorted(x.name for x in tmp_path.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("step", range(13))
def test_a_killed_writer_leaves_a_whole_result_to_the_next_reader(
    step: int, tmp_path: Path
) -> None:
    def run(word: str) -> object:
        content = {name: [f"state,action,probability\n{word},go,1\n"] for name in NAMES}
        return write_together(tmp_path, content, last="policy.csv", known=NAMES)

    run("old")
    died = killed_at(step, lambda: run("new"))
    (state,) = load_policy(tmp_path / "policy.csv").labels.states
    assert {(tmp_path / name).read_text().split()[1] for name in NAMES} == {f"{state},go,1"}
    assert state == "new" or (state == "old" and died)
    run("newest")
    assert sorted(x.name for x in tmp_path.iterdir()) == sorted(NAMES)


def write_for_ever(folder: str, ready: Any) -> None:
    run = 0
    while True:
        run += 1
        text = [f"{run:08d}\n"] * 20_000
        write_together(folder, dict.fromkeys(NAMES, text), last="policy.csv", known=NAMES)
        ready.set()


def killed_writer(folder: Path, rng: random.Random, kills: int) -> None:
    context = multiprocessing.get_context(
        "forkserver"
    )  # a server that has imported what writers need: kills by the dozen are cheap
    context.set_forkserver_preload(["surefoot.core.atomic"])
    for _ in range(kills):
        ready = context.Event()
        writer = context.Process(target=write_for_ever, args=(str(folder), ready), daemon=True)
        writer.start()
        assert ready.wait(60)
        time.sleep(rng.random() * 0.05)
        writer.kill()
        writer.join()
        assert writer.exitcode == -signal.SIGKILL
        if (folder / "policy.csv").exists():
            texts = {(folder / name).read_text() for name in NAMES}
            assert len(texts) == 1
            (text,) = texts
            assert len(text) == 9 * 20_000
            assert len(set(text.split())) == 1


def test_a_killed_process_leaves_no_half_written_policy(tmp_path: Path) -> None:
    killed_writer(tmp_path, random.Random(0), 2)


@pytest.mark.slow
@pytest.mark.long
def test_a_process_killed_many_times_leaves_no_half_written_policy(tmp_path: Path) -> None:
    killed_writer(tmp_path, random.Random(1), 40)


def test_hostile_labels_come_back_as_they_were(tmp_path: Path) -> None:
    rows = logfiles.steps(900, labels=HOSTILE[:3])
    rows = [(e, t, s, HOSTILE[3] if a == "try" else HOSTILE[5], r) for e, t, s, a, r in rows]
    log = read_log(logfiles.write(tmp_path / "log.csv", logfiles.HEADER, rows))
    problem = log.problem(0.9)
    advice = learn_and_test(log, problem, chosen_algorithm(problem))
    files = write_advice(tmp_path / "out", advice, summarise(advice, "log.csv"))
    policy = load_policy(files["policy.csv"])
    assert policy.labels.state_columns == ("state",)
    assert set(policy.labels.states) == set(HOSTILE[:3])
    assert set(policy.labels.actions) == {HOSTILE[3], HOSTILE[5]}
    again = read_policy(files["policy.csv"], log, probability="probability")
    assert np.allclose(again.pi, advice.pi, atol=1e-15)
    with open(files["changes.csv"], newline="", encoding="utf-8") as file:
        assert {row["state"] for row in csv.DictReader(file)} == set(map(as_cell, HOSTILE[:3]))


def test_every_label_is_quoted_so_that_no_program_takes_it_for_a_number(tmp_path: Path) -> None:
    log = read_log(logfiles.good_log(tmp_path, labels=("1", "-2", "3e5")))
    problem = log.problem(0.9)
    advice = learn_and_test(log, problem, chosen_algorithm(problem))
    text = write_advice(tmp_path / "out", advice, {})["policy.csv"].read_text()
    assert '"3e5","keep",' in text


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"file.out cannot be written"):
        write_together(
            tmp_path / "file" / "out",
            {"policy.csv": [""]},
            last="policy.csv",
            known=("policy.csv",),
        )


def test_numbers_that_json_cannot_hold_become_null() -> None:
    given = {
        "a": [np.nan, np.inf, np.float64(1), np.int64(2)],
        "b": (True, np.bool_(False), None),
        "c": {"d": Path("x")},
    }
    assert json.loads(json.dumps(plain(given), allow_nan=False)) == {
        "a": [None, None, 1, 2],
        "b": [True, False, None],
        "c": {"d": "x"},
    }


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no policy"),
        ("state,reward\nx,1\n", "no policy"),
        ("action,state,probability\nx,y,1\n", "before the column action"),
        ("state,action,probability\nx,y\n", "line 2"),
        ("state,action,probability\nx,y,2\n", "must hold a probability, got 2"),
        ("state,action,probability\nx,y,nan\n", "must hold a probability, got nan"),
        ("state,action,probability\nx,y,0.5\n", "sum to 0.5"),
        ("state,action,probability\nx,y,0.5\nx,y,0.5\n", "row 2 of the policy repeats"),
        ('state,action,probability\n"x,y,0.5\n', "cannot be read"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_in_words(text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(PolicyError, match=word):
        load_policy(tmp_path / "p.csv")
