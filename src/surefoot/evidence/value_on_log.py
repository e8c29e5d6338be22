"""What a given policy is worth on a log: its value with an interval, the baseline's beside it, how
much of it was never tried; and its values by importance weights, with what each assumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from surefoot.checks import wrong_weights
from surefoot.core import Batch, Policy
from surefoot.core.errors import NotAvailableError, PolicyError, SurefootError
from surefoot.core.text import impossible
from surefoot.evidence.centring import discounts
from surefoot.evidence.estimates import (
    EpisodeValues,
    doubly_robust,
    episode_returns,
    per_decision,
    weighted_per_decision,
)
from surefoot.evidence.unit_estimate import DELTA, UnitEstimate, Unseen
from surefoot.evidence.unit_model import model_of_units
from surefoot.evidence.units import ENOUGH_EPISODES, Units, units_of
from surefoot.logs import Log, align_policy
from surefoot.problems import Problem
from surefoot.problems.problem import EPISODES

TRUE_WEIGHTS = "the propensities are true"
GIVEN_WEIGHTS = "the given baseline made the log"
METHODS: Mapping[str, tuple[Callable[..., EpisodeValues], str]] = {
    "ips": (per_decision, "unbiased"),
    "snips": (weighted_per_decision, "less scatter; biased for few episodes"),
    "dr": (doubly_robust, "unbiased; a model of other episodes takes out scatter"),
}
# standard errors beyond which the model's baseline and the log's own returns contradict each other
APART = 3.0


def weighted_values(problem: Problem, pi: np.ndarray) -> dict[str, Any]:
    """{method: value, low, high, ...} of a policy, the value of the log itself beside them; or why
    there is none.

    The value is that of the discounted return of an episode from its start up to where it ends or
    is cut. Intervals are of 90 %, Student's with Johnson's term for skewness, for many episodes;
    a return that no episode has shown counts by the rule of three (`Unseen`).
    """
    log = problem.log
    try:
        if log is None:
            raise NotAvailableError("they need the rows of the log in memory (up to 2,000,000)")
        if log.n_episodes < 2:
            raise NotAvailableError("a log of one episode has no scatter between episodes")
        if problem.pi_b_estimated and log.propensity is None:
            raise NotAvailableError(
                "they need propensities (--propensity) or the policy that made the log"
                " (--baseline); an estimated one gives no true weights"
            )
        found = {name: _valued(name, log, pi, problem) for name in METHODS}
    except SurefootError as error:
        return {"not_available": str(error)}
    g = episode_returns(log, problem.gamma)
    own = _described(problem, g, "the mean return of the log", len(g))
    return {"log": own, **found}


def _valued(name: str, log: Batch, pi: np.ndarray, problem: Problem) -> dict[str, Any]:
    """One estimate."""
    estimate, words = METHODS[name]
    more: dict[str, Any] = {}
    if name == "dr" and problem.rewards_declared:
        more = {"reward_range": problem.reward_range}
    elif name == "dr" and problem.return_range.declared:
        more = {"return_range": (problem.return_range.lo, problem.return_range.hi)}
    found = estimate(log, pi, problem.pi_b, problem.gamma, **more)
    who = GIVEN_WEIGHTS if log.propensity is None else TRUE_WEIGHTS
    odd = impossible(found.estimate, problem.return_range.lo, problem.return_range.hi)
    words = "; ".join(filter(None, (odd, words, f"assumes that {who}")))
    return _described(problem, found.x, words, found.effective_size) | found.weighing


def _described(problem: Problem, x: np.ndarray, words: str, size: float) -> dict[str, Any]:
    """The mean of values with its interval, from effectively so many episodes."""
    value = float(x.mean())
    loss, more = (_unseen(abs(value - end), size) for end in _returns(problem))
    low, high = UnitEstimate(
        value=value, scores=(x - value) / len(x), of_pairs=0.0, degrees=1.0,
        loss=loss, more=more, blocks=False,
    ).interval()  # fmt: skip
    return {"value": value, "low": low, "high": high, "episodes": len(x), "assumes": words}


def _returns(problem: Problem) -> tuple[float, float]:
    """The lowest and the highest return of an episode as long as the longest of the log."""
    assert problem.log is not None
    steps = float(discounts(problem.gamma, 0, int(problem.log.time.max()) + 1))
    low, high = problem.reward_range
    return min(low, low * steps), max(high, high * steps)


def _unseen(distance: float, size: float) -> Unseen:
    """What returns at this distance may change that none of so many episodes has shown."""
    each = distance / max(size, 1.0)
    return Unseen(each=each, pair=0, n=size, shift=1.0, worst=0.0, distance=distance)


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


def evaluation(log: Log, problem: Problem, pi: Any) -> dict[str, Any]:
    """Values at the start by the model counted from the log, with intervals, and the share of
    the policy that was never seen.
    """
    pi = align_policy(pi, problem)
    check_allowed(log, problem, pi)
    pi_b = np.asarray(problem.logging_policy)
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
