"""The algorithms: one file per paper; this file is the explicit list that the command line,
studies and tests read.
"""

from __future__ import annotations

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
from surefoot.errors import UnknownNameError
from surefoot.parameters import check_known, look_up, make, names_of

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
    if not isinstance(name, str) or "+" not in name:
        found: Algorithm = make(_find(name), parameters)
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
    check_known(name, parameters, sorted({*names_of(penalise), *names_of(restrict)}))
    parts: list[Any] = [
        make(c, {k: v for k, v in parameters.items() if k in names_of(c)})
        for c in (penalise, restrict)
    ]
    return Composed(*parts)


def _find(name: str) -> type:
    return look_up(
        "algorithm", name, ALGORITHMS, f"surefoot.ALGORITHMS lists all {len(ALGORITHMS)}"
    )


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
