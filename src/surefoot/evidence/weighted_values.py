"""Values of a policy by importance weights: IPS, SNIPS and DR, each with an interval and with what
it assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from surefoot.core import Batch
from surefoot.core.errors import NotAvailableError, SurefootError
from surefoot.core.text import impossible
from surefoot.evidence.centring import discounts
from surefoot.evidence.estimate import UnitEstimate, Unseen
from surefoot.evidence.estimates import (
    EpisodeValues,
    episode_returns,
    per_decision,
    weighted_per_decision,
)
from surefoot.evidence.models import doubly_robust
from surefoot.problems import Problem

TRUE_WEIGHTS = "the propensities are true"
GIVEN_WEIGHTS = "the given baseline made the log"
METHODS: Mapping[str, tuple[Callable[..., EpisodeValues], str]] = {
    "ips": (per_decision, "unbiased"),
    "snips": (weighted_per_decision, "less scatter; biased for few episodes"),
    "dr": (doubly_robust, "unbiased; a model of other episodes takes out scatter"),
}


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
    return _described(problem, found.x, words, found.effective_size) | {
        "effective_episodes": found.effective_size,
        "largest_weight": found.largest_weight,
        "share_never_tried": found.overlap.unseen,
    }


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
