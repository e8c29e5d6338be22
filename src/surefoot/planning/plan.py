"""Planning: the best policy for an estimate within a trust, and that of a known model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from surefoot.core import DenseModel, Model, Solution, SparseModel, Status
from surefoot.core.arrays import Array, namespace, row_dot
from surefoot.planning.evaluation import values_within
from surefoot.planning.loop import iterate
from surefoot.planning.trusts import FreeTrust

MAX_STEPS, MAX_BACKUPS = 5000, 100_000  # of policy iteration, of value iteration
# share of the last gain to which the next policy is evaluated, where evaluation is iterative
LOOSE = 0.3
# a gain of so many times the final accuracy: policy iteration is about to converge quadratically
IN_SIGHT = 3e8
FREE_STEPS = 25  # steps before damping: undamped policy iteration rarely needs ten


class Trust(Protocol):
    """How far each probability may move from the baseline, and the best step within that."""

    @property
    def maximises(self) -> bool:
        """Whether the step is the best one; only then may early values be rough."""

    @property
    def b(self) -> Array:
        """The baseline [B, S, A]."""

    @property
    def price(self) -> Array | None:
        """What each unit of mass that an action gains over b costs in value, [B, S, A]."""

    def step(self, q: Array, pi: Array) -> Array:
        """The improved rows for action values q; pi are the present ones."""

    def take(self, index: Array) -> Any:
        """The same for these problems of the batch."""


class Estimate(Protocol):
    """What an action is worth, penalties included."""

    @property
    def tolerance(self) -> float:
        """Gains up to this are none."""

    @property
    def exact(self) -> bool:
        """Whether `evaluate` is exact whatever accuracy is asked for."""

    @property
    def max_steps(self) -> int:
        """Steps after which policy iteration gives up."""

    @property
    def damped(self) -> bool:
        """Whether policies may cycle, so that late moves must shrink.

        So it is where the values are not those of an MDP: a penalty that depends on the policy.
        """

    def evaluate(self, pi: Array, v: Array | None, accuracy: float) -> tuple[Array, float]:
        """q of policy pi [B, S, A] and a bound on the error of its values; iterative methods start
        from v [B, S] and may stop at `accuracy`.
        """

    def charged(self, fee: Array) -> Any:
        """The same where every step from s costs fee [B, S]."""

    def take(self, index: Array) -> Any:
        """The same for these problems of the batch."""


@dataclass(frozen=True)
class ModelEstimate:
    """q of a policy in a model: q = r + gamma P v.

    Penalised rewards are rewards (RaMDP), pinned values are rows that end (R-MIN). n [B, S, A] says
    on how many samples each value rests; None: on the rows of the pair.
    """

    max_steps: ClassVar[int] = MAX_STEPS
    damped: ClassVar[bool] = False
    model: Model
    tolerance: float
    n: Array | None = None

    @property
    def exact(self) -> bool:
        """Dense models are solved directly."""
        return isinstance(self.model, DenseModel)

    def evaluate(self, pi: Array, v: Array | None, accuracy: float) -> tuple[Array, float]:
        """Exact for a dense model, else to `accuracy`; infinite: from a constant v."""
        if accuracy == math.inf and self.model.gamma < 1:  # (at 1, `evaluate` refuses in words)
            xp = namespace(pi)
            level = xp.mean(row_dot(pi, self.model.r)) / (1 - self.model.gamma)
            q = xp.astype(self.model.weight > 0, pi.dtype)
            q *= self.model.gamma * level
            q += self.model.r
            return q, math.inf
        v, error = values_within(self.model, pi, v, accuracy)
        return self.model.backup(v), error

    def charged(self, fee: Array) -> ModelEstimate:
        """The same with lower rewards."""
        return replace(self, model=replace(self.model, r=self.model.r - fee[..., None]))

    def take(self, index: Array) -> ModelEstimate:
        """The same for these problems of the batch."""
        return replace(self, model=self.model.take(index))


@dataclass(frozen=True)
class _PolicyIteration:
    """Evaluate, improve, until no row gains: state (pi, q, value of pi at q, gain, error)."""

    estimate: Estimate
    trust: Trust
    final: float  # the accuracy of evaluation that ends it

    def advance(self, state: tuple[Array, ...], step: int) -> tuple[tuple[Array, ...], Array]:
        pi, q, v, gain, error = state
        xp = namespace(pi)
        accuracy = self.final
        if self.trust.maximises and not self.estimate.exact:
            # Early policies need no exact values: a share of the last gain will do, until the end
            # is in sight.
            last = float(xp.max(gain)) if step > 1 else math.inf
            accuracy = self.final if last <= IN_SIGHT * self.final else LOOSE * last
        v = v if step > 1 else None
        if self.trust.price is None:
            q, reached = self.estimate.evaluate(pi, v, accuracy)
        else:  # v(s) = sum_a pi q - fee: the fee is paid at every step, q is before paying
            fee = _fee(self.trust, pi)
            q, reached = self.estimate.charged(fee).evaluate(pi, v, accuracy)
            q = q + fee[..., None]
        new = self.trust.step(q, pi)
        v, old = _worth(self.trust, new, q), _worth(self.trust, pi, q)
        # Absolute: a first step that must leave unseen actions can lose value, and is not the end.
        gain = xp.max(xp.abs(v - old), axis=-1)
        done = (gain <= self.estimate.tolerance) & (accuracy <= self.final)
        if self.estimate.damped and step > FREE_STEPS:
            new = xp.where(done[:, None, None], new, pi + (new - pi) / (step - FREE_STEPS))
        return (new, q, v, gain, xp.zeros_like(error) + reached), done

    def take(self, index: Array) -> _PolicyIteration:
        return replace(self, estimate=self.estimate.take(index), trust=self.trust.take(index))


def _fee(trust: Trust, pi: Array) -> Array:
    """sum_a price (pi - b)^+, [B, S]: what pi pays for leaving the baseline."""
    xp = namespace(pi)
    return row_dot(trust.price, xp.where(pi > trust.b, pi - trust.b, 0.0))


def _worth(trust: Trust, pi: Array, q: Array) -> Array:
    """sum_a pi q - fee, [B, S]."""
    return row_dot(pi, q) if trust.price is None else row_dot(pi, q) - _fee(trust, pi)


def policy_iteration(
    estimate: Estimate, trust: Trust, pi: Array, *, accuracy: float = 0.0
) -> Solution:
    """Repeat  q <- q of pi,  pi <- the best rows for q within the trust,  until no row gains.

    Where the estimate asks for damping the moves shrink as 1, 1/2, 1/3, ... after some free steps
    (a mixture of rows within a trust is within it too). Values that rounding keeps from their
    `accuracy` do not count as converged.
    """
    xp = namespace(pi)
    nothing = xp.zeros_like(pi[..., 0])
    (pi, q, _, _, error), status = iterate(
        _PolicyIteration(estimate, trust, accuracy),
        (pi, xp.zeros_like(pi), nothing, nothing[:, 0], nothing[:, 0]),
        estimate.max_steps,
    )
    off = status.converged & ~(error <= accuracy)
    if not bool(xp.any(off)):
        return Solution(pi, q, status)
    note = (
        f"values are known to {float(xp.max(error[off])):.2g} only, not to {accuracy:.2g}: rounding"
        " allows no more at this gamma"
    )
    return Solution(pi, q, Status(status.converged & ~off, status.steps), notes=(note,))


class Backup(ABC):
    """A contraction T on state values, not linear: q = T v has a worst case or a penalty."""

    gamma: float
    tolerance: float  # how far from their limit values may be at the end

    @property
    def contraction(self) -> float:
        """|T v - T w| <= contraction |v - w|: gamma, unless a class says otherwise."""
        return self.gamma

    @abstractmethod
    def backup(self, v: Array) -> Array:
        """q [B, S, A] from v [B, S]."""

    @abstractmethod
    def take(self, index: Array) -> Any:
        """The same for these problems of the batch."""


@dataclass(frozen=True)
class _ValueIteration:
    """back up, improve, until the values settle: state (pi, q, v)."""

    operator: Backup
    trust: Trust

    def advance(self, state: tuple[Array, ...], step: int) -> tuple[tuple[Array, ...], Array]:
        pi, _, v = state
        xp = namespace(pi)
        q = self.operator.backup(v)
        pi = self.trust.step(q, pi)
        new = _worth(self.trust, pi, q)
        factor = self.operator.contraction
        done = xp.max(xp.abs(new - v), axis=-1) * factor <= (1 - factor) * self.operator.tolerance
        return (pi, q, new), done

    def take(self, index: Array) -> _ValueIteration:
        return replace(self, operator=self.operator.take(index), trust=self.trust.take(index))


def value_iteration(operator: Backup, trust: Trust, pi: Array, v: Array) -> Solution:
    """Repeat  q <- T v,  pi <- the best rows for q within the trust,  v <- sum_a pi q,  until v
    is within the tolerance of its limit.
    """
    xp = namespace(pi)
    state = pi, xp.zeros_like(pi), v
    (pi, q, _), status = iterate(_ValueIteration(operator, trust), state, MAX_BACKUPS)
    return Solution(pi, q, status)


@dataclass(frozen=True)
class FixedValues:
    """Values that do not follow the policy: there is one step to take.

    n [B, S, A] says on how many samples each of them rests.
    """

    q: Array
    n: Array


def one_step(values: FixedValues, trust: Trust, pi: Array) -> Solution:
    """The best rows for these values within the trust."""
    xp = namespace(pi)
    one = xp.ones_like(pi[:, 0, 0], dtype=xp.int64)
    return Solution(trust.step(values.q, pi), values.q, Status(one > 0, one))


def optimal(
    model: Model, allowed: Array | None = None, *, tolerance: float | None = None
) -> Solution:
    """The optimal policy of a known model, over the allowed actions [..., S, A]; for benchmarks."""
    xp = namespace(model.r)
    shape = model.r.shape
    spread = float(xp.max(model.r)) - float(xp.min(model.r))
    horizon = 1.0 / (1.0 - model.gamma) if model.gamma < 1 else float(model.n_states)
    largest = float(xp.max(xp.abs(model.r)))
    tie = 1e-12 * max(spread * horizon, largest) if tolerance is None else tolerance
    accuracy = max(tie, 1e-15 * largest * horizon**2)  # rounding allows a sparse model no more
    if isinstance(model, DenseModel):
        transitions, weight, r, pull = (
            None if x is None else xp.reshape(x, (-1, *x.shape[len(shape) - 2 :]))
            for x in (model.transitions, model.weight, model.r, model.pull)
        )
        model = DenseModel(transitions, weight, r, model.gamma, model.prior, pull)
    may_rise = model.r == model.r if allowed is None else xp.broadcast_to(allowed, shape)
    may_rise = xp.reshape(may_rise, model.r.shape)
    rows = xp.astype(may_rise, xp.float64)
    uniform = rows / xp.sum(rows, axis=-1)[..., None]
    estimate = ModelEstimate(model, tie)
    greedy = FreeTrust(b=uniform, may_rise=may_rise, tolerance=tie, lowest_index=True)
    found = policy_iteration(estimate, greedy, uniform, accuracy=accuracy)
    if isinstance(model, SparseModel):
        shape = shape[-2:]
    status = Status(
        *(xp.reshape(x, shape[:-2]) for x in (found.status.converged, found.status.steps))
    )
    pi, q = (xp.reshape(x, shape) for x in (found.pi, found.q))
    return Solution(pi, q, status, algorithm="optimal", notes=found.notes)
