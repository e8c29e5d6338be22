"""`surefoot demo`: from a shipped log with text labels to a policy, its changes and a summary."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import surefoot
from surefoot.core import Labels, Policy
from surefoot.report.improvement_words import improvement_statements, with_statements
from surefoot.report.page import made_by
from surefoot.report.statements import text
from surefoot.research.benchmarks import WetChicken
from surefoot.research.benchmarks.wet_chicken import ACTIONS

START = 0  # the state in which the boat starts
LOG, BASELINE = "wet_chicken.csv", "wet_chicken_rule.csv"


def improved(out: str | Path | None = None) -> tuple[dict[str, Any], dict[str, Path]]:
    """The whole line: read, improve, judge, write.

    What was found, with the truth, which only a demonstration knows; and the files.
    """
    river = WetChicken()
    with resources.as_file(resources.files("surefoot") / "data") as data:
        advice = surefoot.advise(
            data / LOG,
            gamma=river.gamma,
            baseline=data / BASELINE,
            reward_range=(0, river.length - 1),
        )
    beside = made_by() | {"truth": _truth(river, advice.policy)}
    beside["log"] = {**advice.document["log"], "source": LOG}
    folder = tempfile.mkdtemp(prefix="surefoot-demo-") if out is None else out
    return with_statements({**advice.document, **beside}), advice.save(folder, beside=beside)


def lines(
    summary: dict[str, Any], files: dict[str, Path], *, explain: bool = False
) -> Iterator[str]:
    """What was found, for people."""
    yield "A boat paddles towards a waterfall. The closer it gets, the more it earns; if it falls,"
    yield "it starts again. This is the log of its controller, a rule of thumb that sometimes tries"
    yield "something else. By hand: surefoot improve LOG --gamma 0.95 --baseline RULE --out DIR\n"
    yield text(improvement_statements(summary), explain=explain) + "\n"
    yield from _changes(files["changes.csv"])
    truth = summary["truth"]
    yield (
        f"\ntruth     from {state_label(START)}: rule of thumb {truth['baseline']:.2f}, policy.csv"
        f" {truth['policy']:.2f}, best possible {truth['best']:.2f}"
    )
    yield "          (in the real river, which only a demonstration knows; the worth above is from"
    yield "          an average visited state, so the two differ)"


def _changes(path: Path) -> Iterator[str]:
    """The first rows of changes.csv."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    yield f"The {min(5, len(rows))} largest of {len(rows)} changes:"
    for row in rows[:5]:
        more, less = (
            f"{row[name]!r} (seen {row[name + '_count']} times)" for name in ("more_of", "less_of")
        )
        yield (
            f"  {row['state']:8}  {float(row['mass_moved']):4.0%} of decisions, most to {more},"
            f" from {less}"
        )


def _truth(river: WetChicken, policy: Policy) -> dict[str, float]:
    """Values in the real river: rule, policy and the best; states never met keep the rule."""
    labels = Labels(tuple(state_label(s) for s in range(river.n_states)), tuple(ACTIONS))
    pi = policy.over(river.pi_b, labels)
    start = np.eye(river.n_states)[START]
    found = {"baseline": river.pi_b, "policy": pi, "best": surefoot.optimal(river.model).pi}
    return {
        name: float(surefoot.evaluate_at_start(river.model, x, start)) for name, x in found.items()
    }


def state_label(state: int) -> str:
    """The label of a state of the river, such as "x=2 y=1"."""
    x, y = divmod(int(state), WetChicken().width)
    return f"x={x} y={y}"
