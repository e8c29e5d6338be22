"""The prior over transition rows, fitted to the log: how many successors a pair has, how even their
shares are, which states they are.

The row of a pair has m successors, p(.|s, a) ~ Dirichlet(alpha q_s') over them: a Dirichlet prior
with an unknown number of outcomes (Friedman and Singer, NIPS 11, 1999). Which states they are is
drawn from the pair's own guess g_sa(s'). Everything is fitted to the log by (approximate) maximum
marginal likelihood (empirical Bayes):

    P(m)      the share of pairs with m successors, and alpha: by EM over m for each alpha of a
              grid. A pair seen n times with k successors has the likelihood

                m!/(m-k)!  Gamma(alpha Q_m) / Gamma(alpha Q_m + n)
                    prod_s' Gamma(n_s' + alpha q_s') / Gamma(alpha q_s')

              The last two factors are Dirichlet-multinomial; the first counts the ways to place the
              k successors seen among the m. Factors that depend on neither m nor alpha are left out
    q_s'      the share of a row that s' takes where it occurs, as a multiple of an even share,
              shrunk towards 1; Q_m their sum
    g_sa(s')  a mixture of three guesses over the states of the log that were not yet seen to follow
              (s, a):
                anywhere     in proportion to the number of pairs that lead to s', plus 1
                same state   to the number of other actions of s that lead to s'
                companions   to the number of pairs that lead both to s' and to a successor seen of
                             (s, a)
              with weights by EM on the successors seen, each predicted from the rest of the log.

A flat Dirichlet over all states, the textbook prior, would spread rare pairs over the whole state
space: every model drawn would be far more random than the true one. A prior on the seen successors
alone would call a pair seen once deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

ALPHAS = tuple(float(x) for x in 0.1 * 2.0 ** np.arange(0, 8.5, 0.5))  # 0.1 ... 25.6
ROUNDS = 50  # of EM
PAIR_MOST = 20  # visits with which a pair counts at most in q
PULL = 20.0  # visits with which an even share counts in q


@dataclass(frozen=True)
class PairCounts:
    """The counts of all pairs [P, S'], A pairs a state, and which states the log knows [S']."""

    n: np.ndarray
    n_actions: int
    known: np.ndarray

    @cached_property
    def leads(self) -> np.ndarray:
        """1 where a pair was seen to lead to s', [P, S']."""
        return np.asarray(self.n > 0, dtype=float)

    @cached_property
    def total(self) -> np.ndarray:
        """n [P]."""
        return np.asarray(self.n.sum(axis=1))

    @cached_property
    def distinct(self) -> np.ndarray:
        """k [P]: how many successors were seen."""
        return np.asarray(self.leads.sum(axis=1))

    @cached_property
    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """pair and s' of every triple seen."""
        pair, to = np.nonzero(self.n)
        return pair, to

    @cached_property
    def free(self) -> np.ndarray:
        """The known states that were not yet seen to follow a pair, [P, S']."""
        return np.asarray(self.known & (self.n == 0))


@dataclass(frozen=True)
class RowPrior:
    """alpha, P(m) for m = 1, 2, ..., q [S'], and the weights of the three guesses."""

    alpha: float
    number: np.ndarray
    pull: np.ndarray
    guess: np.ndarray

    @property
    def mean_number(self) -> float:
        """The mean number of successors of a pair."""
        return float(self.number @ np.arange(1, len(self.number) + 1))


def fit_prior(rows: PairCounts) -> RowPrior:
    """The prior that makes the log most likely, part by part."""
    pull = _pull(rows)
    weights = _mixture(guess_seen(rows))
    most = int(min(2 * rows.distinct.max(), rows.known.sum()))
    total = pull_of_rows(rows, pull, new_successors(rows, weights), most)
    n, q = rows.n[rows.seen], pull[rows.seen[1]]
    fits = []
    for alpha in ALPHAS:
        log = log_number(rows, total, alpha)[rows.total > 0]
        top = log.max(axis=1, keepdims=True)
        likelihood = np.exp(log - top)
        number = _mixture(likelihood.T)
        fit = float((np.log(likelihood @ number) + top[:, 0]).sum())
        fit += float((gammaln(n + alpha * q) - gammaln(alpha * q)).sum())
        fits.append((fit, alpha, number))
    _, alpha, number = max(fits, key=lambda x: x[0])
    return RowPrior(alpha, number, pull, weights)


def _pull(rows: PairCounts) -> np.ndarray:
    """q [S']: the mean of k n_s' / n over the pairs that lead to s', shrunk towards 1.

    Each pair has the weight n - 1, at most PAIR_MOST; 1 has the weight PULL.
    """
    pair, to = rows.seen
    n_states = rows.n.shape[1]
    weight = np.minimum(rows.total[pair] - 1, PAIR_MOST) * (rows.distinct[pair] > 1)
    share = rows.n[pair, to] * rows.distinct[pair] / rows.total[pair]
    summed, weights = (np.bincount(to, x, n_states) for x in (weight * share, weight))
    return np.asarray((summed + PULL) / (weights + PULL))


def pull_of_rows(rows: PairCounts, pull: np.ndarray, new: np.ndarray, most: int) -> np.ndarray:
    """Q_m [P, m]: q of the successors seen, plus its mean under `new` for those still missing."""
    missing = np.maximum(np.arange(1, most + 1) - rows.distinct[:, None], 0.0)
    return np.asarray((rows.leads @ pull)[:, None] + missing * (new @ pull)[:, None])


def log_number(rows: PairCounts, total: np.ndarray, alpha: float) -> np.ndarray:
    """log of  m!/(m-k)!  Gamma(alpha Q_m) / Gamma(alpha Q_m + n),  [P, m]; -inf where m < k."""
    m, k = np.arange(1.0, total.shape[1] + 1), rows.distinct[:, None]
    able = m >= k
    ways = gammaln(m + 1) - gammaln(np.where(able, m - k, 0.0) + 1)
    shares = ways + gammaln(alpha * total) - gammaln(alpha * total + rows.total[:, None])
    return np.where(able, shares, -np.inf)


def number_given(rows: PairCounts, prior: RowPrior, total: np.ndarray) -> np.ndarray:
    """P(m | what was seen of the pair), [P, m]; the prior for a pair never seen."""
    log = log_number(rows, total, prior.alpha) + np.log(prior.number)
    found = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _mixture(likelihood: np.ndarray) -> np.ndarray:
    """Weights of a mixture by EM from likelihood [components, items].

    Equal weights are the start, and count as one item in every round.
    """
    weights = np.full(len(likelihood), 1 / len(likelihood))
    for _ in range(ROUNDS):
        share = weights[:, None] * likelihood
        total = share.sum(axis=0)
        share = share / np.where(total > 0, total, 1.0)
        weights = (share.sum(axis=1) + 1 / len(weights)) / (share.sum() + 1)
    return weights


def _scores(rows: PairCounts) -> tuple[np.ndarray, np.ndarray]:
    """The scores of the first two guesses [P, S'], each without the pair itself."""
    by_state = rows.leads.reshape(-1, rows.n_actions, rows.leads.shape[1])
    same_state = (by_state.sum(axis=1, keepdims=True) - by_state).reshape(rows.leads.shape)
    return rows.leads.sum(axis=0) - rows.leads + 1.0, same_state


def guess_new(rows: PairCounts) -> np.ndarray:
    """g(s') of every guess over the free states of a pair, [3, P, S']; 0 where it has none."""
    scores = np.stack([*_scores(rows), rows.leads @ (rows.leads.T @ rows.leads)]) * rows.free
    total = scores.sum(axis=-1, keepdims=True)
    return np.asarray(scores / np.where(total > 0, total, 1.0))


def guess_seen(rows: PairCounts) -> np.ndarray:
    """g(s') of every guess for each successor seen, [3, triples].

    Guessed from the rest of the log and the pair's other successors: as `guess_new` would, had the
    triple not been seen.
    """
    pair, to = rows.seen
    free = rows.free.astype(float)
    scores = [(x[pair, to], (x * free).sum(axis=1)[pair]) for x in _scores(rows)]
    together = rows.leads.T @ rows.leads
    joint = rows.leads @ together
    # pairs that lead to s' and to another successor seen
    own = joint[pair, to] - together[to, to] - (rows.distinct[pair] - 1)
    others = (joint * free).sum(axis=1)[pair] - (free @ together)[pair, to]
    return np.stack([a / np.maximum(a + b, 1e-300) for a, b in (*scores, (own, others))])


def new_successors(rows: PairCounts, weights: np.ndarray) -> np.ndarray:
    """g_sa(s') [P, S']: the mixture of the guesses; even for a pair that leads to all states."""
    found = np.einsum("g,gps->ps", weights, guess_new(rows))
    total = found.sum(axis=1, keepdims=True)
    even = rows.known / rows.known.sum()
    return np.asarray(np.where(total > 0, found / np.where(total > 0, total, 1.0), even))
