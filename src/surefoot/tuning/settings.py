"""Settings: what is tried, by name and parameters, and how a user runs it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.advice.defaults import chosen_algorithm, default_parameters
from surefoot.errors import ParameterError
from surefoot.problems import Problem

SOFT = "lower-exact-soft-spibb"
EPSILONS, PENALISED_EPSILONS = (0.1, 0.25, 0.5, 1.0), (0.5, 1.0)
KAPPAS = (0.1, 0.25, 0.5)  # of the width of the reward range
# Not beyond epsilon 1: on both benchmarks of Scholl et al. 2022 epsilon 2 has a tail like that of
# Basic RL, and drawn models do not show all of it (papers/tuning).


@dataclass(frozen=True)
class Setting:
    """An algorithm by name with its parameters; None is no change at all."""

    name: str | None
    parameters: tuple[tuple[str, Any], ...]
    algorithm: Any

    @property
    def label(self) -> str:
        """Name and parameters."""
        return (
            "no change"
            if self.name is None
            else " ".join([self.name, *(f"{k}={_word(v)}" for k, v in self.parameters)])
        )

    @property
    def options(self) -> list[str]:
        """The options of `surefoot improve` that run it."""
        words = ["--algorithm", str(self.name)]
        for key, value in self.parameters:
            words += ["--set", f"{key}={_word(value)}"]
        return words


NO_CHANGE = Setting(None, (), None)


def setting(problem: Problem, name: str, given: Mapping[str, Any] | None = None) -> Setting:
    """The setting of this name, with the default of every parameter that is not given."""
    parameters = default_parameters(name, problem) | dict(given or {})
    parameters = {
        k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in parameters.items()
    }  # so that it can be typed
    return Setting(name, tuple(parameters.items()), chosen_algorithm(problem, name, parameters))


def default_settings(problem: Problem) -> tuple[Setting, ...]:
    """A dozen: Lower-Exact-Soft-SPIBB by epsilon, alone and with the values of RaMDP or centred
    DUIPI; Pi_b-SPIBB.
    """
    low, high = problem.reward_range
    width = high - low if high > low else 1.0
    grid: list[tuple[str, dict[str, Any]]] = [(SOFT, {"epsilon": x}) for x in EPSILONS]
    grid += [
        (f"ramdp+{SOFT}", {"kappa": k * width, "epsilon": x})
        for k in KAPPAS
        for x in PENALISED_EPSILONS
    ]
    grid += [
        (f"duipi-centred+{SOFT}", {"xi": 0.3, "max_steps": 60, "epsilon": 1.0}),
        ("pi-b-spibb", {"n_wedge": 10.0}),
    ]
    return tuple(setting(problem, name, given) for name, given in grid)


def parsed_settings(problem: Problem, lines: Sequence[str]) -> tuple[Setting, ...]:
    """Settings from lines such as "lower-exact-soft-spibb epsilon=0.1,0.5 delta=1": lists of
    values make one setting for each.
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
            key, sign, values = word.partition("=")
            if not sign or not key or not values:
                raise ParameterError(
                    f"a setting to try is a name and key=value pairs, such as '{SOFT}"
                    f" epsilon=0.1,0.5', got {word!r}"
                )
            grid[key] = [_value(x) for x in values.split(",")]
        found += [
            setting(problem, words[0], dict(zip(grid, x, strict=True)))
            for x in itertools.product(*grid.values())
        ]
    return tuple({x.label: x for x in found}.values())


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    return int(text) if text.lstrip("+-").isdigit() else number


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
