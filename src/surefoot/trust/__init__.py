"""Trust: error functions, and the costs of moving away from the baseline."""

from surefoot.trust.error_functions import ERRORS, error_function, hoeffding, mpeb, transition
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
    "error_function",
    "hoeffding",
    "mpeb",
    "soft",
    "trading",
    "transition",
    "unrestricted",
]
