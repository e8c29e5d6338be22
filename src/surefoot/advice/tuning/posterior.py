"""The posterior over models: what the transitions and rewards behind a log may be, as worlds to
simulate in.

A drawn row has the successors seen, with Gamma(n_s' + alpha q_s') for each, and as many new ones as
P(m | what was seen) says, with Gamma(alpha q_s'), drawn from the guess g_sa; divided by their sum
(the Dirichlet posterior). Hence:

- A pair never seen has a row from the prior: it leads where the guesses say; nothing good or bad is
  invented for it.
- A state that the log never saw is never reached; terminal states stay terminal.
- Pairs are independent: `shrinkage` then lets the actions of a state differ only as far as the
  whole log shows it.
- The reward of a triple seen is its mean, give or take its standard error where rewards scatter
  within triples. A triple never seen has the mean reward of its arrival s' or of its pair,
  whichever explains the rewards seen better; a pair never seen has that of its state, a state never
  acted in that of the whole log.

The prior over transition rows, fitted to the log: how many successors a pair has, how even their
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
from scipy.special import gammaincinv, gammaln, ndtri

from surefoot.core.arrays import Array, to_numpy
from surefoot.core.errors import NotAvailableError
from surefoot.problems import Problem
from surefoot.research.simulate import Worlds
from surefoot.research.simulate.sampling import fold, uniforms

ALPHAS = tuple(float(x) for x in 0.1 * 2.0 ** np.arange(0, 8.5, 0.5))  # 0.1 ... 25.6
ROUNDS = 50  # of EM
PAIR_MOST = 20  # visits with which a pair counts at most in q
PULL = 20.0  # visits with which an even share counts in q
OWN, NEW, NUMBER, PLACE, MEAN, NOISE = -11, -12, -13, -14, -15, -16  # what draws are for
LARGEST = 5_000_000  # S * A * S of a problem that can be simulated: as for dense counts


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


class Posterior:
    """The posterior of one dense problem: `worlds(keys)` draws a model for every key."""

    def __init__(self, problem: Problem) -> None:
        cells = problem.n_states**2 * problem.n_actions
        if problem.batch_shape or problem.counts.is_sparse or cells > LARGEST:
            raise NotAvailableError(
                f"models are drawn for one dense problem with S * A * S of at most {LARGEST:,};"
                f" here it is {cells:,} for {problem.n_states} states x {problem.n_actions}"
                " actions: merge states (surefoot discretize)"
            )
        self.problem = problem
        self.shape = problem.pi_b.shape
        n = to_numpy(problem.counts.n_sas).reshape(-1, problem.n_states)
        acted = n.sum(axis=1).reshape(self.shape).sum(axis=1) > 0
        known = (n.sum(axis=0) > 0) | acted | (to_numpy(problem.start) > 0)
        self.rows = PairCounts(n, problem.n_actions, known)

    @cached_property
    def prior(self) -> RowPrior:
        """Fitted to the log."""
        return fit_prior(self.rows)

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """g_sa [P, S'] and P(m | what was seen) [P, m], both summed up."""
        prior = self.prior
        new = new_successors(self.rows, prior.guess)
        total = pull_of_rows(self.rows, prior.pull, new, len(prior.number))
        cut = np.cumsum(new, axis=1)
        return cut / cut[:, -1:], np.cumsum(number_given(self.rows, prior, total), axis=1)

    def worlds(self, keys: Array) -> Worlds:
        """A model drawn for every key [K]."""
        problem = self.problem
        successor, probability = self.transitions(keys)

        def each(x: Array) -> np.ndarray:
            return np.broadcast_to(to_numpy(x), (keys.shape[0], *x.shape))

        return Worlds(
            successor=successor,
            probability=probability,
            reward_table=self.rewards(keys),
            pi_b=each(problem.pi_b),
            start=each(problem.start),
            terminal=each(problem.terminal),
            allowed=each(problem.allowed),
            gamma=problem.gamma,
            reward_range=problem.reward_range,
            return_range=problem.return_range,
        )

    def transitions(self, keys: Array) -> tuple[np.ndarray, np.ndarray]:
        """successor and probability [K, S, A, slots]: the successors seen, then new ones."""
        rows, prior = self.rows, self.prior
        new, numbers = self._tables
        pair, to = rows.seen
        slot = np.arange(len(pair)) - np.searchsorted(pair, pair)
        seen, fresh = int(rows.distinct.max()), len(prior.number)
        n_pairs, n_states = rows.n.shape
        shape = (keys.shape[0], n_pairs, fresh)
        successor = np.zeros((*shape[:2], seen + fresh), dtype=np.int64)
        weight = np.zeros(successor.shape)
        successor[:, pair, slot] = to
        own = rows.n[pair, to] + prior.alpha * prior.pull[to]
        weight[:, pair, slot] = gammaincinv(own, draws(keys, OWN, len(pair)))
        number = 1 + (draws(keys, NUMBER, n_pairs)[..., None] >= numbers[:, :-1]).sum(axis=-1)
        there = np.arange(fresh) < (number - rows.distinct)[..., None]
        # Row i of the table of new successors is shifted by i: one search in one sorted array.
        row = np.arange(n_pairs)[:, None]
        u = draws(keys, PLACE, n_pairs * fresh).reshape(shape)
        at = np.searchsorted((new + row).reshape(-1), u + row, side="right")
        places = np.clip(at - row * n_states, 0, n_states - 1)
        share = draws(keys, NEW, n_pairs * fresh).reshape(shape)
        successor[..., seen:] = places
        pull = prior.alpha * prior.pull[places[there]]
        weight[..., seen:][there] = gammaincinv(pull, share[there])
        weight /= weight.sum(axis=-1, keepdims=True)
        to_pairs = (shape[0], *self.shape, -1)
        return successor.reshape(to_pairs), weight.reshape(to_pairs)

    @cached_property
    def scatter(self) -> np.ndarray:
        """The variance of rewards within the triples of each pair [S, A].

        A pair leans on the mean over all pairs, which counts as one degree of freedom.
        """
        rest = self.problem.counts.r_rest
        if rest is None or self.problem.reward_table is not None:
            return np.zeros(self.shape)
        freedom = np.maximum(self.rows.n - 1.0, 0.0).sum(axis=1).reshape(self.shape)
        everywhere = rest.sum() / max(freedom.sum(), 1.0)
        return np.asarray((rest + everywhere) / (freedom + 1.0))

    @cached_property
    def mean_rewards(self) -> np.ndarray:
        """R(s, a, s') [S, 1 or A, S']: declared, or seen, or that of the arrival or the pair."""
        problem = self.problem
        if problem.reward_table is not None:
            return np.asarray(problem.reward_table)
        n, r = to_numpy(problem.counts.n_sas), to_numpy(problem.counts.r_sas)

        def mean(axes: int | tuple[int, int], unseen: np.ndarray | float) -> np.ndarray:
            visits, total = (x.sum(axis=axes, keepdims=True) for x in (n, r))
            return np.where(visits > 0, total / np.maximum(visits, 1.0), unseen)

        middle = float(r.sum() / n.sum())
        own = r / np.maximum(n, 1.0)
        guesses = mean((0, 1), middle), mean(2, mean((1, 2), middle))  # by arrival, by pair
        return np.where(n > 0, own, min(guesses, key=lambda x: float((n * (own - x) ** 2).sum())))

    def rewards(self, keys: Array) -> np.ndarray:
        """The mean rewards of the triples, [1 or K, S, 1 or A, S']."""
        mean = self.mean_rewards[None]
        if not self.scatter.any():
            return mean
        n = self.rows.n.reshape(mean.shape[1:])
        error = np.sqrt(self.scatter[..., None] / np.maximum(n, 1.0))
        low, high = self.problem.reward_range
        return np.asarray(np.clip(mean + error * normals(keys, MEAN, mean.shape[1:]), low, high))


def draws(keys: Array, what: int, n: int) -> np.ndarray:
    """n uniform numbers in [0, 1) for every key, [K, n]."""
    at = np.arange(n, dtype=np.int64)[None, :]
    return np.asarray(uniforms(fold(keys, keys * 0 + what)[:, None], at))


def normals(keys: Array, what: int, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers for every key, [K, ...]."""
    u = draws(keys, what, int(np.prod(shape))) + 2.0**-54  # never 0
    return np.asarray(ndtri(u)).reshape(keys.shape[0], *shape)
