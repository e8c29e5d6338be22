"""Does a measurement say what a state cannot know: the action of its own row, or the reward?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surefoot.checks.finding import LEAKAGE, OK, WARNING, Finding, named
from surefoot.core import Batch

# of the variance, left once rows stand in the order of a measurement: of the actions, of the reward
LITTLE = {"action": 0.005, "reward": 0.001}
WHAT = {
    "action": "the action of its own row: it is the action in another form, or the rule that chose"
    " looked at nothing else and left nothing to chance",
    "reward": "the reward of its own row: it was measured after the action, or the reward is made"
    " of it",
}


def leakage(features: Sequence[str], x: np.ndarray, batch: Batch) -> Finding:
    """What the features x [rows, features] of the rows of a log say beyond a state."""
    lost, numbers = [], {}
    for name, column in zip(features, x.T, strict=True):
        shares = left(column, batch.action, batch.reward)
        for (what, little), share in zip(LITTLE.items(), shares, strict=True):
            numbers[f"{what} left by {name}"] = share
            if share <= little:
                lost.append((name, what))
    if not lost:
        sentence = "no measurement says the action or the reward of its own row"
        return Finding("leakage", OK, sentence, numbers, LEAKAGE)
    words = "; ".join(f"{named([name])} all but determines {WHAT[what]}" for name, what in lost)
    sentence = (
        f"{words}. States may say only what was known before the action was chosen: leave"
        f" {named([lost[0][0]])} out, or give its value of the row before. If it was known then:"
        f" --despite {LEAKAGE}"
    )
    return Finding("leakage", WARNING, sentence, numbers, LEAKAGE, vetoes=True)


def left(x: np.ndarray, action: np.ndarray, reward: np.ndarray) -> tuple[float, float]:
    """The shares of the variance of actions and of rewards that x leaves, by differences of
    neighbours in the order of x (von Neumann, Ann. Math. Stat. 1941):

        P( a_(i+1) != a_(i) ) / ( 1 - sum_a p(a)^2 ),   E( r_(i+1) - r_(i) )^2 / ( 2 var r )

    Rows of one x stand in a random order; those without x are left out. 1 where nothing varies.
    """
    there = np.flatnonzero(~np.isnan(x))
    if len(there) < 2:
        return 1.0, 1.0
    there = there[np.random.default_rng(0).permutation(len(there))]
    there = there[np.argsort(x[there], kind="stable")]
    a, r = action[there], reward[there]
    mixed = 1 - float(((np.bincount(a) / len(a)) ** 2).sum())
    changes, jumps = float((a[1:] != a[:-1]).mean()), float((np.diff(r) ** 2).mean())
    spread = 2 * float(r.var())
    return changes / mixed if mixed > 0 else 1.0, jumps / spread if spread > 0 else 1.0
