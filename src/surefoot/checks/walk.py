"""One walk over the rows of a log, block by block, collects what the questions need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from surefoot.checks.completeness import Contents, contents, with_look_back
from surefoot.checks.rhythm import places, rhythm, within
from surefoot.checks.time_order import Clock, clock
from surefoot.core import Batch
from surefoot.logs import Log
from surefoot.problems import monte_carlo, thinned_counts
from surefoot.statistics.independence import (
    Alike,
    Result,
    Tables,
    alike,
    by_context,
    g_tests,
    in_pieces,
    tables,
    together,
)
from surefoot.statistics.periodogram import Cycle

# Pairs with fewer visits are not tested. A table of its own needs 20, sums over pairs do not.
ENOUGH = 5
MOST_PAIRS = 20_000  # the most visited pairs are tested: enough to find faults, little to hold
# Pieces of a log that count as independent: episodes, and of a long one about a hundredth of the
# log.
PIECES, SHORTEST = 100, 64
FEWEST_PIECES = 40  # so many pieces can be put into eight parts by lots,
LOTS, LOTS_ROWS = (4, 20), 1_000_000  # so often, on so many rows in all
MOST_ACTIONS = 8  # the most frequent actions are followed through time, each by itself
MOST_ENTRIES = 2_000_000  # of tables that wait to be put together with those of earlier blocks
NEXT, REWARD, ACTION = "the next state", "the reward", "the action"
PAIR, SECOND, THIRD = "previous pair", "pair two steps back", "pair three steps back"
LEVEL_BEFORE, FIRST, TIME = "previous reward", "first state", "time"
CHOSEN = "propensity"


@dataclass(frozen=True, repr=False)
class Scores:
    """Mean and standard deviation of an outcome in every pair [S * A]; 0 if within rounding."""

    mean: np.ndarray
    deviation: np.ndarray

    def standard(self, pair: np.ndarray, x: np.ndarray) -> np.ndarray:
        """x in standard deviations from the mean of its pair; 0 where it does not vary."""
        deviation = self.deviation[pair]
        varies = deviation > 0
        return np.where(varies, (x - self.mean[pair]) / np.where(varies, deviation, 1.0), 0.0)

    def levels(self, pair: np.ndarray, x: np.ndarray) -> np.ndarray:
        """x as levels 0..3, cut at mean - deviation, mean, mean + deviation of its pair."""
        from_mean, deviation = x - self.mean[pair], self.deviation[pair]
        above = sum((from_mean > cut).astype(np.int64) for cut in (-deviation, 0.0, deviation))
        return np.where(deviation > 0, above, 0)


@dataclass(frozen=True, repr=False)
class Pairs:
    """The pairs with enough visits to be tested, and the laws of rewards and successors (by code).

    code    s * A + a of each tested pair; `state` its s
    place   of every pair among those tested [S * A], -1 for others
    """

    code: np.ndarray
    state: np.ndarray
    place: np.ndarray
    reward: Scores
    successor: Scores

    def scores(self, what: str, table: Tables) -> np.ndarray:
        """The outcomes of a table as numbers."""
        return self.score(what, self.code[table.stratum], table.outcome)

    def score(self, what: str, pair: np.ndarray, outcome: np.ndarray) -> np.ndarray:
        """Outcomes as numbers: successors standardised, levels of rewards as is."""
        return self.successor.standard(pair, outcome) if what == NEXT else outcome.astype(float)


@dataclass(frozen=True, repr=False, kw_only=True)
class Walk:
    """What was seen on a walk.

    tables      by (outcome, context). Strata are tested pairs, for actions states. Contexts are the
                previous pair and the two before it (s * A + a + 1; 0 before the start), the level
                of the previous reward (1, ..., 4; 0 at a start), the first state of the episode (s
                + 1; 0 at a start), the segment of the log (TIME), what the calendar of the clock
                has, and the level of the propensity (CHOSEN) where there is one
    alike       by (outcome, one of GROUPS)
    cycles      by (outcome, clock), of the first block; those of actions by (action, clock)
    thinned     [S, A], the returns kept after thinning (of the first visits in each episode where
                gamma = 1); 0 where they were not counted
    rows_after  how many rows were looked at together with what came before them
    """

    pairs: Pairs
    clock: Clock
    tables: Mapping[tuple[str, str], Tables]
    alike: Mapping[tuple[str, str], Alike]
    cycles: Mapping[tuple[str | int, str], Cycle]
    contents: tuple[Contents, ...]
    thinned: np.ndarray
    rows_after: int
    contradictions: tuple[str, ...]

    def differ(self, words: str, what: str, given: Tables) -> Result:
        """Do outcomes differ on average between the contexts of a table?"""
        return by_context(words, given, self.pairs.scores(what, given), len(self.pairs.code))

    def resemble(self, what: str, groups: Sequence[str]) -> list[Result]:
        """Do the outcomes of these groups of steps resemble each other?"""
        found = []
        for group in groups:
            x = self.alike[what, group]
            words = f"{what}s {group} resemble each other (correlation {x.correlation:.2g})"
            rows = int(min(x.rows, self.rows_after))  # neighbours are counted twice
            of = "of the spread of their means"
            found.append(Result(words, x.p_value, x.explained, rows, of))
        return found

    def turn(self, words: str, what: str | int) -> list[Result]:
        """Does it rise and fall with any period?"""
        return [
            Result(
                f"{words} rise and fall every {x.period:.3g} {clock}",
                x.p_value,
                x.explained,
                self.rows_after,
                "of their variance",
            )
            for (of, clock), x in self.cycles.items()
            if of == what
        ]

    @property
    def entries(self) -> int:
        """Of all tables."""
        return sum(map(len, self.tables.values()))


def tested_pairs(log: Log) -> Pairs:
    """The most visited pairs of a log that have enough visits."""
    visits = log.n_sa.reshape(-1)
    order = np.argsort(-visits, kind="stable")[:MOST_PAIRS]
    code = np.sort(order[visits[order] >= ENOUGH])
    size, counts = len(visits), log.counts
    place = np.full(size, -1, dtype=np.int64)
    place[code] = np.arange(len(code))
    if counts.is_sparse:
        pair = np.repeat(np.arange(size), np.diff(counts.n_sas.indptr))
        n, r, to = counts.n_sas.data, counts.r_sas.data, counts.n_sas.indices
    else:
        n_sas, r_sas = counts.n_sas.reshape(size, -1), counts.r_sas.reshape(size, -1)
        pair, to = np.nonzero(n_sas)
        n, r = n_sas[pair, to], r_sas[pair, to]
    total = np.maximum(np.bincount(pair, n, size), 1.0)

    def scores(x: np.ndarray, rest: np.ndarray | float) -> Scores:
        mean = np.bincount(pair, n * x, size) / total
        between = np.bincount(pair, n * (x - mean[pair]) ** 2, size)
        deviation = np.sqrt((between + rest) / total)
        varies = deviation > 1e-9 * np.abs(x).max(initial=0.0)
        return Scores(mean, np.where(varies, deviation, 0.0))

    reward = scores(r / n, np.asarray(counts.r_rest).reshape(-1))
    return Pairs(code, code // log.n_actions, place, reward, scores(to.astype(float), 0.0))


def walk(log: Log, gamma: float | None = None) -> Walk:
    """Walk over the log once; returns are thinned where gamma is given."""
    pairs, time, length = tested_pairs(log), clock(log), piece_length(log)
    parts: list[Walk] = []
    for look, block in with_look_back(log.blocks(), log.accounting.used):
        parts.append(_walk_block(block, pairs, gamma, time, length if look else 0))
        if len(parts) == 1:
            parts = [replace(parts[0], cycles=_cycles(block, pairs, time, log))]
        if sum(x.entries for x in parts[1:]) > max(parts[0].entries, MOST_ENTRIES):
            parts = [_joined(parts)]
    return _joined(parts)


def piece_length(log: Log) -> int:
    """The most rows of an episode that count as one piece."""
    return max(log.accounting.used // PIECES, SHORTEST)


def larger_by_chance(block: Batch, length: int, seen: Walk, what: str, parts: int) -> float:
    """How much larger the G of tables by time is than that of independent rows, where nothing
    drifts: the rows of an episode come together, and outcomes decide how many they are.

    Every piece of the (first) block, of at most `length` rows, is put into one of so many parts of
    the log by lots, which leaves nothing of time; mean of G / degrees, at least 1.
    """
    piece = np.cumsum(block.time % length == 0) - 1
    if piece[-1] + 1 in (len(block), *range(FEWEST_PIECES)):
        return 1.0  # rows are independent, or hardly a piece is
    stratum = block.state if what == ACTION else seen.pairs.place[block.pair]
    level = seen.pairs.reward.levels(block.pair, block.reward)
    outcome = {NEXT: block.next_state, REWARD: level, ACTION: block.action}[what]
    use, rng = np.flatnonzero(stratum >= 0), np.random.default_rng(0)
    times = int(np.clip(LOTS_ROWS // len(block), *LOTS))
    g = degrees = 0.0
    for _ in range(times):
        part = rng.integers(0, parts, piece[-1] + 1)[piece]
        found = g_tests(tables(stratum[use], part[use], outcome[use]), int(stratum.max()) + 1)
        g, degrees = g + float(found.g.sum()), degrees + float(found.degrees.sum())
    return max(1.0, g / degrees) if degrees else 1.0


def _walk_block(block: Batch, pairs: Pairs, gamma: float | None, time: Clock, length: int) -> Walk:
    """What one block shows; `length` of a piece of an episode, 0: do not look back."""
    look_back = length > 0
    pair = block.pair
    stratum = pairs.place[pair]
    tested = stratum >= 0
    use = slice(None) if tested.all() else np.flatnonzero(tested)
    level = pairs.reward.levels(pair, block.reward)
    when = {TIME: time.segments(block.row)} | {
        name: x[block.row].astype(np.int64) for name, x in time.calendar.items()
    }
    beside = {} if block.propensity is None else {CHOSEN: _levels_of(block.propensity)}
    past = _past(block, pair, level) if look_back else {}
    found = {}
    strata = stratum[use]
    piece = np.cumsum(block.time % length == 0)[use] if look_back else None
    for what, outcome in ((NEXT, block.next_state), (REWARD, level)):
        x = outcome[use]
        for name, context in (when | beside).items():
            found[what, name] = tables(strata, context[use], x)
        if piece is not None:
            own = in_pieces(strata, piece, pairs.score(what, pair[use], x))
        for name, context in past.items():
            found[what, name] = tables(strata, context[use], x, None, *own)
    for name, context in when.items():
        found[ACTION, name] = tables(block.state, context, block.action)
    outcomes = (NEXT, pairs.successor, block.next_state), (REWARD, pairs.reward, block.reward)
    resembling = {
        (what, group): x
        for what, scores, outcome in outcomes
        if look_back
        for group, x in _alike(block, scores.standard(pair, outcome), tested, time).items()
    }
    thinned = np.zeros(())
    if gamma is not None:
        first = gamma == 1
        thinned = (
            monte_carlo(block, gamma, visits="first").n if first else thinned_counts(block, gamma)
        )
    wrong = block.contradictions()
    return Walk(
        pairs=pairs,
        clock=time,
        tables=found,
        alike=resembling,
        cycles={},
        contents=(contents(block),) if look_back else (),
        thinned=thinned,
        rows_after=len(block) if look_back else 0,
        contradictions=() if wrong is None else (wrong,),
    )


def _cycles(
    block: Batch, pairs: Pairs, time: Clock, log: Log
) -> dict[tuple[str | int, str], Cycle]:
    """The clearest cycles of the rewards of tested pairs, and of each frequent action."""
    stamps = None if time.stamps is None else time.stamps[block.row]
    level = pairs.reward.levels(block.pair, block.reward).astype(float)
    series: dict[str | int, np.ndarray] = {
        REWARD: np.where(pairs.place[block.pair] >= 0, within(level, block.pair, log.n_sa.size), 0)
    }
    for a in frequent_actions(log):
        series[a] = within((block.action == a).astype(float), block.state, log.n_states)
    where = places(block, stamps)
    return {
        (what, clock): rhythm(y, at) for what, y in series.items() for clock, at in where.items()
    }


def frequent_actions(log: Log) -> list[int]:
    """The actions that are followed through time: the most frequent ones, of two the second."""
    taken = log.n_sa.sum(axis=0)
    some = [int(a) for a in np.argsort(-taken, kind="stable")[:MOST_ACTIONS] if taken[a]]
    return some[1:] if len(some) == 2 else some


def _levels_of(propensity: np.ndarray) -> np.ndarray:
    """Propensities as levels 0, 1, ...: four to a factor of two."""
    found: np.ndarray = np.minimum(np.floor(-4 * np.log2(propensity)), 200).astype(np.int64)
    return found


def _alike(block: Batch, z: np.ndarray, use: np.ndarray, time: Clock) -> dict[str, Alike]:
    """Of the steps of episodes; of rows in the order of time where every episode is one step."""
    if block.n_episodes < len(block):
        return alike(z, use, block.time)
    order = np.arange(len(block))
    if time.stamps is not None:
        order = np.argsort(time.stamps[block.row], kind="stable")
    return alike(z[order], use[order], np.arange(len(block)))


def _past(block: Batch, pair: np.ndarray, level: np.ndarray) -> dict[str, np.ndarray]:
    """What came before each row of its episode, as codes from 1 on; 0 where nothing did."""
    earlier = block.reward[:-1][~block.first[1:]]
    if len(earlier) and (earlier == earlier[0]).all():  # they tell nothing, whatever their pair
        level = np.zeros_like(level)
    return {
        PAIR: steps_back(block, pair, 1),
        SECOND: steps_back(block, pair, 2),
        LEVEL_BEFORE: steps_back(block, level, 1),
        THIRD: steps_back(block, pair, 3),
        FIRST: at_start(block, block.state),
    }


def steps_back(block: Batch, code: np.ndarray, k: int) -> np.ndarray:
    """The code of the row k steps before, plus 1; 0 where its episode had none."""
    earlier = np.append(np.zeros(k, dtype=code.dtype), code)[: len(code)]
    return np.where(block.time >= k, earlier + 1, 0)


def at_start(block: Batch, code: np.ndarray) -> np.ndarray:
    """The code of the first row of each row's episode, plus 1; 0 in that row."""
    return np.where(block.first, 0, code[block.first][block.episode] + 1)


def _joined(parts: list[Walk]) -> Walk:
    """What was seen on all parts, added up in their order; a later one may have no look back."""
    first = parts[0]
    return replace(
        first,
        tables={
            key: together([x.tables[key] for x in parts if key in x.tables]) for key in first.tables
        },
        alike={
            key: reduce(add, [x.alike[key] for x in parts if key in x.alike]) for key in first.alike
        },
        contents=tuple(content for x in parts for content in x.contents),
        thinned=reduce(add, [x.thinned for x in parts]),
        rows_after=sum(x.rows_after for x in parts),
        contradictions=tuple(words for x in parts for words in x.contradictions),
    )
