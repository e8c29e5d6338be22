"""Is the log Markov? Whether the past still predicts successor or reward, given state and action;
how many steps a state must remember until it does not, and what that costs in coverage; whether the
reward depends on the propensity.

Level 5 %. Measured on Wet Chicken, false alarms on 200 logs each: 1.5 % with 2,000 steps, 1.5 %
with 10,000. Power on a river whose turbulence repeats itself with probability 0.1, 0.2, 0.3:
82.5 %, 100 %, 100 % of 40 logs of 5,000 steps (`tests/checks/test_diagnosis_rates.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.checks.completeness import MOST_ROWS, looked_back
from surefoot.checks.finding import (
    FEWEST,
    LEVEL,
    MARKOV,
    NOTE,
    OK,
    WARNING,
    Finding,
    concluded,
    tested,
    verdict,
)
from surefoot.checks.walk import (
    CHOSEN,
    FIRST,
    LEVEL_BEFORE,
    NEXT,
    PAIR,
    REWARD,
    SECOND,
    THIRD,
    Walk,
    walk,
)
from surefoot.core.errors import LogError, option
from surefoot.core.text import plural
from surefoot.logs import Log
from surefoot.logs.histories import remember, remembered
from surefoot.statistics.independence import GROUPS, Tables

MOST = 3  # steps that a longer history is tried with
OFTEN = 20  # visits of a pair that say something about it
MOST_READ_AGAIN = 5_000_000  # larger logs are not read again for that


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
