"""`surefoot demo`: from a shipped log with text labels to a policy, its changes and a summary."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import surefoot
from surefoot.benchmarks import WetChicken
from surefoot.benchmarks.wet_chicken import ACTIONS
from surefoot.core import Labels, Policy
from surefoot.report.improvement_words import improvement_statements, with_statements
from surefoot.report.page import made_by
from surefoot.report.statements import text
from surefoot.simulate import Sampler, first_key

STEPS = 5000
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
        f"\ntruth     rule of thumb {truth['baseline']:.2f}, policy.csv {truth['policy']:.2f}, best"
        f" possible {truth['best']:.2f}"
    )
    yield "          (in the real river, which only a demonstration knows)"


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
    start = np.eye(river.n_states)[0]
    found = {"baseline": river.pi_b, "policy": pi, "best": surefoot.optimal(river.model).pi}
    return {
        name: float(surefoot.evaluate_at_start(river.model, x, start)) for name, x in found.items()
    }


def state_label(state: int) -> str:
    """The label of a state of the river, such as "x=2 y=1"."""
    x, y = divmod(int(state), WetChicken().width)
    return f"x={x} y={y}"


def shipped_files(steps: int = STEPS) -> dict[str, str]:
    """The text of the shipped files, by name: a log under the rule of thumb, and the rule.

    The log is trial 0 of seed 0. To make them again: write each text to src/surefoot/data under its
    name.
    """
    river = WetChicken()
    key = int(first_key(0, river.name, np.zeros(1, dtype=np.int64))[0])
    log = Sampler(river.worlds(np.array([key]))).log(key, river.episodes(steps))
    columns = zip(
        *(log[name].tolist() for name in ("time", "state", "action", "reward", "next_state")),
        strict=True,
    )
    rows = [
        ("trip 1", t, state_label(s), ACTIONS[a], f"{r:g}", state_label(n))
        for t, s, a, r, n in columns
    ]
    rule = [
        (state_label(s), ACTIONS[a], f"{p:.2f}")
        for s in range(river.n_states)
        for a, p in enumerate(river.pi_b[s])
    ]
    return {
        LOG: _csv(("episode", "time", "state", "action", "reward", "next_state"), rows),
        BASELINE: _csv(("state", "action", "probability"), rule),
    }


def _csv(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return made.getvalue()
