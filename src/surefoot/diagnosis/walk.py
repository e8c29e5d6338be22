"""One walk over the rows of a log, block by block: what followed what, and when; what resembles
what; which returns stand alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from surefoot.core import Batch
from surefoot.diagnosis.alike import Alike, alike
from surefoot.diagnosis.contents import Contents, contents
from surefoot.diagnosis.gtest import Tables, tables
from surefoot.diagnosis.time_order import Clock, clock
from surefoot.errors import NotAvailableError
from surefoot.logs import Log
from surefoot.problems import monte_carlo

# visits of a pair below which it is not looked at; a table of its own needs 20, sums over pairs do
# not
ENOUGH = 5
MOST_PAIRS = (
    20_000  # the most visited pairs are tested: enough to find what is wrong, and little to hold
)
MOST_ROWS = 2_000_000  # rows looked at for memory and copies; drift looks at all
BLOCK = 1_000_000
NEXT, REWARD, ACTION = "the next state", "the reward", "the action"
PAIR, SECOND, LEVEL_BEFORE, TIME = "previous pair", "pair two steps back", "previous reward", "time"


@dataclass(frozen=True, repr=False)
class Scores:
    """Mean and standard deviation of an outcome in every pair [S * A]; a deviation within
    rounding is 0.
    """

    mean: np.ndarray
    deviation: np.ndarray

    def standard(self, pair: np.ndarray, x: np.ndarray) -> np.ndarray:
        """x in standard deviations from the mean of its pair; 0 where it does not vary."""
        deviation = self.deviation[pair]
        return np.where(
            deviation > 0, (x - self.mean[pair]) / np.where(deviation > 0, deviation, 1.0), 0.0
        )

    def levels(self, pair: np.ndarray, x: np.ndarray) -> np.ndarray:
        """x as levels 0..3, cut at the mean of its pair and one standard deviation around it; 0
        where it does not vary.
        """
        from_mean, deviation = x - self.mean[pair], self.deviation[pair]
        above = (
            (from_mean > -deviation).astype(np.int64) + (from_mean > 0) + (from_mean > deviation)
        )
        return np.where(deviation > 0, above, 0)


@dataclass(frozen=True, repr=False)
class Tested:
    """The pairs with enough visits to be looked at, by code s * A + a, and the law of rewards
    and successors (by their code).
    """

    pairs: np.ndarray
    reward: Scores
    successor: Scores
    n_actions: int

    @cached_property
    def place(self) -> np.ndarray:
        """The number of each pair among those tested, -1 for others."""
        found = np.full(len(self.reward.mean), -1, dtype=np.int64)
        found[self.pairs] = np.arange(len(self.pairs))
        return found

    @property
    def state(self) -> np.ndarray:
        """The state of each."""
        return np.asarray(self.pairs // self.n_actions)


@dataclass(frozen=True, repr=False)
class Walk:
    """What was seen on a walk.

    tables      by (outcome, context). Strata are tested pairs, for actions states. Contexts are the
                previous pair and the one before it (s * A + a + 1; 0 before the start), the level
                of the previous reward (1, ..., 4; 0 at a start), the segment of the log (TIME), and
                what the calendar of the clock has
    alike       by outcome, for each of GROUPS
    thinned     [S, A], the returns kept after thinning (of the first visits in each episode where
                gamma = 1); None: not counted
    """

    tables: Mapping[tuple[str, str], Tables]
    alike: Mapping[str, tuple[Alike, ...]]
    contents: tuple[Contents, ...]
    thinned: np.ndarray | None
    rows_after: int
    contradictions: tuple[str, ...] = ()
    order: str = ""
    calendar: tuple[str, ...] = field(default=())


def tested_pairs(log: Log) -> Tested:
    """The most visited pairs of a log that have enough visits."""
    n = log.n_sa.reshape(-1)
    order = np.argsort(-n, kind="stable")[:MOST_PAIRS]
    pairs = np.sort(order[n[order] >= ENOUGH])
    reward, successor = _scores(log)
    return Tested(pairs, reward, successor, log.n_actions)


def _scores(log: Log) -> tuple[Scores, Scores]:
    """Of rewards and successors."""
    counts = log.counts
    size = log.n_states * log.n_actions
    if counts.is_sparse:
        pair = np.repeat(np.arange(size), np.diff(counts.n_sas.indptr))
        n, r, to = counts.n_sas.data, counts.r_sas.data, counts.n_sas.indices
    else:
        n_sas, r_sas = counts.n_sas.reshape(size, -1), counts.r_sas.reshape(size, -1)
        pair, to = np.nonzero(n_sas)
        n, r = n_sas[pair, to], r_sas[pair, to]
    rest = np.asarray(counts.r_rest).reshape(-1)
    return _moments(pair, n, r / n, rest, size), _moments(
        pair, n, to.astype(float), np.zeros(size), size
    )


def _moments(pair: np.ndarray, n: np.ndarray, x: np.ndarray, rest: np.ndarray, size: int) -> Scores:
    total = np.maximum(np.bincount(pair, weights=n, minlength=size), 1.0)
    mean = np.bincount(pair, weights=n * x, minlength=size) / total
    between = np.bincount(pair, weights=n * (x - mean[pair]) ** 2, minlength=size)
    deviation = np.sqrt((between + rest) / total)
    return Scores(mean, np.where(deviation > 1e-9 * np.abs(x).max(initial=0.0), deviation, 0.0))


def walk(log: Log, tested: Tested, gamma: float | None = None) -> Walk:
    """Walk over the log once; returns are thinned where gamma is given."""
    if log.reading is None or log.starts is None:
        raise NotAvailableError(
            "this log holds counts alone: its rows were counted elsewhere, or their order was not"
            " looked at"
        )
    found: Walk | None = None
    before, time = 0, clock(log)
    for block in log.blocks(BLOCK):
        part = _walk_block(block, tested, gamma, time, before < MOST_ROWS)
        found = part if found is None else _joined(found, part)
        before += len(block)
    if found is None:
        raise NotAvailableError("no row of the log has a successor")
    return found


def _walk_block(
    block: Batch, tested: Tested, gamma: float | None, time: Clock, look_back: bool
) -> Walk:
    pair = block.state * block.n_actions + block.action
    stratum = tested.place[pair]
    use = np.flatnonzero(stratum >= 0)
    level = tested.reward.levels(pair, block.reward)
    when = {TIME: time.segments(block.row)} | {
        name: x[block.row].astype(np.int64) for name, x in time.calendar.items()
    }
    past = _past(block, pair, level) if look_back else {}
    found = {
        (what, name): tables(stratum[use], context[use], x[use])
        for what, x in ((NEXT, block.next_state), (REWARD, level))
        for name, context in (past | when).items()
    }
    found |= {
        (ACTION, name): tables(block.state, context, block.action) for name, context in when.items()
    }
    scored = {
        NEXT: tested.successor.standard(pair, block.next_state),
        REWARD: tested.reward.standard(pair, block.reward),
    }
    resembling = (
        {what: alike(z, stratum >= 0, block.episode) for what, z in scored.items()}
        if look_back
        else {}
    )
    thinned = (
        None
        if gamma is None
        else monte_carlo(block, gamma, visits="thinned" if gamma < 1 else "first").n
    )
    wrong = block.contradictions()
    return Walk(
        found,
        resembling,
        (contents(block),) if look_back else (),
        thinned,
        len(block) if look_back else 0,
        () if wrong is None else (wrong,),
        time.words,
        tuple(time.calendar),
    )


def _past(block: Batch, pair: np.ndarray, level: np.ndarray) -> dict[str, np.ndarray]:
    """What came before each row of its episode, as codes from 1 on; 0 where nothing did."""
    first = np.append(True, block.last[:-1])
    second = first | np.append(True, first[:-1])
    one = np.append(0, pair[:-1] + 1)
    return {
        PAIR: np.where(first, 0, one), SECOND: np.where(second, 0, np.append(0, one[:-1])),
        LEVEL_BEFORE: np.where(first, 0, np.append(0, level[:-1] + 1)),
    }  # fmt: skip


def _joined(x: Walk, y: Walk) -> Walk:
    both = {
        key: x.tables[key] + y.tables[key] if key in y.tables else table
        for key, table in x.tables.items()
    }
    resembling = {
        what: tuple(map(Alike.__add__, found, y.alike[what])) if y.alike else found
        for what, found in x.alike.items()
    }
    thinned = None if x.thinned is None or y.thinned is None else x.thinned + y.thinned
    return Walk(
        both,
        resembling,
        x.contents + y.contents,
        thinned,
        x.rows_after + y.rows_after,
        x.contradictions + y.contradictions,
        x.order,
        x.calendar,
    )
