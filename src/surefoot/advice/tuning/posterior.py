"""The posterior over models: what the transitions and rewards behind a log may be, as worlds to
simulate in.

A drawn row has the successors seen, with Gamma(n_s' + alpha q_s') for each, and as many new ones as
P(m | what was seen) says, with Gamma(alpha q_s'), drawn from the guess g_sa; divided by their sum
(the Dirichlet posterior, see `prior`). Hence:

- A pair never seen has a row from the prior: it leads where the guesses say; nothing good or bad is
  invented for it.
- A state that the log never saw is never reached; terminal states stay terminal.
- Pairs are independent: `shrinkage` then lets the actions of a state differ only as far as the
  whole log shows it.
- The reward of a triple seen is its mean, give or take its standard error where rewards scatter
  within triples. A triple never seen has the mean reward of its arrival s' or of its pair,
  whichever explains the rewards seen better; a pair never seen has that of its state, a state never
  acted in that of the whole log.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.special import gammaincinv, ndtri

from surefoot.advice.tuning.prior import (
    PairCounts,
    RowPrior,
    fit_prior,
    new_successors,
    number_given,
    pull_of_rows,
)
from surefoot.core.arrays import Array, to_numpy
from surefoot.core.errors import NotAvailableError
from surefoot.problems import Problem
from surefoot.research.simulate import Worlds
from surefoot.research.simulate.sampling import fold, uniforms

OWN, NEW, NUMBER, PLACE, MEAN, NOISE = -11, -12, -13, -14, -15, -16  # what draws are for
LARGEST = 5_000_000  # S * A * S of a problem that can be simulated: as for dense counts


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
