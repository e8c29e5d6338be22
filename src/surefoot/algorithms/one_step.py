"""One-step variants: a single improvement on the Monte-Carlo q of the baseline, without a model
(Scholl et al. 2022b).

Such a policy is advantageous with respect to that q by construction, so Theorem 1 applies without
its third constraint; the lower variants, which may take mass from pairs without a return (worth lo
here), are outside of it in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.approx_soft_spibb import (
    AdvApproxSoftSPIBB,
    ApproxSoftSPIBB,
    LowerApproxSoftSPIBB,
)
from surefoot.algorithms.exact_soft_spibb import (
    AdvExactSoftSPIBB,
    ExactSoftSPIBB,
    LowerExactSoftSPIBB,
)


@dataclass(frozen=True)
class OneStepApproxSoftSPIBB(ApproxSoftSPIBB):
    """One greedy step within  sum_a e |pi - pi_b| <= epsilon  on q_mc."""

    name: ClassVar[str] = "one-step-approx-soft-spibb"
    one_step: ClassVar[bool] = True


@dataclass(frozen=True)
class OneStepLowerApproxSoftSPIBB(LowerApproxSoftSPIBB):
    """One greedy step within  sum_a e max(0, pi - pi_b) <= epsilon  on q_mc."""

    name: ClassVar[str] = "one-step-lower-approx-soft-spibb"
    one_step: ClassVar[bool] = True


@dataclass(frozen=True)
class OneStepAdvApproxSoftSPIBB(AdvApproxSoftSPIBB):
    """One greedy step on q_mc with the advantage account: the same as without it, since each
    trade gains.
    """

    name: ClassVar[str] = "one-step-adv-approx-soft-spibb"
    one_step: ClassVar[bool] = True


@dataclass(frozen=True)
class OneStepExactSoftSPIBB(ExactSoftSPIBB):
    """The best row within  sum_a e |pi - pi_b| <= epsilon  for q_mc."""

    name: ClassVar[str] = "one-step-exact-soft-spibb"
    one_step: ClassVar[bool] = True


@dataclass(frozen=True)
class OneStepLowerExactSoftSPIBB(LowerExactSoftSPIBB):
    """The best row within  sum_a e max(0, pi - pi_b) <= epsilon  for q_mc."""

    name: ClassVar[str] = "one-step-lower-exact-soft-spibb"
    one_step: ClassVar[bool] = True


@dataclass(frozen=True)
class OneStepAdvExactSoftSPIBB(AdvExactSoftSPIBB):
    """The best row for q_mc with the advantage constraint: the same as without it, since the
    best row gains.
    """

    name: ClassVar[str] = "one-step-adv-exact-soft-spibb"
    one_step: ClassVar[bool] = True
