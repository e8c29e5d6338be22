"""Planning: evaluation of policies, and the only fixed-point loop of the library."""

from surefoot.planning.evaluation import evaluate, evaluate_at_start, values_within, visits
from surefoot.planning.loop import Body, iterate
from surefoot.planning.plan import (
    MAX_STEPS,
    Backup,
    Estimate,
    Greedy,
    ModelEstimate,
    Trust,
    optimal,
    policy_iteration,
    value_iteration,
)

__all__ = [
    "MAX_STEPS",
    "Backup",
    "Body",
    "Estimate",
    "Greedy",
    "ModelEstimate",
    "Trust",
    "evaluate",
    "evaluate_at_start",
    "iterate",
    "optimal",
    "policy_iteration",
    "value_iteration",
    "values_within",
    "visits",
]
