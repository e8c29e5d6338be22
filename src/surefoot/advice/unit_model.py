"""Two policies in the model that some units of a log make: their values at the start, and what
every unit adds to the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from surefoot.advice.chain import Chain
from surefoot.advice.units import Units
from surefoot.problems import Problem
from surefoot.problems.problem import GIVEN, VISITS

AT_LEAST = 2  # units that must have seen a pair for it to count: the scatter of one is unknown
Cells = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
FORCED = 1e-9  # mass beyond rounding
EVENTS = float(
    np.log(20.0)
)  # 3.0: what happens in so many visits on average is seen at least once with probability 95 %


@dataclass(frozen=True, repr=False)
class Unseen:
    """The most that an outcome which these units have not shown, or not often, may still take away
    or add (the rule of three).

    If in a pair the worst outcome of its state has probability p, none is seen in n visits with
    probability (1 - p)^n. All p with sum over pairs of n p <= EVENTS remain possible at 5 %. The
    most they change is EVENTS max over pairs of |shift| distance / n: one pair takes it all. `pair`
    is that pair, s * A + a; `worst` the outcome, `distance` from the mean of the pair.
    """

    change: float
    pair: int
    n: float
    shift: float
    worst: float
    distance: float


@dataclass(frozen=True, repr=False)
class Estimate:
    """An estimate from units, what each unit adds to its error to first order, and the rest that is
    needed for an interval.

    A score is what the estimate would change by if the unit were seen once more: they sum to nearly
    0, and their scatter is that of the estimate; `extra` is the variance that pairs with few visits
    may hide from them. `of_pairs` is the variance that comes from the outcomes of pairs, on
    `degrees` degrees of freedom; the rest comes from the start.
    """

    value: float
    scores: np.ndarray  # [units of this model]
    extra: float
    of_pairs: float
    degrees: float
    loss: Unseen
    more: Unseen


@dataclass(frozen=True, repr=False)
class Comparison:
    """Values at the start of a policy and of the baseline in one model, and of their difference.

    `checked` is the share of the moved probability mass, weighted by visits, that rests on pairs
    that count.
    """

    policy: Estimate
    baseline_estimate: Estimate
    difference: Estimate
    checked: float
    # d(s) (pi - pi_b)(a|s): the gain is the sum over pairs of weight times the baseline's action
    # values v
    weight: np.ndarray
    v: np.ndarray

    @property
    def value(self) -> float:
        """Of the policy."""
        return self.policy.value

    @property
    def baseline(self) -> float:
        """Of the baseline."""
        return self.baseline_estimate.value

    @property
    def gain(self) -> float:
        """value - baseline."""
        return self.difference.value


@dataclass(frozen=True, repr=False)
class UnitModel:
    """The maximum-likelihood model of some units, in which what they cannot tell counts neither for
    nor against a policy.

    - A pair that fewer than two of these units saw is worth what the baseline does in its state:
      moving mass to or from it is neither gain nor loss, since nothing could be said about its
      scatter. `checkable` takes such moves back.
    - A state in which these units never act does what the whole log did there, whatever the policy.
    - A state in which the whole log never acts is worth as much as the average state under the
      baseline; in a strict comparison as much as the worst state (or an end) if the policy comes
      there more often, as the best if less often.

    `pi_b` is the policy that made the log, with which others are compared; where it was estimated,
    these units' own frequencies stand for it, so that what is not known of it counts. The start is
    the problem's where it is given, otherwise that of these units, so that its scatter counts.
    """

    units: Units
    whole: Units
    problem: Problem
    pi_b: np.ndarray

    @cached_property
    def n_sa(self) -> np.ndarray:
        """Visits of every pair by these units [S, A]."""
        return _sum(self.units.pair, self.units.k, self.pi_b.size).reshape(self.pi_b.shape)

    @cached_property
    def counted(self) -> np.ndarray:
        """Pairs that count: seen by two or more units; where a state has none, those seen at
        all.
        """
        rated = (np.where(self.often, self.pi_b, 0.0).sum(axis=1) > 0)[:, None]
        return np.where(rated, self.often, self.n_sa > 0)

    @cached_property
    def mixture(self) -> np.ndarray:
        """The baseline over the pairs that count [S, A]; the units' own frequencies where it
        uses none of them, or is estimated.
        """
        rows = (
            np.where(self.counted, self.pi_b, 0.0)
            if not self.problem.pi_b_estimated
            else np.array(self.n_sa)
        )
        rows = np.where(
            rows.sum(axis=1, keepdims=True) > 0, rows, np.where(self.counted, self.n_sa, 0.0)
        )
        total = rows.sum(axis=1, keepdims=True)
        return np.asarray(rows / np.where(total > 0, total, 1.0))

    def over_counted(self, pi: np.ndarray) -> np.ndarray:
        """The policy over pairs that count: mass on the others does what the baseline's mixture
        does.
        """
        kept = np.where(self.counted, pi, 0.0)
        return np.asarray(kept + (1 - kept.sum(axis=1, keepdims=True)) * self.mixture)

    @cached_property
    def _fallback(self) -> tuple[Any, np.ndarray]:
        """(P, r) of the states in which these units never act, as CSR [S, S] and [S]; zero in
        all others.
        """
        acted = self.n_sa.sum(axis=1) > 0
        need = ~acted & ~self.problem.terminal
        whole = self.whole
        use = need[whole.state]
        n = _sum(whole.state[use], whole.k[use], len(need))
        share = 1.0 / np.where(n > 0, n, 1.0)
        r = _sum(whole.state[use], whole.r[use], len(need)) * share
        s = whole.state[use]
        return (
            sparse.csr_array(
                (whole.k[use] * share[s], (s, whole.next_state[use])), shape=(len(need), len(need))
            ),
            r,
        )

    @cached_property
    def _lost(self) -> np.ndarray:
        """States that are not terminal and in which nobody ever acts [S]."""
        return np.asarray(
            (_sum(self.whole.state, self.whole.k, len(self.problem.terminal)) == 0)
            & ~self.problem.terminal
        )

    def _chain(self, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        """(P_pi, r_pi) of a policy over pairs that count."""
        u, n_states = self.units, self.problem.n_states
        share = (rows / np.where(self.n_sa > 0, self.n_sa, 1.0)).reshape(-1)[u.pair]
        matrix = sparse.csr_array(
            (share * u.k, (u.state, u.next_state)), shape=(n_states, n_states)
        )
        r = _sum(u.state, share * u.r, n_states)
        return (matrix + self._fallback[0]).tocsr(), r + self._fallback[1]

    @cached_property
    def _baseline(self) -> Chain:
        matrix, r = self._chain(self.mixture)
        chain = Chain(matrix, r, self.problem.gamma, self.start)
        if not self._lost.any():
            return chain
        # v = v0 + level v1 with level the average of v over the visits: one equation for the level.
        visits = _sum(self.units.state, self.units.k, len(r)) / self.units.k.sum()
        v0, v1 = chain.v, Chain(matrix, self._lost.astype(float), self.problem.gamma, self.start).v
        left = 1.0 - float(visits @ v1)
        level = float(visits @ v0) / left if left > 1e-9 else 0.0
        return Chain(matrix, r + level * self._lost, self.problem.gamma, self.start)

    @cached_property
    def _starts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """(unit, state, weight) of the starts of these units; None where the start is given, or
        no episode of theirs starts.
        """
        u = self.units
        if self.problem.start_from == GIVEN:
            return None
        unit, state, k = (
            (u.unit, u.state, u.k)
            if self.problem.start_from == VISITS
            else (u.start_unit, u.start_state, u.start_k)
        )
        return (unit, state, k / k.sum()) if len(k) else None

    @cached_property
    def start(self) -> np.ndarray:
        """The start of these units [S]; the problem's where it is given."""
        if self._starts is None:
            return np.asarray(self.problem.start)
        return _sum(self._starts[1], self._starts[2], self.problem.n_states)

    def checkable(self, pi: np.ndarray) -> np.ndarray:
        """The policy with every move taken back that these units cannot check: no pair is further
        from the baseline than in pi.

        What may rise (or fall) is seen by two units or more; the larger of both sums is scaled down
        to the smaller one.
        """
        base = np.asarray(self.problem.pi_b)
        move = np.where(self.often, pi - base, 0.0)
        rise, fall = np.maximum(move, 0.0), np.maximum(-move, 0.0)
        up, down = rise.sum(axis=1, keepdims=True), fall.sum(axis=1, keepdims=True)
        mass = np.minimum(up, down)
        return np.asarray(
            base
            + rise * mass / np.where(up > 0, up, 1.0)
            - fall * mass / np.where(down > 0, down, 1.0)
        )

    def compare(self, pi: np.ndarray, *, strict: bool = False) -> Comparison:
        """The policy against the baseline; `strict`: what these units cannot tell counts against
        the gain, at its worst.
        """
        rows, base = self.over_counted(pi), self._baseline
        level = base.r * self._lost
        matrix, r = self._chain(rows)
        chain = Chain(matrix, r + level, self.problem.gamma, self.start)
        scores, base_scores = (
            self._scores(rows, chain),
            self._scores(self.mixture, base, by_state=self.problem.pi_b_estimated),
        )
        spent, base_spent = chain.d[:, None] * rows, base.d[:, None] * self.mixture
        doubt = self._doubt(chain, base) + self._forced(pi, chain, base) if strict else 0.0
        gain = chain.at_start - base.at_start - doubt
        moved = np.abs(pi - self.problem.pi_b) * self.n_sa.sum(axis=1, keepdims=True)
        total = float(moved.sum())
        return Comparison(
            Estimate(chain.at_start, scores, *self._rest(spent, chain.v)),
            Estimate(base.at_start, base_scores, *self._rest(base_spent, base.v)),
            Estimate(gain, scores - base_scores, *self._rest(spent - base_spent, base.v)),
            float(moved[self.often].sum()) / total if total > 0 else 1.0,
            chain.d[:, None] * (rows - self.mixture),
            base.v,
        )

    def _doubt(self, chain: Chain, base: Chain) -> float:
        """What the gain owes to states in which nobody ever acted: the policy that comes there more
        often finds the worst value there.

        The worst (or best) is that of the other states, or 0: such a state may be an end.
        """
        if not self._lost.any():
            return 0.0
        v = base.v[~self._lost & ~np.asarray(self.problem.terminal)]
        more = float((chain.d - base.d)[self._lost].sum())
        level = float((base.r * self._lost).max(initial=-np.inf, where=self._lost))
        return (
            more * (level - float(v.min(initial=0.0)))
            if more > 0
            else -more * (float(v.max(initial=0.0)) - level)
        )

    def _forced(self, pi: np.ndarray, chain: Chain, base: Chain) -> float:
        """What moves may cost that nobody chose and these units cannot check: onto pairs that fewer
        than two of them saw.

        Only forbidden actions taken out of the baseline, or smoothing, lead there. Such a move
        finds the worst outcome of its state, or one as far below the mean of its state as any of
        the log.
        """
        excess = np.where(self.often, 0.0, np.maximum(pi - self.pi_b, 0.0)).sum(axis=1)
        if not (excess > FORCED).any():
            return 0.0
        u = self.whole
        y, n = (
            u.r / u.k + self.problem.gamma * base.v[u.next_state],
            _sum(u.state, u.k, len(base.v)),
        )
        mean = _sum(u.state, u.k * y, len(n)) / np.where(n > 0, n, 1.0)
        drop = np.maximum(
            base.v - self._ends(base.v, 0)[0], float(np.max(mean[u.state] - y, initial=0.0))
        )
        return float((chain.d * excess * drop).sum())

    def advantage(self, pi: np.ndarray) -> np.ndarray:
        """sum_a (pi - pi_b)(a|s) q_b(s, a)  in every state [S], over pairs that count."""
        u = self.units
        q = _sum(
            u.pair, u.r + self.problem.gamma * u.k * self._baseline.v[u.next_state], self.n_sa.size
        ).reshape(self.n_sa.shape)
        q = q / np.where(self.n_sa > 0, self.n_sa, 1.0)
        return np.asarray(((self.over_counted(pi) - self.mixture) * q).sum(axis=1))

    def _scores(self, rows: np.ndarray, chain: Chain, *, by_state: bool = False) -> np.ndarray:
        """What every unit adds to the value [units], to first order: the value less what it would
        be without the unit (the jackknife).

            sum over its pairs of  d(s) pi(a|s) / n(s, a)  1 / (1 - h)  sum over its steps there of
            r + gamma v(s') - q(s, a)

        d is the discounted number of visits, h the unit's share of the visits of the pair: a unit
        that has most of them would otherwise seem to agree with the rest. Starts of weight w add w
        (v(s) - the mean), corrected in the same way. `by_state`: of a baseline that these units'
        own frequencies stand for, so that states take the place of pairs, and the scatter of the
        frequencies counts.
        """
        u = self.units
        n, at = (self.n_sa.sum(axis=1), u.state) if by_state else (self.n_sa.reshape(-1), u.pair)
        spent = chain.d if by_state else (chain.d[:, None] * rows).reshape(-1)
        target = u.r + self.problem.gamma * u.k * chain.v[u.next_state]
        q = _sum(at, target, len(n)) / np.where(n > 0, n, 1.0)
        unit, cell, visits, place = self._unit_states if by_state else self._unit_pairs
        residual = _sum(place, target - u.k * q[at], len(cell))
        found = _sum(
            unit, spent[cell] / n[cell] * _as_left_out(visits / n[cell]) * residual, u.number
        )
        if self._starts is None:
            return found
        first, state, weight = self._starts
        from_start = _sum(first, weight * (chain.v[state] - chain.at_start), u.number)
        return np.asarray(found + _as_left_out(_sum(first, weight, u.number)) * from_start)

    @cached_property
    def _unit_pairs(self) -> Cells:
        """(unit, pair, visits of the pair by the unit) of every combination that there is, and
        which one each entry belongs to.
        """
        return self._cells(self.units.pair, self.n_sa.size)

    @cached_property
    def _unit_states(self) -> Cells:
        """The same for states."""
        return self._cells(self.units.state, len(self.n_sa))

    def _cells(self, at: np.ndarray, n: int) -> Cells:
        key, place = np.unique(self.units.unit.astype(np.int64) * n + at, return_inverse=True)
        place = place.reshape(-1)
        return key // n, key % n, _sum(place, self.units.k, len(key)), place

    @cached_property
    def often(self) -> np.ndarray:
        """Pairs that two or more of these units saw [S, A]: what one unit alone has seen has no
        scatter between units.
        """
        return np.asarray(
            (np.bincount(self._unit_pairs[1], minlength=self.n_sa.size) >= AT_LEAST).reshape(
                self.n_sa.shape
            )
        )

    def _rest(self, shift: np.ndarray, v: np.ndarray) -> tuple[float, float, float, Unseen, Unseen]:
        """(extra, of_pairs, degrees, loss, more) of an estimate  sum over pairs of shift(s, a)
        times the mean of y = r + gamma v(s').

        The scatter that a pair shows may be too small: three equal outcomes do not make it certain.
        It counts as at least the scatter within the pairs of its state (pooled), and it gains 2 /
        (n + 1) of the scatter of y over all steps from the state:
            extra = sum over pairs of  shift^2 / n  max( within(s) - var(s, a), 2 / (n + 1) all(s),
            0 ).
        degrees: Satterthwaite's, of the sum of both kinds of variances.
        """
        u, shape = self.units, self.n_sa.shape
        y = u.r / u.k + self.problem.gamma * v[u.next_state]
        n, n_s = self.n_sa, self.n_sa.sum(axis=1, keepdims=True)
        safe = np.where(n > 0, n, 1.0)
        mean = (_sum(u.pair, u.k * y, n.size) / safe.reshape(-1)).reshape(shape)
        m2 = _sum(u.pair, u.k * (y - mean.reshape(-1)[u.pair]) ** 2 + u.m2, n.size).reshape(shape)
        middle = (n * mean).sum(axis=1, keepdims=True) / np.where(n_s > 0, n_s, 1.0)
        everything = (m2 + n * (mean - middle) ** 2).sum(axis=1, keepdims=True) / np.maximum(
            n_s - 1, 1.0
        )
        spare = n_s - (n > 0).sum(axis=1, keepdims=True)
        within = np.where(
            spare > 0, m2.sum(axis=1, keepdims=True) / np.maximum(spare, 1.0), everything
        )
        own = m2 / np.maximum(n - 1, 1.0)
        lacking = np.maximum(np.maximum(within - own, 2 / (n + 1) * everything), 0.0)
        weight = np.where(n > 0, shift**2 / safe, 0.0)
        shown, hidden = weight * own, weight * lacking
        spread = (shown**2 / np.maximum(n - 1, 1.0) + hidden**2 / np.maximum(n_s - 1, 1.0)).sum()
        total = float((shown + hidden).sum())
        return (
            float(hidden.sum()),
            total,
            float(total**2 / spread) if spread > 0 else 1.0,
            *self._unseen(shift, v, mean),
        )

    def _unseen(self, shift: np.ndarray, v: np.ndarray, mean: np.ndarray) -> tuple[Unseen, Unseen]:
        """(what may be lost, what may be gained) by outcomes within the range that have not
        shown; see `Unseen`.
        """
        n = np.where(self.n_sa > 0, self.n_sa, np.inf)
        (worst, drop), (best, rise_) = self._ends(v, 0), self._ends(v, 1)
        low, high = np.minimum(worst[:, None], mean - drop), np.maximum(best[:, None], mean + rise_)
        rise, fall = np.maximum(shift, 0.0), np.maximum(-shift, 0.0)
        found = []
        for bad, good in (
            (low, high),
            (high, low),
        ):  # what hurts if it is done more often, and if it is done less often
            change = np.maximum(rise * np.abs(mean - bad), fall * np.abs(mean - good)) / n
            s, a = np.unravel_index(int(np.argmax(change)), change.shape)
            end = float((bad if shift[s, a] > 0 else good)[s, a])
            found.append(
                Unseen(
                    float(EVENTS * change[s, a]),
                    int(s * change.shape[1] + a),
                    float(self.n_sa[s, a]),
                    float(shift[s, a]),
                    end,
                    float(abs(mean[s, a] - end)),
                )
            )
        return found[0], found[1]

    def _ends(self, v: np.ndarray, end: int) -> tuple[np.ndarray, float]:
        """(the worst (end 0) or best (1) outcome of every state [S], how far from its mean any
        outcome of the log lies on that side).

        Outcomes are r + gamma v(s') of all steps of the log; with a declared range the least (most)
        declared reward in place of r, and no distance. A state without steps has the worst (best)
        value there is.
        """
        u, sign = self.whole, 1.0 if end == 0 else -1.0
        y = u.r / u.k + self.problem.gamma * v[u.next_state]
        surprise = 0.0
        if self.problem.return_range.declared:
            y = self.problem.reward_range[end] + self.problem.gamma * v[u.next_state]
        else:
            n = np.maximum(_sum(u.pair, u.k, self.n_sa.size), 1e-300)
            surprise = float(
                np.max(
                    sign * ((_sum(u.pair, u.k * y, self.n_sa.size) / n)[u.pair] - y), initial=0.0
                )
            )
        least = np.full(self.problem.n_states, np.inf)
        np.minimum.at(least, u.state, sign * y)
        return np.asarray(sign * np.where(np.isfinite(least), least, (sign * v).min())), surprise


def _as_left_out(share: np.ndarray) -> np.ndarray:
    """1 / (1 - share): turns residuals around a mean of which their unit has this share into
    those around the mean of the others.
    """
    return np.asarray(1.0 / np.where(share < 1 - 1e-12, 1 - share, 1.0))


def _sum(at: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    found: np.ndarray = np.bincount(at, weights=weights, minlength=n)
    return found
