"""What the Soft-SPIBB algorithms share: epsilon, delta, the error function, and the advantage
they may have to keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surefoot.algorithms.algorithm import RESTRICTS, maximum_likelihood, plan
from surefoot.core import Solution, Status
from surefoot.parameters import LARGEST, check_choice, check_number
from surefoot.planning import Trust
from surefoot.problems import Problem
from surefoot.rows.arrays import Array, namespace
from surefoot.trust import ERRORS, error_function


@dataclass(frozen=True)
class SoftSPIBB:
    """Abstract: improve within  sum_a e(s, a) |pi(a|s) - pi_b(a|s)| <= epsilon  in every state
    (Nadjahi et al. 2019).

    e is any error function: "hoeffding" (e_Q), "transition" (e_P), "mpeb", or their thinned forms;
    delta its failure probability (1, as in the paper's Table 1, makes it a plain hyper-parameter
    without a guarantee); g_max the scale of returns that MPeB needs (default: half the return
    range).
    """

    name: ClassVar[str] = "soft-spibb"
    taxonomy: ClassVar[str] = RESTRICTS
    one_step: ClassVar[bool] = False
    advantageous: ClassVar[bool] = False
    epsilon: float
    delta: float
    error: str = "hoeffding"
    g_max: float | None = None

    def __post_init__(self) -> None:
        check_number(self, "epsilon", low=0)
        check_number(self, "delta", low=0, high=1, open_low=True)
        check_choice(self, "error", tuple(ERRORS))
        if self.g_max is not None:
            check_number(self, "g_max", low=0, open_low=True, finite=True)

    def e(self, problem: Problem) -> Array:
        """The error function of this problem; where an advantage must be known and is not,
        infinite.
        """
        xp = namespace(problem.n_sa)
        n = problem.n_sa
        if (
            self.one_step or self.advantageous
        ):  # bounds on Monte-Carlo values rest on the returns there are
            n = xp.minimum(n, problem.returns.n)
        e = error_function(problem, self.error, self.delta, self.g_max, n=n)
        return xp.where(n > 0, e, xp.inf)

    @property
    def needs_log(self) -> bool:
        """Whether the log itself is read, to thin it."""
        return self.error.endswith("-thinned")

    @property
    def budget(self) -> float:
        """epsilon, where infinite as large as makes no difference."""
        return min(self.epsilon, LARGEST)

    def trust(self, problem: Problem) -> Trust:
        """The constraint set, and the step within it."""
        raise NotImplementedError

    def solve(self, problem: Problem) -> Solution:
        """Policy iteration inside the trust; the one-step variants take a single step on the
        Monte-Carlo values instead.
        """
        if not self.one_step:
            return plan(problem, maximum_likelihood(problem), self.trust(problem))
        xp = namespace(problem.pi_b)
        returns = problem.returns
        q = xp.where(returns.n > 0, returns.mean, problem.return_range.lo)
        q = xp.where(problem.terminal[..., None], 0.0, q)
        one = xp.ones_like(problem.pi_b[:, 0, 0], dtype=xp.int64)
        return Solution(self.trust(problem).step(q, problem.pi_b), q, Status(one > 0, one))


def advantage(problem: Problem) -> Array:
    """w: the Monte-Carlo q^{pi_b} that an advantageous policy must not lower, 0 where there is
    no return (and e is infinite).
    """
    return namespace(problem.pi_b).where(problem.returns.n > 0, problem.returns.mean, 0.0)
