"""Planning: evaluation of policies, and the only fixed-point loop of the library."""

from surefoot.planning.advantage import RowGuard, best_guarded_rows
from surefoot.planning.error_functions import ERRORS, e_b, e_p, e_q, error_function
from surefoot.planning.evaluation import (
    Bias,
    evaluate,
    evaluate_at_start,
    plug_in_bias,
    values_within,
    visits,
)
from surefoot.planning.loop import Body, iterate
from surefoot.planning.plan import (
    MAX_STEPS,
    Backup,
    Estimate,
    FixedValues,
    ModelEstimate,
    Trust,
    one_step,
    optimal,
    policy_iteration,
    value_iteration,
)
from surefoot.planning.sweep import BestRows, best_rows, duality_gap, keep_or_best_rows
from surefoot.planning.trade import trade_rows
from surefoot.planning.trusts import (
    FreeTrust,
    SoftTrust,
    TradeTrust,
    as_soft,
    by_count,
    free_rows,
    soft,
    trading,
    unrestricted,
)

__all__ = [
    "ERRORS",
    "MAX_STEPS",
    "Backup",
    "BestRows",
    "Bias",
    "Body",
    "Estimate",
    "FixedValues",
    "FreeTrust",
    "ModelEstimate",
    "RowGuard",
    "SoftTrust",
    "TradeTrust",
    "Trust",
    "as_soft",
    "best_guarded_rows",
    "best_rows",
    "by_count",
    "duality_gap",
    "e_b",
    "e_p",
    "e_q",
    "error_function",
    "evaluate",
    "evaluate_at_start",
    "free_rows",
    "iterate",
    "keep_or_best_rows",
    "one_step",
    "optimal",
    "plug_in_bias",
    "policy_iteration",
    "soft",
    "trade_rows",
    "trading",
    "unrestricted",
    "value_iteration",
    "values_within",
    "visits",
]
