"""What tuning from the log alone costs: `surefoot.advice.tuning.choice` against Table 1's setting,
which was chosen with the environment.

    python measurements/tuning.py --out results/tuning [--logs 500] [--workers 16] [--only
    random-mdps:50]

For every log of a benchmark and size: draw the log, tune on it (baseline and gamma given; rewards,
ranges and all else from the log), and value in the true MDP the chosen policy, every setting tried,
and Lower-Approx-Soft-SPIBB at Table 1's setting on the same log. Shards of 20 logs are written
whole; what is there is not computed again, so that a run that was interrupted resumes. Writes
logs.csv (one line a log), summary.csv (one line a cell) and tuning.md.

The bar: at 50 trajectories (Random MDPs) or 500 steps (Wet Chicken) and above, the mean gain over
the baseline and its CVaR (1 %) are at least those of Table 1's setting. Gains are exact, in the
true MDP: on Random MDPs as a share of the way from the baseline to the optimum, on Wet Chicken in
units of value (the baseline is worth 29.75).
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import surefoot
from surefoot.advice.tuning import Row, choose
from surefoot.core.atomic import write_csv, write_whole
from surefoot.research.benchmarks import RandomMDPs, WetChicken
from surefoot.research.simulate import Sampler, first_key
from surefoot.statistics.metrics import Intervals, cvar, mean_and_cvar

CELLS = (
    ("random-mdps", 20),
    ("random-mdps", 50),
    ("random-mdps", 100),
    ("random-mdps", 500),
    ("wet-chicken", 200),
    ("wet-chicken", 500),
    ("wet-chicken", 1000),
    ("wet-chicken", 5000),
    ("wet-chicken", 20000),
)
BAR_FROM = {"random-mdps": 50, "wet-chicken": 500}
REFERENCE = {
    "random-mdps": 1.0,
    "wet-chicken": 0.5,
}  # epsilon of Lower-Approx-Soft-SPIBB in Table 1
SHARD, SEED, TAIL = 20, 5, 0.01
OTHER = "mean"  # the rule beside that of `choose`
NUMBERS = (
    "gain",
    "reference",
    "best",
    "baseline_value",
    "baseline_simulated",
    "p_value",
    "seconds",
    OTHER,
)


def _by_mean(rows: Sequence[Row]) -> Row:
    """The row with the largest mean of those whose CVaR is not below 0."""
    return max((x for x in rows if x.on_log.cvar >= 0), key=lambda x: x.on_log.mean)


def one_log(
    name: str, size: int, trial: int, models: int, simulated: int
) -> dict[str, float | str]:
    """Tune on one log; gains over the baseline in the true MDP, normalised as the benchmark's
    figures are.
    """
    benchmark = RandomMDPs() if name == "random-mdps" else WetChicken()
    keys = first_key(SEED, f"tuning {name}", np.array([trial]))
    worlds = benchmark.worlds(keys)
    log = Sampler(worlds).log(int(keys[0]), benchmark.episodes(size))
    problem = surefoot.problem(
        **log,
        terminal=worlds.terminal[0][log["next_state"]],
        pi_b=worlds.pi_b[0],
        gamma=benchmark.gamma,
        start=worlds.start[0],
        n_states=worlds.n_states,
        n_actions=worlds.n_actions,
    )
    begin = time.process_time()
    tuning = choose(problem, models=models, simulated=simulated, seed=trial)
    seconds = time.process_time() - begin
    rho_b, scale = (
        float(worlds.rho_b[0]),
        float(worlds.rho_star[0] - worlds.rho_b[0]) if name == "random-mdps" else 1.0,
    )

    def gain(pi: np.ndarray) -> float:
        return (float(worlds.value(np.asarray(pi)[None])[0]) - rho_b) / scale

    gains = dict(
        zip(
            (row.setting.label for row in tuning.rows),
            [0.0, *map(gain, tuning.simulation.pi)],
            strict=True,
        )
    )
    reference = surefoot.algorithm("lower-approx-soft-spibb", epsilon=REFERENCE[name], delta=1)
    return {
        "benchmark": name,
        "size": size,
        "trial": trial,
        "chosen": tuning.chosen.setting.label,
        "gain": gains[tuning.chosen.setting.label],
        "reference": gain(surefoot.improve(problem, reference).pi),
        "best": max(gains.values()),
        "baseline_value": rho_b,
        "baseline_simulated": float(tuning.simulation.rho_b.mean()),
        "p_value": tuning.predictive_p,
        "seconds": seconds,
        OTHER: gains[_by_mean(tuning.rows).setting.label],
    } | {f"gain of {label}": value for label, value in gains.items()}


def shard(
    folder: str, name: str, size: int, first: int, last: int, models: int, simulated: int
) -> str:
    """Compute one shard and write its file."""
    rows = [one_log(name, size, trial, models, simulated) for trial in range(first, last)]
    path = Path(folder) / "shards" / f"{name}-{size}-{first}-{last}-{models}-{simulated}.csv"
    write_csv(path, tuple(rows[0]), [list(row.values()) for row in rows])
    return path.name


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def summary_of(rows: list[dict[str, str]]) -> dict[str, float | str]:
    """One cell: mean and CVaR of the gain, tuned and by the reference, and whether the bar is
    met.
    """
    value = {key: np.array([float(row[key]) for row in rows]) for key in NUMBERS}
    name, size = rows[0]["benchmark"], int(rows[0]["size"])
    both = np.stack([value["gain"], value["reference"]])
    mean, tail = mean_and_cvar(both, Intervals(alpha=TAIL))
    kept = float(mean.value[0] / mean.value[1])
    enough = len(rows) * TAIL >= 5
    met = kept >= 1 and bool(tail.value[0] >= tail.value[1])
    labels = [row["chosen"] for row in rows]
    found: dict[str, float | str] = {
        "benchmark": name,
        "size": size,
        "logs": len(rows),
        "mean": float(mean.value[0]),
        "mean_reference": float(mean.value[1]),
        "kept": kept,
        "cvar": float(tail.value[0]),
        "cvar_error": float(tail.standard_error[0]),
        "cvar_reference": float(tail.value[1]),
        "worse_than_baseline": float((value["gain"] < -1e-9).mean()),
        "no_change": labels.count("no change") / len(labels),
        "mean_best": float(value["best"].mean()),
        "baseline_bias": float((value["baseline_simulated"] - value["baseline_value"]).mean()),
        "p_below_0.05": float((value["p_value"] < 0.05).mean()),
        "seconds": float(np.median(value["seconds"])),
        "bar": (
            "below the bar's sizes"
            if size < BAR_FROM[name]
            else "too few logs"
            if not enough
            else "met"
            if met
            else "not met"
        ),
    }
    found |= {
        f"kept: {OTHER}": float(value[OTHER].mean() / mean.value[1]),
        f"cvar: {OTHER}": float(cvar(value[OTHER], TAIL)),
    }
    return found


def page(cells: list[dict[str, float | str]], rows: list[dict[str, str]]) -> str:
    """tuning.md."""
    lines = [
        "# Hyper-parameters from the log alone",
        "",
        *(__doc__ or "").strip().split("\n\n")[-1].split("\n"),
        "",
    ]
    lines += [
        "| benchmark | size | logs | mean | Table 1: mean | kept | CVaR 1 % | its error | Table 1:"
        " CVaR | worse | no change | bar |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for x in cells:
        lines.append(
            f"| {x['benchmark']} | {x['size']} | {x['logs']} | {x['mean']:.3f} |"
            f" {x['mean_reference']:.3f} | {x['kept']:.0%} | {x['cvar']:.3f} |"
            f" {x['cvar_error']:.3f} | {x['cvar_reference']:.3f} | {x['worse_than_baseline']:.1%} |"
            f" {x['no_change']:.0%} | {x['bar']} |"
        )
    lines += [
        "",
        (
            "The largest mean instead on the same logs (kept share of the mean, CVaR 1 %), the best"
            " setting of each log in hindsight, and the check"
        ),
        "",
    ]
    lines += [
        f"| benchmark | size | {OTHER} | hindsight: mean | baseline simulated - true | p < 0.05 |"
        " CPU s a log |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for x in cells:
        rules = f"{x[f'kept: {OTHER}']:.0%}, {x[f'cvar: {OTHER}']:.3f}"
        lines.append(
            f"| {x['benchmark']} | {x['size']} | {rules} | {x['mean_best']:.3f} |"
            f" {x['baseline_bias']:+.3f} | {x['p_below_0.05']:.0%} | {x['seconds']:.2f} |"
        )
    lines += [
        "",
        "What was chosen, in per cent of the logs, and the mean true gain of every setting",
        "",
    ]
    for name in dict.fromkeys(str(x["benchmark"]) for x in cells):
        here = [row for row in rows if row["benchmark"] == name]
        sizes = sorted({int(row["size"]) for row in here})
        lines += [
            f"| {name} | " + " | ".join(map(str, sizes)) + " |",
            "|---|" + "---|" * len(sizes),
        ]
        for key in (key for key in here[0] if key.startswith("gain of ")):
            parts = [
                [row for row in here if int(row["size"]) == size and row.get(key)] for size in sizes
            ]
            share = [
                sum(row["chosen"] == key.removeprefix("gain of ") for row in part)
                / max(len(part), 1)
                for part in parts
            ]
            gain = [
                np.mean([float(row[key]) for row in part]) if part else np.nan for part in parts
            ]
            lines.append(
                f"| {key.removeprefix('gain of ')} | "
                + " | ".join(f"{s:.0%}, {g:.3f}" for s, g in zip(share, gain, strict=True))
                + " |"
            )
        lines.append("")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing, then summarise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--only", action="append", help="benchmark:size, may be repeated")
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--simulated", type=int, default=100)
    given = parser.parse_args()
    cells = [tuple(x.split(":")) for x in given.only] if given.only else CELLS
    wanted = [
        (str(name), int(size), first, min(first + SHARD, given.logs), given.models, given.simulated)
        for name, size in cells
        for first in range(0, given.logs, SHARD)
    ]
    folder = given.out / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {x: folder / f"{'-'.join(map(str, x))}.csv" for x in wanted}
    missing = sorted((x for x in wanted if not paths[x].exists()), key=lambda x: -x[1])
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # one thread a worker: read when it loads NumPy
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for i, job in enumerate(
            as_completed([pool.submit(shard, str(given.out), *x) for x in missing]), start=1
        ):
            print(f"{i} of {len(missing)}: {job.result()}", flush=True)
    rows = [row for x in wanted for row in read(paths[x])]
    columns = tuple(k for k in rows[0] if not k.startswith("gain of "))
    write_csv(given.out / "logs.csv", columns, [[row[k] for k in columns] for row in rows])
    by_cell = [
        [row for row in rows if (row["benchmark"], int(row["size"])) == (str(n), int(s))]
        for n, s in cells
    ]
    found = [summary_of(x) for x in by_cell]
    write_csv(given.out / "summary.csv", tuple(found[0]), [list(x.values()) for x in found])
    write_whole(given.out / "tuning.md", page(found, rows))
    print((given.out / "tuning.md").read_text())


if __name__ == "__main__":
    main()
