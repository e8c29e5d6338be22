"""Planning: evaluation of policies, and the only fixed-point loop of the library."""

from surefoot.planning.evaluation import evaluate, evaluate_at_start, values_within, visits
from surefoot.planning.loop import Body, iterate
from surefoot.planning.plan import (
    MAX_STEPS,
    Backup,
    Estimate,
    FixedValues,
    Greedy,
    ModelEstimate,
    Trust,
    one_step,
    optimal,
    policy_iteration,
    value_iteration,
)

__all__ = [
    "MAX_STEPS",
    "Backup",
    "Body",
    "Estimate",
    "FixedValues",
    "Greedy",
    "ModelEstimate",
    "Trust",
    "evaluate",
    "evaluate_at_start",
    "iterate",
    "one_step",
    "optimal",
    "policy_iteration",
    "value_iteration",
    "values_within",
    "visits",
]
