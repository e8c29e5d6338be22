"""Counted: what a log says before anything is declared about it; arrays and log files end here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from surefoot.core import Batch, Counts, Labels, Returns


@dataclass(frozen=True, kw_only=True, repr=False)
class Counted:
    """The counts of a log, its terminal states [S], its (lowest, highest) reward and its labels.

    has_end   whether the last state is the extra state "(end)"
    notes     what a user should know about the log itself
    batch     its rows, where they are carried along
    returns   its Monte-Carlo returns, where they are computed already
    blocks    its rows in blocks of whole episodes, to check returns; None where they are not read
    """

    counts: Counts
    terminal: np.ndarray
    rewards: tuple[float, float]
    has_end: bool
    labels: Labels = field(default=Labels())
    notes: tuple[str, ...] = ()
    batch: Batch | None = None
    returns: Returns | None = None
    blocks: Iterable[Batch] | None = None

    @property
    def n_states(self) -> int:
        """S, "(end)" included."""
        return self.counts.n_states

    @property
    def n_actions(self) -> int:
        """A."""
        return self.counts.n_actions

    @cached_property
    def n_sa(self) -> np.ndarray:
        """How often each pair was taken, [S, A]."""
        return np.asarray(self.counts.n_sa).reshape(self.n_states, self.n_actions)


@dataclass(frozen=True)
class Start:
    """A distribution over states: known, that of `episodes` first states, or that of all visits."""

    distribution: np.ndarray
    episodes: int | None = None
    is_visits: bool = False
    notes: tuple[str, ...] = ()
