"""Values of a fixed policy where outcomes decide who goes on ("stay while you win"): how often the
bound of the delta method and the intervals of `evaluate` exclude the truth, a gain of 0.

    python measurements/stopped_values.py [--logs 1000] [--workers 2]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import stopping
import surefoot
from promises import rate
from surefoot.evidence import bound as certificate
from surefoot.evidence import model_of_units, units_of_batch
from surefoot.evidence.certificates import certify

certificate._data_needed = lambda bound, bound_at, rows: (float("nan"), "not asked for")
CASES: tuple[dict[str, Any], ...] = (
    {"states": 200, "each": 12},
    {"states": 100, "each": 12},
    {"states": 20, "each": 12},
    {"states": 200, "each": 6, "ends": 0.3, "gamma": 0.9},
    {"states": 200, "each": 12, "cured": True},
    {"states": 200, "each": 4},
)


def one(i: int, **given: Any) -> tuple[bool, bool, bool]:
    """Whether each of three bounds is wrong on log i: the delta method's, and both of evaluate."""
    rng = np.random.default_rng([3, i])
    case = stopping.stay_while_you_win(rng, **given)
    columns, world = case.columns, case.world
    state, action, follow = (
        np.array([int(x[1:]) for x in columns[name]]) for name in ("state", "action", "next_state")
    )
    problem = surefoot.problem(
        state=state,
        action=action,
        reward=np.array(columns["reward"]),
        next_state=follow,
        gamma=world.gamma,
        episode=np.unique(columns["episode"], return_inverse=True)[1],
        time=np.array(columns["time"]),
        terminal=np.array(columns["terminal"]) > 0,
        n_states=len(world.pi_b),
        n_actions=2,
        pi_b=world.pi_b,
        reward_range=(0, 1),
    )
    pi = np.vstack([np.eye(2)[rng.integers(0, 2, len(world.pi_b) - 1)], [0.5, 0.5]])
    bound = certify(problem, pi, "delta-method", data="fresh", delta=0.05).bound
    units = units_of_batch(problem.log, problem.gamma)
    low, high = model_of_units(problem, units).compare(pi).gain.interval()
    return bound > 0, low > 0, high < 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        for case in CASES:
            found = list(pool.map(partial(one, **case), range(given.logs), chunksize=10))
            words = [rate(sum(x[j] for x in found), given.logs) for j in range(3)]
            print(f"{case}: delta method {words[0]}  low {words[1]}  high {words[2]}", flush=True)


if __name__ == "__main__":
    main()
