"""How strong a hidden confounder would have to be to explain a gain away.

A policy that changes some states is valued at its worst under the marginal sensitivity model of
`surefoot.statistics.lowest_mean`, of a given strength Gamma:

    v(s) = sum_a pi(a|s) ( l E[z] + (1 - l) CVaR(z) ),   z = r + gamma v(s'),   where pi changes s,
    v(s) = E[z | s] over what the log did in s,                                 elsewhere,

a robust backup over sets that are independent between pairs (Iyengar 2005). Where nothing changes,
decisions go on as in the log, whatever they are based on: their outcomes are what the log shows.
For the same reason the value of the policy that made the log needs no bound: its own returns are
its value. So the bound of the gain is v at the start less the log's own value in the same model.

For decisions without consequences nothing more is assumed. For sequences the confounder must be
fresh at each step: given the state it says nothing about later steps. docs/confounding.md has the
proofs, and what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from surefoot.core.evidence import Evidence
from surefoot.core.policy import CHANGED
from surefoot.evidence.unit_estimate import DELTA, UnitEstimate
from surefoot.evidence.unit_model import Chain, UnitModel, model_of_units
from surefoot.evidence.units import Units
from surefoot.problems import Problem
from surefoot.statistics.lowest_mean import Worst, check_strength, cross_fitted_tail, worst

STRONGEST = 100.0  # beyond, nothing is sought
STRENGTHS = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0, STRONGEST)
MOST_ROWS = 100_000  # beyond, some of the units stand for all
MOST_STEPS = 100  # of the robust evaluation; a handful are needed
EXACT = 5e-3  # relative, of a strength that is sought
MOST_STATES = 5000  # more take long: not unasked
MANY_STATES = "there are many states: ask surefoot.evidence.sensitivity for it"
DRAWN = "the log has the probability of every choice, and is judged by these"
OTHERS = "other policies than the baseline made the log"
NOT_MARKOV = "the states do not say enough (not Markov)"
SUMMED_UP = "the rows of this log were not kept in memory, only what they add up to"


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How a gain holds up against a hidden confounder.

    vanishes_at   the strength at which the bound of the gain reaches 0; inf beyond STRONGEST
    shown_up_to   the same with sampling error; 1 where the gain is not shown in the first place
    curve         {strength: the least gain of the worst case in this model as the estimate of a
                  row, that less the sampling error as its low bound}, of growing strengths
    rows, held_out   how many rows stand behind it, and whether the policy was learned from others
    one_step      decisions without consequences: nothing is assumed of a sequence
    not_given     why there is none; "" where there is one
    groups        the same for what each group gains, by its name
    """

    vanishes_at: float = math.nan
    shown_up_to: float = math.nan
    curve: Mapping[float, Evidence] = field(default_factory=dict)
    rows: int = 0
    held_out: bool = True
    one_step: bool = False
    not_given: str = ""
    groups: Mapping[str, Sensitivity] = field(default_factory=dict)


def sensitivity(
    problem: Problem,
    units: Units,
    pi: np.ndarray,
    *,
    chosen: np.ndarray | None = None,
    pi_b: np.ndarray | None = None,
    markov: bool = True,
) -> Sensitivity:
    """How strong a confounder would have to be to explain the gain of pi away, in the model of the
    chosen units (default: of all); `pi_b` made the log (default: the problem's baseline). Sequences
    need states that say enough: there is no answer with markov=False.
    """
    held_out = chosen is not None
    one_step = problem.gamma == 0 or bool(np.asarray(problem.terminal)[units.next_state].all())
    reasons = {
        DRAWN: problem.log is not None and problem.log.propensity is not None,
        OTHERS: problem.off_policy,
        NOT_MARKOV: not (one_step or markov),
        SUMMED_UP: float(units.m2.max(initial=0.0)) > 0,
    }
    for why, so in reasons.items():
        if so:
            return Sensitivity(held_out=held_out, not_given=why)
    chosen = np.ones(units.number, dtype=bool) if chosen is None else chosen
    case = WorstCase(model_of_units(problem, units, _few_enough(units, chosen), pi_b), pi)
    at = cache(case.at)
    known: dict[float, Evidence] = {}
    for strength in STRENGTHS:
        known[strength] = at(strength)
        if known[strength].estimate <= 0:
            break
    roots = [_root(at, known, name) for name in ("estimate", "low")]
    known |= {x: at(x) for x in roots if math.isfinite(x)}
    return Sensitivity(
        vanishes_at=roots[0],
        shown_up_to=roots[1],
        curve={x: known[x] for x in sorted(known)},
        rows=int(case.model.units.k.sum()),
        held_out=held_out,
        one_step=one_step,
    )


@dataclass(frozen=True, repr=False)
class WorstCase:
    """A policy at its worst, in the model of some units of a log."""

    model: UnitModel
    pi: np.ndarray

    @cached_property
    def changed(self) -> np.ndarray:
        """The states that the policy changes [S]."""
        moved = 0.5 * np.abs(self.pi - self.model.pi_b).sum(axis=1) > CHANGED
        return np.asarray(moved & ~np.asarray(self.model.problem.terminal))

    @cached_property
    def rows(self) -> np.ndarray:
        """The policy in the states that it changes, what the log did elsewhere."""
        return np.where(self.changed[:, None], self.model.rows(self.pi), self.model.mixture)

    @cached_property
    def unconfounded(self) -> UnitEstimate:
        """The gain without a confounder."""
        return self.model.compare(self.rows).gain

    @cached_property
    def base_scores(self) -> np.ndarray:
        """What every unit adds to the value of the policy that made the log."""
        model, base = self.model, self.model.baseline
        found = self._worst(base.v, 1.0)
        beyond = self._beyond(base, found, 1.0, self.changed & False)
        return self._scores(model.mixture, base, beyond)

    def at(self, strength: float) -> Evidence:
        """The least gain for a confounder of this strength."""
        found = self.estimate(check_strength(strength))
        return Evidence(
            estimate=found.value, low=found.interval()[0], high=math.inf, delta=DELTA,
            units=len(found.scores), unit=self.model.whole.kind,
        )  # fmt: skip

    def estimate(self, strength: float) -> UnitEstimate:
        """The bound, and what every unit adds to its error."""
        model = self.model
        chain, found = self._chain(strength)
        beyond = self._beyond(chain, found, strength, self.changed)
        scores = self._scores(self.rows, chain, beyond)
        if model.problem.pi_b_is_mixture:
            scores = scores + self._of_frequencies(chain, found, strength)
        tilt = np.where(self.changed[model.units.state], found.weight, 1.0)
        bias, base = model.bias(self.rows, chain, tilt), model.base.bias
        value = chain.at_start - bias.value - (model.baseline.at_start - base.value)
        return replace(
            self.unconfounded,
            value=value - self._optimism(chain, found, strength),
            scores=(scores - self.base_scores)[model.chosen],
            left=bias.left + base.left,
        )

    def _scores(self, rows: np.ndarray, chain: Chain, beyond: np.ndarray) -> np.ndarray:
        spent, n = (chain.d[:, None] * rows).reshape(-1), self.model.n_sa.reshape(-1)
        return self.model.by_unit(chain, beyond, spent, n)

    def _worst(self, v: np.ndarray, strength: float, order: np.ndarray | None = None) -> Worst:
        """The worst case of every pair if states are worth v."""
        u = self.model.units
        return worst(self._z(v), u.pair, u.k, self.model.mixture.reshape(-1), strength, order)

    def _z(self, v: np.ndarray) -> np.ndarray:
        u = self.model.units
        on = self.model.problem.gamma * u.goes_on / u.k
        return np.asarray(u.r / u.k + on * v[u.next_state])

    @cached_property
    def _first(self) -> tuple[Chain, np.ndarray]:
        """Without a confounder: the chain, and the order of the outcomes."""
        chain = self.model.chain(self.rows)
        return chain, self._worst(chain.v, 1.0).order

    def _chain(self, strength: float) -> tuple[Chain, Worst]:
        """The robust evaluation by Howard's iteration: the worst weights for these values, the
        values for these weights; values fall, and stop where both fit. No body of `iterate`: a step
        gives a solved chain and its worst case, not arrays with one entry a problem.
        """
        model = self.model
        here = self.changed[model.units.state]
        chain, order = self._first
        found = self._worst(chain.v, strength, order)
        for _ in range(MOST_STEPS):
            again = model.chain(self.rows, np.where(here, found.weight, 1.0))
            step, weight = float(np.abs(again.v - chain.v).max()), found.weight
            chain, found = again, self._worst(again.v, strength, found.order)
            small = step <= 1e-9 * (1 + float(np.abs(chain.v).max()))
            if small or np.array_equal(weight, found.weight):  # the next step would be this one
                break
        return chain, found

    def _beyond(
        self, chain: Chain, found: Worst, strength: float, changed: np.ndarray
    ) -> np.ndarray:
        """What every entry has beyond the mean that it is part of, times its steps.

        In states that change: l (z - mean) + (1 - l) (cut - (cut - z)^+ / share - tail), the
        influence of an outcome on the worst case. Elsewhere z less the mean of its pair; of its
        state, where the log's own frequencies stand for the baseline.
        """
        u, z = self.model.units, self._z(chain.v)
        plain = z - found.mean[u.pair]
        if self.model.problem.pi_b_is_mixture:
            whole = (found.mean.reshape(self.rows.shape) * self.model.mixture).sum(axis=1)
            plain = z - whole[u.state]
        cut, stays = found.cut[u.pair], found.stays[u.pair]
        low = cut - np.maximum(cut - z, 0.0) * (1 + strength) - found.tail[u.pair]
        tilted = stays * (z - found.mean[u.pair]) + (1 - stays) * low
        return np.asarray(u.k * np.where(changed[u.state], tilted, plain))

    def _optimism(self, chain: Chain, found: Worst, strength: float) -> float:
        """What the worst case is too mild on average, since its tails were found in the outcomes
        that they are made of: against cross-fitted tails, to first order.

        A pair that only one part of the units saw has the lowest outcome of its state for a tail.
        """
        if strength == 1:
            return 0.0
        u, n, shape = self.model.units, self.rows.size, self.rows.shape
        z = self._z(chain.v)
        odd = (np.cumsum(self.model.chosen) % 2 == 1)[u.unit]
        tail = cross_fitted_tail(z, u.pair, u.k, odd, n, strength, found.order)
        lowest = np.full(shape[0], np.inf)
        np.minimum.at(lowest, u.state, z)
        tail = np.where(np.isnan(tail), np.repeat(lowest, shape[1]), tail)
        spent = (chain.d[:, None] * self.rows * self.changed[:, None]).reshape(-1)
        some = (spent > 0) & (self.model.n_sa.reshape(-1) > 0)
        milder = (1 - found.stays[some]) * (found.tail - tail)[some]
        return float(spent[some] @ milder)

    def _of_frequencies(self, chain: Chain, found: Worst, strength: float) -> np.ndarray:
        """What every unit adds by the frequencies that stand for the baseline in l [units]."""
        u, shape = self.model.units, self.rows.shape
        gap = (found.mean - found.tail).reshape(shape)
        slope = self.rows * (1 - 1 / strength) * gap * self.changed[:, None]
        slope = slope - (self.model.mixture * slope).sum(axis=1, keepdims=True)
        n = np.maximum(self.model.n_sa.sum(axis=1), 1.0)
        each = u.k * (chain.d / n)[u.state] * slope.reshape(-1)[u.pair]
        return np.bincount(u.unit, weights=each, minlength=u.number)


def _root(at: Callable[[float], Evidence], known: dict[float, Evidence], name: str) -> float:
    """Where the curve first comes down to 0, by bisection, from below."""
    above = 1.0
    for strength in sorted(known):
        if getattr(known[strength], name) > 0:
            above = strength
            continue
        while strength > above * (1 + EXACT):
            middle = math.sqrt(above * strength)
            over = getattr(at(middle), name) > 0
            above, strength = (middle, strength) if over else (above, middle)
        return above
    return math.inf


def _few_enough(units: Units, chosen: np.ndarray) -> np.ndarray:
    """Some of the chosen units, evenly spaced, where all would be too many rows; 20 at least."""
    mine = np.flatnonzero(chosen)
    rows = float(units.k[chosen[units.unit]].sum())
    every = min(math.ceil(rows / MOST_ROWS), max(len(mine) // 20, 1))
    found = np.zeros_like(chosen)
    found[mine[::every]] = True
    return found


def confounding_summary(found: Sensitivity | None) -> dict[str, Any] | None:
    """The sensitivity as data for machines; None where there is no gain to explain away."""
    if found is None:
        return None
    if found.not_given:
        return {"not_given": found.not_given}
    return {
        "vanishes_at": found.vanishes_at,
        "shown_up_to": found.shown_up_to,
        "strongest": STRONGEST,
        "delta": DELTA,
        "rows": found.rows,
        "held_out": found.held_out,
        "one_step": found.one_step,
        "curve": [
            {"strength": x, "gain_at_least": row.estimate, "with_sampling_error": row.low}
            for x, row in found.curve.items()
        ],
        "groups": [
            {"name": name, "vanishes_at": x.vanishes_at, "shown_up_to": x.shown_up_to}
            for name, x in found.groups.items()
        ],
    }
