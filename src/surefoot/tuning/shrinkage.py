"""Shrinkage: how far states and actions differ, as far as the whole log shows it, in every drawn
model.

A log of many states has many pairs that did well by chance. So every mean is shrunk towards the
mean of its kind (empirical Bayes):

    arrivals    R(s'), the mean reward of all arrivals at s', towards the mean of all rewards
    states      e(s), the mean of  r - R(s')  over the visits of s, towards 0
    successors  p_sa . h  with  h(s') = R(s') + gamma v(s'),  v the baseline's values: towards that
                of all visits of s
    rewards     the mean of  r - R(s')  over the visits of (s, a), towards that of s plus  beta
                pi_b(a|s)

The prior of each: it is as its kind, to the worth of c visits; c = inf says that its kind does not
differ at all.

    R(s') ~ N(., sigma^2 / c),  e(s) and mean residuals of pairs alike, sigma^2 the variance within
    beta ~ N(0, 4 sigma^2 / c):  where usual actions pay more in many states, a rare one that did
    well by chance is not believed p_sa ~ Dirichlet(c m_s),  m_s the shares of the successors of s:
    p_sa . h has the mean  (n p_hat . h + c m_s . h) / (n + c)

The four c each have a posterior over a grid, with half of its prior on c = inf; those of pairs are
fitted to the states in which two actions or more were seen (successors: the rows of all but the
most frequent action). Every model draws its own c: where the log does not exclude that the actions
of a state are the same, they are in some of the models. A drawn model keeps the transitions of the
posterior; its rewards are such that the advantages of the baseline are the shrunk ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from surefoot.planning import evaluate
from surefoot.rows.arrays import Array, to_numpy
from surefoot.simulate import Worlds
from surefoot.tuning.posterior import Posterior, draws, normals

VISITS = np.append(2.0 ** np.arange(-6, 15), np.inf)  # the grid of c
EQUAL = 0.5  # prior probability of c = inf
LEAN_STATE, LEAN_ALL = (
    10.0,
    3.0,
)  # so many visits count the variance of a state in that of its pairs, and that of all in that of a state
NOTHING = (
    1e-9  # a variance of rewards, as a share of the squared reward range, that is as good as 0
)
STEEP = 4.0  # prior variance of beta: so often that of a pair
BY_SUCCESSOR, BY_REWARD, OWN, SLOPE, ARRIVAL, STATE = (
    -21,
    -22,
    -23,
    -24,
    -31,
    -33,
)  # what the draws are for


class Shrinkage:
    """The shrunk models of a posterior: `worlds(keys)` draws one for every key."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior, problem = posterior, posterior.problem
        self.n = to_numpy(problem.counts.n_sas)
        self.n_sa = self.n.sum(axis=-1)
        self.pi_b = to_numpy(problem.pi_b)
        self.live = ~to_numpy(problem.terminal)
        declared, rest = problem.reward_table, problem.counts.r_rest
        self.each = (
            self.n * to_numpy(declared) if declared is not None else to_numpy(problem.counts.r_sas)
        )
        self.each = self.each / np.maximum(self.n, 1.0)  # the mean reward of every triple
        self.rest = (
            np.zeros(self.n_sa.shape) if declared is not None or rest is None else to_numpy(rest)
        )
        self.arrival = (self.n * self.each).sum(axis=(0, 1)) / np.maximum(
            self.n.sum(axis=(0, 1)), 1.0
        )
        low, high = problem.reward_range
        self.smallest = NOTHING * (high - low) ** 2 + 1e-300

    @cached_property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """p_hat [S, A, S'] and m_s [S, S']."""
        n_s = np.maximum(self.n_sa.sum(axis=1), 1.0)
        return self.n / np.maximum(self.n_sa, 1.0)[..., None], self.n.sum(axis=1) / n_s[:, None]

    @cached_property
    def residual(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean residual of every pair [S, A], the variance of that mean [S, A], and the
        variance of one residual of a state [S].
        """
        each = np.where(self.n > 0, self.each - self.arrival, 0.0)
        mean = (self.n * each).sum(axis=-1) / np.maximum(self.n_sa, 1.0)
        scatter = (self.n * (each - mean[..., None]) ** 2).sum(axis=-1) + self.rest
        freedom = np.maximum(self.n_sa - 1.0, 0.0)
        everywhere = max(scatter.sum() / max(freedom.sum(), 1.0), self.smallest)
        state = (scatter.sum(axis=1) + LEAN_ALL * everywhere) / (freedom.sum(axis=1) + LEAN_ALL)
        pair = (scatter + LEAN_STATE * state[:, None]) / (freedom + LEAN_STATE)
        return mean, pair / np.maximum(self.n_sa, 1.0), state

    @cached_property
    def compared(self) -> np.ndarray:
        """Pairs seen in states in which two actions or more were seen, [S, A]."""
        seen = (self.n_sa > 0) & self.live[:, None]
        return np.asarray(seen & (seen.sum(axis=1, keepdims=True) > 1))

    @cached_property
    def by_successors(self) -> np.ndarray:
        """P(c | where pairs lead), over VISITS: Dirichlet-multinomial rows around what the other
        actions of the state did.

        N visits of other actions are worth N + 1 visits at most:  1 / concentration = 1 / c + 1 /
        (N + 1).
        """
        other = self.compared & (self.n_sa.argmax(axis=1)[:, None] != np.arange(self.n_sa.shape[1]))
        s, a, to = np.nonzero(self.n * other[..., None])
        n, share, total = self.n[s, a, to], self._share_of_others(s, a, to), self.n_sa[other]
        others = self.n_sa.sum(axis=1, keepdims=True) - self.n_sa + 1.0
        fit = []
        for c in VISITS:
            worth = 1 / (1 / c + 1 / others)
            own, row = worth[s, a] * share, worth[other]
            fit.append(
                float(
                    (gammaln(n + own) - gammaln(own)).sum()
                    + (gammaln(row) - gammaln(total + row)).sum()
                )
            )
        return _posterior(fit)

    def _share_of_others(self, s: np.ndarray, a: np.ndarray, to: np.ndarray) -> np.ndarray:
        """The share of s' among the successors of the other actions of s; new ones have the
        share of those seen once (Good & Turing).
        """
        from_s = self.n.sum(axis=1)
        n_s, once = from_s.sum(axis=1), (from_s == 1).sum(axis=1)
        new = (once + 0.5) / (n_s + 1.0)
        anywhere = self.n.sum(axis=(0, 1)) / self.n.sum()
        others = (from_s[s, to] - self.n[s, a, to]) / np.maximum(n_s[s] - self.n_sa[s, a], 1.0)
        return np.asarray((1 - new[s]) * others + new[s] * anywhere[to])

    @cached_property
    def by_rewards(self) -> np.ndarray:
        """P(c | what pairs pay), over VISITS: normal, with the mean of every state (flat prior)
        and beta integrated out.
        """
        fit = []
        for c in VISITS:
            weight, x, y = self._within(self.compared, self.residual[2][:, None] / c)
            total = weight.sum(axis=1)
            slope, _ = self._slope(weight, x, y, np.array(c))
            far = (weight * y**2).sum() - slope * (weight * x * y).sum()
            free = (
                np.log(np.where(weight > 0, weight, 1.0)).sum()
                - np.log(np.where(total > 0, total, 1.0)).sum()
            )
            fit.append(
                0.5 * float(free - far - np.log1p(self._slope_prior / c * (weight * x**2).sum()))
            )
        return _posterior(fit)

    @property
    def _slope_prior(self) -> float:
        """The prior variance of beta, times c."""
        return float(STEEP * np.average(self.residual[2], weights=self.n_sa.sum(axis=1)))

    def _within(
        self, seen: np.ndarray, between: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights of the pairs, pi_b and mean residuals less their weighted means in the state,
        [..., S, A].
        """
        weight = np.where(seen, 1 / (between + self.residual[1]), 0.0)
        total = np.maximum(weight.sum(axis=-1, keepdims=True), 1e-300)
        x, y = (
            (weight * z).sum(axis=-1, keepdims=True) / total for z in (self.pi_b, self.residual[0])
        )
        return weight, self.pi_b - x, self.residual[0] - y

    def _slope(
        self, weight: np.ndarray, x: np.ndarray, y: np.ndarray, c: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of beta given c, [...]."""
        prior = self._slope_prior / c
        spread = prior / (1 + prior * (weight * x**2).sum(axis=(-2, -1)))
        return spread * (weight * x * y).sum(axis=(-2, -1)), spread

    def worlds(self, keys: Array) -> Worlds:
        """A model drawn for every key [K]: the posterior's, with shrunk rewards, and shrunk
        advantages in every state acted in.
        """
        worlds, arrival = self.posterior.worlds(keys), self.arrival[None]
        if self.posterior.problem.reward_table is None:
            arrival, state = self._levels(keys)
            worlds = replace(
                worlds, reward_table=arrival[:, None, None, :] + state[:, :, None, None]
            )
        v = evaluate(worlds.model, worlds.pi_b)
        advantage = worlds.model.backup(v) - v[..., None]
        h = arrival + self.posterior.problem.gamma * v * self.live
        change = (self.advantages(h, keys) - advantage) * (self.live & (self.n_sa.sum(axis=1) > 0))[
            :, None
        ]
        return replace(worlds, reward_table=worlds.reward_table + change[..., None])

    def advantages(self, h: np.ndarray, keys: Array) -> np.ndarray:
        """Shrunk advantages [K, S, A], one draw for every key, where an arrival is worth h [K,
        S']; their mean under pi_b is 0.
        """
        (mean, variance), (own, spread) = self._from_successors(h.T, keys), self._from_rewards(keys)
        found = mean + own + np.sqrt(variance + spread) * normals(keys, OWN, self.n_sa.shape)
        return np.asarray(found - (self.pi_b * found).sum(axis=-1, keepdims=True))

    def _from_successors(self, h: np.ndarray, keys: Array) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance [K, S, A] of p_sa . h given c, h [S', K]."""
        (p, m), c = self.shares, _drawn(self.by_successors, keys, BY_SUCCESSOR)
        trust = np.where(np.isinf(c), 0.0, self.n_sa / (self.n_sa + np.where(np.isinf(c), 1.0, c)))

        def mixed(x: np.ndarray) -> np.ndarray:
            pair, state = np.moveaxis(p @ x, -1, 0), (m @ x).T[..., None]
            return np.asarray(state + trust * (pair - state))

        mean = mixed(h)
        return mean, np.maximum(mixed(h**2) - mean**2, 0.0) / (self.n_sa + c + 1.0)

    def _from_rewards(self, keys: Array) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance [K, S, A] of the mean residual given c; a pair never seen has those
        of the prior.
        """
        mean, error, state = self.residual
        c = _drawn(self.by_rewards, keys, BY_REWARD)
        between, seen = state[:, None] / c, self.n_sa > 0
        weight, x, y = self._within(seen, between)
        slope, spread = self._slope(weight, x, y, c[:, 0, 0])
        slope = slope + np.sqrt(spread) * normals(keys, SLOPE, (1,))[:, 0]
        prior = mean - y + slope[:, None, None] * x
        trust = np.where(seen, between / (between + error), 0.0)
        return prior + trust * (mean - prior), np.where(seen, trust * error, between)

    def _levels(self, keys: Array) -> tuple[np.ndarray, np.ndarray]:
        """R(s') [K, S'] and e(s) [K, S], each shrunk across states."""
        n_to, n_from = self.n.sum(axis=(0, 1)), self.n_sa.sum(axis=1)
        middle = (self.n * self.each).sum() / n_to.sum()
        residual = (self.n_sa * self.residual[0]).sum(axis=1) / np.maximum(n_from, 1.0)

        def level(mean: np.ndarray, n: np.ndarray, fitted: np.ndarray, what: int) -> np.ndarray:
            scatter = (self.n * (self.each - fitted) ** 2).sum() + self.rest.sum()
            return _level(
                mean, n, max(scatter / max(n.sum() - (n > 0).sum(), 1.0), self.smallest), keys, what
            )

        arrival = level(self.arrival - middle, n_to, self.arrival, ARRIVAL)
        return middle + arrival, level(
            residual, n_from, self.arrival + residual[:, None, None], STATE
        )


def _level(mean: np.ndarray, n: np.ndarray, variance: float, keys: Array, what: int) -> np.ndarray:
    """Draws [K, S] of what the means of n values, which scatter by this variance, are behind
    their noise: N(0, variance / c) a priori.
    """
    seen, error = n > 0, variance / np.maximum(n, 1.0)
    fit = [
        float(-0.5 * (np.log(error + variance / c) + mean**2 / (error + variance / c))[seen].sum())
        for c in VISITS
    ]
    between = variance / _drawn(_posterior(fit), keys, what)[..., 0]
    trust = np.where(seen, between / (between + error), 0.0)
    spread = np.where(seen, trust * error, between)
    return np.asarray(trust * mean + np.sqrt(spread) * normals(keys, what - 1, mean.shape))


def _posterior(fit: list[float]) -> np.ndarray:
    """P(c | log) over VISITS from log-likelihoods."""
    prior = np.append(np.full(len(VISITS) - 1, (1 - EQUAL) / (len(VISITS) - 1)), EQUAL)
    found = np.exp(np.array(fit) - max(fit)) * prior
    return np.asarray(found / found.sum())


def _drawn(probability: np.ndarray, keys: Array, what: int) -> np.ndarray:
    """c [K, 1, 1] for every key."""
    at = np.searchsorted(np.cumsum(probability), draws(keys, what, 1), side="right")
    return np.asarray(VISITS[np.minimum(at, len(VISITS) - 1)][..., None])
