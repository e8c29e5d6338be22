"""Evaluating a policy in a model: exactly by a linear solve (dense), or to a stated tolerance
(sparse).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from surefoot.core import DenseModel, Model, SparseModel
from surefoot.errors import NotAvailableError, ProblemError
from surefoot.rows.arrays import Array, namespace, row_dot

SWEEPS = 12  # sweeps tried before asking whether the chain mixes too slowly for them
# steps no proper episode takes: at gamma = 1 such a value comes from a singular system, not from
# rewards
ENDLESS = 1e10
SLOW = 0.75  # a sweep that leaves more than this share of the residual is slow


def evaluate(model: Model, pi: Array, *, v: Array | None = None, tolerance: float = 1e-10) -> Array:
    """v = r_pi + gamma P_pi v, [..., S].

    Dense models are solved directly (exact to rounding). Sparse ones are iterated from `v` until
    the residual proves that no entry is further than `tolerance` from the solution; gamma = 1 is
    refused there, since nothing would be proved.
    """
    if tuple(pi.shape[-2:]) != (model.n_states, model.n_actions):
        raise ProblemError(
            f"pi must be [..., {model.n_states}, {model.n_actions}] as the model, got"
            f" {tuple(pi.shape)}"
        )
    if isinstance(model, SparseModel):
        found = _evaluate_sparse(model, pi.reshape(model.r.shape), v, tolerance)
        return found.reshape(pi.shape[:-1])
    if not isinstance(model, DenseModel):
        raise ProblemError(f"expected a DenseModel or a SparseModel, got {type(model).__name__}")
    xp = namespace(pi)
    r_pi = row_dot(pi, model.r)
    endless = (
        "the policy never ends in this model and gamma = 1, so its value is not defined: use gamma"
        " < 1, or terminal states that every policy reaches"
    )
    try:
        found = xp.linalg.solve(model.policy_system(pi), r_pi[..., None])[..., 0]
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise NotAvailableError(endless) from error
    if model.gamma == 1 and not bool(
        xp.all(xp.abs(found) <= ENDLESS * (1.0 + xp.max(xp.abs(model.r))))
    ):
        raise NotAvailableError(endless)
    return found


def evaluate_at_start(model: Model, pi: Array, start: Array, *, tolerance: float = 1e-10) -> Array:
    """rho = sum_s start(s) v(s): the value of a policy where episodes start, [...]; start [...,
    S] is a distribution.
    """
    v = evaluate(model, pi, tolerance=tolerance)
    return namespace(v).sum(v * start, axis=-1)


def _evaluate_sparse(
    model: SparseModel, pi: np.ndarray, v: Array | None, tolerance: float
) -> np.ndarray:
    """Sweeps v <- r_pi + gamma P_pi v with the common part of the residual taken out; BiCGSTAB
    where they mix slowly.
    """
    gamma = model.gamma
    if gamma >= 1:
        raise NotAvailableError(
            "a sparse model is evaluated for gamma < 1 only: at gamma = 1 no residual bounds the"
            " error"
        )
    step, r_pi = policy_operator(model, pi)
    enough = tolerance * (1 - gamma)
    constant = 1 - gamma * step(
        np.ones(model.n_states)
    )  # (I - gamma P) 1: what a constant added to v does to the residual
    norm = row_dot(constant, constant)  # not `@`: threads of a BLAS cost more than they save here
    v = np.full(model.n_states, r_pi.mean() / (1 - gamma)) if v is None else np.array(v[0])
    residual = _residual(step, r_pi, gamma, v)
    size = mark = _size(residual)
    sweeps = 0
    while size > enough and size > 4e-16 * _size(v):
        v += residual
        residual = _residual(step, r_pi, gamma, v)
        size = _size(residual)
        # Most of what is left is a constant, which is known to solve away.
        shift = row_dot(residual, constant) / norm
        shifted = residual - shift * constant
        shifted_size = _size(shifted)
        if shifted_size < size:
            v += shift
            residual, size = shifted, shifted_size
        sweeps += 1
        if sweeps % SWEEPS == 0:
            if size > SLOW**SWEEPS * mark and size > enough:
                v, residual = _krylov(step, r_pi, v, residual, gamma, 0.5 * enough)
                size = _size(residual)
            mark = size
    return v[None]


def _residual(step: Any, r_pi: np.ndarray, gamma: float, v: np.ndarray) -> np.ndarray:
    """r_pi + gamma P_pi v - v, in place: passes over [S] cost as much as the product."""
    y: np.ndarray = step(v)
    y *= gamma
    y += r_pi
    y -= v
    return y


def _size(x: np.ndarray) -> float:
    """max |x|."""
    return float(max(x.max(), -x.min()))


def _krylov(
    step: Any, r_pi: np.ndarray, v: np.ndarray, residual: np.ndarray, gamma: float, enough: float
) -> tuple[np.ndarray, np.ndarray]:
    """(v, residual) after a correction by BiCGSTAB; unchanged if that broke down, for the sweeps
    converge in any case.
    """
    # not at the top: it would double the time of `import surefoot`
    from scipy.sparse.linalg import (
        LinearOperator,
        bicgstab,
    )

    n = len(residual)
    operator = LinearOperator((n, n), matvec=lambda x: x - gamma * step(x), dtype=float)
    x, _ = bicgstab(operator, residual, rtol=1e-3, atol=enough, maxiter=200)
    better = _residual(step, r_pi, gamma, v + x)
    return (v + x, better) if _size(better) < _size(residual) else (v, residual)


def policy_operator(model: SparseModel, pi: np.ndarray) -> tuple[Any, np.ndarray]:
    """(x -> P_pi x, r_pi), from the rows of the pairs that pi uses; rows of one state are
    joined, not summed (CSR allows duplicates).
    """
    n_states, n_actions = model.n_states, model.n_actions
    used = np.flatnonzero(pi.reshape(-1) != 0)
    share = pi.reshape(-1)[used] * model.weight.reshape(-1)[used]
    prior = (
        model.prior * np.bincount(used // n_actions, share, minlength=n_states)
        if model.prior
        else None
    )
    transitions = model.transitions
    if len(used) > 0.5 * n_states * n_actions:
        by_state = (pi * model.weight)[0]

        def full(x: np.ndarray) -> np.ndarray:
            y: np.ndarray = np.einsum(
                "sa,sa->s", by_state, (transitions @ x).reshape(by_state.shape)
            )
            return y if prior is None else y + prior * x.sum()

        return full, row_dot(pi, model.r)[0]
    if len(used) == n_states and np.array_equal(used // n_actions, np.arange(n_states)):
        product = model.chosen_rows.product(used)

        def single(x: np.ndarray) -> np.ndarray:  # one action a state
            y = product(x)
            y *= share
            return y if prior is None else y + prior * x.sum()

        return single, pi.reshape(-1)[used] * model.r.reshape(-1)[used]
    rows = transitions[used]
    data = rows.data * np.repeat(share, np.diff(rows.indptr))
    start = rows.indptr[np.searchsorted(used, np.arange(n_states + 1) * n_actions)]
    matrix = sparse.csr_array((data, rows.indices, start), shape=(n_states, n_states))
    r_pi = row_dot(pi, model.r)[0]
    if prior is None:
        return matrix.__matmul__, r_pi
    return (lambda x: matrix @ x + prior * x.sum()), r_pi
