"""Logs of measurements in bins: how often `surefoot improve` supports a change on the river of Wet
Chicken without rounding, and how often that is truly better; what `check` says of a stationary
pump.

    python measurements/continuous_river.py [--logs 100] [--sizes 2000,5000,20000,50000]
    [--states 25,100] [--workers 2]
    python measurements/continuous_river.py --pump [--logs 100] [--sizes 5000,20000]

The river: 5 x 5, the actions of Wet Chicken, a heuristic with 10 % exploration, one trajectory,
quantiles of x and y as states, gamma .95, the baseline estimated. The truth of a policy over bins
is its mean return over many simulated rollouts from states of the log.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from promises import _command, rate
from surefoot.research.benchmarks import ContinuousWetChicken, returns, sampled

RIVER = ContinuousWetChicken()
ROLLOUTS, HORIZON = 4000, 120


class Bins:
    """Quantiles of both measurements as states, k to a side."""

    def __init__(self, x: np.ndarray, k: int) -> None:
        cuts = np.arange(1, k) / k
        self.k, self.cuts = k, [np.unique(np.quantile(x[:, i], cuts)) for i in (0, 1)]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The state of every position."""
        i, j = (np.searchsorted(cuts, x[:, c], side="right") for c, cuts in enumerate(self.cuts))
        return np.asarray(i * self.k + j)


def pump(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(three sensors [n + 1, 3], actions, rewards) of a stationary pump: slow temperatures and
    pressures, two valves; the rule goes by the pressure.
    """
    x, action, reward = np.zeros((n + 1, 3)), np.zeros(n, dtype=int), np.zeros(n)
    for t in range(n):
        action[t] = rng.random() < (0.8 if x[t, 0] > 0.3 else 0.2)
        push = np.array([-0.25 * action[t], 0.15 * action[t], 0.0])
        x[t + 1] = np.array([0.95, 0.9, 0.97]) * x[t] + push + [0.12, 0, 0]
        x[t + 1] += rng.standard_normal(3) * [0.3, 0.4, 0.25]
        reward[t] = 1 - 0.5 * x[t + 1, 0] ** 2 - 0.2 * x[t + 1, 1] ** 2 + 0.1 * x[t + 1, 2]
    return x, action, reward


def write(path: Path, state: np.ndarray, action: np.ndarray, reward: np.ndarray) -> None:
    """One trajectory as a file."""
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["episode", "time", "state", "action", "reward"])
        out.writerows(
            ("e", t, f"s{s:04d}", f"a{a}", repr(float(r)))
            for t, (s, a, r) in enumerate(zip(state, action, reward, strict=False))
        )


def asked(*words: str) -> tuple[int | None, dict[str, Any]]:
    """(exit code, what a command prints as JSON)."""
    with redirect_stdout(io.StringIO()) as out:
        code = _command().main([*words, "--json"], standalone_mode=False)
    return code, json.loads(out.getvalue())


def river(i: int, n: int, k: int) -> tuple[bool, float, str]:
    """(supported, true gain, reason) of log i."""
    rng = np.random.default_rng([17, n, i])
    log = sampled(RIVER, rng, n)
    x = np.stack([log["x"], log["y"]], axis=1)
    action = np.array([RIVER.actions.index(a) for a in log["action"]])
    bins = Bins(x, k)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "log.csv", bins(x), action, log["reward"])
        where = str(Path(folder) / "out")
        code, found = asked(
            "improve",
            f"{folder}/log.csv",
            "--gamma",
            str(RIVER.gamma),
            "--out",
            where,
            "--no-report",
        )
        with open(f"{where}/policy.csv", newline="") as file:
            rows = list(csv.DictReader(file))
    if code:
        return False, 0.0, found["reason"]
    pi = np.zeros((k * k, 5))
    for row in rows:
        pi[int(row["state"][1:]), int(row["action"][1:])] = float(row["probability"])
    known = pi.sum(axis=1) > 0
    rng, start = np.random.default_rng(5), x[rng.integers(0, n, ROLLOUTS)]

    def act(at: np.ndarray) -> np.ndarray:
        s = bins(at)
        return np.where(known[s][:, None], pi[s], RIVER.baseline(at))

    new, old = (returns(RIVER, rng, y, start, HORIZON).mean() for y in (act, RIVER.baseline))
    return True, float(new - old), found["reason"]


def pumped(i: int, n: int, k: int) -> tuple[bool, bool]:
    """(whether `check` warns of drift, whether it forbids a promise) on log i of a pump."""
    x, action, reward = pump(np.random.default_rng([18, n, i]), n)
    cuts = [np.quantile(x[:, c], np.arange(1, k) / k) for c in range(3)]
    digits = [np.searchsorted(cut, x[:n, c]) for c, cut in enumerate(cuts)]
    with tempfile.TemporaryDirectory() as folder:
        state = (digits[0] * k + digits[1]) * k + digits[2]
        write(Path(folder) / "log.csv", state, action, reward)
        _, found = asked("check", f"{folder}/log.csv")
    drift = next(x for x in found["findings"] if x["name"] == "drift")
    return drift["level"] == "warning", bool(drift.get("vetoes"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--sizes", default="2000,5000,20000,50000")
    parser.add_argument("--states", default="25,100")
    parser.add_argument("--pump", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    sizes, n = [int(x) for x in given.sizes.split(",")], given.logs
    with ProcessPoolExecutor(given.workers) as pool:
        for size in sizes if given.pump else ():
            seen = list(pool.map(pumped, range(n), [size] * n, [3] * n))
            warned, vetoed = (sum(x[j] for x in seen) for j in (0, 1))
            print(
                f"pump {size:6} rows: drift warned {rate(warned, n)} vetoed {rate(vetoed, n)}",
                flush=True,
            )
        for states in () if given.pump else (int(x) for x in given.states.split(",")):
            for size in sizes:
                found = list(pool.map(river, range(n), [size] * n, [round(states**0.5)] * n))
                supported, wrong = sum(x[0] for x in found), sum(x[0] and x[1] <= 0 for x in found)
                gain = np.mean([x[1] for x in found])
                print(
                    f"river {states:4} states {size:6} steps: supported {rate(supported, n)}"
                    f"  not better {rate(wrong, n)}  gain {gain:.3g}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
