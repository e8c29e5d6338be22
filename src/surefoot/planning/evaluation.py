"""The one linear system of the library: values v = r_pi + gamma P_pi v of a policy in a model, and
its discounted visits d = start + gamma P_pi' d; and how much too high a value is, on average, in a
model that was counted from data.

Dense models are solved directly, sparse ones by sweeps until the residual proves the accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from array_api_compat import is_array_api_obj
from scipy import sparse

from surefoot.core import DenseModel, Model, SparseModel, known_model
from surefoot.core.array_checks import check_rows
from surefoot.core.arrays import Array, namespace, row_dot
from surefoot.core.errors import NotAvailableError, ProblemError

SWEEPS = 12  # sweeps tried before asking whether the chain mixes too slowly for them
SLOW = 0.75  # a sweep that leaves more than this share of the residual is slow
# steps no proper episode takes: at gamma = 1 such a value comes from a singular system, not from
# rewards
ENDLESS = 1e10
Product = Callable[[np.ndarray], np.ndarray]  # x -> P x
DENSE_STATES = 1000  # up to here all discounted returns to a state are solved for at once
# of what later terms may add: 0 to 1.6 was seen in ten families with 1.5 to 15 ends a pair
LATER = 2.0
PROBES = 8  # random signs that stand for them beyond; their noise falls with the number of states


def evaluate(
    model: Model, pi: Array, *, v: Array | None = None, tolerance: float | None = 1e-10
) -> Array:
    """v = r_pi + gamma P_pi v, [..., S].

    Dense models are solved directly (exact to rounding). Sparse ones are iterated from `v` until
    the residual proves that no entry is further than `tolerance` from the solution (None: as near
    as rounding allows). A tolerance that rounding does not allow is refused, and so is gamma = 1,
    where nothing would be proved.
    """
    if not is_array_api_obj(pi):
        raise ProblemError(
            "a model has no labels, so pi must be an array [S, A] in the order of its codes, got"
            f" {type(pi).__name__}: surefoot.align_policy(pi, problem) makes one"
        )
    check_rows("pi", pi, ProblemError)
    found, error = values_within(model, pi, v, tolerance)
    if tolerance is not None and not error <= tolerance:
        raise NotAvailableError(
            f"values of up to {float(np.abs(found).max()):.3g} at gamma = {model.gamma:g} are known"
            f" to {error:.2g} at best, not to {tolerance:.2g}: ask for a larger tolerance, or for"
            " tolerance=None (as near as rounding allows)"
        )
    return found


def evaluate_at_start(
    model: Model, pi: Array, start: Array, *, tolerance: float | None = 1e-10
) -> Array:
    """rho = sum_s start(s) v(s), [...]: the value of a policy where episodes start."""
    check_rows("start", start, ProblemError)
    v = evaluate(model, pi, tolerance=tolerance)
    return namespace(v).sum(v * start, axis=-1)


def values_within(
    model: Model, pi: Array, v: Array | None, tolerance: float | None
) -> tuple[Array, float]:
    """(v, a bound on its error): as `evaluate`, but the caller judges the error, and pi may be any
    weights.
    """
    model = _checked(model, pi)
    if isinstance(model, DenseModel):
        return _solve_dense(model, model.policy_system(pi), row_dot(pi, model.r)), 0.0
    product, r_pi = _policy_product(model, pi.reshape(model.r.shape))
    level = np.full(model.n_states, r_pi.mean() / (1 - model.gamma))
    x = level if v is None else np.array(v[0])
    found, error = _solve_by_sweeps(product, r_pi, model.gamma, x, tolerance, _largest)
    return found.reshape(pi.shape[:-1]), error


def visits(model: Model, pi: Array, start: Array) -> Array:
    """d = start + gamma P_pi' d, [..., S]: discounted visits of each state; to rounding."""
    model = _checked(model, pi)
    if isinstance(model, DenseModel):
        xp = namespace(pi)
        return _solve_dense(model, xp.matrix_transpose(model.policy_system(pi)), start)
    matrix, prior = _policy_matrix(model, pi.reshape(model.r.shape))
    turned = matrix.T.tocsr()

    def product(x: np.ndarray) -> np.ndarray:
        y: np.ndarray = turned @ x
        return y if prior is None else y + prior @ x

    b = np.asarray(start, dtype=float).reshape(-1)
    found, _ = _solve_by_sweeps(product, b, model.gamma, b.copy(), None, _sum)
    return found.reshape(pi.shape[:-1])


def _checked(model: Model, pi: Array) -> DenseModel | SparseModel:
    if tuple(pi.shape[-2:]) != (model.n_states, model.n_actions):
        raise ProblemError(
            f"pi must be [..., {model.n_states}, {model.n_actions}] as the model, got"
            f" {tuple(pi.shape)}"
        )
    if not isinstance(model, DenseModel | SparseModel):
        raise ProblemError(f"expected a DenseModel or a SparseModel, got {type(model).__name__}")
    if model.gamma >= 1 and isinstance(model, SparseModel):
        raise NotAvailableError(
            "a sparse model is evaluated for gamma < 1 only, for at gamma = 1 no residual bounds"
            " the error: use gamma < 1"
        )
    return model


def _solve_dense(model: Model, system: Array, b: Array) -> Array:
    """system x = b, [..., S]."""
    xp = namespace(system)
    endless = (
        "the policy never ends in this model and gamma = 1, so its value is not defined: use gamma"
        " < 1, or terminal states that every policy reaches"
    )
    try:
        found = xp.linalg.solve(system, b[..., None])[..., 0]
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise NotAvailableError(endless) from error
    if model.gamma == 1 and not bool(xp.all(xp.abs(found) <= ENDLESS * (1.0 + xp.max(xp.abs(b))))):
        raise NotAvailableError(endless)
    return found


def _solve_by_sweeps(
    product: Product,
    b: np.ndarray,
    gamma: float,
    x: np.ndarray,
    tolerance: float | None,
    size: Callable[[np.ndarray], float],
) -> tuple[np.ndarray, float]:
    """(x, error): x = b + gamma P x by sweeps from x, and by BiCGSTAB where they converge slowly.

    `size` is a norm that P does not enlarge: the largest entry for values, the sum for visits. So a
    sweep leaves at most gamma of the residual, and |x - solution| <= error = |residual| / (1 -
    gamma). It ends at the tolerance, or where rounding stops all progress.
    """
    enough = 0.0 if tolerance is None else tolerance * (1 - gamma)
    # (I - gamma P) 1: what a constant added to x does to the residual
    constant = 1 - gamma * product(np.ones(len(x)))
    norm = row_dot(constant, constant)  # not `@`: threads of a BLAS cost more than they save here
    residual = _residual(product, b, gamma, x)
    left = mark = size(residual)
    sweeps = 0
    while left > enough:
        x += residual
        residual = _residual(product, b, gamma, x)
        left = size(residual)
        # Most of the remaining error is a constant, which has a closed form.
        shift = row_dot(residual, constant) / norm
        shifted = residual - shift * constant
        if (shifted_left := size(shifted)) < left:
            x += shift
            residual, left = shifted, shifted_left
        sweeps += 1
        if sweeps % SWEEPS == 0:
            if left > SLOW**SWEEPS * mark and left > enough:
                x, residual = _krylov(product, b, x, residual, gamma, 0.5 * enough, size)
                left = size(residual)
            if left >= mark:  # all that is left is rounding
                break
            mark = left
    return x, left / (1 - gamma)


def _residual(product: Product, b: np.ndarray, gamma: float, x: np.ndarray) -> np.ndarray:
    """b + gamma P x - x, in place: passes over [S] cost as much as the product."""
    y = product(x)
    y *= gamma
    y += b
    y -= x
    return y


def _largest(x: np.ndarray) -> float:
    """max |x|."""
    return float(max(x.max(), -x.min()))


def _sum(x: np.ndarray) -> float:
    """sum |x|."""
    return float(np.abs(x).sum())


def _krylov(
    product: Product,
    b: np.ndarray,
    x: np.ndarray,
    residual: np.ndarray,
    gamma: float,
    enough: float,
    size: Callable[[np.ndarray], float],
) -> tuple[np.ndarray, np.ndarray]:
    """(x, residual) after BiCGSTAB; unchanged if it broke down, for sweeps converge anyway."""
    # not at the top: it would double the time of `import surefoot`
    from scipy.sparse.linalg import LinearOperator, bicgstab

    n = len(residual)
    operator = LinearOperator((n, n), matvec=lambda y: y - gamma * product(y), dtype=float)
    step, _ = bicgstab(operator, residual, rtol=1e-3, atol=enough, maxiter=200)
    better = _residual(product, b, gamma, x + step)
    return (x + step, better) if size(better) < size(residual) else (x, residual)


def _policy_product(model: SparseModel, pi: np.ndarray) -> tuple[Product, np.ndarray]:
    """(x -> P_pi x, r_pi), by the cheapest of three ways."""
    n_states, n_actions = model.n_states, model.n_actions
    by_state = model.row_weights(pi)[0]
    used = np.flatnonzero(pi if model.pull is None else by_state)
    if len(used) > 0.5 * n_states * n_actions:  # most pairs are used: no rows are taken out
        prior = model.prior * row_dot(pi, model.weight)[0] if model.prior else None

        def full(x: np.ndarray) -> np.ndarray:
            q = (model.transitions @ x).reshape(by_state.shape)
            y: np.ndarray = np.einsum("sa,sa->s", by_state, q)
            return y if prior is None else y + prior * x.sum()

        return full, row_dot(pi, model.r)[0]
    first = np.arange(n_states) * n_actions
    single = model.pull is None and len(used) == n_states
    if single and bool(((used >= first) & (used < first + n_actions)).all()):
        chosen = pi.reshape(-1)[used]
        share, rows = chosen * model.weight.reshape(-1)[used], model.transitions[used]
        one_prior = model.prior * share

        def one_action(x: np.ndarray) -> np.ndarray:
            y: np.ndarray = rows @ x
            y *= share
            return y if not model.prior else y + one_prior * x.sum()

        return one_action, chosen * model.r.reshape(-1)[used]
    matrix, prior = _policy_matrix(model, pi)
    r_pi = row_dot(pi, model.r)[0]
    if prior is None:
        return matrix.__matmul__, r_pi
    return (lambda x: matrix @ x + prior * x.sum()), r_pi


def _policy_matrix(
    model: SparseModel, pi: np.ndarray
) -> tuple[sparse.csr_array, np.ndarray | None]:
    """(M, c) with P_pi = M + c 1', from the rows of the pairs that pi uses; rows of one state are
    joined, not summed (CSR allows duplicates). c is None without a prior.
    """
    n_states, n_actions = model.n_states, model.n_actions
    weights = model.row_weights(pi)
    used = np.flatnonzero(weights)
    share, rows = weights.reshape(-1)[used], model.transitions[used]
    data = rows.data * np.repeat(share, np.diff(rows.indptr))
    start = rows.indptr[np.searchsorted(used, np.arange(n_states + 1) * n_actions)]
    matrix = sparse.csr_array((data, rows.indices, start), shape=(n_states, n_states))
    if not model.prior:
        return matrix, None
    return matrix, model.prior * row_dot(pi, model.weight)[0]


@dataclass(frozen=True)
class Bias:
    """Of a value at the start: to second order, and how far the terms beyond that may reach."""

    value: float
    left: float


def plug_in_bias(
    p: sparse.csr_array,
    gamma: float,
    *,
    spent: np.ndarray,
    square: np.ndarray,
    place: np.ndarray,
    state: np.ndarray,
    next_state: np.ndarray,
    k: np.ndarray,
    on: np.ndarray,
    y: np.ndarray,
) -> Bias:
    """E v_hat - v at the start, to second order:

        gamma sum_{s,a} d(s) pi(a|s)^2 / n(s,a)  Cov( G(s', s), r + gamma v(s') | s, a ),
        G = (I - gamma P_pi)^-1.

    A value is a convex function of the transition probabilities: where a visit of (s, a) that pays
    more than usual also comes back to s more often, chance counts twice. From the expansion
    v_hat - v = d e + gamma d Delta G e + ...,  e = (r_hat - r) + gamma Delta v,  in which rows of
    Delta that belong to different pairs are independent, with mean 0 and a multinomial covariance.
    `left`: the next terms are larger by some epsilon, epsilon = gamma^2 sum_a pi^2 / n Var( G(s',
    s) | s, a ): by 3 for a self-loop and a Gaussian Delta, by less since the bias that is counted
    is too large itself.

    Entries: k visits of a place (a pair, or a state where the log's own frequencies stand for the
    policy) went from `state` to `next_state`, were worth y each, and went on in `on` cases. Of
    every place: `spent` is d, `square` pi^2 or 1. p [S, S] is P_pi.
    """
    if not len(place):
        return Bias(0.0, 0.0)
    size = len(spent)
    g = gamma * on / k * _returns_to(p, gamma, state, next_state)
    n = np.bincount(place, k, size)
    from_mean = g - (np.bincount(place, k * g, size) / np.maximum(n, 1.0))[place]
    share = square / np.maximum(n * (n - 1), 1.0)
    bias, epsilon = (share * np.bincount(place, k * from_mean * x, size) for x in (y, from_mean))
    return Bias(float((spent * bias).sum()), LATER * float((spent * np.abs(bias) * epsilon).sum()))


def _returns_to(
    p: sparse.csr_array, gamma: float, state: np.ndarray, next_state: np.ndarray
) -> np.ndarray:
    """G(s', s) of every entry; for many states an estimate without bias: E (G z)(s') z(s), where z
    are random signs.
    """
    n_states = p.shape[0]
    if n_states <= DENSE_STATES:
        g = np.linalg.solve(np.eye(n_states) - gamma * p.toarray(), np.eye(n_states))
        return np.asarray(g[next_state, state])
    rng, one = np.random.default_rng(0), np.ones((n_states, 1))
    found = np.zeros(len(state))
    for _ in range(PROBES):
        z = rng.choice([-1.0, 1.0], n_states)
        found += (
            evaluate(known_model(p, z[:, None], gamma, ends=True), one, tolerance=None)[next_state]
            * z[state]
        )
    return found / PROBES
