"""Can the propensities of a log be true? A bet against them that nobody can win if they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from surefoot.core.labels import as_text
from surefoot.diagnosis.finding import (
    LEVEL,
    OK,
    PROPENSITIES,
    STRICT,
    WARNING,
    Finding,
    named,
)
from surefoot.logs import Log
from surefoot.text import plural

# stakes of the bet, all played at once: the right one is about p times the excess of the frequency
STAKES = 2.0 ** -np.arange(1, 13)
SUM = 1 + 1e-6  # propensities of one policy and state beyond this sum cannot be true
OFTEN = 5  # rows of an action from which on one and the same propensity counts as constant


@dataclass(frozen=True, repr=False)
class Sums:
    """What is needed of the rows.

    won [stakes, S, A]  sum over rows with the action of log(1 + stake (1 / p - 1))
    least, most, n      of the propensities of each [policy, S, A]
    """

    won: np.ndarray
    least: np.ndarray
    most: np.ndarray
    n: np.ndarray


def _summed(log: Log) -> Sums:
    """One walk over the rows, block by block."""
    shape, size = log.n_sa.shape, log.n_sa.size
    cells = max(len(log.beside.get("policy", ())), 1) * size
    won, n = np.zeros((len(STAKES), size)), np.zeros(cells)
    least, most = np.full(cells, np.inf), np.zeros(cells)
    for block in log.blocks():
        p = block.propensity
        assert p is not None  # this log has propensities
        for i, stake in enumerate(STAKES):
            won[i] += np.bincount(block.pair, np.log1p(stake * (1 / p - 1)), size)
        cell = block.beside.get("policy", np.zeros(len(p))).astype(np.int64) * size + block.pair
        n += np.bincount(cell, minlength=cells)
        np.minimum.at(least, cell, p)
        np.maximum.at(most, cell, p)
    return Sums(won.reshape(-1, *shape), *(x.reshape(-1, *shape) for x in (least, most, n)))


def propensities(log: Log) -> Finding:
    """Does the log take actions more often than its propensities say, or do they sum to more than
    1?

    If p is the probability of the action A that was taken, E[ 1{A = a} / p ] = 1 for an action a
    that can be taken, and 0 for another. So in the rows of a state (or in all rows) the capital
        K = prod over rows of ( 1 + stake ( 1{A = a} / p - 1 ) )
    of a gambler who bets that a comes more often has a mean of at most 1, however the policies
    change with the past. The mean over all pairs, all actions and stakes is such a capital too, and
    P( K >= 1 / level ) <= level (Markov): no assumption, any number of rows. Propensities that are
    all too large are not found by it: they sum to more than 1 over the actions of one policy in a
    state, if each of them is constant. Too large ones only cost evidence; too small ones invent it.
    """
    found = _summed(log)
    log_p, worst = _capital(found.won, log.n_sa)
    p_value = math.exp(min(-log_p, 0.0))
    numbers: dict[str, object] = {"p_value": p_value, "level": LEVEL}
    sums = _totals(found)
    states = [as_text(log.states[s]) for s in np.flatnonzero((sums > SUM).any(axis=0))]
    numbers |= {"states_with_sums_above_1": len(states)}
    if p_value < LEVEL:
        s, a = worst
        where = f"{as_text(log.actions[a])!r}"
        where += f" in state {as_text(log.states[s])!r}" if s >= 0 else ""
        sentence = (
            f"the propensities cannot be true (p = {p_value:.2g}): the log takes actions more often"
            f" than they say, most of all {where}. Give the probabilities with which the actions"
            " were chosen, or leave them out with --propensity -"
        )
        return Finding("propensities", WARNING, sentence, numbers, PROPENSITIES, p_value < STRICT)
    if states:
        return _too_large(log, states, numbers)
    sentence = (
        f"the actions come no more often than their propensities say (p = {p_value:.2g}; from"
        f" {found.least.min():.3g} to {found.most.max():.3g})"
    )
    return Finding("propensities", OK, sentence, numbers, PROPENSITIES)


def _too_large(log: Log, states: list[str], numbers: dict[str, object]) -> Finding:
    """What sums above 1 mean: a fault within one policy; without labels perhaps several."""
    where = f"in {plural(len(states), 'state')} ({named(states)})"
    sentence = f"the propensities of the actions of a state sum to more than 1 {where}"
    if "policy" in log.beside:
        sentence += (
            ", within one policy: they are wrong, or it used something that is not in the state."
            " Give the probabilities with which the actions were chosen, and put what the policy"
            " used into the state"
        )
        return Finding("propensities", WARNING, sentence, numbers, PROPENSITIES, True)
    sentence += (
        ": several policies made this log (name their column with --policy-column), or they are"
        " too large"
    )
    return Finding("propensities", WARNING, sentence, numbers, PROPENSITIES)


def _capital(won: np.ndarray, n_sa: np.ndarray) -> tuple[float, tuple[int, int]]:
    """(the logarithm of the capital; the pair whose bet won most, its state -1 for all states)."""
    lost = np.log1p(-STAKES)[:, None, None]
    n_s, seen = n_sa.sum(axis=1)[None, :, None], n_sa > 0
    pairs = won + (n_s - n_sa[None]) * lost
    n_a, total = n_sa.sum(axis=0)[None, None, :], n_sa.sum()
    actions = won.sum(axis=1, keepdims=True) + (total - n_a) * lost
    each = [
        np.logaddexp.reduce(pairs[:, seen], axis=0) - math.log(len(STAKES)),
        np.logaddexp.reduce(actions[:, 0, seen.any(axis=0)], axis=0) - math.log(len(STAKES)),
    ]
    means = [float(np.logaddexp.reduce(x)) - math.log(len(x)) for x in each]
    s, a = np.argwhere(seen)[int(each[0].argmax())]
    if means[1] > means[0]:
        s, a = -1, np.flatnonzero(seen.any(axis=0))[int(each[1].argmax())]
    return float(np.logaddexp(means[0], means[1]) - math.log(2)), (int(s), int(a))


def _totals(found: Sums) -> np.ndarray:
    """[policies, S] the sum of the propensities of the actions taken OFTEN, where each of them is
    always the same; 0 where one is not, since then the policy changed.
    """
    often = found.n >= OFTEN
    constant = ~often | (found.most - np.where(often, found.least, 0.0) <= 1e-9)
    total = np.where(often, found.most, 0.0).sum(axis=2)
    return np.where(constant.all(axis=2), total, 0.0)
