"""What one fit costs: 256 Random MDPs (S = 50, A = 4, 100 trajectories) at once, from Counts on,
in units of one 50 x 50 solve.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import surefoot

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support import worlds

BATCH = 256
SOFT = {"epsilon": 2, "delta": 1}
LOWER = {"epsilon": 1, "delta": 1}
# (algorithm, parameters, the most units a fit may cost; None: reported only)
FITS: list[tuple[str, dict[str, object], float | None]] = [
    ("basic-rl", {}, 15),
    ("ramdp", {"kappa": 0.05}, 15),
    ("r-min", {"n_wedge": 3}, 15),
    ("pi-b-spibb", {"n_wedge": 10}, 15),
    ("pi-leq-b-spibb", {"n_wedge": 10}, 15),
    ("approx-soft-spibb", SOFT, 25),
    ("lower-approx-soft-spibb", LOWER, 25),
    ("adv-approx-soft-spibb", SOFT, 25),
    ("exact-soft-spibb", SOFT, 30),
    ("lower-exact-soft-spibb", LOWER, 30),
    ("adv-exact-soft-spibb", SOFT, 60),
    ("priced-soft-spibb", {"epsilon": 1}, 25),
    ("duipi", {"xi": 0.1, "max_steps": 1000}, 200),
    ("duipi", {"xi": 0.1, "prior": "frequentist", "max_steps": 1000}, None),
    ("duipi-centred", {"xi": 0.1}, None),
    ("one-step+approx-soft-spibb", SOFT, None),
    ("one-step+exact-soft-spibb", SOFT, None),
    ("mbie", {"delta": 0.1}, None),
    ("robust", {"delta": 0.1}, None),
    ("vi-lcb", {"c_b": 0.1, "delta": 0.1}, None),
    ("ramdp+lower-exact-soft-spibb", {"kappa": 0.05, **LOWER}, None),
    ("duipi-centred+lower-exact-soft-spibb", {"xi": 0.1, **LOWER}, None),
]


def problems(batch: int = BATCH) -> surefoot.Problem:
    """Random MDPs by the paper's recipe, under the published settings."""
    made = []
    for seed in range(batch):
        rng = np.random.default_rng(seed)
        world = worlds.random_mdp(rng)
        log = worlds.sample(world, rng, 100, 50)
        made.append(worlds.problem(world, log, unseen_states="first-action", ties="lowest-index"))
    return worlds.stacked(made)


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measure unit and fit in turn, at least five times each, and divide the minima."""
    print(f"making {BATCH} Random MDPs ...", flush=True)
    problem = problems()
    rng = np.random.default_rng(0)
    matrices, right = np.eye(50) + 0.01 * rng.random((256, 50, 50)), rng.random((256, 50, 1))
    np.linalg.solve(matrices, right)

    def fresh() -> surefoot.Problem:  # nothing derived is kept from an earlier fit
        counts = problem.counts
        again = surefoot.Counts(
            counts.n_sas, counts.r_sas, counts.r_rest, counts.n_states, counts.n_actions
        )
        return dataclasses.replace(problem, counts=again)

    print(f"{'a fit, from Counts on':38}{'units':>8}{'at most':>9}{'us':>9}   status")
    for name, parameters, most in FITS:
        algorithm = surefoot.algorithm(name, **parameters)
        units, fits, status = [], [], None
        for _ in range(5):
            units.append(seconds(lambda: np.linalg.solve(matrices, right)) / 256)
            start = time.perf_counter()
            status = surefoot.improve(fresh(), algorithm).status
            fits.append((time.perf_counter() - start) / BATCH)
            units.append(seconds(lambda: np.linalg.solve(matrices, right)) / 256)
        ratio = min(fits) / min(units)
        label = name + (" (frequentist)" if parameters.get("prior") else "")
        print(
            f"{label:38}{ratio:8.1f}{most or '-':>9}{min(fits) * 1e6:9.0f}   {status}", flush=True
        )
    print(
        f"the unit: {min(units) * 1e6:.1f} us for one solve of [256, 50, 50] with [256, 50, 1],"
        " divided by 256"
    )


if __name__ == "__main__":
    main()
