"""Trust: error functions, and the costs of moving away from the baseline."""

from surefoot.trust.error_functions import ERRORS, e_b, e_p, e_q, error_function
from surefoot.trust.trusts import (
    FreeTrust,
    SoftTrust,
    TradeTrust,
    by_count,
    soft,
    trading,
    unrestricted,
)

__all__ = [
    "ERRORS",
    "FreeTrust",
    "SoftTrust",
    "TradeTrust",
    "by_count",
    "e_b",
    "e_p",
    "e_q",
    "error_function",
    "soft",
    "trading",
    "unrestricted",
]
