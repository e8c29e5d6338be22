"""n_wedge from a wanted bound: the SPIBB bound read backwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surefoot.certificates.row_bounds import SPIBBBound, half_range, row_label, row_radius
from surefoot.errors import NotAvailableError, ParameterError
from surefoot.problems import Problem
from surefoot.rows.arrays import to_numpy

MOST = 1e15  # visits that nobody will ever see


@dataclass(frozen=True, kw_only=True)
class Wedge:
    """The smallest n_wedge at which Pi_b-SPIBB loses at most `loss` with probability 1 - delta.

    bound       the loss that this n_wedge allows for, at most `loss`
    known       how many pairs of the log were seen more often than n_wedge
    free        the share of decisions of the baseline, over the visits of the log, that may then
                change
    label, assumptions    how sure that is: see docs/certificates.md
    """

    n_wedge: int
    loss: float
    bound: float
    delta: float
    radius: str
    known: int
    free: float
    label: str
    assumptions: tuple[str, ...]


def n_wedge_for(
    problem: Problem,
    loss: float,
    delta: float = 0.05,
    *,
    radius: str = "weissman",
    successors: int | None = None,
) -> Wedge:
    """The smallest n_wedge with  2 h r / (1 - gamma) <= loss,  h as in `SPIBBBound`.

    r is the radius of a row seen n_wedge + 1 times: a pair is known if it was seen more than
    n_wedge times. Policy iteration does not lower the value in the model, so the model's part of
    the bound is 0 or better.
    """
    SPIBBBound(delta=delta, radius=radius, successors=successors)  # checks all three
    if not (isinstance(loss, (int, float)) and 0 < loss < np.inf):
        raise ParameterError(f"the loss to stay within must be a number above 0, got {loss!r}")
    if problem.gamma >= 1:
        raise NotAvailableError("the SPIBB bound divides by 1 - gamma: it needs gamma < 1")
    half = half_range(problem)

    def lost(n_wedge: int) -> float:
        r = float(row_radius(problem, radius, np.array(n_wedge + 1.0), delta, successors))
        return 2 * half * r / (1 - problem.gamma)

    low, high = -1, 1
    while lost(high) > loss:
        high *= 2
        if high > MOST:
            raise NotAvailableError(f"no number of visits proves a loss of at most {loss:g} here")
    while high - low > 1:  # radii fall as n grows: bisection
        middle = (low + high) // 2
        low, high = (middle, high) if lost(middle) > loss else (low, middle)
    known = to_numpy(problem.may_rise) & (to_numpy(problem.n_sa) > high)
    label, assumptions = row_label(problem, radius, successors)
    return Wedge(
        n_wedge=high,
        loss=float(loss),
        bound=lost(high),
        delta=delta,
        radius=radius,
        known=int(known.sum()),
        free=_free(problem, known),
        label=label,
        assumptions=assumptions,
    )


def _free(problem: Problem, known: np.ndarray) -> float:
    """The share of decisions that may change: mass moves between known pairs of a state only."""
    visits = to_numpy(problem.n_sa).sum(axis=1)
    mass = (to_numpy(problem.pi_b) * known).sum(axis=1)
    return float(np.where(known.sum(axis=1) > 1, mass, 0.0) @ visits / visits.sum())
