"""`advise`: from a counted log to a verdict: the policy to use, what it changes, what that is
worth and how sure that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefoot.advice.assurance import Assurance, assure, proof, proves_itself
from surefoot.advice.confounding import MOST_STATES, TOO_LARGE, Sensitivity, sensitivity
from surefoot.advice.estimate import DELTA
from surefoot.advice.gain import FEWEST_UNITS, FINITE_SAMPLE, Gain, held_out_gain
from surefoot.advice.gates import check_gates, gates_of
from surefoot.advice.provenance import TRAINING, can_be_told
from surefoot.advice.unit_model import Comparison, model_of_units
from surefoot.advice.units import Units, units_of
from surefoot.advice.value_on_log import OwnReturn, own_return
from surefoot.advice.verdict import unless_worse
from surefoot.algorithms import Algorithm
from surefoot.core import Policy, Solution
from surefoot.core.evidence import Evidence
from surefoot.diagnosis import Finding, check_log
from surefoot.diagnosis.finding import (
    BASELINE,
    DRIFT,
    MARKOV,
    MISSING,
    NOTE,
    OK,
    TIME,
    check_keys,
    joint_words,
    not_looked_at,
)
from surefoot.errors import ParameterError, option
from surefoot.improvement import improve
from surefoot.logs import Log
from surefoot.problems import Problem
from surefoot.text import impossible

SUPPORTED, NOT_SUPPORTED, NOTHING_TO_LEARN = "supported", "not supported", "nothing to learn"
DESPITE = f"{SUPPORTED} despite "  # then the keys of what was found, or not looked at, and waived
MARGIN = 3.0  # circumstances that are not seen may matter so much more than those that are
MOST_MOVES = 0.8  # share of the moves that must be seen in the circumstances in which they are made
CHANGED = 1e-9  # mass moved in a state beyond rounding
NOT_HELD = (
    "the rows of this log are not held in memory: the test that weighs whole episodes was not tried"
)
NO_TRAINING = (
    f"no {TRAINING}: the rows of this log are not there in order, or too many to keep;"
    " surefoot safety-test cannot tell which episodes the policy was made from"
)


@dataclass(frozen=True, repr=False, kw_only=True)
class Advice:
    """What the data say about improving the baseline of a log with one algorithm.

    `candidate` is the policy that was tested; `policy` is it where the data support it (or
    `accepted` says to use it all the same), and the baseline otherwise. `gain` is held out;
    `in_sample` is optimistic, since half of the data made the candidate. `pi_b` made the log: gains
    are against it; `over_renormalised` is the gain in sample over the problem's baseline where
    forbidden actions were taken out of that. `findings` are what `check_log` says, where it was
    asked; `against` those that forbid a promise, or that nobody could look for; `despite` are keys
    that were waived, and the `verdict` names those without which it would not hold. `sensitivity`
    says how strong a hidden confounder would have to be to explain the gain away. `gates` are what
    the held-out half shows about guarded columns and groups. `slight` are findings that would
    forbid the promise if they changed this gain enough. `refitted` is what the tested method learns
    from all rows, where that was asked for; it was not tested itself.
    """

    log: Log
    problem: Problem
    algorithm: Algorithm
    pi_b: np.ndarray
    verdict: str
    reason: str
    candidate: np.ndarray
    solution: Solution | None = None
    gain: Gain | None = None
    in_sample: Comparison | None = None
    own: OwnReturn | None = None
    accepted: bool = False
    against: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    despite: tuple[str, ...] = ()
    slight: tuple[Finding, ...] = ()
    refitted: np.ndarray | None = None
    assurance: Assurance | None = None
    over_renormalised: float | None = None
    sensitivity: Sensitivity | None = None
    gates: tuple[Evidence, ...] = ()

    def __repr__(self) -> str:
        return f"Advice({self.verdict}: {self.reason})"

    @property
    def supported(self) -> bool:
        """Whether the data support the candidate, but for what was `waived`."""
        return self.verdict == SUPPORTED or bool(self.waived)

    @property
    def waived(self) -> tuple[str, ...]:
        """The keys of what speaks against the verdict, and was passed over as asked."""
        keys = self.verdict.removeprefix(DESPITE)
        return () if keys == self.verdict else tuple(keys.split(", "))

    @property
    def policy(self) -> np.ndarray:
        """The policy to use [S, A]."""
        return self.candidate if self.supported or self.accepted else np.asarray(self.problem.pi_b)

    @cached_property
    def moved(self) -> np.ndarray:
        """The mass that the candidate moves in every state [S], away from the policy that made
        the log; 0 where nobody acts.
        """
        moved = 0.5 * np.abs(self.candidate - self.pi_b).sum(axis=1)
        return np.where(self.problem.terminal, 0.0, moved)

    @property
    def changed(self) -> np.ndarray:
        """The codes of the visited states in which something changes."""
        return np.flatnonzero((self.moved > CHANGED) & (self.log.n_sa.sum(axis=1) > 0))

    @property
    def mass_moved(self) -> float:
        """The share of decisions that would change: mass moved, averaged over the visits of the
        log.
        """
        visits = self.log.n_sa.sum(axis=1)
        return float((self.moved * visits).sum() / visits.sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know."""
        found = [*self.problem.notes, *(() if self.solution is None else self.solution.notes)]
        found += [NOT_HELD] * (self.problem.log is None)
        found += [NO_TRAINING] * (not can_be_told(self.log))
        found += [
            f"despite {x.key}, as asked: {x.sentence}"
            for x in self.against
            if x.key in self.despite
        ]
        found += [x.sentence for x in self.slight]
        found += [x.sentence for x in self.findings if x.name == "time" and x.level != OK]
        if self.accepted:
            found.append(f"accepted although the data do not support it: {self.reason}")
        return tuple(dict.fromkeys(found))


def advise(
    log: Log,
    problem: Problem,
    algorithm: Algorithm,
    *,
    units: Units | None = None,
    pi_b: np.ndarray | None = None,
    accept: bool = False,
    assured: bool = False,
    against: Sequence[Finding] | None = None,
    despite: Sequence[str] = (),
    most_changes: int | None = None,
    group_tolerance: float = 0.0,
    refit: bool = False,
    seed: int = 0,
) -> Advice:
    """Improve the baseline of a log's problem, and say whether the data support it.

    Supported: the policy that one half of the log makes differs from the baseline in a visited
    state; the other half shows its gain at the start to be above 0, in one test at level 5 %
    (`held_out_gain`), whatever outcome within the range has not been seen yet; and nothing in
    the log speaks against the test (`against`: findings about it, by default those of `check_log`),
    but for what `despite` names. An algorithm with a proof of its own is supported by that proof,
    which is about a policy from all data: `gain` is None then.
    `pi_b` is the policy that made the log, by default that of the problem (`logging_policy`: the
    baseline before forbidden actions were taken out of it). `units` are those of the log where they
    are known. At most `most_changes` states change, those whose change is worth most in the half
    that the policy is learned from (`few_changes`); what is tested has no others, and no proof
    stands in for the test.
    Where the problem has guards, or the log was read with a group, none of them may be worse on the
    held-out half, groups not by more than `group_tolerance` (`gates`). `refit`: where it is
    supported, learn once more, from all rows; that policy was not tested.
    """
    check_keys(despite)
    check_gates(log, problem)
    if refit:
        _check_refit(log, problem, algorithm, most_changes)
    base = np.asarray(problem.pi_b)
    made = np.asarray(problem.logging_policy if pi_b is None else pi_b)
    advice = Advice(
        log=log, problem=problem, algorithm=algorithm, pi_b=made, candidate=base,
        verdict=NOTHING_TO_LEARN, despite=tuple(despite),
        reason="nothing to learn from: the log never tried an alternative",
    )  # fmt: skip
    if int((log.n_sa > 0).sum(axis=1).max()) <= 1:
        return advice
    # 1. What is independent in the log, and what in it forbids a promise.
    units = units_of(log, problem.log, problem.gamma) if units is None else units
    findings = findings_about(log, problem, made) if against is None else ()
    told = findings if against is None else tuple(against)
    # of missing episodes any number may matter: `_too_few_missing`
    forbid = [replace(x, vetoes=True) for x in told if x.vetoes or x.key == MISSING]
    blind = problem.log is None and units.sample is None
    if blind and all(x.key != TIME for x in forbid):
        forbid.append(not_looked_at(TIME))
    stands = [x for x in forbid if x.key not in despite]
    # 2. One half makes the policy, the other tests it. Without the Markov property only the test
    #    that does not need it may be used.
    markov = all(x.key != MARKOV for x in stands if x.looked)
    gain = held_out_gain(
        problem, units, algorithm, pi_b=made, markov=markov, most_changes=most_changes,
        seed=seed)  # fmt: skip
    if gain.test == FINITE_SAMPLE:  # weights need the baseline itself, not nearly
        rough = [replace(x, vetoes=True) for x in told if (x.key, x.level) == (BASELINE, NOTE)]
        forbid, stands = forbid + rough, stands + [x for x in rough if x.key not in despite]
    # 3. An algorithm may prove its policy, from all data; a proof compares with the problem's own
    #    baseline, and needs the Markov property.
    masked = bool(np.abs(base - made).max() > CHANGED)
    gates = gates_of(log, problem, units, gain, made, group_tolerance)
    whole = assured and not masked and most_changes is None and not gates
    by_proof = whole and proves_itself(problem, algorithm)
    overruled = [x for x in forbid if x.key in despite]
    proved = proof(problem, algorithm, [x.key for x in overruled]) if by_proof else None
    slight = () if by_proof else _hardly_matter(problem, gain, made, stands)
    slight += () if by_proof or gates else _too_few_missing(problem, gain, stands)
    stands = [x for x in stands if x.key not in {y.key for y in slight}]
    markov = all(x.key != MARKOV for x in stands if x.looked)
    if gain.test == FINITE_SAMPLE and not by_proof:
        stands, overruled = ([x for x in y if x.key != MARKOV] for y in (stands, overruled))
    solution = gain.solution if proved is None else proved[0]
    pi = gain.pi if proved is None else np.asarray(solution.pi)
    # 4. What the policy changes and is worth in the model of all data.
    in_sample = model_of_units(problem, units, pi_b=made).compare(pi)
    advice = replace(
        advice, against=tuple(x for x in forbid if x.key not in {y.key for y in slight}),
        slight=slight, findings=findings, solution=solution,
        gain=gain if proved is None else None,  # what was tested is another policy
        candidate=pi, in_sample=in_sample, gates=gates,
        own=own_return(problem, in_sample.baseline.value, units),
    )  # fmt: skip
    if masked:
        known = replace(problem, pi_b_estimated=False)
        left = model_of_units(known, units).compare(pi).gain.value
        advice = replace(advice, over_renormalised=left)
    # 5. The verdict, and the certificate that fits the algorithm.
    if proved is None:
        verdict, reason = _judged(gain, advice)
    else:
        verdict, reason = SUPPORTED if proved[1] else NOT_SUPPORTED, proved[2]
    if verdict == SUPPORTED and by_proof and gain.high < 0:
        verdict = NOT_SUPPORTED
        reason = (
            "held-out data show that what this method learns from the other half is WORSE: the gain"
            f" is at most {gain.high:.4g}. Something that the proof assumes cannot be true."
            f" (Otherwise: {reason})"
        )
    if verdict == SUPPORTED and gates:
        none_worse, reason = unless_worse(gates, reason)
        verdict = SUPPORTED if none_worse else NOT_SUPPORTED
    if stands and len(advice.changed):
        keys = ",".join(x.key for x in stands)
        verdict = NOT_SUPPORTED
        reason = f"{joint_words(stands)}. (Otherwise: {reason}. To accept this: --despite {keys})"
    elif verdict == SUPPORTED and overruled:
        verdict = DESPITE + ", ".join(x.key for x in overruled)
        reason = f"{reason}. Passed over, as asked: {joint_words(overruled)}"
    found = None
    if assured:
        made_of = replace(solution, pi=pi)
        found = assure(problem, made_of, algorithm, against=forbid, despite=despite)
    advice = replace(advice, verdict=verdict, reason=reason, assurance=found)
    advice = replace(advice, accepted=accept and not advice.supported)
    if refit and advice.supported:
        again = improve(problem, algorithm)
        if again.status.ok:
            advice = replace(advice, refitted=np.asarray(again.pi))
        else:
            lost = "; no policy from all rows: learning that did not converge"
            advice = replace(advice, reason=advice.reason + lost)
    # 6. How strong a hidden cause would have to be: in the half that the policy is not made from.
    estimate = gain.estimate if proved is None else in_sample.gain.value
    if assured and len(advice.changed) and estimate > 0:
        half = gain.held_out if proved is None else None
        hidden = (
            sensitivity(problem, units, pi, chosen=half, pi_b=made, markov=markov)
            if problem.n_states <= MOST_STATES
            else Sensitivity(not_given=TOO_LARGE)
        )
        advice = replace(advice, sensitivity=hidden)
    return advice


def _check_refit(
    log: Log, problem: Problem, algorithm: Algorithm, most_changes: int | None
) -> None:
    """Raise where a policy learned again from all rows is not known to keep what was tested."""
    reasons = {
        f"{algorithm.name} has a threshold, and near it the same method can do otherwise with more"
        " rows (docs/supported.md has figures)": not algorithm.smooth,
        f"{option('most_changes')} chooses states on one half": most_changes is not None,
        "guards and groups hold for the tested policy alone": bool(
            problem.guards or log.beside.get("group")
        ),
    }
    for why, so in reasons.items():
        if so:
            raise ParameterError(f"{option('refit', True)} is not possible here: {why}")


def _hardly_matter(
    problem: Problem, gain: Gain, pi_b: np.ndarray, stands: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Those findings of memory and drift that hardly change the gain: in the model whose states
    know the circumstances it is shown too, most moves can be checked there, and MARGIN times what
    it differs by stays below the bound. They say so, and veto nothing. Of single decisions the past
    says too little: what drives them is not seen.
    """
    some = [x for x in stands if x.key in (MARKOV, DRIFT) and x.looked]
    found = gain.circumstances
    if not some or gain.test == FINITE_SAMPLE or not gain.positive or found is None:
        return ()
    if found.log.n_episodes == len(found.log):
        return ()
    assert gain.held_out is not None
    inside, checked = found.gain(problem, gain.held_out, gain.pi, pi_b)
    low, differs = inside.interval()[0], abs(gain.estimate - inside.value)
    if not (low > 0 and MARGIN * differs < gain.low and checked > MOST_MOVES):
        return ()
    words = (
        ". It hardly matters for this gain: where the state knows the circumstances too, it is"
        f" {inside.value:.4g}, at least {low:.4g}"
    )
    return tuple(replace(x, sentence=x.sentence.rstrip(".") + words, vetoes=False) for x in some)


def _too_few_missing(
    problem: Problem, gain: Gain, stands: Sequence[Finding]
) -> tuple[Finding, ...]:
    """The finding that episodes are missing, where the gain would be shown if every one of them had
    been as bad as it can be for the policy: unseen events at the most that each could take away, or
    values at the floor. It says so, and vetoes nothing.
    """
    some = [x for x in stands if x.key == MISSING]
    if not some or not gain.positive:
        return ()
    gone = float(some[0].numbers["missing"])
    if gain.test == FINITE_SAMPLE:
        n, width = gain.tested, problem.return_range.width
        left = (n * gain.low - gone * width) / (n + gone)
    elif gain.unseen is not None and problem.log is not None:
        left = gain.low - gone * (int(problem.log.time.max()) + 1) * gain.unseen.each
    else:
        return ()
    if not left > max(gain.explained, 0.0):
        return ()
    words = f". Had all of them been as bad as can be, the gain would still be at least {left:.4g}"
    return tuple(replace(x, sentence=x.sentence.rstrip(".") + words, vetoes=False) for x in some)


def findings_about(
    log: Log, problem: Problem, pi_b: np.ndarray | None = None
) -> tuple[Finding, ...]:
    """What `check_log` says of a log; `pi_b` made it (default: as the problem says), unless the
    problem's baseline was estimated.
    """
    made = np.asarray(problem.logging_policy if pi_b is None else pi_b)
    given = None if problem.pi_b_estimated else Policy(pi=made, labels=log.labels)
    return check_log(log, gamma=problem.gamma, baseline=given)


def _judged(gain: Gain, advice: Advice) -> tuple[str, str]:
    """(verdict, reason) of a held-out gain."""
    width = advice.problem.return_range.width
    odd = impossible(gain.estimate, -width, width)
    words = (
        f"{gain.test} test at {DELTA:.0%}: the gain on held-out data is {gain.estimate:.4g}"
        f"{f' ({odd})' if odd else ''}, at least {gain.low:.4g}"
    )
    if not (advice.moved > CHANGED).any():
        unchecked = ": the other half cannot check any of its moves"
        why = "the policy learned from one half of the log changes nothing"
        why += "" if gain.checked > CHANGED else unchecked
    elif gain.units < FEWEST_UNITS:
        why = (
            f"too few independent pieces: the log has {gain.units} {gain.kind}, at least"
            f" {FEWEST_UNITS} are needed"
        )
    elif gain.mistrust:
        why = (
            f"the given baseline did not make this log: {gain.mistrust}. Give the policy that did,"
            " with its probabilities"
        )
    elif np.isnan(gain.low) and gain.varies:
        why = (
            "no valid test: the policy that made the log varies, so that only its propensities may"
            " judge, and these cannot here: that takes a baseline that is given (--baseline), and"
            " whole episodes from their start to their end"
        )
    elif gain.high < 0:
        why = (
            f"held-out data show that it is WORSE: the gain is {gain.estimate:.4g}, at most"
            f" {gain.high:.4g}"
        )
    elif gain.low <= 0 < gain.low_seen:
        why = (
            f"{words}, not above 0: it would be at least {gain.low_seen:.4g} if nothing worse can"
            " happen than what was seen"
        )
    elif 0 < gain.low <= gain.explained:
        why = (
            f"{words}, but {gain.explained:.4g} of it is explained by when, or after what, the"
            " actions were taken"
        )
    elif not gain.positive:
        why = f"{words}, not above 0"
    else:
        low, high = advice.problem.reward_range
        declared = advice.problem.return_range.declared
        given = "" if declared else f", if no reward lies outside [{low:g}, {high:g}]"
        return SUPPORTED, f"{words}, above 0{given}"
    return NOT_SUPPORTED, why
