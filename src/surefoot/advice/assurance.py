"""Assurance: the strongest certificate of a policy, and whether an algorithm's own certificate
proves its policy better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from surefoot.advice.verdict import NOT_SUPPORTED, SUPPORTED, Verdict
from surefoot.algorithms.algorithm import Algorithm
from surefoot.algorithms.improvement import improve
from surefoot.checks import Finding
from surefoot.checks.finding import BASELINE, POLICY_DRIFT, joint_words
from surefoot.core import Solution
from surefoot.core.errors import SurefootError
from surefoot.core.evidence import APPROXIMATE, RIGOROUS
from surefoot.evidence.bound import OWN_LOG, Certificate
from surefoot.evidence.certificates import certify
from surefoot.evidence.unit_estimate import DELTA
from surefoot.problems import Problem

TOO_LARGE_TO_CERTIFY = "the problem is large (its counts are sparse): ask surefoot.certify for it"


def proves_itself(problem: Problem, algorithm: Algorithm) -> bool:
    """Whether the algorithm's own certificate, and no test, decides what the data support: it is
    known before the data are looked at, for both could fail, each at its delta.
    """
    if algorithm.proof is None or problem.counts.is_sparse or problem.pi_b_estimated:
        return False
    return problem.return_range.declared and algorithm.proof[1].get("delta", 1.0) <= DELTA


def proof(
    problem: Problem, algorithm: Algorithm, overruled: Sequence[str] = ()
) -> tuple[Solution, Verdict] | None:
    """(solution from all data, whether its own certificate proves it better); None where it does
    not prove itself.

    The certificate holds for the data it was made from, so nothing is held out. `overruled`: keys
    of findings against what it assumes that the user does not believe.
    """
    if algorithm.proof is None or not proves_itself(problem, algorithm):
        return None
    solution, (method, parameters) = improve(problem, algorithm), algorithm.proof
    try:
        found = certify(problem, solution, method, **parameters)
    except SurefootError as error:
        return solution, Verdict(NOT_SUPPORTED, str(error))
    bound = f"{found.bounded} >= {found.bound:.4g} with probability {1 - found.delta:g}"
    if not found.changed:
        why = f"{method} proves no change of the baseline to be better"
        return solution, Verdict(NOT_SUPPORTED, why)
    if not (found.useful and found.label == RIGOROUS and found.bound > 0):
        why = f"its own proof shows no gain: {bound} ({method}, {found.label})"
        return solution, Verdict(NOT_SUPPORTED, why)
    sure = RIGOROUS if not overruled else f"if {', '.join(overruled)} can be passed over"
    return solution, Verdict(SUPPORTED, f"proved from all of the log ({method}, {sure}): {bound}")


def assure(
    problem: Problem,
    solution: Solution,
    algorithm: Algorithm,
    *,
    against: Sequence[Finding] = (),
    despite: Sequence[str] = (),
) -> Certificate | str:
    """The certificate of a solution: the algorithm's own, or the strongest; or why there is none,
    such as that the log speaks against what all of them assume (`unless_contradicted`).
    """
    if problem.counts.is_sparse:
        return TOO_LARGE_TO_CERTIFY
    own = None if problem.off_policy else algorithm.proof  # on returns of the baseline
    method, parameters = own or (None, {"delta": DELTA})
    try:
        return unless_contradicted(
            certify(problem, solution, method, **parameters), against, despite
        )
    except SurefootError as error:
        return str(error)


def unless_contradicted(
    found: Certificate, against: Sequence[Finding], despite: Sequence[str] = ()
) -> Certificate | str:
    """A certificate, or in words that findings of the log contradict what it assumes: that the
    state says enough, that nothing changes, that pi_b made the log, that episodes are independent.

    Those that `despite` names are not believed, and become assumptions; it is not rigorous then.
    That pi_b did not make the log cannot be passed over by bounds on its returns; to the others it
    does not matter.
    """
    of_pi_b = OWN_LOG in found.assumptions
    against = [x for x in against if of_pi_b or x.key not in (BASELINE, POLICY_DRIFT)]
    stands = [x for x in against if x.key == BASELINE or x.key not in despite]
    if stands:
        words = joint_words(stands)
        ways = [x.key for x in stands if x.key != BASELINE]
        accept = f". To accept this: --despite {','.join(ways)}"
        if len(ways) < len(stands):
            accept = ". That cannot be passed over; robust and spibb need no log of the baseline"
        otherwise = f"{found.bounded} >= {found.bound:.4g} ({found.method}; {found.label})"
        return f"{words}. (Otherwise: {otherwise}{accept})"
    if not against:
        return found
    said = tuple(f"this is not so, as asked (--despite {x.key}): {x.sentence}" for x in against)
    label = APPROXIMATE if found.label == RIGOROUS else found.label
    waived = tuple(x.key for x in against)
    return replace(found, label=label, assumptions=(*found.assumptions, *said), waived=waived)


def assurance_summary(found: Certificate | str | None) -> dict[str, Any]:
    """The certificate as data for machines; None where none was asked for."""
    if found is None:
        return {"certificate": None}
    if isinstance(found, str):
        return {"certificate": {"not_given": found}}
    return {
        "certificate": {
            "method": found.method,
            "bounded": found.bounded,
            "bound": found.bound,
            "delta": found.delta,
            "label": found.label,
            "useful": found.useful,
            "vacuous": found.vacuous,
            "states_changed": found.changed,
            "samples_smallest": found.n_smallest,
            "samples_typical": found.n_typical,
            "rows_needed": found.data_needed,
            "rows_needed_why": found.data_needed_why,
            "assumptions": list(found.assumptions),
            "notes": list(found.notes),
        }
    }
