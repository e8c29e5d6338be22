"""Values of episodes whose mean is the gain of a policy, and how low such a value can be; by a
`Standard`: how something is to be shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.core import Batch, Model
from surefoot.core.errors import NotAvailableError, ParameterError, ProblemError
from surefoot.core.parameters import check_name
from surefoot.evidence.centring import Control, check_ratio, discounts, step_control, whole_control
from surefoot.evidence.estimates import (
    EpisodeValues,
    doubly_robust_values,
    episode_returns,
    weight_notes,
)
from surefoot.evidence.known_policies import KnownPolicies
from surefoot.evidence.weights import Weights, checked_policy, weigh
from surefoot.problems.given import checked_gamma
from surefoot.problems.ranges import ReturnRange, found_ranges
from surefoot.statistics.bounds import APPROXIMATE_BOUNDS, CAPPED, FLOORED, check_delta

ESTIMATORS = ("pdis", "is", "dr")
GAIN, VALUE, LOSS = "V^pi - V^pi_b", "V^pi", "V^pi_b - V^pi"
QUANTITIES = (GAIN, LOSS, VALUE)
# episodes, by their weights, below which scatter says nothing: most values then rest on weights
# near 0
FEWEST_EFFECTIVE = 10.0
# what the policy is compared with, and how
OWN_RETURNS = "the returns of the log itself, episode by episode"
WEIGHTED = "the baseline, which did not make the log: its episodes are weighted too"


@dataclass(frozen=True, kw_only=True)
class Standard:
    """How something is to be shown: with which failure probability, from which values, by which
    bound.

    estimator       "pdis", "is"; "dr" (values without a floor: for "student-t" and "bca" only)
    bound           "betting", "maurer-pontil", "hoeffding" (finite-sample), "student-t", "bca"
                    (approximate)
    reward_range    (low, high) of all possible rewards, declared; else observed, and said
                    so. Finite-sample bounds need it
    return_range    the same of the discounted return of a whole episode, from its start to where it
                    ends or is cut
    seen            (lowest, highest) reward of other rows of the same world, such as those the
                    policy was made from: an observed range contains them
    horizon         no episode has more steps than this (a known time limit): narrows the
                    ranges that rewards imply
    largest_ratio   pi / pi_b is no larger in any state there is, in the log or not: "betting" then
                    bets on centred values (`surefoot.evidence.centring`)
    known           what other rows show of the policies that made the log: single decisions of
                    theirs then have doubly robust values (`surefoot.evidence.known_policies`)
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
    largest_ratio: float | None = None
    known: KnownPolicies | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_name("estimator", self.estimator, ESTIMATORS)
        check_name("bound", self.bound, FLOORED + APPROXIMATE_BOUNDS)
        if self.estimator == "dr" and self.floored:
            raise ParameterError(
                f'doubly robust values have no floor, which the bound "{self.bound}" needs: take'
                ' "student-t" or "bca", or "pdis" values'
            )
        if isinstance(self.fewest_effective, bool) or not 0 <= self.fewest_effective < math.inf:
            raise ParameterError(
                f"fewest_effective must be a number of episodes >= 0, got {self.fewest_effective!r}"
            )
        h = self.horizon
        if h is not None and (isinstance(h, bool) or h != int(h) or h < 1):
            raise ParameterError(f"horizon must be a whole number of steps >= 1, got {h!r}")
        w = self.largest_ratio
        if w is not None and not 1 <= w < math.inf:
            raise ParameterError(f"largest_ratio must be a number >= 1, got {w!r}")

    @property
    def floored(self) -> bool:
        """Whether the bound is finite-sample, and needs to know how low values can be."""
        return self.bound in FLOORED

    @property
    def capped(self) -> bool:
        """Whether the bound cuts values at a cap, which other episodes must choose."""
        return self.bound in CAPPED

    def having_seen(self, reward: np.ndarray) -> Standard:
        """The standard whose observed range also contains these rewards."""
        return replace(self, seen=self.observed(reward))

    def observed(self, reward: np.ndarray) -> tuple[float, float]:
        """(lowest, highest) of these rewards and of those seen elsewhere."""
        low, high = float(reward.min()), float(reward.max())
        return (
            (low, high) if self.seen is None else (min(low, self.seen[0]), max(high, self.seen[1]))
        )

    def mirrored(self) -> Standard:
        """The standard for a log with every reward negated."""
        ranges = self.reward_range, self.return_range, self.seen
        rewards, returns, seen = (None if x is None else (-x[1], -x[0]) for x in ranges)
        known = None if self.known is None else self.known.negated
        return replace(self, reward_range=rewards, return_range=returns, seen=seen, known=known)


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
    """X_pi - X_b of every episode; for the quantity V^pi, X_pi alone.

    For a loss, V^{pi_b} - V^pi, it is X_b - X_pi, the gain in the log with every reward negated: so
    these values have their floor where it is needed.
    X_b = G is the return that was logged where pi_b made the log, or where pi_b is None: then the
    gain is over what made the log, whatever that was (its rows need propensities). Weights have
    mean 1, so a constant taken from what they multiply changes no mean; it is taken where a floor
    is needed:
    "is":    (rho - 1) (G - lo) >= -(hi - lo), since rho >= 0 and lo <= G <= hi.
    "pdis":  sum_{t < H} gamma^t (rho_t - 1) (r_t - m) >= -(hi - m sum_{t < H} gamma^t), m =
             min(r_min, 0), H the horizon or inf; an episode that has stopped goes on with r = 0 and
             its last weight (else its length, which pi changes, would shift the mean).
    "dr":    X_pi and X_b both doubly robust: without a floor.
    G is added for V^pi alone, and hi to the floor: what is left, rho (G - lo) + lo, is at least lo.
    Where the propensities say that pi_b did not make the log, see `_both_weighted`. Where there is
    a floor, huge weights are clipped: that lowers values only.
    """
    gamma = checked_gamma(gamma)
    check_name("quantity", quantity, QUANTITIES)
    if quantity == LOSS:
        turned = None if model is None else replace(model, r=-model.r)
        mirror = standard.mirrored()
        return episode_values(negated(batch), pi, pi_b, gamma, mirror, model=turned)
    weights = weigh(batch, pi, pi_b)
    made = None if pi_b is None else checked_policy("pi_b", pi_b, batch)
    weighted = quantity == GAIN and made is not None and not batch.made_by(made)
    base = weigh(batch, made) if weighted else weights.equal()
    lo, declared = -math.inf, True
    if standard.estimator == "dr":
        if model is None:
            raise ParameterError(
                "doubly robust values need model=, fitted on other episodes (`fitted_model`)"
            )
        x = doubly_robust_values(weights.pi, weights, model, gamma)
        if quantity == GAIN and made is None:
            x = x - episode_returns(batch, gamma)
        elif quantity == GAIN and made is not None:
            x = x - doubly_robust_values(made, base, model, gamma)
    elif weighted:
        x, lo, declared = _both_weighted(weights, base, gamma, standard)
    else:
        x, lo, declared = _over_returns(weights, gamma, standard, quantity)
    own = made is not None and not weighted and quantity == GAIN
    shifts = None
    doubly = None
    if weighted and standard.known is not None and standard.bound == "betting":
        rewards, _ = _ranges(batch, gamma, standard)
        doubly = standard.known.values(batch, weights.pi - base.pi, rewards)
    if standard.estimator != "dr":
        of = (weights, base) if weighted else (weights,)
        shifts = np.stack([_shift(x, gamma, standard) for x in of], axis=1)
    if doubly is not None:
        rows, better, floor = doubly
        x, lo = np.where(rows, better, x), min(lo, floor)
        shifts = None if shifts is None or rows.all() else shifts * ~rows[:, None]
    return EpisodeValues(
        x=x,
        lo=lo,
        declared=declared,
        effective_size=min(weights.effective_size, base.effective_size),
        largest_weight=weights.largest,
        overlap=weights.overlap,
        compared=WEIGHTED if weighted else OWN_RETURNS,
        shifts=shifts,
        shift_floor=-(
            1.0 if standard.estimator == "is" else float(discounts(gamma, 0, standard.horizon))
        ),
        control=_control(weights, gamma, standard, lo) if own and declared else None,
        notes=weight_notes(weights) + (_weighted_notes(base) if weighted else ()),
    )


def negated(batch: Batch) -> Batch:
    """The log with every reward negated: a loss is a gain there."""
    return replace(batch, reward=-batch.reward)


def _over_returns(
    weights: Weights, gamma: float, standard: Standard, quantity: str
) -> tuple[np.ndarray, float, bool]:
    """(values, floor, whether it is declared) of pi over the returns of the log, or of pi alone."""
    batch, m, lo, hi, declared, clip = weights.batch, 0.0, -math.inf, 0.0, True, standard.floored
    g = episode_returns(batch, gamma)
    if standard.floored:
        m, lo, hi, declared = _floor(batch, g, gamma, standard)
    x: np.ndarray
    if standard.estimator == "is":
        x = (weights.episode_weights(clip=clip) - 1) * (g - m)
    else:
        excess = weights.discounted(gamma, clip=clip) - weights.equal().discounted(gamma)
        x = np.bincount(batch.episode, weights=excess * (batch.reward - m))
        if m:  # after the last step: r = 0 and the last weight
            left = _discounts_left(weights, gamma, standard.horizon)
            x -= m * (weights.episode_weights(clip=clip) - 1) * left
    return (x + g, lo + hi, declared) if quantity == VALUE else (x, lo, declared)


def _shift(weights: Weights, gamma: float, standard: Standard) -> np.ndarray:
    """What the weights add to the value of every episode for each 1 that all rewards (or returns)
    are more; its mean is 0. Not finite where episodes without end count whole.
    """
    clip = standard.floored
    whole = weights.episode_weights(clip=clip) - 1
    if standard.estimator == "is":
        return whole
    excess = weights.discounted(gamma, clip=clip) - weights.equal().discounted(gamma)
    left = _discounts_left(weights, gamma, standard.horizon)
    with np.errstate(invalid="ignore"):  # 0 times inf
        return np.asarray(np.bincount(weights.batch.episode, weights=excess) + whole * left)


def _control(weights: Weights, gamma: float, standard: Standard, lo: float) -> Control | None:
    """What centres the values of a log of the baseline; None where weights come from propensities,
    which may be as small as they like.
    """
    batch, ratio, h = weights.batch, standard.largest_ratio, standard.horizon
    unknown = batch.propensity is not None or batch.survives is not None
    if ratio is None or standard.bound != "betting" or unknown:
        return None
    check_ratio(weights, ratio)
    if standard.estimator == "is":
        return whole_control(weights, ratio, lo, h)
    low, high = _ranges(batch, gamma, standard)[0]
    return step_control(weights, gamma, ratio, max(high, 0.0) - min(low, 0.0), lo, h)


def _both_weighted(
    weights: Weights, base: Weights, gamma: float, standard: Standard
) -> tuple[np.ndarray, float, bool]:
    """(values, floor, whether it is declared) where the baseline must be weighted too, rho' = prod
    pi_b / p:

    "is":    rho (G - lo) + rho' (hi - G) - (hi - lo) >= -(hi - lo)
    "pdis":  sum_{t < H} gamma^t ( rho_t (r_t - m) + rho'_t (M - r_t) - (M - m) ) >= -(M - m)
             sum_{t < H} gamma^t, m = min(r_min, 0), M = max(r_max, 0)
    Both products with a weight are at least 0, so there is a floor though rho' has no ceiling. The
    mean is V^pi - V^{pi_b} where all that pi and pi_b do can happen in the log; what never happens
    there lowers it, which is the safe side. With rho' = 1 it is what a log of pi_b itself gives.
    Without a floor the constants are 0: the scatter is smaller.
    """
    batch, clip = weights.batch, standard.floored
    g, m, top, floor, declared = episode_returns(batch, gamma), 0.0, 0.0, -math.inf, True
    if standard.floored:
        m, _, hi, declared = _floor(batch, g, gamma, standard)
        top = hi if standard.estimator == "is" else max(_ranges(batch, gamma, standard)[0][1], 0.0)
        if standard.estimator == "pdis" and top > m and gamma == 1 and standard.horizon is None:
            raise NotAvailableError(
                "with gamma = 1 the per-decision values of a baseline that did not make the log"
                ' have no floor: give a horizon, or estimator="is"'
            )
        steps = 1.0 if standard.estimator == "is" else discounts(gamma, 0, standard.horizon)
        floor = -(top - m) * steps if top > m else 0.0
    if standard.estimator == "is":
        rho, rho_b = weights.episode_weights(clip=clip), base.episode_weights(clip=clip)
        return rho * (g - m) + rho_b * (top - g) - (top - m), floor, declared
    one = weights.equal().discounted(gamma)
    rows = weights.discounted(gamma, clip=clip) * (batch.reward - m)
    rows += base.discounted(gamma, clip=clip) * (top - batch.reward) - one * (top - m)
    x: np.ndarray = np.bincount(batch.episode, weights=rows)
    if top > m:  # after the last step: r = 0 and the last weights
        left = _discounts_left(weights, gamma, standard.horizon)
        rho, rho_b = weights.episode_weights(clip=clip), base.episode_weights(clip=clip)
        x += left * (rho_b * top - rho * m - (top - m))
    return x, float(floor), declared


def _weighted_notes(base: Weights) -> tuple[str, ...]:
    """What a user should know of a baseline that did not make the log."""
    return (
        "the propensities say that the baseline did not make this log: its value is an off-policy"
        f" estimate too, from effectively {base.effective_size:.1f} of {base.batch.n_episodes}"
        " episodes",
    )


def _floor(
    batch: Batch, g: np.ndarray, gamma: float, standard: Standard
) -> tuple[float, float, float, bool]:
    """(what is taken from returns or rewards, the floor of the differences, hi, whether the
    ranges behind it are declared).
    """
    rewards, returns = _checked_ranges(batch, g, gamma, standard)
    if standard.estimator == "is":
        return returns.lo, -returns.width, returns.hi, returns.declared
    m = min(rewards[0], 0.0)
    if m < 0 and gamma == 1 and standard.horizon is None:
        raise NotAvailableError(
            "with gamma = 1 and rewards below 0 (whether a policy is worse is tested with all"
            ' rewards negated) per-decision values have no floor: give a horizon, or estimator="is"'
        )
    least = m * discounts(gamma, 0, standard.horizon) if m else 0.0
    declared = returns.declared and standard.reward_range is not None
    return m, float(least - returns.hi), returns.hi, declared


def declared_returns(
    batch: Batch, gamma: float, standard: Standard, how: str
) -> tuple[float, float]:
    """(lowest, highest) possible return of an episode; raise where it is not declared (`how` to do
    so), or does not hold.
    """
    _, returns = _checked_ranges(batch, episode_returns(batch, gamma), gamma, standard)
    if not returns.declared:
        raise ParameterError(
            "how good and how bad an episode can be must be known before it is looked at, and what"
            f" this log has shown does not say it: {how}"
        )
    if not (math.isfinite(returns.lo) and math.isfinite(returns.hi)):
        raise ParameterError(
            "with gamma = 1 an episode may earn any number of rewards: give the most steps that it"
            " can have (--horizon), or the range of its return (--return-range)"
        )
    return float(returns.lo), float(returns.hi)


def _checked_ranges(
    batch: Batch, g: np.ndarray, gamma: float, standard: Standard
) -> tuple[tuple[float, float], ReturnRange]:
    """(reward range, return range), which hold for these returns."""
    rewards, returns = _ranges(batch, gamma, standard)
    rounding = 1e-9 * (abs(returns.lo) + abs(returns.hi))
    wrong = np.flatnonzero((g < returns.lo - rounding) | (g > returns.hi + rounding))
    if len(wrong):
        raise ProblemError(
            f"return_range ({returns.lo:g}, {returns.hi:g}) does not hold: episode {wrong[0]} has"
            f" the return {g[wrong[0]]:g} ({len(wrong)} such episodes)"
        )
    return rewards, returns


def _ranges(
    batch: Batch, gamma: float, standard: Standard
) -> tuple[tuple[float, float], ReturnRange]:
    """(reward range, return range), declared or observed; a horizon limits returns to so many
    rewards.
    """
    horizon, longest = standard.horizon, int(batch.time.max()) + 1
    if horizon is not None and longest > horizon:
        raise ProblemError(
            f"horizon {horizon} does not hold: the log has an episode of {longest} steps"
        )
    rewards, returns = found_ranges(
        standard.observed(batch.reward),
        gamma if horizon is None else 0.0,
        None,
        standard.reward_range,
        standard.return_range,
        has_terminal=True,
    )
    if horizon is not None and standard.return_range is None:
        steps = float(discounts(gamma, 0, horizon))
        returns = replace(
            returns, lo=min(rewards[0], steps * rewards[0]), hi=max(rewards[1], steps * rewards[1])
        )
    return rewards, returns


def _discounts_left(weights: Weights, gamma: float, horizon: int | None) -> np.ndarray:
    """What the steps after the last one of every episode would count, so that all steps of an
    episode count the same in total; no step counts more than gamma^t.
    """
    batch = weights.batch
    if batch.survives is None:
        return np.asarray(discounts(gamma, batch.time[batch.last] + 1, horizon))
    counted = np.bincount(batch.episode, weights=np.exp(weights.log_discounts(gamma)))
    return np.asarray(discounts(gamma, 0, horizon) - counted)
