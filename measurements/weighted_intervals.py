"""Coverage of the intervals of `evaluate` by weights: IPS, SNIPS and DR, each end at 5 %.

    python measurements/weighted_intervals.py [--logs 1000] [--workers 2]

One-step logs (and three steps) of two loggers with true propensities, a policy that is another one,
rewards of several kinds; the truth is known. Printed: how often the low end lies above the truth,
and the high end below it.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import surefoot
from promises import rate
from surefoot.evidence.value_on_log import weighted_values

# name: (episodes, steps, P(new) of the loggers, success of (old, new), of the policy P(new))
FAMILIES: dict[str, tuple[int, int, tuple[float, float], tuple[float, float], float]] = {
    "coins, 1,000": (1000, 1, (0.2, 0.6), (0.3, 0.5), 0.8),
    "coins, 100": (100, 1, (0.2, 0.6), (0.3, 0.5), 0.8),
    "rare success .02, 100": (100, 1, (0.4, 0.6), (0.02, 0.02), 0.5),
    "rare success .01, 300": (300, 1, (0.4, 0.6), (0.01, 0.01), 0.5),
    "three steps, 500": (500, 3, (0.3, 0.6), (0.3, 0.5), 0.7),
    "rare action .05, 1,000": (1000, 1, (0.05, 0.1), (0.3, 0.5), 0.5),
}


def one(i: int, name: str, declared: bool) -> list[tuple[bool, bool]]:
    """(low end above, high end below the truth) of the log's own mean, IPS, SNIPS and DR."""
    n, steps, shares, success, new = FAMILIES[name]
    rng = np.random.default_rng([len(name), i])
    share = np.repeat(np.array(shares)[rng.integers(0, 2, n)], steps)
    action = (rng.random(n * steps) < share).astype(int)
    last = np.tile(np.arange(steps) == steps - 1, n)
    problem = surefoot.problem(
        state=np.tile(np.arange(steps), n),
        action=action,
        reward=(rng.random(n * steps) < np.array(success)[action]).astype(float),
        next_state=np.tile(np.arange(1, steps + 1), n),
        episode=np.repeat(np.arange(n), steps),
        time=np.tile(np.arange(steps), n),
        terminal=last,
        propensity=np.where(action == 1, share, 1 - share),
        gamma=0.9,
        n_states=steps + 1,
        n_actions=2,
        pi_b=np.full((steps + 1, 2), 0.5),
        reward_range=(0, 1) if declared else None,
    )
    pi = np.tile([1 - new, new], (steps + 1, 1))
    found: dict[str, Any] = weighted_values(problem, pi)
    discounted = float((0.9 ** np.arange(steps)).sum())
    truth = discounted * float(np.dot([1 - new, new], success))
    mean = float(np.mean(shares))
    own = discounted * float(np.dot([1 - mean, mean], success))
    return [
        (x["low"] > t + 1e-12, x["high"] < t - 1e-12)
        for x, t in ((found[k], own if k == "log" else truth) for k in found)
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        for name in FAMILIES:
            for declared in (True, False):
                ask = partial(one, name=name, declared=declared)
                found = np.array(list(pool.map(ask, range(given.logs), chunksize=25)))
                wrong = found.sum(axis=0)
                words = "; ".join(
                    f"{method} {rate(int(low), given.logs)} {rate(int(high), given.logs)}"
                    for method, (low, high) in zip(
                        ("log", "ips", "snips", "dr"), wrong, strict=True
                    )
                )
                print(f"{name}, range {'declared' if declared else 'seen'}: {words}", flush=True)


if __name__ == "__main__":
    main()
