"""The next log, `surefoot plan`: how many rows the test would need, how many episodes an A/B test,
and which actions to try more often, where that would decide most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack

import numpy as np
from scipy.special import ndtri

from surefoot.advice.answers import Answer
from surefoot.advice.files import action_values
from surefoot.advice.learn_and_test import Advice
from surefoot.advice.posing import Question, of_the_whole
from surefoot.advice.questions import advise
from surefoot.advice.summary import log_summary
from surefoot.core.errors import ParameterError
from surefoot.core.labels import as_text
from surefoot.evidence.estimates import episode_returns
from surefoot.evidence.unit_estimate import DELTA, UnitEstimate
from surefoot.planning import evaluate, visits
from surefoot.problems import Problem
from surefoot.report.policy_words import plan_statements
from surefoot.report.statements import text

POWER = 0.8
FREE_LOSS = 0.002  # of the width of the returns: what trying may cost where nobody says it
MOST_TIMES = 1e6  # a log more than so many times as large is no plan
HALVINGS = 40
MOST_PAIRS = 5
MOST_SHARE = 0.5  # of the decisions in a state that may be spent on trying


@dataclass(frozen=True, repr=False)
class Planned(Answer):
    """What the next log should be, so that it can decide."""

    command: ClassVar[str] = "plan"
    document: Mapping[str, Any]
    advice: Advice
    trials: tuple[Trial, ...]

    @property
    def tried(self) -> np.ndarray:
        """The baseline that tries what is proposed [S, A], in the codes of the log."""
        return with_trials(self.advice.pi_b, list(self.trials))

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The plan for people."""
        return text(plan_statements(document), explain=explain)


def plan(source: Any, *, loss: float | None = None, **how: Unpack[Question]) -> Planned:
    """What the next log should be, where this one does not decide: `surefoot plan`.

    `loss`: what trying actions may cost at most from the start on, in units of the gain; by default
    0.2 % of the width of the returns.
    """
    of_the_whole(how)
    if loss is not None and not 0 <= loss < math.inf:
        raise ParameterError(f"--loss is what trying may cost, a number >= 0; it is {loss!r}")
    advice = advise(source, **how)
    posed, problem = advice.posed, advice.problem
    assert posed is not None
    loss = FREE_LOSS * problem.return_range.width if loss is None else loss
    chosen = tuple(trials(problem, advice.candidate, advice.pi_b, loss))
    document = {
        "log": log_summary(advice.log, posed.source, problem),
        "gamma": posed.gamma,
        "start": problem.start_from,
        "verdict": advice.verdict,
        "supported": advice.supported,
        "reason": advice.reason,
        "vetoes": [x.key for x in advice.against],
        "power": POWER,
        "test": _test_needs(advice),
        "ab_test": _ab_test_needs(advice),
        "loss": loss,
        "trials": [_told(x, advice) for x in chosen],
        "notes": posed.notes,
    }
    return Planned(document, advice, chosen)


def _test_needs(advice: Advice) -> dict[str, Any] | None:
    """The rows that the test would need if the gain is what it is estimated to be, or half of it;
    None where weights alone may judge, or nothing was tested.
    """
    gain = advice.gain
    if gain is None or gain.varies or gain.values is None:
        return None
    estimate, rows = gain.values.gain, advice.log.accounting.used
    half = replace(estimate, value=estimate.value / 2)
    times, of_half = (times_needed(x, gain.evidence.explained) for x in (estimate, half))
    return {
        "gain": estimate.value,
        "times": times,
        "rows": rows * times if math.isfinite(times) else None,
        "rows_if_half": rows * of_half if math.isfinite(of_half) else None,
    }


def _ab_test_needs(advice: Advice) -> dict[str, Any] | None:
    """The episodes of each arm of an A/B test; None where the log has no whole episodes."""
    gain, batch = advice.gain, advice.problem.log
    if gain is None or batch is None or batch.n_episodes < 2 or batch.cuts.any():
        return None
    deviation = float(episode_returns(batch, advice.problem.gamma).std(ddof=1))
    n = episodes_of_an_ab_test(deviation, gain.evidence.estimate)
    known = math.isfinite(n) and gain.evidence.estimate > 0
    return {"deviation": deviation, "episodes_each": n if known else None}


def _told(x: Trial, advice: Advice) -> dict[str, Any]:
    return {
        "state": as_text(advice.log.states[x.state]),
        "action": as_text(advice.log.actions[x.action]),
        "visits": x.n,
        "now": x.now,
        "share": x.share,
        "more": x.more,
        "could_gain": x.could_gain,
        "costs": x.costs,
    }


def times_needed(estimate: UnitEstimate, explained: float = 0.0, power: float = POWER) -> float:
    """How many times as large a log like this must be for its low bound to lie above 0 with
    probability `power`, if the gain is what it is estimated to be; inf where no log would do.

    In a log k times as large the error of the estimate is 1 / sqrt(k) of this one's; what outcomes
    that have not been seen could take away, and what is left of the bias, are 1 / k.
    """
    if not estimate.value > max(explained, 0.0):
        return math.inf
    spread = math.sqrt(float(((estimate.scores - estimate.scores.mean()) ** 2).sum()))

    def enough(k: float) -> bool:
        like = replace(
            estimate,
            scores=estimate.scores / math.sqrt(k),
            of_pairs=estimate.of_pairs / k,
            degrees=estimate.degrees * k,
            loss=replace(estimate.loss, each=estimate.loss.each / k),
            left=estimate.left / k,
        )
        low = like.interval(DELTA)[0] - float(ndtri(power)) * spread / math.sqrt(k)
        return low > max(explained, 0.0)

    low, high = 0.0, math.log(MOST_TIMES)
    if not enough(MOST_TIMES):
        return math.inf
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(math.exp(middle)) else (middle, high)
    return math.exp(high)


def episodes_of_an_ab_test(
    deviation: float, gain: float, power: float = POWER, delta: float = DELTA
) -> float:
    """Episodes in each arm for a two-sided test at level delta to show this gain with probability
    `power`, where returns have this standard deviation in both arms:

        n = 2 ( (z_{1 - delta/2} + z_power) deviation / gain )^2
    """
    if gain == 0:
        return math.inf
    z = float(ndtri(1 - delta / 2) + ndtri(power))
    return 2 * (z * deviation / gain) ** 2


@dataclass(frozen=True, kw_only=True)
class Trial:
    """An action to try more often in a state.

    now, share      the probability of the action there, as it is and as it would be
    n, more         how often the log has tried it, and how often more a log of the same size would
    could_gain      what it could be worth to always do it there, at its high 95 % bound
    costs           what trying it so often costs at most, at its low 95 % bound
    """

    state: int
    action: int
    n: float
    now: float
    share: float
    more: float
    could_gain: float
    costs: float


def trials(problem: Problem, pi: np.ndarray, pi_b: np.ndarray, budget: float) -> list[Trial]:
    """The actions to try more often, those that could gain most first, at a cost of at most
    `budget` together, in units of the gain.

    To first order, always doing a in s gains  d(s) (q(s, a) - v(s)),  trying it with a probability
    that is x higher costs  -x  times that; d and v are those of the baseline in the model of the
    whole log. q is known to  1.64 sigma(s, a) / sqrt(n(s, a)).  It is tried so often that a gain of
    half of what is possible could be told from 0 on one half of the next log:

        ( (1.64 + 0.84) sigma / (half of the possible gain) )^2  visits there.
    """
    model = problem.model
    v = np.asarray(evaluate(model, pi_b))
    d = visits(model, pi_b, np.asarray(problem.start))
    q, error = action_values(problem, v)
    n = np.asarray(problem.n_sa)
    sigma = error * np.sqrt(n)
    pooled = math.sqrt(float(np.nansum(n * sigma**2) / max(n[np.isfinite(sigma)].sum(), 1)))
    sigma = np.where(np.isfinite(sigma) & (n >= 5), sigma, np.fmax(np.nan_to_num(sigma), pooled))
    q = np.where(n > 0, q, v[:, None])
    z = float(ndtri(1 - DELTA))
    reach = z * sigma / np.sqrt(np.maximum(n, 1.0))
    possible = np.maximum(q + reach - v[:, None], 0.0)
    open_ = np.asarray(problem.allowed) & ~np.asarray(problem.terminal)[:, None] & (pi < 1 - 1e-9)
    open_ &= n.sum(axis=1, keepdims=True) > 0
    could = np.where(open_, d[:, None] * possible, 0.0)
    needed = ((z + float(ndtri(POWER))) * sigma / np.where(possible > 0, possible / 2, np.inf)) ** 2
    return list(_afforded(problem, pi_b, could, needed, d, q - reach - v[:, None], budget))


def _afforded(
    problem: Problem,
    pi_b: np.ndarray,
    could: np.ndarray,
    needed: np.ndarray,
    d: np.ndarray,
    worst: np.ndarray,
    budget: float,
) -> Iterator[Trial]:
    """The trials that the budget covers; the last one in part."""
    n = np.asarray(problem.n_sa)
    found = 0
    for at in np.argsort(-could, axis=None, kind="stable"):
        s, a = divmod(int(at), could.shape[1])
        if could[s, a] <= 0 or found == MOST_PAIRS:
            return
        room = MOST_SHARE - pi_b[s, a]
        more = min(2 * needed[s, a] - n[s, a], room * n[s].sum())
        if more < 1:
            continue  # the log has tried it often enough
        x = more / n[s].sum()
        cost = d[s] * max(-worst[s, a], 0.0)
        part = min(1.0, (budget / (cost * x)) if cost * x > 0 else 1.0)
        if part * more < 1:
            continue  # too dear to be tried even once
        budget -= part * cost * x
        found += 1
        yield Trial(
            state=s,
            action=a,
            n=float(n[s, a]),
            now=float(pi_b[s, a]),
            share=float(pi_b[s, a] + part * x),
            more=float(part * more),
            could_gain=float(could[s, a]),
            costs=float(part * cost * x),
        )


def with_trials(pi_b: np.ndarray, chosen: list[Trial]) -> np.ndarray:
    """The baseline that tries these actions as often as they say; the others make room in
    proportion.
    """
    pi = np.array(pi_b)
    for s in {x.state for x in chosen}:
        here = [x for x in chosen if x.state == s]
        actions = [x.action for x in here]
        share = min(sum(x.share for x in here), 1.0)
        rest = np.delete(np.arange(pi.shape[1]), actions)
        left = pi_b[s, rest].sum()
        pi[s, rest] = pi_b[s, rest] * ((1 - share) / left if left > 0 else 0.0)
        pi[s, actions] = [x.share for x in here]
        pi[s] /= pi[s].sum()
    return pi
