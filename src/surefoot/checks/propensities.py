"""Can the propensities of a log be true? A bet against them that nobody can win if they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from surefoot.checks.finding import LEVEL, OK, PROPENSITIES, STRICT, WARNING, Finding, named
from surefoot.core.labels import as_text
from surefoot.core.text import plural
from surefoot.logs import Log

# stakes of the bet, all played at once: the right one is about p times the excess of the frequency
STAKES = 2.0 ** -np.arange(1, 13)
SUM = 1 + 1e-6  # propensities of one policy and state beyond this sum cannot be true
OFTEN = 5  # rows of an action from which on one and the same propensity counts as constant


@dataclass(repr=False)
class Bets:
    """Bets on every place (an action of a state, or of all states), each opened when the action
    first comes up there.

    won [stakes, places]  sum of log(1 + stake (1 / p - 1)) over the later rows with that action
    later [places]        how many rows come up there after the first
    opened [places]       its number among those opened, from 1; 0 where the action never came up
    """

    places: int
    groups: int
    won: np.ndarray = field(init=False)
    first: np.ndarray = field(init=False)
    opened: np.ndarray = field(init=False)
    taken: np.ndarray = field(init=False)
    rows: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.won, self.rows = np.zeros((len(STAKES), self.places)), np.zeros(self.groups)
        self.first, self.opened, self.taken = (np.zeros(self.places) for _ in range(3))

    def add(self, group: np.ndarray, place: np.ndarray, p: np.ndarray) -> None:
        """The next rows, in their order; `group` is that of the rows a bet of `place` looks at."""
        order = np.argsort(group, kind="stable")
        inside = group[order]
        begins = np.flatnonzero(np.append(True, np.diff(inside) != 0))
        rank = np.empty(len(p))
        size = np.diff(np.append(begins, len(p)))
        rank[order] = np.arange(len(p)) - np.repeat(begins, size) + self.rows[inside] + 1
        self.rows += np.bincount(group, minlength=self.groups)
        seen, at = np.unique(place, return_index=True)
        new = self.opened[seen] == 0
        seen, at = seen[new][np.argsort(at[new])], np.sort(at[new])
        self.opened[seen] = self.opened.max() + 1 + np.arange(len(seen))
        self.first[seen] = rank[at]
        later = np.ones(len(p), dtype=bool)
        later[at] = False
        place, gain = place[later], 1 / p[later] - 1
        self.taken += np.bincount(place, minlength=self.places)
        for i, stake in enumerate(STAKES):
            self.won[i] += np.bincount(place, np.log1p(stake * gain), self.places)

    def capital(self, group: np.ndarray) -> np.ndarray:
        """log( weight x capital ) of every place; weights 1 / (j (j + 1)) sum to at most 1."""
        lost = np.maximum(self.rows[group] - self.first - self.taken, 0.0) * np.log1p(
            -STAKES[:, None]
        )
        mean = np.logaddexp.reduce(self.won + lost, axis=0) - math.log(len(STAKES))
        j = np.maximum(self.opened, 1.0)
        return np.where(self.opened > 0, mean - np.log(j * (j + 1)), -np.inf)


class Gambler:
    """All bets against the propensities of a log of S states and A actions."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.pairs, self.actions = Bets(shape[0] * shape[1], shape[0]), Bets(shape[1], 1)

    def add(self, state: np.ndarray, action: np.ndarray, p: np.ndarray) -> None:
        """The next rows, in their order."""
        self.pairs.add(state, state * self.shape[1] + action, p)
        self.actions.add(np.zeros_like(state), action, p)

    def capital(self) -> tuple[float, tuple[int, int]]:
        """(the logarithm of the capital; the pair whose bet won most, its state -1 for all)."""
        of_pairs = self.pairs.capital(np.repeat(np.arange(self.shape[0]), self.shape[1]))
        of_actions = self.actions.capital(np.zeros(self.shape[1], dtype=np.int64))
        s, a = divmod(int(of_pairs.argmax()), self.shape[1])
        if of_actions.max() > of_pairs.max():
            s, a = -1, int(of_actions.argmax())
        total = np.logaddexp.reduce(np.append(of_pairs, of_actions)) - math.log(2)
        return float(total), (s, a)


@dataclass(repr=False)
class Spread:
    """The least and the largest propensity of each cell (policy, s, a), and its rows."""

    cells: int
    n: np.ndarray = field(init=False)
    least: np.ndarray = field(init=False)
    most: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.n, self.most = np.zeros(self.cells), np.zeros(self.cells)
        self.least = np.full(self.cells, np.inf)

    def add(self, cell: np.ndarray, p: np.ndarray) -> None:
        """More rows."""
        self.n += np.bincount(cell, minlength=self.cells)
        np.minimum.at(self.least, cell, p)
        np.maximum.at(self.most, cell, p)

    def totals(self, shape: tuple[int, int]) -> np.ndarray:
        """[policies, S] the sum of the propensities of the actions taken OFTEN, where each of them
        is always the same; 0 where one is not, since then the policy changed.
        """
        often = self.n >= OFTEN
        constant = ~often | (self.most - np.where(often, self.least, 0.0) <= 1e-9)
        total, same = (x.reshape(-1, *shape) for x in (np.where(often, self.most, 0.0), constant))
        return np.where(same.all(axis=2), total.sum(axis=2), 0.0)


def propensities(log: Log) -> Finding:
    """Does the log take actions more often than its propensities say, or do they sum to more than
    1?

    If p is the probability of the action A that was taken, E[ 1{A = a} / p ] = 1 for an action a
    that can be taken, and 0 for another. So in the rows of a state (or in all rows) the capital
        K = prod over rows of ( 1 + stake ( 1{A = a} / p - 1 ) )
    of a gambler who bets that a comes more often has a mean of at most 1, however the policies
    change with the past. There is a bet for every action of a state and for every action over all
    states, opened when the action first comes up (so the number of actions that could come up does
    not matter), the j-th with the share 1 / (j (j + 1)) of the money, spread over 12 stakes. All
    together are such a capital too, and P( K >= 1 / level ) <= level (Markov): no assumption, any
    number of rows. Propensities that are all too large are not found by it: they sum to more than 1
    over the actions of one policy in a state, if each of them is constant. Too large ones only cost
    evidence; too small ones invent it.
    """
    shape, size = (log.n_states, log.n_actions), log.n_sa.size
    gambler, spread = Gambler(shape), Spread(max(len(log.beside.get("policy", ())), 1) * size)
    for block in log.blocks():
        p = block.propensity
        assert p is not None  # this log has propensities
        policy = block.beside.get("policy", np.zeros(len(p))).astype(np.int64)
        gambler.add(block.state, block.action, p)
        spread.add(policy * size + block.pair, p)
    capital, worst = gambler.capital()
    p_value = math.exp(min(-capital, 0.0))
    numbers: dict[str, object] = {"p_value": p_value, "level": LEVEL}
    sums = spread.totals(shape)
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
        f" {spread.least.min():.3g} to {spread.most.max():.3g})"
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
