"""The delta method: the model's gain, less its second-order bias, minus what its rows may be wrong
by and what the log has not shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np
from scipy import sparse

from surefoot.core.arrays import Array, like, to_numpy
from surefoot.core.errors import NotAvailableError
from surefoot.core.evidence import ASYMPTOTIC
from surefoot.core.parameters import check_choice
from surefoot.evidence.bound import (
    ASSUMES_MARKOV,
    START,
    STARTS,
    Bound,
    Certificate,
    range_sentences,
)
from surefoot.planning import Bias, evaluate, plug_in_bias, visits
from surefoot.planning.ambiguity import start_variance
from surefoot.problems import Problem

OFTEN = 2  # visits of a pair from which on its outcomes have a variance


@dataclass(frozen=True)
class Moments:
    """Of the model's gain, less what no further visits would make up for.

    third: its third central moment; unshown: what outcomes that the log has not shown may take off.
    Both make the bound lower by a term that falls as 1 / n. left: of the bias of the gain, which
    has been taken off to second order; it falls as 1 / n^2.
    """

    gain: float
    sigma: float
    third: float = 0.0
    unshown: float = 0.0
    left: float = 0.0

    def below(self, z: float, scale: float) -> float:
        """gain - left - sqrt( (z sigma)^2 + unshown^2 ) + third (2 z^2 + 1) / (6 sigma^2)  for a
        log of `scale` times the size; the last is Johnson's (1978) term for skewness, where it is
        negative.
        """
        error, gain = z * self.sigma / math.sqrt(scale), self.gain - self.left / scale**2
        if z <= 0:
            return gain - error
        skewed = max(-self.third, 0.0) * (2 * z * z + 1) / 6
        skewed = skewed / self.sigma**2 if skewed > 0 else 0.0
        return gain - math.hypot(error, self.unshown / scale) - skewed / scale


@dataclass(frozen=True, kw_only=True)
class DeltaMethodBound(Bound):
    """gain - bias - sqrt( (z sigma)^2 + unshown^2 ) - missing - skewness - left,  both policies at
    once:

    sigma^2 = sum_{s,a} [ Var_P(f) + (d_pi - d_b)^2 Var_R ] / (n - 1)
              + Var_start(v^pi - v^{pi_b}) / (episodes - 1),
    f(s') = d_pi (R + gamma v^pi(s')) - d_b (R + gamma v^{pi_b}(s'))

    d_pi(s, a) are discounted visits of pi in the model. First order: the gain moves by the sum over
    pairs of dP(s, a) . f, rows are independent, and a row's covariance is multinomial. Var_R is
    what rewards scatter within a triple, 0 where they are declared; the last term is 0 where the
    start is known. The held-out test (`evidence.unit_model`) has the same first order with another
    variance, since rows of one unit may depend on each other: it is the scatter of units. The
    second order is one function for both, `plug_in_bias`.

    bias, left: what the gain in the model is too high on average, to second order, and how far
    later terms may reach (`plug_in_bias`).

    unshown = max over pairs of  min(1, ln(1/delta) / n) (least f seen in the pair - least f of any
    outcome): the rule of three. missing: pairs seen once or never do in the model what the baseline
    usually does in their state; the sum of what f would lose by the worst outcome instead, of those
    never seen by the worst that the return range allows. skewness: Johnson's term, (2 z^2 + 1) / 6
    |sum E_P(f - E_P f)^3 / n^2| / sigma^2 where the sum is negative, as rare losses make it. Right
    in the limit, for a policy fixed before the data: needs fresh data.
    """

    name: ClassVar[str] = "delta-method"
    places: ClassVar[tuple[str, ...]] = STARTS
    assumed: ClassVar[tuple[str, ...]] = (
        "the policy was fixed before these data were collected",
        "counts are large enough for the model's error to be linear and Gaussian",
        "what a pair of the log has not shown is no worse than to arrive at the worst state in"
        " which the log acts, or at an end (of pairs that are not in the log nothing is assumed)",
    )

    data: str = "training"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "data", ("training", "fresh"))

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """sigma falls as the root of the amount of data."""
        if self.data != "fresh":
            raise NotAvailableError(
                f"{self.name}: needs data that had no part in choosing the policy, for it is chosen"
                ' to look good on its own: certify on other data, and say --fresh (data="fresh" in'
                " Python)"
            )
        found = self.moments(problem, pi)
        z = NormalDist().inv_cdf(1 - self.delta) if self.delta < 1 else -np.inf
        return self.certificate(
            problem,
            pi,
            lambda scale: found.below(z, scale),
            label=ASYMPTOTIC,
            assumptions=(ASSUMES_MARKOV, *self.assumed, *range_sentences(problem)),
            n=problem.n_sa,
            data="fresh",
            notes=self.remarks(problem),
        )

    def remarks(self, problem: Problem) -> tuple[str, ...]:
        """What the last assumption leaves out, where there is such a state."""
        unknown = np.flatnonzero(~_known(problem))
        if not len(unknown):
            return ()
        which = problem.labels.state(unknown[0])
        return (
            f"the log never acts in {len(unknown)} states ({which} is one): should rare outcomes"
            " lead to one that is far worse than all others, the bound may not hold",
        )

    def moments(self, problem: Problem, pi: np.ndarray) -> Moments:
        """One adjoint evaluation for each policy."""
        block, start = problem.blocks[0], to_numpy(problem.start)
        usual = _usual(problem)
        new, old = (_play(problem, x, usual) for x in (pi, to_numpy(problem.pi_b)))
        f = _at_entries(block, new.spent, new.v) - _at_entries(block, old.spent, old.v)
        net = new.spent - old.spent
        variance, third = (to_numpy(_row_moment(block, f, k))[0] for k in (2, 3))
        variance = variance + net**2 * to_numpy(_reward_variance(block))[0]
        n, worst = to_numpy(problem.n_sa), _Outcomes.of(problem, new.v, old.v)
        often = n >= OFTEN
        events = math.log(1 / self.delta)
        beyond = to_numpy(block.support.least(f))[0] - worst.least(net, new.spent)
        unshown = np.where(often, beyond, 0.0) * events / np.maximum(n, max(events, 1.0))
        h, (bias, base) = new.v - old.v, (_bias(problem, x) for x in (new, old))
        of_start = start_variance(problem, h) if self.where == START else 0.0
        of_pairs = float((variance[often] / (n[often] - 1)).sum())
        return Moments(
            gain=float(start @ h) - (bias.value - base.value) - _missing(problem, new, old, worst),
            sigma=math.sqrt(of_pairs + of_start),
            third=float((third[often] / n[often] ** 2).sum()),
            unshown=max(float(unshown.max()), 0.0),
            left=bias.left + base.left,
        )


@dataclass(frozen=True, kw_only=True)
class _Play:
    """A policy in the model, where pairs seen once or never do what is usual in their state.

    rows [S, A]: the policy so; d [S]: its discounted visits; own, spent [S, A]: those to pairs, by
    pi and by rows; q, v: its values.
    """

    pi: np.ndarray
    rows: np.ndarray
    d: np.ndarray
    own: np.ndarray
    spent: np.ndarray
    q: np.ndarray
    v: np.ndarray


def _usual(problem: Problem) -> np.ndarray:
    """The baseline over the pairs seen often [S, A]; 0 in states that have none it uses."""
    kept = np.where(to_numpy(problem.n_sa) >= OFTEN, to_numpy(problem.pi_b), 0.0)
    total = kept.sum(axis=1, keepdims=True)
    found: np.ndarray = kept / np.where(total > 0, total, 1.0)
    return found


def _play(problem: Problem, pi: np.ndarray, usual: np.ndarray) -> _Play:
    block, often = problem.blocks[0], to_numpy(problem.n_sa) >= OFTEN
    some = (usual > 0).any(axis=1, keepdims=True)
    kept = np.where(often, pi, 0.0)
    rows = np.where(some, kept + (1 - kept.sum(axis=1, keepdims=True)) * usual, pi)
    v = _values(problem, rows)
    q = to_numpy(block.model.backup(like(block.pi_b, v[None])))[0]
    q = np.where(often | ~some, q, (usual * q).sum(axis=1, keepdims=True))
    d = to_numpy(visits(problem.model, rows, problem.start)).reshape(-1)
    return _Play(pi=pi, rows=rows, d=d, own=d[:, None] * pi, spent=d[:, None] * rows, q=q, v=v)


def _bias(problem: Problem, play: _Play) -> Bias:
    """How much too high the value of a policy is in the model."""
    block, (n_states, n_actions) = problem.blocks[0], play.rows.shape
    entry = block.support.entries()
    pair, follow, n, reward = (to_numpy(x) for x in entry)
    share = (play.rows / np.maximum(to_numpy(problem.n_sa), 1.0)).reshape(-1)[pair] * n
    state, shape = pair // n_actions, (n_states, n_states)
    return plug_in_bias(
        sparse.csr_array((share, (state, follow)), shape=shape),
        problem.gamma,
        spent=np.repeat(play.d, n_actions),
        square=(play.rows**2).reshape(-1),
        place=pair,
        state=state,
        next_state=follow,
        k=n,
        on=n,
        y=reward + problem.gamma * play.v[follow],
    )


def _values(problem: Problem, pi: np.ndarray) -> np.ndarray:
    """v [S] in the model."""
    tolerance = 1e-10 * max(problem.return_range.width, 1e-300)
    v: np.ndarray = to_numpy(evaluate(problem.model, pi, tolerance=tolerance)).reshape(-1)
    return v


def _row_moment(block: Problem, z: Array, power: int) -> Array:
    """The mean of (z - mean)^power under P of every pair [1, S, A], for z at every successor
    seen.
    """
    p = block.support.n * block.support.spread(block.weight)
    mean = block.support.dot(p, z)
    return block.support.total(p * (z - block.support.spread(mean)) ** power)


def _reward_variance(block: Problem) -> Array:
    """What rewards scatter within a triple [1, S, A]: 0 where declared, or not counted."""
    if block.reward_table is not None or block.counts.r_rest is None:
        return 0.0 * block.n_sa
    return block.counts.r_rest * block.weight


def _at_entries(block: Problem, spent: np.ndarray, v: np.ndarray) -> np.ndarray:
    """spent (R + gamma v') at every successor seen."""
    target = block.support.reward + block.gamma * block.support.at(like(block.pi_b, v[None]))
    found: np.ndarray = block.support.spread(like(block.pi_b, spent[None])) * target
    return found


@dataclass(frozen=True)
class _Outcomes:
    """Arrivals at the states in which the log acts, and at ends: y = R + gamma v^{pi_b}, [k] or, if
    declared rewards depend on the pair, [k, S, 1 or A]; and x = gamma (v^pi - v^{pi_b}) [k].
    """

    y: np.ndarray
    x: np.ndarray

    @classmethod
    def of(cls, problem: Problem, v: np.ndarray, v_b: np.ndarray) -> _Outcomes:
        """Rewards as declared, by a table or by their range: that an arrival has always paid the
        same says nothing of what it has not paid yet. Points that are least for no weights are left
        out.
        """
        known, ends, gamma = _known(problem), problem.return_range, problem.gamma
        x, later = gamma * (v - v_b)[known], gamma * v_b[known]
        if problem.reward_table is not None:
            table = to_numpy(problem.blocks[0].arrivals.table)[0][..., known]
            y = np.clip(np.moveaxis(table + later, -1, 0), ends.lo, ends.hi)
            return cls(y, x) if y[0].size > 1 else cls(*_lower_hull(y.reshape(-1), x))
        y = np.concatenate([reward + later for reward in problem.reward_range])
        return cls(*_lower_hull(np.clip(y, ends.lo, ends.hi), np.tile(x, 2)))

    def least(self, net: np.ndarray, spent: np.ndarray) -> np.ndarray:
        """min over outcomes of f = net y + spent x [S, A]; spent >= 0."""
        found = np.full(net.shape, np.inf)
        for y, x in zip(self.y, self.x, strict=True):
            found = np.minimum(found, net * y + spent * x)
        return found


def _known(problem: Problem) -> np.ndarray:
    """States [S] in which the log acts, and ends."""
    found: np.ndarray = (to_numpy(problem.n_sa).sum(axis=1) > 0) | to_numpy(problem.terminal)
    return found


def _missing(problem: Problem, new: _Play, old: _Play, worst: _Outcomes) -> float:
    """What pairs seen once or never may lose beyond what the model has for them.

    Of a pair never seen, or once on the way to a state in which nobody acted, nothing is known.
    What follows is worth y in [lo, hi] to the baseline and y + gamma x to the policy: x is at least
    the least difference there is in states that are known, or 0, if the policy is the baseline in
    the others. Both values lie in [lo, hi].
    """
    n, known, ends = to_numpy(problem.n_sa), _known(problem), problem.return_range
    few, net = (n < OFTEN) & ~to_numpy(problem.terminal)[:, None], new.own - old.own
    least = min(float((new.v - old.v)[known].min()), 0.0)
    if (new.pi != old.pi)[~known].any():
        least = -ends.width
    floor = np.maximum(
        np.minimum(net * ends.lo, net * ends.hi) + problem.gamma * new.own * least,
        new.own * ends.lo - old.own * ends.hi,
    )
    shown = (n > 0) & ~_led_to(problem, ~known)
    floor = np.where(shown, np.maximum(worst.least(net, new.own), floor), floor)
    lost = new.own * new.q - old.own * old.q - floor
    return float(np.maximum(lost, 0.0)[few].sum())


def _led_to(problem: Problem, states: np.ndarray) -> np.ndarray:
    """Pairs [S, A] that led to one of these states in the log."""
    block = problem.blocks[0]
    there = block.support.at(like(block.pi_b, states[None]))
    found: np.ndarray = to_numpy(block.support.dot(block.support.n, there))[0] > 0
    return found


def _lower_hull(y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points that are least in net y + spent x for some net and some spent >= 0, by Andrew's
    monotone chain.
    """
    kept: list[tuple[float, float]] = []
    order = np.lexsort((x, y))
    for point in zip(y[order].tolist(), x[order].tolist(), strict=True):
        while len(kept) > 1 and _turns_right(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    found = np.array(kept)
    return found[:, 0], found[:, 1]


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or above the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0])
