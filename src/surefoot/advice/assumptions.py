"""What must be true for a verdict to hold, in words."""

from __future__ import annotations

from surefoot.advice.advise import Advice
from surefoot.advice.safety import NONE_MISSING
from surefoot.advice.safety_parts import ALIKE
from surefoot.checks.finding import (
    BASELINE,
    CONTRADICTIONS,
    COPIES,
    CUTS,
    DRIFT,
    MARKOV,
    MISSING,
    POLICY_DRIFT,
    PROPENSITIES,
    TIME,
)
from surefoot.core.evidence import GROUP
from surefoot.core.labels import as_text
from surefoot.evidence.bound import Certificate, rows_left_out
from surefoot.evidence.value_on_log import GIVEN_WEIGHTS

ALWAYS = (
    "nothing outside the state drives both the choice of action and the outcome (no hidden cause)",
    "the world tomorrow is the world of this log",
    NONE_MISSING,
)
OTHERWISE = {
    DRIFT: "the world stayed the same while the log was made",
    POLICY_DRIFT: "the baseline stayed the same while the log was made",
    MARKOV: "the state says enough (Markov)",
    BASELINE: GIVEN_WEIGHTS,
    COPIES: "every episode is there once",
    CONTRADICTIONS: "each row leads to the next",
    PROPENSITIES: "the propensities are true",
    CUTS: "no row is left out for what it held",
    MISSING: NONE_MISSING,
    TIME: "actions look no better for when, or after what, they were taken",
}


def assumptions_of(advice: Advice) -> list[str]:
    """Of the test; of the proof, where that is what decided."""
    gain, problem = advice.gain, advice.problem
    wrong = _waived(advice)
    if gain is None:
        proof = advice.assurance
        return [*ALWAYS, *proof.assumptions] if isinstance(proof, Certificate) else []
    unit = gain.evidence.unit
    apart = f"the {unit} are independent"
    if gain.blocks:
        apart = f"{unit} depend little on each other"
    elif gain.varies:
        apart = f"what came before changes the {unit} through the choice of actions alone"
    found = [*ALWAYS, apart]
    if not problem.return_range.declared:
        low, high = problem.reward_range
        found.append(
            f"no reward lies outside [{low:g}, {high:g}], the range that was seen; declare it with"
            " --reward-range"
        )
    found += rows_left_out(problem)
    if problem.off_policy and gain.weighed:
        found.append("the actions were chosen with the propensities of the log")
    if gain.weighed and advice.log.bandit:
        pass  # every episode is one step
    elif gain.weighed:
        found.append(f"no episode has more than {gain.longest} steps, as in this log")
    else:
        enough = "the state says enough: given state and action, the past does not matter (Markov)"
        if any(x.key == MARKOV for x in advice.slight):
            enough = "the past matters no more for the gain than this log shows: it is not Markov"
        found += [enough, "many units: the test is asymptotic"]
    if problem.pi_b_policy is not None:
        name = as_text(advice.log.beside["policy"][problem.pi_b_policy])
        found.append(f"the baseline is what the rows of policy {name!r} show: it was estimated")
    elif problem.pi_b_estimated:
        found.append("the baseline is what the log shows on average: it was estimated")
    if problem.guards:
        columns = ", ".join(guard.column for guard in problem.guards)
        found.append(
            f"the same of {columns}; surefoot check LOG --reward COLUMN looks at drift and memory"
            " there"
        )
    if any(gate.part.kind == GROUP for gate in advice.gates) and not problem.pi_b_estimated:
        found.append(ALIKE)
    return [*wrong, *found]


def _waived(advice: Advice) -> list[str]:
    """What must be true though the log says otherwise, or nobody could look."""
    found = []
    for x in advice.against:
        if x.key in advice.waived:
            known = "FOUND TO BE FALSE" if x.looked else "NOT LOOKED AT"
            found.append(f"{OTHERWISE[x.key]}: {known} ({x.sentence})")
    return found
