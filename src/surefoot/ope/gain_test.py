"""Lower bounds on V^pi - V^{pi_b} and on V^pi from episodes of the baseline: values per episode,
their floor, the bound on their mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from surefoot.core import Batch, Model
from surefoot.errors import NotAvailableError, ParameterError, ProblemError
from surefoot.ope import bounds
from surefoot.ope.bounds import LowerBound, check_delta
from surefoot.ope.caps import APPROXIMATE, CAPPED, FLOORED, choose_cap
from surefoot.ope.episodes import last_rows, times
from surefoot.ope.estimates import episode_returns, notes_on
from surefoot.ope.models import doubly_robust_values
from surefoot.ope.weights import Overlap, Weights, checked_policy, weigh_checked
from surefoot.parameters import check_name
from surefoot.problems.given import checked_gamma, found_ranges
from surefoot.problems.ranges import ReturnRange

ESTIMATORS = ("pdis", "is", "dr")
GAIN, VALUE, LOSS = "V^pi - V^pi_b", "V^pi", "V^pi_b - V^pi"
# episodes, by their weights, below which scatter says nothing: most values then rest on weights
# near 0
FEWEST_EFFECTIVE = 10.0
ORDER = 0  # the seed of the order in which episodes are bet on
OBSERVED = "; the range behind lo is observed in the log, not declared: an assumption"


@dataclass(frozen=True)
class Standard:
    """How something is to be shown: at which failure probability, from which values, by which
    bound.

    estimator       "pdis", "is"; "dr" (values without a floor: for "student-t" and "bca" only)
    bound           "betting", "maurer-pontil", "hoeffding" (finite-sample), "student-t", "bca"
                    (approximate)
    reward_range    (low, high) of all possible rewards, you vouch for it; else observed, and said
                    so. Finite-sample bounds need it
    return_range    the same of the discounted return of a whole episode, from its start to where it
                    ends or is cut
    seen            (lowest, highest) reward of other rows of the same world, such as those the
                    policy was made from: an observed range contains them
    horizon         no episode has more steps than this (a time limit you vouch for): narrows the
                    ranges that rewards imply
    fewest_effective    episodes, counted by their weights, below which the approximate bounds say
                        nothing; 0 as in the literature
    """

    delta: float = 0.05
    estimator: str = "pdis"
    bound: str = "betting"
    reward_range: tuple[float, float] | None = None
    return_range: tuple[float, float] | None = None
    horizon: int | None = None
    fewest_effective: float = FEWEST_EFFECTIVE
    seen: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_name("estimator", self.estimator, ESTIMATORS)
        check_name("bound", self.bound, FLOORED + APPROXIMATE)
        if self.estimator == "dr" and self.floored:
            raise ParameterError(
                f'doubly robust values have no floor, which the bound "{self.bound}" needs: take'
                ' "student-t" or "bca", or "pdis" values'
            )
        if isinstance(self.fewest_effective, bool) or not 0 <= self.fewest_effective < math.inf:
            raise ParameterError(
                f"fewest_effective must be a number of episodes >= 0, got {self.fewest_effective!r}"
            )
        if self.horizon is not None and (
            isinstance(self.horizon, bool) or self.horizon != int(self.horizon) or self.horizon < 1
        ):
            raise ParameterError(
                f"horizon must be a whole number of steps >= 1, got {self.horizon!r}"
            )

    @property
    def floored(self) -> bool:
        """Whether the bound is finite-sample, and needs to know how low values can be."""
        return self.bound in FLOORED

    @property
    def capped(self) -> bool:
        """Whether the bound cuts values at a cap, which other episodes must choose."""
        return self.bound in CAPPED


@dataclass(frozen=True, repr=False)
class EpisodeValues:
    """One value an episode, i.i.d. with the quantity as their mean; none can lie below `lo` (-inf:
    no floor is known).

    `declared` says whether that floor rests on declared ranges; effective_size, largest_weight and
    overlap are those of pi.
    """

    x: np.ndarray
    lo: float
    declared: bool
    effective_size: float
    largest_weight: float
    overlap: Overlap
    n_cut: int
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, repr=False)
class Evidence:
    """quantity >= bound.value, except with probability bound.delta, in the sense of
    bound.validity.
    """

    quantity: str
    bound: LowerBound
    standard: Standard
    values: EpisodeValues

    @property
    def is_positive(self) -> bool:
        """Whether the quantity is shown to be above 0."""
        return self.bound.value > 0

    def __repr__(self) -> str:
        notes = "".join(f"\n  note: {note}" for note in (*self.bound.notes, *self.values.notes))
        return (
            f"Evidence({self.quantity} >= {self.bound.value:.6g} at delta {self.bound.delta:g};"
            f" {self.standard.estimator}, {self.bound.method}, {self.bound.n} episodes, effectively"
            f" {self.values.effective_size:.1f}; {self.bound.validity}){notes}"
        )


def improvement_bound(
    batch: Batch,
    pi: Any,
    pi_b: Any,
    gamma: float,
    standard: Standard | None = None,
    *,
    training: Batch | None = None,
    cap: float | None = None,
    model: Model | None = None,
    rng: np.random.Generator | None = None,
) -> Evidence:
    """A lower bound on V^pi - V^{pi_b} from the paired differences of each episode: one test at
    level delta, no union of two bounds.

    pi, the cap and the model must not depend on `batch`. The cap of "maurer-pontil" and "hoeffding"
    is `cap`, or is chosen on `training` (other episodes); "betting" needs none. `model` is what
    doubly robust values need, `rng` what the bootstrap needs. pi_b must be the policy that made the
    log: weights from a baseline estimated on the same log void the guarantee.
    """
    standard = Standard() if standard is None else standard
    return _evidence(
        GAIN, batch, pi, pi_b, gamma, standard, training=training, cap=cap, model=model, rng=rng
    )


def value_bound(
    batch: Batch, pi: Any, pi_b: Any, gamma: float, standard: Standard | None = None, **options: Any
) -> Evidence:
    """A lower bound on V^pi alone; options and conditions as for `improvement_bound`.

    To compare it with V^{pi_b}, which is unknown, would take a second bound and delta / 2 for each:
    use `improvement_bound`.
    """
    return _evidence(
        VALUE, batch, pi, pi_b, gamma, Standard() if standard is None else standard, **options
    )


def worsening_bound(
    batch: Batch, pi: Any, pi_b: Any, gamma: float, standard: Standard | None = None, **options: Any
) -> Evidence:
    """A lower bound on V^{pi_b} - V^pi: above 0 it shows that pi is worse; options as for
    `improvement_bound`.

    The same test with every reward negated, so that the values have their floor where it is needed.
    """
    standard = Standard() if standard is None else standard
    if options.get("training") is not None:
        options["training"] = replace(options["training"], reward=-options["training"].reward)
    if options.get("model") is not None:
        options["model"] = replace(options["model"], r=-options["model"].r)
    found = _evidence(
        GAIN, replace(batch, reward=-batch.reward), pi, pi_b, gamma, mirrored(standard), **options
    )
    return replace(found, quantity=LOSS, standard=standard)


def episode_values(
    batch: Batch,
    pi: Any,
    pi_b: Any,
    gamma: float,
    standard: Standard,
    *,
    model: Model | None = None,
    quantity: str = GAIN,
) -> EpisodeValues:
    """X_pi - X_b of every episode, X_b = G being the return that was logged; for the quantity V^pi,
    X_pi alone.

    Weights have mean 1, so a constant taken from what they multiply changes no mean; it is taken
    where a floor is needed:
    "is":    (rho - 1) (G - lo) >= -(hi - lo), since rho >= 0 and lo <= G <= hi.
    "pdis":  sum_{t < H} gamma^t (rho_t - 1) (r_t - m) >= -(hi - m sum_{t < H} gamma^t), m =
             min(r_min, 0), H the horizon or inf; an episode that has stopped goes on with r = 0 and
             its last weight (else its length, which pi changes, would shift the mean).
    "dr":    X_pi and X_b both doubly robust: without a floor.
    G is added for V^pi alone, and hi to the floor: what is left, rho (G - lo) + lo, is at least lo.
    """
    gamma = checked_gamma(gamma)
    check_name("quantity", quantity, (GAIN, VALUE))
    pi, pi_b = checked_policy("pi", pi, batch), checked_policy("pi_b", pi_b, batch)
    weights, cover = weigh_checked(batch, pi, pi_b)
    lo, hi, declared = -math.inf, 0.0, True
    if standard.estimator == "dr":
        x = _doubly_robust(batch, pi, pi_b, weights, model, gamma, quantity)
    else:
        m, g = 0.0, episode_returns(batch, gamma)
        if standard.floored:
            m, lo, hi, declared = _floor(batch, g, gamma, standard)
        x = (
            _is(g, weights, m, standard)
            if standard.estimator == "is"
            else _pdis(batch, weights, gamma, m, standard)
        )
        if quantity == VALUE:
            x, lo = x + g, lo + hi
    cut = int(batch.cuts.sum())
    return EpisodeValues(
        x,
        lo,
        declared,
        weights.effective_size,
        weights.largest,
        cover,
        cut,
        notes_on(batch, weights, cover),
    )


def _evidence(
    quantity: str,
    batch: Batch,
    pi: Any,
    pi_b: Any,
    gamma: float,
    standard: Standard,
    *,
    training: Batch | None = None,
    cap: float | None = None,
    model: Model | None = None,
    rng: np.random.Generator | None = None,
) -> Evidence:
    if training is not None:
        standard = replace(standard, seen=observed(training.reward, standard.seen))
    found = episode_values(batch, pi, pi_b, gamma, standard, model=model, quantity=quantity)
    if not standard.floored:
        bound = _approximate(found.x, standard, rng)
        if found.effective_size < standard.fewest_effective:
            bound = replace(
                bound,
                value=-math.inf,
                notes=(*bound.notes, _too_few(found.effective_size, standard.fewest_effective)),
            )
        return Evidence(quantity, bound, standard, found)
    other = None
    if standard.capped and training is not None:
        other = episode_values(training, pi, pi_b, gamma, standard, quantity=quantity)
    bound = _finite_sample(found, other, standard, cap)
    if not found.declared:
        bound = replace(bound, validity=bound.validity + OBSERVED)
    return Evidence(quantity, bound, standard, found)


def _doubly_robust(
    batch: Batch,
    pi: np.ndarray,
    pi_b: np.ndarray,
    weights: Weights,
    model: Model | None,
    gamma: float,
    quantity: str,
) -> np.ndarray:
    if model is None:
        raise ParameterError(
            "doubly robust values need model=, fitted on other episodes (`fitted_model`)"
        )
    x = doubly_robust_values(batch, pi, weights, model, gamma)
    return (
        x
        if quantity == VALUE
        else x - doubly_robust_values(batch, pi_b, weights.equal(), model, gamma)
    )


def _floor(
    batch: Batch, g: np.ndarray, gamma: float, standard: Standard
) -> tuple[float, float, float, bool]:
    """(what is taken from returns or rewards, the floor of the differences, hi, whether the
    ranges behind it are declared).
    """
    rewards, returns = _ranges(batch, gamma, standard)
    rounding = 1e-9 * (abs(returns.lo) + abs(returns.hi))
    wrong = np.flatnonzero((g < returns.lo - rounding) | (g > returns.hi + rounding))
    if len(wrong):
        raise ProblemError(
            f"return_range ({returns.lo:g}, {returns.hi:g}) does not hold: episode {wrong[0]} has"
            f" the return {g[wrong[0]]:g} ({len(wrong)} such episodes)"
        )
    if standard.estimator == "is":
        return returns.lo, -returns.width, returns.hi, returns.declared
    m = min(rewards[0], 0.0)
    if m < 0 and gamma == 1 and standard.horizon is None:
        raise NotAvailableError(
            "with gamma = 1 and rewards below 0 (whether a policy is worse is tested with all"
            ' rewards negated) per-decision values have no floor: give a horizon, or estimator="is"'
        )
    least = m * _discounts(gamma, 0, standard.horizon) if m else 0.0
    return (
        m,
        float(least - returns.hi),
        returns.hi,
        returns.declared and standard.reward_range is not None,
    )


def _ranges(
    batch: Batch, gamma: float, standard: Standard
) -> tuple[tuple[float, float], ReturnRange]:
    """(reward range, return range), declared or observed; a horizon H limits returns to H
    rewards.
    """
    seen = observed(batch.reward, standard.seen)
    declared, horizon = standard.return_range, standard.horizon
    if horizon is None:
        rewards, returns, _ = found_ranges(
            seen, gamma, None, standard.reward_range, declared, has_terminal=True
        )
        return rewards, returns
    longest = int(times(batch).max()) + 1
    if longest > horizon:
        raise ProblemError(
            f"horizon {horizon} does not hold: the log has an episode of {longest} steps"
        )
    rewards, returns, _ = found_ranges(
        seen, 0.0, None, standard.reward_range, declared, has_terminal=True
    )
    if declared is None:
        steps = float(_discounts(gamma, 0, horizon))
        returns = replace(
            returns, lo=min(rewards[0], steps * rewards[0]), hi=max(rewards[1], steps * rewards[1])
        )
    return rewards, returns


def _discounts(gamma: float, first: Any, horizon: int | None) -> Any:
    """gamma^first + ... + gamma^(horizon - 1), without end if there is no horizon."""
    if gamma == 1:
        return math.inf if horizon is None else horizon - first
    return (gamma**first - (0.0 if horizon is None else gamma**horizon)) / (1 - gamma)


def _is(g: np.ndarray, weights: Weights, lo: float, standard: Standard) -> np.ndarray:
    """(rho - 1) (G - lo). Where there is a floor, huge weights are clipped: that lowers values
    only.
    """
    return (weights.episode_weights(clip=standard.floored) - 1) * (g - lo)


def _pdis(batch: Batch, weights: Weights, gamma: float, m: float, standard: Standard) -> np.ndarray:
    """sum_t gamma^t (rho_t - 1) (r_t - m), with r = 0 and the last weight after the last step."""
    excess = weights.discounted(gamma, clip=standard.floored) - weights.equal().discounted(gamma)
    x: np.ndarray = np.bincount(batch.episode, weights=excess * (batch.reward - m))
    if m:
        after = times(batch)[last_rows(batch)] + 1
        x -= (
            m
            * (weights.episode_weights(clip=standard.floored) - 1)
            * _discounts(gamma, after, standard.horizon)
        )
    return x


def _finite_sample(
    found: EpisodeValues, other: EpisodeValues | None, standard: Standard, cap: float | None
) -> LowerBound:
    """The bound on the mean. "betting" takes the episodes in an order drawn once and for all, as
    logs may be sorted; the others need a cap: given, or chosen on the values of other episodes.
    """
    if not standard.capped:
        if cap is not None:
            raise ParameterError(f'the bound "{standard.bound}" takes no cap: leave cap= out')
        order = np.random.default_rng(ORDER).permutation(len(found.x))
        return bounds.uncapped_betting(found.x[order], standard.delta, lo=found.lo)
    if cap is None and other is not None:
        cap = choose_cap(other.x, found.lo, len(found.x), standard.delta, standard.bound).cap
    if cap is None:
        raise ParameterError(
            f'the bound "{standard.bound}" needs a cap: give training=, episodes to choose it on,'
            " or cap="
        )
    method = bounds.hoeffding if standard.bound == "hoeffding" else bounds.maurer_pontil
    return method(found.x, standard.delta, lo=found.lo, cap=cap)


def _approximate(x: np.ndarray, standard: Standard, rng: np.random.Generator | None) -> LowerBound:
    if standard.bound == "student-t":
        return bounds.student_t(x, standard.delta)
    if rng is None:
        raise ParameterError('the bound "bca" resamples: give rng=, a numpy.random.Generator')
    return bounds.bca(x, standard.delta, rng)


def _too_few(effective_size: float, fewest: float) -> str:
    return (
        f"effectively {effective_size:.1f} episodes, at least {fewest:g} are needed: where hardly"
        " an episode is possible under pi, the scatter of the values hides what they lack, and no"
        " bound is given"
    )


def observed(reward: np.ndarray, seen: tuple[float, float] | None = None) -> tuple[float, float]:
    """(lowest, highest) reward, those seen elsewhere included."""
    low, high = float(reward.min()), float(reward.max())
    return (low, high) if seen is None else (min(low, seen[0]), max(high, seen[1]))


def mirrored(standard: Standard) -> Standard:
    """The standard for a log with every reward negated."""
    ranges = standard.reward_range, standard.return_range, standard.seen
    rewards, returns, seen = (None if x is None else (-x[1], -x[0]) for x in ranges)
    return replace(standard, reward_range=rewards, return_range=returns, seen=seen)
