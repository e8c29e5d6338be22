"""Agreement: how far the actions of a log are from what a policy would have taken."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

LIGHT = 0.25  # of the standard deviation: what one visit may weigh in a sum that looks like a gamma
# the policies bet on: Dirichlet rows around the policy, of these concentrations; the policy with
# these shares of uniformly random actions
CONCENTRATIONS = 10.0 ** np.arange(7)
SHARES = 10.0 ** -np.arange(1, 9)


@dataclass(frozen=True, repr=False)
class ActionDistance:
    """Whether a policy can have taken the actions of a log: n [S, A] counts those that it takes,
    with probabilities `policy`; `impossible` [S] rows have others.

    p = min(1, 2 min(p1, p2)), for all states together and for each one as a log of its own.

    p1 comes from Pearson's distance over the common actions. Its law is taken for the gamma
    distribution of its exact mean and variance, which is the chi-square distribution where counts
    are large. An action is rare in a state, and left out, if less than one visit to it is expected
    and a single one would add more than LIGHT of the standard deviation to the distance: no gamma
    distribution looks like that. p1 takes visits for independent.

    p2 = 1 / K sees all actions and is no approximation. K is the mean over other policies of the
    likelihood of the actions under them, over that under the policy. Row by row it is multiplied by
    a ratio of mean 1, given the past, if the policy acts: so E[K] = 1 and P(p2 <= x) <= x (Markov),
    however visits depend on earlier actions and whenever the log was stopped.
    """

    n: np.ndarray
    policy: np.ndarray
    impossible: np.ndarray

    @cached_property
    def _common(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(distance, mean, variance) [S] over the actions that are common in the whole log."""
        return _pearson(self.n, self.policy, _rare(self.n, self.policy, together=True))

    @property
    def distance(self) -> np.ndarray:
        """Pearson's distance of every state, [S], over its common actions."""
        return self._common[0]

    @property
    def degrees(self) -> np.ndarray:
        """The mean of the distance: common actions less 1."""
        return self._common[1]

    @cached_property
    def p_values(self) -> np.ndarray:
        """Of each state."""
        apart = _pearson(self.n, self.policy, _rare(self.n, self.policy, together=False))
        return _joint(_tail(*apart), _log_capital(self.n, self.policy))

    @cached_property
    def p_value(self) -> float:
        """Of all states together."""
        capital = _log_capital(self.n, self.policy).sum(axis=1, keepdims=True)
        return float(_joint(_tail(*(x.sum() for x in self._common)), capital)[0])


def action_distance(n_sa: np.ndarray, policy: np.ndarray) -> ActionDistance:
    """The actions that a log took, n_sa [S, A], against the probabilities [S, A] of a policy."""
    possible = policy > 0
    return ActionDistance(
        np.where(possible, n_sa, 0.0), policy, np.where(possible, 0.0, n_sa).sum(axis=1)
    )


def _joint(p1: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """min(1, 2 min(p1, p2)); `logs` of what each bet made of 1, [bets, ...]."""
    p2 = np.exp(np.log(len(logs)) - np.logaddexp.reduce(logs, axis=0))
    return np.asarray(np.minimum(1.0, 2 * np.minimum(p1, p2)))


def _rare(n: np.ndarray, policy: np.ndarray, *, together: bool) -> np.ndarray:
    """Which actions are rare [S, A], in the whole log or in each state as a log of its own.

    Actions are taken in, the most frequent first, as long as they are common. With e expected
    visits, the term of an action has a variance of about (1 - pi)^2 (2 + 1 / e), and one visit
    makes it 1 / e.
    """
    expected = n.sum(axis=1, keepdims=True) * policy
    shape = (1, -1) if together else expected.shape
    e, rest = expected.reshape(shape), 1 - policy.reshape(shape)
    order = np.argsort(-e, axis=1, kind="stable")
    e, rest = np.take_along_axis(e, order, axis=1), np.take_along_axis(rest, order, axis=1)
    jump = 1 / np.where(e > 0, e, 1.0)
    deviation = np.sqrt(np.cumsum(np.where(e > 0, rest**2 * (2 + jump), 0.0), axis=1))
    common = np.logical_and.accumulate((e >= 1) | ((e > 0) & (jump <= LIGHT * deviation)), axis=1)
    least = np.where(common, e, np.inf).min(axis=1, keepdims=True)
    return np.asarray(expected < least)


def _pearson(
    n_sa: np.ndarray, policy: np.ndarray, rare: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distance sum_a (n(s, a) - n(s) pi(a|s))^2 / (n(s) pi(a|s)) with its mean and variance, in
    the rows whose action is not rare, of which pi is the law.

    With k actions and n visits the mean is k - 1, the variance 2 (k - 1) + (sum_a 1 / pi(a|s) - k^2
    - 2 k + 2) / n (Haldane 1937).
    """
    counted, pi = np.where(rare, 0.0, n_sa), np.where(rare, 0.0, policy)
    n = counted.sum(axis=1)
    seen = n > 0
    pi = pi / np.where(seen, pi.sum(axis=1), 1.0)[:, None]
    there = (pi > 0) & seen[:, None]
    expected = np.where(there, n[:, None] * pi, 1.0)
    distance = np.where(there, (counted - expected) ** 2 / expected, 0.0).sum(axis=1)
    k = there.sum(axis=1)
    mean = np.maximum(k - 1.0, 0.0)
    inverse = np.where(there, 1 / np.where(there, pi, 1.0), 0.0).sum(axis=1)
    extra = (inverse - k**2 - 2 * k + 2) / np.where(seen, n, 1.0)
    return distance, mean, np.where(k > 1, 2 * mean + extra, 0.0)


def _tail(distance: Any, mean: Any, variance: Any) -> np.ndarray:
    """P(X >= distance) for the gamma distribution of this mean and variance, else 1."""
    from scipy import stats  # not at the top: it is slow to load, and few need it

    some = np.asarray((mean > 0) & (variance > 0))
    mean, variance = np.where(some, mean, 1.0), np.where(some, variance, 1.0)
    return np.where(some, stats.gamma.sf(distance, mean**2 / variance, scale=variance / mean), 1.0)


def _log_capital(n_sa: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """The logarithm of what each bet makes of 1 in the rows of each state, [bets, S].

    With b a row of the policy and k its actions, c the concentration and h the share:
    log Gamma(c) / Gamma(c + n(s)) + sum_a log Gamma(c b + n) / Gamma(c b) - n log b,
    sum_a n log( (1 - h + h / (k b)) ).
    """
    from scipy.special import gammaln

    s, a = np.nonzero(n_sa)
    n, b, total = n_sa[s, a], policy[s, a], n_sa.sum(axis=1)
    even = 1 / (b * (policy > 0).sum(axis=1)[s])

    def by_state(x: np.ndarray) -> np.ndarray:
        return np.bincount(s, x, len(total))

    under = n * np.log(b)
    scattered = [
        by_state(gammaln(c * b + n) - gammaln(c * b) - under) + gammaln(c) - gammaln(c + total)
        for c in CONCENTRATIONS
    ]
    mixed = [by_state(n * np.log1p(h * (even - 1))) for h in SHARES]
    return np.array(scattered + mixed)
