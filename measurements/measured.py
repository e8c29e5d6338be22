"""`surefoot improve --features`: how often it supports a change on logs of measurements, how often
that is truly better, and what it is worth.

    python measurements/measured.py [--logs 100] [--only NAME,NAME] [--sizes 1000,2000,5000,20000]
    [--workers 2]

river-N       the river of Wet Chicken without rounding, one trajectory of N steps (see
              continuous_river.py); the truth by rollouts
idle          the same river for 2,000 steps, where chance alone moves the boat: no policy is better
noise         300 episodes of 5 steps, two measurements that mean nothing, actions that do nothing
follows       the habit follows one measurement, and so does the reward; actions do nothing
late          in some cells an action pays now and costs as much at the next step
steep         single decisions: the habit jumps within a cell, and reward follows the same
              measurement; actions do nothing
known         the same, and the habit is given as a table over a column of the log (--baseline)
hidden        a measurement that is not in the log drives habit and reward: no log can show it
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from continuous_river import HORIZON, RIVER, ROLLOUTS, asked
from promises import rate
from surefoot.research.benchmarks import returns
from surefoot.research.benchmarks.continuous import picked
from surefoot.serving import read_encoder

HEADER = "episode", "time", "x", "y", "action", "reward", "side"
CUT = 0.37  # where the steep habit jumps


def improved(folder: Path, rows: list[tuple[Any, ...]], *more: str) -> tuple[bool, Path]:
    """(whether `improve` supports a change, its folder) on a log of these rows."""
    with open(folder / "log.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(HEADER[: len(rows[0])])
        out.writerows(rows)
    where = folder / "out"
    ahead = () if "--bandit" in more else ("--gamma", str(RIVER.gamma))
    code, _ = asked(
        "improve", str(folder / "log.csv"), "--features", "x,y", *ahead,
        "--out", str(where), "--no-report", *more,
    )  # fmt: skip
    return not code, where


def sailed(rng: np.random.Generator, n: int, *, idle: bool) -> np.ndarray:
    """(x, y, action, reward) [n + 1, 4] of one trajectory."""
    x, log = np.zeros((1, 2)), np.zeros((n + 1, 4))
    for t in range(n + 1):
        a = picked(rng, RIVER.baseline(x))
        there, r, _ = RIVER.step(rng, x, np.zeros(1, dtype=int) if idle else a)
        log[t] = *x[0], a[0], r[0]
        x = there
        if idle:
            x[:, 1] = rng.uniform(0, 5)
    return log


def river(i: int, n: int, *, idle: bool = False) -> tuple[bool, float]:
    """(supported, true gain) of log i."""
    log = sailed(np.random.default_rng([23, n, i, idle]), n, idle=idle)
    rows = [("e", t, x, y, f"a{a:.0f}", r) for t, (x, y, a, r) in enumerate(log.tolist())]
    with tempfile.TemporaryDirectory() as folder:
        supported, where = improved(Path(folder), rows)
        if not supported or idle:
            return supported, 0.0
        encoder = read_encoder(where / "encoder.json")
        label = {x: k for k, x in enumerate(encoder.labels)}
        pi = np.zeros((len(label), 5))
        with open(where / "policy.csv", newline="") as file:
            for row in csv.DictReader(file):
                pi[label[row["state"]], int(row["action"][1:])] = float(row["probability"])
    known = pi.sum(axis=1) > 0
    rng = np.random.default_rng(5)
    start = log[rng.integers(0, n, ROLLOUTS), :2]

    def act(at: np.ndarray) -> np.ndarray:
        s = encoder.encode(at)
        return np.where(known[s][:, None], pi[s], RIVER.baseline(at))

    new, old = (returns(RIVER, rng, y, start, HORIZON).mean() for y in (act, RIVER.baseline))
    return True, float(new - old)


def null(name: str, i: int) -> tuple[bool, float]:
    """(supported, 0) of log i of a family in which no policy is better."""
    rng = np.random.default_rng([29, len(name), i])
    rows: list[tuple[Any, ...]] = []
    for e in range(300):
        before = False
        for t in range(5):
            x, y, u = rng.normal(size=3)
            drives = {"follows": x, "hidden": u}.get(name, 0.0)
            a = bool(rng.random() < 1 / (1 + np.exp(-1.5 * drives)))
            r = 0.5 * drives + rng.normal()
            if name == "late":
                pays = bool(a and x > 0 and t < 4)
                r += 0.5 * pays - 0.5 * before / RIVER.gamma
                before = pays
            rows.append((e, t, repr(float(x)), repr(float(y)), f"a{int(a)}", repr(float(r))))
    with tempfile.TemporaryDirectory() as folder:
        return improved(Path(folder), rows, "--episode-end", "terminal")[0], 0.0


def steep(i: int, *, known: bool) -> tuple[bool, float]:
    """(supported, 0) of log i in which the habit jumps at 0.37."""
    rng = np.random.default_rng([41, i, 1])
    rows: list[tuple[Any, ...]] = []
    for e in range(1500):
        x, y = rng.normal(size=2)
        a = rng.random() < (0.9 if x > CUT else 0.1)
        r = 0.5 * x + rng.normal()
        side = "above" if x > CUT else "below"
        rows.append((e, 0, repr(float(x)), repr(float(y)), f"a{int(a)}", repr(float(r)), side))
    with tempfile.TemporaryDirectory() as folder:
        rule = Path(folder) / "rule.csv"
        probabilities = [("above", "a1", 0.9), ("above", "a0", 0.1)]
        probabilities += [("below", "a1", 0.1), ("below", "a0", 0.9)]
        with open(rule, "w", newline="") as file:
            csv.writer(file).writerows([("side", "action", "probability"), *probabilities])
        more = ("--baseline", str(rule)) if known else ()
        return improved(Path(folder), rows, "--bandit", *more)[0], 0.0


def one(name: str, i: int) -> tuple[bool, float]:
    """(supported, true gain) of log i of a family."""
    if name.startswith("river-"):
        return river(i, int(name.removeprefix("river-")))
    if name in ("steep", "known"):
        return steep(i, known=name == "known")
    return river(i, 2000, idle=True) if name == "idle" else null(name, i)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=100, help="of each family")
    parser.add_argument("--only", default="", help="names of families, joined by commas")
    parser.add_argument("--sizes", default="1000,2000,5000,20000", help="of the river")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    families = ["idle", "noise", "follows", "late", "steep", "known", "hidden"]
    families += [f"river-{n}" for n in given.sizes.split(",")]
    chosen = [x for x in given.only.split(",") if x] or families
    with ProcessPoolExecutor(given.workers) as pool:
        for name in chosen:
            found = list(pool.map(one, [name] * given.logs, range(given.logs), chunksize=5))
            said = [gain for supported, gain in found if supported]
            wrong = sum(gain <= 0 for gain in said)
            used = np.sort([gain for _, gain in found])
            worst = used[: max(1, given.logs // 10)].mean()
            print(
                f"{name:12} supported {rate(len(said), given.logs)}  not better"
                f" {rate(wrong, given.logs)}  gain {used.mean():7.3f}, of the worst tenth"
                f" {worst:7.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
