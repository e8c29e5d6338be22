"""Few changes: at most K states keep theirs, those that are worth most; everywhere else the
baseline stays.

What the change in a state is worth, where mu is the policy so far and pi the learned one:

    worth(s) = d_mu(s) sum_a (pi - pi_b)(a|s) q_mu(s, a),

in the model of the units that the policy is learned from, with the discounted visits d_mu and the
action values q_mu of mu itself. This is what putting the change in (or taking it out) alone is
worth, to first order: the others are as they are in mu, and so are the visits. With the values of
the baseline the changes that need each other would look worthless; with those of the learned policy
all of them would count on others that do not stay. So the values are computed anew as the set
changes. It is sought in two ways: from all changes, the less valuable half of those too many goes,
again and again; or from none. Then, in both, changes that lose go, and the most valuable ones that
gain fill half of the free places, until nothing is left to do: by the policy improvement theorem
(Howard 1960) each such round raises the value in this model. The set with the larger value is
taken. Held-out data have no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surefoot.core.errors import ParameterError
from surefoot.core.policy import CHANGED
from surefoot.evidence.unit_model import UnitModel, model_of_units
from surefoot.evidence.units import Units
from surefoot.planning import iterate
from surefoot.problems import Problem

MOST_ROUNDS = 100  # each raises the value; the loop ends long before


def check_most(most: int | None) -> None:
    """Raise unless it is None or a whole number of at least 1."""
    whole = isinstance(most, (int, np.integer)) and not isinstance(most, bool)
    if most is None or (whole and most >= 1):
        return
    raise ParameterError(
        f"most_changes (--most-changes) must be a whole number of at least 1, got {most!r}: it is"
        " the number of states that may change"
    )


def few_changes(
    problem: Problem, units: Units, chosen: np.ndarray, pi: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """(the policy with at most `most` changes, the states [S] that are the baseline again), judged
    by the chosen units alone.

    Changes are those against the problem's baseline: where forbidden actions were taken out of what
    made the log, they stay out everywhere.
    """
    base = np.asarray(problem.pi_b)
    changed = 0.5 * np.abs(pi - base).sum(axis=1) > CHANGED
    changed &= ~np.asarray(problem.terminal)
    if int(changed.sum()) <= most:
        return pi, np.zeros_like(changed)
    known = replace(problem, pi_b_estimated=False)  # take changes back to this baseline
    model = model_of_units(known, units.some(chosen), chosen)
    fewer = _taken_out(model, pi, changed, most)
    rounds = _Rounds(model, pi, changed, most)
    (ways,), _ = iterate(rounds, (np.stack([fewer, np.zeros_like(changed)]),), MOST_ROUNDS)
    values = [model.chain(model.rows(_mixed(model, pi, kept))).at_start for kept in ways]
    kept = ways[int(np.argmax(values))]
    return np.where(kept[:, None], pi, base), changed & ~kept


def _taken_out(model: UnitModel, pi: np.ndarray, changed: np.ndarray, most: int) -> np.ndarray:
    """From all changes down to `most`."""
    kept = changed.copy()
    while (surplus := int(kept.sum()) - most) > 0:
        worth = np.where(kept, _worth(model, pi, kept), np.inf)
        kept[np.argsort(worth, kind="stable")[: -(-surplus // 2)]] = False
    return kept


@dataclass(frozen=True)
class _Rounds:
    """One round: what loses goes and what gains comes, as far as there is room; state (the sets
    [ways, S]).
    """

    model: UnitModel
    pi: np.ndarray
    changed: np.ndarray
    most: int

    def advance(
        self, state: tuple[np.ndarray, ...], step: int
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        (kept,) = state
        again = np.stack([self._exchanged(x) for x in kept])
        return (again,), (again == kept).all(axis=1)

    def _exchanged(self, kept: np.ndarray) -> np.ndarray:
        worth, least = _worth(self.model, self.pi, kept), self.model.problem.tolerance
        again = kept & (worth >= -least)
        gains = np.where(self.changed & ~kept & (worth > least), worth, -np.inf)
        free = self.most - int(again.sum())
        best = np.argsort(-gains, kind="stable")[: -(-free // 2)]
        again[best[np.isfinite(gains[best])]] = True
        return again

    def take(self, index: np.ndarray) -> _Rounds:
        """The same: ways differ in their sets alone."""
        return self


def _worth(model: UnitModel, pi: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """worth(s) above, of every state [S], where mu has the changes that are kept."""
    d, q = model.visits_and_values(_mixed(model, pi, kept))
    return np.asarray(d * ((model.rows(pi) - model.mixture) * q).sum(axis=1))


def _mixed(model: UnitModel, pi: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The policy with the changes that are kept, else the baseline."""
    return np.where(kept[:, None], pi, model.pi_b)
