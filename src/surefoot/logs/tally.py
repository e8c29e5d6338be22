"""Tally: counted triples with their labels, additive, and the Counts they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from surefoot.core import Counts, count_triples
from surefoot.core.errors import LogError
from surefoot.logs.accounting import Accounting
from surefoot.logs.column_roles import Reward

TO_END = -1  # the code of the next state "(end)"
TRIPLE = ("s", "a", "s2", "k", "r", "m2")  # the columns of the triples


@dataclass(frozen=True, kw_only=True)
class Tally:
    """k rows (sum of rewards r, scatter m2) for each triple (s, a, s2) of codes into the label
    tables.

    s2 = TO_END where a terminal step names no next state. `ended` are the codes of states that
    terminal steps lead to, `starts` [len(states)] the number of episodes that start in each state;
    None where the order of rows was not looked at.
    """

    states: tuple[Any, ...]
    actions: tuple[Any, ...]
    s: np.ndarray
    a: np.ndarray
    s2: np.ndarray
    k: np.ndarray
    r: np.ndarray
    m2: np.ndarray
    ended: tuple[int, ...]
    starts: np.ndarray | None
    lowest: float
    highest: float
    accounting: Accounting
    reward: Reward

    def __add__(self, other: Tally) -> Tally:
        """Both parts of a log together: over all labels of either, in their order."""
        if not isinstance(other, Tally):
            return NotImplemented
        states, actions = merged(self.states, other.states), merged(self.actions, other.actions)
        left, right = self.over(states, actions), other.over(states, actions)
        starts = [x.starts for x in (left, right) if x.starts is not None]
        return Tally(
            states=states,
            actions=actions,
            **{x: np.concatenate((getattr(left, x), getattr(right, x))) for x in TRIPLE},
            ended=tuple(sorted({*left.ended, *right.ended})),
            starts=np.sum(starts, axis=0) if starts else None,
            lowest=float(np.fmin(left.lowest, right.lowest)),
            highest=float(np.fmax(left.highest, right.highest)),
            accounting=self.accounting + other.accounting,
            reward=self.reward,
        )

    def over(self, states: tuple[Any, ...], actions: tuple[Any, ...]) -> Tally:
        """The same with codes into larger label tables."""
        if (states, actions) == (self.states, self.actions):
            return self
        to_state, to_action = (
            np.array([place[x] for x in labels], dtype=np.int64)
            for labels, place in (
                (self.states, {x: i for i, x in enumerate(states)}),
                (self.actions, {x: i for i, x in enumerate(actions)}),
            )
        )
        starts = None
        if self.starts is not None:
            starts = np.zeros(len(states))
            starts[to_state] = self.starts
        return replace(
            self,
            states=states,
            actions=actions,
            s=to_state[self.s],
            a=to_action[self.a],
            s2=np.where(self.s2 >= 0, np.append(to_state, 0)[self.s2], self.s2),
            ended=tuple(int(to_state[x]) for x in self.ended),
            starts=starts,
        )

    @property
    def has_end(self) -> bool:
        """Whether the extra state "(end)" is needed."""
        return bool((self.s2 == TO_END).any())

    def counts(self, *, as_sparse: bool) -> Counts:
        """Counts over the states, with "(end)" last where it is needed."""
        n_states, n_actions = len(self.states) + self.has_end, len(self.actions)
        s2 = np.where(self.s2 == TO_END, n_states - 1, self.s2) if self.has_end else self.s2
        return count_triples(
            self.s, self.a, s2, self.k, self.r, self.m2, n_states, n_actions, as_sparse=as_sparse
        )


def add_up(parts: Iterable[Tally]) -> Tally:
    """The tally of all parts of a log."""
    return reduce(lambda x, y: x + y, parts)


def plain_label(x: Any) -> Any:
    """A label as DuckDB returns it; several columns together as a tuple."""
    return tuple(x.values()) if isinstance(x, dict) else x


def merged(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """All labels of both in their order."""
    if left == right:
        return left
    try:
        return tuple(sorted({*left, *right}))
    except TypeError as error:
        raise LogError(
            f"the parts of a log have labels of different types ({left[0]!r} and {right[0]!r}):"
            f" {error}"
        ) from error
