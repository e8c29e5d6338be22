"""DUIPI as published: action values minus xi standard deviations, both iterated, the policy
moving by 1/m at step m.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from surefoot.algorithms.algorithm import PENALISES, Whole
from surefoot.core import Model, Operator, Solution, operator
from surefoot.parameters import check_choice, check_number
from surefoot.planning import evaluate, iterate
from surefoot.problems import Arrivals, Problem
from surefoot.rows import free_rows
from surefoot.rows.arrays import (
    Array,
    actions_first,
    count_up,
    device_of,
    first_max,
    namespace,
    restore,
    row_sum,
)

PATIENCE = (
    5  # steps for which a deterministic policy must stand before it is tried as the final one
)
AGAIN = 40  # steps after which one that was refused is tried again
TOGETHER = 4  # it is tried at steps divisible by this only, so that more are solved at once


@dataclass(frozen=True)
class DUIPI(Whole):
    """Diagonal approximation of uncertainty incorporating policy iteration (Hans & Udluft 2009,
    Jain et al. 2010); iterate jointly

        v = sum_a pi q,                       w = sum_a pi^2 u,                  (u, w: variances of
                                              q and v)
        q = sum_s' P (R + gamma v'),          u = sum_s' gamma^2 P^2 w' + (R + gamma v')^2 Var(P) +
                                              P^2 Var(R),
        pi <- pi + step towards  argmax_a q - xi sqrt(u)   over seen actions;  at step m at most 1/m
                                 of mass moves.

    prior "bayesian": Dirichlet counts n + alpha on every state, P their mean and Var(P) their
    variance; "frequentist": P = n_sas / n, Var(P) = P (1 - P) / (n - 1), and 1/4 for every
    successor where n <= 1. As published, this is not invariant to a constant added to all rewards
    (the row's negative covariances are dropped), the Bayesian prior gives terminal states
    successors, and it need not converge; `duipi-centred` mends all three. As soon as the policy is
    deterministic and stands still, both fixed points are solved exactly; if the argmax agrees, the
    iteration has ended early at the point it was approaching.
    """

    name: ClassVar[str] = "duipi"
    taxonomy: ClassVar[str] = PENALISES
    xi: float
    prior: str = "bayesian"
    alpha: float = 0.1
    max_steps: int = 5000

    def __post_init__(self) -> None:
        check_number(self, "xi", low=0, finite=True)
        check_choice(self, "prior", ("bayesian", "frequentist"))
        check_number(self, "alpha", low=0, open_low=True, finite=True)
        check_number(self, "max_steps", low=1, whole=True, finite=True)

    def solve(self, problem: Problem) -> Solution:
        """Iterate from the uniform policy (ties="baseline": from the baseline, so that equal
        values keep it).
        """
        xp = namespace(problem.pi_b)
        pi = problem.start_policy
        if problem.ties == "lowest-index":
            open_rows = xp.astype(problem.allowed, pi.dtype)
            uniform = open_rows / xp.sum(open_rows, axis=-1)[..., None]
            pi = xp.where(xp.any(problem.may_rise, axis=-1)[..., None], uniform, pi)
        body = _Iteration(
            *_moments(problem, self.alpha if self.prior == "bayesian" else 0.0),
            count_up(pi.shape[0], pi),
            self.xi,
            problem.may_rise,
            xp.any(problem.may_rise, axis=-1)[..., None] | problem.may_rise,
            xp.eye(pi.shape[-1], dtype=pi.dtype, device=device_of(pi)),
            1e300 * xp.astype(~problem.may_rise, pi.dtype),
            problem.start_policy,
            problem.tolerance,
            problem.ties == "lowest-index",
        )
        nothing = xp.zeros_like(pi)
        standing = xp.zeros_like(pi[:, 0, 0])
        (pi, q, _, _), status = iterate(body, (pi, nothing, nothing, standing), int(self.max_steps))
        return Solution(pi, q, status)


@dataclass(frozen=True)
class _Moments:
    """Mean and variance of q from those of v, over sparse successors plus what all states get alike
    (prior, or 1/4).

    sum_s' f(s') P(s') = sum over seen successors of f (P - P_0) + P_0 sum over all s' of f, and so
    for every coefficient. The part of u that v decides is sum_s' (R + gamma v')^2 Var(P) + P^2
    Var(R): where R is a table of arrivals R(s'), summed over z = R + gamma v; else as a quadratic,
    constant + sum linear v' + gamma^2 Var(P) v'^2 + 2 gamma Var(P_0) (R . v).
    """

    sums_of_q: Operator  # gamma P v
    sums_of_u: Operator  # Var(P) z^2 + gamma^2 P^2 w, or the quadratic
    r: Array
    arrivals: Arrivals
    gamma: float
    constant: Array
    var_all: Array  # Var(P_0)
    by_arrival: bool  # R(s'), declared: no quadratic is needed

    def of_q(self, v: Array) -> Array:
        """q from v."""
        return self.r + self.sums_of_q(v)

    def of_u(self, v: Array, w: Array) -> Array:
        """u from v and w."""
        if self.by_arrival:
            return self.sums_of_u((self.arrivals.table[:, 0, 0, :] + self.gamma * v) ** 2, w)
        return (
            self.constant
            + 2 * self.gamma * self.var_all * self.arrivals.dot(v)
            + self.sums_of_u(v**2, w, v)
        )

    def take(self, index: Array) -> _Moments:
        xp = namespace(self.r)
        parts = {
            name: xp.take(getattr(self, name), index, axis=0)
            for name in ("r", "constant", "var_all")
        }
        return replace(
            self,
            **parts,
            **{
                name: getattr(self, name).take(index)
                for name in ("sums_of_q", "sums_of_u", "arrivals")
            },
        )


def _flat(x: Array) -> Array:
    """[B, S, A] -> [B, S * A]."""
    return namespace(x).reshape(x, (x.shape[0], -1))


def _moments(problem: Problem, alpha: float) -> tuple[_Moments, Model]:
    """The published update, and the model whose values its means are; alpha = 0 is the
    frequentist one.
    """
    xp = namespace(problem.pi_b)
    support, arrivals, gamma = problem.support, problem.arrivals, problem.gamma
    n = problem.n_sa
    total = n + alpha * problem.n_states
    weight = xp.where(total > 0, 1.0 / xp.where(total > 0, total, 1.0), 0.0)
    p, p_all = (support.n + alpha) * support.spread(weight), alpha * weight
    if alpha > 0:
        scale = 1.0 / (total + 1.0)
        var_all = p_all * (1 - p_all) * scale
        var = p * (1 - p) * support.spread(scale)
    else:
        enough = n > 1
        scale = xp.where(enough, 1.0 / xp.where(enough, n - 1, 1.0), 0.0)
        var_all = xp.where(enough, 0.0, xp.full_like(n, 0.25))
        var = p * (1 - p) * support.spread(scale) + support.spread(var_all)
    everyone, var = support.spread(p_all), var - support.spread(var_all)
    r = support.dot(p - everyone, support.reward) + p_all * arrivals.total
    constant = support.dot(var, support.reward**2) + var_all * arrivals.squares
    linear = 2 * gamma * var * support.reward
    if (
        problem.reward_table is None
    ):  # a triple has its own mean reward, and rewards may scatter within it
        own = xp.where(support.n > 0, support.reward - arrivals.at(support), 0.0)
        r = r + p_all * support.total(own)
        constant = constant + var_all * support.dot(own, 2 * support.reward - own)
        if problem.counts.r_rest is not None:
            constant = constant + problem.counts.r_rest * weight**2
        linear = linear + 2 * gamma * support.spread(var_all) * own
    by_arrival = (
        problem.reward_table is not None and arrivals.table.shape[1] == arrivals.table.shape[2] == 1
    )
    scale_of_v = 1.0 if by_arrival else gamma**2
    of_u = [
        (scale_of_v * var, scale_of_v * var_all),
        (gamma**2 * (p**2 - everyone**2), gamma**2 * p_all**2),
    ]
    if not by_arrival:
        of_u.append((linear, xp.zeros_like(p_all)))
    of_q = operator(support, (gamma * (p - everyone), gamma * p_all))
    moments = _Moments(
        of_q, operator(support, *of_u), r, arrivals, gamma, constant, var_all, by_arrival
    )
    return moments, problem.model_of(r, weight, alpha)


@dataclass(frozen=True)
class _Iteration:
    """One joint step; state (pi, q, u, number of steps for which pi stood still)."""

    moments: _Moments
    model: Model  # of all problems of the batch,
    place: Array  # and where in it these are
    xi: float
    may_rise: Array
    opens: Array  # all pairs of a state with an action that may rise
    one_action: Array  # [A, A]: the rows with all mass on one action
    closed: Array  # beyond all values where an action may not rise, else 0
    start: Array  # the rows that equal values go back to
    tolerance: float
    lowest_index: bool

    def advance(self, state: tuple[Array, ...], step: int) -> tuple[tuple[Array, ...], Array]:
        pi, q, u, standing = state
        xp = namespace(pi)
        v, w = row_sum(pi * q), row_sum(pi**2 * u)
        old = q
        q = self.moments.of_q(v)
        u = self.moments.of_u(v, w)
        target = self.target(pi, q, u)
        move = target - pi
        still = xp.all(_flat(move == 0), axis=-1)
        new = pi
        if not bool(xp.all(still)):
            moved = 0.5 * row_sum(xp.abs(move))[..., None]  # at most 1/m of a row
            share = xp.minimum(
                1.0 / xp.maximum(step * moved, xp.full_like(moved, 1e-300)), xp.ones_like(moved)
            )
            new = xp.where(share < 1, pi + share * move, target)
        standing = xp.where(still, standing + 1, 0.0)
        done = still
        if bool(xp.any(still)):
            done = still & (xp.max(_flat(xp.abs(q - old)), axis=-1) <= self.tolerance)
        # A deterministic policy that stands still is tried as the final one: solve both fixed
        # points exactly.
        ripe = ~done & (standing >= PATIENCE) & ((standing - PATIENCE) % AGAIN < TOGETHER)
        if step % TOGETHER == 0 and bool(xp.any(ripe)):
            ripe = ripe & xp.all(row_sum(new**2) == 1.0, axis=-1)
        if step % TOGETHER == 0 and bool(xp.any(ripe)):
            at = xp.nonzero(ripe)[0]
            rest = xp.nonzero(~ripe)[0]
            part = self.take(at)
            trial = xp.take(new, at, axis=0)
            q_exact, u_exact = part.settle(trial)
            agrees = xp.all(_flat(part.target(trial, q_exact, u_exact) == trial), axis=-1)
            fixed = agrees[:, None, None]
            q_part = xp.where(fixed, q_exact, xp.take(q, at, axis=0))
            q = restore([at, rest], [q_part, xp.take(q, rest, axis=0)])
            done = done | restore([at, rest], [agrees, xp.take(done, rest)])
        return (new, q, u, standing), done

    def target(self, pi: Array, q: Array, u: Array) -> Array:
        """All mass on the best q - xi sqrt(u) among the actions that may rise; a state without
        one keeps its row.
        """
        xp = namespace(pi)
        score = q - self.xi * xp.sqrt(xp.maximum(u, xp.zeros_like(u))) - self.closed
        if self.lowest_index:
            best = first_max(actions_first(score), self.tolerance)
            choice = xp.reshape(xp.take(self.one_action, best, axis=0), pi.shape)
            return xp.where(self.opens, choice, pi)
        rows = free_rows(score, self.start, self.may_rise, tolerance=self.tolerance)
        # A sum of probabilities may miss 1 by rounding; a row with one action must not, or it would
        # never count as settled.
        whole = xp.astype(rows > 1 - 1e-12, rows.dtype)
        return xp.where(row_sum(whole)[..., None] > 0, whole, rows)

    def settle(self, pi: Array) -> tuple[Array, Array]:
        """q and u of a policy that no longer changes: two linear systems."""
        xp = namespace(pi)
        mean = self.model.take(self.place)
        v = evaluate(mean, pi, tolerance=None)
        squares = mean.squared(self.moments.of_u(v, xp.zeros_like(v)), mean.r == mean.r)
        w = evaluate(squares, pi**2, tolerance=None)
        return self.moments.of_q(v), self.moments.of_u(v, xp.reshape(w, v.shape))

    def take(self, index: Array) -> _Iteration:
        xp = namespace(self.may_rise)
        parts = {
            name: xp.take(getattr(self, name), index, axis=0)
            for name in ("place", "may_rise", "opens", "closed", "start")
        }
        return replace(self, moments=self.moments.take(index), **parts)
