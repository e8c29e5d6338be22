"""The bound of moves that one part of the log proposed and the rest tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.core.arrays import to_numpy
from surefoot.core.errors import PolicyError
from surefoot.core.evidence import APPROXIMATE, RIGOROUS
from surefoot.evidence.bound import (
    EVERYWHERE,
    MARKOV,
    OWN_LOG,
    SLACK,
    Bound,
    Certificate,
    no_other_state,
    range_sentences,
)
from surefoot.evidence.return_bounds import advantage_bound, on_policy
from surefoot.evidence.screening import PART, Screened, screened
from surefoot.problems import Problem


@dataclass(frozen=True, kw_only=True)
class ScreenedAdvantageBound(Bound):
    """c(s) = theta lower bound of  sum_a move q^{pi_b},  for a policy  pi = pi_b + theta move  with
    theta in [0, 1] in every state. Where c >= 0 everywhere, v^pi - v^{pi_b} at a start is at least
    E[ gamma^T c(S_T) ], S_T the first state with a proposal that the baseline comes to.

    The moves are those that a quarter of the log proposes; any other policy is refused.
    """

    name: ClassVar[str] = "screened-advantage"

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """The certificate of a policy along the proposed moves."""
        on_policy(self.name, problem)
        found = screened(problem, self.left(problem))
        theta, off = self._along(problem, pi, found)

        def bound_at(scale: float) -> float:
            c = np.where(theta > 0, theta * found.lower_at(scale), 0.0) - off
            if self.where == EVERYWHERE or c.min() < 0:
                return advantage_bound(self, problem, c, scale)
            return self.mean_at_start(problem, found.reach.gain(c, scale), scale)

        tests = int((found.move != 0).any(axis=-1).sum())
        part = "episode" if problem.log is None or problem.log.n_episodes > 1 else "row"
        note = f"one {part} in {PART} proposed moves in {tests} states, the others tested them"
        return self.certificate(
            problem,
            pi,
            bound_at,
            label=RIGOROUS if problem.return_range.declared else APPROXIMATE,
            assumptions=(
                MARKOV,
                no_other_state(problem),
                OWN_LOG,
                *found.assumptions,
                *range_sentences(problem),
            ),
            n=np.broadcast_to(found.n[:, None], pi.shape),
            notes=(note,),
        )

    def _along(
        self, problem: Problem, pi: np.ndarray, found: Screened
    ) -> tuple[np.ndarray, np.ndarray]:
        """(theta [S] with pi = pi_b + theta move, what rounding may cost); raise where there is
        none.
        """
        change = pi - to_numpy(problem.pi_b)
        squares = (found.move**2).sum(axis=-1)
        theta = (change * found.move).sum(axis=-1) / np.where(squares > 0, squares, 1.0)
        off = abs(change - theta[:, None] * found.move).sum(axis=-1)
        wrong = (off > SLACK) | (theta < 0) | (theta > 1 + SLACK)
        if wrong.any():
            raise PolicyError(
                f"{self.name}: in {int(wrong.sum())} states the policy leaves the moves that a part"
                f" of the log proposed, first in state {problem.labels.state(np.argmax(wrong))}:"
                ' improve with "screened-advantage" at this delta, or ask for the bound "advantage"'
            )
        return np.clip(theta, 0.0, 1.0), off * problem.return_range.width
