"""Certificates: lower bounds on what a policy gains over the baseline, one file per bound;
`certify` is the one door.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from surefoot.certificates.advantage_bound import AdvantageBound, CertifiedAdvantageBound
from surefoot.certificates.certificate import (
    APPROXIMATE,
    ASYMPTOTIC,
    BAYESIAN,
    EVERYWHERE,
    FAILS,
    OF_LOG,
    RIGOROUS,
    START,
    Certificate,
    Method,
    check_door,
    parameters_of,
)
from surefoot.certificates.gaussian import DeltaMethodBound, DUIPIBound
from surefoot.certificates.spibb_bound import SPIBBBound
from surefoot.certificates.theorem_1 import Theorem1
from surefoot.certificates.worst_case_bound import MBIEBound, RobustBound
from surefoot.core import Solution
from surefoot.errors import ParameterError, PolicyError, ProblemError, UnknownNameError
from surefoot.problems import Problem

_ALL: tuple[type, ...] = (
    CertifiedAdvantageBound,
    AdvantageBound,
    Theorem1,
    SPIBBBound,
    RobustBound,
    MBIEBound,
    DUIPIBound,
    DeltaMethodBound,
)

CERTIFICATES: Mapping[str, type] = MappingProxyType({cls.name: cls for cls in _ALL})  # type: ignore[attr-defined]


def certify(
    problem: Problem, solution: Solution | np.ndarray, method: str | Method, **parameters: Any
) -> Certificate:
    """A lower bound on v^pi - v^{pi_b} for the policy of a solution, or for a policy [S, A], by the
    method of this name.

    What a method asks of the policy is checked on the policy itself, whichever algorithm made it;
    one that does not meet it is refused, and so are gamma = 1, an estimated baseline, and training
    data where fresh data are needed. Read `.label` and `.assumptions` before you rely on `.bound`.
    """
    if not isinstance(problem, Problem):
        raise ProblemError(
            f"certify needs a Problem (see surefoot.problem), got {type(problem).__name__}"
        )
    pi = solution.pi if isinstance(solution, Solution) else solution
    if not hasattr(pi, "shape"):
        raise PolicyError(
            f"certify needs a Solution or a policy [S, A], got {type(solution).__name__}"
        )
    if parameters and not isinstance(method, str):
        raise ParameterError(
            f"{method!r} has its parameters already: give {', '.join(parameters)} to it, or give"
            " its name"
        )
    found = _method(method, parameters) if isinstance(method, str) else method
    if isinstance(found, type) or not hasattr(found, "certify"):
        raise ParameterError(
            f"certify needs the name of a certificate, or one of them, got {method!r}"
        )
    return found.certify(problem, check_door(found, problem, pi))


def _method(name: str, parameters: dict[str, Any]) -> Method:
    """The method of this name with these parameters."""
    if name not in CERTIFICATES:
        near = difflib.get_close_matches(name, CERTIFICATES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownNameError(
            f"no certificate is called {name!r}: {hint}there are {', '.join(CERTIFICATES)}"
        )
    known = parameters_of(CERTIFICATES[name])
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ParameterError(
            f"{name} does not take {', '.join(map(repr, unknown))}; it takes {', '.join(known)}"
        )
    found: Method = CERTIFICATES[name](**parameters)
    return found


__all__ = [
    "APPROXIMATE",
    "ASYMPTOTIC",
    "BAYESIAN",
    "CERTIFICATES",
    "EVERYWHERE",
    "FAILS",
    "OF_LOG",
    "RIGOROUS",
    "START",
    "Certificate",
    "Method",
    "certify",
]
