"""Does the log stay what it is? Whether the world, given (s, a), or the baseline changes in time.

Level 5 %. Measured on Wet Chicken, false alarms of (drift, policy drift) on 200 logs each: (3.5 %,
2.5 %) with 2,000 steps, (5.5 %, 4 %) with 10,000. Power of the test for drift, on a river that is
faster by 0.5 in the second half: 100 % of 40 logs of 5,000 steps
(`tests/checks/test_diagnosis_rates.py`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from surefoot.checks.finding import (
    DRIFT,
    LEVEL,
    NOTE,
    POLICY_DRIFT,
    Finding,
    TestVerdict,
    concluded,
    tested,
    verdict,
)
from surefoot.checks.time_order import SEGMENTS
from surefoot.checks.walk import (
    ACTION,
    NEXT,
    REWARD,
    TIME,
    Walk,
    frequent_actions,
    larger_by_chance,
    piece_length,
)
from surefoot.core.labels import as_text
from surefoot.logs import Log
from surefoot.statistics.independence import GROUPS, Result, Tables, mantel

PARTS = {
    2: "the first and the second half of the log",
    4: "the quarters of the log",
    8: "the eighths of the log",
}
WAVES = 24  # at most so many times up and down over the log
BANDS = (1, 9), (9, WAVES + 1), (WAVES + 1, SEGMENTS // 2)  # slow, middle and fast waves
MEDIAN = 2 * math.log(2)  # of chi-square with two degrees of freedom


def drift(log: Log, seen: Walk) -> Finding:
    """Do successors or rewards, given (s, a), change in time?

    G-tests between halves, quarters and eighths of the rows in order of time, and between days of
    the week and so on where times are dates. Over all pairs together: a trend, or 1 to 24 waves
    over the log (see `waves`), or a cycle of any period, such as a week of rows (see `rhythm`).
    Where every episode is one step: do neighbouring rows resemble each other?
    """
    found: dict[str, Tables] = {}
    evidence, inflation = [], 1.0
    pairs, n_pairs = seen.pairs, len(seen.pairs.code)
    for what in (NEXT, REWARD):
        found |= _in_parts(seen, what, f"{what}s")
        table = seen.tables[what, TIME]
        wave, larger = waves(f"{what}s", table, pairs.scores(what, table), n_pairs)
        evidence.append(wave)
        inflation = max(inflation, larger)
    for name in seen.clock.calendar:
        words = f"the mean rewards differ between {name}"
        evidence.append(seen.differ(words, REWARD, seen.tables[REWARD, name]))
    if log.n_episodes == log.accounting.used:
        evidence += seen.resemble(REWARD, GROUPS[:-1])
    evidence += seen.turn(f"{REWARD}s", REWARD)
    result = _calibrated(log, seen, (NEXT, REWARD), pairs.state, found, evidence, inflation)
    order = seen.clock.words
    return concluded(
        "drift",
        DRIFT,
        result,
        {"order": order},
        untested="too few visits of any pair to compare parts of the log",
        fine="no sign that outcomes changed over time or have seasons",
        wrong=f"outcomes changed over time: given state and action, {result.source}",
        advice="Learn from the part that is like tomorrow, or put what changed into the state",
        how=f"{tested(result)}, {order}",
        steps=log.accounting.used,
    )


def policy_drift(log: Log, seen: Walk) -> Finding:
    """Do the actions in a state change in time? The same tests, each frequent action by itself."""
    table = seen.tables[ACTION, TIME]
    evidence, inflation = [], 1.0
    for a in frequent_actions(log):
        words = f"the shares of action {as_text(log.actions[a])[:60]!r}"
        taken_then = (table.outcome == a).astype(float)
        wave, larger = waves(words, table, taken_then, log.n_states)
        evidence += [wave, *seen.turn(words, a)]
        inflation = max(inflation, larger)
    found = _in_parts(seen, ACTION, "the actions")
    result = _calibrated(log, seen, (ACTION,), np.arange(log.n_states), found, evidence, inflation)
    order = seen.clock.words
    how = f"p = {result.p_value:.2g}, {order}"
    if log.has_propensities and result.rows and result.p_value < LEVEL:
        words = f"the actions change in time ({how}): {result.source}; the propensities say how"
        return Finding("policy drift", NOTE, words, {"p_value": result.p_value}, POLICY_DRIFT)
    return concluded(
        "policy drift",
        POLICY_DRIFT,
        result,
        {"order": order},
        untested="too few visits of any state to compare the actions of parts of the log",
        fine="no sign that the way actions are chosen changed",
        wrong=(
            f"the way actions were chosen changed during the log ({result.source}), so effects of"
            " actions and of time cannot be told apart"
        ),
        advice="Use data from after the change",
        how=how,
    )


def _calibrated(
    log: Log,
    seen: Walk,
    outcomes: tuple[str, ...],
    state: np.ndarray,
    found: dict[str, Tables],
    evidence: list[Result],
    inflation: float,
) -> TestVerdict:
    """The verdict; before it warns, tables are measured by what they are where time is drawn by
    lots.
    """
    first = verdict(log, state, found, evidence, inflation)
    if first.p_value >= LEVEL:
        return first
    block, length = next(iter(log.blocks())), piece_length(log)
    chance = max(larger_by_chance(block, length, seen, what, max(PARTS)) for what in outcomes)
    return verdict(log, state, found, evidence, inflation * chance)


def _in_parts(seen: Walk, what: str, words: str) -> dict[str, Tables]:
    """The tables of an outcome by part of the log and by the calendar."""
    table = seen.tables[what, TIME]
    found = {
        name: replace(table, context=table.context * k // SEGMENTS) for k, name in PARTS.items()
    } | {name: seen.tables[what, name] for name in seen.clock.calendar}
    return {f"{words} differ between {name}": x for name, x in found.items()}


def waves(what: str, given: Tables, y: np.ndarray, n_strata: int) -> tuple[Result, float]:
    """(do scores rise and fall with time? Mantel's test of a trend and of 1, ..., 24 waves; how
    much larger waves are than those of independent rows).

    Contexts are segments, at t in (0, 1) of the log: cos(pi t) is a trend, sin and cos(2 pi j t)
    together are j waves. The smallest p-value is multiplied by their number (Bonferroni). Where
    rows resemble those before for another reason than drift, because states are bins of
    measurements, say, all waves of a kind are larger than chance makes them, while drift is in few
    of them: chi-square is divided by the largest of the medians of slow, middle and fast waves.
    """
    t = (np.arange(SEGMENTS) + 0.5) / SEGMENTS
    both = [g(2 * np.pi * j * t) for j in range(1, SEGMENTS // 2) for g in (np.sin, np.cos)]
    found = mantel(given, y, np.stack([np.cos(np.pi * t), *both], axis=1), n_strata)
    parts = [slice(0, 1), *(slice(2 * j - 1, 2 * j + 1) for j in range(1, SEGMENTS // 2))]
    square = np.array([x if k == 2 else np.nan for x, k in map(found.chi_square, parts)])
    medians = [np.median(square[i:j]) / MEDIAN for i, j in BANDS if not np.isnan(square[i:j]).any()]
    inflation = max([1.0, *map(float, medians)])
    results = [found.tested(part, inflation) for part in parts[: WAVES + 1]]
    worst = int(np.argmin([p for p, _ in results]))  # 0 is a trend
    p, explained = results[worst]
    rises = f"rise and fall {'once' if worst == 1 else f'{worst} times'} over the log"
    how = rises if worst else "show a trend over the log"
    return Result(f"{what} {how}", min(1.0, p * len(results)), explained, found.rows), inflation
