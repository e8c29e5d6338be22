"""What a gain is made of: of each change by itself, and of doing always what the baseline does most
and what lies beyond that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from surefoot.advice.gain import Gain
from surefoot.core.evidence import Evidence, Part
from surefoot.core.policy import CHANGED
from surefoot.evidence.unit_estimate import DELTA, UnitEstimate
from surefoot.evidence.unit_model import Comparison, Side, UnitModel, model_of_units
from surefoot.evidence.units import Units
from surefoot.problems import Problem

CHANGE, MODE, BEYOND = "change", "mode", "beyond"
MOST = 40  # changes that are looked at one by one
LARGEST = 5000  # states of a log in which that is done


@dataclass(frozen=True, repr=False)
class MadeOf:
    """What a gain is made of.

    alone       of each change by itself {state: evidence}, those that move most decisions
    preferred   in how many of the states that change another action is preferred now
    mode        what it is worth to do always what the baseline does most
    beyond      what the policy is worth beyond that; None: the baseline never chooses by lots,
                nothing could be measured, or the gain is over the mode already
    """

    alone: Mapping[int, Evidence]
    preferred: int
    mode: Evidence | None = None
    beyond: Evidence | None = None


def single_changes(
    model: UnitModel, gain: Gain, moved: np.ndarray, *, shown: bool
) -> dict[int, Evidence]:
    """{state: what the held-out units show of its change, if it were the only one}; the changes
    that move most decisions, at most MOST of them. `moved` [S]: the mass that each moves.

    `low` and `high` hold for each by itself. Those with `shown` "better" are so at once, where the
    whole is `shown`: of N changes the k best are shown if each holds at the level 5 % k /
    N, for the largest such k (Benjamini & Hochberg 1995), so that of the changes shown about 5 % at
    most are no better, on average over logs; `together` are the bounds at that level (Benjamini &
    Yekutieli 2005).
    """
    assert gain.held_out is not None
    visits = model.n_sa.sum(axis=1)
    weight = np.where(moved > CHANGED, moved * visits, 0.0)
    order = [int(s) for s in np.argsort(-weight, kind="stable")[:MOST] if weight[s] > 0]
    base = model.base if gain.over is None else model.side(gain.over)
    compared = {s: _alone(model, gain, base, s) for s in order}
    explained = {s: _explained(gain, x) for s, x in compared.items()}
    level = 0.0
    if shown:
        level = _level({s: x.gain for s, x in compared.items()}, explained)
    found = {}
    for s, x in compared.items():
        low, high = x.gain.interval()
        found[s] = Evidence(
            part=Part(kind=CHANGE, name=model.problem.labels.state(s)),
            estimate=x.gain.value,
            low=low,
            high=high,
            together=x.gain.interval(level) if level else (-math.inf, math.inf),
            explained=explained[s],
            units=int(gain.held_out.sum()),
            unit=gain.evidence.unit,
        )
    return found


def _alone(model: UnitModel, gain: Gain, base: Side, s: int) -> Comparison:
    """The policy that changes one state and nothing else."""
    only = np.array(base.pi)
    only[s] = gain.pi[s]
    return model.between(only, base).strict


def _explained(gain: Gain, compared: Comparison) -> float:
    """What time and the past explain of it, where that speaks for it."""
    if gain.circumstances is None or gain.held_out is None:
        return 0.0
    return max(gain.circumstances.explained(gain.held_out, compared.weight), 0.0)


def _level(found: dict[int, UnitEstimate], explained: dict[int, float]) -> float:
    """The level at which those that are shown are shown."""
    n = len(found)
    for k in range(n, 0, -1):
        level = DELTA * k / n
        shown = sum(x.interval(level)[0] > explained[s] for s, x in found.items())
        if shown >= k:
            return level
    return DELTA / max(n, 1)


def made_of(
    problem: Problem,
    units: Units,
    gain: Gain,
    pi_b: np.ndarray,
    moved: np.ndarray,
    *,
    shown: bool,
) -> MadeOf:
    """What a gain is made of, in the model of the held-out units; `moved` [S]: the mass that each
    change moves; `shown`: the whole is supported. Where the baseline never chooses by lots, all of
    the gain lies beyond that; a log whose policy varies has weights alone, no model.
    """
    changed = moved > CHANGED
    preferred = int((preferred_changes(gain.pi, pi_b) & changed).sum())
    if gain.held_out is None or gain.varies or not gain.evidence.tested:
        return MadeOf({}, preferred)
    if problem.n_states > LARGEST:
        return MadeOf({}, preferred)
    model = model_of_units(problem, units, gain.held_out, pi_b)
    alone = single_changes(model, gain, moved, shown=shown)
    seen = (np.asarray(problem.n_sa) > 0) & np.asarray(problem.allowed)
    mode = most_frequent(pi_b, seen)
    if not changed.any() or not (np.abs(mode - pi_b) > CHANGED).any():
        return MadeOf(alone, preferred)
    row = Evidence(units=int(gain.held_out.sum()), unit=gain.evidence.unit)
    by_mode = _row(row, MODE, model, mode, None)
    if gain.over is not None:
        return MadeOf(alone, preferred, by_mode)
    return MadeOf(alone, preferred, by_mode, _row(row, BEYOND, model, gain.pi, mode))


def _row(
    row: Evidence, kind: str, model: UnitModel, pi: np.ndarray, against: np.ndarray | None
) -> Evidence:
    """One policy against another; what the units cannot tell counts in the low bound."""
    plain = model.compare(pi, against=against)
    low, high = plain.strict.gain.interval()[0], plain.gain.interval()[1]
    return replace(
        row, part=Part(kind=kind), estimate=plain.gain.value, low=low, high=high,
        together=(low, high),
    )  # fmt: skip


def most_frequent(pi_b: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The rows [S, A] that do the baseline's most frequent action, of those that the log has tried
    there; where it tried none of them, the baseline's.
    """
    tried = np.where(seen, pi_b, 0.0)
    alone = np.eye(pi_b.shape[1])[tried.argmax(axis=1)]
    return np.where(tried.max(axis=1, keepdims=True) > 0, alone, pi_b)


def preferred_changes(pi: np.ndarray, pi_b: np.ndarray) -> np.ndarray:
    """The states [S] in which the policy prefers another action than the baseline does."""
    best = pi_b.max(axis=1, keepdims=True)
    kept = np.where(pi_b >= best - CHANGED, pi, -1.0).max(axis=1)
    return np.asarray(pi.max(axis=1) > kept + CHANGED)
