"""Soft-SPIBB: move as far as a budget of error allows; greedy or exact, lower-constrained or
advantageous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import Restricts
from surefoot.core.arrays import Array, namespace
from surefoot.core.parameters import LARGEST, check_choice, check_flag, check_number
from surefoot.planning import ERRORS, Trust, error_function, soft, trading
from surefoot.problems import Problem


@dataclass(frozen=True)
class SoftSPIBB(Restricts):
    """Abstract: improve within  sum_a e(s, a) |pi(a|s) - pi_b(a|s)| <= epsilon  in every state
    (Nadjahi et al. 2019).

    e is any error function: "hoeffding" (e_Q), "transition" (e_P), "mpeb", or their thinned forms;
    delta its failure probability (1, as in the paper's Table 1, makes it a plain hyper-parameter
    without a guarantee); g_max the scale of returns that MPeB needs (default: half the return
    range).
    """

    lower: ClassVar[bool] = False  # only raising a probability is paid for
    advantageous: ClassVar[bool] = False  # and  sum_a q_mc (pi - pi_b) >= 0  in every state
    epsilon: float
    delta: float
    error: str = "hoeffding"
    g_max: float | None = None

    def __post_init__(self) -> None:
        check_number(self, "epsilon", low=0)
        check_number(self, "delta", low=0, high=1, open_low=True)
        check_choice(self, "error", ERRORS)
        if self.g_max is not None:
            check_number(self, "g_max", low=0, open_low=True, finite=True)

    @property
    def needs_returns(self) -> bool:
        """To know the advantage, or the variance of returns."""
        return self.advantageous or ERRORS[self.error].needs_returns

    @property
    def needs_log(self) -> bool:
        """To thin it."""
        return ERRORS[self.error].needs_log

    @property
    def budget(self) -> float:
        """epsilon; if infinite, a number so large that the result is the same."""
        return min(self.epsilon, LARGEST)

    def e(self, problem: Problem, n: Array) -> Array:
        """The errors of values that rest on n samples; infinite where there is none, or where an
        advantage must be known and is not.
        """
        xp = namespace(n)
        if self.advantageous:
            n = xp.minimum(n, problem.returns.n)
        e = error_function(problem, self.error, self.delta, self.g_max, n=n)
        return xp.where(n > 0, e, xp.inf)

    def w(self, problem: Problem) -> Array | None:
        """q_mc, the values of the baseline that an advantageous policy must not lower: 0 where
        there is no return, and e is infinite.
        """
        if not self.advantageous:
            return None
        returns = problem.returns
        return namespace(returns.n).where(returns.n > 0, returns.mean, 0.0)


@dataclass(frozen=True)
class GreedySoftSPIBB(SoftSPIBB):
    """Abstract: with the paper's greedy step.

    `published=True` reproduces the published step, which can overspend: up to (3/2 - 2^(1 - A))
    epsilon where both directions are paid for, never where only raising is.
    """

    published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(self, "published")

    def trust(self, problem: Problem, n: Array) -> Trust:
        """Mass is traded from bad actions to good ones, one pair after the other."""
        return trading(
            problem,
            self.e(problem, n),
            self.budget,
            lower=self.lower,
            published=self.published,
            w=self.w(problem),
        )


@dataclass(frozen=True)
class SweepSoftSPIBB(SoftSPIBB):
    """Abstract: with the exact solution of the row problem."""

    def trust(self, problem: Problem, n: Array) -> Trust:
        """up = e; down = e, or 0 where only raising is paid for."""
        e = self.e(problem, n)
        return soft(problem, e, self.budget, lower=self.lower, w=self.w(problem))


@dataclass(frozen=True)
class ApproxSoftSPIBB(GreedySoftSPIBB):
    """max_pi  v(pi; M_hat)   s.t.   sum_a e |pi - pi_b| <= epsilon,   improved greedily.

    Nadjahi, Laroche & Tachet des Combes 2019.
    """

    name: ClassVar[str] = "approx-soft-spibb"


@dataclass(frozen=True)
class LowerApproxSoftSPIBB(GreedySoftSPIBB):
    """max_pi  v(pi; M_hat)   s.t.   sum_a e max(0, pi - pi_b) <= epsilon,   improved greedily.

    Scholl et al. 2022, Definition 3: lowering a probability costs nothing. The best of the SPIBB
    family in the paper's experiments; a heuristic, without a proof.
    """

    name: ClassVar[str] = "lower-approx-soft-spibb"
    lower: ClassVar[bool] = True


@dataclass(frozen=True)
class AdvApproxSoftSPIBB(GreedySoftSPIBB):
    """Approx-Soft-SPIBB that also keeps  sum_a q_mc (pi - pi_b) >= 0  in every state.

    Scholl et al. 2022, Section 4.1: q_mc is the Monte-Carlo estimate of q^{pi_b}, and these are the
    conditions of the paper's Theorem 1. A pair without a return never moves.
    """

    name: ClassVar[str] = "adv-approx-soft-spibb"
    advantageous: ClassVar[bool] = True


@dataclass(frozen=True)
class ExactSoftSPIBB(SweepSoftSPIBB):
    """max_pi  v(pi; M_hat)   s.t.   sum_a e |pi - pi_b| <= epsilon.

    Nadjahi, Laroche & Tachet des Combes 2019. The published version solves a linear program a
    state, and was left out of the paper's experiments for numerical trouble; the sweep of
    `surefoot.planning.best_rows` has none.
    """

    name: ClassVar[str] = "exact-soft-spibb"


@dataclass(frozen=True)
class LowerExactSoftSPIBB(SweepSoftSPIBB):
    """max_pi  v(pi; M_hat)   s.t.   sum_a e max(0, pi - pi_b) <= epsilon.

    Scholl et al. 2022, Definition 3, solved exactly.
    """

    name: ClassVar[str] = "lower-exact-soft-spibb"
    lower: ClassVar[bool] = True


@dataclass(frozen=True)
class AdvExactSoftSPIBB(SweepSoftSPIBB):
    """Exact-Soft-SPIBB that also keeps  sum_a q_mc (pi - pi_b) >= 0  in every state.

    Scholl et al. 2022, Section 4.1: meets the conditions of the paper's Theorem 1. A pair without a
    return never moves.
    """

    name: ClassVar[str] = "adv-exact-soft-spibb"
    advantageous: ClassVar[bool] = True
