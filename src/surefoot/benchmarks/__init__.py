"""Benchmarks: known MDPs with a baseline, one file each; this file is the list of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from surefoot.benchmarks.benchmark import NORMALISED, VALUE, Benchmark
from surefoot.benchmarks.garnet import Garnet
from surefoot.benchmarks.gridworld import Gridworld
from surefoot.benchmarks.icu_sepsis import ICUSepsis
from surefoot.benchmarks.random_mdps import RandomMDPs
from surefoot.benchmarks.toy_text import ToyText
from surefoot.benchmarks.wet_chicken import WetChicken
from surefoot.parameters import look_up, make

_ALL: tuple[type[Benchmark], ...] = (
    RandomMDPs,
    WetChicken,
    ICUSepsis,
    ToyText,
    Gridworld,
    Garnet,
)

BENCHMARKS: Mapping[str, type[Benchmark]] = MappingProxyType({cls.name: cls for cls in _ALL})


def benchmark(name: str, **parameters: Any) -> Benchmark:
    """The benchmark of this name with these parameters.

    >>> benchmark("wet-chicken", epsilon=0.2).epsilon
    0.2
    """
    return make(name, look_up("benchmark", name, BENCHMARKS), parameters)


__all__ = [
    "BENCHMARKS",
    "NORMALISED",
    "VALUE",
    "Benchmark",
    "Garnet",
    "Gridworld",
    "ICUSepsis",
    "RandomMDPs",
    "ToyText",
    "WetChicken",
    "benchmark",
]
