"""surefoot: improve a decision policy from its own log, and do not make it worse.

The straight line: a log becomes a `Problem`, an algorithm makes it a `Solution`.

    problem = surefoot.problem(state=..., action=..., reward=..., next_state=..., episode=...,
    pi_b=..., gamma=0.95) solution = surefoot.improve(problem,
    surefoot.algorithm("lower-approx-soft-spibb", epsilon=0.5, delta=1))

`surefoot.core` holds the glossary.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surefoot import theory
from surefoot.algorithms import ALGORITHMS, Algorithm, algorithm
from surefoot.core import (
    Batch,
    Counts,
    DenseModel,
    Model,
    Returns,
    Solution,
    SparseModel,
    Status,
    known_model,
)
from surefoot.errors import (
    BaselineError,
    LogError,
    NotAvailableError,
    ParameterError,
    PolicyError,
    ProblemError,
    SurefootError,
    UnknownNameError,
)
from surefoot.improvement import improve
from surefoot.planning import evaluate, evaluate_at_start, optimal
from surefoot.problems import (
    Problem,
    ReturnRange,
    estimate_baseline,
    monte_carlo,
    problem,
    thinned_counts,
)
from surefoot.trust import error_function

if TYPE_CHECKING:
    from surefoot.certificates import CERTIFICATES, Certificate, certify

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Certificates are loaded when they are first asked for: most who import surefoot do not,
    and it is to take half a second at most.
    """
    if name in ("CERTIFICATES", "Certificate", "certify"):
        from surefoot import certificates

        return getattr(certificates, name)
    if name in ("certificates", "tuning"):
        return import_module(f"surefoot.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ALGORITHMS",
    "CERTIFICATES",
    "Algorithm",
    "BaselineError",
    "Batch",
    "Certificate",
    "Counts",
    "DenseModel",
    "LogError",
    "Model",
    "NotAvailableError",
    "ParameterError",
    "PolicyError",
    "Problem",
    "ProblemError",
    "ReturnRange",
    "Returns",
    "Solution",
    "SparseModel",
    "Status",
    "SurefootError",
    "UnknownNameError",
    "algorithm",
    "certify",
    "error_function",
    "estimate_baseline",
    "evaluate",
    "evaluate_at_start",
    "improve",
    "known_model",
    "monte_carlo",
    "optimal",
    "problem",
    "theory",
    "thinned_counts",
]
