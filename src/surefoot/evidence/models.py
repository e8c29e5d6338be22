"""Estimates that use a model of the log: the value in the model, and doubly robust with the
model of other episodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.core import Batch, Model, SparseModel, count_batch
from surefoot.core.errors import LogError, ParameterError, ProblemError
from surefoot.core.evidence import Evidence
from surefoot.evidence.episodes import take_episodes
from surefoot.evidence.estimates import EpisodeValues, discounted_sums, weighted_estimate
from surefoot.evidence.weights import Weights, checked_policy, overlap, weigh
from surefoot.planning import evaluate
from surefoot.problems import Problem
from surefoot.problems.given import checked_gamma, held_sparse
from surefoot.problems.ranges import found_ranges

FOLDS = 2


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
