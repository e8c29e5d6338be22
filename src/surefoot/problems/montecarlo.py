"""Monte-Carlo returns of a log: the estimate of q^{pi_b} that needs no model, with its variance."""

from __future__ import annotations

import math

import numpy as np

from surefoot.core import Batch, Returns
from surefoot.core.errors import LogError, ProblemError

# tolerated discounted overlap of two returns kept from one trajectory (Scholl et al. 2022b)
RHO = 0.01
IN_C = 50_000  # rows from which SciPy's filter pays: importing it takes as long as 2,000,000 rows


def discounted_returns(batch: Batch, gamma: float) -> np.ndarray:
    """G_t = r_t + gamma G_{t+1} (gamma^t would underflow); a cut counts as an end here. Where steps
    take unequal time, gamma is that of the row.
    """
    _check_returns(batch, gamma)
    gamma = float(gamma)
    first = np.flatnonzero(batch.first)
    length = np.diff(np.append(first, len(batch)))
    g = batch.reward.astype(float).copy()
    each = batch.discounts(gamma)
    if length.max() <= len(length):  # many short episodes: one step of time of all of them at once
        order = np.argsort(-length, kind="stable")
        first, length = first[order], length[order]
        for t in range(int(length.max()) - 2, -1, -1):
            going = np.searchsorted(-length, -(t + 1), side="left")  # longer than t + 1 steps
            at = first[:going] + t
            g[at] += (each if isinstance(each, float) else each[at]) * g[at + 1]
    elif not isinstance(each, float) or len(batch) < IN_C:  # few long episodes: along each
        for i, n in zip(first, length, strict=True):
            discount = np.full(n, each) if isinstance(each, float) else each[i : i + n]
            g[i : i + n] = _recursion(g[i : i + n], discount)
    else:  # the same in C
        from scipy.signal import lfilter

        for i, n in zip(first, length, strict=True):
            g[i : i + n] = lfilter([1.0], [1.0, -gamma], g[i : i + n][::-1])[::-1]
    return g


def _check_returns(batch: Batch, gamma: float) -> None:
    """Raise where returns with this discount mean nothing."""
    if not 0 <= gamma <= 1:
        raise ProblemError(f"gamma must lie in [0, 1], got {gamma!r}")
    contradiction = batch.contradictions()
    if contradiction:
        raise LogError(f"Monte-Carlo returns need whole episodes, but {contradiction}")


def _recursion(reward: np.ndarray, discount: np.ndarray) -> list[float]:
    """G_t = r_t + discount_t G_{t+1} along one episode."""
    total, found = 0.0, []
    for r, d in zip(reward[::-1].tolist(), discount[::-1].tolist(), strict=True):
        total = r + d * total
        found.append(total)
    return found[::-1]


def monte_carlo(
    batch: Batch,
    gamma: float,
    *,
    visits: str = "every",
    cut_returns: str | int = "as-end",
    limit: float | None = None,
    rho: float = RHO,
) -> Returns:
    """The returns of every pair: their number, mean and scatter.

    visits: "every"; "first" (of the pair in each episode); "thinned" (in one trajectory, a visit is
    kept only if more than k = ceil(ln rho / ln gamma) steps passed since the last kept visit of the
    pair: Scholl et al. 2022b). cut_returns: a return that runs into a cut lacks what would have
    followed. "as-end" uses it as it is (as the paper does: biased, so the number of such returns is
    kept); "leave-out" uses whole episodes only (biased towards episodes that end early); a number
    of steps k uses the return over k steps from visits at time t with t + k <= limit, and no
    others: whether a visit is used is decided before what follows it. (To use later ones where the
    episode then ended would select ends.) limit: a number of steps, fixed in advance, before which
    no episode is cut; by default the shortest cut of the log, see `step_limit`.
    """
    check_cut_returns(cut_returns)
    g, use = discounted_returns(batch, gamma), np.ones(len(batch), dtype=bool)
    if cut_returns in ("as-end", "leave-out"):
        runs_into_cut = batch.cuts[batch.stop]
        use &= (cut_returns == "as-end") | ~runs_into_cut
    else:
        runs_into_cut = np.zeros(len(batch), dtype=bool)
        steps = min(int(cut_returns), len(batch) + 1)  # no episode is longer
        beyond = np.arange(len(batch)) + steps
        longer = beyond <= batch.stop
        if batch.survives is None:
            later: np.ndarray | float = gamma**steps
        else:
            used = np.where(longer, steps, 0)
            later = batch.discounts_over(gamma, np.arange(len(batch)), used)
        g = g - np.where(longer, later * g[np.where(longer, beyond, 0)], 0.0)
        use &= batch.time + steps <= _checked(limit, step_limit(batch))
    if visits == "first":
        use &= np.isin(np.arange(len(batch)), batch.first_visits)
    elif visits == "thinned":
        use &= apart(batch, use, separation(gamma, rho))
    elif visits != "every":
        raise ProblemError(f'visits must be "every", "first" or "thinned", got {visits!r}')
    shape = (batch.n_states, batch.n_actions)
    pair, g, size = batch.pair[use], g[use], math.prod(shape)
    n = np.bincount(pair, minlength=size).astype(float)
    seen = n > 0
    mean = np.full(size, np.nan)
    mean[seen] = np.bincount(pair, weights=g, minlength=size)[seen] / n[seen]
    m2 = np.bincount(pair, weights=(g - mean[pair]) ** 2, minlength=size)
    found = Returns(n, mean, m2, int((runs_into_cut & use).sum()))
    return found.map(lambda x: x.reshape(shape))


def check_cut_returns(cut_returns: str | int) -> None:
    """Raise unless it is "as-end", "leave-out" or a whole number of steps >= 1."""
    if isinstance(cut_returns, (int, np.integer)) and not isinstance(
        cut_returns, (bool, np.timedelta64)
    ):
        fits = cut_returns >= 1
    else:
        fits = isinstance(cut_returns, str) and cut_returns in ("as-end", "leave-out")
    if not fits:
        raise ProblemError(
            'cut_returns must be "as-end", "leave-out" or a number of steps >= 1, got'
            f" {cut_returns!r}"
        )


def separation(gamma: float, rho: float = RHO) -> int:
    """k = ceil(ln rho / ln gamma): returns k steps apart share at most rho of their sum."""
    if not 0 < rho < 1:
        raise ProblemError(f"rho must lie in (0, 1), got {rho!r}")
    if gamma == 1:
        raise ProblemError(
            "gamma = 1: returns of one trajectory never separate, thinning is not defined"
        )
    return int(np.ceil(np.log(rho) / np.log(gamma))) if gamma > 0 else 1


def step_limit(batch: Batch) -> float:
    """The length of the shortest episode that was cut; inf where none was.

    With one limit for all episodes it is that limit, unless every episode ended before it, which
    does not show in the log. With several, it is the least of those that were reached.
    """
    cut = np.bincount(batch.episode)[batch.cuts[batch.last]]
    return float(cut.min()) if len(cut) else math.inf


def _checked(limit: float | None, shortest: float) -> float:
    """The declared limit, or the one the log shows."""
    if limit is not None and not 1 <= limit <= shortest:
        raise ProblemError(
            f"limit must be >= 1, and no episode may be cut before it: got {limit!r}, shortest cut"
            f" {shortest:g} steps"
        )
    return shortest if limit is None else limit


def apart(batch: Batch, use: np.ndarray, k: int) -> np.ndarray:
    """Which visits stay if those of a pair in an episode must lie more than k steps apart."""
    # No episode is longer, and the products below must not overflow.
    longest = int(np.bincount(batch.episode).max())
    k = min(k, longest)
    pair, episode, rows = batch.pair, batch.episode, np.flatnonzero(use)
    short = np.uint16 if batch.n_states * batch.n_actions <= 2**16 else np.int64
    # by pair, then by time, in which they lie; NumPy sorts short numbers by their digits
    rows = rows[np.argsort(pair[rows].astype(short), kind="stable")]
    keep = np.zeros(len(batch), dtype=bool)
    if k == longest:  # the first visit of a pair in an episode
        own, within = pair[rows], episode[rows]
        new = (own[1:] != own[:-1]) | (within[1:] != within[:-1])
        keep[rows[np.append(True, new)[: len(rows)]]] = True
        return keep
    # Episodes are independent: further apart than k.
    time = np.arange(len(batch)) + episode * (k + 1)
    span = int(time[-1]) + k + 2 if len(time) else 1
    key = pair[rows] * span + time[rows]
    current = np.flatnonzero(np.append(True, pair[rows][1:] != pair[rows][:-1])[: len(rows)])
    while len(current):  # every pair jumps to its next kept visit
        keep[rows[current]] = True
        following = np.searchsorted(key, key[current] + k + 1, side="left")
        inside = following < len(rows)
        following, current = following[inside], current[inside]
        current = following[pair[rows[following]] == pair[rows[current]]]
    return keep


def thinned_counts(batch: Batch, gamma: float, rho: float = RHO) -> np.ndarray:
    """n [S, A] of the visits that stay after thinning: nearly independent returns."""
    _check_returns(batch, gamma)
    keep = apart(batch, np.ones(len(batch), dtype=bool), separation(gamma, rho))
    shape = (batch.n_states, batch.n_actions)
    n = np.bincount(batch.pair[keep], minlength=math.prod(shape)).astype(float)
    return n.reshape(shape)
