"""The rows of a baseline file about states that the log never visits: there the policy keeps the
baseline, and its file says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surefoot.core.labels import as_text
from surefoot.logs import Log
from surefoot.logs.table import read_table

Row = tuple[Any, str, float]  # state, action, probability


def baseline_elsewhere(
    source: Any, log: Log, states: Sequence[str] = ("state",), action: str = "action"
) -> tuple[Row, ...]:
    """(state, action, probability) of the states of the file that the log does not have; `states`
    as the log's columns are called.

    To be asked after `read_baseline`, which has checked the file.
    """
    roles = {
        "state": [",".join(states), "state"],
        "action": [action, "action"],
        "probability": ["probability", "prob", "p", "pi_b", "baseline"],
    }
    rows = read_table(source, roles)
    return tuple(
        (s, as_text(a), float(p))
        for s, a, p in rows
        if log.labels.find_state(s) is None and float(p) > 0
    )
