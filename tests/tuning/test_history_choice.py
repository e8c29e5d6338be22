"""`tune --histories`: how many steps to remember."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.logfiles import run, write
from surefoot.advice import chosen_algorithm, held_out_gain, units_of
from surefoot.logs import read_log
from surefoot.tuning import TriedHistory, best_history, try_history


def tried(*rows: tuple[int, float, float]) -> list[TriedHistory]:
    return [TriedHistory(k, 2**k, p, gain) for k, p, gain in rows]


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        (((0, 0.5, 1.0), (1, 0.5, 1.05), (2, 0.5, 1.08)), 0),  # nearly as much
        (((0, 0.5, 1.0), (1, 0.5, 2.0), (2, 0.5, 2.1)), 1),
        (((0, 0.001, 9.0), (1, 0.5, 2.0), (2, 0.5, 2.1)), 1),  # memory is left
        (((0, 0.5, -1.0), (1, 0.5, -0.5), (2, 0.01, 2.1)), 0),  # nothing gains
        (((0, 0.001, 9.0), (1, 0.01, 2.0)), 0),  # none passes
    ],
)
def test_the_shortest_that_leaves_no_memory_and_gains_nearly_most(
    rows: tuple[tuple[int, float, float], ...], chosen: int
) -> None:
    assert best_history(tried(*rows)).history == chosen


def machine(path: Path, episodes: int = 500) -> Path:
    """To push pays 1 after wait, and costs 1 otherwise."""
    rng = np.random.default_rng(0)
    rows = []
    for e in range(episodes):
        before = ""
        for t in range(rng.geometric(0.25)):
            action = "push" if rng.random() < 0.5 else "wait"
            reward = 0.0 if action == "wait" else 1.0 if before == "wait" else -1.0
            rows.append((e, t, "on", action, repr(reward + rng.normal(0, 0.1))))
            before = action
    return write(path, ("episode", "time", "state", "action", "reward"), rows)


def test_tune_chooses_the_history_that_the_log_needs(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    log = machine(tmp_path / "log.csv")
    common = ("tune", log, "--gamma", 0.9, "--episode-end", "terminal", "--models", 40)
    more = ("--simulated", 0, "--json")
    code, out, _ = run(monkeypatch, capsys, *common, *more, "--histories", "0,1,2")
    found = json.loads(out)
    assert code == 0
    assert [x["history"] for x in found["histories"] if x["chosen"]] == [1]
    assert [x["passes"] for x in found["histories"]] == [False, True, True]
    assert "--history 1" in found["next"] and "--histories" not in found["next"]
    for bad in ("one", "0,-1", "0,,1"):
        code, _, err = run(monkeypatch, capsys, *common, "--histories", bad)
        assert code == 2 and "--histories takes numbers" in err


def test_the_half_that_improve_tests_on_is_not_looked_at(tmp_path: Path) -> None:
    """Other rewards in the held-out half do not change the gains."""
    log = read_log(machine(tmp_path / "log.csv"), episode_end="terminal", history=1)
    problem = log.problem(0.9)
    algorithm = chosen_algorithm(problem, "priced-soft-spibb")
    before = try_history(log, problem, algorithm, 1)
    units = units_of(log, problem.log, problem.gamma)
    found = held_out_gain(problem, units, algorithm)
    used = np.isin(problem.log.row, found.learned.log.row)
    assert 0.3 < used.mean() < 0.7
    changed = problem.log.reward.copy()
    changed[~used] = 7.0
    other = problem.with_log(type(problem.log)(**{**vars_of(problem.log), "reward": changed}))
    assert try_history(log, other, algorithm, 1).gain == before.gain


def vars_of(batch: Any) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in batch.__dataclass_fields__}
