"""`make_log`: from a tally to a Log, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.core import END, Labels
from surefoot.core.array_checks import MOST_PAIRS
from surefoot.core.errors import LogError, option
from surefoot.core.labels import as_text, in_kind_of, match, places_of, unknown
from surefoot.logs.accounting import notes_on, warnings_on
from surefoot.logs.database import Workspace
from surefoot.logs.log import Log
from surefoot.logs.query import Options, Reading
from surefoot.logs.tally import Tally, merged
from surefoot.problems.given import held_sparse


def make_log(
    tally: Tally,
    options: Options,
    *,
    terminal_states: tuple[Any, ...] = (),
    sparse: bool | None = None,
    reading: Reading | None = None,
    workspace: Workspace | None = None,
    beside: Mapping[str, tuple[Any, ...]] | None = None,
) -> Log:
    """The Log of a tally, checked; `reading` and `workspace` say where its rows are."""
    if not tally.states:
        raise LogError(
            "no row has a successor: every episode is one step long and cut; give next_state, flag"
            f" terminal steps, or say {option('episode_end', 'terminal')} if every episode ends"
            " with its last row"
        )
    places = places_of(tally.actions)
    extra = [
        in_kind_of(x, tally.actions) for x in options.actions or () if match(x, places) is None
    ]
    tally = tally.over(tally.states, merged(tally.actions, tuple(extra))) if extra else tally
    states = tally.states
    if tally.has_end and END in states:
        raise LogError(
            f"the log has a state labelled {END!r}, the name of the extra state its terminal steps"
            " lead to: rename it"
        )
    states = (*states, END) if tally.has_end else states
    if len(states) * len(tally.actions) > MOST_PAIRS:
        raise LogError(
            f"{len(states)} states x {len(tally.actions)} actions are more than {MOST_PAIRS:,}"
            " pairs: is the state column right?"
        )
    label_columns = options.label_columns
    if reading is not None:
        label_columns = (reading.store.columns.state, reading.store.columns.action)
    labels = Labels(states, tally.actions, *label_columns)
    terminal, notes = _terminal(tally, labels, terminal_states)
    made = Log(
        counts=tally.counts(as_sparse=held_sparse(sparse, len(states), len(tally.actions))),
        labels=labels,
        starts=None if tally.starts is None else np.append(tally.starts, [0.0] * tally.has_end),
        terminal=terminal,
        rewards=(float(tally.lowest), float(tally.highest)),
        has_end=tally.has_end,
        accounting=tally.accounting,
        reward=tally.reward,
        columns=str(reading.store.columns) if reading is not None else "",
        notes=(),
        beside=dict(beside or {}),
        reading=reading,
        workspace=workspace,
    )
    _check_acting(made)
    warnings = tuple(f"WARNING: {x}" for x in warnings_on(made))
    notes = [*warnings, *notes_on(made, options.missing_reward), *notes]
    return replace(made, notes=tuple(notes), warnings=warnings)


def _terminal(tally: Tally, labels: Labels, named: tuple[Any, ...]) -> tuple[np.ndarray, list[str]]:
    """(the mask of terminal states, notes about those that never occur)."""
    terminal = np.zeros(len(labels.states), dtype=bool)
    terminal[list(tally.ended)] = True
    terminal[len(labels.states) - tally.has_end :] = True
    notes = []
    for label in named:
        place = labels.find_state(label)
        if place is None:
            notes.append(f"terminal {unknown('state', label, labels.states)}")
        else:
            terminal[place] = True
    return terminal, notes


def _check_acting(log: Log) -> None:
    """Nobody acts in a terminal state."""
    acting = np.flatnonzero(log.terminal & (log.n_sa.sum(axis=1) > 0))
    if len(acting):
        s = int(acting[0])
        raise LogError(
            f"{int(log.n_sa[s].sum())} rows act in state {as_text(log.states[s])!r}, which is"
            f" terminal ({len(acting)} such states): a terminal state has no actions. If a terminal"
            f" step returns to an ordinary state, pass {option('terminal_to_end', True)}: it then"
            " leads to an extra state (end)"
        )
