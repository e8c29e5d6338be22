"""Returns as evidence: which returns of a log are independent, and what they say about values."""

from surefoot.returns.evidence import ReturnEvidence, evidence, with_independent_returns

__all__ = ["ReturnEvidence", "evidence", "with_independent_returns"]
