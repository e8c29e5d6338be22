"""Planning: evaluation of policies, and the only fixed-point loop of the library."""

from surefoot.planning.bias import Bias, plug_in_bias
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
    "Bias",
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
    "plug_in_bias",
    "policy_iteration",
    "value_iteration",
    "values_within",
    "visits",
]
