"""Importance-sampling estimates of the value of a policy from the log of another: IS, weighted IS,
and both per decision.

The value is that of the discounted return from where episodes start up to where they end or are
cut: if episodes are cut at a time limit (or at any time that the history decides), these estimates
know nothing of what would have followed, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.core import Batch
from surefoot.errors import NotAvailableError
from surefoot.ope.weights import Overlap, Weights, weigh
from surefoot.problems import discounted_returns
from surefoot.problems.given import checked_gamma

FEW_EFFECTIVE = 30.0  # an estimate that rests on fewer effective episodes is noted


@dataclass(frozen=True, repr=False, kw_only=True)
class ValueEstimate:
    """The estimated value of a policy, and what it rests on.

    values            one value an episode, i.i.d. as the episodes are, with `value` their mean;
                      None where an estimate has no such form
    scores            what each episode adds to the error, to first order: their mean is about 0,
                      and their scatter over sqrt(n) is that of the value; None where it is unknown
    effective_size    Kish's (sum w)^2 / sum w^2 of the weights of whole episodes; None without
                      weights
    largest_weight    of a whole episode; None without weights
    overlap           the share of the policy that the log (and the baseline) cover
    n_cut             episodes that were cut, not ended
    """

    method: str
    value: float
    values: np.ndarray | None
    effective_size: float | None
    largest_weight: float | None
    overlap: Overlap
    n_episodes: int
    n_cut: int
    scores: np.ndarray | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for x in (self.values, self.scores):
            if x is not None:
                x.flags.writeable = False

    def __repr__(self) -> str:
        size = "" if self.effective_size is None else f", effectively {self.effective_size:.1f}"
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        return (
            f"ValueEstimate({self.method}: {self.value:.6g} from {self.n_episodes}"
            f" episodes{size}){notes}"
        )


def importance_sampling(batch: Batch, pi: Any, pi_b: Any, gamma: float) -> ValueEstimate:
    """X_i = rho_T G_i,  G_i = sum_t gamma^t r_t: unbiased, i.i.d. over episodes, of a variance that
    grows exponentially with T.

    Precup, Sutton & Singh, ICML 2000.
    """
    gamma, weights = checked_gamma(gamma), weigh(batch, pi, pi_b)
    x = weights.episode_weights() * episode_returns(batch, gamma)
    return weighted_estimate("is", float(x.mean()), weights, x)


def weighted_importance_sampling(batch: Batch, pi: Any, pi_b: Any, gamma: float) -> ValueEstimate:
    """sum_i rho_i G_i / sum_i rho_i: biased towards V^{pi_b} for few episodes, consistent, never
    outside the returns seen.
    """
    gamma, weights = checked_gamma(gamma), weigh(batch, pi, pi_b)
    w, g = _shares(weights.final_log), episode_returns(batch, gamma)
    value = float(w @ g)
    return weighted_estimate("wis", value, weights, scores=len(g) * w * (g - value))


def per_decision(batch: Batch, pi: Any, pi_b: Any, gamma: float) -> ValueEstimate:
    """X_i = sum_t gamma^t rho_t r_t: unbiased, i.i.d. over episodes; a reward is weighted by the
    decisions before it only.
    """
    gamma, weights = checked_gamma(gamma), weigh(batch, pi, pi_b)
    x = discounted_sums(weights, gamma, batch.reward)
    return weighted_estimate("pdis", float(x.mean()), weights, x)


def weighted_per_decision(batch: Batch, pi: Any, pi_b: Any, gamma: float) -> ValueEstimate:
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
    return weighted_estimate("wpdis", value, weights, scores=scores)


def episode_returns(batch: Batch, gamma: float) -> np.ndarray:
    """G_i = sum_t gamma^t r_t of every episode, up to its end or cut."""
    found: np.ndarray = discounted_returns(batch, gamma)[batch.first]
    return found


def discounted_sums(weights: Weights, gamma: float, x: np.ndarray) -> np.ndarray:
    """sum_t gamma^t rho_t x_t of every episode."""
    found: np.ndarray = np.bincount(weights.batch.episode, weights=weights.discounted(gamma) * x)
    return found


def weighted_estimate(
    method: str,
    value: float,
    weights: Weights,
    values: np.ndarray | None = None,
    scores: np.ndarray | None = None,
) -> ValueEstimate:
    """An estimate with what its weights say about it; values are scores but for their mean."""
    if values is not None:
        scores = values - value
    return ValueEstimate(
        method=method,
        value=value,
        values=values,
        effective_size=weights.effective_size,
        largest_weight=weights.largest,
        overlap=weights.overlap,
        n_episodes=weights.batch.n_episodes,
        n_cut=int(weights.batch.cuts.sum()),
        scores=scores,
        notes=weight_notes(weights),
    )


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
