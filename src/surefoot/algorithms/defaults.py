"""Defaults: the algorithm and the parameters of someone who has a log and has not read the
papers.
"""

from __future__ import annotations

from typing import Any

from surefoot.algorithms import ALGORITHMS, algorithm, parts
from surefoot.algorithms.algorithm import Algorithm, taxonomy
from surefoot.core.parameters import names_of
from surefoot.problems import Problem

DEFAULT = "priced-soft-spibb"
# Why: it leaves the baseline only where the gain is worth more than the uncertainty of the action
# that gets more, and no further than the counts allow; it never raises an action that the log has
# not tried. Its parameters have no unit, so the same values serve rewards in cents and in lives
# (kappa of RaMDP has the unit of a reward). papers/priced says on which benchmarks this setting is
# good and where not; docs/supported.md compares it with the old default, lower-exact-soft-spibb, on
# logs whose truth is known. A heuristic: what protects is the held-out test.
#
# Soft-SPIBB: Table 1 of Scholl et al. 2022; of the lower ones the more cautious of its two
# benchmarks. Epsilon is compared with sqrt(2 ln(2 S A / delta) / n) times a probability, so it has
# no unit; delta = 1 as in the table: a scale, not a failure probability.
EPSILON, LOWER_EPSILON, SCALE_DELTA, N_WEDGE = 1.0, 0.5, 1.0, 10.0
FAILURE = 0.05  # delta of the algorithms for which it is one
KAPPA = 0.5  # of the width of the reward range: 2 of 4 on Wet Chicken
SOFT, LOWER_SOFT = (
    {"epsilon": epsilon, "delta": SCALE_DELTA} for epsilon in (EPSILON, LOWER_EPSILON)
)
PARAMETERS: dict[str, dict[str, float]] = {
    "ramdp": {"kappa": KAPPA},
    "r-min": {"n_wedge": 3.0},
    "duipi": {"xi": 0.5},
    "duipi-centred": {"xi": 0.5},
    "mbie": {"delta": 1.0},
    "robust": {"delta": 1.0},
    "vi-lcb": {"c_b": 0.05, "delta": 0.1},
    "pi-b-spibb": {"n_wedge": N_WEDGE},
    "pi-leq-b-spibb": {"n_wedge": N_WEDGE},
    "approx-soft-spibb": SOFT,
    "lower-approx-soft-spibb": LOWER_SOFT,
    "adv-approx-soft-spibb": SOFT,
    "exact-soft-spibb": SOFT,
    "lower-exact-soft-spibb": LOWER_SOFT,
    "adv-exact-soft-spibb": SOFT,
    "hcpi": {"delta": FAILURE},
}
# what a class itself carries is its own default: class, name and command mean one thing
TOLD = {
    DEFAULT: ("epsilon", "z", "growth", "shrink", "delta"),
    "shrunk": ("shrink",),
    "factored": ("weight",),
    "certified-advantage": ("delta",),
    "one-step-certified-advantage": ("delta",),
    "planned-advantage": ("delta",),
    "screened-advantage": ("delta",),
}
PARAMETERS |= {k: {x: getattr(ALGORITHMS[k], x) for x in names} for k, names in TOLD.items()}


def default_parameters(name: str, problem: Problem) -> dict[str, Any]:
    """What an algorithm is run with unless told otherwise; of a composed one, for both parts."""
    low, high = problem.reward_range
    found: dict[str, Any] = {}
    for part in parts(name):
        if ALGORITHMS.get(str(part.name)) is part:  # a class of one's own has its own defaults
            found |= PARAMETERS.get(str(part.name), {})
    if "kappa" in found:  # it has the unit of a reward
        found["kappa"] *= high - low
    return found


def chosen_algorithm(
    problem: Problem, name: str = DEFAULT, given: dict[str, Any] | None = None
) -> Algorithm:
    """The algorithm by name, with the default of every parameter that is not given."""
    return algorithm(name, **(default_parameters(name, problem) | (given or {})))


def described() -> list[tuple[str, str, list[str], str]]:
    """(name, class of method, parameters, first sentence of its docstring) of every algorithm."""
    rows = []
    for name, cls in ALGORITHMS.items():
        sentence = " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())
        rows.append((name, taxonomy(cls), names_of(cls), sentence))
    return rows
