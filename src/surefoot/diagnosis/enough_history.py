"""How many steps must a state remember until the test for memory finds nothing, and what does that
cost in coverage?
"""

from __future__ import annotations

from typing import Any

from surefoot.diagnosis.finding import LEVEL, NOTE, OK, WARNING, Finding
from surefoot.diagnosis.memory import memory
from surefoot.diagnosis.walk import walk
from surefoot.errors import LogError, option
from surefoot.logs import Log
from surefoot.logs.histories import remember, remembered
from surefoot.text import plural

MOST = 3  # steps that are tried
OFTEN = 20  # visits of a pair that say something about it
MOST_ROWS = 5_000_000  # larger logs are not read again


def enough_history(log: Log, markov: Finding) -> Finding | None:
    """Which history makes the test for memory pass; None where it passes as it is.

    `markov` is what `memory` found. A history that passes need not be enough: with more states
    there are fewer visits of each, so the test sees less.
    """
    if markov.level != WARNING or not markov.looked:
        return None
    plain, steps = remembered(log)
    tried = [_cost(log, markov, steps)]
    if log.accounting.used > MOST_ROWS:
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
