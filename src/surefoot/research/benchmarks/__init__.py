"""Benchmarks: known MDPs, and worlds of measurements, with a baseline, one file each; this file is
the list of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from surefoot.algorithms.conventions import conventions_of
from surefoot.core.errors import UnknownNameError
from surefoot.core.parameters import is_own, look_up, make, own_class
from surefoot.research.benchmarks.benchmark import NORMALISED, VALUE, Benchmark
from surefoot.research.benchmarks.cart_pole import CartPole
from surefoot.research.benchmarks.continuous import Continuous, returns, sampled
from surefoot.research.benchmarks.continuous_wet_chicken import ContinuousWetChicken
from surefoot.research.benchmarks.garnet import Garnet
from surefoot.research.benchmarks.gridworld import Gridworld
from surefoot.research.benchmarks.icu_sepsis import ICUSepsis
from surefoot.research.benchmarks.industrial import IndustrialBenchmark
from surefoot.research.benchmarks.known_mdp import KnownMDP, from_gymnasium, from_mdp
from surefoot.research.benchmarks.random_mdps import RandomMDPs
from surefoot.research.benchmarks.toy_text import ToyText
from surefoot.research.benchmarks.wet_chicken import WetChicken

_ALL: tuple[type[Benchmark], ...] = (
    RandomMDPs,
    WetChicken,
    ICUSepsis,
    ToyText,
    Gridworld,
    Garnet,
)

BENCHMARKS: Mapping[str, type[Benchmark]] = MappingProxyType({cls.name: cls for cls in _ALL})

_OF_MEASUREMENTS: tuple[type[Continuous], ...] = (
    ContinuousWetChicken,
    CartPole,
    IndustrialBenchmark,
)

CONTINUOUS: Mapping[str, type[Continuous]] = MappingProxyType(
    {cls.name: cls for cls in _OF_MEASUREMENTS}
)


def benchmark(name: str, *, conventions: str | None = None, **parameters: Any) -> Benchmark:
    """The benchmark of this name with these parameters; "package.module:Class" is one of your own.

    `conventions="scholl2022"` sets, of the parameters that are not given, those in which the
    published code differs (docs/deviations.md).

    >>> benchmark("wet-chicken", epsilon=0.2).epsilon
    0.2
    """
    parameters = conventions_of(conventions).of_benchmark(name) | parameters
    if not is_own(name):
        return make(name, look_up("benchmark", name, BENCHMARKS), parameters)
    found = own_class("benchmark", name)
    lacks = [x for x in ("score", "sparse", "worlds", "episodes") if not hasattr(found, x)]
    if lacks:
        raise UnknownNameError(
            f"{name!r} is no benchmark: it lacks {', '.join(lacks)} (docs/extending.md shows one)"
        )
    if found.score not in (NORMALISED, VALUE):
        raise UnknownNameError(
            f"{name!r}: score must be {NORMALISED!r} or {VALUE!r}, got {found.score!r}"
        )
    made: Benchmark = make(name, found, parameters)
    return made


__all__ = [
    "BENCHMARKS",
    "CONTINUOUS",
    "NORMALISED",
    "VALUE",
    "Benchmark",
    "CartPole",
    "Continuous",
    "ContinuousWetChicken",
    "Garnet",
    "Gridworld",
    "ICUSepsis",
    "IndustrialBenchmark",
    "KnownMDP",
    "RandomMDPs",
    "ToyText",
    "WetChicken",
    "benchmark",
    "from_gymnasium",
    "from_mdp",
    "returns",
    "sampled",
]
