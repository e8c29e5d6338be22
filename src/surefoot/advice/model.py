"""Two policies in the model that some units of a log make: their values at the start, and what every unit adds to the difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from surefoot.advice.units import Units
from surefoot.errors import NotAvailableError
from surefoot.problems import Problem

DENSE_STATES = 1500  # up to here linear systems are solved directly
ACCURACY = 1e-9  # relative residual of iterative solutions
AT_LEAST = 2  # visits that a pair needs to count: the scatter of one visit is unknown
PRIOR = 2.0  # so many visits' worth of the scatter of its state join the scatter of a pair, which few visits show too small


@dataclass(frozen=True, repr=False)
class Comparison:
    """Values at the start of a policy and of the baseline in one model, and the first-order effect of every unit on them.

    A score is what the estimate would change by if the unit were seen once more: they sum to nearly 0, and their scatter is that
    of the estimate; `extra` is the variance that pairs with few visits may hide from them. `checked` is the share of the moved
    probability mass, weighted by visits, that rests on pairs that count.
    """

    value: float
    baseline: float
    scores: np.ndarray  # [units of this model], of value - baseline
    value_scores: np.ndarray
    baseline_scores: np.ndarray
    extra: float  # of value - baseline
    checked: float

    @property
    def gain(self) -> float:
        """value - baseline."""
        return self.value - self.baseline


@dataclass(frozen=True, repr=False)
class UnitModel:
    """The maximum-likelihood model of some units, in which what they cannot tell counts neither for nor against a policy.

    - A pair seen fewer than twice by these units is worth what the baseline does in its state: moving mass to or from it is
      neither gain nor loss, since nothing could be said about its scatter.
    - A state in which these units never act does what the whole log did there, whatever the policy.
    - A state in which the whole log never acts is worth as much as the average state under the baseline.
    """

    units: Units
    whole: Units
    problem: Problem

    @cached_property
    def n_sa(self) -> np.ndarray:
        """Visits of every pair by these units [S, A]."""
        return _sum(self.units.pair, self.units.k, self.problem.pi_b.size).reshape(self.problem.pi_b.shape)

    @cached_property
    def counted(self) -> np.ndarray:
        """Pairs that count: seen at least twice; where a state has none, those seen at all."""
        often = self.n_sa >= AT_LEAST
        rated = (np.where(often, self.problem.pi_b, 0.0).sum(axis=1) > 0)[:, None]
        return np.where(rated, often, self.n_sa > 0)

    @cached_property
    def mixture(self) -> np.ndarray:
        """The baseline over the pairs that count [S, A]; the log's own frequencies where it uses none of them."""
        rows = np.where(self.counted, self.problem.pi_b, 0.0)
        rows = np.where(rows.sum(axis=1, keepdims=True) > 0, rows, np.where(self.counted, self.n_sa, 0.0))
        total = rows.sum(axis=1, keepdims=True)
        return np.asarray(rows / np.where(total > 0, total, 1.0))

    def over_counted(self, pi: np.ndarray) -> np.ndarray:
        """The policy over pairs that count: mass on the others does what the baseline's mixture does."""
        kept = np.where(self.counted, pi, 0.0)
        return np.asarray(kept + (1 - kept.sum(axis=1, keepdims=True)) * self.mixture)

    @cached_property
    def _fallback(self) -> tuple[Any, np.ndarray]:
        """(P, r) of the states in which these units never act, as CSR [S, S] and [S]; zero in all others."""
        acted = self.n_sa.sum(axis=1) > 0
        need = ~acted & ~self.problem.terminal
        whole = self.whole
        use = need[whole.state]
        n = _sum(whole.state[use], whole.k[use], len(need))
        share = 1.0 / np.where(n > 0, n, 1.0)
        r = _sum(whole.state[use], whole.r[use], len(need)) * share
        s = whole.state[use]
        return sparse.csr_array((whole.k[use] * share[s], (s, whole.next_state[use])), shape=(len(need), len(need))), r

    @cached_property
    def _lost(self) -> np.ndarray:
        """States that are not terminal and in which nobody ever acts [S]."""
        return np.asarray((_sum(self.whole.state, self.whole.k, len(self.problem.terminal)) == 0) & ~self.problem.terminal)

    def _chain(self, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        """(P_pi, r_pi) of a policy over pairs that count."""
        u, n_states = self.units, self.problem.n_states
        share = (rows / np.where(self.n_sa > 0, self.n_sa, 1.0)).reshape(-1)[u.pair]
        matrix = sparse.csr_array((share * u.k, (u.state, u.next_state)), shape=(n_states, n_states))
        r = _sum(u.state, share * u.r, n_states)
        return (matrix + self._fallback[0]).tocsr(), r + self._fallback[1]

    @cached_property
    def _baseline(self) -> _Chain:
        matrix, r = self._chain(self.mixture)
        chain = _Chain(matrix, r, self.problem.gamma, self.problem.start)
        if not self._lost.any():
            return chain
        # v = v0 + level v1 with level the average of v over the visits: one equation for the level.
        visits = _sum(self.units.state, self.units.k, len(r)) / self.units.k.sum()
        v0, v1 = chain.v, _Chain(matrix, self._lost.astype(float), self.problem.gamma, self.problem.start).v
        left = 1.0 - float(visits @ v1)
        level = float(visits @ v0) / left if left > 1e-9 else 0.0
        return _Chain(matrix, r + level * self._lost, self.problem.gamma, self.problem.start)

    def compare(self, pi: np.ndarray) -> Comparison:
        """The policy against the baseline."""
        rows, base = self.over_counted(pi), self._baseline
        level = base.r * self._lost
        matrix, r = self._chain(rows)
        chain = _Chain(matrix, r + level, self.problem.gamma, self.problem.start)
        value_scores, baseline_scores = self._scores(rows, chain), self._scores(self.mixture, base)
        moved = np.abs(pi - self.problem.pi_b) * self.n_sa.sum(axis=1, keepdims=True)
        total = float(moved.sum())
        return Comparison(
            chain.at_start, base.at_start, value_scores - baseline_scores, value_scores, baseline_scores, self._extra(rows, chain),
            float(moved[self.n_sa >= AT_LEAST].sum()) / total if total > 0 else 1.0,
        )  # fmt: skip

    def advantage(self, pi: np.ndarray) -> np.ndarray:
        """sum_a (pi - pi_b)(a|s) q_b(s, a)  in every state [S], over pairs that count."""
        u = self.units
        q = _sum(u.pair, u.r + self.problem.gamma * u.k * self._baseline.v[u.next_state], self.n_sa.size).reshape(self.n_sa.shape)
        q = q / np.where(self.n_sa > 0, self.n_sa, 1.0)
        return np.asarray(((self.over_counted(pi) - self.mixture) * q).sum(axis=1))

    def _scores(self, rows: np.ndarray, chain: _Chain) -> np.ndarray:
        """sum over the steps of a unit of  d(s) pi(a|s) / n(s, a)  (r + gamma v(s') - q(s, a))  n / (n - 1),  [units].

        d is the discounted number of visits; the product is the derivative of the value with respect to the weight of the step.
        n / (n - 1) makes the residual that of a step left out of its own mean, which is not too small where n is.
        """
        u = self.units
        target = u.r + self.problem.gamma * u.k * chain.v[u.next_state]
        n = self.n_sa.reshape(-1)
        q = _sum(u.pair, target, len(n)) / np.where(n > 0, n, 1.0)
        inflate = np.where(n > 1, n / np.where(n > 1, n - 1, 1.0), 1.0)
        per_step = (chain.d[:, None] * rows).reshape(-1) / np.where(n > 0, n, 1.0) * inflate
        return _sum(u.unit, per_step[u.pair] * (target - u.k * q[u.pair]), u.number)

    def _extra(self, rows: np.ndarray, chain: _Chain) -> float:
        """sum over pairs of  (d(s) pi(a|s) - d_b(s) pi_b(a|s))^2 / n(s, a)  times  PRIOR / (n - 1 + PRIOR)  times the variance in s.

        The variance in s is that of r + gamma v_b(s') over all steps from s. Three equal outcomes do not make a pair certain.
        """
        u, base = self.units, self._baseline
        target = u.r / u.k + self.problem.gamma * base.v[u.next_state]
        n_s = self.n_sa.sum(axis=1)
        mean = _sum(u.state, u.k * target, len(n_s)) / np.where(n_s > 0, n_s, 1.0)
        scatter = _sum(u.state, u.k * (target - mean[u.state]) ** 2 + u.m2, len(n_s))
        variance = (scatter / np.where(n_s > 1, n_s - 1, 1.0))[:, None]
        n = np.where(self.n_sa > 0, self.n_sa, 1.0)
        shift = chain.d[:, None] * rows - base.d[:, None] * self.mixture
        return float((shift**2 / n * PRIOR / (n - 1 + PRIOR) * variance).sum())


@dataclass(frozen=True, repr=False)
class _Chain:
    """A Markov reward process: v = r + gamma P v, and the discounted visits d = start + gamma P' d."""

    matrix: Any
    r: np.ndarray
    gamma: float
    start: np.ndarray

    @cached_property
    def v(self) -> np.ndarray:
        return _solve(self.matrix, self.r, self.gamma)

    @cached_property
    def d(self) -> np.ndarray:
        return _solve(self.matrix.T.tocsr(), self.start, self.gamma)

    @property
    def at_start(self) -> float:
        return float(self.start @ self.v)


def _solve(matrix: Any, right: np.ndarray, gamma: float) -> np.ndarray:
    """x = right + gamma matrix x."""
    n = len(right)
    if n <= DENSE_STATES:
        try:
            found: np.ndarray = np.linalg.solve(np.eye(n) - gamma * matrix.toarray(), right)
        except np.linalg.LinAlgError as error:
            raise NotAvailableError("gamma = 1 and a part of the log in which episodes do not end: use gamma < 1") from error
        if gamma == 1 and not np.abs(found).max() < 1e10 * (1 + np.abs(right).max()):
            raise NotAvailableError("gamma = 1 and a part of the log in which episodes do not end: use gamma < 1")
        return found
    if gamma == 1:
        raise NotAvailableError(f"gamma = 1 is possible up to {DENSE_STATES} states: use gamma < 1")
    from scipy.sparse.linalg import LinearOperator, bicgstab

    operator = LinearOperator((n, n), matvec=lambda x: x - gamma * (matrix @ x), dtype=float)
    x, _ = bicgstab(operator, right, rtol=ACCURACY, maxiter=500)
    residual = right + gamma * (matrix @ x) - x
    size = np.abs(right).sum()
    for _ in range(100_000):  # sweeps converge in any case
        if np.abs(residual).sum() <= 10 * ACCURACY * size:
            break
        x = x + residual
        residual = gamma * (matrix @ residual)
    return np.asarray(x)


def _sum(at: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    found: np.ndarray = np.bincount(at, weights=weights, minlength=n)
    return found
