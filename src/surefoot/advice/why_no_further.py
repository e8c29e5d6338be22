"""Why an improvement goes no further in a state, and why it may do there what it does: in words,
from the half of the log that it was learned from.
"""

from __future__ import annotations

import numpy as np

from surefoot.advice.learn_and_test import Advice
from surefoot.algorithms.algorithm import Restricts
from surefoot.core.arrays import row_sum
from surefoot.core.policy import CHANGED
from surefoot.planning import Trust
from surefoot.planning.trusts import FreeTrust, SoftTrust, TradeTrust
from surefoot.problems import Problem

ONE_ACTION = "the log tried one action only"
NOT_LEARNED = "the half that the policy is learned from never came here"
NOTHING_BETTER = "no action that the log has tried looks better than what the baseline does"
TOO_RARE = "what looks better was tried too rarely"
TOO_DEAR = "what looks better does not pay the price of its uncertainty"
SPENT = "the budget of this state is spent"
NEXT_TOO_DEAR = "the next move would gain less than the price of its uncertainty"
ALL_MOVED = "all of the probability that may move has moved to the best action"
NO_FURTHER = "a further move would gain nothing"
OUTSIDE = "outside the changes that are worth most (--most-changes {})"
LOOKED_BETTER = "what gets more probability was tried here and looked better"
ALLOWED_PRICED = f"{LOOKED_BETTER}, by more than the price of its uncertainty"
ALLOWED_SOFT = f"{LOOKED_BETTER}, and the budget for uncertain moves covers it"
ALLOWED_FREE = f"{LOOKED_BETTER}, and all that changes was tried often enough"
CHECKED = "; the half that tests has seen it, too"
GUARDED = "a further move would cost too much in a guarded column"
TAKEN_BACK = "the half that tests saw too little of the other moves: they were taken back"
ALL_TAKEN_BACK = "the half that tests saw too little of what looked better: it was taken back"


def trust_of(advice: Advice) -> Trust | None:
    """How far each probability might move in the half that the candidate was learned from; None
    where the algorithm has no such limits.
    """
    if advice.gain is None or not isinstance(advice.algorithm, Restricts):
        return None
    (block,) = advice.gain.learned.blocks
    return advice.algorithm.trust(block, block.n_sa)


def why_no_further(advice: Advice, trust: Trust | None) -> list[str]:
    """Why the candidate moves no further in each state, from the half that it was learned from."""
    gain, solution = advice.gain, advice.solution
    if gain is None or solution is None:
        return [ONE_ACTION] * advice.problem.n_states
    learned, pi = gain.learned, np.asarray(solution.pi)
    base, n, q = np.asarray(learned.pi_b), np.asarray(learned.n_sa), np.asarray(solution.q)
    tolerance = learned.tolerance
    changed = 0.5 * np.abs(pi - base).sum(axis=1) > CHANGED
    limits = _limits(trust, pi)
    price = trust is not None and trust.price is not None
    best = np.where(n > 0, q, -np.inf).max(axis=1)
    better = best > (base * np.where(n > 0, q, 0.0)).sum(axis=1) + tolerance
    back = 0.5 * np.abs(pi - advice.candidate).sum(axis=1) > CHANGED
    outside = np.zeros(len(pi), dtype=bool) if gain.outside is None else gain.outside
    held = _held_by_guards(learned, trust, pi, q)
    n_log = advice.log.n_sa
    found = []
    for s in range(len(pi)):
        if int((n_log[s] > 0).sum()) <= 1:
            words = ONE_ACTION
        elif not n[s].any():
            words = NOT_LEARNED
        elif outside[s]:
            words = OUTSIDE.format(gain.most)
        elif changed[s]:
            partly = TAKEN_BACK if advice.moved[s] > CHANGED else ALL_TAKEN_BACK
            words = partly if back[s] else GUARDED if held[s] else limits[s]
        elif held[s]:
            words = GUARDED
        elif better[s]:
            words = TOO_DEAR if price else TOO_RARE
        else:
            words = NOTHING_BETTER
        found.append(words)
    return found


def _held_by_guards(
    problem: Problem, trust: Trust | None, pi: np.ndarray, q: np.ndarray
) -> np.ndarray:
    """The states [S] in which the algorithm would go further without the guards."""
    if not problem.guards or trust is None:
        return np.zeros(len(pi), dtype=bool)
    (block,) = problem.blocks
    free = trust.step(q[None], block.pi_b)[0]
    return np.asarray(0.5 * np.abs(np.asarray(free) - pi).sum(axis=1) > CHANGED)


def why_allowed(advice: Advice, trust: Trust | None) -> str:
    """Why the algorithm may make a move."""
    gain = advice.gain
    if gain is None:
        return ""
    words = LOOKED_BETTER
    if trust is not None:
        priced = ALLOWED_SOFT if trust.price is None else ALLOWED_PRICED
        words = ALLOWED_FREE if isinstance(trust, FreeTrust) else priced
    tested = advice.candidate is gain.pi and not gain.weighed
    return words + CHECKED * tested


def _limits(trust: Trust | None, pi: np.ndarray) -> list[str]:
    """What ended the moves of each state that changes."""
    if isinstance(trust, FreeTrust):
        return [ALL_MOVED] * len(pi)
    if not isinstance(trust, (SoftTrust, TradeTrust)):
        return [NO_FURTHER] * len(pi)
    rise, fall = np.maximum(pi - trust.b, 0.0), np.maximum(trust.b - pi, 0.0)
    if isinstance(trust, SoftTrust):
        up, down = trust.up, trust.down
    else:
        up, down = trust.e, np.zeros_like(trust.e) if trust.lower else trust.e
    up, down = (np.where(np.isfinite(x), x, 0.0) for x in (up, down))
    spent = np.asarray(row_sum(up * rise + down * fall)[0]) >= trust.budget * (1 - 1e-6)
    single = np.any(pi > 1 - CHANGED, axis=1)
    further = NO_FURTHER if trust.price is None else NEXT_TOO_DEAR
    return [SPENT if spent[s] else ALL_MOVED if single[s] else further for s in range(len(pi))]
