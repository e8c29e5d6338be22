"""Trust: error functions, and the costs of moving away from the baseline."""

from surefoot.trust.errors import ERRORS, error_function, hoeffding, mpeb, transition
from surefoot.trust.evidence import Evidence, evidence, with_independent_returns
from surefoot.trust.trusts import FreeTrust, SoftTrust, TradeTrust, by_count, soft, trading, unrestricted

__all__ = [
    "ERRORS",
    "Evidence",
    "FreeTrust",
    "SoftTrust",
    "TradeTrust",
    "by_count",
    "error_function",
    "evidence",
    "hoeffding",
    "mpeb",
    "soft",
    "trading",
    "transition",
    "unrestricted",
    "with_independent_returns",
]
