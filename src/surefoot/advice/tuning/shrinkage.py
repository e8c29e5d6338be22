"""Shrinkage: in every drawn model, states and actions differ as far as the whole log shows it.

A log of many states has many pairs that did well by chance. So every mean is shrunk towards the
mean of its kind (empirical Bayes: Efron and Morris, JASA 70, 1975; Morris, JASA 78, 1983):

    arrivals    R(s'), the mean reward of all arrivals at s', towards the mean of all rewards
    states      e(s), the mean residual  r - R(s')  over the visits of s, towards 0
    successors  p_sa . h  with  h(s') = R(s') + gamma v(s'),  v the baseline's values: towards that
                of all visits of s
    rewards     the mean residual over the visits of (s, a), towards that of s plus  beta pi_b(a|s)

The prior of each is worth c visits of its kind; c = inf says that its kind does not differ at all.

    arrivals, states, rewards   N(mean of the kind, sigma^2 / c), sigma^2 the variance within
    beta                        N(0, 4 sigma^2 / c): where usual actions pay more in many states, a
                                rare one that did well by chance is not believed
    successors                  p_sa ~ Dirichlet(c m_s), m_s the shares of the successors of s:
                                p_sa . h has the mean  (n p_hat . h + c m_s . h) / (n + c)

The four c each have a posterior over a grid, with half of its prior on c = inf; those of pairs are
fitted to the states in which two actions or more were seen (successors: the rows of all but the
most frequent action). Every model draws its own c: where the log does not exclude that the actions
of a state are the same, they are in some of the models. A drawn model keeps the transitions of the
posterior; its rewards are such that the advantages of the baseline are the shrunk ones. Where the
possible rewards are declared, they also have outcomes that no visit has shown (`_unseen`).

All normal posteriors below are the usual ones: an observed mean with error variance V and a prior
N(m, B) has the posterior mean  m + t (mean - m)  and variance  t V,  with  t = B / (B + V).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from surefoot.advice.tuning.posterior import Posterior, draws, normals
from surefoot.core.arrays import Array, to_numpy
from surefoot.planning import evaluate
from surefoot.research.simulate import Worlds

VISITS = np.append(2.0 ** np.arange(-6, 15), np.inf)  # the grid of c
EQUAL = 0.5  # prior probability of c = inf
LEAN_STATE = 10.0  # visits with which the variance of a state counts in that of its pairs
LEAN_ALL = 3.0  # visits with which the variance of all counts in that of a state
NO_VARIANCE = 1e-9  # share of the squared reward range below which a variance is as good as 0
STEEP = 4.0  # prior variance of beta: so often that of a pair
BY_SUCCESSOR, BY_REWARD, OWN, SLOPE, ARRIVAL, STATE = -21, -22, -23, -24, -31, -33  # uses of draws
WORST, BEST = -25, -26


class Shrinkage:
    """The shrunk models of a posterior: `worlds(keys)` draws one for every key."""

    def __init__(self, posterior: Posterior) -> None:
        self.posterior, problem = posterior, posterior.problem
        self.n = to_numpy(problem.counts.n_sas)
        self.n_sa = self.n.sum(axis=-1)
        self.n_s, self.n_to = self.n_sa.sum(axis=1), self.n.sum(axis=(0, 1))
        self.pi_b = to_numpy(problem.pi_b)
        self.live = ~to_numpy(problem.terminal)
        table, rest = problem.reward_table, problem.counts.r_rest
        r = to_numpy(problem.counts.r_sas) if table is None else self.n * to_numpy(table)
        scatters = table is None and rest is not None
        self.each = r / np.maximum(self.n, 1.0)  # the mean reward of every triple
        self.rest = to_numpy(rest) if scatters else np.zeros(self.n_sa.shape)
        self.arrival = (self.n * self.each).sum(axis=(0, 1)) / np.maximum(self.n_to, 1.0)
        low, high = problem.reward_range
        self.smallest = NO_VARIANCE * (high - low) ** 2 + 1e-300

    @cached_property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """p_hat [S, A, S'] and m_s [S, S']."""
        n_s, n_sa = (np.maximum(x, 1.0)[..., None] for x in (self.n_s, self.n_sa))
        return self.n / n_sa, self.n.sum(axis=1) / n_s

    @cached_property
    def residual(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean residuals of pairs [S, A], the variance of each mean [S, A], sigma^2 of states [S].

        Variances lean on those of the next larger group: a pair's on its state's, that on all.
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
        """P(c | where pairs lead), over VISITS.

        Rows are Dirichlet-multinomial around what the other actions of the state did. N visits of
        other actions are worth N + 1 visits at most:  1 / concentration = 1 / c + 1 / (N + 1).
        """
        other = self.compared & (self.n_sa.argmax(axis=1)[:, None] != np.arange(self.n_sa.shape[1]))
        s, a, to = np.nonzero(self.n * other[..., None])
        n, share, total = self.n[s, a, to], self._share_of_others(s, a, to), self.n_sa[other]
        others = self.n_s[:, None] - self.n_sa + 1.0
        fit = []
        for c in VISITS:
            worth = 1 / (1 / c + 1 / others)
            own, row = worth[s, a] * share, worth[other]
            cells, rows = gammaln(n + own) - gammaln(own), gammaln(row) - gammaln(total + row)
            fit.append(float(cells.sum() + rows.sum()))
        return _posterior(fit)

    def _share_of_others(self, s: np.ndarray, a: np.ndarray, to: np.ndarray) -> np.ndarray:
        """The share of s' among the successors of the other actions of s.

        New ones together have the share of those seen once (Good, Biometrika 40, 1953).
        """
        from_s = self.n.sum(axis=1)
        new = ((from_s == 1).sum(axis=1) + 0.5) / (self.n_s + 1.0)
        anywhere = self.n_to / self.n.sum()
        others = (from_s[s, to] - self.n[s, a, to]) / np.maximum(self.n_s[s] - self.n_sa[s, a], 1.0)
        return np.asarray((1 - new[s]) * others + new[s] * anywhere[to])

    @cached_property
    def by_rewards(self) -> np.ndarray:
        """P(c | what pairs pay), over VISITS.

        Mean residuals are normal,  y_sa ~ N(mu_s + beta x_sa, 1 / w_sa)  with x = pi_b. With mu_s
        (flat prior) and beta (prior variance B) integrated out, and x and y less their weighted
        means in the state, the log-likelihood is half of

            sum ln w - sum_s ln sum_a w - sum w y^2 + beta_hat sum w x y - ln(1 + B sum w x^2)
        """
        fit = []
        for c in VISITS:
            weight, x, y = self._within(self.compared, self.residual[2][:, None] / c)
            total = weight.sum(axis=1)
            slope, _ = self._slope(weight, x, y, np.array(c))
            far = (weight * y**2).sum() - slope * (weight * x * y).sum()
            one, all_ = (np.log(np.where(z > 0, z, 1.0)).sum() for z in (weight, total))
            steep = np.log1p(self._slope_prior / c * (weight * x**2).sum())
            fit.append(0.5 * float(one - all_ - far - steep))
        return _posterior(fit)

    @property
    def _slope_prior(self) -> float:
        """The prior variance of beta, times c."""
        return float(STEEP * np.average(self.residual[2], weights=self.n_s))

    def _within(
        self, seen: np.ndarray, between: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, and pi_b and mean residuals less their weighted means in the state, [..., S, A]."""
        mean, error, _ = self.residual
        weight = np.where(seen, 1 / (between + error), 0.0)
        total = np.maximum(weight.sum(axis=-1, keepdims=True), 1e-300)
        x, y = ((weight * z).sum(axis=-1, keepdims=True) / total for z in (self.pi_b, mean))
        return weight, self.pi_b - x, mean - y

    def _slope(
        self, weight: np.ndarray, x: np.ndarray, y: np.ndarray, c: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of beta given c, [...]."""
        prior = self._slope_prior / c
        spread = prior / (1 + prior * (weight * x**2).sum(axis=(-2, -1)))
        return spread * (weight * x * y).sum(axis=(-2, -1)), spread

    def worlds(self, keys: Array) -> Worlds:
        """A model drawn for every key [K], with shrunk rewards.

        In every state acted in, rewards are changed so that its advantages are the shrunk ones.
        """
        worlds, arrival = self.posterior.worlds(keys), self.arrival[None]
        if self.posterior.problem.reward_table is None:
            arrival, state = self._levels(keys)
            table = arrival[:, None, None, :] + state[:, :, None, None]
            worlds = replace(worlds, reward_table=table)
        v = evaluate(worlds.model, worlds.pi_b)
        advantage = worlds.model.backup(v) - v[..., None]
        h = arrival + self.posterior.problem.gamma * v * self.live
        acted = (self.live & (self.n_s > 0))[:, None]
        change = (self.advantages(h, keys) - advantage) * acted
        return replace(worlds, reward_table=worlds.reward_table + change[..., None])

    def advantages(self, h: np.ndarray, keys: Array) -> np.ndarray:
        """Shrunk advantages [K, S, A], 0 in the mean of pi_b, if arrivals are worth h [K, S']."""
        (mean, variance), (own, spread) = self._from_successors(h.T, keys), self._from_rewards(keys)
        found = mean + own + np.sqrt(variance + spread) * normals(keys, OWN, self.n_sa.shape)
        found = found + self._unseen(keys)
        return np.asarray(found - (self.pi_b * found).sum(axis=-1, keepdims=True))

    def _unseen(self, keys: Array) -> np.ndarray | float:
        """What outcomes of the declared range may add to the mean reward of a pair that n visits
        have not shown [K, S, A].

        The worst one has a probability p, none is seen with at most exp(-n p): p is drawn with that
        tail, and so for the best one.
        """
        problem = self.posterior.problem
        if not problem.rewards_declared or problem.reward_table is not None:
            return 0.0
        mean = (self.n * self.each).sum(axis=-1) / np.maximum(self.n_sa, 1.0)
        size, seen = self.n_sa.size, self.n_sa > 0
        found = np.zeros(self.n_sa.shape)
        for end, what in zip(problem.reward_range, (WORST, BEST), strict=True):
            tail = -np.log(draws(keys, what, size) + 2.0**-54).reshape(-1, *self.n_sa.shape)
            p = np.minimum(tail / np.maximum(self.n_sa, 1.0), 1.0)
            found = found + np.where(seen, p * (end - mean), 0.0)
        return found

    def _from_successors(self, h: np.ndarray, keys: Array) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance [K, S, A] of p_sa . h given c, h [S', K].

        Of a Dirichlet row with mean q and concentration n + c:  q . h  and
        (q . h^2 - (q . h)^2) / (n + c + 1).
        """
        (p, m), c = self.shares, _drawn(self.by_successors, keys, BY_SUCCESSOR)
        trust = np.where(np.isinf(c), 0.0, self.n_sa / (self.n_sa + np.where(np.isinf(c), 1.0, c)))

        def mixed(x: np.ndarray) -> np.ndarray:
            pair, state = np.moveaxis(p @ x, -1, 0), (m @ x).T[..., None]
            return np.asarray(state + trust * (pair - state))

        mean = mixed(h)
        return mean, np.maximum(mixed(h**2) - mean**2, 0.0) / (self.n_sa + c + 1.0)

    def _from_rewards(self, keys: Array) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance [K, S, A] of the mean residual given c; the prior's if never seen."""
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
        middle = (self.n * self.each).sum() / self.n_to.sum()
        residual = (self.n_sa * self.residual[0]).sum(axis=1) / np.maximum(self.n_s, 1.0)

        def level(mean: np.ndarray, n: np.ndarray, fitted: np.ndarray, what: int) -> np.ndarray:
            scatter = (self.n * (self.each - fitted) ** 2).sum() + self.rest.sum()
            variance = max(scatter / max(n.sum() - (n > 0).sum(), 1.0), self.smallest)
            return _level(mean, n, variance, keys, what)

        arrival = level(self.arrival - middle, self.n_to, self.arrival, ARRIVAL)
        fitted = self.arrival + residual[:, None, None]
        return middle + arrival, level(residual, self.n_s, fitted, STATE)


def _level(mean: np.ndarray, n: np.ndarray, variance: float, keys: Array, what: int) -> np.ndarray:
    """Draws [K, S] of what is behind the means of n values that scatter by this variance.

    The prior is N(0, variance / c).
    """
    seen, error = n > 0, variance / np.maximum(n, 1.0)
    fit = []
    for c in VISITS:
        total = error + variance / c
        fit.append(float(-0.5 * (np.log(total) + mean**2 / total)[seen].sum()))
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
