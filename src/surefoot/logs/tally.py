"""Tally: counted triples with their labels, additive, and the Counts they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from surefoot.core import END, Counts
from surefoot.errors import LogError
from surefoot.logs.accounting import Accounting

TO_END = -1  # the code of the next state "(end)"


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
            s=np.concatenate((left.s, right.s)),
            a=np.concatenate((left.a, right.a)),
            s2=np.concatenate((left.s2, right.s2)),
            k=np.concatenate((left.k, right.k)),
            r=np.concatenate((left.r, right.r)),
            m2=np.concatenate((left.m2, right.m2)),
            ended=tuple(sorted({*left.ended, *right.ended})),
            starts=np.sum(starts, axis=0) if starts else None,
            lowest=float(np.fmin(left.lowest, right.lowest)),
            highest=float(np.fmax(left.highest, right.highest)),
            accounting=self.accounting + other.accounting,
        )

    def over(self, states: tuple[Any, ...], actions: tuple[Any, ...]) -> Tally:
        """The same with codes into larger label tables."""
        if (states, actions) == (self.states, self.actions):
            return self
        to_state, to_action = _codes(self.states, states), _codes(self.actions, actions)
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
        if not as_sparse:
            pair = self.s.astype(np.int64) * n_actions + self.a
            shape = (n_states, n_actions, n_states)
            k, r, rest = _joined(
                pair * n_states + s2,
                pair,
                self,
                n_states * n_actions * n_states,
                n_states * n_actions,
            )
            return Counts(
                k.reshape(shape), r.reshape(shape), rest.reshape(shape[:2]), n_states, n_actions
            )
        shape2 = (n_states * n_actions, n_states)
        small = max(shape2[0], len(s2)) < 2**31 - 1  # half the memory to go through
        whole: type[np.integer[Any]] = np.int32 if small else np.int64
        pair = np.asarray(self.s, dtype=whole) * n_actions + np.asarray(self.a, dtype=whole)
        places = np.arange(len(s2), dtype=whole)
        # its data: which entry went where
        where = sparse.coo_array((places, (pair, s2.astype(whole))), shape=shape2).tocsr()
        if where.nnz < len(s2):
            return self._joined_first(pair.astype(np.int64), s2, n_states).counts(as_sparse=True)
        where.sort_indices()
        n_sas, r_sas, scatter = (
            sparse.csr_array(
                (x[where.data].astype(float, copy=False), where.indices, where.indptr), shape=shape2
            )
            for x in (self.k, self.r, self.m2)
        )
        rest = np.asarray(scatter.sum(axis=1)).reshape(1, n_states, n_actions)
        return Counts(n_sas, r_sas, rest, n_states, n_actions)

    def _joined_first(self, pair: np.ndarray, s2: np.ndarray, n_states: int) -> Tally:
        """The tally with each triple once."""
        key, first, place = np.unique(pair * n_states + s2, return_index=True, return_inverse=True)
        k, r, rest = _joined(place, place, self, len(key), len(key))
        return replace(self, s=self.s[first], a=self.a[first], s2=self.s2[first], k=k, r=r, m2=rest)


def _joined(
    triple: np.ndarray, group: np.ndarray, x: Tally, n_triples: int, n_groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k, r, m2) summed: k and r by triple, m2 by group, with sum of k (mean - mean of the
    triple)^2 for triples that come in parts.

    Scatters are added up in the order of the triples, not in that in which they came.
    """
    k = np.bincount(triple, weights=x.k, minlength=n_triples)
    r = np.bincount(triple, weights=x.r, minlength=n_triples)
    apart = x.r / x.k - r[triple] / k[triple]
    scatter, order = (
        x.m2 + np.where(k[triple] > x.k, x.k * apart**2, 0.0),
        np.argsort(triple, kind="stable"),
    )
    return k, r, np.bincount(group[order], weights=scatter[order], minlength=n_groups)


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


def _codes(labels: tuple[Any, ...], among: tuple[Any, ...]) -> np.ndarray:
    """The place of each label in a larger table."""
    place = {label: i for i, label in enumerate(among)}
    return np.array([place[label] for label in labels], dtype=np.int64)


def all_labels(tally: Tally) -> tuple[Any, ...]:
    """The labels of the states, with "(end)" last where it is needed."""
    if tally.has_end and END in tally.states:
        raise LogError(
            f"the log has a state labelled {END!r}, the name of the extra state its terminal steps"
            " lead to: rename it"
        )
    return (*tally.states, END) if tally.has_end else tally.states
