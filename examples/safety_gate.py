"""A policy goes through the gate: made from last year's log, tested on this year's.

Visits of up to three steps in three wards; the rule treats as usual in 7 of 10 steps. "other" heals
more often in two wards, and less often in the third. Exit codes of `surefoot safety-test`: 0
better, 3 not shown, 4 worse.
"""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from surefoot import Labels, Policy

HEALS = {"usual": (0.30, 0.30, 0.45), "other": (0.50, 0.45, 0.20)}  # in ward 0, 1, 2
LABELS = Labels(("ward 0", "ward 1", "ward 2"), ("usual", "other"))
CARELESS = [(0.9, 0.1), (0.9, 0.1), (0.1, 0.9)]
POLICIES = {"careless.csv": CARELESS, "rule.csv": [(0.7, 0.3)] * 3}
SIZES = {"last-year.csv": 1500, "this-year.csv": 4000}
GIVEN = "--gamma 0.9 --baseline rule.csv --reward-range 0,1 --return-range 0,1"


def visits(n: int, rng: np.random.Generator) -> list[tuple[object, ...]]:
    """The log of n visits: the healed go home with reward 1, the others come up to three times."""
    rows: list[tuple[object, ...]] = []
    for visit in range(n):
        for step in range(3):
            ward, action = int(rng.integers(3)), "usual" if rng.random() < 0.7 else "other"
            healed = rng.random() < HEALS[action][ward]
            ended = healed or step == 2
            rows.append((visit, step, f"ward {ward}", action, int(healed), int(ended)))
            if healed:
                break
    return rows


def main() -> None:
    """Improve, then test three policies: the improved one, a careless one, and the rule itself."""
    rng, folder = np.random.default_rng(0), Path(tempfile.mkdtemp())
    for name, n in SIZES.items():
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            header = ("episode", "time", "state", "action", "reward", "terminal")
            csv.writer(file, lineterminator="\n").writerows([header, *visits(n, rng)])
    for name, pi in POLICIES.items():
        Policy(pi=np.array(pi), labels=LABELS).save(folder / name)
    test = "safety-test this-year.csv --horizon 3 --policy"
    tests = [f"{test} {x}" for x in ("improved/policy.csv", *POLICIES)]
    for command in ("improve last-year.csv", *tests):
        run = [sys.executable, "-m", "surefoot.cli", *f"{command} {GIVEN}".split()]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True)
        print(f"$ surefoot {command} ...\n{done.stdout}{done.stderr}exit code {done.returncode}\n")


if __name__ == "__main__":
    main()
