"""Models: finite MDPs, dense (batched, any array namespace) or sparse (one large one)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from surefoot.core.array_checks import check_rows, not_negative
from surefoot.core.arrays import Array, count_up, device_of, like, namespace, row_sum, take_fields
from surefoot.core.errors import ProblemError


@dataclass(frozen=True, repr=False)
class Model:
    """A finite MDP: q = r + gamma P v, with P(.|s, a) = weight(s, a) (transitions(s, a, .) +
    prior + pull(s) sum_a' transitions(s, a', .)).

    An estimated model keeps its counts and the weight 1 / n(s, a): the quotient is never formed,
    which halves its memory. A row of weight 0 leads nowhere: a terminal state (r = 0), or a pair
    never seen (r = the value it is given). `prior` is the Dirichlet pseudo-count that every
    successor of a pair with positive weight gets; 0 for all but the Bayesian estimates. `pull`
    [..., S, 1] draws the actions of a state together (`shrunk`); None for all others.
    """

    transitions: Any
    weight: Array
    r: Array
    gamma: float
    prior: float = 0.0
    pull: Array | None = None

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_states} states x {self.n_actions} actions, gamma"
            f" {self.gamma:g})"
        )

    @property
    def n_states(self) -> int:
        """The number of states S."""
        return int(self.r.shape[-2])

    @property
    def n_actions(self) -> int:
        """The number of actions A."""
        return int(self.r.shape[-1])

    def expect(self, v: Array) -> Array:
        """P v: the mean of v [..., S] over the successors of every pair, [..., S, A]."""
        raise NotImplementedError

    def backup(self, v: Array) -> Array:
        """q = r + gamma P v, [..., S, A]."""
        return self.r + self.gamma * self.expect(v)

    def row_weights(self, pi: Array) -> Array:
        """u [..., S, A]: P_pi(.|s) = sum_a u transitions(s, a, .) + prior sum_a pi weight; pi: any
        weights.
        """
        u = pi * self.weight
        return u if self.pull is None else u + self.pull * row_sum(u)[..., None]

    def take(self, index: Array) -> Model:
        """The models of these problems of the batch."""
        raise NotImplementedError

    def squared(self, r: Array, keep: Array) -> Model:
        """The model that backs up variances: P and gamma squared, rewards r, pairs in `keep`; of
        a model without `pull`.
        """
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class DenseModel(Model):
    """transitions [..., S, A, S], weight and r [..., S, A]."""

    def expect(self, v: Array) -> Array:
        """P v by one batched matrix product."""
        xp = namespace(self.r)
        s, a = self.n_states, self.n_actions
        shape = self.r.shape
        flat = xp.reshape(self.transitions, (*shape[:-2], s * a, s))
        total = xp.reshape(xp.matmul(flat, v[..., None]), shape)
        if self.pull is not None:
            total = total + self.pull * row_sum(total)[..., None]
        if self.prior:
            total = total + self.prior * xp.sum(v, axis=-1)[..., None, None]
        return self.weight * total

    def policy_system(self, pi: Array) -> Array:
        """I - gamma P_pi, [..., S, S],  P_pi(s'|s) = sum_a pi(a|s) P(s'|s, a);  pi: any weights."""
        xp = namespace(self.r)
        share = self.row_weights(-self.gamma * pi)
        # Deterministic: one row a state, no sums.
        one = self.pull is None and bool(xp.all((pi == 0) | (pi == 1)))
        if one and bool(xp.all(row_sum(pi) == 1.0)):
            rows = count_up(math.prod(pi.shape[:-1]), pi) * self.n_actions
            choice = rows + xp.reshape(xp.argmax(pi, axis=-1), (-1,))
            system = xp.take(xp.reshape(self.transitions, (-1, self.n_states)), choice, axis=0)
            system *= xp.take(xp.reshape(share, (-1,)), choice)[:, None]
            system = xp.reshape(system, (*pi.shape[:-1], self.n_states))
        else:
            system = xp.matmul(share[..., None, :], self.transitions)[..., 0, :]
        if self.prior:
            system += self.prior * row_sum(-self.gamma * pi * self.weight)[..., None]
        system += xp.eye(self.n_states, dtype=pi.dtype, device=device_of(pi))
        return system

    def take(self, index: Array) -> DenseModel:
        """The models of these problems of the batch."""
        return take_fields(self, index, "transitions", "weight", "r", "pull")

    def squared(self, r: Array, keep: Array) -> DenseModel:
        """See Model: (n + prior)^2 = n^2 + 2 prior n + prior^2."""
        xp = namespace(self.r)
        n = self.transitions
        weight = xp.where(keep, self.weight**2, 0.0)
        return DenseModel(n * (n + 2 * self.prior), weight, r, self.gamma**2, self.prior**2)

    @cached_property
    def p(self) -> Array:
        """P [..., S, A, S], formed."""
        total = self.transitions + self.prior
        if self.pull is not None:
            usual = namespace(self.r).sum(self.transitions, axis=-2)
            total = total + (self.pull * usual)[..., None, :]
        return self.weight[..., None] * total


@dataclass(frozen=True, repr=False)
class SparseModel(Model):
    """One problem, NumPy: transitions CSR [S * A, S], pair (s, a) in row s * A + a."""

    def expect(self, v: Array) -> Array:
        """P v by one sparse product."""
        return self._counted(v) * self.weight

    def backup(self, v: Array) -> Array:
        """q = r + gamma P v, in place: passes over [S, A] cost as much as the product."""
        total = self._counted(v)
        total *= self._discounted
        total += self.r
        return total

    @cached_property
    def _discounted(self) -> Array:
        return self.gamma * self.weight

    def _counted(self, v: Array) -> Array:
        total = (self.transitions @ v[0]).reshape(self.r.shape)
        if self.pull is not None:
            total += self.pull * row_sum(total)[..., None]
        if self.prior:
            total += self.prior * v.sum()
        return total

    def take(self, index: Array) -> SparseModel:
        """There is one problem only."""
        return self

    def squared(self, r: Array, keep: Array) -> SparseModel:
        """See Model: (n + prior)^2 = n^2 + 2 prior n + prior^2."""
        n = self.transitions
        squares = sparse.csr_array(
            (n.data * (n.data + 2 * self.prior), n.indices, n.indptr), shape=n.shape
        )
        return SparseModel(
            squares, np.where(keep, self.weight**2, 0.0), r, self.gamma**2, self.prior**2
        )


def known_model(
    p: Array, r: Array, gamma: float, terminal_states: ArrayLike = (), *, ends: bool = False
) -> Model:
    """A known MDP: p [..., S, A, S] or sparse [S * A, S]; r [..., S, A], [..., S, S'] or [..., S,
    A, S'] (dense p only).

    Terminal states get the value 0 whatever p says of them. Other rows of p sum to 1, or are zeros
    alone; with `ends` they may sum to less, and what is missing ends the episode. [S, S'] is told
    from [S, A] by its last axis; where S = A, give [S, A, S'].
    """
    if not 0 <= gamma <= 1:
        raise ProblemError(f"gamma must lie in [0, 1], got {gamma!r}")
    terminal = [int(s) for s in np.atleast_1d(np.asarray(terminal_states, dtype=int))]
    if sparse.issparse(p):
        r = np.asarray(r, dtype=float)
        if not np.isfinite(r).all():
            raise ProblemError("r must be finite")
        n_states, n_actions = r.shape[-2:]
        if p.shape != (n_states * n_actions, n_states):
            raise ProblemError(
                f"sparse p must be [S * A, S] = [{n_states * n_actions}, {n_states}], got {p.shape}"
            )
        not_negative("p", np.asarray(p.data), ProblemError)
        total = np.asarray(p.sum(axis=1), dtype=float).reshape(n_states, n_actions, 1)
        check_rows("p", np.delete(total, terminal, axis=0), ProblemError, ends=ends)
        weight, r = np.ones((1, n_states, n_actions)), r.reshape(1, n_states, n_actions).copy()
        weight[:, terminal], r[:, terminal] = 0.0, 0.0
        return SparseModel(sparse.csr_array(p), weight, r, float(gamma))
    xp = namespace(p)
    p = xp.astype(p, xp.float64)
    r = like(p, r)
    if not bool(xp.all(xp.abs(r) < xp.inf)):
        raise ProblemError("r must be finite")
    *_, n_states, n_actions, last = p.shape
    if last != n_states:
        raise ProblemError(f"p must be [..., S, A, S], got shape {tuple(p.shape)}")
    if tuple(r.shape[-2:]) == (n_states, n_actions) and r.ndim < p.ndim:
        table = r
    elif tuple(r.shape[-2:]) == (n_states, n_states) and r.ndim < p.ndim:
        table = xp.sum(p * r[..., :, None, :], axis=-1)
    elif tuple(r.shape[-3:]) == (n_states, n_actions, n_states):
        table = xp.sum(p * r, axis=-1)
    else:
        raise ProblemError(
            f"r must be [..., S, A], [..., S, S'] or [..., S, A, S'] for p {tuple(p.shape)}, got"
            f" {tuple(r.shape)}"
        )
    live = np.ones((n_states, 1))
    live[terminal] = 0.0
    live = like(p, live)
    check_rows("p", xp.where(live[..., None] > 0, p, 0.0 * p), ProblemError, ends=ends)
    weight = live * xp.ones_like(p[..., 0])
    return DenseModel(p, weight, table * weight, float(gamma))
