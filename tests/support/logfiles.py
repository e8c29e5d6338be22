"""Small logs as CSV files for the tests of the commands, and the command line in this process."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.cli import main
from surefoot.report.improvement_words import improvement_statements
from surefoot.report.statements import text


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def steps(
    n: int = 600, better: float = 1.0, seed: int = 0, labels: Sequence[str] = ("low", "mid", "high")
) -> list[tuple[Any, ...]]:
    """One-step-coupled episodes of 5 steps in three states with actions "keep" (3 of 4) and
    "try", which pays `better` more.
    """
    rng = np.random.default_rng(seed)
    state, tries, noise = rng.integers(0, 3, n), rng.random(n) < 0.25, rng.normal(0, 0.3, n)
    reward = state * 0.5 + better * tries + noise
    return [
        (
            f"e{i // 5}",
            i % 5,
            labels[state[i]],
            "try" if tries[i] else "keep",
            repr(float(reward[i])),
        )
        for i in range(n)
    ]


HEADER = ("episode", "time", "state", "action", "reward")


def good_log(folder: Path, **changes: Any) -> Path:
    """A log whose action "try" pays more."""
    return write(folder / "log.csv", HEADER, steps(**changes))


def idle_log(folder: Path, **changes: Any) -> Path:
    """A log in which both actions do the same."""
    return write(folder / "idle.csv", HEADER, steps(better=0.0, **changes))


def rule(
    folder: Path, states: Sequence[Any] = ("low", "mid", "high"), name: str = "rule.csv"
) -> Path:
    """The baseline of these logs."""
    return write(
        folder / name,
        ("state", "action", "probability"),
        [(s, a, p) for s in states for a, p in (("keep", 0.75), ("try", 0.25))],
    )


VISIT = ("episode", "time", "state", "action", "reward", "terminal")


def visits(
    path: Path,
    n: int = 400,
    better: float = 0.4,
    seed: int = 0,
    wards: tuple[str, ...] = ("a", "b"),
) -> Path:
    """Visits of one decision: "new" succeeds more often than "old" by `better`; the rule tosses
    a coin.
    """
    rng = np.random.default_rng(seed)
    new, ward = rng.integers(0, 2, n), rng.integers(0, len(wards), n)
    success = rng.random(n) < 0.3 + better * new
    rows = [
        (f"v{i}", 0, wards[ward[i]], "new" if new[i] else "old", int(success[i]), 1)
        for i in range(n)
    ]
    return write(path, VISIT, rows)


def coin(path: Path, new: float, wards: tuple[str, ...] = ("a", "b", "c")) -> Path:
    """A policy that takes "new" with this probability in every ward: at 0.5, the rule behind
    `visits`.
    """
    rows = [(w, a, p) for w in wards for a, p in (("new", new), ("old", 1 - new))]
    return write(path, ("state", "action", "probability"), rows)


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: Any
) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the command line."""
    monkeypatch.setattr(sys, "argv", ["surefoot", *map(str, arguments)])
    if "--json" in arguments:
        capsys.readouterr()  # what others printed before is no part of the document
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr()
    if "--json" in arguments and printed.out:
        validated(printed.out)
    return int(stop.value.code or 0), printed.out, printed.err


def validated(text: str) -> None:
    """Raise unless a document has the fields that its model says, and no others."""
    from surefoot.report.schema import schema_of

    schema_of(json.loads(text)["schema"].split("/")[1]).validate_json(text)


def random_problem(
    seed: int = 0,
    n: int = 3000,
    n_states: int = 4,
    n_actions: int = 3,
    *,
    episodes: int = 60,
    sparse: bool = False,
    gamma: float = 0.9,
) -> surefoot.Problem:
    """The problem of a random walk in a random MDP with a uniform baseline."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions)).cumsum(axis=-1)
    action, state = rng.integers(0, n_actions, n), np.empty(n + 1, dtype=int)
    state[0] = 0
    for i in range(n):
        state[i + 1] = np.searchsorted(p[state[i], action[i]], rng.random())
    episode = np.arange(n) * episodes // n
    worth = rng.normal(size=(n_states, n_actions))
    return surefoot.problem(
        state=state[:-1],
        action=action,
        reward=worth[state[:-1], action] + rng.normal(0, 0.1, n),
        next_state=state[1:],
        episode=episode,
        n_states=n_states,
        n_actions=n_actions,
        pi_b=np.full((n_states, n_actions), 1 / n_actions),
        gamma=gamma,
        sparse=sparse,
    )


def said(document: Any) -> str:
    """All that is said of an improvement, in one line."""
    return one_line(text(improvement_statements(document), explain=True))


def one_line(printed: str) -> str:
    """What was printed, however it was broken into lines."""
    return " ".join(printed.split())
