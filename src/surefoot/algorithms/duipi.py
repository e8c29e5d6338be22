"""DUIPI, for many problems at once: as published, and centred, which is the same idea with the
right variance, terminal states that stay terminal, and exact evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from surefoot.algorithms.algorithm import PENALISES, Algorithm, Estimates, Whole
from surefoot.core import Model, Operator, Solution, Support, operator
from surefoot.core.arrays import (
    Array,
    actions_first,
    count_up,
    device_of,
    first_max,
    namespace,
    restore,
    row_sum,
    take_fields,
)
from surefoot.core.parameters import check_choice, check_number
from surefoot.planning import evaluate, free_rows, iterate, values_within
from surefoot.problems import Arrivals, Problem

PATIENCE = 5  # steps for which a deterministic policy stands before it is tried as the final one
AGAIN = 40  # steps after which one that was refused is tried again
TOGETHER = 4  # it is tried at steps divisible by this only, so that more are solved at once


@dataclass(frozen=True)
class PropagatesUncertainty(Algorithm):
    """Abstract: the parameters that both versions share."""

    xi: float
    prior: str = "bayesian"
    alpha: float = 0.1
    max_steps: int = 5000

    def __post_init__(self) -> None:
        check_number(self, "xi", low=0, finite=True)
        check_choice(self, "prior", ("bayesian", "frequentist"))
        check_number(self, "alpha", low=0, open_low=True, finite=True)
        check_number(self, "max_steps", low=1, whole=True, finite=True)

    @property
    def prior_count(self) -> float:
        """alpha of the formulas; 0 is the frequentist form."""
        return self.alpha if self.prior == "bayesian" else 0.0


@dataclass(frozen=True)
class DUIPI(PropagatesUncertainty, Whole):
    """Diagonal approximation of uncertainty incorporating policy iteration: iterate jointly

        v = sum_a pi q,                 w = sum_a pi^2 u,            (u, w: variances of q and v)
        q = sum_s' P (R + gamma v'),    u = sum_s' gamma^2 P^2 w' + (R + gamma v')^2 Var(P)
                                            + P^2 Var(R),
        pi <- pi + step towards  argmax_a q - xi sqrt(u)  over seen actions;  at step m at most 1/m
                                 of mass moves.

    Hans & Udluft 2009, 2010. prior "bayesian": Dirichlet counts n + alpha on every
    state, P their mean and Var(P) their variance; "frequentist": P = n_sas / n, Var(P) =
    P (1 - P) / (n - 1), and 1/4 for every successor where n <= 1. As published, this is not
    invariant to a constant added to all rewards (the row's negative covariances are dropped), the
    Bayesian prior gives terminal states successors, and it need not converge; `duipi-centred` mends
    all three. As soon as the policy is deterministic and stands still, both fixed points are solved
    exactly; if the argmax agrees, the iteration has ended early at the point it was approaching.
    """

    name: ClassVar[str] = "duipi"
    taxonomy: ClassVar[str] = PENALISES

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
        moments, model = moments_of(problem, self.prior_count)
        body = _Iteration(
            moments=moments,
            model=model,
            place=count_up(pi.shape[0], pi),
            xi=self.xi,
            may_rise=problem.may_rise,
            opens=xp.any(problem.may_rise, axis=-1)[..., None] | problem.may_rise,
            one_action=xp.eye(pi.shape[-1], dtype=pi.dtype, device=device_of(pi)),
            closed=1e300 * xp.astype(~problem.may_rise, pi.dtype),
            start=problem.start_policy,
            tolerance=problem.tolerance,
            lowest_index=problem.ties == "lowest-index",
        )
        nothing = xp.zeros_like(pi)
        standing = xp.zeros_like(pi[:, 0, 0])
        (pi, q, _, _), status = iterate(body, (pi, nothing, nothing, standing), int(self.max_steps))
        return Solution(pi, q, status)


@dataclass(frozen=True)
class _Rows:
    """P and Var(P): at the successors seen, and (`_all`) what every other state has alike.

    A sum over all s' of  f(s') P(s')  is then a sum over those seen of  f (P - P_all),  plus
    P_all times the sum of f: `seen` and `var_seen` are the differences.
    """

    weight: Array  # 1 / (n + alpha S)
    p: Array
    p_all: Array  # alpha weight
    everyone: Array  # the same at the successors seen
    var_seen: Array
    var_all: Array

    @property
    def seen(self) -> Array:
        """P - P_all."""
        return self.p - self.everyone


def _rows(problem: Problem, alpha: float) -> _Rows:
    """The moments of every row; alpha = 0 is the frequentist form."""
    xp = namespace(problem.pi_b)
    spread, n = problem.support.spread, problem.n_sa
    total = n + alpha * problem.n_states
    weight = xp.where(total > 0, 1.0 / xp.where(total > 0, total, 1.0), 0.0)
    p, p_all = (problem.support.n + alpha) * spread(weight), alpha * weight
    if alpha > 0:
        scale = 1.0 / (total + 1.0)
        var_all = p_all * (1 - p_all) * scale
        var = p * (1 - p) * spread(scale)
    else:
        enough = n > 1
        scale = xp.where(enough, 1.0 / xp.where(enough, n - 1, 1.0), 0.0)
        var_all = xp.where(enough, 0.0, xp.full_like(n, 0.25))
        var = p * (1 - p) * spread(scale) + spread(var_all)
    return _Rows(weight, p, p_all, spread(p_all), var - spread(var_all), var_all)


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Mean and variance of q from those of v.

    The part of u that v decides is  sum_s' z^2 Var(P) + P^2 Var(R),  z = R + gamma v'. Where R is a
    table of arrivals R(s') it is summed over z; else as a quadratic in v,  constant + sum_s'
    (linear v' + gamma^2 Var(P) v'^2) + 2 gamma Var(P_all) (R . v).
    """

    sums_of_q: Operator  # gamma P v
    sums_of_u: Operator  # Var(P) z^2 + gamma^2 P^2 w, or the quadratic
    r: Array
    arrivals: Arrivals
    gamma: float
    constant: Array
    var_all: Array
    by_arrival: bool  # R(s'), declared: no quadratic is needed

    def of_q(self, v: Array) -> Array:
        """q from v."""
        return self.r + self.sums_of_q(v)

    def of_u(self, v: Array, w: Array) -> Array:
        """u from v and w."""
        if self.by_arrival:
            return self.sums_of_u((self.arrivals.table[:, 0, 0, :] + self.gamma * v) ** 2, w)
        crossed = 2 * self.gamma * self.var_all * self.arrivals.dot(v)
        return self.constant + crossed + self.sums_of_u(v**2, w, v)

    def take(self, index: Array) -> Moments:
        """The same for these problems of the batch."""
        part = take_fields(self, index, "r", "constant", "var_all")
        q, u = self.sums_of_q.take(index), self.sums_of_u.take(index)
        return replace(part, sums_of_q=q, sums_of_u=u, arrivals=self.arrivals.take(index))


def moments_of(problem: Problem, alpha: float) -> tuple[Moments, Model]:
    """The backup of a problem, and the model whose values its means are."""
    xp = namespace(problem.pi_b)
    support, arrivals, gamma = problem.support, problem.arrivals, problem.gamma
    x = _rows(problem, alpha)
    r = support.dot(x.seen, support.reward) + x.p_all * arrivals.total
    constant = support.dot(x.var_seen, support.reward**2) + x.var_all * arrivals.squares
    linear = 2 * gamma * x.var_seen * support.reward
    if problem.reward_table is None:
        # A triple seen has its own mean reward, not that of arriving at s', and scatters around it.
        own = xp.where(support.n > 0, support.reward - arrivals.at(support), 0.0)
        r = r + x.p_all * support.total(own)
        constant = constant + x.var_all * support.dot(own, 2 * support.reward - own)
        if problem.counts.r_rest is not None:
            constant = constant + problem.counts.r_rest * x.weight**2
        linear = linear + 2 * gamma * support.spread(x.var_all) * own
    by_arrival = problem.reward_table is not None and arrivals.table.shape[1:3] == (1, 1)
    scale = 1.0 if by_arrival else gamma**2
    of_u = [
        (scale * x.var_seen, scale * x.var_all),
        (gamma**2 * (x.p**2 - x.everyone**2), gamma**2 * x.p_all**2),
    ]
    if not by_arrival:
        of_u.append((linear, xp.zeros_like(x.p_all)))
    moments = Moments(
        sums_of_q=operator(support, (gamma * x.seen, gamma * x.p_all)),
        sums_of_u=operator(support, *of_u),
        r=r,
        arrivals=arrivals,
        gamma=gamma,
        constant=constant,
        var_all=x.var_all,
        by_arrival=by_arrival,
    )
    return moments, problem.model_of(r, x.weight, alpha)


@dataclass(frozen=True, kw_only=True)
class _Iteration:
    """One joint step; state (pi, q, u, number of steps for which pi stood still)."""

    moments: Moments
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
        pi, old, u, standing = state
        xp = namespace(pi)
        v, w = row_sum(pi * old), row_sum(pi**2 * u)  # 1. values of states
        q, u = self.moments.of_q(v), self.moments.of_u(v, w)  # 2. values of pairs
        target = self.target(pi, q, u)  # 3. the best action by q - xi sqrt(u)
        still = xp.all(_flat(target == pi), axis=-1)
        if not bool(xp.all(still)):
            pi = _moved(pi, target, step)  # 4. at most 1/m of a row
        standing = xp.where(still, standing + 1, 0.0)
        done = still
        if bool(xp.any(still)):
            done = still & (xp.max(_flat(xp.abs(q - old)), axis=-1) <= self.tolerance)
        if step % TOGETHER == 0:
            q, done = self._end_early(pi, q, standing, done)
        return (pi, q, u, standing), done

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

    def _end_early(self, pi: Array, q: Array, standing: Array, done: Array) -> tuple[Array, Array]:
        """A deterministic policy that stands still is tried as the final one: it is, if the argmax
        at its exact values agrees.
        """
        xp = namespace(pi)
        ripe = ~done & (standing >= PATIENCE) & ((standing - PATIENCE) % AGAIN < TOGETHER)
        if bool(xp.any(ripe)):
            ripe = ripe & xp.all(row_sum(pi**2) == 1.0, axis=-1)
        if not bool(xp.any(ripe)):
            return q, done
        at, rest = xp.nonzero(ripe)[0], xp.nonzero(~ripe)[0]
        part, trial = self.take(at), xp.take(pi, at, axis=0)
        exact, u = part.settle(trial)
        agrees = xp.all(_flat(part.target(trial, exact, u) == trial), axis=-1)
        exact = xp.where(agrees[:, None, None], exact, xp.take(q, at, axis=0))
        q = restore([at, rest], [exact, xp.take(q, rest, axis=0)])
        return q, done | restore([at, rest], [agrees, xp.take(done, rest)])

    def settle(self, pi: Array) -> tuple[Array, Array]:
        """q and u of a policy that no longer changes: two linear systems."""
        xp = namespace(pi)
        mean = self.model.take(self.place)
        v = evaluate(mean, pi, tolerance=None)
        squares = mean.squared(self.moments.of_u(v, xp.zeros_like(v)), mean.r == mean.r)
        w = values_within(squares, pi**2, None, None)[0]
        return self.moments.of_q(v), self.moments.of_u(v, xp.reshape(w, v.shape))

    def take(self, index: Array) -> _Iteration:
        """The same for these problems of the batch."""
        part = take_fields(self, index, "place", "may_rise", "opens", "closed", "start")
        return replace(part, moments=self.moments.take(index))


def _moved(pi: Array, target: Array, step: int) -> Array:
    """The policy after at most 1/step of the mass of every row has moved towards its target."""
    xp = namespace(pi)
    move = target - pi
    mass = 0.5 * row_sum(xp.abs(move))[..., None]
    share = 1.0 / xp.maximum(step * mass, xp.full_like(mass, 1e-300))
    share = xp.minimum(share, xp.ones_like(mass))
    return xp.where(share < 1, pi + share * move, target)


def _flat(x: Array) -> Array:
    """[B, S, A] -> [B, S * A]."""
    return namespace(x).reshape(x, (x.shape[0], -1))


@dataclass(frozen=True)
class CentredDUIPI(PropagatesUncertainty, Estimates):
    """argmax_pi  of  q - xi sqrt(u),   with

        q = r + gamma P v,   u = gamma^2 sum_s' P^2 w' + Var_P(R + gamma v') / m,
        v = sum_a pi q,      w = sum_a pi^2 u,

    and m = n - 1 (frequentist) or n + alpha S + 1 (Bayesian: Dirichlet counts n + alpha).

    Var_P(R + gamma v') / m is the variance of the mean target under the full covariance of a
    multinomial (Dirichlet) row, where the published DUIPI drops the negative covariances: a
    constant added to all rewards changes nothing here. Terminal states stay terminal; a pair never
    seen is worth lo; with n <= 1 the variance is the largest the return range allows, (hi - lo)^2 /
    4. Rewards that scatter within a triple add their scatter to the target's variance. Every policy
    is evaluated exactly; should policies cycle, their moves are damped as in the published version,
    and the status says if that did not settle.
    """

    name: ClassVar[str] = "duipi-centred"

    def estimate(self, problem: Problem) -> _CentredEstimate:
        """The penalised values of this problem; alpha = 0 is the frequentist form."""
        xp, alpha = namespace(problem.pi_b), self.prior_count
        support, arrivals, n = problem.support, problem.arrivals, problem.n_sa
        total = n + alpha * problem.n_states
        weight = xp.where(problem.seen, 1.0 / xp.where(problem.seen, total, 1.0), 0.0)
        own = xp.where(support.n > 0, support.reward - arrivals.at(support), 0.0)
        r = problem.r
        if alpha > 0:
            rewards = support.total(support.n * support.reward + alpha * own)
            r = xp.where(problem.seen, weight * (rewards + alpha * arrivals.total), r)
        many, rest = n > 1, problem.counts.r_rest
        scatters = rest is not None and problem.reward_table is None
        m = xp.where(many, total + 1 if alpha > 0 else n - 1, 1.0)
        return _CentredEstimate(
            mean=problem.model_of(r, weight, alpha),
            support=support,
            arrivals=arrivals,
            own=own,
            scatter=rest * weight if scatters else xp.zeros_like(n),
            scale=xp.where(many, 1.0 / m, 0.0),
            pinned=problem.seen & ~many,
            widest=problem.return_range.g_max**2,
            middle=0.5 * sum(problem.reward_range),
            xi=self.xi,
            tolerance=problem.tolerance,
            max_steps=int(self.max_steps),
        )


@dataclass(frozen=True, kw_only=True)
class _CentredEstimate:
    """q - xi sqrt(u) of a policy."""

    exact: ClassVar[bool] = True  # to rounding, or (sparse models) to the final accuracy
    damped: ClassVar[bool] = True
    mean: Model
    support: Support
    arrivals: Arrivals
    own: Array  # reward of the triple minus reward of arriving at s', at the seen successors
    scatter: Array  # variance of rewards within a triple
    scale: Array  # 1 / m
    pinned: Array  # n <= 1: the largest variance the return range allows
    widest: float
    middle: float  # of the reward range
    xi: float
    tolerance: float
    max_steps: int

    def evaluate(self, pi: Array, v: Array | None, accuracy: float) -> tuple[Array, float]:
        """Two linear systems: q, then u with the variance of its targets."""
        xp = namespace(pi)
        v, error = values_within(self.mean, pi, None, accuracy)
        q = self.mean.backup(v)
        squares = self.mean.squared(xp.where(self.pinned, self.widest, self.local(v)), ~self.pinned)
        w = values_within(squares, pi**2, None, None)[0]
        u = squares.backup(w)
        return q - self.xi * xp.sqrt(xp.where(u > 0, u, 0.0)), error

    def local(self, v: Array) -> Array:
        """Var_P(z) / m + the scatter of rewards,  z = R + gamma v'.

        P is n / total at the successors seen and, with a prior, alpha / total more at every state.
        The sum over every state takes z with the reward of arriving there, and is put right for
        the triples seen, whose reward is `own` higher. All is centred, so that nothing cancels.
        """
        xp = namespace(v)
        support, arrivals, middle = self.support, self.arrivals, self.middle
        gamma, prior, weight = self.mean.gamma, self.mean.prior, self.mean.weight
        v = v - 0.5 * (xp.max(v, axis=-1) + xp.min(v, axis=-1))[:, None]
        z = support.reward - middle + gamma * support.at(v)
        mean = weight * support.total(support.n * z)
        if prior:
            n_states, sum_v = self.mean.n_states, xp.sum(v, axis=-1)[:, None, None]
            total = arrivals.total - n_states * middle + gamma * sum_v  # of z over every state
            mean = mean + prior * weight * (total + support.total(self.own))
            squares = (
                arrivals.squares - 2 * middle * arrivals.total + n_states * middle**2
                + 2 * gamma * (arrivals.dot(v) - middle * sum_v)
                + gamma**2 * xp.sum(v**2, axis=-1)[:, None, None]
            )  # fmt: skip
            around = squares - 2 * mean * total + n_states * mean**2  # sum of (z - mean)^2
        off = z - support.spread(mean)
        variance = weight * support.total(support.n * off**2)
        if prior:
            seen = support.total(self.own * (2 * off - self.own))
            variance = variance + prior * weight * (around + seen)
        variance = xp.where(variance > 0, variance, 0.0)
        return self.scale * (variance + self.scatter)

    def charged(self, fee: Array) -> _CentredEstimate:
        """The same with lower rewards; their variance stays."""
        return replace(self, mean=replace(self.mean, r=self.mean.r - fee[..., None]))

    def take(self, index: Array) -> _CentredEstimate:
        """The same for these problems of the batch."""
        own = self.own
        return replace(
            take_fields(self, index, "scatter", "scale", "pinned"),
            mean=self.mean.take(index),
            support=self.support.take(index),
            arrivals=self.arrivals.take(index),
            own=namespace(own).take(own, index, axis=1) if own.ndim == 4 else own,
        )
