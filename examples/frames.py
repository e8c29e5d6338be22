"""A frame in, a frame out: a log that is a pandas or polars frame, and the policy as one.

    python examples/frames.py                     (with pandas or polars; else plain columns)

Nobody wrote down the rule that chose the doses: it is estimated from the log.
"""

from importlib import import_module

import numpy as np

import surefoot


def frame(columns: dict[str, list[object]]) -> object:
    """A frame of the library that is there; a dict of columns where none is."""
    for library in ("polars", "pandas"):
        try:
            return import_module(library).DataFrame(columns)
        except ImportError:
            continue
    return columns


def main() -> None:
    """Two wards, two treatments; the log has what a database query would give."""
    rng = np.random.default_rng(0)
    ward = rng.choice(["A", "B"], 400)
    severe = rng.random(400) < 0.3
    dose = np.where(rng.random(400) < 0.8, "low", "high")
    healed = rng.random(400) < np.where(dose == "high", 0.7, 0.4) - 0.2 * severe
    steps = frame(
        {
            "patient": list(range(400)),
            "ward": ward.tolist(),
            "severe": severe.tolist(),
            "dose": dose.tolist(),
            "healed": healed.astype(float).tolist(),
        }
    )
    problem = surefoot.problem(
        steps,
        gamma=0.9,
        episode="patient",
        state="ward,severe",  # two columns make one state
        action="dose",
        reward="healed",
        episode_end="terminal",  # one decision a patient
        reward_range=(0, 1),
    )
    solution = surefoot.improve(problem, surefoot.PricedSoftSPIBB(epsilon=1))
    print(type(steps).__module__.split(".")[0], "in;", solution)
    print(solution.to_frame())  # a frame again: ward, severe, action, probability, baseline, count


if __name__ == "__main__":
    main()
