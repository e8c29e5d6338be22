"""Certificates: lower bounds on what a policy gains over the baseline; `certify` is the door, and
gives the strongest of several where none is named.

One file for each kind of evidence: returns, rows of transitions, errors of the model, screening.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from surefoot.core.arrays import to_numpy
from surefoot.core.errors import (
    NotAvailableError,
    ParameterError,
    PolicyError,
    ProblemError,
    SurefootError,
    UnknownNameError,
)
from surefoot.core.evidence import APPROXIMATE, ASYMPTOTIC, RIGOROUS
from surefoot.core.parameters import look_up, make
from surefoot.evidence.bound import BAYESIAN, EVERYWHERE, OF_LOG, START, Bound, Certificate
from surefoot.evidence.delta_method import DeltaMethodBound
from surefoot.evidence.return_bounds import (
    AdvantageBound,
    CertifiedAdvantageBound,
    PlannedAdvantageBound,
    Theorem1,
)
from surefoot.evidence.row_bounds import MBIEBound, RobustBound, SPIBBBound
from surefoot.evidence.screening import ScreenedAdvantageBound
from surefoot.logs.given_policies import align_policy
from surefoot.problems import Problem

WORST_CASE_STATES = 100  # the worst case over more states takes long: not unasked
# that suit any problem; the last one only a small one
SUITED = ScreenedAdvantageBound(), AdvantageBound(), PlannedAdvantageBound(), RobustBound()
_ALL: tuple[type[Bound], ...] = (
    CertifiedAdvantageBound,
    ScreenedAdvantageBound,
    AdvantageBound,
    PlannedAdvantageBound,
    Theorem1,
    SPIBBBound,
    RobustBound,
    MBIEBound,
    DeltaMethodBound,
)

CERTIFICATES: Mapping[str, type[Bound]] = MappingProxyType({cls.name: cls for cls in _ALL})

GONE = {
    "duipi": "it was violated in up to 22 % of fresh logs at delta 0.2; take delta-method, which"
    " keeps the correlations between states"
}


def strongest(problem: Problem, pi: np.ndarray, delta: float, where: str) -> Certificate:
    """The highest of the bounds that suit any problem, or any small one.

    k are tried, each at delta / k: all of them hold together with probability 1 - delta, so the
    highest does. Which are tried depends on the size of the problem alone, never on its data.
    """
    small = problem.n_states <= WORST_CASE_STATES and not problem.counts.is_sparse
    tried: tuple[Bound, ...] = SUITED if small else SUITED[:-1]
    pi = Bound(delta=delta, where=where).checked(problem, pi)
    found, refused = [], []
    for bound in tried:
        bound = replace(bound, delta=delta / len(tried), where=where)
        try:
            found.append(bound.certify(problem, pi))
        except SurefootError as error:
            refused.append(str(error))
    if not found:
        raise NotAvailableError("no bound applies: " + "; ".join(refused))
    best = max(found, key=lambda x: (x.label == RIGOROUS, x.bound))
    note = (
        f"the highest of {len(tried)} bounds ({', '.join(x.name for x in tried)}), each at"
        f" {1 / len(tried):.2g} of delta"
    )
    return replace(best, delta=delta, notes=(*best.notes, note))


def certify(
    problem: Problem,
    solution: Any,
    method: str | Bound | None = None,
    **parameters: Any,
) -> Certificate:
    """A lower bound on v^pi - v^{pi_b} for the policy of a solution, or for what else is given as a
    policy (see `align_policy`), by the method of this name; without one, the strongest of those
    that suit any policy, with what it costs to try several paid for (`delta` and `where` as for
    each of them).

    What a method asks of the policy is checked on the policy itself, whichever algorithm made it;
    one that does not meet it is refused, and so are gamma = 1, an estimated baseline, and training
    data where fresh data are needed. Read `.label` and `.assumptions` before you rely on `.bound`.
    """
    if not isinstance(problem, Problem):
        raise ProblemError(
            f"certify needs a Problem (see surefoot.problem), got {type(problem).__name__}"
        )
    pi = align_policy(solution, problem)
    if not is_array_api_obj(pi):
        raise PolicyError(f"certify needs a policy [S, A], got {type(pi).__name__}")
    if isinstance(method, str) and method in GONE:
        raise UnknownNameError(f"no certificate is called {method!r} any more: {GONE[method]}")
    if method is None:
        given = make("certify without a method", Bound, parameters)
        return strongest(problem, to_numpy(pi), given.delta, given.where)
    if isinstance(method, str):
        method = make(method, look_up("certificate", method, CERTIFICATES), parameters)
    elif parameters:
        raise ParameterError(
            f"{method!r} has its parameters already: give {', '.join(parameters)} to it, or give"
            " its name"
        )
    if not isinstance(method, Bound):
        raise ParameterError(
            f"certify needs the name of a certificate, or one of them, got {method!r}"
        )
    return method.certify(problem, method.checked(problem, pi))


__all__ = [
    "APPROXIMATE",
    "ASYMPTOTIC",
    "BAYESIAN",
    "CERTIFICATES",
    "EVERYWHERE",
    "OF_LOG",
    "RIGOROUS",
    "START",
    "Bound",
    "Certificate",
    "certify",
]
