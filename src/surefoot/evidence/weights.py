"""Importance weights rho_t = prod_{i <= t} pi(a_i|s_i) / p_i in log space, and how well a log
covers a policy.

p_i is the probability with which the action of row i was chosen: the propensity that the log gives,
row by row, or pi_b(a_i|s_i) of the one policy that made it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.core import Batch
from surefoot.core.array_checks import number_array
from surefoot.core.errors import (
    BaselineError,
    LogError,
    NotAvailableError,
    ProblemError,
    SurefootError,
)
from surefoot.evidence.units import running_sums
from surefoot.logs.given_policies import align_policy
from surefoot.problems.given import SUM_TO_ONE

LARGEST_LOG = 700.0  # e^700 is about the largest number there is
CLIPPED_LOG = 600.0  # weights cut here leave room for rewards


@dataclass(frozen=True)
class Overlap:
    """What share of the evaluation policy the log can speak about; states weigh as often as the log
    visits them.

    unseen: the share of pi's probability on actions never taken where the log was. outside: the
    share on actions that the baseline never takes (pi_b = 0 although pi > 0): they are not
    identified by any amount of data; None without a baseline. outside_pairs counts these pairs over
    all states that are not terminal, visited or not.
    """

    unseen: float
    outside: float | None = None
    outside_pairs: int = 0


@dataclass(frozen=True, repr=False)
class Weights:
    """log rho_t of every row of a log, and how well the log covers pi."""

    log: np.ndarray
    batch: Batch
    pi: np.ndarray
    overlap: Overlap

    @cached_property
    def final_log(self) -> np.ndarray:
        """log rho of each whole episode, [n]."""
        found: np.ndarray = self.log[self.batch.last]
        return found

    @property
    def effective_size(self) -> float:
        """Kish: (sum w)^2 / sum w^2 over whole episodes, n for equal weights; 0 where no episode
        is possible under pi.
        """
        top = self.final_log.max()
        if top == -math.inf:
            return 0.0
        w = np.exp(self.final_log - top)
        return float(w.sum() ** 2 / (w**2).sum())

    @property
    def largest(self) -> float:
        """The largest weight of a whole episode; inf beyond the range of numbers."""
        top = float(self.final_log.max())
        return math.exp(top) if top <= LARGEST_LOG else math.inf

    def episode_weights(self, *, clip: bool = False) -> np.ndarray:
        """rho of each whole episode, [n]; weights beyond the range of numbers are refused, or
        cut at e^600.
        """
        return self._exponential(self.final_log, clip)

    def discounted(self, gamma: float, *, clip: bool = False) -> np.ndarray:
        """gamma^t rho_t of every row: one exponential, so that a small discount and a large
        weight meet before they overflow.
        """
        return self._exponential(self.log + self.log_discounts(gamma), clip)

    def log_discounts(self, gamma: float) -> np.ndarray:
        """log of what a reward at each row counts from the start of its episode: gamma^t, or the
        product of the discounts of the rows before it.
        """
        batch = self.batch
        if gamma == 0:  # 0^0 = 1
            return np.where(batch.time == 0, 0.0, -np.inf)
        if batch.survives is None:
            return np.asarray(batch.time * math.log(gamma))
        with np.errstate(divide="ignore"):
            before = np.append(0.0, np.log(gamma * batch.survives)[:-1])
        return running_sums(batch, np.where(batch.first, 0.0, before))

    def equal(self) -> Weights:
        """The weights of what made the log itself: 1 everywhere."""
        return replace(self, log=np.zeros(len(self.log)))

    def _exponential(self, log: np.ndarray, clip: bool) -> np.ndarray:
        top = float(log.max())
        if top > LARGEST_LOG and not clip:
            raise NotAvailableError(
                f"the importance weights reach e^{top:.0f} (episodes of up to"
                f" {int(self.batch.time.max()) + 1} steps), beyond any number: this log cannot"
                " evaluate this policy by unweighted importance sampling; use a weighted form, a"
                " policy closer to the baseline, or a model"
            )
        found: np.ndarray = np.exp(np.minimum(log, CLIPPED_LOG) if clip else log)
        return found


def weigh(batch: Batch, pi: Any, pi_b: Any = None) -> Weights:
    """The weights of a log, with the policies checked.

    The propensities of the log are taken where it has them, and pi_b is not looked at. Otherwise
    pi_b made the log: pi_b > 0 on every logged action, and wherever pi > 0 in visited states.
    """
    pi = checked_policy("pi", pi, batch)
    contradiction = batch.contradictions()
    if contradiction:
        raise LogError(f"importance sampling needs whole episodes, but {contradiction}")
    if batch.propensity is not None:
        taken, found = batch.propensity, _cover(batch, pi, None)
    else:
        if pi_b is None:
            raise NotAvailableError(
                "importance weights need the probability of every logged action: a column with"
                " propensities (--propensity), or the policy that made the log (--baseline)"
            )
        taken, found = _taken_by(checked_policy("pi_b", pi_b, batch), pi, batch)
    with np.errstate(divide="ignore"):
        ratio = np.log(pi[batch.state, batch.action]) - np.log(taken)
    return Weights(running_sums(batch, ratio), batch, pi, found)


def _taken_by(pi_b: np.ndarray, pi: np.ndarray, batch: Batch) -> tuple[np.ndarray, Overlap]:
    """(pi_b of every logged action, how well it covers pi); raise where pi_b cannot have made the
    log, or never does what pi does.
    """
    taken: np.ndarray = pi_b[batch.state, batch.action]
    wrong = np.flatnonzero(taken <= 0)
    if len(wrong):
        i = wrong[0]
        raise BaselineError(
            f"the log takes {batch.labels.pair(batch.state[i], batch.action[i])} (row"
            f" {batch.row[i]}), which pi_b never does ({len(wrong)} such rows): pi_b is not the"
            " policy that made this log; correct it, or estimate it from the log"
        )
    found = _cover(batch, pi, pi_b)
    if found.outside:
        visited = np.bincount(batch.state, minlength=batch.n_states) > 0
        s, a = np.argwhere((pi > 0) & (pi_b == 0) & visited[:, None])[0]
        raise NotAvailableError(
            f"not identified: pi takes {batch.labels.pair(s, a)} with probability {pi[s, a]:.4g},"
            f" pi_b never does ({found.outside:.2%} of pi in the logged states): no importance"
            " weight makes up for what is never tried; keep pi within the actions of pi_b"
        )
    return taken, found


def overlap(batch: Batch, pi: Any, pi_b: Any = None) -> Overlap:
    """How well the log, and the baseline behind it, cover pi; raises nothing on poor cover, so
    that it can be looked at.
    """
    return _cover(
        batch,
        checked_policy("pi", pi, batch),
        None if pi_b is None else checked_policy("pi_b", pi_b, batch),
    )


def _cover(batch: Batch, pi: np.ndarray, pi_b: np.ndarray | None) -> Overlap:
    shape = (batch.n_states, batch.n_actions)
    n_sa = np.bincount(batch.pair, minlength=shape[0] * shape[1]).reshape(shape)
    visits = n_sa.sum(axis=1, keepdims=True) / len(batch)
    unseen = float((visits * pi * (n_sa == 0)).sum())
    if pi_b is None:
        return Overlap(unseen)
    outside = (pi_b == 0) & (pi > 0)
    outside[batch.terminal] = False
    return Overlap(unseen, float((visits * pi * outside).sum()), int(outside.sum()))


def checked_policy(name: str, pi: Any, batch: Batch) -> np.ndarray:
    """[S, A] probability rows that fit the log, in its order (see `align_policy`); rows of terminal
    states, where nothing is chosen, may be zero or left out ("(end)").
    """
    error: type[SurefootError] = BaselineError if name == "pi_b" else ProblemError
    pi = number_array(name, align_policy(pi, batch), error)
    shape = (batch.n_states, batch.n_actions)
    if batch.has_end and pi.shape == (shape[0] - 1, shape[1]):
        pi = np.concatenate([pi, np.zeros((1, shape[1]))])
    if pi.shape != shape:
        raise error(f"{name} must be [S, A] = {list(shape)} as the log, got {list(pi.shape)}")
    pi[batch.terminal & (pi == 0).all(axis=1)] = 1.0 / shape[1]
    good = (pi >= 0).all(axis=1) & (np.abs(pi.sum(axis=1) - 1) <= SUM_TO_ONE)
    if not good.all():
        s = int(np.flatnonzero(~good)[0])
        raise error(
            f"each row of {name} must hold probabilities that sum to 1: state"
            f" {batch.labels.state(s)} has {np.array2string(pi[s], threshold=8)}"
            f" ({int((~good).sum())} such rows)"
        )
    found: np.ndarray = pi
    return found
