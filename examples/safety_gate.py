"""A policy goes through the gate before anything changes: made from last year's log, tested on this
year's.

Visits of up to three steps in three wards; the rule treats as usual in 7 of 10 steps. "other" heals
more often in two wards, and less often in the third. Exit codes of `surefoot safety-test`: 0
better, 3 not shown, 4 worse.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HEALS = {"usual": (0.30, 0.30, 0.45), "other": (0.50, 0.45, 0.20)}  # in ward 0, 1, 2
POLICIES = {
    "careless.csv": (0.9, 0.9, 0.1),
    "rule.csv": (0.7, 0.7, 0.7),
}  # the probability of "usual"
SIZES = {"last-year.csv": 1500, "this-year.csv": 4000}


def write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    """A CSV file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def visits(n: int, rng: np.random.Generator) -> list[tuple[object, ...]]:
    """The log of n visits: who is healed goes home with reward 1, who is not is seen again,
    three times at most.
    """
    rows: list[tuple[object, ...]] = []
    for visit in range(n):
        for step in range(3):
            ward, action = int(rng.integers(3)), "usual" if rng.random() < 0.7 else "other"
            healed = rng.random() < HEALS[action][ward]
            rows.append(
                (visit, step, f"ward {ward}", action, int(healed), int(healed or step == 2))
            )
            if healed:
                break
    return rows


def main() -> None:
    """Improve, then test three policies: the improved one, a careless one, and the rule itself."""
    rng, folder = np.random.default_rng(0), Path(tempfile.mkdtemp())
    for name, n in SIZES.items():
        write(
            folder / name,
            ("episode", "time", "state", "action", "reward", "terminal"),
            visits(n, rng),
        )
    for name, usual in POLICIES.items():
        rows = [
            (f"ward {w}", a, p)
            for w in range(3)
            for a, p in (("usual", usual[w]), ("other", round(1 - usual[w], 1)))
        ]
        write(folder / name, ("state", "action", "probability"), rows)
    given = (
        "--gamma",
        "0.9",
        "--baseline",
        "rule.csv",
        "--reward-range",
        "0,1",
        "--return-range",
        "0,1",
    )
    tests = [
        ("safety-test", "this-year.csv", "--policy", x, "--horizon", "3")
        for x in ("improved/policy.csv", *POLICIES)
    ]
    for command in (("improve", "last-year.csv"), *tests):
        done = subprocess.run(
            [sys.executable, "-m", "surefoot.cli", *command, *given],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        print(
            f"$ surefoot {' '.join(command)} ...\n{done.stdout}{done.stderr}exit code"
            f" {done.returncode}\n"
        )


if __name__ == "__main__":
    main()
