"""The safety test: do episodes that a policy was not made from show that it is better than the
baseline, or worse, or neither? With guards and groups: better in the reward, and worse in none of
its parts.

It passes if the gain is shown to be above 0 and every part to be worse by no more than its
tolerance, each at delta / 2. It fails if the policy is shown to be worse, or any part worse by more
than its tolerance: each of these has delta / 2 divided by their number. A wrong verdict has
probability at most delta (`surefoot.advice.verdict`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from surefoot.advice.answers import Paged
from surefoot.advice.parts import Group, parts_summary
from surefoot.advice.provenance import Fingerprints, shared_episodes
from surefoot.advice.verdict import NO_EVIDENCE, by_two_sides
from surefoot.core import Batch
from surefoot.core.errors import LogError, NotAvailableError, ParameterError, SurefootError
from surefoot.core.evidence import GROUP, GUARD, LOWER, Evidence
from surefoot.core.text import impossible, plural
from surefoot.evidence.episode_values import GAIN, LOSS, Standard, episode_values
from surefoot.evidence.estimates import EpisodeValues
from surefoot.evidence.gain_test import (
    ORDER,
    SAME,
    bound_of,
    evidence_of_two,
    model_for,
    promised,
    without_bound,
)
from surefoot.evidence.known_policies import known_policies
from surefoot.evidence.units import FEWEST_IN_PART, split_episodes, take_episodes
from surefoot.problems import Problem
from surefoot.problems.guards import Guard
from surefoot.report.policy_words import IF, safety_statements
from surefoot.report.statements import text

FRESH = "the policy was neither made nor chosen with the tested episodes"
NO_HIDDEN_CAUSE = (
    "no hidden cause: decisions used nothing beyond the state that also bears on the outcome"
)
SAME_WORLD = "the same world: what holds in the tested episodes holds where the policy will act"
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
ALIKE = "the baseline treats all groups alike, given the state"


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


@dataclass(frozen=True, repr=False)
class Tested(Paged):
    """What a safety test found, as a document; and the rows of evidence behind its verdict: that of
    the whole, then those of guards and groups.

    The verdict is wrong with probability at most delta: a gain and a loss have delta / 2 each.
    `low` is the bound at that level, `high` at that over the number of statements.
    """

    command: ClassVar[str] = "safety-test"
    document: Mapping[str, Any]
    rows: tuple[Evidence, ...]

    @property
    def verdict(self) -> str:
        """ "passes", "fails", "no evidence"; with " if" where a condition is to be judged."""
        word = by_two_sides(self.rows)
        return word + IF if self.document["condition"] and word != NO_EVIDENCE else word

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The test for people."""
        return text(safety_statements(document), explain=explain)

    def page(self) -> str:
        """The page of the test."""
        from surefoot.report.log_pages import safety_page

        return safety_page(self.document)


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
        words = f"could not check whether the policy was made from these episodes; {why}{more}"
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
            " probabilities with which the actions were chosen (--propensity); a test that is only"
            " approximate does without (safety-test --estimated-baseline)"
        )
    if problem.log is None:
        raise NotAvailableError(
            "a safety test needs the rows of the log in memory (up to 2,000,000): test on a part of"
            " its episodes"
        )
    return problem.log


def sample_test(
    training: Sample | None,
    held_out: Sample,
    gamma: float,
    standard: Standard,
    *,
    same_codes: bool = True,
    accept_observed: bool = False,
    seed: int = 0,
    statements: int = 1,
) -> Tested:
    """Test the policy on `held_out` in two one-sided tests, with caps (or the model of doubly
    robust values) from `training`.

    A loss is one of so many `statements` of which any would do, and shares its delta with them.

    The policy must not depend on `held_out`; `same_codes` says whether both samples have the same
    codes of states and actions. Where no range is declared it is that of the rewards of both
    samples, and the verdict is conditional unless `accept_observed`.
    """
    if training is not None:
        standard = standard.having_seen(training.batch.reward)
    if standard.capped or standard.estimator == "dr":
        _check_preparation(training, standard, same_codes)
    else:
        training = training if standard.known else None
    (gain, values), (loss, turned) = (
        _tested(quantity, training, held_out, gamma, replace(standard, delta=delta), seed)
        for quantity, delta in ((GAIN, standard.delta / 2), (LOSS, standard.delta / 2 / statements))
    )
    seen = None if values.declared else standard.observed(held_out.batch.reward)
    observed = "" if seen is None else no_reward_beyond(*seen)
    conditions = _of_rows_left_out(held_out)
    if observed and not accept_observed:
        conditions[observed] = DECLARE
    row = replace(
        gain,
        high=-loss.low,
        together=(math.nan, -loss.low),
        within=seen,
        assumes=_assumptions(gain, observed, held_out),
        notes=tuple(
            dict.fromkeys((*_of_no_change(held_out), *gain.notes, *loss.notes, *values.notes))
        ),
    )
    document = {
        "condition": " and ".join(conditions),
        "remedy": ". ".join(conditions.values()),
        "delta": standard.delta,
        "delta_of_loss": loss.delta,
        "centred": values.control is not None or turned.control is not None,
        "episodes_cap_chosen_on": 0 if training is None else training.batch.n_episodes,
    }
    odd = impossible(row.estimate, values.lo, -turned.lo)
    return Tested(document | _told(row, values, standard, odd), (row,))


safety_test = sample_test  # its name in the changelog


def weighs_both(sample: Sample, standard: Standard) -> bool:
    """Whether policy and baseline are weighted, in single decisions of policies that other rows can
    show: that takes most of the scatter away. Propensities decide it, rewards are not looked at.
    """
    log, pi_b = sample.batch, sample.pi_b
    may = standard.bound == "betting" and standard.estimator != "dr" and sample.policy is None
    weighted = may and pi_b is not None and not log.made_by(pi_b)
    return weighted and known_policies(log) is not None


def _knowing(standard: Standard, other: Sample | None, *, same_codes: bool) -> Standard:
    """The standard with what other rows show of the policies that made the log."""
    if other is None or not same_codes or not weighs_both(other, standard):
        return standard
    return replace(standard, known=known_policies(other.batch))


def _told(row: Evidence, values: EpisodeValues, standard: Standard, odd: str) -> dict[str, Any]:
    """The row and the values behind it, as data for machines; `odd`: why its estimate cannot be."""
    return {
        "delta_of_each_test": row.delta,
        "estimated_gain": row.estimate,
        "gain_at_least": row.low,
        "gain_at_most": row.high,
        "estimator": standard.estimator,
        "bound": standard.bound,
        "compared_with": values.compared,
        "episodes_tested": row.units,
        **values.weighing,
        "assumptions": list(row.assumes),
        "notes": [*([f"the estimated gain is {odd}"] if odd else []), *row.notes],
    }


def _of_no_change(tested: Sample) -> tuple[str, ...]:
    """That the policy changes nothing where these episodes were, where that is so."""
    visited, base = np.unique(tested.batch.state), tested.pi_b
    if base is None or np.abs(tested.pi[visited] - base[visited]).max() > SAME:
        return ()
    same = "the policy is the baseline in every state of the tested episodes"
    return (f"{same}: there is nothing to show",)


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
) -> tuple[Evidence, EpisodeValues]:
    """One of the two tests, and the values it is of; `training` chooses the cap of the bound, or
    makes the model.
    """
    t, batch, pi, pi_b = training, held_out.batch, held_out.pi, held_out.pi_b
    if held_out.policy is not None:
        row, values = evidence_of_two(quantity, batch, pi, held_out.policy, gamma, standard)
        return _unless_heavy(row, values, batch), values
    cap, model, n = None, None, batch.n_episodes
    if t is not None:
        model = model_for(standard, t.batch, gamma)
        if standard.capped:
            cap = promised(t.batch, t.pi, t.pi_b, gamma, standard, n, quantity=quantity).cap
    values = episode_values(batch, pi, pi_b, gamma, standard, model=model, quantity=quantity)
    row = bound_of(values, standard, cap=cap, rng=np.random.default_rng(seed))
    row = row if standard.floored else _unless_skewed(row, values, standard)
    return _unless_heavy(row, values, batch), values


def _unless_heavy(row: Evidence, values: EpisodeValues, tested: Batch) -> Evidence:
    """The row, without its bound where the log shows that its weights are wrong; propensities have
    a bet of their own.
    """
    heavy = values.too_heavy(np.random.default_rng(ORDER).permutation(len(values.x)))
    if tested.propensity is not None or not heavy:
        return row
    note = f"no bound is given: {heavy}. The given baseline did not make this log: give what did"
    return without_bound(row, note)


def _unless_skewed(row: Evidence, values: EpisodeValues, standard: Standard) -> Evidence:
    """The row, without its bound where an approximate one is not valid.

    Measured on 156 families of 400 logs on which no policy is better, of 50 to 1,000 episodes of 1
    to 20 steps, at delta 0.05: with 10 effective episodes or more a verdict is wrong in 9 % on
    average and 82 % at worst; by this rule in 1 % and 6 %.
    """
    x = values.x - values.x.mean()
    size, spread = values.effective_size, float(np.sqrt((x**2).mean()))
    skewness = float(abs((x**3).mean())) / spread**3 / np.sqrt(len(x)) if spread > 0 else 0.0
    if size >= ENOUGH_EFFECTIVE and skewness <= SKEWED:
        return row
    note = (
        f"the {standard.bound} bound is NOT VALID here, and none is given: it takes"
        f" {ENOUGH_EFFECTIVE:g} effective episodes and values that are not skewed (skewness /"
        f" sqrt(n) up to {SKEWED:g}), there are {size:.1f} and {skewness:.2g}; take --bound betting"
    )
    return without_bound(row, note)


def _assumptions(row: Evidence, within: str, tested: Sample) -> tuple[str, ...]:
    made = "the given baseline made them"
    if tested.batch.propensity is not None:
        made = "their actions were chosen with the propensities of the log"
    average = "the baseline is what made the log, on average over its episodes"
    if tested.policy is not None:
        average = "the baseline is the policy that was named, on average over its own episodes"
    return (
        FRESH,
        f"the tested episodes are independent of each other, and {made}",
        *([average] if tested.pi_b is None else []),
        NO_HIDDEN_CAUSE,
        SAME_WORLD,
        NONE_MISSING,
        "what counts is the discounted return of a whole episode, from its start to where it ends"
        " or is cut",
        *([f"{within}: these were observed, nobody declared them (--reward-range)"] * bool(within)),
        f"the bound is {row.validity}",
    )


def guarded_safety_test(
    training: Sample | None,
    held_out: Sample,
    gamma: float,
    standard: Standard,
    guards: tuple[Guard, ...] = (),
    groups: Sequence[Group] = (),
    *,
    same_codes: bool = True,
    accept_observed: bool = False,
) -> Tested:
    """The test of the policy and of what it must not harm, guards and groups; its verdict is that
    of all of them.
    """
    if groups and training is not None and not same_codes:
        raise ParameterError(
            "groups are tested with bounds that need no other log: leave out --training, or take"
            " --bound betting"
        )
    statements = 1 + len(guards) + len(groups)
    given: dict[str, Any] = {
        "same_codes": same_codes, "accept_observed": accept_observed, "statements": statements
    }  # fmt: skip
    knows = _knowing(standard, training, same_codes=same_codes)
    whole = sample_test(training, held_out, gamma, knows, **given)
    parts = []
    for guard in guards:
        row = Evidence(part=guard.part, units=held_out.batch.n_episodes)
        first, second = (
            None if x is None else replace(x, batch=of_column(x.batch, guard))
            for x in (training, held_out)
        )
        assert second is not None
        own = standard_of(standard, guard, held_out.batch)
        own = _knowing(own, first, same_codes=same_codes)
        parts.append(_tested_part(row, first, second, gamma, own, given))
    seen = knows.having_seen(held_out.batch.reward)  # by all groups
    for group in groups:
        first, second = (_of_group(x, group) for x in (training, held_out))
        row = Evidence(part=group.part, units=0 if second is None else second.batch.n_episodes)
        parts.append(_tested_part(row, first, second, gamma, seen, given))
    return _with_parts(whole, tuple(parts), accept_observed)


def _tested_part(
    row: Evidence,
    training: Sample | None,
    held_out: Sample | None,
    gamma: float,
    standard: Standard,
    given: Mapping[str, Any],
) -> Evidence:
    """The row with its bounds; what cannot be tested says why."""
    if held_out is None or row.units < 2:
        return replace(row, trouble=f"{row.units} of the tested episodes tell about it")
    try:
        made = sample_test(training, held_out, gamma, standard, **given)
    except SurefootError as error:
        return replace(row, trouble=str(error))
    (found,), within = made.rows, None
    if row.part.kind == GUARD and found.within is not None:  # groups rest on what all do
        low, high = found.within
        within = (-high, -low) if row.part.direction == LOWER else (low, high)
    return replace(found, part=row.part, units=row.units, within=within)


def of_column(batch: Batch, guard: Guard) -> Batch:
    """The log in which the guarded column, turned so that more is better, is the reward."""
    return replace(batch, reward=guard.sign * batch.beside[guard.place].astype(float))


def standard_of(standard: Standard, guard: Guard, batch: Batch) -> Standard:
    """The standard for a guarded column: its own range, or that of the reward if it is the same."""
    column, declared, returns, sign = batch.beside[guard.place], guard.declared, None, guard.sign
    for same in (1.0, -1.0) if declared is None else ():  # the reward may be minus the column
        if np.array_equal(same * column, batch.reward):
            declared, returns, sign = standard.reward_range, standard.return_range, same * sign
            break
    if sign < 0:
        declared, returns = (None if x is None else (-x[1], -x[0]) for x in (declared, returns))
    return replace(standard, reward_range=declared, return_range=returns, seen=None)


def _of_group(sample: Sample | None, group: Group) -> Sample | None:
    """The episodes of a group; None where there are none."""
    if sample is None:
        return None
    mine = group.rows(sample.batch)[sample.batch.first]
    return replace(sample, batch=take_episodes(sample.batch, mine)) if mine.any() else None


def no_reward_beyond(low: float, high: float) -> str:
    """What nobody declared."""
    return f"no reward below {low:g} or above {high:g} exists"


def _with_parts(whole: Tested, parts: tuple[Evidence, ...], accept_observed: bool) -> Tested:
    """The test with its parts; what nobody declared is its condition."""
    rests = {
        x.part: f"no {x.part.name} below {x.within[0]:g} or above {x.within[1]:g} exists"
        for x in parts
        if x.within is not None
    }
    observed = () if accept_observed else rests.values()
    conditions = (whole.document["condition"], *observed)
    assumed = tuple(
        f"{words}: these were observed, nobody declared them (--guard"
        f" {part.name}:{part.direction}:{part.tolerance:g}:LOW,HIGH)"
        for part, words in rests.items()
    )
    if any(x.part.kind == GROUP for x in parts):
        assumed += (ALIKE,)
    document = {
        **whole.document,
        "condition": "; ".join(dict.fromkeys(x for x in conditions if x)),
        "assumptions": [*whole.document["assumptions"], *assumed],
        **parts_summary(parts, safety=True),
    }
    return Tested(document, (*whole.rows, *parts))
