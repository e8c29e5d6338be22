"""Is the log Markov? Whether the past still predicts successor or reward, given state and action.

Level 5 %. Measured on Wet Chicken, false alarms of (memory, drift, policy drift) on 200 logs each:
(1.5 %, 3.5 %, 2.5 %) with 2,000 steps, (1.5 %, 5.5 %, 4 %) with 10,000. Power of the test for
memory, on a river whose turbulence repeats itself with probability 0.1, 0.2, 0.3: 82.5 %, 100 %,
100 % of 40 logs of 5,000 steps; of the test for drift, on a river that is faster by 0.5 in the
second half: 100 %. `tests/diagnosis/test_diagnosis_rates.py` measures all this again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from surefoot.diagnosis.copies import MOST_ROWS, looked_back
from surefoot.diagnosis.finding import LEVEL, MARKOV, OK, WARNING, Finding, concluded, tested
from surefoot.diagnosis.independence import FEWEST, GROUPS, Result, Tables, by_context, verdict
from surefoot.diagnosis.walk import (
    CHOSEN,
    FIRST,
    LEVEL_BEFORE,
    NEXT,
    PAIR,
    REWARD,
    SECOND,
    THIRD,
    Walk,
)
from surefoot.logs import Log


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
    pairs = seen.pairs
    for what in (NEXT, REWARD):
        for back in (PAIR, SECOND, THIRD, LEVEL_BEFORE, FIRST):
            table = seen.tables[what, back]
            y = pairs.scores(what, table)
            for name, context in _contexts(back, table.context, log.n_actions).items():
                given = replace(table, context=context)
                found[f"{what} depends on {name}"] = given
                words = f"{what} on average depends on {name}"
                evidence.append(by_context(words, given, y, len(pairs.code)))
        for group in GROUPS:
            x = seen.alike[what, group]
            words = f"{what}s {group} resemble each other (correlation {x.correlation:.2g})"
            rows, of = int(min(x.rows, seen.rows_after)), "of the spread of their means"
            evidence.append(Result(words, x.p_value, x.explained, rows, of))
    result = verdict(log, pairs.state, found, evidence)
    looked_at = seen.rows_after
    where = looked_back(looked_at, log.accounting.used)
    how = tested(result) + where
    conclusion = concluded(
        "Markov",
        MARKOV,
        result,
        {"rows_looked_at": looked_at, "most_rows": MOST_ROWS},
        untested=f"too few visits of any pair to tell whether the log is Markov{where}",
        fine=f"no sign that the past matters once state and action are known ({how})",
        wrong=(
            f"not Markov: given state and action, {result.source}, which explains"
            f" {result.explained:.1%} {result.of} ({how})"
        ),
        advice=(
            "Something that matters is missing from the state (add it), or its measurements are in"
            " bins that are too coarse; values and guarantees assume neither"
        ),
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
    mean = by_context(words, table, seen.pairs.scores(REWARD, table), len(seen.pairs.code))
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
