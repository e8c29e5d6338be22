"""How often `improve` promises what cannot be: logs in which no policy can beat the baseline, and logs in which one can.

    python benchmarks/promises.py [--logs 1000] [--real 100] [--only null|real] [--estimated]

Null logs: a Random MDP and a Wet Chicken river in which every action of a state has the same law (the mean of the real laws), under
the stochastic baselines of the benchmarks, a quarter of the logs in each of four sizes. Real logs: 20,000 steps of Wet Chicken. Each
log is a CSV file that goes through the functions of `surefoot improve`; exit code 0 means "supported".
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats

from surefoot.advice import advise, chosen_algorithm
from surefoot.benchmarks import Episodes, RandomMDPs, Sampler, WetChicken, Worlds, first_key
from surefoot.benchmarks.worlds import one_world
from surefoot.logs import read_baseline, read_log

SIZES = (("random-mdps", 50), ("random-mdps", 200), ("wet-chicken", 2000), ("wet-chicken", 20000))
REAL_STEPS = 20_000
SURE = 0.99


def key_of(name: str, trial: int) -> int:
    """The key of a trial."""
    return int(first_key(4, name, np.array([trial]))[0])


def null_world(name: str, key: int) -> Worlds:
    """The world of a benchmark with p(s'|s, a) replaced by its mean over actions: no policy differs in value from another."""
    worlds = (RandomMDPs() if name == "random-mdps" else WetChicken()).worlds(np.array([key]))
    p = np.broadcast_to(worlds.p[0].mean(axis=1, keepdims=True), worlds.p[0].shape)
    return one_world(
        np.array([key]), p, worlds.reward_table[0], worlds.pi_b[0], worlds.start[0], np.flatnonzero(worlds.terminal[0]).tolist(),
        worlds.gamma, worlds.reward_range, worlds.return_range,
    )  # fmt: skip


def episodes(name: str, size: int) -> Episodes:
    """What a log of this size consists of."""
    return (RandomMDPs() if name == "random-mdps" else WetChicken()).episodes(size)


def write_log(path: Path, log: dict[str, np.ndarray], terminal: np.ndarray) -> None:
    """The log as a CSV file with text labels."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("episode", "time", "state", "action", "reward", "next_state", "terminal"))
        for e, t, s, a, r, n in zip(
            *(log[k].tolist() for k in ("episode", "time", "state", "action", "reward", "next_state")), strict=True
        ):
            writer.writerow((f"e{e}", t, f"s{s}", f"a{a}", r, f"s{n}", int(terminal[n])))


def write_baseline(path: Path, worlds: Worlds) -> None:
    """The baseline as a CSV file."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("state", "action", "probability"))
        writer.writerows((f"s{s}", f"a{a}", repr(float(p))) for (s, a), p in np.ndenumerate(worlds.pi_b[0]))


def promises(worlds: Worlds, key: int, data: Episodes, folder: Path, estimated: bool = False) -> bool:
    """Whether `improve` finds an improvement supported (exit code 0) on one log, with the baseline given or estimated."""
    log_file, rule_file = folder / "log.csv", folder / "rule.csv"
    write_log(log_file, Sampler(worlds).log(key, data), worlds.terminal[0])
    write_baseline(rule_file, worlds)
    log = read_log(log_file, threads=1)
    rule = None if estimated else read_baseline(rule_file, log, unknown_states="ignore")
    problem = log.problem(worlds.gamma, rule)
    return advise(log, problem, chosen_algorithm(problem)).supported


def rate(hits: int, n: int) -> str:
    """The rate with its one-sided 99 % bounds (Clopper & Pearson)."""
    low = stats.beta.ppf(1 - SURE, hits, n - hits + 1) if hits else 0.0
    high = stats.beta.ppf(SURE, hits + 1, n - hits) if hits < n else 1.0
    return f"{hits:5d} of {n:5d} = {hits / n:6.2%}   {SURE:.0%} one-sided bounds: at least {low:.2%}, at most {high:.2%}"


def main() -> None:
    """Measure and print both rates."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=1000, help="null logs, shared out over the sizes")
    parser.add_argument("--real", type=int, default=100, help="logs of the real river")
    parser.add_argument("--only", choices=("null", "real"), default=None)
    parser.add_argument("--estimated", action="store_true", help="estimate the baseline from each log")
    given = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.only != "real":
            print("False promises: no policy can beat the baseline, exit code 0 all the same (wanted: at most 5 %)")
            total = 0
            each = given.logs // len(SIZES)
            for benchmark, size in SIZES:
                hits = 0
                for i in range(each):
                    key = key_of(f"null {benchmark} {size}", i)
                    hits += promises(null_world(benchmark, key), key, episodes(benchmark, size), folder, given.estimated)
                print(f"  {benchmark:12} {size:6d}   {rate(hits, each)}", flush=True)
                total += hits
            print(f"  {'together':12} {'':6}   {rate(total, each * len(SIZES))}", flush=True)
        if given.only != "null":
            print(f"Kept promises: {REAL_STEPS:,} steps of Wet Chicken, exit code 0 (wanted: at least half)")
            keys = [key_of("real wet-chicken", i) for i in range(given.real)]
            data = episodes("wet-chicken", REAL_STEPS)
            hits = sum(promises(WetChicken().worlds(np.array([key])), key, data, folder, given.estimated) for key in keys)
            print(f"  {'wet-chicken':12} {REAL_STEPS:6d}   {rate(hits, given.real)}")
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
