"""The safety test: do episodes that a policy was not made from show that it is better than the baseline, or worse, or neither?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.core import Batch
from surefoot.errors import LogError, NotAvailableError, ParameterError
from surefoot.ope.caps import Forecast
from surefoot.ope.episodes import FEWEST, split_episodes
from surefoot.ope.hcpi import promised
from surefoot.ope.improvement import Evidence, Standard, improvement_bound, mirrored, worsening_bound
from surefoot.ope.models import fitted_model
from surefoot.problems import Problem

PASSES, FAILS, NO_EVIDENCE = "passes", "fails", "no evidence"
SAME = 1e-12  # policies closer than this are one


@dataclass(frozen=True, repr=False)
class Sample:
    """Episodes of the baseline, and both policies over their states."""

    batch: Batch
    pi: np.ndarray
    pi_b: np.ndarray


@dataclass(frozen=True, repr=False)
class SafetyTest:
    """The verdict, wrong with probability at most delta: each of its two tests, of a gain and of a loss, has delta / 2.

    estimate    of V^pi - V^{pi_b}, the mean over the tested episodes
    gain, loss  lower bounds on V^pi - V^{pi_b} and on V^{pi_b} - V^pi; at most one of them is positive
    chosen_on   on how many other episodes the cap of the bounds, or the model, was chosen
    """

    verdict: str
    delta: float
    estimate: float
    gain: Evidence
    loss: Evidence
    chosen_on: int
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"SafetyTest({self.verdict}: {self.estimate:+.4g} in [{self.gain.bound.value:.4g}, {-self.loss.bound.value:.4g}])"


def split_sample(problem: Problem, pi: np.ndarray, share: float, seed: int = 0) -> tuple[Sample, Sample]:
    """(a random share of the episodes, the others), the same ones for the same log and seed."""
    log = rows_of(problem)
    if log.n_episodes < 2 * FEWEST:
        raise LogError(
            f"nothing can be tested on {log.n_episodes} episode{'s' if log.n_episodes != 1 else ''}: episodes are what is independent in "
            f"a log, and at least {2 * FEWEST} are needed; give more of them"
        )
    pi_b = np.asarray(problem.pi_b)
    first, second = split_episodes(log, np.random.default_rng(seed), share)
    return Sample(first, pi, pi_b), Sample(second, pi, pi_b)


def rows_of(problem: Problem) -> Batch:
    """The rows of a problem's log; raise unless they are there and the baseline is the one that made them."""
    if problem.pi_b_estimated:
        raise NotAvailableError(
            "a safety test weighs episodes by the policy that made them: with a baseline estimated from the same log it proves nothing; "
            "give the true one (--baseline)"
        )
    if problem.log is None:
        raise NotAvailableError("a safety test needs the rows of the log in memory (up to 2,000,000): test on a part of its episodes")
    return problem.log


def safety_test(
    training: Sample, held_out: Sample, gamma: float, standard: Standard, *, same_codes: bool = True, seed: int = 0
) -> SafetyTest:
    """Test the policy on `held_out`, with caps (or the model of doubly robust values) from `training`, in two one-sided tests.

    The policy must not depend on `held_out`; `same_codes` says whether both samples number states and actions alike.
    """
    each = replace(standard, delta=standard.delta / 2)
    options: list[dict[str, Any]] = [{}, {}]
    if standard.capped:
        turned = replace(training, batch=replace(training.batch, reward=-training.batch.reward))
        n = held_out.batch.n_episodes
        options = [{"promise": _promise(training, gamma, each, n)}, {"promise": _promise(turned, gamma, mirrored(each), n)}]
    elif standard.estimator == "dr":
        if not same_codes:
            raise ParameterError(
                '"dr" values need a model over the states of the tested log: leave out the training log, and it is split'
            )
        ranges = {"reward_range": standard.reward_range, "return_range": standard.return_range}
        options = [{"model": fitted_model(training.batch, gamma, **ranges)}] * 2
    found = [
        bound(held_out.batch, held_out.pi, held_out.pi_b, gamma, each, rng=np.random.default_rng(seed), **extra)
        for bound, extra in zip((improvement_bound, worsening_bound), options, strict=True)
    ]
    gain, loss = found
    verdict = PASSES if gain.is_positive else FAILS if loss.is_positive else NO_EVIDENCE
    notes = tuple(dict.fromkeys((*gain.bound.notes, *loss.bound.notes, *gain.values.notes)))
    visited = np.unique(held_out.batch.state)
    if np.abs(held_out.pi[visited] - held_out.pi_b[visited]).max() <= SAME:
        notes = ("the policy is the baseline in every state of the tested episodes: there is nothing to show", *notes)
    return SafetyTest(
        verdict, standard.delta, float(gain.values.x.mean()), gain, loss, training.batch.n_episodes, _assumptions(gain), notes
    )  # fmt: skip


def _promise(sample: Sample, gamma: float, standard: Standard, n: int) -> Forecast:
    return promised(sample.batch, sample.pi, sample.pi_b, gamma, standard, n)


def _assumptions(found: Evidence) -> tuple[str, ...]:
    return (
        "the policy was not made, nor chosen, with the tested episodes",
        "the tested episodes are independent, and the given baseline made them",
        "what counts is the discounted return of an episode from its start to where it ends or is cut",
        f"the bound is {found.bound.validity}",
    )


def safety_summary(found: SafetyTest) -> dict[str, Any]:
    """The test as data for machines."""
    values, standard = found.gain.values, found.gain.standard
    return {
        "verdict": found.verdict, "delta": found.delta, "delta_of_each_test": found.delta / 2, "estimated_gain": found.estimate,
        "gain_at_least": found.gain.bound.value, "gain_at_most": -found.loss.bound.value, "estimator": standard.estimator,
        "bound": standard.bound, "episodes_tested": found.gain.bound.n, "episodes_cap_chosen_on": found.chosen_on,
        "effective_episodes": values.effective_size, "largest_weight": values.largest_weight,
        "share_never_tried": values.overlap.unseen, "assumptions": list(found.assumptions), "notes": list(found.notes),
    }  # fmt: skip


def safety_lines(found: Mapping[str, Any]) -> list[str]:
    """The test in words."""
    low, high = found["gain_at_least"], found["gain_at_most"]
    between = f"at least {low:+.4g}" if np.isfinite(low) else "no lower bound"
    between += f", at most {high:+.4g}" if np.isfinite(high) else ", no upper bound"
    word = {
        PASSES: "PASSES: shown to be better than the baseline",
        FAILS: "FAILS: shown to be worse than the baseline",
        NO_EVIDENCE: "NO EVIDENCE: shown to be neither better nor worse than the baseline",
    }[found["verdict"]]
    return [
        f"tested    {found['episodes_tested']:,} episodes; {found['estimator']} values, {found['bound']} bound, prepared on "
        f"{found['episodes_cap_chosen_on']:,} others",
        f"gain      {found['estimated_gain']:+.4g} estimated; {between} (wrong with probability {found['delta']:g}: "
        f"{found['delta_of_each_test']:g} for each side)",
        f"overlap   effectively {found['effective_episodes']:.1f} episodes, largest weight {found['largest_weight']:.3g}; "
        f"{found['share_never_tried']:.1%} of the policy on actions never tried there",
        f"verdict   {word}",
        *(f"assumes:  {x}" for x in found["assumptions"]),
    ]
