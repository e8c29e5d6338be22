"""The algorithms: one file per paper; this file is the explicit list that the command line,
studies and tests read.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from surefoot.algorithms.algorithm import NEITHER, PENALISES, RESTRICTS, Algorithm, needs_log
from surefoot.algorithms.approx_soft_spibb import (
    AdvApproxSoftSPIBB,
    ApproxSoftSPIBB,
    LowerApproxSoftSPIBB,
)
from surefoot.algorithms.basic_rl import BasicRL
from surefoot.algorithms.certified_advantage import CertifiedAdvantage, OneStepCertifiedAdvantage
from surefoot.algorithms.composed import Composed
from surefoot.algorithms.duipi import DUIPI
from surefoot.algorithms.duipi_centred import CentredDUIPI
from surefoot.algorithms.exact_soft_spibb import (
    AdvExactSoftSPIBB,
    ExactSoftSPIBB,
    LowerExactSoftSPIBB,
)
from surefoot.algorithms.hcpi import HCPI
from surefoot.algorithms.one_step import (
    OneStepAdvApproxSoftSPIBB,
    OneStepAdvExactSoftSPIBB,
    OneStepApproxSoftSPIBB,
    OneStepExactSoftSPIBB,
    OneStepLowerApproxSoftSPIBB,
    OneStepLowerExactSoftSPIBB,
)
from surefoot.algorithms.r_min import RMin
from surefoot.algorithms.ramdp import RaMDP
from surefoot.algorithms.spibb import PiBSPIBB, PiLeqBSPIBB
from surefoot.algorithms.vi_lcb import VILCB
from surefoot.algorithms.worst_case import MBIE, RobustMDP
from surefoot.errors import ParameterError, UnknownNameError

_ALL: tuple[type, ...] = (
    BasicRL,
    RaMDP,
    RMin,
    DUIPI,
    CentredDUIPI,
    MBIE,
    RobustMDP,
    VILCB,
    PiBSPIBB,
    PiLeqBSPIBB,
    ApproxSoftSPIBB,
    LowerApproxSoftSPIBB,
    AdvApproxSoftSPIBB,
    ExactSoftSPIBB,
    LowerExactSoftSPIBB,
    AdvExactSoftSPIBB,
    OneStepApproxSoftSPIBB,
    OneStepLowerApproxSoftSPIBB,
    OneStepAdvApproxSoftSPIBB,
    OneStepExactSoftSPIBB,
    OneStepLowerExactSoftSPIBB,
    OneStepAdvExactSoftSPIBB,
    CertifiedAdvantage,
    OneStepCertifiedAdvantage,
    HCPI,
)

ALGORITHMS: Mapping[str, type] = MappingProxyType({cls.name: cls for cls in _ALL})  # type: ignore[attr-defined]


def algorithm(name: str, **parameters: Any) -> Algorithm:
    """The algorithm of this name with these hyper-parameters; "penalising+restricting" combines
    two.

    >>> algorithm("pi-b-spibb", n_wedge=10)
    PiBSPIBB(n_wedge=10)
    >>> algorithm("ramdp+lower-exact-soft-spibb", kappa=0.1, epsilon=1.5, delta=1).name
    'ramdp+lower-exact-soft-spibb'
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"an algorithm is asked for by name, got {name!r}")
    if "+" not in name:
        cls = _find(name)
        _check_known(name, parameters, _fields(cls))
        found: Algorithm = _build(cls, parameters)
        return found
    first, *others = name.split("+")
    if len(others) != 1:
        raise UnknownNameError(
            f"{name!r}: one penalising and one restricting algorithm are combined, as in"
            " 'ramdp+pi-b-spibb'"
        )
    penalise, restrict = _find(first), _find(others[0])
    if not hasattr(penalise, "plan"):
        able = ", ".join(n for n, c in ALGORITHMS.items() if hasattr(c, "plan"))
        raise UnknownNameError(
            f"{name!r}: {first!r} cannot lend its values to another algorithm; these can: {able}"
        )
    if not hasattr(restrict, "trust") or getattr(restrict, "one_step", False):
        able = ", ".join(
            n
            for n, c in ALGORITHMS.items()
            if hasattr(c, "trust") and not getattr(c, "one_step", False)
        )
        raise UnknownNameError(
            f"{name!r}: {others[0]!r} does not restrict an iteration; these do: {able}"
        )
    _check_known(name, parameters, _fields(penalise) | _fields(restrict))
    parts = [
        _build(c, {k: v for k, v in parameters.items() if k in _fields(c)})
        for c in (penalise, restrict)
    ]
    return Composed(*parts)


def _find(name: str) -> type:
    if name not in ALGORITHMS:
        near = difflib.get_close_matches(name, ALGORITHMS, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise UnknownNameError(
            f"no algorithm is called {name!r}: {hint}surefoot.ALGORITHMS lists all"
            f" {len(ALGORITHMS)}"
        )
    return ALGORITHMS[name]


def _fields(cls: type) -> set[str]:
    return {f.name for f in dataclasses.fields(cls)}


def _check_known(name: str, parameters: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(parameters) - known)
    if unknown:
        takes = ", ".join(sorted(known)) or "no parameters"
        raise ParameterError(
            f"{name} does not take {', '.join(map(repr, unknown))}; it takes {takes}"
        )


def _build(cls: type, parameters: dict[str, Any]) -> Any:
    needed = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    missing = [n for n in needed if n not in parameters]
    if missing:
        raise ParameterError(f"{cls.name} needs {', '.join(missing)}")  # type: ignore[attr-defined]
    return cls(**parameters)


__all__ = [
    "ALGORITHMS",
    "NEITHER",
    "PENALISES",
    "RESTRICTS",
    "Algorithm",
    "Composed",
    "algorithm",
    "needs_log",
]
