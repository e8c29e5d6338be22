"""Settings: what is tried, by name and parameters, and how a user runs it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.advice.defaults import chosen_algorithm, default_parameters
from surefoot.algorithms import Algorithm
from surefoot.errors import ParameterError
from surefoot.parameters import value_of
from surefoot.problems import Problem

SOFT = "lower-exact-soft-spibb"
# Not beyond epsilon 1: on both benchmarks of Scholl et al. 2022 epsilon 2 has a tail like that of
# Basic RL, and drawn models do not show all of it (papers/tuning).
EPSILONS, PENALISED_EPSILONS = (0.1, 0.25, 0.5, 1.0), (0.5, 1.0)
KAPPAS = (0.1, 0.25, 0.5)  # of the width of the reward range


@dataclass(frozen=True)
class Setting:
    """An algorithm with its name and parameters; None is no change at all."""

    name: str | None
    parameters: tuple[tuple[str, Any], ...]
    algorithm: Algorithm | None

    @property
    def words(self) -> list[str]:
        """The parameters as texts that can be typed."""
        return [f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in self.parameters]

    @property
    def label(self) -> str:
        """Name and parameters."""
        return "no change" if self.name is None else " ".join([self.name, *self.words])

    @property
    def options(self) -> list[str]:
        """The options of `surefoot improve` that run it."""
        sets = [word for pair in self.words for word in ("--set", pair)]
        return ["--algorithm", str(self.name), *sets]


NO_CHANGE = Setting(None, (), None)


def setting(problem: Problem, name: str, given: Mapping[str, Any] | None = None) -> Setting:
    """The setting of this name, with the default of every parameter that is not given.

    Numbers are rounded to four digits, so that they can be typed.
    """
    parameters = default_parameters(name, problem) | dict(given or {})
    parameters = {
        k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in parameters.items()
    }
    return Setting(name, tuple(parameters.items()), chosen_algorithm(problem, name, parameters))


def default_settings(problem: Problem) -> tuple[Setting, ...]:
    """A dozen: Lower-Exact-Soft-SPIBB alone, with RaMDP, with centred DUIPI; and Pi_b-SPIBB."""
    low, high = problem.reward_range
    width = high - low if high > low else 1.0
    grid: list[tuple[str, dict[str, Any]]] = [
        *((SOFT, {"epsilon": x}) for x in EPSILONS),
        *(
            (f"ramdp+{SOFT}", {"kappa": k * width, "epsilon": x})
            for k in KAPPAS
            for x in PENALISED_EPSILONS
        ),
        (f"duipi-centred+{SOFT}", {"xi": 0.3, "max_steps": 60, "epsilon": 1.0}),
        ("pi-b-spibb", {"n_wedge": 10.0}),
    ]
    return tuple(setting(problem, name, given) for name, given in grid)


def parsed_settings(problem: Problem, lines: Sequence[str]) -> tuple[Setting, ...]:
    """Settings from lines such as "lower-exact-soft-spibb epsilon=0.1,0.5 delta=1".

    A list of values makes one setting for each.
    """
    found: list[Setting] = []
    for line in lines:
        words = line.split()
        if not words:
            raise ParameterError(
                "a setting to try is a name and key=value pairs, got an empty text"
            )
        grid: dict[str, list[Any]] = {}
        for word in words[1:]:
            key, _, values = word.partition("=")
            if not key or not values:
                raise ParameterError(
                    f"a setting to try is a name and key=value pairs, such as '{SOFT}"
                    f" epsilon=0.1,0.5', got {word!r}"
                )
            grid[key] = [value_of(x) for x in values.split(",")]
        for values_of_one in itertools.product(*grid.values()):
            given = dict(zip(grid, values_of_one, strict=True))
            found.append(setting(problem, words[0], given))
    return tuple({x.label: x for x in found}.values())
