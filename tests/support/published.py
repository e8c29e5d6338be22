"""Naive twins: the algorithms as the paper and its code describe them, state by state, slow and
plain. Rewards are a table [S, S'].
"""

from __future__ import annotations

import numpy as np


def model(problem: object) -> tuple[np.ndarray, np.ndarray]:
    """(P, r) of the maximum-likelihood model, rows of unseen pairs all zero."""
    n_sas, n = problem.counts.n_sas, problem.n_sa
    p = np.divide(n_sas, n[..., None], out=np.zeros_like(n_sas), where=n[..., None] > 0)
    return p, np.einsum("sat,st->sa", p, problem.reward_table[:, 0, :])


def q_of(p: np.ndarray, r: np.ndarray, pi: np.ndarray, gamma: float) -> np.ndarray:
    """q of a policy by a linear system over pairs."""
    s, a = pi.shape
    chain = np.einsum("sat,tb->satb", p, pi).reshape(s * a, s * a)
    return np.linalg.solve(np.eye(s * a) - gamma * chain, r.ravel()).reshape(s, a)


def iterate(problem: object, r: np.ndarray, improve: object) -> np.ndarray:
    """Policy iteration with this improvement of a row, from the baseline."""
    p, _ = model(problem)
    pi = problem.pi_b.copy()
    for _ in range(100):
        q = np.round(q_of(p, r, pi, problem.gamma), 12)  # so that equal values are equal
        new = np.array([improve(s, q[s], pi[s]) for s in range(len(pi))])
        if np.abs(new - pi).max() < 1e-13:
            return new
        pi = new
    return pi


def greedy(s: int, q: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """All mass on the first best action."""
    return np.eye(len(q))[q.argmax()]


def basic_rl(problem: object) -> np.ndarray:
    return iterate(problem, model(problem)[1], greedy)


def ramdp(problem: object, kappa: float) -> np.ndarray:
    n, r = problem.n_sa, model(problem)[1].copy()
    r[n > 0] -= kappa / np.sqrt(n[n > 0])
    return iterate(problem, r, greedy)


def r_min(problem: object, n_wedge: float) -> np.ndarray:
    p, r = model(problem)
    q = np.zeros_like(r)
    for _ in range(3000):
        q = np.where(problem.n_sa > n_wedge, r + problem.gamma * p @ q.max(axis=1), 0.0)
    return np.eye(q.shape[1])[np.round(q, 10).argmax(axis=1)]


def pi_b_spibb(problem: object, n_wedge: float) -> np.ndarray:
    known, b = problem.n_sa > n_wedge, problem.pi_b

    def improve(s: int, q: np.ndarray, pi: np.ndarray) -> np.ndarray:
        if not known[s].any():
            return b[s]
        best = np.where(known[s], q, -np.inf).argmax()
        row = np.where(known[s], 0.0, b[s])
        row[best] += b[s][known[s]].sum()
        return row

    return iterate(problem, model(problem)[1], improve)


def pi_leq_b_spibb(problem: object, n_wedge: float) -> np.ndarray:
    known, b = problem.n_sa > n_wedge, problem.pi_b

    def improve(s: int, q: np.ndarray, pi: np.ndarray) -> np.ndarray:
        row, left = np.zeros_like(q), 1.0
        for a in np.argsort(-q, kind="stable"):
            row[a] = left if known[s, a] else min(left, b[s, a])
            left -= row[a]
        return row if known[s].any() else b[s]

    return iterate(problem, model(problem)[1], improve)


def trade(
    q: np.ndarray,
    b: np.ndarray,
    e: np.ndarray,
    epsilon: float,
    *,
    lower: bool,
    published: bool,
    w: np.ndarray | None = None,
) -> np.ndarray:
    """One row of Approx-, Lower-Approx- or (with w) Adv-Approx-Soft-SPIBB."""
    row, budget, account = b.copy(), epsilon, 0.0
    for donor in np.argsort(q, kind="stable"):
        offer = row[donor] if lower else min(row[donor], budget / (2 * e[donor]))
        for receiver in np.argsort(-(q - q[donor]) / e, kind="stable"):
            if receiver == donor or offer <= 0:
                break
            m = min(offer, budget / e[receiver] if lower else budget / (2 * e[receiver]))
            gain = 0.0 if w is None else w[receiver] - w[donor]
            if gain < 0:
                m = min(m, account / -gain)
            if m <= 0:
                continue
            account += gain * m
            budget -= m * (e[receiver] + (0.0 if lower else e[donor]))
            row[donor] -= m
            row[receiver] += m
            offer -= m
            if not published and not lower:
                offer = min(offer, budget / (2 * e[donor]))
    return row


def soft(
    problem: object,
    e: np.ndarray,
    epsilon: float,
    *,
    lower: bool,
    published: bool,
    w: np.ndarray | None = None,
) -> np.ndarray:
    def improve(s: int, q: np.ndarray, pi: np.ndarray) -> np.ndarray:
        row = trade(
            q,
            problem.pi_b[s],
            e[s],
            epsilon,
            lower=lower,
            published=published,
            w=None if w is None else np.nan_to_num(w[s]),
        )
        return row if row @ q >= pi @ q else pi

    return iterate(problem, model(problem)[1], improve)
