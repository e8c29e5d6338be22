"""What a trial of the paper's figures costs, phase by phase, in units of one batched 50 x 50 solve;
on a GPU in seconds.

On a CPU: time of the processor, one BLAS thread as in a worker of a study; unit and work in turn,
the least of several of each.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

os.environ.update(
    dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)  # before NumPy is loaded

import numpy as np

from surefoot.research.studies.spec import shipped_study, variants
from surefoot.research.studies.trials import run_trials

MOST = {"random-mdps": 3000, "wet-chicken": 2500}  # units a trial may cost
TRIALS = 250  # as many as a shard holds
RUNS = 3  # on a CPU: of the same work, the fastest counts, as for the unit


def unit() -> float:
    """Seconds of one solve of [256, 50, 50] with [256, 50, 1], divided by 256: the least of
    several.
    """
    rng = np.random.default_rng(0)
    matrices, right = np.eye(50) + 0.01 * rng.random((256, 50, 50)), rng.random((256, 50, 1))
    times = []
    for _ in range(20):
        start = time.process_time()
        np.linalg.solve(matrices, right)
        times.append(time.process_time() - start)
    return min(times) / 256


def phases(name: str, trials: int, device: str) -> Counter[str]:
    """Seconds of every phase of one shard."""
    spent: Counter[str] = Counter()
    clock = time.process_time if device == "cpu" else time.perf_counter
    last = clock()

    def tick(phase: str) -> None:
        nonlocal last
        if device not in ("cpu", "torch"):
            import torch

            torch.cuda.synchronize()
        now = clock()
        spent[phase] += now - last
        last = now

    study = shipped_study(name)
    run_trials(study, variants(study)[0], 0, trials, device, tick)
    return spent


def main() -> None:
    """`studies.py [device] [trials]`: both figures, unit and work measured in turn."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    trials = int(sys.argv[2]) if len(sys.argv) > 2 else TRIALS
    if device != "cpu":
        phases("wet-chicken", 50, device)  # the first use of a GPU compiles and loads
    for name, most in MOST.items():
        one, spent = unit(), phases(name, trials, device)
        for _ in range(RUNS - 1 if device == "cpu" else 0):
            one, spent = (
                min(one, unit()),
                min(spent, phases(name, trials, device), key=Counter.total),
            )
        total = spent.total()
        print(
            f"\n{name}: {trials:,} trials, all sizes, all nine algorithms, on {device}:"
            f" {total:.1f} s"
        )
        if device == "cpu":
            print(
                f"a trial costs {total / trials / one:,.0f} units (at most {most:,}); the unit is"
                f" {one * 1e6:.1f} us"
            )
        for phase, seconds in spent.most_common():
            units = f"{seconds / trials / one:10.1f} units a trial" if device == "cpu" else ""
            print(f"  {phase:58}{seconds:8.2f} s{units}")


if __name__ == "__main__":
    main()
