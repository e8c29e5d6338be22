"""The algorithms: one file per paper; algorithm, improvement, defaults, guarded, one_action: what
they share. This file is the list that the command line, studies and tests read.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from surefoot.algorithms.algorithm import (
    NEITHER,
    PENALISES,
    RESTRICTS,
    Algorithm,
    Composed,
    Estimates,
    Restricts,
    Whole,
    parameters_of,
    solve,
    taxonomy,
)
from surefoot.algorithms.basic_rl import BasicRL
from surefoot.algorithms.certified_advantage import (
    CertifiedAdvantage,
    OneStepCertifiedAdvantage,
    PlannedAdvantage,
    ScreenedAdvantage,
)
from surefoot.algorithms.conventions import conventions_of
from surefoot.algorithms.duipi import DUIPI, CentredDUIPI
from surefoot.algorithms.factored import Factored
from surefoot.algorithms.hcpi import HCPI
from surefoot.algorithms.one_step import OneStep
from surefoot.algorithms.priced_soft_spibb import PricedSoftSPIBB
from surefoot.algorithms.r_min import RMin
from surefoot.algorithms.ramdp import RaMDP
from surefoot.algorithms.shrunk import Shrunk
from surefoot.algorithms.soft_spibb import (
    AdvApproxSoftSPIBB,
    AdvExactSoftSPIBB,
    ApproxSoftSPIBB,
    ExactSoftSPIBB,
    LowerApproxSoftSPIBB,
    LowerExactSoftSPIBB,
)
from surefoot.algorithms.spibb import PiBSPIBB, PiLeqBSPIBB
from surefoot.algorithms.vi_lcb import VILCB
from surefoot.algorithms.worst_case import MBIE, RobustMDP
from surefoot.core.errors import UnknownNameError
from surefoot.core.parameters import check_known, is_own, look_up, make, names_of, own_class

_SOFT: tuple[type[Restricts], ...] = (
    ApproxSoftSPIBB,
    LowerApproxSoftSPIBB,
    AdvApproxSoftSPIBB,
    ExactSoftSPIBB,
    LowerExactSoftSPIBB,
    AdvExactSoftSPIBB,
)
_ALL: tuple[type[Algorithm], ...] = (
    BasicRL,
    RaMDP,
    RMin,
    DUIPI,
    CentredDUIPI,
    MBIE,
    RobustMDP,
    VILCB,
    Shrunk,
    Factored,
    OneStep,
    PiBSPIBB,
    PiLeqBSPIBB,
    *_SOFT,
    PricedSoftSPIBB,
    CertifiedAdvantage,
    OneStepCertifiedAdvantage,
    PlannedAdvantage,
    ScreenedAdvantage,
    HCPI,
)

ALGORITHMS: Mapping[str, type[Algorithm]] = MappingProxyType({str(cls.name): cls for cls in _ALL})


def algorithm(
    name: str, *, conventions: str | None = None, **parameters: float | str | None
) -> Algorithm:
    """The algorithm of this name with these hyper-parameters; "values+limits" combines two, and
    "package.module:Class" is one of your own. `conventions="scholl2022"` sets, of the parameters
    that are not given, those in which the published code differs (docs/deviations.md).

    >>> algorithm("pi-b-spibb", n_wedge=10)
    PiBSPIBB(n_wedge=10)
    >>> algorithm("duipi", xi=0.1, conventions="scholl2022").max_steps
    5000
    >>> algorithm("ramdp+lower-exact-soft-spibb", kappa=0.1, epsilon=1.5, delta=1).name
    'ramdp+lower-exact-soft-spibb'
    """
    classes = parts(name)
    parameters = conventions_of(conventions).of_algorithm(name) | parameters
    if len(classes) == 1:
        return make(name, classes[0], parameters)
    check_known(name, parameters, sorted({x for cls in classes for x in names_of(cls)}))
    values, limits = (
        make(str(cls.name), cls, {k: v for k, v in parameters.items() if k in names_of(cls)})
        for cls in classes
    )
    assert isinstance(values, Estimates)
    assert isinstance(limits, Restricts)
    return Composed(values, limits)


def parts(name: str) -> tuple[type[Algorithm], ...]:
    """The class that a name stands for, or the two that it combines."""
    if not isinstance(name, str) or "+" not in name:
        return (_find(name),)
    first, *others = name.split("+")
    if len(others) != 1:
        raise UnknownNameError(
            f"{name!r}: one penalising and one restricting algorithm are combined, as in"
            " 'ramdp+pi-b-spibb'"
        )
    found = []
    for part, kind, cannot, can in (
        (first, Estimates, "cannot lend its values to another algorithm", "these can"),
        (others[0], Restricts, "does not restrict an iteration", "these do"),
    ):
        cls = _find(part)
        if not issubclass(cls, kind):
            able = (n for n, c in ALGORITHMS.items() if issubclass(c, kind))
            raise UnknownNameError(f"{name!r}: {part!r} {cannot}; {can}: {', '.join(able)}")
        found.append(cls)
    return tuple(found)


def _find(name: str) -> type[Algorithm]:
    if is_own(name):
        found = own_class("algorithm", name)
        if not issubclass(found, (Estimates, Restricts, Whole)):
            raise UnknownNameError(
                f"{name!r} is no algorithm: inherit surefoot.algorithms.Estimates, Restricts or"
                " Whole (docs/extending.md shows how)"
            )
        return found
    restricting = name.removeprefix("one-step-") if isinstance(name, str) else ""
    if restricting != name and restricting in (str(cls.name) for cls in _SOFT):
        raise UnknownNameError(f"{name!r} is written 'one-step+{restricting}'")
    listed = f"surefoot.ALGORITHMS lists all {len(ALGORITHMS)}"
    return look_up("algorithm", name, ALGORITHMS, listed)


__all__ = [
    "ALGORITHMS",
    "NEITHER",
    "PENALISES",
    "RESTRICTS",
    "Algorithm",
    "Composed",
    "Estimates",
    "Restricts",
    "Whole",
    "algorithm",
    "parameters_of",
    "parts",
    "solve",
    "taxonomy",
]
