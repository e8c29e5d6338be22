"""What a proof costs: the mean gain and its 1 % CVaR of methods that prove what they change, and of
one that proves nothing, on the same logs.

    python measurements/price_of_proof.py [--logs 2000] [--workers 2] \\
        [--benchmark random-mdps|wet-chicken] [--sizes ..]

Every proof is at delta 0.05. "proved" is the mean of the bounds at the start, where they are above
0; a policy that is the baseline has gain 0 and proves 0. "worse" counts policies that are truly
worse than their baseline.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context

import numpy as np

import surefoot
from certificates import THREADS, Cell, _benchmark, _data_sets
from surefoot.statistics.metrics import cvar

DELTA, CHUNK = 0.05, 20
SIZES = {"random-mdps": (1000, 5000, 20_000), "wet-chicken": (50_000, 200_000)}
EPSILON = {"random-mdps": 1.0, "wet-chicken": 0.5}  # Table 1 of Scholl et al. 2022
PROVE = ("screened-advantage", "planned-advantage", "certified-advantage")


def gains(cell: Cell, numbers: range) -> np.ndarray:
    """(truth, bound) of every method on these logs, [logs, methods, 2]; a bound that is not given
    is NaN.
    """
    found = []
    for world, problem, _ in _data_sets(cell, _benchmark(cell.benchmark), numbers, False):
        rho_b, of_log = float(np.asarray(world.rho_b)[0]), []
        for name in PROVE:
            pi = surefoot.improve(problem, surefoot.algorithm(name, delta=DELTA)).pi
            bound = float("nan")
            with suppress(surefoot.PolicyError, surefoot.NotAvailableError):
                bound = surefoot.certify(problem, pi, name, delta=DELTA).bound
            of_log.append((float(np.asarray(world.value(pi[None]))[0]) - rho_b, bound))
        free = surefoot.algorithm(
            "lower-approx-soft-spibb", epsilon=EPSILON[cell.benchmark], delta=1.0
        )
        pi = surefoot.improve(problem, free).pi
        of_log.append((float(np.asarray(world.value(pi[None]))[0]) - rho_b, float("nan")))
        found.append(of_log)
    return np.array(found)


def line(name: str, found: np.ndarray) -> str:
    """One row of the table."""
    truth, bound = found[:, 0], np.nan_to_num(np.maximum(found[:, 1], 0.0))
    return (
        f"  {name:24} gain {truth.mean():.4f}, CVaR 1 % {cvar(truth, 0.01):.4f},"
        f" proved {bound.mean():.4f} (above 0 in {(bound > 0).mean():.1%}),"
        f" worse {(truth < -1e-9).sum()}"
    )


def main() -> None:
    """All sizes of both benchmarks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--benchmark", choices=list(SIZES), nargs="*", default=list(SIZES))
    parser.add_argument("--sizes", type=int, nargs="*")
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(THREADS, "1"))
    chunks = [range(i, min(i + CHUNK, options.logs)) for i in range(0, options.logs, CHUNK)]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for benchmark in options.benchmark:
            for size in options.sizes or SIZES[benchmark]:
                work = partial(gains, Cell(benchmark, size, None, 0))
                found = np.concatenate(list(pool.map(work, chunks)))
                print(f"{benchmark} {size}, {len(found)} logs", flush=True)
                for i, name in enumerate((*PROVE, "lower-approx-soft-spibb")):
                    print(line(name, found[:, i]), flush=True)


if __name__ == "__main__":
    main()
