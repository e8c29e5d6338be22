"""Reading logs at scale: 100,000 states, 10 actions, 5 million triples with text labels, against
bare DuckDB; time and peak memory.

    python measurements/logs.py --rows 20000000 --threads 1

    python measurements/logs.py --rows 20000000 --small    # 100 states, for --history 2

Every figure is taken in a process of its own, reader and bare query in turn; ratios are of the
shortest times. With one thread the time of the processor is given too, which other work on the
machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

import surefoot
from surefoot.checks import check_log
from surefoot.logs import read_log

SIZES, STEPS = (100_000, 10, 5), 100
BLOCK = 20_000  # episodes made at a time
GROUP = "count(*) as n, sum(reward) as r from {} group by all"
WINDOW = (
    "(select state, action, reward, lead(state) over (partition by episode order by time) as"
    " next_state from {})"
)

# what is measured: (against what, the most times that at 100 million rows, 10 million of text)
BARS: dict[str, tuple[str, float | None]] = {
    "counts": ("bare", 2.0),
    "counts, unchecked": ("bare", None),
    "derived": ("window", 1.5),
    "counts and returns": ("bare", 3.5),
    "policy": ("counts", 0.1),
    "propensities": ("counts", 1.5),
    "check": ("counts", None),
    "check, propensities": ("check", 1.5),
}
# of a log of 100 states and 4 actions: histories of large ones are hardly ever seen twice
SMALL_SIZES = (100, 4, 3)
SMALL_BARS: dict[str, tuple[str, float | None]] = {
    "history 2": ("counts", 2.5),
    "derived, history 2": ("derived", 2.5),
}
TEXT_BARS: dict[str, tuple[str, float | None]] = {
    "counts": ("bare", 2.5),
    "counts, unchecked": ("bare", None),
}


def mixed(x: np.ndarray) -> np.ndarray:
    """A hash of whole numbers (SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def make(folder: Path, rows: int, kind: str, sizes: tuple[int, int, int]) -> None:
    """Episodes of 100 steps in blocks, one file each; so many states, actions and successors."""
    n_states, n_actions, n_successors = sizes
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    with duckdb.connect() as connection:
        for block in range(-(-rows // (STEPS * BLOCK))):
            n = min(BLOCK, rows // STEPS - block * BLOCK)
            state, path = rng.integers(0, n_states, n), []
            for t in range(STEPS):
                action, draw = rng.integers(0, n_actions, n), rng.integers(0, n_successors, n)
                key = ((state * n_actions + action) * n_successors + draw).astype(
                    np.uint64
                ) + np.uint64(7919)
                follow = (mixed(key) % np.uint64(n_states)).astype(np.int64)
                reward = np.round((follow % 7) / 7 + rng.normal(0, 0.1, n), 3)
                path.append(
                    (np.arange(n) + block * BLOCK, np.full(n, t), state, action, reward, follow)
                )
                state = follow
            episode, step, s, a, r, s_next = (
                np.stack(x, axis=1).reshape(-1) for x in zip(*path, strict=True)
            )
            connection.register(
                "steps",
                {"episode": episode, "step": step, "s": s, "a": a, "r": r, "s_next": s_next},
            )
            connection.execute(
                "copy (select 'episode-' || lpad(episode::varchar, 8, '0') as episode, step as"
                " time, 'state-' || lpad(s::varchar, 6, '0') as state, 'action-' || a as action, r"
                " as reward, 'state-' || lpad(s_next::varchar, 6, '0') as next_state, 0.02 + 0.96 *"
                " ((s * 7919 + a * 104729) % 1000) / 1000 as chance from steps)"
                f" to '{folder}/part-{block:03d}.{kind}' (format {kind})"
            )
            connection.unregister("steps")


def one(what: str, folder: str, kind: str, threads: int, limit: str | None) -> None:
    """Measure one thing in this process and print seconds and peak memory."""
    pattern = f"{folder}/*.{kind}"
    seconds = {}
    start, work = time.perf_counter(), time.process_time()
    if what in ("bare", "window"):
        config: dict[str, str | int] = {
            "threads": threads,
            "temp_directory": f"{folder}/spill",
            "preserve_insertion_order": "false",
        }
        config |= {"memory_limit": limit} if limit else {}
        source = f"read_{kind}('{pattern}')"
        rows = WINDOW.format(source) if what == "window" else source
        with duckdb.connect(config=config) as connection:
            connection.execute(
                f"create temp table t as select state, action, next_state, {GROUP.format(rows)}"
            )
    else:
        options = {"threads": threads, "memory": limit}
        if what.startswith("derived"):
            log = read_log(pattern, next_state="-", history=2 * ("2" in what), **options)
        elif what == "history 2":
            log = read_log(pattern, history=2, **options)
        else:
            weighed = "chance" if "propensities" in what else None
            checks = what != "counts, unchecked"
            log = read_log(pattern, check_order=checks, propensity=weighed, **options)
        if what.startswith("check"):
            check_log(log)
        if what == "counts and returns":
            log.returns(0.95)
        if what == "policy":
            start, work = time.perf_counter(), time.process_time()
            pi_b = np.full((log.n_states, log.n_actions), 1 / log.n_actions)
            start_in = np.full(log.n_states, 1 / log.n_states)
            made = log.problem(
                0.95, pi_b, start=start_in, reward_range=(-2, 3), needs_returns=False
            )
            seconds["status"] = str(
                surefoot.improve(made, surefoot.algorithm("pi-b-spibb", n_wedge=5)).status
            )
    seconds |= {"seconds": time.perf_counter() - start, "work": time.process_time() - work}
    print(json.dumps(seconds | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def measured(
    what: str, folder: Path, kind: str, threads: int, limit: str | None
) -> tuple[float, float, float]:
    """(seconds, seconds of the processor, peak MB) of one thing, in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--one",
        what,
        "--folder",
        str(folder),
        "--kind",
        kind,
        "--threads",
        str(threads),
    ]
    command += ["--memory-limit", limit] if limit else []
    found = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[
            -1
        ]
    )
    return found["seconds"], found["work"], found["peak"]


def compare(
    folder: Path,
    rows: int,
    kind: str,
    threads: int,
    limit: str | None,
    repeat: int,
    only: list[str],
    small: bool,
) -> None:
    """Everything against its peer, in turn."""
    bars = SMALL_BARS if small else BARS if kind == "parquet" else TEXT_BARS
    bars = {what: bar for what, bar in bars.items() if not only or what in only}
    names = list(dict.fromkeys([*(peer for peer, _ in bars.values()), *bars]))
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    for _ in range(repeat):
        for name in names:
            found[name].append(measured(name, folder, kind, threads, limit))
    print(f"{rows:,} rows of {kind}, {threads} thread(s), memory limit {limit or 'of DuckDB'}")
    columns = f"{'s':>8}{'ratio':>8}{'cpu s':>8}{'ratio':>8}{'at most':>9}{'rows/s':>14}"
    print(f"{'':20}{columns}{'peak MB':>9}   against")
    for name in names:
        seconds, work, peak = (min(x) for x in zip(*found[name], strict=True))
        peer, most = bars.get(name, ("", None))
        ratios = [
            f"{x / min(y[i] for y in found[peer]):.2f}" if peer else ""
            for i, x in enumerate((seconds, work))
        ]
        times = f"{seconds:8.2f}{ratios[0]:>8}{work:8.2f}{ratios[1]:>8}"
        print(
            f"{name:20}{times}{most or '-':>9}{rows / seconds:14,.0f}{peak:9.0f}   {peer}",
            flush=True,
        )


def main() -> None:
    """Make the log once, then measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory-limit")
    parser.add_argument("--kind", choices=["parquet", "csv"], default="parquet")
    parser.add_argument(
        "--folder", help="where the log is, or is to be made; default: a temporary folder"
    )
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help=f"some of: {', '.join(BARS)}")
    parser.add_argument("--small", action="store_true", help="a log of 100 states: histories")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one, given.folder, given.kind, given.threads, given.memory_limit)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        if not list(folder.glob(f"*.{given.kind}")):
            print(f"making {given.rows:,} rows in {folder} ...", flush=True)
            make(folder, given.rows, given.kind, SMALL_SIZES if given.small else SIZES)
        compare(
            folder,
            given.rows,
            given.kind,
            given.threads,
            given.memory_limit,
            given.repeat,
            given.only,
            given.small,
        )


if __name__ == "__main__":
    main()
