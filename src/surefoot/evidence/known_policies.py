"""Single decisions of policies whose probabilities are known whole: doubly robust values with a
floor.

A log of single decisions that several policies made, such as the versions of a shop, has a
propensity in every row. If a policy keeps its probabilities, an earlier part of the log shows them
all: those of the actions it takes in a state sum to 1. With Delta = pi - pi_b, and q(s, a) what the
earlier part paid on average, the value of a later row is

    X = sum_a Delta(a|s) q(s, a) + Delta(A|s) / p(A) (r - q(s, A)),

whose mean given s is sum_a Delta(a|s) E[r|s, a], the gain, whatever q is (Dudik, Langford & Li,
ICML 2011): each action comes with probability p(a) > 0. With rewards in [m, M] none lies below

    sum_a Delta(a|s) q(s, a) - max_a |Delta(a|s)| / p(a) (q(s, a) - m, or M - q(s, a) if Delta < 0),

which is known for every state and policy before the row is. p(A) is the propensity of the row
itself, so the mean takes nothing for granted but that; the floor takes for granted that no policy
has changed. Where a row contradicts it, nothing of this is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surefoot.core import Batch

SAME = 1e-3  # what rounding may do to a probability, as a share of it


@dataclass(frozen=True, repr=False)
class KnownPolicies:
    """What an earlier part of a log shows: the probabilities [policies, S, A] of its policies, 0 in
    states where they are not known whole, and q [S, A].
    """

    p: np.ndarray
    q: np.ndarray

    @property
    def negated(self) -> KnownPolicies:
        """Of the log with every reward negated."""
        return replace(self, q=-self.q)

    def values(
        self, batch: Batch, delta: np.ndarray, rewards: tuple[float, float]
    ) -> tuple[np.ndarray, np.ndarray, float] | None:
        """(which rows of a later part have a value, their values, the floor of all such values);
        `delta` [S, A] is pi - pi_b. None where a policy has changed.
        """
        policy = _policy(batch)
        if not _single(batch) or policy.max() >= len(self.p):
            return None
        assert batch.propensity is not None
        known = self.p[policy, batch.state, batch.action]
        whole = self.p.sum(axis=2) > 0
        if (whole[policy, batch.state] & _differ(batch.propensity, known)).any():
            return None
        moves = np.abs(delta) > 0
        whole &= ((self.p > 0) | ~moves).all(axis=2)
        if not whole.any():
            return None
        q = self.q
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(moves & (self.p > 0), np.abs(delta) / self.p, 0.0) * (1 + SAME)
        below = ratio * np.where(delta > 0, q - rewards[0], rewards[1] - q)
        expected = (delta * q).sum(axis=1)
        floor = float((expected - below.max(axis=2))[whole].min())
        s, a = batch.state, batch.action
        x = expected[s] + delta[s, a] / batch.propensity * (batch.reward - q[s, a])
        return whole[policy, s], x, floor


def known_policies(batch: Batch) -> KnownPolicies | None:
    """What a part of a log of single decisions shows of its policies; None where they are not
    known whole in any state.
    """
    p = batch.propensity
    if p is None or not len(batch) or not _single(batch):
        return None
    policy, shape = _policy(batch), (batch.n_states, batch.n_actions)
    cell = policy * shape[0] * shape[1] + batch.pair
    size = (int(policy.max()) + 1) * shape[0] * shape[1]
    least, most = np.full(size, np.inf), np.zeros(size)
    np.minimum.at(least, cell, p)
    np.maximum.at(most, cell, p)
    each = np.where(most > 0, most, 0.0).reshape(-1, *shape)
    kept = ~((most > 0) & _differ(least, most)).reshape(each.shape).any(axis=2)
    whole = kept & ~_differ(each.sum(axis=2), np.ones(1))
    if not whole.any():
        return None
    n = np.bincount(batch.pair, minlength=shape[0] * shape[1])
    mean = float(batch.reward.mean())  # counts as one more row of each pair
    paid = np.bincount(batch.pair, weights=batch.reward, minlength=len(n)) + mean
    return KnownPolicies(np.where(whole[..., None], each, 0.0), (paid / (n + 1)).reshape(shape))


def _single(batch: Batch) -> bool:
    return batch.survives is None and batch.n_episodes == len(batch)


def _policy(batch: Batch) -> np.ndarray:
    """The code of the policy that chose each row."""
    return batch.beside.get("policy", np.zeros(len(batch))).astype(np.int64)


def _differ(p: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(p - other) > SAME * other)
