"""Two policies in the model that some units of a log make: their values at the start, less their
second-order bias, and what every unit adds to the difference.

docs/supported.md derives the scores; the interval that follows is that of a `UnitEstimate`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from surefoot.core import known_model
from surefoot.evidence.unit_estimate import UnitEstimate, Unseen
from surefoot.evidence.units import Units
from surefoot.planning import Bias, evaluate, plug_in_bias, visits
from surefoot.problems import Problem
from surefoot.problems.problem import GIVEN, VISITS

DENSE_STATES = 1500  # up to here the linear systems are solved directly
AT_LEAST = 2  # units that must have seen a pair for it to count: the scatter of one is unknown
FORCED = 1e-9  # mass beyond rounding
Starts = tuple[np.ndarray, np.ndarray, np.ndarray]  # unit, state, weight
Cells = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def studentised(share: np.ndarray) -> np.ndarray:
    """1 / sqrt(1 - share): what makes up for residuals around a mean that their unit has this share
    of.
    """
    return np.asarray(1.0 / np.sqrt(np.where(share < 1 - 1e-12, 1 - share, 1.0)))


@dataclass(frozen=True, repr=False)
class Chain:
    """A Markov reward process: its transitions p [S, S] and rewards [S], its values v = r + gamma P
    v, and its discounted visits d = start + gamma P' d.
    """

    p: sparse.csr_array
    r: np.ndarray
    v: np.ndarray
    d: np.ndarray
    at_start: float


@dataclass(frozen=True, repr=False, kw_only=True)
class Outcomes:
    """What y = r + gamma v(s') was in the units of a model, for values v.

    mean, m2     [S * A] of every pair
    worst, best  (the outcome of every state [S], how far beyond the mean of its pair any lies), see
                 `UnitModel._ends`
    least, most  [S, A] of every pair in the units of the log that are not in the model
    """

    mean: np.ndarray
    m2: np.ndarray
    worst: tuple[np.ndarray, float]
    best: tuple[np.ndarray, float]
    least: np.ndarray
    most: np.ndarray


@dataclass(frozen=True, repr=False, kw_only=True)
class Side:
    """One of two policies that are compared: pi as it was given, its rows over the pairs that count
    as a process, what every unit adds to its value, and the bias of that.
    """

    model: UnitModel
    pi: np.ndarray
    rows: np.ndarray
    chain: Chain
    scores: np.ndarray
    bias: Bias

    @property
    def value(self) -> float:
        """At the start, less the bias."""
        return self.chain.at_start - self.bias.value

    @property
    def spent(self) -> np.ndarray:
        """d(s) pi(a|s) [S, A]: discounted visits of every pair."""
        return np.asarray(self.chain.d[:, None] * self.rows)

    @cached_property
    def outcomes(self) -> Outcomes:
        """Outcomes under its values."""
        return self.model.outcomes(self.chain.v)

    @property
    def estimate(self) -> UnitEstimate:
        """Its value at the start."""
        return self.model.estimate(
            self.value, self.scores, self.spent, self.outcomes, self.bias.left
        )


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison:
    """Two policies at the start in one model, `mine` and the `base`, and the `gain` of the first;
    `strict`: what the units cannot tell counts against the gain, at its worst.
    """

    mine: Side
    base: Side
    gain: UnitEstimate

    @property
    def policy(self) -> UnitEstimate:
        """The value of the policy."""
        return self.mine.estimate

    @property
    def baseline(self) -> UnitEstimate:
        """The value of what it is compared with."""
        return self.base.estimate

    @property
    def weight(self) -> np.ndarray:
        """d(s) (pi - pi_b)(a|s) [S, A]: the gain is the sum over pairs of weight times the
        baseline's action values.
        """
        return np.asarray(self.mine.chain.d[:, None] * (self.mine.rows - self.base.rows))

    @property
    def v(self) -> np.ndarray:
        """The values [S] of the baseline."""
        return self.base.chain.v

    @property
    def v_policy(self) -> np.ndarray:
        """The values [S] of the policy."""
        return self.mine.chain.v

    @property
    def strict(self) -> Comparison:
        """The same, with what the units cannot tell against the gain."""
        doubt = self.mine.model.doubt(self.mine, self.base)
        return replace(self, gain=replace(self.gain, value=self.gain.value - doubt))


@dataclass(frozen=True, repr=False, kw_only=True)
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

    units, whole    the units of the model [those `chosen`], and of the whole log
    known           whose outcomes say what may happen: the whole log; of a group's, that of all
    pi_b            the policy that made the log, with which others are compared
    cells           what `_cells` finds for units and pairs
    n_sa            visits of every pair by these units
    often           pairs that two or more of them saw
    counted         pairs that count: those; where a state has none, those seen at all
    mixture         the baseline over the pairs that count; where it was estimated, or uses none of
                    them, the units' own frequencies, so that what is not known of it counts
    lost            states that are not terminal and in which nobody ever acts
    starts, start   of these units, so that their scatter counts; None and the problem's where the
                    start is given, or no episode of theirs starts
    """

    units: Units
    whole: Units
    known: Units
    chosen: np.ndarray
    problem: Problem
    pi_b: np.ndarray
    cells: Cells
    n_sa: np.ndarray
    often: np.ndarray
    counted: np.ndarray
    mixture: np.ndarray
    lost: np.ndarray
    starts: Starts | None
    start: np.ndarray

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
        found = base + rise * mass / _or_1(up) - fall * mass / _or_1(down)
        # rounding leaves no probability below 0, and a row that nothing was taken from as it was
        whole = (self.often | (pi == base)).all(axis=1, keepdims=True)
        return np.where(whole, pi, np.clip(found, 0.0, 1.0))

    def compare(self, pi: np.ndarray, *, against: np.ndarray | None = None) -> Comparison:
        """The policy against the baseline, or against another policy."""
        return self.between(pi, self.base if against is None else self.side(against))

    def between(self, pi: np.ndarray, base: Side) -> Comparison:
        """The policy against a side that is worked out already."""
        mine = self.side(pi)
        gain = self.estimate(
            mine.value - base.value, mine.scores - base.scores, mine.spent - base.spent,
            base.outcomes, mine.bias.left + base.bias.left,
        )  # fmt: skip
        return Comparison(mine=mine, base=base, gain=gain)

    def side(self, pi: np.ndarray) -> Side:
        """A policy as a side of a comparison."""
        rows = self.rows(pi)
        chain = self.chain(rows)
        return Side(
            model=self, pi=pi, rows=rows, chain=chain, scores=self._scores(rows, chain),
            bias=self.bias(rows, chain),
        )  # fmt: skip

    @cached_property
    def base(self) -> Side:
        """The baseline as a side of a comparison."""
        rows, chain, by_state = self.mixture, self.baseline, self.problem.pi_b_is_mixture
        return Side(
            model=self, pi=self.pi_b, rows=rows, chain=chain,
            scores=self._scores(rows, chain, by_state=by_state),
            bias=self.bias(rows, chain, by_state=by_state),
        )  # fmt: skip

    def doubt(self, mine: Side, base: Side) -> float:
        """What these units cannot tell of a gain, at its worst."""
        return self._lost_doubt(mine.chain, base.chain) + self._forced_doubt(mine, base)

    def visits_and_values(self, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the discounted visits [S] of a policy, its action values [S, A]; 0 where these units
        have none).
        """
        u, n = self.units, self.n_sa
        chain = self.chain(self.rows(pi))
        y = u.r + self.problem.gamma * u.goes_on * chain.v[u.next_state]
        return chain.d, _sum(u.pair, y, n.size).reshape(n.shape) / np.maximum(n, 1.0)

    def rows(self, pi: np.ndarray) -> np.ndarray:
        """A policy over the pairs that count: its mass on others does what the baseline does."""
        kept = np.where(self.counted, pi, 0.0)
        left = np.maximum(1 - kept.sum(axis=1, keepdims=True), 0.0)  # rounding leaves less than 0
        return np.asarray(kept + left * self.mixture)

    def chain(self, rows: np.ndarray, tilt: float | np.ndarray = 1.0) -> Chain:
        """A policy over pairs that count as a process; `tilt` weighs the entries of every pair."""
        matrix, r = self._chain(rows, tilt)
        return self._solved(matrix, r + self.baseline.r * self.lost)

    def _chain(
        self, rows: np.ndarray, tilt: float | np.ndarray = 1.0
    ) -> tuple[sparse.csr_array, np.ndarray]:
        """(P_pi, r_pi) of a policy over pairs that count; where these units never act, those of the
        whole log.
        """
        u, w, n_states = self.units, self.whole, self.problem.n_states
        share = tilt * (rows / _or_1(self.n_sa)).reshape(-1)[u.pair]
        need = (self.n_sa.sum(axis=1) == 0) & ~self.problem.terminal
        use = need[w.state]
        s = w.state[use]
        other = 1.0 / _or_1(_sum(s, w.k[use], n_states))
        mine, theirs = (
            sparse.csr_array((x, (at, to)), shape=(n_states, n_states))
            for x, at, to in (
                (share * u.goes_on, u.state, u.next_state),
                (w.goes_on[use] * other[s], s, w.next_state[use]),
            )
        )
        r = _sum(u.state, share * u.r, n_states) + _sum(s, w.r[use], n_states) * other
        return (mine + theirs).tocsr(), r

    @cached_property
    def baseline(self) -> Chain:
        """The baseline; a state in which nobody ever acts has the average value over the visits:

        v = v0 + level v1 with level = share . v: one equation for the level.
        """
        matrix, r = self._chain(self.mixture)
        chain = self._solved(matrix, r)
        if not self.lost.any():
            return chain
        share = _sum(self.units.state, self.units.k, len(r)) / self.units.k.sum()
        left = 1.0 - float(share @ self._solved(matrix, self.lost.astype(float)).v)
        level = float(share @ chain.v) / left if left > 1e-9 else 0.0
        return self._solved(matrix, r + level * self.lost)

    def bias(
        self,
        rows: np.ndarray,
        chain: Chain,
        tilt: float | np.ndarray = 1.0,
        *,
        by_state: bool = False,
    ) -> Bias:
        """How much too high the value at the start is on average; arguments as those of `chain` and
        `_scores`.
        """
        u = self.units
        return plug_in_bias(
            chain.p,
            self.problem.gamma,
            spent=chain.d if by_state else np.repeat(chain.d, rows.shape[1]),
            square=np.ones(len(chain.d)) if by_state else (rows**2).reshape(-1),
            place=u.state if by_state else u.pair,
            state=u.state,
            next_state=u.next_state,
            k=tilt * u.k,
            on=tilt * u.goes_on,
            y=u.r / u.k + self._follows(u, chain.v),
        )

    def _solved(self, matrix: sparse.csr_array, r: np.ndarray) -> Chain:
        """The process with these transitions and rewards: an MDP with one action."""
        p = matrix.toarray()[:, None, :] if len(r) <= DENSE_STATES else matrix
        model, pi = known_model(p, r[:, None], self.problem.gamma, ends=True), np.ones((len(r), 1))
        v = evaluate(model, pi, tolerance=None)
        return Chain(matrix, r, v, visits(model, pi, self.start), float(self.start @ v))

    def _lost_doubt(self, chain: Chain, base: Chain) -> float:
        """What the gain owes to states in which nobody ever acted: the policy that comes there more
        often finds the worst value there.

        The worst (or best) is that of the other states, or 0: such a state may be an end.
        """
        if not self.lost.any():
            return 0.0
        v = base.v[~self.lost & ~np.asarray(self.problem.terminal)]
        more = float((chain.d - base.d)[self.lost].sum())
        level = float((base.r * self.lost).max(initial=-np.inf, where=self.lost))
        if more > 0:
            return more * (level - float(v.min(initial=0.0)))
        return -more * (float(v.max(initial=0.0)) - level)

    def _forced_doubt(self, mine: Side, base: Side) -> float:
        """What moves may cost that these units cannot check: onto pairs that fewer than two of them
        saw, and away from such pairs.

        Forbidden actions taken out of the baseline, or smoothing, lead there; for a group, whatever
        its own units have not seen. A move onto such a pair finds the worst outcome of its state,
        or one as far below the mean of its state as any of the log; a move away from it loses the
        best.
        """
        move = np.where(self.often, 0.0, mine.pi - base.pi)
        found = 0.0
        for end, sign in ((0, 1.0), (1, -1.0)):
            mass = np.maximum(sign * move, 0.0).sum(axis=1)
            if (mass > FORCED).any():
                found += float((mine.chain.d * mass * self._distance(base.chain.v, end)).sum())
        return found

    def _distance(self, v: np.ndarray, end: int) -> np.ndarray:
        """How far below (end 0) or above (1) its value an outcome of every state may lie [S]."""
        u, sign, n_states = self.known, 1.0 if end == 0 else -1.0, len(v)
        y = u.r / u.k + self._follows(u, v)
        mean = _sum(u.state, u.k * y, n_states) / _or_1(_sum(u.state, u.k, n_states))
        extreme = y - u.r / u.k + u.ends[end]
        surprise = float(np.max(sign * (mean[u.state] - extreme), initial=0.0))
        return np.asarray(np.maximum(sign * (v - self._ends(v, end)[0]), surprise))

    def _scores(self, rows: np.ndarray, chain: Chain, *, by_state: bool = False) -> np.ndarray:
        """What every unit adds to the value [units], to first order; the sum of their squares is
        the variance.

            sum over its pairs of  d(s) pi(a|s) / n(s, a)  1 / sqrt(1 - h)  sum over its steps there
            of  r + gamma v(s') - q(s, a)

        d is the discounted number of visits, h the unit's share of the visits of the pair: around a
        mean of which it has the share h, residuals have 1 - h of the variance (MacKinnon & White
        1985, HC2).
        Starts of weight w add w (v(s) - the mean), corrected in the same way. `by_state`: of a
        baseline that these units' own frequencies stand for, so that states take the place of
        pairs, and the scatter of the frequencies counts.
        """
        u = self.units
        n, at = (self.n_sa.sum(axis=1), u.state) if by_state else (self.n_sa.reshape(-1), u.pair)
        spent = chain.d if by_state else (chain.d[:, None] * rows).reshape(-1)
        target = u.r + self.problem.gamma * u.goes_on * chain.v[u.next_state]
        q = _sum(at, target, len(n)) / _or_1(n)
        cells = _cells(u, at, len(n)) if by_state else self.cells
        return np.asarray(self.by_unit(chain, target - u.k * q[at], spent, n, cells)[self.chosen])

    def by_unit(
        self, chain: Chain, beyond: np.ndarray, spent: np.ndarray, n: np.ndarray,
        cells: Cells | None = None,
    ) -> np.ndarray:  # fmt: skip
        """What every unit adds [units], from what its entries have `beyond` the mean of their
        place; places have so many discounted and so many logged visits.
        """
        number = self.units.number
        unit, cell, visits, place = self.cells if cells is None else cells
        weight = spent[cell] / n[cell] * studentised(visits / n[cell])
        found = _sum(unit, weight * _sum(place, beyond, len(cell)), number)
        if self.starts is not None:
            first, state, share = self.starts
            from_start = _sum(first, share * (chain.v[state] - chain.at_start), number)
            found = found + studentised(_sum(first, share, number)) * from_start
        return found

    def _follows(self, u: Units, v: np.ndarray) -> np.ndarray:
        """gamma v(s') of every entry, an end being worth 0."""
        return np.asarray(self.problem.gamma * (u.goes_on / u.k) * v[u.next_state])

    def estimate(
        self, value: float, scores: np.ndarray, shift: np.ndarray, seen: Outcomes, left: float
    ) -> UnitEstimate:
        """An estimate that is to first order  sum over pairs of shift(s, a) times the mean of y = r
        + gamma v(s').

        Its variance is  sum of shift^2 / n var(y | s, a),  on Satterthwaite's degrees of freedom.
        That a pair with few visits has shown less than there is counts by `Unseen`.
        """
        n = self.n_sa.reshape(-1)
        freedom = np.maximum(n - 1, 1.0)
        each = np.where(n > 0, shift.reshape(-1) ** 2 / _or_1(n), 0.0) * seen.m2 / freedom
        spread, total = float((each**2 / freedom).sum()), float(each.sum())
        loss, more = self._unseen(shift, seen)
        return UnitEstimate(
            value=value,
            scores=scores,
            of_pairs=total,
            degrees=total**2 / spread if spread > 0 else 1.0,
            loss=loss,
            more=more,
            left=left,
            blocks=self.units.blocks,
        )

    def outcomes(self, v: np.ndarray) -> Outcomes:
        """What outcomes were worth in these units, and what may be, under these values."""
        u, n = self.units, self.n_sa.reshape(-1)
        y = u.r / u.k + self._follows(u, v)
        mean = _sum(u.pair, u.k * y, len(n)) / _or_1(n)
        m2 = _sum(u.pair, u.k * (y - mean[u.pair]) ** 2 + u.m2, len(n))
        least, most = self._others_showed(v)
        return Outcomes(
            mean=mean, m2=m2, worst=self._ends(v, 0), best=self._ends(v, 1), least=least, most=most
        )

    def _unseen(self, shift: np.ndarray, seen: Outcomes) -> tuple[Unseen, Unseen]:
        """(what may be lost, what may be gained) by outcomes within the range that have not been
        seen; see `Unseen`.
        """
        n, mean = np.where(self.n_sa > 0, self.n_sa, np.inf), seen.mean.reshape(shift.shape)
        whole = n + self._others[0]
        (worst, drop), (best, jump) = seen.worst, seen.best
        low, high = np.minimum(worst[:, None], mean - drop), np.maximum(best[:, None], mean + jump)
        # what may be there in all visits, and what the other units have shown, in those of these
        bad = (low, whole), (np.clip(seen.least, low, mean), n)
        good = (high, whole), (np.clip(seen.most, mean, high), n)
        found = []
        for ends in (zip(bad, good, strict=True), zip(good, bad, strict=True)):
            each = [_each(shift, mean, more, less) for more, less in ends]
            found.append(max(each, key=lambda x: x.each))
        return found[0], found[1]

    @cached_property
    def _others(self) -> tuple[np.ndarray, Units]:
        """(visits of every pair [S, A] by the units of the log that are not in this model, these
        units).
        """
        others = self.whole.some(~self.chosen)
        return _sum(others.pair, others.k, self.n_sa.size).reshape(self.n_sa.shape), others

    def _others_showed(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the worst, the best) outcome of every pair [S, A] in the other units; inf and -inf where
        they have none.
        """
        u = self._others[1]
        y = u.r / u.k + self._follows(u, v)
        least, most = np.full(self.n_sa.size, np.inf), np.full(self.n_sa.size, -np.inf)
        np.minimum.at(least, u.pair, y)
        np.maximum.at(most, u.pair, y)
        return least.reshape(self.n_sa.shape), most.reshape(self.n_sa.shape)

    def _ends(self, v: np.ndarray, end: int) -> tuple[np.ndarray, float]:
        """(the worst (end 0) or best (1) outcome of every state [S], how far from its mean any
        outcome of the log lies on that side).

        Outcomes are r + gamma v(s') of all steps of the log; with a declared range the least (most)
        declared reward in place of r, and no distance. A state without steps has the worst (best)
        value there is.
        """
        u, sign, surprise = self.whole, 1.0 if end == 0 else -1.0, 0.0
        if self.problem.return_range.declared:
            y = self.problem.reward_range[end] + self._follows(u, v)
        else:
            y, surprise = u.ends[end] + self._follows(u, v), self._surprise(v, end)
        least = np.full(self.problem.n_states, np.inf)
        np.minimum.at(least, u.state, sign * y)
        return np.asarray(sign * np.where(np.isfinite(least), least, (sign * v).min())), surprise

    def _surprise(self, v: np.ndarray, end: int) -> float:
        """How far below (end 0) or above (1) the mean of its pair any outcome of the log lies."""
        u, sign = self.known, 1.0 if end == 0 else -1.0
        follows = self._follows(u, v)
        n = np.maximum(_sum(u.pair, u.k, self.n_sa.size), 1e-300)
        mean = _sum(u.pair, u.r + u.k * follows, self.n_sa.size) / n
        far = sign * (mean[u.pair] - u.ends[end] - follows)
        return float(np.max(far, initial=0.0))


def model_of_units(
    problem: Problem,
    units: Units,
    chosen: np.ndarray | None = None,
    pi_b: np.ndarray | None = None,
    known: Units | None = None,
) -> UnitModel:
    """The model of the chosen units of a log (default: of all); `pi_b` made the log (default: the
    problem's baseline). `known` are all units, where these are of a group.
    """
    pi_b = np.asarray(problem.pi_b if pi_b is None else pi_b)
    chosen = np.ones(units.number, dtype=bool) if chosen is None else chosen
    part = units if chosen.all() else units.some(chosen)
    n_sa = _sum(part.pair, part.k, pi_b.size).reshape(pi_b.shape)
    cells = _cells(part, part.pair, pi_b.size)
    often = np.bincount(cells[1], minlength=pi_b.size).reshape(pi_b.shape) >= AT_LEAST
    rated = (np.where(often, pi_b, 0.0).sum(axis=1) > 0)[:, None]
    counted = np.where(rated, often, n_sa > 0)
    rows = n_sa if problem.pi_b_is_mixture else np.where(counted, pi_b, 0.0)
    rows = np.where(rows.sum(axis=1, keepdims=True) > 0, rows, np.where(counted, n_sa, 0.0))
    starts: Starts | None = None
    if problem.start_from == VISITS:
        starts = part.unit, part.state, part.k / part.k.sum()
    elif problem.start_from != GIVEN and len(part.start_k):
        starts = part.start_unit, part.start_state, part.start_k / part.start_k.sum()
    start = np.asarray(problem.start) if starts is None else _sum(*starts[1:], problem.n_states)
    acts = _sum(units.state, units.k, problem.n_states) > 0
    return UnitModel(
        units=part,
        whole=units,
        known=units if known is None else known,
        chosen=chosen,
        problem=problem,
        pi_b=pi_b,
        cells=cells,
        n_sa=n_sa,
        often=often,
        counted=counted,
        mixture=rows / _or_1(rows.sum(axis=1, keepdims=True)),
        lost=~acts & ~np.asarray(problem.terminal),
        starts=starts,
        start=start,
    )


def _each(
    shift: np.ndarray,
    mean: np.ndarray,
    more: tuple[np.ndarray, np.ndarray],
    less: tuple[np.ndarray, np.ndarray],
) -> Unseen:
    """The pair in which one event changes most: where a pair is chosen more often, at the outcome
    of `more` and in so many visits; where less often, of `less`.
    """
    up = shift > 0
    end, n = np.where(up, more[0], less[0]), np.where(up, more[1], less[1])
    each = np.abs(shift * (mean - end)) / n
    s, a = np.unravel_index(int(np.argmax(each)), each.shape)
    return Unseen(
        each=float(each[s, a]),
        pair=int(s * each.shape[1] + a),
        n=float(n[s, a]),
        shift=float(shift[s, a]),
        worst=float(end[s, a]),
        distance=float(abs(mean[s, a] - end[s, a])),
    )


def _cells(units: Units, at: np.ndarray, n: int) -> Cells:
    """(unit, place, visits of the place by the unit) of every combination that there is, and which
    one each entry belongs to; places are pairs or states, `n` of them.
    """
    key, which = np.unique(units.unit.astype(np.int64) * n + at, return_inverse=True)
    which = which.reshape(-1)
    return key // n, key % n, _sum(which, units.k, len(key)), which


def _or_1(n: np.ndarray) -> np.ndarray:
    """n as a divisor: 1 where it is 0."""
    return np.where(n > 0, n, 1.0)


def _sum(at: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    return np.asarray(np.bincount(at, weights=weights, minlength=n))
