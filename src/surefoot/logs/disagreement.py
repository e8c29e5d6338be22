"""Disagreement: whether a baseline can have made the log, and in which states it can not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.core.labels import as_text
from surefoot.logs.given_policies import policy_for
from surefoot.problems.action_distance import action_distance

if TYPE_CHECKING:
    from surefoot.logs.log import Log


@dataclass(frozen=True, repr=False, kw_only=True)
class Disagreement:
    """How unlikely a baseline is to have taken the actions of the log (see `ActionDistance`).

    p_values [S]    of each state; p_value of all together
    impossible      rows with an action of probability 0; `impossible_in` [S] by state
    """

    p_values: np.ndarray
    p_value: float
    impossible_in: np.ndarray
    states: tuple[Any, ...]
    visits: np.ndarray

    @property
    def impossible(self) -> int:
        """Rows whose action has probability 0 under the baseline."""
        return int(self.impossible_in.sum())

    def worst(self, n: int = 5) -> list[tuple[Any, float, int]]:
        """(label, p-value, impossible rows) of the states that disagree most."""
        order = np.lexsort((self.p_values, -self.impossible_in))
        odd = (self.impossible_in > 0) | (self.p_values < 0.5)
        chosen = [int(i) for i in order if odd[i]][:n]
        return [
            (self.states[i], float(self.p_values[i]), int(self.impossible_in[i])) for i in chosen
        ]

    def __str__(self) -> str:
        total = f"p = {self.p_value:.3g}"
        lines = [f"{self.impossible} rows take an action of probability 0; {total}"]
        lines += [f"  {as_text(s)}: p = {p:.3g}, {k} impossible rows" for s, p, k in self.worst()]
        return "\n".join(lines)


def disagreement(log: Log, pi_b: Any) -> Disagreement:
    """Compare the actions of a log with a baseline (see `policy_for` and `action_distance`)."""
    found = action_distance(log.n_sa, policy_for(pi_b, log).pi)
    never = found.impossible > 0  # what it never does has happened
    return Disagreement(
        p_values=np.where(never, 0.0, found.p_values),
        p_value=0.0 if never.any() else found.p_value,
        impossible_in=found.impossible,
        states=log.states,
        visits=log.n_sa.sum(axis=1),
    )
