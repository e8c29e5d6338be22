"""What `surefoot plan` foretells: are logs of the size that it asks for really supported in 80 of
100 cases, and does trying a few actions more often decide more than a log of the same size?

    python measurements/next_log.py [--logs 60] [--workers 2]

Each first log is tested; where its estimate is above 0, the size for power .8 is foretold. The
median of these is then measured with fresh logs of that size. For the second question a log of the
same size is made by the baseline, and one by the baseline that tries what was proposed.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from families import clicks, large_effect, many_states, safer, seed_of, small_effect
from hidden_worlds import Case
from hostile import benchmark, case
from promises import direct, posed, rate

FAMILIES: dict[str, tuple[Callable[..., Case], int]] = {
    "small-effect": (small_effect, 300),
    "large-effect": (large_effect, 60),
    "clicks": (clicks, 500),
    "safer": (safer, 300),
    "many-states": (many_states, 500),
    "random-mdps": (partial(benchmark, name="random-mdps"), 50),
    "wet-chicken": (partial(benchmark, name="wet-chicken"), 1000),
}
COST = 0.002  # of the width of what a policy can gain: what trying may cost at most


def made(name: str, i: int, size: int) -> Case:
    """Log i of a family, of some size."""
    make = FAMILIES[name][0]
    rng = np.random.default_rng([seed_of(name), i])
    return make(rng, size=size) if isinstance(make, partial) else make(rng, size)


def foretold(name: str, i: int) -> float:
    """How many times as large a log should be; NaN where the estimate is not above 0."""
    from surefoot.advice import held_out_gain
    from surefoot.advice.next_log import times_needed
    from surefoot.evidence import units_of_batch

    problem, algorithm = posed(made(name, i, FAMILIES[name][1]))
    gain = held_out_gain(problem, units_of_batch(problem.log, problem.gamma), algorithm)
    if gain.values is None or gain.values.gain.value <= 0:
        return math.nan
    return times_needed(gain.values.gain)


def supported(name: str, i: int, size: int) -> bool:
    """Whether a fresh log of this size is supported."""
    return direct(made(name, 100_000 + i, size))[0]


def explored(name: str, i: int) -> tuple[bool, float, bool, float, float]:
    """(supported, true gain over the first baseline) of a second log made by the baseline, and of
    one that tries what was proposed; the true cost of trying.
    """
    from surefoot.advice import held_out_gain
    from surefoot.advice.next_log import trials, with_trials
    from surefoot.evidence import units_of_batch

    size = FAMILIES[name][1]
    first = made(name, i, size)
    problem, algorithm = posed(first)
    gain = held_out_gain(problem, units_of_batch(problem.log, problem.gamma), algorithm)
    pi_b = np.asarray(problem.pi_b)
    low, high = problem.reward_range
    budget = COST * (high - low) / (1 - problem.gamma if problem.gamma else 1.0)
    chosen = trials(problem, gain.pi, pi_b, budget)
    world, rng = first.world, np.random.default_rng([seed_of(name), i, 1])
    tried = replace(world, pi_b=with_trials(pi_b, chosen)[: len(world.pi_b)])
    episodes = len(set(first.columns["episode"]))
    steps = size if episodes == 1 else 50 if name == "random-mdps" else 1
    plain, more = (direct(case(x, rng, episodes, steps)) for x in (world, tried))
    cost = world.gain(tried.pi_b)
    return plain[0], plain[1], more[0], more[1] + cost * more[0], -cost


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    begin, n = time.perf_counter(), given.logs
    with ProcessPoolExecutor(given.workers) as pool:
        for name, (_, size) in FAMILIES.items():
            times = np.array(list(pool.map(foretold, [name] * n, range(n), chunksize=4)))
            middle = float(np.nanmedian(times)) if np.isfinite(times).any() else math.nan
            asked = round(size * middle) if math.isfinite(middle) else size
            hits = sum(pool.map(supported, [name] * n, range(n), [asked] * n, chunksize=4))
            told, ends = np.isfinite(times).mean(), np.nanquantile(times, (0.25, 0.75))
            print(
                f"{name:14} {size:6,}: foretold for {told:4.0%} of logs, median {middle:5.1f} times"
                f" (quartiles {ends[0]:.1f}, {ends[1]:.1f}); supported with {asked:,}:"
                f" {rate(hits, n)}",
                flush=True,
            )
        for name in ("many-states", "random-mdps", "wet-chicken"):
            x = np.array(list(pool.map(explored, [name] * n, range(n), chunksize=4)))
            a, b, c, d, cost = x.mean(axis=0)
            print(
                f"{name:14} second log by the baseline: supported {a:4.0%}, gain {b:.4g}; with what"
                f" was proposed {c:4.0%}, gain {d:.4g}; true cost of trying {cost:.4g}",
                flush=True,
            )
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
