"""The safety test: do episodes that a policy was not made from show that it is better than the
baseline, or worse, or neither?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.advice.provenance import Fingerprints, shared_episodes
from surefoot.advice.verdict import by_two_sides
from surefoot.core import Batch
from surefoot.core.evidence import Evidence
from surefoot.errors import LogError, NotAvailableError, ParameterError
from surefoot.ope.episode_values import GAIN, LOSS, Standard
from surefoot.ope.episodes import FEWEST_IN_PART, split_episodes, take_episodes
from surefoot.ope.gain_test import ORDER, SAME, GainEvidence, evidence_of, model_for, promised
from surefoot.ope.two_samples import evidence_of_two
from surefoot.problems import Problem
from surefoot.text import plural

NONE_MISSING = "no episode is missing because of how it went"
DECLARE = (
    "Declare the possible rewards (--reward-range), or accept those observed (--observed-range)"
)
KEEP_LAST = (
    "Whole episodes are compared, so nobody needs to know what follows their last rows: with"
    " --episode-end terminal they count, whether they ended or were cut"
)
MOSTLY = 0.9  # share of a log from the policy's training log from which on the rest is not tested
# episodes, by their weights, from which on the approximate bounds were found to be right
ENOUGH_EFFECTIVE = 100.0
SKEWED = 0.15  # skewness / sqrt(n) of the values up to which they were


@dataclass(frozen=True, repr=False)
class Sample:
    """Episodes of the baseline, and both policies over their states.

    With propensities the episodes may be of other policies; pi_b None then stands for what made
    them, on average, or for the policy of this code, by its own episodes. unfollowed, dropped: rows
    that are left out since nothing is known to follow them, or since they are bad (see `Problem`).
    """

    batch: Batch
    pi: np.ndarray
    pi_b: np.ndarray | None
    policy: int | None = None
    unfollowed: int = 0
    dropped: int = 0

    def split(self, share: float, seed: int = 0) -> tuple[Sample, Sample]:
        """(a random share of the episodes, the others), the same ones for the same seed."""
        first, second = split_episodes(self.batch, np.random.default_rng(seed), share)
        return replace(self, batch=first), replace(self, batch=second)


@dataclass(frozen=True, repr=False, kw_only=True)
class SafetyTest:
    """A test whose verdict is wrong with probability at most delta: each of its two sides, a gain
    and a loss, has delta / 2.

    condition   what the verdict assumes though nobody declared it: that no reward lies outside
                those observed, that rows left out have nothing to do with what happened; else ""
    remedy      what would do without the condition
    estimate    of V^pi - V^{pi_b}, from the tested episodes; no range changes it
    gain, loss  lower bounds on V^pi - V^{pi_b} and on V^{pi_b} - V^pi; at most one of them is
                positive
    chosen_on   on how many other episodes the cap of the bounds, or the model, was chosen; 0 where
                there is neither
    parts       what the tested episodes show about guards and groups
    """

    condition: str
    remedy: str
    delta: float
    estimate: float
    gain: GainEvidence
    loss: GainEvidence
    chosen_on: int
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    parts: tuple[Evidence, ...] = ()

    @property
    def verdict(self) -> str:
        """PASSES, FAILS or NO_EVIDENCE, of all rows."""
        return by_two_sides((self.evidence, *self.parts))

    @property
    def evidence(self) -> Evidence:
        """The row of both bounds: the low one at delta / 2, the high one at that over the number of
        statements.
        """
        low, high = self.gain.bound.value, -self.loss.bound.value
        return Evidence(
            estimate=self.estimate, low=low, high=high, together=(math.nan, high),
            delta=self.delta / 2, validity=self.gain.bound.validity, units=self.gain.bound.n,
        )  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"SafetyTest({self.verdict}: {self.estimate:+.4g} in [{self.gain.bound.value:.4g},"
            f" {-self.loss.bound.value:.4g}])"
        )


def whole_sample(problem: Problem, pi: np.ndarray) -> Sample:
    """All episodes of a log."""
    log = rows_of(problem)
    if log.n_episodes < 2 * FEWEST_IN_PART:
        raise LogError(
            f"nothing can be tested on {plural(log.n_episodes, 'episode')}: episodes are what is"
            f" independent in a log, and at least {2 * FEWEST_IN_PART} are needed; give more of"
            " them"
        )
    return Sample(
        log,
        pi,
        compared_with(problem),
        problem.pi_b_policy,
        unfollowed=problem.n_unfollowed,
        dropped=problem.n_dropped,
    )


def compared_with(problem: Problem) -> np.ndarray | None:
    """The baseline of a problem; None where it is only estimated: the log stands for itself."""
    return None if problem.pi_b_estimated else np.asarray(problem.pi_b)


def without_training(
    sample: Sample, tested: Fingerprints, known: Sequence[Fingerprints], why: str = ""
) -> tuple[Sample, dict[str, Any]]:
    """(the episodes that are in none of the known training logs, what was found out); `why` says
    what could not be checked.
    """
    left_out, share, n = np.zeros(len(tested), dtype=bool), 0.0, len(tested)
    for trained in known:
        found = shared_episodes(tested, trained)
        share = max(share, found.share)
        if found.trouble:
            raise LogError(
                f"about {found.share:.0%} of the episodes were used for the policy"
                f" ({found.trouble}), and which ones cannot be told: test it on data it was not"
                " made from"
            )
        left_out |= found.left_out
    k = int(left_out.sum())
    both = (
        f"{k:,} of {n:,} episodes are, or have the names of, episodes that the policy was made from"
    )
    if k >= MOSTLY * n or n - k < 2 * FEWEST_IN_PART:
        raise LogError(
            f"{both} ({share:.0%} with the same content): test it on data it was not made from"
        )
    none = f"none of the {n:,} episodes was found among those the policy was made from"
    words = f"{both}: LEFT OUT" if k else none
    if why:
        more = f"; of --training, {words}" if known else ""
        words = f"NOT CHECKED whether the policy was made from these episodes: {why}{more}"
    found_out = {"checked": not why, "share": share, "episodes_left_out": k, "words": words}
    rest = replace(sample, batch=take_episodes(sample.batch, ~left_out)) if k else sample
    return rest, found_out


def rows_of(problem: Problem) -> Batch:
    """The rows of a problem's log; raise unless they are there, and say with which probability
    their actions were chosen, or the baseline that made them does.
    """
    if problem.pi_b_estimated and (problem.log is None or problem.log.propensity is None):
        raise NotAvailableError(
            "a safety test weighs episodes by the policy that made them: with a baseline estimated"
            " from the same log it proves nothing; give the true one (--baseline), or the"
            " probabilities with which the actions were chosen (--propensity)"
        )
    if problem.log is None:
        raise NotAvailableError(
            "a safety test needs the rows of the log in memory (up to 2,000,000): test on a part of"
            " its episodes"
        )
    return problem.log


def safety_test(
    training: Sample | None,
    held_out: Sample,
    gamma: float,
    standard: Standard,
    *,
    same_codes: bool = True,
    accept_observed: bool = False,
    seed: int = 0,
    statements: int = 1,
) -> SafetyTest:
    """Test the policy on `held_out` in two one-sided tests, with caps (or the model of doubly
    robust values) from `training`.

    A loss is one of so many `statements` of which any would do, and shares its delta with them.

    The policy must not depend on `held_out`; `same_codes` says whether both samples have the same
    codes of states and actions. Where no range is declared it is that of the rewards of both
    samples, and the verdict is conditional unless `accept_observed`.
    """
    if training is not None:
        standard = standard.having_seen(training.batch.reward)
    each = replace(standard, delta=standard.delta / 2)
    shared = replace(standard, delta=standard.delta / 2 / statements)
    prepared = standard.capped or standard.estimator == "dr"
    if prepared:
        _check_preparation(training, standard, same_codes)
    gain, loss = (
        _unless_heavy(
            _tested(quantity, training if prepared else None, held_out, gamma, level, seed),
            drawn=held_out.batch.propensity is not None,
        )
        for quantity, level in ((GAIN, each), (LOSS, shared))
    )
    notes = tuple(dict.fromkeys((*gain.bound.notes, *loss.bound.notes, *gain.values.notes)))
    visited = np.unique(held_out.batch.state)
    base = held_out.pi_b
    if base is not None and np.abs(held_out.pi[visited] - base[visited]).max() <= SAME:
        same = "the policy is the baseline in every state of the tested episodes"
        notes = (f"{same}: there is nothing to show", *notes)
    low, high = standard.observed(held_out.batch.reward)
    within = "" if gain.values.declared else f"no reward below {low:g} or above {high:g} exists"
    conditions = _of_rows_left_out(held_out)
    if within and not accept_observed:
        conditions[within] = DECLARE
    return SafetyTest(
        condition=" and ".join(conditions),
        remedy=". ".join(conditions.values()),
        delta=standard.delta,
        estimate=gain.values.estimate,
        gain=gain,
        loss=loss,
        chosen_on=training.batch.n_episodes if training is not None and prepared else 0,
        assumptions=_assumptions(gain, within, held_out),
        notes=notes,
    )


def _of_rows_left_out(tested: Sample) -> dict[str, str]:
    """{what is assumed of rows that are left out: what to do instead}. Weights have mean 1 at the
    end of an episode only if where it ends does not depend on what is not in it.
    """
    found = {}
    if tested.unfollowed:
        words = f"the {tested.unfollowed:,} last rows of cut episodes that are left out"
        found[f"{words} have nothing to do with where these were cut"] = KEEP_LAST
    if tested.dropped:
        words = f"the {tested.dropped:,} bad rows that are left out"
        found[f"{words} have nothing to do with what happened there"] = "Mend the bad rows"
    return found


def _check_preparation(training: Sample | None, standard: Standard, same_codes: bool) -> None:
    """Raise unless there are other episodes to choose a cap on, or to fit a model to."""
    if training is None:
        raise ParameterError(
            f'"{standard.bound}" bounds of "{standard.estimator}" values are prepared on other'
            " episodes: give training"
        )
    if not standard.capped and not same_codes:
        raise ParameterError(
            '"dr" values need a model over the states of the tested log: leave out the training'
            " log, and it is split"
        )


def _tested(
    quantity: str,
    training: Sample | None,
    held_out: Sample,
    gamma: float,
    standard: Standard,
    seed: int,
) -> GainEvidence:
    """One of the two tests; `training` chooses the cap of the bound, or makes the model."""
    if held_out.policy is not None:
        batch = held_out.batch
        return evidence_of_two(quantity, batch, held_out.pi, held_out.policy, gamma, standard)
    cap, model, n = None, None, held_out.batch.n_episodes
    if training is not None:
        t = training
        model = model_for(standard, t.batch, gamma)
        if standard.capped:
            cap = promised(t.batch, t.pi, t.pi_b, gamma, standard, n, quantity=quantity).cap
    found = evidence_of(
        quantity,
        held_out.batch,
        held_out.pi,
        held_out.pi_b,
        gamma,
        standard,
        cap=cap,
        model=model,
        rng=np.random.default_rng(seed),
    )
    return found if standard.floored else _unless_skewed(found)


def _unless_heavy(found: GainEvidence, *, drawn: bool) -> GainEvidence:
    """The evidence, without its bound where the log shows that its weights are wrong; propensities
    (`drawn`) have a bet of their own.
    """
    n = len(found.values.x)
    heavy = found.values.too_heavy(np.random.default_rng(ORDER).permutation(n))
    if drawn or not heavy:
        return found
    note = f"no bound is given: {heavy}. The given baseline did not make this log: give what did"
    return found.without_bound(note)


def _unless_skewed(found: GainEvidence) -> GainEvidence:
    """The evidence, without its bound where an approximate one is not valid.

    Measured on 156 families of 400 logs on which no policy is better, of 50 to 1,000 episodes of 1
    to 20 steps, at delta 0.05: with 10 effective episodes or more a verdict is wrong in 9 % on
    average and 82 % at worst; by this rule in 1 % and 6 %.
    """
    x = found.values.x - found.values.x.mean()
    size, spread = found.values.effective_size, float(np.sqrt((x**2).mean()))
    skewness = float(abs((x**3).mean())) / spread**3 / np.sqrt(len(x)) if spread > 0 else 0.0
    if size >= ENOUGH_EFFECTIVE and skewness <= SKEWED:
        return found
    note = (
        f"the {found.bound.method} bound is NOT VALID here, and none is given: it takes"
        f" {ENOUGH_EFFECTIVE:g} effective episodes and values that are not skewed (skewness /"
        f" sqrt(n) up to {SKEWED:g}), there are {size:.1f} and {skewness:.2g}; take --bound betting"
    )
    return found.without_bound(note)


def _assumptions(found: GainEvidence, within: str, tested: Sample) -> tuple[str, ...]:
    made = "the given baseline made them"
    if tested.batch.propensity is not None:
        made = "their actions were chosen with the propensities of the log"
    average = "the baseline is what made the log, on average over its episodes"
    if tested.policy is not None:
        average = "the baseline is the policy that was named, on average over its own episodes"
    return (
        "the policy was neither made nor chosen with the tested episodes",
        f"the tested episodes are independent of each other, and {made}",
        *([average] if tested.pi_b is None else []),
        "no hidden cause: decisions used nothing beyond the state that also bears on the outcome",
        "the same world: what holds in the tested episodes holds where the policy will act",
        NONE_MISSING,
        "what counts is the discounted return of a whole episode, from its start to where it ends"
        " or is cut",
        *([f"{within}: these were observed, nobody declared them (--reward-range)"] * bool(within)),
        f"the bound is {found.bound.validity}",
    )
