"""What groups cost: `improve` on one log without groups, with two and with ten, in seconds of the
processor; the ratios are taken in one run, each figure in a process of its own.

    python measurements/groups.py [--rows 300000] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

import surefoot

STATES, ACTIONS, SEXES, WARDS = 30, 6, 2, 10
ASKED: dict[str, tuple[str, ...]] = {
    "no groups": (),
    "2 groups": ("sex",),
    "10 groups": ("ward",),
    "2 and 10 groups": ("sex", "ward"),
}


def make(folder: Path, rows: int) -> None:
    """Single decisions of a known rule, and what they paid."""
    rng = np.random.default_rng(0)
    rule = rng.dirichlet(np.full(ACTIONS, 3.0), STATES)
    state = rng.integers(0, STATES, rows)
    action = np.minimum((rng.random(rows)[:, None] > rule[state].cumsum(1)).sum(1), ACTIONS - 1)
    pays = rng.random((STATES, ACTIONS)) / 10
    table = {
        "state": state, "action": action, "sex": rng.integers(0, SEXES, rows),
        "ward": rng.integers(0, WARDS, rows),
        "reward": (rng.random(rows) < pays[state, action]) * 1.0,
    }  # fmt: skip
    s, a = np.indices(rule.shape).reshape(2, -1)
    made_by = {"state": s, "action": a, "probability": rule.reshape(-1)}
    with duckdb.connect() as connection:
        for name, columns, kind in (("log", table, "parquet"), ("rule", made_by, "csv")):
            connection.register("made", columns)
            connection.execute(f"copy (from made) to '{folder}/{name}.{kind}'")
            connection.unregister("made")


def one(folder: Path, asked: str) -> float:
    """Seconds of the processor of one improvement."""
    begin = time.process_time()
    surefoot.advise(
        folder / "log.parquet", bandit=True, baseline=folder / "rule.csv", reward_range=(0, 1),
        group=ASKED[asked],
    )  # fmt: skip
    return time.process_time() - begin


def main() -> None:
    """All in turn; the shortest times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(Path(given.one[0]), given.one[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), given.rows)
        found: dict[str, list[float]] = {asked: [] for asked in ASKED}
        for _ in range(given.repeat):
            for asked in ASKED:
                command = [sys.executable, __file__, "--one", folder, asked]
                printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found[asked].append(json.loads(printed.stdout.splitlines()[-1]))
    alone = min(found["no groups"])
    print(f"{given.rows:,} rows, seconds of the processor and times those without groups")
    for asked, seconds in found.items():
        print(f"{asked:16}{min(seconds):8.2f}{min(seconds) / alone:8.2f}")


if __name__ == "__main__":
    main()
