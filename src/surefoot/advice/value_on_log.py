"""What a given policy is worth on a log: its value with an interval, the baseline's beside it,
and how much of it was never tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.advice.gain import DELTA, in_sample, interval
from surefoot.advice.unit_model import Estimate
from surefoot.advice.units import Units, units
from surefoot.errors import PolicyError
from surefoot.logs import Log
from surefoot.ope.estimates import episode_returns
from surefoot.problems import Problem
from surefoot.problems.problem import EPISODES

FEW = 8  # episodes below which a mean return has no useful error
WHERE = {
    "given": "at the given start",
    "episodes": "per episode",
    "visits": "from an average visited state on",
}
# standard errors beyond which the model's baseline and the log's own returns contradict each other
APART = 3.0


@dataclass(frozen=True)
class OwnReturn:
    """The mean discounted return of the log's episodes from their start, without any model:
    `error` is its standard error.
    """

    mean: float
    error: float
    episodes: int

    def contradicts(self, value: float) -> bool:
        """Whether a value of the baseline is further away than chance explains."""
        return abs(value - self.mean) > APART * self.error + 1e-9 * abs(self.mean)


def own_return(problem: Problem) -> OwnReturn | None:
    """The mean return of the episodes that ended; None where episodes are cut, few, or not in
    memory.
    """
    log = problem.log
    if log is None or problem.start_from != EPISODES or log.n_episodes < FEW or log.cuts.any():
        return None
    g = episode_returns(log, problem.gamma)
    return OwnReturn(float(g.mean()), float(g.std(ddof=1) / math.sqrt(len(g))), len(g))


def check_allowed(log: Log, problem: Problem, pi: np.ndarray) -> None:
    """Raise if the policy uses an action that is not allowed."""
    forbidden = np.argwhere(
        (pi > 0) & ~np.asarray(problem.allowed) & ~np.asarray(problem.terminal)[:, None]
    )
    if len(forbidden):
        s, a = forbidden[0]
        raise PolicyError(f"the policy uses {log.labels.pair(s, a)}, which is not allowed")


def between(found: Estimate, parts: Units) -> tuple[float, float]:
    """A 90 % interval: scatter of outcomes and of the start, and what has not shown yet, as two
    independent errors.

    half width = sqrt( (half width of `interval`)^2 + (rule of three)^2 ): close to the exact limits
    for rare events, since k + sqrt(1.645^2 k + 3^2) is 3.0, 4.4, 7.1, 16 for k = 0, 1, 3, 10, where
    Poisson's 95 % limit is 3.0, 4.7, 7.8, 17.
    """
    if parts.number < 2:
        return math.nan, math.nan
    low, high = interval(found, parts, np.ones(parts.number, dtype=bool))
    return found.value - math.hypot(found.value - low, found.loss.change), found.value + math.hypot(
        high - found.value, found.more.change
    )


def evaluation(
    log: Log, problem: Problem, pi: np.ndarray, pi_b: np.ndarray | None = None
) -> dict[str, Any]:
    """Values at the start by the model counted from the log, with intervals, and the share of
    the policy that was never seen.
    """
    check_allowed(log, problem, pi)
    parts = units(log, problem.log, problem.gamma)
    found = in_sample(problem, parts, pi, pi_b)
    estimates = {
        "policy": found.policy,
        "baseline": found.baseline_estimate,
        "gain": found.difference,
    }
    n_s = log.n_sa.sum(axis=1, keepdims=True)
    unseen = float((pi * (log.n_sa == 0) * n_s).sum() / n_s.sum())
    values = {}
    for name, x in estimates.items():
        low, high = between(x, parts)
        values[name] = {"value": x.value, "low": low, "high": high}
    own = own_return(problem)
    return {
        "values": values,
        "quantiles": [DELTA, 1 - DELTA],
        "units": parts.number,
        "unit": parts.kind,
        "share_never_seen": unseen,
        "baseline_estimated": problem.pi_b_estimated,
        "start": problem.start_from,
        "own_return": own_summary(own, found.baseline),
    }


def own_summary(own: OwnReturn | None, value: float) -> dict[str, Any] | None:
    """The log's own mean return, for machines."""
    if own is None:
        return None
    return {
        "mean": own.mean,
        "standard_error": own.error,
        "episodes": own.episodes,
        "contradicts_model": own.contradicts(value),
    }


def own_lines(own: Mapping[str, Any] | None, value: float) -> list[str]:
    """The same for people; a warning where the model contradicts it."""
    if own is None:
        return []
    words = (
        f"the log's own mean return is {own['mean']:.4g} +- {own['standard_error']:.2g}, the model"
        f" says {value:.4g}"
    )
    if own["contradicts_model"]:
        return [
            f"WARNING   {words}: they differ by more than chance, so the states",
            "          do not say enough, and gains by the model are off by as much",
        ]
    return [f"          {words} for the baseline"]


def evaluation_lines(found: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    lines = []
    for name, x in found["values"].items():
        lines.append(
            f"{name:9} {x['value']:+.5g} {WHERE[found['start']]}, 90 % interval [{x['low']:+.5g},"
            f" {x['high']:+.5g}]"
        )
    estimated = ", ESTIMATED from the log" if found["baseline_estimated"] else ""
    lines.append(
        f"          by the model of this log; {found['units']} {found['unit']};"
        f" baseline{estimated or ' given'}"
    )
    lines += own_lines(found["own_return"], found["values"]["baseline"]["value"])
    lines.append(
        f"coverage  {found['share_never_seen']:.1%} of the policy's decisions are actions never"
        " seen in their state: they count as"
    )
    lines.append(
        "          the baseline does there. A policy learned from this very log looks better here"
        " than it is"
    )
    return lines
