"""Echoes: what was done earlier, or elsewhere in the log, and outcomes now.

Given state and action, outcomes of a Markov log do not depend on earlier actions, nor rows that are
decisions of their own on each other. Where they do, either an action works later than the model can
see (a dose that harms two steps on), or something that stays or comes back drives both what is done
and what comes of it (a customer, a shift, a habit that answers to old rewards). Both are bounded:

    beta(k) = cov( y_t, h_{t-k} ) / var h,   y the outcome beyond its pair, h the action beyond its
                                             state, t - k in the same episode

is what the action of k rows before says of an outcome now. If the cause is still the same after k
rows, an action gets credit of that size for it; it will have changed by then, so twice that counts.
If the action itself works late, each unit of it costs  -sum_k gamma^k beta(k)  that the model does
not know; where that is a gain, who does less of the action loses it. The largest of these counts,
and only lags that are clear, so that a log without echoes pays nothing. Where what is done has lags
of its own (a habit that comes back every so many rows), outcomes are looked at there first: a cause
of both must come back at the same lags.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from surefoot.checks.rhythm import within
from surefoot.core import Batch

SURE = 0.005  # p-value, after Bonferroni, from which on a lag counts
LAGS = 64  # rows back within an episode
FADED = 2.0  # a cause that is seen after some rows may have been so much larger
OWN = 8  # clearest lags of a habit that outcomes are looked at first
FEWEST = 50  # rows that have a row so far back
MOST_ROWS = 1 << 17  # a longer log is looked at up to here
MOST_ACTIONS = 8  # the most frequent ones
# lags, beta, z, z of the habit alone; the largest term in standard deviations of the sum
Told = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]
DECAYS = (0.9, 0.98, 0.995, 1.0)  # of a dose that adds up; the last one within episodes
PARTS = 32  # of a log whose doses know no episodes


def echoes(
    log: Batch, y: np.ndarray, untold: np.ndarray, habit: np.ndarray, gamma: float
) -> np.ndarray:
    """[3, A]: the credit that each action may have had, at least 0; what one unit of it costs
    later, by single lags, and by doses that add up (below 0: a gain). y is the outcome of every row
    beyond its pair, and beyond what other circumstances say; `untold` the same beyond earlier
    actions, too. habit [rows, actions looked at]: the actions beyond their state, the columns as
    `frequent` has them.
    """
    found = np.zeros((3, log.n_actions))
    for a, h in zip(frequent(log), habit.T, strict=True):
        told = [x for part in _parts(log, untold, h) for x in _clear(*part)]
        credit = FADED * max((abs(beta) for beta, _ in told), default=0.0)
        alone = log.n_episodes == len(log)
        if y is not untold:
            told = [x for part in _parts(log, y, h) for x in _clear(*part)]
        late = -sum(beta * (1.0 if alone else gamma**k) for beta, k in told if 0 < k <= LAGS)
        found[:, a] = credit, late, _dose(log, y, h, gamma)
    return found


def echo_of(found: np.ndarray, more: np.ndarray) -> float:
    """What echoes may take of a gain; `more` [A]: how much more often each action is done."""
    credit, *late = found
    return float(np.maximum.reduce([credit * np.abs(more), *(x * more for x in late)]).sum())


def tail(z: np.ndarray | float, largest: np.ndarray | float) -> np.ndarray:
    """Two-sided p-values of sums in standard deviations, of terms of at most so many of these each,
    by Bernstein's inequality: rare successes make sums that are far from normal.
    """
    z = np.abs(z)
    return np.asarray(np.minimum(2 * np.exp(-(z**2) / (2 + 2 * largest * z / 3)), 1.0))


def frequent(log: Batch) -> list[int]:
    """The actions looked at: the most frequent ones; of two, one says all."""
    taken = np.bincount(log.action, minlength=log.n_actions)
    some = [int(a) for a in np.argsort(-taken, kind="stable")[:MOST_ACTIONS] if taken[a]]
    return some[1:] if len(some) == 2 else some


def _parts(log: Batch, y: np.ndarray, h: np.ndarray) -> Iterator[Told]:
    """What is told of lags within episodes; over the whole log, and among the rows of a state,
    where it is one episode or each row is one.
    """
    if log.n_episodes not in (1, len(log)):
        time = log.time[:MOST_ROWS]
        yield _near(y[:MOST_ROWS], h[:MOST_ROWS], lambda k: time[k:] >= k, whole=True)
        return
    both = log.n_episodes > 1  # single decisions: what comes after may be the echo as well
    yield _anywhere(y[:MOST_ROWS], h[:MOST_ROWS], both=both)
    order = np.argsort(log.state[:MOST_ROWS], kind="stable")
    state = log.state[order]
    yield _near(y[order], h[order], lambda k: state[k:] == state[:-k], whole=False)


def _near(
    y: np.ndarray, h: np.ndarray, together: Callable[[int], np.ndarray], *, whole: bool
) -> Told:
    """Of the lags up to LAGS, over the couples of rows that are `together`; a lag among the rows of
    a state is none in time, and is told as 0.
    """
    lags, beta, z, own, largest = [], [], [], [], 0.0
    squares = y**2
    for k in range(1, min(LAGS, len(y) - 1) + 1):
        use = together(k).astype(float)  # a product with a flag is faster than a choice of rows
        rows = use.sum()
        if rows < FEWEST:
            if whole:
                break  # no episode is longer
            continue
        earlier = h[:-k] * use
        product, size = y[k:] * earlier, float(earlier @ earlier)
        spread = float(use @ squares[k:] / rows) * size  # not by product: rare events share a sign
        if spread > 0:
            lags.append(k if whole else 0)
            beta.append(float(product.sum()) / size)
            z.append(float(product.sum()) / math.sqrt(spread))
            largest = max(largest, float(max(product.max(), -product.min())) / math.sqrt(spread))
            habit = h[k:] * earlier
            own.append(float(habit.sum()) / math.sqrt(float(habit @ habit) or 1.0))
    return np.array(lags), np.array(beta), np.array(z), np.array(own), largest


def _anywhere(y: np.ndarray, h: np.ndarray, *, both: bool) -> Told:
    """Of all lags up to half of the log, by one Fourier transform; `both`: of lags ahead, too."""
    n = len(y)
    most = n // 2
    if most < FEWEST:
        return np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), 0.0
    lags = np.arange(1, most + 1)
    size = 1 << (2 * n - 1).bit_length()
    of_y, of_h, of_squares = (np.fft.rfft(x, size) for x in (y, h, h**2))
    squares = _crossed(of_squares, of_squares, size)[lags]
    own = _crossed(of_h, of_h, size)[lags] / np.sqrt(np.maximum(squares, 1e-12))
    found = []
    for one, other, sign in ((of_y, of_h, 1), (of_h, of_y, -1))[: 2 if both else 1]:
        product = _crossed(one, other, size)[lags]
        spread = float((y**2).mean() * (h**2).mean()) * (n - lags)
        z = np.where(spread > 1e-12, product / np.sqrt(np.maximum(spread, 1e-12)), 0.0)
        found.append((sign * lags, product / (float((h**2).mean()) or 1.0) / (n - lags), z, own))
    lag, beta, z, own = (np.concatenate(x) for x in zip(*found, strict=True))
    largest = float(np.abs(y).max() * np.abs(h).max())
    return lag, beta, z, own, largest / math.sqrt(max(float((y**2).sum() * (h**2).mean()), 1e-300))


def _crossed(x: np.ndarray, earlier: np.ndarray, size: int) -> np.ndarray:
    """sum_t x_t earlier_{t-k} for k = 0, 1, ... from the transforms of both."""
    return np.asarray(np.fft.irfft(x * np.conj(earlier), size))


def _clear(
    lags: np.ndarray, beta: np.ndarray, z: np.ndarray, own: np.ndarray, largest: float
) -> list[tuple[float, int]]:
    """(beta, lag) of the lags that are clear, among all or among the clearest of the habit."""
    if not len(z):
        return []
    p, of_habit = tail(z, largest), tail(own, 0.0) * len(own)
    few = np.argsort(of_habit, kind="stable")[:OWN]
    clear = p * len(z) < SURE
    clear[few] |= (of_habit[few] < SURE) & (p[few] * OWN < SURE)
    return [(float(beta[i]), int(lags[i])) for i in np.flatnonzero(clear)]


def _dose(log: Batch, y: np.ndarray, h: np.ndarray, gamma: float) -> float:
    """What one unit of an action costs later where it adds up: outcomes on

        D_t = sum_j decay^(j - 1) h_{t-j},   each unit costs  -slope gamma / (1 - gamma decay).

    D wanders, and so may outcomes: what they do in one episode counts as one term; in a log that is
    one, or has one step each, both are taken less their means in PARTS of it.
    """
    n, whole = min(len(log), MOST_ROWS), log.n_episodes in (1, len(log))
    alone, place = log.n_episodes == len(log), np.arange(n)
    part = place * PARTS // n if whole else log.episode[:n]
    time, worst = place if whole else log.time[:n], 0.0
    for decay in DECAYS[: -1 if whole else None]:
        dose, outcome = _decayed(h[:n], decay, time), y[:n]
        if whole:
            dose, outcome = within(dose, part, PARTS), within(outcome, part, PARTS)
        terms, size = outcome * dose, float((dose**2).sum())
        terms = terms if whole else np.bincount(part, terms)
        spread = math.sqrt(float((terms**2).sum()))
        if not (spread > 0 and size > 0):
            continue
        slope = float(terms.sum()) / size
        if tail(terms.sum() / spread, float(np.abs(terms).max()) / spread) * len(DECAYS) < SURE:
            reach = 1 / (1 - decay) if alone else gamma / max(1 - gamma * decay, 1e-3)
            worst = max(worst, -slope * min(reach, float(time.max())), key=abs)
    return worst


def _decayed(h: np.ndarray, decay: float, time: np.ndarray) -> np.ndarray:
    """D of `_dose`, by doubling how far back it looks; an episode starts at time 0."""
    found = np.where(time >= 1, np.append(0.0, h[:-1]), 0.0)
    m = 1
    while m <= int(time.max()) and decay**m > 1e-4:
        found = found + decay**m * np.where(time >= m, np.append(np.zeros(m), found[:-m]), 0.0)
        m *= 2
    return found
