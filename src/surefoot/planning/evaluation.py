"""Evaluating a policy in a model: exactly by a linear solve (dense), or to a stated tolerance (sparse)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from surefoot.core import DenseModel, Model, SparseModel
from surefoot.errors import NotAvailableError, ProblemError
from surefoot.rows.arrays import Array, namespace, row_dot

SWEEPS = 12  # sweeps tried before asking whether the chain mixes too slowly for them
ENDLESS = 1e10  # steps no proper episode takes: at gamma = 1 such a value comes from a singular system, not from rewards
SLOW = 0.75  # a sweep that leaves more than this share of the residual is slow


def evaluate(model: Model, pi: Array, *, v: Array | None = None, tolerance: float = 1e-10) -> Array:
    """v = r_pi + gamma P_pi v, [..., S].

    Dense models are solved directly (exact to rounding). Sparse ones are iterated from `v` until the residual proves that no
    entry is further than `tolerance` from the solution; gamma = 1 is refused there, since nothing would be proved.
    """
    if tuple(pi.shape[-2:]) != (model.n_states, model.n_actions):
        raise ProblemError(f"pi must be [..., {model.n_states}, {model.n_actions}] as the model, got {tuple(pi.shape)}")
    if isinstance(model, SparseModel):
        found = _evaluate_sparse(model, pi.reshape(model.r.shape), v, tolerance)
        return found.reshape(pi.shape[:-1])
    if not isinstance(model, DenseModel):
        raise ProblemError(f"expected a DenseModel or a SparseModel, got {type(model).__name__}")
    xp = namespace(pi)
    r_pi = row_dot(pi, model.r)
    endless = (
        "the policy never ends in this model and gamma = 1, so its value is not defined: use gamma < 1, or terminal states that every "
        "policy reaches"
    )
    try:
        found = xp.linalg.solve(model.policy_system(pi), r_pi[..., None])[..., 0]
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise NotAvailableError(endless) from error
    if model.gamma == 1 and not bool(xp.all(xp.abs(found) <= ENDLESS * (1.0 + xp.max(xp.abs(model.r))))):
        raise NotAvailableError(endless)
    return found


def evaluate_at_start(model: Model, pi: Array, start: Array, *, tolerance: float = 1e-10) -> Array:
    """rho = sum_s start(s) v(s): the value of a policy where episodes start, [...]; start [..., S] is a distribution."""
    v = evaluate(model, pi, tolerance=tolerance)
    return namespace(v).sum(v * start, axis=-1)


def _evaluate_sparse(model: SparseModel, pi: np.ndarray, v: Array | None, tolerance: float) -> np.ndarray:
    """Sweeps v <- r_pi + gamma P_pi v with the common part of the residual taken out; BiCGSTAB where they mix slowly."""
    gamma = model.gamma
    if gamma >= 1:
        raise NotAvailableError("a sparse model is evaluated for gamma < 1 only: at gamma = 1 no residual bounds the error")
    step, r_pi = policy_operator(model, pi)
    enough = tolerance * (1 - gamma)
    constant = 1 - gamma * step(np.ones(model.n_states))  # (I - gamma P) 1: what a constant added to v does to the residual
    norm = row_dot(constant, constant)  # not `@`: threads of a BLAS cost more than they save here
    v = np.full(model.n_states, r_pi.mean() / (1 - gamma)) if v is None else np.array(v[0])
    residual = r_pi + gamma * step(v) - v
    size = mark = np.abs(residual).max()
    sweeps = 0
    while size > enough and size > 4e-16 * np.abs(v).max():
        v = v + residual
        residual = r_pi + gamma * step(v) - v
        size = np.abs(residual).max()
        # Most of what is left is a constant, which is known to solve away.
        shift = row_dot(residual, constant) / norm
        shifted = residual - shift * constant
        if np.abs(shifted).max() < size:
            v, residual, size = v + shift, shifted, np.abs(shifted).max()
        sweeps += 1
        if sweeps % SWEEPS == 0:
            if size > SLOW**SWEEPS * mark and size > enough:
                v, residual = _krylov(step, r_pi, v, residual, gamma, 0.5 * enough)
                size = np.abs(residual).max()
            mark = size
    return v[None]


def _krylov(
    step: Any, r_pi: np.ndarray, v: np.ndarray, residual: np.ndarray, gamma: float, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """(v, residual) after a correction by BiCGSTAB; unchanged if that broke down, for the sweeps converge in any case."""
    from scipy.sparse.linalg import LinearOperator, bicgstab  # not at the top: it would double the time of `import surefoot`

    n = len(residual)
    operator = LinearOperator((n, n), matvec=lambda x: x - gamma * step(x), dtype=float)
    x, _ = bicgstab(operator, residual, rtol=1e-3, atol=enough, maxiter=200)
    better = r_pi + gamma * step(v + x) - (v + x)
    return (v + x, better) if np.abs(better).max() < np.abs(residual).max() else (v, residual)


def policy_operator(model: SparseModel, pi: np.ndarray) -> tuple[Any, np.ndarray]:
    """(x -> P_pi x, r_pi), from the rows of the pairs that pi uses; rows of one state are joined, not summed (CSR allows duplicates)."""
    share = (pi * model.weight).reshape(-1)
    used = np.flatnonzero(share != 0)
    prior = model.prior * share.reshape(model.n_states, -1).sum(axis=1) if model.prior else None
    transitions = model.transitions
    if len(used) > 0.5 * len(share):
        by_state = share.reshape(model.n_states, model.n_actions)

        def full(x: np.ndarray) -> np.ndarray:
            y: np.ndarray = np.einsum("sa,sa->s", by_state, (transitions @ x).reshape(by_state.shape))
            return y if prior is None else y + prior * x.sum()

        return full, row_dot(pi, model.r)[0]
    rows = transitions[used]
    if len(used) == model.n_states and np.array_equal(used // model.n_actions, np.arange(model.n_states)):
        scale = share[used]  # one action a state

        def single(x: np.ndarray) -> np.ndarray:
            y: np.ndarray = rows @ x
            y *= scale
            return y if prior is None else y + prior * x.sum()

        return single, model.r.reshape(-1)[used] * pi.reshape(-1)[used]
    data = rows.data * np.repeat(share[used], np.diff(rows.indptr))
    start = rows.indptr[np.searchsorted(used, np.arange(model.n_states + 1) * model.n_actions)]
    matrix = sparse.csr_array((data, rows.indices, start), shape=(model.n_states, model.n_states))
    r_pi = row_dot(pi, model.r)[0]
    if prior is None:
        return matrix.__matmul__, r_pi
    return (lambda x: matrix @ x + prior * x.sum()), r_pi
