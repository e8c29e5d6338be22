"""Defaults: the algorithm and the parameters of someone who has a log and has not read the
papers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from surefoot.algorithms import ALGORITHMS, algorithm
from surefoot.problems import Problem

DEFAULT = "lower-exact-soft-spibb"
# Why: it moves away from the baseline only as far as the counts of an action allow; it never raises
# an action that the log has not tried; its parameters have no unit, so the same values serve
# rewards in cents and in lives (kappa of RaMDP, which does better in the mean, has the unit of a
# reward); and lower-constrained Soft-SPIBB "performs empirically the best out of the whole SPIBB
# family" (Scholl et al. 2022, Section 4.2). Exact: the row problem is solved, not approximated. A
# heuristic: what protects is the held-out test. Table 1 of Scholl et al. 2022, the more cautious of
# its two benchmarks. Epsilon is compared with sqrt(2 ln(2 S A / delta) / n) times a probability, so
# it has no unit; delta = 1 as in the table: a scale, not a failure probability.
EPSILON, LOWER_EPSILON, DELTA, N_WEDGE = 1.0, 0.5, 1.0, 10.0
FAILURE = 0.05  # delta of the algorithms for which it is one
KAPPA = 0.5  # of the width of the reward range: 2 of 4 on Wet Chicken
PARAMETERS: dict[str, dict[str, float]] = {
    "r-min": {"n_wedge": 3.0},
    "duipi": {"xi": 0.5},
    "duipi-centred": {"xi": 0.5},
    "mbie": {"delta": 1.0},
    "robust": {"delta": 1.0},
    "vi-lcb": {"c_b": 0.05, "delta": 0.1},
    "pi-b-spibb": {"n_wedge": N_WEDGE},
    "pi-leq-b-spibb": {"n_wedge": N_WEDGE},
    "certified-advantage": {"delta": FAILURE},
    "one-step-certified-advantage": {"delta": FAILURE},
    "hcpi": {"delta": FAILURE},
}


def default_parameters(name: str, problem: Problem) -> dict[str, Any]:
    """What an algorithm is run with unless told otherwise; kappa of RaMDP, which has the unit of
    a reward, follows the rewards.
    """
    if "+" in name:
        return {
            k: v for part in name.split("+") for k, v in default_parameters(part, problem).items()
        }
    if name == "ramdp":
        low, high = problem.reward_range
        return {"kappa": KAPPA * (high - low)}
    if "soft-spibb" in name:
        return {"epsilon": LOWER_EPSILON if "lower" in name else EPSILON, "delta": DELTA}
    return dict(PARAMETERS.get(name, {}))


def chosen_algorithm(
    problem: Problem, name: str = DEFAULT, given: dict[str, Any] | None = None
) -> Any:
    """The algorithm by name, with the default of every parameter that is not given."""
    return algorithm(name, **(default_parameters(name, problem) | (given or {})))


def parameters_of(algorithm: Any) -> dict[str, Any]:
    """{parameter: value} of an algorithm; of a composed one, those of both parts."""
    if hasattr(algorithm, "penalise"):
        return parameters_of(algorithm.penalise) | parameters_of(algorithm.restrict)
    return {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}


def described() -> list[tuple[str, str, list[str], str]]:
    """(name, class of method, parameters, first sentence of its docstring) of every algorithm."""
    rows = []
    for name, cls in ALGORITHMS.items():
        sentence = " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())
        rows.append(
            (
                name,
                str(getattr(cls, "taxonomy", "")),
                [f.name for f in dataclasses.fields(cls)],
                sentence,
            )
        )
    return rows
