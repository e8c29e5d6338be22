"""Guards in planning: no state's move may lower the estimated value of a guarded column.

For guard k let q_k be the baseline's action values of its column, turned so that more is better.
The best row within the trust of an algorithm is then sought among those with

    sum_a (pi - pi_b)(a|s) q_k(s, a)  -  sum_a c_k(s, a) (pi - pi_b)^+(a|s)  >=  0

in every state s and for every guard k, c_k >= 0 the price that the algorithm puts on a move where
the guarded column is the reward (0 where it has none). So the advantage of pi over pi_b in column k
is not negative in any state, and v_k^pi >= v_k^{pi_b} in every state of the model, by the policy
improvement theorem: v^pi - v^{pi_b} is the sum over the discounted visits of pi of these
advantages (Kakade & Langford 2002). Constraints on the advantage of several rewards in every state
are those of MO-SPIBB (Satija, Thomas, Pineau & Laroche 2021).

A pair that was never tried counts as what the baseline does in its state, and a state in which
nobody ever acted as the average state: what is not known is neither for nor against a move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from surefoot.core.arrays import Array, namespace, row_sum
from surefoot.core.errors import NotAvailableError
from surefoot.planning import RowGuard, Trust, values_within
from surefoot.planning.rules import RuleTrust
from surefoot.planning.trusts import FreeTrust, SoftTrust, as_soft
from surefoot.problems import Problem
from surefoot.problems.guards import guard_problem

TrustOf = Callable[[Problem, Array], Trust]
NOT_FROM_BASELINE = "it does not start from the baseline's rows"
NOT_LINEAR = "its rows are not the solution of a linear program"


def guarded(problem: Problem, trust_of: TrustOf, n: Array, name: str) -> Trust:
    """The trust of an algorithm with the guards of a problem; `trust_of` is its
    `Restricts.trust`.
    """
    trust = trust_of(problem, n)
    rule = trust if isinstance(trust, RuleTrust) else None
    trust = trust if rule is None else rule.within
    if not isinstance(trust, (FreeTrust, SoftTrust)):
        raise cannot_guard(name, NOT_LINEAR)
    guards = []
    for guard in problem.guards:
        other = guard_problem(problem, guard)
        guards.append(RowGuard(baseline_values(other), trust_of(other, n).price))
    kept = as_soft(trust, tuple(guards))
    return kept if rule is None else replace(rule, within=kept)


def cannot_guard(name: str, why: str) -> NotAvailableError:
    """That an algorithm cannot keep guards, and what can."""
    return NotAvailableError(
        f"{name} cannot keep guards: {why}; take priced-soft-spibb, exact-soft-spibb,"
        " lower-exact-soft-spibb, adv-exact-soft-spibb, pi-b-spibb or pi-leq-b-spibb"
    )


def baseline_values(problem: Problem) -> Array:
    """q [B, S, A] of the baseline in the maximum-likelihood model; a pair never tried is worth v of
    its state, a state in which nobody acted the average of v over the visits.
    """
    xp = namespace(problem.pi_b)
    seen = problem.seen
    b = xp.where(seen, problem.pi_b, 0.0)
    b = xp.where((row_sum(b) > 0)[..., None], b, problem.n_sa)
    acting = row_sum(b) > 0
    rows = b / xp.where(acting, row_sum(b), 1.0)[..., None]
    rows = xp.where(acting[..., None], rows, problem.pi_b)
    lost = ~acting & ~problem.terminal
    r = xp.where(seen, problem.r, 0.0)

    def values(r: Array) -> Array:
        model = problem.model_of(r, problem.weight)
        return values_within(model, rows, None, problem.evaluation_tolerance)[0]

    v = values(r)
    if bool(xp.any(lost)):
        visits = row_sum(problem.n_sa)
        share = visits / row_sum(visits)[..., None]
        there = xp.astype(lost, r.dtype)[..., None] + 0.0 * r
        left = 1.0 - row_sum(share * values(there))
        level = row_sum(share * v) / xp.where(left > 1e-9, left, xp.inf)
        r = r + level[..., None, None] * there
        v = values(r)
    q = problem.model_of(r, problem.weight).backup(v)
    return xp.where(seen, q, v[..., None] + 0.0 * q)
