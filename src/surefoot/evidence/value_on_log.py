"""What a given policy is worth on a log: its value with an interval, the baseline's beside it,
and how much of it was never tried.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from surefoot.checks import wrong_weights
from surefoot.core import Policy
from surefoot.core.errors import PolicyError
from surefoot.evidence.estimate import DELTA
from surefoot.evidence.estimates import episode_returns
from surefoot.evidence.unit_model import model_of_units
from surefoot.evidence.units import ENOUGH_EPISODES, Units, units_of
from surefoot.evidence.weighted_values import weighted_values
from surefoot.logs import Log, align_policy
from surefoot.problems import Problem
from surefoot.problems.problem import EPISODES

# standard errors beyond which the model's baseline and the log's own returns contradict each other
APART = 3.0


@dataclass(frozen=True)
class OwnReturn:
    """The mean discounted return of the log's episodes from their start, without any model; and
    whether the model's value of the baseline is further away than chance explains.
    """

    mean: float
    standard_error: float
    episodes: int
    contradicts_model: bool


def own_return(problem: Problem, value: float, units: Units | None = None) -> OwnReturn | None:
    """The mean return of the episodes that ended (where rows are not in memory: of those that the
    units hold), beside the model's value of the baseline; None where episodes are cut, few, not
    there, or not the baseline's own.
    """
    log = problem.log
    if log is None and units is not None and units.sample is not None:
        log = units.sample[0]
    if (
        log is None
        or problem.off_policy
        or problem.start_from != EPISODES
        or log.n_episodes < ENOUGH_EPISODES
        or log.cuts.any()
    ):
        return None
    g = episode_returns(log, problem.gamma)
    mean, error = float(g.mean()), float(g.std(ddof=1) / math.sqrt(len(g)))
    apart = abs(value - mean) > APART * error + 1e-9 * abs(mean)
    return OwnReturn(mean, error, len(g), apart)


def check_allowed(log: Log, problem: Problem, pi: np.ndarray) -> None:
    """Raise if the policy uses an action that is not allowed."""
    forbidden = np.argwhere(
        (pi > 0) & ~np.asarray(problem.allowed) & ~np.asarray(problem.terminal)[:, None]
    )
    if len(forbidden):
        s, a = forbidden[0]
        raise PolicyError(f"the policy uses {log.labels.pair(s, a)}, which is not allowed")


def evaluation(
    log: Log, problem: Problem, pi: Any, pi_b: np.ndarray | None = None
) -> dict[str, Any]:
    """Values at the start by the model counted from the log, with intervals, and the share of
    the policy that was never seen. `pi_b` made the log (default: as the problem says).
    """
    pi = align_policy(pi, problem)
    check_allowed(log, problem, pi)
    pi_b = np.asarray(problem.logging_policy if pi_b is None else pi_b)
    units = units_of(log, problem.log, problem.gamma)
    found = model_of_units(problem, units, pi_b=pi_b).compare(pi)
    values = {}
    for name in ("policy", "baseline", "gain"):
        estimate = getattr(found, name)
        low, high = estimate.interval()
        values[name] = {"value": estimate.value, "low": low, "high": high}
    n_s = log.n_sa.sum(axis=1, keepdims=True)
    own = own_return(problem, found.baseline.value, units)
    given = None if problem.pi_b_estimated else Policy(pi=pi_b, labels=log.labels)
    wrong = wrong_weights(log, given)
    return {
        "values": values,
        "quantiles": [DELTA, 1 - DELTA],
        "units": units.number,
        "unit": units.kind,
        "share_never_seen": float((pi * (log.n_sa == 0) * n_s).sum() / n_s.sum()),
        "baseline_estimated": problem.pi_b_estimated,
        "start": problem.start_from,
        "own_return": None if own is None else asdict(own),
        "range_seen": None if problem.return_range.declared else list(problem.reward_range),
        "weighted": {"not_available": wrong} if wrong else weighted_values(problem, pi),
    }
