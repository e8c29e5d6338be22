"""The epsilon path of Soft-SPIBB: what every budget buys, row by row and for the whole policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.advice.defaults import chosen_algorithm
from surefoot.errors import NotAvailableError, ParameterError
from surefoot.improvement import improve
from surefoot.planning import evaluate, evaluate_at_start
from surefoot.problems import Problem
from surefoot.rows.arrays import to_numpy
from surefoot.rows.one_row import BudgetPath, budget_path
from surefoot.tuning.settings import SOFT

EPSILONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class PathPoint:
    """One epsilon of the whole policy.

    value and gain are those in the estimated model (optimistic); mass_moved is the share of
    decisions moved.
    """

    epsilon: float
    value: float
    gain: float
    mass_moved: float
    states_changed: int


def row_paths(problem: Problem, name: str = SOFT, delta: float = 1.0) -> dict[int, BudgetPath]:
    """The exact path of every visited state, at the baseline's q in the estimated model.

    It says how much the first step of the algorithm gains as epsilon grows, with breakpoints and
    shadow prices; later steps start from better values.
    """
    algorithm = _soft(problem, name, delta, 1.0)
    (block,) = problem.blocks
    trust = algorithm.trust(block, block.n_sa)
    v = to_numpy(evaluate(block.model, block.pi_b, tolerance=None))
    q = to_numpy(block.model.backup(v))[0]
    b, up, down = (
        np.broadcast_to(to_numpy(x), q[None].shape)[0] for x in (trust.b, trust.up, trust.down)
    )
    visited = np.flatnonzero((to_numpy(problem.n_sa).sum(axis=1) > 0) & ~to_numpy(problem.terminal))
    return {
        int(s): budget_path(q[s], b[s], up[s], down[s], tolerance=problem.tolerance)
        for s in visited
    }


def epsilon_path(
    problem: Problem, epsilons: Sequence[float] = EPSILONS, name: str = SOFT, delta: float = 1.0
) -> tuple[PathPoint, ...]:
    """The whole algorithm at each epsilon, by policy iteration on this log."""
    visits = to_numpy(problem.n_sa).sum(axis=1)
    pi_b = to_numpy(problem.pi_b)
    rho_b = float(evaluate_at_start(problem.model, problem.pi_b, problem.start, tolerance=None))
    found = []
    for epsilon in epsilons:
        pi = to_numpy(improve(problem, _soft(problem, name, delta, epsilon)).pi)
        moved = 0.5 * np.abs(pi - pi_b).sum(axis=1)
        value = float(evaluate_at_start(problem.model, pi, problem.start, tolerance=None))
        changed = int(((moved > 1e-9) & (visits > 0)).sum())
        share = float(moved @ visits / visits.sum())
        found.append(PathPoint(float(epsilon), value, value - rho_b, share, changed))
    return tuple(found)


def _soft(problem: Problem, name: str, delta: float, epsilon: float) -> Any:
    """An exact Soft-SPIBB, whose step is the row problem."""
    if name not in (SOFT, "exact-soft-spibb"):
        raise ParameterError(
            f"an epsilon path is that of {SOFT!r} or 'exact-soft-spibb', got {name!r}"
        )
    if problem.batch_shape:
        raise NotAvailableError("an epsilon path is that of one problem, not of a batch")
    return chosen_algorithm(problem, name, {"epsilon": epsilon, "delta": delta})
