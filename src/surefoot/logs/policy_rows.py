"""The baseline that one of several policies is, as its own rows of a log show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core import Policy
from surefoot.core.labels import as_text, match, places_of, unknown
from surefoot.errors import LogError, option
from surefoot.problems.given import estimated_policy

if TYPE_CHECKING:
    from surefoot.logs.log import Log


def policy_code(log: Log, label: Any) -> int:
    """The code of a policy, given by its label in the column of policies."""
    if "policy" not in log.beside:
        raise LogError(
            f"the baseline is to be policy {as_text(label)!r}, but no column says which policy"
            f" chose an action: name it with {option('policy')}"
        )
    found = match(label, places_of(log.beside["policy"]))
    if found is None:
        raise LogError(unknown("policy", label, log.beside["policy"]))
    return found


def baseline_of(
    log: Log, label: Any, smoothing: float = 0.0, allowed: np.ndarray | None = None
) -> Policy:
    """The shares of actions in the rows of one policy; in states that it never visited, those of
    the whole log.
    """
    code = policy_code(log, label)
    n_sa = np.zeros(log.n_sa.size)
    for block in log.blocks():
        n_sa += np.bincount(block.pair[block.beside["policy"] == code], minlength=len(n_sa))
    own = n_sa.reshape(log.n_sa.shape)
    visited = own.sum(axis=1) > 0
    rows = np.where(visited[:, None], own, log.n_sa)
    elsewhere = int(((log.n_sa.sum(axis=1) > 0) & ~visited).sum())
    more = f"; in {elsewhere} states without any, from all rows" if elsewhere else ""
    note = (
        f"the baseline is policy {as_text(label)!r} as its {int(own.sum()):,} rows show it, state"
        f" by state{more}; guarantees for a known baseline do not apply"
    )
    found = estimated_policy(rows, log.labels, smoothing, allowed)
    return Policy(
        pi=found.pi, labels=log.labels, estimated=True, smoothing=found.smoothing, notes=(note,),
        of_policy=code,
    )  # fmt: skip
