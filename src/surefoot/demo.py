"""`python -m surefoot.demo`: from a shipped log to better policies, printed as a table, with the truth beside the estimates."""

from __future__ import annotations

import csv
from importlib import resources
from typing import Any

import numpy as np

import surefoot
from surefoot.benchmarks import WetChicken

SHOWN: dict[str, dict[str, Any]] = {
    "basic-rl": {},
    "ramdp": {"kappa": 2},
    "pi-b-spibb": {"n_wedge": 7},
    "approx-soft-spibb": {"epsilon": 1, "delta": 1},
    "lower-approx-soft-spibb": {"epsilon": 0.5, "delta": 1},
    "lower-exact-soft-spibb": {"epsilon": 0.5, "delta": 1},
    "ramdp+lower-exact-soft-spibb": {"kappa": 0.5, "epsilon": 1, "delta": 1},
}


def load_log() -> dict[str, Any]:
    """The shipped log: 2,000 steps of the rule of thumb on the Wet Chicken river, as columns for `surefoot.problem`."""
    with resources.files("surefoot").joinpath("data/wet_chicken.csv").open() as file:
        rows = list(csv.DictReader(file))
    integers = ("episode", "time", "state", "action", "next_state")
    columns: dict[str, Any] = {name: np.array([int(row[name]) for row in rows]) for name in integers}
    columns["reward"] = np.array([float(row["reward"]) for row in rows])
    return columns


def main() -> None:
    """Improve the shipped log's baseline with several algorithms and print what each would change."""
    river = WetChicken()
    log = load_log()
    problem = surefoot.problem(**log, pi_b=river.pi_b, gamma=river.gamma, start=0, reward_range=(0, river.length - 1))
    seen = int(problem.seen.sum())
    print(
        f"Wet Chicken: a log of {len(log['state']):,} steps of a rule of thumb, {problem.n_states} states x {problem.n_actions} actions,"
    )
    print(f"{seen} of {problem.seen.size} pairs ever tried. The closer to the fall, the more it pays; who falls starts again.\n")
    best = surefoot.optimal(river.model).pi
    worth = {
        name: float(surefoot.evaluate_at_start(river.model, pi, problem.start)) for name, pi in (("rule", river.pi_b), ("best", best))
    }
    print(f"{'':32}{'rows changed':>14}{'mass moved':>12}{'estimate':>11}{'truth':>9}")
    print(f"{'rule of thumb (baseline)':32}{'-':>14}{'-':>12}{_estimate(problem, river.pi_b):11.2f}{worth['rule']:9.2f}")
    for name, parameters in SHOWN.items():
        solution = surefoot.improve(problem, surefoot.algorithm(name, **parameters))
        moved = 0.5 * np.abs(solution.pi - problem.pi_b).sum(axis=1)
        truth = float(surefoot.evaluate_at_start(river.model, solution.pi, problem.start))
        flag = "" if solution.status.ok else "  NOT CONVERGED"
        print(f"{name:32}{int((moved > 1e-9).sum()):14d}{moved.mean():12.0%}{_estimate(problem, solution.pi):11.2f}{truth:9.2f}{flag}")
    print(f"{'best possible policy':32}{'-':>14}{'-':>12}{'-':>11}{worth['best']:9.2f}\n")
    print("estimate: value at the start in the model counted from this log, where a pair never tried is worth the least possible; of a")
    print("policy chosen by that model it is optimistic. truth: in the real river, which only a demonstration knows. Methods that trust")
    print("every count promise most; a soft constraint around the baseline gives up some of the gain to keep the rest.")
    for note in problem.notes:
        print(f"note: {note}")


def _estimate(problem: surefoot.Problem, pi: np.ndarray) -> float:
    """The value at the start in the estimated model."""
    return float(surefoot.evaluate_at_start(problem.model, pi, problem.start))


if __name__ == "__main__":
    main()
