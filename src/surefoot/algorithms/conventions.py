"""Conventions: one word for all that a paper's published code does differently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from surefoot.core.parameters import look_up

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Conventions:
    """Options of a problem, and parameters of algorithms and of benchmarks, by their names."""

    problem: Options = field(default_factory=dict)
    algorithms: Mapping[str, Options] = field(default_factory=dict)
    benchmarks: Mapping[str, Options] = field(default_factory=dict)

    def of_algorithm(self, name: str) -> dict[str, Any]:
        """The parameters of an algorithm; of "values+limits", those of both."""
        parts = name.split("+") if isinstance(name, str) else ()
        return {k: v for part in parts for k, v in self.algorithms.get(part, {}).items()}

    def of_benchmark(self, name: str) -> dict[str, Any]:
        """The parameters of a benchmark."""
        return dict(self.benchmarks.get(name, {}))


# docs/deviations.md says of each switch what paper and code do, and how much it matters
CONVENTIONS: Mapping[str, Conventions] = MappingProxyType(
    {
        "scholl2022": Conventions(
            problem={"unseen_states": "first-action", "ties": "lowest-index"},
            algorithms={
                "approx-soft-spibb": {"published": True},
                "adv-approx-soft-spibb": {"published": True},
                "duipi": {"max_steps": 5000},
            },
            benchmarks={"wet-chicken": {"resets": False}},
        ),
    }
)


def conventions_of(name: str | None) -> Conventions:
    """The conventions of this name; None changes nothing."""
    return Conventions() if name is None else look_up("set of conventions", name, CONVENTIONS)
