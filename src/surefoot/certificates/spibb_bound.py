"""The SPIBB bound: what the model says of the gain, minus what its known rows may be wrong by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from surefoot.certificates.certificate import (
    APPROXIMATE,
    BAYESIAN,
    RIGOROUS,
    START,
    STARTS,
    Certificate,
    check_delta,
    check_where,
    left_at_start,
    made,
    mean_at_start,
    range_sentences,
)
from surefoot.errors import PolicyError
from surefoot.parameters import check_choice, check_number
from surefoot.planning import evaluate
from surefoot.problems import Problem
from surefoot.rows.arrays import to_numpy
from surefoot.trust.radii import ROW_RADII, spent_at

LONG_RUN = 1e-9  # accuracy of values in a sparse model, as a share of the return range


@dataclass(frozen=True)
class SPIBBBound:
    """rho(pi, M_hat) - rho(pi_b, M_hat) - 2 h r / (1 - gamma),   r the largest L1 radius of a known row that pi or pi_b uses.

    For a policy with pi = pi_b wherever n <= n_wedge (default: the largest n_wedge it meets). h is
    half the range of R + gamma v' over successors. The published form (Laroche et al. 2019, Theorem
    2) has 4 v_max in place of 2 h. radius: "weissman"; "two-successor", "clopper-pearson" and
    "beta" hold for rows with two successors. successors: how many a row can have at most, where you
    know it. Where the baseline also uses unknown pairs, the model is taken to be right about them,
    and the bound is labelled approximate.
    """

    name: ClassVar[str] = "spibb"
    delta: float = 0.05
    radius: str = "weissman"
    n_wedge: float | None = None
    successors: int | None = None
    where: str = START

    def __post_init__(self) -> None:
        check_delta(self)
        check_choice(self, "radius", tuple(ROW_RADII))
        check_where(self, STARTS)
        if self.n_wedge is not None:
            check_number(self, "n_wedge", low=0, finite=True)
        if self.successors is not None:
            check_number(self, "successors", low=1, whole=True, finite=True)

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """Check that pi = pi_b on unknown pairs, on the policy itself."""
        n, pi_b = to_numpy(problem.n_sa), to_numpy(problem.pi_b)
        moved = pi != pi_b
        n_wedge = self.n_wedge
        if n_wedge is None:
            n_wedge = float(n[moved].min()) - 1 if moved.any() else 0.0
        if (moved & (n <= n_wedge)).any() or n_wedge < 0:
            s, a = np.argwhere(moved & (n <= max(n_wedge, 0)))[0]
            raise PolicyError(
                f"{self.name}: the policy changes {problem.labels.pair(s, a)}, seen {n[s, a]:g}"
                f" times: unknown at n_wedge = {max(n_wedge, 0):g}"
            )
        used = ((pi > 0) | (pi_b > 0)) & ~problem.terminal[:, None]
        known, unknown = used & (n > n_wedge), used & (n <= n_wedge)
        tolerance = LONG_RUN * max(problem.return_range.width, 1e-300)
        v, v_b = (to_numpy(evaluate(problem.model, x, tolerance=tolerance)) for x in (pi, pi_b))
        half, least = half_range(problem), float(n[known].min()) if known.any() else 1.0

        def bound_at(scale: float) -> float:
            r = float(
                row_radius(
                    problem,
                    self.radius,
                    np.array(least * scale),
                    left_at_start(self, problem),
                    self.successors,
                )
            )
            return mean_at_start(self, problem, v - v_b - 2 * half * r / (1 - problem.gamma), scale)

        label, assumptions = row_label(problem, self.radius, self.successors)
        if unknown.any():
            label = APPROXIMATE if label == RIGOROUS else label
            mass = float(to_numpy(problem.pi_b)[unknown].sum())
            assumptions += (
                (
                    f"the model is right about the {int(unknown.sum())} unknown pairs that the"
                    f" baseline uses (probability {mass:.3g} in all)"
                ),
            )
        notes = (f"n_wedge = {n_wedge:g}; the known row seen least was seen {least:g} times",)
        return made(self, problem, pi, bound_at, label, assumptions, n, "training", notes)


def row_radius(
    problem: Problem,
    radius: str,
    n: np.ndarray,
    delta: float,
    successors: int | None,
    factor: float = 1.0,
) -> np.ndarray:
    """The L1 radius of rows seen n times: a union over the pairs that act and over every
    possible n (n is random).
    """
    acting = int((~to_numpy(problem.terminal)[:, None] & to_numpy(problem.allowed)).sum())
    m = successors or problem.n_states
    found: np.ndarray = np.minimum(
        ROW_RADII[radius](n, spent_at(n, delta / (max(acting, 1) * factor)), m), 2.0
    )
    return found


def row_label(problem: Problem, radius: str, successors: int | None) -> tuple[str, tuple[str, ...]]:
    """How sure a bound on rows is, and what it assumes."""
    sentences = (
        (
            "successors are drawn by the same probabilities at every visit of a pair, in episodes"
            " to come as in the log"
        ),
        f"there is no state but the {problem.n_bound_states} of the problem",
        *range_sentences(problem),
    )
    label = RIGOROUS if problem.return_range.declared else APPROXIMATE
    if successors is not None:
        sentences += (f"no pair has more than {successors} possible successors, as declared",)
    if problem.reward_table is None:
        sentences += ("the mean rewards observed are the true ones: declare reward_table",)
        label = APPROXIMATE
    else:
        sentences += ("mean rewards are those of the declared reward_table",)
    if radius != "weissman" and (successors is None or successors > 2):
        sentences += (
            (
                f"every pair has two possible successors at most, which the {radius} radius needs"
                " (declare successors=2)"
            ),
        )
        label = APPROXIMATE
    if radius == "beta":
        sentences += (
            "each row has a uniform prior, and its posterior radius is the one at k = n/2",
        )
        label = BAYESIAN
    return label, sentences


def half_range(problem: Problem) -> float:
    """Half the range of R(s, a, s') + gamma v(s') over successors s'.

    It is the mean of a return given its first step: it lies in [lo, hi]. Where rewards do not
    depend on the successor, only gamma v' varies: over the range of returns, and 0 where there are
    terminal states.
    """
    lo, hi, table = problem.return_range.lo, problem.return_range.hi, problem.reward_table
    half = 0.5 * (hi - lo)
    if table is None or bool((table != table[..., :1]).any()):
        return half
    if bool(to_numpy(problem.terminal).any()):
        lo, hi = min(lo, 0.0), max(hi, 0.0)
    return min(half, 0.5 * problem.gamma * (hi - lo))
