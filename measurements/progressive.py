"""Progressive validation, which surefoot does not do: what its capital shows, and what learning
from up to nine tenths of a log would gain.

    python measurements/progressive.py [--logs 100] [--benchmark random-mdps|wet-chicken]

Blocks: five policies, one after the other, each tested on a block of 200 decisions, with one
capital for all. Benchmarks: the default method learns from the first 50, 60, .. 90 % of a log, and
every policy is tested, as `improve` does it, on the same further data of half the size of the log.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

import hostile
import surefoot
from hidden_worlds import Case
from safety_power import Family, shown
from surefoot.advice.gain import _Asked, _asymptotic, _learned
from surefoot.algorithms.defaults import chosen_algorithm
from surefoot.evidence import units_of_batch
from surefoot.problems import Problem

SIZES = {"random-mdps": (50, 200, 1000), "wet-chicken": (1000, 5000, 20_000)}
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
BLOCKS = ((0.1, 0.1, 0.1, 0.1, -0.1), (0.1, 0.05, 0.0, -0.05, -0.1))


def blocks(gains: tuple[float, ...], logs: int) -> float:
    """The share of logs on which the capital shows "a gain"."""
    family, rng = Family("", 1, 0.5, 0.75, 0.4), np.random.default_rng(0)
    made = (np.concatenate([family.values(rng, 200, g)[0] for g in gains]) for _ in range(logs))
    return float(np.mean([shown(x) for x in made]))


def posed(case: Case) -> Problem:
    """The problem of a log of a benchmark, with the true baseline."""
    columns, world = case.columns, case.world
    state, action, follow = (
        np.array([int(x[1:]) for x in columns[name]]) for name in ("state", "action", "next_state")
    )
    problem = surefoot.problem(
        state=state, action=action, next_state=follow, reward=np.array(columns["reward"]),
        episode=np.unique(columns["episode"], return_inverse=True)[1],
        time=np.array(columns["time"]), terminal=np.array(columns.get("terminal", 0 * state)) > 0,
        gamma=world.gamma, pi_b=world.pi_b, n_states=len(world.pi_b),
        n_actions=world.pi_b.shape[1],
    )  # fmt: skip
    assert problem.log is not None
    if problem.log.n_episodes > 1:
        return problem
    visits = problem.n_sa.sum(axis=1)
    return replace(problem, start=visits / visits.sum(), start_episodes=None, start_visits=True)


def one(name: str, size: int, seed: int) -> list[tuple[float, bool, float]]:
    """(true gain, whether it is shown, gain of what is then used) of the policy from each share."""
    case = hostile.benchmark(np.random.default_rng([11, seed]), name, int(1.4 * size))
    problem = posed(case)
    assert problem.log is not None
    units = units_of_batch(problem.log, problem.gamma)
    place, pi_b = np.arange(units.number) / units.number * 1.4, np.asarray(problem.pi_b)

    def truth(pi: np.ndarray) -> float:
        return float(case.world.gain(np.where(problem.terminal[:, None], case.world.pi_b, pi)))

    found = []
    for share in SHARES:
        asked = _Asked(chosen_algorithm(problem), None, None, None)
        learned = _learned(problem, units, place < share, asked)
        tested = _asymptotic(learned, problem, units, place >= SHARES[-1], pi_b, asked)
        shown = tested.evidence.positive
        used = truth(tested.pi) if shown else 0.0
        found.append((truth(learned.pi), shown, used))
    return found


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--benchmark", choices=list(SIZES), action="append")
    given = parser.parse_args()
    for gains in BLOCKS:
        print(f"gains {gains}: shown on {blocks(gains, 1000):.1%} of 1,000 logs", flush=True)
    for name in given.benchmark or SIZES:
        for size in SIZES[name]:
            begin = time.time()
            found = np.array([one(name, size, seed) for seed in range(given.logs)], dtype=float)
            gain, shown_on, used = found.mean(axis=0).T
            below = (found[:, -1, 0] < found[:, :, 0].mean(axis=1) - 1e-9).mean()
            print(
                f"{name} {size:,}: true gain {np.round(gain, 4)}, shown {np.round(shown_on, 3)},"
                f" gain used {np.round(used, 4)}; the last policy is below the mean of all on"
                f" {below:.0%} ({time.time() - begin:.0f} s)",
                flush=True,
            )


if __name__ == "__main__":
    main()
