"""A baseline given as a Python function of the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from surefoot.core import Labels
from surefoot.core.errors import BaselineError
from surefoot.core.labels import unknown

NEARLY = 1e-6  # how far the sum of what a function returns may be from 1; it is rescaled


def tabulated(
    function: Callable[[Any], Any], labels: Labels, n_states: int, n_actions: int, terminal: Any
) -> np.ndarray:
    """pi_b [S, A] of a function that is called once for each state in which somebody can act.

    It gets the label of the state (a tuple where it has several columns; its id where there are no
    labels), and returns {action: probability}, actions that it leaves out having 0, or the
    probabilities of all actions in their order.
    """
    states = labels.states or tuple(range(n_states))
    if not labels.actions:
        labels = Labels(states, tuple(range(n_actions)))
    pi = np.zeros((n_states, n_actions))
    for s, label in enumerate(states):
        if terminal[s]:
            continue
        try:
            said = function(label)
        except Exception as error:  # a function of the user may raise anything
            raise BaselineError(
                f"the baseline function fails in state {labels.state(s)}:"
                f" {type(error).__name__}: {error}"
            ) from error
        pi[s] = checked_row(said, labels, f"the baseline function, in state {labels.state(s)},")
    return pi


def checked_row(said: Any, labels: Labels, where: str) -> np.ndarray:
    """Probabilities of all actions, checked."""
    n = len(labels.actions)
    if isinstance(said, Mapping):
        row = np.zeros(n)
        for action, p in said.items():
            a = labels.find_action(action)
            if a is None and p != 0:
                raise BaselineError(
                    f"{where} returned a probability of an action that the log does not have:"
                    f" {unknown('action', action, labels.actions)}; if it exists, name all actions"
                    " when reading the log (actions=[...])"
                )
            if a is not None:
                row[a] = _probability(p, where)
    elif isinstance(said, (list, tuple, np.ndarray)):
        if np.shape(said) != (n,):
            raise BaselineError(
                f"{where} must return {n} probabilities, in the order of the actions, or a dict of"
                f" them; it returned the shape {list(np.shape(said))}"
            )
        row = np.array([_probability(p, where) for p in said])
    else:
        raise BaselineError(
            f"{where} must return {{action: probability}} or an array of probabilities, got"
            f" {said!r}; one that always takes an action returns {{action: 1}}"
        )
    total = float(row.sum())
    if abs(total - 1) > NEARLY:
        raise BaselineError(f"{where} returned probabilities that sum to {total:.6g}, not 1")
    return row / total


def _probability(p: Any, where: str) -> float:
    try:
        found = float(p)
    except (TypeError, ValueError) as error:
        raise BaselineError(f"{where} must return probabilities, got {p!r}") from error
    if not 0 <= found <= 1 + NEARLY:
        raise BaselineError(f"{where} must return probabilities, got {found:g}")
    return found
