"""Is the log Markov, and does it stay what it is? Whether the past still predicts successor or
reward, given state and action; how many steps a state must remember until it does not, and what
that costs in coverage; whether the world, given (s, a), or the baseline changes in time.

Level 5 %. Measured on Wet Chicken, false alarms of (memory, drift, policy drift) on 200 logs each:
(1.5 %, 3.5 %, 2.5 %) with 2,000 steps, (1.5 %, 5.5 %, 4 %) with 10,000. Power of the test for
memory, on a river whose turbulence repeats itself with probability 0.1, 0.2, 0.3: 82.5 %, 100 %,
100 % of 40 logs of 5,000 steps; of the test for drift, on a river that is faster by 0.5 in the
second half: 100 %. `tests/checks/test_diagnosis_rates.py` measures all this again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.checks.completeness import MOST_ROWS, looked_back
from surefoot.checks.finding import (
    DRIFT,
    FEWEST,
    LEVEL,
    MARKOV,
    NOTE,
    OK,
    POLICY_DRIFT,
    WARNING,
    Finding,
    Verdict,
    concluded,
    tested,
    verdict,
)
from surefoot.checks.time_order import SEGMENTS
from surefoot.checks.walk import (
    ACTION,
    CHOSEN,
    FIRST,
    LEVEL_BEFORE,
    NEXT,
    PAIR,
    REWARD,
    SECOND,
    THIRD,
    TIME,
    Walk,
    frequent_actions,
    larger_by_chance,
    piece_length,
    walk,
)
from surefoot.core.errors import LogError, option
from surefoot.core.labels import as_text
from surefoot.core.text import plural
from surefoot.logs import Log
from surefoot.logs.histories import remember, remembered
from surefoot.statistics.independence import GROUPS, Result, Tables, mantel

MOST = 3  # steps that a longer history is tried with
OFTEN = 20  # visits of a pair that say something about it
MOST_READ_AGAIN = 5_000_000  # larger logs are not read again for that
PARTS = {
    2: "the first and the second half of the log",
    4: "the quarters of the log",
    8: "the eighths of the log",
}
WAVES = 24  # at most so many times up and down over the log
BANDS = (1, 9), (9, WAVES + 1), (WAVES + 1, SEGMENTS // 2)  # slow, middle and fast waves
MEDIAN = 2 * math.log(2)  # of chi-square with two degrees of freedom


def memory(log: Log, seen: Walk) -> Finding:
    """Does the past still predict the successor or the reward, given (s, a)?

    G-tests in eleven contexts, since the finest is the sharpest but needs most data: the pair,
    state and action one, two and three steps back, the previous reward, the first state. And over
    all states together: do mean rewards (or successors, in the order of their labels) differ
    between these contexts? Do they resemble those of the step before, of 8 or 64 steps around, of
    the same episode? A hidden level that stays makes them do so.
    """
    found: dict[str, Tables] = {}
    evidence = []
    for what in (NEXT, REWARD):
        for back in (PAIR, SECOND, THIRD, LEVEL_BEFORE, FIRST):
            table = seen.tables[what, back]
            for name, context in _contexts(back, table.context, log.n_actions).items():
                given = replace(table, context=context)
                found[f"{what} depends on {name}"] = given
                evidence.append(seen.differ(f"{what} on average depends on {name}", what, given))
        evidence += seen.resemble(what, GROUPS)
    result = verdict(log, seen.pairs.state, found, evidence)
    looked_at = seen.rows_after
    where = looked_back(looked_at, log.accounting.used)
    how = tested(result) + where
    conclusion = concluded(
        "Markov",
        MARKOV,
        result,
        {"rows_looked_at": looked_at, "most_rows": MOST_ROWS},
        untested=f"too few visits of any pair to tell whether the log is Markov{where}",
        fine="no sign that the past matters once state and action are known",
        wrong=f"outcomes depend on earlier steps: given state and action, {result.source}",
        advice=(
            "Something that matters is missing from the state (add it), or its measurements are in"
            " bins that are too coarse; values and guarantees assume that this is not so"
        ),
        how=how,
        steps=looked_at,
    )
    if log.n_episodes == log.accounting.used:
        sentence = "every episode is one step long: there is no past that could matter"
        return replace(conclusion, level=OK, sentence=sentence, vetoes=False)
    return conclusion


def caseload(log: Log, seen: Walk) -> list[Finding]:
    """Does the reward depend on the propensity, given (s, a)? Whoever chose an action more often
    then had other cases, or the log learned from its outcomes; [] without propensities that differ.
    """
    if (REWARD, CHOSEN) not in seen.tables:
        return []
    table = seen.tables[REWARD, CHOSEN]
    words = "the reward"
    mean = seen.differ(words, REWARD, table)
    found = verdict(log, seen.pairs.state, {words: table}, [mean])
    numbers = {"p_value": found.p_value, "explained": found.explained, "rows": found.rows}
    if found.rows < FEWEST:
        return []
    if found.p_value >= LEVEL:
        words = (
            f"rewards do not differ with the propensity of their action (p = {found.p_value:.2g})"
        )
        return [Finding("caseload", OK, words, numbers)]
    words = (
        "given state and action, the reward differs with the propensity of the action (p ="
        f" {found.p_value:.2g}): the policies that made this log had different cases, or one of"
        " them learned from its outcomes. Plain means mislead here; improve judges by weights"
    )
    return [Finding("caseload", WARNING, words, numbers)]


def _contexts(back: str, before: np.ndarray, n_actions: int) -> dict[str, np.ndarray]:
    """A pair, coded from 1 on (0: none yet), as pair, state and action; a level as it is."""
    if back == LEVEL_BEFORE:
        equal = before.max(initial=0) <= 1  # all earlier rewards are: a start is what it tells
        name = "whether the step is the first of its episode" if equal else "the previous reward"
        return {name: before}
    if back == FIRST:
        return {"the first state of the episode": before}
    none = before == 0
    ago = {PAIR: "", SECOND: " two steps back", THIRD: " three steps back"}[back]
    the = "the " if ago else "the previous "
    return {
        f"{the}state and action{ago}": before,
        f"{the}state{ago}": np.where(none, 0, (before - 1) // n_actions + 1),
        f"{the}action{ago}": np.where(none, 0, (before - 1) % n_actions + 1),
    }


def enough_history(log: Log, markov: Finding) -> Finding | None:
    """Which history makes the test for memory pass; None where it passes as it is.

    `markov` is what `memory` found. A history that passes need not be enough: with more states
    there are fewer visits of each, so the test sees less.
    """
    if markov.level != WARNING or not markov.looked:
        return None
    plain, steps = remembered(log)
    tried = [_cost(log, markov, steps)]
    if log.accounting.used > MOST_READ_AGAIN:
        words = f"try whether a longer history helps: {option('history', steps + 1)}"
        return Finding("history", NOTE, words, {"tried": tried})
    why = ""
    for k in range(steps + 1, MOST + 1):
        try:
            made = remember(plain, k)
        except LogError as error:
            why = f" ({error})"
            break
        tried.append(_cost(made, memory(made, walk(made)), k))
        if tried[-1]["p_value"] >= LEVEL:
            return Finding("history", NOTE, _passing(tried[0], tried[-1]), {"tried": tried})
    last = tried[-1]
    sentence = (
        f"a history of up to {plural(last['history'], 'step')} does not make the test for memory"
        f" pass{why}: what matters is older, or not in the log"
    )
    return Finding("history", NOTE, sentence, {"tried": tried})


def _passing(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The first history that passes, in words."""
    k, tested = after["history"], after["rows"]
    return (
        f"with {option('history', k)} the test for memory no longer finds anything (p ="
        f" {after['p_value']:.2g}, {tested:,} steps tested). It costs coverage:"
        f" {after['states']:,} states instead of {before['states']:,}, and"
        f" {after['share_often']:.0%} of the steps take an action that was seen {OFTEN} times or"
        f" more in its state, instead of {before['share_often']:.0%}"
    )


def _cost(log: Log, markov: Finding, steps: int) -> dict[str, Any]:
    """What a history of so many steps finds and costs."""
    often = log.n_sa >= OFTEN
    return {
        "history": steps,
        "p_value": markov.numbers["p_value"],
        "rows": markov.numbers["rows"],
        "passes": markov.level == OK,
        "states": log.n_states - log.has_end,
        "pairs": int((log.n_sa > 0).sum()),
        "pairs_often": int(often.sum()),
        "share_often": float(log.n_sa[often].sum() / log.n_sa.sum()),
    }


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
) -> Verdict:
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
