"""The safety test where nobody knows the policy that made the log: is a policy better than what the
log itself shows, on average?

Both values are those of the model that the tested episodes make, the policy's and that of the
actions as they were taken; their difference has the second-order bias taken off, and an interval
from its independent units (`surefoot.evidence.unit_model`). So it is asymptotic, and takes it for
granted that states say enough; what `surefoot check` finds against that is a condition. Weights
would need the true probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefoot.advice.gain import FEWEST_UNITS, explained_by
from surefoot.advice.learn_and_test import findings_about
from surefoot.advice.parts import parts_summary, rows_of_units
from surefoot.advice.posing import Posed
from surefoot.advice.safety import (
    DECLARE,
    FRESH,
    NO_HIDDEN_CAUSE,
    NONE_MISSING,
    SAME_WORLD,
    Tested,
    no_reward_beyond,
)
from surefoot.advice.verdict import of_missing
from surefoot.checks.finding import MISSING, Finding
from surefoot.core.errors import LogError, NotAvailableError
from surefoot.core.evidence import ASYMPTOTIC, Evidence
from surefoot.evidence.circumstances import circumstances_of
from surefoot.evidence.gain_test import SAME
from surefoot.evidence.unit_model import Comparison, model_of_units
from surefoot.evidence.units import Units, units_of
from surefoot.problems import Problem
from surefoot.problems.guards import rows_with

ESTIMATOR, BOUND = "model", "student-t"
COMPARED = "what made the log, on average: its policy is estimated from the tested episodes"
KNOWN_BASELINE = (
    "--estimated-baseline is for a log whose baseline nobody knows: leave it out, and the test is"
    " valid for any number of episodes"
)
WHOLE_ONLY = (
    "guards and groups are tested with the baseline that made the log (--baseline), or with"
    " propensities; with --estimated-baseline only the gain as a whole is"
)
VALIDITY = (
    "the bound is asymptotic: right for many episodes and states that say enough; for few, or where"
    " losses are rare and large, it may err more often"
)


def estimated_test(
    posed: Posed, pi: np.ndarray, kept: np.ndarray, delta: float, *, accept_observed: bool = False
) -> Tested:
    """Test the policy on the episodes marked in `kept`, against what made the log."""
    problem = posed.problem
    if not problem.pi_b_estimated or posed.log.has_propensities:
        raise NotAvailableError(KNOWN_BASELINE)
    if problem.guards or posed.log.groups:
        raise NotAvailableError(WHOLE_ONLY)
    log = rows_with(problem, "a safety test")
    units = units_of(posed.log, log, problem.gamma)
    if not kept.all():
        units = rows_of_units(units, log, kept[log.episode])
    there = np.bincount(units.unit, minlength=units.number) > 0
    if there.sum() < FEWEST_UNITS:
        raise LogError(
            f"an approximate test takes at least {FEWEST_UNITS} {units.kind}, there are"
            f" {int(there.sum())}: give more of them, or the true baseline (--baseline)"
        )
    compared, low, high, explained = by_units(problem, units, there, pi, delta)
    findings, notes = _findings(posed, compared, low, high)
    conditions = _conditions(posed, findings, accept_observed=accept_observed)
    row = Evidence(
        estimate=compared.gain.value,
        low=low,
        high=high,
        together=(np.nan, high),
        delta=delta / 2,
        validity=ASYMPTOTIC,
        units=int(kept.sum()),
        within=None if problem.return_range.declared else problem.reward_range,
        assumes=_assumptions(posed),
        notes=(*notes, *_notes(problem, pi, explained)),
    )
    document: dict[str, Any] = {
        "condition": "; ".join(conditions),
        "remedy": ". ".join(conditions.values()),
        "delta": delta,
        "delta_of_loss": delta / 2,
        "centred": False,
        "episodes_cap_chosen_on": 0,
        "delta_of_each_test": delta / 2,
        "estimated_gain": row.estimate,
        "gain_at_least": row.low,
        "gain_at_most": row.high,
        "estimator": ESTIMATOR,
        "bound": BOUND,
        "compared_with": COMPARED,
        "episodes_tested": row.units,
        "effective_episodes": np.nan,
        "largest_weight": np.nan,
        "share_never_tried": _never_tried(posed.log.n_sa, pi),
        "assumptions": list(row.assumes),
        "notes": list(row.notes),
        **parts_summary((), safety=True),
    }
    return Tested(document, (row,))


def by_units(
    problem: Problem, units: Units, there: np.ndarray, pi: np.ndarray, delta: float
) -> tuple[Comparison, float, float, float]:
    """(both policies in the model of the units that are `there`; what the gain is at least, and at
    most, each at delta / 2; what when, or after what, actions were taken explains of it).
    """
    model = model_of_units(problem, units, there)
    compared = model.compare(pi)
    explained = explained_by(circumstances_of(problem, units, compared), there, compared)
    low = compared.strict.gain.interval(delta / 2)[0] - max(explained, 0.0)
    high = compared.gain.interval(delta / 2)[1] - min(explained, 0.0)
    acted = model.n_sa.sum(axis=1) > 0
    seen = np.allclose(model.checkable(pi)[acted], pi[acted]) and not model.lost.any()
    return compared, low, high if seen else np.inf, explained  # what is not, may be better


def _never_tried(n_sa: np.ndarray, pi: np.ndarray) -> float:
    """The share of the policy's decisions that were never tried in their state."""
    n_s = n_sa.sum(axis=1, keepdims=True)
    return float((pi * (n_sa == 0) * n_s).sum() / n_s.sum())


def _findings(
    posed: Posed, compared: Comparison, low: float, high: float
) -> tuple[list[Finding], tuple[str, ...]]:
    """(what `check` finds against the test, what it finds that could not undo it): episodes may be
    missing if the verdict stood had all of them been as bad, or as good, as can be.
    """
    against, notes, gain = [], [], compared.gain
    for x in findings_about(posed.log, posed.problem):
        if x.key != MISSING:
            against += [x] * x.vetoes
            continue
        least, most = (of_missing(posed.problem, x, one) for one in (gain.loss, gain.more))
        if low - least > 0 or high + most < 0:
            ends = f"at least {low - least:.4g}" if low > 0 else f"at most {high + most:.4g}"
            against_it = "bad" if low > 0 else "good"
            words = (
                f"Had all of them been as {against_it} as can be, the gain would still be {ends}"
            )
            notes.append(f"{x.sentence.rstrip('.')}. {words}")
        else:
            against.append(x)
            notes.append(x.sentence)
    return against, tuple(notes)


def _conditions(
    posed: Posed, against: Sequence[Finding], *, accept_observed: bool
) -> dict[str, str]:
    """{what has to be judged: what would make that unnecessary}."""
    found, problem = {}, posed.problem
    if against:
        keys = ", ".join(x.key for x in against)
        found[f"what surefoot check finds does not matter ({keys})"] = (
            "surefoot check says what that is; or give the baseline that made the log (--baseline)"
        )
    if not (problem.return_range.declared or accept_observed):
        found[no_reward_beyond(*problem.reward_range)] = DECLARE
    return found


def _assumptions(posed: Posed) -> tuple[str, ...]:
    return (
        FRESH,
        "the tested episodes are independent of each other",
        NO_HIDDEN_CAUSE,
        "states say enough: what follows depends on nothing before them (surefoot check looks at"
        " that)",
        SAME_WORLD,
        NONE_MISSING,
        "the baseline is what made the log, on average, as estimated from it",
        *(["episodes that are cut go on as the model says"] if _cut(posed) else []),
        VALIDITY,
    )


def _cut(posed: Posed) -> bool:
    log = posed.problem.log
    return log is not None and bool(log.cuts.any())


def _notes(problem: Problem, pi: np.ndarray, explained: float) -> tuple[str, ...]:
    found, visited = [], np.asarray(problem.n_sa).sum(axis=1) > 0
    if np.abs(pi - np.asarray(problem.pi_b))[visited].max(initial=0.0) <= SAME:
        found.append("the policy is what made the log, in every state: there is nothing to show")
    if explained:
        found.append(
            f"{explained:+.4g} of the estimated gain is explained by when, or after what, actions"
            " were taken: the bound allows for it"
        )
    return tuple(found)
