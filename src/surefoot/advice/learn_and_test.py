"""`learn_and_test`: from a counted log and its problem to a verdict: the policy to use, what it
changes, what that is worth and how sure that is. `surefoot.advise` asks it of any log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from surefoot.advice.answers import Paged
from surefoot.advice.assurance import assure, proof
from surefoot.advice.gain import Gain, held_out_gain
from surefoot.advice.made_of import MODE, MadeOf, made_of, most_frequent
from surefoot.advice.parts import check_parts, hidden_causes_of_groups, parts_of
from surefoot.advice.posing import Posed, posed_by_hand
from surefoot.advice.provenance import can_be_told
from surefoot.advice.verdict import (
    NOTHING_TO_LEARN,
    Objections,
    Verdict,
    by_proof,
    by_test,
    hardly_matter,
    judge,
    objections_of,
    over_rule,
    to_weights,
    too_few_missing,
)
from surefoot.algorithms import Algorithm
from surefoot.algorithms.improvement import improve
from surefoot.checks import Finding, check_log
from surefoot.checks.finding import MARKOV, OK, check_keys
from surefoot.core import Policy, Solution
from surefoot.core.errors import NotAvailableError, ParameterError, option
from surefoot.core.evidence import Evidence
from surefoot.core.policy import CHANGED, framed
from surefoot.evidence.bound import Certificate
from surefoot.evidence.confounding import MANY_STATES, MOST_STATES, Sensitivity, sensitivity
from surefoot.evidence.unit_model import Comparison, model_of_units
from surefoot.evidence.units import Units, units_of
from surefoot.evidence.value_on_log import OwnReturn, own_return
from surefoot.logs import Log
from surefoot.problems import Problem
from surefoot.report.folder import TRAINING
from surefoot.report.improvement_words import improvement_statements, with_statements
from surefoot.report.statements import text

NO_ALTERNATIVE = "nothing to learn from: the log never tried an alternative"
MADE_IT = "baseline"  # what a gain is over: the policy that made the log, or its mode
NO_PROOF = (
    "every proof compares with the baseline as it made the log, and --against mode asks for a gain"
    " over its rule"
)
STATES_MADE = (
    "a proof from all rows takes the states for given, and half of these rows made them"
    " (--features)"
)
NOT_OVER_RULE = "it is worked out for gains over the baseline as it made the log"
NOT_HELD = (
    "the rows of this log are not held in memory: the test that weighs whole episodes was not tried"
)
NO_TRAINING = (
    f"no {TRAINING}: the rows of this log are not there in order, or too many to keep;"
    " surefoot safety-test cannot tell which episodes the policy was made from"
)


@dataclass(frozen=True, repr=False, kw_only=True)
class Advice(Paged):
    """What the data say about improving the baseline of a log with one algorithm.

    `policy` is what to use, with labels, and `pi` its array: the `candidate`, which was tested,
    where the data support it (or `accepted` says to use it all the same), and the baseline
    otherwise. `posed` is the question, where it was asked by `surefoot.advise`. `gain` is held out;
    `in_sample` is optimistic, since half of the data made the candidate. `pi_b` made the log: gains
    are against it; `over_renormalised` is the gain in sample over the problem's baseline where
    forbidden actions were taken out of that. `findings` are what `check_log` says, where it was
    asked; `against` those that forbid a promise, or that nobody could look for; `despite` are keys
    that were waived, and the `verdict` names those without which it would not hold. `sensitivity`
    says how strong a hidden confounder would have to be to explain the gain away. `parts` are what
    the held-out half shows about guarded columns and groups, `evidence` of the whole too. `slight`
    are findings that would forbid the promise if they changed this gain enough. `refitted` is what
    the tested method learns from all rows, where that was asked for; it was not tested itself.
    `assurance` is a certificate of the candidate, or why there is none, and `made_of` what the gain
    is made of; None: not asked for. `over` is the policy that the test compares with where that is
    not the one that made the log (`--against mode`), in `tied` visited states the first of several
    most frequent actions.
    """

    command: ClassVar[str] = "improve"
    log: Log
    problem: Problem
    algorithm: Algorithm
    pi_b: np.ndarray
    posed: Posed | None = None
    judged: Verdict
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
    assurance: Certificate | str | None = None
    over_renormalised: float | None = None
    sensitivity: Sensitivity | None = None
    parts: tuple[Evidence, ...] = ()
    made_of: MadeOf | None = None
    over: np.ndarray | None = None
    tied: int = 0

    def __repr__(self) -> str:
        return f"Advice({self.verdict}: {self.reason})"

    @property
    def verdict(self) -> str:
        """The verdict in a few words; keys that were waived stand in it."""
        return str(self.judged)

    @property
    def reason(self) -> str:
        """Why."""
        return self.judged.reason

    @property
    def reason_in_short(self) -> str:
        """The same in a sentence or two."""
        return self.judged.in_short or self.judged.reason

    @property
    def supported(self) -> bool:
        """Whether the data support the candidate, but for what was `waived`."""
        return self.judged.supported

    @property
    def waived(self) -> tuple[str, ...]:
        """The keys of what speaks against the verdict, and was passed over as asked."""
        return self.judged.waived

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What held-out data, or else a proof, show of the whole; of the guards and the groups."""
        if self.gain is not None:
            return self.gain.evidence, *self.parts
        proved = self.assurance
        return (proved.evidence,) if isinstance(proved, Certificate) else ()

    @property
    def policy(self) -> Policy:
        """The policy to use, by labels, beside the one that made the log."""
        return self.labelled(self.pi)

    def labelled(self, pi: np.ndarray) -> Policy:
        """A policy over the labels of the log, beside the one that made it; with the baseline's
        rows about states that the log never visits, and none for terminal states.
        """
        made = self.problem.policy_of(pi)
        pi_b = np.where(made.pi.any(axis=1, keepdims=True), self.pi_b, 0.0)
        elsewhere = () if self.posed is None else self.posed.elsewhere
        return replace(made, baseline=pi_b, elsewhere=elsewhere)

    @property
    def pi(self) -> np.ndarray:
        """The policy to use [S, A], in the codes of the log."""
        return self.candidate if self.supported or self.accepted else np.asarray(self.problem.pi_b)

    @cached_property
    def masked(self) -> bool:
        """Whether forbidden actions were taken out of the policy that made the log."""
        return bool(np.abs(np.asarray(self.problem.pi_b) - self.pi_b).max() > CHANGED)

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
    def changes(self) -> Any:
        """A row for every visited state that changes, as in changes.csv: a frame of the library
        that is installed, or a dict of columns.
        """
        from surefoot.advice.files import changes_of

        return framed(*changes_of(self), self.log.labels.library)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """Everything that was found, as in summary.json."""
        from surefoot.advice.summary import summarise

        posed = self.posed or posed_by_hand(self.log, self.problem)
        found = summarise(self, posed.source, posed.disagreement) | {"gamma": posed.gamma}
        return with_statements(found)

    def said(self, document: Mapping[str, Any], *, explain: bool = False) -> str:
        """The verdict and what it rests on, for people."""
        return text(improvement_statements(document), explain=explain)

    def page(self) -> str:
        """The page of the improvement."""
        from surefoot.advice.files import state_records
        from surefoot.report.improvement_page import improvement_page

        return improvement_page(self.document, state_records(self), self.log.labels.headers)

    def save(
        self, folder: str | Path, *, page: bool = True, beside: Mapping[str, Any] | None = None
    ) -> dict[str, Path]:
        """Write policy.csv, report.html and the other files of `surefoot improve` into a folder,
        all of them or none, and say where; `beside`: more for summary.json.
        """
        from surefoot.advice.files import write_advice

        summary = with_statements({**self.document, **(beside or {})})
        return write_advice(folder, self, summary, page=page)

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


def learn_and_test(
    log: Log,
    problem: Problem,
    algorithm: Algorithm,
    *,
    units: Units | None = None,
    accept: bool = False,
    assured: bool = False,
    against: Sequence[Finding] | None = None,
    despite: Sequence[str] = (),
    most_changes: int | None = None,
    group_tolerance: float = 0.0,
    refit: bool = False,
    tree: int | None = None,
    compared_with: str = MADE_IT,
    made: Sequence[Finding] | None = None,
    seed: int = 0,
) -> Advice:
    """Improve the baseline of a log's problem, and say whether the data support it.

    Supported: the policy that one half of the log makes differs from the baseline in a visited
    state; the other half shows its gain at the start to be above 0, in one test at level 5 %
    (`held_out_gain`), whatever outcome within the range has not been seen yet; and nothing in
    the log speaks against the test (`against`: findings about it, by default those of `check_log`),
    but for what `despite` names. An algorithm with a proof of its own is supported by that proof,
    which is about a policy from all data: `gain` is None then.
    Gains are against the policy that made the log (`logging_policy`: the baseline before forbidden
    actions were taken out of it). `units` are those of the log where they are known. At most
    `most_changes` states change, those whose change is worth most in the half that the policy is
    learned from (`few_changes`); what is tested has no others, and no proof stands in for the test.
    Where the problem has guards, or the log was read with a group, none of them may be worse on the
    held-out half, groups not by more than `group_tolerance` (`parts`). `refit`: where it is
    supported, learn once more, from all rows; that policy was not tested. `tree`: the policy
    that is tested is a decision tree of this depth, whose rules imitate the learned one; no proof
    stands in for its test. `compared_with`: with
    "mode" all gains are over the rule that always does the baseline's most frequent action, of
    several the first; no proof and no hidden cause is worked out then. `made`: the half that the
    policy is learned from made the states or the actions, too, and this was found on the way; a
    proof from all rows takes them as given.
    """
    check_keys(despite)
    over, tied = _rule_of(log, problem, compared_with)
    check_parts(log, problem)
    if refit:
        _check_refit(log, problem, algorithm, most_changes, tree)
    if tree is not None and most_changes is not None:
        raise ParameterError(
            "--tree limits the number of rules, --most-changes that of states: give one of them"
        )
    pi_b = np.asarray(problem.logging_policy)
    advice = Advice(
        log=log, problem=problem, algorithm=algorithm, pi_b=pi_b,
        candidate=np.asarray(problem.pi_b), judged=Verdict(NOTHING_TO_LEARN, NO_ALTERNATIVE),
        despite=tuple(despite), over=over, tied=tied,
    )  # fmt: skip
    if int((log.n_sa > 0).sum(axis=1).max()) <= 1:
        return advice
    # 1. What is independent in the log, and what in it forbids a promise.
    units = units_of(log, problem.log, problem.gamma) if units is None else units
    findings = (*findings_about(log, problem), *(made or ())) if against is None else ()
    told = findings if against is None else tuple(against)
    blind = problem.log is None and units.sample is None
    objections = objections_of(told, despite, blind=blind)
    # 2. One half makes the policy, the other tests it once, with its guards and groups. Without the
    #    Markov property only the test that does not need it may be used.
    gain = held_out_gain(
        problem, units, algorithm, pi_b=pi_b, markov=objections.markov, most_changes=most_changes,
        tree=tree, over=over, seed=seed)  # fmt: skip
    parts = parts_of(log, problem, units, gain, pi_b, group_tolerance)
    # 3. An algorithm may prove its policy instead, from all data; a proof compares with the
    #    problem's own baseline, and needs the Markov property.
    objections = to_weights(objections, told) if gain.weighed else objections
    proved = None
    whole_policy = most_changes is None and tree is None and over is None
    if assured and whole_policy and made is None and not parts and not advice.masked:
        proved = proof(problem, algorithm, [x.key for x in objections.overruled])
    if proved is None:
        objections = _for_this_gain(objections, advice, gain, parts)
    # 4. What the policy changes and is worth in the model of all data.
    advice = replace(
        advice, findings=findings, against=objections.against, slight=objections.slight,
        parts=parts, gain=gain if proved is None else None,  # what was tested is another policy
    )  # fmt: skip
    advice = _valued(advice, units, gain.solution if proved is None else proved[0])
    # 5. The verdict.
    whole = by_test(gain.evidence, problem, changed=bool((advice.moved > CHANGED).any()))
    whole = whole if over is None else over_rule(whole, advice.candidate, over, problem)
    whole = whole if proved is None else by_proof(proved[1], gain.evidence)
    stands = objections.stands if len(advice.changed) else ()
    verdict = judge(whole, parts, stands, objections.overruled)
    advice = replace(advice, judged=verdict, accepted=accept and not verdict.supported)
    advice = _refitted(advice) if refit and advice.supported else advice
    if not assured:
        return advice
    # 6. The certificate that fits the algorithm, how strong a hidden cause would have to be, and
    #    what the gain is made of.
    solution = replace(gain.solution if proved is None else proved[0], pi=advice.candidate)
    found: Certificate | str = NO_PROOF if over is not None else STATES_MADE
    if over is None and made is None:
        found = assure(problem, solution, algorithm, against=objections.raised, despite=despite)
    hidden = _hidden(advice, units, markov=objections.markov)
    split = None
    if proved is None and objections.markov and not advice.masked:
        shown = advice.supported and not advice.waived
        moved = advice.moved
        if over is not None:
            moved = np.where(moved > CHANGED, 0.5 * np.abs(gain.pi - over).sum(axis=1), 0.0)
        split = made_of(problem, units, gain, advice.pi_b, moved, shown=shown)
    return replace(advice, assurance=found, sensitivity=hidden, made_of=split)


def _for_this_gain(
    found: Objections, advice: Advice, gain: Gain, parts: tuple[Evidence, ...]
) -> Objections:
    """The objections, less those that hardly matter for this gain, or not to this test."""
    slight = hardly_matter(advice.problem, gain, advice.pi_b, found.stands)
    slight += () if parts else too_few_missing(advice.problem, gain, found.stands)
    return replace(found, slight=slight, needless=(MARKOV,) if gain.weighed else ())


def _valued(advice: Advice, units: Units, solution: Solution) -> Advice:
    """With the candidate, and what it is worth in the model of all data."""
    problem = advice.problem
    pi = np.asarray(solution.pi) if advice.gain is None else advice.gain.pi
    model = model_of_units(problem, units, pi_b=advice.pi_b)
    compared = model.compare(pi)
    if advice.over is not None:
        compared = replace(compared, gain=model.compare(pi, against=advice.over).gain)
    left = None
    if advice.masked:
        known = replace(problem, pi_b_estimated=False)
        left = model_of_units(known, units).compare(pi).gain.value
    return replace(
        advice, solution=solution, candidate=pi, in_sample=compared, over_renormalised=left,
        own=own_return(problem, compared.baseline.value, units),
    )  # fmt: skip


def _refitted(advice: Advice) -> Advice:
    """With what the tested method learns from all rows, or that it learns nothing."""
    again = improve(advice.problem, advice.algorithm)
    if again.status.ok:
        return replace(advice, refitted=np.asarray(again.pi))
    lost = f"{advice.reason}; no policy from all rows: learning that did not converge"
    return replace(advice, judged=replace(advice.judged, reason=lost))


def _hidden(advice: Advice, units: Units, *, markov: bool) -> Sensitivity | None:
    """How strong a hidden cause would have to be, in the half that the policy is not made from;
    None where there is no gain to explain away.
    """
    gain, problem = advice.gain, advice.problem
    assert advice.in_sample is not None
    estimate = advice.in_sample.gain.value if gain is None else gain.evidence.estimate
    if not (len(advice.changed) and estimate > 0):
        return None
    if advice.over is not None:
        return Sensitivity(not_given=NOT_OVER_RULE)
    if problem.n_states > MOST_STATES:
        return Sensitivity(not_given=MANY_STATES)
    half = None if gain is None else gain.held_out
    pi, pi_b = advice.candidate, advice.pi_b
    found = sensitivity(problem, units, pi, chosen=half, pi_b=pi_b, markov=markov)
    if found.not_given or half is None or not advice.parts:
        return found
    groups = hidden_causes_of_groups(advice.log, problem, units, pi, pi_b, half)
    return replace(found, groups=groups)


def _rule_of(log: Log, problem: Problem, compared_with: str) -> tuple[np.ndarray | None, int]:
    """(the policy that a gain is over where that is not the one that made the log, in how many
    visited states several actions are as frequent).
    """
    if compared_with not in (MADE_IT, MODE):
        raise ParameterError(
            f"{option('against')} is {MADE_IT} (the policy that made the log) or {MODE} (its most"
            f" frequent action in every state), got {compared_with!r}"
        )
    if compared_with == MADE_IT:
        return None, 0
    if problem.pi_b_renormalised:
        raise NotAvailableError(
            "--against mode does not go with --renormalise: what the baseline's rule does where its"
            " most frequent action is forbidden is not known; give the policy it will be, with"
            " --baseline"
        )
    pi_b = np.asarray(problem.pi_b)
    best = pi_b >= pi_b.max(axis=1, keepdims=True) - CHANGED
    acts = (log.n_sa.sum(axis=1) > 0) & ~np.asarray(problem.terminal)
    over = most_frequent(pi_b, np.asarray(problem.allowed) & ~problem.terminal[:, None])
    return over, int((best.sum(axis=1) > 1)[acts].sum())


def _check_refit(
    log: Log, problem: Problem, algorithm: Algorithm, most_changes: int | None, tree: int | None
) -> None:
    """Raise where a policy learned again from all rows is not known to keep what was tested."""
    reasons = {
        f"{algorithm.name} has a threshold, and near it the same method can do otherwise with more"
        " rows (docs/supported.md has figures)": not algorithm.smooth,
        f"{option('most_changes')} chooses states on one half": most_changes is not None,
        "guards and groups hold for the tested policy alone": bool(problem.guards or log.groups),
        "the rules of --tree imitate what one half taught": tree is not None,
    }
    for why, so in reasons.items():
        if so:
            raise ParameterError(f"{option('refit', True)} is not possible here: {why}")


def findings_about(log: Log, problem: Problem) -> tuple[Finding, ...]:
    """What `check_log` says of a log, with the policy that made it unless that was estimated."""
    made = np.asarray(problem.logging_policy)
    given = None if problem.pi_b_estimated else Policy(pi=made, labels=log.labels)
    return check_log(log, gamma=problem.gamma, baseline=given)
