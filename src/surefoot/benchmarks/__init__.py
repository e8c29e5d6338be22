"""Benchmarks: known MDPs with a baseline, one file each; this file is the explicit list that
studies and the command line read.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from surefoot.benchmarks.benchmark import NORMALISED, VALUE, Benchmark
from surefoot.benchmarks.icu_sepsis import ICUSepsis
from surefoot.benchmarks.random_mdps import RandomMDPs
from surefoot.benchmarks.toy_text import ToyText
from surefoot.benchmarks.wet_chicken import WetChicken
from surefoot.errors import ParameterError, UnknownNameError

_ALL: tuple[type, ...] = (RandomMDPs, WetChicken, ICUSepsis, ToyText)

BENCHMARKS: Mapping[str, type] = MappingProxyType({cls.name: cls for cls in _ALL})  # type: ignore[attr-defined]


def benchmark(name: str, **parameters: Any) -> Benchmark:
    """The benchmark of this name with these parameters.

    >>> benchmark("wet-chicken", epsilon=0.2).epsilon
    0.2
    """
    if name not in BENCHMARKS:
        near = difflib.get_close_matches(name, BENCHMARKS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownNameError(
            f"no benchmark is called {name!r}: {hint}there are {', '.join(BENCHMARKS)}"
        )
    known = [f.name for f in dataclasses.fields(BENCHMARKS[name])]
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ParameterError(
            f"{name} does not take {', '.join(map(repr, unknown))}; it takes {', '.join(known)}"
        )
    found: Benchmark = BENCHMARKS[name](**parameters)
    return found


__all__ = [
    "BENCHMARKS",
    "NORMALISED",
    "VALUE",
    "Benchmark",
    "ICUSepsis",
    "RandomMDPs",
    "ToyText",
    "WetChicken",
    "benchmark",
]
