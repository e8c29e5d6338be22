"""The strongest of several bounds, each at its share of delta, so that the best may be taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from surefoot.core.errors import NotAvailableError, SurefootError
from surefoot.core.evidence import RIGOROUS
from surefoot.evidence.bound import Bound, Certificate
from surefoot.evidence.return_bounds import AdvantageBound, PlannedAdvantageBound
from surefoot.evidence.row_bounds import RobustBound
from surefoot.evidence.screened_bound import ScreenedAdvantageBound
from surefoot.problems import Problem

WORST_CASE_STATES = 100  # the worst case over more states takes long: not unasked
OF_RETURNS = {
    "screened-advantage": ScreenedAdvantageBound(),
    "advantage": AdvantageBound(),
    "planned-advantage": PlannedAdvantageBound(),
}
OF_ROWS = {"robust": RobustBound()}


def strongest(problem: Problem, pi: np.ndarray, delta: float, where: str) -> Certificate:
    """The highest of the bounds that suit any problem, or any small one.

    k are tried, each at delta / k: all of them hold together with probability 1 - delta, so the
    highest does. Which are tried depends on the size of the problem alone, never on its data.
    """
    small = problem.n_states <= WORST_CASE_STATES and not problem.counts.is_sparse
    tried: dict[str, Bound] = {**OF_RETURNS, **(OF_ROWS if small else {})}
    pi = Bound(delta=delta, where=where).checked(problem, pi)
    found, refused = [], []
    for bound in tried.values():
        bound = replace(bound, delta=delta / len(tried), where=where)
        try:
            found.append(bound.certify(problem, pi))
        except SurefootError as error:
            refused.append(str(error))
    if not found:
        raise NotAvailableError("no bound applies: " + "; ".join(refused))
    best = max(found, key=lambda x: (x.label == RIGOROUS, x.bound))
    note = (
        f"the highest of {len(tried)} bounds ({', '.join(tried)}), each at"
        f" {1 / len(tried):.2g} of delta"
    )
    return replace(best, delta=delta, notes=(*best.notes, note))
