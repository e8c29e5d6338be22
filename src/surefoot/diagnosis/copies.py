"""Copies: episodes, or stretches of rows, that repeat others exactly and more often than chance
lets them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from surefoot.diagnosis.contents import ODD, Contents, contents, joined, mixed
from surefoot.diagnosis.walk import MOST_ROWS
from surefoot.errors import NotAvailableError
from surefoot.logs import Log

BY_CHANCE = 1e-4  # copies are no coincidence where one is less likely than this
RARE, MISFIT = 1e-2, 10.0
WINDOW = 32  # rows in a row that are the same as others before them


@dataclass(frozen=True, repr=False)
class Copies:
    """What repeats itself in a log.

    group [episodes]     the number of each episode's content: equal for equal states, actions,
                         rewards and successors, in order
    is_copy [episodes]   whether it counts as a copy of an earlier one; nowhere, where repetitions
                         may be chance
    repeated [rows]      whether a row lies in a stretch of 32 rows or more that was there before,
                         where that is no chance
    p_value              of the repetitions, by chance
    """

    group: np.ndarray
    is_copy: np.ndarray
    repeated: np.ndarray
    p_value: float


def copies(log: Log) -> Copies:
    """The copies in a log (in its first 2,000,000 rows), episodes in the order of `Log.blocks`."""
    if log.reading is None or log.starts is None:
        raise NotAvailableError(
            "this log holds counts alone: its rows were counted elsewhere, or their order was not"
            " looked at"
        )
    parts: list[Contents] = []
    for block in log.blocks():
        parts.append(contents(block))
        if sum(len(part.row) for part in parts) >= MOST_ROWS:
            break
    return copies_in(tuple(parts))


def copies_in(parts: tuple[Contents, ...]) -> Copies:
    """The copies in blocks of rows.

    Four signs, each sharp where others are blunt. Episodes: (1) all contents are there a multiple
    of g times; (2) some number of times is far more common than chance lets it be, whatever the law
    of episodes; (3) more unlikely episodes repeat others than a model of the log lets them. Rows:
    (4) more stretches of 32 rows do. With (1), one in g of equal episodes is none; else the first.
    """
    rows = joined(parts)
    first = np.flatnonzero(np.append(True, np.diff(rows.episode) != 0))
    chance = _log_chances(rows, first)
    group, nth, times = _groups(_episode_numbers(rows, first))
    fold = int(np.gcd.reduce(times))
    by_fold = (1 / fold + 0.05) ** len(times) if fold > 1 else 1.0
    others = min(_by_number_of_times(times), _by_model(group, np.add.reduceat(chance, first)))
    stretch, by_stretch = _stretches(rows, chance)
    by_episode = 3 * min(by_fold, others)
    repeated = stretch & (by_stretch < BY_CHANCE)
    kept = times[group] // fold if by_fold < BY_CHANCE / 3 else 1
    is_copy = (nth >= kept) & ((by_episode < BY_CHANCE) | np.logical_and.reduceat(repeated, first))
    return Copies(group, is_copy, repeated, min(1.0, by_episode, by_stretch))


def _log_chances(rows: Contents, first: np.ndarray) -> np.ndarray:
    """ln of the chance of every row, estimated from the log: p(r, s' | s, a) pi(a | s, what was
    done before), and that of the start.

    What was done before is the previous pair: people who take turns repeat themselves without
    copying.
    """
    pair = _codes(rows.state, rows.action)
    before = np.append(0, pair[:-1] + 1)
    before[first] = 0
    there = _codes(before, rows.state)
    found: np.ndarray = np.log(
        _times(rows.row) / _times(pair) * _times(_codes(there, rows.action)) / _times(there)
    )
    found[first] += np.log(_times(rows.state[first]) / len(first))
    return found


def _codes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """0, 1, ... for each combination of two numbers >= 0."""
    return np.unique(x * (int(y.max(initial=0)) + 1) + y, return_inverse=True)[1].reshape(-1)


def _times(x: np.ndarray) -> np.ndarray:
    """How often each entry's value is there."""
    _, place, k = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray(k[place.reshape(-1)])


def _episode_numbers(rows: Contents, first: np.ndarray) -> np.ndarray:
    """One number for the content of each episode."""
    length = np.diff(np.append(first, len(rows.row)))
    within = (np.arange(len(rows.row)) - np.repeat(first, length)).astype(np.uint64)
    return np.add.reduceat(mixed(rows.row ^ mixed(within + ODD)), first)


def _groups(number: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the group of each, how many of its group came before it, the size of each group)."""
    _, group, times = np.unique(number, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    nth = np.empty(len(group), dtype=np.int64)
    nth[order] = np.arange(len(group)) - np.repeat(np.cumsum(times) - times, times)
    return group, nth, times


def _by_number_of_times(times: np.ndarray) -> float:
    """The p-value of f_k, the number of contents that are there k times, whatever the law of
    episodes.

    Contents come as Poisson variables with rates of any law, so that k! E f_k are the moments of a
    measure, and (E f_k)^2 <= (k + 1) / k E f_{k-1} E f_{k+1}. Broken (a) where f_k is large and
    both neighbours are small: given their sum f_k is binomial, with a share of at most c / (2 + c),
    c^2 = (k + 1) / k; (b) where f_{k+1} is smaller than f_k and f_{k-1} let it be.
    """
    f = np.bincount(times, minlength=3)
    if len(f) > 10_000:
        return 1.0  # contents that come so often are few
    f = np.append(f, 0)
    k = np.flatnonzero(f[:-1] > 1)
    k = k[k >= 2]
    if not len(k):
        return 1.0
    c = np.sqrt((k + 1) / k)
    peak = stats.binom.sf(f[k] - 1, f[k - 1] + f[k] + f[k + 1], c / (2 + c))
    slack = BY_CHANCE / 100
    least, most = stats.gamma.ppf(slack, f[k]), stats.gamma.isf(slack, f[k - 1] + 1)
    fall = stats.poisson.cdf(f[k + 1], least**2 / most / c**2) + 2 * slack
    return min(1.0, 2 * len(k) * float(min(peak.min(), fall.min())))


def _by_model(group: np.ndarray, log_chance: np.ndarray) -> float:
    """The p-value of the number of episodes that repeat one before, among contents so unlikely that
    none should be there twice.

    The model may be wrong about an episode, by its length for instance (a time limit is not
    Markov): contents count only where the log should hold RARE of them, and their chances count
    MISFIT times.
    """
    _, first, times = np.unique(group, return_index=True, return_counts=True)
    n, chance = len(group), np.exp(log_chance[first])
    rare = n * chance < RARE
    expected = MISFIT * float((chance * (n - 1 - first))[rare].sum())
    return _more_than(int((times - 1)[rare].sum()), expected)


def _stretches(rows: Contents, chance: np.ndarray) -> tuple[np.ndarray, float]:
    """(the rows in stretches that were there before, the p-value of how often such a stretch
    begins).
    """
    n = len(rows.row) - WINDOW + 1
    if n < 2:
        return np.zeros(len(rows.row), dtype=bool), 1.0
    number, width = rows.row, 1
    while width < WINDOW:
        number, width = mixed(number[:-width] + number[width:] * ODD), 2 * width
    _, first, place = np.unique(number, return_index=True, return_inverse=True)
    again = first[place.reshape(-1)] < np.arange(n)
    total = np.append(0.0, np.cumsum(chance))
    expected = float((np.exp(total[first + WINDOW] - total[first]) * (n - 1 - first)).sum())
    begins = int((again & ~np.append(False, again[:-1])).sum())
    repeated = np.zeros(len(rows.row), dtype=bool)
    for k in range(WINDOW):
        repeated[k : k + n] |= again
    return repeated, _more_than(begins, expected)


def _more_than(seen: int, expected: float) -> float:
    """Chernoff's bound on P(at least so many), of events whose conditional probabilities sum to
    `expected`.
    """
    if seen <= expected or seen == 0:
        return 1.0
    if expected <= 0:
        return 0.0
    return float(np.exp(seen - expected - seen * np.log(seen / expected)))
