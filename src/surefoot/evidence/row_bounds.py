"""Bounds on rows of transitions: SPIBB's (the model's gain minus what known rows may be wrong by)
and the worst case over all models near the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from surefoot.core.arrays import to_numpy
from surefoot.core.errors import PolicyError
from surefoot.core.evidence import APPROXIMATE, RIGOROUS
from surefoot.core.parameters import check_choice, check_number
from surefoot.evidence.bound import (
    BAYESIAN,
    EVERYWHERE,
    STARTS,
    Bound,
    Certificate,
    no_other_state,
    range_sentences,
    unknown_lengths,
)
from surefoot.planning import FreeTrust, evaluate, value_iteration
from surefoot.planning.ambiguity import within_radius
from surefoot.problems import Arrivals, Problem
from surefoot.statistics.radii import ROW_RADII, spent_at

LONG_RUN = 1e-9  # accuracy of values in a sparse model, as a share of the return range
# accuracy of worst-case values as a share of the return range; they err on the safe side
SETTLED = 1e-6


@dataclass(frozen=True, kw_only=True)
class FromRows(Bound):
    """Abstract: a bound on L1 radii of rows P(.|s, a).

    radius: "weissman"; "two-successor", "clopper-pearson" and "beta" hold for rows with two
    successors. successors: how many a row can have at most, where you know it.
    """

    factor: ClassVar[float] = 1.0  # more than the number of pairs in the union
    radius: str = "weissman"
    successors: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "radius", tuple(ROW_RADII))
        if self.successors is not None:
            check_number(self, "successors", low=1, whole=True, finite=True)

    def radii(self, problem: Problem, n: np.ndarray) -> np.ndarray:
        """The radius of rows seen n times."""
        delta = self.left(problem)
        return row_radius(problem, self.radius, n, delta, self.successors, self.factor)


@dataclass(frozen=True, kw_only=True)
class SPIBBBound(FromRows):
    """rho(pi, M_hat) - rho(pi_b, M_hat) - 2 h r / (1 - gamma),   r the largest L1 radius of a known
    row that pi or pi_b uses.

    For a policy with pi = pi_b wherever n <= n_wedge (default: the largest n_wedge it meets). h is
    half the range of R + gamma v' over successors. The published form (Laroche et al. 2019, Theorem
    2) has 4 v_max in place of 2 h. Where the baseline also uses unknown pairs, the model is taken
    to be right about them,
    and the bound is labelled approximate.
    """

    name: ClassVar[str] = "spibb"
    places: ClassVar[tuple[str, ...]] = STARTS
    n_wedge: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_wedge is not None:
            check_number(self, "n_wedge", low=0, finite=True)

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
            r = float(self.radii(problem, np.array(least * scale)))
            return self.mean_at_start(problem, v - v_b - 2 * half * r / (1 - problem.gamma), scale)

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
        return self.certificate(
            problem, pi, bound_at, label=label, assumptions=assumptions, n=n, notes=notes
        )


@dataclass(frozen=True, kw_only=True)
class _WorstCaseBound(FromRows):
    """Abstract:  min_P v(pi; P) - max_P v(pi_b; P)  over all P within the L1 radii; any policy.

    That is, ||P(.|s, a) - P_hat(.|s, a)||_1 <= r(s, a) for every pair.
    The safety test of Petrik et al. 2016. The true P is among them w.p. 1 - delta, so it holds
    whichever policy was chosen. A pair never seen is worth lo to pi and hi to pi_b. The union is
    over pairs and over every number of visits; MBIE's and the robust algorithm's own radii leave
    the latter out.
    """

    def certify(self, problem: Problem, pi: np.ndarray) -> Certificate:
        """Two robust evaluations."""
        label, assumptions = row_label(problem, self.radius, self.successors)
        block = problem.blocks[0]

        def bound_at(scale: float) -> float:
            r = self.radii(problem, scale * to_numpy(block.n_sa))
            worst = extreme_value(block, pi, r, worst=True)
            best = extreme_value(block, to_numpy(problem.pi_b), r, worst=False)
            if self.where == EVERYWHERE:
                return float((worst - best).min())
            return self.mean_at_start(problem, worst - best, scale)

        return self.certificate(
            problem, pi, bound_at, label=label, assumptions=assumptions, n=problem.n_sa
        )


@dataclass(frozen=True, kw_only=True)
class RobustBound(_WorstCaseBound):
    """The worst case over L1 balls with a union over pairs."""

    name: ClassVar[str] = "robust"


@dataclass(frozen=True, kw_only=True)
class MBIEBound(_WorstCaseBound):
    """The same with MBIE's union, 2 S A (2^S - 2) / delta (Strehl & Littman 2008)."""

    name: ClassVar[str] = "mbie"
    factor: ClassVar[float] = 2.0


def extreme_value(block: Problem, pi: np.ndarray, radius: np.ndarray, *, worst: bool) -> np.ndarray:
    """min_P v(pi; P), or max_P, over the L1 balls [S], within the return range.

    From below and from above, so that a value not settled errs on the safe side. The greatest value
    is minus the least with all rewards turned round.
    """
    sign = 1.0 if worst else -1.0
    far = block.return_range.lo if worst else block.return_range.hi
    table = block.arrivals.table
    if block.reward_table is None:  # nothing is known of a reward never observed
        table = np.full_like(table, block.reward_range[0] if worst else block.reward_range[1])
    r = np.where(block.seen, block.r, far)
    r = np.where(block.terminal[..., None], 0.0, r)
    support = replace(block.support, reward=sign * block.support.reward)
    tolerance = max(block.tolerance, SETTLED * block.return_range.width)
    v = np.where(block.terminal, 0.0, sign * far)
    worst_case = replace(
        within_radius(block, radius.reshape(block.pi_b.shape)),
        support=support,
        arrivals=Arrivals(sign * table),
        r=sign * r,
        tolerance=tolerance,
        floor=v[..., None],
    )
    rows = np.ascontiguousarray(pi.reshape(block.pi_b.shape))
    only = FreeTrust(b=rows, may_rise=rows != rows)  # nothing may: the policy is evaluated
    found = value_iteration(worst_case, only, rows, v)
    value: np.ndarray = sign * (rows * found.q).sum(axis=-1)[0]
    return value


def row_radius(
    problem: Problem,
    radius: str,
    n: np.ndarray,
    delta: float,
    successors: int | None,
    factor: float = 1.0,
) -> np.ndarray:
    """The L1 radius of rows seen n times: a union over acting pairs and over every n."""
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
        no_other_state(problem),
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
    if lengths := unknown_lengths(problem):
        sentences += lengths
        label = APPROXIMATE
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
