"""One walk over the rows of a log, block by block: which steps followed which, what each half saw, how many returns stand alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from surefoot.core import Batch
from surefoot.diagnosis.gtest import Tables, tables
from surefoot.errors import NotAvailableError
from surefoot.logs import Log
from surefoot.problems import monte_carlo

ENOUGH = 20  # visits of a pair below which no table has 2 x 2 expected counts of 5
MOST_PAIRS = 2_000  # the most visited pairs are tested: enough to find what is wrong, and little to hold
MOST_ROWS = 10_000_000  # rows looked at for memory; drift looks at all
BLOCK = 1_000_000


@dataclass(frozen=True, repr=False)
class Tested:
    """The pairs with enough visits to be tested, by code s * A + a, and the law of their rewards."""

    pairs: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    n_states: int
    n_actions: int

    @cached_property
    def place(self) -> np.ndarray:
        """The number of each pair among those tested, -1 for others."""
        found = np.full(self.n_states * self.n_actions, -1, dtype=np.int64)
        found[self.pairs] = np.arange(len(self.pairs))
        return found

    def levels(self, stratum: np.ndarray, reward: np.ndarray) -> np.ndarray:
        """Rewards as levels 0..3, cut at the mean of their pair and one standard deviation around it; 0 where they do not vary."""
        from_mean = reward - self.mean[stratum]
        deviation = self.deviation[stratum]
        above = (from_mean > -deviation).astype(np.int64) + (from_mean > 0) + (from_mean > deviation)
        return np.where(deviation > 0, above, 0)


@dataclass(frozen=True, repr=False)
class Walk:
    """The tables of a walk: strata are tested pairs, contexts the previous pair (s * A + a + 1; 0 at a start) or the half of the log.

    thinned [S, A] counts the returns kept after thinning (of the first visits in each episode where gamma = 1).
    """

    successor_after: Tables
    reward_after: Tables
    successor_in_half: Tables
    reward_in_half: Tables
    action_in_half: Tables
    thinned: np.ndarray
    rows_after: int


def tested_pairs(log: Log) -> Tested:
    """The most visited pairs of a log that have enough visits."""
    n = log.n_sa.reshape(-1)
    order = np.argsort(-n, kind="stable")[:MOST_PAIRS]
    pairs = np.sort(order[n[order] >= ENOUGH])
    mean, deviation = _rewards(log)
    return Tested(pairs, mean[pairs], deviation[pairs], log.n_states, log.n_actions)


def _rewards(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the rewards of every pair [S * A]; a deviation within rounding is 0."""
    counts = log.counts
    size = log.n_states * log.n_actions
    if counts.is_sparse:
        pair = np.repeat(np.arange(size), np.diff(counts.n_sas.indptr))
        n, r = counts.n_sas.data, counts.r_sas.data
    else:
        n_sas, r_sas = counts.n_sas.reshape(size, -1), counts.r_sas.reshape(size, -1)
        pair, to = np.nonzero(n_sas)
        n, r = n_sas[pair, to], r_sas[pair, to]
    total = np.bincount(pair, weights=n, minlength=size)
    safe = np.maximum(total, 1.0)
    mean = np.bincount(pair, weights=r, minlength=size) / safe
    between = np.bincount(pair, weights=n * (r / n - mean[pair]) ** 2, minlength=size)
    deviation = np.sqrt((between + np.asarray(counts.r_rest).reshape(-1)) / safe)
    return mean, np.where(deviation > 1e-9 * np.abs(log.rewards).max(), deviation, 0.0)


def walk(log: Log, gamma: float) -> Walk:
    """Walk over the log once."""
    if log.reading is None or log.starts is None:
        raise NotAvailableError("this log holds counts alone: its rows were counted elsewhere, or their order was not looked at")
    tested = tested_pairs(log)
    found: Walk | None = None
    before = 0
    for block in log.blocks(BLOCK):
        part = _walk_block(block, tested, gamma, before, log.accounting.used, before < MOST_ROWS)
        found = part if found is None else _joined(found, part)
        before += len(block)
    if found is None:
        raise NotAvailableError("no row of the log has a successor")
    return found


def _walk_block(block: Batch, tested: Tested, gamma: float, before: int, rows: int, look_back: bool) -> Walk:
    pair = block.state * block.n_actions + block.action
    stratum = tested.place[pair]
    use = np.flatnonzero(stratum >= 0)
    first = np.append(True, block.last[:-1])
    previous = np.where(first, 0, np.append(0, pair[:-1] + 1))
    half = (2 * (before + np.arange(len(block))) >= rows).astype(np.int64)
    level = tested.levels(stratum[use], block.reward[use])
    follow, at = block.next_state[use], stratum[use]
    back = slice(None) if look_back else slice(0)
    return Walk(
        tables(at[back], previous[use][back], follow[back]), tables(at[back], previous[use][back], level[back]),
        tables(at, half[use], follow), tables(at, half[use], level), tables(block.state, half, block.action),
        monte_carlo(block, gamma, visits="thinned" if gamma < 1 else "first").n, len(block) if look_back else 0,
    )  # fmt: skip


def _joined(x: Walk, y: Walk) -> Walk:
    return Walk(
        x.successor_after + y.successor_after, x.reward_after + y.reward_after, x.successor_in_half + y.successor_in_half,
        x.reward_in_half + y.reward_in_half, x.action_in_half + y.action_in_half, x.thinned + y.thinned, x.rows_after + y.rows_after,
    )  # fmt: skip
