"""DUIPI step by step in plain NumPy, for one dense problem.

Hans & Udluft 2009, as implemented for Scholl et al. 2022. `surefoot.algorithms.duipi` does the same
for many problems at once, over seen successors only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.problems import Problem


@dataclass(frozen=True)
class PlainRows:
    """P, Var(P) and R [S, A, S']; noise [S, A], the part of u that is sum_s' P^2 Var(R)."""

    p: np.ndarray
    var: np.ndarray
    reward: np.ndarray
    noise: np.ndarray
    gamma: float

    def backup(self, v: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q = sum_s' P (R + gamma v'),
        u = sum_s' gamma^2 P^2 w' + (R + gamma v')^2 Var(P) + P^2 Var(R).
        """
        z = self.reward + self.gamma * v
        u = (self.gamma**2 * self.p**2 * w + z**2 * self.var).sum(axis=-1)
        return (self.p * z).sum(axis=-1), u + self.noise

    def centred(self, v: np.ndarray) -> np.ndarray:
        """Var_P(R + gamma v') [S, A]: what `CentredDUIPI` puts in the place of z^2 Var(P)."""
        z = self.reward + self.gamma * v
        mean = (self.p * z).sum(axis=-1, keepdims=True)
        variance: np.ndarray = (self.p * (z - mean) ** 2).sum(axis=-1)
        return variance


def plain_rows(problem: Problem, alpha: float) -> PlainRows:
    """The moments of every row: those of a Dirichlet with counts n + alpha; alpha = 0 is the
    frequentist form, P = n_sas / n and Var(P) = P (1 - P) / (n - 1), 1/4 where n <= 1.

    A triple never seen has the reward of arriving at s'.
    """
    n_sas, n = problem.counts.n_sas, problem.n_sa[..., None]
    total = n + alpha * problem.n_states
    p = (n_sas + alpha) / np.where(total > 0, total, 1.0)
    var = p * (1 - p) / (total + 1)
    if alpha == 0:
        var = np.where(n > 1, p * (1 - p) / np.where(n > 1, n - 1, 1.0), 0.25)
    if problem.reward_table is not None:
        reward = np.broadcast_to(problem.reward_table, n_sas.shape)
        return PlainRows(p, var, reward, np.zeros_like(problem.n_sa), problem.gamma)
    mean = problem.counts.r_sas / np.where(n_sas > 0, n_sas, 1.0)
    reward = np.where(n_sas > 0, mean, problem.blocks[0].arrivals.table[0])
    noise = problem.counts.r_rest / np.where(total > 0, total, 1.0)[..., 0] ** 2
    return PlainRows(p, var, reward, noise, problem.gamma)


def plain_duipi(problem: Problem, xi: float, alpha: float, steps: int) -> tuple[np.ndarray, bool]:
    """(policy, whether it converged); equal scores go to the lowest index."""
    rows = plain_rows(problem, alpha)
    seen, states = problem.n_sa > 0, np.arange(problem.n_states)
    pi = np.full(seen.shape, 1 / problem.n_actions)
    q = u = np.zeros(seen.shape)
    for m in range(1, steps + 1):
        # 1. Values of states: v = sum_a pi q, and w = sum_a pi^2 u, their variance.
        v, w = (pi * q).sum(axis=1), (pi**2 * u).sum(axis=1)
        # 2. Values of pairs, and their variance.
        old, (q, u) = q, rows.backup(v, w)
        # 3. The best action by  q - xi sqrt(u);  a pair never seen is none (Scholl et al. 2022).
        best = np.round(np.where(seen, q - xi * np.sqrt(u), -np.inf), 11).argmax(axis=1)
        # 4. At step m it gains d = min(1/m, 1 - pi(best)); the others shrink in proportion.
        top = pi[states, best]
        d = np.minimum(1 / m, 1 - top)
        shrink = np.where(top < 1, (1 - top - d) / np.maximum(1 - top, 1e-300), 1.0)
        pi = pi * shrink[:, None]
        pi[states, best] = top + d
        if np.abs(q - old).max() < 1e-10 and d.max() == 0:
            return pi, True
    return pi, False
