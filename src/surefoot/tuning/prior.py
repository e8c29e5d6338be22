"""The prior over transition rows, fitted to the log: how many successors a pair has, how even their
shares are, which states they are.

The row of a pair has m successors, p(.|s, a) ~ Dirichlet(alpha q_s') over them; which states they
are is drawn from the pair's own guess g_sa(s'). Everything is fitted to the log by (approximate)
maximum marginal likelihood:

    P(m)      the share of pairs with m successors, and alpha: by EM over m for each alpha of a
              grid. A pair seen n times with k successors has the likelihood  m!/(m-k)!  Gamma(alpha
              Q_m) / Gamma(alpha Q_m + n) prod_s' Gamma(n_s' + alpha q_s') / Gamma(alpha q_s')
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
PAIR_MOST, PULL = (
    20,
    20.0,
)  # a pair's vote on q counts at most so often, and the even share counts so often
GUESSES = ("anywhere", "same state", "companions")


@dataclass(frozen=True)
class Rows:
    """The counts of all pairs [P, S'], with A pairs a state, and the states that exist as far as
    the log tells [S'].
    """

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


def fit_prior(rows: Rows) -> RowPrior:
    """The prior that makes the log most likely, part by part."""
    pull = _pull(rows)
    weights = _mixture(guess_seen(rows))
    most = int(min(2 * rows.distinct.max(), rows.known.sum()))
    total = pull_of_rows(rows, pull, new_successors(rows, weights), most)
    n, q = rows.n[rows.seen], pull[rows.seen[1]]
    fits = []
    for alpha in ALPHAS:
        number, fit = _numbers(rows, total, alpha)
        fits.append(
            (fit + float((gammaln(n + alpha * q) - gammaln(alpha * q)).sum()), alpha, number)
        )
    _, alpha, number = max(fits, key=lambda x: x[0])
    return RowPrior(alpha, number, pull, weights)


def _pull(rows: Rows) -> np.ndarray:
    """q [S']: the mean of k n_s' / n over the pairs that lead to s', each with weight n - 1
    (PAIR_MOST at most), and PULL times 1.
    """
    pair, to = rows.seen
    n_states = rows.n.shape[1]
    weight = np.minimum(rows.total[pair] - 1, PAIR_MOST) * (rows.distinct[pair] > 1)
    share = rows.n[pair, to] * rows.distinct[pair] / rows.total[pair]
    found: np.ndarray = (np.bincount(to, weight * share, n_states) + PULL) / (
        np.bincount(to, weight, n_states) + PULL
    )
    return found


def pull_of_rows(rows: Rows, pull: np.ndarray, new: np.ndarray, most: int) -> np.ndarray:
    """Q_m [P, m]: the sum of q over the successors seen, and over those still missing as they
    are guessed (`new`).
    """
    missing = np.maximum(np.arange(1, most + 1) - rows.distinct[:, None], 0.0)
    found: np.ndarray = (rows.leads @ pull)[:, None] + missing * (new @ pull)[:, None]
    return found


def log_number(rows: Rows, total: np.ndarray, alpha: float) -> np.ndarray:
    """log of  m!/(m-k)!  Gamma(alpha Q_m) / Gamma(alpha Q_m + n),  [P, m]; -inf where m < k."""
    m, k = np.arange(1.0, total.shape[1] + 1), rows.distinct[:, None]
    able = m >= k
    ways = gammaln(m + 1) - gammaln(np.where(able, m - k, 0.0) + 1)
    found: np.ndarray = np.where(
        able, ways + gammaln(alpha * total) - gammaln(alpha * total + rows.total[:, None]), -np.inf
    )
    return found


def number_given(rows: Rows, prior: RowPrior, total: np.ndarray) -> np.ndarray:
    """P(m | what was seen of the pair), [P, m]; the prior for a pair never seen."""
    log = log_number(rows, total, prior.alpha) + np.log(prior.number)
    found = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _numbers(rows: Rows, total: np.ndarray, alpha: float) -> tuple[np.ndarray, float]:
    """(P(m), log-likelihood of the numbers seen) at one alpha."""
    log = log_number(rows, total, alpha)[rows.total > 0]
    top = log.max(axis=1, keepdims=True)
    likelihood = np.exp(log - top)
    number = _mixture(likelihood.T)
    return number, float((np.log(likelihood @ number) + top[:, 0]).sum())


def _mixture(likelihood: np.ndarray) -> np.ndarray:
    """Weights of a mixture by EM from likelihood [components, items], from and with one item's
    worth of equal weights.
    """
    weights = np.full(len(likelihood), 1 / len(likelihood))
    for _ in range(ROUNDS):
        share = weights[:, None] * likelihood
        total = share.sum(axis=0)
        share = share / np.where(total > 0, total, 1.0)
        weights = (share.sum(axis=1) + 1 / len(weights)) / (share.sum() + 1)
    return weights


def _scores(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The scores of the first two guesses [P, S'], each without the pair itself."""
    by_state = rows.leads.reshape(-1, rows.n_actions, rows.leads.shape[1])
    same_state = (by_state.sum(axis=1, keepdims=True) - by_state).reshape(rows.leads.shape)
    return rows.leads.sum(axis=0) - rows.leads + 1.0, same_state


def guess_new(rows: Rows) -> np.ndarray:
    """g(s') of every guess over the known states that did not yet follow a pair, [3, P, S']; 0
    where a guess has none.
    """
    free = rows.known & (rows.n == 0)
    scores = np.stack([*_scores(rows), rows.leads @ (rows.leads.T @ rows.leads)]) * free
    total = scores.sum(axis=-1, keepdims=True)
    return np.asarray(scores / np.where(total > 0, total, 1.0))


def guess_seen(rows: Rows) -> np.ndarray:
    """g(s') of every guess for each successor seen, [3, triples], from the rest of the log and
    the pair's other successors.
    """
    pair, to = rows.seen
    free = (rows.known & (rows.n == 0)).astype(float)
    found = []
    for score in _scores(rows):
        own = score[pair, to]
        found.append(own / np.maximum(own + (score * free).sum(axis=1)[pair], 1e-300))
    together = rows.leads.T @ rows.leads
    joint = rows.leads @ together
    own = (
        joint[pair, to] - together[to, to] - (rows.distinct[pair] - 1)
    )  # pairs that lead to s' and to another successor seen
    others = (joint * free).sum(axis=1)[pair] - (free @ together)[pair, to]
    found.append(own / np.maximum(own + others, 1e-300))
    return np.stack(found)


def new_successors(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """g_sa(s') [P, S']: the mixture of the guesses; evenly over the known states for a pair that
    leads to all of them already.
    """
    found = np.einsum("g,gps->ps", weights, guess_new(rows))
    total = found.sum(axis=1, keepdims=True)
    even = rows.known / rows.known.sum()
    return np.asarray(np.where(total > 0, found / np.where(total > 0, total, 1.0), even))
