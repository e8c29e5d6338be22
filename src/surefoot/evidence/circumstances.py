"""Circumstances of a step, when it was taken and after what: what they say of its outcome beyond
its pair, what they explain of a gain, and what the gain is where the state knows them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from surefoot.checks.rhythm import places, rhythm, within
from surefoot.checks.walk import at_start, steps_back
from surefoot.core import Batch
from surefoot.evidence.echoes import echo_of, echoes, frequent, tail
from surefoot.evidence.unit_estimate import UnitEstimate
from surefoot.evidence.unit_model import Comparison, model_of_units
from surefoot.evidence.units import ENOUGH_EPISODES, Units
from surefoot.problems import Problem

# periods of the log, in the order of its rows: one for each 50 rows, from 8 to 32
PERIODS, FEWEST_ROWS = (8, 32), 50
SAMPLED_ROWS = 200_000  # rows looked at, evenly spaced,
MOST_CELLS = 20_000_000  # and so many numbers in all
MOST_VALUES = 12  # states beyond are put together by their value; actions beyond are left out
LAGS = (1, 2, 3)  # steps back
BACK, STEPS, GAPS = 16, 64, 8  # rewards back, exact steps, classes of gaps that are looked at
RICH = 6  # levels of earlier rewards
INEXACT = 1.5
CLEAR = 0.005  # p-value from which on such a context counts
FEWEST_OF_KIND = 10
SPARSE = 20  # times as many moments as rows, in which a cycle is looked for
AROUND = 3  # rows on each side whose outcomes stand for the moment, where episodes are one step
SURE = 0.05  # p-value of a cycle from which on its phase is one
LEVELS = 3  # of what circumstances say, in a state that knows them
# what the measurements are called beside a log whose states were made of them; where in its state
# a row lies may bear on its action and on its outcome, too
MEASURED, PLACES = "measured ", 12


@dataclass(frozen=True, repr=False)
class Circumstances:
    """What circumstances say of outcomes: `effect` [rows] on r + gamma v(s') beyond the pair; and
    what actions of other rows do, `echo` [3, A] (see `echoes`).
    """

    log: Batch
    units: Units
    effect: np.ndarray
    echo: np.ndarray

    def explained(self, chosen: np.ndarray, weight: np.ndarray) -> float:
        """What they explain of a gain in the chosen units:

            sum over pairs of  weight  ( mean of the effect in (s, a) - mean of the effect in s ),

        weight = d(s) (pi - pi_b)(a|s). Where nothing is wrong, effects and differences are of the
        order 1 / sqrt(n): their product costs next to nothing. To that come the echoes of actions,
        times how much more often (or less) the policy does them. What stands for a circumstance is
        not quite it, so what speaks against a gain counts INEXACT times.
        """
        use = chosen[self.units.unit]
        pair, effect = self.units.pair[use], self.effect[use]
        credit = _mean(effect, pair, weight.size) - np.repeat(
            _mean(effect, pair // weight.shape[1], len(weight)), weight.shape[1]
        )
        seen = np.bincount(pair, minlength=weight.size) > 0
        echo = echo_of(self.echo, weight.sum(axis=0))
        found = float((weight.reshape(-1) * credit)[seen].sum()) + echo
        return found * (INEXACT if found > 0 else 1.0)

    def gain(
        self,
        problem: Problem,
        chosen: np.ndarray,
        pi: np.ndarray,
        pi_b: np.ndarray,
        over: np.ndarray | None = None,
    ) -> tuple[UnitEstimate, float]:
        """(the gain in the chosen units if the state also said how good the circumstances are, in
        LEVELS levels of the effect; the share of the moves that these units can check then). The
        policies look at the state alone, as before; the gain is over pi_b, or over `over`.
        """
        log, u = self.log, self.units
        cuts = np.quantile(self.effect, np.arange(1, LEVELS) / LEVELS)
        level = np.searchsorted(cuts, self.effect, side="right")
        follows = np.where(log.last, level, np.append(level[1:], 0))
        wide = replace(
            u,
            state=u.state * LEVELS + level,
            next_state=u.next_state * LEVELS + follows,
            start_state=u.start_state * LEVELS + level[log.first],
            n_states=u.n_states * LEVELS,
            sample=None,
        )
        model = model_of_units(_widened(problem, wide), wide, chosen, _each(pi_b))
        base = pi_b if over is None else over
        moved = np.abs(_each(pi - base)) * model.n_sa.sum(axis=1, keepdims=True)
        checked = float((moved * model.often).sum() / max(moved.sum(), 1e-300))
        against = None if over is None else _each(over)
        return model.compare(_each(pi), against=against).gain, checked


def circumstances_of(problem: Problem, units: Units, compared: Comparison) -> Circumstances | None:
    """Those of all rows, or of the rows that stand for them (`Units.sample`); None where there are
    none, which `advise` then says.

    With x the circumstances of a step and e = y - q(s, a) what its outcome y = r + gamma v(s') has
    beyond its pair, v the baseline's values, the effect is beta . x, beta the regression of e on x
    within pairs.
    """
    log = problem.log
    if log is None and units.sample is not None:
        log, units = units.sample
    if log is None or len(units.unit) != len(log):
        return None
    pair, size = units.pair, compared.weight.size
    y = within(log.reward + log.discounts(problem.gamma) * compared.v[log.next_state], pair, size)
    residual = within(log.reward, pair, size)
    numbers, codes = _looked_at(log, units, residual, compared.v)
    more, acts = _clear(log, units, y, residual), _earlier_actions(log)
    numbers, codes = [*numbers, *more[0]], [*codes, *more[1], *acts]
    wide = len(numbers) + sum(kinds for _, kinds in codes)
    some = slice(None, None, -(-len(log) // min(SAMPLED_ROWS, MOST_CELLS // wide)))
    x = _inside(numbers, codes, pair, size, some)
    scale = np.sqrt([float(row @ row) / len(row) for row in x])
    scale = np.where(scale > 1e-9, scale, np.inf)
    x /= scale[:, None]
    ridge = 1e-6 * x.shape[1] * np.eye(len(x))
    beta = np.linalg.lstsq(x @ x.T + ridge, x @ y[some], rcond=None)[0] / scale
    effect, others, used = np.zeros(len(log)), np.zeros(len(log)), len(numbers)
    for number, slope in zip(numbers, beta, strict=False):
        effect += slope * number
    for i, (code, kinds) in enumerate(codes):
        if i == len(codes) - len(acts):
            others = effect.copy()
        effect += np.append(0.0, beta[used : used + kinds - 1])[code]
        used += kinds - 1
    # what earlier actions do is looked for beyond all but themselves; what they tell, beyond all
    untold = y - within(effect, pair, size)
    left = y - within(others, pair, size) if acts else untold
    echo = echoes(log, left, untold, habits(log), problem.gamma)
    return Circumstances(log, units, effect, echo)


def _looked_at(
    log: Batch, units: Units, residual: np.ndarray, v: np.ndarray
) -> tuple[list[np.ndarray], list[tuple[np.ndarray, int]]]:
    """(numbers, codes with how many there are) of every row: the reward before and the mean of the
    other rewards of its unit, beyond their pairs; the period of the log, and the phase of the
    cycles that rewards or actions have; the step of the episode; states up to three steps back,
    and the first state of the episode. Where every episode is one step long, the mean
    reward of the rows around.
    """
    n = len(log)
    count = np.bincount(units.unit, minlength=units.number)[units.unit]
    total = np.bincount(units.unit, weights=residual, minlength=units.number)[units.unit]
    numbers = [(total - residual) / np.maximum(count - 1, 1)]
    periods = min(max(n // FEWEST_ROWS, PERIODS[0]), PERIODS[1])
    codes = [(np.arange(n) * periods // n, periods), *_phases(log, residual)]
    for x in (x for name, x in log.beside.items() if name.startswith(MEASURED)):
        rank, missing = np.argsort(np.argsort(x, kind="stable")) / n, np.isnan(x)
        numbers.append(np.where(missing, 0.0, rank))
        codes.append((np.where(missing, PLACES, (rank * PLACES).astype(int)), PLACES + 1))
    if log.n_episodes == n:
        window = np.ones(2 * AROUND + 1)
        window[AROUND] = 0.0
        return [*numbers, np.convolve(residual, window, mode="same")], codes
    numbers.append(np.where(log.first, 0.0, np.append(0.0, residual[:-1])))
    if log.n_episodes >= ENOUGH_EPISODES:
        codes.append((np.minimum(np.log2(log.time + 1).astype(int), 5), 6))
    state, kinds = log.state, log.n_states
    if kinds > MOST_VALUES:
        cuts = np.quantile(v[log.state], np.arange(1, MOST_VALUES) / MOST_VALUES)
        state, kinds = np.searchsorted(cuts, v[log.state], side="right"), MOST_VALUES
    codes.append((at_start(log, state), kinds + 1))
    codes += [(steps_back(log, state, k), kinds + 1) for k in LAGS]
    return numbers, codes


def _earlier_actions(log: Batch) -> list[tuple[np.ndarray, int]]:
    """The actions up to three steps back, as codes."""
    if log.n_episodes == len(log) or log.n_actions > MOST_VALUES:
        return []
    return [(steps_back(log, log.action, k), log.n_actions + 1) for k in LAGS]


def _phases(log: Batch, residual: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """The phase of every row in the cycles of rewards and actions, as codes. What rises and falls
    with an action counts, however weak it is, so its cycle is looked for in the actions, too.
    """
    series = [residual]
    series += list(habits(log).T)
    found = {}
    for clock, place in places(log).items():
        for y in series:
            x = rhythm(y, place)
            if x.p_value < SURE:
                found[clock, round(x.period, 2)] = x.phase(place)
    return list(found.values())


def _clear(
    log: Batch, units: Units, y: np.ndarray, residual: np.ndarray
) -> tuple[list[np.ndarray], list[tuple[np.ndarray, int]]]:
    """(numbers, codes) beside these of which outcomes clearly depend: the rewards of 2 to 16 rows
    before, and of the episodes before; the exact step of the episode; the gap since the row before;
    the phase of a cycle in time itself, where rows are not evenly spaced in it.
    """
    numbers = [x for x in _episodes_before(log, residual) if _p_value(y, x, units) < CLEAR]
    looked = itertools.chain(_rewards_before(log), _by_step_and_gap(log, units))
    p_values = _p_of_codes(y, units)
    codes = [x for x in looked if p_values(*x) < CLEAR]
    return numbers, [*codes, *_by_clock(log, units, residual)]


def _rewards_before(log: Batch) -> Iterator[tuple[np.ndarray, int]]:
    """The rewards of earlier rows in levels; 0 where there is no such row."""
    single = log.n_episodes == len(log)
    cuts = np.unique(np.quantile(log.reward, np.arange(1, RICH) / RICH))
    level = np.searchsorted(cuts, log.reward, side="right") + 1
    for k in range(1, min(BACK, len(log) - 1) + 1):
        there = np.arange(len(log)) >= k if single else log.time >= k
        yield np.where(there, np.append(np.zeros(k, dtype=int), level[:-k]), 0), len(cuts) + 2


def _episodes_before(log: Batch, residual: np.ndarray) -> Iterator[np.ndarray]:
    """What the last reward, and the mean one, of earlier episodes had beyond their pairs."""
    if log.n_episodes in (1, len(log)):
        return
    total = np.bincount(log.episode, residual, log.n_episodes)
    rows = np.bincount(log.episode, minlength=log.n_episodes)
    for of in (residual[log.last], total / rows):
        for k in LAGS:
            if k < log.n_episodes:
                yield np.append(np.zeros(k), of[:-k])[log.episode]


def _by_step_and_gap(log: Batch, units: Units) -> Iterator[tuple[np.ndarray, int]]:
    """The exact step, and the gap before, as codes."""
    if 1 < log.n_episodes < len(log):
        yield np.minimum(log.time, STEPS - 1), STEPS
    times = units.times
    if times is None or len(times) != len(log):
        return
    gap = np.append(0.0, np.diff(times))
    if log.n_episodes < len(log):
        gap = np.where(log.first, 0.0, gap)
    values = np.unique(gap)
    if len(values) > 1:
        many = len(values) > GAPS
        cuts = np.unique(np.quantile(gap, np.arange(1, GAPS) / GAPS)) if many else values
        code = np.searchsorted(cuts, gap, side="right")
        yield code, int(code.max()) + 1


def _by_clock(log: Batch, units: Units, residual: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """The phase in time of the cycles that rewards or actions have in it, as codes."""
    stamps = units.stamps
    if stamps is None or len(stamps) != len(log):
        return
    place = stamps - stamps.min()
    at = np.round(place).astype(np.int64)
    if (place == at).all() and at.max() > 0:
        at = at // np.gcd.reduce(at)
        if at.max() >= SPARSE * len(log):
            return
        for y in (residual, *habits(log).T):
            found = rhythm(y, at)
            if found.p_value < SURE:
                yield found.phase(at)


def habits(log: Batch) -> np.ndarray:
    """Every frequent action beyond its state [rows, actions]."""
    return np.stack(
        [within((log.action == a).astype(float), log.state, log.n_states) for a in frequent(log)],
        axis=1,
    )


def _p_value(y: np.ndarray, x: np.ndarray, units: Units) -> float:
    """Whether outcomes go with a number that was known before; the units are independent."""
    return _two_sided(y * (x - x.mean()), units)


def _p_of_codes(y: np.ndarray, units: Units) -> Callable[[np.ndarray, int], float]:
    """Whether outcomes differ between the kinds of a code: the clearest one, times their number; of
    kinds in which so many of the outcomes that matter are expected that their sum is nearly normal
    (few do where successes are rare: Kish's effective number).
    """
    square, largest = float((y**2).sum()), float(np.abs(y).max())
    mattering = square**2 / max(float((y**4).sum()), 1e-300)
    sums = np.bincount(units.unit, y, units.number)
    each = max(float((sums**2).sum()), square) / len(y)  # rows of a unit may go together

    def p_value(code: np.ndarray, kinds: int) -> float:
        rows = np.bincount(code, minlength=kinds)
        enough = np.flatnonzero(rows * mattering >= FEWEST_OF_KIND * len(y))
        if len(enough) < 2 or not square > 0:
            return 1.0
        size = np.sqrt(rows[enough] * each)
        p = tail(np.bincount(code, y, kinds)[enough] / size, largest / size)
        return float(p.min()) * len(enough)

    return p_value


def _two_sided(product: np.ndarray, units: Units) -> float:
    sums = np.bincount(units.unit, product, units.number)
    size = float((sums**2).sum()) ** 0.5
    return float(tail(product.sum() / size, float(np.abs(sums).max()) / size)) if size else 1.0


def _inside(
    numbers: list[np.ndarray],
    codes: list[tuple[np.ndarray, int]],
    pair: np.ndarray,
    size: int,
    some: slice,
) -> np.ndarray:
    """Numbers as they are, and 0 or 1 for each value of a code but the first, all less their means
    in the pair [columns, some rows]: a column lies in one piece, which is twice as fast.
    """
    pair = pair[some]
    found = np.empty((len(numbers) + sum(kinds - 1 for _, kinds in codes), len(pair)))
    for row, x in zip(found, numbers, strict=False):
        row[:] = within(x[some], pair, size)
    at, rows = len(numbers), np.maximum(np.bincount(pair, minlength=size), 1)
    for code, kinds in codes:
        code = code[some]
        share = np.bincount(code * size + pair, minlength=kinds * size).reshape(kinds, size) / rows
        for value in range(1, kinds):
            np.subtract(code == value, share[value][pair], out=found[at])
            at += 1
    return found


def _each(pi: np.ndarray) -> np.ndarray:
    """A policy that does the same at every level."""
    return np.repeat(pi, LEVELS, axis=0)


def _widened(problem: Problem, units: Units) -> Problem:
    """The problem whose states know their level; a given start has the levels of the log."""
    share = np.bincount(units.state, units.k, units.n_states).reshape(-1, LEVELS)
    total = share.sum(axis=1, keepdims=True)
    share = np.where(total > 0, share / np.maximum(total, 1.0), 1 / LEVELS)
    return replace(
        problem,
        counts=units.counts(as_sparse=problem.counts.is_sparse),
        pi_b=_each(np.asarray(problem.pi_b)),
        start=(np.asarray(problem.start)[:, None] * share).reshape(-1),
        terminal=np.repeat(np.asarray(problem.terminal), LEVELS),
        allowed=_each(np.asarray(problem.allowed)),
        reward_table=None,
        made_log=None,
        log=None,
        returns_given=None,
        n_bound_states=0,
        guards=(),
        notes=(),
    )


def _mean(x: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    """The mean of x in each group; 0 where it is empty."""
    found: np.ndarray = np.bincount(at, weights=x, minlength=n) / np.maximum(
        np.bincount(at, minlength=n), 1
    )
    return found
