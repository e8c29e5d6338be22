"""Estimates of the value of a policy from the log of another, as `EpisodeValues`: importance
sampling, plain, weighted and per decision, and those that use a model of the log.

The value is that of the discounted return from where episodes start up to where they end or are
cut: if episodes are cut at a time limit (or at any time that the history decides), these estimates
know nothing of what would have followed, and say so. Only a model goes on there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.core import Batch, Model, SparseModel, count_batch
from surefoot.core.errors import LogError, NotAvailableError, ParameterError, ProblemError
from surefoot.core.evidence import Evidence
from surefoot.evidence.centring import Control
from surefoot.evidence.units import take_episodes
from surefoot.evidence.weights import Overlap, Weights, checked_policy, overlap, weigh
from surefoot.planning import evaluate
from surefoot.problems import Problem, discounted_returns
from surefoot.problems.given import checked_gamma, held_sparse
from surefoot.problems.ranges import found_ranges
from surefoot.statistics.bounds import uncapped_betting

TOO_HEAVY = 0.01  # level of the bet that weights are too large: so many honest logs are refused
FEW_EFFECTIVE = 30.0  # an estimate that rests on fewer effective episodes is noted
FOLDS = 2


@dataclass(frozen=True, repr=False, kw_only=True)
class EpisodeValues:
    """One value an episode, whose mean is a value of a policy, or its gain; none can lie below `lo`
    (-inf: no floor is known).

    They are i.i.d. as the episodes are. But for ratios, such as the normalised forms of importance
    sampling: x_i is then the ratio and what the episode adds to its error, to first order.
    `declared` says whether the floor rests on declared ranges; effective_size (Kish's (sum w)^2 /
    sum w^2 of whole episodes), largest_weight and overlap are those of pi; effective_size is the
    smaller one where the baseline is weighted too.
    `compared` says what X_b is; `control` is what may centre the values, None where nothing may.
    `shifts` [n, any]: what another range would add to x, but for factors; each has mean 0, and none
    lies below `shift_floor`.
    """

    x: np.ndarray
    effective_size: float
    largest_weight: float
    overlap: Overlap
    lo: float = -math.inf
    declared: bool = True
    compared: str = ""
    control: Control | None = None
    shifts: np.ndarray | None = None
    shift_floor: float = -math.inf
    notes: tuple[str, ...] = ()

    def too_heavy(self, order: np.ndarray) -> str:
        """That the weights are too large, where a bet shows it at level TOO_HEAVY; else "".

        Weights have mean 1 if the actions were chosen as they say, less if some of what a policy
        does cannot happen. If they have more, values are too high, and what the weights were made
        from is wrong. Weights that are too small make values too low: the safe side.
        """
        for shift in () if self.shifts is None else self.shifts.T:
            usable = np.isfinite(shift).all() and math.isfinite(self.shift_floor)
            if usable and uncapped_betting(shift[order], TOO_HEAVY, lo=self.shift_floor).low > 0:
                mean = 1 - float(shift.mean()) / self.shift_floor
                return f"the weights average {mean:.4g}, and must average 1"
        return ""

    @property
    def estimate(self) -> float:
        """The mean, less what the weights alone add to it: x is regressed on its shifts, which have
        mean 0, so no range changes it.
        """
        mean, shifts = float(self.x.mean()), self.shifts
        if shifts is None or not np.isfinite(shifts).all():
            return mean
        size = np.abs(shifts).max(axis=0)
        shifts = shifts[:, size > 0] / size[size > 0]
        scale = float(np.abs(self.x).max()) or 1.0
        there = shifts.mean(axis=0)
        k = np.linalg.lstsq(shifts - there, (self.x - mean) / scale, rcond=None)[0]
        return mean - scale * float(there @ k)

    @property
    def weighing(self) -> dict[str, float]:
        """How much evidence the weights leave, as data for machines."""
        return {
            "effective_episodes": self.effective_size,
            "largest_weight": self.largest_weight,
            "share_never_tried": self.overlap.unseen,
        }

    def __repr__(self) -> str:
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        size = f"{len(self.x)} episodes, effectively {self.effective_size:.1f}"
        return f"EpisodeValues({self.estimate:.6g} from {size}){notes}"


def importance_sampling(batch: Batch, pi: Any, pi_b: Any, gamma: float) -> EpisodeValues:
    """X_i = rho_T G_i,  G_i = sum_t gamma^t r_t: unbiased, i.i.d. over episodes, of a variance that
    grows exponentially with T.

    Precup, Sutton & Singh, ICML 2000.
    """
    gamma, weights = checked_gamma(gamma), weigh(batch, pi, pi_b)
    x = weights.episode_weights() * episode_returns(batch, gamma)
    return weighted_estimate(x, weights)


def weighted_importance_sampling(batch: Batch, pi: Any, pi_b: Any, gamma: float) -> EpisodeValues:
    """sum_i rho_i G_i / sum_i rho_i: biased towards V^{pi_b} for few episodes, consistent, never
    outside the returns seen.
    """
    gamma, weights = checked_gamma(gamma), weigh(batch, pi, pi_b)
    w, g = _shares(weights.final_log), episode_returns(batch, gamma)
    value = float(w @ g)
    return weighted_estimate(value + len(g) * w * (g - value), weights)


def per_decision(batch: Batch, pi: Any, pi_b: Any, gamma: float) -> EpisodeValues:
    """X_i = sum_t gamma^t rho_t r_t: unbiased, i.i.d. over episodes; a reward is weighted by the
    decisions before it only.
    """
    gamma, weights = checked_gamma(gamma), weigh(batch, pi, pi_b)
    x = discounted_sums(weights, gamma, batch.reward)
    return weighted_estimate(x, weights)


def weighted_per_decision(batch: Batch, pi: Any, pi_b: Any, gamma: float) -> EpisodeValues:
    """sum_t gamma^t ( sum_i rho_it r_it / sum_i rho_it ): normalised at every step; biased,
    consistent (Thomas 2015, CWPDIS).

    An episode that has stopped keeps its last weight in the sum below the line (it goes on, with
    rewards 0): a sum over the episodes still running would estimate the rewards of those that last,
    not of all. The scores are those of a sum of ratios:
        n sum_t ( gamma^t rho_it r_it - R_t rho_it ) / sum_i rho_it,   R_t the ratio at step t.
    """
    gamma, weights = checked_gamma(gamma), weigh(batch, pi, pi_b)
    value, n, last = 0.0, batch.n_episodes, weights.final_log
    scores, length = np.zeros(n), batch.time[batch.last] + 1
    reward = np.exp(weights.log_discounts(gamma)) * batch.reward  # as it counts at the start
    for t, rows, below in _by_time(weights):
        if below == -math.inf:
            raise NotAvailableError(
                f"no logged episode is possible under pi up to step {t}: the weights of a"
                " normalised sum are all 0"
            )
        share = np.exp(weights.log[rows] - below)
        ratio = float(share @ reward[rows])
        value += ratio
        scores[batch.episode[rows]] += n * share * (reward[rows] - ratio)
        if ratio:
            stopped = length <= t
            scores[stopped] -= n * ratio * np.exp(last[stopped] - below)
    return weighted_estimate(value + scores, weights)


def episode_returns(batch: Batch, gamma: float) -> np.ndarray:
    """G_i = sum_t gamma^t r_t of every episode, up to its end or cut."""
    found: np.ndarray = discounted_returns(batch, gamma)[batch.first]
    return found


def discounted_sums(weights: Weights, gamma: float, x: np.ndarray) -> np.ndarray:
    """sum_t gamma^t rho_t x_t of every episode."""
    found: np.ndarray = np.bincount(weights.batch.episode, weights=weights.discounted(gamma) * x)
    return found


def weighted_estimate(x: np.ndarray, weights: Weights) -> EpisodeValues:
    """Values with what their weights say about them."""
    return EpisodeValues(
        x=x, effective_size=weights.effective_size, largest_weight=weights.largest,
        overlap=weights.overlap, notes=weight_notes(weights),
    )  # fmt: skip


def weight_notes(weights: Weights) -> tuple[str, ...]:
    """What a user should know about values from these weights."""
    n, cut = weights.batch.n_episodes, int(weights.batch.cuts.sum())
    size, outside = weights.effective_size, weights.overlap.outside_pairs
    notes = []
    if cut:
        notes.append(
            f"{cut} of {n} episodes are cut, not ended: the value is that of the return up to"
            " the cut"
        )
    if size == 0:
        notes.append("no logged episode is possible under pi: the values rest on nothing")
    elif size < min(FEW_EFFECTIVE, 0.99 * n):
        notes.append(f"effectively {size:.1f} of {n} episodes carry the values")
    if outside:
        notes.append(
            f"pi uses {outside} pairs that pi_b never takes, in states that the log never visits"
        )
    return tuple(notes)


def _shares(log: np.ndarray) -> np.ndarray:
    """w / sum w from log w, whatever their size."""
    top = log.max()
    if top == -math.inf:
        raise NotAvailableError(
            "no logged episode is possible under pi: the weights of a normalised sum are all 0"
        )
    w = np.exp(log - top)
    shares: np.ndarray = w / w.sum()
    return shares


def _by_time(weights: Weights) -> Iterator[tuple[int, np.ndarray, float]]:
    """(t, rows at step t, log of the sum of the weights of all episodes at t, those that have
    stopped included).
    """
    time, last = weights.batch.time, weights.batch.last
    order = np.argsort(time, kind="stable")
    edges = np.searchsorted(time[order], np.arange(int(time.max()) + 2))
    stopped = -math.inf
    for t in range(len(edges) - 1):
        rows = order[edges[t] : edges[t + 1]]
        yield t, rows, float(np.logaddexp(stopped, _log_sum(weights.log[rows])))
        stopped = float(np.logaddexp(stopped, _log_sum(weights.log[rows[last[rows]]])))


def _log_sum(log: np.ndarray) -> float:
    """log sum exp, -inf of nothing."""
    top = log.max(initial=-math.inf)
    return -math.inf if top == -math.inf else float(top + np.log(np.exp(log - top).sum()))


def fitted_model(
    batch: Batch, gamma: float, *, reward_range: Any = None, return_range: Any = None
) -> Model:
    """The maximum-likelihood model of a log, as every `Problem` has it: a pair never seen is
    worth lo, the lowest possible return.
    """
    gamma = checked_gamma(gamma)
    seen = float(batch.reward.min()), float(batch.reward.max())
    rewards, returns = found_ranges(
        seen, gamma, None, reward_range, return_range, has_terminal=True
    )
    s, a = batch.n_states, batch.n_actions
    return Problem(
        counts=count_batch(batch, s, a, as_sparse=held_sparse(None, s, a)),
        pi_b=np.full((s, a), 1.0 / a),
        gamma=gamma,
        start=np.full(s, 1.0 / s),
        terminal=batch.terminal,
        allowed=np.ones((s, a), dtype=bool),
        return_range=returns,
        reward_range=rewards,
    ).model


def model_based(
    batch: Batch,
    pi: Any,
    gamma: float,
    *,
    pi_b: Any = None,
    reward_range: Any = None,
    return_range: Any = None,
) -> Evidence:
    """The mean over the logged starts of v^pi in the maximum-likelihood model.

    Its variance is low; its bias cannot be seen from the log. The model continues where an episode
    was cut, so this is the value of whole returns. There are no i.i.d. values, and so no bounds:
    one model is behind all of them.
    """
    pi = checked_policy("pi", pi, batch)
    model = fitted_model(batch, gamma, reward_range=reward_range, return_range=return_range)
    v, _ = action_values(model, pi)
    cover, cut, notes = overlap(batch, pi, pi_b), int(batch.cuts.sum()), []
    if cut:
        notes.append(
            f"{cut} of {batch.n_episodes} episodes are cut: the model goes on there, the value is"
            " that of whole returns"
        )
    if cover.unseen:
        notes.append(
            f"{cover.unseen:.2%} of pi lies on pairs never seen, which the model values at the"
            " lowest return"
        )
    return Evidence(
        estimate=float(v[batch.state[batch.first]].mean()), units=batch.n_episodes,
        trouble="one model is behind all values", notes=tuple(notes),
    )  # fmt: skip


def doubly_robust(
    batch: Batch,
    pi: Any,
    pi_b: Any,
    gamma: float,
    *,
    model: Model | None = None,
    folds: int = FOLDS,
    reward_range: Any = None,
    return_range: Any = None,
) -> EpisodeValues:
    """X_t = v(s_t) + (pi/pi_b) ( r_t + gamma X_{t+1} - q(s_t, a_t) ),  X = 0 after the last step
    (Jiang & Li, ICML 2016, eq. 10).

    q and v = sum_a pi q come from a model that has not seen the episode: `model` (of a training
    part: the values are then i.i.d.), or by cross-fitting the model of the other folds (episode i
    is in fold i mod folds; values are then i.i.d. within a fold only, given the others). Unbiased
    for any q; its variance is small where q is right.
    """
    gamma, weights = checked_gamma(gamma), weigh(batch, pi, pi_b)
    if model is not None:
        x = doubly_robust_values(weights.pi, weights, model, gamma)
        return weighted_estimate(x, weights)
    if isinstance(folds, bool) or folds != int(folds) or folds < 2:
        raise ParameterError(f"folds must be a whole number >= 2, got {folds!r}")
    if batch.n_episodes < folds:
        raise LogError(
            f"{batch.n_episodes} episodes cannot be dealt to {folds} folds: give fewer folds, or a"
            " model of other data"
        )
    fold = np.arange(batch.n_episodes) % int(folds)
    x = np.empty(batch.n_episodes)
    for k in range(int(folds)):
        rest = take_episodes(batch, fold != k)
        others = fitted_model(rest, gamma, reward_range=reward_range, return_range=return_range)
        x[fold == k] = doubly_robust_values(weights.pi, weights, others, gamma)[fold == k]
    return weighted_estimate(x, weights)


def doubly_robust_values(
    pi: np.ndarray, weights: Weights, model: Model, gamma: float
) -> np.ndarray:
    """X_i = v(s_0) + sum_t gamma^t rho_t ( r_t + gamma v(s_{t+1}) - q(s_t, a_t) ): the recursion
    written out.

    So it is per-decision importance sampling of what the model did not foresee, and cannot overflow
    where that does not.
    """
    batch = weights.batch
    shape = batch.n_states, batch.n_actions
    if (model.n_states, model.n_actions) != shape or model.gamma != gamma:
        raise ProblemError(
            f"the model must be of {batch.n_states} states x {batch.n_actions} actions with gamma"
            f" {gamma:g}, got {model!r}"
        )
    v, q = action_values(model, pi)
    after = np.where(batch.last, 0.0, v[batch.next_state])
    surprise = batch.reward + batch.discounts(gamma) * after - q[batch.state, batch.action]
    x: np.ndarray = v[batch.state[batch.first]] + discounted_sums(weights, gamma, surprise)
    return x


def action_values(model: Model, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(v [S], q [S, A]) of pi in the model, with v = sum_a pi q to rounding."""
    v = evaluate(model, pi, tolerance=None)
    q = model.backup(v[None] if isinstance(model, SparseModel) else v).reshape(pi.shape)
    return (pi * q).sum(axis=1), q
