"""Is the log Markov? Whether what came before still predicts the successor or the reward, given
state and action.

Level 5 %. Measured on Wet Chicken, false alarms of (memory, drift, policy drift) on 200 logs each:
(1.5 %, 3.5 %, 2.5 %) with 2,000 steps, (1.5 %, 5.5 %, 4 %) with 10,000. Power of the test for
memory, on a river whose turbulence repeats itself with probability 0.1, 0.2, 0.3: 82.5 %, 100 %,
100 % of 40 logs of 5,000 steps; of the test for drift, on a river that is faster by 0.5 in the
second half: 100 %. `tests/diagnosis/test_diagnosis_rates.py` measures all this again.
"""

from __future__ import annotations

import numpy as np

from surefoot.diagnosis.alike import GROUPS
from surefoot.diagnosis.combined import Evidence, Verdict, verdict
from surefoot.diagnosis.gtest import Tables, tables
from surefoot.diagnosis.mantel import by_context
from surefoot.diagnosis.walk import LEVEL_BEFORE, NEXT, PAIR, REWARD, SECOND, Tested, Walk
from surefoot.logs import Log


def memory(log: Log, tested: Tested, seen: Walk) -> Verdict:
    """Does the past still predict the successor or the reward, given (s, a)?

    Tables in seven contexts, since the finest is the sharpest but needs most data: the previous
    pair, state, action and reward, and the pair, state and action two steps back. And over all
    states together: do mean rewards (or successors, in the order of their labels) differ between
    these contexts? Do they resemble those of the step before, of 8 or 64 steps around, of the same
    episode? A hidden level that stays makes them do so.
    """
    found: dict[str, Tables] = {}
    evidence = []
    for what in (NEXT, REWARD):
        for back in (PAIR, SECOND, LEVEL_BEFORE):
            table = seen.tables[what, back]
            y = (
                tested.successor.standard(tested.pairs[table.stratum], table.outcome)
                if what == NEXT
                else table.outcome.astype(float)
            )
            for name, context in _contexts(back, table.context, log.n_actions).items():
                found[f"{what} depends on {name}"] = tables(
                    table.stratum, context, table.outcome, table.k
                )
                told = Tables(table.stratum, context, table.outcome, table.k)
                evidence.append(
                    Evidence(
                        f"{what} on average depends on {name}",
                        *by_context(told, y, len(tested.pairs)),
                    )
                )
        for group, x in zip(GROUPS, seen.alike[what], strict=True):
            words = f"{what}s {group} resemble each other (correlation {x.correlation:.2g})"
            evidence.append(
                Evidence(
                    words,
                    x.p_value,
                    x.explained,
                    int(min(x.rows, seen.rows_after)),
                    "of the spread of their means",
                )
            )
    return verdict(log, tested.state, found, evidence)


def _contexts(back: str, before: np.ndarray, n_actions: int) -> dict[str, np.ndarray]:
    """A pair as codes from 1 on (0: the episode had not started) in three grains; the level of
    the previous reward as it is.
    """
    if back == LEVEL_BEFORE:
        return {"the previous reward": before}
    none = before == 0
    the, ago = ("the previous ", "") if back == PAIR else ("the ", " two steps back")
    return {
        f"{the}state and action{ago}": before,
        f"{the}state{ago}": np.where(none, 0, (before - 1) // n_actions + 1),
        f"{the}action{ago}": np.where(none, 0, (before - 1) % n_actions + 1),
    }
